/**
 * Failures of the disk, one at every place in turn: a full disk rolls back and does not latch, a
 * failed write, sync or read latches, and whatever was acknowledged is there after a reopen.
 */
import { describe, expect, test } from 'vitest';
import { DatabaseError } from '../../src/errors.ts';
import { type PageId } from '../../src/storage/pages.ts';
import { type Durability, type Storage } from '../../src/storage/storage.ts';
import { type Fault, FaultFileSystem } from '../faults/fault-file.ts';
import { slotFaults } from '../support/slot-check.ts';
import {
  addPages,
  codeOf,
  commitFill,
  commitNew,
  fill,
  holds,
  LOG_PATH,
  open,
} from '../support/small-storage.ts';

const LEVELS: readonly Durability[] = ['full', 'group', 'full', 'none'];

/** A course of commits over one storage, with what was acknowledged and what may be. */
class Course {
  readonly disk: FaultFileSystem;
  storage: Storage;
  pages: PageId[] = [];
  /** Stamps of the pages after each commit; the last may be of one that failed. */
  history: (readonly number[])[] = [];
  /** Commits of the history that are durable. */
  durable = 0;
  stamp = 0;

  constructor(disk: FaultFileSystem) {
    this.disk = disk;
    this.storage = open(disk);
    this.pages = commitNew(this.storage, 40, 0);
    this.history = [this.pages.map(() => 0)];
  }

  /** After the last commit that succeeded. */
  get stamps(): readonly number[] {
    return this.history.at(-1)!;
  }

  /** A commit, large every third time; answers the code it fails with. */
  commit(): string {
    const stamp = ++this.stamp;
    const count = stamp % 3 === 0 ? 40 : 4;
    const first = stamp % 3 === 0 ? 0 : (stamp * 7) % 36;
    const before = this.stamps;
    const level = stamp > 14 ? 'full' : LEVELS[stamp % 4]!;
    this.history.push(before.map((s, i) => (i >= first && i < first + count ? stamp : s)));
    const code = codeOf(() => {
      this.storage.begin();
      for (let i = first; i < first + count; i++) {
        fill(this.storage, this.pages[i]!, stamp);
        this.storage.settle();
      }
      this.storage.commit(level);
    });
    if (code === 'none' && level === 'full') this.durable = this.history.length - 1;
    if (code === 'none') return code;
    if (code !== 'storage.io') this.history.pop(); // rolled back, or never begun
    if (this.storage.inTransaction) this.storage.rollback();
    return code;
  }

  step(n: number): string {
    if (n % 5 !== 4 && n % 7 !== 6) return this.commit();
    const code = codeOf(() => (n % 5 === 4 ? this.storage.flush() : this.storage.checkpoint()));
    if (code === 'none') this.durable = this.history.length - 1;
    return code;
  }

  /** Whether a reopened storage has a state that it may have. */
  recovers(storage: Storage): boolean {
    return this.history.slice(this.durable).some((stamps) => this.matches(storage, stamps));
  }

  matches(storage: Storage, stamps: readonly number[]): boolean {
    return this.pages.every((page, i) => holds(storage, page, stamps[i]!));
  }
}

function injected(fault: Fault): Course {
  const course = new Course(new FaultFileSystem({ seed: 5 }));
  course.disk.inject(fault);
  return course;
}

