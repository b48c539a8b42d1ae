/** Tuning from end to end on a small workload, and its parts without processes. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Random } from '../../src/base/random.ts';
import { commandOf, openCallOf } from '../../src/tuner/apply.ts';
import { compareBaseline, welch } from '../../src/tuner/baseline.ts';
import { open } from '../../src/database.ts';
import { tagOfProcess } from '../../src/storage/writer-lock.ts';
import { combine, hopeless, nameOf, singleCandidates } from '../../src/tuner/candidates.ts';
import { compareLayouts, type Comparison } from '../../src/tuner/compare.ts';
import { misses, parseObjective } from '../../src/tuner/objective.ts';
import { pageOf } from '../../src/tuner/report-page.ts';
import { makeReport, type Report } from '../../src/tuner/report.ts';
import { randomOrder, runGeneration, trialFolder } from '../../src/tuner/trial.ts';
import { TrialMemory } from '../../src/tuner/trial-memory.ts';
import { wordsOf } from '../../src/tuner/words.ts';
import { loadWorkload } from '../../src/tuner/workload.ts';
import { built } from '../cli/built.ts';

const FILE = fileURLToPath(new URL('wrong-workload.mjs', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'monochord-tune-test-'));
afterAll(() => rmSync(folder, { recursive: true }));

describe('tune', () => {
  let comparison: Comparison;
  let report: Report;

  beforeAll(async () => {
    const program = await built();
    const workload = await loadWorkload(FILE);
    const settings = {
      workload,
      workloadFile: FILE,
      memory: '4 MiB',
      source: undefined,
      candidates: workload.candidates!,
      deadline: Infinity,
      generationsMax: 1,
      workerFile: program.worker,
    };
    const kept = new TrialMemory(join(folder, 'trials.jsonl'), ['test']);
    comparison = await compareLayouts({ ...settings, kept });
    program.remove();
    const objective = parseObjective('fastest read', comparison.phases);
    report = makeReport({ workload, comparison, objective, memory: '4 MiB', file: 'app.mono' });
    // Everything that was measured is kept: the second time no process is started.
    const again = new TrialMemory(join(folder, 'trials.jsonl'), ['test']);
    expect(again.count).toBe(1);
    const repeated = await compareLayouts({ ...settings, kept: again });
    expect(repeated.generations).toEqual(JSON.parse(JSON.stringify(comparison.generations)));
    expect(new TrialMemory(join(folder, 'trials.jsonl'), ['another store']).count).toBe(0);
  });

  test('P3: one command ranks layouts with medians and spread; wrong results are excluded', () => {
    expect(comparison.excluded.get(2)).toMatchObject({ isWrong: true });
    expect(comparison.excluded.get(3)).toMatchObject({ isWrong: false });
    expect(comparison.excluded.has(1)).toBe(false);
    expect(report.entries[1]!.times['read']!.cpuMs).toBeGreaterThan(0);
    expect(report.entries[1]!.times['read']!.spread).toBeGreaterThanOrEqual(0);
    expect(report.confirmation).toMatch(/NOT every configuration.*wrong, failing/);
    expect(['wrong', 'failing']).not.toContain(report.recommendation.name);
    expect(report.entries[1]!.trees.find((tree) => tree.name === 'numbers')!.entries).toBe(50);
  });

  test('P20: the report covers the layout, says what happened, and how to apply it', () => {
    const words = wordsOf(report);
    expect(words.length).toBe(3);
    expect(words[1]).toMatch(/wrong result, so it cannot win: found: 49, not 50/);
    expect(words[2]).toMatch(/failed: this layout fails/);
    expect(report.recommendation.command).toMatch(/^monochord rebuild app.mono/);
    const page = pageOf(report);
    expect(page).toMatch(/<svg/);
    expect(page).not.toMatch(/(?:src|href)=|@import|url\(/);
    const settings = new Set(singleCandidates().flatMap(({ layout }) => Object.keys(layout)));
    expect([...settings].sort()).toEqual(['clusterSize', 'extentSize', 'index', 'pageSize']);
  });

  test('a single generation resolves nothing, and says so', () => {
    expect(report.isSettled).toBe(false);
    expect(report.recommendation.isChange).toBe(false);
    expect(readFileSync(join(folder, 'trials.jsonl'), 'utf8').split('\n').length).toBe(2);
  });
});

describe('P23: trials bypass decoded records', () => {
  test('each run finds an empty cache, and reads the same pages as the first', async () => {
    const store = join(folder, 'things.mono');
    const db = open(store);
    const things = db.collection('things', { fields: { id: 'int', name: 'text' }, key: 'id' });
    things.insertMany(
      Array.from({ length: 3000 }, (_, i) => ({ id: i + 1, name: `thing ${i + 1}` })),
    );
    db.close();
    const log = join(folder, 'caches.jsonl');
    process.env['CACHE_LOG'] = log;
    const excluded = new Map();
    try {
      const generation = await runGeneration(
        {
          workload: fileURLToPath(new URL('cache-workload.mjs', import.meta.url)),
          memory: '2 MiB',
          source: store,
          entries: [
            { name: 'today', layout: {} },
            { name: 'again', layout: {} },
          ],
          rounds: 5,
          roundsDropped: 1,
        },
        excluded,
        1,
      );
      expect(generation.cpuMs).toHaveLength(4);
    } finally {
      delete process.env['CACHE_LOG'];
    }
    expect([...excluded]).toEqual([]);
    const lines = readFileSync(log, 'utf8').trim().split('\n');
    const runs = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(runs).toHaveLength(10);
    const [{ pid: _, ...first }] = runs as [Record<string, unknown>];
    expect(first).toMatchObject({ recordsBefore: 0, isOld: false, isWithin: true });
    expect(first['records']).toBeGreaterThan(0);
    expect(first['pagesRead']).toBeGreaterThan(10);
    for (const run of runs) expect(run).toMatchObject(first);
    expect(new Set(runs.map((run) => run['pid'])).size).toBe(2);
  });
});

describe('parts of the tuner', () => {
  test('commandOf and openCallOf name every setting', () => {
    const layout = { pageSize: '16 KiB', index: { tree: 'b-tree', order: 32 } } as const;
    const command = 'monochord rebuild a.mono --page-size 16KiB --tree b-tree --order 32';
    expect(commandOf('a.mono', layout)).toBe(command);
    expect(openCallOf('a.mono', layout)).toContain("pageSize: '16 KiB'");
    expect(nameOf(layout)).toBe('page 16 KiB, b-tree, index order 32');
    expect(nameOf({})).toBe('defaults');
  });

  test('combine puts the best values of different settings together', () => {
    const scored = singleCandidates().map((candidate) => ({
      candidate,
      score: candidate.name === 'page 16 KiB' || candidate.name === 'b-tree' ? -0.1 : 0.1,
    }));
    expect(combine(scored, 8).map((each) => each.name)).toEqual(['page 16 KiB, b-tree']);
  });

  test('hopeless drops a low order where the file would not fit', () => {
    expect(hopeless({ index: { order: 4 } }, 1e6, 100 << 20)).toMatch(/MiB/);
    expect(hopeless({ index: { order: 4 } }, 1e6, undefined)).toBeUndefined();
    expect(hopeless({ pageSize: '16 KiB' }, 1e6, 1 << 20)).toBeUndefined();
  });

  test('parseObjective reads limits and refuses what it does not know', () => {
    const text = 'fastest lookup with commit p99 <= 5 ms, file <= 200 MiB';
    const objective = parseObjective(text, ['lookup', 'commit']);
    const measured = { medianMs: () => 1, p99Ms: () => 6, fileBytes: 1, memoryBytes: 1 };
    expect(misses(objective, measured)).toEqual(['commit p99 is 6.00 ms, 20 % above 5 ms']);
    const wrong = (bad: string): string => {
      try {
        parseObjective(bad, ['lookup']);
        return '';
      } catch (cause) {
        return `${(cause as Error).message} ${(cause as { hint: string }).hint}`;
      }
    };
    expect(wrong('fastest lokup')).toMatch(/lookup/);
    expect(wrong('quickly')).toMatch(/not an objective/);
    expect(wrong('fastest lookup with file < much')).toMatch(/not a constraint/);
  });

  test('compareBaseline fails for what is worse by more than the noise and the allowance', () => {
    const report = (ms: number, fileBytes: number): Report =>
      ({
        phases: ['a'],
        baseline: { a: [ms, ms * 1.02, ms * 0.99, ms * 1.01] },
        entries: [{ fileBytes }],
      }) as unknown as Report;
    const worse = (now: Report): boolean[] =>
      compareBaseline(report(10, 1000), now, 1.1).map((line) => line.isWorse);
    expect(worse(report(10.2, 1000))).toEqual([false, false]);
    expect(worse(report(12, 1000))).toEqual([true, false]);
    expect(worse(report(8, 1100))).toEqual([false, true]);
    expect(welch([1, 1, 1], [2, 2, 2]).ratio).toBeCloseTo(2);
  });

  test('randomOrder is a permutation, another every time', () => {
    const random = new Random(1);
    const orders = Array.from({ length: 20 }, () => randomOrder(6, random));
    for (const order of orders) expect([...order].sort()).toEqual([0, 1, 2, 3, 4, 5]);
    expect(new Set(orders.map(String)).size).toBeGreaterThan(10);
  });

  test('loadWorkload says what is wrong with a module', async () => {
    const wrong = new URL('../support/setup.ts', import.meta.url);
    await expect(loadWorkload(fileURLToPath(wrong))).rejects.toThrow(/no default export/);
    await expect(loadWorkload('none.mjs')).rejects.toThrow(/cannot be loaded/);
    const refusal = async (rest: string): Promise<unknown> => {
      const file = join(folder, `wrong-${rest.length}.mjs`);
      writeFileSync(
        file,
        `export default { name: 'x', phases: [{ name: 'a', run() {} }], ${rest} }`,
      );
      return await loadWorkload(file).catch((cause: unknown) => cause);
    };
    expect(
      await refusal("candidates: [{ name: 'big', layout: { pagesize: '16 KiB' } }]"),
    ).toMatchObject({
      code: 'usage.argument',
      hint: expect.stringContaining('pageSize') as string,
    });
    expect(
      await refusal("candidates: [{ name: 'o', layout: { index: { oder: 32 } } }]"),
    ).toMatchObject({ hint: expect.stringContaining('order') as string });
    expect(await refusal('expect: { found: 1 }')).toMatchObject({
      hint: expect.stringContaining('expects') as string,
    });
    expect(await refusal('shares: { b: 1 }')).toMatchObject({ code: 'usage.argument' });
  });

  test('trialFolder removes what tuners left whose process is gone, and nothing else', () => {
    const base = join(folder, 'trials');
    mkdirSync(base);
    const ended = spawnSync(process.execPath, ['-e', 'console.log(process.pid)'], {
      encoding: 'utf8',
    });
    const names = {
      left: `monochord-tune-${ended.stdout.trim()}.12345-abc`,
      reused: `monochord-tune-${process.pid}.1-abc`, // the pid lives, but began at another time
      alive: `monochord-tune-${tagOfProcess()}-abc`,
      other: 'monochord-tune-notes',
      foreign: 'else',
    };
    for (const name of Object.values(names)) {
      mkdirSync(join(base, name, '0'), { recursive: true });
      writeFileSync(join(base, name, '0', 'store'), 'x');
    }
    const made = trialFolder([join(base, 'none'), base]);
    expect(made.startsWith(join(base, `monochord-tune-${tagOfProcess()}-`))).toBe(true);
    const kept = [names.alive, names.other, names.foreign, made.slice(base.length + 1)];
    expect(readdirSync(base).sort()).toEqual(kept.sort());
  });
});
