/**
 * The open transaction as the store keeps it: what is in memory beside the pages and must go back
 * with them, and the notes by which a failed statement is undone (law T2).
 *
 *   idle ──begin──> open ──commit──> idle
 *                    │ └──rollback─> idle
 *                    └─ a change fails half-way ──> failed ──rollback, rollbackTo──> idle, open
 *
 * Three levels of undo:
 *
 *   one row      checks every constraint before its first change, so nothing needs undoing
 *   statement    notes the inverse of each row change; beyond a size it takes a savepoint instead
 *   savepoint    pages go back by the pager; counters and names by the copies kept here
 *
 * Counters and names live in `CollectionState`; each keeps one copy of itself for each mark
 * (savepoint or statement) since which it was changed.
 */
import type { Ledger } from '../base/ledger.ts';
import { failure } from '../errors.ts';
import type { CollectionState, SavedState } from './collection-state.ts';
import type { WorkSpace } from '../model/work.ts';
import { WriteBuffers } from '../storage/write-buffers.ts';
import type { StoragePort } from './storage-port.ts';

/** Bytes of notes from which on a statement goes on under a savepoint of the pager. */
export const STATEMENT_NOTE_BYTES_MAX = 256 * 1024;
/** Upper bound of what a note takes in the heap beside its bytes. */
const NOTE_BYTES = 200;

type TransactionStatus = 'idle' | 'open' | 'failed';

/** Who can take a record of a collection back to what it was. */
export interface Restorer {
  /** Makes the record at `key` these bytes again, or none. */
  restore(key: Uint8Array, old: Uint8Array | undefined): void;
}

interface Note {
  readonly owner: Restorer;
  readonly key: Uint8Array;
  readonly old: Uint8Array | undefined;
}

interface Mark {
  readonly id: number;
  readonly savedCount: number;
  readonly savepoint: number;
}

export class Transaction {
  /** Where writes of the open transaction wait. */
  readonly buffers: WriteBuffers;
  #elidedPuts = 0;
  #status: TransactionStatus = 'idle';
  /** Why a refused statement could not be undone, if that is how the transaction failed. */
  #undoFailure: unknown;
  /** Id of the newest mark; a state whose copy is of this mark need not be copied again. */
  mark = 0;
  #lastMark = 0;
  readonly #saved: SavedState[] = [];
  #savepoints: Mark[] = [];
  #notes: Note[] | undefined;
  #noteBytes = 0;
  #noteSavepoint = -1;
  readonly #storage: StoragePort;
  readonly #ledger: Ledger | undefined;

  constructor(storage: StoragePort, work: () => WorkSpace, ledger?: Ledger) {
    this.#storage = storage;
    this.#ledger = ledger;
    const isBeyondCache = () =>
      ledger !== undefined && (storage.nextPage ?? 0) * storage.pageBytes > ledger.budgetBytes;
    const makeRoom = (byteCount: number): void => storage.makeRoom?.(byteCount);
    const failed = () => this.fail();
    this.buffers = new WriteBuffers({ ledger, work, makeRoom, isBeyondCache, failed });
  }

  /** Puts of every transaction that found the same bytes there already. */
  get elidedPuts(): number {
    return this.#elidedPuts + this.buffers.elidedPuts;
  }

  /** Counts a put that found the same bytes. */
  countElided(): void {
    this.#elidedPuts++;
  }

  get isOpen(): boolean {
    return this.#status !== 'idle';
  }

