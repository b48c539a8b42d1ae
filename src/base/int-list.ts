/** A growing list of 32-bit integers in a typed array, charged to the ledger before it grows. */
import { type Account, type Ledger } from './ledger.ts';

export class IntList {
  count = 0;
  #items = new Int32Array(0);
  readonly #ledger: Ledger;
  readonly #account: Account;

  constructor(ledger: Ledger, account: Account) {
    this.#ledger = ledger;
    this.#account = account;
  }

  push(item: number): void {
    if (this.count === this.#items.length) this.#grow();
    this.#items[this.count++] = item;
  }

  /** Appends unless the budget is full; answers whether it did. */
  tryPush(item: number): boolean {
    if (this.count === this.#items.length) {
      const length = grownLength(this.#items.length);
      if (!this.#ledger.tryCharge(this.#account, length * 4)) return false;
      this.#ledger.release(this.#account, length * 4);
    }
    this.push(item);
    return true;
  }

  /** Takes the last item, `undefined` if there is none. */
  pop(): number | undefined {
    return this.count === 0 ? undefined : this.#items[--this.count]!;
  }

  /** Takes out an item; the last one takes its place. */
  takeAt(ordinal: number): void {
    this.#items[ordinal] = this.#items[--this.count]!;
  }

  /** Makes room for `count` more, so that `push` cannot fail for them. */
  reserve(count: number): void {
    while (this.count + count > this.#items.length) this.#grow();
  }

  #grow(): void {
    const before = this.#items.length;
    const length = grownLength(before);
    this.#ledger.charge(this.#account, length * 4);
    const larger = new Int32Array(length);
    larger.set(this.#items);
    this.#items = larger;
    this.#ledger.release(this.#account, before * 4);
  }

  at(ordinal: number): number {
    return this.#items[ordinal]!;
  }

  /** Sorts ascending, in place. */
  sort(): void {
    this.items().sort();
  }

  /** The items as a view, valid until the next push. */
  items(): Int32Array {
    return this.#items.subarray(0, this.count);
  }

  /** Forgets the items and gives their memory back. */
  clear(): void {
    if (this.#items.length === 0) return;
    this.#ledger.release(this.#account, this.#items.length * 4);
    this.#items = new Int32Array(0);
    this.count = 0;
  }
}

function grownLength(length: number): number {
  return Math.max(64, length + (length >> 1));
}
