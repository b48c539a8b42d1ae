/** Key-value access: what each call returns, lends, orders, elides and refuses. */
import { describe, expect, test } from 'vitest';
import type { KeyValue } from '../../src/kv/key-value.ts';
import { codeOf, errorOf, openDatabase } from '../database/open-database.ts';
import { FaultFileSystem } from '../faults/fault-file.ts';

function fruits(): KeyValue<string, number> {
  const bucket = openDatabase().kv<string, number>('fruits', { values: 'int' });
  for (const [i, name] of ['apple', 'banana', 'cherry', 'date'].entries()) bucket.put(name, i);
  return bucket;
}

const keysOf = <K>(entries: Iterable<[K, unknown]>): K[] => Array.from(entries, ([key]) => key);

describe('KeyValue.get', () => {
  test('returns undefined for a missing key and a missing bucket', () => {
    const db = openDatabase();
    const bucket = db.kv('none');
    expect(bucket.get('x')).toBeUndefined();
    expect(bucket.has('x')).toBe(false);
    expect(bucket.delete('x')).toBe(false);
    expect(bucket.count()).toBe(0);
    expect(bucket.first()).toBeUndefined();
    expect([...bucket.range()]).toEqual([]);
    expect(bucket.view('x', () => 1)).toBeUndefined();
    expect(bucket.deleteRange()).toBe(0);
    expect(db.stats().commits, 'reading makes no bucket').toBeLessThanOrEqual(1);
  });

  test('names of options that are not known are refused, also where there is no bucket yet', () => {
    const db = openDatabase();
    const bucket = db.kv('none');
    const bad = { from: 'a' } as never;
    expect(codeOf(() => db.kv('none', { value: 'int' } as never))).toBe('usage.argument');
    expect(codeOf(() => db.kv('none', { layout: { ordr: 4 } } as never))).toBe('usage.argument');
    expect(codeOf(() => bucket.range(bad))).toBe('usage.argument');
    expect(codeOf(() => bucket.keys(bad))).toBe('usage.argument');
    expect(codeOf(() => bucket.count(bad))).toBe('usage.argument');
    expect(codeOf(() => bucket.first(bad))).toBe('usage.argument');
  });

  test('returns a copy that the caller may change', () => {
    const bucket = openDatabase().kv<string, Uint8Array>('b', { values: 'bytes' });
    const given = Uint8Array.of(1, 2, 3);
    bucket.put('k', given);
    given[0] = 9;
    const found = bucket.get('k')!;
    expect([...found]).toEqual([1, 2, 3]);
    found[1] = 9;
    expect([...bucket.get('k')!]).toEqual([1, 2, 3]);
  });

  test('returns values of every kind of JSON as they were put', () => {
    const bucket = openDatabase().kv('json');
    const values = [
      null,
      true,
      0,
      -1.5,
      2n ** 60n,
      'text',
      [1, [2]],
      { a: { b: [null, 'c'] }, '': 1 },
    ] as const;
    for (const [i, value] of values.entries()) {
      if (value === null) continue; // a bucket of required values refuses it, see below
      bucket.put(`k${i}`, value);
      expect(bucket.get(`k${i}`)).toEqual(value);
    }
    expect(codeOf(() => bucket.put('null', null))).toBe('constraint.required');
  });

  test('finds a long key as the first thing that a handle does', () => {
    // A key that outgrew the scratch was looked up in the bytes it had before.
    const disk = new FaultFileSystem({ seed: 1 });
    for (const length of [100, 1500, 20_000, 1_000_000]) {
      const key = 'k'.repeat(length);
      const first = openDatabase({}, disk);
      first.kv<string, number>('b', { values: 'int' }).put(key, length);
      first.close();
      const db = openDatabase({}, disk);
      const bucket = db.kv<string, number>('b');
      expect(bucket.get(key)).toBe(length);
      expect(bucket.get(key), 'and again').toBe(length);
      expect(bucket.has(key)).toBe(true);
      expect(bucket.view(key, (bytes) => bytes.length > 0)).toBe(true);
      db.close();
    }
  });

  test('finds what a large value spans over many pages', () => {
    const bucket = openDatabase({ memory: '4 MiB' }).kv<string, Uint8Array>('big', {
      values: 'bytes',
    });
    const large = new Uint8Array(700_000).map((_, i) => i * 7);
    bucket.put('large', large);
    expect(Buffer.compare(bucket.get('large')!, large)).toBe(0);
    expect(bucket.view('large', (bytes) => bytes.length)).toBe(large.length);
  });
});

