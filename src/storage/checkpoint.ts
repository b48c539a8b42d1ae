/**
 * The checkpoint: makes the state as of a boundary the newest state of the file, while commits go
 * on (STORAGE rules 15–18). A step machine:
 *
 *   start() ─> pages ─> map ─> bitmap ─> header ─> done
 *
 *   pages   images as of the boundary go to free slots; evicted ones are adopted where they lie
 *   map     entries of those pages, leaf by leaf, then inner nodes, to free slots
 *   bitmap  what the new checkpoint uses, less what it replaces, to free slots
 *   header  sync; first copy; sync; second copy; sync (law S5)
 *
 * What it replaces stays unwritten until the next checkpoint is complete, for read-only processes
 * (rule 25). A failure for want of space leaves the machine where it is: a later step goes on.
 */
import { assert } from '../base/assert.ts';
import { IntList } from '../base/int-list.ts';
import { IntTable } from '../base/int-table.ts';
import { failure } from '../errors.ts';
import { type Header, headerSlots } from './header.ts';
import { CHANGE_FREED, CHANGE_STRIDE } from './page-cache.ts';
import { type Pager } from './pager.ts';
import { type BufferId, PAGE_ORDER_OFFSET, PAGE_STRUCTURE_OFFSET, type PageId } from './pages.ts';
import { type Radix } from './radix.ts';
import { countBits } from './slots.ts';

/** Pages that one step writes at the most. */
const STEP_PAGES = 64;
/** The data file is also synced after so many bytes, so that the ordering sync is short. */
const SLICE_BYTES = 4 << 20;
const LEVEL_STRIDE = 2 ** 32;

export type CheckpointPhase = 'pages' | 'map' | 'bitmap' | 'header' | 'done';

/** Where replay starts after the checkpoint, and whether the file counts as closed by it. */
export interface CheckpointGoal {
  readonly generation: number;
  readonly replayPosition: number;
  readonly openForWriting: boolean;
  /** Slices are synced while pages are written. */
  readonly syncSlices: boolean;
}

export interface CheckpointCounters {
  checkpoints: number;
  syncs: number;
  sliceSyncs: number;
  logSyncs: number;
}

export class Checkpoint {
  phase: CheckpointPhase = 'pages';
  readonly #pager: Pager;
  #goal: CheckpointGoal;
  readonly #counters: CheckpointCounters;
  /** Pages in the order in which they are written. */
  #order: Int32Array;
  #next = 0;
  #byId: Int32Array = new Int32Array(0);
  readonly #heldByLog: IntList;
  /** Slots that the new checkpoint uses and the old one did not; and the other way round. */
  readonly #sets: IntList;
  readonly #clears: IntList;
  /** Slots for changed nodes of the bitmap, by level * LEVEL_STRIDE + index. */
  readonly #nodeSlots = new Map<number, number>();
  #setsSeen = 0;
  #clearsSeen = 0;

  /** Starts a checkpoint of everything committed. */
  constructor(pager: Pager, goal: CheckpointGoal, counters: CheckpointCounters) {
    assert(pager.closing === undefined, 'one checkpoint at a time');
    this.#pager = pager;
    this.#goal = goal;
    this.#counters = counters;
    this.#sets = new IntList(pager.ledger, 'tables');
    this.#clears = new IntList(pager.ledger, 'tables');
    const recent = this.#openBoundary();
    pager.boundary = pager.commitId;
    pager.closing = pager.recent;
    pager.recent = recent;
    this.#heldByLog = pager.heldByLog;
    pager.heldByLog = new IntList(pager.ledger, 'tables');
    this.#order = inWritingOrder(pager, pager.closing.keys());
    if (pager.bitmap.depth > 0) return;
    for (let slot = 0; slot < headerSlots(pager.pageBytes); slot++) this.#sets.push(slot);
  }

