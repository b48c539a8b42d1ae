/** Recording: what a trace says, and that it never harms the store. */
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { open, type Database } from '../../src/database.ts';
import { KeyValue } from '../../src/kv/key-value.ts';
import { or } from '../../src/objects/conditions.ts';
import { Mask } from '../../src/recording/mask.ts';
import { readTrace, type TraceLine } from '../../src/recording/trace-format.ts';

const folder = mkdtempSync(join(tmpdir(), 'monochord-recording-'));
afterAll(() => rmSync(folder, { recursive: true }));
let files = 0;
const fresh = (): string => join(folder, `${++files}.jsonl`);

const CUSTOMERS = {
  fields: { id: 'int', email: 'text', region: 'int', seen: 'datetime?' },
  key: 'id',
  unique: ['email'],
  index: ['region'],
} as const;

/** Everything that can be asked, once. */
async function use(db: Database): Promise<void> {
  const things = db.kv('things');
  things.put('apple', { bytes: new Uint8Array([1, 2]), big: 2n ** 60n, none: -0 });
  things.batch([
    { type: 'put', key: 'pear', value: 1 },
    { type: 'delete', key: 'apple' },
  ]);
  for (const entry of things.range({ prefix: 'p', limit: 5 })) expect(entry[0]).toBe('pear');
  const customers = db.collection('customers', CUSTOMERS);
  db.transaction((tx) => {
    const inside = tx.collection(customers);
    inside.insertMany([
      { id: 1, email: 'a@x', region: 1 },
      { id: 2, email: 'b@x', region: 2 },
    ]);
    const mark = tx.savepoint();
    inside.delete(2);
    tx.rollbackTo(mark);
  });
  customers.get({ email: 'a@x' });
  customers.where({ region: 1 }).where('email', 'prefix', 'a').orderBy('email').toArray();
  customers.where(or({ region: 2 }, ['email', '=', 'a@x'])).count();
  expect(() => customers.insert({ id: 1, email: 'c@x', region: 1 })).toThrow();
  const session = db.session();
  session.get(customers, 1)!.region = 7;
  session.commit();
  await db.transactionAsync(async (tx) => {
    const inside = tx.collection(customers);
    await Promise.resolve();
    customers.get(2); // of another: in the trace it stands before the transaction
    inside.update(2, { region: 8 });
  });
  const snapshot = db.snapshot();
  snapshot.collection(customers).get(1);
  snapshot.close();
  customers.where({ region: 7 }).explain();
}

const shortOf = ({ op, on, found, tx, snap }: TraceLine): string =>
  [op, on, found, tx === undefined ? '' : `tx${tx}`, snap === undefined ? '' : `snap${snap}`]
    .filter((each) => each !== undefined && each !== '')
    .join(' ');

