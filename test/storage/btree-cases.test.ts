/** What trees must do in cases that one can name: edges, fill, log bytes, failures, cursors. */
import { describe, expect, test } from 'vitest';
import { Random } from '../../src/base/random.ts';
import { DatabaseError } from '../../src/errors.ts';
import { Cursor } from '../../src/storage/btree-cursor.ts';
import { Tree, type TreeLayout } from '../../src/storage/btree.ts';
import { LATEST, WRITER } from '../../src/storage/pages.ts';
import { MemoryPages } from '../support/memory-pages.ts';
import { defineProperty } from '../support/properties.ts';
import {
  bytesOf,
  checkEntries,
  demand,
  filled,
  integerKey,
  STRUCTURE,
  textOf,
  Trial,
} from './btree-trial.ts';

const LAYOUTS: TreeLayout[] = [
  { kind: 'b+tree' },
  { kind: 'b-tree' },
  { kind: 'b+tree', order: 3 },
  { kind: 'b-tree', order: 3 },
];

function newTree(layout: TreeLayout = { kind: 'b+tree' }, pageBytes = 4096) {
  const pages = new MemoryPages(pageBytes);
  const tree = new Tree(pages, Tree.create(pages, STRUCTURE, layout), STRUCTURE, layout);
  return { pages, tree };
}

function digits(i: number): Uint8Array {
  return bytesOf(`user${String(i).padStart(8, '0')}`);
}

function put(tree: Tree, key: Uint8Array, value: Uint8Array): number {
  return tree.put(key, key.length, value, 0, value.length);
}

function keysOf(tree: Tree): string[] {
  const cursor = new Cursor(tree, WRITER);
  const keys: string[] = [];
  while (cursor.next()) keys.push(textOf(cursor.key, cursor.keyLength));
  cursor.close();
  return keys;
}

