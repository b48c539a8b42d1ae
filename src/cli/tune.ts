/** `monochord tune`: measures layouts on a workload and recommends one. Line 9 of the strata. */
import * as fs from 'node:fs';
import * as path from 'node:path';
import { failure } from '../errors.ts';
import { parseSize } from '../base/sizes.ts';
import { LATEST } from '../model/source.ts';
import { treesOf } from '../store/check.ts';
import { compareBaseline, type BaselineLine } from '../tuner/baseline.ts';
import { compareLayouts, type CompareSettings } from '../tuner/compare.ts';
import { parseObjective } from '../tuner/objective.ts';
import { pageOf } from '../tuner/report-page.ts';
import { makeReport, percent, type Report } from '../tuner/report.ts';
import { searchLayouts } from '../tuner/search.ts';
import { TrialMemory, trialParts } from '../tuner/trial-memory.ts';
import type { Verdict } from '../tuner/verdict.ts';
import { controlText, kib, methodText, wordsOf } from '../tuner/words.ts';
import { loadWorkload } from '../tuner/workload.ts';
import { requireFile, withReader } from './open-file.ts';
import {
  EXIT,
  interruptSignal,
  print,
  Progress,
  table,
  wrap,
  type CommonOptions,
} from './output.ts';

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
}

const MINUTES_DEFAULT = 10;

/** Tunes; answers the exit code. */
export async function tuneCommand(file: string | undefined, flags: TuneFlags): Promise<number> {
  if (flags.workload === undefined) {
    throw failure('usage.argument', 'tune needs a workload: --workload MODULE', {
      hint: 'Recorded traces are not built yet; docs/TUNING.md shows how to write a module.',
    });
  }
  if (file !== undefined) requireFile(file);
  const workload = await loadWorkload(flags.workload);
  const names = workload.phases.map((phase) => phase.name);
  const objective = parseObjective(flags.objective, names);
  parseSize('budget', flags.budget);
  const before = flags.check === undefined ? undefined : readReport(flags.check, workload.name);
  const progress = new Progress();
  const kept = new TrialMemory(
    path.join(flags.out, 'trials.jsonl'),
    flags.fresh === true
      ? [performance.timeOrigin]
      : trialParts(flags.workload, file, flags.budget),
  );
  if (kept.count > 0) process.stderr.write(`${kept.count} finished trials are kept from before\n`);
  const settings: CompareSettings = {
    workload,
    workloadFile: flags.workload,
    memory: flags.budget,
    source: file,
    candidates: before === undefined ? (workload.candidates ?? []) : [],
    deadline: deadlineOf(flags),
    signal: interruptSignal(),
    ...(before === undefined && { kept }),
    ...(flags.generations !== undefined && { generationsMax: Number(flags.generations) }),
    onProgress: (text, share) => progress.show(`${(share * 100).toFixed(0)} %, ${text}`),
  };
  const isSearch =
    before === undefined && (file !== undefined || workload.candidates === undefined);
  const found =
    isSearch && flags.compare !== true
      ? await searchLayouts({ ...settings, objective, entries: entriesOf(file) })
      : { comparison: await compareLayouts(settings), steps: [] };
  progress.end();
  const report = makeReport({
    workload,
    comparison: found.comparison,
    steps: found.steps,
    objective,
    memory: flags.budget,
    file: file ?? 'FILE',
  });
  if (before !== undefined) return checkAgainst(before, report, flags);
  writeReport(report, flags.out);
  print(flags, report, () => textOf(report, flags.out));
  const isUnmet = report.recommendation.reason.startsWith('no layout that was tried meets');
  return isUnmet ? EXIT.unmet : EXIT.done;
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

/** Records and index entries of a file, for estimates. */
function entriesOf(file: string | undefined): number {
  if (file === undefined) return 0;
  return withReader(file, ({ store }) =>
    treesOf(store, LATEST).reduce((sum, { tree }) => sum + tree.count(LATEST), 0),
  );
}

function writeReport(report: Report, folder: string): void {
  fs.mkdirSync(folder, { recursive: true });
  fs.writeFileSync(path.join(folder, 'report.json'), `${JSON.stringify(report, null, 2)}\n`);
  fs.writeFileSync(path.join(folder, 'report.html'), pageOf(report));
}

function readReport(file: string, workload: string): Report {
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
  if (report.workload === workload) return report;
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

/** The report for a terminal. */
function textOf(report: Report, folder: string): string {
  const { phases, entries, recommendation } = report;
  const shown = entries.slice(0, -1);
  const times = shown.map((entry) => [
    entry.name,
    ...phases.map((phase) => {
      const each = entry.times[phase];
      if (each === undefined || entry.excluded !== undefined) return 'out';
      return `${each.cpuMs.toFixed(2)} ±${(each.spread * 100).toFixed(0)}%`;
    }),
    kib(entry.fileBytes),
  ]);
  const verdicts = entries
    .slice(1)
    .map((entry) => [
      entry.name,
      ...[...phases, 'mix'].map((phase) => cellOf(entry.verdicts[phase])),
    ]);
  return [
    `${report.workload}: CPU time, medians in ms, ± half the distance between the quartiles`,
    '',
    table(['layout', ...phases, 'file'], times),
    '',
    'Against the defaults (? = not resolved)',
    '',
    table(['layout', ...phases, 'mix'], verdicts),
    '',
    wrap(report.confirmation),
    wrap(controlText(report)),
    '',
    ...wordsOf(report).map((text) => wrap(`- ${text}`)),
    '',
    wrap(methodText(report)),
    'No prediction stands beside the measurements: there is no cost model yet.',
    '',
    ...recommendationText(report),
    '',
    `${path.join(folder, 'report.html')}  ${path.join(folder, 'report.json')}`,
    recommendation.isChange ? '' : 'Try another: monochord rebuild FILE --page-size 16KiB',
  ]
    .join('\n')
    .trimEnd();
}

function recommendationText(report: Report): string[] {
  const { isChange, name, reason, safest, command, openCall } = report.recommendation;
  const head = wrap(
    `${isChange ? 'Recommended' : 'Keep'}: ${name}; ${reason}. ` +
      `If the mix drifts, ${safest} loses least.`,
  );
  if (!isChange) return [head];
  return [head, `  an existing file:  ${command}`, `  a new file:        ${openCall}`];
}

function cellOf(verdict: Verdict | undefined): string {
  if (verdict === undefined) return 'out';
  const { judgement, ratio } = verdict;
  if (judgement === 'draw') return 'draw';
  return judgement === 'unresolved' ? `draw? ${percent(ratio)}` : `${judgement} ${percent(ratio)}`;
}
