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
const LOAD_CRASHES = 500;

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

/** Bulk loads under power losses, kills, failing and full disks: nothing is ever half loaded. */
test('database survives power losses in and after bulk loads', { timeout: 300_000 }, () => {
  const report = new Report();
  for (let seed = 1; report.hits.load < LOAD_CRASHES; seed++)
    live({ factory: DATABASE_SYSTEM, seed, report, withLoads: true });
  expect(report.loads, report.toString()).toBeGreaterThan(LOAD_CRASHES / 10);
  expect(report.loadsTakenBack, report.toString()).toBeGreaterThan(10);
  expect(report.kills, report.toString()).toBeGreaterThan(0);
  expect(report.failuresInjected, report.toString()).toBeGreaterThan(5);
});

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
