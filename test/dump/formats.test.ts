/** Formats of others, JSON Lines and CSV: what is read and written, and what becomes of it. */
import { parse as libraryParse } from 'csv-parse/sync';
import { describe, expect, test } from 'vitest';
import { Random } from '../../src/base/random.ts';
import { CsvReader, csvField } from '../../src/dump/csv.ts';
import { parseJson, parseJsonBytes, type Reject } from '../../src/dump/index.ts';
import { LineReader } from '../../src/dump/line-reader.ts';
import {
  Duration,
  float,
  LocalDate,
  open,
  Point,
  type Value,
  type ZonedDateTime,
} from '../../src/index.ts';
import { loaded, pieces, textOf } from './texts.ts';

const PLACE = { file: 'text', line: 1, column: 1 };
const bytes = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, 'latin1'));

describe('db_dump and mdb_dump', () => {
  test('several databases become buckets of their names, and come back', async () => {
    const text =
      'VERSION=3\nformat=print\ndatabase=one\ntype=btree\nHEADER=END\n a\\00\n \\\\\nDATA=END\n' +
      'VERSION=3\nformat=bytevalue\ndatabase=tw\\c3\\b6\ntype=hash\nHEADER=END\n 62\n \n' +
      ' 61\n 00ff\nDATA=END\n';
    const db = open(':memory:');
    expect(await loaded(db, text, { format: 'bdb' })).toBe(3);
    expect([...db.kv('one').range()]).toEqual([[bytes('a\0'), bytes('\\')]]);
    expect([...db.kv('twö').range()].map(([key]) => key as unknown)).toEqual([
      bytes('a'),
      bytes('b'),
    ]);
    const again = await textOf(db, { format: 'bdb-print' });
    expect(again).toContain('database=tw\\c3\\b6\n');
    const copy = open(':memory:');
    await loaded(copy, again, { format: 'bdb' });
    expect(await textOf(copy)).toBe(await textOf(db));
    db.close();
    copy.close();
  });

  test('keys with several values become a set of pairs, which dumps as it came', async () => {
    const head =
      'VERSION=3\nformat=bytevalue\ntype=btree\nduplicates=1\ndupsort=1\ndb_pagesize=4096\n';
    const text = `${head}HEADER=END\n 61\n 01\n 61\n 02\n 62\n 01\nDATA=END\n`;
    const db = open(':memory:');
    await loaded(db, text, { format: 'bdb', into: 'set' });
    expect(await textOf(db, { format: 'bdb', collections: ['set'] })).toBe(text);
    expect(await textOf(db, { format: 'lmdb' })).toMatch(/duplicates=1\nmapsize=/);
    await expect(textOf(db, { format: 'gdbm' })).rejects.toThrow('one value a key');
    db.close();
  });

  test('record numbers are integer keys, given or counted', async () => {
    const head = 'VERSION=3\nformat=print\ntype=recno\n';
    const db = open(':memory:');
    await loaded(db, `${head}HEADER=END\n a\n b\nDATA=END\n`, { format: 'bdb', into: 'n' });
    await loaded(db, `${head}keys=1\nHEADER=END\n 7\n c\nDATA=END\n`, { format: 'bdb', into: 'n' });
    const entries = [...db.kv<number>('n').range()].map(([key]) => key);
    expect(entries).toEqual([1, 2, 7]);
    expect(await textOf(db, { format: 'bdb' })).toContain('keys=1\n');
    db.close();
  });

  test('a backslash is read as each tool writes it', async () => {
    const body = 'HEADER=END\n k\n a\\b\\5c\\41\\0a\nDATA=END\n';
    const db = open(':memory:');
    const lmdb = `VERSION=3\nformat=print\nmapsize=1048576\n${body}`;
    await loaded(db, lmdb, { format: 'lmdb-print', into: 'v', keys: 'text', values: 'text' });
    expect(db.kv('v').get('k')).toBe('a\\b\\\\41\n');
    const again = await textOf(db, { format: 'lmdb-print' });
    expect(again).toContain(' a\\5cb\\5c\\5c41\\0a\n');
    db.close();
  });

  test('only bytes, texts and record numbers go out', async () => {
    const db = open(':memory:');
    db.kv('v').put('a', 1);
    await expect(textOf(db, { format: 'bdb' })).rejects.toThrow('v: value is json');
    db.close();
  });
});

