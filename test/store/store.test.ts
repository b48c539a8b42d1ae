/**
 * The store against the plain model: random writes, failing statements, savepoints, schema changes,
 * snapshots, with every scan compared and the check run after each transaction (laws T1, T2).
 */
import { describe, expect, test } from 'vitest';
import { Random } from '../../src/base/random.ts';
import type { RecordFields } from '../../src/model/record.ts';
import {
  defineCollection,
  defineIndex,
  type CollectionDefinition,
  type IndexDefinition,
} from '../../src/model/schema.ts';
import { LATEST, TRANSACTION, type SourceView } from '../../src/model/source.ts';
import { float, type Value } from '../../src/model/value.ts';
import { defineProperty } from '../support/properties.ts';
import {
  change,
  faultsOf,
  openRealStore,
  openStore,
  pinsOf,
  type OpenedStore,
} from './open-store.ts';
import { ModelFailure, sameRecord, StoreModel, valueAt, type ModelState } from './store-model.ts';

const SHAPES: readonly ((name: string) => CollectionDefinition)[] = [
  (name) =>
    defineCollection({
      name,
      fields: { id: 'int', a: 'int?', b: 'text?', c: 'json?' },
      key: 'id',
    }),
  (name) =>
    defineCollection({ name, fields: { id: 'int', a: 'int?', b: 'text' }, key: 'id', open: true }),
  (name) => defineCollection({ name, fields: { b: 'text', a: 'int?', c: 'any?' }, key: 'b' }),
  (name) =>
    defineCollection({
      name,
      fields: { b: 'text', a: 'int', c: 'any?' },
      key: [
        { field: 'a', descending: true },
        { field: 'b', collation: 'nocase' },
      ],
      layout: { tree: 'b-tree', order: 5 },
    }),
];
const NAMES = ['red', 'green', 'blue'];
const FIELDS = ['a', 'b', 'c'];

function randomField(random: Random, name: string): Value {
  if (random.chance(0.15)) return null;
  if (name === 'a') return random.below(12);
  if (name === 'b') return random.pick(['x', 'X', 'y', 'yy', 'Z', 'é', '']) + random.below(4);
  if (random.chance(0.5)) return randomList(random);
  return random.pick<Value>([1, 1.5, 'x', { k: 1 }, { k: 'v' }, { k: randomList(random) }, true]);
}

/** Elements of few kinds, so that they repeat within a list and among lists. */
function randomList(random: Random): readonly Value[] {
  return Array.from({ length: random.below(5) }, () =>
    random.pick<Value>([null, 1, float(1), 2, 3, 'x', 'X', 'y', [1], { k: 1 }]),
  );
}

function randomRecord(random: Random, definition: CollectionDefinition): RecordFields {
  const record: RecordFields = {};
  for (const { name } of definition.fields) {
    if (name === 'id') {
      if (random.chance(0.7)) record[name] = random.between(-5, 40);
    } else if (random.chance(0.9)) record[name] = randomField(random, name);
  }
  if (definition.open && random.chance(0.5)) record['c'] = randomField(random, 'c');
  if (definition.open && random.chance(0.2)) record[`n${random.below(9)}`] = 1;
  return record;
}

function randomIndex(random: Random, definition: CollectionDefinition): IndexDefinition {
  const known = definition.open ? FIELDS : definition.fields.map((field) => field.name);
  const parts = random
    .shuffle([...known])
    .slice(0, random.between(1, 2))
    .map((field) => ({
      field,
      descending: random.chance(0.3),
      collation: random.chance(0.3) ? 'nocase' : 'binary',
      ...(field === 'c' && random.chance(0.3) && { path: ['k'] }),
      ...(field === 'c' && random.chance(0.6) && { elements: true }),
    }));
  return defineIndex(definition, {
    name: random.pick(['one', 'two', 'three']),
    parts,
    unique: random.chance(0.3),
    nulls: random.pick(['distinct', 'equal', 'skip'] as const),
    layout: random.chance(0.3) ? { tree: 'b-tree', order: random.between(3, 9) } : {},
  });
}

class Run {
  readonly random: Random;
  opened: OpenedStore;
  readonly #reopen: (() => OpenedStore) | undefined;
  readonly model = new StoreModel();
  readonly #loosen: boolean;
  #snapshots: { view: SourceView; state: ModelState }[] = [];

