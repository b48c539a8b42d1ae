/**
 * Checkpoints, syncs and slots: order of a checkpoint (law S5), what counters say (law S8), which
 * slots are written (law S1, rule 25), and that commits go on meanwhile.
 */
import { describe, expect, test } from 'vitest';
import { HEADER_COPY_STRIDE } from '../../src/storage/header.ts';
import { PageCache } from '../../src/storage/page-cache.ts';
import { type PageId } from '../../src/storage/pages.ts';
import { type FileSystem } from '../../src/storage/file.ts';
import { type Storage, type StorageOptions } from '../../src/storage/storage.ts';
import { FaultFileSystem } from '../faults/fault-file.ts';
import { type Note, RecordingFileSystem } from '../support/recording-files.ts';
import { slotFaults } from '../support/slot-check.ts';
import {
  addPages,
  codeOf,
  commitFill,
  commitNew,
  holds,
  LOG_PATH,
  open,
  PAGE_BYTES,
  PATH,
} from '../support/small-storage.ts';

function newFiles(): RecordingFileSystem {
  return new RecordingFileSystem(new FaultFileSystem({ seed: 3 }));
}

/** Notes of what a call does, without reads, as short words in order, repeats left out. */
function wordsOf(files: RecordingFileSystem, call: () => void): string[] {
  const from = files.notes.length;
  call();
  const words = files.notes.slice(from).flatMap((note) => wordOf(note) ?? []);
  return words.filter((word, i) => word !== words[i - 1] || word.startsWith('sync'));
}

function wordOf(note: Note): string | undefined {
  const isLog = note.path === LOG_PATH;
  if (note.operation === 'sync') return isLog ? 'sync log' : 'sync file';
  if (note.operation === 'write') {
    if (isLog) return 'log';
    if (note.length < PAGE_BYTES) return note.position === 0 ? 'header 0' : 'header 1';
    return 'pages';
  }
  return note.operation === 'truncate' ? `cut ${isLog ? 'log' : 'file'}` : undefined;
}

function syncs(storage: Storage): number[] {
  const c = storage.counters;
  return [c.commitSyncs, c.placeSyncs, c.headerSyncs, c.syncs + c.logSyncs, c.sliceSyncs];
}

/** A storage whose file has slots enough, so that no commit grows it. */
function openGrown(files: FileSystem, over: Partial<StorageOptions> = {}): Storage {
  const storage = open(files, over);
  PageCache.prototype.growFile.call(storage, 100); // without the log that is begun with it
  return storage;
}

