/**
 * Writes the log: frames go to a buffer in the process, from there to the file, and are synced.
 *
 *   appended ≥ written ≥ synced: positions, which grow for ever
 *
 *   start() ── frames ──> full segment ── switchSegment() ──> frames ── releaseSegment() ──> …
 *
 * Two segments take turns: one collects frames while a checkpoint empties the other. The file
 * grows by zeroing a step ahead of use (STORAGE rule 5), so that a sync changes no file size; the
 * last of what is zeroed is kept for commits that free pages when the disk is full (rule 14).
 */
import { assert } from '../base/assert.ts';
import { crc32 } from '../base/checksum.ts';
import { type Ledger } from '../base/ledger.ts';
import { type File } from './file.ts';
import {
  COMMIT_FRAME_BYTES,
  COMMIT_PLACES_SYNCED,
  encodeLogHeader,
  encodeSegmentHeader,
  FRAME_BYTES_MAX,
  FRAME_COMMIT,
  FRAME_FREE,
  FRAME_HEADER_BYTES,
  FRAME_PLACE,
  frameSeed,
  LOG_HEADER_BYTES,
  PLACE_ENTRIES_MAX,
  PLACE_ENTRY_BYTES,
  SEGMENT_HEADER_BYTES,
  segmentSeed,
} from './log-format.ts';
import { ZERO_BYTES } from './pages.ts';

/** Step by which the file grows. */
export const LOG_STEP_BYTES = 256 * 1024;
/** What is kept zeroed ahead once the log is in use, for deletes on a full disk. */
const RESERVE_BYTES = 1024 * 1024;
/** Frames of unsynced commits that may wait in the process. */
export const LOG_PENDING_BYTES = 64 * 1024;
const BUFFER_BYTES = 2 * LOG_PENDING_BYTES + FRAME_BYTES_MAX;

export class Log {
  /** Writes every frame at once that may be written before its commit frame: for tests. */
  static isEager = false;
  readonly segmentBytes: number;
  appended = 0;
  written = 0;
  synced = 0;
  generation = 0;
  /** Bytes appended since the process started. */
  bytesAppended = 0;
  writes = 0;
  /** Words of the buffer; the frame being made is written here by `pager`. */
  words = new Int32Array(0);
  floats = new Float64Array(0);
  /** Charged from the first on, made when the log is started. */
  #bytes = new Uint8Array(0);
  #file: File | undefined;
  readonly #fileId: Uint8Array;
  readonly #ledger: Ledger;
  #segment = 0;
  #segmentStart = 0;
  #otherFree = true;
  #seed = 0;
  /** Bytes of each segment that were zeroed or used before. */
  readonly #zeroed = [0, 0];
  #full = false;
  /** The header of the open segment is written but not synced. */
  #segmentUnsynced = false;
  /** Position up to which the file may hold frames: beyond `written` after a write that failed. */
  #touched = 0;
  // the commit being appended
  #frames = 0;
  #framesChecksum = 0;
  #frameStart = 0;
  /** Given while frames of the open commit may be written: whether it only takes away. */
  #mayWrite: (() => boolean) | undefined;

  constructor(fileId: Uint8Array, segmentBytes: number, ledger: Ledger) {
    assert(segmentBytes >= LOG_STEP_BYTES, 'a log segment holds a step');
    this.#fileId = fileId;
    this.segmentBytes = segmentBytes;
    this.#ledger = ledger;
    ledger.charge('log', BUFFER_BYTES);
  }

  /** Begins a log under a new generation; whatever the file held is dead. Syncs. */
  start(file: File, generation: number, position: number): void {
    if (this.#bytes.length === 0) this.#useBuffer(new Uint8Array(BUFFER_BYTES));
    this.#file = file;
    file.truncate(0);
    file.write(encodeLogHeader(this.#fileId, this.segmentBytes), 0, SEGMENT_HEADER_BYTES, 0);
    this.#zeroed.fill(0);
    this.#segment = 0;
    this.#otherFree = true;
    this.#full = false;
    this.appended = this.written = this.synced = this.#touched = position;
    this.#enterSegment(generation);
    this.#extend(LOG_STEP_BYTES);
    file.sync();
    this.#segmentUnsynced = false;
  }

  get started(): boolean {
    return this.#file !== undefined;
  }

  /** Position of the first frame of the open segment. */
  get segmentStart(): number {
    return this.#segmentStart;
  }

  /** Whether the other segment holds nothing that recovery needs. */
  get otherFree(): boolean {
    return this.#otherFree;
  }

  /** Bytes that the open segment still takes. */
  get room(): number {
    return this.#capacity - (this.appended - this.#segmentStart);
  }

  /** Bytes of frames in the open segment. */
  get used(): number {
    return this.appended - this.#segmentStart;
  }

  get #capacity(): number {
    return this.segmentBytes - SEGMENT_HEADER_BYTES;
  }

  #enterSegment(generation: number): void {
    this.generation = generation;
    this.#seed = segmentSeed(this.#fileId, generation);
    this.#segmentStart = this.appended;
    const header = encodeSegmentHeader(this.#fileId, { generation, start: this.appended });
    this.#file!.write(header, 0, SEGMENT_HEADER_BYTES, this.#segmentOffset);
    this.#segmentUnsynced = true;
  }

  get #segmentOffset(): number {
    return LOG_HEADER_BYTES + this.#segment * this.segmentBytes;
  }

  #offsetOf(position: number): number {
    return this.#segmentOffset + SEGMENT_HEADER_BYTES + (position - this.#segmentStart);
  }

