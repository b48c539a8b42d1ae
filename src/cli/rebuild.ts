/** `monochord rebuild`: another layout, its undo, and letting the kept file go. Line 9. */
import * as fs from 'node:fs';
import { failure } from '../errors.ts';
import {
  forgetRebuild,
  rebuildAsync,
  undoRebuild,
  type CollectionChange,
  type LayoutChange,
} from '../rebuild/index.ts';
import { bytesText, interruptSignal, print, Progress, type CommonOptions } from './output.ts';
import { requireFile } from './open-file.ts';

export interface RebuildFlags extends CommonOptions {
  readonly pageSize?: string;
  readonly extentSize?: string;
  readonly clusterSize?: string;
  readonly tree?: 'b+tree' | 'b-tree';
  readonly order?: string;
  readonly collection?: string;
  readonly index?: string;
  readonly layout?: string;
  readonly memory?: string;
  readonly keep: boolean;
  readonly undo?: boolean;
  readonly force?: boolean;
  readonly forget?: boolean;
}

export async function rebuildCommand(path: string, flags: RebuildFlags): Promise<void> {
  requireFile(path);
  if (flags.forget === true) {
    const removed = forgetRebuild(path);
    const text = removed.length === 0 ? 'nothing was kept' : `removed ${removed.join(', ')}`;
    return print(flags, { path, removed }, () => text);
  }
  if (flags.undo === true) {
    const report = undoRebuild(path, { force: flags.force === true });
    return print(flags, report, () => {
      return `${path} is the file from before its rebuild; the rebuilt one is ${report.undonePath}`;
    });
  }
  const progress = new Progress();
  try {
    const report = await rebuildAsync(path, changeOf(flags), {
      keepOld: flags.keep,
      signal: interruptSignal(),
      ...(flags.memory !== undefined && { memory: flags.memory }),
      onProgress: ({ phase, tree, entries, entriesTotal }) => {
        const share = ((entries / Math.max(1, entriesTotal)) * 100).toFixed(0);
        progress.show(`${phase} ${tree}: ${entries} of ${entriesTotal} entries, ${share} %`);
      },
    });
    progress.end();
    print(flags, report, () => {
      const { entries, bytesBefore, bytesAfter, keptPath, isResumed } = report;
      const lines = [
        `${path} rebuilt${isResumed ? ', going on from an interrupted rebuild' : ''}: ` +
          `${entries} entries copied and compared, ` +
          `${bytesText(bytesBefore)} → ${bytesText(bytesAfter)}`,
        ...(keptPath === undefined
          ? []
          : [
              `the old file is ${keptPath}; back to it: monochord rebuild ${path} --undo, ` +
                'let it go: --forget',
            ]),
      ];
      return lines.join('\n');
    });
  } finally {
    progress.end();
  }
}

/** The layout that flags and a file of JSON say. */
function changeOf(flags: RebuildFlags): LayoutChange {
  const { pageSize, extentSize, clusterSize, collection, index } = flags;
  if (flags.layout !== undefined) return readLayout(flags.layout);
  const tree = {
    ...(flags.tree !== undefined && { tree: flags.tree }),
    ...(flags.order !== undefined && { order: Number(flags.order) }),
  };
  const file = {
    ...(pageSize !== undefined && { pageSize: spaced(pageSize) }),
    ...(extentSize !== undefined && { extentSize: spaced(extentSize) }),
  };
  const cluster = clusterSize === undefined ? {} : { clusterSize: spaced(clusterSize) };
  if (collection === undefined) {
    if (index !== undefined) throw failure('usage.argument', '--index needs --collection');
    return { ...file, ...cluster, ...(Object.keys(tree).length > 0 && { index: tree }) };
  }
  const own: CollectionChange =
    index === undefined ? { ...tree, ...cluster } : { ...cluster, indexes: { [index]: tree } };
  return { ...file, collections: { [collection]: own } };
}

/** Sizes may be written without the space: `16KiB`; a bare number is bytes. */
function spaced(size: string): string | number {
  return /^\d+$/.test(size) ? Number(size) : size;
}

function readLayout(file: string): LayoutChange {
  try {
    return JSON.parse(fs.readFileSync(file, 'utf8')) as LayoutChange;
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw failure('usage.argument', `--layout ${file} cannot be read: ${why}`);
  }
}
