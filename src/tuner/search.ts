/**
 * Searching a layout for an objective: one factor at a time, then combinations by successive
 * halving, then a full comparison of what is left with today's layout. Line 7 of the strata.
 *
 *   singles   every candidate that changes one thing, a generation or two, in groups
 *   halving   combinations of what helped: a generation each, the better half gets two, then four
 *   final     the two best against today's layout, with looks, to a verdict
 */
import type { TracedCollection } from '../recording/trace-format.ts';
import {
  collectionCandidates,
  combine,
  hopeless,
  memoryCandidates,
  refusedBudget,
  singleCandidates,
  type Scored,
} from './candidates.ts';
import { compareLayouts, type CompareSettings, type Comparison } from './compare.ts';
import { misses, overshoot, type Measured, type Objective } from './objective.ts';
import { logRatios, sharesOf, timesOf } from './verdict.ts';
import type { CandidateInput } from './workload.ts';

/** Workers beside today's layout and its second copy. */
const GROUP = 4;
const COMBINATIONS_MAX = 8;
/** Shares of the time: singles end at the first, halving at the second. */
const SINGLES_UNTIL = 0.35;
const HALVING_UNTIL = 0.65;

export interface SearchSettings extends Omit<CompareSettings, 'candidates' | 'generationsMax'> {
  readonly objective: Objective;
  /** Records and index entries of the store, for estimates; 0 when it is not known. */
  readonly entries: number;
  /** Bytes of the store's pages; default those of a new file. */
  readonly pageBytes?: number;
  /** What the store holds, where there is one: its trees are varied one by one. */
  readonly collections?: readonly TracedCollection[];
  /** What is tried besides, such as indexes. */
  readonly advised?: readonly CandidateInput[];
}

/** What was tried on the way, and why it went no further. */
export interface SearchStep {
  readonly name: string;
  readonly stage: 'singles' | 'halving' | 'estimate';
  /** CPU time of the objective's phases against today's layout. */
  readonly ratio: number | undefined;
  readonly note: string;
}

export interface Search {
  readonly comparison: Comparison;
  readonly steps: readonly SearchStep[];
}

export async function searchLayouts(settings: SearchSettings): Promise<Search> {
  const begun = performance.now();
  const total = settings.deadline - begun;
  const steps: SearchStep[] = [];
  const possible = dropHopeless(settings, steps);
  const singles = await screen(settings, possible, 1, begun + total * SINGLES_UNTIL, steps);
  for (const { candidate, score, misses: missed } of singles) {
    const note = missed ?? (score < 0 ? 'goes on' : 'no gain');
    steps.push({ name: candidate.name, stage: 'singles', ratio: Math.exp(score), note });
  }
  const halvingEnd = begun + total * HALVING_UNTIL;
  let pool = combine(singles, COMBINATIONS_MAX).filter(
    ({ layout }) => refusedBudget(layout, settings.memory, settings.pageBytes) === undefined,
  );
  let scored: Screened[] = [];
  for (let generations = 1; pool.length > 2; generations *= 2) {
    if (performance.now() > halvingEnd) break;
    scored = await screen(settings, pool, generations, halvingEnd, steps);
    const kept = scored.slice(0, Math.max(2, scored.length >> 1));
    for (const { candidate, score, misses: missed } of scored) {
      const isKept = kept.some((each) => each.candidate === candidate);
      const note = missed ?? (isKept ? 'goes on' : 'worse half');
      steps.push({ name: candidate.name, stage: 'halving', ratio: Math.exp(score), note });
    }
    pool = kept.map((each) => each.candidate);
  }
  const finalists = unique([...pool, ...singles.map((each) => each.candidate)]).slice(0, 3);
  return { comparison: await compareLayouts({ ...settings, candidates: finalists }), steps };
}

function dropHopeless(settings: SearchSettings, steps: SearchStep[]): CandidateInput[] {
  const fileMax = settings.objective.constraints.find((each) => each.what === 'file')?.most;
  const { workload, collections = [], advised = [], memory, pageBytes } = settings;
  const all = workload.candidates ?? [
    ...advised,
    ...singleCandidates(),
    ...collectionCandidates(collections),
    ...memoryCandidates(memory, pageBytes),
  ];
  return all.filter((candidate) => {
    const reason =
      refusedBudget(candidate.layout, memory, pageBytes) ??
      hopeless(candidate.layout, settings.entries, fileMax);
    if (reason === undefined) return true;
    const note = `not tried: ${reason}`;
    steps.push({ name: candidate.name, stage: 'estimate', ratio: undefined, note });
    return false;
  });
}

