/**
 * Reading everything a collection or bucket holds, with exact kinds, and changing the schema from
 * whole definitions: what dumps and copies need beyond the handles. Line 6, part of `database.ts`.
 */
import { requireNames } from './base/arguments.ts';
import { nameHint } from './base/nearest.ts';
import { failure } from './errors.ts';
import { exactRecord, readExactValue } from './model/exact-value.ts';
import type { RecordFields } from './model/record.ts';
import {
  defineCollection,
  defineIndex,
  unknownName,
  type CollectionDefinition,
  type SchemaChange,
} from './model/schema.ts';
import type { SourceView } from './model/source.ts';
import type { ObjectScope } from './objects/scope.ts';
import { Cursor } from './storage/btree-cursor.ts';
import { Bucket } from './store/bucket.ts';
import type { Collection } from './store/collection.ts';
import type { Store } from './store/store.ts';

/** What reading needs of a scope. */
type ReadScope = Pick<ObjectScope, 'check' | 'mayRepeat' | 'view'>;

/** Iterates records, or the entries of a bucket as `{ key, value }`, in the order of their keys. */
export function* exactRecords(
  store: Store,
  scope: ReadScope,
  name: string,
): Generator<RecordFields, void, undefined> {
  const { view } = scope;
  const target = store.schema(view).require(name, view);
  const read = target instanceof Bucket ? entryReader(target) : recordReader(target);
  const cursor = new Cursor(target.tree, view);
  try {
    for (let found = cursor.first(); found;) {
      yield read(cursor);
      scope.check();
      found = cursor.next();
    }
  } catch (cause) {
    scope.mayRepeat(cause); // throws if the writer of another process moved on
    throw cause;
  } finally {
    cursor.close();
  }
}

function entryReader(bucket: Bucket): (at: Cursor) => RecordFields {
  const { type, optional } = bucket.definition.fields[1]!;
  const isPlain = (type === 'text' || type === 'bytes') && !optional;
  return (at) => {
    const [key] = bucket.keys.toValues(at.key, 0, at.keyLength);
    if (isPlain) return { key: key!, value: bucket.valueOf(at) };
    const bytes = at.valueCopy();
    return { key: key!, value: readExactValue(bytes, 0, bytes.length) };
  };
}

function recordReader(collection: Collection): (at: Cursor) => RecordFields {
  const { codec, keys } = collection;
  const reader = codec.reader();
  return (at) => {
    const id = keys.toId(at.key, 0, at.keyLength);
    const bytes = at.valueCopy();
    reader.open(bytes, 0, bytes.length, id instanceof Uint8Array ? 0 : id);
    return exactRecord(codec, reader);
  };
}

/** The number of records or entries. */
export function recordCount(store: Store, name: string, view: SourceView): number {
  return store.schema(view).require(name, view).tree.count(view);
}

/** What each change says, and of which type. */
const CHANGE_PARTS: {
  readonly [C in SchemaChange['change']]: Readonly<Record<string, 'string' | 'object'>>;
} = {
  createCollection: { definition: 'object' },
  dropCollection: { collection: 'string' },
  renameCollection: { collection: 'string', to: 'string' },
  addField: { collection: 'string', field: 'object' },
  dropField: { collection: 'string', field: 'string' },
  createIndex: { definition: 'object' },
  dropIndex: { collection: 'string', index: 'string' },
};

/** A change of the schema with its definition completed and checked. */
export function checkedChange(change: SchemaChange, scope: ObjectScope): SchemaChange {
  requireChange(change);
  switch (change.change) {
    case 'createCollection':
      return { ...change, definition: checkedCollection(change.definition, scope) };
    case 'createIndex': {
      const { collection } = change.definition;
      const existing = scope.definition(collection);
      if (existing === undefined)
        throw unknownName('schema.unknown_collection', 'collection', collection, []);
      return { ...change, definition: defineIndex(existing, change.definition) };
    }
    default:
      return change;
  }
}

/** Refuses changes that there are not, and parts of them that are missing or of another kind. */
function requireChange(given: unknown): void {
  const change = (given as Partial<SchemaChange> | null | undefined)?.change;
  const parts = CHANGE_PARTS[change as SchemaChange['change']] as
    Record<string, string> | undefined;
  if (parts === undefined) {
    const hint = nameHint(String(change), Object.keys(CHANGE_PARTS));
    throw failure('usage.argument', `${String(change)} is not a change of the schema`, {
      ...(hint !== undefined && { hint }),
    });
  }
  requireNames(change!, given as object, ['change', ...Object.keys(parts)]);
  for (const [name, kind] of Object.entries(parts)) {
    const part = (given as Record<string, unknown>)[name];
    if (typeof part === kind && part !== null) continue;
    const what = kind === 'string' ? 'a text' : 'an object';
    throw failure('usage.argument', `${name} of ${change!} is ${what}`);
  }
}

function checkedCollection(
  definition: CollectionDefinition,
  scope: ObjectScope,
): CollectionDefinition {
  const { form, fields, key } = definition;
  if (key.kind === 'generated') {
    throw failure('usage.argument', `the key of ${definition.name} names no field`);
  }
  const isBucket = form === 'bucket';
  if (isBucket && fields.map((field) => field.name).join() !== 'key,value') {
    throw failure('usage.argument', `the bucket ${definition.name} has the fields key and value`);
  }
  return defineCollection({
    ...definition,
    key: key.kind === 'fields' ? key.parts : key.field,
    layout: { ...scope.layoutDefaults, ...definition.layout },
  });
}
