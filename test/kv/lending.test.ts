/** Bytes that handles of a snapshot lend: right until it closes, bounded, charged, given back. */
import { describe, expect, test } from 'vitest';
import { Random } from '../../src/base/random.ts';
import type { Database } from '../../src/database.ts';
import type { KeyValue } from '../../src/kv/key-value.ts';
import { openDatabase } from '../database/open-database.ts';

const COUNT = 6000;
const CHUNK_BYTES = 2 ** 20;

type Bucket = KeyValue<number, Uint8Array>;

const bucketOf = (from: Pick<Database, 'kv'>): Bucket =>
  from.kv<number, Uint8Array>('b', { keys: 'int', values: 'bytes' });

/** The bytes that round `round` writes for a key. */
function bytesFor(key: number, round: number, length = 100 + (key % 400)): Uint8Array {
  return new Uint8Array(length).fill(key * 7 + round * 31 + 1);
}

function fill(db: Database, round: number, count = COUNT): void {
  const bucket = bucketOf(db);
  db.transaction(() => {
    for (let key = 0; key < count; key++) bucket.put(key, bytesFor(key, round));
  });
}

/** Whether bytes are those that round `round` wrote for a key. */
const isOf = (bytes: Uint8Array, key: number, round: number): boolean =>
  Buffer.compare(bytes, bytesFor(key, round)) === 0;

/** Whether bytes lie in a chunk of the cache; copies are cut from smaller pools. */
const isLent = (bytes: Uint8Array): boolean => bytes.buffer.byteLength > 65_536;

/** The bytes that a call of `view` lends. */
const viewOf = (bucket: Bucket, key: number): Uint8Array => bucket.view(key, (bytes) => bytes)!;

const lentBytes = (db: Database): number => db.memory().accounts.lent;

