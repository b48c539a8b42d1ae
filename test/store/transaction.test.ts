/** What failures leave behind: of statements, of storage within a change, of schema changes. */
import { describe, expect, test } from 'vitest';
import { Ledger } from '../../src/base/ledger.ts';
import { Random } from '../../src/base/random.ts';
import { defineCollection, defineField, defineIndex } from '../../src/model/schema.ts';
import { LATEST, TRANSACTION } from '../../src/model/source.ts';
import { schemaChange } from '../../src/store/schema-changes.ts';
import { defineProperty } from '../support/properties.ts';
import { change, committed, expectSound, faultsOf, openStore, reopen } from './open-store.ts';

const code = (c: string) => expect.objectContaining({ code: c });
const things = defineCollection({
  name: 'things',
  fields: { id: 'int', k: 'int', t: 'text' },
  key: 'id',
  open: true,
});
const byK = defineIndex(things, { name: 'k', parts: ['k'], unique: true });
const byT = defineIndex(things, { name: 't', parts: ['t'] });

function opened(ledger?: Ledger) {
  const all = openStore(ledger === undefined ? {} : { ledger });
  committed(all.store, () =>
    change(
      all.store,
      { change: 'createCollection', definition: things },
      { change: 'createIndex', definition: byK },
      { change: 'createIndex', definition: byT },
    ),
  );
  return { ...all, handle: all.points.collection('things') };
}

function insertMany(handle: ReturnType<typeof opened>['handle'], from: number, to: number): void {
  for (let id = from; id < to; id++) handle.insert({ id, k: id, t: `t${id % 3}`, [`f${id}`]: 1 });
}

describe('Store.statement', () => {
  test('undoes many rows, names and ids, by notes and beyond them by a savepoint', () => {
    for (const count of [5, 3000]) {
      const ledger = new Ledger(64 * 1024 * 1024);
      const all = opened(ledger);
      const { store, handle } = all;
      store.begin();
      insertMany(handle, 1, 4);
      expect(() =>
        store.statement(() => {
          handle.delete(2);
          handle.update(3, { t: 'changed', extra: 1 });
          insertMany(handle, 10, 10 + count);
          handle.insert({ k: 1, t: 'x' });
        }),
      ).toThrow(code('constraint.unique'));
      expect(ledger.bytesOf('transaction')).toBe(0);
      expect(handle.count(TRANSACTION)).toBe(3);
      expect(handle.get(3, TRANSACTION)).toEqual({ id: 3, k: 3, t: 't0', f3: 1 });
      expect(handle.insert({ k: 77, t: 'x' })).toBe(4);
      store.commit('full');
      expectSound(all);
      const names = store.catalog.fieldNames(
        store.schema(LATEST).collection('things', LATEST).structure,
        LATEST,
      );
      expect(names).toEqual(['f1', 'f2', 'f3']);
    }
  });

  test('does not nest, and savepoints wait for its end', () => {
    const { store } = opened();
    store.begin();
    store.statement(() => {
      expect(() => store.statement(() => 1)).toThrow(code('usage.transaction'));
      expect(() => store.savepoint()).toThrow(code('usage.transaction'));
    });
    store.rollback();
    expect(() => store.statement(() => 1)).toThrow(code('usage.transaction'));
    expect(() => store.commit('full')).toThrow(code('usage.transaction'));
  });
});

