/** Single records and bucket entries, checks, and what callers do wrong. */
import { describe, expect, test } from 'vitest';
import { Random } from '../../src/base/random.ts';
import type { RecordFields } from '../../src/model/record.ts';
import {
  defineBucket,
  defineCollection,
  defineIndex,
  type FieldType,
} from '../../src/model/schema.ts';
import { LATEST, TRANSACTION } from '../../src/model/source.ts';
import { compareValues, equalValues, type Value } from '../../src/model/value.ts';
import { defineProperty } from '../support/properties.ts';
import { randomOfKind } from '../model/random-values.ts';
import { change, committed, expectSound, faultsOf, openStore } from './open-store.ts';

const code = (c: string) => expect.objectContaining({ code: c });

type BucketType = 'int' | 'text' | 'bytes' | 'date' | 'list' | 'map';
const KEY_TYPES: readonly BucketType[] = ['int', 'text', 'bytes', 'date', 'list'];
const VALUE_TYPES: readonly BucketType[] = ['int', 'text', 'bytes', 'map'];

/** Throws unless a bucket does as a sorted array of entries does. */
function checkBucket(seed: number, skipEqual: boolean): void {
  const random = new Random(seed);
  const [keys, values] = [random.pick(KEY_TYPES), random.pick(VALUE_TYPES)];
  const all = openStore();
  const { store, points } = all;
  const definition = defineBucket('b', keys as FieldType, values as FieldType);
  committed(store, () => change(store, { change: 'createCollection', definition }));
  const bucket = points.bucket('b');
  let model: [Value, Value][] = [];
  const pool = Array.from({ length: 30 }, () => randomOfKind(random, keys, 1));
  const bound = (): Value[] => [random.pick(pool)];
  store.begin();
  for (let i = 0; i < 200; i++) {
    const key = random.pick(pool);
    const value = randomOfKind(random, values, 1);
    const known = model.find((entry) => equalValues(entry[0], key));
    const dice = random.fraction();
    if (dice < 0.5) {
      if (!(skipEqual && known)) bucket.put(key, value);
      model = model.filter((entry) => entry !== known);
      model.push([key, value]);
      model.sort((a, b) => compareValues(a[0], b[0]));
    } else if (dice < 0.7) {
      expect(bucket.delete(key)).toBe(known !== undefined);
      model = model.filter((entry) => entry !== known);
    } else if (dice < 0.75) {
      const [from, to] = [bound(), bound()];
      const inside = model.filter(
        ([k]) => compareValues(k, from[0]!) >= 0 && compareValues(k, to[0]!) < 0,
      );
      expect(bucket.deleteRange({ from, to })).toBe(inside.length);
      model = model.filter((entry) => !inside.includes(entry));
    } else if (dice < 0.9) {
      const found = bucket.get(key, TRANSACTION);
      expect(bucket.has(key, TRANSACTION)).toBe(known !== undefined);
      if (known === undefined ? found !== undefined : !equalValues(found!, known[1]))
        throw new Error('get differs');
    } else {
      const reverse = random.chance(0.5);
      const from = bound();
      const cursor = bucket.range({ from, fromExclusive: true }, reverse, TRANSACTION);
      const expected = model.filter(([k]) => compareValues(k, from[0]!) > 0);
      if (reverse) expected.reverse();
      for (const [k, v] of expected) {
        expect(cursor.next()).toBe(true);
        if (!equalValues(cursor.key(), k) || !equalValues(cursor.value(), v))
          throw new Error('range differs');
      }
      expect(cursor.next()).toBe(false);
    }
    expect(bucket.count(TRANSACTION)).toBe(model.length);
  }
  store.commit('full');
  const faults = faultsOf(all);
  if (faults.length > 0) throw new Error(faults.join('\n'));
}

defineProperty({
  name: 'PointBucket does as a sorted array',
  cases: 60,
  run: (seed) => checkBucket(seed, false),
  canary: (seed) => checkBucket(seed, true),
});

