/**
 * The golden file of each version of the format (promise P17): what was written into it, and what
 * must be read out of it for ever. `node --import ts-blank-space/register test/database/golden.ts`
 * writes the file of the current version, once, when a version is released.
 */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type Database, open } from '../../src/database.ts';
import { defineCollection, defineIndex } from '../../src/model/schema.ts';
import { LATEST } from '../../src/model/source.ts';
import type { Value } from '../../src/model/value.ts';
import { FORMAT_VERSION } from '../../src/storage/header.ts';
import { EmbeddedSource } from '../../src/store/embedded-source.ts';
import { StorePointAccess } from '../../src/store/point-access.ts';

export function goldenPath(version: number): string {
  return fileURLToPath(new URL(`../data/golden/version-${version}.mono`, import.meta.url));
}

/** Values of many kinds, as JSON keeps them. */
const JSON_VALUES: Readonly<Record<string, Value>> = {
  bool: true,
  bytes: Uint8Array.of(0, 128, 255),
  float: 2.5,
  int: -7,
  large: 2n ** 62n,
  list: [1, [null, 'two'], {}],
  map: { ä: 1, __proto__x: [true] },
  text: 'naïve 𝄞',
};
const PEOPLE = 60;

function person(id: number): Record<string, Value> {
  return { id, name: `person ${id % 20}`, photo: new Uint8Array(id * 40).fill(id) };
}

function longKey(id: number): string {
  return `${'k'.repeat(1500)}${id}`;
}

/** Fills a new database: both kinds of trees, buckets, a collection with indexes, large values. */
export function fillGolden(db: Database): void {
  const json = db.kv('json', { values: 'json' });
  for (const [key, value] of Object.entries(JSON_VALUES)) json.put(key, value);
  const numbers = db.kv<number, string>('numbers', {
    keys: 'int',
    values: 'text',
    layout: { tree: 'b-tree', order: 8, clusterSize: 256 },
  });
  for (let i = -50; i < 50; i++) numbers.put(i * 3, `value ${i}`);
  const long = db.kv<string, Uint8Array>('long', { values: 'bytes' });
  for (let i = 0; i < 4; i++) long.put(longKey(i), new Uint8Array(i * 9000).fill(i));
  const source = new EmbeddedSource(db.store);
  const definition = defineCollection({
    name: 'people',
    fields: { id: 'int', name: 'text', photo: 'bytes' },
    key: 'id',
  });
  db.transaction(() => {
    source.applySchemaChange({ change: 'createCollection', definition });
    for (const [parts, unique] of [
      [['name'], false],
      [['name', 'id'], true],
    ] as const)
      source.applySchemaChange({
        change: 'createIndex',
        definition: defineIndex(definition, { parts, unique }),
      });
    const people = new StorePointAccess(db.store).collection('people');
    for (let id = 1; id <= PEOPLE; id++) people.insert(person(id));
  });
  db.transaction(() => numbers.deleteRange({ gte: 0, lt: 30 }));
  const posts = db.collection('posts', POSTS); // since version 2
  posts.insertMany(Array.from({ length: 40 }, (_, id) => ({ id, tags: tagsOf(id) })));
}

const POSTS = { fields: { id: 'int', tags: 'list' }, key: 'id', index: ['tags'] } as const;

const tagsOf = (id: number): string[] => [`by ${id % 3}`, `by ${id % 5}`, `by ${id % 3}`];

/** Everything that is not as it was written by a version, one sentence each. */
export function goldenFaults(db: Database, version: number): string[] {
  const faults = db.check().faults.map((fault) => fault.message);
  const expect = (what: string, found: unknown, wanted: unknown): void => {
    const [a, b] = [shown(found), shown(wanted)];
    if (a !== b) faults.push(`${what}: ${a}, not ${b}`);
  };
  expect('json', Object.fromEntries(db.kv('json').range()), JSON_VALUES);
  const numbers = db.kv<number, string>('numbers');
  const kept = Array.from({ length: 100 }, (_, i) => i - 50).filter((i) => i < 0 || i >= 10);
  expect(
    'numbers',
    [...numbers.range()],
    kept.map((i) => [i * 3, `value ${i}`]),
  );
  const long = db.kv<string, Uint8Array>('long');
  for (let i = 0; i < 4; i++) {
    expect(`long ${i}`, long.get(longKey(i)), new Uint8Array(i * 9000).fill(i));
  }
  const people = new StorePointAccess(db.store).collection('people');
  expect('people', people.count(LATEST), PEOPLE);
  for (let id = 1; id <= PEOPLE; id++) expect(`person ${id}`, people.get(id, LATEST), person(id));
  const named = people.index('name').getAll('person 7', LATEST);
  expect(
    'index',
    named.map((each) => each['id']!),
    [7, 27, 47],
  );
  if (version < 2) return faults;
  const posts = db.collection('posts', POSTS).where('tags', 'contains', 'by 4');
  expect(
    'posts by a tag',
    posts.toArray().map(({ id }) => id),
    Array.from({ length: 8 }, (_, i) => 5 * i + 4),
  );
  expect('an index over elements', /by index "tags/.test(posts.explain().text), true);
  return faults;
}

function shown(value: unknown): string {
  return JSON.stringify(value, (_, each: unknown) => {
    if (each instanceof Uint8Array) return `bytes ${Buffer.from(each).toString('base64')}`;
    return typeof each === 'bigint' ? `${each}n` : each;
  });
}

const isScript = process.argv[1] === fileURLToPath(import.meta.url);
if (isScript) {
  const path = goldenPath(FORMAT_VERSION);
  if (existsSync(path)) throw new Error(`${path} is there already, and must never change`);
  const db = open(path, { pageSize: '4 KiB', memory: '4 MiB' });
  fillGolden(db);
  db.close();
}
