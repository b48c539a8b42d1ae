/**
 * The keys that one record has in an index: a scratch list, put in order, each key once. Keys lie
 * one behind the other in one buffer; positions refer to them.
 */
import { ByteWriter, compareBytes } from '../base/bytes.ts';

/** A key in the buffer of its set. */
interface Entry {
  readonly from: number;
  readonly to: number;
  readonly state: 1 | 2;
}

export class KeySet {
  readonly #bytes = new ByteWriter(64);
  #entries: Entry[] = [];

  get count(): number {
    return this.#entries.length;
  }

  clear(): void {
    this.#bytes.clear();
    this.#entries = [];
  }

  add(key: ByteWriter, state: 1 | 2): void {
    const from = this.#bytes.length;
    this.#bytes.append(key.bytes, 0, key.length);
    this.#entries.push({ from, to: this.#bytes.length, state });
  }

  /** Puts the keys in order, and keeps each of them once. */
  order(): void {
    if (this.#entries.length < 2) return;
    this.#entries.sort((a, b) => this.#compare(a, b));
    this.#entries = this.#entries.filter(
      (entry, i) => i === 0 || this.#compare(this.#entries[i - 1]!, entry) !== 0,
    );
  }

  #compare(a: Entry, b: Entry): number {
    const { bytes } = this.#bytes;
    return compareBytes(bytes, a.from, a.to, bytes, b.from, b.to);
  }

  /** Writes a key into an emptied buffer; answers its state. */
  at(ordinal: number, into: ByteWriter): 1 | 2 {
    const { from, to, state } = this.#entries[ordinal]!;
    into.length = 0;
    into.append(this.#bytes.bytes, from, to);
    return state;
  }

  /** Orders a key of this set and one of another. */
  compareTo(ordinal: number, other: KeySet, otherOrdinal: number): number {
    const own = this.#entries[ordinal]!;
    const its = other.#entries[otherOrdinal]!;
    return compareBytes(this.#bytes.bytes, own.from, own.to, other.#bytes.bytes, its.from, its.to);
  }

  /** Visits the keys, by their ordinals, that another set lacks. Both are in order. */
  eachMissingIn(other: KeySet, visit: (ordinal: number) => void): void {
    let at = 0;
    for (let i = 0; i < this.count; i++) {
      while (at < other.count && other.compareTo(at, this, i) < 0) at++;
      if (at < other.count && other.compareTo(at, this, i) === 0) continue;
      visit(i);
    }
  }
}
