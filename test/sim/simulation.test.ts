/**
 * The simulation itself: a system that keeps its promises passes, and each way in which it can be
 * made to break one is found.
 */
import { describe, expect, test } from 'vitest';
import { Report } from './report.ts';
import { live, SimulationFailure } from './simulation.ts';
import { type Plant } from './system.ts';
import { TRIVIAL_SYSTEM } from './trivial-system.ts';

/** Lives seed after seed until something is found; answers it, or `undefined` after `seeds`. */
function findFailure(seeds: number, plant?: Plant, report = new Report()): unknown {
  for (let seed = 1; seed <= seeds; seed++)
    try {
      live({ factory: TRIVIAL_SYSTEM, seed, plant, report });
    } catch (error) {
      return error;
    }
  return undefined;
}

describe('simulation', { timeout: 180_000 }, () => {
  test('live finds nothing in a system that keeps its promises, and hits what it must', () => {
    const report = new Report();
    expect(findFailure(8, undefined, report)).toBeUndefined();
    expect(report.crashes).toBeGreaterThan(100);
    expect(report.backups).toBeGreaterThan(0);
    expect(report.isBroad, report.toString()).toBe(true);
  });

  const plants = [
    'sync-left-out',
    'slot-reused-early',
    'frame-published-early',
    'checksum-unchecked',
  ] as const;
  test.each(plants)('live finds the plant %s, and says how to repeat it', (plant) => {
    const error = findFailure(100, plant);
    expect(error).toBeInstanceOf(SimulationFailure);
    const { message, seed } = error as SimulationFailure;
    expect(message).toContain(
      `repeat: npm run sim -- --system trivial --seed ${seed} --plant ${plant}`,
    );
    expect(() => live({ factory: TRIVIAL_SYSTEM, seed, plant, report: new Report() })).toThrow(
      message,
    );
  });
});
