/**
 * The log: what is written, when it is synced, and what the reader makes of every kind of damage.
 * The reader's cases follow LevelDB's log test (suites/README.md section 8): empty, exact ends,
 * short trailer, truncated last frame, bad length in the middle and at the end, checksum mismatch,
 * unknown kind, wrong order, reading from every offset.
 */
import { describe, expect, test } from 'vitest';
import { Ledger } from '../../src/base/ledger.ts';
import { type File } from '../../src/storage/file.ts';
import { FRAME_COMMIT, FRAME_FREE, SEGMENT_HEADER_BYTES } from '../../src/storage/log-format.ts';
import { MemoryFileSystem } from '../../src/storage/memory-file.ts';
import { LogReader } from '../../src/storage/log-reader.ts';
import { Log, LOG_STEP_BYTES } from '../../src/storage/log.ts';
import { FaultFileSystem } from '../faults/fault-file.ts';
import { LogImage } from '../support/log-image.ts';
import { RecordingFileSystem } from '../support/recording-files.ts';
import {
  addPages,
  codeOf,
  commitFill,
  commitNew,
  holds,
  LOG_PATH,
  open,
  PATH,
} from '../support/small-storage.ts';

const FILE_ID = new Uint8Array(16).fill(9);
const NAME = '/db/log';
const COMMIT_BYTES = 48;
const FREE_BYTES = 24;

/** A log alone, with commits of free frames: page numbers say which commit they belong to. */
class Bench {
  readonly disk = new FaultFileSystem({ seed: 1 });
  readonly file: File = this.disk.open(NAME, 'create');
  readonly log: Log;
  commits = 0;

  constructor(segmentBytes = LOG_STEP_BYTES) {
    this.log = new Log(FILE_ID, segmentBytes, new Ledger(8 << 20));
    this.log.start(this.file, 5, 1000);
  }

  commit(frees: number, sync = true): void {
    const commit = ++this.commits;
    this.log.beginCommit();
    for (let i = 0; i < frees; i++) this.log.appendFree(commit * 1000 + i, commit);
    this.log.ensureSpace(COMMIT_BYTES, () => false);
    this.log.appendCommit(commit, 1, true);
    this.log.write();
    if (sync) this.log.sync();
  }

  get image(): LogImage {
    return new LogImage(this.disk.image(NAME));
  }

  /** Commits that a reader finds from a position on; `corrupt` if it reports damage. */
  read(image = this.image.bytes, generation = 5, position = 1000): number[] | string {
    this.disk.setImage('/db/copy', image);
    const file = this.disk.open('/db/copy', 'read');
    const commits: number[] = [];
    const code = codeOf(() => {
      const reader = new LogReader(file, NAME, FILE_ID, generation, position);
      let end = position;
      while (reader.next()) {
        if (reader.kind !== FRAME_COMMIT) continue;
        commits.push(reader.floats[(reader.at >> 3) + 2]!);
        end = reader.position + reader.frameBytes;
      }
      reader.checkEnd(end);
    });
    return code === 'none' ? commits : code;
  }
}

function benchOf(commits: number, frees = 3): Bench {
  const bench = new Bench();
  for (let i = 0; i < commits; i++) bench.commit(frees);
  return bench;
}

