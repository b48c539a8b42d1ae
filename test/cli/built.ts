/**
 * The command line and the worker of trials, bundled into a folder of the test's own: starting
 * them from source would cost a compiler in every process.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { join } from 'node:path';
import { buildCli } from '../../scripts/build-cli.mjs';
import { buildPackage } from '../../scripts/build-package.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

export interface Built {
  readonly cli: string;
  readonly worker: string;
  remove(): void;
}

export async function built(): Promise<Built> {
  // Inside the package, so that node takes the files for ES modules.
  const folder = mkdtempSync(join(ROOT, 'node_modules', '.monochord-test-'));
  await buildPackage(ROOT, folder, false);
  await buildCli(ROOT, folder);
  return {
    cli: join(folder, 'cli.js'),
    worker: join(folder, 'trial-worker.js'),
    remove: () => rmSync(folder, { recursive: true }),
  };
}
