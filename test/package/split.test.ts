/**
 * Splitting a flat bundle into chunks: what is put off works when it is used, costs nothing before,
 * and what cannot be put off is refused with its place. The small bundles here are run as built.
 */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { split } from '../../scripts/split.mjs';
import { FILES } from '../../scripts/split-plan.mjs';

const folder = mkdtempSync(join(tmpdir(), 'monochord-split-'));
afterAll(() => rmSync(folder, { recursive: true }));
let count = 0;

const chunkOf = (file: string): string => /^(\w+)-/.exec(file)?.[1] ?? 'main';
const needs = { second: ['first'] };

/** A bundle of files: `a.ts` is in main, `first-a.ts` in the chunk `first`. */
function bundleOf(files: Readonly<Record<string, string>>): string {
  return Object.entries(files)
    .map(([file, text]) => (file === '' ? text : `//#region ${file}\n${text}\n//#endregion`))
    .join('\n');
}

function filesOf(files: Readonly<Record<string, string>>, small: boolean): Map<string, string> {
  return split(bundleOf(files), { chunkOf, needs, small });
}

interface Run {
  readonly door: Record<string, (...args: unknown[]) => unknown>;
  loaded(): string[];
}

/** Writes the chunks of a bundle and requires the main one. */
function run(files: Readonly<Record<string, string>>, small: boolean): Run {
  const home = join(folder, String(++count));
  const require = createRequire(`${home}-x.cjs`);
  const texts = filesOf(files, small);
  const names = [...texts.keys()];
  for (const [name, text] of texts) {
    // One folder for all: chunks find each other by name.
    const own = text.replaceAll(/\.\/(\w+)\.cjs/g, `./${count}-$1.cjs`);
    writeFileSync(join(folder, `${count}-${name}`), own);
  }
  const paths = names.map((name) => join(folder, `${count}-${name}`));
  const main = paths[names.indexOf('index.cjs')]!;
  const door = require(main) as Run['door'];
  const loaded = (): string[] =>
    names.filter((_, i) => require.cache[paths[i]!] !== undefined && paths[i] !== main).sort();
  return { door, loaded };
}

function refusal(files: Readonly<Record<string, string>>): string {
  try {
    filesOf(files, false);
  } catch (cause) {
    return (cause as Error).message;
  }
  throw new Error('it was split');
}

const LATER = {
  'first-box.ts': `
    let made = 0;
    var Box = class Box {
      constructor(value) { this.value = value; made++; }
      static of(value) { return new Box(value); }
    };
    function boxesMade() { return made; }
    function* counts(n) { for (let i = 0; i < n; i++) yield i + STEP; }`,
};
const MAIN = {
  'main.ts': `
    const STEP = 10;
    const WIDE = STEP * 2;
    function box(value) { return new Box(value); }
    function boxOf(value) { return Box.of(value); }
    function isBox(value) { return value instanceof Box; }
    function first() { return [...counts(2)]; }
    const spread = (...args) => [...counts(...args)].length;`,
};
const DOOR = { '': 'export { box, boxOf, isBox, boxesMade, first, spread };' };

