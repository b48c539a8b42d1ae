/**
 * The sources without their types, as plain modules in a temporary folder: a child process starts
 * in a fraction of the time that a loader would take, which counts over thousands of kills.
 */
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname } from 'node:path';
import tsBlankSpace from 'ts-blank-space';
import { readSources } from '../support/sources.ts';

/** Writes `src` and the modules of a folder of tests; answers the path of all. */
export function writeStripped(tests = 'test/processes'): string {
  const folder = mkdtempSync(`${tmpdir()}/monochord-stripped-`);
  for (const { path, text } of readSources(['src', tests], ['.ts'])) {
    if (path.endsWith('.test.ts')) continue;
    const target = `${folder}/${path.replace(/\.ts$/, '.mjs')}`;
    mkdirSync(dirname(target), { recursive: true });
    const plain = tsBlankSpace(text, (node) => {
      throw new Error(`${path} has syntax that cannot be blanked: ${node.getText()}`);
    });
    writeFileSync(target, plain.replace(/(from '\.[^']*|import '\.[^']*)\.ts'/g, "$1.mjs'"));
  }
  return folder;
}
