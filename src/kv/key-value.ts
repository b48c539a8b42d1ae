/**
 * Key-value access to a bucket: a thin front over `PointBucket`.
 *
 * What a handle sees and writes in is told by the `Scope` it was taken from: the database, a
 * transaction or a snapshot. A write outside a transaction commits by itself.
 */
import { requireFunction, requireIterable, requireNames } from '../base/arguments.ts';
import { failure } from '../errors.ts';
import {
  defineBucket,
  type CollectionDefinition,
  type FieldType,
  type TreeLayout,
} from '../model/schema.ts';
import type {
  BulkLoadAsyncOptions,
  BulkLoader,
  BulkLoadOptions,
  BulkReport,
} from '../model/bulk.ts';
import { LATEST, type KeyRange, type PointBucket, type SourceView } from '../model/source.ts';
import type { Value } from '../model/value.ts';

/** Where a handle was taken from: what it sees, and how its writes begin and end. */
export interface Scope {
  /** The view that reads have now. */
  readonly view: SourceView;
  /** Layout of new trees where the caller names none: what the file was made with. */
  readonly layoutDefaults: TreeLayout;
  /** @throws {DatabaseError} when the scope is closed or the database failed. */
  check(): void;
  /** Begins a transaction unless one is open here; answers whether it did. */
  beginWrite(): boolean;
  /** Ends a transaction that `beginWrite` began. */
  commitWrite(): void;
  rollbackWrite(): void;
  /** Runs changes inside an open transaction that are taken back, alone, when one fails. */
  statement(run: () => void): void;
  /** A view that stays as it is until `release`. */
  /**
   * Asked after a read failed: true when it was only that the writer of another process moved on,
   * and the read may be made again. A read at a view that is gone gets an error that says so.
   */
  mayRepeat(cause: unknown): boolean;
  hold(): SourceView;
  release(view: SourceView): void;
  /** Runs a bulk load in the open transaction; taken back, alone, when it fails. */
  load<T>(request: LoadRequest<T>, source: Iterable<T>, options: BulkLoadOptions): BulkReport;
  /**
   * Runs a bulk load in slices, in the open transaction or in one of its own; `prepare` is called
   * with the scope it runs in.
   */
  loadAsync<T>(
    request: LoadRequest<T>,
    source: Iterable<T> | AsyncIterable<T> | ReadableStream<T>,
    options: BulkLoadAsyncOptions,
    prepare: (scope: this) => void,
  ): Promise<BulkReport>;
  bucket(name: string): PointBucket;
  definition(name: string): CollectionDefinition | undefined;
  define(definition: CollectionDefinition): void;
}

/** Where the items of a bulk load go, and how each is given to it. */
export interface LoadRequest<T> {
  readonly name: string;
  readonly take: (loader: BulkLoader, item: T) => void;
}

/** Kinds that keys and values may have; JSON is any value, maps and lists included. */
export interface KeyValueOptions {
  /** Kind of the keys; default `'text'`. */
  readonly keys?: FieldType;
  /** Kind of the values; default `'json'`. */
  readonly values?: FieldType;
  /** Layout of a new bucket; an existing one keeps what it has. */
  readonly layout?: {
    readonly tree?: 'b+tree' | 'b-tree';
    readonly order?: number;
    readonly clusterSize?: number;
  };
}

/** Which entries a range has; all bounds may be left out. */
export interface RangeOptions<K> {
  readonly gt?: K;
  readonly gte?: K;
  readonly lt?: K;
  readonly lte?: K;
  /** Text keys that begin with this. */
  readonly prefix?: string;
  readonly reverse?: boolean;
  /** Most entries. */
  readonly limit?: number;
}

/** One change of a batch. */
export type KeyValueChange<K, V> =
  | { readonly type: 'put'; readonly key: K; readonly value: V }
  | { readonly type: 'delete'; readonly key: K };

