/** Layout settings of `open` reach the trees that are made later, also after reopening. */
import { describe, expect, it } from 'vitest';
import { Database } from '../../src/database.ts';
import { MemoryFileSystem } from '../../src/storage/memory-file.ts';

describe('Database layout defaults', () => {
  it('gives new buckets, collections and indexes what the file was made with', () => {
    const fs = new MemoryFileSystem();
    const index = { tree: 'b-tree', order: 9 } as const;
    new Database('db', { index, clusterSize: 1024 }, fs).close();
    const db = new Database('db', {}, fs);
    db.kv('bucket').put('a', 1);
    db.collection('records', { fields: { id: 'int', name: 'text' }, key: 'id', index: ['name'] });
    db.kv('own', { layout: { order: 5 } }).put('a', 1);
    const { collections, indexes } = db.source.schema(2 ** 53);
    const layouts = Object.fromEntries(collections.map(({ name, layout }) => [name, layout]));
    const expected = { tree: 'b-tree', order: 9, clusterSize: 1024 };
    expect(layouts).toEqual({
      bucket: expected,
      records: expected,
      own: { ...expected, order: 5 },
    });
    expect(indexes.map(({ layout }) => layout)).toEqual([expected]);
    db.close();
  });
});
