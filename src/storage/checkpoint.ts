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
import { type Ledger } from '../base/ledger.ts';
import { failure, LimitError } from '../errors.ts';
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
  /** Pages in the order in which they are written; from the phase `map` on by id. */
  readonly #pages: IntList;
  #next = 0;
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
    this.#pages = new IntList(pager.ledger, 'tables');
    const recent = this.#openBoundary();
    pager.boundary = pager.commitId;
    pager.closing = pager.recent;
    pager.recent = recent;
    this.#heldByLog = pager.heldByLog;
    pager.heldByLog = new IntList(pager.ledger, 'tables');
    pager.closing.appendKeys(this.#pages);
    putInWritingOrder(pager, this.#pages);
    if (pager.bitmap.depth > 0) return;
    for (let slot = 0; slot < headerSlots(pager.pageBytes); slot++) this.#sets.push(slot);
  }

  /** Does what can fail before anything is changed: opens the snapshot, makes a new table. */
  #openBoundary(): IntTable {
    const pager = this.#pager;
    const recent = new IntTable(CHANGE_STRIDE, pager.ledger, 'tables');
    try {
      this.#sets.reserve(headerSlots(pager.pageBytes));
      this.#pages.reserve(pager.recent.count);
      pager.versions.open(pager.commitId);
      return recent;
    } catch (cause) {
      recent.dispose();
      this.#sets.clear();
      this.#pages.clear();
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
    for (const list of [this.#pages, this.#sets, this.#clears, this.#heldByLog]) list.clear();
  }

  get done(): boolean {
    return this.phase === 'done';
  }

  /** Units of work that are left: pages and nodes to be written. */
  get remaining(): number {
    return this.phase === 'pages' ? this.#pages.count - this.#next : this.done ? 0 : STEP_PAGES;
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
    while (buffers.length < count && next < this.#pages.count) {
      const page = this.#pages.at(next++) as PageId;
      if (closing.values[closing.find(page) * CHANGE_STRIDE] !== 0) continue;
      buffers.push(pager.boundaryBuffer(page));
    }
    pager.writeBuffers(buffers, (b, slot, checksum) => pager.imageLocated(b, slot, checksum));
    this.#next = next;
    if (this.#goal.syncSlices && pager.file.unsyncedBytes >= SLICE_BYTES) {
      pager.syncFile();
      this.#counters.sliceSyncs++;
    }
    if (next < this.#pages.count) return;
    this.#pages.sort();
    this.#next = 0;
    this.phase = 'map';
  }

  /** Enters pages into the map, whole leaves at a time. */
  #writeMap(pages: number): void {
    const { map } = this.#pager;
    const until = this.#next + pages;
    while (this.#next < this.#pages.count) {
      if (this.#next >= until) return;
      const leaf = Math.floor(this.#pages.at(this.#next) / map.leafFan);
      let end = this.#next;
      const first = (leaf + 1) * map.leafFan;
      while (end < this.#pages.count && this.#pages.at(end) < first) end++;
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
    map.cover(this.#pages.at(to - 1));
    this.#sets.reserve(to - from); // a step that fails is repeated: nothing is pushed twice
    this.#clears.reserve(to - from);
    const buffer = map.change(0, leaf);
    const words = slab.wordsOf(buffer);
    const at = slab.offset(buffer) >> 2;
    for (let i = from; i < to; i++) {
      const page = this.#pages.at(i);
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
      const clears = this.#clears.count;
      this.#setsSeen = this.#takeNodes(this.#sets, this.#setsSeen, this.#sets.count);
      this.#clearsSeen = this.#takeNodes(this.#clears, this.#clearsSeen, clears);
    }
    try {
      this.#saveBitmap();
    } catch (cause) {
      throw this.#pager.latch(cause);
    }
    this.phase = 'header';
  }

  /** Takes slots for the leaves that have the bits of slots, and for the nodes above them. */
  #takeNodes(slots: IntList, from: number, to: number): number {
    const { leafFan } = this.#pager.bitmap;
    let before = -1;
    for (let i = from; i < to; i++) {
      const leaf = Math.floor(slots.at(i) / leafFan);
      if (leaf !== before) this.#takeLeaf(leaf);
      before = leaf;
    }
    return to;
  }

  #takeLeaf(leaf: number): void {
    const { bitmap, slots } = this.#pager;
    let index = leaf;
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
      c = this.#setBits(buffer, this.#clears, c, end, false);
      s = this.#setBits(buffer, this.#sets, s, end, true);
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

  /** Sets or clears the bits of a leaf for slots from an ordinal on, up to the slot `end`. */
  #setBits(buffer: BufferId, slots: IntList, from: number, end: number, used: boolean): number {
    const { slab, bitmap } = this.#pager;
    const words = slab.wordsOf(buffer);
    const at = slab.offset(buffer) >> 2;
    let i = from;
    for (; i < slots.count && slots.at(i) < end; i++) {
      const place = slots.at(i) % bitmap.leafFan;
      const bit = 1 << (place & 31);
      const w = at + (place >> 5);
      words[w] = used ? words[w]! | bit : words[w]! & ~bit;
    }
    return i;
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
    this.#pages.clear();
    this.#sets.clear();
    this.phase = 'done';
  }
}

/**
 * Sorts pages by structure, then by the leading bytes of their first key, then by id (rule 18):
 * three numbers packed in one double. Beyond four million pages, or if the budget has no room for
 * the doubles, they stay in order of id.
 */
function putInWritingOrder(pager: Pager, pages: IntList): void {
  pages.sort();
  const ordered = pages.items();
  const bytes = ordered.length * 12;
  if (ordered.length >= 1 << 22 || !hasRoom(pager.ledger, bytes)) return;
  const keys = new Float64Array(ordered.length);
  for (let i = 0; i < ordered.length; i++) {
    keys[i] = placeInOrder(pager, ordered[i]! as PageId) * 2 ** 22 + i;
  }
  keys.sort();
  const byId = ordered.slice();
  for (let i = 0; i < ordered.length; i++) ordered[i] = byId[keys[i]! % 2 ** 22]!;
  pager.ledger.release('tables', bytes);
}

function hasRoom(ledger: Ledger, bytes: number): boolean {
  try {
    ledger.charge('tables', bytes);
    return true;
  } catch (cause) {
    if (cause instanceof LimitError) return false;
    throw cause;
  }
}

/** Structure and leading bytes of the first key; 0 for a page that needs no writing. */
function placeInOrder(pager: Pager, page: PageId): number {
  const { slab, closing } = pager;
  if (closing!.values[closing!.find(page) * CHANGE_STRIDE] !== 0) return 0;
  const buffer = pager.boundaryBuffer(page);
  const w = slab.offset(buffer) >> 2;
  const words = slab.wordsOf(buffer);
  const rank = words[w + (PAGE_STRUCTURE_OFFSET >> 2)]! & 1023;
  return rank * 2 ** 21 + (words[w + (PAGE_ORDER_OFFSET >> 2)]! >>> 11);
}
