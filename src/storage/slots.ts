/**
 * Which slots of the file may be written (law S1), and finding runs of them.
 *
 * `busy` has a bit for every slot that anything names: the last complete checkpoint, a running
 * one, a frame since, a version, a spilled page. A slot has one name unless `hold` added more;
 * `drop` takes one away, and the slot is free with the last. On disk a slot is used or free by the
 * checkpoint's bitmap alone; this is memory and ends with the process (STORAGE rules 3, 12, 18).
 *
 * The bits are loaded leaf by leaf when they are needed. Each group of 1,024 slots has its count
 * of free slots and a bound on its longest free run, so that a search looks at few bits.
 */
import { type Ledger } from '../base/ledger.ts';
import { failure } from '../errors.ts';
import { type Radix } from './radix.ts';
import { type Slab } from './slab.ts';

const GROUP_SLOTS = 1024;
const GROUP_WORDS = GROUP_SLOTS / 32;
/** Lengths of run that are looked for, longest first. */
const RUN_LENGTHS = [16, 4, 1] as const;
/** Searches for a length that are left out after one that found none. */
const SEARCHES_SKIPPED = 16;
/** Groups that one search for a run longer than one looks at. */
const GROUPS_SEARCHED = 64;
/** Slot numbers stay below 2^31, so that they are small integers everywhere. */
export const SLOTS_MAX = 2 ** 31 - 1;

interface Leaf {
  readonly bits: Int32Array;
  readonly free: Uint16Array;
  /** No run in the group is longer. */
  readonly runMax: Uint16Array;
}

export class Slots {
  /** Slots of the file. */
  count: number;
  /** Slots that nothing names. */
  freeCount = 0;
  /** Length of the run that `takeRun` answered. */
  taken = 0;
  /** While a file is compacted: slots below this are looked for first, from the lowest on. */
  preferBelow = 0;
  /** The disk is full: the file may not grow, and any slot will do. */
  cannotGrow = false;
  readonly #leaves: (Leaf | undefined)[] = [];
  readonly #held = new Map<number, number>();
  readonly #cursor = new Map<number, number>();
  readonly #skip = new Map<number, number>();
  #lowGroup = 0;
  readonly #bitmap: Radix;
  readonly #slab: Slab;
  readonly #ledger: Ledger;
  readonly #leafSlots: number;
  readonly #leafBytes: number;

  constructor(bitmap: Radix, slab: Slab, count: number, ledger: Ledger) {
    this.#bitmap = bitmap;
    this.#slab = slab;
    this.#ledger = ledger;
    this.count = count;
    this.#leafSlots = slab.pageBytes * 8;
    this.#leafBytes = slab.pageBytes + (this.#leafSlots / GROUP_SLOTS) * 4 + 256;
    this.freeCount = count - bitmap.root.usedCount;
  }