  begin(): void {
    if (this.#status !== 'idle')
      throw failure('usage.transaction', 'a transaction is open already');
    this.#storage.begin();
    this.#status = 'open';
    this.#undoFailure = undefined;
    this.buffers.begin();
    this.mark = ++this.#lastMark;
  }

  /** @throws {UsageError} usage.transaction unless a transaction is open and whole. */
  requireOpen(): void {
    if (this.#status === 'open') {
      this.#storage.settle(); // every write begins here, and holds no buffer yet
      return;
    }
    throw failure(
      'usage.transaction',
      this.#status === 'idle'
        ? 'a write needs an open transaction'
        : 'the transaction failed half-way through a change and can only be rolled back',
      this.#status === 'failed' ? { cause: this.#undoFailure } : {},
    );
  }

  /** Says that a change failed half-way: only going back is left. */
  fail(): void {
    if (this.#status === 'open') this.#status = 'failed';
  }

  /** Keeps a copy of a state that is about to be changed, once for each mark. */
  save(state: CollectionState): void {
    this.#saved.push(state.save(this.mark));
  }

  /** Writes what changed in counters to the catalog, before the pages are committed. */
  storeStates(): void {
    for (const saved of this.#saved) saved.state.store();
  }

  /** Ends the transaction after its pages were committed or rolled back. */
  end(): void {
    this.buffers.forget();
    this.#forgetNotes();
    this.#saved.length = 0;
    this.#savepoints = [];
    this.#status = 'idle';
    this.mark = ++this.#lastMark;
  }

  /** Takes counters and names back to where the transaction began. */
  restoreAll(): void {
    this.#restoreTo(0, true);
  }

  #restoreTo(savedCount: number, withPages: boolean): void {
    while (this.#saved.length > savedCount) this.#saved.pop()!.restore(withPages);
  }

  // Savepoints.

  savepoint(): number {
    this.requireOpen();
    if (this.#notes !== undefined) throw failure('usage.transaction', 'a statement is running');
    const savepoint = this.#savepoint();
    this.mark = ++this.#lastMark;
    const mark = { id: this.mark, savedCount: this.#saved.length, savepoint };
    this.#savepoints.push(mark);
    return this.mark;
  }

  /** Marks the pages, in which nothing is missing then. */
  #savepoint(): number {
    this.buffers.settle();
    return this.#storage.savepoint();
  }

  rollbackTo(token: number): void {
    const place = this.#placeOf(token);
    const mark = this.#savepoints[place]!;
    this.#forgetNotes();
    this.buffers.forget();
    this.#storage.rollbackTo(mark.savepoint);
    this.#restoreTo(mark.savedCount, true);
    this.#savepoints.length = place + 1;
    this.#status = 'open';
    this.#undoFailure = undefined;
    this.mark = ++this.#lastMark;
  }

  release(token: number): void {
    const place = this.#placeOf(token);
    this.#storage.release(this.#savepoints[place]!.savepoint);
    this.#savepoints.length = place;
  }

  hasSavepoint(token: number): boolean {
    return this.#savepoints.some((mark) => mark.id === token);
  }

  #placeOf(token: number): number {
    if (this.#status === 'idle') throw failure('usage.transaction', 'no transaction is open');
    const place = this.#savepoints.findIndex((mark) => mark.id === token);
    if (place < 0) throw failure('usage.transaction', 'the savepoint is gone');
    return place;
  }

  // Statements.

  get isNoting(): boolean {
    return this.#notes !== undefined;
  }

  /**
   * Runs a statement of many changes; if it throws, they are undone and the transaction goes on.
   * `afterRollback` is called when pages went back under the trees' feet.
   */
  statement<T>(run: () => T, afterRollback: () => void): T {
    this.requireOpen();
    if (this.#notes !== undefined) throw failure('usage.transaction', 'a statement is running');
    this.#notes = [];
    this.mark = ++this.#lastMark;
    const savedCount = this.#saved.length;
    try {
      const result = run();
      if (this.#noteSavepoint >= 0) this.#storage.release(this.#noteSavepoint);
      this.#noteSavepoint = -1;
      return result;
    } catch (error) {
      this.#undoStatement(savedCount, afterRollback);
      throw error;
    } finally {
      this.#forgetNotes();
    }
  }

  #undoStatement(savedCount: number, afterRollback: () => void): void {
    try {
      if (this.#noteSavepoint >= 0) {
        this.buffers.forget();
        this.#storage.rollbackTo(this.#noteSavepoint);
        this.#storage.release(this.#noteSavepoint);
        this.#noteSavepoint = -1;
        // A change that failed half-way was made under the savepoint, and went with it.
        this.#status = 'open';
        afterRollback();
      }
      if (this.#status !== 'open') return;
      const notes = this.#notes!;
      this.#notes = undefined;
      for (let i = notes.length - 1; i >= 0; i--) {
        const { owner, key, old } = notes[i]!;
        this.#storage.settle();
        owner.restore(key, old);
      }
      this.buffers.settle();
      this.#restoreTo(savedCount, false);
    } catch (cause) {
      // What the statement began cannot be taken back row by row: the transaction has to go.
      this.fail();
      this.#undoFailure = cause;
    }
  }

  /** Notes the inverse of a change that is about to be made. */
  note(owner: Restorer, key: Uint8Array, old: Uint8Array | undefined): void {
    const notes = this.#notes;
    if (notes === undefined || this.#noteSavepoint >= 0) return;
    const bytes = NOTE_BYTES + key.length + (old?.length ?? 0);
    if (this.#noteBytes + bytes > STATEMENT_NOTE_BYTES_MAX) {
      this.#noteSavepoint = this.#savepoint();
      return;
    }
    this.#ledger?.charge('transaction', bytes);
    this.#noteBytes += bytes;
    notes.push({ owner, key, old });
  }

  /** Has a change that is not noted row by row undone by a savepoint, if a statement runs. */
  noteAll(): void {
    if (this.wantsNotes) this.#noteSavepoint = this.#savepoint();
  }

  /** Whether the next change needs its old bytes copied for a note. */
  get wantsNotes(): boolean {
    return this.#notes !== undefined && this.#noteSavepoint < 0;
  }

  #forgetNotes(): void {
    this.#notes = undefined;
    this.#noteSavepoint = -1;
    this.#ledger?.release('transaction', this.#noteBytes);
    this.#noteBytes = 0;
  }
}
