/**
 * Recovery: what it brings back, that it may be cut short anywhere, what it refuses, and that its
 * cost follows the log, not the file (laws S2, S6, S7, T4).
 */
import { describe, expect, test } from 'vitest';
import { FRAME_COMMIT, FRAME_PLACE } from '../../src/storage/log-format.ts';
import { type PageId } from '../../src/storage/pages.ts';
import { type Storage } from '../../src/storage/storage.ts';
import { CrashSignal, FaultFileSystem } from '../faults/fault-file.ts';
import { type FrameAt, LogImage } from '../support/log-image.ts';
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
  PAGE_BYTES,
  PATH,
} from '../support/small-storage.ts';

function newDisk(): FaultFileSystem {
  return new FaultFileSystem({ seed: 7 });
}

/** A disk that was killed behind commits of every kind of frame, and what the pages hold. */
function killedDisk(): { disk: FaultFileSystem; expected: Map<PageId, number> } {
  const disk = newDisk();
  const storage = open(disk);
  const expected = new Map<PageId, number>();
  const put = (pages: readonly PageId[], stamp: number): void => {
    for (const page of pages) expected.set(page, stamp);
  };
  const first = commitNew(storage, 20, 1);
  put(first, 1);
  storage.checkpoint();
  commitFill(storage, first.slice(0, 5), 2, 'full', 600); // change
  commitFill(storage, first.slice(0, 5), 3);
  put(first.slice(0, 5), 3);
  put(commitNew(storage, 150, 4), 4); // place
  storage.begin();
  for (const page of first.slice(10, 14)) storage.free(page);
  storage.commit('full'); // free
  for (const page of first.slice(10, 14)) expected.delete(page);
  commitFill(storage, first.slice(15), 5, 'full', 600);
  commitFill(storage, first.slice(15), 6);
  put(first.slice(15), 6);
  return { disk: disk.kill(), expected };
}

function expectPages(storage: Storage, expected: ReadonlyMap<PageId, number>): void {
  for (const [page, stamp] of expected)
    expect(holds(storage, page, stamp), `page ${page}`).toBe(true);
  expect(storage.map.root.usedCount).toBe(expected.size);
  expect(slotFaults(storage)).toEqual([]);
}

/** Opens a killed disk with frames of its log changed, checksums made to fit. */
function forged(change: (image: LogImage, frames: readonly FrameAt[]) => void): string {
  const { disk } = killedDisk();
  const image = new LogImage(disk.image(LOG_PATH));
  const { start, generation } = image.segments().at(-1)!;
  expect(start + generation).toBeGreaterThan(0);
  const frames = image.frames();
  change(image, frames);
  image.seal(frames);
  disk.setImage(LOG_PATH, image.bytes);
  return codeOf(() => open(disk).close());
}

