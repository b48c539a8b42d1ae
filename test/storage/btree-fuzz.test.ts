/**
 * Damage: pages with flipped bits and bytes whose checksums are right, as far as the tree can see.
 * Whatever is read then ends, and fails with `corrupt.*` or answers something of a sane size.
 */
import { Random } from '../../src/base/random.ts';
import { DatabaseError } from '../../src/errors.ts';
import { Cursor } from '../../src/storage/btree-cursor.ts';
import { LATEST, WRITER, type PageId } from '../../src/storage/pages.ts';
import { defineProperty } from '../support/properties.ts';
import { bytesOf, demand, randomShape, Trial } from './btree-trial.ts';

/** Runs a call that may find damage; answers whether it did. */
function findsDamage(call: () => void): boolean {
  try {
    call();
    return false;
  } catch (error) {
    if (error instanceof DatabaseError && error.code.startsWith('corrupt.')) return true;
    throw error;
  }
}

/** Changes some bytes of a page behind its first 8 (its id and structure are the pager's). */
function damage(trial: Trial, random: Random, page: PageId): void {
  const { usableBytes } = trial.pages;
  trial.pages.damage(page, (image) => {
    for (let i = random.pick([1, 1, 2, 8]); i > 0; i--) {
      // Headers and descriptors are short: half of the damage is done there.
      const at = random.chance(0.5) ? 16 + random.below(112) : 16 + random.below(usableBytes - 16);
      if (random.chance(0.5)) image[at]! ^= 1 << random.below(8);
      else image[at] = random.pick([0, 255, random.below(256)]);
    }
  });
}

function readEverything(trial: Trial): boolean {
  const { tree, map } = trial;
  let found = false;
  let steps = 0;
  for (const key of [...map.keys()].slice(0, 60)) {
    if (findsDamage(() => void (tree.find(LATEST, bytesOf(key)) && tree.valueCopy()))) found = true;
  }
  const cursor = new Cursor(tree, trial.pages.commitId);
  for (const back of [false, true]) {
    const scan = (): void => {
      for (let go = back ? cursor.last() : cursor.first(); go;) {
        demand(++steps < 100_000, () => 'a scan does not end');
        cursor.valueCopy();
        go = back ? cursor.previous() : cursor.next();
      }
    };
    if (findsDamage(scan)) found = true;
  }
  cursor.close();
  if (findsDamage(() => tree.check(LATEST))) found = true;
  let faults = 0;
  tree.check(LATEST, undefined, () => faults++);
  demand(trial.pages.pinCount === 0, () => 'a failed read leaves a pin');
  return found || faults > 0;
}

function fuzz(seed: number, changes: number, read: (trial: Trial) => boolean): void {
  const random = new Random(seed);
  const shape = { ...randomShape(random), pageBytes: 4096, largeShare: 0.15 };
  shape.layout = { ...shape.layout, clusterBytes: random.pick([256, 512, 2048]) };
  const trial = new Trial(seed, shape);
  trial.batch(500, 0.9);
  trial.commit();
  const pages = trial.pages.pageIds(LATEST);
  for (let i = 0; i < changes; i++) {
    const page = random.pick(pages);
    const image = trial.pages.image(page);
    damage(trial, random, page);
    read(trial);
    trial.pages.damage(page, (now) => now.set(image));
  }
  trial.checkAll();
}

defineProperty({
  name: 'Tree reads damaged pages to a typed error or an end',
  cases: 10,
  run: (seed) => fuzz(seed, 40, readEverything),
  canary: (seed) =>
    fuzz(seed, 40, (trial) => {
      // The planted fault: a reader that takes any damage for a reason to stop the process.
      demand(!readEverything(trial), () => 'damage was found');
      return true;
    }),
});

defineProperty({
  name: 'Tree writes to damaged pages end with a database error or not at all',
  cases: 6,
  run: (seed) =>
    fuzz(seed, 30, (trial) => {
      const map = new Map(trial.map);
      try {
        for (let i = 0; i < 40; i++) {
          const key = bytesOf(trial.key());
          const value = trial.value();
          if (i % 3 === 0) trial.tree.delete(key);
          else trial.tree.put(key, key.length, value, 0, value.length);
        }
        trial.tree.deleteRange(bytesOf(trial.key()));
      } catch (error) {
        if (!(error instanceof DatabaseError)) throw error;
      }
      trial.pages.rollback();
      trial.tree.noteRollback();
      trial.map = map;
      demand(trial.pages.pinCount === 0, () => 'a failed write leaves a pin');
      return true;
    }),
  canary: (seed) =>
    fuzz(seed, 30, (trial) => {
      trial.tree.check(WRITER);
      return true;
    }),
});
