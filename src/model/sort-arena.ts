/**
 * Entries of a sort in one piece of memory, and sorting them.
 *
 *   offset 0                                     entries, one after the other:
 *                                                key length varint · row length varint · key · row
 *   ... free ...
 *   words from the end, n entries (little-endian uint32)
 *     last n                                     where each entry begins, the first one last
 *     n before these                             order: ordinals of the entries, once sorted
 *     3n before these                            while sorting: eight bytes of each key as two
 *                                                numbers, and a second order; after it: buffer
 *
 * An entry is only added while there is room for the words that sorting it takes. Keys are sorted
 * by the eight bytes behind those that all keys share: a radix sort, lowest digit first, with a
 * second round for entries that are equal in these; few entries are compared one by one.
 *
 * The loops are written for the machine (STYLE rule 3).
 */
import { compareBytes, copyBytes, readVarint, skipVarint, writeVarint } from '../base/bytes.ts';
import type { SpillRun, WorkArea } from './work.ts';

/** Largest arena, bytes: entries and numbers of one stay in the processor's cache. */
export const ARENA_BYTES_MAX = 2 * 1024 * 1024;
/** Bytes of the two lengths before an entry at most. */
const HEAD_BYTES = 10;
/** Words of an entry beside its bytes. */
const WORDS_EACH = 5;
const PREFIX_BYTES = 8;
/** Entries that are compared one by one rather than by radix. */
const RADIX_MIN = 300;
const ROUNDS_MAX = 16;
/** Bytes that are written to a run at a time. */
const WRITE_BYTES = 256 * 1024;

const DIGITS = 2048;
const counts = Array.from({ length: 6 }, () => new Uint32Array(DIGITS));
const EMPTY = new Uint8Array(0);
const NO_WORDS = new Uint32Array(0);

/** The entry that a reader stands at. */
export interface SortedEntry {
  readonly bytes: Uint8Array;
  readonly keyOffset: number;
  readonly keyBytes: number;
  readonly rowOffset: number;
  readonly rowBytes: number;
  /** Entries that were added before it; for sorters that keep ordinals. */
  readonly ordinal: number;
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

/** Four bytes of a key as a number from 0 on, zeroes behind its end. */
export function keyWord(bytes: Uint8Array, at: number, end: number): number {
  if (at + 4 <= end) {
    const word = (bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8);
    return (word | bytes[at + 3]!) >>> 0;
  }
  let word = 0;
  for (let i = 0; i < 4; i++) word = (word << 8) | (at + i < end ? bytes[at + i]! : 0);
  return word >>> 0;
}

export class SortArena {
  count = 0;
  /** Leading bytes that all keys share. */
  sharedBytes = 0;
  /** Ordinal of the first entry. */
  readonly base: number;
  readonly #latestFirst: boolean;
  #area: WorkArea | undefined;
  #bytes: Uint8Array = EMPTY;
  #words: Uint32Array = NO_WORDS;
  #used = 0;
  // The entry that was opened last.
  keyOffset = 0;
  keyBytes = 0;
  rowOffset = 0;
  rowBytes = 0;

  constructor(latestFirst: boolean, base: number) {
    this.#latestFirst = latestFirst;
    this.base = base;
  }

  /** Bytes of an arena that has room for one entry of so many bytes. */
  static bytesFor(entryBytes: number): number {
    return HEAD_BYTES + entryBytes + 4 * WORDS_EACH + 4;
  }

  get byteCount(): number {
    return this.#bytes.length;
  }

  get bytes(): Uint8Array {
    return this.#bytes;
  }

  hasRoom(entryBytes: number): boolean {
    const words = (this.count + 1) * WORDS_EACH * 4;
    return this.#used + HEAD_BYTES + entryBytes + words <= this.#bytes.length;
  }

  /** Adds an entry; answers false, with nothing changed, when there is no room. */
  add(
    key: Uint8Array,
    keyBytes: number,
    row: Uint8Array,
    rowOffset: number,
    rowBytes: number,
  ): boolean {
    if (!this.hasRoom(keyBytes + rowBytes)) return false;
    const bytes = this.#bytes;
    const words = this.#words;
    const start = this.#used;
    let at = start;
    if (keyBytes < 0x80) bytes[at++] = keyBytes;
    else at = writeVarint(bytes, at, keyBytes);
    if (rowBytes < 0x80) bytes[at++] = rowBytes;
    else at = writeVarint(bytes, at, rowBytes);
    copyBytes(key, 0, bytes, at, keyBytes);
    if (this.count === 0) this.sharedBytes = keyBytes;
    else this.#share(at, keyBytes);
    at += keyBytes;
    copyBytes(row, rowOffset, bytes, at, rowBytes);
    words[words.length - 1 - this.count++] = start;
    this.#used = at + rowBytes;
    return true;
  }

