/**
 * Schemas: what a collection, its fields and its indexes are, as frozen plain data.
 *
 * Definitions are values themselves (maps of texts, numbers and lists), so the catalog stores them
 * by the value encoding and they can be logged or sent. `defineCollection` and `defineIndex` take
 * what a front end has, complete it, and refuse with a typed error what cannot be; whoever holds a
 * definition need not check it again. The numbers of fields are their positions: fields are only
 * ever added at the end, and a dropped one stays as a gap, so old records still decode.
 */
import { utf8Length } from '../base/bytes.ts';
import { nameHint } from '../base/nearest.ts';
import { failure, type ErrorCode } from '../errors.ts';
import { FIELDS_MAX, KEY_PARTS_MAX, NAME_BYTES_MAX } from '../limits.ts';
import { KIND, kindOf, numberOf, type KindName, type Value, type ValueMap } from './value.ts';

/** The types of declared fields: a kind; int or float; or anything (`json` is a name for that). */
export const FIELD_TYPES = [
  'bool',
  'int',
  'float',
  'number',
  'text',
  'bytes',
  'date',
  'time',
  'zonedtime',
  'localdatetime',
  'datetime',
  'duration',
  'point',
  'list',
  'map',
  'json',
  'any',
] as const;
export type FieldType = (typeof FIELD_TYPES)[number];

export interface FieldDefinition {
  readonly name: string;
  readonly type: FieldType;
  /** Whether null stands in for a missing value. */
  readonly optional: boolean;
  /** What a record that does not give the field has there; records written before it, too. */
  readonly initial?: Value;
  /** A field that was dropped: its place stays, its name is free. */
  readonly dropped?: boolean;
}

/** One part of a key: a field, or a path into the map that a field holds. */
export interface KeyPart {
  readonly field: string;
  readonly path?: readonly string[];
  /**
   * Whether the part stands for the elements of the list that is there: a record has a key for each
   * different element, and none without elements. Of one part of an index at most.
   */
  readonly elements?: boolean;
  readonly descending: boolean;
  readonly collation: string;
}

/** How one tree is laid out in pages; fixed in the file. */
export interface TreeLayout {
  readonly tree: 'b+tree' | 'b-tree';
  /** Most children of a node; 0 for as many as fit its page. */
  readonly order: number;
  /** Bytes that the tails of large values are allocated by; 0 for the default. */
  readonly clusterSize: number;
}

/** What identifies a record. */
export type RecordKey =
  /** An integer that the collection gives. */
  | { readonly kind: 'generated' }
  /** The integer in a field, which is the record id; one that is missing is generated. */
  | { readonly kind: 'integer'; readonly field: string }
  /** The encoded key of fields: the collection is organised by it. */
  | { readonly kind: 'fields'; readonly parts: readonly KeyPart[] };

/** A condition on records by name; whoever opens the database turns its text into a function. */
export interface CheckDefinition {
  readonly name: string;
  readonly text: string;
}

export interface CollectionDefinition {
  readonly name: string;
  /** A bucket has the fields `key` and `value`, and stores the value without a record around it. */
  readonly form: 'record' | 'bucket';
  readonly fields: readonly FieldDefinition[];
  /** Whether records may have fields that are not declared. */
  readonly open: boolean;
  readonly key: RecordKey;
  readonly checks: readonly CheckDefinition[];
  readonly layout: TreeLayout;
}

/** What null means in an index: not equal to itself, equal to itself, or a reason to leave out. */
export type NullPolicy = 'distinct' | 'equal' | 'skip';

export interface IndexDefinition {
  readonly name: string;
  readonly collection: string;
  readonly parts: readonly KeyPart[];
  readonly unique: boolean;
  /** Under `skip` a record with a null in any part has no entry. */
  readonly nulls: NullPolicy;
  readonly layout: TreeLayout;
}

