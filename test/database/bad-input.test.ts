/**
 * Bad input: a typed error that says what to do; nothing written, nothing lost. Also promise P5: a
 * file is never misread because of the settings it is opened with.
 */
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { ERROR_TABLE } from '../../src/errors.ts';
import { float, int, type Value } from '../../src/model/value.ts';
import type { OpenOptions } from '../../src/options.ts';
import { FaultFileSystem } from '../faults/fault-file.ts';
import { open as openStorage, PATH as STORAGE_PATH } from '../support/small-storage.ts';
import {
  abandon,
  codeOf,
  errorOf,
  kill,
  newFolder,
  openDatabase,
  openPath,
  PATH,
} from './open-database.ts';

describe('values', () => {
  test('NaN, infinities and −0 are kept as they are in floats and JSON', () => {
    const db = openDatabase();
    const json = db.kv('json');
    const floats = db.kv<string, number>('floats', { values: 'float' });
    for (const [i, value] of [NaN, Infinity, -Infinity, -0, 0, 5e-324, 2 ** 53].entries()) {
      json.put(`k${i}`, value);
      floats.put(`k${i}`, value);
      expect(json.get(`k${i}`)).toBe(value);
      expect(floats.get(`k${i}`)).toBe(value);
    }
  });

  test('as keys −0 is 0, 1 is 1.0, and NaN is one key, the last of the numbers', () => {
    const numbers = openDatabase().kv<number, string>('n', { keys: 'float', values: 'text' });
    numbers.put(-0, 'zero');
    numbers.put(0, 'zero again');
    numbers.put(NaN, 'nan');
    numbers.put(0 / 0, 'nan again');
    numbers.put(Infinity, 'infinity');
    numbers.put(-Infinity, 'minus');
    expect(numbers.count()).toBe(4);
    expect(Array.from(numbers.range(), ([, value]) => value)).toEqual([
      'minus',
      'zero again',
      'infinity',
      'nan again',
    ]);
    const any = openDatabase().kv<Value, string>('any', { keys: 'any', values: 'text' });
    any.put(int(1), 'int');
    any.put(float(1), 'float');
    expect(any.count()).toBe(1);
    expect(any.get(1)).toBe('float');
  });

  const WRONG: readonly [what: string, values: string, value: unknown, code: string][] = [
    ['a text for an int', 'int', '1', 'value.type'],
    ['a fraction for an int', 'int', 1.5, 'value.type'],
    ['NaN for an int', 'int', NaN, 'value.type'],
    ['an int beyond 64 bits', 'int', 2n ** 63n, 'value.out_of_range'],
    ['an int that no float is', 'float', 2n ** 53n + 1n, 'value.out_of_range'],
    ['null where a value is required', 'int', null, 'constraint.required'],
    ['undefined', 'json', undefined, 'constraint.required'],
    ['a lone surrogate', 'text', 'a\ud800b', 'value.text'],
    ['a lone surrogate in JSON', 'json', { a: ['\udc00'] }, 'value.text'],
    ['a lone surrogate as a name', 'json', { '\udc00': 1 }, 'value.text'],
    ['a function', 'json', () => 1, 'value.type'],
    ['a symbol', 'json', Symbol('s'), 'value.type'],
    ['an object with a class', 'json', new (class Point {})(), 'value.type'],
    ['undefined inside a list', 'json', [undefined], 'value.type'],
    ['text for bytes', 'bytes', 'abc', 'value.type'],
  ];

  test.each(WRONG)('%s is refused, and nothing is written', (_, values, value, code) => {
    const db = openDatabase();
    const bucket = db.kv<string, Value>('b', { values: values as 'int' });
    bucket.put('before', values === 'bytes' ? new Uint8Array(1) : values === 'text' ? 'x' : 1);
    const { logBytes } = db.stats();
    const error = errorOf(() => bucket.put('k', value as Value));
    expect(error.code).toBe(code);
    expect(error.hint).not.toBe('');
    expect(db.stats().logBytes).toBe(logBytes);
    expect(bucket.count()).toBe(1);
  });

  test('a value nested too deeply, or into itself, is refused', () => {
    const bucket = openDatabase().kv('b');
    let deep: Value = [];
    for (let i = 0; i < 600; i++) deep = [deep];
    expect(codeOf(() => bucket.put('k', deep))).toBe('value.size');
    const circle: Value[] = [];
    circle.push(circle);
    expect(codeOf(() => bucket.put('k', circle))).toBe('value.size');
  });

  const WRONG_KEYS: readonly [what: string, keys: string, key: unknown, code: string][] = [
    ['a number for a text', 'text', 5, 'value.type'],
    ['null', 'text', null, 'value.type'],
    ['undefined', 'text', undefined, 'value.type'],
    ['a lone surrogate', 'text', '\ud800', 'value.text'],
    ['a text for an int', 'int', '5', 'value.type'],
    ['a fraction for an int', 'int', 1.5, 'value.type'],
    ['an int beyond 64 bits', 'int', 2n ** 64n, 'value.out_of_range'],
    ['a text of more than a mebibyte', 'text', 'x'.repeat(2 ** 20 + 1), 'value.size'],
  ];

  test.each(WRONG_KEYS)('%s as a key is refused, and nothing is written', (_, keys, key, code) => {
    const db = openDatabase();
    const bucket = db.kv<Value, number>('b', { keys: keys as 'int', values: 'int' });
    const good = keys === 'int' ? 1 : 'good';
    bucket.put(good, 1);
    const { commitId } = db.stats();
    expect(codeOf(() => bucket.put(key as Value, 2))).toBe(code);
    expect(codeOf(() => bucket.get(key as Value))).toBe(code);
    expect(codeOf(() => bucket.delete(key as Value))).toBe(code);
    expect(db.stats().commitId).toBe(commitId);
    expect(bucket.count()).toBe(1);
  });

  test('keys and fields named __proto__ are names like others', () => {
    const bucket = openDatabase().kv('b');
    const value = JSON.parse('{"__proto__": {"evil": true}, "constructor": 1}') as Value;
    bucket.put('__proto__', value);
    bucket.put('constructor', 2);
    const found = bucket.get('__proto__') as Record<string, unknown>;
    expect(Object.keys(found).sort()).toEqual(['__proto__', 'constructor']);
    expect(({} as { evil?: boolean }).evil).toBeUndefined();
    expect(Object.getPrototypeOf(found)).not.toEqual({ evil: true });
    expect(bucket.count()).toBe(2);
  });

  test('an unknown kind names the nearest one', () => {
    const db = openDatabase();
    const error = errorOf(() => db.kv('b', { values: 'txt' as 'text' }));
    expect(error.code).toBe('usage.argument');
    expect(error.hint).toContain('text');
  });
});

