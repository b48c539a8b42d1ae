/** A report of tuning for a terminal. Line 9 of the strata. */
import * as path from 'node:path';
import { percent, type Report } from '../tuner/report.ts';
import type { Verdict } from '../tuner/verdict.ts';
import { controlText, kib, methodText, wordsOf } from '../tuner/words.ts';
import { table, wrap } from './output.ts';

/** The report for a terminal. */
export function reportText(report: Report, folder: string): string {
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
    ...report.notes.map((note) => wrap(`Note: ${note}.`)),
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