describe('Storage.open after a kill', () => {
  test('brings back change, place and free frames, and ends in a checkpoint', () => {
    const { disk, expected } = killedDisk();
    const frames = new LogImage(disk.image(LOG_PATH)).frames();
    expect(new Set(frames.map((frame) => frame.kind))).toEqual(new Set([1, 2, 3, 4]));
    const storage = open(disk);
    expect(storage.counters.recoveredCommits).toBe(6);
    expect(storage.counters.checkpoints).toBe(1);
    expect(storage.header.openForWriting).toBe(false);
    expect(disk.image(LOG_PATH).length).toBe(0);
    expectPages(storage, expected);
    storage.close();
    const again = open(disk);
    expect(again.counters.recoveredCommits).toBe(0);
    expectPages(again, expected);
    again.close();
  });

  test('may itself be cut short at every operation, again and again', () => {
    const { disk: killed, expected } = killedDisk();
    let operations = 0;
    for (let at = 1; ; at++) {
      let disk = killed.crash(at);
      disk.crashAfter(at);
      try {
        open(disk).close();
        break;
      } catch (cause) {
        if (!(cause instanceof CrashSignal)) throw cause;
      }
      operations++;
      disk = disk.crash(at * 31);
      const storage = open(disk);
      expectPages(storage, expected);
      storage.close();
    }
    expect(operations).toBeGreaterThan(8);
  });

  test('a torn commit leaves the commit before it, whole (law S2)', () => {
    const disk = newDisk();
    const storage = open(disk);
    const pages = commitNew(storage, 12, 1);
    commitFill(storage, pages, 2);
    commitFill(storage, pages, 3, 'group');
    storage.log.write(); // written, not synced: a power loss may tear it
    const seen = new Set<string>();
    for (let seed = 1; seed < 150; seed++) {
      const after = open(disk.crash(seed));
      const stamp = holds(after, pages[0]!, 3) ? 3 : 2;
      seen.add(String(stamp));
      for (const page of pages) expect(holds(after, page, stamp)).toBe(true);
      after.close();
    }
    expect([...seen].sort()).toEqual(['2', '3']);
  });

  test('group commits are all there or end at one, in order, after a power loss', () => {
    const disk = newDisk();
    const storage = open(disk);
    const pages = commitNew(storage, 30, 0);
    for (let stamp = 1; stamp <= 29; stamp++) {
      commitFill(storage, [pages[stamp]!], stamp, 'none', 500);
      if (stamp === 10) storage.flush();
    }
    storage.log.write();
    for (let seed = 1; seed < 60; seed++) {
      const after = open(disk.crash(seed));
      const changed = pages.slice(1).map((page, i) => holds(after, page, i + 1, undefined, 500));
      const count = changed.filter((each) => each).length;
      expect(count).toBeGreaterThanOrEqual(10);
      expect(changed.slice(0, count).every((each) => each)).toBe(true);
      after.close();
    }
  });

  test('place slots that are not known synced are verified (rule 22)', () => {
    const disk = newDisk();
    const storage = open(disk, { memoryBytes: 8 << 20 }); // no checkpoint comes between
    const pages = commitNew(storage, 150, 1);
    commitFill(storage, pages, 2, 'group');
    storage.log.write();
    storage.log.sync(); // the frames are durable, their slots are not
    const seen = new Set<number>();
    for (let seed = 1; seed < 40; seed++) {
      const after = open(disk.crash(seed));
      const stamp = holds(after, pages[0]!, 2) ? 2 : 1;
      seen.add(stamp);
      for (const page of pages) expect(holds(after, page, stamp)).toBe(true);
      after.close();
    }
    expect([...seen].sort()).toEqual([1, 2]);
  });

  test('damage below what was synced is corrupt.log, and the files stay as they are', () => {
    const { disk } = killedDisk();
    const image = new LogImage(disk.image(LOG_PATH));
    image.bytes[image.frames().find((f) => f.kind === FRAME_PLACE)!.offset + 30]! ^= 1;
    disk.setImage(LOG_PATH, image.bytes);
    const before = disk.image(PATH);
    expect(codeOf(() => open(disk))).toBe('corrupt.log');
    expect(disk.image(PATH)).toEqual(before);
    expect(disk.lockHolder(PATH)).toBeUndefined();
  });

  test('a checkpoint without a new segment: frames that it covers are passed over', () => {
    // A checkpoint that could not start after the segment was switched is made up for later, in
    // the open segment. Its place frames then name slots that were reused since, and commits may
    // be known to the file and not to the log.
    const disk = newDisk();
    const storage = open(disk, { memoryBytes: 3 << 20 });
    const pages = commitNew(storage, 150, 1);
    storage.checkpoint();
    storage.log.switchSegment(); // as the checkpoint that then lacked memory left it
    commitFill(storage, pages, 2, 'none'); // place frames, not synced
    commitFill(storage, pages, 3, 'none');
    storage.checkpoint(); // covers both, replays from their segment
    storage.checkpoint();
    commitFill(storage, pages.slice(0, 100), 4, 'none'); // over slots of stamp 2
    commitFill(storage, pages.slice(0, 3), 5);
    const survivor = disk.kill();
    const after = open(survivor);
    for (const [i, page] of pages.entries()) {
      expect(holds(after, page, i < 3 ? 5 : i < 100 ? 4 : 3), `page ${i}`).toBe(true);
    }
    expect(slotFaults(after)).toEqual([]);
    after.close();
  });

  test('commit ids go on above those of the checkpoint when the log lost what it covers', () => {
    const disk = newDisk();
    const storage = open(disk);
    const pages = commitNew(storage, 10, 1);
    storage.log.switchSegment();
    for (let stamp = 2; stamp < 9; stamp++) commitFill(storage, pages, stamp, 'none', 300);
    storage.checkpoint();
    const commit = storage.commitId;
    for (let seed = 1; seed < 30; seed++) {
      const survivor = disk.crash(seed);
      const after = open(survivor);
      expect(after.commitId).toBeGreaterThanOrEqual(commit);
      commitFill(after, pages, 50);
      const last = open(survivor.kill());
      for (const page of pages) expect(holds(last, page, 50)).toBe(true);
      last.close();
    }
  });
});

