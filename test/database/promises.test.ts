/** Promises of the project (WORKLOADS.md) as far as the store keeps them: P2, P8, P13, P17, P18. */
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { crc32 } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { Random } from '../../src/base/random.ts';
import type { Database } from '../../src/database.ts';
import type { OpenOptions } from '../../src/options.ts';
import {
  FORMAT_VERSION,
  HEADER_BYTES,
  HEADER_COPY_STRIDE,
  HEADER_FIELDS,
} from '../../src/storage/header.ts';
import type { Durability } from '../../src/storage/storage.ts';
import { FaultFileSystem } from '../faults/fault-file.ts';
import { fillGolden, goldenFaults, goldenPath } from './golden.ts';
import {
  abandon,
  errorOf,
  kill,
  newFolder,
  openDatabase,
  openPath,
  PATH,
  pause,
} from './open-database.ts';

type Bytes = ReturnType<typeof bytesOf>;

function bytesOf(db: Database) {
  return db.kv<number, Uint8Array>('b', { keys: 'int', values: 'bytes' });
}

/** A disk with a closed database of `count` records. */
function diskOf(count: number, options: OpenOptions = {}): FaultFileSystem {
  const disk = new FaultFileSystem({ seed: 1 });
  const db = openDatabase({ pageSize: '4 KiB', memory: '16 MiB', ...options }, disk);
  const bucket = bytesOf(db);
  for (let first = 0; first < count; first += 10_000)
    db.transaction(
      () => {
        const end = Math.min(count, first + 10_000);
        for (let i = first; i < end; i++) bucket.put(i, new Uint8Array(60).fill(i));
      },
      { durability: 'none' },
    );
  db.close();
  return disk;
}

describe('P2: a budget that means what it says', () => {
  function work(db: Database, random: Random): void {
    const bucket = bytesOf(db);
    const snapshots = [db.snapshot()];
    for (let round = 0; round < 40; round++) {
      const tx = db.begin({ durability: random.pick(['full', 'group', 'buffered', 'none']) });
      const size = random.pick([10, 100, 2000]);
      const savepoint = random.chance(0.3) ? tx.savepoint() : undefined;
      try {
        for (let i = random.below(400); i > 0; i--)
          bucket.put(random.below(5000), new Uint8Array(random.below(size)).fill(i));
        if (savepoint !== undefined && random.chance(0.5)) tx.rollbackTo(savepoint);
        tx.commit();
      } catch (cause) {
        tx.rollback();
        if ((cause as { code?: string }).code !== 'limit.memory') throw cause;
      }
      if (random.chance(0.2)) snapshots.push(db.snapshot());
      if (random.chance(0.2)) snapshots.splice(random.below(snapshots.length), 1)[0]?.close();
      let seen = 0;
      for (const [,] of bucket.range({ gte: random.below(5000), limit: 200 })) seen++;
      expect(seen).toBeLessThanOrEqual(200);
      const { usedBytes, peakBytes, budgetBytes, accounts } = db.memory();
      expect(peakBytes).toBeLessThanOrEqual(budgetBytes);
      expect(Object.values(accounts).reduce((sum, each) => sum + each, 0)).toBe(usedBytes);
    }
    for (const snapshot of snapshots) snapshot.close();
  }

  test.each(['2 MiB', '3 MiB', '8 MiB'])('a random workload never charges above %s', (memory) => {
    for (let seed = 1; seed <= 3; seed++) {
      const db = openDatabase({ memory, pageSize: '4 KiB' });
      work(db, new Random(seed));
      expect(db.check().faults).toEqual([]);
      db.close();
    }
  });

  test.each([
    ['2 MiB', 0, 0],
    ['4 MiB', 256, 870.4],
    ['16 MiB', 1024, 1664],
    ['1 GiB', 1024, 1664],
  ])('of %s the code of the package has its part', (memory, store, withObjects) => {
    const db = openDatabase({ memory });
    const codeKiB = (): number => db.memory().accounts.code / 1024;
    db.kv('bucket').put('a', 1);
    expect(codeKiB()).toBe(store);
    for (const name of ['a', 'b']) db.collection(name, { fields: { id: 'int' }, key: 'id' });
    expect(codeKiB()).toBeCloseTo(withObjects, 1);
  });
});

