/**
 * The entries of a node that a bulk build is making, with whole keys, in one array of bytes: a
 * node's prefix is known only when its last entry is.
 */
import { commonBytes, type Entry, type NodeEditor } from './btree-edit.ts';
import {
  cellHeadBytes,
  copyBytes,
  ENTRY_BYTES,
  HEAD_BYTES,
  KIND_INNER,
  KIND_LEAF,
  type Limits,
} from './btree-node.ts';
import { NO_PAGE, type PageId } from './pages.ts';

/** Fields of an entry: where its bytes begin, lengths of its parts, flags, child. */
const STRIDE = 6;
const KEY = 1;
const DESCRIPTOR = 2;
const VALUE = 3;
const FLAGS = 4;
const CHILD = 5;
const IS_LONG_KEY = 1;
const IS_LONG_VALUE = 2;

/** Entries that a node gets whatever the fill says: as many fit any page. */
export const ENTRIES_MIN = 4;
/** What became of a plain entry: it was added, its key is the last, or below it, or no room. */
export const ADDED = 0;
export const IS_LAST = 1;
export const NOT_ABOVE = 2;
export const FULL = 3;

export class LevelArena {
  count = 0;
  /** Whether every entry has a whole key and its value here, nothing in overflow, and no child. */
  isPlain = true;
  firstChild: PageId = NO_PAGE;
  /** Entries that fit a node; the next waits for a follower. 0: all so far fit. */
  fitting = 0;
  /** Prefix that all entries share in a node, and their bytes with it. */
  sharedPrefix = 0;
  sharedBytes = 0;
  /** The same with one entry more: see `measureWith`. */
  measuredPrefix = 0;
  measuredBytes = 0;
  readonly #kind: number;
  readonly #limits: Limits;
  #bytes: Uint8Array;
  #used = 0;
  #fields = new Uint32Array(STRIDE * 64);
  #common = 0;
  #longest = 0;

  constructor(kind: number, limits: Limits) {
    this.#kind = kind;
    this.#limits = limits;
    this.#bytes = new Uint8Array(2 * limits.usableBytes);
  }

