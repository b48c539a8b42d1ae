/**
 * Turns the private pages of a transaction into frames of the log (STORAGE rules 6, 7, 9).
 *
 * A page becomes a _change_ frame: the words that differ from its base, found by comparing inside
 * the hulls that page editors marked; moves are hints that are applied to a scratch copy of the
 * base first. When the frames would pass a quarter of a segment, or pages were spilled, pages are
 * written to slots and only named in _place_ frames.
 */
import { assert, isVerifying } from '../base/assert.ts';
import { type DatabaseError, failure } from '../errors.ts';
import {
  CHANGE_BASE_ZERO,
  COMMIT_FRAME_BYTES,
  FRAME_CHANGE,
  FRAME_HEADER_BYTES,
  PLACE_ENTRIES_MAX,
  SEGMENT_HEADER_BYTES,
} from './log-format.ts';
import { bytesHeld } from './btree-node.ts';
import { FREED, NEW, type Overlay } from './overlay.ts';
import { type Pager } from './pager.ts';
import { type BufferId, PAGE_COMMIT_OFFSET, type PageId, ZERO_WORDS } from './pages.ts';

const COMMIT_WORD = PAGE_COMMIT_OFFSET >> 2;
/** Moves, range words and padding of a change frame beyond the page itself. */
const CHANGE_OVERHEAD_BYTES = 1024;
/** Pages that are placed together, as a run. */
const PLACE_TOGETHER = 64;

/** What a commit appended: pages that its place frames name, and bytes of frames. */
export interface Appended {
  /** Log position of its first frame. */
  readonly start: number;
  readonly pagesPlaced: number;
  readonly bytes: number;
}

/**
 * Appends the frames of the open transaction, without its commit frame. On failure nothing is
 * appended.
 *
 * @throws {StorageError} storage.full
 * @throws {LimitError} limit.log, limit.memory
 */
export function appendFrames(pager: Pager, makeRoom: () => void): Appended {
  const { log } = pager;
  const isShrinkingNow = (): boolean => isShrinking(pager);
  let start = log.appended;
  try {
    placeAll(pager, pager.leftInRing);
    let inFrames = appendChanges(pager, log.segmentBytes >> 2);
    if (!inFrames) log.rewind(start);
    if (inFrames && log.room < COMMIT_FRAME_BYTES + countPlaces(pager) * 16) {
      log.rewind(start);
      makeRoom();
      start = log.appended;
      inFrames = appendChanges(pager, log.segmentBytes >> 2);
      assert(inFrames, 'what fitted a quarter of a segment fits again');
    }
    if (!inFrames) {
      placeEverything(pager, makeRoom);
      start = log.appended;
      log.beginCommit();
      log.writeWhenFull(isShrinkingNow);
      appendFrees(pager);
    } else log.writeWhenFull(isShrinkingNow);
    const pagesPlaced = appendPlaces(pager);
    log.ensureSpace(COMMIT_FRAME_BYTES, isShrinkingNow);
    log.reserveCommit();
    return { start, pagesPlaced, bytes: log.appended - start + COMMIT_FRAME_BYTES };
  } catch (cause) {
    dropFrames(pager, start);
    throw pager.latch(cause);
  }
}

/** Takes frames back that were appended since `start`, without a commit frame. */
export function dropFrames(pager: Pager, start: number): void {
  try {
    pager.log.rewind(start);
  } catch (cause) {
    throw pager.latchUnknown(cause, 'frames of a commit that failed were not taken back');
  }
}

/** Private pages that need a slot or are in one already only by this transaction. */
export function countUnplaced(o: Overlay): number {
  let n = 0;
  for (let k = 0; k < o.count; k++) if (o.slot[k] === 0) n++;
  return n;
}

/**
 * Whether the transaction only takes away: its pages hold fewer bytes than before. Asked when the
 * disk is full only.
 */
export function isShrinking(pager: Pager): boolean {
  const o = pager.overlay;
  let balance = 0;
  for (let k = 0; k < o.count; k++) {
    const base = o.base[k]!;
    const isFreed = o.slot[k] === FREED;
    const isNew = (o.flags[k]! & NEW) !== 0;
    const before = isNew ? 0 : base === 0 ? undefined : bytesHeld(pager, base);
    const after = isFreed ? 0 : o.buffer[k] === 0 ? undefined : bytesHeld(pager, o.buffer[k]!);
    balance += (after ?? before ?? 0) - (before ?? after ?? 0);
    if (isFreed && before === undefined) balance -= pager.pageBytes;
  }
  return balance < 0;
}

/** Bytes that the place and free frames of the transaction will take. */
function frameBytesOfPlaces(pager: Pager): number {
  const o = pager.overlay;
  let bytes = 0;
  for (let k = 0; k < o.count; k++) bytes += o.slot[k] === FREED ? 24 : 12;
  return bytes + Math.ceil(o.count / PLACE_ENTRIES_MAX) * 32 + COMMIT_FRAME_BYTES;
}

