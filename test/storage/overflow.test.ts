/** Bytes in overflow: every length around every threshold, fragmented runs, shared clusters. */
import { describe, expect, test } from 'vitest';
import { Random } from '../../src/base/random.ts';
import { Tree } from '../../src/storage/btree.ts';
import { WRITER, type PageId } from '../../src/storage/pages.ts';
import { MemoryPages } from '../support/memory-pages.ts';
import { bytesOf, filled, STRUCTURE } from './btree-trial.ts';

function newTree(pageBytes: number, clusterBytes: number) {
  const pages = new MemoryPages(pageBytes);
  const layout = { kind: 'b+tree', clusterBytes } as const;
  const tree = new Tree(pages, Tree.create(pages, STRUCTURE, layout), STRUCTURE, layout);
  return { pages, tree };
}

/** Puts a value under a key and reads it back whole and in parts. */
function putAndRead(tree: Tree, name: string, value: Uint8Array, random: Random): void {
  const key = bytesOf(name);
  tree.put(key, key.length, value, 0, value.length);
  expect(tree.find(WRITER, key)).toBe(true);
  expect(tree.valueBytes).toBe(value.length);
  expect(Buffer.compare(tree.valueCopy(), value)).toBe(0);
  for (let i = 0; i < 4; i++) {
    const from = random.between(0, value.length);
    const length = random.between(0, value.length - from);
    const target = new Uint8Array(length + 2);
    tree.find(WRITER, key);
    tree.valueInto(target, 1, from, length);
    expect(
      Buffer.compare(target.subarray(1, length + 1), value.subarray(from, from + length)),
    ).toBe(0);
    expect(target[0]! + target[length + 1]!).toBe(0);
  }
  expect(tree.put(key, key.length, value, 0, value.length)).toBe(0);
}

/** Makes the next page ids come from single holes: every other of many pages is free. */
function fragment(pages: MemoryPages, holes: number): PageId[] {
  const ids = Array.from({ length: 2 * holes }, () => pages.pageOf(pages.allocate(99)));
  for (let i = 0; i < ids.length; i += 2) pages.free(ids[i]!);
  return ids.filter((_, i) => i % 2 === 1);
}

describe('Overflow', () => {
  for (const pageBytes of [4096, 16384, 65536]) {
    test(`keeps values of every length around a threshold, ${pageBytes}-byte pages`, () => {
      const random = new Random(pageBytes);
      const clusterBytes = random.pick([256, 512, pageBytes / 2]);
      const { pages, tree } = newTree(pageBytes, clusterBytes);
      const { pagePayload } = tree.overflow;
      const { payload: clusterPayload, perPage: clustersPerPage } = tree.overflow.clusters;
      const places = [0, tree.limits.entryBytesMax - 23, pageBytes >> 2, clusterPayload];
      places.push(clusterPayload * (clustersPerPage - 1), clusterPayload * clustersPerPage);
      places.push(pagePayload, 2 * pagePayload, 2 * pagePayload + clusterPayload * 3);
      for (const place of places) {
        for (let more = -1; more <= 1; more++) {
          if (place + more < 0) continue;
          putAndRead(tree, `v${place}`, filled(place + more, place), random); // overwrites twice
        }
      }
      tree.check(WRITER);
      pages.commit();
      tree.deleteRange();
      tree.check(WRITER);
      expect(pages.pageIds(WRITER)).toEqual([tree.root]);
    });
  }

  test('keeps a value of 10 MB, and one in a thousand single pages', () => {
    const random = new Random(1);
    const { pages, tree } = newTree(4096, 512);
    putAndRead(tree, 'large', filled(10_000_000, 1), random);
    const others = fragment(pages, 3000);
    putAndRead(tree, 'scattered', filled(11_000_000, 2), random);
    putAndRead(tree, 'nine runs', filled(4064 * 9, 3), random);
    for (const page of others) pages.free(page);
    const visited = new Set<PageId>();
    tree.check(WRITER, (page) => visited.add(page));
    expect(visited.size).toBe(pages.pageIds(WRITER).length);
    tree.delete(bytesOf('scattered'));
    tree.delete(bytesOf('large'));
    tree.delete(bytesOf('nine runs'));
    tree.check(WRITER);
    expect(pages.pageIds(WRITER)).toEqual([tree.root]);
  });

  test('shares cluster pages among values, within a third of what they hold', () => {
    const random = new Random(5);
    const { pages, tree } = newTree(8192, 512);
    let held = 0;
    const value = (i: number): Uint8Array => filled(random.between(2100, 7000), i);
    const lengths = new Map<string, number>();
    for (let i = 0; i < 4000; i++) {
      const name = `k${random.below(400)}`;
      const bytes = value(i);
      held += bytes.length - (lengths.get(name) ?? 0);
      lengths.set(name, bytes.length);
      const key = bytesOf(name);
      tree.put(key, key.length, bytes, 0, bytes.length);
      if (i % 100 === 0) pages.commit();
    }
    tree.check(WRITER);
    const space = pages.pageIds(WRITER).length * 8192;
    expect(space / held).toBeLessThan(1.34);
  });

  test('keeps keys of 1 MiB that differ in their last byte only', () => {
    const { pages, tree } = newTree(8192, 512);
    const keys = [1, 2, 3, 4, 5, 6].map((end) => {
      const key = new Uint8Array(2 ** 20).fill(7);
      key[key.length - 1] = end;
      return key;
    });
    for (const end of [3, 1, 6, 2, 5, 4]) {
      const key = keys[end - 1]!;
      expect(tree.insert(key, key.length, key, 0, end)).toBe(true);
    }
    tree.check(WRITER);
    for (const [i, key] of keys.entries()) {
      expect(tree.find(WRITER, key)).toBe(true);
      expect(tree.valueBytes).toBe(i + 1);
    }
    expect(tree.find(WRITER, keys[0]!, keys[0]!.length - 1)).toBe(false);
    const longer = new Uint8Array(2 ** 20 + 1);
    expect(() => tree.put(longer, longer.length, longer, 0, 0)).toThrow(/too large/);
    expect(tree.last(WRITER)).toBe(true);
    expect(Buffer.compare(tree.key.subarray(0, tree.keyLength), keys[5]!)).toBe(0);
    tree.clear();
    expect(pages.pageIds(WRITER)).toEqual([tree.root]);
  });
});