describe('LogReader', () => {
  test('an empty log has no frames', () => {
    expect(benchOf(0).read()).toEqual([]);
  });

  test('commits come back in order, also large ones and some without frames', () => {
    const bench = new Bench();
    for (const frees of [1, 0, 3000, 7, 1500]) bench.commit(frees);
    expect(bench.read()).toEqual([1, 2, 3, 4, 5]);
  });

  test.each([0, 8, 16, 24, 40, 48])('a segment that ends %i bytes behind a frame', (left) => {
    const bench = new Bench();
    const { log } = bench;
    // Free frames are 24 bytes, commit frames 48, a place frame of n entries 24 + 12 n, padded.
    log.beginCommit();
    const entries = new Int32Array(3 * 2048);
    for (;;) {
      const room = log.room - left - COMMIT_BYTES;
      if (room === 0) break;
      const n = Math.min(2048, Math.floor((room - FREE_BYTES) / 12));
      const even = room - FREE_BYTES >= 48 ? n - (n % 2) : n;
      if (room >= FREE_BYTES + 24 && even > 0) log.appendPlaces(entries, even, 1);
      else if (room >= FREE_BYTES) log.appendFree(1, 1);
      else break;
    }
    log.appendCommit(1, 1, true);
    bench.commits = 1;
    expect(log.room).toBeLessThan(left + FREE_BYTES);
    log.write();
    log.sync();
    expect(bench.read()).toEqual([1]);
    log.switchSegment();
    bench.commit(2);
    expect(bench.read(), 'and goes on in the other').toEqual([1, 2]);
  });

  test('reading from every frame on gives the rest', () => {
    const bench = benchOf(4);
    for (const frame of bench.image.frames()) {
      const expected = [1, 2, 3, 4].filter((commit) => {
        const last = bench.image.frames().filter((f) => f.kind === FRAME_COMMIT)[commit - 1]!;
        return last.position >= frame.position;
      });
      expect(bench.read(bench.image.bytes, 5, frame.position)).toEqual(expected);
    }
  });

  test('a position before the segment, or another generation: the log is missing', () => {
    const bench = benchOf(2);
    expect(bench.read(bench.image.bytes, 5, 992)).toBe('storage.log_missing');
    expect(bench.read(bench.image.bytes, 6)).toBe('storage.log_missing');
    expect(bench.read(bench.image.bytes, 4)).toBe('storage.log_missing');
  });

  test('a file cut at every byte ends at the last whole commit, or says what is missing', () => {
    const bench = benchOf(3, 1);
    const { bytes } = bench.image;
    const frames = bench.image.frames();
    const end = frames.at(-1)!.offset + COMMIT_BYTES;
    for (let length = 0; length <= end; length += length > 4096 ? 1 : 64) {
      const found = bench.read(bytes.slice(0, length));
      if (length < 4096 + SEGMENT_HEADER_BYTES) {
        expect(found).toBe('storage.log_missing');
        continue;
      }
      const whole = frames.filter((f) => f.kind === FRAME_COMMIT && f.offset + f.bytes <= length);
      expect(found).toEqual(whole.map((_, i) => i + 1));
    }
  });

  test.each([
    ['length 0', 4, 0],
    ['length of 20 bytes', 4, 20],
    ['length that is no multiple of 8', 4, 28],
    ['length beyond the segment', 4, 98_304],
    ['length below 0', 4, -8],
    ['huge length', 4, 2 ** 31 - 8],
    ['checksum', 0, 12_345],
    ['kind 0', 8, 0],
    ['kind 9', 8, 9],
    ['page', 12, 77],
  ])('a wrong %s is reported in the middle, and ends the log at the end', (_, offset, value) => {
    const bench = benchOf(6);
    const firstOf = (commit: number): number => bench.image.frames()[(commit - 1) * 4]!.offset;
    const middle = bench.image;
    middle.view.setInt32(firstOf(3) + offset, value, true);
    expect(bench.read(middle.bytes)).toBe('corrupt.log');
    const last = bench.image;
    last.view.setInt32(firstOf(6) + offset, value, true);
    expect(bench.read(last.bytes)).toEqual([1, 2, 3, 4, 5]);
  });

  test('damage in the last but one commit ends the log there if nothing says it was synced', () => {
    const bench = benchOf(3);
    bench.commit(3, false);
    bench.commit(3, false);
    const image = bench.image;
    image.bytes[image.frames()[13]!.offset + 20]! ^= 1;
    expect(bench.read(image.bytes)).toEqual([1, 2, 3]);
  });

  test('frames in another order, or copied to another position, are not read', () => {
    const bench = benchOf(4);
    const swapped = bench.image;
    const [a, b] = [swapped.frames()[12]!, swapped.frames()[13]!];
    const first = swapped.bytes.slice(a.offset, a.offset + FREE_BYTES);
    swapped.bytes.copyWithin(a.offset, b.offset, b.offset + FREE_BYTES);
    swapped.bytes.set(first, b.offset);
    expect(bench.read(swapped.bytes)).toEqual([1, 2, 3]);
  });

  test('frames of an older generation behind the end are not read', () => {
    const bench = new Bench();
    bench.commit(3000);
    bench.log.switchSegment();
    bench.commit(3000);
    bench.log.releaseSegment();
    bench.log.switchSegment(); // over the first commit's segment
    bench.commit(2);
    const start = bench.image.segments()[1]!.start;
    expect(bench.read(bench.image.bytes, 7, start)).toEqual([3]);
  });

  test('a damaged header of the second segment is reported once more was synced in it', () => {
    const bench = benchOf(3);
    bench.log.switchSegment();
    bench.commit(1);
    const image = bench.image;
    const { offset } = image.segments()[1]!;
    image.bytes[offset + 26]! ^= 1;
    expect(bench.read(image.bytes), 'the last synced commit may be lost').toEqual([1, 2, 3]);
    bench.commit(1);
    const later = bench.image;
    later.bytes[offset + 26]! ^= 1;
    expect(bench.read(later.bytes)).toBe('corrupt.log');
  });

  test('a log of another file, or a damaged log header, is missing', () => {
    const bench = benchOf(2);
    const other = bench.image;
    other.bytes[10]! ^= 1;
    expect(bench.read(other.bytes)).toBe('storage.log_missing');
    other.sealHeader(0);
    expect(bench.read(other.bytes)).toBe('storage.log_missing');
    for (const size of [NaN, -8, 0, 100, 2 ** 40, 1e300]) {
      const forged = bench.image;
      forged.view.setFloat64(24, size, true);
      forged.sealHeader(0);
      expect(bench.read(forged.bytes), String(size)).toBe('storage.log_missing');
    }
  });
});

