/**
 * House style that can be read off the text of a file (STYLE): opening comment, width, length,
 * names, and what must not be in it.
 */
import { describe, expect, test } from 'vitest';
import { readSources, type SourceFile } from '../support/sources.ts';

const COLUMNS_MAX = 100;
const LINES_MAX = 800;
const FORBIDDEN_NAMES = [
  'manager',
  'helper',
  'helpers',
  'util',
  'utils',
  'data',
  'info',
  'process',
];
const SYNCHRONOUS = /^src\/(storage|store|model|base|query|kv)\//;
const WAITING = /\basync\b|\bawait\b|\bPromise\b/;
// Spelled in pieces so that this file passes its own test.
const UNFINISHED = new RegExp(`\\b(${'TO' + 'DO'}|${'FIX' + 'ME'}|${'XX' + 'X'})\\b`);
const MACHINE_PATHS = new RegExp(`(?:^|[\\s'"\`(])/(?:${'wo' + 'rk'}|${'ro' + 'ot'})/`, 'm');
const ANY_TYPE = /(:|<|\bas|\||,)\s*any\b(?!\w)(?=\s*[;,)>\]=|[{]|\s*$)/m;

/** The text of a file without comments and with empty strings: roughly, but enough for names. */
function codeOf(text: string): string {
  return text
    .replace(/\/\*[\s\S]*?\*\//g, '')
    .replace(/(^|[^:'"`\\])\/\/.*$/gm, '$1')
    .replace(/'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"/g, "''");
}

function widthFaults(file: SourceFile): string[] {
  return file.text
    .split('\n')
    .flatMap((line, at) =>
      line.length > COLUMNS_MAX ? [`${file.path}:${at + 1}: ${line.length} columns`] : [],
    );
}

/** A longer file says why in its opening comment, with the words "longer than". */
function lengthFaults(file: SourceFile, opening: string): string[] {
  const lines = file.text.split('\n').length - 1;
  if (lines <= LINES_MAX || /longer than/i.test(opening)) return [];
  return [`${file.path}: ${lines} lines; "longer than ..." with the reason belongs at the top`];
}

function nameFaults(file: SourceFile): string[] {
  const words = file.path.split('/').at(-1)!.split(/[-.]/);
  const faults = words
    .filter((word) => FORBIDDEN_NAMES.includes(word))
    .map((word) => `${file.path}: "${word}" in a file name says nothing`);
  if (!/^[a-z0-9-]+(\.test)?\.(ts|mjs)$|\.config\.ts$/.test(file.path.split('/').at(-1)!))
    faults.push(`${file.path}: file names are kebab-case`);
  return faults;
}

function wordFaults(file: SourceFile): string[] {
  const faults: string[] = [];
  const code = codeOf(file.text);
  if (UNFINISHED.test(file.text)) faults.push(`${file.path}: unfinished work is noted in the code`);
  if (MACHINE_PATHS.test(file.text)) faults.push(`${file.path}: names a path of one machine`);
  if (ANY_TYPE.test(code)) faults.push(`${file.path}: the type any`);
  // kv and objects hand on the promises that database.ts makes.
  const waiting = file.path.startsWith('src/kv/') ? /\basync\b|\bawait\b/ : WAITING;
  if (SYNCHRONOUS.test(file.path) && waiting.test(code))
    faults.push(`${file.path}: nothing below database.ts is asynchronous`);
  return faults;
}

/** Everything that is untidy in a file, each with its path. */
export function faultsOf(file: SourceFile): string[] {
  const opening = /^(?:#!.*\n)?\s*\/\*\*([\s\S]*?)\*\//.exec(file.text)?.[1];
  const faults = opening === undefined ? [`${file.path}: opens without a doc comment`] : [];
  return [
    ...faults,
    ...widthFaults(file),
    ...lengthFaults(file, opening ?? ''),
    ...nameFaults(file),
    ...wordFaults(file),
  ];
}

describe('tidy', () => {
  test('every file keeps the house style', () => {
    expect(readSources(['src', 'test', 'scripts', 'bench']).flatMap(faultsOf)).toEqual([]);
  });

  test('faultsOf finds each kind of untidiness', () => {
    const untidy = (path: string, text: string) => faultsOf({ path, text }).join('\n');
    expect(untidy('src/a.ts', 'export {};\n')).toContain('doc comment');
    expect(untidy('src/a.ts', `/** A. */\n// ${'x'.repeat(100)}\n`)).toContain('103 columns');
    expect(untidy('src/a.ts', `/** A. */\n${'\n'.repeat(900)}`)).toContain('901 lines');
    expect(untidy('src/log-helper.ts', '/** A. */\n')).toContain('"helper"');
    expect(untidy('src/a.ts', '/** A. */\nlet x: any;\n')).toContain('any');
    expect(untidy('src/a.ts', '/** A. */\n// Is there any; or, any) left?\n')).toBe('');
    expect(untidy('src/store/a.ts', '/** A. */\nasync function f() {}\n')).toContain('asynchron');
    expect(untidy('src/a.ts', `/** A. */\n// ${'TO' + 'DO'}: more\n`)).toContain('unfinished');
    expect(untidy('src/a.ts', `/** A. */\n'/${'wo' + 'rk'}/main'\n`)).toContain('one machine');
  });
});