/** Ordered entries of one bucket, by key. */
export class KeyValue<K extends Value = string, V extends Value = Value> {
  readonly name: string;
  readonly #scope: Scope;
  readonly #bucket: PointBucket;
  readonly #definition: CollectionDefinition;
  readonly #lendsBytes: boolean;
  #exists: boolean;

  /**
   * @throws {SchemaError} schema.mismatch when the bucket exists with other kinds or layout.
   */
  constructor(scope: Scope, name: string, options: KeyValueOptions = {}) {
    requireNames('kv', options, BUCKET_OPTIONS);
    const { keys, values, layout } = options;
    if (layout !== undefined) requireNames('the layout of kv', layout, LAYOUT_OPTIONS);
    this.name = name;
    this.#scope = scope;
    this.#bucket = scope.bucket(name);
    const existing = scope.definition(name);
    if (existing !== undefined) refuseOther(existing, options);
    const complete = { ...scope.layoutDefaults, ...layout };
    const made = defineBucket(name, keys ?? 'text', values ?? 'json', complete);
    this.#definition = existing ?? made;
    this.#exists = existing !== undefined && scope.view <= LATEST; // else it may be rolled back
    this.#lendsBytes = this.#definition.fields[1]!.type === 'bytes';
  }

  /** Returns the value of a key, the caller's own; `undefined` if there is none. */
  get(key: K): V | undefined {
    const scope = this.#scope;
    scope.check();
    if (!this.#exists && !this.#isThere()) return undefined;
    try {
      return this.#bucket.get(key, scope.view) as V | undefined;
    } catch (cause) {
      if (scope.mayRepeat(cause)) return this.get(key);
      throw cause;
    }
  }

  /** Returns the values of keys, in their order; `undefined` where there is none. */
  getMany(keys: Iterable<K>): (V | undefined)[] {
    requireIterable('getMany', 'keys', keys);
    return Array.from(keys, (key) => this.get(key));
  }

  /** Tells whether there is an entry with the key. */
  has(key: K): boolean {
    this.#scope.check();
    try {
      return this.#isThere() && this.#bucket.has(key, this.#scope.view);
    } catch (cause) {
      if (this.#scope.mayRepeat(cause)) return this.has(key);
      throw cause;
    }
  }

  /**
   * Calls with the stored bytes of a value, lent without a copy until the call returns; returns
   * what it returns, `undefined` if there is no such key. In a snapshot the bytes stay right until
   * it is closed, also by `snapshotAgeMsMax`: their page is kept in memory, on the account `lent`.
   * Once all snapshots keep an eighth of the budget, the bytes are a copy, the caller's own.
   */
  view<T>(key: K, use: (bytes: Uint8Array) => T): T | undefined {
    this.#scope.check();
    requireFunction('view', use);
    return this.#isThere() ? this.#bucket.view(key, use, this.#scope.view) : undefined;
  }

  /** Writes a value regardless of what was there. Equal bytes are not written again. */
  put(key: K, value: V): void {
    const own = this.#scope.beginWrite();
    try {
      this.#define();
      this.#bucket.put(key, value);
    } catch (cause) {
      throw this.#failed(own, cause);
    }
    if (own) this.#scope.commitWrite();
  }

  /**
   * Writes a value whose key must be new.
   *
   * @throws {ConstraintError} constraint.unique when the key exists.
   */
  insert(key: K, value: V): void {
    const own = this.#scope.beginWrite();
    try {
      this.#define();
      this.#bucket.insert(key, value);
    } catch (cause) {
      throw this.#failed(own, cause);
    }
    if (own) this.#scope.commitWrite();
  }

  /** Deletes an entry; returns whether there was one. */
  delete(key: K): boolean {
    const own = this.#scope.beginWrite();
    let found = false;
    try {
      found = this.#isThere() && this.#bucket.delete(key);
    } catch (cause) {
      throw this.#failed(own, cause);
    }
    if (own) this.#scope.commitWrite();
    return found;
  }

  /** Makes many changes, all or none, also inside a transaction. */
  batch(changes: Iterable<KeyValueChange<K, V>>): void {
    requireIterable('batch', 'changes', changes);
    const own = this.#scope.beginWrite();
    try {
      this.#define();
      if (own) this.#make(changes);
      else this.#scope.statement(() => this.#make(changes));
    } catch (cause) {
      throw this.#failed(own, cause);
    }
    if (own) this.#scope.commitWrite();
  }

  #make(changes: Iterable<KeyValueChange<K, V>>): void {
    for (const change of changes) {
      if (change?.type === 'put') this.#bucket.put(change.key, change.value);
      else if (change?.type === 'delete') this.#bucket.delete(change.key);
      else throw unknownChange(change);
    }
  }

  /**
   * Writes many entries, given as pairs of key and value in any order, all or none: sorted within
   * the memory budget and built bottom-up, many times faster than one by one. In an open
   * transaction it is a part of that.
   *
   * @throws {ConstraintError} constraint.unique when a key exists, or comes twice, unless
   * `onDuplicate` says what to do then.
   * @example
   * const report = ages.bulkLoad([['Grace', 85], ['Alan', 41]]);
   * report.loaded; // 2
   */
  bulkLoad(
    entries: Iterable<readonly [K, V]> | ReadonlyMap<K, V>,
    options: BulkLoadOptions = {},
  ): BulkReport {
    const own = this.#scope.beginWrite();
    let report: BulkReport;
    try {
      this.#define();
      report = this.#scope.load(this.#loadRequest(), entries, options);
    } catch (cause) {
      throw this.#failed(own, cause);
    }
    if (own) this.#scope.commitWrite();
    return report;
  }

  /**
   * As `bulkLoad`, from an iterable, an asynchronous one or a stream, in slices between which other
   * work is done. Nothing is changed when it is cancelled or when the source fails.
   *
   * @throws {LimitError} limit.cancelled when its signal is aborted.
   */
  bulkLoadAsync(
    entries:
      Iterable<readonly [K, V]> | AsyncIterable<readonly [K, V]> | ReadableStream<readonly [K, V]>,
    options: BulkLoadAsyncOptions = {},
  ): Promise<BulkReport> {
    return this.#scope.loadAsync(this.#loadRequest(), entries, options, (scope) => {
      if (scope.definition(this.name) === undefined) scope.define(this.#definition);
    });
  }

