/** The spill file. */
import { expect, test } from 'vitest';
import { Ledger } from '../../src/base/ledger.ts';
import { LedgerWorkSpace } from '../../src/store/work-space.ts';
import { FaultFileSystem } from '../faults/fault-file.ts';
import { codeOf } from '../support/small-storage.ts';

test('a short read of the spill file is read on from where it ended', () => {
  // Found by the simulation: it ended in a failed assertion.
  const disk = new FaultFileSystem({ seed: 3 });
  const work = new LedgerWorkSpace(new Ledger(1 << 20), disk, '/spill');
  const run = work.spill();
  const bytes = Uint8Array.from({ length: 50_000 }, (_, i) => i * 7);
  run.append(bytes, 0, bytes.length);
  run.rewind();
  disk.inject({ operation: 'read', kind: 'short' });
  const read = new Uint8Array(bytes.length);
  let at = 0;
  for (let n = 1; n > 0; at += n) n = run.read(read.subarray(at));
  expect(read).toEqual(bytes);
  disk.inject({ operation: 'read', kind: 'io' });
  run.rewind();
  expect(codeOf(() => run.read(read))).toBe('storage.io');
  disk.clearFaults();
  run.close();
});
