/** Promises of the project about single records (WORKLOADS.md): P16 and P19. */
import { describe, expect, test } from 'vitest';
import { Random } from '../../src/base/random.ts';
import type { Database } from '../../src/database.ts';
import { FaultFileSystem } from '../faults/fault-file.ts';
import { openDatabase } from './open-database.ts';

const PAGE_BYTES = 8192;

describe('P16: an object costs one index descent and one data read cold, none warm', () => {
  // Few enough that index and records have a root and leaves: more levels are more inner pages,
  // which a cache keeps.
  const COUNT = 2000;
  const OBJECTS = {
    fields: { number: 'int', symbol: 'text', code: 'text' },
    key: 'number',
    unique: ['symbol'],
  } as const;
  const symbolOf = (i: number): string => `$object_${String(i).padStart(4, '0')}`;

  function filled(): FaultFileSystem {
    const disk = new FaultFileSystem({ seed: 1 });
    const db = openDatabase({}, disk);
    const objects = db.collection('objects', OBJECTS);
    const bySymbol = db.kv('by symbol', { values: 'text' });
    db.transaction(() => {
      for (let number = 0; number < COUNT; number++) {
        const symbol = symbolOf((number * 7919) % COUNT);
        const code = `${symbol} `.repeat(60);
        objects.insert({ number, symbol, code });
        bySymbol.put(symbol, code);
      }
    });
    db.close();
    return disk;
  }

  /** Pages read by each of some gets, far from one another. */
  function costs(db: Database, get: (symbol: string) => unknown): number[] {
    return [0, 0, 1000, 1000, 1999, 1999].map((i) => {
      const before = db.stats().pagesRead;
      expect(get(symbolOf(i))).toContain(symbolOf(i));
      return db.stats().pagesRead - before;
    });
  }

  test('P16: of a collection, by a unique index', () => {
    const db = openDatabase({ memory: '8 MiB' }, filled());
    const objects = db.collection('objects', OBJECTS);
    const [first, ...rest] = costs(db, (symbol) => objects.get({ symbol })?.code);
    // The first of all also reads both roots, and the page map once.
    expect(first).toBeLessThanOrEqual(2 + 2 + 2);
    expect(rest).toEqual([0, 2, 0, 2, 0]);
  });

  test('P16: of a bucket, whose index holds the data', () => {
    const db = openDatabase({ memory: '8 MiB' }, filled());
    const bucket = db.kv<string, string>('by symbol', { values: 'text' });
    const [first, ...rest] = costs(db, (symbol) => bucket.get(symbol));
    expect(first).toBeLessThanOrEqual(2 + 2);
    expect(rest).toEqual([0, 1, 0, 1, 0]);
  });
});

describe('P19: values of every size', () => {
  /** Most pages for the bytes of values: up to 100 bytes, up to a page, beyond. */
  const bound = (size: number): number => (size < 100 ? 2.2 : size < PAGE_BYTES ? 2.1 : 1.15);

  /** Values of a size, each with bytes of its own, about a quarter of a megabyte of them. */
  function valuesOf(size: number, random: Random): Uint8Array[] {
    const count = Math.max(1, Math.min(1000, Math.floor(2 ** 18 / size)));
    return Array.from({ length: count }, () => {
      const pattern = Uint8Array.from({ length: 61 }, () => random.below(256));
      return Buffer.alloc(size, pattern);
    });
  }

  test('P19: come back, within the budget, and take little more than their bytes', () => {
    const random = new Random(19);
    const odd = Array.from({ length: 6 }, () => Math.floor(10 ** (1 + random.fraction() * 5)));
    const sizes = [1, 10, 100, 1000, 4095, 4097, 8191, 8193, 65_537, 1_000_001, 10_000_000, ...odd];
    for (const size of sizes) {
      const db = openDatabase({ memory: '4 MiB', durability: 'none' });
      const bucket = db.kv<number, Uint8Array>('values', { keys: 'int', values: 'bytes' });
      const values = valuesOf(size, random);
      const empty = db.stats().pagesInUse;
      db.transaction(() => {
        for (const [i, value] of values.entries()) bucket.put(i, value);
      });
      db.checkpoint();
      for (const [i, value] of values.entries()) {
        expect(Buffer.compare(bucket.get(i)!, value), `${size} bytes, value ${i}`).toBe(0);
      }
      const bytes = (db.stats().pagesInUse - empty) * PAGE_BYTES;
      const total = values.length * size;
      if (total > 10 * PAGE_BYTES) expect(bytes / total, `${size}`).toBeLessThan(bound(size));
      expect(db.memory().peakBytes).toBeLessThanOrEqual(db.memory().budgetBytes);
      db.transaction(() => {
        for (const i of values.keys()) bucket.delete(i);
      });
      db.checkpoint();
      expect(db.stats().pagesInUse, `${size}: freed`).toBeLessThanOrEqual(empty + 4);
      db.close();
    }
  });
});
