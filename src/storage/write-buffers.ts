/**
 * The write buffers of a store's open transaction (write-buffer.ts): which trees have one, and
 * what they may take of the memory budget together.
 */
import type { Ledger } from '../base/ledger.ts';
import { DatabaseError } from '../errors.ts';
import type { WorkSpace } from '../model/work.ts';

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
/** Bytes that merging needs for a run at least, and how many runs a tree has at most. */
const RUN_BYTES = 8 * 1024;
const RUNS_MAX = 64;
/** Key and value of more bytes together go to the pages at once: they gain nothing. */
export const BUFFERED_BYTES_MAX = 1024;

/** A tree as its buffers see it. */
export interface BufferedTree {
  /** Writes the entries that wait to the pages. */
  settleWrites(): void;
  /** Makes room in memory: puts the entries that wait into the spill file, or writes them. */
  spillWrites(): void;
  /** Entries in its pages. */
  readonly settledCount: number;
  /** Forgets them: the transaction goes back. */
  forgetWrites(): void;
}

/** What the buffers need of their store. */
export interface WriteBuffersParts {
  readonly ledger: Ledger | undefined;
  /** Where runs are written and merged. */
  readonly work: () => WorkSpace;
  /** Makes the budget have room for bytes, as far as possible. */
  readonly makeRoom: (byteCount: number) => void;
  /** Whether the file has more pages than the cache can hold. */
  readonly isBeyondCache: () => boolean;
  /** Called when entries could not be written: the transaction can only go back. */
  readonly failed: () => void;
}

/** The write buffers of a store's open transaction. */
export class WriteBuffers {
  /** Lets every write wait that can: for tests. */
  static isEager = false;
  /** Puts that met equal bytes when they entered their tree. */
  elidedPuts = 0;
  /** Changes with every transaction. */
  epoch = 0;
  readonly isBeyondCache: () => boolean;
  readonly failed: () => void;
  readonly #ledger: Ledger | undefined;
  /** Runs that a tree may have in the spill file. */
  readonly runsMax: number;
  readonly #parts: WriteBuffersParts;
  readonly #shareBytes: number;
  readonly #settlingBytes: number;
  readonly #trees = new Set<BufferedTree>();
  #bytes = 0;

  constructor(parts: WriteBuffersParts) {
    const { ledger } = parts;
    this.#ledger = ledger;
    this.#parts = parts;
    this.isBeyondCache = parts.isBeyondCache;
    this.failed = parts.failed;
    const budgetBytes = ledger?.budgetBytes ?? Infinity;
    this.#shareBytes = budgetBytes * BUDGET_SHARE;
    this.#settlingBytes = Math.min(SETTLING_BYTES_MAX, Math.floor(budgetBytes * SETTLING_SHARE));
    this.runsMax = Math.min(RUNS_MAX, Math.floor(this.#settlingBytes / RUN_BYTES));
  }

  /** Bytes that all entries may take together. */
  get #bytesMax(): number {
    const left = WriteBuffers.isEager ? 0 : LEFT_BYTES;
    return Math.min(BYTES_MAX, Math.max(0, this.#shareBytes - left));
  }

  get work(): WorkSpace {
    return this.#parts.work();
  }

  /** Makes room for reading the runs of a tree; answers how many bytes that may take. */
  roomForMerge(): number {
    const wanted = Math.max(this.#settlingBytes, this.#bytesMax - this.#bytes);
    this.#parts.makeRoom(wanted);
    const available = this.#ledger?.availableBytes ?? Infinity;
    return Math.min(wanted, available / 2); // the rest is for writing them
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

  /** Makes room for entries: their share of the budget is used up. */
  spill(): void {
    for (const tree of this.#trees) tree.spillWrites();
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
