/**
 * What conformance suites share: cases with a verdict each, and running them. A suite is a file
 * beside this one that exports `suite`; `scripts/suite.mjs` finds it by name.
 */
import { readdirSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';

export type Verdict =
  | { readonly verdict: 'passed' }
  /** `reason`: a few words to count by; `detail`: what exactly. */
  | { readonly verdict: 'failed' | 'skipped'; readonly reason: string; readonly detail?: string };

export interface SuiteCase {
  readonly name: string;
  /** What it throws is a failure of the case. */
  run(): Promise<Verdict> | Verdict;
}

export interface Suite {
  /** One sentence: what a case of it is. */
  readonly about: string;
  /** The cases in a folder of the suite's format, whatever its size. */
  cases(folder: string): Iterable<SuiteCase> | AsyncIterable<SuiteCase>;
}

export type CaseResult = Verdict & { readonly name: string };

export interface SuiteReport {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  /** Failed and skipped cases by reason. */
  readonly reasons: Readonly<Record<string, number>>;
  readonly cases: readonly CaseResult[];
}

export const PASSED: Verdict = Object.freeze({ verdict: 'passed' });

export function failed(reason: string, detail?: string): Verdict {
  return { verdict: 'failed', reason, ...(detail !== undefined && { detail }) };
}

export function skipped(reason: string, detail?: string): Verdict {
  return { verdict: 'skipped', reason, ...(detail !== undefined && { detail }) };
}

/** Runs every case of a folder; one without a case is an error. */
export async function runSuite(suite: Suite, folder: string): Promise<SuiteReport> {
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true)
    throw new Error(`there is no folder ${folder}`);
  const cases: CaseResult[] = [];
  for await (const each of suite.cases(folder)) {
    cases.push({ name: each.name, ...(await verdictOf(each)) });
  }
  if (cases.length === 0) throw new Error(`${folder} has no case of this suite`);
  const count = (verdict: string): number => cases.filter((c) => c.verdict === verdict).length;
  const reasons: Record<string, number> = {};
  for (const each of cases) {
    if (each.verdict === 'passed') continue;
    const reason = `${each.verdict}: ${each.reason}`;
    reasons[reason] = (reasons[reason] ?? 0) + 1;
  }
  return {
    passed: count('passed'),
    failed: count('failed'),
    skipped: count('skipped'),
    reasons,
    cases,
  };
}

async function verdictOf(each: SuiteCase): Promise<Verdict> {
  try {
    return await each.run();
  } catch (cause) {
    const { code, message } = cause as { code?: string; message?: string };
    return failed(`throws ${code ?? 'an error'}`, message ?? String(cause));
  }
}

/** The files under a folder, by their paths in it, in order. */
export function filesUnder(folder: string, within = folder): string[] {
  return readdirSync(within, { withFileTypes: true })
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => {
      const path = join(within, entry.name);
      return entry.isDirectory() ? filesUnder(folder, path) : [relative(folder, path)];
    });
}