describe('options', () => {
  const WRONG: readonly [options: object, code: string, says: string][] = [
    [{ memory: 64 }, 'usage.argument', "'64 MiB'"],
    [{ memory: '64' }, 'usage.argument', "'64 MiB'"],
    [{ memory: '64 M' }, 'usage.argument', 'MiB'],
    [{ memory: '1 MiB' }, 'usage.argument', ''],
    [{ memory: -1 }, 'usage.argument', ''],
    [{ memory: NaN }, 'usage.argument', ''],
    [{ memory: null }, 'usage.argument', 'MiB'],
    [{ memory: '1.5 B' }, 'usage.argument', ''],
    [{ memroy: '64 MiB' }, 'usage.argument', 'memory'],
    [{ pageSize: '3 KiB' }, 'usage.layout', ''],
    [{ pageSize: '2 KiB' }, 'usage.layout', ''],
    [{ pageSize: '128 KiB' }, 'usage.layout', ''],
    [{ pageSize: 8 }, 'usage.argument', 'unit'],
    [{ extentSize: '100 KB' }, 'usage.layout', ''],
    [{ clusterSize: '128 B' }, 'usage.argument', ''],
    [{ clusterSize: 128 }, 'usage.argument', ''],
    [{ clusterSize: '8 KiB' }, 'usage.layout', ''],
    [{ clusterSize: 300 }, 'usage.layout', ''],
    [{ index: { tree: 'lsm' } }, 'usage.layout', ''],
    [{ index: { order: 2 } }, 'usage.layout', ''],
    [{ index: { order: 3.5 } }, 'usage.layout', ''],
    [{ index: { ordre: 3 } }, 'usage.argument', 'order'],
    [{ durability: 'all' }, 'usage.argument', 'buffered'],
    [{ delayMs: -1 }, 'usage.argument', ''],
    [{ delayMs: '5' }, 'usage.argument', ''],
    [{ readOnly: 1 }, 'usage.argument', ''],
    [{ snapshotAgeMsMax: NaN }, 'usage.argument', ''],
  ];

  test.each(WRONG)('%j is refused, and no file is made', (options, code, says) => {
    const disk = new FaultFileSystem({ seed: 1 });
    const error = errorOf(() => openDatabase(options as OpenOptions, disk));
    const isLayoutOrArgument = error.code === code || error.code === 'usage.layout';
    expect(isLayoutOrArgument, `${error.code}: ${error.message}`).toBe(true);
    expect(`${error.message} ${error.hint}`).toContain(says);
    expect(disk.paths()).toEqual([]);
  });

  test('a path that is no text, or empty, is refused', () => {
    expect(codeOf(() => openPath(''))).toBe('usage.argument');
    expect(codeOf(() => openPath(undefined as unknown as string))).toBe('usage.argument');
    expect(codeOf(() => openPath(7 as unknown as string))).toBe('usage.argument');
  });

  test('options that are no object are refused', () => {
    expect(codeOf(() => openDatabase(null as unknown as OpenOptions))).toBe('usage.argument');
    expect(codeOf(() => openDatabase('64 MiB' as unknown as OpenOptions))).toBe('usage.argument');
  });
});