describe('bytes lent inside a snapshot', () => {
  for (const [pageSize, memory] of [
    ['4 KiB', '5 MiB'],
    ['16 KiB', '6 MiB'],
  ] as const) {
    test(`stay right while all else is overwritten: pages of ${pageSize}`, () => {
      const db = openDatabase({ memory, pageSize, durability: 'buffered' });
      const random = new Random(5);
      fill(db, 0);
      const kept: { bytes: Uint8Array; key: number; round: number }[] = [];
      const snapshots = [];
      for (let round = 1; round <= 4; round++) {
        const snapshot = db.snapshot();
        snapshots.push(snapshot);
        const old = bucketOf(snapshot);
        const iterator = old.range({ gte: random.below(COUNT / 2), limit: 300 });
        for (let step = 0; step < 40; step++) {
          const key = random.below(COUNT);
          kept.push({ bytes: viewOf(old, key), key, round: round - 1 });
          const [at, bytes] = iterator.next().value as [number, Uint8Array];
          kept.push({ bytes, key: at, round: round - 1 });
          if (step === 20) fill(db, round); // more than the budget: evicts, spills, checkpoints
          bucketOf(db).put(random.below(COUNT), bytesFor(1, 99, 2500));
        }
        if (round === 2) bucketOf(db).deleteRange();
        fill(db, round);
      }
      expect(db.stats().checkpoints).toBeGreaterThan(0);
      expect(db.stats().pagesSpilled).toBeGreaterThan(0);
      expect(kept.filter(({ bytes }) => isLent(bytes)).length).toBeGreaterThan(40);
      expect(kept.filter(({ bytes, key, round }) => !isOf(bytes, key, round))).toEqual([]);
      for (const snapshot of snapshots) snapshot.close();
      expect(lentBytes(db)).toBe(0);
    });
  }

  test('are a copy beyond an eighth of the budget, and a scan goes on', () => {
    const db = openDatabase({ memory: '3 MiB', pageSize: '4 KiB', durability: 'buffered' });
    fill(db, 0);
    const snapshot = db.snapshot();
    const all = [...bucketOf(snapshot).range()];
    const share = db.memory().budgetBytes / 8;
    expect(lentBytes(db)).toBeGreaterThan(share / 4);
    expect(lentBytes(db)).toBeLessThan(share * 1.1);
    fill(db, 1);
    expect(all.filter(([key, bytes]) => !isOf(bytes, key, 0))).toEqual([]);
    const lent = all.filter(([, bytes]) => isLent(bytes)).length;
    expect(lent).toBeGreaterThan(0);
    expect(lent).toBeLessThan(COUNT / 2);
    snapshot.close();
    expect(lentBytes(db)).toBe(0);
  });

  test('are charged once a page, and given back with the last snapshot of the commit', () => {
    const db = openDatabase({ memory: '8 MiB', pageSize: '8 KiB' });
    fill(db, 0, 200);
    const before = db.memory().usedBytes;
    const [one, two] = [db.snapshot(), db.snapshot()];
    for (const snapshot of [one, two, one])
      expect(isLent(viewOf(bucketOf(snapshot), 3))).toBe(true);
    const lent = lentBytes(db);
    expect(lent).toBeGreaterThan(8192);
    expect(lent).toBeLessThan(2 * 8192);
    expect(viewOf(bucketOf(db), 3)).toEqual(bytesFor(3, 0)); // outside: nothing is kept
    expect(lentBytes(db)).toBe(lent);
    one.close();
    one.close();
    expect(lentBytes(db)).toBe(lent);
    const later = (bucketOf(db).put(-1, bytesFor(1, 1)), db.snapshot());
    expect(viewOf(bucketOf(later), 199)).toEqual(bytesFor(199, 0));
    expect(lentBytes(db)).toBeGreaterThan(lent);
    two.close();
    expect(lentBytes(db)).toBeGreaterThan(8192);
    later.close();
    expect(lentBytes(db)).toBe(0);
    expect(db.memory().usedBytes).toBeLessThan(before + CHUNK_BYTES);
  });

  test('leave half of the memory to be given back: a load that needs it goes through', () => {
    const db = openDatabase({ memory: '8 MiB', pageSize: '4 KiB', durability: 'buffered' });
    for (let round = 0; round < 4; round++) {
      db.transaction(() => {
        const bucket = bucketOf(db);
        for (let i = 0; i < COUNT; i++) bucket.put(round * COUNT + i, bytesFor(i, 0));
      });
    }
    const snapshot = db.snapshot();
    const all = [...bucketOf(snapshot).range()];
    const other = db.kv<number, Uint8Array>('loaded', { keys: 'int', values: 'bytes' });
    other.bulkLoad(Array.from({ length: 20_000 }, (_, key) => [key, bytesFor(key, 2, 200)]));
    expect(other.count()).toBe(20_000);
    expect(all.length).toBe(4 * COUNT);
    expect(all.filter(([key, bytes]) => !isOf(bytes, key % COUNT, 0))).toEqual([]);
    snapshot.close();
  });

  test('of large values are copies, which outlive the snapshot', () => {
    const db = openDatabase({ memory: '3 MiB', pageSize: '4 KiB' });
    const large = bytesFor(5, 0, 50_000);
    bucketOf(db).put(1, large);
    const snapshot = db.snapshot();
    const bytes = viewOf(bucketOf(snapshot), 1);
    snapshot.close();
    fill(db, 1);
    expect(bytes).toEqual(large);
  });

  test('are given back when the database is closed or the snapshot passes its age', async () => {
    const db = openDatabase({ snapshotAgeMsMax: 1 });
    fill(db, 0);
    const snapshot = db.snapshot();
    viewOf(bucketOf(snapshot), 1);
    expect(lentBytes(db)).toBeGreaterThan(0);
    await new Promise((resolve) => setTimeout(resolve, 5));
    bucketOf(db).put(1, bytesFor(1, 1));
    expect(lentBytes(db)).toBe(0);
    viewOf(bucketOf(db.snapshot()), 1);
    db.close();
    expect(db.memory().usedBytes).toBe(0);
  });
});