  #loadRequest(): LoadRequest<readonly [K, V]> {
    return {
      name: this.name,
      take(loader, entry) {
        if (!Array.isArray(entry)) throw notAnEntry(entry);
        loader.addEntry(entry[0] as Value, entry[1] as Value);
      },
    };
  }

  /** Deletes the entries of a range; returns how many there were. */
  deleteRange(options: Omit<RangeOptions<K>, 'reverse' | 'limit'> = {}): number {
    const range = keyRange(options);
    const own = this.#scope.beginWrite();
    let count = 0;
    try {
      if (this.#isThere()) count = this.#bucket.deleteRange(range);
    } catch (cause) {
      throw this.#failed(own, cause);
    }
    if (own) this.#scope.commitWrite();
    return count;
  }

  /** Returns the number of entries, or of those of a range. */
  count(options?: Omit<RangeOptions<K>, 'reverse'>): number {
    this.#scope.check();
    if (!this.#isThere()) {
      nothingIn(options ?? {});
      return 0;
    }
    if (options === undefined) return this.#bucket.count(this.#scope.view);
    let count = 0;
    const entries = this.#entries(options);
    for (; entries.advance(); count++);
    return count;
  }

  /** Returns the first entry of a range, a copy; `undefined` if there is none. */
  first(options: Omit<RangeOptions<K>, 'limit'> = {}): [K, V] | undefined {
    this.#scope.check();
    if (!this.#isThere()) {
      nothingIn(options);
      return undefined;
    }
    const entries = this.#entries({ ...options, limit: 1 });
    return entries.advance() ? entries.takeCopy() : undefined;
  }

  /** Returns the last entry of a range, a copy; `undefined` if there is none. */
  last(options: Omit<RangeOptions<K>, 'limit'> = {}): [K, V] | undefined {
    keyRange(options);
    return this.first({ ...options, reverse: options.reverse !== true });
  }

  /**
   * Iterates the entries of a range in order of keys, as of the moment of the call. Values of
   * kind `'bytes'` are lent without a copy until the next step: `slice` what is to be kept. In a
   * snapshot they stay right until it is closed, as those of `view`.
   */
  range(options: RangeOptions<K> = {}): IterableIterator<[K, V]> {
    this.#scope.check();
    if (!this.#isThere()) return nothingIn<[K, V], K>(options);
    return this.#entries(options);
  }

  /** Iterates the keys of a range in order, as of the moment of the call; reads no value. */
  keys(options: RangeOptions<K> = {}): IterableIterator<K> {
    this.#scope.check();
    if (!this.#isThere()) return nothingIn<K, K>(options);
    return new Keys<K>(this.#entries(options));
  }

  #entries(options: RangeOptions<K>): Entries<K, V> {
    return new Entries<K, V>(this.#scope, this.#bucket, options, this.#lendsBytes);
  }

  /** Whether the bucket exists as this handle sees it. */
  #isThere(): boolean {
    return this.#scope.definition(this.name) !== undefined;
  }

  #define(): void {
    if (this.#exists) return;
    if (!this.#isThere()) this.#scope.define(this.#definition);
  }

  #failed(own: boolean, cause: unknown): unknown {
    if (own) this.#scope.rollbackWrite();
    return cause;
  }
}

/** The entries of a range, one at a time. */
class Entries<K, V> implements IterableIterator<[K, V]> {
  readonly #scope: Scope;
  readonly #view: SourceView;
  readonly #cursor: ReturnType<PointBucket['range']>;
  readonly #lendsBytes: boolean;
  #left: number;
  #isOpen = true;

  constructor(scope: Scope, bucket: PointBucket, options: RangeOptions<K>, lendsBytes: boolean) {
    const range = keyRange(options);
    this.#left = limitOf(options);
    this.#scope = scope;
    this.#lendsBytes = lendsBytes;
    this.#view = scope.hold();
    this.#cursor = bucket.range(range, options.reverse === true, this.#view);
  }

  [Symbol.iterator](): this {
    return this;
  }

  /** Goes to the next entry; false at the end, and everything held is released. */
  advance(): boolean {
    if (!this.#isOpen) return false;
    this.#scope.check();
    try {
      if (this.#left > 0 && this.#cursor.next()) {
        this.#left--;
        return true;
      }
    } catch (cause) {
      this.#close();
      this.#scope.mayRepeat(cause); // an iteration cannot be: it throws if the writer moved on
      throw cause;
    }
    this.#close();
    return false;
  }

  next(): IteratorResult<[K, V]> {
    if (!this.advance()) return { done: true, value: undefined };
    const cursor = this.#cursor;
    return { done: false, value: [cursor.key() as K, this.#value() as V] };
  }

  return(): IteratorResult<[K, V]> {
    this.#close();
    return { done: true, value: undefined };
  }

  #value(): unknown {
    const cursor = this.#cursor;
    if (!this.#lendsBytes) return cursor.value();
    return this.#scope.view < LATEST ? cursor.lentBytes() : cursor.valueBytes();
  }

  /** The key of the entry. */
  key(): K {
    return this.#cursor.key() as K;
  }

  /** The entry with a value of the caller's own; closes. */
  takeCopy(): [K, V] {
    const entry: [K, V] = [this.#cursor.key() as K, this.#cursor.value() as V];
    this.#close();
    return entry;
  }

  #close(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#cursor.close();
    this.#scope.release(this.#view);
  }
}

/** The keys of entries, one at a time. */
class Keys<K> implements IterableIterator<K> {
  readonly #entries: Entries<K, unknown>;

  constructor(entries: Entries<K, unknown>) {
    this.#entries = entries;
  }

  [Symbol.iterator](): this {
    return this;
  }

  next(): IteratorResult<K> {
    if (!this.#entries.advance()) return { done: true, value: undefined };
    return { done: false, value: this.#entries.key() };
  }

  return(): IteratorResult<K> {
    this.#entries.return();
    return { done: true, value: undefined };
  }
}

const BUCKET_OPTIONS = ['keys', 'values', 'layout'];
const LAYOUT_OPTIONS = ['tree', 'order', 'clusterSize'];
const RANGE_OPTIONS = ['gt', 'gte', 'lt', 'lte', 'prefix', 'reverse', 'limit'];

function limitOf(options: { readonly limit?: number }): number {
  const { limit } = options;
  if (limit === undefined) return Infinity;
  if (Number.isSafeInteger(limit) && limit >= 0) return limit;
  throw failure('usage.argument', `limit: ${String(limit)} is not a whole number of entries`);
}

/** The range of a bucket that is not there; what is asked wrongly is refused all the same. */
function nothingIn<T, K>(options: RangeOptions<K>): IterableIterator<T> {
  keyRange(options);
  limitOf(options);
  return [][Symbol.iterator]();
}

/** The range of keys that options stand for. */
function keyRange<K>(options: RangeOptions<K>): KeyRange {
  requireNames('a range', options, RANGE_OPTIONS);
  const { gt, gte, lt, lte, prefix } = options;
  const two = (gt !== undefined && gte !== undefined) || (lt !== undefined && lte !== undefined);
  const both = prefix !== undefined && [gt, gte, lt, lte].some((bound) => bound !== undefined);
  if (two || both) {
    throw failure('usage.argument', 'a range has at most one bound on each side, or a prefix');
  }
  if (prefix !== undefined) return prefixRange(prefix);
  const from = gt ?? gte;
  const to = lt ?? lte;
  return {
    ...(from !== undefined && { from: [from as Value], fromExclusive: gt !== undefined }),
    ...(to !== undefined && { to: [to as Value], toInclusive: lte !== undefined }),
  };
}

/** Texts with a prefix: from it to the first text that is greater than all of them. */
function prefixRange(prefix: string): KeyRange {
  if (typeof prefix !== 'string') throw failure('usage.argument', 'prefix: is not a text');
  const points = Array.from(prefix);
  while (points.length > 0) {
    const last = points.pop()!.codePointAt(0)!;
    if (last === 0x10ffff) continue;
    const next = last === 0xd7ff ? 0xe000 : last + 1; // surrogates are no characters
    return { from: [prefix], to: [points.join('') + String.fromCodePoint(next)] };
  }
  return { from: [prefix] };
}

function notAnEntry(entry: unknown): Error {
  return failure('usage.argument', 'an entry of a bulk load is a list of a key and a value', {
    detail: { entry },
  });
}

function unknownChange(change: never): Error {
  return failure('usage.argument', `a change of a batch is of type put or delete`, {
    detail: { change },
  });
}

function refuseOther(existing: CollectionDefinition, options: KeyValueOptions): void {
  const mismatch = (what: string, has: unknown, asked: unknown): Error =>
    failure('schema.mismatch', `${existing.name} has ${what} ${has}, not ${asked}`, {
      detail: { collection: existing.name, setting: what, inFile: has, askedFor: asked },
    });
  if (existing.form !== 'bucket') throw mismatch('the form', existing.form, 'bucket');
  const [key, value] = existing.fields;
  if (options.keys !== undefined && options.keys !== key!.type) {
    throw mismatch('keys of kind', key!.type, options.keys);
  }
  if (options.values !== undefined && options.values !== value!.type) {
    throw mismatch('values of kind', value!.type, options.values);
  }
  for (const [name, asked] of Object.entries(options.layout ?? {})) {
    const has = existing.layout[name as keyof typeof existing.layout];
    if (asked !== undefined && asked !== has) throw mismatch(`layout ${name}`, has, asked);
  }
}
