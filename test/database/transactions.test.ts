/** Transactions, savepoints, snapshots and the end of a database. */
import { describe, expect, test } from 'vitest';
import { type Database, open } from '../../src/database.ts';
import type { KeyValue } from '../../src/kv/key-value.ts';
import { codeOf, codeOfAsync, errorOf, openDatabase, pause } from './open-database.ts';

type Numbers = KeyValue<string, number>;

function numbers(db: Database): Numbers {
  return db.kv<string, number>('n', { values: 'int' });
}

const entriesOf = (bucket: Numbers): Record<string, number> => Object.fromEntries(bucket.range());

describe('Database.transaction', () => {
  test('commits when the function returns, and returns what it returns', () => {
    const db = openDatabase();
    const bucket = numbers(db);
    const result = db.transaction((tx) => {
      bucket.put('a', 1);
      tx.kv<string, number>('n').put('b', 2);
      return 'done';
    });
    expect(result).toBe('done');
    expect(entriesOf(bucket)).toEqual({ a: 1, b: 2 });
  });

  test('takes everything back when the function throws, new buckets included', () => {
    const db = openDatabase();
    const bucket = numbers(db);
    bucket.put('a', 1);
    expect(() =>
      db.transaction(() => {
        bucket.put('a', 2);
        db.kv('other').put('x', 'y');
        throw new Error('mine');
      }),
    ).toThrow('mine');
    expect(entriesOf(bucket)).toEqual({ a: 1 });
    expect(db.kv('other', { values: 'int' }).count(), 'free for other kinds').toBe(0);
  });

  test('may be ended by hand inside, and then is not ended again', () => {
    const db = openDatabase();
    const bucket = numbers(db);
    db.transaction((tx) => {
      bucket.put('a', 1);
      tx.commit();
    });
    db.transaction((tx) => {
      bucket.put('a', 2);
      tx.rollback();
    });
    expect(entriesOf(bucket)).toEqual({ a: 1 });
  });

  test('does not nest', () => {
    const db = openDatabase();
    const bucket = numbers(db);
    db.transaction(() => {
      bucket.put('a', 1);
      expect(codeOf(() => db.transaction(() => undefined))).toBe('usage.transaction');
      expect(codeOf(() => db.begin())).toBe('usage.transaction');
      bucket.put('b', 2);
    });
    expect(entriesOf(bucket)).toEqual({ a: 1, b: 2 });
  });

  test('refuses an asynchronous function and keeps nothing of it', async () => {
    const db = openDatabase();
    const bucket = numbers(db);
    const run = async (): Promise<void> => {
      bucket.put('a', 1);
      await Promise.resolve();
      bucket.put('b', 2); // no transaction any more: commits by itself
    };
    expect(codeOf(() => db.transaction(run))).toBe('usage.transaction');
    expect(entriesOf(bucket)).toEqual({});
    await pause(1);
    expect(entriesOf(bucket)).toEqual({ b: 2 });
  });

  test('refuses unknown options and levels', () => {
    const db = openDatabase();
    const typo = { durabilty: 'full' } as object;
    const error = errorOf(() => db.transaction(() => undefined, typo));
    expect(error.code).toBe('usage.argument');
    expect(error.hint).toContain('durability');
    expect(codeOf(() => db.begin({ durability: 'most' as 'full' }))).toBe('usage.argument');
  });

  test('keeps its changes apart from readers until it commits', () => {
    const db = openDatabase();
    const bucket = numbers(db);
    bucket.put('a', 1);
    const entries = bucket.range();
    db.transaction(() => {
      bucket.put('a', 2);
      bucket.put('b', 3);
    });
    expect([...entries]).toEqual([['a', 1]]);
  });
});

describe('Database.begin', () => {
  test('gives a transaction that ends once', () => {
    const db = openDatabase();
    const tx = db.begin();
    const bucket = tx.kv<string, number>('n', { values: 'int' });
    bucket.put('a', 1);
    expect(tx.isOpen).toBe(true);
    tx.commit();
    expect(tx.isOpen).toBe(false);
    tx.rollback(); // nothing to do
    expect(codeOf(() => tx.commit())).toBe('usage.closed');
    expect(codeOf(() => tx.savepoint())).toBe('usage.closed');
    expect(codeOf(() => tx.kv('n'))).toBe('usage.closed');
    expect(bucket.get('a')).toBe(1);
  });

  test('rolls back at the end of its block', () => {
    const db = openDatabase();
    const bucket = numbers(db);
    {
      const tx = db.begin();
      bucket.put('a', 1);
      tx[Symbol.dispose]();
    }
    expect(entriesOf(bucket)).toEqual({});
    expect(db.begin().isOpen).toBe(true);
    db.close();
  });
});