describe('Tree', () => {
  test.each(LAYOUTS)(
    'orders keys that differ in zeroes and length only: $kind $order',
    (layout) => {
      const { tree } = newTree(layout);
      const keys = ['', '\0', '\0\0', '\0\0\0\0', '\0\0\0\0\0', 'ab', 'ab\0', 'ab\0\0', 'ab\0\0\0'];
      keys.push('ab\0\0c', 'abc', 'abcd', 'abcd\0', 'abcde', '\xff', '\xff\xff\xff\xff\xff');
      const shuffled = new Random(3).shuffle([...keys]);
      for (const key of shuffled) expect(put(tree, bytesOf(key), bytesOf(key))).toBe(1);
      tree.check(WRITER);
      expect(keysOf(tree)).toEqual(keys.sort());
      for (const key of keys) {
        expect(tree.find(WRITER, bytesOf(key))).toBe(true);
        expect(textOf(tree.valueCopy())).toBe(key);
      }
      expect(tree.has(WRITER, bytesOf('ab\0\0\0\0'))).toBe(false);
    },
  );

  test.each(LAYOUTS)('finds first, last and nothing: $kind $order', (layout) => {
    const { tree } = newTree(layout);
    expect(tree.first(WRITER)).toBe(false);
    expect(tree.last(WRITER)).toBe(false);
    expect(tree.delete(digits(1))).toBe(false);
    expect(tree.deleteRange()).toBe(0);
    for (let i = 0; i < 50; i++) put(tree, digits(i), digits(i));
    expect(tree.first(WRITER)).toBe(true);
    expect(textOf(tree.key, tree.keyLength)).toBe('user00000000');
    expect(tree.last(WRITER)).toBe(true);
    expect(textOf(tree.key, tree.keyLength)).toBe('user00000049');
    expect(textOf(tree.valueCopy())).toBe('user00000049');
    expect(tree.insert(digits(3), 12, digits(4), 0, 12)).toBe(false);
  });

  test('fills pages by ascending and by descending inserts, and in two interleaved runs', () => {
    const value = filled(100, 1);
    const fills: number[] = [];
    const put1 = (tree: Tree, n: number): number => put(tree, digits(n), value);
    for (const order of [(i: number) => i, (i: number) => 1_000_000 - i]) {
      const { tree } = newTree({ kind: 'b+tree' }, 8192);
      for (let i = 0; i < 5000; i++) put1(tree, order(i));
      tree.check(WRITER);
      const { usedBytes, nodeBytes } = tree.stats(WRITER);
      fills.push(usedBytes / nodeBytes);
    }
    const { tree } = newTree({ kind: 'b+tree' }, 8192);
    put1(tree, 50_000_000);
    for (let i = 0; i < 5000; i++) put1(tree, i); // ascends below a key that is there
    const { usedBytes, nodeBytes } = tree.stats(WRITER);
    fills.push(usedBytes / nodeBytes);
    expect(Math.min(fills[0]!, fills[1]!)).toBeGreaterThan(0.96);
    expect(fills[2]).toBeGreaterThan(0.9);
  });

  test('logs about 300 bytes for a random insert of 100 bytes', () => {
    const { pages, tree } = newTree({ kind: 'b+tree' }, 8192);
    const order = new Random(1).shuffle(Array.from({ length: 12_000 }, (_, i) => i));
    for (const i of order.slice(0, 6000)) put(tree, digits(i), filled(100, i));
    pages.commit();
    pages.loggedBytes = 0;
    for (const i of order.slice(6000, 9000)) {
      put(tree, digits(i), filled(100, i));
      pages.commit();
    }
    const single = pages.loggedBytes / 3000;
    pages.loggedBytes = 0;
    for (const [at, i] of order.slice(9000).entries()) {
      put(tree, digits(i), filled(100, i));
      if (at % 100 === 99) pages.commit();
    }
    expect(single).toBeLessThan(400);
    expect(pages.loggedBytes / 3000).toBeLessThan(300);
  });

  test('logs little more than what an update changes', () => {
    const { pages, tree } = newTree({ kind: 'b+tree' }, 8192);
    for (let i = 0; i < 2000; i++) put(tree, digits(i), filled(100, i));
    pages.commit();
    pages.loggedBytes = 0;
    const value = filled(100, 77);
    value[50]! ^= 1;
    put(tree, digits(77), value);
    pages.commit();
    expect(pages.loggedBytes).toBeLessThan(100);
    pages.loggedBytes = 0;
    expect(put(tree, digits(77), value)).toBe(0);
    pages.commit();
    expect(pages.loggedFrames).toBeGreaterThan(0);
    expect(pages.loggedBytes).toBe(48); // the commit frame
  });

  test.each(LAYOUTS)('stays within bounds of space under churn: $kind $order', (layout) => {
    const { pages, tree } = newTree(layout);
    const random = new Random(8);
    const present: number[] = [];
    for (let i = 0; i < 2000; i++) present.push(i);
    for (const i of present) put(tree, digits(i), filled(60, i));
    const before = pages.pageIds(WRITER).length;
    for (let i = 2000; i < (layout.order === 3 ? 4000 : 7000); i++) {
      put(tree, digits(random.below(1e8)), filled(random.between(20, 100), i));
      const at = random.below(tree.count(WRITER));
      const cursor = new Cursor(tree, WRITER);
      cursor.seek(digits(random.below(1e8) * (at % 2)), 12);
      if (cursor.isAtEntry) tree.delete(cursor.key.slice(0, cursor.keyLength));
      else if (cursor.last()) tree.delete(cursor.key.slice(0, cursor.keyLength));
      cursor.close();
      if (i % 200 === 0) pages.commit();
    }
    tree.check(WRITER);
    expect(tree.count(WRITER)).toBeGreaterThan(1990); // a key or two were met again
    expect(pages.pageIds(WRITER).length).toBeLessThan(before * 2.2);
    tree.drop();
    expect(pages.pageIds(WRITER)).toEqual([]);
  });

  test('frees whole subtrees of a range without reading more than the pages', () => {
    const { pages, tree } = newTree();
    for (let i = 0; i < 20_000; i++) put(tree, digits(i), filled(20, i));
    pages.commit();
    const all = pages.pageIds(WRITER).length;
    let reads = 0;
    const read = pages.read.bind(pages);
    pages.read = (page, view) => {
      reads++;
      return read(page, view);
    };
    expect(tree.deleteRange(digits(50), digits(19_950))).toBe(19_900);
    expect(reads).toBeLessThan(all + 150);
    tree.check(WRITER);
    expect(tree.count(WRITER)).toBe(100);
    expect(pages.pageIds(WRITER).length).toBeLessThan(6);
  });

  test('estimates ranges, exactly inside a leaf', () => {
    const { tree } = newTree();
    const random = new Random(2);
    const order = random.shuffle(Array.from({ length: 10_000 }, (_, i) => i));
    for (const i of order) put(tree, digits(i), filled(20, i));
    for (let i = 0; i < 100; i++) {
      const from = random.below(9000);
      const count = random.between(200, 1000);
      const found = tree.estimate(WRITER, digits(from), digits(from + count));
      expect(found).toBeGreaterThan(count * 0.4 - 40);
      expect(found).toBeLessThan(count * 1.8 + 40);
    }
    expect(tree.estimate(WRITER)).toBe(10_000);
    const small = newTree().tree;
    for (let i = 0; i < 50; i++) put(small, digits(i), filled(20, i));
    expect(small.estimate(WRITER, digits(10), digits(30))).toBeCloseTo(20, 6);
  });

  test('refuses layouts that cannot be, and a file whose layout differs', () => {
    const pages = new MemoryPages(4096);
    for (const layout of [
      { kind: 'b+tree', order: 2 },
      { kind: 'b+tree', order: 3.5 },
      { kind: 'b+tree', clusterBytes: 100 },
      { kind: 'b+tree', clusterBytes: 4096 },
    ] as const) {
      expect(() => Tree.create(pages, STRUCTURE, layout)).toThrow(/not a/);
    }
    const root = Tree.create(pages, STRUCTURE, { kind: 'b+tree', order: 9 });
    const other = new Tree(pages, root, STRUCTURE, { kind: 'b+tree', order: 10 });
    expect(() => other.check(WRITER)).toThrow(/order and kind/);
    const foreign = new Tree(pages, root, STRUCTURE + 1, { kind: 'b+tree', order: 9 });
    expect(() => foreign.find(WRITER, digits(1))).toThrow(/structure/);
  });
});

