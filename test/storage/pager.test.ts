/** The pager: private pages, views, savepoints, spilling, eviction, budget (laws S3, T2). */
import { describe, expect, test } from 'vitest';
import { Random } from '../../src/base/random.ts';
import { MemoryFileSystem } from '../../src/storage/memory-file.ts';
import { LATEST, type PageId, WRITER } from '../../src/storage/pages.ts';
import { PRIVATE } from '../../src/storage/slab.ts';
import { type Storage } from '../../src/storage/storage.ts';
import { slotFaults } from '../support/slot-check.ts';
import {
  addPages,
  codeOf,
  commitFill,
  commitNew,
  fill,
  holds,
  open,
} from '../support/small-storage.ts';

const BUDGET_BYTES = 2 << 20;

function newStorage(memoryBytes = BUDGET_BYTES): Storage {
  return open(new MemoryFileSystem(), { memoryBytes });
}

describe('Pager views', () => {
  test('the writer sees a change at once, others after the commit, snapshots never', () => {
    const storage = newStorage();
    const [page] = commitNew(storage, 1, 1);
    const view = storage.openSnapshot();
    storage.begin();
    fill(storage, page!, 2);
    expect(holds(storage, page!, 2, WRITER)).toBe(true);
    expect(holds(storage, page!, 1, LATEST)).toBe(true);
    storage.commit('none');
    expect(holds(storage, page!, 2, LATEST)).toBe(true);
    expect(holds(storage, page!, 1, view)).toBe(true);
    storage.closeSnapshot(view);
    expect(codeOf(() => holds(storage, page!, 1, view))).toBe('conflict.snapshot_expired');
  });

  test('what a snapshot returns never changes, through evictions and checkpoints (law S3)', () => {
    const storage = newStorage();
    const pages = commitNew(storage, 100, 0);
    const views: [number, number][] = [];
    for (let stamp = 1; stamp <= 6; stamp++) {
      views.push([storage.openSnapshot(), stamp - 1]);
      commitFill(storage, pages, stamp, 'none', 400);
      if (stamp % 2 === 0) storage.checkpoint();
    }
    expect(storage.evictedDirty).toBeGreaterThan(50);
    for (const [view, stamp] of views) {
      for (const page of pages) expect(holds(storage, page, stamp, view, 400)).toBe(true);
    }
    const middle = views.splice(2, 1)[0]!;
    storage.closeSnapshot(middle[0]);
    for (const [view, stamp] of views) {
      expect(holds(storage, pages[5]!, stamp, view, 400)).toBe(true);
      storage.closeSnapshot(view);
    }
    storage.checkpoint();
    expect(storage.versions.count).toBe(0);
    expect(slotFaults(storage)).toEqual([]);
    storage.close();
  });

  test('a page that is free, freed or never was is corruption to who reads it', () => {
    const storage = newStorage();
    const [page, other] = commitNew(storage, 2, 1);
    storage.begin();
    storage.free(page!);
    expect(codeOf(() => storage.read(page!, WRITER))).toBe('corrupt.page');
    storage.rollback();
    for (const wrong of [0, -1, 99, 2 ** 31 - 1]) {
      const reader = open(new MemoryFileSystem(), {});
      expect(
        codeOf(() => reader.read(wrong as PageId, LATEST)),
        `${wrong}`,
      ).toBe('corrupt.page');
    }
    expect(other).toBe(2);
  });
});

