/**
 * Options of `open`, checked: what is wrong is said, with the nearest right name.
 *
 * Line 6 of the strata, beside `database.ts`.
 */
import { requireNames } from './base/arguments.ts';
import { parseSize } from './base/sizes.ts';
import { failure } from './errors.ts';
import { MEMORY_BYTES_DEFAULT, MEMORY_BYTES_MIN } from './limits.ts';
import type { RecordOptions } from './recording/recorder.ts';
import { type FileLayout } from './storage/header.ts';
import { type Durability } from './storage/storage.ts';

/** Options of `open`. Everything may be left out. */
export interface OpenOptions {
  /** The one memory budget: bytes, or a text with a unit. Default 32 MiB, at least 2 MiB. */
  readonly memory?: number | string;
  /** Opens for reading only, beside a writer of another process; default false. */
  readonly readOnly?: boolean;
  /** Lets a read-only open see the last checkpoint of a file that was not closed. */
  readonly lastCheckpoint?: boolean;
  /** What a commit promises when it does not say; default `'full'`. */
  readonly durability?: Durability;
  /** Milliseconds that `buffered` and `none` commits may wait in the process; default 250. */
  readonly delayMs?: number;
  /** Writes each commit of level `none` to the file at once; default false. */
  readonly writeEach?: boolean;
  /** Age at which a snapshot is closed from under its reader, milliseconds; default none. */
  readonly snapshotAgeMsMax?: number;
  /** Bytes of a page, 4 KiB to 64 KiB, a power of two; fixed in the file. Default 8 KiB. */
  readonly pageSize?: number | string;
  /** Bytes of the run of slots that a checkpoint prefers for one structure; fixed in the file. */
  readonly extentSize?: number | string;
  /** Default allocation unit for the tails of large values of new collections. */
  readonly clusterSize?: number | string;
  /** Default shape of new trees. */
  readonly index?: { readonly tree?: 'b+tree' | 'b-tree'; readonly order?: number };
  /** Orderings of text by name: each makes bytes, or another text, of a text. */
  readonly collations?: Readonly<Record<string, (text: string) => string | Uint8Array>>;
  /**
   * Writes what the application asks into a trace, which `monochord tune` replays: a file, or a
   * file with how values are written. Default none; docs/TUNING.md says what it costs.
   */
  readonly record?: string | RecordOptions;
}

const OPTION_NAMES: readonly (keyof OpenOptions)[] = [
  'memory',
  'readOnly',
  'lastCheckpoint',
  'durability',
  'delayMs',
  'writeEach',
  'snapshotAgeMsMax',
  'pageSize',
  'extentSize',
  'clusterSize',
  'index',
  'collations',
  'record',
];
const LEVELS: readonly Durability[] = ['full', 'group', 'buffered', 'none'];

export const PAGE_BYTES_DEFAULT = 8192;
const CLUSTER_BYTES_DEFAULT = 512;
/** Pages of an extent by default. */
const EXTENT_PAGES = 16;

/** The options with everything decided. */
export interface Settings {
  readonly memoryBytes: number;
  readonly durability: Durability;
  readonly layout: FileLayout;
  /** The settings of the layout that the caller named. */
  readonly named: Partial<FileLayout>;
  readonly snapshotAgeMsMax: number;
}

/** @throws {UsageError} usage.argument, usage.layout */
export function settingsOf(options: OpenOptions): Settings {
  requireNames('open', options, OPTION_NAMES);
  const memoryBytes =
    options.memory === undefined ? MEMORY_BYTES_DEFAULT : parseSize('memory', options.memory);
  if (memoryBytes < MEMORY_BYTES_MIN) {
    throw failure('usage.argument', `memory: ${memoryBytes} bytes is below ${MEMORY_BYTES_MIN}`);
  }
  for (const name of ['readOnly', 'lastCheckpoint', 'writeEach'] as const) {
    if (options[name] === undefined || typeof options[name] === 'boolean') continue;
    throw failure('usage.argument', `${name}: ${String(options[name])} is not true or false`);
  }
  const named = namedLayout(options);
  return {
    memoryBytes,
    durability: levelOf(options.durability) ?? 'full',
    layout: completeLayout(named),
    named,
    snapshotAgeMsMax: milliseconds('snapshotAgeMsMax', options.snapshotAgeMsMax) ?? Infinity,
  };
}

/** @throws {UsageError} usage.argument for what is no level. */
export function levelOf(level: Durability | undefined): Durability | undefined {
  if (level === undefined || LEVELS.includes(level)) return level;
  throw failure('usage.argument', `durability: ${String(level)} is not a level`, {
    hint: `the levels are ${LEVELS.join(', ')}`,
  });
}

/** A limit in milliseconds. */
export function milliseconds(name: string, value: number | undefined): number | undefined {
  if (value === undefined || (typeof value === 'number' && value >= 0)) return value;
  throw failure('usage.argument', `${name}: ${String(value)} is not a number of milliseconds`);
}

function namedLayout(options: OpenOptions): Partial<FileLayout> {
  const { pageSize, extentSize, clusterSize, index } = options;
  if (index !== undefined) requireNames('index', index, ['tree', 'order']);
  return {
    ...(pageSize !== undefined && { pageBytes: parseSize('pageSize', pageSize) }),
    ...(extentSize !== undefined && { extentBytes: parseSize('extentSize', extentSize) }),
    ...(clusterSize !== undefined && { clusterBytes: parseSize('clusterSize', clusterSize) }),
    ...(index?.tree !== undefined && { tree: index.tree }),
    ...(index?.order !== undefined && { order: index.order }),
  };
}

function isPowerOfTwo(value: number): boolean {
  return Number.isInteger(Math.log2(value));
}

function completeLayout(named: Partial<FileLayout>): FileLayout {
  const pageBytes = named.pageBytes ?? PAGE_BYTES_DEFAULT;
  const layout: FileLayout = {
    pageBytes,
    extentBytes: named.extentBytes ?? EXTENT_PAGES * pageBytes,
    clusterBytes: named.clusterBytes ?? CLUSTER_BYTES_DEFAULT,
    tree: named.tree ?? 'b+tree',
    order: named.order ?? 0,
  };
  const refuse = (what: string): Error => failure('usage.layout', `no layout can have ${what}`);
  const { extentBytes, clusterBytes, tree, order } = layout;
  if (!isPowerOfTwo(pageBytes) || pageBytes < 4096 || pageBytes > 65536) {
    throw refuse(`pageSize ${pageBytes}: it is a power of two from 4 KiB to 64 KiB`);
  }
  if (extentBytes % pageBytes !== 0 || extentBytes < pageBytes) {
    throw refuse(`extentSize ${extentBytes}: it is a multiple of pageSize ${pageBytes}`);
  }
  if (!isPowerOfTwo(clusterBytes) || clusterBytes < 256 || clusterBytes > pageBytes / 2) {
    throw refuse(`clusterSize ${clusterBytes}: it is a power of two from 256 to half a page`);
  }
  if (tree !== 'b+tree' && tree !== 'b-tree') throw refuse(`index.tree ${String(tree)}`);
  if (order !== 0 && !(Number.isInteger(order) && order >= 3 && order <= 65535)) {
    throw refuse(`index.order ${order}: it is a whole number from 3 to 65535`);
  }
  return layout;
}
