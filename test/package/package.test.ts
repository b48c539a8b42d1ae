/** The built package: one instance of the core behind every door, and examples that run. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { builtPackage, type BuiltPackage } from './built-package.ts';

let built: BuiltPackage;
const folder = mkdtempSync(join(tmpdir(), 'monochord-package-'));
beforeAll(async () => {
  built = await builtPackage();
});
afterAll(() => {
  built.remove();
  rmSync(folder, { recursive: true });
});

/** Runs a program of the package; answers what it printed. */
function run(file: string, ...args: string[]): string {
  const { status, stdout, stderr } = spawnSync(process.execPath, [file, ...args], {
    cwd: built.folder,
    encoding: 'utf8',
  });
  expect(status, stderr).toBe(0);
  return stdout;
}

describe('the built package', () => {
  test('has one core behind both doors, imported or required', () => {
    const program = join(built.folder, 'doors.mjs');
    writeFileSync(
      program,
      `import { createRequire } from 'node:module';
       import { Database, open } from 'monochord';
       import { MonochordLevel } from 'monochord/level';
       const require = createRequire(import.meta.url);
       const level = new MonochordLevel(open(':memory:'));
       await level.open();
       console.log(
         require('monochord').Database === Database,
         require('monochord/level').MonochordLevel === MonochordLevel,
         level.database instanceof Database,
       );`,
    );
    expect(run(program)).toBe('true true true\n');
  });
});

describe('examples', () => {
  const programs = readdirSync('examples', { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.mjs'))
    .sort();

  test('are all run by a test below', () => {
    expect(programs).toEqual(['rebuild.mjs']);
  });

  test('rebuild.mjs rebuilds a store and goes back', () => {
    const printed = run('examples/rebuild.mjs');
    expect(printed).toMatch(/^1000 entries, old file at .*\n42\nback: /);
  });
});
