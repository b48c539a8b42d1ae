/**
 * What the simulation drives: the narrow interface between the harness and a database.
 *
 * To put a database under the simulation, write an adapter: a `SystemFactory` whose `open` answers
 * a `System`, and name it in `systems.ts`. Rules for adapters:
 *
 * - Everything is synchronous. Timers do not run: `elapse` stands for the time that passes.
 * - A `CrashSignal` of the disk passes through untouched, and leaves what `place` and
 *   `hasSpilled` answer as it was at that moment: they are asked after it.
 * - Failures are `DatabaseError`s. After `storage.full`, `limit.memory` or `limit.log` the system
 *   goes on; the harness rolls back if `inTransaction` says that there still is something to.
 *   After any other failure of the disk it abandons the system, closing it or not, and reopens.
 *   A `commit` that throws leaves no transaction open.
 * - Keys are whole numbers, in every kind of collection; an adapter turns them into whatever its
 *   key is, keeping their order (they may be negative). Records are not changed by anybody.
 * - One index for a collection at most, on `mark`; equal marks come in order of their keys.
 * - Nothing but `options.plant` may depend on the simulation.
 */
import type { FileSystem } from '../../src/storage/file.ts';

/** Durability of a commit (STORAGE rule 13). */
export type Level = 'full' | 'group' | 'buffered' | 'none';

/** Faults that a system plants in itself when asked: the simulation must find each. */
export const PLANTS = [
  'sync-left-out', // a full commit does not sync
  'slot-reused-early', // what the last complete checkpoint names is overwritten
  'frame-published-early', // recovery applies frames that no complete commit covers
  'free-space-wrong', // a used slot is marked free, or a free one used
  'checksum-unchecked', // a frame or page with a wrong checksum is taken for whole
  'map-entry-unchecked', // a page is not compared with the checksum in its map entry
] as const;
export type Plant = (typeof PLANTS)[number];

/** Where a system is: a checkpoint counts from its start to its end, in slices or not. */
export type Place = 'plain' | 'checkpoint' | 'compact' | 'backup';

export interface SystemRecord {
  /** Small whole number, ≥ 0; indexed. */
  readonly mark: number;
  readonly body: Uint8Array;
}

/** A bucket has no index. */
export type CollectionKind = 'integer' | 'key' | 'bucket';

export interface SystemOptions {
  readonly pageBytes: number;
  readonly memoryBytes: number;
  readonly tree: 'b+tree' | 'b-tree';
  /** Children of a node at most; 0: what fits. */
  readonly order: number;
  /** Delay of `buffered` commits, milliseconds: 0, or longer than a life. */
  readonly delayMs: number;
  /** Commits of level `none` are written one by one. */
  readonly writeEach: boolean;
  readonly plant: Plant | undefined;
}

/** Reads of the newest state, the open transaction included, or of a snapshot. */
export interface SystemReads {
  get(collection: string, key: number): SystemRecord | undefined;
  /** All records in order of their keys. */
  scan(collection: string): Iterable<readonly [key: number, record: SystemRecord]>;
  /** All index entries in order of mark, then key. */
  scanIndex(collection: string): Iterable<readonly [mark: number, key: number]>;
  /** Names, kinds and whether there is an index. */
  collections(): { name: string; kind: CollectionKind; indexed: boolean }[];
}

export interface SystemSnapshot extends SystemReads {
  close(): void;
}

export interface System extends SystemReads {
  // Transactions: these, and changes of the schema, stand between `begin` and its end.
  begin(level: Level): void;
  put(collection: string, key: number, record: SystemRecord): void;
  delete(collection: string, key: number): void;
  /**
   * Puts many records as one bulk load; when it throws none of them is there, and the transaction
   * goes on. Systems without bulk loads leave it out.
   */
  load?(
    collection: string,
    records: Iterable<readonly [key: number, record: SystemRecord]>,
    onDuplicate: 'replace' | 'keep',
  ): void;
  /** Answers the savepoint's number: 1, 2, ... as they nest. */
  savepoint(): number;
  /** Takes back what came after the savepoint; it and those inside it are gone. */
  rollbackTo(savepoint: number): void;
  /** Commits at the level that `begin` was told. */
  commit(): void;
  rollback(): void;
  readonly inTransaction: boolean;

  createCollection(name: string, kind: CollectionKind): void;
  dropCollection(name: string): void;
  createIndex(collection: string): void;
  dropIndex(collection: string): void;

  snapshot(): SystemSnapshot;

  /** Makes all commits so far durable, whatever their level (`db.synced()`, driven to its end). */
  synced(): void;
  /** Lets the delay of `buffered` and `group` pass: they are written and synced; `none` is not. */
  elapse(): void;

  /** Starts a checkpoint or goes on with one by a step; answers whether it is complete. */
  checkpointStep(): boolean;
  /** Likewise for `compact`. */
  compactStep(): boolean;
  /**
   * Likewise for a backup to a path of the same disk, of the state at its first step; true when
   * the file at `target` is complete and durable.
   */
  backupStep(target: string): boolean;

  /** The whole-file check: a sentence for each thing found wrong. */
  check(): string[];
  place(): Place;
  /** Whether pages were spilled by the open transaction or by commits since the last checkpoint. */
  hasSpilled(): boolean;
  /** Whether the log has begun, and with it what is kept for a disk that fills up. */
  hasBegunLog(): boolean;
  close(): void;
  /** The process is no more, its disk answers nothing: frees what the test's process holds. */
  abandon?(): void;
}

export interface SystemFactory {
  readonly name: string;
  /** Whether space is kept for deletes when the disk is full (STORAGE rule 14). */
  readonly deletesOnFullDisk?: boolean;
  /** Runs something with a fault planted; systems that plant by themselves leave it out. */
  withPlant?<T>(plant: Plant, run: () => T): T;
  /** Opens or creates; recovers first when the last process did not close. */
  open(disk: FileSystem, path: string, options: SystemOptions): System;
}
