/**
 * Verdicts: what a difference in CPU time is worth (FEASIBILITY section 16.1).
 *
 *   d[entry][phase] = median over rounds of ln(cpu[entry] / cpu[default]), both of the same round
 *   d[entry][mix]   = ln(sum over phases of share · exp(d))
 *   interval        = mean over generations ± t(1 − alpha/2) · sd / √generations
 *   differs         the whole interval lies beyond 5 % on one side
 *   draw            the whole interval lies within ±10 %
 *   anything else   a draw, not resolved
 *
 * Looks after 4, 6 and 8 generations at alpha 0.0167 each. Line 7 of the strata; arithmetic only.
 */
import { studentQuantile } from './student.ts';
import type { Generation } from './trial.ts';

/** Numbers of generations after which there is a look. */
export const LOOKS: readonly number[] = [4, 6, 8];
export const ALPHA = 0.0167;
/** The least difference that counts, and the widest interval of a draw. */
const DIFFERS_BEYOND = Math.log(1.05);
const DRAW_WITHIN = Math.log(1.1);
/** A clock that saw nothing: a microsecond, so that a ratio exists. */
const MS_MIN = 0.001;

export type Judgement = 'faster' | 'slower' | 'draw' | 'unresolved';

/** One comparison with today's layout; ratios are of CPU time, 1.1 for 10 % more. */
export interface Verdict {
  readonly judgement: Judgement;
  readonly ratio: number;
  readonly low: number;
  readonly high: number;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  if (sorted.length === 0) return Number.NaN;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** Judges log-ratios, one a generation. */
export function judge(values: readonly number[], alpha = ALPHA): Verdict {
  const n = values.length;
  const mean = values.reduce((sum, v) => sum + v, 0) / n;
  let half = Infinity;
  if (n >= 2) {
    const variance = values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / (n - 1);
    half = studentQuantile(1 - alpha / 2, n - 1) * Math.sqrt(variance / n);
  }
  return {
    judgement: judgementOf(mean - half, mean + half),
    ratio: Math.exp(mean),
    low: Math.exp(mean - half),
    high: Math.exp(mean + half),
  };
}

function judgementOf(low: number, high: number): Judgement {
  if (low > DIFFERS_BEYOND) return 'slower';
  if (high < -DIFFERS_BEYOND) return 'faster';
  return low >= -DRAW_WITHIN && high <= DRAW_WITHIN ? 'draw' : 'unresolved';
}

/** The log-ratios of an entry in one generation: one a phase, then the mix. */
export function logRatios(
  generation: Generation,
  entry: number,
  shares: readonly number[],
): number[] {
  const phases = shares.map((_, phase) =>
    median(
      generation.cpuMs.flatMap((round) => {
        const own = round[entry]![phase];
        const base = round[0]![phase];
        if (own === undefined || base === undefined) return [];
        return [Math.log(Math.max(own, MS_MIN) / Math.max(base, MS_MIN))];
      }),
    ),
  );
  const mix = phases.reduce((sum, d, phase) => sum + shares[phase]! * Math.exp(d), 0);
  return [...phases, Math.log(mix)];
}

/** Shares of phases in the mix: as given, or those of the default's medians of a generation. */
export function sharesOf(
  generation: Generation,
  phases: readonly string[],
  given: Readonly<Record<string, number>> | undefined,
): number[] {
  const weights = phases.map((name, phase) => {
    if (given !== undefined) return given[name] ?? 0;
    return median(generation.cpuMs.map((round) => round[0]![phase] ?? 0));
  });
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return weights.map((weight) => weight / sum);
}

/** What generations say so far: `verdicts[entry][phase]`, the mix last; entry 0 is the default. */
export function judgeAll(
  generations: readonly Generation[],
  phases: readonly string[],
  given: Readonly<Record<string, number>> | undefined,
  excluded: ReadonlySet<number>,
): Verdict[][] {
  const shares = generations.map((generation) => sharesOf(generation, phases, given));
  const entries = generations[0]!.cpuMs[0]!.length;
  return Array.from({ length: entries }, (_, entry) => {
    if (entry === 0 || excluded.has(entry)) return [];
    const values = generations.map((g, i) => logRatios(g, entry, shares[i]!));
    return [...phases, 'mix'].map((_, at) => judge(values.map((each) => each[at]!)));
  });
}

/** Whether every comparison is settled: nothing is left to be found out. */
export function isSettled(verdicts: readonly (readonly Verdict[])[]): boolean {
  return verdicts.flat().every(({ judgement }) => judgement !== 'unresolved');
}

/** Whether the second copy of the default shows a difference in the mix: then there is none. */
export function isControlBroken(verdicts: readonly (readonly Verdict[])[], entry: number): boolean {
  const judgement = verdicts[entry]?.at(-1)?.judgement;
  return judgement === 'faster' || judgement === 'slower';
}

/** Medians and spread of one entry's phase over all rounds, milliseconds. */
export interface Times {
  readonly cpuMs: number;
  readonly wallMs: number;
  /** Half the distance between the quartiles, as a share of the median. */
  readonly spread: number;
}

export function timesOf(
  generations: readonly Generation[],
  entry: number,
  phase: number,
): Times | undefined {
  const of = (pick: 'cpuMs' | 'wallMs'): number[] =>
    generations.flatMap((g) => g[pick].flatMap((round) => round[entry]![phase] ?? []));
  const cpu = of('cpuMs').sort((a, b) => a - b);
  if (cpu.length === 0) return undefined;
  const quartile = (share: number): number => cpu[Math.round(share * (cpu.length - 1))]!;
  const middle = median(cpu);
  return {
    cpuMs: middle,
    wallMs: median(of('wallMs')),
    spread: (quartile(0.75) - quartile(0.25)) / 2 / middle,
  };
}
