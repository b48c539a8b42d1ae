/** Dump, load, dump: the same bytes for every kind of value, layout, collation and index. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { Random } from '../../src/base/random.ts';
import { dump, dumpToFile, dumpToFolder, layoutOfDump, load } from '../../src/dump/index.ts';
import { fileName } from '../../src/dump/files.ts';
import { float, open, type Database, type Value } from '../../src/index.ts';
import { FIELD_TYPES } from '../../src/model/schema.ts';
import { equalValues, KIND, kindOf } from '../../src/model/value.ts';
import { ALL_KINDS, randomOfKind, randomText, randomValue } from '../model/random-values.ts';
import { loaded, textOf } from './texts.ts';

const folder = mkdtempSync(join(tmpdir(), 'monochord-dump-'));
afterAll(() => rmSync(folder, { recursive: true }));

const COLLATIONS = { reversed: (text: string) => [...text].reverse().join('') };

/** Collections of every kind of field and key, and buckets of every kind of value. */
function fill(db: Database, seed: number): void {
  const random = new Random(seed);
  const kinds = ALL_KINDS.filter((kind) => kind !== 'null');
  const fields = Object.fromEntries(kinds.map((kind) => [`f_${kind}`, `${kind}?`] as const));
  const all = db.collection('all', {
    fields: { id: 'int', ...fields, 'any thing': 'any', number: 'number?' } as never,
    key: 'id' as never,
    open: true,
    index: ['f_text', { parts: ['f_int', { field: 'f_float', descending: true }], name: 'two' }],
  });
  for (let id = -5; id < 15; id++) {
    const record: Record<string, Value> = { id: id * 3 };
    for (const kind of kinds)
      if (random.chance(0.7)) record[`f_${kind}`] = randomOfKind(random, kind);
    record['any thing'] = randomValue(random);
    for (const name of ['zz', 'é', '__proto__', 'a'])
      if (random.chance(0.4))
        Object.defineProperty(record, name, { value: randomValue(random), enumerable: true });
    all.save(record as never);
  }
  const values = db.kv<string>('values of any kind', { layout: { tree: 'b-tree', order: 5 } });
  for (let i = 0; i < 60; i++) {
    const value = randomValue(random, 3);
    if (value !== null) values.put(randomText(random), value);
  }
  for (const type of FIELD_TYPES) {
    if (type === 'any' || type === 'json' || type === 'number') continue;
    const bucket = db.kv<Value>(`by ${type}`, { keys: type, values: type });
    for (let i = 0; i < 6; i++) {
      const key = randomOfKind(random, type);
      bucket.put(key, randomOfKind(random, type));
    }
  }
}

/** What the exact kinds of two databases are, side by side. */
function kindsOf(db: Database, name: string): unknown[] {
  const snapshot = db.snapshot();
  const kinds = [...snapshot.exactRecords(name)].map((record) =>
    Object.values(record).map((value) => kindOf(value)),
  );
  snapshot.close();
  return kinds;
}

