/**
 * `monochord tune` as a user starts it: applying what a report recommends, checking against a
 * baseline, going on after an interruption, and what it refuses.
 */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { open } from '../../src/index.ts';
import type { Report } from '../../src/tuner/report.ts';
import { built, type Built } from './built.ts';

let program: Built;
const folder = fs.mkdtempSync(join(tmpdir(), 'monochord-tune-cli-'));
const path = (name: string): string => join(folder, name);
const store = path('app.mono');
const workload = path('work.mjs');
const RECORDS = 300;

/** A workload on a store: short, and its times depend on nothing. */
const WORK = `export default {
  name: 'lookups',
  phases: [
    { name: 'read', times: 3, run(state, context) {
      const db = context.open();
      const things = db.kv('things');
      for (let i = 0; i < ${RECORDS}; i++)
        context.check(things.get('key ' + i) === i, 'key ' + i);
      db.close();
    } },
  ],
};
`;

interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

const arguments_ = (args: readonly string[]): string[] => [
  program.cli,
  'tune',
  ...args,
  '--budget=4MiB',
  '--seconds=60',
];

function tune(...args: string[]): Ended {
  const { status, stdout, stderr } = spawnSync(process.execPath, arguments_(args), {
    encoding: 'utf8',
    cwd: folder,
  });
  return { code: status, out: stdout, err: stderr };
}

/** Compares today's layout with itself only, for a number of generations. */
const COMPARE = ['--compare', '--workload', workload, '--out', path('out')];

function report(): Report {
  return JSON.parse(fs.readFileSync(path('out/report.json'), 'utf8')) as Report;
}

/** Writes a report that is the last one with changes; answers its path. */
function changed(name: string, changes: Partial<Record<keyof Report, unknown>>): string {
  fs.writeFileSync(path(name), JSON.stringify({ ...report(), ...changes }));
  return path(name);
}

function pageBytes(): number {
  const db = open(store);
  const { pageSize } = db.layout;
  expect(db.check().faults).toEqual([]);
  expect(db.kv<string, number>('things').count()).toBe(RECORDS);
  db.close();
  return Number(pageSize);
}

const trialLines = (): string[] =>
  fs.existsSync(path('out/trials.jsonl'))
    ? fs.readFileSync(path('out/trials.jsonl'), 'utf8').split('\n').slice(0, -1)
    : [];

