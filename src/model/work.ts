/**
 * The working memory of the question side (DESIGN section 4): operators take pieces of the one slab
 * and write to the one spill file through this interface, and never a buffer of their own.
 */

/** A piece of memory that the ledger was charged for. */
export interface WorkArea {
  readonly bytes: Uint8Array;
  /** Gives the memory back; the bytes must not be used any more. */
  release(): void;
}

/** Bytes written to the spill file one after the other, then read once from the start. */
export interface SpillRun {
  append(bytes: Uint8Array, from: number, to: number): void;
  /** Ends writing and begins reading. */
  rewind(): void;
  /** Reads up to `target.length` bytes; answers how many there were, 0 at the end. */
  read(target: Uint8Array): number;
  /** Gives the space in the spill file back. */
  close(): void;
}

export interface WorkSpace {
  /** Bytes that could be reserved now. */
  readonly availableBytes: number;
  /**
   * Takes memory.
   *
   * @throws {LimitError} limit.memory when the budget has no room; the operator spills and asks
   * for less.
   */
  reserve(byteCount: number): WorkArea;
  /** Charges what lives in the JavaScript heap, by an upper bound; `release` takes it back. */
  charge(byteCount: number): void;
  release(byteCount: number): void;
  /** Begins a run of spilled bytes. */
  spill(): SpillRun;
}
