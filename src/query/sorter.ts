/**
 * External sort of rows inside the working memory.
 *
 * A row is an entry of two byte strings, the order-preserving key and the encoded values. Entries
 * lie one after the other in pieces of work memory; a reference is the place of one. When memory
 * ends, what is there is sorted and written as a run:
 *
 *   key length varint · row length varint · key · row
 *
 * and at the end the runs are merged, at most so many at a time.
 */
import {
  compareBytes,
  readVarint,
  skipVarint,
  type ByteWriter,
  writeVarint,
} from '../base/bytes.ts';
import { DatabaseError } from '../errors.ts';
import type { SpillRun, WorkArea, WorkSpace } from '../model/work.ts';

/** Bytes of the first piece and of later ones: few rows take little. */
const PIECE_BYTES_FIRST = 4 * 1024;
const PIECE_BYTES = 64 * 1024;
const WRITE_BYTES = 16 * 1024;
const RUNS_MERGED = 32;
const READ_BYTES = 16 * 1024;
/** Bytes of the two lengths at most. */
const HEAD_BYTES = 10;
/** Bytes of a reference in the heap, that of the sorted list included. */
const REFERENCE_BYTES = 16;

/** The entry that a reader stands at. */
export interface SortedEntry {
  readonly bytes: Uint8Array;
  readonly keyOffset: number;
  readonly keyBytes: number;
  readonly rowOffset: number;
  readonly rowBytes: number;
}

/** Entries in order, one after the other. */
interface EntryReader extends SortedEntry {
  advance(): boolean;
  close(): void;
}

/** Entries in pieces of work memory. */
class Arena {
  readonly #work: WorkSpace;
  #pieces: WorkArea[] = [];
  #used = 0;
  /** Places of entries: piece × 2^26 + offset. */
  references: number[] = [];
  bytes: Uint8Array = new Uint8Array(0);
  keyOffset = 0;
  keyBytes = 0;
  rowOffset = 0;
  rowBytes = 0;

  constructor(work: WorkSpace) {
    this.#work = work;
  }

