/**
 * The boundary between questions and data (DESIGN section 5): what the question side asks of a
 * store, as interfaces over frozen plain requests.
 *
 * `P` is what a call answers when it has nothing yet: `Pending` for a source that waits, `never`
 * for one that does not, so the compiler proves that the embedded source never waits. Whoever gets
 * `Pending` gives control up, and makes the same call again after `ready` is settled.
 *
 * `RecordSource` moves batches, `PointAccess` single records; both see the data through a view: the
 * open transaction, the newest commit, or a snapshot.
 */
import type { Batch, RecordId } from './batch.ts';
import type { RecordFields, RecordInput } from './record.ts';
import type { SchemaChange, CollectionDefinition, IndexDefinition } from './schema.ts';
import type { Value } from './value.ts';

/** Nothing yet: call again when `ready` is settled. */
export interface Pending {
  readonly pending: true;
  readonly ready: PromiseLike<void>;
}

export function isPending<T>(answer: T | Pending): answer is Pending {
  return typeof answer === 'object' && answer !== null && (answer as Pending).pending === true;
}

/** What a request sees: `TRANSACTION`, `LATEST`, or the commit id of an open snapshot. */
export type SourceView = number;
/** The newest commit. */
export const LATEST: SourceView = 2 ** 53;
/** What the open transaction has changed, over the newest commit. */
export const TRANSACTION: SourceView = 2 ** 54;

/**
 * A half-open interval of keys, given by values of the first parts of a key: all of them or fewer.
 * A bound with fewer parts stands for all keys that begin with it; an absent bound is open.
 */
export interface KeyRange {
  readonly from?: readonly Value[];
  /** Whether keys that begin with `from` are left out. */
  readonly fromExclusive?: boolean;
  readonly to?: readonly Value[];
  /** Whether keys that begin with `to` are included. */
  readonly toInclusive?: boolean;
}

/** The range of all keys that begin with these values. */
export function prefixRange(values: readonly Value[]): KeyRange {
  return { from: values, to: values, toInclusive: true };
}

/** A condition that a source may use to skip records; it never decides what is right. */
export interface SkipHint {
  readonly field: string;
  readonly compare: '<' | '<=' | '=' | '>=' | '>';
  readonly value: Value;
}

export interface ScanRequest {
  readonly collection: string;
  /**
   * The index to go by; absent: the collection's own order. An index over elements gives a record
   * once for each of its keys in the ranges.
   */
  readonly index?: string;
  /** Ranges that do not overlap, in ascending order of keys; absent: everything. */
  readonly ranges?: readonly KeyRange[];
  readonly reverse?: boolean;
  /** Fields that become columns, in this order. */
  readonly fields: readonly string[];
  /** Whether batches carry record ids. */
  readonly ids?: boolean;
  readonly hints?: readonly SkipHint[];
  /** Most records in all. */
  readonly limit?: number;
  /** Continues behind this position of a cursor over the same request. */
  readonly after?: Uint8Array;
  readonly view: SourceView;
}

/** Asks for records by their ids, in the order given; ids without a record are left out. */
export interface FetchRequest {
  readonly collection: string;
  readonly records: readonly RecordId[];
  readonly fields: readonly string[];
  readonly ids?: boolean;
  readonly view: SourceView;
}

/** One change of a record. `put` writes regardless, `insert` is strictly new. */
export type RecordChange =
  | { readonly change: 'put' | 'insert'; readonly record: RecordInput }
  | { readonly change: 'update'; readonly id: RecordId; readonly fields: RecordInput }
  | { readonly change: 'delete'; readonly id: RecordId };

/** Changes that happen all or, when one fails, not at all. */
export interface WriteRequest {
  readonly collection: string;
  readonly changes: readonly RecordChange[];
}

export interface WriteOutcome {
  /** Records that were put, inserted, changed or deleted. */
  readonly count: number;
  /** The ids of records put or inserted, in order. */
  readonly ids: readonly RecordId[];
}

export interface StatisticsRequest {
  readonly collection: string;
  readonly view: SourceView;
}

export interface IndexStatistics {
  readonly name: string;
  readonly entryCount: number;
  /** Estimated different keys, by number of leading parts: the first for one part. */
  readonly distinctCounts: readonly number[];
  /** Average number of keys of a record: 1 unless a part stands for the elements of a list. */
  readonly keysPerRecord: number;
  /** Least and greatest value of the first part, `undefined` without entries. */
  readonly least: Value | undefined;
  readonly greatest: Value | undefined;
}

export interface CollectionStatistics {
  readonly recordCount: number;
  /** Average bytes of an encoded record, 0 without records. */
  readonly recordBytesAverage: number;
  readonly indexes: readonly IndexStatistics[];
}

