/** `monochord tune`: measures layouts on a workload and recommends one. Line 9 of the strata. */
import * as fs from 'node:fs';
import * as path from 'node:path';
import { failure } from '../errors.ts';
import { parseSize } from '../base/sizes.ts';
import { LATEST } from '../model/source.ts';
import { tracedCollections } from '../recording/traced-store.ts';
import { treesOf } from '../store/check.ts';
import { compareBaseline, type BaselineLine } from '../tuner/baseline.ts';
import { compareLayouts, type CompareSettings } from '../tuner/compare.ts';
import { parseObjective } from '../tuner/objective.ts';
import { pageOf } from '../tuner/report-page.ts';
import { makeReport, percent, type Report } from '../tuner/report.ts';
import { searchLayouts, type SearchSettings } from '../tuner/search.ts';
import { isTrace, prepareReplay, type PreparedReplay } from '../tuner/trace-workload.ts';
import { TrialMemory, trialParts } from '../tuner/trial-memory.ts';
import { loadWorkload } from '../tuner/workload.ts';
import { requireFile, withReader } from './open-file.ts';
import { EXIT, interruptSignal, print, Progress, table, type CommonOptions } from './output.ts';
import { applyReport, type Tuning } from './tune-apply.ts';
import { reportText } from './tune-text.ts';

export interface TuneFlags extends CommonOptions {
  readonly workload?: string;
  readonly budget: string;
  readonly minutes?: string;
  readonly seconds?: string;
  readonly objective: string;
  readonly out: string;
  readonly check?: string;
  readonly allow: string;
  readonly fresh?: boolean;
  readonly generations?: string;
  readonly compare?: boolean;
  /** Applies what is recommended, by this tuning or by the report of an earlier one. */
  readonly apply?: boolean | string;
}

const MINUTES_DEFAULT = 10;

/** Tunes; answers the exit code. */
export async function tuneCommand(file: string | undefined, flags: TuneFlags): Promise<number> {
  if (file !== undefined) requireFile(file);
  const isFromReport = typeof flags.apply === 'string';
  const report = isFromReport ? readReport(flags.apply as string, undefined) : undefined;
  const workloadFile = flags.workload ?? report?.workloadFile;
  if (workloadFile === undefined) {
    throw failure('usage.argument', 'tune needs a workload: --workload MODULE or TRACE', {
      hint: "A trace is what open(path, { record: 'trace.jsonl' }) writes; docs/TUNING.md.",
    });
  }
  if (flags.apply !== undefined && file === undefined) {
    throw failure('usage.argument', '--apply needs the file that is to be rebuilt');
  }
  const replay = replayOf(workloadFile, file, flags);
  const workload = await loadWorkload(replay?.file ?? workloadFile);
  const tuning: Tuning = { file, flags, workload, workloadFile, replay, signal: interruptSignal() };
  if (report !== undefined) return applyReport(tuning, report);
  return tune(tuning);
}

/** What a trace is made into; `undefined` for a module. */
function replayOf(
  workloadFile: string,
  store: string | undefined,
  flags: TuneFlags,
): PreparedReplay | undefined {
  if (!isTrace(workloadFile)) return undefined;
  requireFile(workloadFile);
  if (store === undefined) {
    throw failure('usage.argument', `the trace ${workloadFile} is replayed on its store: name it`, {
      hint: 'Write: monochord tune app.mono --workload trace.jsonl.',
    });
  }
  const { out: folder, budget: memory } = flags;
  return prepareReplay({ trace: workloadFile, store, folder, memory });
}