describe.each([false, true])('split, minified: %s', (small) => {
  test('loads a chunk at its first use, and puts the real names in place', () => {
    const { door, loaded } = run({ ...MAIN, ...LATER, ...DOOR }, small);
    expect(door['isBox']!({}), 'nothing can be of a class that is not there').toBe(false);
    expect(door['isBox']!(undefined)).toBe(false);
    expect(loaded()).toEqual([]);
    const made = door['box']!(1);
    expect(loaded()).toEqual(['first.cjs']);
    expect(door['isBox']!(made)).toBe(true);
    expect(door['isBox']!(door['boxOf']!(2))).toBe(true);
    expect((made as object).constructor.name).toBe('Box');
    expect(door['boxesMade']!(), 'exported before it was loaded').toBe(2);
    expect(door['first']!()).toEqual([10, 11]);
    expect(door['spread']!(3)).toBe(3);
  });

  test('loads at the call of a static method and of an exported function as well', () => {
    const one = run({ ...MAIN, ...LATER, ...DOOR }, small);
    expect((one.door['boxOf']!(5) as { value: number }).value).toBe(5);
    const two = run({ ...MAIN, ...LATER, ...DOOR }, small);
    const { boxesMade } = two.door;
    expect([boxesMade!(), boxesMade!()]).toEqual([0, 0]);
    expect(two.loaded()).toEqual(['first.cjs']);
  });

  test('a chunk has what it needs first as constants, and stubs of the rest', () => {
    const files = {
      'main.ts': `
        function later() { return second(); }
        function viaFirst(n) { return viaThird(n); }`,
      'first-a.ts': `var Base = class Base { kind() { return 'base'; } };
        function viaThird(n) { return third(n); }`,
      'second-a.ts': `var Derived = class extends Base {};
        function second() { return new Derived().kind() + third(1); }`,
      'third-a.ts': `function third(n) { return n + shared(n); }`,
      'shared.ts': `function shared(n) { return n * 100; }`,
      '': 'export { later, viaFirst };',
    };
    const one = run(files, small);
    expect(one.door['later']!()).toBe('base101');
    expect(one.loaded()).toEqual(['first.cjs', 'second.cjs', 'third.cjs']);
    const two = run(files, small);
    expect(two.door['viaFirst']!(2)).toBe(202);
    expect(two.loaded()).toEqual(['first.cjs', 'third.cjs']);
    expect(two.door['later']!(), 'a chunk that meets one that is loaded').toBe('base101');
  });

  test('what one chunk uses is in it; what main or two chunks use stays', () => {
    const texts = filesOf(
      {
        'main.ts': `
          const table = new Map();
          function forOne() { return table.size; }
          function forTwo() { return 'two'; }
          function forAll() { return 'all'; }
          function go() { return forAll() + one() + two(); }`,
        'first-a.ts': `function one() { return forOne() + forTwo() + forAll(); }`,
        'third-a.ts': `function two() { return forTwo(); }`,
        '': 'export { go };',
      },
      small,
    );
    const has = (file: string, name: string): boolean =>
      new RegExp(`function ${name}\\(`).test(texts.get(file)!);
    expect(has('first.cjs', 'forOne')).toBe(true);
    expect(texts.get('index.cjs')).not.toContain('new Map');
    expect(has('index.cjs', 'forTwo')).toBe(true);
    expect(has('index.cjs', 'forAll')).toBe(true);
  });

  test('numbers and texts are written into every chunk, and local names hide others', () => {
    const { door, loaded } = run(
      {
        'main.ts': `
          const A = 2;
          const B = A << 3;
          function go(later) { const fold = (x) => x + later; return fold(B) + TEXT.length; }
          function call() { return later() + fold(1); }`,
        'first-a.ts': `const TEXT = 'abc';
          function later() { return B + A; }
          function fold(x) { return x; }`,
        '': 'export { go, call };',
      },
      small,
    );
    expect(door['go']!(1)).toBe(20);
    expect(loaded(), 'a parameter of the same name is no use').toEqual([]);
    expect(door['call']!()).toBe(19);
  });

  test('built-in modules are required by the chunks that use them', () => {
    const texts = filesOf(
      {
        '': `import * as path from 'node:path';\nimport { tmpdir as temporary } from 'node:os';`,
        'main.ts': `function base(x) { return path.basename(x) + later(); }`,
        'first-a.ts': `function later() { return temporary(); }\nexport { base };`,
      },
      small,
    );
    expect(texts.get('index.cjs')).toContain('node:path');
    expect(texts.get('index.cjs')).not.toContain('node:os');
    expect(texts.get('first.cjs')).toContain('node:os');
  });
});

test.each([
  ['a base class', `var B = class extends Late {};`, 'B', 'is used while the file is run'],
  [
    'a call as the file is run',
    `const x = late();\nfunction f() { return x; }`,
    'f',
    'file is run',
  ],
  ['a static field', `class B { static x = late(); }\nfunction f() { B; }`, 'f', 'file is run'],
  ['a function as a value', `function f() { return [late]; }`, 'f', 'late (first-a.ts) is used as'],
  ['a class as a value', `function f() { return [Late]; }`, 'f', 'Late (first-a.ts) is used as'],
  ['a static field of a class', `function f() { return Late.size; }`, 'f', 'is used as a value'],
  ['a static method that is none', `function f() { return Late.of(); }`, 'f', 'asked for `of`'],
  ['a table', `function f() { return TABLE.x; }`, 'f', 'neither a function nor a class'],
  ['a variable of the chunk', `function f() { return count; }`, 'f', 'is assigned to'],
  ['a variable of main', `let own = 0;\nfunction f() { own++; late(); }`, 'f', 'own (main.ts)'],
])('split refuses to put off %s', (_, text, name, why) => {
  const message = refusal({
    'main.ts': text,
    'first-a.ts': `var Late = class { static size = 1; };
      function late() { count++; return typeof own; }
      const TABLE = { x: 1 };
      let count = 0;`,
    '': `export { ${name} };`,
  });
  expect(message).toContain('what cannot be put off');
  expect(message).toContain(why);
});

test('split refuses to export a class of a chunk', () => {
  const message = refusal({
    'main.ts': 'function f() {}',
    'first-a.ts': 'var Late = class {};',
    '': 'export { f, Late };',
  });
  expect(message).toContain('Late (first-a.ts) is exported as a value');
});

test('the plan names files and folders that there are', () => {
  const missing = FILES.filter((each) => {
    return !existsSync(each.endsWith('/') ? `src/${each}` : `src/${each}.ts`);
  });
  expect(missing).toEqual([]);
});
