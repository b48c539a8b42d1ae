/**
 * Memory of the cache: buffers of one page each, in chunks that never move: of 1 MiB, less where
 * the budget is small, so that it is taken and given back in small pieces. A chunk costs up to 2 ms
 * to make, a page fault for each 4 KiB, which an open and a first get should not pay.
 *
 * A buffer is a number; what it holds is in parallel arrays. Nobody keeps an object for a page
 * (FEASIBILITY sections 0 and 8). Chunks and arrays are charged before they are made.
 *
 *   kind      holds                                          the clock may
 *   FREE      nothing                                        –
 *   CLEAN     newest committed image, the file has it        reuse it
 *   DIRTY     newest committed image, only here              write it to a free slot
 *   PRIVATE   private page of the open transaction           –  (spilled by the overlay)
 *   VERSION   older image that a snapshot may ask for        write it to a free slot, reuse it
 *   NODE      node of the map or the bitmap, the file has it reuse it
 *   NODE_NEW  changed node of the map or the bitmap          –  (written by the checkpoint)
 *   SCRATCH   work area of one call                          –
 */
import { assert } from '../base/assert.ts';
import { type Ledger } from '../base/ledger.ts';
import { type BufferId } from './pages.ts';

export const FREE = 0;
export const CLEAN = 1;
export const DIRTY = 2;
export const PRIVATE = 3;
export const VERSION = 4;
export const NODE = 5;
export const NODE_NEW = 6;
export const SCRATCH = 7;

const CHUNK_BYTES_MAX = 1024 * 1024;
/** A budget has at least so many chunks; of small ones, fewer will do. */
const CHUNKS_MIN = 128;
const CHUNK_BYTES_SMALL = 256 * 1024;
const SMALL_CHUNKS_MIN = 16;
/** Buffers of a chunk: of the first one, four are never used or kept for need. */
const CHUNK_BUFFERS_MIN = 8;
/** What is kept when memory is given back: so many buffers, and this share of a small budget. */
const KEPT_BUFFERS = 32;
const KEPT_SHARE = 4;
/** Bytes of bookkeeping for a buffer in the arrays below. */
const BOOKKEEPING_BYTES = 4 + 4 + 8 + 2 + 1 + 1 + 4;

/** Gives memory back to the system at once, whoever names it still. */
function detach(memory: ArrayBuffer): void {
  structuredClone(memory, { transfer: [memory] });
}

let isFirst = true;

/**
 * V8 compiles what uses typed arrays on the assumption that this process never detaches a buffer,
 * and throws all of it away when one is: 0.4 s of compiling once more in a program that is warm.
 * So the first slab of a process detaches one, before there is much to throw away.
 */
function detachOnce(): void {
  if (isFirst) detach(new ArrayBuffer(1));
  isFirst = false;
}

export class Slab {
  readonly pageBytes: number;
  readonly chunkBytes: number;
  readonly pageShift: number;
  readonly chunkShift: number;
  readonly chunkMask: number;
  readonly bytes: Uint8Array[] = [];
  readonly words: Int32Array[] = [];
  readonly floats: Float64Array[] = [];
  /** Buffers that exist. Buffer 0 is never given out: 0 means none. */
  count = 0;
  kind = new Uint8Array(0);
  /** Clock bit: set by every access. */
  used = new Uint8Array(0);
  pins = new Uint16Array(0);
  /** PageId of CLEAN, DIRTY, PRIVATE, VERSION; node key of NODE, NODE_NEW. */
  page = new Int32Array(0);
  /** Ordinal of a PRIVATE buffer in the overlay. */
  owner = new Int32Array(0);
  /** Commit id of CLEAN, DIRTY, VERSION. */
  commit = new Float64Array(0);
  #free = new Int32Array(0);
  #freeCount = 0;
  readonly #ledger: Ledger;
  readonly #keptCount: number;

  constructor(pageBytes: number, ledger: Ledger) {
    detachOnce();
    this.pageBytes = pageBytes;
    this.pageShift = Math.log2(pageBytes);
    const { budgetBytes } = ledger;
    const small = Math.min(CHUNK_BYTES_SMALL, budgetBytes / SMALL_CHUNKS_MIN);
    const wanted = Math.min(CHUNK_BYTES_MAX, Math.max(small, budgetBytes / CHUNKS_MIN));
    const share = 2 ** Math.floor(Math.log2(wanted));
    this.chunkBytes = Math.max(CHUNK_BUFFERS_MIN * pageBytes, share);
    this.chunkShift = Math.log2(this.chunkBytes / pageBytes);
    this.chunkMask = (1 << this.chunkShift) - 1;
    assert(Number.isInteger(this.pageShift), 'page size is a power of two');
    const kept = Math.min(CHUNK_BYTES_MAX, ledger.budgetBytes / KEPT_SHARE);
    this.#keptCount = Math.max(KEPT_BUFFERS, Math.ceil(kept / pageBytes));
    this.#ledger = ledger;
  }

  get freeCount(): number {
    return this.#freeCount;
  }

