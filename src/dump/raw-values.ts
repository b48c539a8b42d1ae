/**
 * Raw bytes of other stores as keys and values of a bucket or collection, and back: bytes as they
 * are, texts as UTF-8, integers as the record numbers of other stores.
 */
import type { CollectionDefinition, FieldDefinition, RecordFields, Value } from '../index.ts';
import { failure, failureAt, type Place } from './failures.ts';
import type { Pair } from './section.ts';
import { requireText, utf8Of } from './utf8.ts';

/** What raw bytes, the caller's own, become in a field. */
export type FromRaw = (bytes: Uint8Array, place: Place) => Value;

export interface RawConversion {
  readonly key: FromRaw;
  readonly value: FromRaw;
  /** Makes the entry or record of the two. */
  readonly entry: (key: Value, value: Value) => Pair | RecordFields;
}

/** How raw pairs go into a bucket, or into a collection with the fields `key` and `value`. */
export function rawConversion(target: CollectionDefinition): RawConversion {
  const { key, value } = keyAndValue(target);
  const isBucket = target.form === 'bucket';
  return {
    key: fromRaw(target, key),
    value: fromRaw(target, value),
    entry: isBucket ? (k, v) => [k, v] : (k, v) => ({ key: k, value: v }),
  };
}

function keyAndValue(target: CollectionDefinition): {
  key: FieldDefinition;
  value: FieldDefinition;
} {
  const [key, value, ...others] = target.fields.filter((each) => each.dropped !== true);
  if (key?.name === 'key' && value?.name === 'value' && others.length === 0) return { key, value };
  throw failure(
    'usage.argument',
    `${target.name} has other fields than key and value, and the format has no others`,
    { detail: { collection: target.name }, hint: 'Use the format "monochord", "jsonl" or "csv".' },
  );
}

function fromRaw(target: CollectionDefinition, field: FieldDefinition): FromRaw {
  switch (field.type) {
    case 'bytes':
    case 'any':
      return (bytes) => bytes;
    case 'text':
      return (bytes, place) => requireText(bytes, place);
    case 'int':
      return recordNumber;
    default:
      throw noRaw(target, field);
  }
}

function noRaw(target: CollectionDefinition, field: FieldDefinition): Error {
  const what = `${target.name}: ${field.name} is ${field.type}, and the format has bytes only`;
  return failure('usage.argument', what, {
    detail: { collection: target.name, field: field.name, type: field.type },
    hint: 'Keys and values of kind bytes or text can be had so, and integer keys as numbers.',
  });
}

/** A record number: decimal digits. */
function recordNumber(bytes: Uint8Array, place: Place): Value {
  const text = String.fromCharCode(...bytes.subarray(0, 24));
  if (/^[0-9]{1,15}$/.test(text)) return Number(text);
  throw failureAt('syntax.unexpected', place, `${JSON.stringify(text)} is no record number`);
}

export interface ToRaw {
  readonly isNumbered: boolean;
  /** Whether keys may have several values. */
  readonly isSet: boolean;
  readonly key: (record: RecordFields) => Uint8Array;
  readonly value: (record: RecordFields) => Uint8Array;
}

/** How records `{ key, value }` become raw pairs. */
export function toRaw(source: CollectionDefinition): ToRaw {
  const { key, value } = keyAndValue(source);
  if (key.type !== 'int') for (const field of [key, value]) fromRaw(source, field);
  const isSet = source.form === 'record' && source.key.kind === 'fields';
  return {
    isNumbered: key.type === 'int',
    isSet: isSet && source.key.kind === 'fields' && source.key.parts.length > 1,
    key: (record) => rawOf(source, key, record['key']!),
    value: (record) => rawOf(source, value, record['value']!),
  };
}

function rawOf(source: CollectionDefinition, field: FieldDefinition, value: Value): Uint8Array {
  if (value instanceof Uint8Array) return value;
  if (typeof value === 'string') return utf8Of(value);
  if (typeof value === 'number' && value > 0) return utf8Of(String(value));
  const what = `${source.name}: a ${field.name} is ${String(value)}, and the format has bytes only`;
  throw failure('value.type', what, { detail: { collection: source.name, field: field.name } });
}
