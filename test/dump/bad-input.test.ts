/**
 * Wrong texts: each is refused with a code, the file, the line and the column, and nothing of it is
 * loaded (`refusal` looks).
 */
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { setVerifying } from '../../src/base/assert.ts';
import { Database } from '../../src/database.ts';
import { load, type LoadOptions } from '../../src/dump/index.ts';
import { open } from '../../src/index.ts';
import { FaultFileSystem } from '../faults/fault-file.ts';
import { loaded, refusal, textOf } from './texts.ts';

const folder = mkdtempSync(join(tmpdir(), 'monochord-bad-'));
afterAll(() => rmSync(folder, { recursive: true }));

const HEAD = 'VERSION=3\nformat=bytevalue\ntype=btree\nHEADER=END\n';
const PRINT = HEAD.replace('bytevalue', 'print');
const GDBM = '# GDBM dump file created by x\n#:version=1.1\n# End of header\n';
const CSV = { format: 'csv', into: 'c', fields: { id: 'int', t: 'text?' }, key: 'id' } as const;
const LINES = { format: 'jsonl', into: 'c', lines: true } as const;
const TABLE = { format: 'jsonl', into: 'c', fields: { id: 'int', t: 'text?' }, key: 'id' } as const;

type Options = Partial<LoadOptions>;
const BDB: Options = { format: 'bdb', into: 'c' };
const G: Options = { format: 'gdbm', into: 'c' };