  /** Compares the key at `at` with the first one in the bytes that all before it share. */
  #share(at: number, keyBytes: number): void {
    const bytes = this.#bytes;
    const first = bytes[0]! < 0x80 && bytes[1]! < 0x80 ? 2 : this.#firstKey();
    const most = this.sharedBytes < keyBytes ? this.sharedBytes : keyBytes;
    let i = 0;
    while (i < most && bytes[at + i] === bytes[first + i]) i++;
    this.sharedBytes = i;
  }

  #firstKey(): number {
    return skipVarint(this.#bytes, skipVarint(this.#bytes, 0));
  }

  /** Moves everything to another area, which has more room, and gives the old one back. */
  moveTo(area: WorkArea): void {
    const bytes = area.bytes;
    const words = new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length >> 2);
    bytes.set(this.#bytes.subarray(0, this.#used));
    words.set(this.#words.subarray(this.#words.length - this.count), words.length - this.count);
    this.#area?.release();
    this.#area = area;
    this.#bytes = bytes;
    this.#words = words;
  }

  /** Gives the memory back; the arena is then empty. */
  release(): void {
    this.#area?.release();
    this.#area = undefined;
    this.#bytes = EMPTY;
    this.#words = NO_WORDS;
    this.count = this.#used = 0;
  }

  /** Keeps the first entries in order, at most so many, and forgets the others. */
  cut(countMax: number, scratch: WorkArea): void {
    this.sort();
    const order = this.order();
    const kept = Math.min(this.count, countMax);
    const target = scratch.bytes;
    const starts: number[] = [];
    let at = 0;
    for (let i = 0; i < kept; i++) {
      this.open(order[i]!);
      const from = this.start(order[i]!);
      const to = this.rowOffset + this.rowBytes;
      starts.push(at);
      target.set(this.#bytes.subarray(from, to), at);
      at += to - from;
    }
    const words = this.#words;
    this.#bytes.set(target.subarray(0, at));
    for (let i = 0; i < kept; i++) words[words.length - 1 - i] = starts[i]!;
    this.count = kept;
    this.#used = at;
    this.sharedBytes = 0;
  }

  // ---- reading

  /** Where entry `i` begins. */
  start(i: number): number {
    return this.#words[this.#words.length - 1 - i]!;
  }

  /** Ordinals of the entries in the order of their keys, after `sort`. */
  order(): Uint32Array {
    const end = this.#words.length - this.count;
    return this.#words.subarray(end - this.count, end);
  }

  /** Finds the parts of entry `i`. */
  open(i: number): void {
    const bytes = this.#bytes;
    const at = this.start(i);
    const keyBytes = bytes[at]!;
    const rowBytes = bytes[at + 1]!;
    if (keyBytes < 0x80 && rowBytes < 0x80) {
      this.keyOffset = at + 2;
      this.keyBytes = keyBytes;
      this.rowBytes = rowBytes;
      this.rowOffset = at + 2 + keyBytes;
      return;
    }
    this.keyBytes = readVarint(bytes, at, bytes.length);
    const second = skipVarint(bytes, at);
    this.rowBytes = readVarint(bytes, second, bytes.length);
    this.keyOffset = skipVarint(bytes, second);
    this.rowOffset = this.keyOffset + this.keyBytes;
  }

  /** Writes the first entries in order to a run, with their ordinals if these are wanted. */
  writeTo(run: SpillRun, countMax: number, ordinals: boolean): void {
    this.sort();
    const bytes = this.#bytes;
    const order = this.order();
    const count = Math.min(this.count, countMax);
    // The words that sorting took are the buffer; it may be small, and entries longer than it.
    const end = 4 * (this.#words.length - 2 * this.count);
    const buffer = bytes.subarray(Math.max(end - 12 * this.count, end - WRITE_BYTES), end);
    let used = 0;
    for (let i = 0; i < count; i++) {
      const ordinal = order[i]!;
      this.open(ordinal);
      const from = this.start(ordinal);
      const entryBytes = this.rowOffset + this.rowBytes - from;
      if (used + entryBytes + HEAD_BYTES > buffer.length) {
        run.append(buffer, 0, used);
        used = 0;
      }
      if (ordinals) used = writeVarint(buffer, used, this.base + ordinal);
      if (used + entryBytes <= buffer.length) {
        copyBytes(bytes, from, buffer, used, entryBytes);
        used += entryBytes;
        continue;
      }
      run.append(buffer, 0, used);
      used = 0;
      run.append(bytes, from, from + entryBytes);
    }
    run.append(buffer, 0, used);
  }

  // ---- sorting

  /** Puts the ordinals in the order of keys; equal keys as they came, or the other way. */
  sort(): void {
    const { count } = this;
    const order = this.order();
    if (this.#latestFirst) for (let i = 0; i < count; i++) order[i] = count - 1 - i;
    else for (let i = 0; i < count; i++) order[i] = i;
    this.#sortRange(order, 0, count, this.sharedBytes, 0);
  }

  /** Sorts a range of the order, whose keys are equal before `offset`. */
  #sortRange(order: Uint32Array, from: number, to: number, offset: number, round: number): void {
    if (to - from < 2) return;
    const { count } = this;
    const words = this.#words;
    const high = words.subarray(words.length - 3 * count, words.length - 2 * count);
    const low = words.subarray(words.length - 4 * count, words.length - 3 * count);
    if (to - from < RADIX_MIN || round === ROUNDS_MAX) {
      this.#compareRange(order, from, to);
      return;
    }
    const bytes = this.#bytes;
    for (let i = from; i < to; i++) {
      const ordinal = order[i]!;
      this.open(ordinal);
      const at = this.keyOffset + offset;
      const end = this.keyOffset + this.keyBytes;
      high[ordinal] = keyWord(bytes, at, end);
      low[ordinal] = keyWord(bytes, at + 4, end);
    }
    const other = words.subarray(words.length - 5 * count, words.length - 4 * count);
    radixSort(order, other, from, to, low, high);
    for (let start = from; start < to;) {
      const ordinal = order[start]!;
      let end = start + 1;
      while (end < to) {
        const next = order[end]!;
        if (high[next] !== high[ordinal] || low[next] !== low[ordinal]) break;
        end++;
      }
      if (end - start > 1) this.#sortEqual(order, start, end, offset + PREFIX_BYTES, round);
      start = end;
    }
  }

  /** Sorts entries that are equal in the bytes before `offset`, zeroes behind ends counted. */
  #sortEqual(order: Uint32Array, from: number, to: number, offset: number, round: number): void {
    if (to - from < RADIX_MIN) return this.#compareRange(order, from, to);
    let shortest = Infinity;
    let longest = 0;
    for (let i = from; i < to; i++) {
      this.open(order[i]!);
      if (this.keyBytes < shortest) shortest = this.keyBytes;
      if (this.keyBytes > longest) longest = this.keyBytes;
    }
    if (shortest === longest && longest <= offset) return; // all are equal
    if (shortest < offset) return this.#compareRange(order, from, to);
    this.#sortRange(order, from, to, this.#sharedIn(order, from, to, shortest), round + 1);
  }

  /** Leading bytes that the keys of a range share. */
  #sharedIn(order: Uint32Array, from: number, to: number, most: number): number {
    const bytes = this.#bytes;
    this.open(order[from]!);
    const first = this.keyOffset;
    for (let i = from + 1; i < to; i++) {
      this.open(order[i]!);
      let k = 0;
      while (k < most && bytes[first + k] === bytes[this.keyOffset + k]) k++;
      most = k;
    }
    return most;
  }

  #compareRange(order: Uint32Array, from: number, to: number): void {
    const sign = this.#latestFirst ? -1 : 1;
    const bytes = this.#bytes;
    order.subarray(from, to).sort((a, b) => {
      this.open(a);
      const { keyOffset, keyBytes } = this;
      this.open(b);
      const end = this.keyOffset + this.keyBytes;
      const by = compareBytes(bytes, keyOffset, keyOffset + keyBytes, bytes, this.keyOffset, end);
      return by !== 0 ? by : sign * (a - b);
    });
  }
}

