/**
 * What must change in a file so that it holds what is declared, and changing it, in one
 * transaction.
 *
 *   added optional field, field with a default, index    applied
 *   index of the same name over other fields             made anew
 *   field that only the file has                         kept if it may be null
 *   changed type, key or required field                  refused, or migrated where a hook is given
 */
import { failure } from '../errors.ts';
import {
  defineCollection,
  partName,
  type CollectionDefinition,
  type FieldDefinition,
  type IndexDefinition,
  type KeyPart,
  type SchemaChange,
} from '../model/schema.ts';
import { nameHint } from '../base/nearest.ts';
import { TRANSACTION } from '../model/source.ts';
import type { RecordFields } from '../model/record.ts';
import type { Declaration } from './declaration.ts';
import type { ObjectScope } from './scope.ts';

/** The changes that a declaration asks for; `migrate` when the records must be made anew. */
export interface Drift {
  readonly changes: readonly SchemaChange[];
  readonly migrate: boolean;
}

const NONE: Drift = Object.freeze({ changes: [], migrate: false });

/**
 * Compares a declaration with what the scope's view holds.
 *
 * @throws {SchemaError} schema.mismatch when records would have to change and no hook is given.
 */
export function driftOf(declared: Declaration, scope: ObjectScope): Drift {
  const { definition } = declared;
  const existing = scope.definition(definition.name);
  if (existing === undefined) {
    const create: SchemaChange = { change: 'createCollection', definition };
    return { changes: [create, ...declared.indexes.map(indexChange)], migrate: false };
  }
  if (existing.form !== 'record')
    throw mismatch(definition.name, `it is a ${existing.form} in the file`, {});
  if (isAsDeclared(declared, existing, scope)) return NONE;
  requireLayout(declared, existing);
  const fault = faultOf(declared, existing, scope);
  if (fault !== undefined) {
    if (declared.migrate === undefined) throw fault;
    return { changes: [], migrate: true };
  }
  const changes = [...fieldChanges(definition, existing), ...indexChanges(declared, scope)];
  return changes.length === 0 ? NONE : { changes, migrate: false };
}

/** Whether file and declaration say the same in the same words, as they mostly do. */
function isAsDeclared(
  { definition, indexes }: Declaration,
  existing: CollectionDefinition,
  scope: ObjectScope,
): boolean {
  return (
    textOf(existing) === textOf(definition) &&
    textOf(scope.indexes(definition.name)) === textOf(indexes)
  );
}

/** A definition as text, without default values, which may be of any kind. */
function textOf(definition: unknown): string {
  return JSON.stringify(definition, (name, part) => (name === 'initial' ? undefined : part));
}

/** Brings the file to the declaration in the open transaction. */
export function applyDrift(declared: Declaration, scope: ObjectScope, drift: Drift): void {
  if (drift.migrate) migrateRecords(declared, scope);
  for (const change of drift.changes) scope.changeSchema(change);
}

function indexChange(definition: IndexDefinition): SchemaChange {
  return { change: 'createIndex', definition };
}

function mismatch(name: string, what: string, detail: Readonly<Record<string, unknown>>): Error {
  return failure('schema.mismatch', `collection ${name}: ${what}`, {
    detail: { collection: name, ...detail },
    hint: 'Declare it as the file has it, or give `migrate`, which makes new records of old ones.',
  });
}

function requireLayout(declared: Declaration, existing: CollectionDefinition): void {
  for (const [setting, asked] of Object.entries(declared.namedLayout)) {
    const has = existing.layout[setting as keyof typeof existing.layout];
    if (asked === undefined || asked === has) continue;
    const what = `layout ${setting} is ${has} in the file, not ${asked}`;
    throw failure('usage.layout', `collection ${existing.name}: ${what}`, {
      detail: { collection: existing.name, setting, inFile: has, askedFor: asked },
    });
  }
}

/** Why records of the file are none of the declaration; `undefined` if they are. */
function faultOf(
  declared: Declaration,
  existing: CollectionDefinition,
  scope: ObjectScope,
): Error | undefined {
  const { definition } = declared;
  const { name } = definition;
  if (keyText(existing) !== keyText(definition)) {
    const what = `its key is ${keyText(existing)} in the file, not ${keyText(definition)}`;
    return mismatch(name, what, { inFile: keyText(existing), askedFor: keyText(definition) });
  }
  if (existing.open !== definition.open) {
    const say = (open: boolean): string => (open ? 'open' : 'closed');
    return mismatch(name, `it is ${say(existing.open)} in the file`, {
      inFile: say(existing.open),
      askedFor: say(definition.open),
    });
  }
  for (const field of definition.fields) {
    const fault = fieldFault(definition, field, liveField(existing, field.name), scope);
    if (fault !== undefined) return fault;
  }
  for (const field of existing.fields) {
    if (field.dropped === true || liveField(definition, field.name) !== undefined) continue;
    if (field.optional || field.initial !== undefined) continue;
    const near = nameHint(
      field.name,
      definition.fields.map((each) => each.name),
    );
    const what = `the file has the field "${field.name}", which must have a value`;
    return mismatch(name, near === undefined ? what : `${what}. ${near}`, { field: field.name });
  }
  return undefined;
}

