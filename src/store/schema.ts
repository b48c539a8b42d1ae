/**
 * One version of the schema: its collections and buckets, read from the catalog when they are first
 * asked for, ready to be read and written.
 *
 * The newest commit has one version, a transaction that changed the schema its own, and a snapshot
 * older than the last change one as of its commit. What outlives a version (trees, counters, field
 * names) belongs to the store and is shared.
 */
import { failure } from '../errors.ts';
import { RecordCodec } from '../model/record.ts';
import { recordProgram } from '../model/record-program.ts';
import { unknownName, type IndexDefinition } from '../model/schema.ts';
import type { View } from '../storage/pages.ts';
import { Bucket } from './bucket.ts';
import type { CollectionEntry } from './catalog.ts';
import { Collection } from './collection.ts';
import type { CollectionIndex } from './collection-index.ts';
import { checksOf } from './constraints.ts';
import { EntryIndex } from './entry-index.ts';
import { PartSources } from './part-sources.ts';
import { PostingIndex } from './posting-index.ts';
import { RecordKeys } from './record-key.ts';
import type { Store } from './store.ts';

/** Upper bounds of what an open collection and an open tree take in the heap, scratch included. */
const COLLECTION_BYTES = 48 * 1024;
const TREE_BYTES = 4 * 1024;

export class Schema {
  /** What is charged for each name. */
  readonly #chargedBytes = new Map<string, number>();
  readonly #store: Store;
  readonly #byName = new Map<string, Collection | Bucket>();

  constructor(store: Store) {
    this.#store = store;
  }

  /** What has a name, `undefined` if nothing has; `view` must be one that this version is of. */
  find(name: string, view: View): Collection | Bucket | undefined {
    const known = this.#byName.get(name);
    if (known !== undefined) return known;
    const entry = this.#store.catalog.collection(name, view);
    if (entry === undefined) return undefined;
    this.#charge(name, COLLECTION_BYTES + TREE_BYTES);
    try {
      const made =
        entry.definition.form === 'bucket' ? this.#bucket(entry) : this.#collection(entry, view);
      this.#byName.set(name, made);
      return made;
    } catch (cause) {
      this.#release(name);
      throw cause;
    }
  }

  /** @throws {SchemaError} schema.unknown_collection naming the nearest there is. */
  require(name: string, view: View): Collection | Bucket {
    const found = this.find(name, view);
    if (found !== undefined) return found;
    const names = this.#store.catalog.collectionNames(view);
    throw unknownName('schema.unknown_collection', 'collection', name, names);
  }

  collection(name: string, view: View): Collection {
    const found = this.require(name, view);
    if (found instanceof Collection) return found;
    throw failure('usage.argument', `"${name}" is a key-value bucket, not a collection of records`);
  }

  bucket(name: string, view: View): Bucket {
    const found = this.require(name, view);
    if (found instanceof Bucket) return found;
    throw failure('usage.argument', `"${name}" is a collection of records, not a bucket`);
  }

  /** Forgets what was read of a name, because its definition changes. */
  forget(name: string): void {
    this.#byName.delete(name);
    this.#release(name);
  }

  #charge(name: string, bytes: number): void {
    this.#store.ledger?.charge('catalog', bytes);
    this.#chargedBytes.set(name, (this.#chargedBytes.get(name) ?? 0) + bytes);
  }

  #release(name: string): void {
    this.#store.ledger?.release('catalog', this.#chargedBytes.get(name) ?? 0);
    this.#chargedBytes.delete(name);
  }

  /** Gives back what was charged, when nobody uses this version any more. */
  dispose(): void {
    for (const name of this.#chargedBytes.keys()) this.#release(name);
    this.#byName.clear();
  }

  #bucket(entry: CollectionEntry): Bucket {
    const { structure, root, definition } = entry;
    const store = this.#store;
    const tree = store.tree(structure, root, definition.layout);
    const keys = RecordKeys.of(definition, store.collations);
    return new Bucket(structure, definition, tree, keys, store.transaction);
  }

  #collection(entry: CollectionEntry, view: View): Collection {
    const { structure, root, definition } = entry;
    const store = this.#store;
    const state = store.state(structure);
    if (definition.open) state.load();
    const codec = new RecordCodec(definition, state);
    const keys = RecordKeys.of(
      definition,
      store.collations,
      (parts) => new PartSources(codec, parts),
    );
    const indexes = store.catalog.indexes(structure, view).map((each): CollectionIndex => {
      this.#charge(definition.name, TREE_BYTES);
      const tree = store.tree(each.structure, each.root, each.definition.layout);
      return makeIndex(each.definition, tree, codec, keys, store);
    });
    return new Collection({
      structure,
      definition,
      tree: store.tree(structure, root, definition.layout),
      codec,
      program: recordProgram(codec),
      keys,
      state,
      indexes,
      checks: checksOf(definition, store.conditions),
      transaction: store.transaction,
    });
  }
}

/** The index of a definition over a tree. */
export function makeIndex(
  definition: IndexDefinition,
  tree: CollectionIndex['tree'],
  codec: RecordCodec,
  keys: RecordKeys,
  store: Store,
): CollectionIndex {
  return keys.form === 'id'
    ? new PostingIndex(definition, tree, codec, store.collations)
    : new EntryIndex(definition, tree, codec, store.collations);
}