describe('JSON', () => {
  test('parseJson keeps 64-bit integers and the kind of floats', () => {
    const text = '[1, -0, 5.0, 9007199254740993, -9223372036854775808, 1e3, 0.1, 1E400]';
    expect(parseJson(text, PLACE, { numbers: 'text' })).toEqual([
      1,
      -0,
      float(5),
      9007199254740993n,
      -(2n ** 63n),
      float(1000),
      0.1,
      '1E400',
    ]);
    expect(parseJson('9223372036854775808', PLACE, { numbers: 'nearest' })).toBe(2 ** 63);
  });

  test('parseJson reads names and texts as they are', () => {
    expect(parseJson('{"__proto__":{"a":"\\ud83d\\ude00\\/"}}', PLACE)).toEqual(
      JSON.parse('{"__proto__":{"a":"😀/"}}'),
    );
    expect(parseJson('{"a":1,"a":2}', PLACE, { duplicateNames: 'last' })).toEqual({ a: 2 });
    expect(parseJsonBytes(Uint8Array.of(0xef, 0xbb, 0xbf, 0x31), PLACE)).toBe(1);
  });

  test('JSON Lines: fields by their types, and back', async () => {
    const db = open(':memory:');
    const fields = {
      id: 'int',
      d: 'date?',
      b: 'bytes?',
      f: 'float?',
      p: 'point?',
      z: 'datetime?',
      j: 'json?',
    } as const;
    const text =
      '{"id":1,"d":"2020-02-29","b":"AQI=","f":2.0,"p":{"srid":4326,"x":1.5,"y":2},' +
      '"z":"2020-01-01T23:30:00+01:00[Europe/London]","j":{"a":[1,1.0]}}\n\n' +
      '{"id":9007199254740993,"f":3}\n';
    const settings = { format: 'jsonl', into: 'c', fields, key: 'id' } as const;
    await loaded(db, text, settings);
    const c = db.collection('c', { fields, key: 'id' });
    expect(c.get(1)).toMatchObject({ d: LocalDate.of(2020, 2, 29), p: new Point(4326, 1.5, 2) });
    expect((c.get(1) as { z: ZonedDateTime }).z.toString()).toContain('23:30:00+01:00[Europe');
    const out = await textOf(db, { format: 'jsonl' });
    expect(out).toContain('"f":3.0');
    const copy = open(':memory:');
    await loaded(copy, out, settings);
    expect(await textOf(copy)).toBe(await textOf(db));
    db.close();
    copy.close();
  });

  test('JSON Lines: kinds that JSON lacks are refused, or written in forms', async () => {
    const db = open(':memory:');
    const value = { d: new Duration(1, -2, -3, 500_000_000), n: NaN, m: { $date: 'x' } };
    db.kv('v').put('a', value);
    await expect(textOf(db, { format: 'jsonl' })).rejects.toMatchObject({ code: 'value.type' });
    const text = await textOf(db, { format: 'jsonl', extended: true });
    const copy = open(':memory:');
    const into = { format: 'jsonl', into: 'v', keys: 'text', extended: true } as const;
    await loaded(copy, text, into);
    expect(copy.kv('v').get('a')).toEqual(value);
    db.close();
    copy.close();
  });
});

describe('CSV', () => {
  test('fields by their types, null and the empty text told apart, and back', async () => {
    const db = open(':memory:');
    const fields = { id: 'int', t: 'text?', f: 'float?', n: 'number?', j: 'json?' } as const;
    const text =
      '\ufeffid;t;f;n;j\r\n1;"a ""q""\n;b";NaN;1.0;"{""a"":1}"\r\n' +
      '2;NULL;;7;\r\n3;"";-Infinity;;\r\n';
    const options = { format: 'csv', into: 'c', fields, key: 'id', delimiter: ';' } as const;
    await expect(loaded(db, text, { ...options, null: 'NULL' })).rejects.toThrow(
      'text:4:8: f takes float, not ""',
    );
    const fixed = text
      .replace('NULL;;7;', 'NULL;NULL;7;NULL')
      .replace('Infinity;;', 'Infinity;NULL;NULL');
    await loaded(db, fixed, { ...options, null: 'NULL' });
    const out = await textOf(db, { format: 'csv', delimiter: ';', null: 'NULL', crlf: true });
    expect(out).toBe(fixed.slice(1));
    db.close();
  });

  test('records that cannot be stored go to onReject with their lines', async () => {
    const db = open(':memory:');
    const rejects: Reject[] = [];
    const text = 'id,t\n1,a\nx,b\n2,"c\nd"\n3\n4,e\n';
    const records = await loaded(db, text, {
      format: 'csv',
      into: 'c',
      fields: { id: 'int', t: 'text' },
      key: 'id',
      onReject: (reject) => rejects.push(reject),
    });
    expect(records).toBe(3);
    expect(rejects.map(({ line, code, text: of }) => [line, code, of])).toEqual([
      [3, 'value.type', 'x,b'],
      [6, 'syntax.unexpected', '3'],
    ]);
    db.close();
  });

  test('CsvReader reads what a library reads', async () => {
    const random = new Random(5);
    for (let round = 0; round < 60; round++) {
      const end = random.pick(['\n', '\r\n']);
      const columns = random.between(1, 4);
      const rows = Array.from({ length: random.between(1, 5) }, () =>
        Array.from({ length: columns }, () => {
          const letters = Array.from({ length: random.below(5) }, () =>
            random.pick(['a', '"', ',', '\n', '\r\n', ' ', 'é', '😀']),
          );
          return letters.join('');
        }),
      );
      const text = rows.map((row) => row.map((f) => csvField(f, ',', '')).join(',') + end).join('');
      const reader = new CsvReader(new LineReader(pieces(text, 3), 'text'), ',');
      const own: string[][] = [];
      for (let row = await reader.next(); row !== undefined; row = await reader.next())
        own.push(row.map((field) => field.text));
      expect(own).toEqual(libraryParse(text));
      expect(own).toEqual(rows);
    }
  });
});

test('values of buckets keep their kinds through every text', async () => {
  const db = open(':memory:');
  const values: Value[] = [true, 0.5, 'x', [null, {}], { a: new Point(1, 2, 3, 4) }];
  values.forEach((value, i) => db.kv<number>('v', { keys: 'int' }).put(i, value));
  const copy = open(':memory:');
  await loaded(copy, await textOf(db), { into: 'renamed' });
  expect([...copy.kv<number>('renamed').range()].map(([, value]) => value)).toEqual(values);
  db.close();
  copy.close();
});
