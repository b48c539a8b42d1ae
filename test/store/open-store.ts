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
import { MemoryFileSystem } from '../../src/storage/memory-file.ts';
import { Storage } from '../../src/storage/storage.ts';
import type { StoragePort } from '../../src/store/storage-port.ts';
import { open } from '../support/small-storage.ts';
import { MemoryStorage } from './memory-storage.ts';

/** What storage for tests tells beside what the store needs of it. */
export interface TestStorage extends StoragePort {
  openSnapshot(): number;
  readonly pinCount?: number;
  /** Pages in use as of the newest commit. */
  readonly pageCount?: number;
}

export interface OpenedStore<S extends TestStorage = TestStorage> {
  readonly storage: S;
  readonly store: Store;
  readonly points: StorePointAccess;
  readonly source: EmbeddedSource;
}

export function openStore(options: StoreOptions = {}): OpenedStore<MemoryStorage> {
  return created(new MemoryStorage(), options);
}

/** A store over the real storage, in files in memory and a small budget. */
export function openRealStore(memoryBytes = 2 << 20): OpenedStore & { reopen(): OpenedStore } {
  const fs = new MemoryFileSystem();
  let storage = open(fs, { memoryBytes });
  return {
    ...created(storage, {}),
    reopen: () => {
      storage.close();
      storage = open(fs, { memoryBytes });
      return reopen(storage);
    },
  };
}

function created<S extends TestStorage>(storage: S, options: StoreOptions): OpenedStore<S> {
  storage.begin();
  Store.create(storage);
  storage.commit('full');
  return reopen(storage, options);
}

export function reopen<S extends TestStorage>(
  storage: S,
  options: StoreOptions = {},
): OpenedStore<S> {
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

/** Buffers that are still pinned. */
export function pinsOf(storage: TestStorage): number {
  if (storage instanceof Storage) return storage.slab.pins.reduce((sum, pins) => sum + pins, 0);
  return storage.pinCount ?? 0;
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
  if (view === LATEST && storage.pageCount !== undefined && pages !== storage.pageCount)
    faults.push(`${pages} pages are owned, ${storage.pageCount} are in use`);
  return faults;
}

export function expectSound(opened: OpenedStore, view: SourceView = LATEST): void {
  expect(faultsOf(opened, view)).toEqual([]);
  expect(pinsOf(opened.storage)).toBe(0);
}
