/** Collections and their indexes one record at a time, part of `point-access.ts`. */
import { ByteWriter } from '../base/bytes.ts';
import type { RecordId } from '../model/batch.ts';
import type { RecordFields, RecordInput, RecordReader } from '../model/record.ts';
import { unknownName, type CollectionDefinition } from '../model/schema.ts';
import {
  TRANSACTION,
  type PointCollection,
  type PointIndex,
  type SourceView,
} from '../model/source.ts';
import type { Value } from '../model/value.ts';
import type { Collection } from './collection.ts';
import type { CollectionIndex } from './collection-index.ts';
import { Handle } from './handle.ts';
import type { Store } from './store.ts';

export class CollectionHandle extends Handle<Collection> implements PointCollection {
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
