/**
 * Where handles come from and what they see: the database, a transaction, a snapshot. Line 6, part
 * of `database.ts`, which makes them.
 */
import { runSteps } from './base/steps.ts';
import type { Ledger } from './base/ledger.ts';
import type { Database } from './database.ts';
import { failure } from './errors.ts';
import { requireLoadOptions, runLoad, runLoadAsync } from './bulk-run.ts';
import { checkedChange, exactRecords, recordCount } from './exact-records.ts';
import { KeyValue, type KeyValueOptions, type LoadRequest } from './kv/key-value.ts';
import type { BulkLoadAsyncOptions, BulkLoadOptions, BulkReport } from './model/bulk.ts';
import type { RecordFields, RecordInput } from './model/record.ts';
import type {
  CollectionDefinition,
  IndexDefinition,
  SchemaChange,
  TreeLayout,
} from './model/schema.ts';
import {
  LATEST,
  type PointBucket,
  type PointCollection,
  type RecordSource,
  type SchemaView,
  type SourceView,
  TRANSACTION,
} from './model/source.ts';
import type { Value } from './model/value.ts';
import type { WorkSpace } from './model/work.ts';
import { Collection } from './objects/collection.ts';
import type { CollectionSettings, IndexSetting } from './objects/declaration.ts';
import type { ObjectScope } from './objects/scope.ts';
import type {
  FieldsInput,
  KeyInput,
  KeyOf,
  PathOf,
  RecordInputOf,
  RecordOf,
  UniqueOf,
} from './objects/types.ts';
import type { PlanCache } from './query/plan-cache.ts';
import { type RecordedScope, unrecorded } from './recording/recorded-handles.ts';
import { Bucket } from './store/bucket.ts';
import { schemaChange } from './store/schema-changes.ts';
import type { Store } from './store/store.ts';

/** The handle of a collection that is declared with fields, key, unique indexes and defaults. */
export type CollectionOf<F, K, U, D> = Collection<
  RecordOf<F, K>,
  RecordInputOf<F, K, D>,
  KeyOf<RecordOf<F, K>, K>,
  UniqueOf<RecordOf<F, K>, U, K>
>;

/** How a transaction or snapshot gives handles of collections. */
interface CollectionMethod {
  /** As another handle of the collection, in this scope. */
  <R, I, Id, U>(handle: Collection<R, I, Id, U>): Collection<R, I, Id, U>;
  /** The collection as the file has it, under the declaration that it was made with. */
  (name: string): Collection<RecordFields, RecordInput>;
  <
    const F extends FieldsInput,
    const K extends KeyInput = undefined,
    const U extends readonly IndexSetting<PathOf<RecordOf<F, K>>>[] = readonly [],
    const D extends { readonly [N in keyof RecordOf<F, K>]?: unknown } = {},
  >(
    name: string,
    settings: CollectionSettings<F, K, U, D>,
  ): CollectionOf<F, K, U, D>;
}

/** What all scopes share. */
export abstract class DatabaseScope implements ObjectScope {
  protected readonly database: Database;
  readonly ledger: Ledger;
  /** Writes down what handles of this scope are asked; absent unless `record` was given. */
  recording: RecordedScope | undefined;

  constructor(database: Database) {
    this.database = database;
    this.ledger = database.storage.ledger;
  }

  /** A handle of a bucket in this scope. */
  keyValue<K extends Value, V extends Value>(
    name: string,
    options: KeyValueOptions | undefined,
  ): KeyValue<K, V> {
    const handle = new KeyValue<K, V>(this, name, options);
    return this.recording === undefined ? handle : this.recording.keyValue(handle);
  }

  /** A handle of a collection in this scope, by name and declaration or as another handle. */
  objects(of: unknown, settings: unknown): Collection {
    const { recording } = this;
    const other = recording === undefined ? of : unrecorded(of);
    const handle =
      other instanceof Collection
        ? Collection.again(this, other)
        : settings === undefined
          ? Collection.existing(this, of as string)
          : Collection.declared(this, of as string, settings as CollectionSettings);
    return recording === undefined ? handle : recording.collection(handle);
  }

  get layoutDefaults(): TreeLayout {
    const { tree, order, clusterBytes } = this.database.storage.header.layout;
    return { tree, order, clusterSize: clusterBytes };
  }

  get isReadOnly(): boolean {
    return this.database.storage.readOnly;
  }

  get source(): RecordSource<never> {
    return this.database.source;
  }

  get work(): WorkSpace {
    return this.database.work;
  }

  collection(name: string): PointCollection {
    return this.database.points(name);
  }

