/**
 * Rebuilding (promise P4): every layout to every other, verified, swapped at one moment, gone on
 * with after an interruption at any other, undone; nothing lost when the disk is full.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { Database } from '../../src/database.ts';
import { LATEST } from '../../src/model/source.ts';
import { forgetRebuild, rebuild, rebuildAsync, undoRebuild } from '../../src/rebuild/index.ts';
import type { LayoutChange } from '../../src/rebuild/index.ts';
import { forget, layoutOf, undo } from '../../src/rebuild/rebuild.ts';
import { MemoryFileSystem } from '../../src/storage/memory-file.ts';
import { CrashSignal, FaultFileSystem } from '../faults/fault-file.ts';
import {
  contents,
  contentsAt,
  fill,
  MEMORY_BYTES,
  PATH,
  rebuildOn,
  steps,
} from './rebuild-trial.ts';

const LAYOUTS: Readonly<Record<string, LayoutChange>> = {
  'page 4 KiB': { pageSize: '4 KiB', clusterSize: 256 },
  'page 64 KiB': { pageSize: '64 KiB' },
  'extent 1 MiB': { extentSize: '1 MiB' },
  'cluster 4 KiB': { clusterSize: '4 KiB' },
  'order 32': { index: { order: 32 } },
  'b-tree': { index: { tree: 'b-tree' } },
  'each its own': {
    pageSize: '16 KiB',
    index: { order: 0 },
    collections: {
      people: {
        tree: 'b-tree',
        order: 5,
        clusterSize: '2 KiB',
        indexes: { email: { tree: 'b+tree', order: 64 } },
      },
      visits: { order: 7 },
    },
  },
  'back to the defaults': {
    pageSize: '8 KiB',
    extentSize: '128 KiB',
    clusterSize: 512,
    index: { tree: 'b+tree', order: 0 },
  },
};

function filled<FS extends FaultFileSystem | MemoryFileSystem>(fs: FS, records = 400): FS {
  const db = new Database(PATH, { memory: 2 * MEMORY_BYTES }, fs);
  fill(db, records);
  db.close();
  return fs;
}

function withDatabase<T>(fs: MemoryFileSystem | FaultFileSystem, run: (db: Database) => T): T {
  const db = new Database(PATH, { memory: 2 * MEMORY_BYTES }, fs);
  try {
    return run(db);
  } finally {
    db.close();
  }
}

describe('rebuild', () => {
  test('P4: rebuild takes a file through every layout and loses nothing', () => {
    const fs = filled(new MemoryFileSystem(), 700);
    const before = contentsAt(fs);
    for (const change of Object.values(LAYOUTS)) {
      const report = rebuildOn(fs, change);
      expect(contentsAt(fs)).toEqual(before);
      expect(report.layout).toEqual(
        withDatabase(fs, (db) => layoutOf(db.storage, db.store.catalog)),
      );
      forget(fs, PATH);
    }
  });

  test('rebuild writes what was asked, for the file and for single trees', () => {
    const fs = filled(new MemoryFileSystem());
    const { layout } = rebuildOn(fs, LAYOUTS['each its own']!);
    expect(layout.file.pageBytes).toBe(16_384);
    expect(layout.file.extentBytes).toBe(16 * 16_384);
    const shape = (collection: string, index?: string): string => {
      const found = layout.trees.find((t) => t.collection === collection && t.index === index)!;
      return `${found.layout.tree} ${found.layout.order} ${found.layout.clusterSize}`;
    };
    expect(shape('people')).toBe('b-tree 5 2048');
    expect(shape('people', 'email')).toBe('b+tree 64 2048');
    expect(shape('people', 'region')).toBe('b-tree 5 2048');
    expect(shape('visits')).toBe('b+tree 7 0');
    expect(shape('blobs')).toBe('b+tree 0 0');
  });

  test('rebuild keeps generated ids, field names and what is written later', () => {
    const fs = filled(new MemoryFileSystem());
    rebuildOn(fs, { pageSize: '4 KiB' });
    withDatabase(fs, (db) => {
      const people = db.store.schema(LATEST).collection('people', LATEST);
      expect(people.get(14, LATEST)).toMatchObject({ nickname: 'n14', tags: [14, 15] });
      const tx = db.begin();
      people.put({ id: 9999, email: 'new@example.com', region: 1, note: null, nickname: 'new' });
      tx.commit();
      expect(people.get(9999, LATEST)).toMatchObject({ nickname: 'new' });
      expect(db.check().faults).toEqual([]);
    });
  });

  test('rebuild refuses layouts that no file can have, and names that it does not have', () => {
    const fs = filled(new MemoryFileSystem(), 5);
    const wrong = (change: object): unknown => {
      try {
        rebuildOn(fs, change as LayoutChange);
      } catch (cause) {
        return `${(cause as { code: string }).code} ${(cause as { hint?: string }).hint ?? ''}`;
      }
      return undefined;
    };
    expect(wrong({ pageSize: 5000 })).toMatch('usage.layout');
    expect(wrong({ clusterSize: '8 KiB' })).toMatch('usage.layout');
    expect(wrong({ index: { order: 2 } })).toMatch('usage.layout');
    expect(wrong({ index: { tree: 'hash' } })).toMatch('usage.layout');
    expect(wrong({ extentSize: 10_000 })).toMatch('usage.layout');
    expect(wrong({ pagesize: '4 KiB' })).toMatch(/usage.argument .*pageSize/);
    expect(wrong({ collections: { peple: {} } })).toMatch(/unknown_collection .*people/);
    const index = { collections: { people: { indexes: { emial: {} } } } };
    expect(wrong(index)).toMatch(/unknown_index .*email/);
    expect(wrong({ collections: { people: { indexes: { email: { ordr: 3 } } } } })).toMatch(
      /usage.argument .*order/,
    );
  });

  test('rebuild is undone, unless the rebuilt file was written since', () => {
    const fs = filled(new MemoryFileSystem(), 50);
    rebuildOn(fs, { pageSize: '4 KiB' });
    undo(fs, PATH, false, MEMORY_BYTES);
    expect(withDatabase(fs, (db) => db.storage.pageBytes)).toBe(8192);
    expect(() => undo(fs, PATH, false, MEMORY_BYTES)).toThrow(/no kept file/);
    rebuildOn(fs, { pageSize: '4 KiB' });
    withDatabase(fs, (db) => db.kv('later').put('a', 1));
    expect(() => undo(fs, PATH, false, MEMORY_BYTES)).toThrow(/would lose \d+ commits/);
    expect(undo(fs, PATH, true, MEMORY_BYTES).commitsLeft).toBeGreaterThan(0);
    expect(withDatabase(fs, (db) => db.storage.pageBytes)).toBe(8192);
    expect(contentsAt(fs, `${PATH}-undone`).some((line) => line.startsWith('later'))).toBe(true);
  });

  test('rebuild does not write over a kept file of an earlier one', () => {
    const fs = filled(new MemoryFileSystem(), 50);
    rebuildOn(fs, { pageSize: '4 KiB' });
    expect(() => rebuildOn(fs, { pageSize: '16 KiB' })).toThrow(/kept by an earlier rebuild/);
    expect(forget(fs, PATH)).toEqual([`${PATH}-before`]);
    rebuildOn(fs, { pageSize: '16 KiB' }, false);
    expect(fs.exists(`${PATH}-before`)).toBe(false);
  });

  test('rebuild works where the file system has no links', () => {
    const fs = filled(new FaultFileSystem({ seed: 3, links: false }), 100);
    const before = contentsAt(fs);
    rebuildOn(fs, { pageSize: '4 KiB' });
    expect(contentsAt(fs)).toEqual(before);
    expect(contentsAt(fs, `${PATH}-before`)).toEqual(before);
  });

  test('rebuild is refused while the file is open for writing', () => {
    const fs = filled(new FaultFileSystem({ seed: 4 }), 5);
    withDatabase(fs, () => {
      expect(() => rebuildOn(fs, { pageSize: '4 KiB' })).toThrow(/is open for writing/);
    });
  });
});

describe('rebuild, interrupted', () => {
  test('P4: rebuild, cut off at any moment, leaves the old file or the new one, whole', () => {
    const change = LAYOUTS['each its own']!;
    const operations = (links: boolean): number => {
      const fs = filled(new FaultFileSystem({ seed: 1, links }), 60);
      const from = fs.operationCount;
      rebuildOn(fs, change);
      return fs.operationCount - from;
    };
    let news = 0;
    for (const links of [true, false]) {
      const before = contentsAt(filled(new FaultFileSystem({ seed: 1, links }), 60));
      const all = operations(links);
      for (let at = 1; at <= all; at += at > all - 14 ? 1 : 7) {
        const fs = filled(new FaultFileSystem({ seed: 1, links }), 60);
        fs.crashAfter(at);
        expect(() => rebuildOn(fs, change)).toThrow(CrashSignal);
        const after = at % 2 === 0 ? fs.crash(at) : fs.kill();
        expect(contentsAt(after)).toEqual(before);
        const isNew = withDatabase(after, (db) => db.storage.pageBytes === 16_384);
        if (isNew) news++;
        else rebuildOn(after, change);
        expect(contentsAt(after)).toEqual(before);
        expect(contentsAt(after, `${PATH}-before`)).toEqual(before);
      }
    }
    expect(news).toBeGreaterThan(0);
  });

  test('rebuild, cancelled, goes on with the trees that are copied', () => {
    const fs = filled(new MemoryFileSystem(), 3000);
    const before = contentsAt(fs);
    const machine = steps(fs, { pageSize: '4 KiB' });
    for (let i = 0; i < 25; i++) expect(machine.next().done).toBe(false);
    machine.return(undefined as never);
    expect(contentsAt(fs)).toEqual(before);
    expect(fs.exists(`${PATH}-rebuild`)).toBe(true);
    expect(rebuildOn(fs, { pageSize: '4 KiB' }).isResumed).toBe(true);
    expect(contentsAt(fs)).toEqual(before);
  });

  test('rebuild starts anew when the file was written, or another layout is asked for', () => {
    const fs = filled(new MemoryFileSystem(), 3000);
    const interrupt = (): void => {
      const machine = steps(fs, { pageSize: '4 KiB' });
      for (let i = 0; i < 25; i++) machine.next();
      machine.return(undefined as never);
    };
    interrupt();
    withDatabase(fs, (db) => db.kv('later').put('a', 1));
    const before = contentsAt(fs);
    expect(rebuildOn(fs, { pageSize: '4 KiB' }, false).isResumed).toBe(false);
    expect(contentsAt(fs)).toEqual(before);
    const back = steps(fs, { pageSize: '16 KiB' });
    for (let i = 0; i < 25; i++) back.next();
    back.return(undefined as never);
    expect(rebuildOn(fs, { pageSize: '32 KiB' }).isResumed).toBe(false);
    expect(contentsAt(fs)).toEqual(before);
  });

  test('rebuild without space fails with storage.full, gives its own back, loses nothing', () => {
    const before = contentsAt(filled(new FaultFileSystem({ seed: 2 }), 300));
    for (const spare of [0, 5000, 40_000, 90_000, 130_000]) {
      const fs = filled(new FaultFileSystem({ seed: 2 }), 300);
      fs.capacityBytes = fs.image(PATH).length + spare;
      expect(() => rebuildOn(fs, { pageSize: '4 KiB' })).toThrow(
        expect.objectContaining({ code: 'storage.full' }),
      );
      fs.capacityBytes = Infinity;
      expect(fs.paths().filter((path) => path.includes('rebuild'))).toEqual([]);
      expect(contentsAt(fs)).toEqual(before);
      rebuildOn(fs, { pageSize: '4 KiB' });
      expect(contentsAt(fs)).toEqual(before);
    }
  });

  test('rebuild does not swap in a copy that differs from the file', () => {
    const fs = filled(new FaultFileSystem({ seed: 5 }), 3000);
    const before = contentsAt(fs);
    const machine = steps(fs, { pageSize: '4 KiB' });
    for (let i = 0; i < 25; i++) machine.next();
    machine.return(undefined as never);
    const partial = new Database(`${PATH}-rebuild`, { memory: 2 * MEMORY_BYTES }, fs);
    const tx = partial.begin();
    partial.store.schema(LATEST).bucket('blobs', LATEST).put('extra', Uint8Array.of(1));
    tx.commit();
    partial.close();
    expect(() => rebuildOn(fs, { pageSize: '4 KiB' })).toThrow(/not the same: blobs/);
    expect(contentsAt(fs)).toEqual(before);
    expect(fs.exists(`${PATH}-rebuild`)).toBe(false);
  });
});

describe('rebuild of files', () => {
  const folder = mkdtempSync(join(tmpdir(), 'monochord-rebuild-'));
  afterAll(() => rmSync(folder, { recursive: true }));

  test('rebuild, rebuildAsync, undoRebuild and forgetRebuild work on the disk', async () => {
    const path = join(folder, 'shop');
    const db = new Database(path, { memory: MEMORY_BYTES });
    fill(db, 200);
    const before = contents(db);
    expect(() => rebuild(path, {})).toThrow(/open for writing/);
    db.close();
    const seen = new Set<string>();
    const report = rebuild(path, { pageSize: '16 KiB' }, { onProgress: (p) => seen.add(p.tree) });
    expect(report.keptPath).toBe(`${path}-before`);
    expect([...seen]).toContain('people.email');
    undoRebuild(path);
    await expect(
      rebuildAsync(path, { pageSize: '4 KiB' }, { signal: AbortSignal.abort() }),
    ).rejects.toMatchObject({ code: 'limit.cancelled' });
    await rebuildAsync(path, { pageSize: '4 KiB' });
    const again = new Database(path, { memory: MEMORY_BYTES });
    expect(contents(again)).toEqual(before);
    expect(again.storage.pageBytes).toBe(4096);
    again.close();
    expect(forgetRebuild(path).length).toBe(2);
    expect(() => rebuild(join(folder, 'none'), {})).toThrow(/there is no file/);
    expect(() => rebuild(path, { pageSize: '64 KiB' }, { memory: '8 MiB' })).toThrow(
      /least for two files/,
    );
    expect(() => rebuild(path, {}, { memory: '2 MiB' })).toThrow(/two files/);
  });
});