describe('a full disk', () => {
  test('at the n-th write: the commit is rolled back, nothing latches, later commits work', () => {
    let struck = 0;
    for (let at = 1; at < 80; at++) {
      const course = injected({ operation: 'write', kind: 'full', at });
      const codes = Array.from({ length: 16 }, (_, n) => course.step(n));
      const failed = codes.filter((code) => code !== 'none');
      if (failed.length > 0) struck++;
      // What fails after the commit frame, or in the header, leaves an unknown outcome: it latches.
      const latched = failed.includes('storage.io');
      if (latched) {
        expect(failed.slice(1).every((code) => code === 'storage.failed')).toBe(true);
      } else {
        expect(failed.length, `write ${at}: ${failed.join()}`).toBeLessThanOrEqual(1);
        expect(failed.every((code) => code === 'storage.full')).toBe(true);
        expect(course.matches(course.storage, course.stamps)).toBe(true);
        course.disk.clearFaults();
        expect(course.commit()).toBe('none');
        course.storage.flush();
        course.durable = course.history.length - 1;
      }
      course.disk.clearFaults();
      const after = open(course.disk.kill());
      expect(course.recovers(after), `write ${at}`).toBe(true);
      expect(slotFaults(after)).toEqual([]);
      after.close();
    }
    expect(struck).toBeGreaterThan(20);
  });

  test('that stays full: reading goes on, commits say so, and room makes them work again', () => {
    const disk = new FaultFileSystem({ seed: 5 });
    const course = new Course(disk);
    const pages: PageId[] = [];
    disk.capacityBytes = 3 << 20;
    let code = 'none';
    for (let i = 0; code === 'none' && i < 2000; i++) {
      code = codeOf(() => {
        course.storage.begin();
        pages.push(...addPages(course.storage, 20, 1));
        course.storage.commit('none');
      });
    }
    expect(code).toBe('storage.full');
    course.storage.rollback();
    for (const page of pages.slice(0, -20)) expect(holds(course.storage, page, 1)).toBe(true);
    for (let i = 0; i < 20; i++) {
      const again = codeOf(() => commitNew(course.storage, 200, 2));
      expect(again).toBe('storage.full');
      course.storage.rollback();
    }
    // The log keeps a reserve for deletes (rule 14).
    course.storage.begin();
    for (const page of pages.slice(0, 40)) course.storage.free(page);
    course.storage.commit('full');
    disk.capacityBytes = Infinity;
    for (let i = 0; i < 10; i++) expect(course.step(i)).toBe('none');
    course.storage.flush();
    const after = open(disk.kill());
    expect(course.matches(after, course.stamps)).toBe(true);
    expect(slotFaults(after)).toEqual([]);
    after.close();
  });

  test('in the first commit: no log is left open, and the next one starts it', () => {
    for (let at = 1; at < 12; at++) {
      const disk = new FaultFileSystem({ seed: 5 });
      const storage = open(disk);
      disk.inject({ operation: 'write', kind: 'full', at, pathEnd: 'file-log' });
      const code = codeOf(() => commitNew(storage, 3, 1));
      if (code === 'none') continue;
      if (storage.inTransaction) storage.rollback();
      if (code === 'storage.full') {
        const [page] = commitNew(storage, 3, 2);
        const survivor = open(disk.kill());
        expect(holds(survivor, page!, 2)).toBe(true);
        survivor.close();
        continue;
      }
      expect(code).toBe('storage.io');
      expect(codeOf(() => storage.begin())).toBe('storage.failed');
    }
  });

  test('a header that cannot be written latches: its flag is what replays commits', () => {
    // The log counted as started, and the next commits were acknowledged without the flag set.
    for (let at = 1; at <= 2; at++) {
      const disk = new FaultFileSystem({ seed: 5 });
      const storage = open(disk);
      disk.inject({ operation: 'write', kind: 'full', at, pathEnd: '/file' });
      expect(codeOf(() => commitNew(storage, 3, 1))).toBe('storage.io');
      storage.rollback();
      expect(codeOf(() => storage.begin())).toBe('storage.failed');
      storage.close();
      const after = open(disk.kill());
      const [page] = commitNew(after, 3, 2);
      const last = open(disk.kill().kill());
      expect(holds(last, page!, 2)).toBe(true);
      last.close();
    }
  });

  test('while creating: there is no database, or a whole one', () => {
    for (let at = 1; at < 6; at++) {
      const disk = new FaultFileSystem({ seed: 5 });
      disk.inject({ operation: 'write', kind: 'full', at });
      const code = codeOf(() => open(disk).close());
      expect(['none', 'storage.full']).toContain(code);
      disk.clearFaults();
      const storage = open(disk);
      commitNew(storage, 1, 1);
      storage.close();
    }
  });
});

