/**
 * The least memory budget of each page size: all kinds of work go through in it, and what is below
 * is refused when the file is opened.
 */
import { describe, expect, test } from 'vitest';
import { Random } from '../../src/base/random.ts';
import { MEMORY_BYTES_MIN, MEMORY_PAGES_MIN } from '../../src/limits.ts';
import { FaultFileSystem } from '../faults/fault-file.ts';
import { errorOf, openDatabase, PATH } from './open-database.ts';

const PAGE_SIZES = [4096, 8192, 16_384, 32_768, 65_536];
const KEYS = 100_000;

const least = (pageSize: number): number => Math.max(MEMORY_BYTES_MIN, MEMORY_PAGES_MIN * pageSize);

describe('the least memory budget', () => {
  for (const pageSize of PAGE_SIZES) {
    test(`takes large transactions, snapshots, backup and compaction: pages of ${pageSize}`, () => {
      const disk = new FaultFileSystem({ seed: 1 });
      const memory = least(pageSize);
      const db = openDatabase({ memory, pageSize, durability: 'none' }, disk);
      const bucket = db.kv<number, Uint8Array>('b', { keys: 'int', values: 'bytes' });
      const random = new Random(pageSize);
      const model = new Map<number, number>();
      const put = (): void => {
        const key = random.below(KEYS);
        const length = random.pick([10, 100, 300, 1500, 12_000]);
        bucket.put(key, new Uint8Array(length).fill(key));
        model.set(key, length);
      };
      db.transaction(() => {
        for (let i = 0; i < 1000; i++) put();
      });
      const before = new Map(model);
      const snapshot = db.snapshot();
      const old = snapshot.kv<number, Uint8Array>('b', { values: 'bytes' });
      for (const [key, bytes] of old.range({ limit: 300 })) {
        expect(bytes.length).toBe(before.get(key));
      }
      const tx = db.begin();
      for (let i = 0; i < 150; i++) put();
      const savepoint = tx.savepoint();
      for (let i = 0; i < 100; i++) bucket.put(random.below(KEYS), new Uint8Array(2000));
      tx.rollbackTo(savepoint);
      tx.commit();
      bucket.deleteRange({ gte: KEYS / 2, lt: KEYS * 0.8 });
      for (const key of model.keys()) {
        if (key >= KEYS / 2 && key < KEYS * 0.8) model.delete(key);
      }
      db.backup('/db/backup-1');
      expect(old.count()).toBe(before.size);
      snapshot.close();
      db.compact();
      const pages = db.backup('/db/backup-2');
      expect(pages).toBeGreaterThan(10);
      expect(bucket.count()).toBe(model.size);
      db.close();

      disk.remove(PATH);
      disk.rename('/db/backup-2', PATH);
      const copy = openDatabase({ memory }, disk);
      expect(copy.kv('b').count()).toBe(model.size);
    });
  }

  test('is what open asks for: less is refused, nothing is written', () => {
    for (const pageSize of [32_768, 65_536]) {
      const disk = new FaultFileSystem({ seed: 1 });
      const error = errorOf(() => openDatabase({ memory: least(pageSize) - 1, pageSize }, disk));
      expect(error.code).toBe('usage.argument');
      expect(error.hint).toContain(`${least(pageSize) / 2 ** 20} MiB`);
      expect(disk.exists(PATH)).toBe(false);
      openDatabase({ memory: least(pageSize), pageSize }, disk).close();
      expect(errorOf(() => openDatabase({ memory: '2 MiB' }, disk)).code).toBe('usage.argument');
    }
  });
});
