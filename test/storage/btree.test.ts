import { expect, test } from 'vitest';
import { Cursor } from '../../src/storage/btree-cursor.ts';
import { Tree, type TreeLayout } from '../../src/storage/btree.ts';
import { WRITER } from '../../src/storage/pages.ts';
import { Random } from '../../src/base/random.ts';
import { MemoryPages } from '../support/memory-pages.ts';

const layouts: TreeLayout[] = [
  { kind: 'b+tree' },
  { kind: 'b-tree' },
  { kind: 'b+tree', order: 3 },
  { kind: 'b-tree', order: 3 },
  { kind: 'b+tree', order: 7 },
  { kind: 'b-tree', order: 8 },
];
for (const layout of layouts) {
  test(`random ${JSON.stringify(layout)}`, () => {
    const pages = new MemoryPages(4096);
    const root = Tree.create(pages, 7, layout);
    const tree = new Tree(pages, root, 7, layout);
    const model = new Map<string, Buffer>();
    const random = new Random(1);
    for (let i = 0; i < 6000; i++) {
      const key = Buffer.from('k' + random.below(900));
      const value = Buffer.alloc(random.below(random.chance(0.02) ? 9000 : 120), i & 255);
      if (random.chance(i < 3000 ? 0.7 : 0.45)) {
        const r = tree.put(key, key.length, value, 0, value.length);
        const old = model.get(key.toString());
        expect(r).toBe(old === undefined ? 1 : old.equals(value) ? 0 : 2);
        model.set(key.toString(), value);
      } else expect(tree.delete(key)).toBe(model.delete(key.toString()));
      if (i % 97 === 0) pages.commit();
      if (i % 500 === 0 || i === 5999) {
        expect(tree.count(WRITER)).toBe(model.size);
        const keys = [...model.keys()].sort();
        const cursor = new Cursor(tree, WRITER);
        const found: string[] = [];
        for (let ok = cursor.first(); ok; ok = cursor.next()) {
          found.push(Buffer.from(cursor.key.subarray(0, cursor.keyLength)).toString());
          expect(Buffer.compare(cursor.valueCopy(), model.get(found[found.length - 1]!)!)).toBe(0);
        }
        expect(found).toEqual(keys);
        const back: string[] = [];
        for (let ok = cursor.last(); ok; ok = cursor.previous())
          back.push(Buffer.from(cursor.key.subarray(0, cursor.keyLength)).toString());
        expect(back.reverse()).toEqual(keys);
        cursor.close();
        for (const k of keys) {
          expect(tree.find(WRITER, Buffer.from(k))).toBe(true);
          expect(Buffer.compare(tree.valueCopy(), model.get(k)!)).toBe(0);
        }
      }
    }
    expect(pages.pinCount).toBe(0);
  });
}
