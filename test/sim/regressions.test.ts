/**
 * What the simulation found, each made small. Each test opens with the failure it guards; a seed
 * alone would not last, since every change of the workload gives it another life.
 */
import { describe, expect, test } from 'vitest';
import type { Database } from '../../src/database.ts';
import { Log } from '../../src/storage/log.ts';
import type { PageId } from '../../src/storage/pages.ts';
import type { Storage } from '../../src/storage/storage.ts';
import { abandon, codeOf, errorOf, openDatabase } from '../database/open-database.ts';
import { FaultFileSystem } from '../faults/fault-file.ts';
import {
  codeOf as outcomeOf,
  commitFill,
  commitNew,
  holds,
  LAYOUT,
  open,
  PATH,
} from '../support/small-storage.ts';

function commitFree(storage: Storage, pages: readonly PageId[]): void {
  storage.begin();
  for (const page of pages) storage.free(page);
  storage.commit('full');
}

const LARGE_PAGES = { ...LAYOUT, pageBytes: 16384, extentBytes: 16 * 16384 };
/** 64 buffers of 16 KiB. */
const SMALL = { layout: LARGE_PAGES, memoryBytes: 2 << 20 };

/** A disk with a closed storage of 300 pages, and their ids. */
function diskWithPages() {
  const disk = new FaultFileSystem({ seed: 1 });
  const storage = open(disk, SMALL);
  const pages = Array.from({ length: 10 }, () => commitNew(storage, 30, 1)).flat();
  storage.close();
  return { disk, pages };
}

describe('Storage on a disk that is full for a while', () => {
  test('loses no commit after a checkpoint that was to begin the log anew stopped half-way', () => {
    // It went on later, and called the file closed: a log with commits of in between was dead.
    let left = 0;
    for (let times = 1; times <= 60; times++) {
      const disk = new FaultFileSystem({ seed: times });
      const storage = open(disk);
      const [page] = commitNew(storage, 50, 1);
      disk.inject({ kind: 'full', operation: 'write', pathEnd: '-log', times: 1 });
      disk.inject({ kind: 'full', operation: 'write', pathEnd: 'file', at: times });
      const outcome = outcomeOf(() => storage.checkpoint());
      disk.clearFaults();
      if (outcome !== 'storage.full') {
        storage.abandon(); // nothing failed, or the header was not written
        continue;
      }
      if (storage.checkpointRunning) left++;
      commitFill(storage, [page!], 2);
      while (storage.idle());
      storage.abandon();
      const recovered = open(times % 2 === 0 ? disk.kill() : disk.crash());
      expect(holds(recovered, page!, 2)).toBe(true);
      recovered.close();
    }
    expect(left).toBeGreaterThan(1);
  });

  test('finds no frames of a commit whose first frames were not written whole', () => {
    // Frames of a write that failed lay behind those of the next commit, which had the same id:
    // `corrupt.log` at the next open.
    Log.isEager = true;
    try {
      let full = 0;
      for (let seed = 0; seed < 40; seed++) {
        const disk = new FaultFileSystem({ seed });
        const storage = open(disk);
        const pages = commitNew(storage, 40, 1);
        disk.inject({ kind: 'full', operation: 'write', pathEnd: '-log', at: 1 + (seed % 3) });
        if (outcomeOf(() => commitFree(storage, pages)) === 'storage.full') {
          full++;
          disk.clearFaults();
          storage.rollback();
          commitFree(storage, pages.slice(0, 1)); // its frames end where one of the others began
        }
        storage.abandon();
        open(disk.kill()).close();
      }
      expect(full).toBeGreaterThan(10);
    } finally {
      Log.isEager = false;
    }
  });
});

describe('Storage under the smallest budget', () => {
  test('recovers more changed pages than there are buffers', () => {
    // Every buffer was dirty; writing one out needed the bitmap of slots, which needed a buffer,
    // and so on until all were pinned: `limit.memory` at every open.
    const { disk, pages } = diskWithPages();
    const storage = open(disk, SMALL);
    for (const page of pages) commitFill(storage, [page], 2, 'none', 200);
    storage.flush();
    const next = disk.kill();
    const recovered = open(next, SMALL);
    for (const page of pages) expect(holds(recovered, page, 2, undefined, 200)).toBe(true);
    recovered.close();
    expect(recovered.ledger.usedBytes).toBe(0);
  });

  test('ends recovery in a checkpoint whose first run takes every buffer', () => {
    // The run was pinned, all 64 buffers, when finding slots for it needed one for the bitmap.
    const { disk: closed, pages } = diskWithPages();
    for (let count = 56; count <= 64; count++) {
      const disk = new FaultFileSystem({ seed: 1 });
      disk.setImage(PATH, closed.image(PATH));
      const storage = open(disk, SMALL);
      for (const page of pages.slice(0, count)) commitFill(storage, [page], 2, 'none', 200);
      storage.flush();
      const recovered = open(disk.kill(), SMALL);
      expect(holds(recovered, pages[count - 1]!, 2, undefined, 200)).toBe(true);
      recovered.close();
    }
  });
});