/** Throws unless storage that fails at a random moment leaves what was there before. */
function checkFailure(seed: number, commitAnyway: boolean): void {
  const random = new Random(seed);
  const all = opened();
  const { store, storage, handle } = all;
  committed(store, () => insertMany(handle, 1, 60));
  const before = handle.get(7, LATEST);
  store.begin();
  storage.failAfter = random.below(40);
  try {
    const run = (): void => {
      for (let i = 0; i < 20; i++) {
        const id = random.between(1, 90);
        if (random.chance(0.4)) handle.put({ id, k: id, t: `u${random.below(5)}` });
        else if (random.chance(0.5)) handle.delete(id);
        else handle.insert({ k: 1000 + i, t: 'new' });
      }
    };
    if (random.chance(0.5)) store.statement(run);
    else run();
  } catch (error) {
    if (!(error as Error).message.includes('planned')) throw error;
  }
  storage.failAfter = -1;
  if (commitAnyway) {
    storage.commit();
    store.transaction.end();
  } else if (random.chance(0.5)) {
    try {
      store.commit('full');
    } catch (error) {
      expect(error).toEqual(code('usage.transaction'));
      store.rollback();
    }
  } else {
    store.rollback();
    expect(handle.get(7, LATEST)).toEqual(before);
    expect(handle.count(LATEST)).toBe(59);
  }
  const faults = faultsOf(all);
  if (faults.length > 0) throw new Error(faults.join('\n'));
}

defineProperty({
  name: 'Store survives storage that fails at any moment',
  cases: 150,
  run: (seed) => checkFailure(seed, false),
  canary: (seed) => checkFailure(seed, true),
});

describe('generated ids', () => {
  test('are not given again while the collection lives, across rollback and reopening', () => {
    const all = opened();
    const { store, handle, storage } = all;
    committed(store, () => insertMany(handle, 1, 4));
    committed(store, () => handle.delete(3));
    store.begin();
    expect(handle.insert({ k: 50, t: 'x' })).toBe(4);
    store.rollback();
    const again = reopen(storage);
    const second = again.points.collection('things');
    committed(again.store, () => expect(second.insert({ k: 51, t: 'x' })).toBe(4));
    committed(again.store, () => second.insert({ id: 10, k: 52, t: 'x' }));
    committed(again.store, () => expect(second.insert({ k: 53, t: 'x' })).toBe(11));
    committed(again.store, () => {
      second.delete(11);
      second.delete(10);
    });
    committed(reopen(storage).store, () => undefined);
    const third = reopen(storage);
    committed(third.store, () =>
      expect(third.points.collection('things').insert({ k: 54, t: 'x' })).toBe(12),
    );
    expectSound(third);
  });

  test('end at the last integer that a number holds', () => {
    const { store, handle } = opened();
    committed(store, () => handle.insert({ id: Number.MAX_SAFE_INTEGER, k: 1, t: 'x' }));
    store.begin();
    expect(() => handle.insert({ k: 2, t: 'x' })).toThrow(code('value.out_of_range'));
    handle.insert({ id: 2n ** 62n, k: 3, t: 'x' });
    handle.insert({ id: -(2n ** 63n), k: 4, t: 'x' });
    store.commit('full');
    expect(handle.index('k').get(3, LATEST)!['id']).toBe(2n ** 62n);
    expect(
      handle
        .index('t')
        .getAll('x', LATEST)
        .map((r) => r['k']),
    ).toEqual([4, 1, 3]);
  });
});

describe('memory', () => {
  test('is charged for schemas, names and batches, and given back', () => {
    const ledger = new Ledger(64 * 1024 * 1024);
    const { store, handle, source } = opened(ledger);
    committed(store, () => insertMany(handle, 1, 50));
    const cycle = (): void => {
      const extra = defineCollection({ name: 'extra' });
      committed(store, () => change(store, { change: 'createCollection', definition: extra }));
      committed(store, () => change(store, { change: 'dropCollection', collection: 'extra' }));
      store.begin();
      insertMany(handle, 100, 120);
      change(store, { change: 'createCollection', definition: extra });
      store.rollback();
      const request = { collection: 'things', fields: ['id'], view: LATEST };
      const cursor = source.scan(request);
      expect(ledger.bytesOf('work')).toBeGreaterThan(10_000);
      cursor.next();
      cursor.close();
      const whole = source.scan({ ...request, index: 't' });
      while (whole.next() !== undefined);
    };
    cycle();
    const charged = ledger.bytesOf('catalog');
    expect(charged).toBeGreaterThan(50_000);
    for (let i = 0; i < 5; i++) cycle();
    expect(ledger.bytesOf('catalog')).toBe(charged);
    expect(ledger.bytesOf('work')).toBe(0);
  });
});

