/** Whole JSON documents: lists of records and objects of lists, in chunks, and what is refused. */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { Random } from '../../src/base/random.ts';
import { load, type LoadOptions, type Reject } from '../../src/dump/index.ts';
import { open } from '../../src/index.ts';
import { loaded, pieces, refusal, textOf } from './texts.ts';

const FIELDS = { id: 'int', t: 'text?' } as const;
const INTO: Partial<LoadOptions> = { format: 'json', into: 'c', fields: FIELDS, key: 'id' };
const NUMBERED: Partial<LoadOptions> = { format: 'json', into: 'c', lines: true };

describe('a load of a JSON document', () => {
  test('takes a list of records in any white space, and comes back', async () => {
    const db = open(':memory:');
    const text = '\ufeff [\r\n {"id": 1, "t": "a ]}\\" 😀"}\t,{"t":null,\n"id":2}\n,{"id":3}]\n ';
    for (const size of [1, 2, 3, 5, 1000]) {
      const copy = open(':memory:');
      const report = await load(copy, pieces(text, size), { ...INTO, format: 'json' });
      expect(report.records).toBe(3);
      const c = copy.collection('c', { fields: FIELDS, key: 'id' });
      expect(c.get(1)).toEqual({ id: 1, t: 'a ]}" 😀' });
      const out = await textOf(copy, { format: 'json' });
      expect(out).toBe('[\n{"id":1,"t":"a ]}\\" 😀"},\n{"id":2,"t":null},\n{"id":3,"t":null}\n]\n');
      expect(JSON.parse(out)).toHaveLength(3);
      copy.close();
    }
    expect(await loaded(db, '[]', INTO)).toBe(0);
    expect(await textOf(db, { format: 'json' })).toBe('[]\n');
    db.close();
  });

  test('takes an object of lists as a section each, or one list of an object', async () => {
    const db = open(':memory:');
    const text = '{"a":[{"id":1}], "b" : [ {"id":2} , {"id":3} ],"":[]}';
    for (const name of ['a', 'b', '']) {
      if (name !== '') db.collection(name, { fields: FIELDS, key: 'id' }).count();
    }
    const error = await loaded(db, text, { format: 'json' }).catch((cause: unknown) => cause);
    expect(error).toMatchObject({ code: 'usage.argument' }); // "" is no collection
    const report = await load(db, pieces(text.replace(',"":[]', '')), { format: 'json' });
    expect(report.sections.map((each) => [each.collection, each.records])).toEqual([
      ['a', 1],
      ['b', 2],
    ]);
    const mixed = '{"count":2,"deep":{"b":[[1],"]"]},"rows":[{"id":7}],"more":"x\\"]}"}';
    const fault = await refusal(mixed, INTO);
    expect(fault).toMatchObject({ code: 'syntax.unexpected', position: { line: 1, column: 10 } });
    expect(fault.hint).toContain('--list');
    const fresh = open(':memory:');
    expect(await loaded(fresh, mixed, { ...INTO, list: 'rows' })).toBe(1);
    expect(await textOf(fresh, { format: 'jsonl' })).toBe('{"id":7,"t":null}\n');
    db.close();
    fresh.close();
  });

  test('stores values under their numbers, and reads what JSON.parse reads', async () => {
    const random = new Random(3);
    const value = (depth: number): unknown => {
      const kind = random.below(depth > 3 ? 4 : 6);
      if (kind === 0) return random.below(1000) - 500;
      if (kind === 1) return random.pick(['', 'a"b\\', '[{', '}]', 'é😀\n', ',:']);
      if (kind === 2) return random.pick([true, false, null, 0.5]);
      if (kind === 3) return random.pick([[], {}, [[]], { '': {} }]);
      const many = Array.from({ length: random.below(4) }, () => value(depth + 1));
      return kind === 4 ? many : Object.fromEntries(many.map((each, i) => [`n${i}`, each]));
    };
    for (let round = 0; round < 40; round++) {
      const list = Array.from({ length: random.below(6) }, () => value(0) ?? 0);
      const text = JSON.stringify(list, undefined, random.pick([0, 1, '\t']));
      const db = open(':memory:');
      await load(db, pieces(text, 1 + random.below(9)), { ...NUMBERED, format: 'json' });
      const found = Array.from(db.kv<number>('c').range(), ([, each]) => each);
      expect(found).toEqual(list);
      db.close();
    }
  });

  test('gives records that cannot be stored to onReject, and goes on behind them', async () => {
    const db = open(':memory:');
    const rejects: Reject[] = [];
    const onReject = (reject: Reject): number => rejects.push(reject);
    const text = '[{"id":1},\n{"id":"x"},\n {"id":2,"tt":1},{"id":4,"id":5},{"id":3}]';
    expect(await loaded(db, text, { ...INTO, onReject })).toBe(2);
    expect(rejects.map(({ line, column, code }) => [line, column, code])).toEqual([
      [2, 1, 'value.type'],
      [3, 2, 'schema.unknown_field'],
      [3, 26, 'syntax.duplicate_name'],
    ]);
    expect(rejects[0]!.text).toBe('{"id":"x"}');
    db.close();
    const broken = await refusal('[{"id":1},{"id":,},{"id":2}]', { ...INTO, onReject });
    expect(broken).toMatchObject({ code: 'syntax.unexpected', position: { column: 17 } });
  });

  test('names line and column of the second of two keys in a file', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'monochord-json-'));
    const path = join(folder, 'twice.json');
    writeFileSync(path, '[{"id":1},\n {"id":2},\n  {"id":1}]');
    const db = open(':memory:');
    await expect(load(db, path, { ...INTO, format: 'json' })).rejects.toMatchObject({
      code: 'constraint.unique',
      position: { line: 3, column: 3 },
    });
    expect(db.source.schema(2 ** 53).collections).toEqual([]);
    db.close();
    rmSync(folder, { recursive: true });
    expect(existsSync(path)).toBe(false);
  });

  /** Text, options, code, line, column. */
  const CASES: [string, Partial<LoadOptions>, string, number, number][] = [
    ['', INTO, 'syntax.incomplete', 1, 1],
    [' \n', INTO, 'syntax.incomplete', 2, 1],
    ['7', INTO, 'syntax.unexpected', 1, 1],
    ['[', INTO, 'syntax.incomplete', 1, 2],
    ['[{"id":1}', INTO, 'syntax.incomplete', 1, 10],
    ['[{"id":1},', INTO, 'syntax.incomplete', 1, 11],
    ['[{"id":1},]', INTO, 'syntax.unexpected', 1, 11],
    ['[,{"id":1}]', INTO, 'syntax.unexpected', 1, 2],
    ['[{"id":1}\n{"id":2}]', INTO, 'syntax.unexpected', 2, 1],
    ['[{"id":1}]\n]', INTO, 'syntax.unexpected', 2, 1],
    ['[{"id":1}}]', INTO, 'syntax.unexpected', 1, 10],
    ['[{"id":1]]', INTO, 'syntax.unexpected', 1, 9],
    ['[{"id":1},{"id"', INTO, 'syntax.incomplete', 1, 16],
    ['[1 2]', NUMBERED, 'syntax.unexpected', 1, 4],
    ['[1"a"]', NUMBERED, 'syntax.unexpected', 1, 3],
    ['["é😀", tru]', NUMBERED, 'syntax.unexpected', 1, 12],
    ['["a\nb"]', NUMBERED, 'syntax.unexpected', 1, 4],
    ['[\n"a', NUMBERED, 'syntax.incomplete', 2, 3],
    [`[${'['.repeat(100_000)}`, NUMBERED, 'value.size', 1, 505],
    ['[1,9223372036854775808]', NUMBERED, 'value.out_of_range', 1, 4],
    ['{"a":1}', INTO, 'syntax.unexpected', 1, 6],
    ['{"a":[{"id":1}],"a":[]}', INTO, 'syntax.duplicate_name', 1, 17],
    ['{"a":[{"id":1}],"b":[]}', INTO, 'usage.argument', 1, 17],
    ['{"a" []}', INTO, 'syntax.unexpected', 1, 6],
    ['{a:[]}', INTO, 'syntax.unexpected', 1, 2],
    ['{"a":[]', INTO, 'syntax.incomplete', 1, 8],
    ['{"a":[],}', INTO, 'syntax.unexpected', 1, 9],
    ['{"a":[]}', { ...INTO, list: 'b' }, 'syntax.unexpected', 1, 9],
    ['{"b":[],"a":[', { ...INTO, list: 'b' }, 'syntax.incomplete', 1, 14],
    ['[]', { ...INTO, list: 'b' }, 'syntax.unexpected', 1, 1],
  ];
  test.each(CASES)('refuses %j', async (text, options, code, line, column) => {
    const error = await refusal(text, options);
    expect({ code: error.code, ...error.position }).toEqual({ code, line, column });
    expect(error.message).toContain(`text:${line}:${column}: `);
  });

  test('refuses what is not UTF-8, where it stands', async () => {
    const bytes = Buffer.concat([Buffer.from('[1,\n "é'), Uint8Array.of(0xff), Buffer.from('"]')]);
    const error = await refusal(bytes, NUMBERED);
    expect(error).toMatchObject({ code: 'syntax.encoding', position: { line: 2, column: 4 } });
  });
});
