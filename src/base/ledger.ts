/**
 * The one memory account of a database (DESIGN section 4).
 *
 * Everything that grows is charged here before its memory is taken, bookkeeping included. When the
 * budget is full the ledger asks its reclaimers, in the order they were added, to give memory
 * back; if that does not make room the charge fails with `limit.memory` and nothing is taken.
 * Law M1: bytes charged never exceed the budget.
 */
import { failure } from '../errors.ts';
import { assert } from './assert.ts';

/** What memory is charged for; `db.memory()` reports bytes by account. */
export const ACCOUNTS = [
  'code', // what the package's own code takes, once compiled: an estimate
  'buffers', // page cache, private pages and versions: chunks of the slab
  'lent', // pages that snapshots keep for bytes they lent, and the list of them
  'tables', // page tables, buffer states, map and slot bookkeeping
  'versions', // list of old page versions
  'log', // log buffer and staging
  'transaction', // undo notes, page lists of the open transaction
  'records', // decoded records
  'plans', // prepared plans
  'work', // sort, hash and join areas, spill buffers
  'catalog', // schema and statistics in memory
] as const;
export type Account = (typeof ACCOUNTS)[number];

/** Gives memory back on request; answers the bytes it released from the ledger. */
export type Reclaimer = (bytesWanted: number) => number;

export class Ledger {
  readonly budgetBytes: number;
  #usedBytes = 0;
  #peakBytes = 0;
  readonly #bytes: Record<Account, number>;
  readonly #reclaimers: Reclaimer[] = [];

  constructor(budgetBytes: number) {
    assert(Number.isSafeInteger(budgetBytes) && budgetBytes > 0, 'budget is a number of bytes');
    this.budgetBytes = budgetBytes;
    this.#bytes = Object.fromEntries(ACCOUNTS.map((a) => [a, 0])) as Record<Account, number>;
  }

  get usedBytes(): number {
    return this.#usedBytes;
  }

  get peakBytes(): number {
    return this.#peakBytes;
  }

  get availableBytes(): number {
    return this.budgetBytes - this.#usedBytes;
  }

  bytesOf(account: Account): number {
    return this.#bytes[account];
  }

  /** Adds a reclaimer; it must not charge while it reclaims. */
  addReclaimer(reclaim: Reclaimer): void {
    this.#reclaimers.push(reclaim);
  }

  /** Charges if the budget has room as it is, without asking anyone to give memory back. */
  tryCharge(account: Account, bytes: number): boolean {
    assert(bytes >= 0, 'charge is not negative');
    if (this.#usedBytes + bytes > this.budgetBytes) return false;
    this.#usedBytes += bytes;
    this.#bytes[account] += bytes;
    if (this.#usedBytes > this.#peakBytes) this.#peakBytes = this.#usedBytes;
    return true;
  }

  /**
   * Charges bytes, asking the reclaimers when the budget is full.
   *
   * @throws {LimitError} limit.memory when there is no room; nothing is charged.
   */
  charge(account: Account, bytes: number): void {
    if (this.tryCharge(account, bytes)) return;
    for (const reclaim of this.#reclaimers) {
      const lacking = this.#usedBytes + bytes - this.budgetBytes;
      if (lacking <= 0) break;
      reclaim(lacking);
    }
    if (this.tryCharge(account, bytes)) return;
    throw failure(
      'limit.memory',
      `memory budget of ${this.budgetBytes} bytes is full: ${this.#usedBytes} bytes are in use ` +
        `and ${bytes} more were asked for (${account})`,
      { detail: { budgetBytes: this.budgetBytes, usedBytes: this.#usedBytes, bytes, account } },
    );
  }

  /** Charges to another account what one was charged; the sum stays. */
  move(from: Account, to: Account, bytes: number): void {
    assert(bytes >= 0 && bytes <= this.#bytes[from], `move of what ${from} was charged`);
    this.#bytes[from] -= bytes;
    this.#bytes[to] += bytes;
  }

  release(account: Account, bytes: number): void {
    assert(bytes >= 0 && bytes <= this.#bytes[account], `release of what ${account} was charged`);
    this.#usedBytes -= bytes;
    this.#bytes[account] -= bytes;
  }
}
