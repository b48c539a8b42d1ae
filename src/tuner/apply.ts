/**
 * Applying a layout: the command, the options of `open`, and the change that `rebuild` takes.
 * Line 7 of the strata.
 */
import { runSteps } from '../base/steps.ts';
import { Database } from '../database.ts';
import { failure } from '../errors.ts';
import { defineIndex, fieldOf, type CollectionDefinition } from '../model/schema.ts';
import { LATEST } from '../model/source.ts';
import { rebuild, type LayoutChange, type RebuildOptions } from '../rebuild/index.ts';
import { schemaChange } from '../store/schema-changes.ts';
import type { IndexChanges, TrialLayout } from './workload.ts';

/** The part of a layout that `rebuild` takes. */
export function changeOf(layout: TrialLayout): LayoutChange {
  const { indexes: _indexes, memory: _memory, ...change } = layout;
  return change;
}

/** Rebuilds a file in a layout, then makes and drops the indexes that it names. */
export function applyLayout(file: string, layout: TrialLayout, options: RebuildOptions): void {
  rebuild(file, changeOf(layout), options);
  if (layout.indexes !== undefined) changeIndexes(file, layout.indexes);
}

/** Makes and drops indexes, all in one transaction. */
export function changeIndexes(file: string, { add = [], drop = [] }: IndexChanges): void {
  const database = new Database(file, {});
  try {
    const { store } = database;
    database.transaction(() => {
      for (const { collection, index } of drop) {
        runSteps(schemaChange(store, { change: 'dropIndex', collection, index }));
      }
      for (const { collection, parts } of add) {
        const found = store.schema(LATEST).find(collection, LATEST)?.definition;
        if (found === undefined) {
          throw failure('schema.unknown_collection', `there is no collection ${collection}`);
        }
        const definition = defineIndex(found, {
          parts: parts.map((part) => partOf(found, part)),
          layout: found.layout,
        });
        runSteps(schemaChange(store, { change: 'createIndex', definition }));
      }
    });
  } finally {
    database.close();
  }
}

function partOf(
  definition: CollectionDefinition,
  name: string,
): { field: string; path?: readonly string[] } {
  if (fieldOf(definition, name) !== undefined) return { field: name };
  const [field, ...path] = name.split('.');
  return path.length === 0 ? { field: field! } : { field: field!, path };
}

/** The command that brings a file to a layout; `report`: the one that recommends it. */
export function commandOf(file: string, layout: TrialLayout, report?: string): string {
  const { pageSize, extentSize, clusterSize, index, collections, indexes } = layout;
  const quoted = (name: string): string => (/^[\w./-]+$/.test(name) ? name : `'${name}'`);
  if (collections !== undefined || indexes !== undefined) {
    return `monochord tune ${quoted(file)} --apply ${quoted(report ?? 'out/report.json')}`;
  }
  const size = (value: number | string): string => String(value).replace(/\s+/g, '');
  const flags = [
    pageSize === undefined ? '' : `--page-size ${size(pageSize)}`,
    extentSize === undefined ? '' : `--extent-size ${size(extentSize)}`,
    clusterSize === undefined ? '' : `--cluster-size ${size(clusterSize)}`,
    index?.tree === undefined ? '' : `--tree ${index.tree}`,
    index?.order === undefined ? '' : `--order ${index.order}`,
  ].filter((flag) => flag !== '');
  return ['monochord rebuild', quoted(file), ...flags].join(' ');
}

/** The command that takes back what was applied. */
export function undoCommandOf(file: string, layout: TrialLayout): string {
  // Indexes are made after the rebuild, in a commit that the undo leaves behind.
  return `monochord rebuild ${file} --undo${layout.indexes === undefined ? '' : ' --force'}`;
}

/** Whether a layout changes the file, rather than how it is opened. */
export function changesFile(layout: TrialLayout): boolean {
  return layout.indexes !== undefined || Object.keys(changeOf(layout)).length > 0;
}

/** The call that makes a new file in a layout. */
export function openCallOf(file: string, layout: TrialLayout): string {
  const { indexes: _indexes, collections: _collections, ...own } = layout;
  const options = JSON.stringify(own)
    .replace(/"(\w+)":/g, ' $1: ')
    .replace(/"/g, "'")
    .replace(/}/g, ' }');
  return `open('${file}', ${options})`;
}
