/** The contract of record sources, on the embedded one and on one that waits at random. */
import { expect, test } from 'vitest';
import { Random } from '../../src/base/random.ts';
import { openStore } from './open-store.ts';
import { PendingSource } from './pending-source.ts';
import { recordSourceContract, rowsOf, type SourceUnderTest } from './record-source-contract.ts';
import type { Pending, RecordSource } from '../../src/model/source.ts';

function open(wrap: (source: RecordSource<never>) => RecordSource<Pending>): SourceUnderTest {
  const { source, store } = openStore();
  return {
    source: wrap(source),
    begin: () => store.begin(),
    commit: () => store.commit('full'),
    rollback: () => store.rollback(),
  };
}

recordSourceContract('EmbeddedSource', () => open((source) => source));

const random = new Random(11);
recordSourceContract('PendingSource', () => open((source) => new PendingSource(source, random)));

test('PendingSource waits now and then', () => {
  const { source, store } = openStore();
  const pending = new PendingSource(source, new Random(1));
  store.begin();
  for (let i = 0; i < 20; i++) pending.schema(2 ** 54);
  expect(pending.pendingCount).toBeGreaterThan(3);
  expect(rowsOf).toBeTypeOf('function');
  store.rollback();
});