describe('savepoints', () => {
  test('take back what came after them, and stay', () => {
    const db = openDatabase();
    const bucket = numbers(db);
    db.transaction((tx) => {
      bucket.put('a', 1);
      const first = tx.savepoint();
      bucket.put('a', 2);
      bucket.put('b', 1);
      const second = tx.savepoint();
      bucket.delete('a');
      tx.rollbackTo(second);
      expect(entriesOf(bucket)).toEqual({ a: 2, b: 1 });
      bucket.put('c', 1);
      tx.rollbackTo(first);
      expect(entriesOf(bucket)).toEqual({ a: 1 });
      expect(
        codeOf(() => tx.rollbackTo(second)),
        'inside the first',
      ).toBe('usage.transaction');
      bucket.put('d', 1);
      tx.rollbackTo(first);
      tx.release(first);
      expect(codeOf(() => tx.rollbackTo(first))).toBe('usage.transaction');
    });
    expect(entriesOf(bucket)).toEqual({ a: 1 });
  });

  test('released keep what was written', () => {
    const db = openDatabase();
    const bucket = numbers(db);
    db.transaction((tx) => {
      const outer = tx.savepoint();
      bucket.put('a', 1);
      const inner = tx.savepoint();
      bucket.put('b', 2);
      tx.release(inner);
      expect(entriesOf(bucket)).toEqual({ a: 1, b: 2 });
      tx.rollbackTo(outer);
    });
    expect(entriesOf(bucket)).toEqual({});
  });

  test('take back thousands of changes that spilled', () => {
    const db = openDatabase({ memory: '2 MiB', pageSize: '4 KiB' });
    const bucket = db.kv<number, Uint8Array>('b', { keys: 'int', values: 'bytes' });
    const value = (n: number): Uint8Array => new Uint8Array(900).fill(n);
    db.transaction((tx) => {
      for (let i = 0; i < 1000; i++) bucket.put(i, value(1));
      const savepoint = tx.savepoint();
      for (let i = 0; i < 2000; i++) bucket.put(i, value(2));
      tx.rollbackTo(savepoint);
      expect(bucket.count()).toBe(1000);
      for (let i = 0; i < 1000; i += 50) expect(bucket.get(i)![0]).toBe(1);
    });
    expect(db.stats().pagesSpilled).toBeGreaterThan(0);
    expect(bucket.count()).toBe(1000);
  });
});

describe('Database.transactionAsync', () => {
  test('commits at the end, rolls back at a rejection', async () => {
    const db = openDatabase();
    const bucket = numbers(db);
    const result = await db.transactionAsync(async (tx) => {
      tx.kv('n', { values: 'int' }).put('a', 1);
      await pause(1);
      tx.kv('n').put('b', 2);
      return 'done';
    });
    expect(result).toBe('done');
    const failing = db.transactionAsync(async (tx) => {
      tx.kv('n').put('c', 3);
      await pause(1);
      throw new Error('mine');
    });
    await expect(failing).rejects.toThrow('mine');
    expect(entriesOf(bucket)).toEqual({ a: 1, b: 2 });
  });

  test('other handles neither write in it nor see it', async () => {
    const db = openDatabase();
    const bucket = numbers(db);
    bucket.put('a', 1);
    await db.transactionAsync(async (tx) => {
      const inside = tx.kv<string, number>('n');
      inside.put('a', 2);
      await pause(1);
      expect(bucket.get('a')).toBe(1);
      expect(inside.get('a')).toBe(2);
      expect(codeOf(() => bucket.put('b', 1))).toBe('conflict.writer_busy');
      expect(codeOf(() => db.transaction(() => undefined))).toBe('conflict.writer_busy');
      expect(codeOf(() => db.begin())).toBe('conflict.writer_busy');
      expect(codeOf(() => db.check())).toBe('conflict.writer_busy');
    });
    expect(entriesOf(bucket)).toEqual({ a: 2 });
  });

  test('writers take turns, first come first served', async () => {
    const db = openDatabase();
    const order: number[] = [];
    const writers = Array.from({ length: 5 }, (_, i) =>
      db.transactionAsync(async (tx) => {
        await pause(5 - i);
        order.push(i);
        tx.kv('n', { values: 'int' }).put(`k${i}`, i);
      }),
    );
    await Promise.all(writers);
    expect(order).toEqual([0, 1, 2, 3, 4]);
    expect(numbers(db).count()).toBe(5);
  });

  test('a turn has a time limit and may be cancelled; others go on', async () => {
    const db = openDatabase();
    const first = db.transactionAsync(() => pause(40));
    const abort = new AbortController();
    const late = db.transactionAsync(() => 1, { timeoutMs: 5 });
    const cancelled = db.transactionAsync(() => 2, { signal: abort.signal });
    const patient = db.transactionAsync((tx) => tx.kv('n', { values: 'int' }).put('a', 1));
    abort.abort();
    expect(await codeOfAsync(cancelled)).toBe('limit.cancelled');
    expect(await codeOfAsync(late)).toBe('limit.time');
    await first;
    await patient;
    expect(numbers(db).get('a')).toBe(1);
  });

  test('with a signal that is aborted already does not begin', async () => {
    const db = openDatabase();
    const signal = AbortSignal.abort();
    let ran = false;
    const call = db.transactionAsync(() => (ran = true), { signal });
    expect(await codeOfAsync(call)).toBe('limit.cancelled');
    expect(ran).toBe(false);
    numbers(db).put('a', 1);
  });

  test('does not nest, which would wait for ever', async () => {
    const db = openDatabase();
    const other = openDatabase();
    await db.transactionAsync(async () => {
      expect(await codeOfAsync(db.transactionAsync(() => 1))).toBe('usage.transaction');
      await other.transactionAsync(() => 2);
    });
  });

  test('waits for an open synchronous transaction', async () => {
    const db = openDatabase();
    const tx = db.begin();
    tx.kv('n', { values: 'int' }).put('a', 1);
    const later = db.transactionAsync((async) => async.kv('n').put('b', 2));
    await pause(5);
    tx.commit();
    await later;
    expect(entriesOf(numbers(db))).toEqual({ a: 1, b: 2 });
  });

  test('goes on when the synchronous transaction it waits for is rolled back', async () => {
    // A rollback once let those who waited for its end wait until the next commit.
    const db = openDatabase();
    const open = db.begin();
    const waiting = db.transactionAsync((tx) => numbers(tx as never).put('a', 1));
    await pause(1);
    open.rollback();
    await waiting;
    expect(numbers(db).get('a')).toBe(1);
  });

  test('handles of an ended one are closed', async () => {
    const db = openDatabase();
    let kept: Numbers | undefined;
    await db.transactionAsync((tx) => {
      kept = tx.kv<string, number>('n', { values: 'int' });
      kept.put('a', 1);
    });
    expect(codeOf(() => kept!.get('a'))).toBe('usage.closed');
    expect(codeOf(() => kept!.put('a', 2))).toBe('usage.closed');
    expect(numbers(db).get('a')).toBe(1);
  });
});

