/** The examples of the README run as they stand, and answer what their comments say. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, it } from 'vitest';
import { ROOT } from '../support/sources.ts';

const README = readFileSync(`${ROOT}README.md`, 'utf8');
const blocks = [...README.matchAll(/```ts\n([\s\S]*?)```/g)].map((match) => match[1]!);

/** `expression; // value` becomes a check where the comment is a value of JavaScript. */
function withChecks(code: string): string {
  return code.replace(/^(.+); \/\/ (\d+|\[.*\])$/gm, 'check($1, $2);');
}

describe('README', () => {
  it('has examples', () => {
    expect(blocks.length).toBeGreaterThan(1);
  });

  it.each(blocks.map((code, i) => [i, code] as const))('example %i runs', async (i, code) => {
    const folder = mkdtempSync(join(tmpdir(), 'monochord-readme-'));
    try {
      const index = pathToFileURL(`${ROOT}src/index.ts`).href;
      const text = withChecks(code)
        .replace("'monochord'", `'${index}'`)
        .replace("'shop.mono'", JSON.stringify(join(folder, 'shop.mono')));
      const check = 'const check = globalThis.readmeCheck;\n';
      writeFileSync(join(folder, `example${i}.mjs`), check + text);
      const checked: unknown[] = [];
      Object.assign(globalThis, {
        readmeCheck: (found: unknown, expected: unknown): void => {
          expect(found).toEqual(expected);
          checked.push(found);
        },
      });
      await import(pathToFileURL(join(folder, `example${i}.mjs`)).href);
      if (i === 0) expect(checked).toHaveLength(3);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