/** Batches of a scan or fetch. Whoever does not read to the end closes it. */
export interface Cursor<P> {
  /** The next batch, valid until the next call; `undefined` at the end. */
  next(): Batch | undefined | P;
  /** Where the last batch ended, for `after`; `undefined` before the first. */
  position(): Uint8Array | undefined;
  close(): void;
}

export interface RecordSource<P> {
  /** What collections and indexes there are. */
  schema(view: SourceView): SchemaView | P;
  scan(request: ScanRequest): Cursor<P>;
  fetch(request: FetchRequest): Cursor<P>;
  write(request: WriteRequest): WriteOutcome | P;
  statistics(request: StatisticsRequest): CollectionStatistics | P;
  applySchemaChange(change: SchemaChange): P | undefined;
}

/** The schema as of a view. */
export interface SchemaView {
  readonly collections: readonly CollectionDefinition[];
  /** Indexes of all collections. */
  readonly indexes: readonly IndexDefinition[];
}

/**
 * One record at a time. Handles are opened once and live as long as the database; they follow
 * schema changes by themselves.
 *
 * @throws {SchemaError} schema.unknown_collection from any call when the collection is gone.
 */
export interface PointAccess {
  collection(name: string): PointCollection;
  bucket(name: string): PointBucket;
}

/** Single records of one collection. Writes need an open transaction. */
export interface PointCollection {
  readonly name: string;
  /** The definition as of a view. */
  definition(view: SourceView): CollectionDefinition;
  /** The record, `undefined` if there is none. */
  get(id: RecordId, view: SourceView): RecordFields | undefined;
  /** The record whose key has these values, `undefined` if there is none. */
  getByKey(key: readonly Value[], view: SourceView): RecordFields | undefined;
  has(id: RecordId, view: SourceView): boolean;
  /**
   * Some declared fields into `into`, by their positions in the definition; answers whether there
   * is the record.
   */
  getFields(id: RecordId, ordinals: readonly number[], into: Value[], view: SourceView): boolean;
  count(view: SourceView): number;
  /** Writes regardless; answers the record's id. */
  put(record: RecordInput): RecordId;
  /** @throws {ConstraintError} constraint.unique when the key exists. */
  insert(record: RecordInput): RecordId;
  /** Changes some fields; answers whether there is the record. */
  update(id: RecordId, fields: RecordInput): boolean;
  delete(id: RecordId): boolean;
  /** An index by name. */
  index(name: string): PointIndex;
  /** The record id of a key's values: how collections organised by key name their records. */
  idOf(key: readonly Value[]): RecordId;
}

export interface PointIndex {
  readonly name: string;
  /** The record with the value as its key, the one of least id if several have it. */
  get(value: Value, view: SourceView): RecordFields | undefined;
  /** The same for a key of several parts. */
  getByParts(values: readonly Value[], view: SourceView): RecordFields | undefined;
  /** All records with the value as their key, in the order of their ids. */
  getAll(value: Value, view: SourceView): RecordFields[];
  /** Writes the ids of the records of a key to `into` from 0 on; answers how many there are. */
  ids(values: readonly Value[], into: RecordId[], view: SourceView): number;
}

/** Single entries of one key-value bucket. Writes need an open transaction. */
export interface PointBucket {
  readonly name: string;
  /** The value, the caller's own; `undefined` if there is none. */
  get(key: Value, view: SourceView): Value | undefined;
  has(key: Value, view: SourceView): boolean;
  /**
   * Calls with the stored bytes of the value, lent until the call returns, at a snapshot until that
   * is closed; answers what it answers, `undefined` if there is no such key.
   */
  view<T>(key: Value, use: (bytes: Uint8Array) => T, view: SourceView): T | undefined;
  /** Answers whether anything changed: an equal value is not written again. */
  put(key: Value, value: Value): boolean;
  /** @throws {ConstraintError} constraint.unique when the key exists. */
  insert(key: Value, value: Value): void;
  delete(key: Value): boolean;
  count(view: SourceView): number;
  /** Deletes the keys of a range; answers how many there were. */
  deleteRange(range: KeyRange): number;
  /** Entries of a range in order, or the other way. */
  range(range: KeyRange, reverse: boolean, view: SourceView): BucketCursor;
}

/** Entries of a bucket, one after the other. */
export interface BucketCursor {
  /** Goes to the next entry; answers false at the end. */
  next(): boolean;
  key(): Value;
  /** The value, the caller's own. */
  value(): Value;
  /** The stored bytes of the value, lent until the next call. */
  valueBytes(): Uint8Array;
  /** As `valueBytes`, lent until the snapshot is closed; only of a cursor at a snapshot. */
  lentBytes(): Uint8Array;
  close(): void;
}