describe('a failure of the disk', () => {
  test.each(['write', 'sync'] as const)(
    'of the n-th %s latches, and a reopen recovers',
    (operation) => {
      let struck = 0;
      for (let at = 1; at < 60; at++) {
        const course = injected({ operation, kind: 'io', at });
        const codes = Array.from({ length: 16 }, (_, n) => course.step(n));
        const first = codes.findIndex((code) => code !== 'none');
        if (first < 0) continue;
        struck++;
        expect(codes[first], `${operation} ${at}`).toBe('storage.io');
        expect(new Set(codes.slice(first + 1))).toEqual(new Set(['storage.failed']));
        expect(codeOf(() => course.storage.openSnapshot())).toBe('storage.failed');
        course.storage.close(); // handles only
        expect(codeOf(() => course.storage.begin())).toBe('usage.closed');
        course.disk.clearFaults();
        const after = open(course.disk.kill());
        expect(course.recovers(after), `${operation} ${at}`).toBe(true);
        expect(slotFaults(after)).toEqual([]);
        after.close();
      }
      expect(struck).toBeGreaterThan(15);
    },
  );

  test('of a sync after the commit frame says that the outcome is unknown', () => {
    const disk = new FaultFileSystem({ seed: 5 });
    const storage = open(disk);
    commitNew(storage, 3, 1);
    disk.inject({ operation: 'sync', kind: 'io', pathEnd: LOG_PATH });
    storage.begin();
    addPages(storage, 1, 1);
    let error: unknown;
    try {
      storage.commit('full');
    } catch (cause) {
      error = cause;
    }
    expect(error).toBeInstanceOf(DatabaseError);
    expect((error as DatabaseError).code).toBe('storage.io');
    expect((error as Error).message).toMatch(/whether commit 2 is durable is unknown/);
  });

  test('of a read latches a writer', () => {
    const disk = new FaultFileSystem({ seed: 5 });
    const first = open(disk);
    const [page] = commitNew(first, 3, 1);
    first.close();
    const storage = open(disk);
    disk.inject({ operation: 'read', kind: 'io' });
    expect(codeOf(() => holds(storage, page!, 1))).toBe('storage.io');
    expect(codeOf(() => storage.begin())).toBe('storage.failed');
    storage.close();
    const reader = open(disk, { readOnly: true });
    disk.inject({ operation: 'read', kind: 'io' });
    expect(codeOf(() => holds(reader, page!, 1))).toBe('storage.io');
    expect(holds(reader, page!, 1), 'a reader tries again').toBe(true);
    reader.close();
  });

  test('of permission or place is named as what it is', () => {
    const disk = new FaultFileSystem({ seed: 5 });
    expect(codeOf(() => open(disk, { readOnly: true }))).toBe('storage.not_found');
    disk.inject({ operation: 'create', kind: 'permission' });
    expect(codeOf(() => open(disk))).toBe('storage.permission');
  });
});

describe('closed, read-only and left open', () => {
  test('a storage that is closed refuses work, and closing again does nothing', () => {
    const storage = open(new FaultFileSystem({ seed: 5 }));
    storage.close();
    storage.close();
    expect(codeOf(() => storage.begin())).toBe('usage.closed');
    expect(codeOf(() => storage.openSnapshot())).toBe('usage.closed');
    expect(storage.ledger.usedBytes).toBe(0);
  });

  test('a read-only open writes nothing, and needs a closed file or a writer', () => {
    const disk = new FaultFileSystem({ seed: 5 });
    const writer = open(disk);
    const pages = commitNew(writer, 3, 1);
    writer.checkpoint();
    commitFill(writer, pages, 2);
    const beside = open(disk, { readOnly: true });
    expect(holds(beside, pages[0]!, 1), 'the last checkpoint').toBe(true);
    expect(codeOf(() => beside.begin())).toBe('usage.read_only');
    beside.close();
    const survivor = disk.kill();
    const image = survivor.image('/db/file');
    expect(codeOf(() => open(survivor, { readOnly: true }))).toBe('storage.recovery_needed');
    const last = open(survivor, { readOnly: true, lastCheckpoint: true });
    expect(holds(last, pages[0]!, 1)).toBe(true);
    last.close();
    expect(survivor.image('/db/file')).toEqual(image);
  });
});