async function tune(tuning: Tuning): Promise<number> {
  const { file, flags, workload, replay } = tuning;
  const names = workload.phases.map((phase) => phase.name);
  const objective = parseObjective(flags.objective, names);
  parseSize('budget', flags.budget);
  const before = flags.check === undefined ? undefined : readReport(flags.check, workload.name);
  const progress = new Progress();
  const measured = replay?.file ?? tuning.workloadFile;
  const kept = new TrialMemory(
    path.join(flags.out, 'trials.jsonl'),
    flags.fresh === true
      ? [performance.timeOrigin]
      : trialParts(measured, replay?.source ?? file, flags.budget),
  );
  if (kept.count > 0) process.stderr.write(`${kept.count} finished trials are kept from before\n`);
  const settings: CompareSettings = {
    workload,
    workloadFile: measured,
    memory: flags.budget,
    source: replay?.source ?? file,
    candidates: before === undefined ? (workload.candidates ?? []) : [],
    deadline: deadlineOf(flags),
    signal: tuning.signal,
    ...(before === undefined && { kept }),
    ...(flags.generations !== undefined && { generationsMax: Number(flags.generations) }),
    onProgress: (text, share) => progress.show(`${(share * 100).toFixed(0)} %, ${text}`),
  };
  const isSearch =
    before === undefined && (file !== undefined || workload.candidates === undefined);
  const found =
    isSearch && flags.compare !== true
      ? await searchLayouts({ ...settings, objective, ...contentOf(file, replay) })
      : { comparison: await compareLayouts(settings), steps: [] };
  progress.end();
  const report = makeReport({
    workload,
    comparison: found.comparison,
    steps: found.steps,
    objective,
    memory: flags.budget,
    file: file ?? 'FILE',
    workloadFile: tuning.workloadFile,
    reportFile: path.join(flags.out, 'report.json'),
    notes: replay?.notes ?? [],
  });
  if (before !== undefined) return checkAgainst(before, report, flags);
  writeReport(report, flags.out);
  if (flags.apply !== true) print(flags, report, () => reportText(report, flags.out));
  else {
    if (flags.json !== true) process.stdout.write(`${reportText(report, flags.out)}\n\n`);
    return applyReport(tuning, report);
  }
  const isUnmet = report.recommendation.reason.startsWith('no layout that was tried meets');
  return isUnmet ? EXIT.unmet : EXIT.done;
}

/** What a store holds: its trees are varied one by one, and estimates rest on it. */
function contentOf(
  file: string | undefined,
  replay: PreparedReplay | undefined,
): Pick<SearchSettings, 'entries' | 'pageBytes' | 'collections' | 'advised'> {
  if (file === undefined) return { entries: 0 };
  return withReader(file, (database) => {
    const trees = treesOf(database.store, LATEST);
    return {
      pageBytes: parseSize('pageSize', database.layout.pageSize!),
      entries: trees.reduce((sum, { tree }) => sum + tree.count(LATEST), 0),
      collections: tracedCollections(database),
      advised: replay?.candidates ?? [],
    };
  });
}

function deadlineOf(flags: TuneFlags): number {
  const seconds =
    flags.seconds !== undefined
      ? Number(flags.seconds)
      : Number(flags.minutes ?? MINUTES_DEFAULT) * 60;
  if (!(seconds > 0))
    throw failure('usage.argument', 'the time to tune for is not a number above 0');
  return performance.now() + seconds * 1000;
}

function writeReport(report: Report, folder: string): void {
  fs.mkdirSync(folder, { recursive: true });
  fs.writeFileSync(path.join(folder, 'report.json'), `${JSON.stringify(report, null, 2)}\n`);
  fs.writeFileSync(path.join(folder, 'report.html'), pageOf(report));
}

function readReport(file: string, workload: string | undefined): Report {
  requireFile(file);
  let report: Report;
  try {
    report = JSON.parse(fs.readFileSync(file, 'utf8')) as Report;
  } catch {
    throw failure('usage.argument', `${file} is not a report: it is no JSON`);
  }
  if (report.format !== 1 || report.baseline === undefined) {
    throw failure('usage.argument', `${file} is not a report of monochord tune`);
  }
  if (workload === undefined || report.workload === workload) return report;
  throw failure('usage.argument', `${file} is of workload "${report.workload}", not "${workload}"`);
}

function checkAgainst(before: Report, report: Report, flags: TuneFlags): number {
  const lines = compareBaseline(before, report, 1 + Number(flags.allow) / 100);
  const isWorse = lines.some((line) => line.isWorse);
  const isOther = before.machine['cpu'] !== report.machine['cpu'];
  print(flags, { isWorse, isOtherMachine: isOther, lines }, () => {
    const rows = lines.map(baselineRow);
    const warning = isOther ? 'WARNING: the baseline is of another processor.\n' : '';
    const isKnown = lines.every((line) => Number.isFinite(line.high));
    const unsure = isKnown ? '' : '; too few generations to tell: give it more time';
    const end = `${isWorse ? '' : 'not '}worse than the baseline${unsure}`;
    return `${warning}${table(['', 'now', 'interval', ''], rows)}\n${end}`;
  });
  return isWorse ? EXIT.worse : EXIT.done;
}

function baselineRow(line: BaselineLine): string[] {
  const { what, ratio, low, high, isWorse } = line;
  const interval = low === high ? '' : `${percent(low)} to ${percent(high)}`;
  return [what, percent(ratio), interval, isWorse ? 'WORSE' : ''];
}