describe('Pager transactions', () => {
  test('rollback leaves no trace: pages, ids, slots and charges are as before (law T2)', () => {
    const storage = newStorage();
    const pages = commitNew(storage, 60, 1);
    storage.checkpoint();
    const charged = (): number => storage.ledger.bytesOf('transaction');
    const before = [charged(), storage.slots.freeCount + 0, storage.nextPage];
    for (let i = 0; i < 3; i++) {
      storage.begin();
      addPages(storage, 400, 2); // spills
      for (const page of pages.slice(0, 30)) fill(storage, page, 2);
      for (const page of pages.slice(30, 40)) storage.free(page);
      storage.rollback();
      for (const page of pages) expect(holds(storage, page, 1)).toBe(true);
    }
    expect(storage.spilledPages).toBeGreaterThan(0);
    expect(storage.slots.count - storage.slots.freeCount).toBeLessThanOrEqual(before[1]! + 200);
    expect(charged()).toBeLessThanOrEqual(before[0]! + 100_000);
    const kinds = Array.from(storage.slab.kind.subarray(0, storage.slab.count));
    expect(kinds.filter((kind) => kind === PRIVATE)).toEqual([]);
    storage.checkpoint();
    expect(slotFaults(storage)).toEqual([]);
    storage.close();
  });

  test('ids of pages that were rolled back or freed are used again', () => {
    const storage = newStorage();
    const pages = commitNew(storage, 20, 1);
    storage.begin();
    addPages(storage, 30, 2);
    storage.rollback();
    storage.begin();
    for (const page of pages.slice(0, 10)) storage.free(page);
    storage.commit('none');
    const again = commitNew(storage, 40, 3);
    expect(Math.max(...again)).toBeLessThanOrEqual(51);
    expect(new Set([...again, ...pages.slice(10)]).size).toBe(50);
  });

  test('savepoints nest: each gives back the images of its moment', () => {
    const storage = newStorage();
    const pages = commitNew(storage, 10, 0);
    storage.begin();
    fill(storage, pages[0]!, 1);
    const one = storage.savepoint();
    fill(storage, pages[0]!, 2);
    fill(storage, pages[1]!, 2);
    storage.free(pages[2]!);
    const two = storage.savepoint();
    fill(storage, pages[0]!, 3);
    fill(storage, pages[3]!, 3);
    storage.rollbackTo(two);
    expect(holds(storage, pages[0]!, 2, WRITER)).toBe(true);
    expect(holds(storage, pages[3]!, 0, WRITER)).toBe(true);
    storage.rollbackTo(one);
    expect(holds(storage, pages[0]!, 1, WRITER)).toBe(true);
    expect(holds(storage, pages[2]!, 0, WRITER)).toBe(true);
    storage.release(one);
    storage.commit('full');
    expect(holds(storage, pages[0]!, 1)).toBe(true);
    expect(holds(storage, pages[1]!, 0)).toBe(true);
  });

  test('a transaction far beyond the cache spills, and commits whole', () => {
    const storage = newStorage();
    const pages = commitNew(storage, 1200, 1);
    expect(storage.spilledPages).toBeGreaterThan(500);
    for (const page of pages) expect(holds(storage, page, 1)).toBe(true);
    expect(storage.ledger.peakBytes).toBeLessThanOrEqual(BUDGET_BYTES);
    storage.checkpoint();
    expect(slotFaults(storage)).toEqual([]);
    storage.close();
    expect(storage.ledger.usedBytes).toBe(0);
  });

  test('a load takes a ring of buffers and leaves the others what they hold', () => {
    const storage = newStorage(16 << 20);
    const before = commitNew(storage, 100, 1);
    storage.checkpoint();
    const ring = storage.log.segmentBytes / 4 / storage.pageBytes;
    storage.begin();
    const loaded = addPages(storage, 3 * ring, 2);
    expect(storage.overlay.residentCount).toBeLessThan(ring + 64);
    expect(storage.spilledPages).toBeGreaterThan(2 * ring - 64);
    storage.commit('full');
    const { reads } = storage.file;
    for (const page of before) expect(holds(storage, page, 1)).toBe(true);
    expect(storage.file.reads).toBe(reads);
    for (const page of loaded) expect(holds(storage, page, 2)).toBe(true);
    storage.checkpoint();
    expect(slotFaults(storage)).toEqual([]);
  });

  test('a transaction that comes back to its new pages keeps them in memory', () => {
    const storage = newStorage(16 << 20);
    const ring = storage.log.segmentBytes / 4 / storage.pageBytes;
    storage.begin();
    const pages = addPages(storage, ring + 100, 0);
    const random = new Random(5);
    for (let i = 1; i <= 20 * ring; i++) {
      if (i % 10 === 0) pages.push(...addPages(storage, 1, 0));
      fill(storage, pages[random.below(pages.length)]!, i);
      storage.settle();
    }
    expect(storage.spilledPages).toBeLessThan(ring);
    storage.commit('full');
    expect(slotFaults(storage)).toEqual([]);
  });

  test('savepoints that are taken back during a load leave what was before them', () => {
    const storage = newStorage(16 << 20);
    const ring = storage.log.segmentBytes / 4 / storage.pageBytes;
    storage.begin();
    const kept: PageId[] = [];
    for (let round = 0; round < 6; round++) {
      kept.push(...addPages(storage, ring / 2, round));
      const savepoint = storage.savepoint();
      addPages(storage, round % 2 === 0 ? 40 : 2 * ring, 99);
      storage.rollbackTo(savepoint);
      if (round % 3 === 0) storage.release(savepoint);
    }
    storage.commit('full');
    for (const [i, page] of kept.entries()) {
      expect(holds(storage, page, Math.floor(i / (ring / 2)))).toBe(true);
    }
    storage.checkpoint();
    expect(slotFaults(storage)).toEqual([]);
    storage.close();
    expect(storage.ledger.usedBytes).toBe(0);
  });

  test('a transaction that frees a new page leaves nothing of it', () => {
    const storage = newStorage();
    commitNew(storage, 2, 1);
    storage.begin();
    for (const page of addPages(storage, 5, 2)) storage.free(page);
    storage.commit('full');
    storage.checkpoint();
    expect(storage.map.root.usedCount).toBe(2);
    expect(slotFaults(storage)).toEqual([]);
  });
});

describe('PageCache memory', () => {
  test('pinned buffers stay, and when all are pinned the call fails with limit.memory', () => {
    const storage = newStorage();
    const pages = commitNew(storage, 600, 1);
    storage.checkpoint();
    const pinned: number[] = [];
    const code = codeOf(() => {
      for (const page of pages) {
        const buffer = storage.read(page, LATEST);
        storage.pin(buffer);
        pinned.push(buffer);
      }
    });
    expect(code).toBe('limit.memory');
    for (const buffer of pinned) storage.unpin(buffer);
    for (const page of pages) expect(holds(storage, page, 1)).toBe(true);
    storage.close();
  });

  test('memory that others take is given back by the cache, down to a chunk', () => {
    const storage = newStorage(8 << 20);
    const pages = commitNew(storage, 1500, 1, 'none');
    storage.checkpoint();
    for (const page of pages) holds(storage, page, 1);
    const before = storage.ledger.bytesOf('buffers');
    expect(before).toBeGreaterThan(3 << 20);
    storage.ledger.charge('work', 5 << 20);
    expect(storage.ledger.bytesOf('buffers')).toBeLessThan(before);
    for (const page of pages) expect(holds(storage, page, 1)).toBe(true);
    storage.ledger.release('work', 5 << 20);
    storage.close();
    expect(storage.ledger.usedBytes).toBe(0);
  });

  test('reading a page that is in the cache reads nothing from the file', () => {
    const storage = newStorage();
    const [page] = commitNew(storage, 1, 1);
    storage.checkpoint();
    holds(storage, page!, 1);
    const { reads } = storage.file;
    for (let i = 0; i < 100; i++) storage.read(page!, LATEST);
    expect(storage.file.reads).toBe(reads);
  });
});