describe('dump and load', () => {
  test.each([1, 2])('are byte-identical for every kind of value (seed %i)', async (seed) => {
    const db = open(':memory:', { pageSize: 4096 });
    fill(db, seed);
    const text = await textOf(db);
    const copy = open(':memory:', db.layout);
    await loaded(copy, text);
    expect(await textOf(copy)).toBe(text);
    const [a, b] = [db.snapshot(), copy.snapshot()];
    expect(b.schema()).toEqual(a.schema());
    for (const { name } of a.schema().collections) {
      expect(kindsOf(copy, name)).toEqual(kindsOf(db, name));
      const [left, right] = [[...a.exactRecords(name)], [...b.exactRecords(name)]];
      expect(left.length).toBe(right.length);
      expect(left.every((each, i) => equalValues(each, right[i]!))).toBe(true);
    }
    a.close();
    b.close();
    expect(copy.check().faults).toEqual([]);
    db.close();
    copy.close();
  });

  test('a float that looks whole stays a float, nested too', async () => {
    const db = open(':memory:');
    db.kv('v').put('x', { whole: float(5), list: [float(2), 2, -0, NaN, 2n ** 62n] });
    const copy = open(':memory:');
    await loaded(copy, await textOf(db));
    const snapshot = copy.snapshot();
    const [{ value }] = [...snapshot.exactRecords('v')] as [{ value: never }];
    expect(value).toEqual({ whole: float(5), list: [float(2), 2, -0, NaN, 2n ** 62n] });
    expect(kindOf((value as { whole: Value }).whole)).toBe(KIND.float);
    snapshot.close();
    db.close();
    copy.close();
  });

  test('P21: collations, directions and key encodings travel by name', async () => {
    const db = open(':memory:', { collations: COLLATIONS });
    const parts = [{ field: 'name', collation: 'nocase', descending: true }, 'id'] as const;
    const settings = {
      fields: { id: 'int', name: 'text', tail: 'text' },
      key: 'id',
      index: [
        { parts, name: 'folded' },
        { field: 'tail', collation: 'reversed' },
      ],
    } as const;
    const words = db.collection('words', settings);
    ['beta', 'Alpha', 'alpha', 'GAMMA', 'Beta'].forEach((name, id) =>
      words.insert({ id, name, tail: name }),
    );
    const text = await textOf(db);
    expect(text).toContain('"collations":["binary","nocase","reversed"]');
    expect(text).toContain('encoding {"keys":"order-preserving 1"');
    const copy = open(':memory:', { collations: COLLATIONS });
    await loaded(copy, text);
    expect(await textOf(copy)).toBe(text);
    const order = (from: Database): unknown => {
      const cursor = from.source.scan({
        collection: 'words',
        index: 'tail',
        fields: ['id'],
        view: 2 ** 53,
      });
      const batch = cursor.next()!;
      const ids = Array.from({ length: batch.count }, (_, i) => batch.columns[0]!.get(i));
      cursor.close();
      return ids;
    };
    expect(order(copy)).toEqual(order(db));
    const stranger = open(':memory:');
    await expect(loaded(stranger, text)).rejects.toMatchObject({
      code: 'schema.unknown_collation',
    });
    await expect(
      loaded(stranger, text.replace('order-preserving 1', 'order-preserving 2')),
    ).rejects.toThrow('keys are encoded as order-preserving 2');
    for (const each of [db, copy, stranger]) each.close();
  });

  test('a dump reads one snapshot, and goes on beside writes', async () => {
    const db = open(':memory:');
    const values = db.kv<number, number>('v', { keys: 'int', values: 'int' });
    db.transaction(() => {
      for (let i = 0; i < 5000; i++) values.put(i, i);
    });
    const before = await textOf(db);
    let text = '';
    for await (const chunk of dump(db, { format: 'monochord' })) {
      text += Buffer.from(chunk).toString();
      values.put(text.length % 5000, -1);
      values.delete(4990);
    }
    expect(text).toBe(before);
    expect(db.stats().snapshots).toEqual([]);
    db.close();
  });

  test('a dump of a file is whole or not there; its layout makes the next file', async () => {
    const db = open(':memory:', { pageSize: 16_384 });
    fill(db, 7);
    const path = join(folder, 'whole.dump');
    await dumpToFile(db, path, { format: 'monochord' });
    expect(readFileSync(path, 'utf8')).toBe(await textOf(db));
    expect(layoutOfDump(path)).toEqual(db.layout);
    const signal = AbortSignal.abort();
    await expect(dumpToFile(db, path, { format: 'monochord', signal })).rejects.toMatchObject({
      code: 'limit.cancelled',
    });
    const missing = join(folder, 'none', 'x');
    await expect(dumpToFile(db, missing, { format: 'bdb' })).rejects.toMatchObject({
      code: 'storage.not_found',
    });
    expect(readdirSync(folder)).toEqual(['whole.dump']);
    expect(readFileSync(path, 'utf8')).toBe(await textOf(db));
    db.close();
  });

  test('a folder of one file a record loads back, and follows the database', async () => {
    const db = open(':memory:');
    fill(db, 8);
    db.kv('names').put('A', 1);
    db.kv('names').put('a', 2);
    db.kv('names').put(`${'x'.repeat(300)}1`, 3);
    db.kv('names').put(`${'x'.repeat(300)}2`, 4);
    db.kv('names').put('../up', 5);
    const path = join(folder, 'split');
    const records = await dumpToFolder(db, path);
    const copy = open(':memory:');
    expect((await load(copy, path, { format: 'monochord' })).records).toBe(records);
    expect(await textOf(copy)).toBe(await textOf(db));
    const names = readdirSync(join(path, 'names', 'records'));
    expect(new Set(names.map((name) => name.toLowerCase())).size).toBe(5);
    db.kv('names').delete('A');
    db.transaction((tx) => tx.changeSchema({ change: 'dropCollection', collection: 'all' }));
    await dumpToFolder(db, path);
    expect(existsSync(join(path, 'all'))).toBe(false);
    expect(readdirSync(join(path, 'names', 'records')).length).toBe(4);
    writeFileSync(join(folder, 'other.txt'), 'mine');
    await expect(dumpToFolder(db, folder)).rejects.toMatchObject({ code: 'usage.argument' });
    const wrong = join(path, 'names', 'records', 'a.json');
    writeFileSync(wrong, '[\n  "a",\n  2,\n]\n');
    const fresh = open(':memory:');
    await expect(load(fresh, path, { format: 'monochord' })).rejects.toMatchObject({
      position: { line: 4, column: 1 },
    });
    for (const each of [db, copy, fresh]) each.close();
  });

  test('fileName tells texts apart on every file system', () => {
    expect(fileName('a.b-c_1')).toBe('a.b-c_1');
    expect(fileName('Ab/é')).toBe('%41b%2f%c3%a9');
    for (const name of ['', '.', '..', 'con', 'nul.txt', 'x.'])
      expect(fileName(name)).toMatch(/^%/);
  });
});
