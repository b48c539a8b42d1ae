/**
 * What a workload is: phases that a trial runs in order and times one by one, each of which checks
 * what it reads. A workload is a module; it gets everything it needs from its context.
 *
 * Line 7 of the strata.
 */
import { pathToFileURL } from 'node:url';
import * as path from 'node:path';
import { type Database } from '../database.ts';
import { failure } from '../errors.ts';
import { requireNames } from '../base/arguments.ts';
import type { OpenOptions } from '../options.ts';
import type { TreeLayout } from '../model/schema.ts';
import type { LayoutChange } from '../rebuild/index.ts';
import { WrongResult } from './wrong-result.ts';
import { isTrace, replayWorkload } from './trace-workload.ts';

/** Indexes that a layout has beside the file's own, or lacks. */
export interface IndexChanges {
  /** Parts are fields, or paths into them: `address.city`. */
  readonly add?: readonly { readonly collection: string; readonly parts: readonly string[] }[];
  readonly drop?: readonly { readonly collection: string; readonly index: string }[];
}

/** A layout as a trial has it. */
export interface TrialLayout extends LayoutChange {
  /** For stores that exist. */
  readonly indexes?: IndexChanges;
  /** The budget that the file is opened with, in place of the one that tuning was given. */
  readonly memory?: number | string;
}

/** What a phase is given. */
export interface WorkloadContext {
  /** The database file of this run; absent before a run without a store to start from. */
  readonly path: string;
  /** The layout of trees, for `layout` of collections and indexes. */
  readonly treeLayout: Partial<TreeLayout>;
  /** Opens the file in the trial's layout and memory. */
  readonly open: (options?: OpenOptions) => Database;
  /** Says that a result is wrong unless `isRight`: the layout cannot win. */
  readonly check: (isRight: boolean, what: string) => void;
  /** Counts what was stored and found; compared with `expects` after the run. */
  readonly count: (what: string, by?: number) => void;
  /** Whether this is the first run of its process, which is not timed: for expensive checks. */
  readonly isFirstRun: boolean;
}

/** One timed step of a workload. `State` is the workload's own, new for every run. */
export interface Phase<State = Record<string, unknown>> {
  readonly name: string;
  /** Runs within one timing, for what is too short alone; default 1. */
  readonly times?: number;
  /** Absent only where the workload has `interleave`. */
  run?(state: State, context: WorkloadContext): void | Promise<void>;
}

/** A workload, the default export of its module. */
export interface Workload<State = Record<string, unknown>> {
  readonly name: string;
  /** One sentence for reports. */
  readonly description?: string;
  readonly phases: readonly Phase<State>[];
  /**
   * Runs everything, in place of `run` of the phases, where their work is interleaved: what follows
   * a call of `enter` belongs to the phase it names.
   */
  interleave?(context: WorkloadContext, enter: (phase: string) => void): void;
  /** What a run must count, by name: `{ 'customers stored': 2000 }`. */
  readonly expects?: Readonly<Record<string, number>>;
  /** The line of a report that says that every run was right. */
  readonly confirmation?: string;
  /** Share of each phase in the mix; default its share of the time of today's layout. */
  readonly shares?: Readonly<Record<string, number>>;
  /** Candidates for a new store, instead of the tuner's own. */
  readonly candidates?: readonly CandidateInput[];
}

/** A layout to try. */
export interface CandidateInput {
  readonly name: string;
  readonly layout: TrialLayout;
  /** A store of its own that its runs begin with, as it is. */
  readonly source?: string;
  /** Why the difference may be what it is, for the report. */
  readonly why?: string;
}

/** Loads a workload from a module, or a replay. @throws {UsageError} usage.argument */
export async function loadWorkload(file: string): Promise<Workload> {
  if (isTrace(file)) return replayWorkload(file);
  let module: { default?: Workload };
  try {
    module = (await import(pathToFileURL(path.resolve(file)).href)) as { default?: Workload };
  } catch (cause) {
    throw failure('usage.argument', `the workload ${file} cannot be loaded: ${textOf(cause)}`, {
      cause,
    });
  }
  const workload = module.default;
  const refuse = (what: string): Error =>
    failure('usage.argument', `${file} is not a workload: ${what}`, {
      hint: 'Its default export is { name, phases: [{ name, run(state, context) }] }.',
    });
  if (typeof workload !== 'object' || workload === null) throw refuse('no default export');
  requireNames(`the workload ${file}`, workload, WORKLOAD_NAMES);
  if (typeof workload.name !== 'string') throw refuse('it has no name');
  const { phases } = workload;
  if (!Array.isArray(phases) || phases.length === 0) throw refuse('it has no phases');
  const names = new Set<string>();
  for (const phase of phases as Phase[]) {
    const isRunnable = typeof phase.run === 'function' || workload.interleave !== undefined;
    const isPhase = typeof phase.name === 'string' && isRunnable;
    if (!isPhase) throw refuse('a phase has a name and a function run');
    if (phase.name === 'mix' || names.has(phase.name)) throw refuse(`two phases "${phase.name}"`);
    names.add(phase.name);
  }
  for (const name of Object.keys(workload.shares ?? {})) {
    if (!names.has(name)) throw refuse(`shares name "${name}", which is no phase`);
  }
  for (const candidate of workload.candidates ?? []) requireCandidate(file, candidate);
  return workload;
}

const WORKLOAD_NAMES: readonly (keyof Workload)[] = [
  'name',
  'description',
  'phases',
  'interleave',
  'expects',
  'confirmation',
  'shares',
  'candidates',
];

/** What a layout to try may have. */
const LAYOUT_NAMES: readonly (keyof TrialLayout)[] = [
  'pageSize',
  'extentSize',
  'clusterSize',
  'index',
  'collections',
  'indexes',
  'memory',
];

/** Refuses a setting that would be left out, and come out as a draw. */
function requireCandidate(file: string, candidate: CandidateInput): void {
  const { name, layout } = candidate;
  requireNames(`a candidate of ${file}`, candidate, ['name', 'layout', 'source', 'why']);
  const where = `the layout of candidate "${name}" in ${file}`;
  requireNames(where, layout, LAYOUT_NAMES);
  if (layout.index !== undefined) requireNames(`index in ${where}`, layout.index, TREE_NAMES);
}

const TREE_NAMES = ['tree', 'order'];

export function textOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}

/** Compares what a run counted with what it must have. */
export function requireCounts(workload: Workload, counts: Readonly<Record<string, number>>): void {
  for (const [what, expected] of Object.entries(workload.expects ?? {})) {
    const found = counts[what] ?? 0;
    if (found === expected) continue;
    throw new WrongResult(`${what}: ${found}, not ${expected}`);
  }
}