describe('syncs (law S8)', () => {
  test('a full commit syncs once, the first after a clean open starts log and flag before', () => {
    const files = newFiles();
    const storage = openGrown(files);
    const pages = commitNew(storage, 3, 1);
    expect(syncs(storage)).toEqual([1, 0, 3, 0, 0]);
    const words = wordsOf(files, () => commitFill(storage, pages, 2));
    expect(words).toEqual(['log', 'sync log']);
    expect(syncs(storage)).toEqual([2, 0, 3, 0, 0]);
    storage.close();
  });

  test('the first commit after a clean open: log, folder, header copies, then the frames', () => {
    const files = newFiles();
    const storage = openGrown(files);
    const words = wordsOf(files, () => commitNew(storage, 1, 1));
    expect(words.join(', ')).toBe(
      'cut log, log, sync log, header 0, sync file, header 1, sync file, log, sync log',
    );
    const named = files.notes.findLastIndex((note) => note.operation === 'syncFolder');
    const flag = files.notes.findLastIndex((note) => wordOf(note) === 'header 0');
    expect(named).toBeLessThan(flag);
    storage.close();
  });

  test('a full commit with place frames syncs the file first, then the log', () => {
    const files = newFiles();
    const storage = open(files, { memoryBytes: 4 << 20 });
    commitNew(storage, 2, 1);
    const words = wordsOf(files, () => commitNew(storage, 100, 2));
    expect(words).toEqual(['pages', 'sync file', 'log', 'sync log']);
    expect(syncs(storage)).toEqual([2, 1, 3, 0, 0]);
    storage.close();
  });

  test('a full commit after a group commit with place frames syncs those slots too', () => {
    const files = newFiles();
    const storage = open(files, { memoryBytes: 8 << 20 });
    const pages = commitNew(storage, 2, 1);
    commitNew(storage, 200, 2, 'group');
    expect(storage.counters.placeSyncs).toBe(0);
    const words = wordsOf(files, () => commitFill(storage, pages, 2));
    expect(words).toEqual(['sync file', 'log', 'sync log']);
    storage.close();
  });

  test('group commits wait for one write and one sync; none are never synced by themselves', () => {
    const files = newFiles();
    const storage = openGrown(files);
    const pages = commitNew(storage, 4, 1);
    const group = wordsOf(files, () => {
      for (let i = 2; i < 9; i++) commitFill(storage, pages, i, 'group', 300);
      storage.flush();
    });
    expect(group).toEqual(['log', 'sync log']);
    expect(storage.hasUnsynced).toBe(false);
    const none = wordsOf(files, () => {
      for (let i = 0; i < 40; i++) commitFill(storage, pages, i, 'none');
    });
    expect(none).toContain('log');
    expect(none).not.toContain('sync log');
    storage.close();
  });

  test('buffered commits are synced once the delay has passed', () => {
    const files = newFiles();
    let clock = 1;
    const storage = openGrown(files, { now: () => clock, delayMs: 100 });
    const pages = commitNew(storage, 4, 1);
    const commit = (): string[] =>
      wordsOf(files, () => commitFill(storage, pages, ++clock, 'buffered', 300));
    expect([commit(), commit()]).toEqual([[], []]);
    clock += 100;
    expect(commit()).toEqual(['log', 'sync log']);
    expect(commit()).toEqual([]);
    storage.close();
  });

  test('writeEach writes each commit of level none to the file', () => {
    const files = newFiles();
    const storage = openGrown(files, { writeEach: true });
    const pages = commitNew(storage, 1, 1);
    expect(wordsOf(files, () => commitFill(storage, pages, 2, 'none'))).toEqual(['log']);
    storage.close();
  });

  test('a checkpoint syncs three times, slices apart', () => {
    const files = newFiles();
    const storage = open(files, { memoryBytes: 64 << 20 });
    const pages = commitNew(storage, 3, 1);
    storage.checkpoint();
    commitFill(storage, pages, 2);
    const before = syncs(storage);
    const words = wordsOf(files, () => storage.checkpoint());
    expect(words.filter((word) => word === 'sync file')).toHaveLength(3);
    expect(syncs(storage).map((n, i) => n - before[i]!)).toEqual([0, 0, 0, 4, 0]); // one of the log
    commitNew(storage, 1500, 3, 'none');
    storage.flush();
    const placed = storage.counters.sliceSyncs;
    storage.checkpoint();
    expect(storage.counters.checkpoints).toBe(3);
    expect(storage.counters.sliceSyncs - placed).toBeLessThanOrEqual(2);
    storage.close();
  });

  test('opening and closing a clean file writes and syncs nothing', () => {
    const files = newFiles();
    const first = open(files);
    commitNew(first, 3, 1);
    first.close();
    const words = wordsOf(files, () => {
      const storage = open(files);
      expect(holds(storage, 1 as PageId, 1)).toBe(true);
      storage.begin();
      storage.commit('full'); // nothing changed
      storage.close();
    });
    expect(words).toEqual([]);
  });
});

