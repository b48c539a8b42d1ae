/**
 * An open database: the one place that joins questions and data, owns the clocks and everything
 * asynchronous, and drives long operations.
 *
 * Line 6 of the strata. One writer at a time:
 *
 *   idle ── transaction, begin ──> writing here ── commit, rollback ──> idle
 *   idle ── transactionAsync ────> writing in a task ── its end ──────> next in the queue, or idle
 *
 * Handles taken from the database see the newest commit, or the open synchronous transaction;
 * handles taken from an asynchronous transaction see that one; handles of a snapshot its commit.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { basename, dirname, join } from 'node:path';
import { type DatabaseError, failure, LimitError } from './errors.ts';
import type { KeyValue, KeyValueOptions } from './kv/key-value.ts';
import { Collations } from './model/collation.ts';
import {
  LATEST,
  type PointBucket,
  type PointCollection,
  type SourceView,
  TRANSACTION,
} from './model/source.ts';
import type { Value } from './model/value.ts';
import type { WorkSpace } from './model/work.ts';
import { Collection } from './objects/collection.ts';
import type { CollectionSettings, IndexSetting } from './objects/declaration.ts';
import { Session } from './objects/session.ts';
import { RecordedScope } from './recording/recorded-handles.ts';
import { Recorder, type RecordingReport, type RecordOptions } from './recording/recorder.ts';
import { headerOf, tracedCollections } from './recording/traced-store.ts';
import type { FieldsInput, KeyInput, PathOf, RecordOf } from './objects/types.ts';
import { levelOf, milliseconds, type OpenOptions, settingsOf } from './options.ts';
import { requireFunction, requireNames } from './base/arguments.ts';
import { ACCOUNTS, type Account } from './base/ledger.ts';
import { runSteps } from './base/steps.ts';
import { backupSteps, type CheckReport, checkSteps } from './maintenance.ts';
import { type CollectionOf, RootScope, Snapshot, TaskScope, Transaction } from './scopes.ts';
import { inSlices, type SliceOptions } from './slices.ts';
import { PlanCache } from './query/plan-cache.ts';
import { compactFile } from './storage/compact.ts';
import { MemoryFileSystem } from './storage/memory-file.ts';
import { NodeFileSystem } from './storage/node-file.ts';
import { type FileSystem } from './storage/file.ts';
import { type Durability, Storage, type StorageCounters } from './storage/storage.ts';
import { EmbeddedSource } from './store/embedded-source.ts';
import { StorePointAccess } from './store/point-access.ts';
import { Store } from './store/store.ts';
import { LedgerWorkSpace } from './store/work-space.ts';

/** Options of one transaction. */
export interface TransactionOptions {
  /** What its commit promises; default as the database was opened. */
  readonly durability?: Durability;
}

