/**
 * An open-addressed table from positive 32-bit integers to a few 32-bit integers, in typed arrays.
 *
 * Linear probing, load at most three quarters, deletion by shifting back. Its memory is exact and
 * is charged to the ledger before it is taken. Source: Donald Knuth, The Art of Computer
 * Programming 3, 6.4, algorithms L and R.
 */
import { type IntList } from './int-list.ts';
import { type Account, type Ledger } from './ledger.ts';

const FIRST_CAPACITY = 64;

export class IntTable {
  /** Values of the entry at `place` are `values[place * stride + 0 … stride - 1]`. */
  values: Int32Array;
  readonly stride: number;
  count = 0;
  #keys: Int32Array;
  #mask: number;
  readonly #ledger: Ledger;
  readonly #account: Account;

  constructor(stride: number, ledger: Ledger, account: Account) {
    this.stride = stride;
    this.#ledger = ledger;
    this.#account = account;
    ledger.charge(account, this.#bytesFor(FIRST_CAPACITY));
    this.#keys = new Int32Array(FIRST_CAPACITY);
    this.values = new Int32Array(FIRST_CAPACITY * stride);
    this.#mask = FIRST_CAPACITY - 1;
  }

  #bytesFor(capacity: number): number {
    return capacity * 4 * (1 + this.stride);
  }

  get bytes(): number {
    return this.#bytesFor(this.#mask + 1);
  }

  #home(key: number): number {
    return (Math.imul(key, 0x9e3779b1) >>> 7) & this.#mask;
  }

  /** Place of the entry of a key, −1 if there is none. */
  find(key: number): number {
    const keys = this.#keys;
    const mask = this.#mask;
    let place = this.#home(key);
    for (;;) {
      const found = keys[place]!;
      if (found === key) return place;
      if (found === 0) return -1;
      place = (place + 1) & mask;
    }
  }

  /** First value of a key, or `missing`. */
  get(key: number, missing: number): number {
    const place = this.find(key);
    return place < 0 ? missing : this.values[place * this.stride]!;
  }

  /** Place of the entry of a key, making one with zero values if there is none. */
  put(key: number): number {
    const found = this.find(key);
    if (found >= 0) return found;
    if ((this.count + 1) * 4 > (this.#mask + 1) * 3) this.#resize((this.#mask + 1) * 2);
    const keys = this.#keys;
    let place = this.#home(key);
    while (keys[place] !== 0) place = (place + 1) & this.#mask;
    keys[place] = key;
    this.count++;
    return place;
  }

  /** Makes room for `count` more entries, so that `put` cannot fail for them. */
  reserve(count: number): void {
    const capacity = this.#capacityFor(count);
    if (capacity > this.#mask + 1) this.#resize(capacity);
  }

  #capacityFor(count: number): number {
    let capacity = this.#mask + 1;
    while ((this.count + count) * 4 > capacity * 3) capacity *= 2;
    return capacity;
  }

  /** Bytes that `reserve` would charge while it grows. */
  growthBytes(count: number): number {
    const capacity = this.#capacityFor(count);
    return capacity > this.#mask + 1 ? this.#bytesFor(capacity) : 0;
  }

  delete(key: number): void {
    let hole = this.find(key);
    if (hole < 0) return;
    const keys = this.#keys;
    const mask = this.#mask;
    this.count--;
    let next = (hole + 1) & mask;
    for (; keys[next] !== 0; next = (next + 1) & mask) {
      const home = this.#home(keys[next]!);
      if (((next - home) & mask) < ((next - hole) & mask)) continue;
      this.#move(next, hole);
      hole = next;
    }
    keys[hole] = 0;
    this.values.fill(0, hole * this.stride, (hole + 1) * this.stride);
  }

  #move(from: number, to: number): void {
    this.#keys[to] = this.#keys[from]!;
    for (let i = 0; i < this.stride; i++) {
      this.values[to * this.stride + i] = this.values[from * this.stride + i]!;
    }
  }

  /** Appends the keys to a list, in no order. */
  appendKeys(list: IntList): void {
    for (const key of this.#keys) if (key !== 0) list.push(key);
  }

  /** Removes every entry and gives back all memory but the first. */
  clear(): void {
    const before = this.bytes;
    this.#keys = new Int32Array(FIRST_CAPACITY);
    this.values = new Int32Array(FIRST_CAPACITY * this.stride);
    this.#mask = FIRST_CAPACITY - 1;
    this.count = 0;
    this.#ledger.release(this.#account, before - this.bytes);
  }

  /** Gives back everything; the table must not be used afterwards. */
  dispose(): void {
    this.clear();
    this.#ledger.release(this.#account, this.bytes);
  }

  #resize(capacity: number): void {
    const before = this.bytes;
    this.#ledger.charge(this.#account, this.#bytesFor(capacity));
    const oldKeys = this.#keys;
    const oldValues = this.values;
    this.#keys = new Int32Array(capacity);
    this.values = new Int32Array(capacity * this.stride);
    this.#mask = capacity - 1;
    for (let i = 0; i < oldKeys.length; i++) {
      const key = oldKeys[i]!;
      if (key === 0) continue;
      let place = this.#home(key);
      while (this.#keys[place] !== 0) place = (place + 1) & this.#mask;
      this.#keys[place] = key;
      for (let v = 0; v < this.stride; v++) {
        this.values[place * this.stride + v] = oldValues[i * this.stride + v]!;
      }
    }
    this.#ledger.release(this.#account, before);
  }
}