describe('recording', () => {
  test('a trace has every operation, with its transaction and what was found', async () => {
    const file = fresh();
    const db = open(join(folder, 'all.mono'), { record: file });
    await use(db);
    const { recording } = db.stats();
    db.close();
    const { headers, lines, isCut } = readTrace(file);
    expect(isCut).toBe(false);
    expect(headers[0]).toMatchObject({ file: 'all.mono', values: 'plain', commit: 1 });
    expect(lines.filter(({ op }) => op !== 'schema').map(shortOf)).toEqual([
      'put things 0',
      'batch things 2',
      'range things 1',
      'begin',
      'insertMany customers 2',
      'savepoint',
      'delete customers 1',
      'rollbackTo',
      'commit',
      'get customers 1',
      'query customers 1',
      'query customers 2',
      'get customers 1',
      'begin',
      'update customers 1',
      'commit',
      'begin tx1',
      'get customers 1',
      'update customers 1 tx1',
      'commit tx1',
      'snapshot snap2',
      'get customers 1 snap2',
      'close snap2',
    ]);
    expect(recording).toMatchObject({ failed: 1, skipped: { 'Query.explain': 1 } });
    expect(recording!.bytes).toBe(statSync(file).size);
    expect(
      lines.find((line) => line.op === 'schema' && line.on === 'customers')!.schema,
    ).toMatchObject({ fields: { email: 'text', seen: 'datetime?' }, key: ['id'] });
  });

  test('without record handles are those of kv and objects, and nothing is reported', () => {
    const db = open(':memory:');
    expect(Object.getPrototypeOf(db.kv('a'))).toBe(KeyValue.prototype);
    expect(db.kv('a').get).toBe(KeyValue.prototype.get); // a recorded handle answers another
    expect(db.stats().recording).toBeUndefined();
    db.close();
  });

  test('hashed values keep equality, length and beginnings; the key lies beside', async () => {
    const file = fresh();
    const db = open(':memory:', { record: { file, values: 'hash' } });
    await use(db);
    db.close();
    const text = readFileSync(file, 'utf8');
    expect(text).not.toMatch(/apple|pear|a@x/);
    expect(statSync(`${file}.key`).mode & 0o77).toBe(0);
    const mask = new Mask(new Uint8Array(32).fill(7));
    const [one, two, other] = ['customer 1', 'customer 2', 'order'].map(
      (t) => mask.value(t) as string,
    );
    expect([one!.length, other!.length]).toEqual([10, 5]);
    expect(one!.slice(0, 9)).toBe(two!.slice(0, 9));
    expect(one).not.toBe(two);
    expect(mask.value('customer 1')).toBe(one);
    expect(new Mask(new Uint8Array(32).fill(8)).value('customer 1')).not.toBe(one);
    expect(Buffer.byteLength(mask.value('äßé€😀') as string)).toBe(Buffer.byteLength('äßé€😀'));
    expect((mask.value(20) as number) - (mask.value(5) as number)).toBe(15);
    expect(mask.condition(['name', 'prefix', 'cust'])).toEqual([
      'name',
      'prefix',
      one!.slice(0, 4),
    ]);
  });

  test('a full disk stops recording, says so, and the store goes on', () => {
    if (!existsSync('/dev/full')) return;
    const warnings: string[] = [];
    const onWarning = (warning: Error): number => warnings.push(warning.message);
    process.on('warning', onWarning);
    const db = open(':memory:', { record: '/dev/full' });
    for (let i = 0; i < 800; i++) db.kv('a').put(`key ${i}`, 'x'.repeat(100));
    expect(db.kv('a').count()).toBe(800);
    expect(db.stats().recording!.stopped).toMatch(/ENOSPC/);
    expect(db.check().faults).toEqual([]);
    db.close();
    return new Promise<void>((resolve) => {
      setImmediate(() => {
        process.off('warning', onWarning);
        expect(warnings.join()).toMatch(/recording to .* stopped: ENOSPC/);
        resolve();
      });
    });
  });

  test('recording stops at its size, and waits in bounded memory', () => {
    const file = fresh();
    const db = open(':memory:', { record: { file, size: '128 KiB' } });
    for (let i = 0; i < 1500; i++) db.kv('a').put(`key ${i}`, 'x'.repeat(100));
    expect(db.stats().recording!.stopped).toMatch(/size of 131072/);
    expect(statSync(file).size).toBeLessThan(200_000);
    db.close();
  });

  test('long values are written as length and hash', () => {
    const file = fresh();
    const db = open(':memory:', { record: file });
    db.kv('a').put('long', 'x'.repeat(1_000_000));
    db.close();
    expect(statSync(file).size).toBeLessThan(2000);
  });

  test('a trace that was cut off is read up to there, and gone on with', () => {
    const file = fresh();
    const path = join(folder, 'cut.mono');
    let db = open(path, { record: file });
    db.kv('a').put('x', 1);
    db.close();
    writeFileSync(file, readFileSync(file, 'utf8').slice(0, -5));
    expect(readTrace(file)).toMatchObject({ isCut: true, headers: [{}] });
    db = open(path, { record: file });
    db.kv('a').get('x');
    db.close();
    const trace = readTrace(file);
    expect(trace.headers.length).toBe(2);
    expect(trace.lines.map((line) => line.op)).toEqual(['schema', 'reopen', 'get']);
  });

  test('what is no trace, and no option, is refused', () => {
    const file = fresh();
    writeFileSync(file, '{"op":"get"}\n');
    expect(() => readTrace(file)).toThrow(/does not begin with a header/);
    writeFileSync(file, '');
    expect(() => readTrace(file)).toThrow(/it is empty/);
    const header = '{"trace":1,"fileId":"a","collections":[]}\n';
    writeFileSync(file, `${header}{"op":"get"}\n{broken\n{"op":"get"}\n`);
    expect(() => readTrace(file)).toThrow(/line 3 is no JSON/);
    writeFileSync(file, header.replace('"trace":1', '"trace":2'));
    expect(() => readTrace(file)).toThrow(/its format is 2/);
    const path = join(folder, 'refused.mono');
    const wrong =
      (record: unknown): (() => void) =>
      () =>
        open(path, { record: record as string });
    expect(wrong({ file, valeus: 'hash' })).toThrow(/valeus is not one of file, values, size/);
    expect(wrong({ file, values: 'some' })).toThrow(/not plain or hash/);
    expect(wrong(7)).toThrow(/no file and no options/);
    expect(wrong(join(folder, 'none', 'trace.jsonl'))).toThrow(/cannot be opened: ENOENT/);
    open(path).close(); // none of them left it locked
  });
});