/** Sorts a range of ordinals by two numbers each, stably: eleven bits at a time, lowest first. */
function radixSort(
  order: Uint32Array,
  other: Uint32Array,
  from: number,
  to: number,
  low: Uint32Array,
  high: Uint32Array,
): void {
  for (const each of counts) each.fill(0);
  const [c0, c1, c2, c3, c4, c5] = counts as [
    Uint32Array,
    Uint32Array,
    Uint32Array,
    Uint32Array,
    Uint32Array,
    Uint32Array,
  ];
  for (let i = from; i < to; i++) {
    const ordinal = order[i]!;
    const l = low[ordinal]!;
    const h = high[ordinal]!;
    c0[l & 2047]!++;
    c1[(l >>> 11) & 2047]!++;
    c2[l >>> 22]!++;
    c3[h & 2047]!++;
    c4[(h >>> 11) & 2047]!++;
    c5[h >>> 22]!++;
  }
  let source = order;
  let target = other;
  for (let digit = 0; digit < 6; digit++) {
    const count = counts[digit]!;
    const words = digit < 3 ? low : high;
    const shift = (digit % 3) * 11;
    const some = (words[source[from]!]! >>> shift) & 2047;
    if (count[some] === to - from) continue; // all have the same
    for (let i = 0, sum = from; i < DIGITS; i++) {
      const n = count[i]!;
      count[i] = sum;
      sum += n;
    }
    for (let i = from; i < to; i++) {
      const ordinal = source[i]!;
      target[count[(words[ordinal]! >>> shift) & 2047]!++] = ordinal;
    }
    const swapped = source;
    source = target;
    target = swapped;
  }
  if (source !== order) order.set(source.subarray(from, to), from);
}
