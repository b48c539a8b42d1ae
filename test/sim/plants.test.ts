/** The crash test of pages: it finds nothing in the storage core, and every fault planted in it. */
import { describe, expect, test } from 'vitest';
import { defineProperty } from '../support/properties.ts';
import { livePages } from './page-life.ts';
import { withPlant } from './plants.ts';
import { PLANTS, type Plant } from './system.ts';

const ROUNDS = 12;
const SEEDS_MAX = 60;

/** The first seed of a few that finds something, `undefined` if none does. */
function foundBy(plant: Plant, seeds: number): number | undefined {
  return withPlant(plant, () => {
    for (let seed = 1; seed <= seeds; seed++) {
      try {
        livePages(seed, ROUNDS);
      } catch {
        return seed;
      }
    }
    return undefined;
  });
}

describe('livePages', { timeout: 240_000 }, () => {
  test.each(PLANTS)('finds the planted fault %s within a few seeds', (plant) => {
    expect(foundBy(plant, SEEDS_MAX)).toBeDefined();
  });
});

defineProperty({
  name: 'Storage keeps pages through power loss, kills and damage',
  cases: 5,
  run: (seed) => livePages(seed, ROUNDS),
  canary: (seed) => withPlant('slot-reused-early', () => livePages(seed, ROUNDS)),
});
