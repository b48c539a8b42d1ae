/** The built package: one instance of the core behind every door, and examples that run. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
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

interface Run {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function start(file: string, ...args: string[]): Run {
  return spawnSync(process.execPath, [file, ...args], { cwd: built.folder, encoding: 'utf8' });
}

/** Runs a program of the package; answers what it printed. */
function run(file: string, ...args: string[]): string {
  const { status, stdout, stderr } = start(file, ...args);
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
    expect(programs).toEqual([
      'mud/mud.mjs',
      'mud/scale.mjs',
      'mud/textdump.mjs',
      'mud/world.mjs',
      'rebuild.mjs',
    ]);
  });

  test('rebuild.mjs rebuilds a store and goes back', () => {
    const printed = run('examples/rebuild.mjs');
    expect(printed).toMatch(/^1000 entries, old file at .*\n42\nback: /);
  });
});

describe('examples/mud', () => {
  const SAMPLE = join(process.cwd(), 'test/data/coldcore/sample.textdump');
  const at = (name: string): string => join(folder, name);
  const mud = (...args: string[]): string => run('examples/mud/mud.mjs', ...args);
  const bytesOf = (path: string): Buffer => readFileSync(path);
  test('compiles a textdump and decompiles it to the same bytes', () => {
    expect(mud('compile', SAMPLE, at('a.mono'))).toMatch(/^22 objects, \d+ variables/);
    expect(mud('decompile', at('a.mono'), at('a.txt'))).toBe('22 objects\n');
    expect(bytesOf(at('a.txt')).equals(bytesOf(SAMPLE))).toBe(true);
  });

  test('scales it by copies that are objects of their own', () => {
    expect(mud('scale', SAMPLE, '100', at('b.txt'))).toBe('110 objects\n');
    mud('compile', at('b.txt'), at('b.mono'));
    mud('decompile', at('b.mono'), at('b2.txt'));
    expect(bytesOf(at('b2.txt')).equals(bytesOf(at('b.txt')))).toBe(true);
    expect(mud('lookup', at('b.mono'), '$mutex_building_3', 'grab')).toContain('on $mutex_3\n');
  });

  test('finds methods as Cold does: nearest first, but what forbids to be overridden wins', () => {
    const [one, two] = ['one', 'two'].map((word) => `\npublic method .m() {\n    ${word};\n};\n`);
    const final = '\npublic method .m(): nooverride  {\n    last;\n};\n';
    const object = (head: string, methods = ''): string => `new object ${head};\n\n${methods}\n`;
    const dump =
      object('$both: $left, $right') + // parents may come later
      object('$left: $root', one) +
      object('$right: $root', two) +
      object('$child: $both') +
      object('$stern: $left, $final') +
      object('$final: $root', final);
    writeFileSync(at('c.txt'), dump);
    expect(mud('compile', at('c.txt'), at('c.mono'))).toContain('3 names were used before');
    expect(mud('lookup', at('c.mono'), '$child', 'm')).toBe(
      '// ancestors: $child, $both, $left, $right\n' +
        '// defined on $left\npublic method .m() {\n    one;\n};\n',
    );
    expect(mud('lookup', at('c.mono'), '$stern', 'm')).toContain('// defined on $final');
    const none = start('examples/mud/mud.mjs', 'lookup', at('c.mono'), '$child', 'n');
    expect([none.status, none.stderr]).toEqual([1, '$child has no method n\n']);
  });

  test('refuses what is broken with its line, and keeps nothing of it', () => {
    const head = '\nnew object $a: $root;\n\nvar $root x = 1;\n';
    const cases: [string, string][] = [
      [`${head}vary\n`, ':5:1: expected an empty line'],
      [`${head}var $root y 1;\n`, ':5:1: expected var $DEFINER NAME = VALUE;'],
      [`${head}var $root y = 1`, ':5:1: expected the rest of this line'],
      [`${head}\npublic method .m() {\n`, ':6:1: expected }; at the end of the method that begins'],
      [
        `${head}\nmethod .m() {\n};\n`,
        ':6:1: expected ACCESS method .NAME(): FLAGS {, or an empty line',
      ],
      [head.replace('\n\n', '\r\n\n'), ':2:1: expected new object $NAME: $PARENT, ...;'],
      [`${head}\nnew object $b: $c;\n\n\n`, ':6: an object names $c, which is not there'],
    ];
    for (const [i, [dump]] of cases.entries()) writeFileSync(at(`d${i}.txt`), dump);
    // One process for all of them: starting one takes long.
    const program = join(built.folder, 'refusals.mjs');
    writeFileSync(
      program,
      `import { existsSync } from 'node:fs';
       import { compile } from './examples/mud/world.mjs';
       for (const path of process.argv.slice(2)) {
         try { compile(path, path + '.mono'); } catch ({ message }) { console.log(message); }
         console.log(existsSync(path + '.mono'), existsSync(path + '.mono-log'));
       }`,
    );
    const paths = cases.map((_, i) => at(`d${i}.txt`));
    const expected = cases.map(([, message], i) => `${paths[i]}${message}\nfalse false\n`);
    expect(run(program, ...paths)).toBe(expected.join(''));
  });
});
