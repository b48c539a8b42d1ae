/**
 * The report as one HTML page that needs nothing else: tables, and plots as inline SVG. The scales
 * of the plots are those of d3-scale. Line 7 of the strata.
 */
import { scaleLinear, scaleLog } from 'd3-scale';
import { percent, type Report, type ReportEntry } from './report.ts';
import { controlText, kib, methodText, verdictText, wordsOf } from './words.ts';
import type { Verdict } from './verdict.ts';

const STYLE = `
:root { color-scheme: light dark; --ink: #1c2024; --soft: #666d75; --line: #d8dce0; --back: #fff;
  --faster: #0a7d4f; --slower: #c0392b; --draw: #8a9099; --open: #b7791f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --soft: #a0a7b0; --line: #3a4048;
  --back: #16191d; --faster: #4cc38a; --slower: #ff7b6b; --draw: #8a9099; --open: #e0b050; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back);
  max-width: 64rem; margin: 2rem auto; padding: 0 1.25rem; }
h1 { font-size: 1.5rem; margin-bottom: .25rem; } h2 { font-size: 1.1rem; margin-top: 2.2rem; }
p, li { max-width: 52rem; } .soft { color: var(--soft); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: right;
  white-space: nowrap; } th:first-child, td:first-child { text-align: left; padding-left: 0;
  white-space: normal;
  min-width: 9rem; }
td:last-child { white-space: normal; }
.faster { color: var(--faster); } .slower { color: var(--slower); }
.draw { color: var(--draw); } .unresolved { color: var(--open); }
.answer { border-left: 4px solid var(--faster); padding: .1rem 1rem; margin: 1.2rem 0; }
.keep { border-left-color: var(--draw); } .bad { border-left-color: var(--slower); }
code { font: .9em ui-monospace, monospace; border: 1px solid var(--line);
  padding: .1em .35em; border-radius: 3px; }
svg { max-width: 100%; height: auto; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
svg .axis { fill: var(--soft); font-size: 11px; } svg .grid { stroke: var(--line); }
svg .zero { stroke: var(--soft); } svg .band { fill: var(--draw); opacity: .13; }
svg .mark.faster { stroke: var(--faster); fill: var(--faster); }
svg .mark.slower { stroke: var(--slower); fill: var(--slower); }
svg .mark.draw { stroke: var(--draw); fill: var(--draw); }
svg .mark.unresolved { stroke: var(--open); fill: var(--back); }
svg .bar { fill: var(--draw); }
`;

export function escape(text: string): string {
  return text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
}

