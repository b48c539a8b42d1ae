/**
 * One comparison of layouts: generations until everything is settled, the looks are over, or
 * another would pass the time limit (FEASIBILITY section 16.1). Line 7 of the strata.
 */
import { failure } from '../errors.ts';
import { runGeneration, type Entry, type Exclusion, type Generation } from './trial.ts';
import { isControlBroken, isSettled, judgeAll, LOOKS, type Verdict } from './verdict.ts';
import type { TrialMemory } from './trial-memory.ts';
import type { CandidateInput, Workload } from './workload.ts';

export interface CompareSettings {
  readonly workload: Workload;
  readonly workloadFile: string;
  readonly memory: number | string;
  readonly source: string | undefined;
  /** Whether the source is measured as it is; default false: it is rebuilt as it is laid out. */
  readonly isAsIs?: boolean;
  readonly candidates: readonly CandidateInput[];
  /** Milliseconds of `performance.now()` at which it must be over. */
  readonly deadline: number;
  /** Number of generations at the most; default that of the last look. */
  readonly generationsMax?: number;
  readonly signal?: AbortSignal;
  readonly kept?: TrialMemory;
  readonly seed?: number;
  readonly workerFile?: string;
  readonly onProgress?: (text: string, share: number) => void;
}

/** Everything that a comparison found. */
export interface Comparison {
  readonly phases: readonly string[];
  /** Today's layout first, the second copy of it last. */
  readonly entries: readonly Entry[];
  readonly candidates: readonly CandidateInput[];
  readonly generations: readonly Generation[];
  /** By entry, then by phase, the mix last; empty for the first and for those that are out. */
  readonly verdicts: readonly (readonly Verdict[])[];
  readonly excluded: ReadonlyMap<number, Exclusion>;
  /** Whether the second copy of today's layout came out different: no verdict holds. */
  readonly isControlBroken: boolean;
  readonly isSettled: boolean;
  readonly seconds: number;
}

/** Share by which a generation may take longer than the longest before. */
const SLACK = 1.1;
/** The first generation's time is not known: it is run however short the limit. */
const GENERATIONS_MIN = 1;

export async function compareLayouts(settings: CompareSettings): Promise<Comparison> {
  const since = performance.now();
  const { workload, candidates, kept } = settings;
  const phases = workload.phases.map((phase) => phase.name);
  const entries: Entry[] = [
    { name: 'defaults', layout: {} },
    ...candidates,
    { name: 'defaults again', layout: {} },
  ];
  const excluded = new Map<number, Exclusion>();
  const generations: Generation[] = [];
  const most = settings.generationsMax ?? LOOKS.at(-1)!;
  let verdicts: Verdict[][] = [];
  let longest = 0;
  while (generations.length < most) {
    const remembered = kept?.take(entries);
    if (remembered !== undefined) generations.push(remembered);
    else {
      const isLate = performance.now() + longest * SLACK > settings.deadline;
      if (isLate && generations.length >= GENERATIONS_MIN) break;
      const generation = await runGeneration(
        trialSettings(settings, entries, generations.length, most),
        excluded,
        (settings.seed ?? 1) + generations.length,
      );
      refuseDefaultOut(excluded);
      longest = Math.max(longest, generation.seconds * 1000);
      generations.push(generation);
      kept?.add(entries, generation);
    }
    for (const [entry] of entries.entries()) noteMissing(generations.at(-1)!, entry, excluded);
    if (!LOOKS.includes(generations.length)) continue;
    verdicts = judgeAll(generations, phases, workload.shares, new Set(excluded.keys()));
    if (isSettled(verdicts)) break;
  }
  verdicts = judgeAll(generations, phases, workload.shares, new Set(excluded.keys()));
  return {
    phases,
    entries,
    candidates,
    generations,
    verdicts,
    excluded,
    isControlBroken: isControlBroken(verdicts, entries.length - 1),
    isSettled: isSettled(verdicts),
    seconds: (performance.now() - since) / 1000,
  };
}

function trialSettings(
  settings: CompareSettings,
  entries: readonly Entry[],
  done: number,
  most: number,
): Parameters<typeof runGeneration>[0] {
  const { workloadFile, memory, source, isAsIs, signal, workerFile, onProgress } = settings;
  return {
    ...(isAsIs !== undefined && { isAsIs }),
    workload: workloadFile,
    memory,
    source,
    entries,
    ...(signal !== undefined && { signal }),
    ...(workerFile !== undefined && { workerFile }),
    onRound: (round, rounds) =>
      onProgress?.(
        `generation ${done + 1} of at most ${most}, round ${round} of ${rounds}`,
        (done + round / rounds) / most,
      ),
  };
}

/** A generation that was kept from before may have entries without times. */
function noteMissing(
  generation: Generation,
  entry: number,
  excluded: Map<number, Exclusion>,
): void {
  const hasTimes = generation.cpuMs.every((round) => round[entry]!.length > 0);
  if (hasTimes || excluded.has(entry)) return;
  const why = generation.excluded?.[entry];
  excluded.set(entry, why ?? { message: 'it failed in an earlier trial', isWrong: false });
}

/** Without today's layout there is nothing to compare with. */
function refuseDefaultOut(excluded: ReadonlyMap<number, Exclusion>): void {
  const out = excluded.get(0);
  if (out === undefined) return;
  throw failure('usage.argument', `the workload fails in today's layout: ${out.message}`, {
    hint: 'Fix the workload first: there is nothing to compare with.',
  });
}
