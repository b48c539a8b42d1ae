/**
 * Candidates: the layouts that are tried. One factor at a time first, then combinations of what
 * helped. Line 7 of the strata.
 */
import { parseSize } from '../base/sizes.ts';
import { MEMORY_BYTES_MIN, MEMORY_PAGES_MIN } from '../limits.ts';
import { PAGE_BYTES_DEFAULT } from '../options.ts';
import type { TracedCollection } from '../recording/trace-format.ts';
import type { CollectionChange, TreeChange } from '../rebuild/index.ts';
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
  const { pageSize, extentSize, clusterSize, index, collections, indexes, memory } = layout;
  const parts = [
    pageSize === undefined ? '' : `page ${sizeText(pageSize)}`,
    extentSize === undefined ? '' : `extent ${sizeText(extentSize)}`,
    clusterSize === undefined ? '' : `cluster ${sizeText(clusterSize)}`,
    treeText(index, 'index order'),
    ...Object.entries(collections ?? {}).flatMap(([name, own]) => collectionTexts(name, own)),
    ...(indexes?.add ?? []).map((each) => `index ${each.collection}(${each.parts.join(', ')})`),
    ...(indexes?.drop ?? []).map((each) => `no index ${each.collection}.${each.index}`),
    memory === undefined ? '' : `memory ${sizeText(memory)}`,
  ];
  return parts.filter((part) => part !== '').join(', ') || 'defaults';
}

function collectionTexts(name: string, own: CollectionChange): string[] {
  const { clusterSize, indexes = {} } = own;
  const tree = treeText(own, 'order');
  return [
    tree === '' ? '' : `${name} ${tree}`,
    clusterSize === undefined ? '' : `${name} cluster ${sizeText(clusterSize)}`,
    ...Object.entries(indexes).map(
      ([index, each]) => `${name}.${index} ${treeText(each, 'order')}`,
    ),
  ];
}

function treeText(change: TreeChange | undefined, order: string): string {
  const parts = [change?.tree ?? '', change?.order === undefined ? '' : `${order} ${change.order}`];
  return parts.filter((part) => part !== '').join(', ');
}

function sizeText(size: number | string): string {
  return typeof size === 'string' ? size : `${size} B`;
}

/** The candidates that change one thing each, for the whole file. */
export function singleCandidates(): CandidateInput[] {
  return FACTORS.flatMap((factor) =>
    factor.values.map((value) => {
      const layout = layoutWith({}, factor, value);
      return { name: nameOf(layout), layout, why: factor.why };
    }),
  );
}

/** Collections whose trees are varied one by one: the largest. */
const COLLECTIONS_MAX = 2;
/** Records below which the shape of a tree cannot matter. */
const RECORDS_MIN = 200;

/** The candidates that change one tree of a store. */
export function collectionCandidates(collections: readonly TracedCollection[]): CandidateInput[] {
  return collections
    .filter((each) => each.count >= RECORDS_MIN)
    .sort((a, b) => b.count - a.count)
    .slice(0, COLLECTIONS_MAX)
    .flatMap(({ name, indexes }) => {
      const own = { collections: { [name]: { tree: 'b-tree' as const } } };
      const narrow = Object.fromEntries(indexes.map((index) => [index.name, { order: 128 }]));
      const all = [
        { layout: own, why: `only ${name}: some of its lookups end higher up, scans are longer` },
        ...(indexes.length === 0
          ? []
          : [
              {
                layout: { collections: { [name]: { indexes: narrow } } },
                why: `only the indexes of ${name}: small nodes are searched and changed faster`,
              },
            ]),
      ];
      return all.map(({ layout, why }) => ({ name: nameOf(layout), layout, why }));
    });
}

/** The least budget that opens a file of such pages, bytes. */
function leastBudget(pageBytes: number): number {
  return Math.max(MEMORY_BYTES_MIN, MEMORY_PAGES_MIN * pageBytes);
}

/** Budgets below the given one: whether less memory would do. Those that open refuses are none. */
export function memoryCandidates(
  memory: number | string,
  pageBytes = PAGE_BYTES_DEFAULT,
): CandidateInput[] {
  const bytes = parseSize('budget', memory);
  return [bytes / 2, bytes / 4]
    .filter((each) => each >= leastBudget(pageBytes))
    .map((each) => {
      const layout = { memory: `${each / 2 ** 20} MiB` };
      const why = 'less of the file stays in memory; a draw says that this much is enough';
      return { name: nameOf(layout), layout, why };
    });
}

/** Why `open` would refuse a layout; `undefined` if it would not. */
export function refusedBudget(
  layout: TrialLayout,
  memory: number | string,
  pageBytesNow = PAGE_BYTES_DEFAULT,
): string | undefined {
  const pageBytes =
    layout.pageSize === undefined ? pageBytesNow : parseSize('pageSize', layout.pageSize);
  const budget = parseSize('budget', layout.memory ?? memory);
  const least = leastBudget(pageBytes);
  if (budget >= least) return undefined;
  const pages = `pages of ${pageBytes / 1024} KiB`;
  return `${pages} need a budget of ${least / 2 ** 20} MiB, not ${budget / 2 ** 20} MiB`;
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
  const pageBytes =
    layout.pageSize === undefined ? PAGE_BYTES_DEFAULT : parseSize('pageSize', layout.pageSize);
  const perPage = Math.min(order, pageBytes / ENTRY_BYTES_GUESS);
  const estimate = (entries / perPage) * pageBytes;
  if (estimate <= fileBytesMax) return undefined;
  return `its file would take about ${Math.round(estimate / 2 ** 20)} MiB`;
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
      (sum, { candidate }) => merge(sum, candidate.layout) as TrialLayout,
      {},
    );
    combinations.push({ layout, score: members.reduce((sum, each) => sum + each.score, 0) });
  }
  return combinations
    .sort((a, b) => a.score - b.score)
    .slice(0, countMax)
    .map(({ layout }) => ({ name: nameOf(layout), layout }));
}

/** What a layout of one change changes: values of one setting exclude one another. */
function settingOf(layout: TrialLayout): string {
  const path = (value: unknown): string => {
    if (Array.isArray(value)) return JSON.stringify(value);
    if (typeof value !== 'object' || value === null) return '';
    const [name] = Object.keys(value);
    return `.${name}${path((value as Record<string, unknown>)[name!])}`;
  };
  return path(layout);
}

/** Two layouts in one: settings beside each other, lists one after the other. */
function merge(a: unknown, b: unknown): unknown {
  if (Array.isArray(a) && Array.isArray(b)) return [...(a as unknown[]), ...(b as unknown[])];
  const areMaps = [a, b].every((each) => typeof each === 'object' && each !== null);
  if (!areMaps) return b ?? a;
  const merged: Record<string, unknown> = { ...(a as object) };
  for (const [name, value] of Object.entries(b as object))
    merged[name] = merge(merged[name], value);
  return merged;
}