function fieldFault(
  definition: CollectionDefinition,
  field: FieldDefinition,
  old: FieldDefinition | undefined,
  scope: ObjectScope,
): Error | undefined {
  const type = typeText(field);
  if (old === undefined) {
    const isFilled = field.optional || field.initial !== undefined || field.type === 'any';
    if (isFilled || scope.collection(definition.name).count(scope.view) === 0) return undefined;
    const what = `the new field "${field.name}" must have a value, which old records lack`;
    return mismatch(definition.name, what, { field: field.name, askedFor: type });
  }
  if (typeText(old) === type) return undefined;
  const what = `field "${field.name}" is ${typeText(old)} in the file, not ${type}`;
  return mismatch(definition.name, what, {
    field: field.name,
    inFile: typeText(old),
    askedFor: type,
  });
}

function liveField(definition: CollectionDefinition, name: string): FieldDefinition | undefined {
  return definition.fields.find((field) => field.name === name && field.dropped !== true);
}

function typeText(field: FieldDefinition): string {
  return field.optional ? `${field.type}?` : field.type;
}

function keyText({ key }: CollectionDefinition): string {
  if (key.kind === 'generated') return 'generated';
  return key.kind === 'integer' ? key.field : partsText(key.parts);
}

function partsText(parts: readonly KeyPart[]): string {
  return parts
    .map((part) =>
      [
        partName(part),
        part.descending ? ' descending' : '',
        part.collation === 'binary' ? '' : ` ${part.collation}`,
      ].join(''),
    )
    .join(', ');
}

function fieldChanges(
  definition: CollectionDefinition,
  existing: CollectionDefinition,
): SchemaChange[] {
  return definition.fields
    .filter((field) => liveField(existing, field.name) === undefined)
    .map((field) => ({ change: 'addField', collection: definition.name, field }));
}

function indexChanges(declared: Declaration, scope: ObjectScope): SchemaChange[] {
  const collection = declared.definition.name;
  const existing = scope.indexes(collection);
  return declared.indexes.flatMap((index): SchemaChange[] => {
    const old = existing.find((each) => each.name === index.name);
    if (old === undefined) return [indexChange(index)];
    const isSame =
      partsText(old.parts) === partsText(index.parts) &&
      old.unique === index.unique &&
      old.nulls === index.nulls;
    if (isSame) return [];
    return [{ change: 'dropIndex', collection, index: index.name }, indexChange(index)];
  });
}

/** Copies every record through the hook into a new collection, which takes the old one's place. */
function migrateRecords(declared: Declaration, scope: ObjectScope): void {
  const { definition, indexes } = declared;
  const { name } = definition;
  const next = defineCollection({
    ...definition,
    name: `${name} (migrating)`,
    key: keyInput(definition),
  });
  scope.changeSchema({ change: 'createCollection', definition: next });
  const source = scope.collection(name);
  const target = scope.collection(next.name);
  const cursor = scope.source.scan({ collection: name, fields: [], ids: true, view: TRANSACTION });
  try {
    for (let batch = cursor.next(); batch !== undefined; batch = cursor.next()) {
      for (let row = 0; row < batch.count; row++) {
        const old = source.get(batch.ids[row]!, TRANSACTION)!;
        target.insert(migrated(declared, old));
      }
    }
  } finally {
    cursor.close();
  }
  scope.changeSchema({ change: 'dropCollection', collection: name });
  scope.changeSchema({ change: 'renameCollection', collection: next.name, to: name });
  for (const index of indexes) scope.changeSchema(indexChange(index));
}

function migrated(declared: Declaration, old: RecordFields): RecordFields {
  const record = declared.migrate!(old);
  if (typeof record === 'object' && record !== null) return record;
  throw failure('usage.argument', `migrate: of ${declared.definition.name} answered no record`);
}

/** The key as `defineCollection` takes it; declared collections always name theirs. */
function keyInput({ key }: CollectionDefinition): string | readonly KeyPart[] {
  if (key.kind === 'fields') return key.parts;
  return key.kind === 'integer' ? key.field : 'id';
}
