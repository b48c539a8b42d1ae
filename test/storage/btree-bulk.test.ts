/** Trees built bottom-up: the same as trees of inserts, as full as asked for. */
import { describe, expect, test } from 'vitest';
import { Random } from '../../src/base/random.ts';
import { TreeBuilder } from '../../src/storage/bulk.ts';
import { Tree } from '../../src/storage/btree.ts';
import { WRITER, type PageId } from '../../src/storage/pages.ts';
import { MemoryPages } from '../support/memory-pages.ts';
import { defineProperty } from '../support/properties.ts';
import { bytesOf, checkEntries, demand, filled, STRUCTURE, Trial } from './btree-trial.ts';

function build(trial: Trial, count: number, fill: number): void {
  const builder = new TreeBuilder(trial.tree, fill);
  const keys = new Set<string>();
  for (let i = 0; i < count; i++) keys.add(trial.key());
  for (const key of [...keys].sort()) {
    const value = trial.value();
    const bytes = bytesOf(key);
    builder.add(bytes, bytes.length, value, 0, value.length);
    trial.map.set(key, value);
  }
  builder.finish();
  trial.commit();
  trial.checkAll();
}

defineProperty({
  name: 'TreeBuilder builds what inserts would',
  cases: 14,
  run: (seed) => {
    const trial = new Trial(seed);
    const random = new Random(seed);
    build(trial, random.pick([0, 1, 2, 5, 60, 700, 2500]), random.pick([0.3, 0.7, 1]));
    trial.batch(300, 0.5); // and it can be written on
  },
  canary: (seed) => {
    const trial = new Trial(seed);
    const write = trial.tree.writer;
    const addCount = write.addCount.bind(write);
    write.addCount = (difference) => addCount(difference > 2 ? difference - 1 : difference);
    build(trial, 60, 1);
  },
});

describe('TreeBuilder', () => {
  function digits(i: number): Uint8Array {
    return bytesOf(`user${String(i).padStart(8, '0')}`);
  }

  function builtStats(fill: number, order?: number) {
    const pages = new MemoryPages(8192);
    const layout = { kind: 'b+tree', order } as const;
    const tree = new Tree(pages, Tree.create(pages, STRUCTURE, layout), STRUCTURE, layout);
    const builder = new TreeBuilder(tree, fill);
    const value = filled(100, 1);
    for (let i = 0; i < 20_000; i++) builder.add(digits(i), 12, value, 0, 100);
    builder.finish();
    tree.check(WRITER);
    return tree.stats(WRITER);
  }

  test('fills nodes as far as asked', () => {
    const full = builtStats(1);
    expect(full.entries).toBe(20_000);
    expect(full.usedBytes / full.nodeBytes).toBeGreaterThan(0.98);
    const loose = builtStats(0.7);
    expect(loose.usedBytes / loose.nodeBytes).toBeGreaterThan(0.66);
    expect(loose.usedBytes / loose.nodeBytes).toBeLessThan(0.71);
  });

  test('gives nodes as many children as the order allows', () => {
    const { nodesByLevel } = builtStats(1, 11);
    expect(nodesByLevel[0]).toBe(2000);
    expect(nodesByLevel[1]).toBe(182); // 11 children each
  });

  test('refuses keys that do not ascend, and leaves the fault to the caller', () => {
    const pages = new MemoryPages(4096);
    const layout = { kind: 'b-tree' } as const;
    const tree = new Tree(pages, Tree.create(pages, STRUCTURE, layout), STRUCTURE, layout);
    const builder = new TreeBuilder(tree);
    builder.add(digits(2), 12, digits(1), 0, 1);
    expect(() => builder.add(digits(2), 12, digits(1), 0, 1)).toThrow(/not above the one before/);
    expect(() => builder.add(digits(1), 12, digits(1), 0, 1)).toThrow(/not above the one before/);
    builder.add(digits(3), 12, digits(1), 0, 1);
    builder.finish();
    checkEntries(
      tree,
      WRITER,
      new Map([
        ['user00000002', digits(1).subarray(0, 1)],
        ['user00000003', digits(1).subarray(0, 1)],
      ]),
    );
  });

  test('holds at most a few pages private at a time', () => {
    const pages = new MemoryPages(4096);
    const layout = { kind: 'b+tree' } as const;
    const tree = new Tree(pages, Tree.create(pages, STRUCTURE, layout), STRUCTURE, layout);
    const touched = new Set<PageId>();
    let most = 0;
    const { allocate, settle } = pages;
    pages.allocate = (structure) => {
      const buffer = allocate.call(pages, structure);
      touched.add(pages.pageOf(buffer));
      most = Math.max(most, touched.size);
      return buffer;
    };
    pages.settle = () => {
      touched.clear();
      settle.call(pages);
    };
    const builder = new TreeBuilder(tree);
    for (let i = 0; i < 3000; i++) builder.add(digits(i), 12, filled(900, i), 0, 900);
    builder.add(digits(3000), 12, filled(200_000, 1), 0, 200_000);
    builder.finish();
    demand(most <= 2, () => `${most} pages were allocated without a settle`);
  });
});
