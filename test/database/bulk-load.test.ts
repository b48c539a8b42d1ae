/** Bulk loads through the public interface: what they write, refuse, report, and give back. */
import { describe, expect, test } from 'vitest';
import type { BulkProgress } from '../../src/index.ts';
import { defineProperty } from '../support/properties.ts';
import { runBulkCase } from './bulk-trial.ts';
import { errorOf, openDatabase } from './open-database.ts';

defineProperty({
  name: 'bulkLoad writes what single writes do',
  cases: 8,
  run: runBulkCase,
  canary: (seed) => runBulkCase(seed, (records) => records.slice(1)),
});

/** Entries in an order that is not theirs. */
function* scattered(count: number): Generator<[number, string]> {
  for (let i = 0; i < count; i++) yield [(i * 7919) % count, `value ${(i * 7919) % count}`];
}

const openSmall = () => openDatabase({ memory: '2 MiB', pageSize: 4096 });

describe('bulkLoad', () => {
  test('loads, merges and reports; the working memory is given back (P15)', () => {
    const db = openSmall();
    const kv = db.kv<number, string>('numbers', { keys: 'int', values: 'text' });
    const seen: BulkProgress[] = [];
    const report = kv.bulkLoad(scattered(40_000), { onProgress: (p) => seen.push(p) });
    expect(report).toMatchObject({ records: 40_000, loaded: 40_000, replaced: 0, kept: 0 });
    expect(report.runs).toBeGreaterThan(1);
    expect(report.levels).toBeGreaterThan(1);
    expect(report.workBytesPeak).toBeLessThan(2 ** 20);
    expect(new Set(seen.map((p) => p.phase))).toEqual(new Set(['read', 'build']));
    expect(db.memory().accounts.work).toBe(0);
    expect(db.memory().peakBytes).toBeLessThanOrEqual(2 ** 21);
    expect(kv.count()).toBe(40_000);
    for (const key of [0, 1, 777, 39_999]) expect(kv.get(key)).toBe(`value ${key}`);
    const more = kv.bulkLoad(
      [
        [50_000, 'x'],
        [7, 'seven'],
      ],
      { onDuplicate: 'replace' },
    );
    expect(more).toMatchObject({ records: 2, loaded: 1, replaced: 1, levels: 0 });
    expect(kv.get(7)).toBe('seven');
  });

  test('a small budget costs little more work than one that holds everything (P14)', () => {
    const work = ['2 MiB', '64 MiB'].map((memory) => {
      const db = openDatabase({ memory, pageSize: 4096, durability: 'none' });
      const kv = db.kv<number, string>('numbers', { keys: 'int', values: 'text' });
      const { bytes, runs } = kv.bulkLoad(scattered(40_000));
      const { work: spill } = db;
      db.checkpoint();
      const { pagesWritten, pagesRead, logBytes } = db.stats();
      return { bytes, runs, pagesWritten, pagesRead, logBytes, spilled: spill.spilledBytes };
    });
    const [small, large] = work as [(typeof work)[0], (typeof work)[0]];
    expect(large.runs).toBe(0);
    expect(small.runs).toBeGreaterThan(1);
    // Each entry is spilled once, with its lengths and ordinal, and every page written once.
    expect(small.spilled).toBeLessThan(1.4 * small.bytes);
    expect(small.pagesWritten).toBeLessThan(1.2 * large.pagesWritten);
    expect(small.pagesRead).toBeLessThan(0.05 * small.pagesWritten);
    // Pages lie in their slots: the log only names them, 12 bytes each.
    expect(small.logBytes).toBeLessThan(0.02 * small.pagesWritten * 4096);
  });

  test('a key that comes twice is refused with both places, and nothing stays', () => {
    const db = openSmall();
    const kv = db.kv<string, number>('words', { values: 'int' });
    const error = errorOf(() =>
      kv.bulkLoad([
        ['b', 1],
        ['a', 2],
        ['c', 3],
        ['a', 4],
      ]),
    );
    expect(error).toMatchObject({ code: 'constraint.unique' });
    expect(error.message).toContain('words.key: "a" (records 1 and 3 of the load)');
    expect(kv.count()).toBe(0);
    kv.put('a', 0);
    const again = errorOf(() =>
      kv.bulkLoad([
        ['z', 1],
        ['a', 2],
      ]),
    );
    expect(again.message).toContain('(record 1 of the load, and one there before)');
    expect([...kv.range()]).toEqual([['a', 0]]);
    kv.bulkLoad(
      [
        ['a', 5],
        ['b', 6],
        ['b', 7],
      ],
      { onDuplicate: 'keep' },
    );
    expect([...kv.range()]).toEqual([
      ['a', 0],
      ['b', 6],
    ]);
  });

  test('a unique index refuses with its key and both places', () => {
    const db = openSmall();
    const people = db.collection('people', {
      fields: { id: 'int', email: 'text' },
      unique: ['email'],
    });
    const records = [{ email: 'x' }, { email: 'y' }, { email: 'x' }];
    const error = errorOf(() => people.bulkLoad(records));
    expect(error.message).toContain('people.email: "x" (records 0 and 2 of the load)');
    expect(people.count()).toBe(0);
    people.insert({ email: 'y' });
    const other = errorOf(() => people.bulkLoad([{ email: 'z' }, { email: 'y' }]));
    expect(other.message).toContain('(record 1 of the load, and one there before)');
    expect(people.all().toArray()).toEqual([{ id: 1, email: 'y' }]);
    people.insert({ email: 'w' });
    expect(people.get({ email: 'w' })).toEqual({ id: 2, email: 'w' });
  });

  test('in a transaction it is a part of that, and taken back alone when it fails', () => {
    const db = openSmall();
    const a = db.kv<number, string>('a', { keys: 'int', values: 'text' });
    const b = db.kv<number, string>('b', { keys: 'int', values: 'text' });
    const failing = () =>
      db.transaction(() => {
        a.bulkLoad(scattered(3000));
        b.bulkLoad(scattered(3000));
        throw new Error('no');
      });
    expect(failing).toThrow('no');
    expect([a.count(), b.count()]).toEqual([0, 0]);
    db.transaction(() => {
      a.bulkLoad(scattered(3000));
      expect(() =>
        b.bulkLoad([
          [1, 'x'],
          [1, 'y'],
        ]),
      ).toThrow('duplicate');
      b.put(9, 'nine');
    });
    expect([a.count(), b.count(), b.get(9)]).toEqual([3000, 1, 'nine']);
  });

  test('refuses options, entries and sources that are none', () => {
    const db = openSmall();
    const kv = db.kv('x');
    const load = (source: unknown, options: object = {}) =>
      errorOf(() => kv.bulkLoad(source as [], options)).message;
    expect(load([], { sort: true })).toContain('sort is not an option');
    expect(load([], { onDuplicate: 'ignore' })).toContain('onDuplicate: ignore');
    expect(load([], { fill: 2 })).toContain('fill: 2');
    expect(load(['ab'])).toContain('a list of a key and a value');
    expect(load(7)).toContain('takes an iterable');
    expect(load((async function* () {})())).toContain('takes an iterable');
    expect(kv.bulkLoad([]).records).toBe(0);
  });
});

