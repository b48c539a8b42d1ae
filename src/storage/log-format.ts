/**
 * The format of the log (STORAGE rules 5–8). Little-endian; every frame is a multiple of 8 bytes.
 *
 * The file: a log header at 0, then two segments of `segmentBytes` from 4,096 on.
 *
 *   log header                              segment header (start of each segment)
 *   offset bytes meaning                    offset bytes meaning
 *        0     8 magic                           0     8 magic
 *        8    16 file id                         8    16 file id
 *       24     8 segmentBytes (float64)         24     8 generation (float64)
 *       32     4 crc32 of the bytes before      32     8 position of the first frame (float64)
 *                                               40     4 crc32 of the bytes before
 *                                               64       first frame
 *
 * A frame:
 *
 *   offset bytes meaning
 *        0     4 crc32 of the bytes from 4 on, seeded by file id, generation and position
 *        4     4 bytes of the frame, header included
 *        8     1 kind: 1 change, 2 place, 3 free, 4 commit
 *        9     1 flags: change 1 the base is zeroes; commit 1 the places are synced
 *       10     2 moves (change), else 0
 *       12     4 change, free: PageId. place: entries. commit: frames of the commit before this
 *       16     8 commit id (float64)
 *       24       change: moves of 8 bytes (from u16, to u16, length u16, 0), then ranges: a word
 *                  (first word of the page << 16 | words), then that many words; a zero word pads
 *                place: entries of 12 bytes: PageId, slot, checksum; zeros pad
 *                commit: next PageId (float64), position known synced (float64),
 *                  checksum over the checksums of its frames u32, 0 u32
 */
import { crc32 } from '../base/checksum.ts';

export const LOG_HEADER_BYTES = 4096;
export const SEGMENT_HEADER_BYTES = 64;
export const FRAME_HEADER_BYTES = 24;
export const COMMIT_FRAME_BYTES = 48;
export const PLACE_ENTRY_BYTES = 12;
/** Entries of one place frame at the most, so that a frame stays below the reader's buffer. */
export const PLACE_ENTRIES_MAX = 2048;
/** A change frame is at most a page of 64 KiB, its moves and range words. */
export const FRAME_BYTES_MAX = 96 * 1024;
export const MOVES_MAX = 64;

export const FRAME_CHANGE = 1;
export const FRAME_PLACE = 2;
export const FRAME_FREE = 3;
export const FRAME_COMMIT = 4;

export const CHANGE_BASE_ZERO = 1;
export const COMMIT_PLACES_SYNCED = 1;

const LOG_MAGIC = 'MonoLog1';
const SEGMENT_MAGIC = 'MonoSeg1';

function sealedBytes(magic: string, fileId: Uint8Array, numbers: readonly number[]): Uint8Array {
  const crcOffset = 24 + numbers.length * 8;
  const bytes = new Uint8Array(SEGMENT_HEADER_BYTES);
  const view = new DataView(bytes.buffer);
  for (let i = 0; i < 8; i++) bytes[i] = magic.charCodeAt(i);
  bytes.set(fileId, 8);
  numbers.forEach((x, i) => view.setFloat64(24 + i * 8, x, true));
  view.setInt32(crcOffset, crc32(bytes, 0, crcOffset, 0), true);
  return bytes;
}

function unsealed(
  bytes: Uint8Array,
  magic: string,
  fileId: Uint8Array,
  count: number,
): number[] | undefined {
  const crcOffset = 24 + count * 8;
  const view = new DataView(bytes.buffer, bytes.byteOffset, SEGMENT_HEADER_BYTES);
  if (view.getInt32(crcOffset, true) !== crc32(bytes, 0, crcOffset, 0)) return undefined;
  for (let i = 0; i < 8; i++) if (bytes[i] !== magic.charCodeAt(i)) return undefined;
  for (let i = 0; i < 16; i++) if (bytes[8 + i] !== fileId[i]) return undefined;
  return Array.from({ length: count }, (_, i) => view.getFloat64(24 + i * 8, true));
}

export function encodeLogHeader(fileId: Uint8Array, segmentBytes: number): Uint8Array {
  return sealedBytes(LOG_MAGIC, fileId, [segmentBytes]);
}

/** Bytes of a segment, `undefined` if the bytes are no log header of this file. */
export function decodeLogHeader(bytes: Uint8Array, fileId: Uint8Array): number | undefined {
  const segmentBytes = unsealed(bytes, LOG_MAGIC, fileId, 1)?.[0];
  if (segmentBytes === undefined || !isPosition(segmentBytes)) return undefined;
  return segmentBytes >= FRAME_BYTES_MAX && segmentBytes < 2 ** 32 ? segmentBytes : undefined;
}

export interface SegmentHeader {
  readonly generation: number;
  /** Log position of the segment's first frame. */
  readonly start: number;
}

export function encodeSegmentHeader(fileId: Uint8Array, header: SegmentHeader): Uint8Array {
  return sealedBytes(SEGMENT_MAGIC, fileId, [header.generation, header.start]);
}

export function decodeSegmentHeader(
  bytes: Uint8Array,
  fileId: Uint8Array,
): SegmentHeader | undefined {
  const numbers = unsealed(bytes, SEGMENT_MAGIC, fileId, 2);
  if (numbers === undefined || !numbers.every((x) => Number.isSafeInteger(x))) return undefined;
  return isPosition(numbers[1]!) ? { generation: numbers[0]!, start: numbers[1]! } : undefined;
}

/** Whether a frame may stand at a position. */
function isPosition(x: number): boolean {
  return Number.isSafeInteger(x) && x >= 0 && x % 8 === 0;
}

/** What is common to the seeds of all frames of a segment. */
export function segmentSeed(fileId: Uint8Array, generation: number): number {
  const bytes = new Uint8Array(24);
  bytes.set(fileId);
  new DataView(bytes.buffer).setFloat64(16, generation, true);
  return crc32(bytes, 0, 24, 0);
}

/** Seed of the checksum of the frame at a position. */
export function frameSeed(segment: number, position: number): number {
  return (
    segment ^ Math.imul(position | 0, 0x9e3779b1) ^ Math.imul((position / 2 ** 32) | 0, 0x85eb)
  );
}
