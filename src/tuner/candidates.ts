/**
 * Candidates: the layouts that are tried. One factor at a time first, then combinations of what
 * helped. Line 7 of the strata.
 */
import type { CandidateInput, TrialLayout } from './workload.ts';

/** One setting, the values to try, and what it trades. */
interface Factor {
  readonly setting: keyof TrialLayout | 'tree' | 'order';
  readonly values: readonly (string | number)[];
  readonly why: string;
}

const FACTORS: readonly Factor[] = [
  {
    setting: 'pageSize',
    values: ['4 KiB', '16 KiB', '32 KiB'],
    why: 'larger pages are fewer to write and to find, and more bytes to read, check and move each',
  },
  {
    setting: 'tree',
    values: ['b-tree'],
    why: 'entries in inner nodes end some lookups higher up, and leave room for fewer children',
  },
  {
    setting: 'order',
    values: [128, 32],
    why: 'small nodes are searched and changed faster, and take a page each all the same',
  },
  {
    setting: 'clusterSize',
    values: [256, '2 KiB'],
    why: 'clusters hold the tails of values over a quarter page: small ones waste less of them',
  },
  {
    setting: 'extentSize',
    values: ['1 MiB'],
    why: 'longer runs keep the pages of one structure together: fewer, longer reads and writes',
  },
];

function layoutWith(base: TrialLayout, factor: Factor, value: string | number): TrialLayout {
  switch (factor.setting) {
    case 'tree':
      return { ...base, index: { ...base.index, tree: value as 'b-tree' } };
    case 'order':
      return { ...base, index: { ...base.index, order: value as number } };
    default:
      return { ...base, [factor.setting]: value };
  }
}

/** A layout in words: `page 16 KiB, b-tree`. */
export function nameOf(layout: TrialLayout): string {
  const { pageSize, extentSize, clusterSize, index } = layout;
  const parts = [
    pageSize === undefined ? '' : `page ${sizeText(pageSize)}`,
    extentSize === undefined ? '' : `extent ${sizeText(extentSize)}`,
    clusterSize === undefined ? '' : `cluster ${sizeText(clusterSize)}`,
    index?.tree ?? '',
    index?.order === undefined ? '' : `index order ${index.order}`,
  ];
  return parts.filter((part) => part !== '').join(', ') || 'defaults';
}

function sizeText(size: number | string): string {
  return typeof size === 'string' ? size : `${size} B`;
}

/** The candidates that change one thing each. */
export function singleCandidates(): CandidateInput[] {
  return FACTORS.flatMap((factor) =>
    factor.values.map((value) => {
      const layout = layoutWith({}, factor, value);
      return { name: nameOf(layout), layout, why: factor.why };
    }),
  );
}

/** What a node of so few children takes, as a share of what a page holds of small entries. */
const ENTRY_BYTES_GUESS = 40;

/**
 * Why a layout is hopeless, by estimate; `undefined` if it is not. A node takes its own page, so a
 * low order multiplies the file.
 */
export function hopeless(
  layout: TrialLayout,
  entries: number,
  fileBytesMax: number | undefined,
): string | undefined {
  const order = layout.index?.order ?? 0;
  if (order === 0 || fileBytesMax === undefined) return undefined;
  const pageBytes = kibibytes(layout.pageSize) ?? 8192;
  const perPage = Math.min(order, pageBytes / ENTRY_BYTES_GUESS);
  const estimate = (entries / perPage) * pageBytes;
  if (estimate <= fileBytesMax) return undefined;
  return `its file would take about ${Math.round(estimate / 2 ** 20)} MiB`;
}

function kibibytes(size: number | string | undefined): number | undefined {
  if (size === undefined || typeof size === 'number') return size;
  return Number.parseInt(size, 10) * 1024;
}

/** A candidate with its score: a log-ratio to today's layout, negative for better. */
export interface Scored {
  readonly candidate: CandidateInput;
  readonly score: number;
}

/** Combinations of the best values of different settings, most promising first. */
export function combine(scored: readonly Scored[], countMax: number): CandidateInput[] {
  const best = new Map<string, Scored>();
  for (const each of scored) {
    const setting = settingOf(each.candidate.layout);
    const known = best.get(setting);
    if (each.score < 0 && (known === undefined || each.score < known.score)) {
      best.set(setting, each);
    }
  }
  const helpful = [...best.values()].sort((a, b) => a.score - b.score).slice(0, 4);
  const combinations: { layout: TrialLayout; score: number }[] = [];
  for (let chosen = 1; chosen < 1 << helpful.length; chosen++) {
    const members = helpful.filter((_, i) => (chosen & (1 << i)) !== 0);
    if (members.length < 2) continue;
    const layout = members.reduce<TrialLayout>(
      (sum, { candidate }) => merge(sum, candidate.layout),
      {},
    );
    combinations.push({ layout, score: members.reduce((sum, each) => sum + each.score, 0) });
  }
  return combinations
    .sort((a, b) => a.score - b.score)
    .slice(0, countMax)
    .map(({ layout }) => ({ name: nameOf(layout), layout }));
}

function settingOf(layout: TrialLayout): string {
  const [setting] = Object.keys(layout);
  return setting === 'index' ? `index.${Object.keys(layout.index!)[0]}` : setting!;
}

function merge(a: TrialLayout, b: TrialLayout): TrialLayout {
  const index = { ...a.index, ...b.index };
  return { ...a, ...b, ...(Object.keys(index).length > 0 && { index }) };
}