describe('Database.snapshot', () => {
  test('never changes, whatever is written, checkpointed and compacted', () => {
    const db = openDatabase({ memory: '2 MiB', pageSize: '4 KiB' });
    const bucket = db.kv<number, Uint8Array>('b', { keys: 'int', values: 'bytes' });
    const value = (n: number): Uint8Array => new Uint8Array(400).fill(n);
    db.transaction(() => {
      for (let i = 0; i < 300; i++) bucket.put(i, value(0));
    });
    const snapshot = db.snapshot();
    for (let round = 1; round <= 5; round++) {
      db.transaction(() => {
        for (let i = 0; i < 300; i += round) bucket.put(i, value(round));
      });
      db.checkpoint();
    }
    db.transaction(() => bucket.deleteRange());
    db.compact();
    const old = snapshot.kv<number, Uint8Array>('b');
    expect(old.count()).toBe(300);
    for (const [, bytes] of old.range()) expect(bytes.every((each) => each === 0)).toBe(true);
    expect(bucket.count()).toBe(0);
    snapshot.close();
    expect(db.stats().versions).toBe(0);
  });

  test('is for reading only, and closed is closed', () => {
    const db = openDatabase();
    numbers(db).put('a', 1);
    const snapshot = db.snapshot();
    const bucket = snapshot.kv<string, number>('n');
    expect(codeOf(() => bucket.put('a', 2))).toBe('usage.read_only');
    expect(codeOf(() => bucket.delete('a'))).toBe('usage.read_only');
    expect(codeOf(() => bucket.batch([]))).toBe('usage.read_only');
    expect(codeOf(() => bucket.deleteRange())).toBe('usage.read_only');
    const entries = bucket.range();
    snapshot[Symbol.dispose]();
    snapshot.close();
    expect(codeOf(() => bucket.get('a'))).toBe('usage.closed');
    expect(codeOf(() => entries.next())).toBe('usage.closed');
  });

  test('sees buckets as they were: made later, they are not there', () => {
    const db = openDatabase();
    numbers(db).put('a', 1);
    const snapshot = db.snapshot();
    db.kv('later').put('x', 'y');
    expect(snapshot.kv('later').get('x')).toBeUndefined();
    expect(snapshot.kv('n').get('a')).toBe(1);
    snapshot.close();
  });

  test('beyond its age limit is closed by a later commit', async () => {
    const db = openDatabase({ snapshotAgeMsMax: 20 });
    numbers(db).put('a', 1);
    const snapshot = db.snapshot();
    const bucket = snapshot.kv('n');
    expect(bucket.get('a')).toBe(1);
    await pause(40);
    numbers(db).put('a', 2);
    expect(codeOf(() => bucket.get('a'))).toBe('conflict.snapshot_expired');
    snapshot.close();
  });
});

