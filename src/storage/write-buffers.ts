/**
 * The write buffers of a store's open transaction (write-buffer.ts): which trees have one, and
 * what they may take of the memory budget together.
 */
import type { Ledger } from '../base/ledger.ts';
import { DatabaseError } from '../errors.ts';

/**
 * Share of the budget that waiting entries may take, of it what is left to the pages that they
 * change when they are written, and what they never take more than.
 */
const BUDGET_SHARE = 1 / 4;
const LEFT_BYTES = 1024 * 1024;
const BYTES_MAX = 64 * 1024 * 1024;
/** Share of the budget that is left for what writing the entries needs, and its most. */
const SETTLING_SHARE = 1 / 16;
const SETTLING_BYTES_MAX = 1024 * 1024;
/** Key and value of more bytes together go to the pages at once: they gain nothing. */
export const BUFFERED_BYTES_MAX = 1024;

/** A tree as its buffers see it. */
export interface BufferedTree {
  /** Writes the entries that wait to the pages. */
  settleWrites(): void;
  /** Entries in its pages. */
  readonly settledCount: number;
  /** Forgets them: the transaction goes back. */
  forgetWrites(): void;
}

/** The write buffers of a store's open transaction. */
export class WriteBuffers {
  /** Lets every write wait that can: for tests. */
  static isEager = false;
  /** Puts that met equal bytes when they entered their tree. */
  elidedPuts = 0;
  /** Changes with every transaction. */
  epoch = 0;
  /** Whether the file has more pages than the cache can hold. */
  readonly isBeyondCache: () => boolean;
  /** Called when entries could not be written: the transaction can only go back. */
  readonly failed: () => void;
  readonly #ledger: Ledger | undefined;
  readonly #bytesMax: number;
  readonly #settlingBytes: number;
  readonly #trees = new Set<BufferedTree>();
  #bytes = 0;

  constructor(ledger: Ledger | undefined, isBeyondCache: () => boolean, failed: () => void) {
    this.#ledger = ledger;
    this.isBeyondCache = isBeyondCache;
    this.failed = failed;
    const budgetBytes = ledger?.budgetBytes ?? Infinity;
    const left = WriteBuffers.isEager ? 0 : LEFT_BYTES;
    this.#bytesMax = Math.min(BYTES_MAX, Math.max(0, budgetBytes * BUDGET_SHARE - left));
    this.#settlingBytes = Math.min(SETTLING_BYTES_MAX, Math.floor(budgetBytes * SETTLING_SHARE));
  }

  /** A transaction begins. */
  begin(): void {
    this.epoch++;
  }

  /** Sees that entries of a tree begin to wait. */
  opened(tree: BufferedTree): void {
    this.#trees.add(tree);
  }

  /** Writes everything that waits. Whatever fails here, the transaction can only go back. */
  settle(): void {
    for (const tree of this.#trees) tree.settleWrites();
    this.#trees.clear();
  }

  /** Forgets everything that waits. */
  forget(): void {
    for (const tree of this.#trees) tree.forgetWrites();
    this.#trees.clear();
  }

  /** Charges memory for entries; answers false when they have their share, or there is none. */
  take(bytes: number): boolean {
    if (this.#bytes + bytes > this.#bytesMax) return false;
    try {
      // Entries that took the last of the budget could not be written any more.
      this.#ledger?.charge('transaction', bytes + this.#settlingBytes);
      this.#ledger?.release('transaction', this.#settlingBytes);
    } catch (cause) {
      if (cause instanceof DatabaseError && cause.code === 'limit.memory') return false;
      throw cause;
    }
    this.#bytes += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#bytes -= bytes;
    this.#ledger?.release('transaction', bytes);
  }
}
