/**
 * Dumps of Berkeley DB, LMDB and GDBM with their pairs as oracles. A case is a file `*.dump`: it
 * is loaded, compared with `oracle-SET.jsonl`, and dumped in its own format and in ours, both of
 * which must load and dump again to the same bytes.
 *
 * A dump of record numbers holds values only, and some stores left out entries that they cannot
 * hold: then everything loaded must be in the oracle, and be as much as the text itself has.
 */
import { existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { dump, load, type DumpFormat, type DumpOptions } from '../../src/dump/index.ts';
import { open, type Database, type Value } from '../../src/index.ts';
import { failed, filesUnder, PASSED, skipped, type Suite, type Verdict } from './suite.ts';

type Pairs = readonly (readonly [string, string])[];

function formatOf(text: string): DumpFormat {
  if (text.startsWith('!')) return 'gdbm-binary';
  if (text.startsWith('#')) return 'gdbm';
  const header = text.slice(0, text.indexOf('HEADER=END'));
  const store = /^(?:mapsize|maxreaders)=/m.test(header) ? 'lmdb' : 'bdb';
  return /^format=print/m.test(header) ? `${store}-print` : store;
}

/** Entries that a text has, counted without reading them; `undefined` where that cannot be. */
function entryCount(text: string, format: DumpFormat): number | undefined {
  if (format === 'gdbm-binary') return undefined;
  if (format === 'gdbm') return [...text.matchAll(/^#:len=/gm)].length / 2;
  const lines = [...text.matchAll(/^ /gm)].length;
  const isNumbered = /^type=(?:recno|queue)/m.test(text) && !/^keys=1/m.test(text);
  return isNumbered ? lines : lines / 2;
}

function base64(value: Value): string {
  if (typeof value === 'number') return String(value);
  return Buffer.from(value as Uint8Array).toString('base64');
}

function pairsOf(db: Database, name: string): Pairs {
  const snapshot = db.snapshot();
  try {
    return Array.from(snapshot.exactRecords(name), ({ key, value }) => [
      base64(key!),
      base64(value!),
    ]);
  } finally {
    snapshot.close();
  }
}

async function textOf(db: Database, options: DumpOptions): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of dump(db, options)) chunks.push(chunk);
  return Buffer.concat(chunks).toString('latin1');
}

function oracleOf(folder: string, names: readonly string[]): Pairs | undefined {
  const found = names.map((name) => join(folder, `oracle-${name}.jsonl`)).find(existsSync);
  if (found === undefined) return undefined;
  const lines = readFileSync(found, 'utf8').split('\n');
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as [string, string]);
}

/** Compares what was loaded with the oracle; answers what is wrong. */
function faultOf(loaded: Pairs, oracle: Pairs, stated: number | undefined): string | undefined {
  const isNumbered = loaded.length > 0 && /^\d+$/.test(loaded[0]![0]);
  const text = (pair: readonly [string, string]): string => (isNumbered ? pair[1] : pair.join(' '));
  const wanted = new Map<string, number>();
  for (const pair of oracle) wanted.set(text(pair), (wanted.get(text(pair)) ?? 0) + 1);
  for (const pair of loaded) {
    const left = wanted.get(text(pair)) ?? 0;
    if (left === 0) return `${text(pair).slice(0, 80)} is not in the oracle`;
    wanted.set(text(pair), left - 1);
  }
  const isWhole = loaded.length === oracle.length || loaded.length === (stated ?? loaded.length);
  return isWhole ? undefined : `${loaded.length} entries of ${oracle.length}`;
}

async function again(db: Database, options: DumpOptions): Promise<string | undefined> {
  const first = await textOf(db, options);
  const copy = open(':memory:');
  try {
    const [only, ...others] = options.collections ?? [];
    const into = others.length === 0 && only !== undefined ? { into: only } : {};
    const { format } = options;
    const isOwn = format === 'monochord';
    await load(copy, [Buffer.from(first, 'latin1')], { format, ...(isOwn ? {} : into) });
    const second = await textOf(copy, options);
    return first === second ? undefined : `a ${format} dump of what was loaded differs`;
  } finally {
    copy.close();
  }
}

async function verdictOf(folder: string, file: string): Promise<Verdict> {
  const path = join(folder, file);
  const text = readFileSync(path, 'latin1');
  const format = formatOf(text);
  const isNamed = /^database=/m.test(text.slice(0, 1000));
  const db = open(':memory:');
  try {
    const report = await load(db, path, { format, ...(isNamed ? {} : { into: 'all' }) });
    const names = report.sections.map((each) => each.collection);
    const words = basename(file).split(/[-.]/);
    for (const name of names) {
      const oracle = oracleOf(folder, [name, ...words]);
      if (oracle === undefined) return skipped('no oracle', name);
      const stated = names.length === 1 ? entryCount(text, format) : undefined;
      const fault = faultOf(pairsOf(db, name), oracle, stated);
      if (fault !== undefined) return failed('differs from the oracle', `${name}: ${fault}`);
    }
    for (const each of [format, 'monochord'] as const) {
      const fault = await again(db, { format: each, collections: names });
      if (fault !== undefined) return failed('does not travel', fault);
    }
    return PASSED;
  } finally {
    db.close();
  }
}

export const suite: Suite = {
  about: 'a case is a dump: loaded, compared with its oracle, dumped and loaded again',
  *cases(folder) {
    for (const name of filesUnder(folder)) {
      if (name.endsWith('.dump')) yield { name, run: () => verdictOf(folder, name) };
    }
  },
};