  indexes(name: string): readonly IndexDefinition[] {
    const found = this.database.store.schema(this.view).find(name, this.view);
    if (found === undefined || found instanceof Bucket) return [];
    return found.indexes.map((index) => index.definition);
  }

  get pagesRead(): number {
    return this.database.storage.file.reads;
  }

  get plans(): PlanCache {
    return this.database.plans;
  }

  version(name: string): object | undefined {
    return this.database.store.schema(this.view).find(name, this.view);
  }

  changeSchema(change: SchemaChange): void {
    runSteps(schemaChange(this.database.store, change));
  }

  /** As `exactRecords` of a snapshot. */
  exactRecords(name: string): Generator<RecordFields, void, undefined> {
    this.check();
    return exactRecords(this.database.store, this, name);
  }

  recordCount(name: string): number {
    this.check();
    return recordCount(this.database.store, name, this.view);
  }

  schema(): SchemaView {
    this.check();
    return this.source.schema(this.view);
  }

  abstract readonly view: SourceView;
  abstract check(): void;
  abstract beginWrite(): boolean;

  commitWrite(): void {
    this.database.endOwnWrite(true);
  }

  rollbackWrite(): void {
    this.database.endOwnWrite(false);
  }

  statement(run: () => void): void {
    this.database.store.statement(run);
  }

  mayRepeat(cause: unknown): boolean {
    return this.database.mayRepeat(cause, this.view);
  }

  hold(): SourceView {
    return this.view === LATEST ? this.database.storage.openSnapshot() : this.view;
  }

  release(view: SourceView): void {
    if (view < LATEST && this.view >= LATEST) this.database.storage.closeSnapshot(view);
  }

  load<T>(request: LoadRequest<T>, source: Iterable<T>, options: BulkLoadOptions): BulkReport {
    requireLoadOptions(options, false);
    return runLoad(this.database.store, request.name, source, request.take, options);
  }

  async loadAsync<T>(
    request: LoadRequest<T>,
    source: Iterable<T> | AsyncIterable<T> | ReadableStream<T>,
    options: BulkLoadAsyncOptions,
    prepare: (scope: this) => void,
  ): Promise<BulkReport> {
    requireLoadOptions(options, true);
    const { store } = this.database;
    const load = (scope: DatabaseScope): Promise<BulkReport> => {
      prepare(scope as this);
      return runLoadAsync(store, request.name, source, request.take, options);
    };
    this.check();
    if (this.view === TRANSACTION) return await load(this);
    if (this.view !== LATEST) this.beginWrite(); // a snapshot: refuses
    const { signal } = options;
    return await this.database.transactionAsync(
      (tx) => load(Transaction.scopeOf(tx)),
      signal === undefined ? {} : { signal },
    );
  }

  bucket(name: string): PointBucket {
    return this.database.bucket(name);
  }

  definition(name: string): CollectionDefinition | undefined {
    return this.database.store.schema(this.view).find(name, this.view)?.definition;
  }

  define(definition: CollectionDefinition): void {
    this.changeSchema({ change: 'createCollection', definition });
  }
}

/** Handles of the database itself. */
export class RootScope extends DatabaseScope {
  override view: SourceView = LATEST;

  check(): void {
    this.database.refuseIfUnusable();
  }

  beginWrite(): boolean {
    return this.database.beginOwnWrite();
  }
}

/** Handles of an asynchronous transaction. */
export class TaskScope extends DatabaseScope {
  override readonly view: SourceView = TRANSACTION;
  isOpen = true;

  check(): void {
    this.database.refuseIfUnusable();
    if (!this.isOpen) throw failure('usage.closed', 'the transaction has ended');
  }

  beginWrite(): boolean {
    this.check();
    return false;
  }
}

/** An open transaction. */
export class Transaction {
  readonly #scope: DatabaseScope;
  readonly #store: Store;
  readonly #end: (commit: boolean) => void;
  #isOpen = true;

  /** Not for use outside: call `transaction`, `transactionAsync` or `begin` of a database. */
  constructor(scope: DatabaseScope, store: Store, end: (commit: boolean) => void) {
    this.#scope = scope;
    this.#store = store;
    this.#end = end;
  }

