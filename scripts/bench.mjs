/**
 * Runs one benchmark: `npm run bench -- NAME [options]` runs `bench/NAME.ts` or `bench/NAME.mjs`
 * in a fresh process with `--expose-gc`. Types are blanked, never compiled: what is measured is
 * what is written.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const folder = fileURLToPath(new URL('../bench/', import.meta.url));
const [name, ...options] = process.argv.slice(2);
const file = [`${folder}${name}.ts`, `${folder}${name}.mjs`].find((path) => existsSync(path));
if (name === undefined || file === undefined) {
  const names = existsSync(folder)
    ? readdirSync(folder).filter((each) => /\.(ts|mjs)$/.test(each))
    : [];
  console.error(
    `usage: npm run bench -- NAME [options]; there is: ${names.join(', ') || 'none yet'}`,
  );
  process.exit(2);
}
const flags = ['--expose-gc', '--import', 'ts-blank-space/register'];
const run = spawnSync(process.execPath, [...flags, file, ...options], { stdio: 'inherit' });
process.exit(run.status ?? 1);
