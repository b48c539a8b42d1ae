/**
 * Arguments of the wrong kind: whatever a program that is not compiled passes to any public method,
 * it gets an answer or a typed error, and the database goes on as it was.
 */
import { describe, expect, test } from 'vitest';
import type { Database } from '../../src/database.ts';
import * as dumps from '../../src/dump/index.ts';
import { DatabaseError } from '../../src/errors.ts';
import { errorOf, newFolder, openDatabase } from './open-database.ts';

type Method = (...args: unknown[]) => unknown;

const ARGUMENTS: readonly (readonly unknown[])[] = [
  [],
  ...[null, undefined, 5, -1, 1.5, NaN, 'x', '', true, Symbol('s'), {}, [], [null], [[1, 2]]].map(
    (each) => [each],
  ),
  [(): number => 1],
  [new Map()],
  [new Uint8Array(2)],
  ...[null, 5, 'x', {}, [], { nosuch: 1 }, (): number => 1].flatMap((each) => [
    ['name', each],
    [{}, each],
    [each, each],
  ]),
  ['id', '=', null],
  ['id', '>=', {}],
  ['id', 'in', 5],
  ['id', '~', 1],
  [{ id: null }],
  [{ nosuch: 1 }],
  ['a', 'b', 'c', 'd'],
];
/** What asks a database about an error that was thrown, for queries: not for callers. */
const INTERNAL = ['constructor', 'mayRepeat'];

const TARGETS: Readonly<Record<string, (db: Database) => object>> = {
  database: (db) => db,
  bucket: (db) => db.kv('name'),
  collection: (db) => people(db),
  query: (db) => people(db).where({ id: 1 }),
  session: (db) => db.session(),
  transaction: (db) => db.begin(),
  snapshot: (db) => db.snapshot(),
};

function people(db: Database): ReturnType<Database['collection']> {
  const fields = { id: 'int', n: 'text?', tags: 'json?' } as const;
  return db.collection('people', { fields, index: ['n'] }) as never;
}

function filled(): Database {
  const db = openDatabase();
  db.kv('name').put('name', 1);
  people(db).insert({ id: 1, n: 'a' });
  return db;
}

function methodsOf(target: object): string[] {
  const names = new Set<string>();
  for (let each = target; each !== Object.prototype; each = Object.getPrototypeOf(each))
    for (const [name, property] of Object.entries(Object.getOwnPropertyDescriptors(each)))
      if (typeof property.value === 'function' && !INTERNAL.includes(name)) names.add(name);
  return [...names];
}

/** Waits for what is awaited and steps through what is iterated. */
async function consume(result: unknown): Promise<void> {
  const settled = (await result) as Partial<AsyncIterable<unknown> & Iterable<unknown>> | null;
  if (typeof settled !== 'object' || settled === null || ArrayBuffer.isView(settled)) return;
  if (typeof settled[Symbol.asyncIterator] === 'function')
    for await (const _ of settled as AsyncIterable<unknown>) break;
  else if (typeof settled[Symbol.iterator] === 'function')
    for (const _ of settled as Iterable<unknown>) break;
}

/** What a call throws that is no error of the database, as text. */
async function faultOf(call: () => unknown): Promise<string | undefined> {
  try {
    await consume(call());
  } catch (cause) {
    if (!(cause instanceof DatabaseError)) return String(cause);
    if (cause.code.startsWith('internal.')) return `${cause.code}: ${cause.message}`;
  }
  return undefined;
}

describe('arguments of the wrong kind', { timeout: 60_000 }, () => {
  test.each(Object.keys(TARGETS))('no method of a %s throws an untyped error', async (name) => {
    const faults: string[] = [];
    const db = filled();
    const methods = methodsOf(TARGETS[name]!(db));
    db.close();
    expect(methods.length).toBeGreaterThan(4);
    for (const method of methods) {
      const fresh = filled();
      const target = TARGETS[name]!(fresh) as Record<string, Method>;
      for (const given of ARGUMENTS) {
        const fault = await faultOf(() => target[method]!(...given));
        if (fault !== undefined) faults.push(`${method}(${given.map(kindOf).join()}): ${fault}`);
      }
      fresh.close();
    }
    expect(faults).toEqual([]);
  });

  test('no function of the dumps throws an untyped error', async () => {
    const faults: string[] = [];
    const db = filled();
    const folder = newFolder();
    const options = [undefined, null, 5, {}, { format: 'jsonl' }, { format: 'csv', into: 'x' }];
    for (const [name, run] of Object.entries(dumps)) {
      if (typeof run !== 'function') continue;
      const seconds = [undefined, 5, {}, [5], ['text'], `${folder}/${name}`];
      const pairs = [db, undefined, null, 5, 'x', {}].flatMap((a) => seconds.map((b) => [a, b]));
      for (const given of pairs.flatMap((pair) => [pair, ...options.map((o) => [...pair, o])])) {
        const fault = await faultOf(() => (run as Method)(...given));
        if (fault !== undefined) faults.push(`${name}(${given.map(kindOf).join()}): ${fault}`);
      }
    }
    expect(faults).toEqual([]);
  });

  test('a session refuses a collection of another database', () => {
    const [one, two] = [filled(), filled()];
    const session = one.session();
    const error = errorOf(() => session.get(people(two), 1 as never));
    expect(error.code).toBe('usage.argument');
    expect(error.message).toContain('another database');
  });
});

describe('names of maps', () => {
  test.each([[1], [null], [Symbol('s')], [{}]])(
    'a Map with a name that is no text is refused: %s',
    (name) => {
      const kv = openDatabase().kv('maps');
      // A number was written as an empty name, without a word.
      expect(errorOf(() => kv.put('a', new Map([[name, 2]]) as never)).code).toBe('value.type');
      expect(errorOf(() => kv.put('a', [{ b: new Map([[name, 2]]) }] as never)).code).toBe(
        'value.type',
      );
      kv.put('a', new Map([['1', 2]]));
      expect(kv.get('a')).toEqual({ 1: 2 });
    },
  );
});

function kindOf(given: unknown): string {
  return typeof given === 'string' ? `'${given}'` : given === null ? 'null' : typeof given;
}
