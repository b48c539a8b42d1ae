/**
 * Real JSON: a case is a file of JSON Lines or one document. It is loaded and must come back
 * unchanged: every value as `JSON.parse` reads it, names in their order, and the dump of what was
 * loaded, in JSON Lines and in our own format, loads and dumps again to the same bytes. Lines of
 * objects are also loaded as records of an open collection.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { dump, load, parseJsonBytes, type DumpOptions } from '../../src/dump/index.ts';
import { Float, open, type Database, type Value } from '../../src/index.ts';
import { failed, filesUnder, PASSED, type Suite, type Verdict } from './suite.ts';

/** A value as JSON.parse would have made it. */
function plain(value: Value | undefined): unknown {
  if (value instanceof Float) return value.value;
  if (typeof value === 'bigint') return Number(value);
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, plain(each)]));
}

function text(value: unknown): string {
  return JSON.stringify(value);
}

async function textOf(db: Database, options: DumpOptions): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of dump(db, options)) chunks.push(chunk);
  return Buffer.concat(chunks);
}

function isDocument(bytes: Uint8Array): boolean {
  try {
    parseJsonBytes(bytes, { file: 'text', line: 1, column: 1 });
    return true;
  } catch {
    return false;
  }
}

/** Dumps, loads and dumps again; answers whether both dumps are the same bytes. */
async function travels(db: Database, format: 'jsonl' | 'monochord'): Promise<boolean> {
  const options = { format, collections: ['docs'] } as const;
  const first = await textOf(db, options);
  const copy = open(':memory:');
  try {
    const target = format === 'jsonl' ? ({ into: 'docs', keys: 'int' } as const) : {};
    await load(copy, [first], { format, ...target });
    return first.equals(await textOf(copy, options));
  } finally {
    copy.close();
  }
}

async function verdictOf(path: string): Promise<Verdict> {
  const bytes = readFileSync(path);
  const db = open(':memory:');
  try {
    let wanted: unknown[];
    if (isDocument(bytes)) {
      wanted = [JSON.parse(bytes.toString())];
      const value = parseJsonBytes(bytes, { file: path, line: 1, column: 1 });
      db.kv<number>('docs', { keys: 'int' }).put(1, value);
      const fault = await asLists(path, wanted[0]);
      if (fault !== undefined) return failed('comes back changed from its lists', fault);
    } else {
      const lines = bytes.toString().split('\n');
      wanted = lines
        .filter((line) => line.trim() !== '')
        .map((line) => JSON.parse(line) as unknown);
      await load(db, path, { format: 'jsonl', into: 'docs', lines: true });
      const fault = await asRecords(path, wanted);
      if (fault !== undefined) return failed('comes back changed from a collection', fault);
    }
    const values = Array.from(db.kv<number>('docs').range(), ([, value]) => plain(value));
    if (values.length !== wanted.length)
      return failed('comes back with another count', `${values.length} of ${wanted.length}`);
    const wrong = values.findIndex((value, i) => text(value) !== text(wanted[i]));
    if (wrong >= 0) return failed('comes back changed', `value ${wrong + 1}`);
    for (const format of ['jsonl', 'monochord'] as const)
      if (!(await travels(db, format))) return failed('does not travel', format);
    return PASSED;
  } finally {
    db.close();
  }
}

/** Loads the document, or each list that it has, element by element; answers what is wrong. */
async function asLists(path: string, document: unknown): Promise<string | undefined> {
  const lists: [string | undefined, unknown][] = Array.isArray(document)
    ? [[undefined, document]]
    : Object.entries(document as object);
  for (const [list, elements] of lists) {
    if (!Array.isArray(elements)) continue;
    const db = open(':memory:');
    try {
      const options = { format: 'json', into: 'list', lines: true } as const;
      await load(db, path, { ...options, ...(list !== undefined && { list }) });
      const found = Array.from(db.kv<number>('list').range(), ([, value]) => plain(value));
      if (text(found) !== text(elements)) return `the list ${list ?? 'that it is'}`;
    } finally {
      db.close();
    }
  }
  return undefined;
}

/** Loads lines as records; answers what is wrong. */
async function asRecords(path: string, wanted: readonly unknown[]): Promise<string | undefined> {
  const isMap = (value: unknown): boolean => text(value).startsWith('{');
  if (!wanted.every(isMap)) return undefined;
  const db = open(':memory:');
  try {
    const settings = { fields: { '#': 'int' }, key: '#', open: true } as const;
    await load(db, path, { format: 'jsonl', into: 'docs', ...settings });
    const records = db.collection('docs', settings).all().orderBy('#').toArray();
    const sorted = (value: unknown): string => text(Object.entries(value as object).sort());
    const wrong = records.findIndex(({ '#': _, ...rest }, i) => {
      return sorted(plain(rest as Value)) !== sorted(wanted[i]);
    });
    if (records.length !== wanted.length) return `${records.length} of ${wanted.length}`;
    return wrong < 0 ? undefined : `record ${wrong + 1}`;
  } finally {
    db.close();
  }
}

export const suite: Suite = {
  about: 'a case is a file of JSON Lines or one document: loaded, compared, dumped, loaded again',
  *cases(folder) {
    for (const name of filesUnder(folder)) {
      if (!/\.(?:json|jsonl|ndjson)$/.test(name)) continue;
      yield { name, run: () => verdictOf(join(folder, name)) };
    }
  },
};