describe('P8 and P18: opening does not grow with the data', () => {
  interface Cost {
    readonly reads: number;
    readonly bytes: number;
    readonly writes: number;
    readonly syncs: number;
  }

  function costOf(disk: FaultFileSystem, work: (db: Database) => void): Cost {
    const paths = [PATH, `${PATH}-log`];
    const counts = () =>
      paths
        .map((path) => ({ ...disk.counts(path) }))
        .reduce((sum, each) => {
          return {
            ...sum,
            reads: sum.reads + each.reads,
            bytesRead: sum.bytesRead + each.bytesRead,
            writes: sum.writes + each.writes,
            syncs: sum.syncs + each.syncs,
          };
        });
    const before = counts();
    work(openDatabase({ memory: '8 MiB' }, disk));
    const after = counts();
    return {
      reads: after.reads - before.reads,
      bytes: after.bytesRead - before.bytesRead,
      writes: after.writes - before.writes,
      syncs: after.syncs - before.syncs,
    };
  }

  test('P18: open and first get read the same from 10³ to 10⁵ records, but for the height', () => {
    const costs = [1000, 10_000, 100_000].map((count) =>
      costOf(diskOf(count), (db) => {
        expect(bytesOf(db).get(count >> 1)![0]).toBe((count >> 1) & 255);
        abandon(db);
      }),
    );
    const [small, , large] = costs as [Cost, Cost, Cost];
    for (const cost of costs) {
      expect(cost.writes, 'opening a clean file writes nothing').toBe(0);
      expect(cost.syncs).toBe(0);
    }
    // A level more of the tree, of the map, and no more.
    expect(large.reads - small.reads, JSON.stringify(costs)).toBeLessThanOrEqual(4);
    expect(large.bytes).toBeLessThanOrEqual(small.bytes + 4 * 4096);
  });

  test('P8: recovery reads and writes by the log, not by the size; nothing is rebuilt', () => {
    const costs = [1000, 100_000].map((count) => {
      let disk = diskOf(count);
      const db = openDatabase({ memory: '8 MiB' }, disk);
      const bucket = bytesOf(db);
      for (let i = 0; i < 20; i++) bucket.put(count - 1 - i, new Uint8Array(60).fill(99));
      disk = kill(db, disk);
      return costOf(disk, (again) => {
        expect(again.stats().recoveredCommits).toBe(20);
        expect(bytesOf(again).get(count - 1)![0]).toBe(99);
        abandon(again);
      });
    });
    const [small, large] = costs as [Cost, Cost];
    expect(large.reads - small.reads, JSON.stringify(costs)).toBeLessThanOrEqual(10);
    expect(large.bytes).toBeLessThanOrEqual(small.bytes + 10 * 4096);
    expect(large.writes - small.writes).toBeLessThanOrEqual(4);
    expect(large.syncs).toBe(small.syncs);
  });
});

/** How many of the first commits a disk holds: 0, 1, … of `KEYS`, which must be a prefix. */
function commitsOn(disk: FaultFileSystem): number {
  const db = openDatabase({ pageSize: '4 KiB' }, disk);
  const bucket = bytesOf(db);
  let count = 0;
  while (bucket.has(count)) count++;
  expect(bucket.count(), 'what was lost is the end, nothing in between').toBe(count);
  expect(db.check().faults).toEqual([]);
  db.close();
  return count;
}

/** The numbers of commits that power losses of many kinds leave. */
function afterPowerLoss(disk: FaultFileSystem): Set<number> {
  const left = new Set<number>();
  for (let seed = 0; seed < 60; seed++) left.add(commitsOn(disk.crash(seed)));
  return left;
}