  constructor(seed: number, loosen: boolean, isReal = false) {
    this.random = new Random(seed);
    if (isReal) {
      const opened = openRealStore();
      this.opened = opened;
      this.#reopen = opened.reopen;
    } else this.opened = openStore();
    this.#loosen = loosen;
  }

  run(transactions: number): void {
    for (let i = 0; i < transactions; i++) {
      this.#transaction();
      this.#compare(LATEST, this.model.state);
      const faults = faultsOf(this.opened);
      if (faults.length > 0) throw new Error(faults.join('\n'));
      if (pinsOf(this.opened.storage) !== 0) throw new Error('pages are left pinned');
      if (this.#reopen === undefined || !this.random.chance(0.2)) continue;
      this.opened = this.#reopen();
      this.#snapshots = [];
    }
    for (const { view, state } of this.#snapshots) this.#compare(view, state);
  }

  #transaction(): void {
    const { random, model } = this;
    const { store } = this.opened;
    const start = model.state;
    const savepoints: { token: number; state: ModelState }[] = [];
    store.begin();
    for (let n = random.between(1, 25); n > 0; n--) {
      const dice = random.fraction();
      if (dice < 0.08) savepoints.push({ token: store.savepoint(), state: model.state });
      else if (dice < 0.14 && savepoints.length > 0) {
        const place = random.below(savepoints.length);
        store.rollbackTo(savepoints[place]!.token);
        model.state = savepoints[place]!.state;
        savepoints.length = place + 1;
      } else if (dice < 0.17 && savepoints.length > 0) {
        store.release(savepoints.pop()!.token);
      } else if (dice < 0.35) this.#schemaChange();
      else if (dice < 0.45) this.#statement();
      else this.#write();
    }
    if (random.chance(0.3)) this.#compare(TRANSACTION, model.state);
    if (random.chance(0.25)) {
      store.rollback();
      model.state = start;
    } else {
      store.commit('full');
      if (random.chance(0.3))
        this.#snapshots.push({ view: this.opened.storage.openSnapshot(), state: model.state });
    }
  }

  /** Runs the same on both; they must agree on the answer, or on the code of the error. */
  #both<T>(onStore: () => T, onModel: () => T, same: (a: T, b: T) => boolean): void {
    const before = this.model.state;
    const expected = attempt(onModel);
    const found = attempt(onStore);
    if (expected.code !== undefined) this.model.state = before;
    if (expected.code !== found.code)
      throw new Error(`expected ${expected.code}, found ${found.code}: ${found.message}`);
    if (expected.code === undefined && !same(found.value!, expected.value!))
      throw new Error('answers differ');
  }