describe('monochord tune', { timeout: 60_000 }, () => {
  beforeAll(async () => {
    program = await built();
    fs.writeFileSync(workload, WORK);
    const db = open(store);
    db.transaction(() => {
      for (let i = 0; i < RECORDS; i++) db.kv<string, number>('things').put(`key ${i}`, i);
    });
    db.close();
  });

  afterAll(() => {
    program.remove();
    fs.rmSync(folder, { recursive: true });
  });

  test('--apply REPORT rebuilds, measures again, and says how to go back', () => {
    expect(tune(store, ...COMPARE, '--generations', '1').code).toBe(0);
    const recommendation = {
      isChange: true,
      name: 'page 16 KiB',
      layout: { pageSize: '16 KiB' },
      reason: 'a test says so',
      openCall: '',
      command: '',
    };
    const file = changed('recommended.json', { recommendation });
    const { code, out } = tune(store, '--apply', file, '--out', path('out'), '--generations', '1');
    expect(code).toBe(0);
    expect(out).toMatch(/^Applied to .*app\.mono: page 16 KiB; /);
    expect(out).toMatch(/phase +rebuilt against before/);
    expect(out).toMatch(/^read /m);
    expect(pageBytes()).toBe(16_384);
    const applied = JSON.parse(fs.readFileSync(path('out/applied.json'), 'utf8')) as {
      keptPath: string;
      undo: string;
    };
    expect(applied.keptPath).toBe(`${store}-before`);
    const [, command, ...rest] = applied.undo.split(' ');
    const undone = spawnSync(process.execPath, [program.cli, command!, ...rest]);
    expect(undone.status).toBe(0);
    expect(pageBytes()).toBe(8192);
    fs.rmSync(`${store}-undone`, { force: true });
  });

  test('--apply with nothing to gain changes nothing', () => {
    expect(tune(store, ...COMPARE, '--generations', '1').code).toBe(0);
    const before = fs.readFileSync(store);
    const args = ['--apply', path('out/report.json'), '--out', path('out'), '--json'];
    const { code, out } = tune(store, ...args);
    expect([code, (JSON.parse(out) as { applied?: string }).applied]).toEqual([0, undefined]);
    expect(fs.readFileSync(store).equals(before)).toBe(true);
  });

  test('--check fails for what became worse than a baseline, and only then', () => {
    expect(tune(store, ...COMPARE, '--fresh', '--generations', '3').code).toBe(0);
    const { baseline, entries } = report();
    const check = (file: string, generations = '1'): Ended =>
      tune(
        store,
        '--check',
        file,
        ...COMPARE,
        `--generations=${generations}`,
        '--allow',
        '50',
        '--json',
      );
    const same = check(path('out/report.json'), '3');
    expect(JSON.parse(same.out)).toMatchObject({ isWorse: false, isOtherMachine: false });
    expect(same.code).toBe(0);
    const tenth = Object.fromEntries(
      Object.entries(baseline).map(([phase, times]) => [phase, times.map((ms) => ms / 10)]),
    );
    const slower = check(changed('fast.json', { baseline: tenth }), '3');
    expect(slower.code).toBe(4);
    expect(JSON.parse(slower.out)).toMatchObject({ isWorse: true });
    const [first, ...others] = entries;
    const small = [{ ...first!, fileBytes: first!.fileBytes! / 2 }, ...others];
    expect(check(changed('small.json', { entries: small })).code).toBe(4);
    const foreign = changed('foreign.json', { workload: 'another' });
    expect(check(foreign)).toMatchObject({
      code: 2,
      out: expect.stringContaining('is of workload \\"another\\", not \\"lookups\\"') as string,
    });
    fs.writeFileSync(path('no.json'), '{}');
    expect(check(path('no.json')).code).toBe(2);
  });

  test('an objective that nothing meets ends with a code of its own and says by how much', () => {
    const objective = ['--objective', 'fastest read with file <= 4 KiB'];
    const { code, out } = tune(store, ...COMPARE, ...objective, '--generations', '1');
    expect(code).toBe(5);
    expect(out.replace(/\s+/g, ' ')).toMatch(
      /no layout that was tried meets .*file is [\d.]+ [KM]i?B, \d+ % above 4 KiB/,
    );
  });

  describe('interrupted', () => {
    const args = ['--generations', '2', ...COMPARE];
    beforeEach(() => fs.rmSync(path('out'), { recursive: true, force: true }));

    /** Starts tuning and waits until it has kept a generation. */
    async function half(): Promise<ChildProcess> {
      const child = spawn(process.execPath, arguments_([store, ...args]), { cwd: folder });
      while (trialLines().length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
      return child;
    }

    async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<unknown> {
      const ended = new Promise((resolve) => child.once('exit', (code, by) => resolve(code ?? by)));
      child.kill(signal);
      return await ended;
    }

    const leftOf = (pid: number): string[] =>
      ['/dev/shm', tmpdir()]
        .filter((base) => fs.existsSync(base))
        .flatMap((base) => fs.readdirSync(base))
        .filter((name) => name.startsWith(`monochord-tune-${pid}.`));

    test.each([
      ['SIGINT', 130],
      ['SIGKILL', 'SIGKILL'],
    ] as const)('by %s it goes on from what was finished', async (signal, how) => {
      const child = await half();
      expect(await end(child, signal)).toBe(how);
      expect(pageBytes()).toBe(8192);
      if (signal === 'SIGINT') expect(leftOf(child.pid!)).toEqual([]);
      const before = trialLines();
      expect(before.length).toBeGreaterThanOrEqual(1);
      const again = tune(store, ...args);
      expect(again.code).toBe(0);
      const kept = /(\d) finished trials are kept from before/.exec(again.err);
      expect(Number(kept?.[1])).toBe(before.length);
      expect(trialLines()).toHaveLength(2);
      expect(trialLines().slice(0, before.length)).toEqual(before);
      expect(leftOf(child.pid!), 'what a killed tuner left is removed').toEqual([]);
    });
  });

  test('wrong use says what is right, and starts nothing', () => {
    const used = (...args: string[]): string => {
      const { code, err } = tune(...args);
      expect(code).toBe(2);
      return err;
    };
    expect(used(store, ...COMPARE, '--objective', 'fastest raed')).toMatch(/"read"/);
    expect(tune(store, ...COMPARE, '--apply', path('none.json'))).toMatchObject({ code: 1 });
    expect(used(...COMPARE, '--apply')).toMatch(/--apply needs the file/);
    expect(used(store, ...COMPARE, '--budgte', '1')).toMatch(/--budget/);
    const other = path('typo.mjs');
    fs.writeFileSync(other, WORK.replace('  phases', '  expcts: {},\n  phases'));
    expect(used(store, '--workload', other)).toMatch(/expects/);
  });
});
