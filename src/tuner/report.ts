/**
 * What a comparison found, as plain data: the JSON report, which the terminal and the page show.
 * Line 7 of the strata.
 */
import * as os from 'node:os';
import { commandOf, openCallOf } from './apply.ts';
import type { Comparison } from './compare.ts';
import { measuredOf, missesOf, type SearchStep } from './search.ts';
import { overshoot, type Objective } from './objective.ts';
import { canPin, ROUNDS, ROUNDS_DROPPED, type Exclusion } from './trial.ts';
import type { TreeFacts } from './trial-messages.ts';
import { median, timesOf, type Times, type Verdict } from './verdict.ts';
import type { TrialLayout, Workload } from './workload.ts';

/** One layout of the report. */
export interface ReportEntry {
  readonly name: string;
  readonly layout: TrialLayout;
  readonly why: string | undefined;
  readonly excluded: Exclusion | undefined;
  /** Constraints that it misses, each with by how much. */
  readonly misses: readonly string[];
  /** How far it is from them: 0 when it misses none. */
  readonly overshoot: number;
  readonly times: Readonly<Record<string, Times>>;
  /** By phase and `mix`; empty for today's layout and for those that are out. */
  readonly verdicts: Readonly<Record<string, Verdict>>;
  readonly fileBytes: number | undefined;
  readonly memoryBytes: number | undefined;
  readonly trees: readonly TreeFacts[];
}

export interface Recommendation {
  readonly name: string;
  readonly layout: TrialLayout;
  readonly reason: string;
  /** The layout that loses least in its worst phase. */
  readonly safest: string;
  readonly command: string;
  readonly openCall: string;
  /** Whether something is to be changed. */
  readonly isChange: boolean;
}

export interface Report {
  readonly format: 1;
  readonly workload: string;
  /** The module or trace, as it was named. */
  readonly workloadFile?: string;
  readonly description: string;
  readonly notes: readonly string[];
  readonly confirmation: string;
  readonly phases: readonly string[];
  /** Runs within one timing, by phase. */
  readonly times: Readonly<Record<string, number>>;
  readonly objective: string;
  readonly memory: number | string;
  readonly generations: number;
  readonly rounds: number;
  readonly seconds: number;
  readonly isSettled: boolean;
  readonly isControlBroken: boolean;
  readonly machine: Readonly<Record<string, string>>;
  readonly entries: readonly ReportEntry[];
  /** Milliseconds of CPU time of today's layout by phase, a number a generation. */
  readonly baseline: Readonly<Record<string, readonly number[]>>;
  readonly steps: readonly SearchStep[];
  readonly recommendation: Recommendation;
}

export interface ReportSettings {
  readonly workload: Workload;
  readonly comparison: Comparison;
  readonly objective: Objective;
  readonly memory: number | string;
  readonly steps?: readonly SearchStep[];
  /** The file that commands name. */
  readonly file: string;
  readonly workloadFile?: string;
  /** Where the report is written, for commands that apply it. */
  readonly reportFile?: string;
  /** What a reader should know about the workload. */
  readonly notes?: readonly string[];
}

export function makeReport(settings: ReportSettings): Report {
  const { workload, comparison, objective } = settings;
  const { phases, generations } = comparison;
  const entries = comparison.entries.map((_, i) => entryOf(settings, i));
  const runs = comparison.generations.length * (ROUNDS - ROUNDS_DROPPED) * entries.length;
  return {
    format: 1,
    workload: workload.name,
    ...(settings.workloadFile !== undefined && { workloadFile: settings.workloadFile }),
    description: workload.description ?? '',
    notes: settings.notes ?? [],
    confirmation: confirmationOf(workload, comparison, runs),
    phases,
    times: Object.fromEntries(workload.phases.map((phase) => [phase.name, phase.times ?? 1])),
    objective: objective.text,
    memory: settings.memory,
    generations: generations.length,
    rounds: ROUNDS - ROUNDS_DROPPED,
    seconds: comparison.seconds,
    isSettled: comparison.isSettled,
    isControlBroken: comparison.isControlBroken,
    machine: {
      node: process.version,
      platform: `${process.platform} ${process.arch}`,
      cpu: os.cpus()[0]?.model ?? 'unknown',
      pinned: canPin() ? 'yes' : 'no',
    },
    entries,
    baseline: Object.fromEntries(
      phases.map((name, phase) => [
        name,
        generations.map((g) => median(g.cpuMs.map((round) => round[0]![phase] ?? Number.NaN))),
      ]),
    ),
    steps: settings.steps ?? [],
    recommendation: recommend(settings, entries),
  };
}

function entryOf(settings: ReportSettings, i: number): ReportEntry {
  const { comparison, objective } = settings;
  const { phases, generations } = comparison;
  const entry = comparison.entries[i]!;
  const facts = generations.map((g) => g.facts[i]).findLast((each) => each !== undefined);
  const times = phases.map((name, phase) => [name, timesOf(generations, i, phase)] as const);
  const verdicts = comparison.verdicts[i]!;
  return {
    name: entry.name,
    layout: entry.layout,
    why: comparison.candidates[i - 1]?.why,
    excluded: comparison.excluded.get(i),
    misses: comparison.excluded.has(i) ? [] : missesOf(comparison, i, objective),
    overshoot: comparison.excluded.has(i) ? 0 : overshoot(objective, measuredOf(comparison, i)),
    times: Object.fromEntries(times.filter(([, each]) => each !== undefined)) as Record<
      string,
      Times
    >,
    verdicts: Object.fromEntries(verdicts.map((v, at) => [phases[at] ?? 'mix', v])),
    fileBytes: facts?.fileBytes,
    memoryBytes: facts?.memoryBytes,
    trees: facts?.trees ?? [],
  };
}

