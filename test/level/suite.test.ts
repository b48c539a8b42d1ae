/**
 * The public test suite of `abstract-level`, whole: the smallest memory budget, a file each. With
 * `MONOCHORD_LONG` also in memory, and on buckets of one open database (`npm run long`).
 */
import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { setVerifying } from '../../src/base/assert.ts';
import { open } from '../../src/index.ts';
import { MonochordLevel } from '../../src/level/index.ts';
import { outcomeOf, type Outcome } from './suite.ts';

/** A thousand databases are opened: on a file system in memory, where there is one. */
function quickFolder(): string {
  try {
    accessSync('/dev/shm', constants.W_OK);
    return '/dev/shm';
  } catch {
    return tmpdir();
  }
}

const folder = mkdtempSync(join(quickFolder(), 'monochord-level-'));
afterAll(() => rmSync(folder, { recursive: true }));

let count = 0;

// It is the interface that is tested here; a check of everything each time would take too long.
setVerifying(false);

function expectWhole(outcome: Outcome): void {
  expect(outcome.failed).toEqual([]);
  expect(outcome.skipped).toEqual([]);
  expect(outcome.tests).toBeGreaterThanOrEqual(1500);
  expect(outcome.assertions).toBeGreaterThan(5000);
}

// Eight thousand assertions with stacks: minutes on a machine that does other work too.
describe('the suite of abstract-level passes', { timeout: 300_000 }, () => {
  test('on files', async () => {
    const outcome = await outcomeOf(
      (options) => new MonochordLevel(join(folder, `${++count}`), { memory: '2 MiB', ...options }),
    );
    expectWhole(outcome);
  });

  test.runIf(process.env['MONOCHORD_LONG'])('in memory', async () => {
    expectWhole(await outcomeOf((options) => new MonochordLevel(':memory:', options)));
  });

  test.runIf(process.env['MONOCHORD_LONG'])('on buckets of an open database', async () => {
    const database = open(':memory:', { memory: '2 MiB' });
    expectWhole(
      await outcomeOf(
        (options) => new MonochordLevel(database, { bucket: `b${++count}`, ...options }),
      ),
    );
    expect(database.check().faults).toEqual([]);
    database.close();
  });
});
