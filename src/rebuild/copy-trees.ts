/**
 * Copies every tree of a file into a file of another layout, and compares two files tree by tree.
 *
 * Entries of a tree are the same bytes in every layout: the copy reads them in key order and
 * builds the new tree bottom-up, so that its pages are full and in order. Structure ids stay, roots
 * are new. One transaction a tree, and the catalog names a tree in the transaction that builds it:
 * an interrupted copy goes on with the first tree that is not named.
 */
import { compareBytes } from '../base/bytes.ts';
import type { Steps } from '../base/steps.ts';
import { failure } from '../errors.ts';
import { deepFreeze, type TreeLayout } from '../model/schema.ts';
import { TreeBuilder } from '../storage/bulk.ts';
import { Cursor } from '../storage/btree-cursor.ts';
import { Tree } from '../storage/btree.ts';
import { LATEST, type StructureId } from '../storage/pages.ts';
import type { Storage } from '../storage/storage.ts';
import type { Catalog, CollectionEntry, IndexEntry } from '../store/catalog.ts';
import { treeLayout } from '../store/store.ts';
import type { LayoutPlan } from './rebuild-layout.ts';
import { isMarkerKey } from './rebuild-marker.ts';

const ENTRIES_PER_STEP = 256;
/** Bytes of values after which a step ends, however few they are. */
const BYTES_PER_STEP = 1 << 20;

/** One of the two files of a rebuild. */
export interface OpenFile {
  readonly storage: Storage;
  readonly catalog: Catalog;
}

/** A tree that both files have. */
interface TreePair {
  readonly name: string;
  readonly collection: CollectionEntry;
  /** `undefined` for the collection's own tree. */
  readonly index: IndexEntry | undefined;
  readonly layout: TreeLayout;
}

/** Called with the entries that were copied or compared since the last call. */
export type CountEntries = (count: number, tree: string) => void;

/** The trees of a file with their layouts to be, a collection before its indexes. */
export function pairsOf(source: OpenFile, plan: LayoutPlan): TreePair[] {
  const layouts = new Map(plan.trees.map((t) => [JSON.stringify([t.collection, t.index]), t]));
  const layoutOf = (collection: string, index?: string): TreeLayout =>
    layouts.get(JSON.stringify([collection, index]))!.layout;
  return source.catalog.collections(LATEST).flatMap((collection) => {
    const { name } = collection.definition;
    const own = { name, collection, index: undefined, layout: layoutOf(name) };
    const indexes = source.catalog.indexes(collection.structure, LATEST).map((index) => ({
      name: `${name}.${index.definition.name}`,
      collection,
      index,
      layout: layoutOf(name, index.definition.name),
    }));
    return [own, ...indexes];
  });
}

function entryOf(pair: TreePair): CollectionEntry | IndexEntry {
  return pair.index ?? pair.collection;
}

function sourceTree(source: OpenFile, pair: TreePair): Tree {
  const { structure, root, definition } = entryOf(pair);
  return new Tree(source.storage, root, structure, treeLayout(definition.layout));
}

/** The entry of the target's catalog for a tree, `undefined` if it is not copied yet. */
function targetEntry(target: OpenFile, pair: TreePair): CollectionEntry | IndexEntry | undefined {
  const { catalog } = target;
  const { structure, definition } = pair.collection;
  if (pair.index === undefined) return catalog.collection(definition.name, LATEST);
  const { name } = pair.index.definition;
  return catalog.indexes(structure, LATEST).find((each) => each.definition.name === name);
}

/** Entries of all trees of a file. */
export function countEntries(source: OpenFile, plan: LayoutPlan): number {
  return pairsOf(source, plan).reduce((n, pair) => n + sourceTree(source, pair).count(LATEST), 0);
}

/** Copies the trees that the target does not have yet. */
export function* copyTrees(
  source: OpenFile,
  target: OpenFile,
  plan: LayoutPlan,
  counted: CountEntries,
): Steps<void> {
  for (const pair of pairsOf(source, plan)) {
    const tree = sourceTree(source, pair);
    if (targetEntry(target, pair) !== undefined) counted(tree.count(LATEST), pair.name);
    else yield* copyTree(tree, target, pair, counted);
  }
}

function* copyTree(
  from: Tree,
  target: OpenFile,
  pair: TreePair,
  counted: CountEntries,
): Steps<void> {
  const { storage, catalog } = target;
  const { structure } = entryOf(pair);
  storage.begin();
  try {
    const root = Tree.create(storage, structure, treeLayout(pair.layout));
    const builder = new TreeBuilder(new Tree(storage, root, structure, treeLayout(pair.layout)));
    yield* eachEntry(from, pair.name, counted, (cursor) => {
      if (cursor.isOverflow) {
        builder.add(cursor.key, cursor.keyLength, cursor.valueCopy(), 0, cursor.valueBytes);
      } else {
        const { bytes, valueOffset, valueBytes } = cursor;
        builder.add(cursor.key, cursor.keyLength, bytes, valueOffset, valueBytes);
      }
    });
    builder.finish();
    nameTree(catalog, pair, structure, root);
    storage.commit('none');
  } finally {
    if (storage.inTransaction) storage.rollback();
    catalog.tree.noteRollback();
  }
}