function confirmationOf(workload: Workload, comparison: Comparison, runs: number): string {
  const out = comparison.excluded.size;
  const what = workload.confirmation ?? 'every configuration gave the right result in every phase';
  if (out === 0) return `Checked in each of ${runs} timed runs: ${what}.`;
  const ordinals = [...comparison.excluded.keys()].sort((a, b) => a - b);
  const names = ordinals.map((i) => comparison.entries[i]!.name).join(', ');
  return `NOT every configuration gave right results; out: ${names}. The others did.`;
}

/** The verdict on the objective: that of the mix, or the worst of the phases it names. */
function objectiveVerdict(entry: ReportEntry, objective: Objective): Verdict | undefined {
  if (objective.phases.length === 0) return entry.verdicts['mix'];
  const all = objective.phases.flatMap((name) => entry.verdicts[name] ?? []);
  return all.sort((a, b) => b.ratio - a.ratio)[0];
}

function recommend(settings: ReportSettings, entries: readonly ReportEntry[]): Recommendation {
  const { comparison, objective, file } = settings;
  const inside = entries.slice(0, -1).filter((entry) => entry.excluded === undefined);
  const allowed = inside.filter((entry) => entry.misses.length === 0);
  const better = comparison.isControlBroken
    ? []
    : allowed
        .slice()
        .filter((entry) => objectiveVerdict(entry, objective)?.judgement === 'faster')
        .sort((a, b) => {
          return objectiveVerdict(a, objective)!.ratio - objectiveVerdict(b, objective)!.ratio;
        });
  const today = entries[0]!;
  const fallback = allowed.includes(today) ? today : (closest(allowed, objective) ?? today);
  const chosen = better[0] ?? fallback;
  return {
    name: chosen.name,
    layout: chosen.layout,
    reason: reasonOf(chosen, better[0] !== undefined, settings, allowed, inside),
    safest: safestOf(allowed.length > 0 ? allowed : inside).name,
    command: commandOf(file, chosen.layout, settings.reportFile),
    openCall: openCallOf(file, chosen.layout),
    isChange: chosen !== today,
  };
}

function closest(entries: readonly ReportEntry[], objective: Objective): ReportEntry | undefined {
  const ratio = (entry: ReportEntry): number => objectiveVerdict(entry, objective)?.ratio ?? 1;
  return entries.slice().sort((a, b) => ratio(a) - ratio(b))[0];
}

function reasonOf(
  chosen: ReportEntry,
  isFaster: boolean,
  settings: ReportSettings,
  allowed: readonly ReportEntry[],
  inside: readonly ReportEntry[],
): string {
  const { comparison, objective } = settings;
  if (comparison.isControlBroken) {
    return 'the second copy of today’s layout came out different from the first';
  }
  const what = objective.phases.length === 0 ? 'the mix' : objective.phases.join(' and ');
  if (isFaster) {
    const { ratio, low, high } = objectiveVerdict(chosen, objective)!;
    const interval = `${percent(low)} to ${percent(high)}`;
    return `its CPU time for ${what} is ${percent(ratio)} (${interval}) against the defaults`;
  }
  if (allowed.length === 0) {
    return unmetText(chosen, inside);
  }
  if (chosen.name !== 'defaults') return 'today’s layout misses the objective, this one meets it';
  const end = comparison.isSettled ? '' : '; not everything could be resolved in this time';
  return `no layout was faster for ${what} by more than the noise${end}`;
}

/** By how much today's layout, and the one that comes closest, miss the objective. */
function unmetText(today: ReportEntry, inside: readonly ReportEntry[]): string {
  const nearest = inside.reduce((best, each) => (each.overshoot < best.overshoot ? each : best));
  const own = `today’s: ${today.misses.join('; ')}`;
  const other =
    nearest === today ? '' : `; closest is ${nearest.name}: ${nearest.misses.join('; ')}`;
  return `no layout that was tried meets the objective; ${own}${other}`;
}

/** The layout whose worst phase, at the upper end of its interval, is best; today's counts as 1. */
function safestOf(entries: readonly ReportEntry[]): ReportEntry {
  const worst = (entry: ReportEntry): number =>
    Object.values(entry.verdicts).reduce((most, each) => Math.max(most, each.high), -Infinity);
  const score = (entry: ReportEntry): number =>
    Object.keys(entry.verdicts).length === 0 ? 1 : worst(entry);
  return entries.reduce((best, each) => (score(each) < score(best) ? each : best));
}

/** A ratio as a signed share: `+12 %`. */
export function percent(ratio: number): string {
  if (ratio >= 10) return `× ${ratio.toFixed(1)}`;
  const share = (ratio - 1) * 100;
  const digits = Math.abs(share) < 10 ? 1 : 0;
  return `${share >= 0 ? '+' : '−'}${Math.abs(share).toFixed(digits)} %`;
}