  /** Does what can fail before anything is changed: opens the snapshot, makes a new table. */
  #openBoundary(): IntTable {
    const pager = this.#pager;
    const recent = new IntTable(CHANGE_STRIDE, pager.ledger, 'tables');
    try {
      this.#sets.reserve(headerSlots(pager.pageBytes));
      pager.versions.open(pager.commitId);
      return recent;
    } catch (cause) {
      recent.dispose();
      this.#sets.clear();
      throw cause;
    }
  }

  /**
   * Of a checkpoint that was to close the file and was stopped by a failure: when it goes on, the
   * file stays open for writing, and what was committed in between is replayed from its boundary.
   */
  leaveOpen(generation: number, replayPosition: number): void {
    this.#goal = { ...this.#goal, generation, replayPosition, openForWriting: true };
  }

  /** Gives up a checkpoint that a failure left unfinished. */
  dispose(): void {
    this.#sets.clear();
    this.#clears.clear();
    this.#heldByLog.clear();
  }

  get done(): boolean {
    return this.phase === 'done';
  }

  /** Units of work that are left: pages and nodes to be written. */
  get remaining(): number {
    return this.phase === 'pages' ? this.#order.length - this.#next : this.done ? 0 : STEP_PAGES;
  }

  /** Does up to `pages` pages of work. */
  step(pages: number): void {
    switch (this.phase) {
      case 'pages':
        this.#writePages(Math.min(pages, STEP_PAGES));
        break;
      case 'map':
        this.#writeMap(pages);
        break;
      case 'bitmap':
        this.#writeBitmap();
        break;
      case 'header':
        this.#writeHeader();
        break;
      case 'done':
        break;
    }
  }

  finish(): void {
    while (this.phase !== 'done') this.step(STEP_PAGES);
  }

  #writePages(count: number): void {
    const pager = this.#pager;
    const closing = pager.closing!;
    const buffers: BufferId[] = [];
    let next = this.#next;
    while (buffers.length < count && next < this.#order.length) {
      const page = this.#order[next++]! as PageId;
      if (closing.values[closing.find(page) * CHANGE_STRIDE] !== 0) continue;
      buffers.push(pager.boundaryBuffer(page));
    }
    pager.writeBuffers(buffers, (b, slot, checksum) => pager.imageLocated(b, slot, checksum));
    this.#next = next;
    if (this.#goal.syncSlices && pager.file.unsyncedBytes >= SLICE_BYTES) {
      pager.syncFile();
      this.#counters.sliceSyncs++;
    }
    if (next < this.#order.length) return;
    this.#byId = this.#order.sort();
    this.#order = new Int32Array(0);
    this.#next = 0;
    this.phase = 'map';
  }

  /** Enters pages into the map, whole leaves at a time. */
  #writeMap(pages: number): void {
    const { map } = this.#pager;
    const until = this.#next + pages;
    while (this.#next < this.#byId.length) {
      if (this.#next >= until) return;
      const leaf = Math.floor(this.#byId[this.#next]! / map.leafFan);
      let end = this.#next;
      while (end < this.#byId.length && Math.floor(this.#byId[end]! / map.leafFan) === leaf) end++;
      this.#writeMapLeaf(leaf, this.#next, end);
      this.#next = end;
    }
    for (let level = 1; level < map.depth; level++) {
      for (const index of map.changedOf(level)) this.#saveNode(map, level, index, 0);
    }
    this.phase = 'bitmap';
  }

  #writeMapLeaf(leaf: number, from: number, to: number): void {
    const { map, slab, closing } = this.#pager;
    map.cover(this.#byId[to - 1]!);
    this.#sets.reserve(to - from); // a step that fails is repeated: nothing is pushed twice
    this.#clears.reserve(to - from);
    const buffer = map.change(0, leaf);
    const words = slab.wordsOf(buffer);
    const at = slab.offset(buffer) >> 2;
    for (let i = from; i < to; i++) {
      const page = this.#byId[i]!;
      const place = closing!.find(page) * CHANGE_STRIDE;
      const slot = closing!.values[place]!;
      assert(slot !== 0, 'every page of the checkpoint has a slot');
      const w = at + (page % map.leafFan) * 2;
      const now = slot === CHANGE_FREED ? 0 : slot;
      if (words[w] === now) continue;
      if (words[w] !== 0) this.#giveUp(words[w]!);
      if (now !== 0) this.#sets.push(now);
      words[w] = now;
      words[w + 1] = now === 0 ? 0 : closing!.values[place + 1]!;
    }
    let used = 0;
    for (let w = at; w < at + map.leafFan * 2; w += 2) if (words[w] !== 0) used++;
    this.#saveNode(map, 0, leaf, used);
  }

  /** Notes a slot that the last checkpoint names and the new one does not; it must be used. */
  #giveUp(slot: number): void {
    const pager = this.#pager;
    if (!pager.slots.isBusy(slot)) {
      const message = `slot ${slot} of ${pager.path} is free, but the page map names it`;
      throw pager.latch(failure('corrupt.page', message, { detail: { path: pager.path, slot } }));
    }
    this.#clears.push(slot);
  }

  #saveNode(tree: Radix, level: number, index: number, used: number): void {
    const pager = this.#pager;
    this.#sets.reserve(1);
    this.#clears.reserve(1);
    const before = tree.slotOf(level, index);
    const slot = pager.slots.take();
    try {
      tree.save(level, index, slot, used);
    } catch (cause) {
      pager.slots.drop(slot);
      throw pager.latch(cause);
    }
    this.#sets.push(slot);
    if (before !== 0) this.#giveUp(before);
  }

  /**
   * Slots for all changed nodes are taken first, until no new node changes by that (rule 3); then
   * the nodes are written. A repeated step goes on where a full disk stopped it.
   */
  #writeBitmap(): void {
    const { bitmap, slots } = this.#pager;
    while (this.#setsSeen < this.#sets.count || this.#clearsSeen < this.#clears.count) {
      bitmap.cover(slots.count - 1);
      const sets = this.#sets.count;
      const clears = this.#clears.count;
      for (; this.#setsSeen < sets; this.#setsSeen++)
        this.#takeNodes(this.#sets.at(this.#setsSeen));
      for (; this.#clearsSeen < clears; this.#clearsSeen++) {
        this.#takeNodes(this.#clears.at(this.#clearsSeen));
      }
    }
    try {
      this.#saveBitmap();
    } catch (cause) {
      throw this.#pager.latch(cause);
    }
    this.phase = 'header';
  }

  /** Takes slots for the leaf that has the bit of a slot, and for the nodes above it. */
  #takeNodes(slotWithBit: number): void {
    const { bitmap, slots } = this.#pager;
    let index = Math.floor(slotWithBit / bitmap.leafFan);
    for (let level = 0; level < bitmap.depth; level++) {
      const key = level * LEVEL_STRIDE + index;
      index = Math.floor(index / bitmap.innerFan);
      if (this.#nodeSlots.has(key)) continue;
      this.#sets.reserve(1);
      this.#clears.reserve(1);
      const before = bitmap.slotOf(level, key % LEVEL_STRIDE);
      const slot = slots.take();
      this.#nodeSlots.set(key, slot);
      this.#sets.push(slot);
      if (before !== 0) this.#giveUp(before);
    }
  }

  #saveBitmap(): void {
    const { bitmap, slab } = this.#pager;
    this.#sets.sort();
    this.#clears.sort();
    let s = 0;
    let c = 0;
    const leaves = [...this.#nodeSlots.keys()].filter((key) => key < LEVEL_STRIDE);
    for (const leaf of leaves.sort((a, b) => a - b)) {
      const end = (leaf + 1) * bitmap.leafFan;
      const buffer = bitmap.change(0, leaf);
      for (; c < this.#clears.count && this.#clears.at(c) < end; c++) {
        this.#setBit(buffer, this.#clears.at(c), false);
      }
      for (; s < this.#sets.count && this.#sets.at(s) < end; s++) {
        this.#setBit(buffer, this.#sets.at(s), true);
      }
      const from = slab.offset(buffer) >> 2;
      const used = countBits(slab.wordsOf(buffer), from, slab.pageBytes >> 2);
      bitmap.save(0, leaf, this.#nodeSlots.get(leaf)!, used);
    }
    for (let level = 1; level < bitmap.depth; level++) {
      for (const index of bitmap.changedOf(level)) {
        bitmap.save(level, index, this.#nodeSlots.get(level * LEVEL_STRIDE + index)!, 0);
      }
    }
  }

  #setBit(buffer: BufferId, slot: number, used: boolean): void {
    const { slab, bitmap } = this.#pager;
    const at = slot % bitmap.leafFan;
    const words = slab.wordsOf(buffer);
    const w = (slab.offset(buffer) >> 2) + (at >> 5);
    words[w] = used ? words[w]! | (1 << (at & 31)) : words[w]! & ~(1 << (at & 31));
  }

  #writeHeader(): void {
    const pager = this.#pager;
    for (const slots of [this.#heldByLog, pager.retired, this.#clears]) {
      for (const slot of slots.items()) pager.slots.load(slot); // so that completing cannot fail
    }
    pager.syncFile();
    if (this.#goal.openForWriting && !pager.log.segmentSynced) {
      pager.syncLog(); // the segment that the header names must be there
      this.#counters.logSyncs++;
    }
    const header: Header = {
      ...pager.header,
      sequence: pager.header.sequence + 1,
      commit: pager.boundary,
      generation: this.#goal.generation,
      replayPosition: this.#goal.replayPosition,
      nextPage: pager.nextPage,
      slotCount: Math.min(pager.slots.count, pager.file.slotsThere), // none that is not there
      openForWriting: this.#goal.openForWriting,
      map: pager.map.root,
      bitmap: pager.bitmap.root,
    };
    pager.writeHeader(header);
    this.#counters.syncs += 3;
    this.#counters.checkpoints++;
    this.#complete();
  }

  /** The new checkpoint is the newest state: names of the old one are given up. */
  #complete(): void {
    const pager = this.#pager;
    for (const slot of this.#heldByLog.items()) pager.slots.drop(slot);
    this.#heldByLog.clear();
    pager.retire(this.#clears);
    pager.closing!.dispose();
    pager.closing = undefined;
    pager.versions.close(pager.boundary);
    pager.boundary = -1;
    this.#sets.clear();
    this.phase = 'done';
  }
}

/**
 * Pages by structure, then by the leading bytes of their first key, then by id (rule 18): three
 * numbers packed in one double. Beyond four million pages they stay in order of id.
 */
function inWritingOrder(pager: Pager, pages: Int32Array): Int32Array {
  if (pages.length >= 1 << 22) return pages.sort();
  pages.sort();
  const keys = new Float64Array(pages.length);
  const { slab, closing } = pager;
  for (let i = 0; i < pages.length; i++) {
    let rank = 0;
    let head = 0;
    if (closing!.values[closing!.find(pages[i]!) * CHANGE_STRIDE] === 0) {
      const buffer = pager.boundaryBuffer(pages[i]! as PageId);
      const w = slab.offset(buffer) >> 2;
      const words = slab.wordsOf(buffer);
      rank = words[w + (PAGE_STRUCTURE_OFFSET >> 2)]! & 1023;
      head = words[w + (PAGE_ORDER_OFFSET >> 2)]! >>> 11;
    }
    keys[i] = rank * 2 ** 43 + head * 2 ** 22 + i;
  }
  keys.sort();
  return Int32Array.from(keys, (key) => pages[key % 2 ** 22]!);
}