function unique(candidates: readonly CandidateInput[]): CandidateInput[] {
  const seen = new Set<string>();
  return candidates.filter(({ layout }) => {
    const text = JSON.stringify(layout);
    return seen.has(text) ? false : (seen.add(text), true);
  });
}

interface Screened extends Scored {
  /** Which constraints it misses, by how much; those that miss come after those that do not. */
  readonly misses: string | undefined;
  readonly overshoot: number;
}

/** Measures candidates in groups beside today's layout; best first, what failed is left out. */
async function screen(
  settings: SearchSettings,
  candidates: readonly CandidateInput[],
  generationsMax: number,
  deadline: number,
  steps: SearchStep[],
): Promise<Screened[]> {
  const { objective } = settings;
  const stage = candidates.some((each) => each.why !== undefined) ? 'singles' : 'halving';
  const scored: Screened[] = [];
  for (let at = 0; at < candidates.length; at += GROUP) {
    const group = candidates.slice(at, at + GROUP);
    if (at > 0 && performance.now() > deadline) {
      for (const { name } of candidates.slice(at)) {
        steps.push({ name, stage, ratio: undefined, note: 'not tried: no time was left' });
      }
      break;
    }
    const found = await compareLayouts({
      ...settings,
      candidates: group,
      deadline,
      generationsMax,
    });
    for (const [i, candidate] of group.entries()) {
      const out = found.excluded.get(i + 1);
      if (out !== undefined) {
        const note = `${out.isWrong ? 'wrong result' : 'failed'}: ${out.message}`;
        steps.push({ name: candidate.name, stage, ratio: undefined, note });
        continue;
      }
      const missed = missesOf(found, i + 1, objective);
      scored.push({
        candidate,
        score: scoreOf(found, i + 1, objective, settings),
        misses: missed.length === 0 ? undefined : `misses: ${missed.join('; ')}`,
        overshoot: overshoot(objective, measuredOf(found, i + 1)),
      });
    }
  }
  return scored.sort((a, b) => a.overshoot - b.overshoot || a.score - b.score);
}

/** Mean log-ratio of the objective's phases, weighted by their shares. */
export function scoreOf(
  comparison: Comparison,
  entry: number,
  objective: Objective,
  settings: Pick<CompareSettings, 'workload'>,
): number {
  const { phases, generations } = comparison;
  const scores = generations.map((generation) => {
    const shares = sharesOf(generation, phases, settings.workload.shares);
    const ratios = logRatios(generation, entry, shares);
    if (objective.phases.length === 0) return ratios.at(-1)!;
    const wanted = objective.phases.map((name) => phases.indexOf(name));
    const weight = wanted.reduce((sum, at) => sum + shares[at]!, 0);
    return Math.log(
      wanted.reduce((sum, at) => sum + (shares[at]! / weight) * Math.exp(ratios[at]!), 0),
    );
  });
  return scores.reduce((sum, score) => sum + score, 0) / scores.length;
}

/** Which constraints an entry misses. */
export function missesOf(comparison: Comparison, entry: number, objective: Objective): string[] {
  return misses(objective, measuredOf(comparison, entry));
}

export function measuredOf(comparison: Comparison, entry: number): Measured {
  const { phases, generations } = comparison;
  const facts = generations.at(-1)!.facts[entry];
  return {
    medianMs: (phase) => timesOf(generations, entry, phases.indexOf(phase))?.wallMs ?? Infinity,
    p99Ms: (phase) => percentile99(comparison, entry, phases.indexOf(phase)),
    fileBytes: facts?.fileBytes ?? Infinity,
    memoryBytes: facts?.memoryBytes ?? Infinity,
  };
}

function percentile99(comparison: Comparison, entry: number, phase: number): number {
  const values = comparison.generations
    .flatMap((g) => g.wallMs.flatMap((round) => round[entry]![phase] ?? []))
    .sort((a, b) => a - b);
  return values[Math.ceil(0.99 * values.length) - 1] ?? Infinity;
}