describe('Log', () => {
  test('the file grows by zeroes ahead of use, so that a sync changes no size', () => {
    const bench = benchOf(1);
    const size = bench.file.size();
    for (let i = 0; i < 20; i++) bench.commit(10);
    expect(bench.file.size()).toBe(size);
  });

  test('rewind drops frames that are not written, and the next commit takes their place', () => {
    const bench = benchOf(1);
    const before = bench.log.appended;
    bench.log.beginCommit();
    bench.log.appendFree(77, 2);
    bench.log.rewind(before);
    bench.commit(1);
    expect(bench.read()).toEqual([1, 2]);
    const kinds = bench.image.frames().map((frame) => frame.kind);
    expect(kinds).toEqual([3, 3, 3, 4, FRAME_FREE, FRAME_COMMIT]);
  });

  test('frames that were written before their commit frame are taken back for good', () => {
    const bench = new Bench(1 << 20);
    bench.commit(3);
    bench.disk.syncFolder(NAME);
    const { appended, synced } = bench.log;
    bench.log.beginCommit();
    bench.log.writeWhenFull(() => false);
    for (let i = 0; i < 30_000; i++) bench.log.appendFree(i + 1, 2);
    expect(bench.log.written).toBeGreaterThan(appended);
    expect(bench.log.growthBytes(400_000), 'the buffer did not grow').toBeGreaterThan(0);
    expect(bench.read(), 'nothing counts without its commit frame').toEqual([1]);
    bench.log.rewind(appended);
    expect(bench.log.synced).toBe(synced);
    const { image } = bench;
    expect(image.frames()).toHaveLength(4);
    // A shorter commit of the same id ends where a frame of the one taken back began.
    bench.commit(2, false);
    expect(bench.read()).toEqual([1, 2]);
    for (let seed = 1; seed <= 10; seed++) {
      const left = new LogImage(bench.disk.crash(seed).image(NAME)).frames().length;
      expect(left, 'after a crash there is nothing of it either').toBeLessThanOrEqual(7);
    }
  });

  test('switchSegment that fails for want of space leaves the log as it was', () => {
    // It once went on in the old segment under the new generation: later commits were lost.
    const bench = benchOf(2);
    bench.disk.capacityBytes = 300 * 1024;
    expect(codeOf(() => bench.log.switchSegment())).toBe('storage.full');
    bench.commit(2);
    expect(bench.read()).toEqual([1, 2, 3]);
    bench.disk.capacityBytes = Infinity;
    bench.log.switchSegment();
    bench.commit(2);
    expect(bench.read()).toEqual([1, 2, 3, 4]);
  });

  test('ensureSpace refuses what grows before space ends, and lets deletes use it', () => {
    const bench = new Bench(8 << 20);
    while (bench.log.appended < 2 << 20) bench.commit(1000);
    bench.disk.capacityBytes = 0;
    const commitsUntilFull = (shrinking: boolean): number => {
      let commits = 0;
      while (codeOf(() => bench.log.ensureSpace(25_000, () => shrinking)) === 'none') {
        bench.log.beginCommit();
        for (let i = 0; i < 1000; i++) bench.log.appendFree(1, bench.commits + 1);
        bench.log.appendCommit(++bench.commits, 1, true);
        bench.log.write();
        commits++;
      }
      return commits;
    };
    expect(commitsUntilFull(false)).toBeLessThan(15);
    expect(commitsUntilFull(true) * 24_048, 'most of a MiB').toBeGreaterThan(900_000);
    expect(bench.read()).toHaveLength(bench.commits);
  });
});

