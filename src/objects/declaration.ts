/**
 * What a caller declares of a collection, completed and checked: the definition that a new
 * collection is made with, its indexes, and what is done to records before they are written.
 * `drift.ts` compares it with what a file holds.
 */
import { requireNames } from '../base/arguments.ts';
import { nameHint } from '../base/nearest.ts';
import { failure } from '../errors.ts';
import type { RecordFields } from '../model/record.ts';
import {
  defineCollection,
  defineField,
  DEFAULT_LAYOUT,
  defineIndex,
  fieldOf,
  requireName,
  type CollectionDefinition,
  type FieldDefinition,
  type IndexDefinition,
  type KeyPartInput,
  type NullPolicy,
  type TreeLayout,
} from '../model/schema.ts';
import { columnOf, isPlainObject } from './conditions.ts';
import type { Value } from '../model/value.ts';
import type { FieldsInput, FieldTypes, KeyInput, StandardSchema } from './types.ts';

/**
 * One part of an index: a field or path, or one that differs from ascending and binary. A part that
 * is declared as a list, and one written with `[]`, stands for its elements: a record is found by
 * each of them.
 */
export type IndexPart<P extends string = string> =
  | P
  | `${P}[]`
  | {
      readonly field: P;
      readonly descending?: boolean;
      readonly collation?: string;
      /** Whether the elements of a list are indexed, or lists as a whole; default: elements. */
      readonly elements?: boolean;
    };

/** An index: a field, fields, or with what differs from the default. */
export type IndexSetting<P extends string = string> =
  | IndexPart<P>
  | readonly IndexPart<P>[]
  | {
      readonly parts: readonly IndexPart<P>[];
      readonly name?: string;
      /** What null means: default `'distinct'`, null equals nothing. */
      readonly nulls?: NullPolicy;
      readonly layout?: Partial<TreeLayout>;
    };

/** How a collection is declared. */
export interface CollectionSettings<
  F extends FieldsInput = FieldsInput,
  K extends KeyInput = KeyInput,
  U extends readonly IndexSetting[] = readonly IndexSetting[],
  D = Readonly<Record<string, unknown>>,
> {
  /** Types of fields, `'?'` behind those that may be null; or a Standard Schema. */
  readonly fields: F;
  /** The field or fields that identify a record; without it records get an `id`. */
  readonly key?: K;
  /** Indexes that allow each key once. */
  readonly unique?: U;
  readonly index?: readonly IndexSetting[];
  /** Values of fields that a new record leaves out, or functions that make them. */
  readonly defaults?: D;
  /** Whether records may have fields that are not declared; default false. */
  readonly open?: boolean;
  /** Layout of a new collection. */
  readonly layout?: Partial<TreeLayout>;
  /** Makes a record of today's declaration from one that the file has. */
  readonly migrate?: (old: RecordFields) => RecordFields;
}

const SETTINGS = [
  'fields',
  'key',
  'unique',
  'index',
  'defaults',
  'open',
  'layout',
  'migrate',
] as const;

/** A declaration, checked. */
export interface Declaration {
  readonly definition: CollectionDefinition;
  readonly indexes: readonly IndexDefinition[];
  /** What a field gets that a new record leaves out, beyond the definition's own initial values. */
  readonly defaults: readonly (readonly [string, Value | (() => Value)])[];
  readonly validator: StandardSchema | undefined;
  readonly migrate: ((old: RecordFields) => RecordFields) | undefined;
  /** The layout settings that the caller named. */
  readonly namedLayout: Partial<TreeLayout>;
}

/**
 * Completes and checks a declaration.
 *
 * @throws {UsageError} usage.argument for unknown settings, naming the nearest.
 * @throws {SchemaError} schema.unknown_field for keys and indexes of fields that are not there.
 */
