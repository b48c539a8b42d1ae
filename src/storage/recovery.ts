/**
 * Recovery: brings a file that was not closed to its last complete commit (STORAGE rules 21–23).
 *
 *   1. read the log to its end, commit by commit; slots named by committed place frames are busy
 *   2. read it again and apply it to pages in the cache
 *   3. checkpoint with the header clean, so that the log is dead
 *
 * It writes only free slots and may itself be interrupted anywhere. A frame after the last complete
 * commit is never applied (law S2).
 */
import { assert } from '../base/assert.ts';
import { IntList } from '../base/int-list.ts';
import { failure } from '../errors.ts';
import { type File } from './file.ts';
import {
  CHANGE_BASE_ZERO,
  COMMIT_PLACES_SYNCED,
  FRAME_CHANGE,
  FRAME_COMMIT,
  FRAME_FREE,
  FRAME_HEADER_BYTES,
  FRAME_PLACE,
} from './log-format.ts';
import { headerSlots } from './header.ts';
import { LogReader, READER_BYTES } from './log-reader.ts';
import { CHANGE_FREED, CHANGE_IN_LOG, CHANGE_STRIDE } from './page-cache.ts';
import { type Pager } from './pager.ts';
import { type BufferId, PAGE_ID_OFFSET, type PageId } from './pages.ts';
import { CLEAN, DIRTY } from './slab.ts';

/** What recovery found: where the log ends, and how much it applied. */
export interface Recovered {
  readonly end: number;
  readonly generation: number;
  readonly commits: number;
}

/**
 * Applies the log to the pager's cache.
 *
 * @throws {StorageError} storage.log_missing
 * @throws {CorruptionError} corrupt.log
 */
export function replayLog(pager: Pager, file: File, path: string): Recovered {
  pager.ledger.charge('log', READER_BYTES);
  try {
    const found = findEnd(pager, file, path);
    apply(pager, newReader(pager, file, path), found.end);
    return found;
  } finally {
    pager.ledger.release('log', READER_BYTES);
  }
}

function newReader(pager: Pager, file: File, path: string): LogReader {
  const { fileId, generation, replayPosition } = pager.header;
  return new LogReader(file, path, fileId, generation, replayPosition);
}

/** First reading: the end of the last whole commit, with its place slots marked as busy. */
function findEnd(pager: Pager, file: File, path: string): Recovered {
  const reader = newReader(pager, file, path);
  const places = new IntList(pager.ledger, 'log'); // of the commit being read
  let end = reader.position;
  let generation = reader.generation;
  let commits = 0;
  let frames = 0;
  let checksum = 0;
  let commit = 0;
  while (reader.next()) {
    const w = reader.at >> 2;
    const id = reader.floats[(reader.at >> 3) + 2]!;
    const isNext = frames === 0 ? Number.isSafeInteger(id) && id > commit : id === commit;
    if (!isNext) throw broken(reader, `frame of commit ${id} after commit ${commit}`);
    commit = id;
    if (reader.kind !== FRAME_COMMIT) {
      frames++;
      checksum = Math.imul(checksum ^ reader.words[w]!, 0x9e3779b1);
      if (reader.kind === FRAME_PLACE) gatherPlaces(reader, places);
      continue;
    }
    const whole = frames === reader.words[w + 3] && checksum === reader.words[w + 10];
    const synced = ((reader.words[w + 2]! >> 8) & COMMIT_PLACES_SYNCED) !== 0;
    // What the checkpoint covers is not applied, and its slots may have been reused since.
    if (commit <= pager.header.commit) places.clear();
    if (!whole || !(synced || placesHold(pager, places))) break;
    for (let i = 1; i < places.count; i += 3) claim(pager, reader, places.at(i));
    end = reader.position + reader.frameBytes;
    generation = reader.generation;
    commits++;
    frames = checksum = 0;
    places.clear();
  }
  places.clear();
  reader.checkEnd(end);
  return { end, generation, commits };
}

function gatherPlaces(reader: LogReader, places: IntList): void {
  const w = reader.at >> 2;
  const count = reader.words[w + 3]!;
  const room = ((reader.frameBytes - FRAME_HEADER_BYTES) / 12) | 0;
  if (count < 0 || count > room) throw broken(reader, `place frame of ${count} entries`);
  for (let i = 0; i < count * 3; i++) places.push(reader.words[w + 6 + i]!);
}

/** Marks a slot as busy that a committed place frame names. */
function claim(pager: Pager, reader: LogReader, slot: number): void {
  const slots = Math.floor(pager.file.file.size() / pager.pageBytes);
  const there = slot >= headerSlots(pager.pageBytes) && slot < slots;
  if (!there) throw broken(reader, `place in slot ${slot} of ${slots}`);
  if (!pager.slots.claim(slot)) throw broken(reader, `place in slot ${slot}, which is used,`);
}

/** Whether the slots of place frames that are not known synced hold their checksums. */
function placesHold(pager: Pager, places: IntList): boolean {
  if (places.count === 0) return true;
  const buffer = pager.obtain();
  try {
    for (let i = 0; i < places.count; i += 3) {
      if (!pager.file.read(places.at(i + 1), buffer)) return false;
      if (pager.file.checksum(buffer) !== places.at(i + 2)) return false;
    }
    return true;
  } finally {
    pager.slab.give(buffer);
  }
}

function broken(reader: LogReader, what: string): Error {
  return failure('corrupt.log', `the log has a ${what} at position ${reader.position}`, {
    detail: { position: reader.position },
  });
}

