/**
 * Changing the schema inside a transaction. Each change is a step machine (`base/steps.ts`), since
 * an index may be built from millions of records; it takes a savepoint first, so that a change that
 * fails or is cancelled leaves no trace and the transaction goes on.
 */
import { ByteWriter } from '../base/bytes.ts';
import type { Steps } from '../base/steps.ts';
import { unreachable } from '../base/assert.ts';
import { failure } from '../errors.ts';
import type { RecordId } from '../model/batch.ts';
import { RecordCodec, type RecordReader } from '../model/record.ts';
import {
  deepFreeze,
  fieldOf,
  missingField,
  requireName,
  unknownName,
  type CollectionDefinition,
  type FieldDefinition,
  type IndexDefinition,
  type KeyPart,
  type SchemaChange,
} from '../model/schema.ts';
import { Cursor } from '../storage/btree-cursor.ts';
import { dropTree } from '../storage/btree-range.ts';
import { checkLayout, Tree } from '../storage/btree.ts';
import { WRITER } from '../storage/pages.ts';
import { Bucket } from './bucket.ts';
import type { CollectionEntry } from './catalog.ts';
import type { Collection } from './collection.ts';
import type { CollectionIndex } from './collection-index.ts';
import { IndexBuild } from './index-build.ts';
import { makeIndex } from './schema.ts';
import { treeLayout, type Store } from './store.ts';
import { planWork } from './work-plan.ts';

/** Records of one step of a build. */
const RECORDS_PER_STEP = 256;

/** Applies a change in the open transaction, step by step. */
export function* schemaChange(store: Store, change: SchemaChange): Steps<void> {
  const savepoint = store.savepoint();
  let isDone = false;
  try {
    yield* applyChange(store, change);
    isDone = true;
  } finally {
    if (isDone) store.release(savepoint);
    else {
      store.rollbackTo(savepoint);
      store.release(savepoint);
    }
  }
}

function* applyChange(store: Store, change: SchemaChange): Steps<void> {
  switch (change.change) {
    case 'createCollection':
      return createCollection(store, change.definition);
    case 'dropCollection':
      return yield* dropCollection(store, change.collection);
    case 'renameCollection':
      return renameCollection(store, change.collection, change.to);
    case 'addField':
      return yield* addField(store, change.collection, change.field);
    case 'dropField':
      return dropField(store, change.collection, change.field);
    case 'createIndex':
      return yield* createIndex(store, change.definition);
    case 'dropIndex':
      return dropIndex(store, change.collection, change.index);
    default:
      return unreachable(change);
  }
}

function createCollection(store: Store, definition: CollectionDefinition): void {
  const { catalog, storage } = store;
  refuseExisting(store, definition.name);
  requireCollations(store, definition.key.kind === 'fields' ? definition.key.parts : []);
  checkLayout(treeLayout(definition.layout), storage.pageBytes);
  const structure = catalog.takeStructure();
  const root = Tree.create(storage, structure, treeLayout(definition.layout));
  catalog.writeCollection({ structure, root, definition });
  store.schemaChanged(definition.name);
}

function refuseExisting(store: Store, name: string): void {
  if (store.catalog.collection(name, WRITER) === undefined) return;
  throw failure('schema.exists', `there is a collection "${name}" already`, { detail: { name } });
}

function requireCollations(store: Store, parts: readonly KeyPart[]): void {
  for (const part of parts) store.collations.get(part.collation);
}

function requireEntry(store: Store, name: string): CollectionEntry {
  const entry = store.catalog.collection(name, WRITER);
  if (entry !== undefined) return entry;
  const names = store.catalog.collectionNames(WRITER);
  throw unknownName('schema.unknown_collection', 'collection', name, names);
}

function* dropCollection(store: Store, name: string): Steps<void> {
  const { structure, root, definition } = requireEntry(store, name);
  const indexes = store.catalog.indexes(structure, WRITER);
  for (const index of indexes) {
    dropTree(store.tree(index.structure, index.root, index.definition.layout));
    yield;
  }
  dropTree(store.tree(structure, root, definition.layout));
  store.catalog.deleteCollection(name);
  store.catalog.deleteNumbered(structure);
  store.state(structure).drop();
  store.schemaChanged(name);
  for (const each of [...indexes, { structure }]) store.noteDropped(each.structure);
}

function renameCollection(store: Store, name: string, to: string): void {
  const { catalog } = store;
  requireName('collection', to);
  const entry = requireEntry(store, name);
  refuseExisting(store, to);
  const { structure } = entry;
  for (const index of catalog.indexes(structure, WRITER)) {
    const definition = deepFreeze({ ...index.definition, collection: to });
    catalog.writeIndex(structure, { ...index, definition });
  }
  catalog.deleteCollection(name);
  rewriteDefinition(store, entry, { ...entry.definition, name: to });
  store.schemaChanged(name);
}

function rewriteDefinition(
  store: Store,
  entry: CollectionEntry,
  definition: CollectionDefinition,
): void {
  store.catalog.writeCollection({ ...entry, definition: deepFreeze(definition) });
  store.schemaChanged(definition.name);
}

