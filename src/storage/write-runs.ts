/**
 * Sorted batches of waiting writes in the spill file, until they enter their tree as one.
 *
 * A batch that enters a tree much larger than itself reads and writes most of its leaves; many
 * batches merged do that once. So while a transaction only writes to a tree, its full buffers go
 * to runs of the spill file. Runs cannot be asked for a key: a reader has them written first.
 */
import { copyBytes, writeVarint } from '../base/bytes.ts';
import { mergeRuns, type MergeReader } from '../model/sort-merge.ts';
import type { SpillRun, WorkSpace } from '../model/work.ts';
import type { WriteBuffer } from './write-buffer.ts';

/** Bytes that a run is written through. */
const WRITE_BYTES = 32 * 1024;
/** Bytes of the two lengths of an entry at most. */
const HEAD_BYTES = 10;
/** Bytes that a run is read through. */
const READ_BYTES_MIN = 4 * 1024;
const READ_BYTES_MAX = 64 * 1024;
/** Shared bytes of keys that are looked for. */
const SAMPLE_BYTES = 256;

export class WriteRuns {
  readonly #work: WorkSpace;
  /** In the order in which they were written. */
  readonly #runs: SpillRun[] = [];
  /** The first bytes of some key, as far as all share them. */
  #shared: Uint8Array | undefined;

  constructor(work: WorkSpace) {
    this.#work = work;
  }

  get count(): number {
    return this.#runs.length;
  }

  /** Writes entries of a buffer, in the order given, which share their first `common` bytes. */
  add(buffer: WriteBuffer, ordinals: Int32Array, common: number): void {
    const run = this.#work.spill();
    try {
      this.#write(run, buffer, ordinals);
    } catch (cause) {
      run.close();
      throw cause;
    }
    this.#runs.push(run);
    this.#share(buffer, ordinals[0]!, common);
  }

  #write(run: SpillRun, buffer: WriteBuffer, ordinals: Int32Array): void {
    const area = this.#work.reserve(WRITE_BYTES);
    try {
      const target = area.bytes;
      let used = 0;
      for (const ordinal of ordinals) {
        const keyLength = buffer.keyLengthOf(ordinal);
        const valueLength = buffer.valueLengthOf(ordinal);
        const length = keyLength + valueLength;
        if (used + length + HEAD_BYTES > WRITE_BYTES) {
          run.append(target, 0, used);
          used = 0;
        }
        used = writeVarint(target, used, keyLength);
        used = writeVarint(target, used, valueLength);
        copyBytes(buffer.bytesOf(ordinal), buffer.keyAt(ordinal), target, used, length);
        used += length;
      }
      run.append(target, 0, used);
    } finally {
      area.release();
    }
  }

  #share(buffer: WriteBuffer, ordinal: number, common: number): void {
    const at = buffer.keyAt(ordinal);
    const key = buffer.bytesOf(ordinal).subarray(at, at + Math.min(common, SAMPLE_BYTES));
    if (this.#shared === undefined) {
      this.#shared = key.slice();
      return;
    }
    const most = Math.min(key.length, this.#shared.length);
    let i = 0;
    while (i < most && key[i] === this.#shared[i]) i++;
    this.#shared = this.#shared.subarray(0, i);
  }

  /** All entries in order, of equal keys the newest first; the reader then owns the runs. */
  take(memoryBytes: number): MergeReader {
    const each = Math.floor(memoryBytes / this.#runs.length) & ~(READ_BYTES_MIN - 1);
    return mergeRuns(this.#runs.splice(0), this.#work, {
      bufferBytes: Math.min(READ_BYTES_MAX, Math.max(READ_BYTES_MIN, each)),
      sharedBytes: this.#shared?.length ?? 0,
      latestFirst: true,
    });
  }

  close(): void {
    for (const run of this.#runs.splice(0)) run.close();
  }
}