  /** Offset of a buffer in the bytes of its chunk. */
  offset(buffer: BufferId): number {
    return (buffer & this.chunkMask) << this.pageShift;
  }

  bytesOf(buffer: BufferId): Uint8Array {
    return this.bytes[buffer >> this.chunkShift]!;
  }

  wordsOf(buffer: BufferId): Int32Array {
    return this.words[buffer >> this.chunkShift]!;
  }

  floatsOf(buffer: BufferId): Float64Array {
    return this.floats[buffer >> this.chunkShift]!;
  }

  /** Adds a chunk if the budget has room for it. */
  tryGrow(): boolean {
    const buffers = 1 << this.chunkShift;
    const bytes = this.chunkBytes + 12;
    if (!this.#ledger.tryCharge('buffers', bytes)) return false;
    if (this.count + buffers > this.kind.length && !this.#tryGrowArrays(this.count + buffers)) {
      this.#ledger.release('buffers', bytes);
      return false;
    }
    const memory = new ArrayBuffer(this.chunkBytes);
    this.bytes.push(new Uint8Array(memory));
    this.words.push(new Int32Array(memory));
    this.floats.push(new Float64Array(memory));
    const first = this.count;
    this.count += buffers;
    for (let b = this.count - 1; b >= first; b--) if (b > 0) this.#free[this.#freeCount++] = b;
    return true;
  }

  #tryGrowArrays(needed: number): boolean {
    const before = this.kind.length;
    const length = Math.max(needed, Math.min(before * 2, before + (8 << this.chunkShift)));
    if (!this.#ledger.tryCharge('tables', length * BOOKKEEPING_BYTES)) return false;
    this.kind = grown(this.kind, new Uint8Array(length));
    this.used = grown(this.used, new Uint8Array(length));
    this.pins = grown(this.pins, new Uint16Array(length));
    this.page = grown(this.page, new Int32Array(length));
    this.owner = grown(this.owner, new Int32Array(length));
    this.commit = grown(this.commit, new Float64Array(length));
    this.#free = grown(this.#free, new Int32Array(length));
    this.#ledger.release('tables', before * BOOKKEEPING_BYTES);
    return true;
  }

  /** A free buffer, 0 if there is none. Its bytes are whatever they were. */
  take(): BufferId {
    return this.#freeCount === 0 ? 0 : this.#free[--this.#freeCount]!;
  }

  /** Gives a buffer back; it must not be pinned. */
  give(buffer: BufferId): void {
    assert(this.pins[buffer] === 0, 'a pinned buffer is not given back');
    this.kind[buffer] = FREE;
    this.page[buffer] = 0;
    this.#free[this.#freeCount++] = buffer;
  }

  /** Whether the last chunk is more than what is kept. */
  get maySpareChunk(): boolean {
    return this.count - (1 << this.chunkShift) >= this.#keptCount;
  }

  /** Takes the buffers of the last chunk out of the free list; false if one is in use. */
  #claimLastChunk(): boolean {
    if (!this.maySpareChunk) return false;
    const first = this.count - (1 << this.chunkShift);
    for (let b = first; b < this.count; b++) {
      if (this.kind[b] !== FREE || this.pins[b] !== 0) return false;
    }
    let kept = 0;
    for (let i = 0; i < this.#freeCount; i++) {
      const b = this.#free[i]!;
      if (b < first) this.#free[kept++] = b;
    }
    this.#freeCount = kept;
    return true;
  }

  /** Gives the last chunk back to the system when all its buffers are free. */
  tryShrink(): boolean {
    if (!this.#claimLastChunk()) return false;
    // Readers may still name the chunk in their fields: its memory goes all the same.
    detach(this.bytes.pop()!.buffer as ArrayBuffer);
    this.words.pop();
    this.floats.pop();
    this.count -= 1 << this.chunkShift;
    this.#ledger.release('buffers', this.chunkBytes + 12);
    return true;
  }

  copy(from: BufferId, to: BufferId): void {
    const source = this.offset(from);
    const target = this.offset(to);
    const bytes = this.bytesOf(from);
    if (from >> this.chunkShift === to >> this.chunkShift) {
      bytes.copyWithin(target, source, source + this.pageBytes);
    } else {
      this.bytesOf(to).set(bytes.subarray(source, source + this.pageBytes), target);
    }
  }

  zero(buffer: BufferId): void {
    const offset = this.offset(buffer);
    this.bytesOf(buffer).fill(0, offset, offset + this.pageBytes);
  }

  /** Gives everything back; the slab must not be used afterwards. */
  dispose(): void {
    this.#ledger.release('buffers', this.bytes.length * (this.chunkBytes + 12));
    this.#ledger.release('tables', this.kind.length * BOOKKEEPING_BYTES);
    this.bytes.length = this.words.length = this.floats.length = 0;
    this.count = 0;
    this.#freeCount = 0;
    this.kind = new Uint8Array(0);
  }
}

function grown<T extends Uint8Array | Uint16Array | Int32Array | Float64Array>(from: T, to: T): T {
  to.set(from);
  return to;
}