/** Gives every private page a slot, and the log room for their frames. */
function placeEverything(pager: Pager, makeRoom: () => void): void {
  const { log, overlay } = pager;
  const needed = frameBytesOfPlaces(pager);
  if (needed > log.segmentBytes - SEGMENT_HEADER_BYTES) {
    throw failure('limit.log', `a transaction of ${overlay.count} pages does not fit the log`, {
      detail: { pages: overlay.count, segmentBytes: log.segmentBytes },
    });
  }
  const waiting: number[] = [];
  for (let k = 0; k < overlay.count; k++) {
    if (overlay.slot[k] === 0 && overlay.buffer[k] !== 0) waiting.push(k);
  }
  placeAll(pager, waiting);
  if (needed > log.room) makeRoom();
}

function placeAll(pager: Pager, ordinals: readonly number[]): void {
  for (let i = 0; i < ordinals.length; i += PLACE_TOGETHER) {
    pager.placePrivate(ordinals.slice(i, i + PLACE_TOGETHER));
  }
}

function appendFrees(pager: Pager): void {
  const o = pager.overlay;
  for (let k = 0; k < o.count; k++) {
    if (o.slot[k] !== FREED || (o.flags[k]! & NEW) !== 0) continue;
    pager.log.appendFree(o.page[k]!, pager.commitId + 1);
  }
}

/** Appends place frames for all pages that have a slot; answers how many there are. */
function appendPlaces(pager: Pager): number {
  const o = pager.overlay;
  const entries = new Int32Array(Math.min(o.count, PLACE_ENTRIES_MAX) * 3);
  let n = 0;
  let all = 0;
  for (let k = 0; k < o.count; k++) {
    if (o.slot[k]! <= 0) continue;
    all++;
    entries[n * 3] = o.page[k]!;
    entries[n * 3 + 1] = o.slot[k]!;
    entries[n * 3 + 2] = o.checksum[k]!;
    if (++n < PLACE_ENTRIES_MAX) continue;
    pager.log.appendPlaces(entries, n, pager.commitId + 1);
    n = 0;
  }
  if (n > 0) pager.log.appendPlaces(entries, n, pager.commitId + 1);
  return all;
}

/** Appends free and change frames; false if they would pass the limit. */
function appendChanges(pager: Pager, bytesMax: number): boolean {
  const { log, overlay: o } = pager;
  const start = log.appended;
  const places = countPlaces(pager);
  if (places * 16 + countFrees(pager) * FRAME_HEADER_BYTES > bytesMax) return false;
  log.beginCommit();
  let scratch = 0;
  try {
    appendFrees(pager);
    for (let k = 0; k < o.count; k++) {
      if (o.slot[k] !== 0) continue;
      if (o.moves[k] !== undefined && scratch === 0) scratch = pager.obtain();
      appendChange(pager, k, scratch);
      if (log.appended - start + places * 16 > bytesMax) return false;
    }
  } catch (cause) {
    if ((cause as DatabaseError).code !== 'limit.memory') throw cause;
    return false; // no memory to compare pages in: they are placed instead
  } finally {
    if (scratch !== 0) pager.slab.give(scratch);
  }
  return true;
}

function countFrees(pager: Pager): number {
  const o = pager.overlay;
  let n = 0;
  for (let k = 0; k < o.count; k++) if (o.slot[k] === FREED) n++;
  return n;
}

function countPlaces(pager: Pager): number {
  const o = pager.overlay;
  let n = 0;
  for (let k = 0; k < o.count; k++) if (o.slot[k]! > 0) n++;
  return n;
}

function appendChange(pager: Pager, k: number, scratch: BufferId): void {
  const { log, overlay: o, slab } = pager;
  const page = o.page[k] as PageId;
  const bytesMax = slab.pageBytes + CHANGE_OVERHEAD_BYTES;
  const growth = log.growthBytes(bytesMax + FRAME_HEADER_BYTES);
  if (growth > 0) pager.ensureRoom(growth);
  if (o.slot[k] !== 0) return; // making room spilled it: a place frame will name it
  const isNew = (o.flags[k]! & NEW) !== 0;
  const base = isNew ? 0 : pager.newest(page);
  if (base !== 0) pager.pin(base);
  try {
    const w = log.beginFrame(FRAME_CHANGE, page, pager.commitId + 1, bytesMax);
    const buffer = o.buffer[k]!;
    const words = slab.wordsOf(buffer);
    const at = slab.offset(buffer) >> 2;
    takeCommitIdOf(pager, base, words, at);
    verifyHulls(pager, k, base);
    const end = changedRanges(pager, k, base, scratch, w);
    if (end === w && !isNew) return; // nothing differs
    const moves = isNew ? 0 : (o.moves[k]?.length ?? 0) / 3;
    log.endFrame(end, ((isNew ? CHANGE_BASE_ZERO : 0) << 8) | (moves << 16));
  } finally {
    if (base !== 0) pager.unpin(base);
  }
}