function* addField(store: Store, name: string, field: FieldDefinition): Steps<void> {
  const entry = requireEntry(store, name);
  const { definition } = entry;
  if (fieldOf(definition, field.name) !== undefined) {
    throw failure('schema.exists', `${name} has a field "${field.name}" already`);
  }
  if (definition.form === 'bucket') throw failure('usage.argument', `${name} is a bucket`);
  const collection = store.schema(WRITER).collection(name, WRITER);
  const hasRecords = collection.count(WRITER) > 0;
  if (hasRecords && !field.optional && field.type !== 'any' && field.initial === undefined)
    throw missingField(name, field.name);
  const changed = deepFreeze({ ...definition, fields: [...definition.fields, field] });
  if (hasRecords && definition.open) yield* moveIntoSlot(store, collection, changed, field);
  rewriteDefinition(store, entry, changed);
}

/** Rewrites the records of an open collection that have a field which is now declared. */
function* moveIntoSlot(
  store: Store,
  collection: Collection,
  changed: CollectionDefinition,
  field: FieldDefinition,
): Steps<void> {
  const number = collection.state.numberOf(field.name);
  if (number === undefined) return;
  const codec = new RecordCodec(changed, store.state(collection.structure));
  const writer = new ByteWriter(256);
  for (const record of eachRecord(collection)) {
    if (record === undefined) yield;
    else if (record.reader.locateNumber(number)) {
      const { bytes, end } = record.reader;
      const id = typeof record.id === 'object' ? 0 : record.id;
      const fields = collection.codec.decode(bytes, 0, end, id);
      writer.clear();
      codec.encode(fields, writer);
      store.storage.settle();
      collection.tree.put(record.key, record.key.length, writer.bytes, 0, writer.length);
    }
  }
}

function dropField(store: Store, name: string, fieldName: string): void {
  const entry = requireEntry(store, name);
  const { definition, structure } = entry;
  const field = fieldOf(definition, fieldName);
  if (field === undefined) {
    const names = definition.fields.map((each) => each.name);
    throw unknownName('schema.unknown_field', `field of ${name} named`, fieldName, names);
  }
  const { key } = definition;
  const isKey =
    key.kind === 'integer'
      ? key.field === fieldName
      : key.kind === 'fields' && key.parts.some((part) => part.field === fieldName);
  const index = store.catalog
    .indexes(structure, WRITER)
    .find((each) => each.definition.parts.some((part) => part.field === fieldName));
  if (isKey || index !== undefined) {
    const user = isKey ? 'the key' : `index "${index!.definition.name}"`;
    throw failure('usage.argument', `${name}.${fieldName} is part of ${user}`);
  }
  const fields = definition.fields.map((each) =>
    each === field ? { ...each, dropped: true } : each,
  );
  rewriteDefinition(store, entry, { ...definition, fields });
}

function dropIndex(store: Store, name: string, indexName: string): void {
  const { structure } = requireEntry(store, name);
  const indexes = store.catalog.indexes(structure, WRITER);
  const entry = indexes.find((each) => each.definition.name === indexName);
  if (entry === undefined) {
    const names = indexes.map((each) => each.definition.name);
    throw unknownName('schema.unknown_index', `index of ${name} named`, indexName, names);
  }
  dropTree(store.tree(entry.structure, entry.root, entry.definition.layout));
  store.catalog.deleteIndex(structure, indexName);
  store.schemaChanged(name);
  store.noteDropped(entry.structure);
}

function* createIndex(store: Store, definition: IndexDefinition): Steps<void> {
  const { catalog, storage } = store;
  const { structure } = requireEntry(store, definition.collection);
  const target = store.schema(WRITER).require(definition.collection, WRITER);
  if (target instanceof Bucket) {
    throw failure('usage.argument', `${definition.collection} is a bucket, which has no indexes`);
  }
  const names = catalog.indexes(structure, WRITER).map((each) => each.definition.name);
  if (names.includes(definition.name)) {
    const what = `${definition.collection} has an index "${definition.name}" already`;
    throw failure('schema.exists', what, { detail: { name: definition.name } });
  }
  requireCollations(store, definition.parts);
  checkLayout(treeLayout(definition.layout), storage.pageBytes);
  const own = catalog.takeStructure();
  const root = Tree.create(storage, own, treeLayout(definition.layout));
  const tree = store.tree(own, root, definition.layout);
  const index = makeIndex(definition, tree, target.codec, target.keys, store);
  yield* buildIndex(store, target, index);
  catalog.writeIndex(structure, { structure: own, root, definition });
  store.schemaChanged(definition.collection);
}

function* buildIndex(store: Store, collection: Collection, index: CollectionIndex): Steps<void> {
  const build = new IndexBuild(index, planWork(store));
  try {
    for (const record of eachRecord(collection)) {
      if (record === undefined) yield;
      else build.add(record.reader, record.key, record.key.length);
    }
    yield* build.build(1, () => undefined);
  } finally {
    build.close();
  }
}

interface ReadRecord {
  readonly key: Uint8Array;
  readonly id: RecordId;
  readonly reader: RecordReader;
}

/** Every record of a collection in the transaction's view; `undefined` between steps. */
function* eachRecord(collection: Collection): Generator<ReadRecord | undefined> {
  const { tree, keys, codec } = collection;
  const reader = codec.reader();
  const cursor = new Cursor(tree, WRITER);
  try {
    let count = 0;
    for (let found = cursor.first(); found; found = cursor.next()) {
      const key = cursor.key.slice(0, cursor.keyLength);
      const id = keys.toId(key, 0, key.length);
      const bytes = cursor.valueCopy();
      reader.open(bytes, 0, bytes.length, typeof id === 'object' ? 0 : id);
      yield { key, id, reader };
      if (++count % RECORDS_PER_STEP === 0) yield undefined;
    }
  } finally {
    cursor.close();
  }
}