/** Name, text, options, code, line, column. */
const CASES: [string, string | Uint8Array, Options, string, number, number][] = [
  ['wrong first line', 'VERSION=2\n', BDB, 'syntax.unexpected', 1, 1],
  ['empty dump', '', BDB, 'syntax.incomplete', 1, 1],
  ['unknown format', HEAD.replace('bytevalue', 'hex'), BDB, 'syntax.unexpected', 2, 8],
  ['no format', 'VERSION=3\nHEADER=END\n', BDB, 'syntax.unexpected', 2, 1],
  ['a header name twice', 'VERSION=3\ntype=hash\ntype=hash\n', BDB, 'syntax.duplicate_name', 3, 1],
  ['header without end', 'VERSION=3\nformat=print\n', BDB, 'syntax.incomplete', 3, 1],
  ['odd hex', `${HEAD} 61\n 6\nDATA=END\n`, BDB, 'syntax.unexpected', 6, 2],
  ['no hex', `${HEAD} 61\n 6x\nDATA=END\n`, BDB, 'syntax.unexpected', 6, 3],
  ['missing end', `${HEAD} 61\n 62\n`, BDB, 'syntax.incomplete', 7, 1],
  ['missing value', `${HEAD} 61\nDATA=END\n`, BDB, 'syntax.unexpected', 6, 1],
  ['data without a space', `${HEAD}61\n`, BDB, 'syntax.unexpected', 5, 1],
  ['bad escape', `${PRINT} a\\q\n b\nDATA=END\n`, BDB, 'syntax.unexpected', 5, 3],
  ['mixed line ends', `${HEAD} 61\r\n 62\nDATA=END\n`, BDB, 'syntax.unexpected', 5, 4],
  ['a section behind garbage', `${HEAD}DATA=END\nx\n`, BDB, 'syntax.unexpected', 6, 1],
  ['gdbm: wrong first line', '#:len=1\n', G, 'syntax.unexpected', 1, 1],
  ['gdbm: wrong count', `${GDBM}#:count=1\n# End of data\n`, G, 'syntax.checksum', 4, 9],
  ['gdbm: no end', `${GDBM}#:len=1\nYQ==\n`, G, 'syntax.incomplete', 6, 1],
  ['gdbm: wrong length', `${GDBM}#:len=9\nYQ==\n#:len=1\n`, G, 'syntax.unexpected', 6, 1],
  ['gdbm: no base64', `${GDBM}#:len=1\nYQ*=\n`, G, 'syntax.unexpected', 5, 3],
  [
    'gdbm: a key without value',
    `${GDBM}#:len=1\nYQ==\n#:count=0\n# End of data\n`,
    G,
    'syntax.unexpected',
    6,
    1,
  ],
  [
    'gdbm binary: cut',
    '!\r\n! x\r\n!\r\n\0\0\0\x01\0\0\0\0a\0\0\0\x05\0\0\0\0ab',
    { format: 'gdbm-binary', into: 'c' },
    'syntax.incomplete',
    1,
    29,
  ],
  ['json: beyond 64 bits', '{"a":9223372036854775808}', LINES, 'value.out_of_range', 1, 6],
  ['json: beyond floats', '1\n[1e999]\n', LINES, 'value.out_of_range', 2, 2],
  ['json: a name twice', '{"a":1,"a":2}', LINES, 'syntax.duplicate_name', 1, 8],
  ['json: half a pair', '["\\ud800"]', LINES, 'value.text', 1, 2],
  ['json: not UTF-8', Uint8Array.of(34, 0xc3, 0xa4, 0xff, 34), LINES, 'syntax.encoding', 1, 3],
  ['json: a mark inside', '1\n\ufeff2\n', LINES, 'syntax.unexpected', 2, 1],
  ['json: cut', '{"a":[1,', LINES, 'syntax.incomplete', 1, 9],
  ['json: too deep', '['.repeat(600), LINES, 'value.size', 1, 504],
  ['json: mixed line ends', '1\n2\r\n', LINES, 'syntax.unexpected', 2, 2],
  ['json: wrong kind', '{"id":"x"}', TABLE, 'value.type', 1, 1],
  ['json: unknown field', '{"id":1}\n{"id":2,"tt":""}', TABLE, 'schema.unknown_field', 2, 1],
  ['csv: quote behind a quote', 'id,t\n1,"a"b\n', CSV, 'syntax.unexpected', 2, 6],
  ['csv: quote inside', 'id,t\n1,a"b\n', CSV, 'syntax.unexpected', 2, 4],
  ['csv: never closed', 'id,t\n1,"a\n2,b\n', CSV, 'syntax.incomplete', 2, 3],
  ['csv: closed lines later', 'id,t\n1,"a\n2,"b"\n', CSV, 'syntax.unexpected', 2, 3],
  ['csv: mixed record ends', 'id,t\r\n1,a\n', CSV, 'syntax.unexpected', 2, 4],
  ['csv: a field too many', 'id,t\n1,a,b\n', CSV, 'syntax.unexpected', 2, 5],
  ['csv: no number', 'id,t\n1,a\nx,b\n', CSV, 'value.type', 3, 1],
  ['csv: beyond 64 bits', 'id,t\n9223372036854775808,b\n', CSV, 'value.out_of_range', 2, 1],
  ['csv: unknown column', 'id,tt\n', CSV, 'schema.unknown_field', 1, 4],
  ['csv: a column twice', 'id,t,id\n', CSV, 'syntax.duplicate_name', 1, 6],
  ['csv: required field', 't\nx\n', { ...CSV, key: 't' }, 'constraint.required', 1, 1],
  ['csv: no header', '', CSV, 'syntax.incomplete', 1, 1],
];