describe('KeyValue.getMany', () => {
  test('returns values in the order of the keys, undefined where there is none', () => {
    const bucket = fruits();
    expect(bucket.getMany(['date', 'none', 'apple', 'date'])).toEqual([3, undefined, 0, 3]);
    expect(bucket.getMany(new Set(['cherry']))).toEqual([2]);
  });
});

describe('KeyValue.put', () => {
  test('elides a value that is equal, and the commit logs nothing', () => {
    const db = openDatabase();
    const bucket = db.kv('b', { values: 'text' });
    bucket.put('k', 'same');
    const before = db.stats();
    bucket.put('k', 'same');
    const after = db.stats();
    expect(after.logBytes).toBe(before.logBytes);
    expect(after.commitSyncs).toBe(before.commitSyncs);
    expect(after.commitId).toBe(before.commitId);
    expect(after.putsElided - before.putsElided).toBe(1);
    bucket.put('k', 'other');
    expect(db.stats().putsElided).toBe(after.putsElided);
  });

  test('outside a transaction commits by itself', () => {
    const db = openDatabase();
    const bucket = db.kv('b', { values: 'int' });
    const { commitId } = db.stats();
    bucket.put('a', 1);
    expect(db.stats().commitId).toBe(commitId + 1);
    expect(db.stats().commitSyncs).toBeGreaterThan(0);
  });

  test('that fails leaves nothing of a transaction of its own', () => {
    const db = openDatabase();
    const bucket = db.kv('fresh', { values: 'int' });
    expect(codeOf(() => bucket.put('a', 'text'))).toBe('value.type');
    expect(db.kv('fresh', { values: 'text' }).count(), 'the bucket was not made').toBe(0);
  });
});

describe('KeyValue.insert', () => {
  test('refuses a key that exists, names bucket and key, and changes nothing', () => {
    const bucket = fruits();
    const error = errorOf(() => bucket.insert('apple', 9));
    expect(error.code).toBe('constraint.unique');
    expect(error.message).toContain('fruits.key');
    expect(error.message).toContain('"apple"');
    expect(bucket.get('apple')).toBe(0);
    bucket.insert('elder', 4);
    expect(bucket.count()).toBe(5);
  });
});

describe('KeyValue.delete', () => {
  test('returns whether there was an entry', () => {
    const bucket = fruits();
    expect(bucket.delete('banana')).toBe(true);
    expect(bucket.delete('banana')).toBe(false);
    expect(keysOf(bucket.range())).toEqual(['apple', 'cherry', 'date']);
  });
});

