/**
 * Reading sorted entries: from an arena, from a spilled run, or from several of these as one, by a
 * tree of losers over the eight bytes behind those that all keys share.
 *
 *   spilled entry: [ordinal varint ·] key length varint · row length varint · key · row
 *
 * Source: D. Knuth, The Art of Computer Programming, volume 3, 5.4.1.
 */
import { readVarint, skipVarint, writeVarint } from '../base/bytes.ts';
import { DatabaseError, failure } from '../errors.ts';
import { compareEntries, keyWord, type SortArena, type SortedEntry } from './sort-arena.ts';
import type { SpillRun, WorkArea, WorkSpace } from './work.ts';

/** Bytes of ordinal and lengths of a spilled entry at most. */
const HEAD_BYTES = 20;

/** The error of an entry that working memory does not hold beside what sorting the others takes. */
export function tooLarge(
  entryBytes: number,
  { availableBytes }: WorkSpace,
  ordinal: number | undefined,
): Error {
  return failure(
    'limit.memory',
    `a record of ${entryBytes} bytes does not fit the ${availableBytes} bytes that are left ` +
      'to sort it with others',
    {
      detail: {
        recordBytes: entryBytes,
        availableBytes,
        ...(ordinal !== undefined && { ordinals: [undefined, ordinal] }),
      },
      hint: 'Open with a larger `memory`, or put this record by itself: that takes any size.',
    },
  );
}

/** Entries in order, one after the other, from an arena or from a run. */
export class EntryReader implements SortedEntry {
  bytes: Uint8Array;
  keyOffset = 0;
  keyBytes = 0;
  rowOffset = 0;
  rowBytes = 0;
  ordinal = 0;
  /** The eight bytes that a merge goes by, as two numbers with the top bit flipped. */
  high = 0;
  low = 0;
  isOpen = true;
  readonly #arena: SortArena | undefined;
  readonly #order: Uint32Array;
  #next = 0;
  readonly #run: SpillRun | undefined;
  readonly #work: WorkSpace | undefined;
  readonly #hasOrdinals: boolean;
  readonly #sharedBytes: number;
  #area: WorkArea | undefined;
  #from = 0;
  #to = 0;

  private constructor(
    source: { arena: SortArena } | { run: SpillRun; work: WorkSpace; area: WorkArea },
    hasOrdinals: boolean,
    sharedBytes: number,
  ) {
    const arena = 'arena' in source ? source.arena : undefined;
    this.#arena = arena;
    this.#order = arena?.order() ?? new Uint32Array(0);
    this.#run = 'run' in source ? source.run : undefined;
    this.#work = 'run' in source ? source.work : undefined;
    this.#area = 'run' in source ? source.area : undefined;
    this.bytes = arena?.bytes ?? this.#area!.bytes;
    this.#hasOrdinals = hasOrdinals;
    this.#sharedBytes = sharedBytes;
  }

  /** Reads a sorted arena, which it then owns. */
  static ofArena(arena: SortArena, sharedBytes: number): EntryReader {
    return new EntryReader({ arena }, false, sharedBytes);
  }

  /** Reads a run, which it then owns, through a buffer that grows to hold the longest entry. */
  static ofRun(
    run: SpillRun,
    work: WorkSpace,
    bufferBytes: number,
    hasOrdinals: boolean,
    sharedBytes: number,
  ): EntryReader {
    const area = work.reserve(bufferBytes);
    run.rewind();
    return new EntryReader({ run, work, area }, hasOrdinals, sharedBytes);
  }