/** The commit id is not logged as a change: the frame carries it. */
function takeCommitIdOf(pager: Pager, base: BufferId, words: Int32Array, at: number): void {
  const { slab } = pager;
  const from = base === 0 ? undefined : slab.wordsOf(base);
  const f = base === 0 ? 0 : slab.offset(base) >> 2;
  words[at + COMMIT_WORD] = from === undefined ? 0 : from[f + COMMIT_WORD]!;
  words[at + COMMIT_WORD + 1] = from === undefined ? 0 : from[f + COMMIT_WORD + 1]!;
}

/** Writes the moves and ranges by which a page differs from its base; answers the end. */
function changedRanges(
  pager: Pager,
  k: number,
  base: BufferId,
  scratch: BufferId,
  w: number,
): number {
  const { overlay: o, slab, log } = pager;
  const moves = base === 0 ? undefined : o.moves[k];
  let out = w;
  let against = base;
  if (moves !== undefined) {
    slab.copy(base, scratch);
    out = applyAndWriteMoves(pager, scratch, moves, w);
    against = scratch;
  }
  const a = against === 0 ? ZERO_WORDS : slab.wordsOf(against);
  const aAt = against === 0 ? 0 : slab.offset(against) >> 2;
  const b = slab.wordsOf(o.buffer[k]!);
  const bAt = slab.offset(o.buffer[k]!) >> 2;
  const { hull } = o;
  const split = firstHullEnd(hull, k);
  out = rangesBetween(a, aAt, b, bAt, hull[k * 4]! >> 2, split, log.words, out);
  const from = Math.max(split, hull[k * 4 + 2]! >> 2);
  return rangesBetween(a, aAt, b, bAt, from, (hull[k * 4 + 3]! + 3) >> 2, log.words, out);
}

/** Word where the front hull ends: it may meet the back hull. */
function firstHullEnd(hull: Int32Array, k: number): number {
  return (hull[k * 4 + 1]! + 3) >> 2;
}

function applyAndWriteMoves(
  pager: Pager,
  scratch: BufferId,
  moves: readonly number[],
  w: number,
): number {
  const { slab, log } = pager;
  const bytes = slab.bytesOf(scratch);
  const at = slab.offset(scratch);
  for (let i = 0; i < moves.length; i += 3) {
    const from = moves[i]!;
    const to = moves[i + 1]!;
    const length = moves[i + 2]!;
    bytes.copyWithin(at + to, at + from, at + from + length);
    log.words[w++] = from | (to << 16);
    log.words[w++] = length;
  }
  return w;
}

/**
 * Writes ranges of words that differ, as (first word << 16 | count) and the words. A gap of one
 * equal word costs no more than a new range. This is the measured form (FEASIBILITY 15.2).
 */
function rangesBetween(
  a: Int32Array,
  aAt: number,
  b: Int32Array,
  bAt: number,
  from: number,
  to: number,
  out: Int32Array,
  q: number,
): number {
  let i = from;
  while (i < to) {
    while (
      i + 4 <= to &&
      ((a[aAt + i]! ^ b[bAt + i]!) |
        (a[aAt + i + 1]! ^ b[bAt + i + 1]!) |
        (a[aAt + i + 2]! ^ b[bAt + i + 2]!) |
        (a[aAt + i + 3]! ^ b[bAt + i + 3]!)) ===
        0
    ) {
      i += 4;
    }
    while (i < to && a[aAt + i] === b[bAt + i]) i++;
    if (i >= to) break;
    let end = i + 1;
    for (let j = end, gap = 0; j < to && gap < 2; j++) {
      if (a[aAt + j] === b[bAt + j]) gap++;
      else {
        end = j + 1;
        gap = 0;
      }
    }
    out[q++] = (i << 16) | (end - i);
    for (let j = i; j < end; j++) out[q++] = b[bAt + j]!;
    i = end;
  }
  return q;
}

/** Under `verify`: no byte outside the hulls differs from the base. */
function verifyHulls(pager: Pager, k: number, base: BufferId): void {
  if (!isVerifying()) return;
  const { overlay: o, slab } = pager;
  const hull = [0, 1, 2, 3].map((i) => o.hull[k * 4 + i]!);
  const bytes = slab.bytesOf(o.buffer[k]!);
  const at = slab.offset(o.buffer[k]!);
  const baseBytes = base === 0 ? undefined : slab.bytesOf(base);
  const baseAt = base === 0 ? 0 : slab.offset(base);
  for (let i = 0; i < slab.pageBytes; i++) {
    const inside = (i >= hull[0]! && i < hull[1]!) || (i >= hull[2]! && i < hull[3]!);
    if (inside || (baseBytes === undefined ? 0 : baseBytes[baseAt + i]) === bytes[at + i]) continue;
    assert(false, `byte ${i} of page ${o.page[k]} changed outside the hulls ${hull.join(' ')}`);
  }
}
