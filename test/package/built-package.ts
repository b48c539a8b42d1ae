/**
 * The package as it is published, without declarations, in a folder of its own: what is in it finds
 * it by its name, as an installed one. The examples are in it.
 */
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildCli } from '../../scripts/build-cli.mjs';
import { buildPackage } from '../../scripts/build-package.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

export interface BuiltPackage {
  readonly folder: string;
  remove(): void;
}

export async function builtPackage(): Promise<BuiltPackage> {
  // Inside the package, so that peer dependencies are found.
  const folder = mkdtempSync(join(ROOT, 'node_modules', '.monochord-test-'));
  await buildPackage(ROOT, join(folder, 'dist'), false);
  await buildCli(ROOT, join(folder, 'dist'));
  for (const name of ['package.json', 'examples']) {
    cpSync(join(ROOT, name), join(folder, name), { recursive: true });
  }
  return { folder, remove: () => rmSync(folder, { recursive: true }) };
}
