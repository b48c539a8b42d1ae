/**
 * Fields from texts and from JSON, by the type that the schema gives them, and back. The types are
 * known: nothing is guessed from what a value looks like.
 *
 *   type          CSV                               JSON
 *   bool          true, false                       true, false
 *   int           digits, 64 bits                   digits
 *   float         digits, NaN, Infinity             number; JSON has no NaN
 *   number        int if it has digits only         number
 *   text          the text                          text
 *   bytes         base64                            base64 in a text
 *   temporal      ISO 8601                          ISO 8601 in a text
 *   point         JSON                              {"srid": …, "x": …, "y": …, "z": …}
 *   list, map,    JSON                              as it is
 *   json, any
 */
import { nearestName } from '../base/nearest.ts';
import {
  type FieldDefinition,
  type FieldType,
  Float,
  Point,
  type RecordFields,
  type Value,
} from '../index.ts';
import { failure, failureAt, located, type Place } from './failures.ts';
import { parseJson, setOwn, type JsonOptions } from './json.ts';
import {
  parseDate,
  parseDateTime,
  parseDuration,
  parseLocalDateTime,
  parseTime,
  parseZonedTime,
} from './temporal-text.ts';
import { base64Of, bytesOfBase64, extendedText, jsonText, revive } from './value-text.ts';

/** Types that JSON has only as texts, and how those are read. */
const BY_TEXT: Partial<Record<FieldType, (text: string) => Value | undefined>> = {
  bytes: bytesOfBase64,
  date: parseDate,
  time: parseTime,
  zonedtime: parseZonedTime,
  localdatetime: parseLocalDateTime,
  datetime: parseDateTime,
  duration: parseDuration,
};

function wrong(field: FieldDefinition, place: Place, shown: string): Error {
  const text = shown.length > 60 ? `${shown.slice(0, 59)}…` : shown;
  return failureAt('value.type', place, `${field.name} takes ${field.type}, not ${text}`, {
    detail: { field: field.name, type: field.type },
  });
}

function missing(field: FieldDefinition, place: Place): Error {
  return failureAt('constraint.required', place, `${field.name} must have a value`, {
    detail: { field: field.name },
  });
}

/** Runs what reads a text; a range that is passed is an error at the place. */
function read<T>(place: Place, run: () => T): T {
  try {
    return run();
  } catch (cause) {
    throw located(cause, place);
  }
}

// From JSON.

/** The value of a field from JSON; `undefined` is absent. */
export function fromJson(
  field: FieldDefinition,
  value: Value | undefined,
  place: Place,
): Value | undefined {
  if (value === undefined || value === null) {
    const isFilled = value === undefined && field.initial !== undefined;
    if (!field.optional && field.type !== 'any' && !isFilled) throw missing(field, place);
    return value;
  }
  const byText = BY_TEXT[field.type];
  if (byText !== undefined && typeof value === 'string') {
    const found = read(place, () => byText(value));
    if (found === undefined) throw wrong(field, place, JSON.stringify(value));
    return found;
  }
  if (field.type === 'point') return pointOf(field, value, place);
  if (!isOfType(field.type, value)) throw wrong(field, place, jsonText(value, extendedText));
  return value;
}

function isOfType(type: FieldType, value: Value): boolean {
  switch (type) {
    case 'any':
    case 'json':
      return true;
    case 'bool':
      return typeof value === 'boolean';
    case 'int':
      return typeof value === 'bigint' || (typeof value === 'number' && Number.isInteger(value));
    case 'float':
      return typeof value === 'number' || value instanceof Float || isExact(value);
    case 'number':
      return typeof value === 'number' || typeof value === 'bigint' || value instanceof Float;
    case 'text':
      return typeof value === 'string';
    case 'list':
      return Array.isArray(value);
    case 'map':
      return typeof value === 'object' && !Array.isArray(value) && !(value instanceof Float);
    default:
      return typeof value === 'object'; // extended forms: the database looks at their kind
  }
}

/** Whether a float holds an integer exactly. */
function isExact(value: Value): boolean {
  return typeof value === 'bigint' && BigInt(Number(value)) === value;
}

function pointOf(field: FieldDefinition, value: Value, place: Place): Value {
  if (value instanceof Point) return value;
  const { srid, x, y, z, ...rest } = value as Record<string, Value>;
  const numbers = [srid, x, y, ...(z === undefined ? [] : [z])].map((each) =>
    each instanceof Float ? each.value : each,
  );
  if (numbers.some((each) => typeof each !== 'number') || Object.keys(rest).length > 0)
    throw wrong(field, place, jsonText(value, extendedText));
  const [a, b, c, d] = numbers as number[];
  return read(place, () => new Point(a!, b!, c!, d));
}

/** A record of a collection from an object of JSON. */
export function recordFromJson(
  fields: readonly FieldDefinition[],
  isOpen: boolean,
  idField: string | undefined,
  value: Value,
  place: Place,
): RecordFields {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || value instanceof Float)
    throw failureAt('value.type', place, 'a record is an object of JSON');
  const given = value as RecordFields;
  const record: RecordFields = {};
  for (const field of fields) {
    const own = Object.hasOwn(given, field.name) ? given[field.name] : undefined;
    if (own === undefined && field.name === idField) continue; // the collection gives one
    const taken = fromJson(field, own, place);
    if (taken !== undefined) setOwn(record, field.name, taken);
  }
  for (const name of Object.keys(given)) {
    if (fields.some((field) => field.name === name)) continue;
    if (!isOpen) throw unknownField(name, fields, place);
    setOwn(record, name, given[name]!);
  }
  return record;
}