describe('bulkLoadAsync', () => {
  test('takes iterables, asynchronous ones and streams', async () => {
    const db = openSmall();
    const kv = db.kv<number, string>('n', { keys: 'int', values: 'text' });
    async function* slowly() {
      for (let i = 0; i < 50; i++) {
        if (i % 10 === 0) await new Promise((resolve) => setImmediate(resolve));
        yield [i, 'a'] as [number, string];
      }
    }
    expect((await kv.bulkLoadAsync(slowly())).loaded).toBe(50);
    const stream = new ReadableStream<[number, string]>({
      start(controller) {
        for (let i = 50; i < 90; i++) controller.enqueue([i, 'b']);
        controller.close();
      },
    });
    expect((await kv.bulkLoadAsync(stream)).loaded).toBe(40);
    let ticks = 0;
    const timer = setInterval(() => ticks++, 1);
    const replace = { onDuplicate: 'replace' } as const;
    const report = await kv.bulkLoadAsync(scattered(30_000), replace);
    clearInterval(timer);
    expect(report).toMatchObject({ loaded: 29_910, replaced: 90 });
    expect(ticks).toBeGreaterThan(0);
    await db.transactionAsync(async (tx) => {
      const own = tx.kv<number, string>('n');
      await own.bulkLoadAsync([[-1, 'c']]);
      expect(own.get(-1)).toBe('c');
    });
    expect(kv.count()).toBe(30_001);
  });

  test('cancelled, or with a source that fails, it changes nothing', async () => {
    const db = openSmall();
    const people = db.collection('p', { fields: { id: 'int', n: 'int' }, key: 'id', index: ['n'] });
    people.insert({ id: 5, n: 1 });
    async function* failing() {
      for (let i = 0; i < 3000; i++) yield { id: 10 + i, n: i };
      throw new Error('the source broke');
    }
    await expect(people.bulkLoadAsync(failing())).rejects.toThrow('the source broke');
    const controller = new AbortController();
    async function* hanging() {
      yield { id: 100, n: 0 };
      controller.abort();
      await new Promise(() => undefined);
    }
    const { signal } = controller;
    const load = people.bulkLoadAsync(hanging(), { signal });
    await expect(load).rejects.toMatchObject({ code: 'limit.cancelled' });
    const late = new AbortController();
    const onProgress = ({ phase }: BulkProgress) => phase === 'build' && late.abort();
    const records = Array.from({ length: 40_000 }, (_, i) => ({ id: 10 + i, n: i % 50 }));
    const building = people.bulkLoadAsync(records, { signal: late.signal, onProgress });
    await expect(building).rejects.toMatchObject({ code: 'limit.cancelled' });
    expect(people.all().toArray()).toEqual([{ id: 5, n: 1 }]);
    expect(db.memory().accounts.work).toBe(0);
    expect((await people.bulkLoadAsync(records)).loaded).toBe(40_000);
    expect(people.where({ n: 7 }).count()).toBe(800);
  });
});
