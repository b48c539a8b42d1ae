/**
 * Puts byte-string keys in order without moving them.
 *
 * Keys lie in pieces of one size; a place counts bytes over all pieces, and no key crosses from
 * one piece to the next. Sorting is by four bytes at a time: word and ordinal make one double, and
 * the typed array's own sort, which needs no function compiled, orders them. Keys that agree are
 * then sorted by their next four bytes. Ordinals of equal keys stay as they came.
 */
import { compareBytes } from './bytes.ts';

/** Ordinals share a double with 32 bits of key. */
export const KEYS_MAX = 2 ** 20;
const FEW = 12;

export class KeyOrder {
  readonly #pieces: readonly Uint8Array[];
  readonly #shift: number;
  readonly #mask: number;
  readonly #places: Int32Array;
  readonly #lengths: Int32Array;
  #words = new Float64Array(0);

  /** Keys: `lengths[i]` bytes at `places[i]`; pieces of 2^`shift` bytes. */
  constructor(
    pieces: readonly Uint8Array[],
    shift: number,
    places: Int32Array,
    lengths: Int32Array,
  ) {
    this.#pieces = pieces;
    this.#shift = shift;
    this.#mask = (1 << shift) - 1;
    this.#places = places;
    this.#lengths = lengths;
  }

  /** Sorts ordinals by their keys, which share their first `common` bytes. */
  sort(ordinals: Int32Array, common: number): void {
    if (this.#isAscending(ordinals, common)) return;
    this.#words = new Float64Array(ordinals.length);
    this.#sortRange(ordinals, 0, ordinals.length, common);
    this.#words = new Float64Array(0);
  }

  #isAscending(ordinals: Int32Array, depth: number): boolean {
    for (let i = 1; i < ordinals.length; i++) {
      if (this.#compare(ordinals[i - 1]!, ordinals[i]!, depth) > 0) return false;
    }
    return true;
  }

  #sortRange(ordinals: Int32Array, from: number, to: number, depth: number): void {
    if (to - from <= FEW) {
      this.#insertionSort(ordinals, from, to, depth);
      return;
    }
    const words = this.#words;
    for (let i = from; i < to; i++) {
      const ordinal = ordinals[i]!;
      words[i] = this.#wordAt(ordinal, depth) * KEYS_MAX + ordinal;
    }
    words.subarray(from, to).sort();
    let start = from;
    let word = -1;
    for (let i = from; i < to; i++) {
      const next = Math.floor(words[i]! / KEYS_MAX);
      ordinals[i] = words[i]! - next * KEYS_MAX;
      if (next === word) continue;
      if (i - start > 1) this.#sortEqual(ordinals, start, i, depth);
      start = i;
      word = next;
    }
    if (to - start > 1) this.#sortEqual(ordinals, start, to, depth);
  }

  /** Sorts keys that agree in four bytes; keys that end there were filled up with zeros. */
  #sortEqual(ordinals: Int32Array, from: number, to: number, depth: number): void {
    if (to - from <= FEW) this.#insertionSort(ordinals, from, to, depth);
    else if (this.#areLong(ordinals, from, to, depth + 4))
      this.#sortRange(ordinals, from, to, depth + 4);
    else ordinals.subarray(from, to).sort((a, b) => this.#compare(a, b, depth) || a - b);
  }

  #areLong(ordinals: Int32Array, from: number, to: number, length: number): boolean {
    for (let i = from; i < to; i++) if (this.#lengths[ordinals[i]!]! < length) return false;
    return true;
  }

  #insertionSort(ordinals: Int32Array, from: number, to: number, depth: number): void {
    for (let i = from + 1; i < to; i++) {
      const ordinal = ordinals[i]!;
      let at = i;
      while (at > from && this.#compare(ordinals[at - 1]!, ordinal, depth) > 0) {
        ordinals[at] = ordinals[at - 1]!;
        at--;
      }
      ordinals[at] = ordinal;
    }
  }

  #wordAt(ordinal: number, depth: number): number {
    const place = this.#places[ordinal]!;
    const bytes = this.#pieces[place >>> this.#shift]!;
    const at = (place & this.#mask) + depth;
    const left = this.#lengths[ordinal]! - depth;
    if (left >= 4) {
      return (
        ((bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!) >>> 0
      );
    }
    let word = 0;
    for (let i = 0; i < 4; i++) word = (word << 8) | (i < left ? bytes[at + i]! : 0);
    return word >>> 0;
  }

  #compare(a: number, b: number, depth: number): number {
    const placeA = this.#places[a]!;
    const placeB = this.#places[b]!;
    const atA = placeA & this.#mask;
    const atB = placeB & this.#mask;
    return compareBytes(
      this.#pieces[placeA >>> this.#shift]!,
      atA + depth,
      atA + this.#lengths[a]!,
      this.#pieces[placeB >>> this.#shift]!,
      atB + depth,
      atB + this.#lengths[b]!,
    );
  }
}
