/**
 * Faults planted in the storage core from outside, by replacing methods of its classes: the crash
 * test of pages must find each (bar 1 of the simulation's canaries). The sources are not touched.
 */
import { FRAME_COMMIT } from '../../src/storage/log-format.ts';
import { LogReader } from '../../src/storage/log-reader.ts';
import { PageCache } from '../../src/storage/page-cache.ts';
import { PageFile } from '../../src/storage/page-file.ts';
import { type BufferId, PAGE_COMMIT_OFFSET, type PageId } from '../../src/storage/pages.ts';
import { Radix } from '../../src/storage/radix.ts';
import { DIRTY } from '../../src/storage/slab.ts';
import { Slots } from '../../src/storage/slots.ts';
import { type Plant } from './system.ts';

type Undo = () => void;

/** Replaces a method by one made from it; answers the way back. */
function replace<T extends object, K extends keyof T>(
  prototype: T,
  name: K,
  make: (original: T[K]) => T[K],
): Undo {
  const original = prototype[name];
  prototype[name] = make(original);
  return () => void (prototype[name] = original);
}

/** Commits are written and called durable, but never synced. */
function leaveSyncOut(): Undo {
  return replace(
    PageCache.prototype,
    'syncLog',
    () =>
      function (this: PageCache): boolean {
        this.log.write();
        return true;
      },
  );
}

/** The slot that the last checkpoint has for a page is free as soon as a newer image is written. */
function reuseSlotsEarly(): Undo {
  const early = new WeakMap<Slots, Set<number>>();
  const undoLocated = replace(
    PageCache.prototype,
    'imageLocated',
    (original) =>
      function (this: PageCache, buffer: BufferId, slot: number, checksum: number): void {
        const wasDirty = this.slab.kind[buffer] === DIRTY;
        original.call(this, buffer, slot, checksum);
        if (!wasDirty || !this.locateInMap(this.pageOf(buffer))) return;
        const given = early.get(this.slots) ?? new Set<number>();
        early.set(this.slots, given);
        if (given.has(this.foundSlot) || !this.slots.isBusy(this.foundSlot)) return;
        this.slots.drop(this.foundSlot);
        given.add(this.foundSlot);
      },
  );
  const undoDrop = replace(
    Slots.prototype,
    'drop',
    (original) =>
      function (this: Slots, slot: number): void {
        if (early.get(this)?.delete(slot) !== true) original.call(this, slot);
      },
  );
  return () => {
    undoDrop();
    undoLocated();
  };
}

interface Tail {
  frames: number;
  checksum: number;
  commit: number;
  ended: boolean;
}

/** Recovery takes the frames behind the last commit frame for a commit. */
function publishFramesEarly(): Undo {
  const tails = new WeakMap<LogReader, Tail>();
  return replace(
    LogReader.prototype,
    'next',
    (original) =>
      function (this: LogReader): boolean {
        const tail = tails.get(this) ?? { frames: 0, checksum: 0, commit: 0, ended: false };
        tails.set(this, tail);
        if (original.call(this)) {
          noteFrame(this, tail);
          return true;
        }
        if (tail.frames === 0 || tail.ended) return false;
        tail.ended = true;
        this.at = 0;
        this.kind = FRAME_COMMIT;
        this.words[2] = FRAME_COMMIT | (1 << 8);
        this.words[3] = tail.frames;
        this.words[10] = tail.checksum;
        this.floats[2] = tail.commit;
        return true;
      },
  );
}

function noteFrame(reader: LogReader, tail: Tail): void {
  tail.commit = reader.floats[(reader.at >> 3) + 2]!;
  if (reader.kind === FRAME_COMMIT) tail.frames = tail.checksum = 0;
  else {
    tail.frames++;
    tail.checksum = Math.imul(tail.checksum ^ reader.words[reader.at >> 2]!, 0x9e3779b1);
  }
}

/** A checkpoint writes its bitmap with one used slot marked as free. */
function countSpaceWrong(): Undo {
  let pager: PageCache | undefined;
  const note = (made: PageCache): void => void (pager = made);
  const undoCover = replace(
    PageCache.prototype,
    'coverPage',
    (original) =>
      function (this: PageCache, page: number): void {
        note(this); // called when a pager is made: the newest is the one at work
        original.call(this, page);
      },
  );
  const undoSave = replace(
    Radix.prototype,
    'save',
    (original) =>
      function (this: Radix, level: number, index: number, slot: number, used: number): void {
        const isLeaf = level === 0 && this === pager!.bitmap;
        original.call(this, level, index, slot, isLeaf && freeLastSlot(pager!) ? used - 1 : used);
      },
  );
  return () => {
    undoSave();
    undoCover();
  };
}

/** Clears the highest bit of the first leaf of the bitmap; answers whether there was one. */
function freeLastSlot({ bitmap, slab }: PageCache): boolean {
  const buffer = bitmap.node(0, 0);
  const words = slab.wordsOf(buffer);
  const from = slab.offset(buffer) >> 2;
  for (let w = from + (slab.pageBytes >> 2) - 1; w >= from; w--) {
    if (words[w] === 0) continue;
    words[w] = words[w]! & ~(1 << (31 - Math.clz32(words[w]!)));
    return true;
  }
  return false;
}

/** All pages have the same checksum, so that none is found wrong. */
function leaveChecksumUnchecked(): Undo {
  return replace(PageFile.prototype, 'checksum', () => () => 0);
}

interface SlotReader {
  readSlot(page: PageId, slot: number, checksum: number): BufferId;
}

/** What lies in the slot that the map names is taken for the page. */
function leaveMapEntryUnchecked(): Undo {
  const prototype = PageCache.prototype as unknown as SlotReader;
  return replace(
    prototype,
    'readSlot',
    () =>
      function (this: SlotReader, page: PageId, slot: number): BufferId {
        const cache = this as unknown as PageCache;
        const buffer = cache.obtain();
        cache.file.read(slot, buffer);
        cache.slab.page[buffer] = page;
        cache.slab.used[buffer] = 1;
        const at = (cache.slab.offset(buffer) + PAGE_COMMIT_OFFSET) >> 3;
        cache.slab.commit[buffer] = cache.slab.floatsOf(buffer)[at]!;
        return buffer;
      },
  );
}

const WAYS: Readonly<Record<Plant, () => Undo>> = {
  'sync-left-out': leaveSyncOut,
  'slot-reused-early': reuseSlotsEarly,
  'frame-published-early': publishFramesEarly,
  'free-space-wrong': countSpaceWrong,
  'checksum-unchecked': leaveChecksumUnchecked,
  'map-entry-unchecked': leaveMapEntryUnchecked,
};

/** Runs something with a fault planted. */
export function withPlant<T>(plant: Plant | undefined, run: () => T): T {
  const undo = plant === undefined ? undefined : WAYS[plant]();
  try {
    return run();
  } finally {
    undo?.();
  }
}