describe('Database.close', () => {
  test('rolls back what is open, may be called twice, and ends every handle', () => {
    const db = openDatabase();
    const bucket = numbers(db);
    bucket.put('a', 1);
    const entries = bucket.range();
    const snapshot = db.snapshot();
    const tx = db.begin();
    bucket.put('b', 2);
    db.close();
    db.close();
    expect(db.isOpen).toBe(false);
    for (const call of [
      () => bucket.get('a'),
      () => bucket.put('a', 1),
      () => entries.next(),
      () => snapshot.kv('n'),
      () => tx.commit(),
      () => db.kv('n'),
      () => db.begin(),
      () => db.snapshot(),
      () => db.synced(),
      () => db.sync(),
      () => db.checkpoint(),
      () => db.check(),
      () => db.compact(),
      () => db.backup('/db/copy'),
    ])
      expect(codeOf(call), String(call)).toBe('usage.closed');
    snapshot.close();
    tx.rollback();
  });

  test('tells those who wait for a sync, and those who wait to write', async () => {
    const db = openDatabase({ durability: 'group' });
    const bucket = numbers(db);
    bucket.put('a', 1);
    const synced = db.synced();
    db.close();
    await synced; // closing made it durable
  });

  test('refuses asynchronous writers that still wait', async () => {
    const db = openDatabase();
    const tx = db.begin();
    const waiting = db.transactionAsync(() => 1);
    db.close();
    tx.rollback();
    expect(await Promise.race([codeOfAsync(waiting), pause(200).then(() => 'hangs')])).toBe(
      'usage.closed',
    );
  });

  test('is what Symbol.dispose does', () => {
    const db = open(':memory:');
    db[Symbol.dispose]();
    expect(db.isOpen).toBe(false);
  });
});

describe('Database.close inside an asynchronous transaction', () => {
  test('takes it back; its end is refused', async () => {
    const db = openDatabase();
    const running = db.transactionAsync(async (tx) => {
      tx.kv('n', { values: 'int' }).put('a', 1);
      await pause(5);
    });
    await pause(1);
    db.close();
    expect(await codeOfAsync(running)).toBe('usage.closed');
  });
});

describe("open(':memory:')", () => {
  test('is a database of its own, with nothing on disk', () => {
    const a = open(':memory:', { memory: '2 MiB' });
    const b = open(':memory:');
    numbers(a).put('a', 1);
    expect(numbers(b).get('a')).toBeUndefined();
    expect(a.memory().memoryFileBytes).toBeGreaterThan(0);
    expect(a.check().faults).toEqual([]);
    a.close();
    b.close();
  });
});

describe('dropped collections', () => {
  const drop = (name: string) => ({ change: 'dropCollection', collection: name }) as const;

  function made(db: Database, name: string): void {
    const fields = { id: 'int', mark: 'int' } as const;
    const each = db.collection(name, { fields, key: 'id', index: ['mark'] });
    each.insert({ id: 1, mark: 2 });
  }

  test('leave no trees behind, whoever saw them', () => {
    const db = openDatabase();
    made(db, 'kept');
    const before = db.store.treeCount;
    for (let round = 0; round < 20; round++) {
      made(db, 'passing');
      const snapshot = db.snapshot();
      db.transaction((tx) => tx.changeSchema(drop('passing')));
      expect(snapshot.recordCount('passing')).toBe(1);
      expect([...snapshot.exactRecords('passing')]).toEqual([{ id: 1, mark: 2 }]);
      snapshot.close();
    }
    expect(db.store.treeCount).toBeLessThanOrEqual(before + 2);
  });

  test('come back with a savepoint or a rollback, and go on as before', () => {
    const db = openDatabase();
    made(db, 'things');
    const things = db.storedCollection('things')!;
    db.transaction((tx) => {
      const savepoint = tx.savepoint();
      tx.changeSchema(drop('things'));
      tx.rollbackTo(savepoint);
      tx.kv('other').put('a', 1);
    });
    things.insert({ id: 2, mark: 3 });
    const tx = db.begin();
    tx.changeSchema(drop('things'));
    tx.rollback();
    db.transaction((each) => each.kv('third').put('a', 1));
    things.insert({ id: 3, mark: 3 });
    expect(things.where({ mark: 3 }).count()).toBe(2);
    expect(things.count()).toBe(3);
  });
});
