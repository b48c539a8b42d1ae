/**
 * The store as a source of batches: the embedded `RecordSource`, which never waits.
 *
 * It turns requests into cursors (`batch-cursors.ts`). Hints to skip are not used yet: they never
 * carry correctness.
 */
import type { Ledger } from '../base/ledger.ts';
import { runSteps } from '../base/steps.ts';
import { failure } from '../errors.ts';
import type { RecordId } from '../model/batch.ts';
import type { SchemaChange } from '../model/schema.ts';
import type {
  CollectionStatistics,
  Cursor,
  FetchRequest,
  KeyRange,
  RecordChange,
  RecordSource,
  ScanRequest,
  SchemaView,
  SourceView,
  StatisticsRequest,
  WriteOutcome,
  WriteRequest,
} from '../model/source.ts';
import type { RecordInput } from '../model/record.ts';
import { unknownName } from '../model/schema.ts';
import { KIND, type KindName, type Value } from '../model/value.ts';
import { WRITER } from '../storage/pages.ts';
import {
  BucketScan,
  IndexScan,
  RecordFetch,
  RecordScan,
  type CoveredField,
  type ScanPlan,
} from './batch-cursors.ts';
import { Bucket } from './bucket.ts';
import type { Collection } from './collection.ts';
import type { CollectionIndex } from './collection-index.ts';
import { encodedRange, EncodedRange, type EncodeBound } from './key-ranges.ts';
import { encodedBound } from './record-key.ts';
import { RowFields } from './row-fields.ts';
import { schemaChange } from './schema-changes.ts';
import { statisticsOf } from './statistics.ts';
import type { Store } from './store.ts';

export class EmbeddedSource implements RecordSource<never> {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  schema(view: SourceView): SchemaView {
    const { catalog } = this.#store;
    const entries = catalog.collections(view);
    return {
      collections: entries.map((entry) => entry.definition),
      indexes: entries.flatMap((entry) =>
        catalog.indexes(entry.structure, view).map((index) => index.definition),
      ),
    };
  }

  scan(request: ScanRequest): Cursor<never> {
    const { view, index: indexName } = request;
    const target = this.#store.schema(view).require(request.collection, view);
    if (target instanceof Bucket) return this.#scanBucket(target, request);
    const fields = new RowFields(target, request.fields);
    if (indexName === undefined) {
      const { keys } = target;
      const plan = planOf(request, this.#store.ledger, (values, behind, into) =>
        keys.bound(values, behind, into),
      );
      return new RecordScan(target, fields, plan);
    }
    const index = requireIndex(target, indexName);
    const plan = planOf(request, this.#store.ledger, (values, behind, into) =>
      encodedBound(index.codec, values, behind, into),
    );
    return new IndexScan(target, index, fields, coveredFields(target, index, request), plan);
  }