describe('KeyValue.batch', () => {
  test('makes all changes in one commit', () => {
    const db = openDatabase();
    const bucket = db.kv<string, number>('b', { values: 'int' });
    bucket.put('old', 1);
    const { commitId } = db.stats();
    bucket.batch([
      { type: 'put', key: 'a', value: 1 },
      { type: 'put', key: 'b', value: 2 },
      { type: 'delete', key: 'old' },
    ]);
    expect(db.stats().commitId).toBe(commitId + 1);
    expect([...bucket.range()]).toEqual([
      ['a', 1],
      ['b', 2],
    ]);
  });

  const failing = [
    { type: 'put', key: 'apple', value: 99 },
    { type: 'delete', key: 'date' },
    { type: 'put', key: 'bad', value: 'text' as unknown as number },
  ] as const;

  test('that fails makes none', () => {
    const bucket = fruits();
    const before = [...bucket.range()];
    expect(codeOf(() => bucket.batch(failing))).toBe('value.type');
    expect([...bucket.range()]).toEqual(before);
  });

  test('that fails inside a transaction makes none, and the transaction goes on', () => {
    const db = openDatabase();
    const bucket = db.kv<string, number>('b', { values: 'int' });
    db.transaction(() => {
      bucket.put('apple', 1);
      bucket.put('date', 2);
      expect(codeOf(() => bucket.batch(failing))).toBe('value.type');
      expect([...bucket.range()]).toEqual([
        ['apple', 1],
        ['date', 2],
      ]);
      bucket.put('more', 3);
    });
    expect(keysOf(bucket.range())).toEqual(['apple', 'date', 'more']);
  });

  test('refuses an unknown change and makes none', () => {
    const bucket = fruits();
    const odd = [{ type: 'put', key: 'x', value: 1 } as const, { type: 'merge' } as never];
    expect(codeOf(() => bucket.batch(odd))).toBe('usage.argument');
    expect(bucket.has('x')).toBe(false);
  });
});

describe('KeyValue.keys', () => {
  test('iterates keys of a range, either way, and may be left', () => {
    const bucket = fruits();
    expect([...bucket.keys()]).toEqual(['apple', 'banana', 'cherry', 'date']);
    expect([...bucket.keys({ gt: 'apple', reverse: true, limit: 2 })]).toEqual(['date', 'cherry']);
    for (const key of bucket.keys()) if (key === 'banana') break;
    const keys = bucket.keys();
    bucket.delete('cherry');
    expect([...keys], 'as of the call').toEqual(['apple', 'banana', 'cherry', 'date']);
    expect([...openDatabase().kv('none').keys()]).toEqual([]);
  });
});