  /** Closes the open segment at the last commit and goes on in the other, which must be free. */
  switchSegment(): void {
    assert(this.#otherFree, 'the other log segment is free');
    this.write();
    const { generation } = this;
    const seed = this.#seed;
    const segmentStart = this.#segmentStart;
    this.#segment = 1 - this.#segment;
    this.#otherFree = false;
    try {
      this.#enterSegment(generation + 1);
      this.#extend(LOG_STEP_BYTES);
    } catch (cause) {
      this.generation = generation; // full disk: stay where we were
      this.#seed = seed;
      this.#segmentStart = segmentStart;
      this.#segment = 1 - this.#segment;
      this.#otherFree = true;
      throw cause;
    }
  }

  /** Says that a checkpoint covers the closed segment. */
  releaseSegment(): void {
    this.#otherFree = true;
  }

  /**
   * Makes sure that `bytes` more can be appended to the file.
   *
   * @throws {StorageError} storage.full; a commit that frees pages may use the reserve.
   */
  ensureSpace(bytes: number, isShrinking: () => boolean): void {
    const used = this.appended - this.#segmentStart + bytes;
    const ahead = this.#zeroed[this.#segment]! - SEGMENT_HEADER_BYTES - used;
    const wanted = Math.min(Math.max(used, ZERO_BYTES.length), RESERVE_BYTES);
    if (ahead >= wanted && !this.#full) return;
    try {
      this.#extend(used + wanted + LOG_STEP_BYTES);
      this.#full = false;
    } catch (cause) {
      this.#full = true;
      const zeroed = this.#zeroed[this.#segment]!;
      const kept = Math.min(RESERVE_BYTES, this.segmentBytes / 4, zeroed / 2);
      const left = zeroed - SEGMENT_HEADER_BYTES - used;
      if (left < kept && (left < 0 || !isShrinking())) throw cause;
    }
  }

  /** Zeroes the open segment up to a length. */
  #extend(bytes: number): void {
    const target = Math.min(this.segmentBytes, bytes);
    while (this.#zeroed[this.#segment]! < target) {
      const from = Math.max(this.#zeroed[this.#segment]!, SEGMENT_HEADER_BYTES);
      const length = Math.min(
        ZERO_BYTES.length - (from % ZERO_BYTES.length),
        this.segmentBytes - from,
      );
      this.#file!.write(ZERO_BYTES, 0, length, this.#segmentOffset + from);
      this.#zeroed[this.#segment] = from + length;
    }
  }

  // ---- frames

  /** Begins the frames of a commit; `rewind` goes back to here. */
  beginCommit(): void {
    this.#frames = 0;
    this.#framesChecksum = 0;
    this.#mayWrite = undefined;
  }

  /**
   * Lets frames of the open commit be written when the buffer is full, instead of growing it: all
   * of them fit the segment. They count for nothing without their commit frame (law S2).
   */
  writeWhenFull(isShrinking: () => boolean): void {
    this.#mayWrite = isShrinking;
  }

  /** Drops what was appended since `position`, of the open commit only. */
  rewind(position: number): void {
    assert(position >= this.synced, 'only frames of the open commit are dropped');
    this.#mayWrite = undefined;
    this.bytesAppended -= this.appended - position;
    this.appended = position;
    if (position < this.#touched) this.#blank(position);
  }

  /**
   * Overwrites frames that were, or may have been, written and are dropped. Durable before anything
   * is written in their place: a whole frame behind the next commit must not be one of a commit
   * that never was.
   */
  #blank(position: number): void {
    for (let at = position; at < this.#touched; at += ZERO_BYTES.length) {
      const length = Math.min(ZERO_BYTES.length, this.#touched - at);
      this.#file!.write(ZERO_BYTES, 0, length, this.#offsetOf(at));
    }
    this.written = Math.min(this.written, position);
    this.#touched = position;
    this.#file!.sync(); // no new `synced`: pages that earlier frames place may not be (rule 9)
  }

  /**
   * Begins a frame with room for `bytesMax`; answers the word of the buffer where its payload
   * starts. The caller writes the payload and calls `endFrame`.
   */
  beginFrame(kind: number, page: number, commit: number, bytesMax: number): number {
    this.#reserve(bytesMax + FRAME_HEADER_BYTES);
    const at = this.appended - this.written;
    this.#frameStart = at;
    const w = at >> 2;
    this.words[w + 2] = kind;
    this.words[w + 3] = page;
    this.floats[(at >> 3) + 2] = commit;
    return w + (FRAME_HEADER_BYTES >> 2);
  }

  /** Ends the frame at a word of the buffer; `flagsAndMoves` is put beside the kind. */
  endFrame(endWord: number, flagsAndMoves: number): void {
    const at = this.#frameStart;
    if ((endWord & 1) !== 0) this.words[endWord++] = 0;
    const w = at >> 2;
    const bytes = (endWord << 2) - at;
    this.words[w + 1] = bytes;
    this.words[w + 2] = this.words[w + 2]! | flagsAndMoves;
    const checksum = crc32(this.#bytes, at + 4, at + bytes, frameSeed(this.#seed, this.appended));
    this.words[w] = checksum;
    this.#framesChecksum = Math.imul(this.#framesChecksum ^ checksum, 0x9e3779b1);
    this.#frames++;
    this.appended += bytes;
    this.bytesAppended += bytes;
  }

  appendFree(page: number, commit: number): void {
    this.endFrame(this.beginFrame(FRAME_FREE, page, commit, 0), 0);
  }

  /** Appends place frames for `count` entries of (PageId, slot, checksum). */
  appendPlaces(entries: Int32Array, count: number, commit: number): void {
    for (let first = 0; first < count; first += PLACE_ENTRIES_MAX) {
      const n = Math.min(PLACE_ENTRIES_MAX, count - first);
      let w = this.beginFrame(FRAME_PLACE, n, commit, n * PLACE_ENTRY_BYTES + 8);
      for (let i = first * 3; i < (first + n) * 3; i++) this.words[w++] = entries[i]!;
      this.endFrame(w, 0);
    }
  }

  /** Makes room in the buffer for the commit frame, so that appending it cannot fail. */
  reserveCommit(): void {
    this.#reserve(COMMIT_FRAME_BYTES + FRAME_HEADER_BYTES);
  }

  appendCommit(commit: number, nextPage: number, placesSynced: boolean): void {
    const frames = this.#frames;
    const checksum = this.#framesChecksum;
    const w = this.beginFrame(FRAME_COMMIT, frames, commit, COMMIT_FRAME_BYTES);
    this.floats[w >> 1] = nextPage;
    this.floats[(w >> 1) + 1] = this.synced;
    this.words[w + 4] = checksum;
    this.words[w + 5] = 0;
    this.endFrame(w + 6, placesSynced ? COMMIT_PLACES_SYNCED << 8 : 0);
    this.#mayWrite = undefined;
  }

  /** Bytes that the buffer would be charged for to take `bytes` more; 0 if they fit. */
  growthBytes(bytes: number): number {
    const needed = this.appended - this.written + bytes;
    let length = this.#bytes.length;
    if (needed <= length) return 0;
    while (length < needed) length *= 2;
    return length;
  }

  /** Makes room in the buffer: by writing, where that is allowed, or growing it. */
  #reserve(bytes: number): void {
    if (this.#mayWrite !== undefined && (Log.isEager || this.growthBytes(bytes) > 0)) {
      this.ensureSpace(0, this.#mayWrite);
      this.write();
    }
    const length = this.growthBytes(bytes);
    if (length === 0) return;
    this.#ledger.charge('log', length);
    this.#replaceBuffer(length);
  }

  /** Goes on in a buffer of a length that is charged. */
  #replaceBuffer(length: number): void {
    const before = this.#bytes;
    const bytes = new Uint8Array(length);
    bytes.set(before.subarray(0, this.appended - this.written));
    this.#useBuffer(bytes);
    this.#ledger.release('log', before.length);
  }

  #useBuffer(bytes: Uint8Array<ArrayBuffer>): void {
    this.#bytes = bytes;
    this.words = new Int32Array(bytes.buffer);
    this.floats = new Float64Array(bytes.buffer);
  }

  // ---- to the file

  get pendingBytes(): number {
    return this.appended - this.written;
  }

  /** Writes what waits in the buffer to the file. */
  write(): void {
    const pending = this.appended - this.written;
    if (pending > 0) {
      this.#touched = this.appended;
      this.#file!.write(this.#bytes, 0, pending, this.#offsetOf(this.written));
      this.written = this.appended;
      this.writes++;
    }
    const large = this.#bytes.length > 4 * BUFFER_BYTES;
    if (large && this.#ledger.tryCharge('log', BUFFER_BYTES)) this.#replaceBuffer(BUFFER_BYTES);
  }

  /** Whether the header of the open segment is durable, so that a file header may name it. */
  get segmentSynced(): boolean {
    return !this.#segmentUnsynced;
  }

  /** Syncs everything written; answers whether there was anything to sync. */
  sync(): boolean {
    if (this.synced === this.written && !this.#segmentUnsynced) return false;
    this.#file!.sync();
    this.synced = this.written;
    this.#segmentUnsynced = false;
    return true;
  }

  /** Cuts the file to nothing after a clean checkpoint, or forgets it when `truncate` is false. */
  stop(truncate: boolean): void {
    const file = this.#file;
    this.#file = undefined; // also if cutting it fails: the header says that it is dead
    if (truncate) file?.truncate(0);
  }

  dispose(): void {
    this.#ledger.release('log', Math.max(this.#bytes.length, BUFFER_BYTES));
    this.#bytes = new Uint8Array(0);
  }
}