describe('PointBucket', () => {
  const open = (values: FieldType) => {
    const all = openStore();
    const definition = defineBucket('b', 'text', values);
    committed(all.store, () => change(all.store, { change: 'createCollection', definition }));
    return { ...all, bucket: all.points.bucket('b') };
  };

  test('elides equal puts and counts them', () => {
    const { store, bucket } = open('bytes');
    store.begin();
    expect(bucket.put('a', new Uint8Array([1, 2]))).toBe(true);
    expect(bucket.put('a', new Uint8Array([1, 2]))).toBe(false);
    expect(bucket.put('a', new Uint8Array([1, 3]))).toBe(true);
    expect(store.schema(TRANSACTION).bucket('b', TRANSACTION).elidedPuts).toBe(1);
    expect(() => bucket.insert('a', new Uint8Array())).toThrow('duplicate key for b.key: "a"');
    store.commit('full');
  });

  test('a range deleted by a statement that fails is there again', () => {
    const { store, bucket } = open('text');
    store.begin();
    for (const key of ['a', 'b', 'c']) bucket.put(key, key);
    const run = (): void => {
      bucket.put('d', 'd');
      expect(bucket.deleteRange({ from: ['b'] })).toBe(3);
      bucket.insert('a', 'again');
    };
    expect(() => store.statement(run)).toThrow(code('constraint.unique'));
    expect(bucket.count(TRANSACTION)).toBe(3);
    store.rollback();
  });

  test('get answers a copy, view lends', () => {
    const { store, storage, bucket } = open('bytes');
    const long = new Uint8Array(9000).fill(7);
    committed(store, () => {
      bucket.put('a', new Uint8Array([1, 2]));
      bucket.put('long', long);
    });
    const copy = bucket.get('a', LATEST) as Uint8Array;
    copy[0] = 9;
    expect(bucket.view('a', (bytes) => [...bytes], LATEST)).toEqual([1, 2]);
    expect(bucket.view('long', (bytes) => bytes.length, LATEST)).toBe(9000);
    expect(bucket.view('none', () => 1, LATEST)).toBeUndefined();
    expect(() => bucket.view('a', () => expect.fail('seen'), LATEST)).toThrow('seen');
    expect(storage.pinCount).toBe(0);
    expect(bucket.get('long', LATEST)).toEqual(long);
  });

  test('refuses keys and values of other kinds', () => {
    const { store, bucket } = open('text');
    store.begin();
    expect(() => bucket.put(5, 'x')).toThrow('keys of b are text, not 5');
    expect(() => bucket.put('x', 5)).toThrow(code('value.type'));
    expect(() => bucket.put('x', null)).toThrow(code('constraint.required'));
    expect(() => bucket.put('\ud800', 'x')).toThrow(code('value.text'));
    expect(() => bucket.put('x', '\ud800')).toThrow(code('value.text'));
    expect(() => bucket.put('x'.repeat(2 ** 20 + 1), 'x')).toThrow(code('value.size'));
    expect(() => bucket.get(5, TRANSACTION)).toThrow(code('value.type'));
    bucket.put('__proto__', 'kept');
    expect(bucket.get('__proto__', TRANSACTION)).toBe('kept');
    store.rollback();
    expect(() => bucket.put('x', 'x')).toThrow(code('usage.transaction'));
    expect(bucket.get('__proto__', LATEST)).toBeUndefined();
  });
});