/** Each setting that is fixed in the file, as made and as somebody else might name it. */
const SETTINGS = [
  ['pageSize', 'pageBytes', 4096, 8192],
  ['extentSize', 'extentBytes', 65536, 131072],
  ['clusterSize', 'clusterBytes', 256, 1024],
  ['tree', 'tree', 'b-tree', 'b+tree'],
  ['order', 'order', 50, 51],
] as const;

type Setting = (typeof SETTINGS)[number];

function optionsOf(values: readonly (readonly [Setting, string | number])[]): OpenOptions {
  const options: Record<string, unknown> = {};
  const index: Record<string, unknown> = {};
  for (const [[name], value] of values) {
    if (name === 'tree' || name === 'order') index[name] = value;
    else options[name] = value;
  }
  return { ...options, ...(Object.keys(index).length > 0 && { index }) };
}

describe('settings that differ from the file (P5)', () => {
  const made = optionsOf(SETTINGS.map((setting) => [setting, setting[2]] as const));

  function newFile(): FaultFileSystem {
    const disk = new FaultFileSystem({ seed: 1 });
    const db = openDatabase(made, disk);
    db.kv('b').put('key', 'value');
    db.close();
    return disk;
  }

  const subsets = Array.from({ length: 2 ** SETTINGS.length }, (_, bits) =>
    SETTINGS.filter((_setting, i) => (bits & (1 << i)) !== 0),
  );

  test('every subset of settings named rightly opens, and reads right', () => {
    const disk = newFile();
    for (const subset of subsets) {
      const db = openDatabase(optionsOf(subset.map((each) => [each, each[2]] as const)), disk);
      expect(db.kv('b').get('key')).toBe('value');
      db.close();
    }
  });

  test('every subset that names one wrongly is refused with both values', () => {
    const disk = newFile();
    const before = Buffer.from(disk.image(PATH));
    let tried = 0;
    for (const subset of subsets)
      for (const wrong of subset) {
        const values = subset.map((each) => [each, each === wrong ? each[3] : each[2]] as const);
        const options = optionsOf(values);
        const { detail, code, message } = errorOf(() => openDatabase(options, disk));
        expect(code, JSON.stringify(options)).toBe('usage.layout');
        expect(message).toContain(String(wrong[2]));
        expect(message).toContain(String(wrong[3]));
        expect(detail['inFile']).toBe(wrong[2]);
        expect(detail['askedFor']).toBe(wrong[3]);
        tried++;
      }
    expect(tried).toBe(80);
    expect(Buffer.compare(Buffer.from(disk.image(PATH)), before)).toBe(0);
    expect(disk.lockHolder(PATH)).toBeUndefined();
  });

  test('budget, durability and the rest of the runtime may differ at every open', () => {
    const disk = newFile();
    for (const options of [
      { memory: '2 MiB' },
      { memory: '64 MiB' },
      { durability: 'none', delayMs: 0, writeEach: true },
      { readOnly: true },
    ] as const) {
      const db = openDatabase(options, disk);
      expect(db.kv('b').get('key')).toBe('value');
      db.close();
    }
  });
});

