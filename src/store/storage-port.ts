/**
 * What the store needs of the storage below it: pages, and transactions over them. The pager
 * implements it; tests have a simple one in memory.
 */
import type { BufferId, Pages } from '../storage/pages.ts';

/** How durable a commit is when the call returns (STORAGE.md rule 13). */
export type CommitLevel = 'full' | 'group' | 'buffered' | 'none';

export interface StoragePort extends Pages {
  /** Id of the newest commit, 0 in a file without any. */
  readonly commitId: number;
  /** One more than the greatest PageId in use: an upper bound of the file's pages. */
  readonly nextPage?: number;
  /**
   * Gives memory of the cache back so that the budget has room for `byteCount` bytes, as far as
   * that is possible. The caller holds no buffer but pinned ones.
   */
  makeRoom?(byteCount: number): void;
  /** Keeps buffers until the snapshots of a commit are closed; `lend` is false if it does not. */
  readonly loans?: { lend(commit: number, buffer: BufferId): boolean };
  /** Charges for the code of objects and questions, if there is a budget. */
  chargeObjectsCode?(): void;
  begin(): void;
  /** Publishes the private pages; answers the commit id. Throws with the transaction open. */
  commit(level: CommitLevel): number;
  rollback(): void;
  /** Marks a point to come back to; answers its token. Savepoints nest. */
  savepoint(): number;
  /** Undoes everything since the savepoint, which stays. */
  rollbackTo(savepoint: number): void;
  /** Forgets a savepoint and those within it; their changes stay. */
  release(savepoint: number): void;
}