export function unknownField(
  name: string,
  fields: readonly FieldDefinition[],
  place: Place,
): Error {
  const names = fields.map((field) => field.name);
  const near = nearestName(name, names);
  return failureAt('schema.unknown_field', place, `there is no field ${JSON.stringify(name)}`, {
    detail: { field: name },
    hint: near === undefined ? `The fields are ${names.join(', ')}.` : `Did you mean "${near}"?`,
  });
}

// From CSV.

const FLOAT = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;
const INTEGER = /^[+-]?\d+$/;
const FLOAT_WORDS: Readonly<Record<string, number>> = { NaN, Infinity, '-Infinity': -Infinity };

/** The value of a field from a text that is not null. */
export function fromText(field: FieldDefinition, text: string, place: Place): Value {
  const { type } = field;
  const byText = BY_TEXT[type];
  if (byText !== undefined) {
    const found = read(place, () => byText(text));
    if (found === undefined) throw wrong(field, place, JSON.stringify(text));
    return found;
  }
  switch (type) {
    case 'text':
      return text;
    case 'bool':
      if (text !== 'true' && text !== 'false') throw wrong(field, place, JSON.stringify(text));
      return text === 'true';
    case 'int':
      return integerOf(field, text, place);
    case 'number':
      return INTEGER.test(text) ? integerOf(field, text, place) : floatOf(field, text, place);
    case 'float':
      return floatOf(field, text, place);
    default:
      return fromJson(field, parseJson(text, place), place)!;
  }
}

function integerOf(field: FieldDefinition, text: string, place: Place): Value {
  if (!INTEGER.test(text)) throw wrong(field, place, JSON.stringify(text));
  const near = Number(text);
  if (Number.isSafeInteger(near)) return near === 0 ? 0 : near;
  const exact = BigInt(text.startsWith('+') ? text.slice(1) : text);
  if (BigInt.asIntN(64, exact) === exact) return exact;
  throw failureAt('value.out_of_range', place, `${text} is beyond integers of 64 bits`);
}

function floatOf(field: FieldDefinition, text: string, place: Place): Value {
  if (Object.hasOwn(FLOAT_WORDS, text)) return FLOAT_WORDS[text]!;
  if (!FLOAT.test(text)) throw wrong(field, place, JSON.stringify(text));
  const value = Number(text);
  if (Number.isFinite(value)) return new Float(value);
  throw failureAt('value.out_of_range', place, `${text} is beyond what a float holds`);
}

/** A null, or an empty text where a text is required. */
export function nullOf(field: FieldDefinition, text: string, place: Place): Value | undefined {
  if (field.optional || field.type === 'any') return null;
  if (field.type === 'text' && text === '') return '';
  if (field.initial !== undefined) return undefined;
  throw missing(field, place);
}

// To JSON and CSV.

/** What `fromJson` reads again; `extended` uses the forms of the own dump where JSON has none. */
export function toJson(
  field: FieldDefinition | undefined,
  value: Value,
  extended: boolean,
): string {
  if (value instanceof Point && field?.type === 'point' && !extended) {
    const { srid, x, y, z } = value;
    const parts = Object.entries({ srid, x, y, z }).filter(([, each]) => each !== undefined);
    return jsonText(Object.fromEntries(parts) as Value, refuseOther(field));
  }
  if (typeof value === 'object' && value !== null && !extended) {
    if (field !== undefined && BY_TEXT[field.type] !== undefined)
      return JSON.stringify(textOf(value));
  }
  const shown = typedFloat(field, value);
  return jsonText(shown, extended ? extendedText : refuseOther(field));
}

/** A field of kind float has floats, also where the number was read as an integer. */
export function typedFloat(field: FieldDefinition | undefined, value: Value): Value {
  return field?.type === 'float' && typeof value === 'number' ? new Float(value) : value;
}

function textOf(value: Value): string {
  return value instanceof Uint8Array ? base64Of(value) : String(value);
}

function refuseOther(field: FieldDefinition | undefined): (value: Value) => string {
  return (value) => {
    const name = field?.name ?? 'an undeclared field';
    const kind = value instanceof Uint8Array ? 'bytes' : String((value as object).constructor.name);
    throw failure('value.type', `${name} has a value that JSON does not have: ${kind}`, {
      detail: { field: name },
      hint: 'Dump with `extended`, or in the format "monochord".',
    });
  };
}

/** What `fromText` reads again; `undefined` for null. */
export function toText(field: FieldDefinition, value: Value): string | undefined {
  if (value === null) return undefined;
  if (typeof value === 'string' && field.type === 'text') return value;
  if (BY_TEXT[field.type] !== undefined) return textOf(value);
  if (field.type === 'float' || field.type === 'number') {
    const number = value instanceof Float ? value.value : value;
    if (typeof number === 'number' && !Number.isFinite(number)) return String(number);
  }
  return toJson(field, value, false);
}

export function extendedJson(options: JsonOptions, extended: boolean): JsonOptions {
  return extended ? { ...options, revive } : options;
}