  #name(): string {
    const known = [...this.model.state.keys()];
    return known.length > 0 && this.random.chance(0.95)
      ? this.random.pick(known)
      : this.random.pick(NAMES);
  }

  #write(): void {
    const name = this.#name();
    const write = this.#randomWrite(name);
    this.#both(write.onStore, write.onModel, (a, b) => a === b);
  }

  #randomWrite(name: string): { onStore: () => boolean; onModel: () => boolean } {
    const { random, model, opened } = this;
    const found = model.state.get(name);
    const handle = opened.points.collection(name);
    const definition = found?.definition ?? SHAPES[0]!(name);
    const record = randomRecord(random, definition);
    const victim = found && found.records.length > 0 ? random.pick(found.records) : undefined;
    const dice = random.fraction();
    if (dice < 0.55 || victim === undefined) {
      const isNew = random.chance(0.5);
      return {
        onStore: () => (isNew ? handle.insert(record) : handle.put(record)) !== undefined,
        onModel: () => model.put(name, record, isNew) !== undefined,
      };
    }
    const id = model.idText(definition, victim);
    const idOf = () =>
      definition.key.kind === 'fields'
        ? handle.idOf(definition.key.parts.map((part) => valueAt(victim, part)))
        : (victim['id'] as number);
    if (dice < 0.75) {
      return { onStore: () => handle.delete(idOf()), onModel: () => model.delete(name, id) };
    }
    const names = random.shuffle(definition.fields.map((field) => field.name)).slice(0, 2);
    const changes: RecordFields = {};
    for (const each of names)
      changes[each] = each === 'id' ? random.between(-5, 40) : randomField(random, each);
    return {
      onStore: () => handle.update(idOf(), changes),
      onModel: () => model.update(name, id, changes),
    };
  }

  /** A statement of many writes: all or none. */
  #statement(): void {
    const name = this.#name();
    const writes = Array.from({ length: this.random.between(2, 6) }, () => this.#randomWrite(name));
    const all = (run: (write: (typeof writes)[number]) => boolean) => (): boolean => {
      for (const write of writes) run(write);
      return true;
    };
    const onStore = all((write) => write.onStore());
    this.#both(
      () => (this.#loosen ? onStore() : this.opened.store.statement(onStore)),
      all((write) => write.onModel()),
      () => true,
    );
  }

  #schemaChange(): void {
    const { random, model } = this;
    const { store } = this.opened;
    const name = this.#name();
    const known = model.state.get(name);
    const dice = random.fraction();
    if (known === undefined || dice < 0.2) {
      const definition = random.pick(SHAPES)(known === undefined ? name : random.pick(NAMES));
      this.#both(
        () => change(store, { change: 'createCollection', definition }),
        () => model.create(definition),
        () => true,
      );
    } else if (dice < 0.25) {
      this.#both(
        () => change(store, { change: 'dropCollection', collection: name }),
        () => model.drop(name),
        () => true,
      );
    } else if (dice < 0.35) {
      const to = random.pick(NAMES);
      this.#both(
        () => change(store, { change: 'renameCollection', collection: name, to }),
        () => model.rename(name, to),
        () => true,
      );
    } else if (dice < 0.5) {
      const index = random.pick(['one', 'two', 'three']);
      this.#both(
        () => change(store, { change: 'dropIndex', collection: name, index }),
        () => model.dropIndex(name, index),
        () => true,
      );
    } else {
      const definition = randomIndex(random, known.definition);
      this.#both(
        () => change(store, { change: 'createIndex', definition }),
        () => model.addIndex(definition),
        () => true,
      );
    }
  }

  #compare(view: SourceView, state: ModelState): void {
    const { store, points } = this.opened;
    expect(store.catalog.collectionNames(view)).toEqual([...state.keys()].sort());
    for (const [name, { definition, records, indexes }] of state) {
      const found = this.#scan(name, definition, undefined, view);
      requireSame(found, records, name);
      expect(points.collection(name).count(view)).toBe(records.length);
      const reference = new StoreModel();
      reference.state = state;
      for (const index of indexes)
        requireSame(
          this.#scan(name, definition, index.name, view),
          reference.byIndex(name, index),
          `${name}.${index.name}`,
        );
      const record = records[this.random.below(records.length)];
      if (record !== undefined) this.#compareOne(definition, record, view);
    }
  }

  #compareOne(definition: CollectionDefinition, record: RecordFields, view: SourceView): void {
    const handle = this.opened.points.collection(definition.name);
    const { key } = definition;
    const values =
      key.kind === 'fields'
        ? key.parts.map((part) => valueAt(record, part))
        : [record['id'] as Value];
    const found = handle.getByKey(values, view);
    if (found === undefined || !sameRecord(found, record)) throw new Error('get differs');
  }

  /** A scan in random pieces, forward or in reverse, put in ascending order. */
  #scan(
    name: string,
    definition: CollectionDefinition,
    index: string | undefined,
    view: SourceView,
  ): RecordFields[] {
    const { random } = this;
    const { source } = this.opened;
    const reverse = random.chance(0.5);
    const extra = definition.open ? ['c', ...Array.from({ length: 9 }, (_, i) => `n${i}`)] : [];
    const fields = [...definition.fields.map((field) => field.name), ...extra];
    const rows: RecordFields[] = [];
    let after: Uint8Array | undefined;
    for (;;) {
      const limit = random.chance(0.5) ? random.between(1, 5) : 10_000;
      const cursor = source.scan({
        collection: name,
        ...(index !== undefined && { index }),
        fields,
        reverse,
        limit,
        view,
        ...(after !== undefined && { after }),
      });
      let count = 0;
      for (let batch = cursor.next(); batch !== undefined; batch = cursor.next()) {
        for (let row = 0; row < batch.count; row++, count++) {
          const record: RecordFields = {};
          fields.forEach((field, i) => {
            const value = batch.columns[i]!.get(row);
            if (value !== null || !extra.includes(field)) record[field] = value;
          });
          rows.push(record);
        }
      }
      after = cursor.position();
      if (count < limit) break;
    }
    return reverse ? rows.reverse() : rows;
  }
}

