/**
 * Buffers whose bytes a snapshot has lent: pinned until it closes.
 *
 * A pinned buffer keeps its bytes whatever the writer, the clock and a checkpoint do: the writer
 * works on copies, the clock passes it by, and one that is given up is not used again before its
 * last pin goes. Since pins take room from everybody else they are bounded: all loans together take
 * a share of the budget and of the buffers that there are, and lie in the lower half of the memory
 * (a quarter where the budget is small), so that the rest can still be given back, chunk by chunk
 * from the end. Beyond that nothing is lent, and the caller makes a copy.
 */
import { type Ledger } from '../base/ledger.ts';
import { type BufferId } from './pages.ts';
import { type Slab } from './slab.ts';

/** Loans take at most one in so many bytes of the budget, and one in so many buffers. */
const LENT_SHARE = 8;
/** Budgets below this are small, bytes. */
const SMALL_BUDGET_BYTES = 16 * 1024 * 1024;
/** Upper bound of the heap that a loan takes in the tables below, bytes. */
const LOAN_BYTES = 128;

export class Loans {
  readonly #slab: Slab;
  readonly #ledger: Ledger;
  /** Snapshots that lend, by commit: how many, and which buffers they keep. */
  readonly #byCommit = new Map<number, { count: number; readonly buffers: Set<BufferId> }>();
  /** Commits for which each buffer is kept. */
  readonly #holders = new Map<BufferId, number>();
  readonly #unpin: (buffer: BufferId) => void;

  constructor(slab: Slab, ledger: Ledger, unpin: (buffer: BufferId) => void) {
    this.#slab = slab;
    this.#ledger = ledger;
    this.#unpin = unpin;
  }

  /** Buffers that are lent. */
  get count(): number {
    return this.#holders.size;
  }

  /**
   * A snapshot that lends begins.
   *
   * @throws {LimitError} limit.memory
   */
  open(commit: number): void {
    const loans = this.#byCommit.get(commit);
    if (loans !== undefined) loans.count++;
    else {
      this.#ledger.charge('lent', LOAN_BYTES);
      this.#byCommit.set(commit, { count: 1, buffers: new Set() });
    }
  }

  /** Keeps a buffer until the snapshots of a commit are closed; false where a copy must do. */
  lend(commit: number, buffer: BufferId): boolean {
    const buffers = this.#byCommit.get(commit)?.buffers;
    if (buffers === undefined) return false;
    if (buffers.has(buffer)) return true;
    const holders = this.#holders.get(buffer) ?? 0;
    if (holders === 0 && !this.#mayLend(buffer)) return false;
    if (!this.#ledger.tryCharge('lent', LOAN_BYTES)) return false;
    if (holders === 0) {
      this.#ledger.move('buffers', 'lent', this.#slab.pageBytes);
      this.#slab.pins[buffer]!++;
    }
    this.#holders.set(buffer, holders + 1);
    buffers.add(buffer);
    return true;
  }

  #mayLend(buffer: BufferId): boolean {
    const { pageBytes, chunkBytes, chunkShift, count } = this.#slab;
    const { budgetBytes } = this.#ledger;
    const most = Math.min(budgetBytes / pageBytes, count) / LENT_SHARE;
    const end = ((buffer >> chunkShift) + 1) * chunkBytes;
    return (
      this.#holders.size + 1 <= most &&
      end <= budgetBytes / (budgetBytes < SMALL_BUDGET_BYTES ? 4 : 2)
    );
  }

  /** A snapshot that lends is closed; with the last one of its commit go the pins. */
  close(commit: number): void {
    const loans = this.#byCommit.get(commit);
    if (loans !== undefined && --loans.count === 0) this.#end(commit, loans.buffers);
  }

  #end(commit: number, buffers: Set<BufferId>): void {
    this.#byCommit.delete(commit);
    this.#ledger.release('lent', LOAN_BYTES * (buffers.size + 1));
    for (const buffer of buffers) {
      const holders = this.#holders.get(buffer)! - 1;
      if (holders > 0) {
        this.#holders.set(buffer, holders);
        continue;
      }
      this.#holders.delete(buffer);
      this.#ledger.move('lent', 'buffers', this.#slab.pageBytes);
      this.#unpin(buffer);
    }
  }

  /** Ends every loan. */
  dispose(): void {
    for (const [commit, { buffers }] of this.#byCommit) this.#end(commit, buffers);
  }
}
