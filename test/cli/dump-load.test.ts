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
    const { status } = spawnSync('sh', ['-c', script]);
    expect(status).toBe(1);
  });

  test('help has examples', () => {
    expect(monochord(['load', '--help'])[1]).toMatch(
      /\$ mdb_dump -a store\.lmdb \| monochord load/,
    );
  });
});