/** A change of the schema, as data. */
export type SchemaChange =
  | { readonly change: 'createCollection'; readonly definition: CollectionDefinition }
  | { readonly change: 'dropCollection'; readonly collection: string }
  | { readonly change: 'renameCollection'; readonly collection: string; readonly to: string }
  | { readonly change: 'addField'; readonly collection: string; readonly field: FieldDefinition }
  | { readonly change: 'dropField'; readonly collection: string; readonly field: string }
  | { readonly change: 'createIndex'; readonly definition: IndexDefinition }
  | { readonly change: 'dropIndex'; readonly collection: string; readonly index: string };

export const DEFAULT_LAYOUT: TreeLayout = Object.freeze({
  tree: 'b+tree',
  order: 0,
  clusterSize: 0,
});

/** A key part as a front end may write it: `name`, or an object with what differs. */
export type KeyPartInput = string | (Partial<KeyPart> & { readonly field: string });

export interface CollectionInput {
  readonly name: string;
  readonly form?: 'record' | 'bucket';
  /** Types by name (`'int'`, `'text?'`), or definitions in order. */
  readonly fields?: Readonly<Record<string, string>> | readonly FieldDefinition[];
  readonly open?: boolean;
  /** Fields that identify a record; a single `int` field is the record id. */
  readonly key?: string | readonly KeyPartInput[];
  readonly checks?: readonly CheckDefinition[];
  readonly layout?: Partial<TreeLayout>;
}

export interface IndexInput {
  readonly name?: string;
  readonly parts: readonly KeyPartInput[];
  readonly unique?: boolean;
  readonly nulls?: NullPolicy;
  readonly layout?: Partial<TreeLayout>;
}

/** Refuses an empty or overlong name. */
export function requireName(what: string, name: unknown): asserts name is string {
  if (typeof name !== 'string' || name.length === 0)
    throw failure('usage.argument', `the name of a ${what} is a text that is not empty`);
  if (utf8Length(name) > NAME_BYTES_MAX)
    throw failure('value.size', `the name of a ${what} is longer than ${NAME_BYTES_MAX} bytes`);
}

/** The error of a name that is not known, with the nearest one that is. */
export function unknownName(
  code: ErrorCode,
  what: string,
  name: string,
  known: Iterable<string>,
): Error {
  const hint = nameHint(name, known);
  return failure(code, `there is no ${what} "${name}"`, {
    detail: { name },
    ...(hint !== undefined && { hint }),
  });
}

/** Completes and checks the definition of a collection. */
export function defineCollection(input: CollectionInput): CollectionDefinition {
  requireName('collection', input.name);
  const fields = defineFields(input.fields ?? []);
  const open = input.open ?? fields.length === 0;
  const shape = { fields, open };
  return deepFreeze({
    name: input.name,
    form: input.form ?? 'record',
    fields,
    open,
    key: defineKey(input.key, shape),
    checks: (input.checks ?? []).map((check) => ({ name: check.name, text: check.text })),
    layout: defineLayout(input.layout),
  });
}

/** The definition of a key-value bucket: a key and a value of one type each. */
export function defineBucket(
  name: string,
  keys: FieldType,
  values: FieldType,
  layout?: Partial<TreeLayout>,
): CollectionDefinition {
  return defineCollection({
    name,
    form: 'bucket',
    fields: { key: keys, value: values },
    key: 'key',
    ...(layout !== undefined && { layout }),
  });
}

/** Completes and checks the definition of an index of a collection. */
export function defineIndex(collection: CollectionDefinition, input: IndexInput): IndexDefinition {
  const parts = defineParts(input.parts, collection);
  if (parts.filter((part) => part.elements === true).length > 1)
    throw failure('usage.argument', 'an index is over the elements of one list, not of several');
  const name = input.name ?? parts.map(partName).join(', ');
  requireName('index', name);
  const nulls = input.nulls ?? 'distinct';
  requireOneOf('nulls', nulls, ['distinct', 'equal', 'skip']);
  return deepFreeze({
    name,
    collection: collection.name,
    parts,
    unique: input.unique ?? false,
    nulls,
    layout: defineLayout(input.layout),
  });
}

