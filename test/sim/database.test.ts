/**
 * The real database through 2,000 power losses; `npm run long -- simulation` has 50,000 of them.
 * Half of the lives go by in each of two tests, so that a slow machine shows how far it came.
 */
import { expect, test } from 'vitest';
import { DATABASE_SYSTEM } from './database-system.ts';
import { Report } from './report.ts';
import { live, SimulationFailure } from './simulation.ts';
import type { Plant } from './system.ts';

const CRASHES = 1000;

test.each([1, 100_001])(
  'database survives power losses, seeds from %i',
  { timeout: 300_000 },
  (first) => {
    const report = new Report();
    for (let seed = first; report.crashes < CRASHES; seed++)
      live({ factory: DATABASE_SYSTEM, seed, report });
    expect(report.isBroad, report.toString()).toBe(true);
    expect(report.backups, report.toString()).toBeGreaterThan(0);
  },
);

/** Faults that a few lives find; `plants.test.ts` has all of them, on pages alone. */
const FOUND_SOON: readonly Plant[] = [
  'sync-left-out',
  'slot-reused-early',
  'frame-published-early',
  'free-space-wrong',
];

test.each(FOUND_SOON)('a life finds the planted fault %s', { timeout: 120_000 }, (plant) => {
  const lives = (): void => {
    for (let seed = 1; seed <= 20; seed++)
      live({ factory: DATABASE_SYSTEM, seed, plant, report: new Report() });
  };
  expect(lives).toThrow(SimulationFailure);
});
