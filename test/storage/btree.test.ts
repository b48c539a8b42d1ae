/** Trees against a sorted map: random trials of every layout, and the cases one must not miss. */
import { Random } from '../../src/base/random.ts';
import { WRITER, type BufferId } from '../../src/storage/pages.ts';
import { defineProperty } from '../support/properties.ts';
import { bytesOf, demand, demandBytes, randomShape, show, Trial } from './btree-trial.ts';

function grow(trial: Trial): void {
  trial.batch(250, 0.85);
  trial.batch(400, 0.6);
  trial.batch(400, 0.3);
  trial.tree.clear();
  trial.map.clear();
  trial.checkAll();
}

defineProperty({
  name: 'Tree agrees with a sorted map under every layout',
  cases: 20,
  run: (seed) => grow(new Trial(seed)),
  canary: (seed) => {
    const trial = new Trial(seed);
    const put = trial.tree.put.bind(trial.tree);
    // The planted fault: a value of 33 bytes is put one byte short.
    trial.tree.put = (key, keyLength, value, offset, length) =>
      put(key, keyLength, value, offset, length === 33 ? 32 : length);
    grow(trial);
  },
});

defineProperty({
  name: 'Tree of a store agrees with a sorted map, keys in order or not',
  cases: 12,
  run: (seed) => grow(new Trial(seed, undefined, true)),
  canary: (seed) => {
    const trial = new Trial(seed, { ...randomShape(new Random(seed)), valueBytes: 40 }, true);
    const put = trial.tree.put.bind(trial.tree);
    trial.tree.put = (key, keyLength, value, offset, length) =>
      put(key, keyLength, value, offset, length > 20 ? length - 1 : length);
    grow(trial);
  },
});

defineProperty({
  name: 'Tree of a store marks every byte it changes, keys in order or not',
  cases: 4,
  run: (seed) => {
    const trial = new Trial(seed, undefined, true);
    for (let i = 0; i < 30; i++) {
      trial.batch(40, 0.8);
      trial.commit();
    }
  },
  canary: (seed) => {
    const trial = new Trial(seed, undefined, true);
    trial.pages.markBack = (_buffer: BufferId): void => undefined;
    for (let i = 0; i < 30; i++) {
      trial.batch(40, 0.8);
      trial.commit();
    }
  },
});

defineProperty({
  name: 'Tree marks every byte it changes',
  cases: 6,
  run: (seed) => {
    const trial = new Trial(seed);
    for (let i = 0; i < 30; i++) {
      trial.batch(20, 0.7);
      trial.commit();
    }
  },
  canary: (seed) => {
    const trial = new Trial(seed);
    trial.pages.markBack = (_buffer: BufferId): void => undefined;
    for (let i = 0; i < 30; i++) {
      trial.batch(20, 0.7);
      trial.commit();
    }
  },
});

/** Goes through the keys in order, now and then leaving some out, or asking for one that is not. */
function findInOrder(trial: Trial, expected: (key: string) => Uint8Array | undefined): void {
  const { random, tree, map } = trial;
  trial.batch(300, 0.9);
  tree.find(WRITER, bytesOf(''));
  for (const key of [...map.keys()].sort()) {
    if (random.chance(0.1)) continue;
    const asked = random.chance(0.1) ? `${key}\0` : key;
    const found = tree.findNext(WRITER, bytesOf(asked));
    const value = expected(asked);
    demand(found === (value !== undefined), () => `findNext of ${show(asked)} answers ${found}`);
    if (value !== undefined) demandBytes(tree.valueCopy(), value, asked);
  }
}

defineProperty({
  name: 'Tree.findNext finds what find does',
  cases: 10,
  run: (seed) => {
    const trial = new Trial(seed);
    findInOrder(trial, (key) => trial.map.get(key));
  },
  canary: (seed) => {
    const trial = new Trial(seed);
    findInOrder(trial, (key) => trial.map.get(key.endsWith('\0') ? key.slice(0, -1) : key));
  },
});
