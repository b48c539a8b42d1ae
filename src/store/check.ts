/**
 * The store's part of the whole-file check: law T1 (every index entry names one live record, and
 * every live record has its entries), and that every record and key decodes.
 *
 * An index is walked once: each entry must name a record that has the entry's key. Since no entry
 * lists an id twice and keys are different, entries and keys of records then correspond one to one
 * when there are as many of both, which counting the keys that ought to have an entry shows.
 */
import { ByteWriter, compareBytes } from '../base/bytes.ts';
import type { Steps } from '../base/steps.ts';
import { DatabaseError, failure } from '../errors.ts';
import type { RecordId } from '../model/batch.ts';
import { Cursor } from '../storage/btree-cursor.ts';
import type { PageId, StructureId, View } from '../storage/pages.ts';
import { Bucket } from './bucket.ts';
import type { Collection } from './collection.ts';
import type { CollectionIndex } from './collection-index.ts';
import type { Store } from './store.ts';
import type { Tree } from '../storage/btree.ts';

const ENTRIES_PER_STEP = 256;

/** Called with everything that is wrong. */
export type ReportFault = (fault: DatabaseError) => void;

/** A tree of the file, for the check of pages. */
export interface NamedTree {
  readonly name: string;
  readonly root: PageId;
  readonly structure: StructureId;
  readonly tree: Tree;
}

/** Every tree that the catalog names as of a view, the catalog's own first. */
export function treesOf(store: Store, view: View): NamedTree[] {
  const { catalog } = store;
  const named = (name: string, tree: Tree): NamedTree => {
    return { name, root: tree.root, structure: tree.structure, tree };
  };
  const trees = catalog.isEmpty ? [] : [named('catalog', catalog.tree)];
  for (const { structure, root, definition } of catalog.collections(view)) {
    trees.push(named(definition.name, store.tree(structure, root, definition.layout)));
    for (const index of catalog.indexes(structure, view)) {
      const { layout, name } = index.definition;
      const tree = store.tree(index.structure, index.root, layout);
      trees.push(named(`${definition.name}.${name}`, tree));
    }
  }
  return trees;
}

/** Checks every collection as of a view; yields between steps. */
export function* checkStore(store: Store, view: View, report: ReportFault): Steps<void> {
  for (const name of store.catalog.collectionNames(view)) {
    const target = store.schema(view).require(name, view);
    if (target instanceof Bucket) yield* checkBucket(target, view, report);
    else yield* checkCollection(target, view, report);
  }
}

/** Runs a part of the check; what it throws about the data is reported. */
function guard(report: ReportFault, part: () => void): void {
  try {
    part();
  } catch (error) {
    if (!(error instanceof DatabaseError)) throw error;
    report(error);
  }
}

function* checkBucket(bucket: Bucket, view: View, report: ReportFault): Steps<void> {
  for (const cursor of eachEntry(bucket.tree, view)) {
    if (cursor === undefined) yield;
    else
      guard(report, () => {
        bucket.keys.toValues(cursor.key, 0, cursor.keyLength);
        bucket.valueOf(cursor);
      });
  }
}

function* checkCollection(collection: Collection, view: View, report: ReportFault): Steps<void> {
  const { indexes, codec, keys } = collection;
  const reader = codec.reader();
  const key = new ByteWriter(64);
  const expected = indexes.map(() => 0);
  for (const cursor of eachEntry(collection.tree, view)) {
    if (cursor === undefined) {
      yield;
      continue;
    }
    guard(report, () => {
      const id = keys.toId(cursor.key, 0, cursor.keyLength);
      const bytes = cursor.valueCopy();
      const integer = id instanceof Uint8Array ? 0 : id;
      codec.decode(bytes, 0, bytes.length, integer);
      reader.open(bytes, 0, bytes.length, integer);
      requireOwnKey(collection, cursor, reader, key);
      indexes.forEach((index, i) => {
        index.eachKey(reader, key, () => expected[i]!++);
      });
    });
  }
  for (let i = 0; i < indexes.length; i++)
    yield* checkIndex(collection, indexes[i]!, expected[i]!, view, report);
}

/** A record organised by key lies under the key that its fields make. */
function requireOwnKey(
  collection: Collection,
  cursor: Cursor,
  reader: ReturnType<Collection['codec']['reader']>,
  key: ByteWriter,
): void {
  const { keys, definition } = collection;
  if (keys.form === 'id') return;
  keys.fromRecord(reader, key);
  if (compareBytes(key.bytes, 0, key.length, cursor.key, 0, cursor.keyLength) === 0) return;
  throw failure('corrupt.record', `a record of ${definition.name} lies under another key`);
}

function* checkIndex(
  collection: Collection,
  index: CollectionIndex,
  expected: number,
  view: View,
  report: ReportFault,
): Steps<void> {
  const reader = collection.codec.reader();
  const key = new ByteWriter(64);
  const ids: RecordId[] = [];
  const { name } = index.definition;
  const owner = collection.definition.name;
  let count = 0;
  for (const cursor of eachEntry(index.tree, view)) {
    if (cursor === undefined) {
      yield;
      continue;
    }
    guard(report, () => {
      const idCount = index.idsAt(cursor, ids, 0);
      const end = index.keyEnd(cursor);
      count += idCount;
      for (let i = 0; i < idCount; i++) {
        const shown = describeId(ids[i]!);
        if (!collection.read(ids[i]!, view, reader))
          throw failure('corrupt.record', `index ${name} of ${owner} names ${shown}: no record`);
        if (!index.isKeyOf(reader, cursor.key, end, key))
          throw failure('corrupt.record', `index ${name} of ${owner} has ${shown} out of place`);
      }
    });
  }
  if (count === expected) return;
  report(
    failure('corrupt.record', `index ${name} of ${owner} has ${count} of ${expected} entries`, {
      detail: { index: name, collection: owner, count, expected },
    }),
  );
}

function describeId(id: RecordId): string {
  return id instanceof Uint8Array ? `a key of ${id.length} bytes` : `record ${id}`;
}

/** A cursor at every entry of a tree in turn; `undefined` between steps. */
function* eachEntry(tree: Tree, view: View): Generator<Cursor | undefined> {
  const cursor = new Cursor(tree, view);
  try {
    let count = 0;
    for (let found = cursor.first(); found; found = cursor.next()) {
      yield cursor;
      if (++count % ENTRIES_PER_STEP === 0) yield undefined;
    }
  } finally {
    cursor.close();
  }
}
