/** The search as a whole, with workers that answer at once what their layout implies. */
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from 'vitest';
import { Database } from '../../src/database.ts';
import {
  collectionCandidates,
  combine,
  memoryCandidates,
  refusedBudget,
} from '../../src/tuner/candidates.ts';
import { parseObjective } from '../../src/tuner/objective.ts';
import { makeReport, type Report } from '../../src/tuner/report.ts';
import { searchLayouts, type Search } from '../../src/tuner/search.ts';
import { TrialMemory } from '../../src/tuner/trial-memory.ts';
import type { Workload } from '../../src/tuner/workload.ts';
import { FaultFileSystem } from '../faults/fault-file.ts';

const workerFile = fileURLToPath(new URL('fake-worker.mjs', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'monochord-search-'));
afterAll(() => rmSync(folder, { recursive: true }));

const phases = ['write', 'read'].map((name) => ({ name, run: () => undefined }));
const layouts = [
  { pageSize: '16 KiB' },
  { index: { tree: 'b-tree' as const } },
  { clusterSize: 256 },
  { extentSize: '1 MiB' },
];
const workload: Workload = {
  name: 'fake',
  phases,
  candidates: layouts.map((layout) => ({ name: JSON.stringify(layout), layout, why: 'a test' })),
};

interface Asked {
  readonly objective?: string;
  readonly kept?: TrialMemory;
  readonly signal?: AbortSignal;
  readonly onProgress?: () => void;
}

async function search({ objective = 'fastest mix', ...rest }: Asked): Promise<[Search, Report]> {
  const parsed = parseObjective(objective, ['write', 'read']);
  const found = await searchLayouts({
    workload,
    workloadFile: 'fake.mjs',
    memory: '32 MiB',
    source: undefined,
    deadline: performance.now() + 60_000,
    objective: parsed,
    entries: 0,
    workerFile,
    ...rest,
  });
  const { comparison, steps } = found;
  const report = makeReport({
    workload,
    comparison,
    steps,
    objective: parsed,
    memory: '32 MiB',
    file: 'a.mono',
  });
  return [found, report];
}

const file = join(folder, 'trials.jsonl');

describe('search', () => {
  test('P20: interrupted at any moment it goes on; combinations win by halving', async () => {
    const interrupted = new AbortController();
    let rounds = 0;
    const first = search({
      kept: new TrialMemory(file, ['a']),
      signal: interrupted.signal,
      onProgress: () => {
        if (++rounds === 20) interrupted.abort(); // in the second generation
      },
    });
    await expect(first).rejects.toMatchObject({ code: 'limit.cancelled' });
    expect(readFileSync(file, 'utf8').split('\n').length - 1).toBe(1);
    appendFileSync(file, '{"key":"cut off in the middle of a wri'); // what SIGKILL may leave
    const kept = new TrialMemory(file, ['a']);
    let measured = 0;
    const objective = 'fastest read';
    const [found, report] = await search({ kept, objective, onProgress: () => measured++ });
    expect(kept.count).toBe(0); // what was finished was not measured again,
    expect(new TrialMemory(file, ['a']).count).toBe(1 + measured / 14); // and nothing was lost
    expect(report.recommendation.layout).toEqual({ pageSize: '16 KiB', index: { tree: 'b-tree' } });
    expect(report.recommendation.command).toBe(
      'monochord rebuild a.mono --page-size 16KiB --tree b-tree',
    );
    const notes = Object.fromEntries(found.steps.map(({ name, note }) => [name, note]));
    expect(notes['{"clusterSize":256}']).toBe('wrong result: key 7');
    expect(notes['{"extentSize":"1 MiB"}']).toBe('failed: no room');
    expect(found.comparison.isSettled).toBe(true);
    expect(found.comparison.isControlBroken).toBe(false);
  });

  test('an objective that nothing meets says by how much, for the nearest too', async () => {
    const objective = 'fastest read with file <= 1 MiB, read <= 4 ms';
    const kept = new TrialMemory(file, ['a']); // trials are the same for any objective
    const [, { recommendation }] = await search({ objective, kept });
    expect(recommendation.isChange).toBe(false);
    expect(recommendation.reason).toMatch(
      /today’s: file is 2.0 MiB, 100 % above 1 MiB; read is [\d.]+ ms, \d+ % above 4 ms/,
    );
    expect(recommendation.reason).toMatch(/closest is .*b-tree.*: file is 2.0 MiB, 100 % above/);
  });
});