/** Options of an asynchronous transaction. */
export interface AsyncTransactionOptions extends TransactionOptions {
  /** Milliseconds to wait for the writers before; default no limit. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** Bytes of memory by what they are for. */
export interface MemoryReport {
  readonly budgetBytes: number;
  readonly usedBytes: number;
  readonly peakBytes: number;
  readonly accounts: Readonly<Record<Account, number>>;
  /** Bytes of the files of a `:memory:` database; they are not in the budget. */
  readonly memoryFileBytes: number;
}

/** What the storage has done since it was opened, and what it holds. */
export interface StatsReport extends StorageCounters {
  readonly pagesRead: number;
  readonly pagesWritten: number;
  readonly writes: number;
  readonly logBytes: number;
  readonly logWrites: number;
  readonly pagesSpilled: number;
  readonly pagesInUse: number;
  readonly slots: number;
  readonly freeSlots: number;
  readonly commitId: number;
  readonly versions: number;
  /** Puts that found the same bytes there already, and wrote nothing. */
  readonly putsElided: number;
  /** Commits at which snapshots are open, the running checkpoint among them. */
  readonly snapshots: readonly number[];
  /** The trace that is written; absent unless `record` was given. */
  readonly recording?: RecordingReport;
}

/** The options of `open` that are fixed in a file, or are defaults in it. */
export type FileLayoutOptions = Required<
  Pick<OpenOptions, 'pageSize' | 'extentSize' | 'clusterSize' | 'index'>
>;

/** Where sorts spill: beside the file, or where temporary files go when that is only read. */
function spillPath(storage: Storage, path: string): string {
  const name = `${basename(path)}-spill-${process.pid}-${++spillNames}`;
  if (path === ':memory:') return 'spill';
  return join(storage.readOnly ? temporaryFolder() : dirname(storage.path), name);
}
let spillNames = 0;

function temporaryFolder(): string {
  return process.getBuiltinModule('node:os').tmpdir(); // opening does without
}

const open_ = new Set<Database>();

/** Brings waiting commits of every open database to its file when the process exits. */
function flushAll(): void {
  for (const database of open_) database.flushAtExit();
}

/** A database; made by `open`. */
export class Database {
  readonly path: string;
  readonly #storage: Storage;
  readonly #store: Store;
  readonly #points: StorePointAccess;
  #source: EmbeddedSource | undefined;
  #work: LedgerWorkSpace | undefined;
  readonly #durability: Durability;
  readonly #snapshotAgeMsMax: number;
  readonly #memoryFiles: MemoryFileSystem | undefined;
  readonly #fs: FileSystem;
  readonly #delayMs: number;
  readonly #scope: RootScope;
  #recorder: Recorder | undefined;
  #plans: PlanCache | undefined;
  #isClosed = false;
  /** Waiting asynchronous writers, first come first served. */
  readonly #queue: (() => void)[] = [];
  /** An asynchronous writer has its turn. */
  #isTaken = false;
  readonly #inTask = new AsyncLocalStorage<Database>();
  #syncWaiters: { resolve: () => void; reject: (cause: unknown) => void }[] = [];
  #immediate: NodeJS.Immediate | undefined;
  #timer: NodeJS.Timeout | undefined;
  readonly #snapshots = new Map<Snapshot, number>();

