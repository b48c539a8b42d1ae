/**
 * Bits flipped, one at a time: in one page of each kind, in nodes of map and bitmap, in both header
 * copies, in each kind of frame and in the headers of the log. Each is detected or harmless.
 * `flips.test.ts` takes a sample, `run-flips.ts` takes all.
 */
import { Random } from '../../src/base/random.ts';
import { DatabaseError } from '../../src/errors.ts';
import { Tree } from '../../src/storage/btree.ts';
import { type File, type FileSystem, type Lock } from '../../src/storage/file.ts';
import { HEADER_BYTES, HEADER_COPY_STRIDE } from '../../src/storage/header.ts';
import { SEGMENT_HEADER_BYTES } from '../../src/storage/log-format.ts';
import { LATEST, PAGE_BODY_OFFSET, type PageId } from '../../src/storage/pages.ts';
import { type Storage } from '../../src/storage/storage.ts';
import { damaged } from '../faults/damage.ts';
import { FaultFileSystem } from '../faults/fault-file.ts';
import { type FrameAt, LogImage } from '../support/log-image.ts';
import {
  commitFill,
  commitNew,
  holds,
  LOG_PATH,
  open,
  PAGE_BYTES,
  PATH,
} from '../support/small-storage.ts';

/** How many bits were flipped in what, and how many of them were found by whom. */
export type FlipCounts = Record<string, { flipped: number; detected: number; harmless: number }>;