describe('recovery of a forged log', () => {
  const commitOf = (frames: readonly FrameAt[], n: number): FrameAt =>
    frames.filter((frame) => frame.kind === FRAME_COMMIT).at(n)!;
  const placeOf = (frames: readonly FrameAt[]): FrameAt =>
    frames.find((frame) => frame.kind === FRAME_PLACE)!;
  const changeOf = (frames: readonly FrameAt[]): FrameAt =>
    frames.findLast((frame) => frame.kind === 1)!;

  test('what is not changed opens', () => {
    expect(forged(() => undefined)).toBe('none');
  });

  test.each<[string, (image: LogImage, frames: readonly FrameAt[]) => void]>([
    ['slot 2^31 - 1', (i, f) => i.view.setInt32(placeOf(f).offset + 28, 2 ** 31 - 1, true)],
    ['slot below 0', (i, f) => i.view.setInt32(placeOf(f).offset + 28, -5, true)],
    ['slot of the header', (i, f) => i.view.setInt32(placeOf(f).offset + 28, 1, true)],
    ['place of page 0', (i, f) => i.view.setInt32(placeOf(f).offset + 24, 0, true)],
    ['place of page -1', (i, f) => i.view.setInt32(placeOf(f).offset + 24, -1, true)],
    ['count of places', (i, f) => i.view.setInt32(placeOf(f).offset + 12, 5000, true)],
    ['count below 0', (i, f) => i.view.setInt32(placeOf(f).offset + 12, -1, true)],
    ['next page NaN', (i, f) => i.view.setFloat64(commitOf(f, -1).offset + 24, NaN, true)],
    ['next page huge', (i, f) => i.view.setFloat64(commitOf(f, -1).offset + 24, 1e18, true)],
    ['commit NaN', (i, f) => i.view.setFloat64(changeOf(f).offset + 16, NaN, true)],
    ['commit of another', (i, f) => i.view.setFloat64(changeOf(f).offset + 16, 77, true)],
    ['commit 0', (i, f) => i.view.setFloat64(commitOf(f, -1).offset + 16, 0, true)],
    ['page 0', (i, f) => i.view.setInt32(changeOf(f).offset + 12, 0, true)],
    ['moves that are not there', (i, f) => i.view.setUint16(changeOf(f).offset + 10, 9999, true)],
    ['move', (i, f) => i.view.setUint16(changeOf(f).offset + 10, 2, true)],
    ['range', (i, f) => i.view.setUint32(changeOf(f).offset + 24, 0xffff0009, true)],
    ['range too long', (i, f) => i.view.setUint32(changeOf(f).offset + 24, 0x0000fff0, true)],
  ])('a wrong %s is corruption', (_, change) => {
    expect(forged(change)).toMatch(/^corrupt\.(log|page)$/);
  });

  test('a commit frame that counts other frames ends the log', () => {
    expect(forged((i, f) => i.view.setInt32(commitOf(f, -1).offset + 12, 99, true))).toBe('none');
    const middle = forged((i, f) => i.view.setInt32(commitOf(f, 2).offset + 12, 99, true));
    expect(middle).toBe('corrupt.log');
  });
});

