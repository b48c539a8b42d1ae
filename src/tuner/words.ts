/**
 * A report in words: for each layout what it did, to which phase, and why that may be. Line 7 of
 * the strata.
 */
import { percent, type Report, type ReportEntry } from './report.ts';
import type { Verdict } from './verdict.ts';

export function kib(bytes: number | undefined): string {
  if (bytes === undefined) return '?';
  if (bytes >= 10 * 2 ** 20) return `${(bytes / 2 ** 20).toFixed(1)} MiB`;
  return `${Math.round(bytes / 1024)} KiB`;
}

/** A verdict in a cell of a table. */
export function verdictText(verdict: Verdict | undefined): string {
  if (verdict === undefined) return '';
  const { judgement, ratio, low, high } = verdict;
  const isKnown = Number.isFinite(high);
  const interval = isKnown
    ? `${percent(low)} to ${percent(high)}`
    : `${percent(ratio)}; one generation is no interval`;
  if (judgement === 'draw') return 'draw';
  if (judgement === 'unresolved') return `draw, not resolved (${interval})`;
  return `${judgement} ${percent(ratio)} (${interval})`;
}

/** Paragraphs for the layouts of a report, one each. */
export function wordsOf(report: Report): string[] {
  return report.entries.slice(1, -1).map((entry) => paragraph(report, entry));
}

function paragraph(report: Report, entry: ReportEntry): string {
  const head = `${entry.name}:`;
  if (entry.excluded !== undefined) {
    const { isWrong, message } = entry.excluded;
    const why = isWrong ? 'gave a wrong result, so it cannot win' : 'failed';
    return `${head} out, it ${why}: ${message}.`;
  }
  if (report.isControlBroken) return `${head} no verdict, the control came out different.`;
  const parts = [changes(report, entry), evens(report, entry), files(report, entry)];
  const why = entry.why === undefined ? '' : ` Why: ${entry.why}.`;
  const missed =
    entry.misses.length === 0 ? '' : ` Misses the objective: ${entry.misses.join('; ')}.`;
  return `${head} ${parts.filter((part) => part !== '').join('; ')}.${missed}${why}`;
}

function named(report: Report, entry: ReportEntry, wanted: string): string[] {
  return report.phases.filter((phase) => entry.verdicts[phase]?.judgement === wanted);
}

function changes(report: Report, entry: ReportEntry): string {
  const all = [...named(report, entry, 'faster'), ...named(report, entry, 'slower')];
  if (all.length === 0) return 'no phase is known to be faster or slower by more than the noise';
  return `made ${all.map((phase) => `${phase} ${verdictText(entry.verdicts[phase])}`).join(', ')}`;
}

function evens(report: Report, entry: ReportEntry): string {
  const draws = named(report, entry, 'draw');
  const open = named(report, entry, 'unresolved');
  const parts = [
    draws.length === 0 ? '' : `draw in ${draws.join(', ')}`,
    open.length === 0 ? '' : `not resolved: ${openText(entry, open)}`,
    `the mix: ${verdictText(entry.verdicts['mix'])}`,
  ];
  return parts.filter((part) => part !== '').join('; ');
}

/** Phases that are not resolved, each with its interval if there is one. */
function openText(entry: ReportEntry, phases: readonly string[]): string {
  const each = phases.map((phase) => {
    const { low, high } = entry.verdicts[phase]!;
    return Number.isFinite(high) ? `${phase} (${percent(low)} to ${percent(high)})` : phase;
  });
  return each.join(', ');
}

function files(report: Report, entry: ReportEntry): string {
  const today = report.entries[0]!;
  const parts: string[] = [];
  if (entry.fileBytes !== undefined && today.fileBytes !== undefined) {
    const ratio = entry.fileBytes / today.fileBytes;
    const isSame = Math.abs(ratio - 1) < 0.01;
    parts.push(
      isSame
        ? 'file of the same size'
        : `file ${kib(entry.fileBytes)} instead of ${kib(today.fileBytes)}`,
    );
  }
  const heights = entry.trees.flatMap((tree) => {
    const before = today.trees.find((each) => each.name === tree.name);
    if (before === undefined || before.height === tree.height) return [];
    return [`${tree.name} ${before.height} → ${tree.height} levels`];
  });
  const pages = (trees: ReportEntry['trees']): number => trees.reduce((n, t) => n + t.pages, 0);
  const [now, then] = [pages(entry.trees), pages(today.trees)];
  if (now !== then) parts.push(`${now} pages of trees instead of ${then}`);
  return [...parts, ...heights].join(', ');
}

/** What the verdicts rest on, in two sentences. */
export function methodText(report: Report): string {
  const { generations, rounds, seconds } = report;
  return (
    `${generations === 1 ? '1 generation' : `${generations} generations`} of fresh processes, ` +
    `${rounds} counted runs of every layout in each, ` +
    `taking turns in random order, ${seconds.toFixed(0)} s. CPU time, compared within a round; ` +
    '“differs” means the whole interval lies beyond 5 %, “draw” within 10 %, anything else is ' +
    'not resolved.'
  );
}

/** The sentence about the control. */
export function controlText(report: Report): string {
  const control = report.entries.at(-1)!.verdicts['mix'];
  const text = control === undefined ? 'was not measured' : `came out ${verdictText(control)}`;
  if (!report.isControlBroken)
    return `Control: the second copy of the defaults ${text} in the mix.`;
  return `CONTROL BROKEN: the second copy ${text}; no verdict holds.`;
}
