/**
 * Reads the log back, frame by frame, from where the header says that replay starts.
 *
 * A frame that does not hold its checksum ends the log, unless a later valid commit frame states
 * that a position beyond it was synced: then the log is corrupt (law S6).
 */
import { crc32 } from '../base/checksum.ts';
import { failure } from '../errors.ts';
import { type File } from './file.ts';
import {
  COMMIT_FRAME_BYTES,
  decodeLogHeader,
  decodeSegmentHeader,
  FRAME_BYTES_MAX,
  FRAME_CHANGE,
  FRAME_COMMIT,
  FRAME_HEADER_BYTES,
  frameSeed,
  LOG_HEADER_BYTES,
  SEGMENT_HEADER_BYTES,
  type SegmentHeader,
  segmentSeed,
} from './log-format.ts';

/** Bytes of the reader's buffer; the caller charges them. */
export const READER_BYTES = 256 * 1024;

interface Segment extends SegmentHeader {
  /** Offset in the file of the segment. */
  readonly offset: number;
  readonly seed: number;
}

/**
 * A cursor over the frames. After `next()` answered true the frame is at `at` of `bytes`/`words`,
 * `frameBytes` long, until the next call.
 */
export class LogReader {
  readonly bytes = new Uint8Array(READER_BYTES);
  readonly words = new Int32Array(this.bytes.buffer);
  readonly floats = new Float64Array(this.bytes.buffer);
  /** Offset of the frame in `bytes`; a multiple of 8. */
  at = 0;
  frameBytes = 0;
  kind = 0;
  /** Log position of the frame. */
  position: number;
  readonly #file: File;
  readonly #path: string;
  readonly #segmentBytes: number;
  readonly #segments: readonly Segment[];
  /** Offset of a segment whose header is there but does not hold its checksum. */
  #damagedOffset = 0;
  readonly #fileId: Uint8Array;
  #segment: Segment;
  #loadedFrom = 0; // position of bytes[0]
  #loadedBytes = 0;

  constructor(
    file: File,
    path: string,
    fileId: Uint8Array,
    generation: number,
    startPosition: number,
  ) {
    this.#file = file;
    this.#path = path;
    const head = new Uint8Array(SEGMENT_HEADER_BYTES);
    const read = file.read(head, 0, head.length, 0);
    const segmentBytes = read === head.length ? decodeLogHeader(head, fileId) : undefined;
    if (segmentBytes === undefined) throw missing(path);
    this.#segmentBytes = segmentBytes;
    this.#fileId = fileId;
    this.#segments = [0, 1].flatMap((ordinal) => {
      const offset = LOG_HEADER_BYTES + ordinal * segmentBytes;
      const bytes = new Uint8Array(SEGMENT_HEADER_BYTES);
      if (file.read(bytes, 0, bytes.length, offset) < bytes.length) return [];
      const header = decodeSegmentHeader(bytes, fileId);
      if (header === undefined) this.#damagedOffset = offset;
      if (header === undefined) return [];
      return [{ ...header, offset, seed: segmentSeed(fileId, header.generation) }];
    });
    const first = this.#segments.find((s) => s.generation === generation);
    if (first === undefined || startPosition < first.start) throw missing(path);
    this.#segment = first;
    this.position = startPosition;
  }

  /** Generation of the segment that the cursor is in. */
  get generation(): number {
    return this.#segment.generation;
  }

  /** Moves to the next valid frame; false at the end of the log. */
  next(): boolean {
    this.position += this.frameBytes;
    this.frameBytes = 0;
    if (this.#decode(this.position, this.#segment)) return true;
    const following = this.#segments.find(
      (s) => s.generation === this.#segment.generation + 1 && s.start === this.position,
    );
    if (following === undefined) return false;
    this.#segment = following;
    this.#loadedBytes = 0;
    return this.#decode(this.position, following);
  }

  /** Loads and checks the frame at a position of a segment. */
  #decode(position: number, segment: Segment): boolean {
    const end = segment.start + this.#segmentBytes - SEGMENT_HEADER_BYTES;
    if (position + FRAME_HEADER_BYTES > end) return false;
    if (!this.#load(position, FRAME_HEADER_BYTES, segment)) return false;
    const at = position - this.#loadedFrom;
    const frameBytes = this.words[(at >> 2) + 1]!;
    const kind = this.words[(at >> 2) + 2]! & 255;
    if (kind < FRAME_CHANGE || kind > FRAME_COMMIT) return false;
    if (frameBytes < FRAME_HEADER_BYTES || frameBytes > FRAME_BYTES_MAX) return false;
    if ((frameBytes & 7) !== 0 || position + frameBytes > end) return false;
    if (kind === FRAME_COMMIT && frameBytes !== COMMIT_FRAME_BYTES) return false;
    if (!this.#load(position, frameBytes, segment)) return false;
    const from = position - this.#loadedFrom;
    const seed = frameSeed(segment.seed, position);
    const checksum = crc32(this.bytes, from + 4, from + frameBytes, seed);
    if (checksum !== this.words[from >> 2]) return false;
    this.at = from;
    this.frameBytes = frameBytes;
    this.kind = kind;
    return true;
  }

  #load(position: number, length: number, segment: Segment): boolean {
    const from = position - this.#loadedFrom;
    if (from >= 0 && from + length <= this.#loadedBytes) return true;
    this.#loadedFrom = position;
    const end = segment.start + this.#segmentBytes - SEGMENT_HEADER_BYTES;
    const wanted = Math.min(READER_BYTES, end - position);
    const offset = segment.offset + SEGMENT_HEADER_BYTES + (position - segment.start);
    this.#loadedBytes = this.#file.read(this.bytes, 0, wanted, offset);
    return this.#loadedBytes >= length;
  }

  /** What the segment with the damaged header must be if the log went on in it. */
  #segmentAfter(end: number): Segment {
    const generation = this.#segment.generation + 1;
    const seed = segmentSeed(this.#fileId, generation);
    return { generation, start: end, offset: this.#damagedOffset, seed };
  }

  /**
   * Looks behind the end for a commit frame that states a position beyond it as synced.
   *
   * @throws {CorruptionError} corrupt.log when there is one.
   */
  checkEnd(end: number): void {
    const segments = [...this.#segments];
    if (this.#damagedOffset > 0) segments.push(this.#segmentAfter(end));
    for (const segment of segments) {
      if (segment.generation < this.#segment.generation) continue;
      this.#loadedBytes = 0;
      const last = segment.start + this.#segmentBytes - SEGMENT_HEADER_BYTES;
      for (let p = Math.max(segment.start, end); p < last; p += 8) {
        if (!this.#load(p, COMMIT_FRAME_BYTES, segment)) break;
        const w = (p - this.#loadedFrom) >> 2; // only commit frames are worth a checksum
        if ((this.words[w + 2]! & 255) !== FRAME_COMMIT) continue;
        if (this.words[w + 1] !== COMMIT_FRAME_BYTES || !this.#decode(p, segment)) continue;
        const synced = this.floats[(this.at >> 3) + 4]!;
        if (synced > end) throw damaged(this.#path, end, p, synced);
      }
    }
    this.frameBytes = 0;
  }
}

function missing(path: string): Error {
  return failure(
    'storage.log_missing',
    `the log ${path} is missing or belongs to another file or generation`,
    { detail: { path } },
  );
}

function damaged(path: string, end: number, position: number, synced: number): Error {
  return failure(
    'corrupt.log',
    `the log ${path} has no valid frame at position ${end}, but the frame at ${position} ` +
      `states that everything up to ${synced} was synced`,
    { detail: { path, end, position, synced } },
  );
}
