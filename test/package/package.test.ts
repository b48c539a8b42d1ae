/** The built package: one instance of the core behind every door, and examples that run. */
import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ROOT } from '../support/sources.ts';
import { CHUNKS } from '../../scripts/split-plan.mjs';
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

/** Writes a program into the package and runs it; answers what it printed, as JSON. */
function told(name: string, text: string): unknown {
  const program = join(built.folder, name);
  writeFileSync(program, text);
  return JSON.parse(run(program, mkdtempSync(join(folder, 'files-'))));
}

/** Text of a program by which it tells which chunks are loaded. */
const LOADED = `const loaded = () =>
  Object.keys(createRequire(import.meta.url).cache)
    .map((path) => /dist.(\\w+)\\.cjs$/.exec(path)?.[1]).filter(Boolean).sort();`;

describe('chunks of the core', () => {
  test('importing loads none, opening and getting a key one; what needs another loads it', () => {
    const imported = told(
      'import.mjs',
      `import { createRequire } from 'node:module';
       import 'monochord';
       ${LOADED}
       console.log(JSON.stringify(loaded()));`,
    );
    expect(imported).toEqual(['index']);
    const path = JSON.stringify(join(folder, 'small.mono'));
    const head = `import { createRequire } from 'node:module';
      import { open } from 'monochord';
      ${LOADED}
      const db = open(${path});
      const kv = db.kv('ages', { values: 'int' });`;
    const made = told(
      'make.mjs',
      `${head} for (let i = 0; i < 100; i++) kv.put('k' + i, i);
       db.close();
       console.log(JSON.stringify(loaded()));`,
    );
    expect(made).toEqual(['core', 'index', 'write']);
    const seen = told(
      'read.mjs',
      `${head} const found = kv.get('k7');
       const first = loaded();
       const all = kv.count({ gte: 'k' });
       const scanned = loaded();
       db.close();
       console.log(JSON.stringify([found, first, all, scanned, loaded()]));`,
    );
    const opened = ['core', 'index'];
    expect(seen).toEqual([7, opened, 100, [...opened, 'scan'], [...opened, 'scan']]);
  });

  test('every public function works, imported or required, and loads them all', () => {
    copyFileSync('test/package/program.mjs', join(built.folder, 'program.mjs'));
    const imported = told(
      'imported.mjs',
      `import { createRequire } from 'node:module';
       import * as core from 'monochord';
       import { run } from './program.mjs';
       ${LOADED}
       const seen = await run(core, process.argv[2]);
       console.log(JSON.stringify([loaded(), seen]));`,
    );
    const required = told(
      'required.mjs',
      `import { createRequire } from 'node:module';
       import { run } from './program.mjs';
       ${LOADED}
       const seen = await run(createRequire(import.meta.url)('monochord'), process.argv[2]);
       console.log(JSON.stringify([loaded(), seen]));`,
    );
    expect(required).toEqual(imported);
    const loaded = ['index', ...CHUNKS].filter((each) => each !== 'dumps').sort(); // the CLI's
    expect(imported).toEqual([loaded, expect.objectContaining(SEEN)]);
  });

  test('each has every name that the others wait for, in whatever order they are loaded', () => {
    const orders = [CHUNKS, [...CHUNKS].reverse(), ...CHUNKS.map((each) => [each])];
    for (const [i, order] of orders.entries()) {
      const missing = told(
        `order-${i}.mjs`,
        `import { createRequire } from 'node:module';
         const core = createRequire(import.meta.url)('monochord');
         const link = core[Symbol.for('monochord.chunks')];
         for (const chunk of ${JSON.stringify(order)}) link.load[chunk]();
         const missing = [];
         for (const [chunk, real] of Object.entries(link.real)) {
           const strict = new Proxy(real, { get: (names, name) => {
             if (typeof names[name] !== 'function') missing.push(chunk + ' ' + name);
             return names[name];
           } });
           for (const fill of link.waiting[chunk]) fill(strict);
         }
         console.log(JSON.stringify([Object.keys(link.real).length, missing]));`,
      ) as [number, string[]];
      expect(missing[1]).toEqual([]);
      expect(missing[0]).toBeGreaterThanOrEqual(order.length);
    }
  });

  test('an uncaught error shows a line, not a bundle', () => {
    const program = join(built.folder, 'wrong.cjs');
    writeFileSync(program, `require('monochord').open('x', { wrong: 1 });`);
    const { stderr } = spawnSync(process.execPath, [program], { encoding: 'utf8' });
    expect(stderr).toContain('UsageError');
    expect(stderr.length).toBeLessThan(20_000);
  });

  test('the core is below 700 kB, without declarations', () => {
    const bytes = ['index', ...CHUNKS].map(
      (name) => statSync(join(built.folder, 'dist', `${name}.cjs`)).size,
    );
    expect(bytes.reduce((sum, each) => sum + each, 0)).toBeLessThan(700_000);
  });
});

