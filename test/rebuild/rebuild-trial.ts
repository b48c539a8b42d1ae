/** A database with every kind of tree, for tests of rebuilding, on any file system. */
import { runSteps } from '../../src/base/steps.ts';
import { Random } from '../../src/base/random.ts';
import { Database } from '../../src/database.ts';
import { defineBucket, defineCollection, defineIndex } from '../../src/model/schema.ts';
import { LATEST, TRANSACTION } from '../../src/model/source.ts';
import { crc32 } from '../../src/base/checksum.ts';
import type { FileSystem } from '../../src/storage/file.ts';
import { Cursor } from '../../src/storage/btree-cursor.ts';
import { schemaChange } from '../../src/store/schema-changes.ts';
import { treesOf } from '../../src/store/check.ts';
import type { LayoutChange } from '../../src/rebuild/index.ts';
import { rebuildSteps, type RebuildReport } from '../../src/rebuild/rebuild.ts';

export const PATH = '/db/shop';
export const MEMORY_BYTES = 4 << 20;

/** Fills a new database: integer ids, keys of fields, postings, long keys, large values. */
export function fill(db: Database, records: number): void {
  const { store } = db;
  const people = defineCollection({
    name: 'people',
    fields: { id: 'int', email: 'text', region: 'int', note: 'text?' },
    open: true,
    key: 'id',
  });
  const visits = defineCollection({
    name: 'visits',
    fields: { person: 'int', day: 'int', page: 'text' },
    key: ['person', 'day'],
  });
  const random = new Random(7);
  const tx = db.begin();
  for (const definition of [people, visits, defineBucket('blobs', 'text', 'bytes')])
    runSteps(schemaChange(store, { change: 'createCollection', definition }));
  const indexes = [
    defineIndex(people, { parts: ['email'], unique: true, name: 'email' }),
    defineIndex(people, { parts: ['region'], name: 'region' }),
    defineIndex(visits, { parts: ['page'], name: 'page' }),
  ];
  for (const definition of indexes)
    runSteps(schemaChange(store, { change: 'createIndex', definition }));
  const schema = store.schema(TRANSACTION);
  const all = schema.collection('people', TRANSACTION);
  const seen = schema.collection('visits', TRANSACTION);
  for (let id = 1; id <= records; id++) {
    const extra = id % 7 === 0 ? { nickname: `n${id}`, tags: [id, id + 1] } : {};
    const note = id % 31 === 0 ? 'x'.repeat(random.below(9000)) : null;
    all.put({ id, email: `p${id}@example.com`, region: id % 16, note, ...extra });
    seen.put({ person: id, day: id % 9, page: `/page/${'long'.repeat(id % 40)}/${id % 50}` });
    store.storage.settle();
  }
  tx.commit();
}

/** What a database holds, tree by tree: entries and a checksum over all of them. */
export function contents(db: Database): string[] {
  return treesOf(db.store, LATEST)
    .filter(({ name }) => name !== 'catalog')
    .map(({ name, tree }) => {
      const cursor = new Cursor(tree, LATEST);
      let sum = 0;
      let count = 0;
      for (let found = cursor.first(); found; found = cursor.next()) {
        const value = cursor.valueCopy();
        sum = crc32(cursor.key, 0, cursor.keyLength, sum);
        sum = crc32(value, 0, value.length, sum);
        count++;
      }
      cursor.close();
      return `${name}: ${count} ${sum}`;
    });
}

/** Opens, reads everything, checks the whole file, closes. */
export function contentsAt(fs: FileSystem, path = PATH): string[] {
  const db = new Database(path, { memory: 2 * MEMORY_BYTES }, fs);
  try {
    const { faults } = db.check();
    if (faults.length > 0) throw faults[0]!;
    return contents(db);
  } finally {
    db.close();
  }
}

/** The steps of a rebuild on a file system of tests. */
export function steps(fs: FileSystem, change: LayoutChange, keepOld = true) {
  return rebuildSteps({
    fs,
    path: PATH,
    change,
    memoryBytes: 32 << 20,
    keepOld,
    onProgress: () => undefined,
  });
}

export function rebuildOn(fs: FileSystem, change: LayoutChange, keepOld = true): RebuildReport {
  return runSteps(steps(fs, change, keepOld));
}
