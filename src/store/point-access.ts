/**
 * The store one record at a time, for row plans, the object API and key-value access. Handles
 * resolve their names once, and again when the schema changed; between that, a call goes straight
 * to the collection.
 */
import { ByteWriter } from '../base/bytes.ts';
import type { RecordId } from '../model/batch.ts';
import type { RecordFields, RecordInput, RecordReader } from '../model/record.ts';
import { unknownName, type CollectionDefinition } from '../model/schema.ts';
import {
  TRANSACTION,
  type BucketCursor,
  type KeyRange,
  type PointAccess,
  type PointBucket,
  type PointCollection,
  type PointIndex,
  type SourceView,
} from '../model/source.ts';
import type { Value } from '../model/value.ts';
import { Cursor } from '../storage/btree-cursor.ts';
import { WRITER } from '../storage/pages.ts';
import type { Bucket } from './bucket.ts';
import type { Collection } from './collection.ts';
import type { CollectionIndex } from './collection-index.ts';
import { encodedRange, type EncodedRange } from './key-ranges.ts';
import type { Store } from './store.ts';

export class StorePointAccess implements PointAccess {
  readonly #store: Store;
  readonly #collections = new Map<string, CollectionHandle>();
  readonly #buckets = new Map<string, BucketHandle>();

  constructor(store: Store) {
    this.#store = store;
  }