describe('Cursor', () => {
  test('keeps to its snapshot while the tree is written', () => {
    const { pages, tree } = newTree();
    for (let i = 0; i < 3000; i += 2) put(tree, digits(i), filled(30, i));
    const view = pages.commit();
    const map = new Map(keysOf(tree).map((key, i) => [key, filled(30, 2 * i)]));
    const cursor = new Cursor(tree, view);
    const keys: string[] = [];
    for (let i = 0; cursor.next(); i++) {
      keys.push(textOf(cursor.key, cursor.keyLength));
      expect(Buffer.compare(cursor.valueCopy(), map.get(keys.at(-1)!)!)).toBe(0);
      put(tree, digits(2 * i + 1), filled(50, i));
      tree.delete(digits(2 * (i - 5)));
      if (i % 50 === 0) pages.commit();
    }
    expect(keys).toEqual([...map.keys()]);
    checkEntries(tree, view, map);
    cursor.close();
    expect(pages.pinCount).toBe(0);
  });

  test('steps back and forth over its ends', () => {
    const { pages, tree } = newTree({ kind: 'b-tree', order: 3 });
    for (let i = 1; i <= 9; i++) put(tree, integerKey(i), digits(i));
    const cursor = new Cursor(tree, WRITER);
    expect(cursor.previous()).toBe(false);
    expect(cursor.next()).toBe(true);
    expect(cursor.previous()).toBe(false);
    for (let i = 0; i < 9; i++) expect(cursor.next()).toBe(true);
    expect(cursor.next()).toBe(false);
    expect(cursor.next()).toBe(false);
    expect(pages.pinCount).toBe(0);
    expect(cursor.previous()).toBe(true);
    expect(textOf(cursor.valueCopy())).toBe('user00000009');
    expect(cursor.seek(integerKey(5), 8, false)).toBe(true);
    expect(textOf(cursor.valueView())).toBe('user00000006');
    expect(cursor.seek(integerKey(5), 8, false, true)).toBe(true);
    expect(textOf(cursor.valueCopy())).toBe('user00000004');
    expect(cursor.seek(integerKey(10), 8)).toBe(false);
    expect(cursor.seek(integerKey(10), 8, true, true)).toBe(true);
    expect(textOf(cursor.valueCopy())).toBe('user00000009');
    expect(cursor.seek(integerKey(0), 8, true, true)).toBe(false);
    expect(pages.pinCount).toBe(0);
  });

  test('sees what was put ahead of it, and not what was deleted', () => {
    const { tree } = newTree({ kind: 'b+tree', order: 3 });
    for (let i = 0; i < 20; i += 2) put(tree, digits(i), digits(i));
    const cursor = new Cursor(tree, WRITER);
    const seen: string[] = [];
    for (let i = 0; cursor.next(); i++) {
      seen.push(textOf(cursor.key, cursor.keyLength).slice(-2));
      if (i === 2) put(tree, digits(5), digits(5));
      if (i === 2) tree.delete(digits(4)); // the entry it stands at
      if (i === 2) tree.delete(digits(6));
      if (i === 6) tree.deleteRange(digits(13));
    }
    expect(seen).toEqual(['00', '02', '04', '05', '08', '10', '12']);
    cursor.close();
  });
});

/** Lets every n-th call of the pager fail, then checks that nothing is left behind. */
function failEverywhere(seed: number, forgetRollback: boolean): void {
  const random = new Random(seed);
  const trial = new Trial(seed);
  trial.batch(200, 0.9);
  trial.commit();
  for (let i = 0; i < 60; i++) {
    const map = new Map(trial.map);
    trial.pages.failAfter = random.below(25);
    let failed = false;
    try {
      const key = trial.key();
      const value = trial.value();
      if (i % 3 === 0) trial.delete(key);
      else if (i % 3 === 1) trial.put(key, value);
      else trial.tree.deleteRange(bytesOf(key), bytesOf(trial.key()));
    } catch (error) {
      demand(error instanceof DatabaseError, () => `${String(error)} is no database error`);
      failed = true;
    }
    trial.pages.failAfter = -1;
    demand(trial.pages.pinCount === 0, () => 'a failed call leaves a pin');
    if (!failed || !forgetRollback) {
      trial.rollback();
      trial.map = map;
    }
    trial.checkAll();
  }
}

defineProperty({
  name: 'Tree is whole after a failure anywhere and a rollback',
  cases: 6,
  run: (seed) => failEverywhere(seed, false),
  canary: (seed) => failEverywhere(seed, true),
});

test('LATEST sees the newest commit and not the open transaction', () => {
  const { pages, tree } = newTree();
  put(tree, digits(1), digits(1));
  pages.commit();
  put(tree, digits(1), digits(2));
  expect(tree.find(LATEST, digits(1))).toBe(true);
  expect(textOf(tree.valueCopy())).toBe('user00000001');
  expect(tree.find(WRITER, digits(1))).toBe(true);
  expect(textOf(tree.valueCopy())).toBe('user00000002');
});