  /** The scope of its handles. */
  static scopeOf(transaction: Transaction): DatabaseScope {
    return transaction.#scope;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  #check(): void {
    if (!this.#isOpen) throw failure('usage.closed', 'the transaction has ended');
    this.#scope.check();
  }

  /** Returns a handle of a bucket that reads and writes in this transaction. */
  kv<K extends Value = string, V extends Value = Value>(
    name: string,
    options?: KeyValueOptions,
  ): KeyValue<K, V> {
    this.#check();
    return this.#scope.keyValue<K, V>(name, options);
  }

  /**
   * Returns a handle of a collection that reads and writes in this transaction, by name and
   * declaration or from another handle.
   *
   * @throws {SchemaError} schema.mismatch when the file holds other types.
   */
  readonly collection: CollectionMethod = ((of: unknown, settings?: unknown) => {
    this.#check();
    return this.#scope.objects(of, settings);
  }) as CollectionMethod;

  /** Returns the collections, buckets and indexes that there are, as frozen data. */
  schema(): SchemaView {
    this.#check();
    return this.#scope.schema();
  }

  /**
   * Changes the schema by whole definitions, such as `schema` returns.
   *
   * @throws {SchemaError} schema.exists, schema.unknown_field, schema.unknown_collation, …
   * @throws {UsageError} usage.argument, usage.layout for a definition that cannot be.
   */
  changeSchema(change: SchemaChange): void {
    this.#check();
    this.#scope.changeSchema(checkedChange(change, this.#scope));
  }

  /** Marks a point to come back to; returns its token. */
  savepoint(): number {
    this.#check();
    return this.#store.savepoint();
  }

  /** Takes back everything since a savepoint, which stays. */
  rollbackTo(savepoint: number): void {
    this.#check();
    this.#store.rollbackTo(savepoint);
  }

  /** Forgets a savepoint and those within it; what was written stays. */
  release(savepoint: number): void {
    this.#check();
    this.#store.release(savepoint);
  }

  /** Commits; if that fails nothing of the transaction remains. */
  commit(): void {
    this.#check();
    this.#isOpen = false;
    this.#end(true);
  }

  /** Takes everything back. Does nothing when the transaction has ended. */
  rollback(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#end(false);
  }

  /** Rolls back unless the transaction has ended. */
  [Symbol.dispose](): void {
    this.rollback();
  }
}

/** The state as of one commit. */
export class Snapshot {
  readonly commitId: number;
  readonly #scope: SnapshotScope;
  readonly #close: () => void;

  /** Not for use outside: call `snapshot` of a database. */
  constructor(database: Database, commitId: number, close: () => void, recording?: RecordedScope) {
    this.commitId = commitId;
    this.#scope = new SnapshotScope(database, commitId);
    this.#scope.recording = recording;
    this.#close = close;
  }

  /** Returns a handle of a bucket as of the snapshot. */
  kv<K extends Value = string, V extends Value = Value>(
    name: string,
    options?: KeyValueOptions,
  ): KeyValue<K, V> {
    this.#scope.check();
    return this.#scope.keyValue<K, V>(name, options);
  }

  /**
   * Returns a handle of a collection as of the snapshot, by name and declaration or
   * from another handle.
   *
   * @throws {SchemaError} schema.mismatch when the file holds other types.
   */
  readonly collection: CollectionMethod = ((of: unknown, settings?: unknown) => {
    this.#scope.check();
    return this.#scope.objects(of, settings);
  }) as CollectionMethod;

  /** Returns the collections, buckets and indexes that there are, as frozen data. */
  schema(): SchemaView {
    return this.#scope.schema();
  }

  /** Returns the number of records of a collection, or of entries of a bucket. */
  recordCount(name: string): number {
    return this.#scope.recordCount(name);
  }

  /**
   * Iterates the records of a collection, or the entries of a bucket as `{ key, value }`, in the
   * order of their keys and with exact kinds: a float that looks whole comes as `float(x)`, so
   * that what is read can be written again as it was. Undeclared fields come by name.
   *
   * @throws {SchemaError} schema.unknown_collection
   */
  exactRecords(name: string): IterableIterator<RecordFields> {
    return this.#scope.exactRecords(name);
  }

  close(): void {
    if (this.#scope.state !== 'open') return;
    this.#scope.state = 'closed';
    this.#close();
  }

  /** Closes the snapshot because of its age; readers get `conflict.snapshot_expired`. */
  expire(): void {
    if (this.#scope.state !== 'open') return;
    this.#scope.state = 'expired';
    this.#close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/** Handles of a snapshot. */
class SnapshotScope extends DatabaseScope {
  override readonly view: SourceView;
  state: 'open' | 'closed' | 'expired' = 'open';

  override get isReadOnly(): boolean {
    return true;
  }

  constructor(database: Database, view: SourceView) {
    super(database);
    this.view = view;
  }

  check(): void {
    this.database.refuseIfUnusable();
    if (this.state === 'open') return;
    if (this.state === 'closed') throw failure('usage.closed', 'the snapshot is closed');
    throw failure('conflict.snapshot_expired', 'the snapshot passed its age limit');
  }

  beginWrite(): boolean {
    throw failure('usage.read_only', 'a snapshot is for reading only');
  }
}