  /** Goes to the next entry; answers false at the end. */
  advance(): boolean {
    if (!(this.#arena !== undefined ? this.#nextOfArena(this.#arena) : this.#nextOfRun())) {
      this.isOpen = false;
      return false;
    }
    const at = this.keyOffset + this.#sharedBytes;
    const end = this.keyOffset + this.keyBytes;
    this.high = keyWord(this.bytes, at, end) ^ 0x8000_0000;
    this.low = keyWord(this.bytes, at + 4, end) ^ 0x8000_0000;
    return true;
  }

  #nextOfArena(arena: SortArena): boolean {
    if (this.#next >= this.#order.length) return false;
    const i = this.#order[this.#next++]!;
    arena.open(i);
    this.keyOffset = arena.keyOffset;
    this.keyBytes = arena.keyBytes;
    this.rowOffset = arena.rowOffset;
    this.rowBytes = arena.rowBytes;
    this.ordinal = arena.base + i;
    return true;
  }

  #nextOfRun(): boolean {
    if (this.#to - this.#from < HEAD_BYTES && !this.#fill(HEAD_BYTES) && this.#from === this.#to) {
      return false;
    }
    const { bytes } = this;
    const to = this.#to;
    let at = this.#from;
    if (this.#hasOrdinals) {
      this.ordinal = readVarint(bytes, at, to);
      at = skipVarint(bytes, at);
    }
    this.keyBytes = readVarint(bytes, at, to);
    at = skipVarint(bytes, at);
    this.rowBytes = readVarint(bytes, at, to);
    at = skipVarint(bytes, at);
    const head = at - this.#from;
    const whole = head + this.keyBytes + this.rowBytes;
    if (to - this.#from < whole) this.#fill(whole);
    this.keyOffset = this.#from + head;
    this.rowOffset = this.keyOffset + this.keyBytes;
    this.#from += whole;
    return true;
  }

  /** Brings so many bytes into the buffer; answers false if there are fewer. */
  #fill(bytes: number): boolean {
    const old = this.bytes;
    const held = this.#to - this.#from;
    if (bytes > old.length) {
      const larger = this.#larger(bytes);
      larger.bytes.set(old.subarray(this.#from, this.#to));
      this.#area!.release();
      this.#area = larger;
      this.bytes = larger.bytes;
    } else old.copyWithin(0, this.#from, this.#to);
    this.#to = held;
    this.#from = 0;
    while (this.#to < bytes) {
      const read = this.#run!.read(this.bytes.subarray(this.#to));
      if (read === 0) return false;
      this.#to += read;
    }
    return true;
  }

  #larger(bytes: number): WorkArea {
    try {
      return this.#work!.reserve(bytes + 4096);
    } catch (cause) {
      if (!(cause instanceof DatabaseError) || cause.code !== 'limit.memory') throw cause;
      throw tooLarge(bytes, this.#work!, this.#hasOrdinals ? this.ordinal : undefined);
    }
  }

  close(): void {
    this.isOpen = false;
    this.#arena?.release();
    this.#area?.release();
    this.#area = undefined;
    this.#run?.close();
  }
}

export interface MergeOptions {
  /** Bytes that each run is read through. */
  readonly bufferBytes: number;
  /** Leading bytes that all keys share. */
  readonly sharedBytes: number;
  /** Of equal keys that of the last run comes first. */
  readonly latestFirst: boolean;
  /** Entries have ordinals. */
  readonly hasOrdinals?: boolean;
}

/** Reads runs, in the order in which they were written, as one; they are the reader's then. */
export function mergeRuns(
  runs: readonly SpillRun[],
  work: WorkSpace,
  options: MergeOptions,
): MergeReader {
  const { bufferBytes, sharedBytes, latestFirst, hasOrdinals = false } = options;
  const readers: EntryReader[] = [];
  try {
    for (const run of runs)
      readers.push(EntryReader.ofRun(run, work, bufferBytes, hasOrdinals, sharedBytes));
  } catch (cause) {
    for (const reader of readers) reader.close();
    for (const run of runs.slice(readers.length)) run.close();
    throw cause;
  }
  return new MergeReader(readers, latestFirst);
}

/** Several readers, in the order in which their entries were added, as one. */
export class MergeReader {
  readonly #readers: readonly EntryReader[];
  readonly #latestFirst: boolean;
  /** Losers of the matches, by inner node from 1 on; at 0 the winner. */
  readonly #losers: Int32Array;
  #isStarted = false;

  constructor(readers: readonly EntryReader[], latestFirst: boolean) {
    this.#readers = readers;
    this.#latestFirst = latestFirst;
    this.#losers = new Int32Array(Math.max(1, readers.length)).fill(-1);
  }

  /** Goes to the next entry; answers its reader, `undefined` at the end. */
  next(): EntryReader | undefined {
    const readers = this.#readers;
    if (readers.length === 1) return readers[0]!.advance() ? readers[0] : undefined;
    if (!this.#isStarted) this.#start();
    else {
      const winner = this.#losers[0]!;
      if (readers[winner]?.advance() !== undefined) this.#replay(winner);
    }
    const first = readers[this.#losers[0]!];
    return first?.isOpen === true ? first : undefined; // there may be none at all
  }

  #start(): void {
    this.#isStarted = true;
    for (const reader of this.#readers) reader.advance();
    for (let i = 0; i < this.#readers.length; i++) this.#replay(i);
  }

  /** Lets a reader climb: at each node the loser stays, the winner goes on. */
  #replay(leaf: number): void {
    const losers = this.#losers;
    const readers = this.#readers;
    let winner = leaf;
    for (let node = (leaf + readers.length) >> 1; node > 0; node >>= 1) {
      const other = losers[node]!;
      if (other === -1) {
        losers[node] = winner; // while starting: the first to come waits for the other
        return;
      }
      if (this.#isBefore(other, winner)) {
        losers[node] = winner;
        winner = other;
      }
    }
    losers[0] = winner;
  }

  #isBefore(i: number, j: number): boolean {
    const a = this.#readers[i]!;
    const b = this.#readers[j]!;
    if (!a.isOpen || !b.isOpen) return a.isOpen;
    if (a.high !== b.high) return a.high < b.high;
    if (a.low !== b.low) return a.low < b.low;
    const order = compareEntries(a, b);
    if (order !== 0) return order < 0;
    return this.#latestFirst ? i > j : i < j;
  }

  /** Writes what is left to a run, through a buffer. */
  writeTo(run: SpillRun, buffer: Uint8Array, ordinals: boolean): void {
    let used = 0;
    for (let at = this.next(); at !== undefined; at = this.next()) {
      const entryBytes = at.keyBytes + at.rowBytes;
      if (used + entryBytes + HEAD_BYTES > buffer.length) {
        run.append(buffer, 0, used);
        used = 0;
      }
      if (ordinals) used = writeVarint(buffer, used, at.ordinal);
      used = writeVarint(buffer, used, at.keyBytes);
      used = writeVarint(buffer, used, at.rowBytes);
      if (used + entryBytes <= buffer.length) {
        buffer.set(at.bytes.subarray(at.keyOffset, at.keyOffset + entryBytes), used);
        used += entryBytes;
        continue;
      }
      run.append(buffer, 0, used);
      used = 0;
      run.append(at.bytes, at.keyOffset, at.keyOffset + entryBytes);
    }
    run.append(buffer, 0, used);
  }

  close(): void {
    for (const reader of this.#readers) reader.close();
  }
}
