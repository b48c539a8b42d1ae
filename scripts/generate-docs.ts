/**
 * Writes what is generated: `npm run docs`. `docs/ERRORS.md` from the error table,
 * `docs/FILE_FORMAT.md` from the files that decode bytes, and
 * `test/style/error-gaps.ts` without the gaps that have closed (it never adds one).
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { formatPage } from './format-page.ts';
import { codesNotProvoked, codesNotThrown, errorsPage } from './error-page.ts';

const GAPS = new URL('../test/style/error-gaps.ts', import.meta.url);

function withoutClosedGaps(text: string): string {
  const open = { NOT_THROWN: codesNotThrown(), NOT_PROVOKED: codesNotProvoked() };
  let gaps: readonly string[] = [];
  return text
    .split('\n')
    .filter((line) => {
      if (line.includes('NOT_THROWN')) gaps = open.NOT_THROWN;
      if (line.includes('NOT_PROVOKED')) gaps = open.NOT_PROVOKED;
      const code = /^ {2}'(.*)',$/.exec(line)?.[1];
      return code === undefined || gaps.includes(code);
    })
    .join('\n');
}

writeFileSync(new URL('../docs/ERRORS.md', import.meta.url), errorsPage());
writeFileSync(new URL('../docs/FILE_FORMAT.md', import.meta.url), formatPage());
writeFileSync(GAPS, withoutClosedGaps(readFileSync(GAPS, 'utf8')));
console.log('docs/ERRORS.md, docs/FILE_FORMAT.md and test/style/error-gaps.ts are up to date');
