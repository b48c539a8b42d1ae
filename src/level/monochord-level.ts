/**
 * `MonochordLevel`: an `abstract-level` database over one bucket of a Monochord file, of bytes.
 *
 *   location ──> a file of its own: opened by `open`, closed by `close`
 *   Database ──> a bucket in a database that the caller opens and closes
 *
 * A put, del, batch or clear is one transaction. Everything runs within the call that asks for it:
 * a promise of a read is resolved by what was committed when it was asked. Only while another
 * transaction of the database is open does a write wait for its turn.
 */
import { existsSync } from 'node:fs';
import {
  AbstractLevel,
  AbstractSnapshot,
  type AbstractBatchOperation,
  type AbstractBatchOptions,
  type AbstractChainedBatch,
  type AbstractClearOptions,
  type AbstractDatabaseOptions,
  type AbstractDelOptions,
  type AbstractPutOptions,
} from 'abstract-level';
import {
  Database,
  DatabaseError,
  open,
  SchemaError,
  type Snapshot,
  StorageError,
  type OpenOptions,
  UsageError,
} from '../index.ts';
import { bytesOf, type Format, type Formatted, given } from './formats.ts';
import { EntryIterator, KeyIterator, ValueIterator } from './iterators.ts';
import { levelError, translated } from './level-error.ts';
import { type Bounds, type Bucket, byteRange, type WalkOptions } from './walk.ts';

/** Options of a `MonochordLevel`: those of `abstract-level`, and those of `open`. */
export interface MonochordLevelOptions<K, V> extends AbstractDatabaseOptions<K, V>, OpenOptions {
  /** Name of the bucket; default `'level'`. */
  readonly bucket?: string;
}

type Settings = OpenOptions & Pick<MonochordLevelOptions<unknown, unknown>, 'bucket'>;

/** The options that are ours; the others are those of `abstract-level` and of its hooks. */
const SETTINGS: Readonly<Record<keyof Settings, true>> = {
  bucket: true,
  memory: true,
  readOnly: true,
  lastCheckpoint: true,
  durability: true,
  delayMs: true,
  writeEach: true,
  snapshotAgeMsMax: true,
  pageSize: true,
  extentSize: true,
  clusterSize: true,
  index: true,
  collations: true,
  record: true,
};

function parted(options: object): [ours: Settings, others: object] {
  const entries = Object.entries(options);
  const isOurs = ([name]: [string, unknown]): boolean => Object.hasOwn(SETTINGS, name);
  return [
    Object.fromEntries(entries.filter(isOurs)),
    Object.fromEntries(entries.filter((entry) => !isOurs(entry))),
  ];
}

/** What every write takes beside the options of `abstract-level`. */
export interface SyncOption {
  /** Resolves when the write and every one before it is synced; default as `durability` says. */
  readonly sync?: boolean;
}

/** What a read is told: the forms to give keys and values in, and the snapshot to read. */
interface ReadOptions {
  readonly keyEncoding: Format;
  readonly valueEncoding: Format;
  readonly snapshot?: AbstractSnapshot | null;
}

type ClearOptions = Bounds &
  SyncOption & {
    readonly reverse: boolean;
    readonly limit: number;
    readonly snapshot?: AbstractSnapshot | null;
  };

type Operation =
  | { readonly type: 'put'; readonly key: Formatted; readonly value: Formatted }
  | { readonly type: 'del'; readonly key: Formatted };

/** Writes reach the operating system at once, as users of other levels know it. */
const DURABILITY_DEFAULT: Pick<OpenOptions, 'durability' | 'writeEach'> = {
  durability: 'none',
  writeEach: true,
};

/** Kinds of keys and values of the bucket. */
const BYTES = { keys: 'bytes', values: 'bytes' } as const;

function manifestOf(isOwn: boolean, isFile: boolean) {
  return {
    implicitSnapshots: true,
    explicitSnapshots: true,
    seek: true,
    has: true,
    getSync: true,
    permanence: isFile,
    createIfMissing: isOwn && isFile,
    errorIfExists: isOwn && isFile,
    encodings: { utf8: true, buffer: true, view: true },
    signals: { iterators: true },
  };
}

/**
 * A sorted key-value database with the interface of `abstract-level`.
 *
 * @example
 * const db = new MonochordLevel('shop.mono', { valueEncoding: 'json', memory: '16 MiB' });
 * await db.put('apple', { price: 30 });
 * await db.get('apple'); // { price: 30 }
 * await db.close();
 */
// oxlint-disable-next-line typescript/no-unsafe-declaration-merging
export class MonochordLevel<KDefault = string, VDefault = string> extends AbstractLevel<
  string | Buffer | Uint8Array,
  KDefault,
  VDefault
