/**
 * Which source files are in which chunk of the built package (docs/decisions/0003-chunks.md).
 *
 * What importing the package needs is in `main`, which is everything not named here: names to
 * construct, to test for and to call. Of the rest, what a kind of program needs together is
 * together, so that no stub lies between what is called for each record. A function that only one
 * chunk uses goes to it from any main file.
 */
const PLAN = {
  /** Files, logs, pages, trees and the store: loaded by the first `open`. */
  core: ['model/key', 'model/value-codec', 'storage/', 'store/'],
  /** Commits, checkpoints and recovery, and changing trees and the schema. */
  write: [
    'base/key-order',
    'storage/btree-edit',
    'storage/btree-range',
    'storage/btree-sequence',
    'storage/btree-split',
    'storage/btree-workbench',
    'storage/btree-write',
    'storage/checkpoint',
    'storage/commit',
    'storage/log-format',
    'storage/log-reader',
    'storage/recovery',
    'storage/write-batch',
    'storage/write-buffer',
    'storage/write-runs',
    'store/schema-changes',
  ],
  /** Large values and the tails of long keys. */
  large: ['storage/overflow', 'storage/overflow-clusters'],
  /** Cursors, and keys of several parts. */
  scan: ['model/key-parts', 'storage/btree-cursor', 'store/bucket-cursor', 'store/key-ranges'],
  /** Collections: objects, questions, records, indexes. */
  objects: [
    'model/batch',
    'model/record',
    'model/record-program',
    'objects/',
    'query/',
    'store/batch-cursors',
    'store/collection',
    'store/collection-access',
    'store/collection-index',
    'store/collection-state',
    'store/constraints',
    'store/embedded-source',
    'store/entry-index',
    'store/part-sources',
    'store/posting',
    'store/posting-index',
    'store/row-fields',
    'store/statistics',
    'store/work-space',
  ],
  /** Sorts that may be larger than memory. */
  sort: ['model/sort-arena', 'model/sort-merge', 'model/sorter'],
  /** Loading many records, and building trees bottom-up. */
  load: [
    'bulk-run',
    'model/bulk',
    'storage/bulk',
    'storage/bulk-arena',
    'store/bulk-load',
    'store/index-build',
    'store/work-plan',
  ],
  /** Traces of what a program asks. */
  record: ['recording/'],
  /** Dumps, for the command line; a program has `dump.cjs`. */
  dumps: ['dump/'],
  /** Long operations over a whole file, and databases in memory. */
  rest: [
    'exact-records',
    'maintenance',
    'rebuild/',
    'slices',
    'storage/backup',
    'storage/btree-check',
    'storage/check',
    'storage/compact',
    'storage/memory-file',
    'store/check',
  ],
};

/** Chunks that a chunk loads before it is run: their names are constants in it. */
export const NEEDS = {
  large: ['core'],
  load: ['core'],
  objects: ['core', 'scan'],
  rest: ['core'],
  scan: ['core'],
  sort: ['core'],
  write: ['core'],
};

const chunks = new Map();
const folders = [];
for (const [chunk, list] of Object.entries(PLAN)) {
  for (const each of list) {
    if (each.endsWith('/')) folders.push([`src/${each}`, chunk]);
    else chunks.set(`src/${each}.ts`, chunk);
  }
}

/** The chunk of a source file, as the bundler names it: relative to the package. */
export function chunkOf(file) {
  return chunks.get(file) ?? folders.find(([folder]) => file.startsWith(folder))?.[1] ?? 'main';
}

/** Names of the chunks beside `main`. */
export const CHUNKS = Object.keys(PLAN).sort();

/** Files and folders that the plan names, without `src/`. */
export const FILES = Object.values(PLAN).flat();