describe('cost of opening', () => {
  /** Reads of the two files by an open, a first get and a close. */
  function readsOf(pages: number, killed: boolean): { reads: number; bytes: number } {
    let disk = newDisk();
    let storage = open(disk, { memoryBytes: 16 << 20 });
    const all: PageId[] = [];
    for (let done = 0; done < pages; done += 500) all.push(...commitNew(storage, 500, 1, 'none'));
    storage.close();
    if (killed) {
      storage = open(disk, { memoryBytes: 16 << 20 });
      commitFill(storage, all.slice(0, 10), 2);
    }
    disk = disk.kill();
    const before = { file: disk.counts(PATH), log: disk.counts(LOG_PATH) };
    const reads0 = before.file.reads + before.log.reads;
    const bytes0 = before.file.bytesRead + before.log.bytesRead;
    const again = open(disk, { memoryBytes: 2 << 20 });
    expect(holds(again, all[7]!, killed ? 2 : 1)).toBe(true);
    const { file, log } = { file: disk.counts(PATH), log: disk.counts(LOG_PATH) };
    again.abandon();
    return {
      reads: file.reads + log.reads - reads0,
      bytes: file.bytesRead + log.bytesRead - bytes0,
    };
  }

  test('opening and a first get read the same few pages whatever the size (law S7)', () => {
    const small = readsOf(500, false);
    const large = readsOf(8000, false);
    expect(small.reads).toBeLessThan(8);
    // One more level of the map is one more read.
    expect(large.reads - small.reads).toBeLessThanOrEqual(1);
    expect(large.bytes - small.bytes).toBeLessThanOrEqual(PAGE_BYTES);
  });

  test('recovery reads the log and the pages it names, whatever the size of the file', () => {
    const small = readsOf(500, true);
    const large = readsOf(8000, true);
    expect(large.reads - small.reads).toBeLessThanOrEqual(2); // a level of the map
  });
});

describe('limits of recovery', () => {
  test('it works under the smallest budget and stays inside it', () => {
    const disk = newDisk();
    const storage = open(disk, { memoryBytes: 8 << 20 });
    const pages = commitNew(storage, 1500, 1);
    for (let stamp = 2; stamp < 6; stamp++) commitFill(storage, pages, stamp, 'full', 300);
    const survivor = disk.kill();
    const after = open(survivor, { memoryBytes: 2 << 20 });
    expect(after.ledger.peakBytes).toBeLessThanOrEqual(2 << 20);
    for (const page of pages) expect(holds(after, page, 5, undefined, 300)).toBe(true);
    after.close();
  });

  test('a full disk fails it without harm, and with room it succeeds', () => {
    const { disk, expected } = killedDisk();
    const used = disk.paths().reduce((sum, path) => sum + disk.image(path).length, 0);
    for (let room = 0; ; room += 8192) {
      disk.capacityBytes = used + room;
      let storage: Storage | undefined;
      const code = codeOf(() => (storage = open(disk)));
      if (code === 'none') {
        disk.capacityBytes = Infinity;
        expectPages(storage!, expected);
        storage!.close();
        break;
      }
      expect(code).toBe('storage.full');
      expect(room).toBeLessThan(4 << 20);
    }
  });

  test('free pages of earlier processes are handed out again', () => {
    const disk = newDisk();
    const first = open(disk);
    const pages = commitNew(first, 40, 1);
    first.begin();
    for (const page of pages.slice(10, 30)) first.free(page);
    first.commit('full');
    const second = open(disk.kill());
    second.begin();
    const again = addPages(second, 20, 2);
    expect(Math.max(...again)).toBeLessThanOrEqual(40);
    expect(new Set([...again, ...pages.slice(0, 10), ...pages.slice(30)]).size).toBe(40);
    fill(second, again[0]!, 9);
    second.commit('full');
    second.checkpoint();
    expect(slotFaults(second)).toEqual([]);
    second.close();
  });
});