describe('KeyValue.range', () => {
  test('takes every kind of bound, reverse and limit', () => {
    const bucket = fruits();
    const keys = (options: object): string[] => keysOf(bucket.range(options));
    expect(keys({})).toEqual(['apple', 'banana', 'cherry', 'date']);
    expect(keys({ reverse: true })).toEqual(['date', 'cherry', 'banana', 'apple']);
    expect(keys({ gt: 'apple' })).toEqual(['banana', 'cherry', 'date']);
    expect(keys({ gte: 'banana', lt: 'date' })).toEqual(['banana', 'cherry']);
    expect(keys({ lte: 'banana' })).toEqual(['apple', 'banana']);
    expect(keys({ gt: 'b', lte: 'cherry', reverse: true })).toEqual(['cherry', 'banana']);
    expect(keys({ limit: 2 })).toEqual(['apple', 'banana']);
    expect(keys({ limit: 0 })).toEqual([]);
    expect(keys({ gt: 'x' })).toEqual([]);
    expect(keys({ gte: 'c', lt: 'b' })).toEqual([]);
  });

  test('takes a prefix, also where the next one needs a carry', () => {
    const bucket = openDatabase().kv<string, boolean>('b', { values: 'bool' });
    const top = String.fromCodePoint(0x10ffff);
    for (const key of ['a', 'ab', 'abc', 'ac', `a${top}`, `a${top}x`, 'b', '\ud7ffx', '\ue000'])
      bucket.put(key, true);
    expect(keysOf(bucket.range({ prefix: 'ab' }))).toEqual(['ab', 'abc']);
    expect(keysOf(bucket.range({ prefix: `a${top}` }))).toEqual([`a${top}`, `a${top}x`]);
    expect(keysOf(bucket.range({ prefix: '\ud7ff' }))).toEqual(['\ud7ffx']);
    expect(keysOf(bucket.range({ prefix: '' }))).toHaveLength(9);
  });

  test('orders numbers by value and lends bytes until the next step', () => {
    const bucket = openDatabase().kv<number, Uint8Array>('n', { keys: 'int', values: 'bytes' });
    for (const key of [100, -5, 7, 0, 2 ** 40]) bucket.put(key, Uint8Array.of(key & 255));
    const seen: [number, number][] = [];
    for (const [key, bytes] of bucket.range({ gt: -5 })) seen.push([key, bytes[0]!]);
    expect(seen).toEqual([
      [0, 0],
      [7, 7],
      [100, 100],
      [2 ** 40, 0],
    ]);
  });

  test('sees the moment of the call while writes go on', () => {
    const bucket = fruits();
    const seen: string[] = [];
    for (const [key] of bucket.range()) {
      seen.push(key);
      bucket.delete(key);
      bucket.put(`${key}-new`, 1);
    }
    expect(seen).toEqual(['apple', 'banana', 'cherry', 'date']);
    expect(bucket.count()).toBe(4);
  });

  test('in a transaction survives deletes of what it stands at', () => {
    const db = openDatabase();
    const bucket = db.kv<number, number>('n', { keys: 'int', values: 'int' });
    db.transaction(() => {
      for (let i = 0; i < 500; i++) bucket.put(i, i);
      const seen: number[] = [];
      for (const [key] of bucket.range()) {
        seen.push(key);
        bucket.delete(key);
      }
      expect(seen).toEqual(Array.from({ length: 500 }, (_, i) => i));
    });
    expect(bucket.count()).toBe(0);
  });

  test('gives its snapshot back at the end, at a break and at a throw', () => {
    const db = openDatabase();
    const bucket = db.kv<string, number>('b', { values: 'int' });
    for (const key of ['a', 'b', 'c']) bucket.put(key, 1);
    for (const _ of bucket.range()) break;
    expect(() => {
      for (const _ of bucket.range()) throw new Error('mine');
    }).toThrow('mine');
    expect([...bucket.range()]).toHaveLength(3);
    expect(db.stats().snapshots).toEqual([]);
  });

  test('refuses what no range can be', () => {
    const bucket = fruits();
    expect(codeOf(() => bucket.range({ gt: 'a', gte: 'b' }))).toBe('usage.argument');
    expect(codeOf(() => bucket.range({ lt: 'a', lte: 'b' }))).toBe('usage.argument');
    expect(codeOf(() => bucket.range({ prefix: 'a', gt: 'b' }))).toBe('usage.argument');
    expect(codeOf(() => bucket.range({ limit: -1 }))).toBe('usage.argument');
    expect(codeOf(() => bucket.range({ limit: 1.5 }))).toBe('usage.argument');
    expect(codeOf(() => bucket.range({ from: 'a' } as object))).toBe('usage.argument');
    expect(codeOf(() => bucket.range({ prefix: 1 as unknown as string }))).toBe('usage.argument');
  });
});

describe('KeyValue.first, last, count, deleteRange', () => {
  test('first and last take the ends of a range, and copies', () => {
    const bucket = fruits();
    expect(bucket.first()).toEqual(['apple', 0]);
    expect(bucket.last()).toEqual(['date', 3]);
    expect(bucket.first({ gt: 'apple' })).toEqual(['banana', 1]);
    expect(bucket.last({ lt: 'date' })).toEqual(['cherry', 2]);
    expect(bucket.last({ reverse: true })).toEqual(['apple', 0]);
    expect(bucket.first({ gt: 'z' })).toBeUndefined();
  });

  test('count counts everything or a range', () => {
    const bucket = fruits();
    expect(bucket.count()).toBe(4);
    expect(bucket.count({ gte: 'b', lt: 'd' })).toBe(2);
    expect(bucket.count({ limit: 3 })).toBe(3);
  });

  test('deleteRange deletes a range and returns how many', () => {
    const bucket = fruits();
    expect(bucket.deleteRange({ gte: 'banana', lte: 'cherry' })).toBe(2);
    expect(keysOf(bucket.range())).toEqual(['apple', 'date']);
    expect(bucket.deleteRange({ prefix: 'zz' })).toBe(0);
    expect(bucket.deleteRange()).toBe(2);
    expect(bucket.count()).toBe(0);
    bucket.put('again', 1);
    expect(bucket.count()).toBe(1);
  });
});