/** A file of given bytes, one bit of which reads wrong. Nothing is written. */
class FlippedFile implements File {
  readonly #bytes: Uint8Array;
  bit = -1;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  read(target: Uint8Array, targetOffset: number, length: number, position: number): number {
    const there = Math.max(0, Math.min(length, this.#bytes.length - position));
    target.set(this.#bytes.subarray(position, position + there), targetOffset);
    const at = (this.bit >> 3) - position;
    if (this.bit >= 0 && at >= 0 && at < there) target[targetOffset + at]! ^= 1 << (this.bit & 7);
    return there;
  }

  write(): void {
    throw new Error('a read-only storage writes');
  }

  sync(): void {
    throw new Error('a read-only storage syncs');
  }

  truncate(): void {
    throw new Error('a read-only storage truncates');
  }

  size(): number {
    return this.#bytes.length;
  }

  close(): void {}
}

class FlippedFiles implements FileSystem {
  readonly file: FlippedFile;

  constructor(bytes: Uint8Array) {
    this.file = new FlippedFile(bytes);
  }

  open(): File {
    return this.file;
  }

  exists(): boolean {
    return true;
  }

  remove(): void {}
  rename(): void {}
  resolve(path: string): string {
    return path;
  }

  readonly processTag = 'flips';
  removeLeft(): void {}

  link(): boolean {
    return false;
  }

  syncFolder(): void {}
  lock(): Lock {
    return { release: () => undefined };
  }

  lockHolder(): number | undefined {
    return undefined;
  }
}

interface Target {
  readonly slot: number;
  readonly read: (storage: Storage) => void;
}

/** A closed file with a tree of several levels, large values, and a map of two levels. */
export function treeFile(entries: number): { image: Uint8Array; root: PageId } {
  const disk = new FaultFileSystem({ seed: 1 });
  const storage = open(disk, { memoryBytes: 16 << 20 });
  storage.begin();
  const root = Tree.create(storage, 1, { kind: 'b+tree' });
  storage.commit('none');
  const random = new Random(1);
  for (let done = 0; done < entries; done += 500) {
    storage.begin();
    const tree = new Tree(storage, root, 1, { kind: 'b+tree' });
    for (let i = done; i < done + 500; i++) {
      const value = new Uint8Array(i % 100 === 0 ? 9000 : 150);
      random.fill(value);
      const key = new TextEncoder().encode(`key ${String((i * 7919) % 100_000).padStart(6, '0')}`);
      tree.put(key, key.length, value, 0, value.length);
      storage.settle();
    }
    storage.commit('none');
  }
  storage.close();
  return { image: disk.image(PATH), root };
}

/** Every slot that something lies in, and how to read what lies there. */
export function slotsOf(storage: Storage): Map<string, Target[]> {
  const kinds = new Map<string, Target[]>();
  const add = (kind: string, target: Target): void => {
    kinds.set(kind, [...(kinds.get(kind) ?? []), target]);
  };
  for (const name of ['map', 'bitmap'] as const) {
    storage[name].visitSlots((slot, _, level, i) =>
      add(`${name} node of level ${level}`, { slot, read: (s) => void s[name].node(level, i) }),
    );
  }
  for (let page = 1 as PageId; page < storage.nextPage; page++) {
    if (!storage.locateInMap(page)) continue;
    const slot = storage.foundSlot;
    const buffer = storage.read(page, LATEST);
    const at = (buffer & storage.chunkMask) << storage.pageShift;
    const kind = storage.bytes[buffer >> storage.chunkShift]![at + PAGE_BODY_OFFSET]!;
    const id = page;
    add(`page of kind ${kind}`, { slot, read: (s) => void s.read(id, LATEST) });
  }
  return kinds;
}

function codeOfRead(files: FlippedFiles, read: (storage: Storage) => void): string {
  let storage: Storage | undefined;
  try {
    storage = open(files, { readOnly: true, memoryBytes: 2 << 20 });
    read(storage);
    return 'none';
  } catch (cause) {
    if (cause instanceof DatabaseError) return cause.code;
    throw cause;
  } finally {
    storage?.abandon();
  }
}

function count(counts: FlipCounts, kind: string, detected: boolean): void {
  const entry = (counts[kind] ??= { flipped: 0, detected: 0, harmless: 0 });
  entry.flipped++;
  if (detected) entry.detected++;
  else entry.harmless++;
}

/** Flips every `step`-th bit of one page and node of each kind: reading it must fail. */
export function flipPages(step: number, counts: FlipCounts): void {
  const files = new FlippedFiles(treeFile(14_000).image);
  const whole = open(files, { readOnly: true, memoryBytes: 16 << 20 });
  const kinds = slotsOf(whole);
  whole.abandon();
  for (const [kind, targets] of kinds) {
    const { slot, read } = targets[targets.length >> 1]!;
    for (let bit = slot % step; bit < PAGE_BYTES * 8; bit += step) {
      files.file.bit = slot * PAGE_BYTES * 8 + bit;
      const code = codeOfRead(files, read);
      if (code !== 'corrupt.page') throw new Error(`${kind}: bit ${bit} gave ${code}`);
      count(counts, kind, true);
    }
  }
}

/** Flips random bits anywhere: whatever lies there is found damaged, or nothing lies there. */
export function flipAnywhere(entries: number, bits: number, counts: FlipCounts): void {
  const { image } = treeFile(entries);
  const files = new FlippedFiles(image);
  const whole = open(files, { readOnly: true, memoryBytes: 64 << 20 });
  const bySlot = new Map([...slotsOf(whole).values()].flat().map((each) => [each.slot, each]));
  whole.abandon();
  const random = new Random(entries);
  for (let i = 0; i < bits; i++) {
    files.file.bit = random.below(image.length * 8);
    const slot = Math.floor(files.file.bit / 8 / PAGE_BYTES);
    const target = bySlot.get(slot);
    const code = codeOfRead(files, (storage) => target?.read(storage));
    const where = `anywhere in ${Math.round(image.length / 2 ** 20)} MiB`;
    const isFound = code === 'corrupt.page';
    if (target !== undefined && !isFound) throw new Error(`bit ${files.file.bit} gave ${code}`);
    count(counts, where, isFound);
  }
}

/** Flips bits of both header copies: the other copy is taken, and the damage is reported. */
export function flipHeaders(step: number, counts: FlipCounts): void {
  const files = new FlippedFiles(treeFile(500).image);
  for (const ordinal of [0, 1]) {
    for (let bit = 0; bit < HEADER_BYTES * 8 + 64; bit += step) {
      files.file.bit = ordinal * HEADER_COPY_STRIDE * 8 + bit;
      const inside = bit < HEADER_BYTES * 8;
      const code = codeOfRead(files, (storage) => {
        const found = storage.mendedCopies.join();
        const expected = inside ? String(ordinal) : '';
        if (found !== expected) throw new Error(`header bit ${bit}: copies ${found} are reported`);
        storage.read(1 as PageId, LATEST);
      });
      if (code !== 'none') throw new Error(`header bit ${bit} gave ${code}`);
      count(counts, `header copy ${ordinal}`, inside);
    }
  }
}

/** A disk killed behind commits of every kind of frame; pages and their stamps after each. */
class LoggedDisk {
  readonly image: Uint8Array;
  readonly log: Uint8Array;
  readonly pages: PageId[];
  readonly placed: PageId[];
  readonly commits: number;

  constructor() {
    const disk = new FaultFileSystem({ seed: 1 });
    const first = open(disk);
    this.pages = commitNew(first, 12, 1);
    first.close();
    const storage = open(disk);
    commitFill(storage, this.pages.slice(0, 2), 2, 'full', 400);
    this.placed = commitNew(storage, 50, 3);
    storage.begin();
    storage.free(this.pages[11]!);
    storage.free(this.pages[10]!);
    storage.commit('full');
    commitFill(storage, this.pages.slice(2, 4), 4, 'full', 400);
    this.commits = 4;
    this.image = disk.image(PATH);
    this.log = disk.image(LOG_PATH);
  }

  /** How many commits a recovered storage has; throws if it has a part of one. */
  commitsOf(storage: Storage): number {
    const [a, b, c, d] = this.pages as [PageId, PageId, PageId, PageId];
    const has = [
      [a, b].map((page) => holds(storage, page, 2, LATEST, 400)),
      this.placed.map((page) => storage.locate(page) && holds(storage, page, 3)),
      [this.pages[10]!, this.pages[11]!].map((page) => !storage.locate(page)),
      [c, d].map((page) => holds(storage, page, 4, LATEST, 400)),
    ];
    const whole = has.map((parts) => parts.every((part) => part));
    const torn = has.some((parts) => parts.some((part) => part !== parts[0]));
    const commits = whole.filter((each) => each).length;
    if (torn || whole.lastIndexOf(true) !== commits - 1) throw new Error('a commit is torn');
    return commits;
  }

  recovered(log: Uint8Array): number | string {
    const disk = new FaultFileSystem({ seed: 1 });
    disk.setImage(PATH, this.image);
    disk.setImage(LOG_PATH, log);
    let storage: Storage | undefined;
    try {
      storage = open(disk);
      return this.commitsOf(storage);
    } catch (cause) {
      if (cause instanceof DatabaseError) return cause.code;
      throw cause;
    } finally {
      storage?.abandon();
    }
  }
}

/** Flips bits of the log: of its headers, and of one frame of each kind and the last commit. */
export function flipLog(step: number, counts: FlipCounts): void {
  const disk = new LoggedDisk();
  const frames = new LogImage(disk.log).frames();
  for (const kind of [1, 2, 3, 4]) {
    const frame = frames.find((each) => each.kind === kind)!;
    flipFrame(disk, frame, `frame of kind ${kind}`, step, ['corrupt.log'], counts);
  }
  const last = frames.slice(frames.findLastIndex((f, i) => f.kind === 4 && i < frames.length - 1));
  for (const frame of last.slice(1)) {
    // Nothing states that the last commit was synced: the log may end before it.
    flipFrame(disk, frame, 'frame of the last commit', step, [disk.commits - 1], counts);
  }
  for (const [name, offset, bytes] of [
    ['log header', 0, 40],
    ['segment header', 4096, SEGMENT_HEADER_BYTES],
    ['zeroes behind the end', frames.at(-1)!.offset + 48, 64],
  ] as const) {
    const frame = { offset, bytes, position: 0, kind: 0, generation: 0 };
    flipFrame(disk, frame, name, step, ['storage.log_missing', disk.commits], counts);
  }
}

function flipFrame(
  disk: LoggedDisk,
  { offset, bytes }: FrameAt,
  name: string,
  step: number,
  expected: readonly (string | number)[],
  counts: FlipCounts,
): void {
  for (let bit = offset * 8; bit < (offset + bytes) * 8; bit += step) {
    const found = disk.recovered(damaged(disk.log, { kind: 'flip', bit }));
    if (!expected.includes(found)) throw new Error(`${name}: bit ${bit} gave ${found}`);
    count(counts, name, found !== disk.commits);
  }
}