describe('candidates', () => {
  const collection = {
    name: 'customers',
    form: 'record' as const,
    fields: {},
    key: ['id'],
    open: false,
    generated: false,
    indexes: [{ name: 'email', parts: [], unique: true, nulls: 'distinct' as const }],
    count: 1000,
  };

  test('trees of single collections, and the budget, are varied', () => {
    const own = collectionCandidates([collection, { ...collection, name: 'few', count: 3 }]);
    expect(own.map((each) => each.name)).toEqual(['customers b-tree', 'customers.email order 128']);
    expect(memoryCandidates('8 MiB').map((each) => each.name)).toEqual([
      'memory 4 MiB',
      'memory 2 MiB',
    ]);
    expect(memoryCandidates('2 MiB')).toEqual([]);
    // Pages of 32 KiB need 3 MiB: what open would refuse is not proposed.
    expect(memoryCandidates('8 MiB', 32_768).map((each) => each.name)).toEqual(['memory 4 MiB']);
    expect(memoryCandidates('8 MiB', 65_536)).toEqual([]);
  });

  test('no candidate is measured that open would refuse for its budget', async () => {
    expect(refusedBudget({ pageSize: '32 KiB' }, '2 MiB')).toBe(
      'pages of 32 KiB need a budget of 3 MiB, not 2 MiB',
    );
    expect(refusedBudget({ memory: '2 MiB' }, '64 MiB', 65_536)).toMatch(/6 MiB, not 2 MiB/);
    for (const pageSize of [4, 8, 16, 32, 64].map((kib) => `${kib} KiB`)) {
      for (const memory of ['2 MiB', '3 MiB', '4 MiB', '6 MiB']) {
        const layout = { pageSize };
        let isRefused = false;
        try {
          new Database('/least', { ...layout, memory }, new FaultFileSystem({ seed: 1 })).close();
        } catch {
          isRefused = true;
        }
        expect(refusedBudget(layout, memory) !== undefined, `${pageSize}, ${memory}`).toBe(
          isRefused,
        );
      }
    }
    const { candidates: _, ...own } = workload;
    const { steps } = await searchLayouts({
      workload: own,
      workloadFile: 'fake.mjs',
      memory: '2 MiB',
      source: undefined,
      deadline: performance.now() + 60_000,
      objective: parseObjective('fastest mix', ['write', 'read']),
      entries: 0,
      workerFile,
    });
    const notes = Object.fromEntries(steps.map(({ name, note }) => [name, note]));
    expect(notes['page 32 KiB']).toMatch(/^not tried: pages of 32 KiB need a budget of 3 MiB/);
    expect(steps.filter((each) => each.name.includes('memory'))).toEqual([]);
  });

  test('combinations hold settings of collections, indexes and the file together', () => {
    const [tree, narrow] = collectionCandidates([collection]);
    const add = [{ collection: 'customers', parts: ['age'] }];
    const index = { name: 'index', layout: { indexes: { add } } };
    const scored = [tree!, narrow!, index].map((candidate) => ({ candidate, score: -0.1 }));
    const [all] = combine(scored, 1);
    expect(all!.layout).toEqual({
      collections: { customers: { tree: 'b-tree', indexes: { email: { order: 128 } } } },
      indexes: { add },
    });
    expect(all!.name).toBe('customers b-tree, customers.email order 128, index customers(age)');
  });
});