  collection(name: string): PointCollection {
    let handle = this.#collections.get(name);
    if (handle === undefined) {
      handle = new CollectionHandle(this.#store, name);
      this.#collections.set(name, handle);
    }
    return handle;
  }

  bucket(name: string): PointBucket {
    let handle = this.#buckets.get(name);
    if (handle === undefined) {
      handle = new BucketHandle(this.#store, name);
      this.#buckets.set(name, handle);
    }
    return handle;
  }
}

/** What a name means in the view asked for, remembered for one version of the schema. */
abstract class Handle<Resolved> {
  readonly name: string;
  protected readonly store: Store;
  #epoch = 0;
  #isChanged = false;
  #resolved: Resolved | undefined;

  constructor(store: Store, name: string) {
    this.store = store;
    this.name = name;
  }

  protected at(view: SourceView): Resolved {
    const isChanged = view === WRITER && this.store.isSchemaChanged;
    if (
      this.#epoch === this.store.epoch &&
      this.#isChanged === isChanged &&
      view >= this.store.schemaCommit
    )
      return this.#resolved!;
    const resolved = this.resolve(view);
    if (view >= this.store.schemaCommit) {
      this.#epoch = this.store.epoch;
      this.#isChanged = isChanged;
      this.#resolved = resolved;
    }
    return resolved;
  }

  protected abstract resolve(view: SourceView): Resolved;
}

class CollectionHandle extends Handle<Collection> implements PointCollection {
  readonly #indexes = new Map<string, IndexHandle>();
  #reader: RecordReader | undefined;
  #readerOf: Collection | undefined;

  protected override resolve(view: SourceView): Collection {
    return this.store.schema(view).collection(this.name, view);
  }

  /** The collection as a view has it, for the handles of its indexes. */
  collectionAt(view: SourceView): Collection {
    return this.at(view);
  }

  definition(view: SourceView): CollectionDefinition {
    return this.at(view).definition;
  }

  get(id: RecordId, view: SourceView): RecordFields | undefined {
    return this.at(view).get(id, view);
  }

  getByKey(key: readonly Value[], view: SourceView): RecordFields | undefined {
    return this.at(view).getByKey(key, view);
  }

  has(id: RecordId, view: SourceView): boolean {
    return this.at(view).has(id, view);
  }

  getFields(id: RecordId, ordinals: readonly number[], into: Value[], view: SourceView): boolean {
    const collection = this.at(view);
    if (this.#readerOf !== collection) {
      this.#reader = collection.codec.reader();
      this.#readerOf = collection;
    }
    const reader = this.#reader!;
    if (!collection.read(id, view, reader)) return false;
    for (let i = 0; i < ordinals.length; i++) into[i] = reader.get(ordinals[i]!);
    return true;
  }

  count(view: SourceView): number {
    return this.at(view).count(view);
  }

  put(record: RecordInput): RecordId {
    return this.at(TRANSACTION).put(record);
  }

  insert(record: RecordInput): RecordId {
    return this.at(TRANSACTION).insert(record);
  }

  update(id: RecordId, fields: RecordInput): boolean {
    return this.at(TRANSACTION).update(id, fields);
  }

  delete(id: RecordId): boolean {
    return this.at(TRANSACTION).delete(id);
  }

  index(name: string): PointIndex {
    let handle = this.#indexes.get(name);
    if (handle === undefined) {
      handle = new IndexHandle(this.store, name, this);
      this.#indexes.set(name, handle);
    }
    return handle;
  }

  idOf(key: readonly Value[]): RecordId {
    const { keys } = this.at(this.store.transaction.isOpen ? TRANSACTION : 2 ** 53);
    const writer = new ByteWriter(64);
    keys.fromValues(key, writer);
    return keys.toId(writer.bytes, 0, writer.length);
  }
}

interface ResolvedIndex {
  readonly collection: Collection;
  readonly index: CollectionIndex;
}

class IndexHandle extends Handle<ResolvedIndex> implements PointIndex {
  readonly #owner: CollectionHandle;
  readonly #ids: RecordId[] = [];

  constructor(store: Store, name: string, owner: CollectionHandle) {
    super(store, name);
    this.#owner = owner;
  }

  protected override resolve(view: SourceView): ResolvedIndex {
    const collection = this.#owner.collectionAt(view);
    const index = collection.indexes.find((each) => each.definition.name === this.name);
    if (index !== undefined) return { collection, index };
    const names = collection.indexes.map((each) => each.definition.name);
    const what = `index of ${collection.definition.name} named`;
    throw unknownName('schema.unknown_index', what, this.name, names);
  }

  get(value: Value, view: SourceView): RecordFields | undefined {
    const { collection, index } = this.at(view);
    const { probe } = index;
    probe.length = 0;
    index.codec.append(0, value, probe);
    const id = index.firstId(view);
    return id === undefined ? undefined : collection.get(id, view);
  }

  getByParts(values: readonly Value[], view: SourceView): RecordFields | undefined {
    const { collection, index } = this.at(view);
    index.codec.encode(values, index.probe);
    const id = index.firstId(view);
    return id === undefined ? undefined : collection.get(id, view);
  }

  getAll(value: Value, view: SourceView): RecordFields[] {
    const { collection, index } = this.at(view);
    const { probe } = index;
    probe.length = 0;
    index.codec.append(0, value, probe);
    const ids = this.#ids;
    const count = index.collectIds(view, ids);
    const records: RecordFields[] = [];
    collection.getRuns(ids, count, view, records);
    return records;
  }

  ids(values: readonly Value[], into: RecordId[], view: SourceView): number {
    const { index } = this.at(view);
    index.codec.encode(values, index.probe);
    return index.collectIds(view, into);
  }
}

class BucketHandle extends Handle<Bucket> implements PointBucket {
  protected override resolve(view: SourceView): Bucket {
    return this.store.schema(view).bucket(this.name, view);
  }

  get(key: Value, view: SourceView): Value | undefined {
    return this.at(view).get(key, view);
  }

  has(key: Value, view: SourceView): boolean {
    return this.at(view).has(key, view);
  }

  view<T>(key: Value, use: (bytes: Uint8Array) => T, view: SourceView): T | undefined {
    const bucket = this.at(view);
    const { tree } = bucket;
    if (!bucket.find(key, view)) return undefined;
    if (tree.isOverflow) return use(tree.valueCopy());
    const { buffer, valueOffset, valueBytes } = tree;
    const lent = tree.bytes.subarray(valueOffset, valueOffset + valueBytes);
    const { storage } = this.store;
    storage.pin(buffer);
    try {
      return use(lent);
    } finally {
      storage.unpin(buffer);
    }
  }

  put(key: Value, value: Value): boolean {
    return this.at(TRANSACTION).put(key, value);
  }

  insert(key: Value, value: Value): void {
    this.at(TRANSACTION).insert(key, value);
  }

  delete(key: Value): boolean {
    return this.at(TRANSACTION).delete(key);
  }

  count(view: SourceView): number {
    return this.at(view).count(view);
  }

  deleteRange(range: KeyRange): number {
    const bucket = this.at(TRANSACTION);
    const encoded = encodedRange(range, (values, behind, into) =>
      bucket.keys.bound(values, behind, into),
    );
    return encoded === undefined ? 0 : bucket.deleteRange(encoded.from, encoded.to);
  }

  range(range: KeyRange, reverse: boolean, view: SourceView): BucketCursor {
    const bucket = this.at(view);
    const encoded = encodedRange(range, (values, behind, into) =>
      bucket.keys.bound(values, behind, into),
    );
    return new StoreBucketCursor(bucket, encoded, reverse, view);
  }
}

class StoreBucketCursor implements BucketCursor {
  readonly #bucket: Bucket;
  readonly #range: EncodedRange | undefined;
  readonly #reverse: boolean;
  readonly #cursor: Cursor;
  #isStarted = false;
  #isDone: boolean;

  constructor(bucket: Bucket, range: EncodedRange | undefined, reverse: boolean, view: SourceView) {
    this.#bucket = bucket;
    this.#range = range;
    this.#reverse = reverse;
    this.#cursor = new Cursor(bucket.tree, view);
    this.#isDone = range === undefined;
  }

  next(): boolean {
    if (this.#isDone) return false;
    const found = this.#isStarted ? this.#step() : this.#start();
    this.#isStarted = true;
    if (found && this.#isInside()) return true;
    this.close();
    return false;
  }

  #step(): boolean {
    return this.#reverse ? this.#cursor.previous() : this.#cursor.next();
  }

  #start(): boolean {
    const { from, to } = this.#range!;
    if (this.#reverse) {
      if (to === undefined) return this.#cursor.last();
      return this.#cursor.seek(to, to.length, false, true);
    }
    if (from === undefined) return this.#cursor.first();
    return this.#cursor.seek(from, from.length);
  }

  #isInside(): boolean {
    const { key, keyLength } = this.#cursor;
    return this.#reverse
      ? !this.#range!.isBefore(key, keyLength)
      : !this.#range!.isBehind(key, keyLength);
  }

  key(): Value {
    return this.#bucket.keys.toValues(this.#cursor.key, 0, this.#cursor.keyLength)[0]!;
  }

  value(): Value {
    return this.#bucket.valueOf(this.#cursor);
  }

  valueBytes(): Uint8Array {
    const { bytes, valueOffset, valueBytes, isOverflow } = this.#cursor;
    if (isOverflow) return this.#cursor.valueCopy();
    return bytes.subarray(valueOffset, valueOffset + valueBytes);
  }

  close(): void {
    this.#cursor.close();
    this.#isDone = true;
  }
}