function defineFields(
  input: Readonly<Record<string, string>> | readonly FieldDefinition[],
): readonly FieldDefinition[] {
  const fields = Array.isArray(input)
    ? (input as readonly FieldDefinition[]).map(checkedField)
    : Object.entries(input).map(([name, type]) => defineField(name, type as string));
  if (fields.length > FIELDS_MAX) {
    throw failure('value.size', `${fields.length} fields are above the limit ${FIELDS_MAX}`);
  }
  const names = new Set<string>();
  for (const field of fields) {
    if (field.dropped === true) continue;
    if (names.has(field.name)) throw failure('schema.exists', `two fields "${field.name}"`);
    names.add(field.name);
  }
  return fields;
}

/** The definition of a field whose type is written as text: `int`, `datetime?`. */
export function defineField(name: string, type: string, initial?: Value): FieldDefinition {
  if (typeof type !== 'string')
    throw failure('usage.argument', `the type of ${name} is a text such as 'int' or 'text?'`);
  const optional = type.endsWith('?');
  const bare = (optional ? type.slice(0, -1) : type) as FieldType;
  return checkedField({ name, type: bare, optional, ...(initial !== undefined && { initial }) });
}

function checkedField(field: FieldDefinition): FieldDefinition {
  requireName('field', field.name);
  if (!FIELD_TYPES.includes(field.type)) {
    const hint = nameHint(String(field.type), FIELD_TYPES);
    throw failure('usage.argument', `"${field.type}" of ${field.name} is not a type of fields`, {
      ...(hint !== undefined && { hint }),
    });
  }
  if (field.initial !== undefined && field.initial !== null) accept(field, field.initial);
  return Object.freeze({ ...field, optional: field.optional === true });
}

interface Shape {
  readonly fields: readonly FieldDefinition[];
  readonly open: boolean;
}

function defineKey(key: CollectionInput['key'], shape: Shape): RecordKey {
  if (key === undefined) return { kind: 'generated' };
  const parts = defineParts(typeof key === 'string' ? [key] : key, shape);
  const elements = parts.find((part) => part.elements === true);
  if (elements !== undefined)
    throw failure('usage.argument', `${partName(elements)}: a record has one key, not several`);
  const only = parts.length === 1 ? fieldOf(shape, parts[0]!.field) : undefined;
  if (only?.type === 'int' && parts[0]!.path === undefined && !parts[0]!.descending)
    return { kind: 'integer', field: only.name };
  return { kind: 'fields', parts };
}

function defineParts(input: readonly KeyPartInput[], shape: Shape): readonly KeyPart[] {
  if (input.length === 0 || input.length > KEY_PARTS_MAX)
    throw failure('usage.argument', `a key has 1 to ${KEY_PARTS_MAX} parts, not ${input.length}`);
  return input.map((each) => {
    const part: Partial<KeyPart> & { field: string } =
      typeof each === 'string' ? { field: each } : each;
    requireName('field', part.field);
    if (!shape.open && fieldOf(shape, part.field) === undefined) {
      const names = shape.fields.map((field) => field.name);
      throw unknownName('schema.unknown_field', 'field', part.field, names);
    }
    if (part.elements === true) requireList(part, fieldOf(shape, part.field));
    return {
      field: part.field,
      ...(part.path !== undefined && part.path.length > 0 && { path: [...part.path] }),
      ...(part.elements === true && { elements: true }),
      descending: part.descending ?? false,
      collation: part.collation ?? 'binary',
    };
  });
}

/** Refuses elements of what never is a list. */
function requireList(part: Partial<KeyPart>, field: FieldDefinition | undefined): void {
  const type = field?.type ?? 'any';
  const isInMap = part.path !== undefined && part.path.length > 0;
  if (['any', 'json', isInMap ? 'map' : 'list'].includes(type)) return;
  throw failure('usage.argument', `${field!.name} is ${type}, which has no elements to index`, {
    detail: { field: field!.name, type },
  });
}

