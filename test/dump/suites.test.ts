/** The suites of dumps and JSON on small samples; whole ones run by `npm run suite`. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { runSuite, skipped, type Suite } from '../../scripts/suites/suite.ts';
import { ROOT } from '../support/sources.ts';

async function run(name: string, folder: string): ReturnType<typeof runSuite> {
  const { suite } = (await import(`../../scripts/suites/${name}.ts`)) as { suite: Suite };
  return await runSuite(suite, folder);
}

describe('suites', () => {
  test.each([
    ['kv-dumps', 7],
    ['json-conformance', 13],
    ['real-json', 2],
  ])('%s passes on its sample', async (name, count) => {
    const report = await run(name, `${ROOT}test/data/suites/${name}`);
    expect(report.cases.filter((each) => each.verdict !== 'passed')).toEqual([]);
    expect(report.passed).toBe(count);
  });

  test('runSuite counts by reason, and refuses folders without cases', async () => {
    const suite: Suite = {
      about: 'a case is a number',
      *cases() {
        yield { name: '1', run: () => ({ verdict: 'passed' }) };
        yield { name: '2', run: () => skipped('too large') };
        yield {
          name: '3',
          run: () => {
            throw new Error('no');
          },
        };
      },
    };
    const report = await runSuite(suite, ROOT);
    expect(report).toMatchObject({ passed: 1, failed: 1, skipped: 1 });
    expect(report.reasons).toEqual({ 'skipped: too large': 1, 'failed: throws an error': 1 });
    await expect(run('kv-dumps', `${ROOT}docs`)).rejects.toThrow('no case');
    await expect(run('kv-dumps', `${ROOT}no such folder`)).rejects.toThrow('no folder');
  });

  test('kv-dumps fails when a pair differs from the oracle', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'monochord-suite-'));
    const dump = 'VERSION=3\nformat=print\nHEADER=END\n a\n 1\nDATA=END\n';
    writeFileSync(join(folder, 'bdb-x-btree.dump'), dump);
    writeFileSync(join(folder, 'oracle-x.jsonl'), '["YQ==", "Mg=="]\n');
    const report = await run('kv-dumps', folder);
    expect(report.reasons).toEqual({ 'failed: differs from the oracle': 1 });
    rmSync(folder, { recursive: true });
  });
});
