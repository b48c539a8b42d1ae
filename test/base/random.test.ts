/** Seeded random numbers: they repeat, they differ by seed, and they keep their bounds. */
import { describe, expect, test } from 'vitest';
import { Random } from '../../src/base/random.ts';
import { defineProperty } from '../support/properties.ts';

const words = (random: Random): number[] => Array.from({ length: 8 }, () => random.word());

describe('Random', () => {
  test('word repeats for the same seed', () => {
    expect(words(new Random(42))).toEqual(words(new Random(42)));
  });

  test('word differs when seeds differ in any bit', () => {
    for (const bit of [0, 1, 31, 32, 52])
      expect(words(new Random(2 ** bit))).not.toEqual(words(new Random(0)));
  });

  test('word keeps its sequence for ever', () => {
    expect(words(new Random(1))).toMatchInlineSnapshot(`
      [
        2269211057,
        1139933354,
        2434246791,
        1845099284,
        2783569154,
        1373139270,
        3578451379,
        2631194199,
      ]
    `);
  });

  test('shuffle keeps the items', () => {
    const items = new Random(3).shuffle([1, 2, 3, 4, 5, 6, 7]);
    expect(items.toSorted()).toEqual([1, 2, 3, 4, 5, 6, 7]);
    expect(items).not.toEqual([1, 2, 3, 4, 5, 6, 7]);
  });
});

function checkBounds(seed: number, count: number, draw: (random: Random) => number): void {
  const random = new Random(seed);
  const seen = new Set<number>();
  for (let i = 0; i < 200; i++) seen.add(draw(random));
  for (const each of seen)
    if (!(Number.isInteger(each) && each >= 0 && each < count)) throw new Error(`drew ${each}`);
  if (seen.size !== count) throw new Error(`drew ${seen.size} of ${count} numbers`);
}

defineProperty({
  name: 'Random.below draws every number below its bound and no other',
  cases: 50,
  run: (seed) => checkBounds(seed, 7, (random) => random.below(7)),
  canary: (seed) => checkBounds(seed, 7, (random) => random.below(8)),
});