describe('order of a checkpoint (law S5)', () => {
  test('pages and nodes, sync, header, sync, header copy, sync', () => {
    const files = newFiles();
    const storage = open(files);
    commitNew(storage, 30, 1);
    const words = wordsOf(files, () => storage.checkpoint());
    expect(words.join(', ')).toBe(
      'log, pages, sync file, sync log, header 0, sync file, header 1, sync file',
    );
    storage.close();
  });

  test('a clean close: checkpoint, flag, only then the log is cut', () => {
    const files = newFiles();
    const storage = open(files);
    commitNew(storage, 30, 1);
    const words = wordsOf(files, () => storage.close());
    const order = [
      'pages',
      'sync file',
      'header 0',
      'sync file',
      'header 1',
      'sync file',
      'cut log',
    ];
    expect(words.slice(0, order.length)).toEqual(order);
  });

  test('header copies are one sector, in different 4 KiB blocks', () => {
    const files = newFiles();
    const storage = open(files);
    commitNew(storage, 3, 1);
    storage.close();
    const headers = files.notes.filter((note) => wordOf(note)?.startsWith('header') === true);
    expect(new Set(headers.map((note) => note.position))).toEqual(new Set([0, HEADER_COPY_STRIDE]));
    expect(headers.every((note) => note.length <= 512)).toBe(true);
  });
});

describe('slots are reused late enough', () => {
  /** Slots that the map of the last complete checkpoint names. */
  function namedSlots(storage: Storage): Set<number> {
    const slots = new Set<number>();
    storage.map.visitSlots((slot) => slots.add(slot));
    storage.bitmap.visitSlots((slot) => slots.add(slot));
    for (let page = 1; page < storage.nextPage; page++) {
      if (storage.locateInMap(page as PageId)) slots.add(storage.foundSlot);
    }
    return slots;
  }

  test('nothing that the last complete checkpoint names is written (law S1)', () => {
    const files = newFiles();
    const storage = open(files);
    const pages = commitNew(storage, 60, 0);
    let stamp = 0;
    for (let round = 0; round < 12; round++) {
      storage.checkpoint();
      const named = namedSlots(storage);
      const from = files.notes.length;
      for (let i = 0; i < 6; i++) {
        commitFill(
          storage,
          pages.slice(i * 10, i * 10 + 10),
          ++stamp,
          i % 2 === 0 ? 'full' : 'none',
        );
      }
      storage.startCheckpoint();
      for (const note of files.notes.slice(from)) {
        if (note.path !== PATH || note.operation !== 'write' || note.length < PAGE_BYTES) continue;
        const slot = note.position / PAGE_BYTES;
        for (let i = 0; i < note.length / PAGE_BYTES; i++) expect(named.has(slot + i)).toBe(false);
      }
    }
    storage.close();
  });

  test('space stays bounded while the same pages are written again and again', () => {
    const files = newFiles();
    const storage = open(files);
    const pages = commitNew(storage, 100, 0);
    let size = 0;
    for (let stamp = 1; stamp < 120; stamp++) {
      commitFill(storage, pages, stamp, 'none');
      if (stamp === 40) size = storage.slots.count;
    }
    expect(storage.slots.count).toBeLessThanOrEqual(size * 1.1);
    expect(storage.slots.count).toBeLessThan(1500); // place frames hold ten commits of slots
    storage.checkpoint();
    expect(slotFaults(storage)).toEqual([]);
    storage.close();
  });

  test('an old snapshot keeps its images, and the file stops growing once it ends', () => {
    const files = newFiles();
    const storage = open(files, { memoryBytes: 4 << 20 });
    const pages = commitNew(storage, 60, 0);
    const view = storage.openSnapshot();
    for (let stamp = 1; stamp < 60; stamp++) commitFill(storage, pages, stamp, 'none');
    for (const page of pages) expect(holds(storage, page, 0, view)).toBe(true);
    storage.closeSnapshot(view);
    storage.checkpoint();
    const size = storage.slots.count;
    for (let stamp = 60; stamp < 120; stamp++) commitFill(storage, pages, stamp, 'none');
    expect(storage.slots.count).toBeLessThanOrEqual(size * 1.1);
    storage.checkpoint(); // one that runs is a snapshot too
    expect(storage.versions.count).toBe(0);
    storage.close();
  });

  test('slots are neither lost nor named twice after rollbacks, spills and savepoints', () => {
    const files = newFiles();
    const storage = open(files);
    const pages = commitNew(storage, 50, 0);
    for (let round = 1; round < 8; round++) {
      storage.begin();
      addPages(storage, 300, round); // spills
      const savepoint = storage.savepoint();
      for (const page of pages.slice(0, 20)) storage.free(page);
      addPages(storage, 200, round);
      storage.rollbackTo(savepoint);
      if (round % 2 === 0) storage.rollback();
      else {
        storage.rollbackTo(1);
        addPages(storage, 2, round);
        storage.commit('none');
      }
      storage.checkpoint();
      expect(slotFaults(storage)).toEqual([]);
      const named = storage.bitmap.root.usedCount + storage.retired.count;
      expect(storage.slots.count - storage.slots.freeCount).toBe(named);
    }
    storage.close();
  });

  test('a clean close cuts free slots off the end of the file', () => {
    const disk = new FaultFileSystem({ seed: 3 });
    const storage = open(disk);
    const pages = commitNew(storage, 200, 1);
    storage.checkpoint();
    storage.begin();
    for (const page of pages) storage.free(page);
    storage.commit('full');
    storage.close();
    const again = open(disk);
    again.begin();
    addPages(again, 1, 1);
    again.commit('full');
    again.close();
    expect(disk.image(PATH).length).toBeLessThan(40 * PAGE_BYTES);
  });
});