function attempt<T>(run: () => T): { value?: T; code?: string; message?: string } {
  try {
    return { value: run() };
  } catch (error) {
    const { code } = error as { code?: string };
    if (code === undefined) throw error;
    if (error instanceof ModelFailure) return { code };
    return { code, message: (error as Error).message };
  }
}

function requireSame(
  found: readonly RecordFields[],
  expected: readonly RecordFields[],
  where: string,
): void {
  const isSame =
    found.length === expected.length &&
    found.every((record, i) => sameRecord(withoutNulls(record), withoutNulls(expected[i]!)));
  if (!isSame)
    throw new Error(
      `${where}: found ${JSON.stringify(found)}, expected ${JSON.stringify(expected)}`,
    );
}

/** An undeclared field that is null, and one that is absent, scan alike. */
function withoutNulls(record: RecordFields): RecordFields {
  return Object.fromEntries(Object.entries(record).filter((entry) => entry[1] !== null));
}

defineProperty({
  name: 'Store does as the model does',
  cases: 40,
  run: (seed) => new Run(seed, false).run(12),
  canary: (seed) => new Run(seed, true).run(12),
});

defineProperty({
  name: 'Store does as the model does on the real storage, reopened now and then',
  cases: 25,
  run: (seed) => new Run(seed, false, true).run(12),
  canary: (seed) => new Run(seed, true, true).run(12),
});

describe('Store', () => {
  test('writes and builds indexes in transactions larger than the memory budget', () => {
    const opened = openRealStore(4 << 20);
    const { store, points } = opened;
    const definition = SHAPES[0]!('big');
    const index = (field: string) => defineIndex(definition, { name: field, parts: [field] });
    store.begin();
    change(store, { change: 'createCollection', definition });
    change(store, { change: 'createIndex', definition: index('b') });
    const handle = points.collection('big');
    const random = new Random(3);
    for (let id = 0; id < 20_000; id++)
      handle.insert({ id, a: id % 100, b: `${random.word()}`.padEnd(60, '.') });
    change(store, { change: 'createIndex', definition: index('a') });
    const many = Array.from({ length: 5000 }, (_, id) => ({ change: 'delete', id }) as const);
    opened.source.write({ collection: 'big', changes: many });
    store.commit('full');
    expect(faultsOf(opened)).toEqual([]);
    expect(pinsOf(opened.storage)).toBe(0);
    const again = opened.reopen();
    expect(again.points.collection('big').index('a').getAll(7, LATEST).length).toBe(150);
  });

  test('keeps millions of ids under one key, in order, through splits and deletes', () => {
    const opened = openStore();
    const definition = defineCollection({ name: 'c', fields: { id: 'int', k: 'int' }, key: 'id' });
    opened.store.begin();
    change(opened.store, { change: 'createCollection', definition });
    const index = defineIndex(definition, { name: 'k', parts: ['k'] });
    change(opened.store, { change: 'createIndex', definition: index });
    const handle = opened.points.collection('c');
    const random = new Random(9);
    const ids = Array.from({ length: 6000 }, (_, i) => i * random.between(1, 3));
    const live = new Set(ids);
    for (const id of random.shuffle([...live])) handle.insert({ id, k: 1 });
    for (const id of random.shuffle([...live]).slice(0, live.size - 40)) {
      handle.delete(id);
      live.delete(id);
    }
    const into: number[] = [];
    expect(handle.index('k').ids([1], into, TRANSACTION)).toBe(live.size);
    expect(into.slice(0, live.size)).toEqual([...live].sort((a, b) => a - b));
    for (const id of live) handle.delete(id);
    expect(handle.index('k').ids([1], [], TRANSACTION)).toBe(0);
    opened.store.commit('full');
    expect(faultsOf(opened)).toEqual([]);
  });
});
