/** Writes that wait: when they do, that their transaction sees them, and what they cost. */
import { afterEach, describe, expect, test } from 'vitest';
import { Ledger } from '../../src/base/ledger.ts';
import { Database, open } from '../../src/database.ts';
import { MemoryFileSystem } from '../../src/storage/memory-file.ts';
import { WriteBuffer } from '../../src/storage/write-buffer.ts';
import { WriteBuffers } from '../../src/storage/write-buffers.ts';
import { LedgerWorkSpace } from '../../src/store/work-space.ts';
import { FaultFileSystem } from '../faults/fault-file.ts';

let db: Database;
afterEach(() => db.close());

/** Numbers below `count` in an order without a run. */
function scattered(count: number): number[] {
  return Array.from({ length: count }, (_, i) => (i * 7919) % count);
}

const waiting = () => db.memory().accounts.transaction;

describe('Writes of a long transaction', () => {
  test('wait when their keys come in no order, and not when they ascend', () => {
    db = open(':memory:');
    const kv = db.kv<number, string>('k', { keys: 'int', values: 'text' });
    kv.put(-1, 'x');
    const before = waiting();
    db.transaction(() => {
      for (let key = 0; key < 5000; key++) kv.put(key, 'a');
      expect(waiting()).toBeLessThan(before + 100_000);
      const direct = waiting();
      for (const key of scattered(5000)) kv.put(key + 10_000, 'b');
      expect(waiting() - direct).toBeGreaterThan(5000 * 20);
      expect(kv.get(10_007)).toBe('b');
      expect(kv.count()).toBe(10_001); // whoever looks at the whole tree has them written
      expect(waiting()).toBeLessThan(direct + 100_000);
    });
    expect(waiting()).toBeLessThanOrEqual(before + 8192);
    expect(db.check().faults).toEqual([]);
  });

  test('are read, replaced, deleted and rolled back as if they did not wait', () => {
    db = open(':memory:');
    const kv = db.kv<number, string>('k', { keys: 'int', values: 'text' });
    db.transaction((tx) => {
      for (const key of scattered(2000)) kv.put(key, `v${key}`);
      for (const key of scattered(1000)) kv.put(key, `w${key}`);
      expect([kv.get(5), kv.get(1500), kv.get(3000)]).toEqual(['w5', 'v1500', undefined]);
      expect(kv.delete(5)).toBe(true);
      expect(kv.has(5)).toBe(false);
      const savepoint = tx.savepoint();
      for (const key of scattered(2000)) kv.put(key + 5000, 'gone');
      tx.rollbackTo(savepoint);
      expect(kv.has(5001)).toBe(false);
      for (const key of scattered(500)) kv.put(key + 9000, 'kept');
    });
    expect(kv.count()).toBe(2000 - 1 + 500);
    expect([...kv.range({ gte: 4, lte: 6 })]).toEqual([
      [4, 'w4'],
      [6, 'w6'],
    ]);
    expect(() =>
      db.transaction(() => {
        for (const key of scattered(2000)) kv.put(key + 20_000, 'lost');
        throw new Error('back');
      }),
    ).toThrow('back');
    expect(kv.has(20_001)).toBe(false);
    expect(waiting()).toBeLessThan(16 * 1024);
    expect(db.check().faults).toEqual([]);
  });

  test('count equal puts when they come to the pages', () => {
    db = open(':memory:');
    const kv = db.kv<number, string>('k', { keys: 'int', values: 'text' });
    const fill = () =>
      db.transaction(() => {
        for (const key of scattered(1000)) kv.put(key, `v${key}`);
      });
    fill();
    const before = db.stats();
    fill();
    expect(db.stats().putsElided - before.putsElided).toBe(1000);
  });

  test('keep a unique index unique, and a small budget', () => {
    db = open(':memory:', { memory: '2 MiB' });
    const people = db.collection('people', {
      fields: { id: 'int', email: 'text', region: 'int' },
      key: 'id',
      unique: ['email'],
      index: ['region'],
    });
    db.transaction(() => {
      for (const id of scattered(20_000))
        people.insert({ id, email: `${(id * 31) % 20_011}@x`, region: id % 16 });
      expect(() => people.insert({ id: 30_000, email: '31@x', region: 1 })).toThrow(
        expect.objectContaining({ code: 'constraint.unique' }),
      );
      expect(() => people.insert({ id: 7, email: 'new', region: 1 })).toThrow(
        expect.objectContaining({ code: 'constraint.unique' }),
      );
    });
    const { usedBytes, budgetBytes } = db.memory();
    expect(usedBytes).toBeLessThanOrEqual(budgetBytes);
    expect(people.where({ region: 3 }).count()).toBe(1250);
    expect(people.get({ email: '31@x' })?.id).toBe(1);
    expect(db.check().faults).toEqual([]);
  });

  test('beyond their share become runs of the spill file, and enter their tree once', () => {
    const disk = new FaultFileSystem({ seed: 1 });
    const small = new Database('db', { memory: '8 MiB', pageSize: 4096 }, disk);
    db = small;
    const kv = small.kv<number, string>('k', { keys: 'int', values: 'text' });
    const count = 120_000;
    small.transaction(() => {
      for (const key of scattered(count)) kv.put(key, 'a');
      for (const key of scattered(count)) if (key % 3 === 0) kv.put(key, `b${key}`);
    });
    expect(small.memory().peakBytes).toBeLessThanOrEqual(small.memory().budgetBytes);
    const { pagesWritten } = small.stats();
    expect(kv.count()).toBe(count);
    let n = 0;
    for (const [key, value] of kv.range()) {
      expect([key, value]).toEqual([n, n % 3 === 0 ? `b${n}` : 'a']);
      n++;
    }
    small.checkpoint();
    const pages = disk.image('db').length / 4096;
    expect(pagesWritten, 'each page about once').toBeLessThan(1.5 * pages);
    expect(small.check().faults).toEqual([]);
  });

  test('in runs are read, replaced, deleted and rolled back as if they did not wait', () => {
    db = open(':memory:', { memory: '8 MiB' });
    const kv = db.kv<number, string>('k', { keys: 'int', values: 'text' });
    const count = 120_000;
    db.transaction((tx) => {
      for (const key of scattered(count)) kv.put(key, 'a');
      expect([kv.get(5), kv.has(count - 1), kv.has(count)]).toEqual(['a', true, false]);
      for (const key of scattered(count)) kv.put(key, 'b');
      expect(kv.delete(77)).toBe(true);
      for (const key of scattered(count)) kv.put(key + count, 'c');
      const savepoint = tx.savepoint();
      for (const key of scattered(count)) kv.put(key, 'gone');
      tx.rollbackTo(savepoint);
      expect([kv.get(5), kv.get(77), kv.get(count + 3)]).toEqual(['b', undefined, 'c']);
      for (const key of scattered(count)) kv.put(key + count, 'd');
    });
    expect(kv.count()).toBe(2 * count - 1);
    expect([kv.get(5), kv.get(count + 5)]).toEqual(['b', 'd']);
    expect(() =>
      db.transaction(() => {
        for (const key of scattered(count)) kv.put(key, 'lost');
        throw new Error('back');
      }),
    ).toThrow('back');
    expect([kv.get(5), kv.get(77)]).toEqual(['b', undefined]);
    expect(db.memory().accounts.work).toBe(0);
    expect(db.check().faults).toEqual([]);
  });

  test('hold nothing when there was room for their table only', () => {
    db = open(':memory:');
    const ledger = new Ledger(4 * 16 * 1024); // a share of 16 KiB: less than a piece
    const tree = { settleWrites() {}, spillWrites() {}, forgetWrites() {}, settledCount: 0 };
    const buffers = new WriteBuffers({
      ledger,
      work: () => new LedgerWorkSpace(ledger, new MemoryFileSystem(), 'spill'),
      makeRoom: () => undefined,
      isBeyondCache: () => false,
      failed: () => undefined,
    });
    const buffer = new WriteBuffer(buffers, tree, true);
    expect(buffer.add(new Uint8Array(8), 8, new Uint8Array(8), 0, 8)).toBe(false);
    expect(ledger.bytesOf('transaction')).toBe(0);
  });
});