/** Names of packages that a program imports or requires. */
const BARE = /(?:\brequire\(|\bfrom\s*|\bimport\s*\(?)(["'`])([\w@][^"'`\n]*)\1/g;

describe('the packed package', () => {
  interface Packed {
    readonly files: readonly { readonly path: string; readonly size: number }[];
    readonly unpackedSize: number;
  }
  interface Manifest {
    readonly exports: Readonly<Record<string, unknown>>;
    readonly bin: Readonly<Record<string, string>>;
    readonly [name: string]: unknown;
  }
  let packed: Packed;
  let manifest: Manifest;

  beforeAll(() => {
    for (const name of ['docs', 'README.md'])
      cpSync(join(ROOT, name), join(built.folder, name), { recursive: true });
    const args = ['pack', '--dry-run', '--json', '--ignore-scripts', '--offline'];
    const { status, stdout, stderr } = spawnSync('npm', args, {
      cwd: built.folder,
      encoding: 'utf8',
      shell: process.platform === 'win32',
    });
    expect(status, stderr).toBe(0);
    [packed] = JSON.parse(stdout) as [Packed];
    manifest = JSON.parse(readFileSync(join(built.folder, 'package.json'), 'utf8')) as Manifest;
  });

  test('depends on nothing; abstract-level is an optional peer', () => {
    for (const name of ['dependencies', 'optionalDependencies', 'bundleDependencies'])
      expect(manifest[name], name).toBeUndefined();
    expect(Object.keys(manifest['peerDependencies'] as object)).toEqual(['abstract-level']);
    expect(manifest['peerDependenciesMeta']).toEqual({ 'abstract-level': { optional: true } });
    const names = new Set<string>();
    for (const { path } of packed.files.filter((each) => /\.c?js$/.test(each.path))) {
      const text = readFileSync(join(built.folder, path), 'utf8');
      for (const [, , name] of text.matchAll(BARE))
        if (!name!.startsWith('node:')) names.add(name!);
    }
    // What is bundled must not be asked for; anything else that looks like an import is a text.
    const known = Object.keys(manifest['devDependencies'] as object);
    expect(known.filter((name) => names.has(name))).toEqual(['abstract-level']);
  });

  test('holds what its manifest names, and no sources or tests', () => {
    const paths = packed.files.map((each) => each.path);
    const named = [JSON.stringify(manifest.exports), ...Object.values(manifest.bin)].join();
    for (const [path] of named.matchAll(/dist\/[\w-]+\.c?js/g)) expect(paths).toContain(path);
    const odd = paths.filter(
      (path) => !/^(?:(?:dist|docs)\/|README\.md$|package\.json$)/.test(path),
    );
    expect(odd).toEqual([]);
  });

  test('is below 4 MB unpacked', () => {
    expect(packed.unpackedSize).toBeLessThan(4_000_000);
  });
});

/** What `program.mjs` must have seen. */
const SEEN = {
  kv: [36, [40, null], true, 3],
  large: [100_000, 7],
  refused: ['ConstraintError', 'constraint.unique'],
  where: [1],
  conditions: [[2, 3], [1, 3], [2], [3, 2]],
  totals: [3, 12, 4, 1, 3],
  session: 8,
  composite: [{ a: 'x', b: 2 }, null],
  deleted: [true, false, 2],
  loaded: [
    'object',
    [
      ['a', 1],
      ['b', 2],
      ['c', 3],
    ],
    2,
  ],
  snapshot: [false, ['ada', 'w', 'x']],
  check: 0,
  copy: [false, 3],
  readOnly: ['UsageError', 'usage.read_only'],
  kept: 2,
  traced: 'object',
  memory: 'c',
};

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
      'tune.mjs',
    ]);
  });

  test('tune.mjs records what is asked, tunes for it and applies the answer', () => {
    const printed = run('examples/tune.mjs');
    expect(printed).toMatch(/^\d+ operations recorded\n/);
    expect(printed).toMatch(/\nrecommended: .+\n$/);
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