describe('KeyValue.view', () => {
  test('lends stored bytes, returns what the function returns, and lets errors pass', () => {
    const db = openDatabase();
    const bucket = db.kv<string, Uint8Array>('b', { values: 'bytes' });
    bucket.put('k', Uint8Array.of(4, 5));
    expect(bucket.view('k', (bytes) => bytes[0]! + bytes[1]!)).toBe(9);
    expect(() =>
      bucket.view('k', () => {
        throw new Error('mine');
      }),
    ).toThrow('mine');
  });

  test('keeps the bytes while the function writes and reads elsewhere', () => {
    const db = openDatabase({ memory: '2 MiB', pageSize: '4 KiB' });
    const bucket = db.kv<number, Uint8Array>('b', { keys: 'int', values: 'bytes' });
    bucket.put(0, new Uint8Array(500).fill(7));
    const isSame = bucket.view(0, (bytes) => {
      db.transaction(() => {
        for (let i = 0; i < 3000; i++) bucket.put(i, new Uint8Array(700).fill(i));
      });
      for (let i = 0; i < 3000; i += 7) bucket.get(i);
      return bytes.every((each) => each === 7);
    });
    expect(isSame).toBe(true);
  });
});

describe('handles', () => {
  test('kinds and layout of an existing bucket may be left out, and differ with an error', () => {
    const db = openDatabase();
    const layout = { tree: 'b-tree', order: 40 } as const;
    db.kv<number, string>('b', { keys: 'int', values: 'text', layout }).put(1, 'x');
    expect(db.kv<number, string>('b').get(1)).toBe('x');
    expect(db.kv<number, string>('b', { keys: 'int', layout }).get(1)).toBe('x');
    for (const options of [
      { keys: 'text' },
      { values: 'json' },
      { layout: { tree: 'b+tree' } },
      { layout: { order: 41 } },
      { layout: { clusterSize: 1024 } },
    ] as const)
      expect(codeOf(() => db.kv('b', options))).toBe('schema.mismatch');
  });

  test('of the database see the open transaction, those of a snapshot never', () => {
    const db = openDatabase();
    const bucket = db.kv<string, number>('b', { values: 'int' });
    bucket.put('a', 1);
    const snapshot = db.snapshot();
    const tx = db.begin();
    bucket.put('a', 2);
    expect(bucket.get('a')).toBe(2);
    expect(snapshot.kv('b').get('a')).toBe(1);
    tx.rollback();
    expect(bucket.get('a')).toBe(1);
    snapshot.close();
  });

  test('taken while a transaction made the bucket work when that is rolled back', () => {
    const db = openDatabase();
    const tx = db.begin();
    tx.kv('b', { values: 'int' }).put('a', 1);
    const bucket = db.kv<string, number>('b', { values: 'int' });
    expect(bucket.get('a')).toBe(1);
    tx.rollback();
    expect(bucket.get('a')).toBeUndefined();
    expect(bucket.count()).toBe(0);
    bucket.put('a', 2);
    expect(bucket.get('a')).toBe(2);
  });

  test('of buckets with odd names are what they are', () => {
    const db = openDatabase();
    for (const name of ['__proto__', 'constructor', 'toString', 'ä/ö', 'a'.repeat(1000)]) {
      const bucket = db.kv<string, string>(name, { values: 'text' });
      bucket.put('name', name);
      expect(db.kv(name).get('name')).toBe(name);
    }
    expect(codeOf(() => db.kv(''))).toBe('usage.argument');
    expect(codeOf(() => db.kv('a'.repeat(1025)))).toBe('value.size');
  });
});