  #leaf(ordinal: number): Leaf {
    return this.#leaves[ordinal] ?? this.#loadLeaf(ordinal);
  }

  #loadLeaf(ordinal: number): Leaf {
    this.#ledger.charge('tables', this.#leafBytes);
    try {
      return this.#readLeaf(ordinal);
    } catch (cause) {
      this.#ledger.release('tables', this.#leafBytes);
      throw cause;
    }
  }

  /** Reads a leaf that is charged for. */
  #readLeaf(ordinal: number): Leaf {
    const leaf: Leaf = {
      bits: new Int32Array(this.#leafSlots / 32),
      free: new Uint16Array(this.#leafSlots / GROUP_SLOTS),
      runMax: new Uint16Array(this.#leafSlots / GROUP_SLOTS).fill(GROUP_SLOTS),
    };
    const buffer = this.#bitmap.node(0, ordinal);
    if (buffer !== 0) {
      const from = this.#slab.offset(buffer) >> 2;
      const { pageBytes } = this.#slab;
      leaf.bits.set(this.#slab.wordsOf(buffer).subarray(from, from + (pageBytes >> 2)));
    }
    const first = ordinal * this.#leafSlots;
    for (let g = 0; g < leaf.free.length; g++) {
      const exist = Math.max(0, Math.min(GROUP_SLOTS, this.count - first - g * GROUP_SLOTS));
      leaf.free[g] = exist - countBits(leaf.bits, g * GROUP_WORDS, GROUP_WORDS);
    }
    const raced = this.#leaves[ordinal]; // loading the node may have evicted, and so taken slots
    if (raced !== undefined) {
      this.#ledger.release('tables', this.#leafBytes);
      return raced;
    }
    this.#leaves[ordinal] = leaf;
    return leaf;
  }

  isBusy(slot: number): boolean {
    const at = slot % this.#leafSlots;
    return (this.#leaf((slot / this.#leafSlots) | 0).bits[at >> 5]! & (1 << (at & 31))) !== 0;
  }

  /** Loads what is known of a slot, so that dropping it later cannot fail. */
  load(slot: number): void {
    this.#leaf((slot / this.#leafSlots) | 0);
  }

  /** Names a slot that recovery found in the log; answers false if it was named already. */
  claim(slot: number): boolean {
    if (slot >= this.count) this.#extend(slot + 1 - this.count);
    if (this.isBusy(slot)) return false;
    this.#mark(slot);
    return true;
  }

  #mark(slot: number): void {
    const at = slot % this.#leafSlots;
    const leaf = this.#leaf((slot / this.#leafSlots) | 0);
    leaf.bits[at >> 5] = leaf.bits[at >> 5]! | (1 << (at & 31));
    const group = (at / GROUP_SLOTS) | 0;
    leaf.free[group] = leaf.free[group]! - 1;
    this.freeCount--;
  }

  /** Adds a name to a slot that has one. The version that makes it necessary is charged for it. */
  hold(slot: number): void {
    this.#held.set(slot, (this.#held.get(slot) ?? 0) + 1);
  }

  /** Takes a name from a slot; it is free with the last. */
  drop(slot: number): void {
    const more = this.#held.get(slot);
    if (more !== undefined) {
      if (more > 1) this.#held.set(slot, more - 1);
      else this.#held.delete(slot);
      return;
    }
    const at = slot % this.#leafSlots;
    const leaf = this.#leaf((slot / this.#leafSlots) | 0);
    if ((leaf.bits[at >> 5]! & (1 << (at & 31))) === 0) {
      throw failure('corrupt.page', `slot ${slot} is given up by two owners`, { detail: { slot } });
    }
    leaf.bits[at >> 5] = leaf.bits[at >> 5]! & ~(1 << (at & 31));
    const group = (at / GROUP_SLOTS) | 0;
    leaf.free[group] = leaf.free[group]! + 1;
    leaf.runMax[group] = GROUP_SLOTS;
    this.freeCount++;
  }

  /**
   * Takes a run of at most `max` neighbouring slots; answers its first and sets `taken`.
   * Runs of 16, then 4, then any; the file grows only when less than a quarter of it is free.
   *
   * @throws {LimitError} limit.log when the file has as many slots as the format allows.
   */
  takeRun(max: number): number {
    if (this.preferBelow > 0) {
      const low = this.#findLowest();
      if (low !== 0) return this.#takeFrom(low, 1, max);
    }
    const scarce = this.freeCount * 4 < this.count;
    for (const length of RUN_LENGTHS) {
      if (length > max) continue;
      if (length === 1 && max > 1 && scarce && !this.cannotGrow) continue;
      const first = this.#find(length);
      if (first !== 0) return this.#takeFrom(first, length, max);
    }
    return this.#takeFrom(this.#extend(max), max, max);
  }

  /** Takes one slot. */
  take(): number {
    return this.takeRun(1);
  }

  #takeFrom(first: number, length: number, max: number): number {
    let n = length;
    for (let i = 0; i < length; i++) this.#mark(first + i);
    while (n < max && first + n < this.count && !this.isBusy(first + n)) this.#mark(first + n++);
    this.taken = n;
    return first;
  }

  #extend(n: number): number {
    const first = this.count;
    if (first + n > SLOTS_MAX) {
      throw failure('limit.log', `the file has ${first} pages; no more are possible`);
    }
    for (let slot = first; slot < first + n; slot++) {
      const leaf = this.#leaf((slot / this.#leafSlots) | 0);
      const group = ((slot % this.#leafSlots) / GROUP_SLOTS) | 0;
      leaf.free[group] = leaf.free[group]! + 1;
    }
    this.count += n;
    this.freeCount += n;
    return first;
  }

  /** First slot of a free run of a length, 0 if a bounded search found none. */
  #find(length: number): number {
    const skip = this.#skip.get(length) ?? 0;
    if (this.freeCount < length) return 0;
    if (skip > 0 && length > 1) {
      this.#skip.set(length, skip - 1);
      return 0;
    }
    const groups = Math.ceil(this.count / GROUP_SLOTS);
    const looks = length > 1 ? Math.min(groups, GROUPS_SEARCHED) : groups;
    let group = this.#cursor.get(length) ?? 0;
    for (let i = 0; i < looks; i++) {
      if (group >= groups) group = 0;
      const found = this.#findIn(group, length);
      if (found !== 0) {
        this.#cursor.set(length, group);
        return found;
      }
      group++;
    }
    this.#cursor.set(length, group);
    this.#skip.set(length, SEARCHES_SKIPPED);
    return 0;
  }

  /** The lowest free slot below `preferBelow`, 0 if there is none. */
  #findLowest(): number {
    const groups = Math.ceil(this.preferBelow / GROUP_SLOTS);
    for (let group = this.#lowGroup; group < groups; group++) {
      const found = this.#findIn(group, 1);
      if (found !== 0 && found < this.preferBelow) return found;
      this.#lowGroup = group + 1;
    }
    return 0;
  }

  /** Starts looking for low slots again, below a new bound; 0 ends it. */
  prefer(below: number): void {
    this.preferBelow = below;
    this.#lowGroup = 0;
  }

  #findIn(group: number, length: number): number {
    const perLeaf = this.#leafSlots / GROUP_SLOTS;
    const leaf = this.#leaf((group / perLeaf) | 0);
    const g = group % perLeaf;
    if (leaf.free[g]! < length || leaf.runMax[g]! < length) return 0;
    const end = Math.min(GROUP_SLOTS, this.count - group * GROUP_SLOTS);
    let run = 0;
    let longest = 0;
    for (let i = 0; i < end; i++) {
      const word = leaf.bits[g * GROUP_WORDS + (i >> 5)]!;
      if (word === -1) {
        run = 0;
        i |= 31;
      } else if ((word & (1 << (i & 31))) !== 0) {
        run = 0;
      } else if (++run === length) {
        return group * GROUP_SLOTS + i + 1 - length;
      } else if (run > longest) {
        longest = run;
      }
    }
    leaf.runMax[g] = longest;
    return 0;
  }

  /** Lowest slot number from which on nothing is named, for cutting the file. */
  usedEnd(): number {
    let end = this.count;
    while (end > 0 && !this.isBusy(end - 1)) end--;
    return end;
  }

  /** Takes note of slots at the end that the file has. */
  growTo(count: number): void {
    if (count > this.count) this.#extend(count - this.count);
  }

  /** The disk is full and the file has `there` slots: those beyond that are free do not exist. */
  noteFull(there: number): void {
    this.cannotGrow = true;
    if (there > this.count) this.growTo(there);
    else this.cut(Math.max(there, this.usedEnd()));
  }

  /** Forgets the free slots at the end. */
  cut(count: number): void {
    for (let slot = count; slot < this.count; slot++) {
      const leaf = this.#leaf((slot / this.#leafSlots) | 0);
      const group = ((slot % this.#leafSlots) / GROUP_SLOTS) | 0;
      leaf.free[group] = leaf.free[group]! - 1;
    }
    this.freeCount -= this.count - count;
    this.count = count;
  }

  dispose(): void {
    for (const leaf of this.#leaves) {
      if (leaf !== undefined) this.#ledger.release('tables', this.#leafBytes);
    }
    this.#leaves.length = 0;
    this.#held.clear();
  }
}

/** Bits set in `count` words from `from` on. */
export function countBits(words: Int32Array, from: number, count: number): number {
  let sum = 0;
  for (let i = from; i < from + count; i++) {
    let x = words[i]!;
    x -= (x >>> 1) & 0x55555555;
    x = (x & 0x33333333) + ((x >>> 2) & 0x33333333);
    sum += Math.imul((x + (x >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
  }
  return sum;
}