describe('P13: what each level of durability may take back', () => {
  const COMMITS = 12;

  function start(options: OpenOptions): { disk: FaultFileSystem; db: Database; bucket: Bytes } {
    const disk = new FaultFileSystem({ seed: 1 });
    const db = openDatabase({ pageSize: '4 KiB', delayMs: 1e9, ...options }, disk);
    return { disk, db, bucket: bytesOf(db) };
  }

  function commit(bucket: Bytes, count = COMMITS): void {
    for (let i = 0; i < count; i++) bucket.put(i, new Uint8Array(50).fill(i));
  }

  test('full: nothing, when the call has returned', () => {
    const { disk, db, bucket } = start({ durability: 'full' });
    commit(bucket);
    expect([...afterPowerLoss(disk)]).toEqual([COMMITS]);
    expect(commitsOn(kill(db, disk))).toBe(COMMITS);
  });

  test('full: covers the commits of other levels before it, also when it changes nothing', () => {
    for (const level of ['group', 'buffered', 'none'] as const) {
      const { disk, db, bucket } = start({ durability: level });
      commit(bucket);
      const same = new Uint8Array(50).fill(COMMITS - 1);
      db.transaction(() => bucket.put(COMMITS - 1, same), { durability: 'full' });
      expect([...afterPowerLoss(disk)], level).toEqual([COMMITS]);
      expect(commitsOn(kill(db, disk)), level).toBe(COMMITS);
    }
  });

  test('group: what synced() has not resolved for; then nothing', async () => {
    const { disk, db, bucket } = start({ durability: 'group' });
    const before = db.stats().commitSyncs;
    commit(bucket, COMMITS - 1);
    await db.synced();
    bucket.put(COMMITS - 1, new Uint8Array(50));
    const left = afterPowerLoss(disk);
    expect(Math.min(...left)).toBe(COMMITS - 1);
    expect(left.has(COMMITS - 1), 'the last is in the process').toBe(true);
    expect(db.stats().commitSyncs - before, 'one sync for all').toBe(1);
    await db.synced();
    expect([...afterPowerLoss(disk)]).toEqual([COMMITS]);
    expect(commitsOn(kill(db, disk))).toBe(COMMITS);
  });

  test('group: an asynchronous transaction resolves when it is durable', async () => {
    const { disk, db } = start({ durability: 'group' });
    await Promise.all(
      Array.from({ length: COMMITS }, (_, i) =>
        db.transactionAsync((tx) => {
          tx.kv<number, Uint8Array>('b', { keys: 'int', values: 'bytes' }).put(
            i,
            new Uint8Array(9),
          );
        }),
      ),
    );
    expect([...afterPowerLoss(disk)]).toEqual([COMMITS]);
    abandon(db);
  });

  test('buffered: the last delay, or 64 KiB; what is older, nothing', async () => {
    const { disk, db, bucket } = start({ durability: 'buffered', delayMs: 20 });
    commit(bucket);
    expect(Math.min(...afterPowerLoss(disk)), 'still in the process').toBe(0);
    await pause(60);
    expect([...afterPowerLoss(disk)], 'the timer wrote and synced').toEqual([COMMITS]);
    for (let i = 0; i < 100; i++) bucket.put(COMMITS + i, new Uint8Array(1000).fill(i));
    const next = kill(db, disk);
    expect(commitsOn(next), 'a killed process loses 64 KiB at most').toBeGreaterThan(COMMITS + 30);
  });

  test('buffered: a commit that finds the delay passed syncs by itself', () => {
    const { disk, db, bucket } = start({ durability: 'buffered', delayMs: 0 });
    commit(bucket);
    expect([...afterPowerLoss(disk)]).toEqual([COMMITS]);
    abandon(db);
  });

  test('none: anything since the last sync; never synced by itself', async () => {
    const { disk, db, bucket } = start({ durability: 'none', delayMs: 10 });
    const before = db.stats().commitSyncs;
    commit(bucket);
    await pause(30);
    expect(db.stats().commitSyncs).toBe(before);
    expect(Math.min(...afterPowerLoss(disk))).toBe(0);
    db.sync();
    expect([...afterPowerLoss(disk)]).toEqual([COMMITS]);
    abandon(db);
  });

  test('none with writeEach: a killed process loses nothing, a power loss may', () => {
    const { disk, db, bucket } = start({ durability: 'none', writeEach: true });
    commit(bucket);
    expect(Math.min(...afterPowerLoss(disk))).toBe(0);
    expect(commitsOn(kill(db, disk))).toBe(COMMITS);
  });

  test.each(['group', 'buffered', 'none'] as const)('%s: closing loses nothing', (durability) => {
    const { disk, db, bucket } = start({ durability: durability satisfies Durability });
    commit(bucket);
    db.close();
    expect([...afterPowerLoss(disk)]).toEqual([COMMITS]);
  });
});