/** Runs a function at every entry of a tree, in key order. */
function* eachEntry(
  tree: Tree,
  name: string,
  counted: CountEntries,
  visit: (cursor: Cursor) => void,
): Steps<void> {
  const cursor = new Cursor(tree, LATEST);
  try {
    let count = 0;
    let bytes = 0;
    for (let found = cursor.first(); found; found = cursor.next()) {
      visit(cursor);
      bytes += cursor.valueBytes;
      if (++count < ENTRIES_PER_STEP && bytes < BYTES_PER_STEP) continue;
      counted(count, name);
      count = 0;
      bytes = 0;
      yield;
    }
    counted(count, name);
  } finally {
    cursor.close();
  }
}

function nameTree(
  catalog: Catalog,
  pair: TreePair,
  structure: StructureId,
  root: CollectionEntry['root'],
): void {
  const { collection, index, layout } = pair;
  if (index === undefined) {
    const definition = deepFreeze({ ...collection.definition, layout });
    catalog.writeCollection({ structure, root, definition });
  } else {
    const definition = deepFreeze({ ...index.definition, layout });
    catalog.writeIndex(collection.structure, { structure, root, definition });
  }
}

/** Copies what the catalog has beside trees: names of fields, counters, statistics. */
export function copyCatalog(source: OpenFile, target: OpenFile): void {
  for (const cursor of otherEntries(source.catalog)) {
    const value = cursor.valueCopy();
    target.catalog.tree.put(cursor.key, cursor.keyLength, value, 0, value.length);
    target.storage.settle();
  }
}

const COLLECTION = 'C'.charCodeAt(0);
const INDEX = 'I'.charCodeAt(0);

/** The entries of a catalog that are not of trees and not the marker. */
function* otherEntries(catalog: Catalog): Generator<Cursor> {
  if (catalog.isEmpty) return;
  const cursor = new Cursor(catalog.tree, LATEST);
  try {
    for (let found = cursor.first(); found; found = cursor.next()) {
      const kind = cursor.key[0];
      if (kind === COLLECTION || kind === INDEX) continue;
      if (!isMarkerKey(cursor.key, cursor.keyLength)) yield cursor;
    }
  } finally {
    cursor.close();
  }
}

/**
 * Compares every entry of every tree, and the catalogs.
 *
 * @throws {CorruptionError} corrupt.record naming the tree and the entry that differs.
 */
export function* compareFiles(
  source: OpenFile,
  target: OpenFile,
  plan: LayoutPlan,
  counted: CountEntries,
): Steps<void> {
  const pairs = pairsOf(source, plan);
  for (const pair of pairs) {
    const entry = targetEntry(target, pair);
    if (entry === undefined) throw differs(pair.name, 'is missing');
    requireSameEntry(pair, entry);
    const to = new Tree(target.storage, entry.root, entry.structure, treeLayout(pair.layout));
    yield* compareTrees(sourceTree(source, pair), to, pair.name, counted);
  }
  const copied = pairsOf(target, plan).length;
  if (copied !== pairs.length) throw differs('the catalog', `names ${copied} trees`);
  compareCatalogs(source.catalog, target.catalog);
}

/** The definition of a tree is the same but for its layout. */
function requireSameEntry(pair: TreePair, entry: CollectionEntry | IndexEntry): void {
  const { structure, definition } = entryOf(pair);
  const expected = JSON.stringify({ ...definition, layout: pair.layout }, showBigInt);
  const found = JSON.stringify(entry.definition, showBigInt);
  if (structure !== entry.structure || expected !== found) {
    throw differs(pair.name, 'has another definition');
  }
}

function showBigInt(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? `${value}n` : value;
}

function* compareTrees(from: Tree, to: Tree, name: string, counted: CountEntries): Steps<void> {
  const other = new Cursor(to, LATEST);
  try {
    let found = other.first();
    let ordinal = 0;
    yield* eachEntry(from, name, counted, (cursor) => {
      if (!found || !isSameEntry(cursor, other)) throw differs(name, `differs at entry ${ordinal}`);
      ordinal++;
      found = other.next();
    });
    if (found || to.count(LATEST) !== ordinal) throw differs(name, `has more than ${ordinal}`);
  } finally {
    other.close();
  }
}

function isSameEntry(a: Cursor, b: Cursor): boolean {
  if (a.valueBytes !== b.valueBytes) return false;
  if (compareBytes(a.key, 0, a.keyLength, b.key, 0, b.keyLength) !== 0) return false;
  const x = a.isOverflow ? a.valueCopy() : a.bytes;
  const y = b.isOverflow ? b.valueCopy() : b.bytes;
  const from = a.isOverflow ? 0 : a.valueOffset;
  const other = b.isOverflow ? 0 : b.valueOffset;
  return compareBytes(x, from, from + a.valueBytes, y, other, other + b.valueBytes) === 0;
}

function compareCatalogs(source: Catalog, target: Catalog): void {
  const others = otherEntries(target);
  for (const cursor of otherEntries(source)) {
    const other = others.next();
    if (other.done === true || !isSameEntry(cursor, other.value)) {
      throw differs('the catalog', 'differs');
    }
  }
  if (others.next().done !== true) throw differs('the catalog', 'has more entries');
}

function differs(name: string, what: string): Error {
  return failure('corrupt.record', `the rebuilt file is not the same: ${name} ${what}`, {
    detail: { tree: name },
    hint: 'The file at the path is untouched. Run check on it.',
  });
}
