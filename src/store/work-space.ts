/**
 * The working memory of the question side: pieces charged to the ledger account `work`, and one
 * spill file.
 *
 * The spill file is made when the first run needs it, has no name from then on where the system
 * allows that, and is given back when the last run is closed. A run is a list of extents of the
 * file; extents of closed runs are used again.
 */
import { assert } from '../base/assert.ts';
import type { Ledger } from '../base/ledger.ts';
import { failure } from '../errors.ts';
import type { SpillRun, WorkArea, WorkSpace } from '../model/work.ts';
import type { File, FileSystem } from '../storage/file.ts';

const EXTENT_BYTES = 256 * 1024;
/** What the page cache keeps: its first chunk. */
const CACHE_BYTES_KEPT = 1 << 20;

export class LedgerWorkSpace implements WorkSpace {
  readonly #ledger: Ledger;
  readonly #fs: FileSystem;
  readonly #path: string;
  #file: File | undefined;
  #extents = 0;
  #free: number[] = [];
  #runs = 0;
  /** Bytes written to the spill file since the database was opened. */
  spilledBytes = 0;

  constructor(ledger: Ledger, fs: FileSystem, path: string) {
    this.#ledger = ledger;
    this.#fs = fs;
    this.#path = path;
  }

  /** Free bytes of the budget, and those that the page cache can give back. */
  get availableBytes(): number {
    const cached = this.#ledger.bytesOf('buffers') - CACHE_BYTES_KEPT;
    return this.#ledger.availableBytes + Math.max(0, cached);
  }

  reserve(byteCount: number): WorkArea {
    const ledger = this.#ledger;
    ledger.charge('work', byteCount);
    let isHeld = true;
    return {
      bytes: new Uint8Array(byteCount),
      release: () => {
        if (isHeld) ledger.release('work', byteCount);
        isHeld = false;
      },
    };
  }

  charge(byteCount: number): void {
    this.#ledger.charge('work', byteCount);
  }

  release(byteCount: number): void {
    this.#ledger.release('work', byteCount);
  }

  spill(): SpillRun {
    this.#file ??= this.#open();
    this.#runs++;
    return new FileRun(this);
  }

  #open(): File {
    const file = this.#fs.open(this.#path, 'create');
    file.truncate(0);
    if (process.platform !== 'win32') this.#fs.remove(this.#path);
    return file;
  }

  // For runs.

  get file(): File {
    return this.#file!;
  }

  /** Gives an extent; answers its ordinal. */
  takeExtent(): number {
    return this.#free.pop() ?? this.#extents++;
  }

  runClosed(extents: readonly number[]): void {
    this.#free.push(...extents);
    if (--this.#runs === 0) this.close();
  }

  /** Gives the spill file back. */
  close(): void {
    const file = this.#file;
    if (file === undefined) return;
    this.#file = undefined;
    this.#extents = 0;
    this.#free = [];
    this.#runs = 0;
    file.close();
    if (process.platform === 'win32' && this.#fs.exists(this.#path)) this.#fs.remove(this.#path);
  }
}

class FileRun implements SpillRun {
  readonly #work: LedgerWorkSpace;
  readonly #extents: number[] = [];
  #written = 0;
  #read = 0;
  #isOpen = true;

  constructor(work: LedgerWorkSpace) {
    this.#work = work;
  }

  append(bytes: Uint8Array, from: number, to: number): void {
    assert(this.#isOpen, 'a run is written before it is closed');
    for (let at = from; at < to;) {
      const inExtent = this.#written % EXTENT_BYTES;
      if (inExtent === 0) this.#extents.push(this.#work.takeExtent());
      const count = Math.min(to - at, EXTENT_BYTES - inExtent);
      this.#work.file.write(bytes, at, count, this.#place(this.#written));
      this.#written += count;
      at += count;
    }
    this.#work.spilledBytes += to - from;
  }

  #place(position: number): number {
    const extent = this.#extents[Math.floor(position / EXTENT_BYTES)]!;
    return extent * EXTENT_BYTES + (position % EXTENT_BYTES);
  }

  rewind(): void {
    this.#read = 0;
  }

  read(target: Uint8Array): number {
    const left = EXTENT_BYTES - (this.#read % EXTENT_BYTES);
    const count = Math.min(target.length, left, this.#written - this.#read);
    if (count === 0) return 0;
    const got = this.#work.file.read(target, 0, count, this.#place(this.#read));
    if (got === 0) throw failure('storage.io', 'the spill file ends before what was written to it');
    this.#read += got; // a read may be short
    return got;
  }

  close(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#work.runClosed(this.#extents);
  }
}