/** Second reading: applies every frame before the end. */
function apply(pager: Pager, reader: LogReader, end: number): void {
  while (reader.next() && reader.position < end) {
    const w = reader.at >> 2;
    const commit = reader.floats[(reader.at >> 3) + 2]!;
    const page = reader.words[w + 3]! as PageId;
    if (page <= 0 && reader.kind !== FRAME_COMMIT) throw broken(reader, `frame of page ${page}`);
    switch (reader.kind) {
      case FRAME_CHANGE:
        applyChange(pager, reader, page, commit);
        break;
      case FRAME_PLACE:
        applyPlaces(pager, reader, commit);
        break;
      case FRAME_FREE:
        if (commit <= pager.header.commit) break;
        enter(pager, page, CHANGE_FREED, 0, 0);
        break;
      case FRAME_COMMIT:
        pager.commitId = Math.max(pager.commitId, commit);
        applyNextPage(pager, reader, reader.floats[(reader.at >> 3) + 3]!);
        break;
    }
  }
}

function applyNextPage(pager: Pager, reader: LogReader, nextPage: number): void {
  const isPossible = Number.isSafeInteger(nextPage) && nextPage >= 1 && nextPage <= 2 ** 31;
  if (!isPossible) throw broken(reader, `next page of ${nextPage}`);
  pager.nextPage = Math.max(pager.nextPage, nextPage);
  pager.coverPage(pager.nextPage);
}

/** Makes a slot (or none) the newest place of a page; what it had before is given up. */
function enter(pager: Pager, page: PageId, slot: number, checksum: number, flags: number): void {
  if (page <= 0) throw failure('corrupt.log', `the log names page ${page}`);
  pager.coverPage(page);
  const place = pager.recent.put(page) * CHANGE_STRIDE;
  pager.heldByLog.reserve(1);
  const { values } = pager.recent;
  const before = values[place]!;
  if (before > 0 && before !== slot) {
    if ((values[place + 2]! & CHANGE_IN_LOG) !== 0) pager.heldByLog.push(before);
    else pager.slots.drop(before);
  }
  values[place] = slot;
  values[place + 1] = checksum;
  values[place + 2] = flags;
  if (slot !== 0) pager.dropNewest(page);
}

function applyPlaces(pager: Pager, reader: LogReader, commit: number): void {
  if (commit <= pager.header.commit) return;
  const w = reader.at >> 2;
  for (let i = w + 6; i < w + 6 + reader.words[w + 3]! * 3; i += 3) {
    const page = reader.words[i]! as PageId;
    enter(pager, page, reader.words[i + 1]!, reader.words[i + 2]!, CHANGE_IN_LOG);
  }
}

function applyChange(pager: Pager, reader: LogReader, page: PageId, commit: number): void {
  if (commit <= pager.header.commit) return;
  const head = reader.words[(reader.at >> 2) + 2]!;
  const isNew = ((head >> 8) & CHANGE_BASE_ZERO) !== 0;
  const buffer = isNew ? zeroedBuffer(pager, page) : pager.newest(page);
  if (!isNew && pager.slab.commit[buffer]! >= commit) return; // applied before
  pager.pin(buffer);
  try {
    enter(pager, page, 0, 0, 0);
    pager.slab.kind[buffer] = DIRTY;
    applyMoves(pager, reader, buffer, head >>> 16);
    applyRanges(pager, reader, buffer, head >>> 16);
    pager.stampCommit(buffer, commit);
    const w = (pager.slab.offset(buffer) + PAGE_ID_OFFSET) >> 2;
    if (pager.slab.wordsOf(buffer)[w] !== page) throw broken(reader, `change of page ${page}`);
  } finally {
    pager.unpin(buffer);
  }
}

function zeroedBuffer(pager: Pager, page: PageId): BufferId {
  pager.coverPage(page);
  pager.dropNewest(page);
  const buffer = pager.obtain();
  pager.slab.zero(buffer);
  pager.slab.kind[buffer] = CLEAN;
  pager.enterNewest(page, buffer);
  return buffer;
}

function applyMoves(pager: Pager, reader: LogReader, buffer: BufferId, moves: number): void {
  if (FRAME_HEADER_BYTES + moves * 8 > reader.frameBytes) throw broken(reader, 'move too many');
  const bytes = pager.slab.bytesOf(buffer);
  const at = pager.slab.offset(buffer);
  let w = (reader.at + FRAME_HEADER_BYTES) >> 2;
  for (let i = 0; i < moves; i++, w += 2) {
    const from = reader.words[w]! & 0xffff;
    const to = reader.words[w]! >>> 16;
    const length = reader.words[w + 1]!;
    const fits = length >= 0 && Math.max(from, to) + length <= pager.pageBytes;
    if (!fits) throw broken(reader, 'move beyond its page');
    bytes.copyWithin(at + to, at + from, at + from + length);
  }
}

function applyRanges(pager: Pager, reader: LogReader, buffer: BufferId, moves: number): void {
  const words = pager.slab.wordsOf(buffer);
  const at = pager.slab.offset(buffer) >> 2;
  let w = ((reader.at + FRAME_HEADER_BYTES) >> 2) + moves * 2;
  const end = (reader.at + reader.frameBytes) >> 2;
  while (w < end) {
    const range = reader.words[w++]!;
    const first = range >>> 16;
    const count = range & 0xffff;
    if (count === 0) continue; // padding
    const fits = first + count <= pager.pageBytes >> 2 && w + count <= end;
    if (!fits) throw broken(reader, 'range beyond its page');
    words.set(reader.words.subarray(w, w + count), at + first);
    w += count;
  }
  assert(w === end, 'the ranges fill their frame');
}