describe('paths', () => {
  test('a directory is refused', () => {
    const folder = newFolder();
    mkdirSync(`${folder}/dir`);
    const error = errorOf(() => openPath(`${folder}/dir`));
    expect(['storage.io', 'storage.not_a_database', 'storage.permission']).toContain(error.code);
    expect(error.message).toContain('dir');
  });

  test('a folder that is missing is refused', () => {
    const error = errorOf(() => openPath(`${newFolder()}/no/such/file`));
    expect(error.code).toBe('storage.not_found');
  });

  test.each([
    ['a text', Buffer.from('hello, this is no database\n'.repeat(1000))],
    ['a short file', Buffer.from('hi')],
    ['an empty file', Buffer.alloc(0)],
    ['zeroes', Buffer.alloc(65536)],
    ['an SQLite database', Buffer.from('SQLite format 3\0'.padEnd(8192, '\x01'))],
  ])('%s is refused and left as it was', (_, bytes) => {
    const path = `${newFolder()}/foreign`;
    writeFileSync(path, bytes);
    expect(codeOf(() => openPath(path))).toBe('storage.not_a_database');
    expect(codeOf(() => openPath(path, { readOnly: true }))).toBe('storage.not_a_database');
    expect(Buffer.compare(readFileSync(path), bytes)).toBe(0);
    expect(existsSync(`${path}-log`)).toBe(false);
  });

  test('a read-only open of nothing makes nothing', () => {
    const path = `${newFolder()}/none`;
    expect(codeOf(() => openPath(path, { readOnly: true }))).toBe('storage.not_found');
    expect(existsSync(path)).toBe(false);
  });

  test('a file that was not closed is refused without its log, and opens with it', () => {
    let disk = new FaultFileSystem({ seed: 1 });
    const db = openDatabase({}, disk);
    db.kv('b').put('key', 'value');
    disk = kill(db, disk);
    const log = disk.image(`${PATH}-log`);
    disk.remove(`${PATH}-log`);
    const before = disk.image(PATH);
    const error = errorOf(() => openDatabase({}, disk));
    expect(error.code).toBe('storage.log_missing');
    expect(error.message).toContain(PATH);
    expect(Buffer.compare(disk.image(PATH), before)).toBe(0);
    disk.setImage(`${PATH}-log`, log);
    expect(openDatabase({}, disk).kv('b').get('key')).toBe('value');
  });

  test('the log of another file is refused', () => {
    const left = (value: string): FaultFileSystem => {
      const disk = new FaultFileSystem({ seed: 1 });
      const db = openDatabase({}, disk);
      db.kv('b').put('key', value);
      return kill(db, disk);
    };
    const [mine, other] = [left('mine'), left('other')];
    const log = mine.image(`${PATH}-log`);
    mine.setImage(`${PATH}-log`, other.image(`${PATH}-log`));
    expect(codeOf(() => openDatabase({}, mine))).toBe('storage.log_missing');
    mine.setImage(`${PATH}-log`, log);
    expect(openDatabase({}, mine).kv('b').get('key')).toBe('mine');
  });

  test('a read-only open of a file that was not closed says so, or looks back', () => {
    let disk = new FaultFileSystem({ seed: 1 });
    const db = openDatabase({}, disk);
    db.kv('b').put('old', 1);
    db.checkpoint();
    db.kv('b').put('new', 2);
    disk = kill(db, disk);
    expect(codeOf(() => openDatabase({ readOnly: true }, disk))).toBe('storage.recovery_needed');
    const old = openDatabase({ readOnly: true, lastCheckpoint: true }, disk);
    expect(old.kv('b').get('old')).toBe(1);
    expect(old.kv('b').get('new')).toBeUndefined();
    expect(codeOf(() => old.kv('b').put('x', 1))).toBe('usage.read_only');
    expect(codeOf(() => old.begin())).toBe('usage.read_only');
    expect(codeOf(() => old.compact())).toBe('usage.read_only');
    old.close();
    expect(openDatabase({}, disk).kv('b').get('new')).toBe(2);
  });

  test('a file without a checkpoint is empty to a reader beside its writer, until there is', () => {
    for (const lastCheckpoint of [false, true]) {
      const disk = new FaultFileSystem({ seed: 1 });
      const writer = openDatabase({}, disk);
      const fields = { id: 'int', n: 'int' } as const;
      writer.kv('b').put('key', 1);
      writer.collection('c', { fields, key: 'id' }).insert({ id: 1, n: 2 });
      const reader = openDatabase({ readOnly: true, lastCheckpoint }, disk);
      const bucket = reader.kv('b');
      const count = bucket.count();
      expect([bucket.get('key'), bucket.has('key'), count]).toEqual([undefined, false, 0]);
      expect([...bucket.range()]).toEqual([]);
      expect(reader.check().faults).toEqual([]);
      expect(reader.snapshot().kv('b').get('key')).toBeUndefined();
      expect(reader.storedCollection('c')).toBeUndefined();
      expect(reader.refresh()).toBe(false);
      writer.checkpoint();
      expect(reader.refresh()).toBe(true);
      expect([bucket.get('key'), bucket.count()]).toEqual([1, 1]);
      expect(reader.storedCollection('c')?.all().toArray()).toEqual([{ id: 1, n: 2 }]);
      reader.close();
    }
  });

  test('a file whose maker died before its first commit is empty to a reader', () => {
    const disk = new FaultFileSystem({ seed: 1 });
    const made = new FaultFileSystem({ seed: 1 });
    openStorage(made).abandon();
    disk.setImage(PATH, made.image(STORAGE_PATH));
    const reader = openDatabase({ readOnly: true }, disk);
    expect(reader.kv('b').get('key')).toBeUndefined();
    expect(reader.check().faults).toEqual([]);
  });

  test('a second open in the process is refused and names this one', () => {
    const path = `${newFolder()}/twice`;
    const first = openPath(path);
    first.kv('b').put('key', 'value');
    const error = errorOf(() => openPath(path));
    expect(error.code).toBe('storage.locked');
    expect(error.detail['pid']).toBe(process.pid);
    first.kv('b').put('more', 1);
    first.close();
    expect(openPath(path).kv('b').count()).toBe(2);
  });

  test.runIf(process.platform !== 'win32')('without permission it says so', () => {
    const folder = newFolder();
    const path = `${folder}/mine`;
    openPath(path).close();
    chmodSync(path, 0o400);
    if (process.getuid?.() !== 0) {
      expect(codeOf(() => openPath(path))).toBe('storage.permission');
      return;
    }
    // The superuser may do anything: somebody else asks the operating system instead.
    chmodSync(path, 0o600);
    chmodSync(folder, 0o755);
    // (Not by this Node, which may lie where only the superuser may look.)
    const run = spawnSync('test', ['-w', path], { uid: 65534, gid: 65534 });
    expect(run.status).toBe(1); // `permission` below maps what opening comes to then
  });

  test.each(['write', 'create', 'sync'] as const)('permission refused at a %s', (operation) => {
    const disk = new FaultFileSystem({ seed: 1 });
    disk.inject({ operation, kind: 'permission' });
    expect(codeOf(() => openDatabase({}, disk))).toBe('storage.permission');
    disk.clearFaults();
    openDatabase({}, disk).kv('b').put('key', 1);
  });
});

