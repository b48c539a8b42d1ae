/**
 * The error table and the code agree: no code is thrown without a row, no row is without a throw
 * and a test, and `docs/ERRORS.md` is what the table says (STYLE "Errors").
 */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { ERROR_TABLE, type ErrorCode } from '../../src/errors.ts';
import { codesNotProvoked, codesNotThrown, errorsPage } from '../../scripts/error-page.ts';
import { ROOT, readSources } from '../support/sources.ts';
import { NOT_PROVOKED, NOT_THROWN } from './error-gaps.ts';

const code = readSources(['src']);

/** Compares gaps with their list; a closed gap fails only with CI set, a new one always. */
function expectGaps(gaps: readonly ErrorCode[], listed: readonly ErrorCode[]): void {
  expect(gaps.filter((each) => !listed.includes(each))).toEqual([]);
  if (process.env['CI'] !== undefined)
    expect(
      listed.filter((each) => !gaps.includes(each)),
      'closed gaps: npm run docs',
    ).toEqual([]);
}

describe('errors', () => {
  test('every code that is thrown has a row', () => {
    const thrown = code.flatMap((file) =>
      [...file.text.matchAll(/\bfailure\(\s*'([^']+)'/g)].map((match) => match[1]!),
    );
    expect(thrown.filter((each) => !(each in ERROR_TABLE))).toEqual([]);
  });

  test('every row is thrown, but for the listed gaps', () => {
    expectGaps(codesNotThrown(), NOT_THROWN);
  });

  test('every row is provoked by a test, but for the listed gaps', () => {
    expectGaps(codesNotProvoked(), NOT_PROVOKED);
  });

  test('docs/ERRORS.md says what the table says', () => {
    expect(readFileSync(`${ROOT}docs/ERRORS.md`, 'utf8'), 'npm run docs').toBe(errorsPage());
  });
});