  /** Adds an entry; answers false, with nothing changed, when memory has ended. */
  add(key: Uint8Array, keyBytes: number, row: Uint8Array, rowBytes: number): boolean {
    const bytes = HEAD_BYTES + keyBytes + rowBytes;
    if (!this.#makeRoom(bytes)) return false;
    const piece = this.#pieces.length - 1;
    const target = this.#pieces[piece]!.bytes;
    this.references.push(piece * 2 ** 26 + this.#used);
    let at = writeVarint(target, this.#used, keyBytes);
    at = writeVarint(target, at, rowBytes);
    target.set(key.subarray(0, keyBytes), at);
    target.set(row.subarray(0, rowBytes), at + keyBytes);
    this.#used = at + keyBytes + rowBytes;
    return true;
  }

  #makeRoom(bytes: number): boolean {
    try {
      this.#work.charge(REFERENCE_BYTES);
    } catch (cause) {
      return refuse(cause);
    }
    const last = this.#pieces.at(-1);
    if (last !== undefined && this.#used + bytes <= last.bytes.length) return true;
    try {
      const size = last === undefined ? PIECE_BYTES_FIRST : PIECE_BYTES;
      this.#pieces.push(this.#work.reserve(Math.max(size, bytes)));
    } catch (cause) {
      this.#work.release(REFERENCE_BYTES);
      return refuse(cause);
    }
    this.#used = 0;
    return true;
  }

  /** Goes to the entry of a reference. */
  open(reference: number): void {
    const piece = Math.floor(reference / 2 ** 26);
    const offset = reference - piece * 2 ** 26;
    const { bytes } = this.#pieces[piece]!;
    this.bytes = bytes;
    this.keyBytes = readVarint(bytes, offset, bytes.length);
    const second = skipVarint(bytes, offset);
    this.rowBytes = readVarint(bytes, second, bytes.length);
    this.keyOffset = skipVarint(bytes, second);
    this.rowOffset = this.keyOffset + this.keyBytes;
  }

  /** Puts the references in the order of their keys; equal keys stay as they came. */
  sort(): void {
    this.references.sort((a, b) => {
      this.open(a);
      const { bytes, keyOffset, keyBytes } = this;
      this.open(b);
      const order = compareBytes(
        bytes,
        keyOffset,
        keyOffset + keyBytes,
        this.bytes,
        this.keyOffset,
        this.keyOffset + this.keyBytes,
      );
      return order !== 0 ? order : a - b;
    });
  }

  clear(): void {
    for (const piece of this.#pieces) piece.release();
    this.#work.release(this.references.length * REFERENCE_BYTES);
    this.#pieces = [];
    this.references = [];
    this.#used = 0;
  }
}

/** Takes an error of a full budget; all others go on. */
function refuse(cause: unknown): false {
  if (cause instanceof DatabaseError && cause.code === 'limit.memory') return false;
  throw cause;
}

class ArenaReader implements EntryReader {
  readonly #arena: Arena;
  #next = 0;

  constructor(arena: Arena) {
    this.#arena = arena;
  }

  advance(): boolean {
    const { references } = this.#arena;
    if (this.#next >= references.length) return false;
    this.#arena.open(references[this.#next++]!);
    return true;
  }

  get bytes(): Uint8Array {
    return this.#arena.bytes;
  }
  get keyOffset(): number {
    return this.#arena.keyOffset;
  }
  get keyBytes(): number {
    return this.#arena.keyBytes;
  }
  get rowOffset(): number {
    return this.#arena.rowOffset;
  }
  get rowBytes(): number {
    return this.#arena.rowBytes;
  }

  close(): void {
    this.#arena.clear();
  }
}

/** Entries of a spilled run, through a buffer that grows to hold the longest. */
class RunReader implements EntryReader {
  readonly #run: SpillRun;
  readonly #work: WorkSpace;
  #area: WorkArea;
  #from = 0;
  #to = 0;
  keyOffset = 0;
  keyBytes = 0;
  rowOffset = 0;
  rowBytes = 0;

  constructor(run: SpillRun, work: WorkSpace) {
    this.#run = run;
    this.#work = work;
    this.#area = work.reserve(READ_BYTES);
    run.rewind();
  }

  get bytes(): Uint8Array {
    return this.#area.bytes;
  }

  advance(): boolean {
    if (!this.#fill(HEAD_BYTES) && this.#from === this.#to) return false;
    const { bytes } = this.#area;
    this.keyBytes = readVarint(bytes, this.#from, this.#to);
    const second = skipVarint(bytes, this.#from);
    this.rowBytes = readVarint(bytes, second, this.#to);
    const head = skipVarint(bytes, second) - this.#from;
    this.#fill(head + this.keyBytes + this.rowBytes);
    this.keyOffset = this.#from + head;
    this.rowOffset = this.keyOffset + this.keyBytes;
    this.#from = this.rowOffset + this.rowBytes;
    return true;
  }

  /** Brings so many bytes into the buffer; answers false if there are fewer. */
  #fill(bytes: number): boolean {
    if (this.#to - this.#from >= bytes) return true;
    if (bytes > this.#area.bytes.length) {
      const larger = this.#work.reserve(bytes + READ_BYTES);
      larger.bytes.set(this.#area.bytes.subarray(this.#from, this.#to));
      this.#area.release();
      this.#area = larger;
    } else this.#area.bytes.copyWithin(0, this.#from, this.#to);
    this.#to -= this.#from;
    this.#from = 0;
    while (this.#to < bytes) {
      const read = this.#run.read(this.#area.bytes.subarray(this.#to));
      if (read === 0) return false;
      this.#to += read;
    }
    return true;
  }

  close(): void {
    this.#area.release();
    this.#run.close();
  }
}

/** Several readers as one; the earlier of equal keys comes first. */
class MergeReader implements EntryReader {
  readonly #readers: EntryReader[];
  #open: EntryReader[] = [];
  #current: EntryReader | undefined;
  #isStarted = false;

  constructor(readers: EntryReader[]) {
    this.#readers = readers;
  }

  advance(): boolean {
    if (!this.#isStarted) this.#open = this.#readers.filter((reader) => reader.advance());
    else if (this.#current === undefined) return false;
    else if (!this.#current.advance()) this.#open.splice(this.#open.indexOf(this.#current), 1);
    this.#isStarted = true;
    let least = this.#open[0];
    for (let i = 1; i < this.#open.length; i++) {
      const other = this.#open[i]!;
      if (compareEntries(other, least!) < 0) least = other;
    }
    this.#current = least;
    return least !== undefined;
  }

  get bytes(): Uint8Array {
    return this.#current!.bytes;
  }
  get keyOffset(): number {
    return this.#current!.keyOffset;
  }
  get keyBytes(): number {
    return this.#current!.keyBytes;
  }
  get rowOffset(): number {
    return this.#current!.rowOffset;
  }
  get rowBytes(): number {
    return this.#current!.rowBytes;
  }

  close(): void {
    for (const reader of this.#readers) reader.close();
  }
}

export function compareEntries(a: SortedEntry, b: SortedEntry): number {
  return compareBytes(
    a.bytes,
    a.keyOffset,
    a.keyOffset + a.keyBytes,
    b.bytes,
    b.keyOffset,
    b.keyOffset + b.keyBytes,
  );
}

/** Takes rows in any order and gives them back in the order of their keys. */
export class Sorter {
  readonly #work: WorkSpace;
  readonly #limit: number;
  #arena: Arena;
  #runs: SpillRun[] = [];
  #reader: EntryReader | undefined;
  readonly #head = new Uint8Array(HEAD_BYTES);
  /** What runs are written through; taken before memory ends. */
  #buffer: WorkArea | undefined;
  #buffered = 0;

  /** `limit`: only so many of the first rows are wanted. */
  constructor(work: WorkSpace, limit = Infinity) {
    this.#work = work;
    this.#limit = limit;
    this.#arena = new Arena(work);
  }

  /** Runs that were spilled. */
  get runCount(): number {
    return this.#runs.length;
  }

  add(key: ByteWriter, row: ByteWriter): void {
    const { length } = this.#arena.references;
    if (length >= Math.max(1024, 2 * this.#limit)) this.#cut();
    if (length === 32) this.#buffer ??= this.#work.reserve(WRITE_BYTES);
    if (this.#arena.add(key.bytes, key.length, row.bytes, row.length)) return;
    this.#spill();
    if (this.#arena.add(key.bytes, key.length, row.bytes, row.length)) return;
    this.#work.charge(HEAD_BYTES + key.length + row.length + PIECE_BYTES); // throws limit.memory
  }

  /** Forgets what is not among the first rows that are wanted. */
  #cut(): void {
    const old = this.#arena;
    old.sort();
    const kept = new Arena(this.#work);
    for (const reference of old.references.slice(0, this.#limit)) {
      old.open(reference);
      const { bytes, keyOffset, rowOffset, keyBytes, rowBytes } = old;
      const key = bytes.subarray(keyOffset, rowOffset);
      if (kept.add(key, keyBytes, bytes.subarray(rowOffset), rowBytes)) continue;
      kept.clear();
      this.#spill();
      return;
    }
    old.clear();
    this.#arena = kept;
  }

  #spill(): void {
    const arena = this.#arena;
    if (arena.references.length === 0) return;
    arena.sort();
    const run = this.#work.spill();
    this.#runs.push(run);
    let left = this.#limit;
    for (const reference of arena.references) {
      if (left-- <= 0) break;
      arena.open(reference);
      this.#write(run, arena);
    }
    this.#flush(run);
    arena.clear();
  }

  #write(run: SpillRun, entry: SortedEntry): void {
    const { bytes, keyOffset, keyBytes, rowOffset, rowBytes } = entry;
    const head = writeVarint(this.#head, writeVarint(this.#head, 0, keyBytes), rowBytes);
    this.#append(run, this.#head, 0, head);
    this.#append(run, bytes, keyOffset, keyOffset + keyBytes);
    this.#append(run, bytes, rowOffset, rowOffset + rowBytes);
  }

  #append(run: SpillRun, bytes: Uint8Array, from: number, to: number): void {
    const buffer = this.#buffer?.bytes;
    if (buffer === undefined || this.#buffered + to - from > buffer.length) this.#flush(run);
    if (buffer === undefined || to - from > buffer.length) return run.append(bytes, from, to);
    buffer.set(bytes.subarray(from, to), this.#buffered);
    this.#buffered += to - from;
  }

  #flush(run: SpillRun): void {
    if (this.#buffered > 0) run.append(this.#buffer!.bytes, 0, this.#buffered);
    this.#buffered = 0;
  }

  /** Goes to the next row in order; answers it, `undefined` at the end. */
  next(): SortedEntry | undefined {
    this.#reader ??= this.#finish();
    return this.#reader.advance() ? this.#reader : undefined;
  }

  #finish(): EntryReader {
    if (this.#runs.length === 0) {
      this.#arena.sort();
      return new ArenaReader(this.#arena);
    }
    this.#spill();
    while (this.#runs.length > RUNS_MERGED) this.#mergeSome();
    const runs = this.#runs;
    this.#runs = [];
    return new MergeReader(runs.map((run) => new RunReader(run, this.#work)));
  }

  #mergeSome(): void {
    const some = this.#runs.splice(0, RUNS_MERGED);
    const merged = this.#work.spill();
    const reader = new MergeReader(some.map((run) => new RunReader(run, this.#work)));
    while (reader.advance()) this.#write(merged, reader);
    this.#flush(merged);
    reader.close();
    this.#runs.unshift(merged);
  }

  close(): void {
    this.#reader?.close();
    this.#arena.clear();
    for (const run of this.#runs) run.close();
    this.#runs = [];
    this.#buffer?.release();
    this.#buffer = undefined;
  }
}
