/** Traces as workloads: replay on a copy of the store, answers that layouts share, index advice. */
import {
  copyFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { open } from '../../src/database.ts';
import { undoRebuild } from '../../src/rebuild/index.ts';
import { applyLayout, commandOf, undoCommandOf } from '../../src/tuner/apply.ts';
import { prepareReplay, replayWorkload, storeOfReplay } from '../../src/tuner/trace-workload.ts';
import { loadWorkload, type Workload, type WorkloadContext } from '../../src/tuner/workload.ts';

const folder = mkdtempSync(join(tmpdir(), 'monochord-trace-'));
afterAll(() => rmSync(folder, { recursive: true }));
const store = join(folder, 'app.mono');
const plain = join(folder, 'plain.jsonl');
const hashed = join(folder, 'hashed.jsonl');
const memory = '8 MiB';

const SETTINGS = {
  fields: { id: 'int', email: 'text', region: 'int', age: 'int' },
  key: 'id',
  unique: ['email'],
  index: ['region'],
} as const;

function use(record: { file: string; values: 'plain' | 'hash' }, offset: number): void {
  const db = open(store, { record });
  const people = db.collection('people', SETTINGS);
  for (let i = 1; i <= 20; i++) {
    people.get(i);
    people.get({ email: `p${i}@x` });
    people.where({ age: i }).orderBy('id').toArray();
    people.where({ age: i }).where('email', 'prefix', 'p1').count();
  }
  db.transaction(() => {
    people.insert({ id: 1000 + offset, email: `new${offset}@x`, region: 1, age: 1 });
    people.update(3, { age: 4 });
  });
  db.kv('log').put(`entry ${offset}`, { at: 1 });
  const found = [...db.kv('log').range({ gte: 'entry' })];
  expect(found.length).toBeGreaterThan(0);
  db.close();
}

beforeAll(() => {
  const db = open(store);
  const people = db.collection('people', SETTINGS);
  db.transaction(() => {
    for (let id = 1; id <= 300; id++) {
      people.insert({ id, email: `p${id}@x`, region: id % 4, age: id % 50 });
    }
  });
  db.close();
  use({ file: plain, values: 'plain' }, 0);
  use({ file: hashed, values: 'hash' }, 1);
});

/** What a worker gives a workload, on a copy of a store. */
function contextOf(source: string, isFirstRun = true): WorkloadContext {
  const path = join(folder, 'run.mono');
  copyFileSync(source, path);
  rmSync(`${path}-log`, { force: true });
  return {
    path,
    treeLayout: {},
    open: (options = {}) => open(path, { memory, ...options }),
    check: () => undefined,
    count: () => undefined,
    isFirstRun,
  };
}

function run(workload: Workload, source: string): string[] {
  const entered: string[] = [];
  workload.interleave!(contextOf(source), (phase) => entered.push(phase));
  return entered;
}

describe('replay of a trace', () => {
  test('runs as recorded, phases by kind of work, and gives the same answers again', () => {
    const prepared = prepareReplay({ trace: plain, store, folder, memory });
    const workload = replayWorkload(prepared.file);
    expect(workload.phases.map((each) => each.name)).toEqual([
      'open',
      'get',
      'range',
      'query',
      'write',
      'commit',
      'close',
    ]);
    const entered = run(workload, store);
    expect(entered[0]).toBe('open');
    expect(entered.at(-1)).toBe('close');
    expect(entered.filter((each) => each === 'query').length).toBe(40);
    // The store has moved on by the trace itself: its insert is a save now.
    expect(readFileSync(prepared.file, 'utf8')).toMatch(/"op":"save","on":"people"/);
    expect(prepared.notes.join()).toMatch(/answers count other rows than when recorded/);
    expect(readdirSync(folder).filter((each) => each.startsWith('reference'))).toEqual([]);
    expect(prepareReplay({ trace: plain, store, folder, memory })).toEqual(prepared); // kept
  });

  test('P20: indexes are advised from what was asked, measured like others, and applied', () => {
    const prepared = prepareReplay({ trace: plain, store, folder, memory });
    const names = prepared.candidates.map((each) => each.name);
    // The condition on age and email reads a range of the index on email: it wants no other.
    expect(names).toEqual(['index people(age)', 'no index people.region']);
    const layout = {
      pageSize: '16 KiB',
      indexes: {
        add: [{ collection: 'people', parts: ['age'] }],
        drop: [{ collection: 'people', index: 'region' }],
      },
    };
    const file = join(folder, 'applied.mono');
    copyFileSync(store, file);
    applyLayout(file, layout, {});
    run(replayWorkload(prepared.file), file); // throws if any answer differs
    const db = open(file);
    const people = db.storedCollection('people')!;
    expect(people.where({ age: 3 }).explain().text).toMatch(/by index "age"/);
    expect(people.where({ region: 3 }).explain().text).not.toMatch(/index/);
    expect(db.check().faults).toEqual([]);
    db.close();
    expect(commandOf(file, layout, 'out/r.json')).toBe(`monochord tune ${file} --apply out/r.json`);
    expect(undoCommandOf(file, layout)).toMatch(/--undo --force$/);
    undoRebuild(file, { force: true });
    const old = open(file);
    expect(old.storedCollection('people')!.where({ region: 3 }).explain().text).toMatch(/"region"/);
    old.close();
  });

  test('a layout that answers otherwise is wrong, whether it counts or finds other rows', () => {
    const prepared = prepareReplay({ trace: plain, store, folder, memory });
    const workload = replayWorkload(prepared.file);
    const broken = join(folder, 'broken.mono');
    copyFileSync(store, broken);
    const db = open(broken);
    db.storedCollection('people')!.update(7, { email: 'else@x' });
    db.close();
    expect(() => run(workload, broken)).toThrow(/get {2}of people: (other rows|0 rows, not 1)/);
  });

  test('hashed values are replayed on a copy of the store that is hashed alike', () => {
    const prepared = prepareReplay({ trace: hashed, store, folder, memory });
    expect(prepared.source).not.toBe(store);
    run(replayWorkload(prepared.file), prepared.source);
    const text = readFileSync(prepared.file, 'utf8');
    expect(text).not.toMatch(/p1@x/);
    // Gets find their records: the hashes of the trace are those of the copy.
    expect(text).toMatch(
      /"op":"get","on":"people","args":\[\{"email":"[^"]+"\}\],"found":1,"want":\[1,/,
    );
    expect(prepared.candidates.map((each) => each.name)).toContain('index people(age)');
    expect(storeOfReplay(hashed, store, folder)).toBe(prepared.source);
    writeFileSync(`${hashed}.key`, `${'ab'.repeat(32)}\n`);
    expect(() => storeOfReplay(hashed, store, folder)).toThrow(/not the key/);
    rmSync(`${hashed}.key`);
    expect(() => storeOfReplay(hashed, store, folder)).toThrow(/hashed.jsonl.key is missing/);
  });

  test('a trace of another store is refused, naming both', () => {
    const other = join(folder, 'other.mono');
    const db = open(other);
    db.kv('notes').put('a', 1);
    db.close();
    const prepare = (): unknown => prepareReplay({ trace: plain, store: other, folder, memory });
    expect(prepare).toThrow(
      /recorded on app.mono \(id \w{8}: people 300\), not on other.mono \(id \w{8}: notes 1\)/,
    );
    expect(prepare).toThrow(expect.objectContaining({ code: 'usage.trace' }));
  });

  test('a trace that was cut in the middle is replayed up to there', () => {
    const cut = join(folder, 'cut.jsonl');
    const text = readFileSync(plain, 'utf8');
    writeFileSync(cut, text.slice(0, text.indexOf('"op":"insert"') + 20)); // within a transaction
    const prepared = prepareReplay({ trace: cut, store, folder, memory });
    expect(prepared.notes.join()).toMatch(/the trace was cut off/);
    run(replayWorkload(prepared.file), store);
  });

  test('a trace without its store is no workload', async () => {
    await expect(loadWorkload(plain)).rejects.toThrow(/is replayed on the store it is of/);
  });
});
