/** A store over simple storage, for tests, with the checks that follow every test. */
import { expect } from 'vitest';
import { runSteps } from '../../src/base/steps.ts';
import { Collations } from '../../src/model/collation.ts';
import type { SchemaChange } from '../../src/model/schema.ts';
import { LATEST, type SourceView } from '../../src/model/source.ts';
import { checkTree } from '../../src/storage/btree-check.ts';
import { checkStore, treesOf } from '../../src/store/check.ts';
import { EmbeddedSource } from '../../src/store/embedded-source.ts';
import { StorePointAccess } from '../../src/store/point-access.ts';
import { schemaChange } from '../../src/store/schema-changes.ts';
import { Store, type StoreOptions } from '../../src/store/store.ts';
import { MemoryStorage } from './memory-storage.ts';

export interface OpenedStore {
  readonly storage: MemoryStorage;
  readonly store: Store;
  readonly points: StorePointAccess;
  readonly source: EmbeddedSource;
}

export function openStore(options: StoreOptions = {}, pageBytes = 4096): OpenedStore {
  const storage = new MemoryStorage(pageBytes);
  storage.begin();
  Store.create(storage);
  storage.commit();
  return reopen(storage, options);
}

export function reopen(storage: MemoryStorage, options: StoreOptions = {}): OpenedStore {
  const collations = options.collations ?? new Collations();
  const store = new Store(storage, { ...options, collations });
  return { storage, store, points: new StorePointAccess(store), source: new EmbeddedSource(store) };
}

export function change(store: Store, ...changes: readonly SchemaChange[]): void {
  for (const each of changes) runSteps(schemaChange(store, each));
}

/** Runs in a transaction of its own. */
export function committed<T>(store: Store, run: () => T): T {
  store.begin();
  const result = run();
  store.commit('full');
  return result;
}

/** What the check finds wrong with the pages, records and indexes of a view. */
export function faultsOf(opened: OpenedStore, view: SourceView = LATEST): string[] {
  const { store, storage } = opened;
  const faults: string[] = [];
  let pages = 0;
  for (const { tree } of treesOf(store, view))
    checkTree(
      tree,
      view,
      () => pages++,
      (fault) => faults.push(fault.message),
    );
  runSteps(checkStore(store, view, (fault) => faults.push(fault.message)));
  if (view === LATEST && pages !== storage.pageCount)
    faults.push(`${pages} pages are owned, ${storage.pageCount} are in use`);
  return faults;
}

export function expectSound(opened: OpenedStore, view: SourceView = LATEST): void {
  expect(faultsOf(opened, view)).toEqual([]);
  expect(opened.storage.pinCount).toBe(0);
}
