/**
 * Where writes of a long transaction wait, until they enter their tree sorted.
 *
 * A tree that gets keys in random order touches another leaf with each; the same keys sorted touch
 * each leaf once, and an empty tree is built bottom-up. So once a hundred writes of a transaction
 * came to a tree out of order, it lets small entries wait here. They are copied into pieces of
 * memory that are charged to the ledger; a hash table, made when the transaction first asks for a
 * key, finds them again, so that it reads what it wrote. When the share of the budget that all
 * buffers have is used up, they become sorted runs of the spill file (write-runs.ts) or enter
 * their trees. `Tree` applies everything before anything else looks at its pages, `WriteBuffers`
 * that of all trees before a savepoint or commit.
 *
 * Law: a reader of the view `WRITER` never sees pages that lack an entry that waits: it finds the
 * entry here (`has` and `copyOwn` of `Tree`), or all that waits is written first.
 */
import { compareBytes } from '../base/bytes.ts';
import { KEYS_MAX, KeyOrder } from '../base/key-order.ts';
import { copyBytes } from './btree-node.ts';
import { WriteBuffers, type BufferedTree } from './write-buffers.ts';
import { WriteRuns } from './write-runs.ts';

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
/** Fewer runs are not worth writing them; after so many times batches enter the tree again. */
const FEW_RUNS = 4;
const FEW_RUNS_TIMES_MAX = 2;

const PIECE_SHIFT = 16;
const PIECE_BYTES = 1 << PIECE_SHIFT;
const PIECE_MASK = PIECE_BYTES - 1;
/** Bytes used where there is no piece yet. */
const NO_PIECE = PIECE_BYTES + 1;
/** Place, key length, value length; hash and two slots of the table. */
const ENTRY_HEAD_BYTES = 12;
const INDEX_BYTES = 12;
const ENTRIES_FIRST = 256;
/** Entries of a buffer where every write waits: for tests. */
const ENTRIES_EAGER = 40;

/** Answer of `find`: nobody knows without writing what waits. */
export const UNKNOWN = -2;

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
  #isIndexed = false;
  #runs: WriteRuns | undefined;
  #fewRunsTimes = 0;

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
      this.#fewRunsTimes = 0;
      this.#isIndexed = false;
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
    const last = this.#pieces.length - 1;
    const place = last * PIECE_BYTES + this.#used;
    const piece = this.#pieces[last]!;
    copyBytes(key, 0, piece, this.#used, keyLength);
    copyBytes(value, valueOffset, piece, this.#used + keyLength, valueLength);
    this.#used += bytes;
    this.#places[ordinal] = place;
    this.#keyLengths[ordinal] = keyLength;
    this.#valueLengths[ordinal] = valueLength;
    this.#shorten(key, keyLength);
    if (this.#isIndexed) this.#index(key, keyLength, ordinal);
    this.count++;
    return true;
  }

  #makeRoom(bytes: number): boolean {
    if (WriteBuffers.isEager && this.count >= ENTRIES_EAGER) return false;
    if (this.count === this.#places.length && !this.#growTable()) return false;
    if (this.#used + bytes <= PIECE_BYTES) return true;
    if (!this.#charge(PIECE_BYTES)) {
      if (this.count === 0) this.#giveBack(); // the table: nobody would ask for it back
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
    const bytesEach = this.#isIndexed ? ENTRY_HEAD_BYTES + INDEX_BYTES : ENTRY_HEAD_BYTES;
    if (entries > KEYS_MAX || !this.#charge(added * bytesEach)) return false;
    this.#places = grown(this.#places, entries);
    this.#keyLengths = grown(this.#keyLengths, entries);
    this.#valueLengths = grown(this.#valueLengths, entries);
    if (!this.#isIndexed) return true;
    this.#hashes = grown(this.#hashes, entries);
    this.#slots = new Int32Array(2 * entries);
    for (let ordinal = 0; ordinal < this.count; ordinal++) {
      if (this.#keyLengths[ordinal]! >= 0) this.#slots[this.#freeSlot(ordinal)] = ordinal + 1;
    }
    return true;
  }

  /** Makes the table by which keys are found; answers false if there is no room for it. */
  #makeIndex(): boolean {
    const entries = this.#places.length;
    if (!this.#charge(entries * INDEX_BYTES)) return false;
    this.#isIndexed = true;
    this.#hashes = new Int32Array(entries);
    this.#slots = new Int32Array(2 * entries);
    for (let ordinal = 0; ordinal < this.count; ordinal++) {
      const from = this.keyAt(ordinal);
      const length = this.#keyLengths[ordinal]!;
      this.#index(this.bytesOf(ordinal).subarray(from, from + length), length, ordinal);
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

  /** Whether nothing waits. */
  get isEmpty(): boolean {
    return this.count === 0 && this.runCount === 0;
  }

  /** Batches that wait in the spill file. */
  get runCount(): number {
    return this.#runs?.count ?? 0;
  }

  /** The ordinal of a key's newest entry, -1 if none waits, or UNKNOWN. */
  find(key: Uint8Array, keyLength: number): number {
    if (this.count > 0) {
      if (!this.#isIndexed && !(this.#isFound && this.#makeIndex())) return UNKNOWN;
      const slot = this.#slots[this.#slotOf(key, keyLength, hashOf(key, keyLength))]!;
      if (slot > 0) return slot - 1;
    }
    return this.runCount > 0 ? UNKNOWN : -1;
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
    return this.#isFound && !this.#isIndexed ? this.#newestOf(wanted) : wanted;
  }

  /** Leaves out, of sorted entries, those with the key of the next: a later write replaced them. */
  #newestOf(ordinals: Int32Array): Int32Array {
    let kept = 0;
    for (let i = 0; i < ordinals.length; i++) {
      if (i + 1 < ordinals.length && this.#isSameKey(ordinals[i]!, ordinals[i + 1]!)) continue;
      ordinals[kept++] = ordinals[i]!;
    }
    return ordinals.subarray(0, kept);
  }

  #isSameKey(a: number, b: number): boolean {
    const length = this.#keyLengths[a]!;
    if (this.#keyLengths[b] !== length) return false;
    const atA = this.keyAt(a);
    const atB = this.keyAt(b);
    const bytes = this.bytesOf(a);
    return compareBytes(bytes, atA, atA + length, this.bytesOf(b), atB, atB + length) === 0;
  }

  /** Whether a full buffer is better kept as a run than written to the tree. */
  get maySpill(): boolean {
    const isSmall = this.count < SMALL_BATCH && this.runCount === 0;
    if (!this.#isFound || this.count === 0 || isSmall) return false;
    return this.#fewRunsTimes < FEW_RUNS_TIMES_MAX && this.runCount < this.#buffers.runsMax;
  }

  /** Writes all entries to a run, and gives their memory back. */
  spill(): void {
    this.#runs ??= new WriteRuns(this.#buffers.work);
    this.#runs.add(this, this.sorted(), this.#common);
    this.#giveBack();
  }

  /** Hands the runs over to who writes them to the tree. */
  takeRuns(): WriteRuns {
    const runs = this.#runs!;
    if (runs.count < FEW_RUNS) this.#fewRunsTimes++;
    this.#runs = undefined;
    return runs;
  }

  /** Forgets all entries and gives their memory back. */
  clear(): void {
    this.#runs?.close();
    this.#runs = undefined;
    this.#giveBack();
  }

  #giveBack(): void {
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
