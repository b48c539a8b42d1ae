/**
 * The bytes of a log at rest, taken apart into frames and put together again with checksums that
 * fit: for forging logs that only a wrong writer could have written.
 */
import { crc32 } from '../../src/base/checksum.ts';
import {
  FRAME_COMMIT,
  FRAME_HEADER_BYTES,
  frameSeed,
  LOG_HEADER_BYTES,
  SEGMENT_HEADER_BYTES,
  segmentSeed,
} from '../../src/storage/log-format.ts';

export interface FrameAt {
  /** Offset of the frame in the file. */
  readonly offset: number;
  readonly position: number;
  readonly bytes: number;
  /** 1 change, 2 place, 3 free, 4 commit. */
  readonly kind: number;
  readonly generation: number;
}

interface SegmentAt {
  readonly offset: number;
  readonly generation: number;
  readonly start: number;
}

export class LogImage {
  readonly bytes: Uint8Array;
  readonly view: DataView;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  get fileId(): Uint8Array {
    return this.bytes.subarray(8, 24);
  }

  get segmentBytes(): number {
    return this.view.getFloat64(24, true);
  }

  /** Segments that the file reaches, in order of generation. */
  segments(): SegmentAt[] {
    const offsets = [LOG_HEADER_BYTES, LOG_HEADER_BYTES + this.segmentBytes];
    return offsets
      .filter((offset) => offset + SEGMENT_HEADER_BYTES <= this.bytes.length)
      .map((offset) => ({
        offset,
        generation: this.view.getFloat64(offset + 24, true),
        start: this.view.getFloat64(offset + 32, true),
      }))
      .filter((segment) => segment.generation > 0)
      .sort((a, b) => a.generation - b.generation);
  }

  /** Valid frames of both segments, from each segment's start on. */
  frames(): FrameAt[] {
    return this.segments().flatMap((segment) => this.#framesOf(segment));
  }

  #framesOf({ offset, generation, start }: SegmentAt): FrameAt[] {
    const frames: FrameAt[] = [];
    const seed = segmentSeed(this.fileId, generation);
    let at = offset + SEGMENT_HEADER_BYTES;
    while (at + FRAME_HEADER_BYTES <= this.bytes.length) {
      const position = start + at - offset - SEGMENT_HEADER_BYTES;
      const bytes = this.view.getInt32(at + 4, true);
      if (bytes < FRAME_HEADER_BYTES || at + bytes > this.bytes.length) break;
      const checksum = crc32(this.bytes, at + 4, at + bytes, frameSeed(seed, position));
      if (checksum !== this.view.getInt32(at, true)) break;
      frames.push({ offset: at, position, bytes, kind: this.bytes[at + 8]!, generation });
      at += bytes;
    }
    return frames;
  }

  /** Gives frames that were changed the checksums that fit, commit frames those of their frames. */
  seal(frames: readonly FrameAt[]): void {
    let sum = 0;
    for (const frame of frames) {
      if (frame.kind === FRAME_COMMIT) {
        this.view.setInt32(frame.offset + 40, sum, true);
        sum = 0;
      }
      this.#sealFrame(frame);
      if (frame.kind === FRAME_COMMIT) continue;
      sum = Math.imul(sum ^ this.view.getInt32(frame.offset, true), 0x9e3779b1);
    }
  }

  #sealFrame({ offset, bytes, position, generation }: FrameAt): void {
    const seed = frameSeed(segmentSeed(this.fileId, generation), position);
    this.view.setInt32(offset, crc32(this.bytes, offset + 4, offset + bytes, seed), true);
  }

  /** Gives the log header or a segment header the checksum that fits. */
  sealHeader(offset: number): void {
    const end = offset + (offset === 0 ? 32 : 40);
    this.view.setInt32(end, crc32(this.bytes, offset, end, 0), true);
  }
}
