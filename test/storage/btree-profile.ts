/**
 * Times the tree alone, over pages that are all in memory: what a warm cache costs at least.
 *
 *   node --import ts-blank-space/register test/storage/btree-profile.ts [records] [page bytes]
 *   node --cpu-prof --import ts-blank-space/register test/storage/btree-profile.ts
 *
 * Keys 'user' and eight digits, values of 100 bytes. CPU microseconds an operation; the machine's
 * cores are shared, so read them to about 1.5.
 */
import { Random } from '../../src/base/random.ts';
import { TreeBuilder } from '../../src/storage/bulk.ts';
import { Cursor } from '../../src/storage/btree-cursor.ts';
import { Tree, type TreeLayout } from '../../src/storage/btree.ts';
import { LATEST, WRITER } from '../../src/storage/pages.ts';
import { PlainPages } from '../support/memory-pages.ts';

const records = Number(process.argv[2] ?? 1_000_000);
const pageBytes = Number(process.argv[3] ?? 8192);
const rounds = Number(process.argv[4] ?? 3);
const layout: TreeLayout = { kind: 'b+tree' };
const random = new Random(1);
const key = new Uint8Array(12);
key.set(Buffer.from('user'));
const value = new Uint8Array(100);

function setKey(n: number): Uint8Array {
  for (let i = 11, rest = n; i >= 4; i--) {
    const tenth = Math.floor(rest / 10);
    key[i] = 48 + rest - tenth * 10;
    rest = tenth;
  }
  return key;
}

function setValue(n: number): void {
  for (let i = 0, x = n | 1; i < 100; i++) {
    x = (Math.imul(x, 1664525) + 1013904223) | 0;
    value[i] = x >>> 24;
  }
}

function timed(name: string, count: number, run: () => void): void {
  const before = process.cpuUsage();
  run();
  const { user, system } = process.cpuUsage(before);
  console.log(`${name.padEnd(34)} ${((user + system) / count).toFixed(3)} us`);
}

function makeTree(): Tree {
  const pages = new PlainPages(pageBytes);
  return new Tree(pages, Tree.create(pages, 7, layout), 7, layout);
}

const order = new Uint32Array(records);
for (let i = 0; i < records; i++) order[i] = i;
for (let i = records - 1; i > 0; i--) {
  const j = random.below(i + 1);
  const x = order[i]!;
  order[i] = order[j]!;
  order[j] = x;
}

let sum = 0;
timed('key and value alone', records, () => {
  for (let i = 0; i < records; i++) {
    setKey(order[i]!);
    setValue(i);
    sum += key[11]! + value[99]!;
  }
});

for (let round = 0; round < rounds; round++) {
  console.log(`--- round ${round + 1}: ${records} records, ${pageBytes}-byte pages`);
  const built = makeTree();
  timed('bulk build', records, () => {
    const builder = new TreeBuilder(built);
    for (let i = 0; i < records; i++) {
      setValue(i);
      builder.add(setKey(i), 12, value, 0, 100);
    }
    builder.finish();
  });
  const sequential = makeTree();
  timed('sequential inserts', records, () => {
    for (let i = 0; i < records; i++) {
      setValue(i);
      sequential.put(setKey(i), 12, value, 0, 100);
    }
  });
  const tree = makeTree();
  timed('random inserts', records, () => {
    for (let i = 0; i < records; i++) {
      setValue(i);
      tree.put(setKey(order[i]!), 12, value, 0, 100);
    }
  });
  const { nodesByLevel, usedBytes, nodeBytes, height } = tree.stats(WRITER);
  console.log(
    `    nodes ${nodesByLevel.join(' ')}, height ${height}, fill ${usedBytes / nodeBytes}`,
  );
  timed('random find', records, () => {
    for (let i = 0; i < records; i++) {
      if (!tree.find(LATEST, setKey(order[i]!), 12)) throw new Error('a record is missing');
      sum += tree.valueBytes;
    }
  });
  timed('random find and valueCopy', records, () => {
    for (let i = 0; i < records; i++) {
      if (!tree.find(LATEST, setKey(order[i]!), 12)) throw new Error('a record is missing');
      sum += tree.valueCopy()[0]!;
    }
  });
  timed('cursor scan', records, () => {
    const cursor = new Cursor(tree, 1);
    for (let step = cursor.first(); step; step = cursor.next()) sum += cursor.key[11]!;
    cursor.close();
  });
  timed('cursor scan and valueCopy', records, () => {
    const cursor = new Cursor(tree, 1);
    for (let step = cursor.first(); step; step = cursor.next()) sum += cursor.valueCopy()[99]!;
    cursor.close();
  });
  timed('ranges of 100, a step', records, () => {
    const cursor = new Cursor(tree, 1);
    for (let i = 0; i < records / 100; i++) {
      let step = cursor.seek(setKey(order[i]!), 12);
      for (let k = 0; k < 100 && step; k++, step = cursor.next()) sum += cursor.key[11]!;
    }
    cursor.close();
  });
  timed('random updates in place', records, () => {
    for (let i = 0; i < records; i++) {
      setValue(i + 12345);
      tree.put(setKey(order[i]!), 12, value, 0, 100);
    }
  });
  timed('equal puts', records, () => {
    for (let i = 0; i < records; i++) {
      setValue(i + 12345);
      tree.put(setKey(order[i]!), 12, value, 0, 100);
    }
  });
  timed('random deletes', records, () => {
    for (let i = 0; i < records; i++) tree.delete(setKey(order[i]!), 12);
  });
}
if (sum === 0) console.log('nothing was read');
