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
import type { Integer } from './temporal.ts';
import type { Value } from './value.ts';

/** Nothing yet: call again when `ready` is settled. */
export interface Pending {
  readonly pending: true;
  readonly ready: PromiseLike<void>;
}

export function isPending<T>(answer: T | Pending): answer is Pending {
  return typeof answer === 'object' && answer !== null && (answer as Pending).pending === true;
}

/** What a request sees: the open transaction, the newest commit, or the snapshot of a commit. */
export type SourceView = 'transaction' | 'latest' | number;

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
  /** The index to go by; absent: the collection's own order. */
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

/** Batches of a scan or fetch. */
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
 * One record at a time. A handle is opened once for a collection and lives as long as the database;
 * it follows schema changes by itself.
 *
 * @throws {SchemaError} schema.unknown_collection from every method once the collection is gone.
 */
export interface PointAccess {
  open(collection: string): PointCollection;
}

/** Single records of one collection. Writes need an open transaction. */
export interface PointCollection {
  readonly name: string;
  /** The record, `undefined` if there is none. */
  get(id: RecordId, view: SourceView): RecordFields | undefined;
  /** The record whose key is these values; for a collection organised by key, or by integer. */
  getByKey(key: readonly Value[], view: SourceView): RecordFields | undefined;
  has(id: RecordId, view: SourceView): boolean;
  /** Some fields into `into`, in the order of `ordinals`; answers whether there is the record. */
  getFields(id: RecordId, ordinals: readonly number[], into: Value[], view: SourceView): boolean;
  put(record: RecordInput): RecordId;
  /** @throws {ConstraintError} constraint.unique when the key exists. */
  insert(record: RecordInput): RecordId;
  /** Changes some fields; answers whether there was the record. */
  update(id: RecordId, fields: RecordInput): boolean;
  delete(id: RecordId): boolean;
  /** The index of a name, for repeated use. */
  index(name: string): PointIndex;
}

export interface PointIndex {
  readonly definition: IndexDefinition;
  /** The one record of a unique key, `undefined` if there is none. */
  get(key: Value, view: SourceView): RecordFields | undefined;
  /** The same for a key of several parts. */
  getByParts(key: readonly Value[], view: SourceView): RecordFields | undefined;
  /** The records of a key, in the order of their ids. */
  getAll(key: Value, view: SourceView): RecordFields[];
  /** Writes the ids of a key's records to `into` from 0 on; answers how many there are. */
  ids(key: readonly Value[], into: RecordId[], view: SourceView): number;
}

/** The integer of a record id that must be one. */
export function integerId(id: RecordId): Integer | undefined {
  return id instanceof Uint8Array ? undefined : id;
}