export function declare(
  name: string,
  settings: CollectionSettings,
  layoutDefaults: TreeLayout,
): Declaration {
  requireName('collection', name);
  requireNames(`collection ${name}`, settings, SETTINGS, 'setting');
  requireKinds(name, settings);
  const validator = validatorOf(settings.fields);
  const defaults = Object.entries(settings.defaults ?? {}) as [string, Value | (() => Value)][];
  const fields = fieldsOf(name, settings, validator, Object.fromEntries(defaults));
  const key = settings.key ?? 'id';
  const definition = defineCollection({
    name,
    fields,
    key: key,
    open: settings.open ?? validator !== undefined,
    layout: { ...layoutDefaults, ...settings.layout },
  });
  for (const [field] of defaults) requireField(definition, field);
  const unique = (settings.unique ?? []).map((each) =>
    indexOf(definition, each, true, layoutDefaults),
  );
  const plain = (settings.index ?? []).map((each) =>
    indexOf(definition, each, false, layoutDefaults),
  );
  return {
    definition,
    indexes: distinctNames(name, [...unique, ...plain]),
    defaults,
    validator,
    migrate: settings.migrate,
    namedLayout: settings.layout ?? {},
  };
}

/** The declaration that a collection of the file was made with, as far as the file tells. */
export function declarationOf(
  name: string,
  definition: CollectionDefinition | undefined,
  indexes: readonly IndexDefinition[],
): Declaration {
  if (definition === undefined)
    throw failure('schema.unknown_collection', `there is no collection "${name}"`);
  if (definition.form === 'bucket')
    throw failure('usage.argument', `"${name}" is a bucket: take its handle with kv`);
  if (definition.key.kind === 'generated')
    throw failure('usage.argument', `"${name}" has keys that no field holds`);
  return {
    definition: { ...definition, fields: definition.fields.filter((each) => !each.dropped) },
    indexes,
    defaults: [],
    validator: undefined,
    migrate: undefined,
    namedLayout: {},
  };
}

/** Refuses settings of another kind than they have. */
function requireKinds(name: string, settings: CollectionSettings): void {
  const { key, unique, index, defaults, open, layout, migrate } = settings;
  const isKey = key === undefined || typeof key === 'string' || Array.isArray(key);
  const isObject = (value: unknown): boolean => value === undefined || isPlainObject(value);
  const kinds: readonly (readonly [string, boolean, string])[] = [
    ['key', isKey, 'a field or a list of fields'],
    ['unique', unique === undefined || Array.isArray(unique), 'a list of indexes'],
    ['index', index === undefined || Array.isArray(index), 'a list of indexes'],
    ['defaults', isObject(defaults), 'an object of values by field'],
    ['open', open === undefined || typeof open === 'boolean', 'true or false'],
    ['layout', isObject(layout), 'an object of layout settings'],
    ['migrate', migrate === undefined || typeof migrate === 'function', 'a function'],
  ];
  for (const [setting, isRight, kind] of kinds) {
    if (isRight) continue;
    throw failure('usage.argument', `${setting}: of collection ${name} is ${kind}`, {
      detail: { setting },
    });
  }
  const layoutNames = Object.keys(DEFAULT_LAYOUT);
  requireNames(`collection ${name}, layout`, layout ?? {}, layoutNames, 'setting');
}

function requireField(definition: CollectionDefinition, name: string): void {
  const names = definition.fields.map((field) => field.name);
  if (names.includes(name)) return;
  const hint = nameHint(name, names);
  throw failure('schema.unknown_field', `${definition.name} declares no field "${name}"`, {
    detail: { field: name },
    ...(hint !== undefined && { hint }),
  });
}

function validatorOf(fields: FieldsInput): StandardSchema | undefined {
  const standard: unknown = (fields as Partial<StandardSchema> | undefined)?.['~standard'];
  if (typeof standard !== 'object' || standard === null) return undefined;
  return fields as StandardSchema;
}

/** The fields of the definition; under a validator, those that keys and indexes name. */
function fieldsOf(
  collection: string,
  settings: CollectionSettings,
  validator: StandardSchema | undefined,
  defaults: Readonly<Record<string, Value | (() => Value)>>,
): FieldDefinition[] {
  const { key } = settings;
  const types = validator === undefined ? (settings.fields as FieldTypes) : anyFields(settings);
  if (!isPlainObject(types)) {
    throw failure('usage.argument', `fields: of collection ${collection} is not an object`, {
      hint: "Write names and types, { id: 'int', name: 'text' }, or pass a Standard Schema.",
    });
  }
  const fields = Object.entries(types).map(([name, type]) => {
    const initial = Object.hasOwn(defaults, name) ? defaults[name] : undefined;
    return defineField(name, String(type), typeof initial === 'function' ? undefined : initial);
  });
  if (key !== undefined || fields.some((field) => field.name === 'id')) {
    const id = fields.find((field) => field.name === 'id');
    if (key === undefined && id!.type !== 'int' && validator === undefined) {
      throw failure('usage.argument', `collection ${collection} says no key`, {
        hint: "Say which field identifies a record: { key: 'id' }.",
      });
    }
    return fields;
  }
  return [defineField('id', 'int'), ...fields];
}