describe('a full disk', () => {
  test('while a database is made leaves nothing that stands in the way', () => {
    for (const capacityBytes of [0, 4096, 8192, 16384, 65536]) {
      const disk = new FaultFileSystem({ seed: 1, capacityBytes });
      const code = ((): string => {
        try {
          openDatabase({ pageSize: '4 KiB' }, disk).close();
          return 'none';
        } catch (cause) {
          return (cause as { code: string }).code;
        }
      })();
      expect(['none', 'storage.full', 'storage.io'], String(capacityBytes)).toContain(code);
      const after = disk.kill();
      after.capacityBytes = Infinity;
      const db = openDatabase({}, after);
      db.kv('b').put('key', 1);
      expect(db.kv('b').get('key')).toBe(1);
      db.close();
    }
  });

  test('refuses what does not fit, goes on reading, and goes on when there is room', () => {
    const disk = new FaultFileSystem({ seed: 1, capacityBytes: 3 << 20 });
    const db = openDatabase({ memory: '2 MiB', pageSize: '4 KiB' }, disk);
    const bucket = db.kv<number, Uint8Array>('b', { keys: 'int', values: 'bytes' });
    let kept = 0;
    const fill = (): void => {
      for (; kept < 100_000; kept++) bucket.put(kept, new Uint8Array(1000).fill(kept));
    };
    const error = errorOf(fill);
    expect(error.code).toBe('storage.full');
    expect(error.hint).toBe(ERROR_TABLE['storage.full'].hint);
    expect(kept).toBeGreaterThan(100);
    for (let i = 0; i < kept; i++) expect(bucket.get(i)![0]).toBe(i & 255);
    expect(bucket.get(kept)).toBeUndefined();
    disk.capacityBytes = 20 << 20;
    for (let i = 0; i < 500; i++) bucket.put(kept + i, new Uint8Array(1000));
    expect(bucket.count()).toBe(kept + 500);
  });

  test('takes deletes when it takes nothing else, and room comes back with them', () => {
    const disk = new FaultFileSystem({ seed: 1, capacityBytes: 4 << 20 });
    const db = openDatabase({ memory: '4 MiB', pageSize: '4 KiB' }, disk);
    const bucket = db.kv<number, Uint8Array>('b', { keys: 'int', values: 'bytes' });
    let kept = 0;
    errorOf(() => {
      for (; kept < 100_000; kept++) bucket.put(kept, new Uint8Array(1000).fill(kept));
    });
    const half = kept >> 1;
    try {
      expect(bucket.deleteRange({ lt: half })).toBe(half);
      for (let i = 0; i < half / 2; i++) bucket.put(i, new Uint8Array(1000).fill(i));
    } finally {
      disk.capacityBytes = Infinity;
    }
  });
});

describe('a failed sync', () => {
  test('latches: what it left is unknown, everything is refused until a reopen', () => {
    let disk = new FaultFileSystem({ seed: 3 });
    const db = openDatabase({}, disk);
    const bucket = db.kv('b');
    bucket.put('safe', 1);
    disk.inject({ operation: 'sync', kind: 'io' });
    const error = errorOf(() => bucket.put('doubtful', 2));
    expect(error.code).toBe('storage.io');
    expect(error.message).toContain('unknown');
    expect(codeOf(() => bucket.get('safe'))).toBe('storage.failed');
    expect(codeOf(() => bucket.put('more', 3))).toBe('storage.failed');
    expect(codeOf(() => db.begin())).toBe('storage.failed');
    abandon(db);
    disk = disk.kill();
    const again = openDatabase({}, disk).kv('b');
    expect(again.get('safe')).toBe(1);
    expect([2, undefined]).toContain(again.get('doubtful'));
    again.put('more', 3);
  });
});
