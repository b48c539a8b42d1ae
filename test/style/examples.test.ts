/** The examples of README and docs/LEVEL.md run as they stand and answer what they say. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, it } from 'vitest';
import { ROOT } from '../support/sources.ts';

interface Example {
  readonly name: string;
  readonly code: string;
  /** How many of its comments are answers that are checked. */
  readonly checks: number;
}

/** The examples of a page, and how many checks each must have had. */
function examplesOf(page: string, checks: readonly number[]): Example[] {
  const text = readFileSync(`${ROOT}${page}`, 'utf8');
  const blocks = [...text.matchAll(/```ts\n([\s\S]*?)```/g)];
  expect(blocks.length, page).toBe(checks.length);
  return blocks.map(([, code], i) => ({ name: `${page} ${i}`, code: code!, checks: checks[i]! }));
}

const EXAMPLES = [...examplesOf('README.md', [3, 4, 1]), ...examplesOf('docs/LEVEL.md', [4, 1])];

/** `expression; // value` becomes a check where the comment is a value of JavaScript. */
function withChecks(code: string): string {
  const value = String.raw`(\d+|true|false|\[.*\]|\{[^…]*\})`;
  return code.replace(new RegExp(String.raw`^(.+); // ${value}$`, 'gm'), 'check($1, $2);');
}

/** The sources in place of the package. */
function withSources(code: string): string {
  const source = (path: string): string => `'${pathToFileURL(`${ROOT}src/${path}`).href}'`;
  return code
    .replaceAll("from 'monochord'", `from ${source('index.ts')}`)
    .replaceAll("'monochord/level'", source('level/index.ts'))
    .replaceAll("'monochord/dump'", source('dump/index.ts'));
}

describe('examples of the documentation', () => {
  it.each(EXAMPLES)('$name runs', async ({ code, checks }) => {
    const folder = mkdtempSync(join(tmpdir(), 'monochord-readme-'));
    try {
      const path = JSON.stringify(join(folder, 'shop.mono'));
      const text = withSources(withChecks(code)).replaceAll("'shop.mono'", path);
      const file = join(folder, 'example.mjs');
      writeFileSync(file, `const check = globalThis.readmeCheck;\n${text}`);
      const checked: unknown[] = [];
      Object.assign(globalThis, {
        readmeCheck: (found: unknown, expected: unknown): void => {
          expect(found).toEqual(expected);
          checked.push(found);
        },
      });
      await import(pathToFileURL(file).href);
      expect(checked).toHaveLength(checks);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
