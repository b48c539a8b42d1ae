/**
 * The door of this folder: `rebuild`, its undo, and letting the kept file go.
 *
 * Line 6 of the strata: here step machines are driven, to the end or in slices.
 */
import { runSteps, type Steps } from '../base/steps.ts';
import { parseSize } from '../base/sizes.ts';
import { failure } from '../errors.ts';
import { MEMORY_BYTES_DEFAULT, MEMORY_BYTES_MIN } from '../limits.ts';
import { requireNames } from '../base/arguments.ts';
import { NodeFileSystem } from '../storage/node-file.ts';
import type { LayoutChange } from './rebuild-layout.ts';
import {
  forget,
  rebuildSteps,
  undo,
  type RebuildProgress,
  type RebuildReport,
  type RebuildSettings,
  type UndoReport,
} from './rebuild.ts';

export type { CollectionChange, LayoutChange, LayoutPlan, TreeChange } from './rebuild-layout.ts';
export type { RebuildProgress, RebuildReport, UndoReport } from './rebuild.ts';

/** Options of a rebuild. Everything may be left out. */
export interface RebuildOptions {
  /**
   * Memory for both files together: bytes, or a text with a unit. Default 32 MiB; at
   * least 4 MiB, and 512 pages. */
  readonly memory?: number | string;
  /** Whether the old file stays at `<path>-before`; default true. Without it there is no undo. */
  readonly keepOld?: boolean;
  /** Called after every few hundred entries. */
  readonly onProgress?: (progress: RebuildProgress) => void;
}

/** Options of a rebuild in slices. */
export interface RebuildAsyncOptions extends RebuildOptions {
  /** Cancels: the path keeps the old file, and the next rebuild goes on from here. */
  readonly signal?: AbortSignal;
}

const OPTION_NAMES = ['memory', 'keepOld', 'onProgress', 'signal'];
/** Milliseconds of a slice. */
const SLICE_MS = 20;

function settingsOf(path: string, layout: LayoutChange, options: RebuildOptions): RebuildSettings {
  requireNames('rebuild', options, OPTION_NAMES);
  if (typeof path !== 'string' || path === '' || path === ':memory:') {
    throw failure('usage.argument', 'path is a text, the name of a database file');
  }
  const { memory, keepOld = true, onProgress = () => undefined } = options;
  const memoryBytes = memory === undefined ? MEMORY_BYTES_DEFAULT : parseSize('memory', memory);
  if (memoryBytes < 2 * MEMORY_BYTES_MIN) {
    const least = 2 * MEMORY_BYTES_MIN;
    throw failure('usage.argument', `memory: ${memoryBytes} bytes is below ${least} for two files`);
  }
  if (typeof keepOld !== 'boolean' || typeof onProgress !== 'function') {
    throw failure('usage.argument', 'keepOld is true or false, onProgress a function');
  }
  const fs = new NodeFileSystem();
  return { fs, path: fs.resolve(path), change: layout, memoryBytes, keepOld, onProgress };
}

/**
 * Rebuilds a database file in another layout: a new file beside it, compared entry by entry, then
 * put in its place. No other process or handle may have it open for writing. What the layout does
 * not name stays as it is. The old file is kept at `<path>-before`.
 *
 * @throws {UsageError} usage.layout, usage.argument
 * @throws {StorageError} storage.locked while the file is open; storage.full when the new file
 * does not fit the disk. The old file is in place then, untouched.
 * @example
 * rebuild('shop.mono', { pageSize: '16 KiB', index: { order: 32 } });
 */
export function rebuild(
  path: string,
  layout: LayoutChange,
  options: RebuildOptions = {},
): RebuildReport {
  return runSteps(rebuildSteps(settingsOf(path, layout, options)));
}

/**
 * As `rebuild`, in slices between which other work is done.
 *
 * @throws {LimitError} limit.cancelled; the next call with the same layout goes on from there.
 */
export async function rebuildAsync(
  path: string,
  layout: LayoutChange,
  options: RebuildAsyncOptions = {},
): Promise<RebuildReport> {
  const steps: Steps<RebuildReport> = rebuildSteps(settingsOf(path, layout, options));
  try {
    for (;;) {
      if (options.signal?.aborted === true) {
        throw failure('limit.cancelled', `the rebuild of ${path} was cancelled; it is as it was`);
      }
      const until = performance.now() + SLICE_MS;
      do {
        const step = steps.next();
        if (step.done === true) return step.value;
      } while (performance.now() < until);
      await new Promise((resolve) => setImmediate(resolve));
    }
  } finally {
    steps.return(undefined as unknown as RebuildReport); // closes both files when cancelled
  }
}

/** Options of an undo. */
export interface UndoOptions {
  /** Undoes though commits to the rebuilt file are left behind; default false. */
  readonly force?: boolean;
}

/**
 * Puts the file that the last rebuild kept back in its place; the rebuilt one moves to
 * `<path>-undone`.
 *
 * @throws {UsageError} usage.argument when the rebuilt file was written since, or nothing is kept.
 */
export function undoRebuild(path: string, options: UndoOptions = {}): UndoReport {
  requireNames('undoRebuild', options, ['force']);
  const fs = new NodeFileSystem();
  return undo(fs, fs.resolve(path), options.force ?? false, MEMORY_BYTES_MIN * 2);
}

/** Removes the files that rebuilds of a path have kept; returns their paths. */
export function forgetRebuild(path: string): string[] {
  const fs = new NodeFileSystem();
  return forget(fs, fs.resolve(path));
}
