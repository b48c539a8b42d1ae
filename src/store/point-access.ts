/**
 * The store one record at a time, for row plans, the object API and key-value access. Handles
 * resolve their names once, and again when the schema changed; between that, a call goes straight
 * to the collection.
 */
import type {
  BucketCursor,
  KeyRange,
  PointAccess,
  PointBucket,
  PointCollection,
  SourceView,
} from '../model/source.ts';
import { LATEST, TRANSACTION } from '../model/source.ts';
import type { Value } from '../model/value.ts';
import type { Bucket } from './bucket.ts';
import { cursorOf, lentValue, removeKeys } from './bucket-cursor.ts';
import { CollectionHandle } from './collection-access.ts';
import { Handle } from './handle.ts';
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
      if (this.#collections.size === 0) this.#store.storage.chargeObjectsCode?.();
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
    const { storage } = this.store;
    if (view < LATEST) return use(lentValue(storage, tree, view));
    const { buffer } = tree;
    const lent = tree.valueView();
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
    return removeKeys(this.at(TRANSACTION), range);
  }

  range(range: KeyRange, reverse: boolean, view: SourceView): BucketCursor {
    return cursorOf(this.store.storage, this.at(view), range, reverse, view);
  }
}
