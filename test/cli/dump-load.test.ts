/** `monochord dump` and `load` as a user starts them: pipes, exit codes, kills and Ctrl-C. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { open } from '../../src/index.ts';
import { built, type Built } from './built.ts';

let program: Built;
const folder = mkdtempSync(join(tmpdir(), 'monochord-dump-cli-'));
const path = (name: string): string => join(folder, name);
const shop = path('shop.mono');
afterAll(() => {
  program.remove();
  rmSync(folder, { recursive: true });
});

function monochord(args: readonly string[], input?: string): [number | null, string, string] {
  const { status, stdout, stderr } = spawnSync(process.execPath, [program.cli, ...args], {
    encoding: 'utf8',
    ...(input !== undefined && { input }),
  });
  return [status, stdout, stderr];
}

const INTO = ['--format', 'jsonl', '--into', 'events', '--lines'];

/** Starts a load from standard input and writes some of it. */
async function halfLoad(): Promise<ChildProcess> {
  const child = spawn(process.execPath, [program.cli, 'load', shop, '-', ...INTO]);
  child.stdin.on('error', () => undefined); // it ends while it is written to
  child.stdin.write(`"${'x'.repeat(100)}"\n`.repeat(20_000)); // more than a pipe holds
  await new Promise((resolve) => child.stdin.once('drain', resolve));
  return child;
}

function collections(): string[] {
  const db = open(shop);
  const snapshot = db.snapshot();
  const names = snapshot.schema().collections.map((each) => each.name);
  snapshot.close();
  expect(db.check().faults).toEqual([]);
  db.close();
  return names;
}