describe('P17: the format has a version', () => {
  const versions = Array.from({ length: FORMAT_VERSION }, (_, i) => i + 1);

  test.each(versions)(
    'the golden file of version %i opens, checks and has its contents',
    (version) => {
      const path = `${newFolder()}/golden`;
      copyFileSync(goldenPath(version), path);
      const db = openPath(path);
      expect(goldenFaults(db, version)).toEqual([]);
      db.kv('json').put('written', true);
      db.close();
      expect(openPath(path).kv('json').get('written')).toBe(true);
    },
  );

  test('the golden contents are what the current version writes', () => {
    const db = openDatabase({ pageSize: '4 KiB' });
    fillGolden(db);
    expect(goldenFaults(db, FORMAT_VERSION)).toEqual([]);
  });

  test('a file of an older version becomes one of today when it is written, not when read', () => {
    const path = `${newFolder()}/upgraded`;
    const at = HEADER_FIELDS.find(([name]) => name === 'formatVersion')![1];
    const versionOf = (copy: number): number =>
      readFileSync(path).readUInt32LE(copy * HEADER_COPY_STRIDE + at);
    copyFileSync(goldenPath(1), path);
    openPath(path, { readOnly: true }).close();
    expect(versionOf(0)).toBe(1);
    const db = openPath(path);
    db.kv('json').put('written', true);
    db.close();
    expect([versionOf(0), versionOf(1)]).toEqual([FORMAT_VERSION, FORMAT_VERSION]);
  });

  test.each([
    ['both copies', [0, 1]],
    ['the first copy', [0]],
    ['the second copy', [1]],
  ])('a file of the next version is refused with both versions named, %s', (_, copies) => {
    const path = `${newFolder()}/future`;
    const bytes = readFileSync(goldenPath(FORMAT_VERSION));
    const at = HEADER_FIELDS.find(([name]) => name === 'formatVersion')![1];
    expect(bytes.readUInt32LE(at)).toBe(FORMAT_VERSION);
    for (const copy of copies) {
      const header = bytes.subarray(copy * HEADER_COPY_STRIDE);
      header.writeUInt32LE(FORMAT_VERSION + 1, at);
      header.writeUInt32LE(crc32(header.subarray(0, HEADER_BYTES - 4)), HEADER_BYTES - 4);
    }
    writeFileSync(path, bytes);
    for (const options of [{}, { readOnly: true }]) {
      const error = errorOf(() => openPath(path, options));
      expect(error.code).toBe('storage.future_format');
      expect(error.message).toContain(`version ${FORMAT_VERSION + 1}`);
      expect(error.message).toContain(`up to ${FORMAT_VERSION}`);
      expect(error.detail['fileVersion']).toBe(FORMAT_VERSION + 1);
      expect(error.detail['programVersion']).toBe(FORMAT_VERSION);
    }
    expect(Buffer.compare(readFileSync(path), bytes)).toBe(0);
  });
});

describe('layout of new trees', () => {
  test('is the one that the file was made with, unless a bucket names its own', () => {
    const index = { tree: 'b-tree', order: 50 } as const;
    const db = openDatabase({ index, clusterSize: 1024, pageSize: '4 KiB' });
    db.kv('plain').put('a', 1);
    db.kv('own', { layout: { tree: 'b+tree', order: 9 } }).put('a', 1);
    const layoutOf = (name: string) =>
      db.store.catalog.collections(2 ** 53).find((each) => each.definition.name === name)!
        .definition.layout;
    expect(layoutOf('plain')).toEqual({ tree: 'b-tree', order: 50, clusterSize: 1024 });
    expect(layoutOf('own')).toEqual({ tree: 'b+tree', order: 9, clusterSize: 1024 });
  });
});