describe('checkpoints while commits go on', () => {
  test('a slow checkpoint writes the state of its boundary while pages change', () => {
    const disk = new FaultFileSystem({ seed: 3 });
    const storage = open(disk, { memoryBytes: 8 << 20 });
    const pages = commitNew(storage, 150, 1, 'none');
    storage.checkpoint();
    commitFill(storage, pages, 2, 'none');
    expect(storage.startCheckpoint()).toBe(true);
    commitFill(storage, pages.slice(0, 50), 3, 'none');
    while (storage.idle()) commitFill(storage, [pages[60]!], 4, 'none', 200);
    storage.begin();
    const after = open(disk.kill(), { memoryBytes: 8 << 20 });
    for (const page of pages.slice(100)) expect(holds(after, page, 2)).toBe(true);
    after.close();
  });

  test('a commit that finds no room in the log ends the checkpoint first', () => {
    const files = newFiles();
    const storage = open(files);
    const pages = commitNew(storage, 20, 0);
    for (let stamp = 1; stamp < 400 && storage.counters.stalls === 0; stamp++) {
      commitFill(storage, pages.slice(0, 15), stamp, 'none');
    }
    const size = files.notes.filter((n) => n.path === LOG_PATH && n.operation === 'write');
    const end = Math.max(...size.map((note) => note.position + note.length));
    expect(end).toBeLessThanOrEqual(4096 + 2 * storage.log.segmentBytes);
    storage.close();
  });

  test('a checkpoint that lacks memory to start is made up for: no segment overflows', () => {
    // The segment was switched, but no checkpoint ran that would free the other: the next commit
    // that found no room wrote beyond the end of its segment.
    const disk = new FaultFileSystem({ seed: 3 });
    const storage = open(disk);
    const pages = commitNew(storage, 20, 0);
    storage.checkpoint();
    commitFill(storage, pages, 1, 'none');
    const hog = storage.ledger.availableBytes;
    expect(storage.ledger.tryCharge('work', hog)).toBe(true);
    const code = codeOf(() => storage.startCheckpoint());
    storage.ledger.release('work', hog);
    expect(['limit.memory', 'none']).toContain(code);
    let stamp = 1;
    while (storage.counters.checkpoints < 6 && stamp < 500) {
      commitFill(storage, pages, ++stamp, 'none');
      expect(storage.log.room).toBeGreaterThanOrEqual(0);
    }
    storage.flush();
    const after = open(disk.kill());
    for (const page of pages) expect(holds(after, page, stamp)).toBe(true);
    after.close();
  });
});