export function pageOf(report: Report): string {
  const { recommendation } = report;
  const shown = [...report.phases, 'mix'];
  const plots = shown.map((phase) => plotOf(report, phase)).join('\n');
  const isOut = report.entries.some((entry) => entry.excluded !== undefined);
  const isBad = report.isControlBroken || isOut;
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Monochord: ${escape(report.workload)}</title><style>${STYLE}</style></head><body>
<h1>${escape(report.workload)}</h1>
<p class="soft">${escape(report.description)}.</p>
<div class="answer${isBad ? ' bad' : recommendation.isChange ? '' : ' keep'}">
<p><strong>${recommendation.isChange ? 'Recommended' : 'Keep'}:
${escape(recommendation.name)}</strong>,
because ${escape(recommendation.reason)}. If the mix drifts, ${escape(recommendation.safest)} loses
least.</p>
${recommendation.isChange ? `<p><code>${escape(recommendation.command)}</code></p>` : ''}
<p>${escape(report.confirmation)}</p>
${report.notes.map((note) => `<p class="soft">Note: ${escape(note)}.</p>`).join('\n')}</div>
<h2>Difference from the defaults</h2>
<p class="soft">Dots are means, bars the interval of each comparison; left of zero is faster. Inside
the grey band a difference is too small to count.
Hollow dots are not resolved; one without a bar has
no interval yet.</p>
${plots}
<h2>CPU time, medians</h2>
<div class="wide">${timesTable(report)}</div>
<p class="soft">Milliseconds of processor time of one run of each phase; ± is half the distance
between the quartiles of all runs. ${report.phases
    .filter((phase) => report.times[phase]! > 1)
    .map((phase) => `${escape(phase)} is ${report.times[phase]} times in one timing.`)
    .join(' ')}</p>
<h2>File and memory</h2>
${fileBars(report)}
<h2>Verdicts</h2>
<div class="wide">${verdictTable(report)}</div>
<h2>In words</h2>
<ul>${wordsOf(report)
    .map((text) => `<li>${escape(text)}</li>`)
    .join('\n')}</ul>
${stepsTable(report)}
<h2>How this was measured</h2>
<p>${escape(methodText(report))} ${escape(controlText(report))}</p>
<p class="soft">Node ${escape(report.machine['node']!)}, ${escape(report.machine['platform']!)},
${escape(report.machine['cpu']!)}; pinned to one processor: ${report.machine['pinned']}.
Memory budget ${escape(String(report.memory))}. Objective: ${escape(report.objective)}.
No prediction stands beside the measurements: there is no cost model yet.</p>
</body></html>
`;
}

const WIDTH = 860;
const RIGHT = 150;
const ROW = 24;
/** Where plots begin: right of the names, which are cut off when they are too long. */
const LEFT_MIN = 150;
const NAME_MAX = 52;
const CHARACTER = 6.3;

function shortName(name: string): string {
  return name.length <= NAME_MAX ? name : `${name.slice(0, NAME_MAX - 1)}…`;
}

/** A name in a plot, whole when it is pointed at. */
function nameText(name: string, y: number): string {
  return `<text x="0" y="${y}">${escape(shortName(name))}<title>${escape(name)}</title></text>`;
}

function leftOf(report: Report): number {
  const longest = Math.max(...report.entries.map((entry) => shortName(entry.name).length));
  return Math.max(LEFT_MIN, longest * CHARACTER + 20);
}

/** One phase: a row a layout with its interval. */
function plotOf(report: Report, phase: string): string {
  const rows = report.entries.slice(1).filter((entry) => entry.verdicts[phase] !== undefined);
  if (rows.length === 0) return '';
  const finite = (value: number): number => Math.min(20, Math.max(0.05, value));
  const ends = rows.flatMap((entry) => {
    const { low: from, ratio, high: to } = entry.verdicts[phase]!;
    return Number.isFinite(to) ? [from, to] : [ratio];
  });
  const low = Math.min(0.85, ...ends.map(finite));
  const high = Math.max(1.18, ...ends.map(finite));
  const x = scaleLog([low * 0.98, high * 1.02], [leftOf(report), WIDTH - RIGHT]);
  const height = rows.length * ROW + 48;
  const ticks = apart(ticksOf(low, high), x);
  const grid = ticks.map(
    (at) =>
      `<line class="${at === 1 ? 'zero' : 'grid'}" x1="${x(at)}" x2="${x(at)}" y1="26" ` +
      `y2="${height - 20}"/><text class="axis" x="${x(at)}" y="${height - 5}" ` +
      `text-anchor="middle">${at === 1 ? '0' : percent(at).replace('.0', '')}</text>`,
  );
  const marks = rows.map((entry, i) => markOf(entry.name, entry.verdicts[phase]!, i, x, finite));
  return `<svg viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" role="img"
aria-label="${escape(phase)}: difference of each layout from the defaults">
<text x="0" y="16" style="font-weight: 600">${escape(phase)}</text>
<rect class="band" x="${x(1 / 1.05)}" y="26" width="${x(1.05) - x(1 / 1.05)}"
height="${height - 46}"/>
${grid.join('\n')}
${marks.join('\n')}</svg>`;
}

/** Pixels between the labels of two ticks. */
const LABEL = 42;

/** Ticks whose labels do not touch; zero stays. */
function apart(ticks: readonly number[], x: (at: number) => number): number[] {
  const kept = [1];
  for (const at of ticks) {
    if (kept.every((other) => Math.abs(x(at) - x(other)) >= LABEL)) kept.push(at);
  }
  return kept;
}

function ticksOf(low: number, high: number): number[] {
  const steps =
    high / low > 3 ? [0.25, 0.5, 1, 2, 4, 8, 16] : [0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.5, 2];
  return steps.filter((at) => at >= low * 0.98 && at <= high * 1.02);
}

function markOf(
  name: string,
  verdict: Verdict,
  row: number,
  x: (at: number) => number,
  finite: (value: number) => number,
): string {
  const y = 38 + row * ROW;
  const { judgement, ratio, low, high } = verdict;
  const short = judgement === 'unresolved' ? 'not resolved' : judgement;
  // One generation gives no interval: there is a dot alone.
  const bar = Number.isFinite(high)
    ? `<line x1="${x(finite(low))}" x2="${x(finite(high))}" y1="${y}" y2="${y}" stroke-width="2"/>`
    : '';
  return (
    `<g class="mark ${judgement}">${bar}<circle cx="${x(finite(ratio))}" cy="${y}" r="4.5" ` +
    `stroke-width="2"/></g>${nameText(name, y + 4)}` +
    `<text class="axis" x="${WIDTH - RIGHT + 12}" y="${y + 4}">${percent(ratio)} ${short}</text>`
  );
}

function timesTable(report: Report): string {
  const head = ['layout', ...report.phases, 'file'];
  const rows = report.entries.map((entry) => [
    escape(entry.name),
    ...report.phases.map((phase) => timeCell(entry, phase)),
    kib(entry.fileBytes),
  ]);
  return table(head.map(escape), rows);
}

function timeCell(entry: ReportEntry, phase: string): string {
  const times = entry.times[phase];
  if (times === undefined || entry.excluded !== undefined) return 'out';
  const spread = (times.spread * 100).toFixed(0);
  return `${times.cpuMs.toFixed(2)} <span class="soft">± ${spread} %</span>`;
}

function verdictTable(report: Report): string {
  const shown = [...report.phases, 'mix'];
  const rows = report.entries.slice(1).map((entry) => [
    escape(entry.name),
    ...shown.map((phase) => {
      const verdict = entry.verdicts[phase];
      const text = verdict === undefined ? 'out' : verdictText(verdict).replace(/ \(.*/, '');
      return `<span class="${verdict?.judgement ?? ''}">${escape(text)}</span>`;
    }),
  ]);
  return table(['layout', ...shown].map(escape), rows);
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = (tag: string, row: readonly string[]): string =>
    `<tr>${row.map((cell) => `<${tag}>${cell}</${tag}>`).join('')}</tr>`;
  return `<table>${cells('th', head)}${rows.map((row) => cells('td', row)).join('')}</table>`;
}

function fileBars(report: Report): string {
  const rows = report.entries.slice(0, -1).filter((entry) => entry.fileBytes !== undefined);
  const most = Math.max(...rows.map((entry) => entry.fileBytes!));
  const left = leftOf(report);
  const x = scaleLinear([0, most], [left, WIDTH - 1.5 * RIGHT]);
  const bars = rows.map((entry, i) => {
    const y = 8 + i * ROW;
    const end = x(entry.fileBytes!);
    const label = `${kib(entry.fileBytes)} file, ${kib(entry.memoryBytes)} of the budget`;
    return (
      nameText(entry.name, y + 13) +
      `<rect class="bar" x="${left}" y="${y}" width="${end - left}" height="16" rx="2"/>` +
      `<text class="axis" x="${end + 8}" y="${y + 12}">` +
      `${label}</text>`
    );
  });
  const height = rows.length * ROW + 10;
  return `<svg viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" role="img"
aria-label="file size and memory of each layout">${bars.join('\n')}</svg>`;
}

function stepsTable(report: Report): string {
  if (report.steps.length === 0) return '';
  const rows = report.steps.map((step) => [
    escape(step.name),
    step.stage,
    step.ratio === undefined ? '' : percent(step.ratio),
    escape(step.note),
  ]);
  return `<h2>Tried on the way</h2><div class="wide">${table(
    ['layout', 'stage', 'against the defaults', ''],
    rows,
  )}</div>`;
}
