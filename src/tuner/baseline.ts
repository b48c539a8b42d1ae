/**
 * `tune --check`: today's layout and program against a stored report. Times of two runs have no
 * common rounds, so the comparison is that of two samples of generations, each with its own spread
 * (Welch), and beyond a stated allowance; sizes repeat exactly and are compared as they are.
 *
 * Source of the degrees of freedom: B. L. Welch, Biometrika 34 (1947). Line 7 of the strata.
 */
import { studentQuantile } from './student.ts';
import type { Report } from './report.ts';

/** What became worse or better, by phase and `file`. */
export interface BaselineLine {
  readonly what: string;
  readonly ratio: number;
  readonly low: number;
  readonly high: number;
  readonly isWorse: boolean;
}

const ALPHA = 0.05;
/** File sizes may differ by so much: a checkpoint falls a page earlier or later. */
const FILE_ALLOWANCE = 1.02;

/** Compares two reports of one workload; `allowance`: the ratio up to which nothing is worse. */
export function compareBaseline(before: Report, now: Report, allowance: number): BaselineLine[] {
  const lines = now.phases.flatMap((phase) => {
    const old = before.baseline[phase];
    if (old === undefined) return [];
    const { ratio, low, high } = welch(old, now.baseline[phase]!);
    return [{ what: phase, ratio, low, high, isWorse: low > allowance }];
  });
  const [was, is] = [before.entries[0]!.fileBytes, now.entries[0]!.fileBytes];
  if (was !== undefined && is !== undefined) {
    const ratio = is / was;
    lines.push({
      what: 'file',
      ratio,
      low: ratio,
      high: ratio,
      isWorse: ratio > FILE_ALLOWANCE,
    });
  }
  return lines;
}

/** The ratio of two samples with its interval, by their logarithms. */
export function welch(
  old: readonly number[],
  now: readonly number[],
): { ratio: number; low: number; high: number } {
  const a = momentsOf(old);
  const b = momentsOf(now);
  const difference = b.mean - a.mean;
  const error = a.variance / a.count + b.variance / b.count;
  const degrees =
    error ** 2 /
    ((a.variance / a.count) ** 2 / (a.count - 1) + (b.variance / b.count) ** 2 / (b.count - 1));
  const isKnown = a.count > 1 && b.count > 1;
  const t = degrees > 0 ? studentQuantile(1 - ALPHA / 2, degrees) : 0;
  const half = isKnown ? t * Math.sqrt(error) : Infinity;
  return {
    ratio: Math.exp(difference),
    low: Math.exp(difference - half),
    high: Math.exp(difference + half),
  };
}

function momentsOf(values: readonly number[]): { mean: number; variance: number; count: number } {
  const logs = values.map((value) => Math.log(value));
  const mean = logs.reduce((sum, each) => sum + each, 0) / logs.length;
  const squares = logs.reduce((sum, each) => sum + (each - mean) ** 2, 0);
  return { mean, variance: squares / Math.max(1, logs.length - 1), count: logs.length };
}