describe('Database', () => {
  const bytesOf = (db: Database) =>
    db.kv<number, Uint8Array>('b', { keys: 'int', values: 'bytes' });

  test('a full commit that changes nothing makes what it found durable', () => {
    // It returned without a sync; the equal value of an earlier commit `none` was then lost.
    const disk = new FaultFileSystem({ seed: 1 });
    const db = openDatabase({ durability: 'none', delayMs: 1e9 }, disk);
    bytesOf(db).put(1, new Uint8Array(10));
    db.transaction(() => bytesOf(db).put(1, new Uint8Array(10)), { durability: 'full' });
    for (let seed = 0; seed < 40; seed++) {
      const after = openDatabase({}, disk.crash(seed));
      expect(bytesOf(after).has(1)).toBe(true);
      after.close();
    }
  });

  test('a savepoint whose image finds no room is not charged for', () => {
    // 160 bytes stayed charged for each page that could not be saved.
    const disk = new FaultFileSystem({ seed: 1 });
    const db = openDatabase({ memory: '2 MiB', pageSize: '4 KiB' }, disk);
    const bucket = bytesOf(db);
    const value = (n: number): Uint8Array => new Uint8Array(900).fill(n);
    bucket.put(0, value(0));
    const tx = db.begin();
    for (let i = 0; i < 1500; i++) bucket.put(i, value(1));
    tx.savepoint();
    disk.inject({ operation: 'write', kind: 'full', times: Infinity });
    const change = (): void => {
      for (let i = 0; i < 1500; i++) bucket.put(i, value(2));
    };
    expect(codeOf(change)).toBe('storage.full');
    tx.rollback();
    disk.clearFaults();
    expect(bucket.count()).toBe(1); // and nothing is charged after the close
  });

  test('a commit that fails with snapshots open leaves nothing charged', () => {
    // What was reserved for versions, and the tables of a running checkpoint, stayed charged.
    const disk = new FaultFileSystem({ seed: 1 });
    const db = openDatabase({ memory: '2 MiB', pageSize: '4 KiB' }, disk);
    const bucket = bytesOf(db);
    db.transaction(() => {
      for (let i = 0; i < 400; i++) bucket.put(i, new Uint8Array(500));
    });
    db.snapshot();
    bucket.put(0, new Uint8Array(1));
    db.storage.startCheckpoint();
    db.storage.idle();
    disk.inject({ operation: 'write', kind: 'io', pathEnd: '-log', times: Infinity });
    const change = (): void =>
      db.transaction(() => {
        for (let i = 0; i < 400; i += 20) bucket.put(i, new Uint8Array(400));
      });
    expect(errorOf(change).code).toBe('storage.io');
    disk.clearFaults();
    db.close();
    expect(db.memory().usedBytes).toBe(0);
    abandon(db);
    expect(openDatabase({}, disk.crash()).kv('b').count()).toBe(400);
  });

  test('snapshots over many schemas fit a small budget', () => {
    // Each version of the schema stayed charged with all its collections until `limit.memory`.
    const db = openDatabase({ memory: '2 MiB', pageSize: '4 KiB' });
    const snapshots = Array.from({ length: 7 }, (_, i) => {
      db.kv<string, number>(`bucket ${i}`, { values: 'int' }).put('a', i);
      return db.snapshot();
    });
    for (let round = 0; round < 2; round++)
      for (const [i, snapshot] of snapshots.entries())
        for (let j = 0; j < 7; j += 2) {
          expect(snapshot.kv(`bucket ${j}`).get('a')).toBe(j <= i ? j : undefined);
        }
    for (const snapshot of snapshots) snapshot.close();
  });

  test('a check that lacks memory says so, and reports no fault', () => {
    // It was reported as if the file were damaged.
    const db = openDatabase({ memory: '2 MiB', pageSize: '4 KiB' });
    bytesOf(db).put(1, new Uint8Array(1));
    const { ledger } = db.storage;
    const bytes = ledger.availableBytes;
    ledger.charge('work', bytes);
    expect(codeOf(() => db.check())).toBe('limit.memory');
    ledger.release('work', bytes);
  });
});

describe('Puts in order', () => {
  test('find their place after the deletion of a range that was empty', () => {
    // It led the writer's path to the end of the tree; the leaf of the last put was then taken for
    // the last one, and a key of the next leaf was put behind its entries: keys out of order.
    const db = openDatabase();
    const kv = db.kv<number, string>('k', { keys: 'int', values: 'text' });
    const count = 3000;
    db.transaction(() => {
      for (let key = 0; key < count; key++) kv.put(10 * key, 'a');
    });
    db.transaction(() => {
      for (let key = 0; key < count - 2; key++) {
        kv.put(10 * key + 1, 'b');
        kv.deleteRange({ gte: 10 * count });
        kv.put(10 * key + 12, 'c');
      }
    });
    const keys = [...kv.range()].map(([key]) => key);
    expect(keys).toEqual([...keys].sort((a, b) => a - b));
    expect(keys).toHaveLength(3 * count - 4);
    expect(db.check().faults).toEqual([]);
  });
});