  /** Not for use outside: call `open`. */
  constructor(path: string, options: OpenOptions, fs?: FileSystem) {
    const settings = settingsOf(options);
    if (typeof path !== 'string' || path === '') {
      throw failure('usage.argument', 'path is a text, the name of a file or ":memory:"');
    }
    this.path = path;
    const isMemory = path === ':memory:';
    this.#memoryFiles = isMemory && fs === undefined ? new MemoryFileSystem() : undefined;
    this.#fs = fs ?? this.#memoryFiles ?? new NodeFileSystem();
    this.#durability = settings.durability;
    this.#snapshotAgeMsMax = settings.snapshotAgeMsMax;
    this.#delayMs = milliseconds('delayMs', options.delayMs) ?? 250;
    const collations = new Collations();
    for (const [name, fold] of Object.entries(options.collations ?? {})) {
      collations.register(name, fold);
    }
    this.#storage = Storage.open({
      fs: this.#fs,
      path: isMemory ? 'memory' : path,
      memoryBytes: settings.memoryBytes,
      refuseSmallMemory: true,
      layout: settings.layout,
      named: settings.named,
      get fileId() {
        return crypto.getRandomValues(new Uint8Array(16)); // loading it takes milliseconds
      },
      readOnly: options.readOnly ?? false,
      lastCheckpoint: options.lastCheckpoint ?? false,
      delayMs: this.#delayMs,
      writeEach: options.writeEach ?? false,
      now: () => performance.now(),
    });
    try {
      this.#store = openStore(this.#storage, collations, () => this.work);
    } catch (cause) {
      this.#storage.abandon();
      throw cause;
    }
    this.#points = new StorePointAccess(this.#store);
    this.#scope = new RootScope(this);
    if (options.record !== undefined) this.#record(options.record);
    if (open_.size === 0) process.on('exit', flushAll);
    open_.add(this);
  }

  get isOpen(): boolean {
    return !this.#isClosed;
  }

  /** Begins to write a trace; if that cannot be, the database is not opened. */
  #record(options: string | RecordOptions): void {
    try {
      this.#recorder = new Recorder(options, {
        header: () => headerOf(this),
        collection: (name) => tracedCollections(this).find((each) => each.name === name),
      });
    } catch (cause) {
      this.#work?.close();
      this.#storage.abandon();
      throw cause;
    }
    this.#scope.recording = new RecordedScope(this.#recorder, {});
  }

  /** What writes down the handles of a transaction or snapshot. */
  #recordedScope(kind: 'tx' | 'snap'): RecordedScope | undefined {
    const recorder = this.#recorder;
    return recorder && new RecordedScope(recorder, { [kind]: recorder.newId() });
  }

  /** The layout that the file was made with, as `open` takes it for another file. */
  get layout(): FileLayoutOptions {
    const { pageBytes, extentBytes, clusterBytes, tree, order } = this.#storage.header.layout;
    const index = { tree, order };
    return { pageSize: pageBytes, extentSize: extentBytes, clusterSize: clusterBytes, index };
  }

  /**
   * Returns a handle of a key-value bucket, which is made by the first write if it is missing.
   *
   * @throws {SchemaError} schema.mismatch when the bucket has other kinds than asked for.
   * @example
   * const ages = db.kv('ages', { values: 'int' });
   * ages.put('Ada', 36);
   * ages.get('Ada'); // 36
   */
  kv<K extends Value = string, V extends Value = Value>(
    name: string,
    options?: KeyValueOptions,
  ): KeyValue<K, V> {
    this.refuseIfUnusable();
    return this.#scope.keyValue<K, V>(name, options);
  }

  /**
   * Returns a handle of a collection of objects, typed by its declaration. What the file lacks of
   * it, the collection, optional fields, indexes, is added at once, in a transaction of its own
   * unless one is open.
   *
   * @throws {SchemaError} schema.mismatch when the file holds other types, and `migrate` is not
   * given.
   * @example
   * const people = db.collection('people', {
   *   fields: { id: 'int', email: 'text', region: 'int' },
   *   key: 'id',
   *   unique: ['email'],
   *   index: ['region'],
   * });
   * people.insert({ id: 1, email: 'a@b.example', region: 3 });
   * people.where({ region: 3 }).toArray();
   */
  collection<
    const F extends FieldsInput,
    const K extends KeyInput = undefined,
    const U extends readonly IndexSetting<PathOf<RecordOf<F, K>>>[] = readonly [],
    const D extends { readonly [N in keyof RecordOf<F, K>]?: unknown } = {},
  >(name: string, settings: CollectionSettings<F, K, U, D>): CollectionOf<F, K, U, D> {
    this.refuseIfUnusable();
    return this.#scope.objects(name, settings) as never;
  }

  /**
   * Returns a handle of a collection as the file has it, for tools that know no declaration;
   * `undefined` if there is none of the name.
   */
  storedCollection(name: string): Collection | undefined {
    this.refuseIfUnusable();
    return Collection.stored(this.#scope, name);
  }

  /**
   * Begins a unit of work: objects by identity, changed ones saved at its commit, within the memory
   * budget.
   */
  session(): Session {
    this.refuseIfUnusable();
    const session = new Session(this.#scope);
    return this.#scope.recording?.session(session, this.#scope) ?? session;
  }

  // ---- transactions

  /**
   * Runs a function in a transaction: everything it writes is committed when it returns, and
   * nothing of it when it throws. Transactions do not nest.
   *
   * @throws {ConflictError} conflict.writer_busy while an asynchronous transaction is open.
   */
  transaction<T>(run: (tx: Transaction) => T, options: TransactionOptions = {}): T {
    requireFunction('transaction', run);
    const tx = this.begin(options);
    let result: T;
    try {
      result = run(tx);
      if (result instanceof Promise) {
        result.catch(() => undefined); // it is the error below that the caller gets
        throw failure('usage.transaction', 'the function of a transaction answered a promise', {
          hint: 'Use transactionAsync for functions that wait.',
        });
      }
    } catch (cause) {
      tx.rollback();
      throw cause;
    }
    if (tx.isOpen) tx.commit();
    return result;
  }

  /** Begins a transaction that the caller ends with `commit` or `rollback`. */
  begin(options: TransactionOptions = {}): Transaction {
    requireNames('a transaction', options, ['durability']);
    const level = levelOf(options.durability) ?? this.#durability;
    this.refuseIfUnusable();
    this.#refuseBusy();
    this.#store.begin();
    this.#scope.view = TRANSACTION;
    const tx = new Transaction(this.#scope, this.#store, (commit) => this.#end(commit, level));
    return this.#scope.recording?.transaction(tx) ?? tx;
  }

  #refuseBusy(): void {
    if (!this.#isTaken && !this.#store.transaction.isOpen) return;
    if (!this.#isTaken) throw failure('usage.transaction', 'a transaction is open already');
    throw failure('conflict.writer_busy', 'an asynchronous transaction of this process is writing');
  }

  /** Ends the open transaction; a commit that fails rolls back. */
  #end(commit: boolean, level: Durability): void {
    if (this.#isClosed) return; // closing has rolled back
    try {
      if (!commit) {
        this.#store.rollback();
        return;
      }
      try {
        this.#store.commit(level);
      } catch (cause) {
        this.#store.rollback();
        throw cause;
      }
    } finally {
      this.#scope.view = LATEST;
      this.#admitNext();
    }
    this.#afterCommit(level);
  }

  /**
   * Runs an asynchronous function in a transaction, after the writers before it. Only handles
   * taken from `tx` write in it.
   *
   * @throws {LimitError} limit.time, limit.cancelled while it waits for its turn.
   * @throws {UsageError} usage.transaction when it is called inside another.
   */
  async transactionAsync<T>(
    run: (tx: Transaction) => Promise<T> | T,
    options: AsyncTransactionOptions = {},
  ): Promise<T> {
    requireFunction('transactionAsync', run);
    requireNames('a transaction', options, ['durability', 'timeoutMs', 'signal']);
    const level = levelOf(options.durability) ?? this.#durability;
    this.refuseIfUnusable();
    if (this.#inTask.getStore() === this) {
      throw failure('usage.transaction', 'an asynchronous transaction is begun inside another');
    }
    const result = await this.#inTurn(run, level, options);
    if (level === 'group') await this.synced(); // the next writer need not wait for that
    return result;
  }

  async #inTurn<T>(
    run: (tx: Transaction) => Promise<T> | T,
    level: Durability,
    options: AsyncTransactionOptions,
  ): Promise<T> {
    await this.#turn(options);
    let task: TaskScope | undefined;
    try {
      this.refuseIfUnusable();
      this.#store.begin();
      task = new TaskScope(this);
      const tx = new Transaction(task, this.#store, (commit) => this.#end(commit, level));
      task.recording = this.#recordedScope('tx');
      return await this.#runTask(run, task.recording?.transaction(tx) ?? tx);
    } finally {
      if (task !== undefined) task.isOpen = false;
      this.#isTaken = false;
      this.#admitNext();
    }
  }

  async #runTask<T>(run: (tx: Transaction) => Promise<T> | T, tx: Transaction): Promise<T> {
    try {
      const result = await this.#inTask.run(this, () => run(tx));
      if (tx.isOpen) tx.commit();
      return result;
    } catch (cause) {
      if (tx.isOpen) tx.rollback();
      throw cause;
    }
  }

  /** Waits for the writers before; the turn is the caller's until it gives it on. */
  #turn(options: AsyncTransactionOptions): Promise<void> {
    if (options.signal?.aborted === true) {
      throw failure('limit.cancelled', 'writing was cancelled before it began');
    }
    if (!this.#isTaken && !this.#store.transaction.isOpen) {
      this.#isTaken = true;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const leave = (error: DatabaseError): void => {
        const place = this.#queue.indexOf(enter);
        if (place < 0) return;
        this.#queue.splice(place, 1);
        reject(error);
      };
      const limit = milliseconds('timeoutMs', options.timeoutMs);
      const timer =
        limit === undefined
          ? undefined
          : setTimeout(() => {
              leave(failure('limit.time', `no turn to write within ${limit} ms`));
            }, limit);
      const onAbort = (): void =>
        leave(failure('limit.cancelled', 'waiting to write was cancelled'));
      const enter = (): void => {
        clearTimeout(timer);
        options.signal?.removeEventListener('abort', onAbort);
        resolve();
      };
      options.signal?.addEventListener('abort', onAbort, { once: true });
      this.#queue.push(enter);
    });
  }

  /** Gives the turn to the next asynchronous writer. */
  #admitNext(): void {
    if (this.#isTaken || this.#queue.length === 0) return;
    this.#isTaken = true;
    this.#queue.shift()!();
  }

  // ---- snapshots

  /** Takes a snapshot of the newest commit; what it reads never changes. Close it when done. */
  snapshot(): Snapshot {
    this.refuseIfUnusable();
    const commitId = this.#storage.openLendingSnapshot();
    const recording = this.#recordedScope('snap');
    const close = (): void => {
      if (this.#snapshots.delete(snapshot)) this.#storage.closeLendingSnapshot(commitId);
    };
    const snapshot = new Snapshot(this, commitId, close, recording);
    this.#snapshots.set(snapshot, performance.now());
    return recording?.snapshot(snapshot) ?? snapshot;
  }

  /** Closes snapshots from under readers that keep them beyond the age limit. */
  #expireSnapshots(): void {
    if (this.#snapshotAgeMsMax === Infinity) return;
    const oldest = performance.now() - this.#snapshotAgeMsMax;
    for (const [snapshot, since] of this.#snapshots) if (since < oldest) snapshot.expire();
  }

  // ---- durability

  /** Resolves when every commit so far is synced. */
  synced(): Promise<void> {
    this.refuseIfUnusable();
    if (!this.#storage.hasUnsynced) return Promise.resolve();
    return new Promise((resolve, reject) => {
      this.#syncWaiters.push({ resolve, reject });
      this.#scheduleSync();
    });
  }

  /** Writes and syncs every commit so far, whatever its level. */
  sync(): void {
    this.refuseIfUnusable();
    this.#storage.flush();
    this.#tellSynced(undefined);
  }

  #tellSynced(cause: unknown): void {
    const waiters = this.#syncWaiters;
    this.#syncWaiters = [];
    for (const waiter of waiters) {
      if (cause === undefined) waiter.resolve();
      else waiter.reject(cause);
    }
  }

  #scheduleSync(): void {
    this.#immediate ??= setImmediate(() => {
      this.#immediate = undefined;
      this.#syncNow();
    });
  }

  #syncNow(): void {
    if (this.#isClosed) return;
    try {
      this.#storage.flush();
      this.#tellSynced(undefined);
    } catch (cause) {
      this.#tellSynced(cause); // the storage is latched: every call says so from now on
    }
  }

  #afterCommit(level: Durability): void {
    if (this.#snapshots.size > 0) this.#expireSnapshots();
    if (level === 'group') this.#scheduleSync();
    else if (level === 'buffered' || this.#storage.checkpointRunning) this.#startTimer();
  }

  /** One timer, which keeps no process alive: late commits, and checkpoints in idle time. */
  #startTimer(): void {
    if (this.#timer !== undefined) return;
    this.#timer = setTimeout(() => this.#onTimer(), this.#delayMs);
    this.#timer.unref();
  }

  #onTimer(): void {
    this.#timer = undefined;
    if (this.#isClosed || this.#storage.failed !== undefined) return;
    this.#syncNow();
    if (this.#storage.idle()) setImmediate(() => this.#onTimer()).unref();
  }

  /** Makes everything committed the newest checkpoint of the file, which empties the log. */
  checkpoint(): void {
    this.refuseIfUnusable();
    this.#storage.checkpoint();
  }

  // ---- reports

  /**
   * Checks the whole file: every page, its owner, every index against its records. Makes a
   * checkpoint first; needs that no transaction is open.
   */
  check(): CheckReport {
    this.refuseIfUnusable();
    this.#refuseBusy();
    const faults: DatabaseError[] = [];
    const storage = this.#storage;
    if (!storage.readOnly) storage.checkpoint();
    storage.isChecking = true;
    try {
      const report = (fault: DatabaseError): void => {
        if (fault instanceof LimitError) throw fault; // that says nothing about the file
        faults.push(fault);
      };
      runSteps(checkSteps(storage, this.#store, report));
    } finally {
      storage.isChecking = false;
    }
    return { faults, pages: storage.map.root.usedCount, slots: storage.slots.count };
  }

  /** Returns bytes of memory by what they are for. */
  memory(): MemoryReport {
    const { ledger } = this.#storage;
    return {
      budgetBytes: ledger.budgetBytes,
      usedBytes: ledger.usedBytes,
      peakBytes: ledger.peakBytes,
      accounts: Object.fromEntries(ACCOUNTS.map((a) => [a, ledger.bytesOf(a)])) as Record<
        Account,
        number
      >,
      memoryFileBytes: this.#memoryFiles?.bytes ?? 0,
    };
  }

  /** Returns counters of the storage since it was opened. */
  stats(): StatsReport {
    const s = this.#storage;
    return {
      ...s.counters,
      pagesRead: s.file.reads,
      pagesWritten: s.file.pagesWritten,
      writes: s.file.writes,
      logBytes: s.log.bytesAppended,
      logWrites: s.log.writes,
      pagesSpilled: s.spilledPages,
      pagesInUse: s.map.root.usedCount,
      slots: s.slots.count,
      freeSlots: s.slots.freeCount,
      commitId: s.commitId,
      versions: s.versions.count,
      putsElided: this.#store.transaction.elidedPuts,
      snapshots: s.versions.commits,
      ...(this.#recorder !== undefined && { recording: this.#recorder.report }),
    };
  }

  /**
   * Copies the newest commit into a new file at a path, which must be free; writes go on meanwhile
   * in the asynchronous form. Returns the number of pages.
   */
  backup(path: string): number {
    this.refuseIfUnusable();
    return runSteps(backupSteps(this.#storage, this.#fs, path));
  }

  /** As `backup`, in slices between which other work is done. */
  backupAsync(path: string, options: SliceOptions = {}): Promise<number> {
    requireNames('a backup', options, ['signal', 'onSlice']);
    this.refuseIfUnusable();
    return inSlices(backupSteps(this.#storage, this.#fs, path), options);
  }

  /** Moves pages into free space and cuts the file; returns the bytes it became smaller by. */
  compact(): number {
    this.refuseIfUnusable();
    this.#refuseBusy();
    if (this.#storage.readOnly) throw failure('usage.read_only', `${this.path} is read only`);
    return runSteps(compactFile(this.#storage));
  }

  /** As `compact`, in slices between which other work is done; holds the writers' turn. */
  async compactAsync(
    options: SliceOptions & Omit<AsyncTransactionOptions, 'durability'> = {},
  ): Promise<number> {
    requireNames('a compaction', options, ['signal', 'onSlice', 'timeoutMs']);
    this.refuseIfUnusable();
    if (this.#storage.readOnly) throw failure('usage.read_only', `${this.path} is read only`);
    await this.#turn(options);
    try {
      return await inSlices(compactFile(this.#storage), options);
    } finally {
      this.#isTaken = false;
      this.#admitNext();
    }
  }

  // ---- the end

  /** Closes the database: an open transaction is rolled back, every commit is in the file. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    open_.delete(this);
    if (open_.size === 0) process.off('exit', flushAll);
    clearTimeout(this.#timer);
    if (this.#immediate !== undefined) clearImmediate(this.#immediate);
    if (this.#store.transaction.isOpen) this.#store.rollback();
    this.#recorder?.close();
    this.#work?.close();
    this.#plans?.clear();
    try {
      this.#storage.close();
    } catch (cause) {
      this.#tellSynced(cause);
      throw cause;
    } finally {
      this.#store.dispose();
      for (const enter of this.#queue.splice(0)) enter(); // to hear that it is closed
    }
    this.#tellSynced(undefined);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /**
   * Moves a read-only database on to the newest checkpoint of its writer; returns whether there
   * was a newer one. Snapshots and iterations of the older one end with
   * `conflict.snapshot_expired`.
   */
  refresh(): boolean {
    this.refuseIfUnusable();
    if (!this.#storage.readOnly || !this.#storage.refresh()) return false;
    this.#store.refresh();
    return true;
  }

  // ---- for the scopes below

  /** Whether a read that failed in a view may be made again, as `Scope.mayRepeat`. */
  mayRepeat(cause: unknown, view: SourceView): boolean {
    const { code } = cause as DatabaseError;
    const storage = this.#storage;
    if (!storage.readOnly) return false;
    if (code !== 'corrupt.page' && code !== 'conflict.snapshot_expired') return false;
    if (view === LATEST) return this.refresh();
    if (view === storage.commitId && !storage.hasMovedOn()) return false;
    throw failure(
      'conflict.snapshot_expired',
      `the writer of ${this.path} completed a checkpoint after the one that is read here`,
      { cause, detail: { path: this.path, commitId: view } },
    );
  }

  refuseIfUnusable(): void {
    if (this.#isClosed) throw failure('usage.closed', `${this.path} is closed`);
    if (this.#storage.failed !== undefined) this.#storage.refuseIfFailed();
  }

  get store(): Store {
    return this.#store;
  }

  get storage(): Storage {
    return this.#storage;
  }

  bucket(name: string): PointBucket {
    return this.#points.bucket(name);
  }

  points(name: string): PointCollection {
    return this.#points.collection(name);
  }

  /** Made by the first question, as `work`: a `get` of a key needs neither. */
  get source(): EmbeddedSource {
    return (this.#source ??= new EmbeddedSource(this.#store));
  }

  /** Plans of questions by their shapes. */
  get plans(): PlanCache {
    return (this.#plans ??= new PlanCache(this.#storage.ledger));
  }

  get work(): LedgerWorkSpace {
    return (this.#work ??= this.#makeWork());
  }

  #makeWork(): LedgerWorkSpace {
    const path = spillPath(this.#storage, this.path);
    return new LedgerWorkSpace(this.#storage.ledger, this.#fs, path);
  }

  /** Begins the transaction of one write; answers false if the caller's is open already. */
  beginOwnWrite(): boolean {
    this.refuseIfUnusable();
    if (this.#isTaken) this.#refuseBusy();
    if (this.#store.transaction.isOpen) return false;
    this.#store.begin();
    this.#scope.view = TRANSACTION;
    return true;
  }

  endOwnWrite(commit: boolean): void {
    this.#end(commit, this.#durability);
  }

  /** Called when the process exits: what waits is written, as far as it can be. */
  flushAtExit(): void {
    this.#recorder?.flush();
    try {
      if (!this.#isClosed && !this.#storage.readOnly) this.#storage.flush();
    } catch {
      return; // recovery keeps what was promised; an exit handler has nobody to tell
    }
  }
}

/** Lays an empty file out and opens the store. */
function openStore(storage: Storage, collations: Collations, work: () => WorkSpace): Store {
  if (storage.nextPage === 1 && !storage.readOnly) {
    storage.begin();
    Store.create(storage);
    storage.commit('full');
  }
  return new Store(storage, { collations, ledger: storage.ledger, work });
}

/**
 * Opens a database file, making it if there is none; `':memory:'` opens one that is in memory only.
 *
 * @throws {StorageError} storage.locked, storage.not_a_database, storage.future_format,
 *   storage.permission, storage.recovery_needed, …
 * @throws {UsageError} usage.argument, usage.layout
 * @example
 * const db = open('shop.mono', { memory: '64 MiB' });
 * const prices = db.kv('prices', { values: 'int' });
 * db.transaction(() => {
 *   prices.put('apple', 30);
 *   prices.put('pear', 45);
 * });
 * db.close();
 */
export function open(path: string, options: OpenOptions = {}): Database {
  return new Database(path, options);
}
