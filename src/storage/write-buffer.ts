/**
 * Where writes of a long transaction wait, until they enter their tree sorted.
 *
 * A tree that gets keys in random order touches another leaf with each; the same keys sorted touch
 * each leaf once, and an empty tree is built bottom-up. So once a hundred writes of a transaction
 * came to a tree out of order, it lets small entries wait here. They are copied into pieces of
 * memory that are charged to the ledger; a hash table finds them again, so that the transaction
 * reads what it wrote. `Tree` applies them before anything else looks at its pages, `WriteBuffers`
 * those of all trees before a savepoint or commit and whenever their share of the budget is used
 * up.
 *
 * Law: a reader of the view `WRITER` never sees pages that lack an entry that waits: it finds the
 * entry here (`has` and `copyOwn` of `Tree`), or all that waits is written first.
 */
import { KEYS_MAX, KeyOrder } from '../base/key-order.ts';
import { copyBytes } from './btree-node.ts';
import { WriteBuffers, type BufferedTree } from './write-buffers.ts';

/** Writes to a tree that go to its pages at once, while their order is watched. */
const DIRECT_WRITES = 128;
/** After so many writes the order is watched again. */
const WATCH_EVERY = 1024;
/** Entries of a tree for each write of the transaction, at most, for writes to share leaves. */
const SHARING = 4;
/** Bytes of a key that are compared with the one before. */
const WATCHED_BYTES = 32;
/** Batches below this are not worth their buffer; after so many a tree is written directly. */
const SMALL_BATCH = 32;
const SMALL_BATCHES_MAX = 8;

const PIECE_SHIFT = 16;
const PIECE_BYTES = 1 << PIECE_SHIFT;
const PIECE_MASK = PIECE_BYTES - 1;
/** Bytes used where there is no piece yet. */
const NO_PIECE = PIECE_BYTES + 1;
/** Place, key length, value length, hash. */
const ENTRY_HEAD_BYTES = 16;
const ENTRIES_FIRST = 256;

export class WriteBuffer {
  /** Entries, those included that a later one of the same key replaced. */
  count = 0;
  /** Batches that were sorted. */
  batches = 0;
  readonly #buffers: WriteBuffers;
  readonly #tree: BufferedTree;
  readonly #isFound: boolean;
  readonly #pieces: Uint8Array[] = [];
  #used = NO_PIECE;
  #places = new Int32Array(0);
  #keyLengths = new Int32Array(0);
  #valueLengths = new Int32Array(0);
  #hashes = new Int32Array(0);
  /** Open addressing: ordinal + 1 of the newest entry of a key; twice as long as the others. */
  #slots = new Int32Array(0);
  #charged = 0;
  /** Bytes that all keys share. */
  #common = 0;
  #epoch = 0;
  #isBuffering = false;
  #writes = 0;
  /** Writes whose key was below the one before. */
  #turns = 0;
  readonly #lastKey = new Uint8Array(WATCHED_BYTES);
  #smallBatches = 0;

  /** `isFound`: entries have keys of their own, and are found and replaced by them. */
  constructor(buffers: WriteBuffers, tree: BufferedTree, isFound: boolean) {
    this.#buffers = buffers;
    this.#tree = tree;
    this.#isFound = isFound;
  }

