/** A store as the header of a trace describes it. Line 6 of the strata. */
import * as path from 'node:path';
import type { Database } from '../database.ts';
import { partName, type CollectionDefinition } from '../model/schema.ts';
import { LATEST, TRANSACTION } from '../model/source.ts';
import { idText } from '../rebuild/rebuild-marker.ts';
import type { TracedCollection, TraceHeader } from './trace-format.ts';

export function headerOf(database: Database): Omit<TraceHeader, 'trace' | 'values' | 'keyCheck'> {
  const { storage } = database;
  return {
    file: path.basename(database.path),
    fileId: idText(storage.header.fileId),
    commit: storage.commitId,
    collections: tracedCollections(database),
  };
}

/** Every collection of a store as its newest commit, or the open transaction, has it. */
export function tracedCollections(database: Database): TracedCollection[] {
  const { catalog, transaction } = database.store;
  const view = transaction.isOpen ? TRANSACTION : LATEST;
  return catalog.collections(view).map(({ structure, definition }) => ({
    ...shapeOf(definition),
    indexes: catalog.indexes(structure, view).map(({ definition: index }) => ({
      name: index.name,
      parts: index.parts.map((part) => ({
        field: partName(part),
        descending: part.descending,
        collation: part.collation,
      })),
      unique: index.unique,
      nulls: index.nulls,
    })),
    count:
      definition.form === 'bucket'
        ? database.bucket(definition.name).count(view)
        : database.points(definition.name).count(view),
  }));
}

function shapeOf(definition: CollectionDefinition): Omit<TracedCollection, 'indexes' | 'count'> {
  const { name, form, fields, key, open } = definition;
  const live = fields.filter((field) => field.dropped !== true);
  return {
    name,
    form,
    fields: Object.fromEntries(
      live.map(({ name: field, type, optional }) => [field, optional ? `${type}?` : type]),
    ),
    key:
      key.kind === 'fields' ? key.parts.map(partName) : key.kind === 'integer' ? [key.field] : [],
    open,
    generated: key.kind === 'generated',
  };
}
