/** Storage beneath the trees against a model: transactions, snapshots, spills, power loss. */
import { describe, expect, it } from 'vitest';
import { Random } from '../../src/base/random.ts';
import { MemoryFileSystem } from '../../src/storage/memory-file.ts';
import { LATEST } from '../../src/storage/pages.ts';
import { CrashSignal, FaultFileSystem } from '../faults/fault-file.ts';
import { openStorage, PageModel } from '../support/page-model.ts';

const MEMORY_BYTES = 2 << 20;

function course(seed: number, steps: number): void {
  const fs = new MemoryFileSystem();
  const random = new Random(seed);
  let model = new PageModel(openStorage(fs, MEMORY_BYTES, seed), random, new Map());
  for (let i = 0; i < steps; i++) {
    model.step();
    if (!random.chance(0.02)) continue;
    model.storage.close();
    expect(model.storage.ledger.usedBytes).toBe(0);
    model = new PageModel(openStorage(fs, MEMORY_BYTES, seed), random, model.state);
    model.compare(LATEST, model.state, 1);
  }
  model.storage.close();
}

function crashes(seed: number, rounds: number): void {
  const random = new Random(seed);
  let fs = new FaultFileSystem({ seed });
  let model: PageModel | undefined;
  let state = new Map<number, Uint8Array>();
  let before: PageModel | undefined;
  for (let round = 0; round < rounds; round++) {
    fs.crashAfter(random.between(1, 400));
    model = undefined;
    try {
      const storage = openStorage(fs, MEMORY_BYTES, seed);
      if (before !== undefined) state = PageModel.recovered(storage, random, before);
      model = new PageModel(storage, random, state);
      before = model;
      for (;;) model.step();
    } catch (cause) {
      if (!(cause instanceof CrashSignal)) throw cause;
    }
    fs = fs.crash();
  }
}

describe('Storage', () => {
  it.each([1, 2, 3, 4, 5, 6])('keeps pages through a random course, seed %i', (seed) => {
    course(seed, 150);
  });

  it.each(Array.from({ length: 12 }, (_, i) => i + 1))('survives power loss, seed %i', (seed) => {
    crashes(seed, 25);
  });
});
