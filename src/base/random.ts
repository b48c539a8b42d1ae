/**
 * Seeded random numbers: the same seed gives the same numbers on every machine, so that tests,
 * simulations and trials repeat. Not for secrets.
 *
 * Source: Chris Doty-Humphrey, PractRand, "sfc32" (128 bits of state, period at least 2^32);
 * the seed is spread over the state by SplitMix32.
 */
import { assert } from './assert.ts';

export class Random {
  #a: number;
  #b: number;
  #c: number;
  #counter: number;

  /** `seed`: any safe integer; different seeds give unrelated sequences. */
  constructor(seed: number) {
    assert(Number.isSafeInteger(seed), 'seed is a safe integer');
    this.#a = spread(seed | 0);
    this.#b = spread(this.#a ^ Math.floor(seed / 2 ** 32));
    this.#c = spread(this.#b + 1);
    this.#counter = 1;
    for (let i = 0; i < 12; i++) this.word();
  }

  /** 0 ≤ whole number < 2^32. */
  word(): number {
    const sum = (this.#a + this.#b + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + sum;
    return sum >>> 0;
  }

  /** 0 ≤ x < 1, with 53 random bits. */
  fraction(): number {
    return ((this.word() >>> 5) * 2 ** 26 + (this.word() >>> 6)) / 2 ** 53;
  }

  /** 0 ≤ whole number < `count`. */
  below(count: number): number {
    return Math.floor(this.fraction() * count);
  }

  /** `low` ≤ whole number ≤ `high`. */
  between(low: number, high: number): number {
    return low + this.below(high - low + 1);
  }

  /** True with the given probability. */
  chance(probability: number): boolean {
    return this.fraction() < probability;
  }

  /** One of the items; there must be one. */
  pick<T>(items: readonly T[]): T {
    assert(items.length > 0, 'there is something to pick from');
    return items[this.below(items.length)] as T;
  }

  /** Puts the items in random order, in place (Fisher and Yates). */
  shuffle<T>(items: T[]): T[] {
    for (let i = items.length - 1; i > 0; i--) {
      const j = this.below(i + 1);
      [items[i], items[j]] = [items[j] as T, items[i] as T];
    }
    return items;
  }

  /** Fills the bytes `from` ≤ x < `to` with random ones. */
  fill(bytes: Uint8Array, from = 0, to = bytes.length): void {
    for (let i = from; i < to; i++) bytes[i] = this.word();
  }

  /** A seed for another, unrelated sequence. */
  seed(): number {
    return this.word() * 2 ** 20 + (this.word() >>> 12);
  }
}

/** One step of SplitMix32. */
function spread(word: number): number {
  let z = (word + 0x9e3779b9) | 0;
  z = Math.imul(z ^ (z >>> 16), 0x21f0aaad);
  z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
  return z ^ (z >>> 15);
}