describe('schema changes', () => {
  test('an index that cannot be unique leaves no trace, nor does one that is cancelled', () => {
    const all = opened();
    const { store, handle, storage } = all;
    committed(store, () => insertMany(handle, 1, 2000));
    const pages = storage.pageCount;
    store.begin();
    const unique = defineIndex(things, { name: 'u', parts: ['t'], unique: true });
    expect(() => change(store, { change: 'createIndex', definition: unique })).toThrow(
      'duplicate key for things.t: "t0"',
    );
    const plain = defineIndex(things, { name: 'p', parts: ['t', 'k'] });
    const steps = schemaChange(store, { change: 'createIndex', definition: plain });
    for (let i = 0; i < 3; i++) expect(steps.next().done).toBe(false);
    steps.return();
    handle.insert({ id: 5000, k: 5000, t: 'after' });
    store.commit('full');
    expectSound(all);
    expect(storage.pageCount).toBeLessThanOrEqual(pages + 1);
    expect(store.schema(LATEST).collection('things', LATEST).indexes.length).toBe(2);
  });

  test('fields are added with initial values, moved into place, and dropped', () => {
    const all = opened();
    const { store, handle } = all;
    committed(store, () => {
      insertMany(handle, 1, 4);
      handle.update(2, { level: 7 });
    });
    store.begin();
    const add = (field: ReturnType<typeof defineField>) =>
      change(store, { change: 'addField', collection: 'things', field });
    expect(() => add(defineField('must', 'int'))).toThrow(code('constraint.required'));
    expect(() => add(defineField('k', 'int'))).toThrow(code('schema.exists'));
    add(defineField('level', 'int', 1));
    store.commit('full');
    expect(handle.get(1, LATEST)!['level']).toBe(1);
    expect(handle.get(2, LATEST)!['level']).toBe(7);
    const drop = (field: string) =>
      change(store, { change: 'dropField', collection: 'things', field });
    store.begin();
    expect(() => drop('k')).toThrow('things.k is part of index "k"');
    expect(() => drop('id')).toThrow('things.id is part of the key');
    expect(() => drop('levle')).toThrow(code('schema.unknown_field'));
    drop('level');
    store.commit('full');
    expect(Object.keys(handle.get(2, LATEST)!)).toEqual(['id', 'k', 't', 'f2']);
    expectSound(all);
  });

  test('dropping a collection gives every page back', () => {
    const all = openStore();
    const empty = all.storage.pageCount;
    const { store, points } = all;
    committed(store, () => {
      change(
        store,
        { change: 'createCollection', definition: things },
        { change: 'createIndex', definition: byK },
      );
      for (let id = 0; id < 3000; id++)
        points.collection('things').insert({ id, k: id, t: 'x'.repeat(id % 5000) });
    });
    committed(store, () => change(store, { change: 'dropCollection', collection: 'things' }));
    expect(all.storage.pageCount).toBe(empty);
    expectSound(all);
    expect(() => points.collection('things').get(1, LATEST)).toThrow(
      code('schema.unknown_collection'),
    );
  });

  test('an index on a bucket, unknown names and names in use are refused', () => {
    const { store } = opened();
    store.begin();
    const create = (definition: typeof things) =>
      change(store, { change: 'createCollection', definition });
    expect(() => create(things)).toThrow(code('schema.exists'));
    expect(() => change(store, { change: 'dropCollection', collection: 'thing' })).toThrow(
      expect.objectContaining({ hint: 'Did you mean "things"?' }),
    );
    expect(() => change(store, { change: 'createIndex', definition: byK })).toThrow(
      code('schema.exists'),
    );
    const collated = defineIndex(things, {
      name: 'g',
      parts: [{ field: 't', collation: 'german' }],
    });
    expect(() => change(store, { change: 'createIndex', definition: collated })).toThrow(
      code('schema.unknown_collation'),
    );
    store.rollback();
  });
});