describe('a load refuses', () => {
  test.each(CASES)('%s', async (_name, text, options, code, line, column) => {
    const error = await refusal(text, options);
    expect({ code: error.code, ...error.position }).toEqual({ code, line, column });
    expect(error.message).toContain(`text:${line}:${column}: `);
  });

  test('a changed, cut or extended dump of its own', async () => {
    const db = open(':memory:');
    db.kv('v').put('a', 'one');
    db.kv('v').put('b', 'two');
    const text = await textOf(db);
    db.close();
    const lineOf = (part: string): number => text.slice(0, text.indexOf(part)).split('\n').length;
    const code = async (changed: string): Promise<string> => {
      const { code: found, position } = await refusal(changed);
      return `${found} ${position!.line}`;
    };
    const end = lineOf('\nend ') + 1;
    expect(await code(text.replace('one', 'eno'))).toBe(`syntax.checksum ${end}`);
    expect(await code(text.replace('["b","two"]\n', ''))).toBe(`syntax.checksum ${end - 1}`);
    expect(await code(text.replace('"type":"text"', '"type":"json"'))).toMatch('syntax.checksum');
    expect(await code(text.slice(0, text.indexOf('complete')))).toMatch('syntax.incomplete');
    expect(await code(text.slice(0, text.indexOf('end ')))).toMatch('syntax.incomplete');
    expect(await code(text.replace('"sections":1', '"sections":2'))).toMatch('syntax.checksum');
    expect(await code(`${text}more\n`)).toMatch('syntax.unexpected');
    expect(await code(text.replace('dump 1', 'dump 2'))).toBe('syntax.unexpected 1');
    expect(await code(text.replace('"b+tree","order":0,"c', '"heap","order":0,"c'))).toMatch(
      /^usage\.(?:argument|layout) /,
    );
    expect(await code(text.replaceAll('\n', '\r\n').replace('"]\r\n', '"]\n'))).toMatch(
      'syntax.unexpected',
    );
  });

  test('what does not say where it goes or what it is', async () => {
    for (const options of [
      { format: 'jsonl', into: 'c' },
      { format: 'bdb' },
      { format: 'xml', into: 'c' },
      { format: 'csv', into: 'c', delimiter: '"' },
      { format: 'csv', into: 'c', header: false },
      { format: 'jsonl', into: 'c', key: 'id' },
      { format: 'jsonl', intoo: 'c' },
    ]) {
      expect((await refusal(`${HEAD}DATA=END\n`, options as never)).code).toBe('usage.argument');
    }
    const two = `${HEAD}DATA=END\n${HEAD}DATA=END\n`;
    expect((await refusal(two, BDB)).message).toContain('several sections');
  });

  test('a key that exists twice, by line where the text is a file', async () => {
    const csv = 'id,t\n1,a\n2,b\n\n3,c\n2,"d\ne"\n4,f\n';
    const path = join(folder, 'twice.csv');
    writeFileSync(path, csv);
    const db = open(':memory:');
    await expect(load(db, path, CSV)).rejects.toMatchObject({
      code: 'constraint.unique',
      position: { line: 6 },
    });
    await expect(loaded(db, csv, CSV)).rejects.toMatchObject({ code: 'constraint.unique' });
    expect((await load(db, path, { ...CSV, onDuplicate: 'keep' })).records).toBe(5);
    await expect(load(db, path, { format: 'csv', into: 'c' })).rejects.toMatchObject({
      code: 'constraint.unique',
      detail: { file: path },
    });
    expect(db.collection('c', { fields: { id: 'int', t: 'text?' }, key: 'id' }).count()).toBe(4);
    db.close();
  });

  test('a value that a unique index has already, by line where the text is a file', async () => {
    const path = join(folder, 'unique.csv');
    writeFileSync(path, 'id,t\n1,a\n2,b\n3,a\n');
    const db = open(':memory:');
    const unique = { fields: { id: 'int', t: 'text?' }, key: 'id', unique: ['t'] } as const;
    const c = db.collection('c', unique);
    const into = { format: 'csv', into: 'c' } as const;
    const error: unknown = await load(db, path, into).catch((cause: unknown) => cause);
    expect(error).toMatchObject({ code: 'constraint.unique', position: { line: 4 } });
    expect((error as Error).message).toContain('c.t: "a"');
    expect(c.count()).toBe(0);
    c.insert({ id: 9, t: 'b' });
    await expect(load(db, path, into)).rejects.toMatchObject({ code: 'constraint.unique' });
    expect(c.all().toArray()).toEqual([{ id: 9, t: 'b' }]);
    db.close();
  });

  test('integers beyond 2^53 are kept to the last digit, in every format', async () => {
    const value = 2n ** 53n + 1n;
    for (const [text, options] of [
      [`{"id":${value}}\n`, TABLE],
      [`[{"id":${value}}]`, { ...TABLE, format: 'json' }],
      [`id,t\n${value},\n`, CSV],
    ] as const) {
      const db = open(':memory:');
      await loaded(db, text, options);
      const c = db.collection('c', { fields: { id: 'int', t: 'text?' }, key: 'id' });
      expect(c.get(value as never)).toEqual({ id: value, t: null });
      db.close();
    }
  });

  test('a key that is too long, with its line', async () => {
    const long = '61'.repeat(2 ** 20 + 1);
    const error = await refusal(`${HEAD} 61\n 62\n ${long}\n 62\nDATA=END\n`, BDB);
    expect({ code: error.code, line: error.position?.line }).toEqual({
      code: 'value.size',
      line: 8,
    });
    const keyed = { into: 'c', fields: { k: 'text' }, key: 'k' } as const;
    for (const [text, format] of [
      [`k\na\n${long}\n`, 'csv'],
      [`{"k":"a"}\n\n{"k":"${long}"}\n`, 'jsonl'],
      [`[{"k":"a"},\n\n{"k":"${long}"}]`, 'json'],
    ] as const) {
      const { code, position } = await refusal(text, { ...keyed, format });
      expect({ code, line: position?.line }).toEqual({ code: 'value.size', line: 3 });
    }
  });

  test('a value larger than a load may sort, with its line and what to do', async () => {
    const path = join(folder, 'large.jsonl');
    const into = { format: 'jsonl', into: 'c', keys: 'text', values: 'text' } as const;
    const db = open(':memory:', { memory: '4 MiB' });
    let error: unknown;
    for (const bytes of [2e6, 3e6, 20e6]) {
      const large = `{"key":"b","value":"${'x'.repeat(bytes)}"}\n`;
      writeFileSync(path, `{"key":"a","value":"1"}\n${large}{"key":"c","value":"2"}\n`);
      error = await load(db, path, into).catch((cause: unknown) => cause);
      expect(error).toMatchObject({ code: 'limit.memory', position: { line: 2 } });
      expect((error as Error).message).toContain('large.jsonl:2:1: a record of ');
      expect(db.source.schema(2 ** 53).collections).toEqual([]);
    }
    expect((error as { hint?: string }).hint).toContain('put this record by itself');
    db.kv('c', { values: 'text' }).put('b', 'x'.repeat(3e6));
    expect(db.check().faults).toEqual([]);
    db.close();
  });

  test('a broken quote at line 40,000 of a CSV, naming that line', async () => {
    function* text(): Generator<Uint8Array> {
      yield Buffer.from('id,t\n');
      for (let line = 2; line <= 60_000; line += 1000) {
        const rows = Array.from({ length: 1000 }, (_, i) =>
          line + i === 40_000 ? `${line + i},"open\n` : `${line + i},a field of text\n`,
        );
        yield Buffer.from(rows.join(''));
      }
    }
    const db = open(':memory:');
    setVerifying(false); // it is long, and what is looked at is the text
    try {
      await expect(load(db, text(), { ...CSV, name: 'text' })).rejects.toMatchObject({
        code: 'syntax.incomplete',
        position: { line: 40_000, column: 7 },
      });
    } finally {
      setVerifying(true);
    }
    expect(db.source.schema(2 ** 53).collections).toEqual([]);
    db.close();
  });

  test('more than a full disk takes; the database goes on', async () => {
    const fs = new FaultFileSystem({ seed: 1 });
    const db = new Database('full.mono', { memory: '2 MiB' }, fs);
    db.kv('before').put('a', 1);
    db.checkpoint();
    fs.inject({ operation: 'write', kind: 'full', at: 3, times: Infinity });
    const noise = Array.from({ length: 4000 }, (_, i) => {
      const value = createHash('sha256').update(String(i)).digest('hex').repeat(8);
      return `{"key":"${i}","value":"${value}"}\n`;
    });
    const text = [Buffer.from(noise.join(''))];
    await expect(
      load(db, text, { format: 'jsonl', into: 'c', keys: 'text', values: 'text' }),
    ).rejects.toMatchObject({ code: 'storage.full' });
    expect(db.source.schema(2 ** 53).collections.map((each) => each.name)).toEqual(['before']);
    fs.clearFaults();
    db.kv('before').put('b', 2);
    expect(db.check().faults).toEqual([]);
    db.close();
  });

  test('to go on when it is cancelled', async () => {
    const db = open(':memory:');
    const controller = new AbortController();
    function* endless(): Generator<Uint8Array> {
      for (let i = 0; ; i++) {
        if (i === 20) controller.abort();
        yield Buffer.from(`${i}\n`.repeat(100));
      }
    }
    await expect(
      load(db, endless(), { ...LINES, signal: controller.signal }),
    ).rejects.toMatchObject({ code: 'limit.cancelled' });
    expect(db.source.schema(2 ** 53).collections).toEqual([]);
    db.close();
  });
});