function anyFields(settings: CollectionSettings): FieldTypes {
  const names = new Set<string>(Object.keys(settings.defaults ?? {}));
  const { key, unique = [], index = [] } = settings;
  for (const name of typeof key === 'string' ? [key] : (key ?? [])) names.add(name);
  for (const setting of [...unique, ...index])
    for (const part of partsOf(setting)) names.add(pathOf(bareText(partText(part)))[0]!);
  return Object.fromEntries([...names].map((name) => [name, 'any?']));
}

function partsOf(setting: IndexSetting): readonly IndexPart[] {
  const isOne = typeof setting === 'string' || Array.isArray(setting);
  const parts = isOne || !isPlainObject(setting) || !('parts' in setting) ? setting : setting.parts;
  return Array.isArray(parts) ? (parts as readonly IndexPart[]) : [parts as IndexPart];
}

function partText(part: IndexPart): string {
  const text: unknown = typeof part === 'string' ? part : part?.field;
  if (typeof text === 'string') return text;
  throw failure('usage.argument', 'an index names a field, a path or a list of them');
}

/** The text of a part without the sign of elements. */
function bareText(text: string): string {
  return text.endsWith('[]') ? text.slice(0, -2) : text;
}

/** A path as the names it goes through; a field whose name has a dot goes before a path. */
export function pathOf(text: string, fields: readonly FieldDefinition[] = []): readonly string[] {
  if (!text.includes('.') || fields.some((field) => field.name === text)) return [text];
  return text.split('.');
}

function indexOf(
  definition: CollectionDefinition,
  setting: IndexSetting,
  unique: boolean,
  layoutDefaults: TreeLayout,
): IndexDefinition {
  const extra =
    isPlainObject(setting) && 'parts' in setting
      ? (setting as Exclude<IndexSetting, IndexPart | readonly IndexPart[]>)
      : undefined;
  if (extra !== undefined)
    requireNames(`collection ${definition.name}, index`, extra, INDEX_SETTINGS, 'setting');
  const parts = partsOf(setting).map((part): KeyPartInput => indexPart(definition, part));
  return defineIndex(definition, {
    parts,
    unique,
    ...(extra?.name !== undefined && { name: extra.name }),
    ...(extra?.nulls !== undefined && { nulls: extra.nulls }),
    layout: { ...layoutDefaults, ...extra?.layout },
  });
}

const INDEX_SETTINGS = ['parts', 'name', 'nulls', 'layout'];
const PART_SETTINGS = ['field', 'descending', 'collation', 'elements'];

function indexPart(definition: CollectionDefinition, part: IndexPart): KeyPartInput {
  if (typeof part === 'object') {
    const where = `collection ${definition.name}, index part`;
    requireNames(where, part ?? {}, PART_SETTINGS, 'setting');
  }
  const whole = partText(part);
  const text = fieldOf(definition, whole) === undefined ? bareText(whole) : whole;
  const [field, ...path] = pathOf(text, definition.fields);
  const plain: Partial<Exclude<IndexPart, string>> = typeof part === 'string' ? {} : part;
  const isList = path.length === 0 && fieldOf(definition, field!)?.type === 'list';
  for (const setting of ['descending', 'elements'] as const) {
    if (['undefined', 'boolean'].includes(typeof plain[setting])) continue;
    throw failure('usage.argument', `${setting}: of index part ${text} is true or false`);
  }
  if (path.length > 0) columnOf(definition, text);
  const elements = plain.elements ?? (text !== whole || isList);
  return { ...plain, field: field!, ...(path.length > 0 && { path }), elements };
}

function distinctNames(
  collection: string,
  indexes: readonly IndexDefinition[],
): readonly IndexDefinition[] {
  const names = new Set<string>();
  for (const { name } of indexes) {
    if (names.has(name)) {
      throw failure('schema.exists', `collection ${collection} declares index "${name}" twice`);
    }
    names.add(name);
  }
  return indexes;
}