> {
  readonly #location: string | Database;
  readonly #settings: Settings;
  #database: Database | undefined;
  #bucket: Bucket | undefined;
  /** Outlives `close`: as with other levels in memory, what was written is there on reopening. */
  #inMemory: Database | undefined;
  #durability: OpenOptions['durability'];

  /**
   * @param location name of a file, `':memory:'`, or an open database whose bucket is used.
   */
  constructor(
    location: string | Database,
    options: MonochordLevelOptions<KDefault, VDefault> = {},
  ) {
    const isOwn = typeof location === 'string';
    if (!isOwn && !(location instanceof Database)) {
      throw new UsageError('usage.argument', 'location is the name of a file, or a Database');
    }
    const isFile = (isOwn ? location : location.path) !== ':memory:';
    const [own, others] = parted(options);
    super(manifestOf(isOwn, isFile), others);
    this.#location = location;
    this.#settings = own;
  }

  /** The database below, for `stats`, `memory`, `check`, `backup`; `undefined` unless open. */
  get database(): Database | undefined {
    return this.#database;
  }

  // ---- opening and closing

  async _open(options: MonochordLevelOptions<KDefault, VDefault>): Promise<void> {
    const { createIfMissing, errorIfExists } = options;
    const { bucket, ...settings } = { ...this.#settings, ...parted(options)[0] };
    const location = this.#location;
    const isOwn = typeof location === 'string';
    if (isOwn) refuseByExistence(location, createIfMissing !== false, errorIfExists === true);
    else refuseOptions(createIfMissing !== false, errorIfExists === true, settings);
    const completed = withDurability(settings);
    const database =
      this.#inMemory ?? (isOwn ? translated(() => open(location, completed)) : location);
    try {
      this.#bucket = translated(() => database.kv(bucket ?? 'level', BYTES));
    } catch (cause) {
      if (isOwn) database.close();
      throw cause;
    }
    if (location === ':memory:' && this.#inMemory === undefined) {
      this.#inMemory = database;
      forgotten.register(this, database);
    }
    this.#database = database;
    this.#durability = isOwn ? completed.durability : undefined;
  }

  async _close(): Promise<void> {
    const database = this.#database!;
    const isFile = typeof this.#location === 'string' && this.#location !== ':memory:';
    if (isFile) translated(() => database.close());
    this.#database = undefined;
    this.#bucket = undefined;
  }

  // ---- reading

  /** The bucket as a read sees it: at an explicit snapshot, or as it is now. */
  #at(options: { readonly snapshot?: AbstractSnapshot | null }): Bucket {
    return options.snapshot ? (options.snapshot as LevelSnapshot).bucket : this.#bucket!;
  }

  _getSync(key: Formatted, options: ReadOptions): Formatted | undefined {
    return translated(() => {
      const bytes = this.#at(options).get(bytesOf(key));
      return bytes === undefined ? undefined : given(bytes, options.valueEncoding);
    });
  }

  async _get(key: Formatted, options: ReadOptions): Promise<Formatted | undefined> {
    return this._getSync(key, options);
  }

  async _getMany(
    keys: readonly Formatted[],
    options: ReadOptions,
  ): Promise<(Formatted | undefined)[]> {
    return keys.map((key) => this._getSync(key, options));
  }

  async _has(key: Formatted, options: ReadOptions): Promise<boolean> {
    return translated(() => this.#at(options).has(bytesOf(key)));
  }

  async _hasMany(keys: readonly Formatted[], options: ReadOptions): Promise<boolean[]> {
    const bucket = this.#at(options);
    return translated(() => keys.map((key) => bucket.has(bytesOf(key))));
  }

  /** What an iterator reads: the caller's snapshot, or one of its own, taken now. */
  #read(options: WalkOptions): [Bucket, Snapshot | undefined] {
    const { snapshot } = options as { readonly snapshot?: AbstractSnapshot | null };
    if (snapshot) return [(snapshot as LevelSnapshot).bucket, undefined];
    const own = translated(() => this.#database!.snapshot());
    return [own.kv(this.#bucket!.name, BYTES) as Bucket, own];
  }

  _iterator(options: WalkOptions): EntryIterator {
    return new EntryIterator(this as never, ...this.#read(options), options);
  }

  _keys(options: WalkOptions): KeyIterator {
    return new KeyIterator(this as never, ...this.#read(options), options);
  }

  _values(options: WalkOptions): ValueIterator {
    return new ValueIterator(this as never, ...this.#read(options), options);
  }

  _snapshot(options: object): AbstractSnapshot {
    const snapshot = translated(() => this.#database!.snapshot());
    return new LevelSnapshot(options, snapshot, this.#bucket!.name);
  }

  // ---- writing

  async _put(key: Formatted, value: Formatted, options: SyncOption): Promise<void> {
    await this.#write((bucket) => bucket.put(bytesOf(key), bytesOf(value)), options);
  }

  async _del(key: Formatted, options: SyncOption): Promise<void> {
    await this.#write((bucket) => bucket.delete(bytesOf(key)), options);
  }

  async _batch(operations: readonly Operation[], options: SyncOption): Promise<void> {
    const run = (bucket: Bucket): void => {
      for (const operation of operations) {
        const key = bytesOf(operation.key);
        if (operation.type === 'put') bucket.put(key, bytesOf(operation.value));
        else bucket.delete(key);
      }
    };
    await this.#write(run, options);
  }

  async _clear(options: ClearOptions): Promise<void> {
    const { snapshot, limit, reverse } = options;
    const range = byteRange(options);
    const run = (bucket: Bucket): void => {
      if (!snapshot && limit < 0) {
        bucket.deleteRange(range);
        return;
      }
      // Keys are read at a snapshot, so that deleting does not disturb the walk.
      const own = snapshot ? undefined : this.#database!.snapshot();
      const at = own?.kv(bucket.name, BYTES) ?? this.#at(options);
      const some = limit < 0 ? {} : { limit };
      for (const key of (at as Bucket).keys({ ...range, ...some, reverse })) bucket.delete(key);
      own?.close();
    };
    await this.#write(run, options);
  }

  /** Runs changes in one transaction: at once, or after the one that is open. */
  async #write(run: (bucket: Bucket) => void, options: SyncOption): Promise<void> {
    const database = this.#database!;
    const durability = options.sync === true ? 'full' : this.#durability;
    const level = durability === undefined ? {} : { durability };
    try {
      try {
        database.transaction(() => run(this.#bucket!), level);
      } catch (cause) {
        if (!isBusy(cause)) throw cause;
        const { name } = this.#bucket!;
        await database.transactionAsync((tx) => run(tx.kv(name, BYTES) as Bucket), level);
      }
      if (durability === 'group') await database.synced();
    } catch (cause) {
      throw levelError(cause);
    }
  }
}

/** The writes of `abstract-level`, with the option `sync`: overloads, nothing to initialize. */
// oxlint-disable-next-line typescript/no-unsafe-declaration-merging
export interface MonochordLevel<KDefault, VDefault> {
  put(key: KDefault, value: VDefault): Promise<void>;
  put<K = KDefault, V = VDefault>(
    key: K,
    value: V,
    options: AbstractPutOptions<K, V> & SyncOption,
  ): Promise<void>;
  del(key: KDefault): Promise<void>;
  del<K = KDefault>(key: K, options: AbstractDelOptions<K> & SyncOption): Promise<void>;
  batch(operations: AbstractBatchOperation<this, KDefault, VDefault>[]): Promise<void>;
  batch<K = KDefault, V = VDefault>(
    operations: AbstractBatchOperation<this, K, V>[],
    options: AbstractBatchOptions<K, V> & SyncOption,
  ): Promise<void>;
  batch(): AbstractChainedBatch<this, KDefault, VDefault>;
  clear(): Promise<void>;
  clear<K = KDefault>(options: AbstractClearOptions<K> & SyncOption): Promise<void>;
}

/** Closes databases in memory whose `MonochordLevel` is gone. */
const forgotten = new FinalizationRegistry<Database>((database) => database.close());

/** An explicit snapshot: a snapshot of the database, and the bucket in it. */
class LevelSnapshot extends AbstractSnapshot {
  readonly #snapshot: Snapshot;
  readonly bucket: Bucket;

  constructor(options: object, snapshot: Snapshot, name: string) {
    // The declaration leaves out the constructor, which takes the owner of the snapshot.
    super(...([options] as unknown as []));
    this.#snapshot = snapshot;
    this.bucket = snapshot.kv(name, BYTES) as Bucket;
  }

  async _close(): Promise<void> {
    this.#snapshot.close();
  }
}

/** Whether a write was refused only because another transaction is open. */
function isBusy(cause: unknown): boolean {
  const isRefused = cause instanceof DatabaseError;
  return isRefused && (cause.code === 'conflict.writer_busy' || cause.code === 'usage.transaction');
}

function withDurability(options: OpenOptions): OpenOptions {
  return options.durability === undefined ? { ...options, ...DURABILITY_DEFAULT } : options;
}

function refuseByExistence(path: string, createIfMissing: boolean, errorIfExists: boolean): void {
  if (path === ':memory:' || (createIfMissing && !errorIfExists)) return;
  const exists = existsSync(path);
  if (exists && errorIfExists) {
    throw new SchemaError('schema.exists', `${path} exists already (errorIfExists is true)`);
  }
  if (!exists && !createIfMissing) {
    const message = `${path} does not exist (createIfMissing is false)`;
    throw new StorageError('storage.not_found', message);
  }
}

/** A bucket of the caller's database: how it was opened is not for this class to say. */
function refuseOptions(createIfMissing: boolean, errorIfExists: boolean, rest: object): void {
  const names = Object.keys(rest);
  if (!createIfMissing) names.push('createIfMissing');
  if (errorIfExists) names.push('errorIfExists');
  if (names.length === 0) return;
  throw new UsageError(
    'usage.argument',
    `${names.join(', ')}: not for a bucket of a database that is open already`,
    { hint: 'Give the option to `open`.' },
  );
}
