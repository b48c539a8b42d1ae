/** `MonochordLevel` beyond the suite of `abstract-level`: durability, budget, errors, signals. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { open } from '../../src/index.ts';
import { MonochordLevel } from '../../src/level/index.ts';

const folder = mkdtempSync(join(tmpdir(), 'monochord-level-'));
afterAll(() => rmSync(folder, { recursive: true }));

let files = 0;
const newPath = (): string => join(folder, `${++files}.mono`);

interface Coded {
  readonly code: string;
  readonly message: string;
  readonly cause?: Coded;
}

async function errorOf(call: Promise<unknown>): Promise<Coded> {
  try {
    await call;
  } catch (cause) {
    return cause as Coded;
  }
  throw new Error('no error was thrown');
}

describe('MonochordLevel writes', () => {
  test('reach the file at once and are synced where sync is asked for', async () => {
    const level = new MonochordLevel(newPath());
    await level.open();
    const written = level.database!.stats().logWrites;
    const syncs = (): number => level.database!.stats().commitSyncs;
    const before = syncs();
    await level.put('a', '1');
    await level.batch([{ type: 'put', key: 'b', value: '2' }]);
    expect(level.database!.stats().logWrites).toBe(written + 2);
    expect(syncs()).toBe(before);
    await level.put('c', '3', { sync: true });
    expect(syncs()).toBe(before + 1);
    await level.batch([{ type: 'del', key: 'b' }], { sync: true });
    await level.del('c', { sync: true });
    await level.clear({ sync: true });
    expect(syncs()).toBe(before + 4);
    await level.close();
  });

  test('of level group share a sync and resolve after it', async () => {
    const level = new MonochordLevel(newPath(), { durability: 'group' });
    await level.open();
    const before = level.database!.stats().commitSyncs;
    await Promise.all(['a', 'b', 'c'].map((key) => level.put(key, key)));
    expect(level.database!.stats().commitSyncs).toBe(before + 1);
    await level.close();
  });

  test('wait for the transaction that is open', async () => {
    const database = open(':memory:');
    const level = new MonochordLevel(database);
    await level.open();
    const tx = database.begin();
    database.kv('other').put('x', 1);
    const put = level.put('a', '1');
    expect(level.getSync('a')).toBeUndefined();
    tx.rollback();
    await put;
    expect(level.getSync('a')).toBe('1');
    let asked: Promise<void> | undefined;
    await database.transactionAsync(async () => {
      asked = level.put('b', '2');
      asked.catch(() => undefined);
      await Promise.resolve();
    });
    expect((await errorOf(asked!)).message).toContain('inside another');
    await level.close();
    expect(database.isOpen, 'the caller closes what the caller opened').toBe(true);
    database.close();
  });
});

describe('MonochordLevel options', () => {
  test('of open go to the file', async () => {
    const path = newPath();
    const level = new MonochordLevel(path, { memory: '4 MiB', pageSize: '16 KiB' });
    await level.open();
    expect(level.database!.memory().budgetBytes).toBe(4 * 2 ** 20);
    await level.close();
    const cause = (await errorOf(new MonochordLevel(path, { pageSize: '4 KiB' }).open())).cause!;
    expect(cause.code).toBe('usage.layout');
  });

  test('of the bucket keep two databases in one file apart', async () => {
    const database = open(':memory:');
    const [one, two] = ['one', 'two'].map((bucket) => new MonochordLevel(database, { bucket }));
    await one!.put('a', '1');
    expect(await two!.get('a')).toBeUndefined();
    expect(database.kv('one', { keys: 'bytes', values: 'bytes' }).count()).toBe(1);
    await Promise.all([one!.close(), two!.close()]);
    database.close();
  });

  test('of open are refused for a database that is open already', async () => {
    const database = open(':memory:');
    const options = { memory: '4 MiB', createIfMissing: false };
    const { cause } = await errorOf(new MonochordLevel(database, options).open());
    expect(cause!.message).toContain('memory, createIfMissing');
    database.close();
    expect(() => new MonochordLevel(17 as never)).toThrow(/location/);
  });
});

describe('MonochordLevel errors', () => {
  test('carry the codes of abstract-level and the error of the database', async () => {
    const path = newPath();
    const level = new MonochordLevel(path);
    await level.put('a', '1');
    const locked = await errorOf(new MonochordLevel(path).open());
    expect([locked.code, locked.cause!.code]).toEqual(['LEVEL_DATABASE_NOT_OPEN', 'LEVEL_LOCKED']);
    expect(locked.cause!.cause!.code).toBe('storage.locked');
    await level.close();

    const reader = new MonochordLevel(path, { readOnly: true });
    expect(await reader.get('a')).toBe('1');
    expect((await errorOf(reader.put('a', '2'))).code).toBe('LEVEL_READONLY');
    await reader.close();

    writeFileSync(path, 'something else');
    const foreign = await errorOf(new MonochordLevel(path).open());
    expect(foreign.cause!.code).toBe('LEVEL_CORRUPTION');
  });

  test('of a snapshot that grew too old name it', async () => {
    const level = new MonochordLevel(newPath(), { snapshotAgeMsMax: 0 });
    await level.put('a', '1');
    const snapshot = level.snapshot();
    await new Promise((resolve) => setTimeout(resolve, 5));
    await level.put('a', '2');
    expect((await errorOf(level.get('a', { snapshot }))).code).toBe('LEVEL_SNAPSHOT_NOT_OPEN');
    await level.close();
  });
});

describe('MonochordLevel iterators', () => {
  const batch = (count: number, value: string) =>
    Array.from({ length: count }, (_, i) => ({
      type: 'put' as const,
      key: String(i).padStart(6, '0'),
      value,
    }));

  test('end at a signal in the midst of a long read', async () => {
    const level = new MonochordLevel(':memory:');
    await level.batch(batch(5000, 'x'));
    const stop = new AbortController();
    const read = level.keys({ signal: stop.signal }).all();
    setImmediate(() => stop.abort());
    const error = await errorOf(read);
    expect([error.code, (error as Coded & Error).name]).toEqual(['LEVEL_ABORTED', 'AbortError']);
    expect(await level.keys().all()).toHaveLength(5000);
    await level.close();
  });

  test('over keys read no values', async () => {
    const path = newPath();
    const options = { memory: '2 MiB' };
    const first = new MonochordLevel(path, options);
    await first.batch(batch(64, 'x'.repeat(60_000)));
    await first.close();
    const pagesRead = async (read: (level: MonochordLevel) => Promise<unknown>) => {
      const level = new MonochordLevel(path, options);
      await level.open();
      const before = level.database!.stats().pagesRead;
      await read(level);
      const count = level.database!.stats().pagesRead - before;
      await level.close();
      return count;
    };
    expect(await pagesRead((level) => level.keys().all())).toBeLessThan(12);
    expect(await pagesRead((level) => level.values().all())).toBeGreaterThan(64 * 4);
  });

  test('keep what they give when they go on', async () => {
    const level = new MonochordLevel<string, Uint8Array>(':memory:', { valueEncoding: 'view' });
    for (let i = 0; i < 300; i++) await level.put(String(i), Uint8Array.of(i, i));
    for (const [key, value] of await level.iterator().all()) {
      expect([...value]).toEqual([Number(key) & 255, Number(key) & 255]);
    }
    await level.close();
  });
});