describe('monochord dump and load', () => {
  beforeAll(async () => {
    program = await built();
    const db = open(shop, { pageSize: 16_384 });
    const settings = { fields: { id: 'int', name: 'text?' }, key: 'id', index: ['name'] } as const;
    db.collection('people', settings).insertMany([{ id: 1, name: 'Ada' }, { id: 2 }]);
    db.close();
  });

  test('a dump goes through a pipe into a new file of the same layout', () => {
    const [code, text] = monochord(['dump', shop]);
    expect(code).toBe(0);
    const copy = path('copy.mono');
    const [loadCode, out] = monochord(
      ['load', copy, '-', '--format', 'monochord', '--create', '--json'],
      text,
    );
    expect([loadCode, JSON.parse(out)]).toMatchObject([0, { records: 2, rejected: 0 }]);
    expect(monochord(['dump', copy])[1]).toBe(text);
    const [, report] = monochord(['dump', copy, path('copy.dump'), '--json']);
    expect(JSON.parse(report)).toMatchObject({ bytes: Buffer.byteLength(text) });
    expect(readFileSync(path('copy.dump'), 'utf8')).toBe(text);
    expect(monochord(['load', copy, '-', '--format', 'monochord', '--create'], text)[0]).toBe(2);
  });

  test('a folder of records is written and loaded', () => {
    expect(monochord(['dump', shop, '--split', path('split')])[1]).toMatch(/^2 records/);
    const record = path('split/people/records/1.json');
    writeFileSync(record, readFileSync(record, 'utf8').replace('Ada', 'Grace'));
    const args = ['load', path('split.mono'), path('split'), '--format', 'monochord', '--create'];
    expect(monochord(args)[0]).toBe(0);
    const csv = monochord(['dump', path('split.mono'), '--format', 'csv'])[1];
    expect(csv).toBe('id,name\n1,Grace\n2,\n');
  });

  test('what is wrong ends with a code and the place, and leaves nothing', () => {
    writeFileSync(path('bad.csv'), 'id,name\n3,x\n4,"y\n');
    const args = ['load', shop, path('bad.csv'), '--format', 'csv', '--into', 'people'];
    const [code, , err] = monochord(args);
    expect(code).toBe(1);
    expect(err).toContain('bad.csv:3:3: the quote that opens here is never closed');
    expect(monochord(['load', shop, path('none.csv'), '--format', 'csv'])[0]).toBe(1);
    expect(monochord(['load', shop, path('bad.csv')])[0]).toBe(2);
    expect(monochord(['load', shop, path('bad.csv'), ...INTO.slice(0, 4)])[0]).toBe(2);
    const created = ['load', path('new.mono'), path('bad.csv'), ...INTO, '--create'];
    expect(monochord(created)[0]).toBe(1);
    expect(readdirSync(folder).filter((name) => name.startsWith('new.mono'))).toEqual([]);
    expect(collections()).toEqual(['people']);
  });

  test('--reject keeps what cannot be stored, with its lines', () => {
    writeFileSync(path('some.csv'), 'id,name\n5,x\nsix,y\n');
    const args = ['load', shop, path('some.csv'), '--format', 'csv', '--into', 'people'];
    const [code, out] = monochord([...args, '--reject', path('rejected')]);
    expect([code, out]).toEqual([0, expect.stringContaining('1 rejected')]);
    expect(JSON.parse(readFileSync(path('rejected'), 'utf8'))).toMatchObject({
      line: 3,
      column: 1,
      text: 'six,y',
    });
  });

  test('a load that is killed half-way leaves the file as it was', async () => {
    const child = await halfLoad();
    const ended = new Promise((resolve) => child.once('exit', (_, signal) => resolve(signal)));
    child.kill('SIGKILL');
    expect(await ended).toBe('SIGKILL');
    expect(collections()).toEqual(['people']);
  });

  test('Ctrl-C ends a load that waits for input, and changes nothing', async () => {
    const child = await halfLoad();
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGINT');
    expect(await ended).toBe(130);
    expect(collections()).toEqual(['people']);
  });

  test.runIf(existsSync('/dev/full'))('a full disk ends a dump with storage.full', () => {
    const script = `"${process.execPath}" "${program.cli}" dump "${shop}" > /dev/full`;
    const { status, stderr } = spawnSync('sh', ['-c', script], { encoding: 'utf8' });
    expect([status, stderr]).toEqual([1, expect.stringMatching(/^monochord: .*ENOSPC\n$/)]);
  });

  test.runIf(process.platform !== 'win32')('a reader that goes away ends a dump quietly', () => {
    const big = path('big.mono');
    const db = open(big);
    db.kv('values').bulkLoad(
      Array.from({ length: 20_000 }, (_, i): [string, string] => [`${i}`, 'x'.repeat(100)]),
    );
    db.close();
    const script = `"${process.execPath}" "${program.cli}" dump "${big}" | head -n 1`;
    const { stdout, stderr } = spawnSync('sh', ['-c', script], { encoding: 'utf8' });
    expect([stdout, stderr]).toEqual(['monochord dump 1\n', '']);
  });

  // The limit of a file's size is met by the store, or by what the load spills beside it.
  describe.runIf(process.platform === 'linux')('on a disk that is really full', () => {
    const rows = 40_000;
    const prices = path('prices.csv');
    const line = (i: number): string => `${(i * 7919) % rows},${'x'.repeat(100)} ${i}\n`;
    const into = [
      '--format',
      'csv',
      '--into',
      'prices',
      '--fields',
      'id:int,t:text',
      '--key',
      'id',
    ];

    function loadThere(store: string, memory: string, before: readonly string[]): string {
      const args = [program.cli, 'load', store, prices, ...into, '--memory', memory];
      const [command, ...rest] = [...before, process.execPath, ...args];
      const { status, stdout, stderr } = spawnSync(command!, rest, { encoding: 'utf8' });
      return `${status} ${stdout}${stderr}`;
    }

    /** The store must hold what it held, take something small, and take it all with room. */
    function requireUsable(store: string): void {
      const db = open(store);
      expect(db.check().faults).toEqual([]);
      expect(db.kv<string, number>('before').get('a')).toBe(1);
      expect(db.source.schema(2 ** 53).collections.map((each) => each.name)).toEqual(['before']);
      db.kv('before').put('b', 2);
      db.close();
    }

    function made(store: string): string {
      const db = open(store);
      db.kv('before').put('a', 1);
      db.close();
      return store;
    }

    beforeAll(() =>
      writeFileSync(prices, `id,t\n${Array.from({ length: rows }, (_, i) => line(i)).join('')}`),
    );

    test.each(['2 MiB', '64 MiB'])('a load with %s ends with storage.full', (memory) => {
      const store = made(path(`full-${memory.length}.mono`));
      const names = readdirSync(folder);
      const said = loadThere(store, memory, ['prlimit', '--fsize=3000000']);
      expect(said).toMatch(/^1 monochord: .*\[storage\.full\]/);
      expect(readdirSync(folder)).toEqual(names);
      requireUsable(store);
      expect(loadThere(store, memory, [])).toMatch(/^0 40000 records into prices, which is new/);
    });

    const hasMount = spawnSync('unshare', ['-m', 'true']).status === 0;

    test.runIf(hasMount)('a load on a tmpfs ends with storage.full; with room it goes in', () => {
      const disk = path('tmpfs');
      const store = made(path('small.mono'));
      const load = `"${process.execPath}" "${program.cli}" load ${disk}/small.mono ${prices}`;
      const script =
        `mount -t tmpfs -o size=3m none ${disk} && cp ${store}* ${disk} && ` +
        `(${load} ${into.join(' ')} --memory 2MiB; echo "code $?"; ls ${disk}; ` +
        `cp ${disk}/small* ${folder}; mount -o remount,size=60m ${disk}; ` +
        `${load} ${into.join(' ')} --memory 2MiB); umount ${disk}`;
      spawnSync('mkdir', [disk]);
      const { stdout, stderr } = spawnSync('unshare', ['-m', 'sh', '-c', script], {
        encoding: 'utf8',
      });
      expect(stderr).toMatch(/^monochord: .*\[storage\.full\]/);
      expect(stdout).toMatch(/^code 1\nsmall\.mono\n(?:small\.mono-log\n)?40000 records into/);
      requireUsable(store);
    });
  });

  test('help has examples', () => {
    expect(monochord(['load', '--help'])[1]).toMatch(
      /\$ mdb_dump -a store\.lmdb \| monochord load/,
    );
  });
});