  /** Counts a write; answers whether it may wait. */
  countWrite(key: Uint8Array, keyLength: number): boolean {
    const { epoch } = this.#buffers;
    if (this.#epoch !== epoch) {
      this.#epoch = epoch;
      this.#isBuffering = false;
      this.#writes = 0;
      this.#turns = 0;
      this.#smallBatches = 0;
    }
    if (this.#isBuffering) return this.#smallBatches < SMALL_BATCHES_MAX;
    this.#watch(key, keyLength);
    return this.#isBuffering;
  }

  /** Counts a write that goes to the pages unseen; answers false if it has to be looked at. */
  skipWrite(): boolean {
    if (this.#epoch !== this.#buffers.epoch || this.#isBuffering || WriteBuffers.isEager)
      return false;
    if (this.#writes % WATCH_EVERY < DIRECT_WRITES) return false;
    this.#writes++;
    return true;
  }

  /** Looks at the order of keys: ascending ones are appended fastest at once. */
  #watch(key: Uint8Array, keyLength: number): void {
    const last = this.#lastKey;
    const length = Math.min(keyLength, WATCHED_BYTES);
    let i = 0;
    while (i < length && last[i] === key[i]) i++;
    if (i < length && key[i]! < last[i]!) this.#turns++;
    for (; i < WATCHED_BYTES; i++) last[i] = i < length ? key[i]! : 0;
    this.#writes++;
    if (this.#writes % WATCH_EVERY === DIRECT_WRITES) {
      this.#isBuffering = this.#turns > DIRECT_WRITES / 8 && this.#pays();
      this.#turns = 0;
    } else if (WriteBuffers.isEager) this.#isBuffering = true;
  }

  /**
   * Whether sorting saves more than it costs: many writes for the size of the tree, so that those
   * of a batch share leaves, or a tree of which leaves have to be read.
   */
  #pays(): boolean {
    return this.#tree.settledCount <= SHARING * this.#writes || this.#buffers.isBeyondCache();
  }

  /**
   * Adds an entry of at most `BUFFERED_BYTES_MAX` bytes, or replaces it; answers false, with
   * nothing changed, if there is no room.
   */
  add(
    key: Uint8Array,
    keyLength: number,
    value: Uint8Array,
    valueOffset: number,
    valueLength: number,
  ): boolean {
    const bytes = keyLength + valueLength;
    if (!this.#makeRoom(bytes)) return false;
    const ordinal = this.count;
    const place = (this.#pieces.length - 1) * PIECE_BYTES + this.#used;
    const piece = this.#pieces[place >>> PIECE_SHIFT]!;
    copyBytes(key, 0, piece, this.#used, keyLength);
    copyBytes(value, valueOffset, piece, this.#used + keyLength, valueLength);
    this.#used += bytes;
    this.#places[ordinal] = place;
    this.#keyLengths[ordinal] = keyLength;
    this.#valueLengths[ordinal] = valueLength;
    this.#shorten(key, keyLength);
    if (this.#isFound) this.#index(key, keyLength, ordinal);
    this.count++;
    return true;
  }

  #makeRoom(bytes: number): boolean {
    if (this.count === this.#places.length && !this.#growTable()) return false;
    if (this.#used + bytes <= PIECE_BYTES) return true;
    if (!this.#charge(PIECE_BYTES)) {
      if (this.count === 0) this.clear(); // the table: nobody would ask for it back
      return false;
    }
    this.#pieces.push(new Uint8Array(PIECE_BYTES));
    this.#used = 0;
    return true;
  }

  #charge(bytes: number): boolean {
    if (!this.#buffers.take(bytes)) return false;
    this.#charged += bytes;
    return true;
  }

  #growTable(): boolean {
    const entries = Math.max(ENTRIES_FIRST, 2 * this.count);
    const added = entries - this.#places.length;
    if (entries > KEYS_MAX || !this.#charge(added * (ENTRY_HEAD_BYTES + 8))) return false;
    this.#places = grown(this.#places, entries);
    this.#keyLengths = grown(this.#keyLengths, entries);
    this.#valueLengths = grown(this.#valueLengths, entries);
    if (!this.#isFound) return true;
    this.#hashes = grown(this.#hashes, entries);
    this.#slots = new Int32Array(2 * entries);
    for (let ordinal = 0; ordinal < this.count; ordinal++) {
      if (this.#keyLengths[ordinal]! >= 0) this.#slots[this.#freeSlot(ordinal)] = ordinal + 1;
    }
    return true;
  }

  #freeSlot(ordinal: number): number {
    const mask = this.#slots.length - 1;
    let slot = this.#hashes[ordinal]! & mask;
    while (this.#slots[slot] !== 0) slot = (slot + 1) & mask;
    return slot;
  }

  /** Keeps `#common` the bytes that every key begins with. */
  #shorten(key: Uint8Array, keyLength: number): void {
    if (this.count === 0) {
      this.#common = keyLength;
      return;
    }
    const first = this.#places[0]! & PIECE_MASK;
    const bytes = this.#pieces[0]!;
    const most = Math.min(this.#common, keyLength);
    let i = 0;
    while (i < most && bytes[first + i] === key[i]) i++;
    this.#common = i;
  }

  /** Enters an entry in the table; one that it replaces is marked by the length -1. */
  #index(key: Uint8Array, keyLength: number, ordinal: number): void {
    const hash = hashOf(key, keyLength);
    this.#hashes[ordinal] = hash;
    const slot = this.#slotOf(key, keyLength, hash);
    const old = this.#slots[slot]! - 1;
    if (old >= 0) this.#keyLengths[old] = -1;
    this.#slots[slot] = ordinal + 1;
  }

  /** The slot of a key, or the free one where it would be. */
  #slotOf(key: Uint8Array, keyLength: number, hash: number): number {
    const mask = this.#slots.length - 1;
    for (let slot = hash & mask; ; slot = (slot + 1) & mask) {
      const ordinal = this.#slots[slot]! - 1;
      if (ordinal < 0) return slot;
      if (this.#hashes[ordinal] !== hash || this.#keyLengths[ordinal] !== keyLength) continue;
      const place = this.#places[ordinal]!;
      const bytes = this.#pieces[place >>> PIECE_SHIFT]!;
      const from = place & PIECE_MASK;
      let i = 0;
      while (i < keyLength && bytes[from + i] === key[i]) i++;
      if (i === keyLength) return slot;
    }
  }

  /** The ordinal of a key's newest entry, -1 if it has none. */
  find(key: Uint8Array, keyLength: number): number {
    if (this.count === 0) return -1;
    return this.#slots[this.#slotOf(key, keyLength, hashOf(key, keyLength))]! - 1;
  }

  // An entry by its ordinal.

  bytesOf(ordinal: number): Uint8Array {
    return this.#pieces[this.#places[ordinal]! >>> PIECE_SHIFT]!;
  }
  keyAt(ordinal: number): number {
    return this.#places[ordinal]! & PIECE_MASK;
  }
  keyLengthOf(ordinal: number): number {
    return this.#keyLengths[ordinal]!;
  }
  valueAt(ordinal: number): number {
    return (this.#places[ordinal]! & PIECE_MASK) + this.#keyLengths[ordinal]!;
  }
  valueLengthOf(ordinal: number): number {
    return this.#valueLengths[ordinal]!;
  }

  /** The newest entries of all keys, in the order of their keys. */
  sorted(): Int32Array {
    this.batches++;
    const ordinals = new Int32Array(this.count);
    let live = 0;
    for (let i = 0; i < this.count; i++) if (this.#keyLengths[i]! >= 0) ordinals[live++] = i;
    const wanted = ordinals.subarray(0, live);
    const order = new KeyOrder(this.#pieces, PIECE_SHIFT, this.#places, this.#keyLengths);
    order.sort(wanted, this.#common);
    if (live < SMALL_BATCH) this.#smallBatches++;
    return wanted;
  }

  /** Forgets all entries and gives their memory back. */
  clear(): void {
    this.#buffers.release(this.#charged);
    this.#charged = 0;
    this.#pieces.length = 0;
    this.#used = NO_PIECE;
    this.#places = this.#keyLengths = this.#valueLengths = new Int32Array(0);
    this.#hashes = this.#slots = new Int32Array(0);
    this.count = 0;
  }
}

function grown(old: Int32Array, length: number): Int32Array<ArrayBuffer> {
  const array = new Int32Array(length);
  array.set(old);
  return array;
}

function hashOf(key: Uint8Array, keyLength: number): number {
  let hash = -2128831035;
  for (let i = 0; i < keyLength; i++) hash = Math.imul(hash ^ key[i]!, 16777619);
  return hash ^ (hash >>> 15);
}