  /**
   * Adds an entry with whole key and value after all others of a leaf, which are all plain, if it
   * is above them and a node takes it: at most `entriesMax` entries and, beyond a few, `fillBytes`.
   * Answers ADDED, or why nothing changed. The measured form.
   */
  tryAddPlain(
    key: Uint8Array,
    keyOffset: number,
    keyBytes: number,
    value: Uint8Array,
    valueOffset: number,
    valueBytes: number,
    entriesMax: number,
    fillBytes: number,
  ): number {
    const { count } = this;
    const fields = this.#fields;
    let common = keyBytes;
    if (count > 0) {
      const bytes = this.#bytes;
      const field = STRIDE * (count - 1);
      const last = fields[field]!;
      const lastBytes = fields[field + KEY]!;
      const most = keyBytes < lastBytes ? keyBytes : lastBytes;
      let i = 0;
      while (i < most && bytes[last + i] === key[keyOffset + i]) i++;
      if (i < most) {
        if (key[keyOffset + i]! < bytes[last + i]!) return NOT_ABOVE;
      } else if (keyBytes <= lastBytes) return keyBytes === lastBytes ? IS_LAST : NOT_ABOVE;
      common = i < this.#common ? i : this.#common; // keys are in order: none shares less
    }
    const longest = keyBytes > this.#longest ? keyBytes : this.#longest;
    const prefix = this.#capped(common, longest);
    const tail = keyBytes - prefix - HEAD_BYTES;
    let total = prefix === this.sharedPrefix ? this.sharedBytes : this.bytesOf(0, count, prefix);
    total += ENTRY_BYTES + 2 + (tail > 0 ? tail : 0) + valueBytes;
    if (count > 0) {
      if (count >= entriesMax || !this.#limits.fits(KIND_LEAF, prefix, total, false)) return FULL;
      if (count >= ENTRIES_MIN && total + prefix + 40 > fillBytes) return FULL;
    }
    const at = this.#reserve(keyBytes + valueBytes);
    copyBytes(key, keyOffset, this.#bytes, at, keyBytes);
    copyBytes(value, valueOffset, this.#bytes, at + keyBytes, valueBytes);
    const field = STRIDE * this.count++;
    const grown = this.#fields;
    grown[field] = at;
    grown[field + KEY] = keyBytes;
    grown[field + DESCRIPTOR] = 0;
    grown[field + VALUE] = valueBytes;
    grown[field + FLAGS] = 0;
    grown[field + CHILD] = NO_PAGE;
    this.#common = common;
    this.#longest = longest;
    this.sharedPrefix = prefix;
    this.sharedBytes = total;
    return ADDED;
  }

  /** Puts all entries, which are plain, into a leaf that was begun. */
  fillLeaf(target: NodeEditor): void {
    target.fillLeaf(this.#bytes, this.#fields, STRIDE, VALUE, this.count);
  }

  /** Copies the key of the last entry; answers its bytes. */
  copyLastKey(target: Uint8Array): number {
    const field = STRIDE * (this.count - 1);
    const keyBytes = this.#fields[field + KEY]!;
    if (keyBytes <= target.length)
      copyBytes(this.#bytes, this.#fields[field]!, target, 0, keyBytes);
    return keyBytes;
  }

  /** Adds an entry after all others. */
  add(entry: Entry): void {
    this.isPlain = false;
    this.measureWith(entry);
    const { keyBytes, keyDescriptorBytes, valueBytes } = entry;
    const at = this.#reserve(keyBytes + keyDescriptorBytes + valueBytes);
    const bytes = this.#bytes;
    copyBytes(entry.key, 0, bytes, at, keyBytes);
    copyBytes(entry.keyDescriptor, 0, bytes, at + keyBytes, keyDescriptorBytes);
    const valueAt = at + keyBytes + keyDescriptorBytes;
    copyBytes(entry.value, entry.valueOffset, bytes, valueAt, valueBytes);
    const field = STRIDE * this.count++;
    const fields = this.#fields;
    fields[field] = at;
    fields[field + KEY] = keyBytes;
    fields[field + DESCRIPTOR] = keyDescriptorBytes;
    fields[field + VALUE] = valueBytes;
    fields[field + FLAGS] =
      (entry.isLongKey ? IS_LONG_KEY : 0) | (entry.isLongValue ? IS_LONG_VALUE : 0);
    fields[field + CHILD] = entry.child;
    this.#common = this.count === 1 ? keyBytes : Math.min(this.#common, this.#commonWith(entry));
    this.#longest = Math.max(this.#longest, keyBytes);
    this.sharedPrefix = this.measuredPrefix;
    this.sharedBytes = this.measuredBytes;
  }

  setChild(i: number, child: PageId): void {
    this.#fields[STRIDE * i + CHILD] = child;
  }

  /** Sets an entry to entry `i`; its value stays in the arena. */
  load(i: number, target: Entry): Entry {
    const field = STRIDE * i;
    const fields = this.#fields;
    const at = fields[field]!;
    const keyBytes = fields[field + KEY]!;
    const descriptor = fields[field + DESCRIPTOR]!;
    const key = target.ownKey(this.#limits.usableBytes + 1);
    copyBytes(this.#bytes, at, key, 0, keyBytes);
    target.setKey(key, keyBytes);
    target.isLongKey = (fields[field + FLAGS]! & IS_LONG_KEY) !== 0;
    target.keyDescriptorBytes = descriptor;
    copyBytes(this.#bytes, at + keyBytes, target.keyDescriptor, 0, descriptor);
    const isLongValue = (fields[field + FLAGS]! & IS_LONG_VALUE) !== 0;
    const valueAt = at + keyBytes + descriptor;
    target.setValue(this.#bytes, valueAt, fields[field + VALUE]!, isLongValue);
    target.child = fields[field + CHILD]! as PageId;
    return target;
  }

  /** Forgets the first `count` entries. */
  drop(count: number): void {
    const fields = this.#fields;
    const left = this.count - count;
    const from = left > 0 ? fields[STRIDE * count]! : this.#used;
    this.#bytes.copyWithin(0, from, this.#used);
    this.#used -= from;
    fields.copyWithin(0, STRIDE * count, STRIDE * this.count);
    for (let i = 0; i < left; i++) fields[STRIDE * i]! -= from;
    this.count = left;
    this.fitting = 0;
    if (left === 0) this.isPlain = true;
    this.#remeasure();
  }

  /** The prefix for a node of the entries `from` ≤ i < `to`. */
  prefixOf(from: number, to: number): number {
    if (from >= to) return 0;
    const fields = this.#fields;
    let longest = 0;
    for (let i = from; i < to; i++) longest = Math.max(longest, fields[STRIDE * i + KEY]!);
    return this.#capped(this.#commonOf(from, to - 1), longest);
  }

  /** Bytes of the entries `from` ≤ i < `to` in a node of that prefix length. */
  bytesOf(from: number, to: number, prefix: number): number {
    const fields = this.#fields;
    let bytes = 0;
    for (let i = from; i < to; i++) {
      const field = STRIDE * i;
      const key = fields[field + KEY]!;
      bytes += this.#cell(key, fields[field + DESCRIPTOR]!, fields[field + VALUE]!, prefix);
    }
    return bytes;
  }

  /** Finds prefix and bytes of a node of all entries and one more. */
  measureWith(entry: Entry): void {
    const { keyBytes, keyDescriptorBytes, valueBytes } = entry;
    const common = this.count === 0 ? keyBytes : Math.min(this.#common, this.#commonWith(entry));
    const prefix = this.#capped(common, Math.max(this.#longest, keyBytes));
    const bytes =
      prefix === this.sharedPrefix ? this.sharedBytes : this.bytesOf(0, this.count, prefix);
    this.measuredPrefix = prefix;
    this.measuredBytes = bytes + this.#cell(keyBytes, keyDescriptorBytes, valueBytes, prefix);
  }

  #cell(keyBytes: number, descriptor: number, valueBytes: number, prefix: number): number {
    const tail = keyBytes - prefix - HEAD_BYTES;
    let bytes = cellHeadBytes(this.#kind) + (tail > 0 ? tail : 0) + descriptor;
    if (this.#kind !== KIND_INNER) bytes += valueBytes;
    return ENTRY_BYTES + (this.#kind === KIND_LEAF ? bytes : (bytes + 3) & ~3);
  }

  #capped(common: number, longest: number): number {
    return Math.max(0, Math.min(common, longest - HEAD_BYTES, this.#limits.prefixBytesMax));
  }

  #commonWith(entry: Entry): number {
    const first = this.#fields[0]!;
    const most = Math.min(this.#fields[KEY]!, entry.keyBytes);
    let i = 0;
    while (i < most && this.#bytes[first + i] === entry.key[i]) i++;
    return i;
  }

  #commonOf(i: number, j: number): number {
    const fields = this.#fields;
    const a = fields[STRIDE * i]!;
    const b = fields[STRIDE * j]!;
    const first = this.#bytes.subarray(a, a + fields[STRIDE * i + KEY]!);
    const last = this.#bytes.subarray(b, b + fields[STRIDE * j + KEY]!);
    return commonBytes(first, first.length, last, last.length);
  }

  #remeasure(): void {
    const { count } = this;
    this.#longest = 0;
    for (let i = 0; i < count; i++) {
      this.#longest = Math.max(this.#longest, this.#fields[STRIDE * i + KEY]!);
    }
    this.#common = count === 0 ? 0 : this.#commonOf(0, count - 1);
    this.sharedPrefix = this.#capped(this.#common, this.#longest);
    this.sharedBytes = this.bytesOf(0, count, this.sharedPrefix);
  }

  #reserve(bytes: number): number {
    const at = this.#used;
    this.#used += bytes;
    if (this.#used > this.#bytes.length) {
      const larger = new Uint8Array(2 * this.#used);
      larger.set(this.#bytes);
      this.#bytes = larger;
    }
    if (STRIDE * (this.count + 1) > this.#fields.length) {
      const larger = new Uint32Array(2 * this.#fields.length);
      larger.set(this.#fields);
      this.#fields = larger;
    }
    return at;
  }
}