describe('PointCollection', () => {
  const customers = defineCollection({
    name: 'customers',
    fields: { id: 'int', email: 'text', region: 'int', note: 'any?' },
    key: 'id',
    checks: [{ name: 'positive', text: 'region > 0' }],
  });
  const email = defineIndex(customers, { name: 'email', parts: ['email'], unique: true });
  const open = () => {
    const all = openStore({
      conditions: (_, check) =>
        check.text === 'region > 0' ? (record) => (record['region'] as number) > 0 : undefined,
    });
    committed(all.store, () =>
      change(
        all.store,
        { change: 'createCollection', definition: customers },
        { change: 'createIndex', definition: email },
      ),
    );
    return { ...all, handle: all.points.collection('customers') };
  };
  const ada = { id: 1, email: 'a@b.example', region: 3 };

  test('gets by id, by key, by unique index, whole or in part', () => {
    const { store, handle } = open();
    committed(store, () => handle.insert(ada));
    const whole = { ...ada, note: null };
    expect(handle.get(1, LATEST)).toEqual(whole);
    expect(handle.getByKey([1], LATEST)).toEqual(whole);
    expect(handle.index('email').get('a@b.example', LATEST)).toEqual(whole);
    expect(handle.index('email').getByParts(['a@b.example'], LATEST)).toEqual(whole);
    const into: Value[] = [];
    expect(handle.getFields(1, [2, 0], into, LATEST)).toBe(true);
    expect(into).toEqual([3, 1]);
    expect(handle.getFields(2, [2], into, LATEST)).toBe(false);
    expect([handle.has(1, LATEST), handle.has(2, LATEST)]).toEqual([true, false]);
    expect(handle.index('email').get('none', LATEST)).toBeUndefined();
  });

  test('checks refuse records, and refuse all when they cannot be evaluated', () => {
    const { store, handle } = open();
    store.begin();
    expect(() => handle.insert({ ...ada, region: 0 })).toThrow(code('constraint.check'));
    handle.insert(ada);
    expect(() => handle.update(1, { region: -1 })).toThrow('check positive of customers');
    expect(handle.get(1, TRANSACTION)!['region']).toBe(3);
    const unknown = defineCollection({
      ...customers,
      name: 'others',
      key: 'id',
      checks: [{ name: 'odd', text: 'is_odd(id)' }],
    });
    change(store, { change: 'createCollection', definition: unknown });
    expect(() => store.schema(TRANSACTION).collection('others', TRANSACTION).put(ada)).toThrow(
      'check odd cannot be evaluated',
    );
    store.rollback();
  });

  test('errors name the constraint and the values', () => {
    const { store, handle } = open();
    store.begin();
    handle.insert(ada);
    expect(() => handle.insert({ ...ada, id: 2 })).toThrow(
      'duplicate key for customers.email: "a@b.example"',
    );
    expect(() => handle.insert(ada)).toThrow('duplicate key for customers.id: 1');
    expect(() => handle.put({ ...ada, id: 'x' })).toThrow(code('value.type'));
    expect(() => handle.put({ ...ada, id: 1.5 })).toThrow(code('value.type'));
    expect(() => handle.put(null as unknown as RecordFields)).toThrow('a record is an object');
    expect(() => handle.update(1, { regoin: 4 })).toThrow(
      expect.objectContaining({ hint: 'Did you mean "region"?' }),
    );
    expect(() => handle.index('emial').get('x', TRANSACTION)).toThrow(code('schema.unknown_index'));
    store.rollback();
  });

  test('a getter that writes to the same collection is refused', () => {
    const { store, handle } = open();
    store.begin();
    const sly = {
      ...ada,
      get email(): string {
        handle.insert({ id: 9, email: 'x', region: 1 });
        return 'y';
      },
    };
    expect(() => handle.insert(sly)).toThrow(code('usage.transaction'));
    expect(handle.count(TRANSACTION)).toBe(0);
    handle.insert(ada);
    store.rollback();
  });

  test('handles follow the schema through commits and rollbacks', () => {
    const all = open();
    const { store, handle } = all;
    const index = handle.index('region');
    committed(store, () => handle.insert(ada));
    store.begin();
    const region = defineIndex(customers, { name: 'region', parts: ['region'] });
    change(store, { change: 'createIndex', definition: region });
    expect(index.getAll(3, TRANSACTION).length).toBe(1);
    expect(() => index.getAll(3, LATEST)).toThrow(code('schema.unknown_index'));
    store.rollback();
    expect(() => index.getAll(3, TRANSACTION)).toThrow(code('schema.unknown_index'));
    const before = committed(store, () =>
      change(store, { change: 'createIndex', definition: region }),
    );
    expect(before).toBeUndefined();
    expect(index.getAll(3, LATEST).length).toBe(1);
    expectSound(all);
  });
});