function defineLayout(input: Partial<TreeLayout> = {}): TreeLayout {
  const layout = { ...DEFAULT_LAYOUT, ...input };
  requireOneOf('tree', layout.tree, ['b+tree', 'b-tree']);
  if (!Number.isInteger(layout.order) || (layout.order !== 0 && layout.order < 3))
    throw failure('usage.layout', `order is 0 or at least 3, not ${String(layout.order)}`);
  const { clusterSize } = layout;
  const powerOfTwo = Number.isInteger(clusterSize) && (clusterSize & (clusterSize - 1)) === 0;
  if (!powerOfTwo || (clusterSize !== 0 && clusterSize < 256))
    throw failure('usage.layout', `clusterSize is a power of two from 256 on, not ${clusterSize}`);
  return layout;
}

function requireOneOf(what: string, value: string, allowed: readonly string[]): void {
  if (allowed.includes(value)) return;
  throw failure('usage.argument', `${what} is one of ${allowed.join(', ')}, not "${value}"`);
}

/** The declared field of a name, `undefined` if there is none. */
export function fieldOf(shape: Shape, name: string): FieldDefinition | undefined {
  return shape.fields.find((field) => field.name === name && field.dropped !== true);
}

/** The field or path that a key part reads. */
export function partField({ field, path }: KeyPart): string {
  return path === undefined ? field : [field, ...path].join('.');
}

/** A key part as messages name it. */
export function partName(part: KeyPart): string {
  const name = partField(part);
  return part.elements === true ? `${name}[]` : name;
}

export function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return value;
  if (!Object.isFrozen(value)) {
    Object.freeze(value);
    Object.values(value).forEach(deepFreeze);
  }
  return value;
}

/**
 * The value as a field of that type keeps it; throws if it is of another kind. Null is not asked
 * about here.
 *
 * @throws {ValueError} value.type naming the field, both kinds and the value.
 */
export function accept(field: FieldDefinition, value: Value): Value {
  const kind = kindOf(value);
  const { type } = field;
  if (type === 'any' || type === 'json') return value;
  if (type === 'number' && (kind === KIND.int || kind === KIND.float)) return value;
  if (type === 'float' && kind === KIND.int) return toFloat(field, value);
  if (type === 'int' && kind === KIND.float && Object.is(value, -0)) return 0;
  if (kind === KIND[type as KindName]) return value;
  const shown = describeValue(value);
  throw failure('value.type', `${field.name} takes ${type}, not ${shown}`, {
    detail: { field: field.name, type, value },
  });
}

function toFloat(field: FieldDefinition, value: Value): number {
  const exact = numberOf(value);
  const near = Number(exact);
  if (typeof exact === 'number' || BigInt(near) === exact) return near;
  throw failure('value.out_of_range', `${field.name} takes float, which cannot hold ${exact}`, {
    detail: { field: field.name, value },
  });
}

/** A value as messages show it, cut short. */
export function describeValue(value: unknown): string {
  const text =
    typeof value === 'string'
      ? JSON.stringify(value)
      : value instanceof Uint8Array
        ? `${value.length} bytes`
        : Array.isArray(value)
          ? `a list of ${value.length}`
          : typeof value === 'object' && value !== null && !('toJSON' in value)
            ? 'a map'
            : String(value);
  return text.length > 80 ? `${text.slice(0, 79)}…` : text;
}

/** The error of a required field without a value. */
export function missingField(collection: string, field: string): Error {
  return failure('constraint.required', `${collection}.${field} must have a value`, {
    detail: { collection, field },
  });
}

/** A definition as the catalog stores it. */
export function definitionToValue(definition: CollectionDefinition | IndexDefinition): ValueMap {
  return definition as unknown as ValueMap;
}

/** A collection's definition from the catalog. */
export function collectionFromValue(value: Value): CollectionDefinition {
  return deepFreeze(value as unknown as CollectionDefinition);
}

/** An index's definition from the catalog. */
export function indexFromValue(value: Value): IndexDefinition {
  return deepFreeze(value as unknown as IndexDefinition);
}