describe('Storage log', () => {
  test('the log names its file: that of another database is refused', () => {
    const disk = new FaultFileSystem({ seed: 1 });
    const one = open(disk);
    commitNew(one, 1, 1);
    const two = open(disk, { path: '/db/two', fileId: new Uint8Array(16).fill(77) });
    commitNew(two, 1, 1);
    const survivor = disk.kill();
    survivor.setImage(LOG_PATH, survivor.image('/db/two-log'));
    expect(codeOf(() => open(survivor))).toBe('storage.log_missing');
  });

  test('the log of an older generation, or none, or an empty one, is refused', () => {
    const disk = new FaultFileSystem({ seed: 1 });
    const first = open(disk);
    const pages = commitNew(first, 1, 1);
    const old = disk.image(LOG_PATH);
    first.close();
    const second = open(disk);
    commitFill(second, pages, 2);
    const survivor = disk.kill();
    const good = survivor.image(LOG_PATH);
    for (const image of [old, new Uint8Array(0)]) {
      survivor.setImage(LOG_PATH, image);
      const before = survivor.image(PATH);
      expect(codeOf(() => open(survivor))).toBe('storage.log_missing');
      expect(survivor.image(PATH)).toEqual(before);
      expect(survivor.image(LOG_PATH)).toEqual(image);
    }
    survivor.remove(LOG_PATH);
    expect(codeOf(() => open(survivor))).toBe('storage.log_missing');
    survivor.setImage(LOG_PATH, good);
    const again = open(survivor);
    expect(holds(again, pages[0]!, 2)).toBe(true);
    again.close();
  });

  test('a commit that places or frees many pages needs no log buffer for all of them', () => {
    // The buffer once held all place frames together: limit.memory, with everything spilled.
    const storage = open(new MemoryFileSystem(), { memoryBytes: 5 << 20 });
    const { ledger } = storage;
    const leaveFree = (bytes: number): number => {
      let held = 0;
      while (codeOf(() => ledger.charge('work', 65_536)) === 'none') held += 65_536;
      ledger.release('work', bytes);
      return held - bytes;
    };
    storage.begin();
    const pages = addPages(storage, 20_000, 1);
    // What publishing needs, and less than a larger log buffer beside it.
    const held = leaveFree(768 * 1024);
    expect(codeOf(() => storage.commit('full'))).toBe('none');
    ledger.release('work', held);
    expect(ledger.bytesOf('log')).toBeLessThan(400_000);
    storage.checkpoint();
    expect([0, 9_999, 19_999].every((i) => holds(storage, pages[i]!, 1))).toBe(true);
    let logBytes = 0;
    const charge = ledger.charge.bind(ledger);
    ledger.charge = (account, bytes) => {
      charge(account, bytes);
      logBytes = Math.max(logBytes, ledger.bytesOf('log'));
    };
    storage.begin();
    for (const page of pages.slice(0, 14_000)) {
      storage.free(page);
      storage.settle();
    }
    storage.commit('full');
    expect(logBytes).toBeLessThan(400_000);
    expect(ledger.peakBytes).toBeLessThanOrEqual(ledger.budgetBytes);
    expect(holds(storage, pages[19_999]!, 1)).toBe(true);
    storage.close();
  });

  test('a clean close truncates the log, and an open of a clean file never reads one', () => {
    const disk = new FaultFileSystem({ seed: 1 });
    const storage = open(disk);
    commitNew(storage, 3, 1);
    storage.close();
    expect(disk.image(LOG_PATH).length).toBe(0);
    disk.setImage(LOG_PATH, new Uint8Array(300_000).fill(77));
    const notes = new RecordingFileSystem(disk);
    const again = open(notes);
    expect(holds(again, 1 as never, 1)).toBe(true);
    again.close();
    expect(notes.notes.filter((note) => note.path === LOG_PATH)).toEqual([]);
  });

  test('the name of a log is made durable though a process before left the file', () => {
    // A log that was there counted as durable, but its maker may have died before the folder sync.
    let disk = new FaultFileSystem({ seed: 1 });
    open(disk).close();
    disk.crashAfter(10_000);
    const first = open(disk);
    const syncs = disk.folderSyncCount;
    disk.inject({ operation: 'syncFolder', kind: 'io' });
    expect(codeOf(() => commitNew(first, 1, 1))).toBe('storage.io');
    expect(disk.folderSyncCount).toBe(syncs);
    disk = disk.kill();
    const second = open(disk);
    const [page] = commitNew(second, 1, 2);
    for (let seed = 1; seed < 60; seed++) {
      const survivor = disk.crash(seed);
      const after = open(survivor);
      expect(holds(after, page!, 2)).toBe(true);
      after.close();
    }
  });
});