  #scanBucket(bucket: Bucket, request: ScanRequest): Cursor<never> {
    const known = bucket.definition.fields.map((field) => field.name);
    for (const name of request.fields) {
      if (known.includes(name)) continue;
      throw unknownName(
        'schema.unknown_field',
        `field of ${request.collection} named`,
        name,
        known,
      );
    }
    if (request.index !== undefined)
      throw failure('schema.unknown_index', `${request.collection} is a bucket without indexes`);
    const plan = planOf(request, this.#store.ledger, (values, behind, into) =>
      bucket.keys.bound(values, behind, into),
    );
    return new BucketScan(bucket, request.fields, plan);
  }

  fetch(request: FetchRequest): Cursor<never> {
    const { view, records, fields } = request;
    const collection = this.#store.schema(view).collection(request.collection, view);
    const rowFields = new RowFields(collection, fields);
    return new RecordFetch(collection, rowFields, records, view, fields.length, this.#store.ledger);
  }

  write(request: WriteRequest): WriteOutcome {
    const store = this.#store;
    const { changes } = request;
    store.transaction.requireOpen();
    const target = store.schema(WRITER).require(request.collection, WRITER);
    const run = (): WriteOutcome => {
      const ids: RecordId[] = [];
      let count = 0;
      for (const change of changes) {
        const done = target instanceof Bucket ? writeEntry(target, change) : write(target, change);
        if (done === false) continue;
        count++;
        if (done !== true) ids.push(done);
      }
      return { count, ids };
    };
    return changes.length === 1 ? run() : store.statement(run);
  }

  statistics(request: StatisticsRequest): CollectionStatistics {
    const { view } = request;
    const target = this.#store.schema(view).require(request.collection, view);
    return statisticsOf(this.#store, target, view);
  }

  applySchemaChange(change: SchemaChange): undefined {
    runSteps(schemaChange(this.#store, change));
    return undefined;
  }
}

function requireIndex(collection: Collection, name: string): CollectionIndex {
  const index = collection.indexes.find((each) => each.definition.name === name);
  if (index !== undefined) return index;
  const names = collection.indexes.map((each) => each.definition.name);
  const what = `index of ${collection.definition.name} named`;
  throw unknownName('schema.unknown_index', what, name, names);
}

function planOf(request: ScanRequest, ledger: Ledger | undefined, encode: EncodeBound): ScanPlan {
  const { ranges, reverse, limit, after, view, fields } = request;
  return {
    ranges:
      ranges === undefined
        ? [new EncodedRange(undefined, undefined)]
        : encodeRanges(ranges, encode),
    reverse: reverse === true,
    limit: limit ?? Infinity,
    after,
    view,
    columnCount: fields.length,
    ledger,
  };
}

function encodeRanges(ranges: readonly KeyRange[], encode: EncodeBound): EncodedRange[] {
  return ranges.map((range) => encodedRange(range, encode)).filter((range) => range !== undefined);
}

/** How an index scan gets its fields from keys alone; `undefined` if it cannot. */
function coveredFields(
  collection: Collection,
  index: CollectionIndex,
  request: ScanRequest,
): CoveredField[] | undefined {
  const { codec, definition } = collection;
  const covered: CoveredField[] = [];
  for (const name of request.fields) {
    if (name === codec.idField) {
      covered.push({ part: -1, kind: KIND.int });
      continue;
    }
    const part = index.definition.parts.findIndex((each) => each.field === name);
    const ordinal = codec.ordinalOf(name);
    if (part < 0 || ordinal === undefined) return undefined;
    const { path, collation, elements } = index.definition.parts[part]!;
    const { type } = definition.fields[ordinal]!;
    // A key does not tell 1 from 1.0, nor how a text was written before its collation.
    const isExact = type !== 'any' && type !== 'json' && type !== 'number';
    const isNested = type === 'list' || type === 'map';
    if (elements === true) return undefined;
    if (path !== undefined || collation !== 'binary' || !isExact || isNested) return undefined;
    covered.push({ part, kind: KIND[type as KindName] });
  }
  return covered;
}

/** Makes one change; answers the id of a record written, or whether anything was done. */
function write(collection: Collection, change: RecordChange): RecordId | boolean {
  switch (change.change) {
    case 'put':
      return collection.put(change.record);
    case 'insert':
      return collection.insert(change.record);
    case 'update':
      return collection.update(change.id, change.fields);
    case 'delete':
      return collection.delete(change.id);
  }
}

function writeEntry(bucket: Bucket, change: RecordChange): boolean {
  switch (change.change) {
    case 'put':
      bucket.put(...entryOf(change.record));
      return true;
    case 'insert':
      bucket.insert(...entryOf(change.record));
      return true;
    case 'update': {
      const [key] = bucket.keys.toValues(...wholeOf(bucket, change.id));
      const value = change.fields['value'];
      if (!bucket.has(key!, WRITER)) return false;
      if (value !== undefined) bucket.put(key!, value);
      return true;
    }
    case 'delete':
      return bucket.deleteKey(wholeOf(bucket, change.id)[0]);
  }
}

function entryOf(record: RecordInput): [Value, Value] {
  const { key, value } = record;
  return [key ?? null, value ?? null];
}

function wholeOf(bucket: Bucket, id: RecordId): [Uint8Array, number, number] {
  const bytes = bucket.keyOf(id);
  return [bytes, 0, bytes.length];
}
