/**
 * Bytes that a decoded record takes in the JavaScript heap: an upper bound by the formulas measured
 * in FEASIBILITY section 8 (Node 20 on 64-bit machines, no pointer compression).
 *
 *   object     24 + 8 × properties       texts     16 + length to 8 (two bytes a unit beyond latin)
 *   array      32 + 16 + 8 × elements    number    16 unless a small integer
 *   bigint     24                        others    96
 */
import type { Value } from '../model/value.ts';

const SMALL_INT_MAX = 2 ** 31 - 1;

function padded(bytes: number): number {
  return Math.ceil(bytes / 8) * 8;
}

/** Bytes of one value, a reference to it not counted. */
export function valueBytes(value: Value): number {
  switch (typeof value) {
    case 'string':
      // eslint-disable-next-line no-control-regex
      return 16 + padded(/^[\u0000-\u00ff]*$/.test(value) ? value.length : value.length * 2);
    case 'number':
      return Number.isInteger(value) && Math.abs(value) <= SMALL_INT_MAX ? 0 : 16;
    case 'bigint':
      return 24;
    case 'boolean':
      return 0;
    default:
      return objectBytes(value);
  }
}

function objectBytes(value: Exclude<Value, string | number | bigint | boolean>): number {
  if (value === null) return 0;
  if (value instanceof Uint8Array) return 200 + padded(value.length);
  if (Array.isArray(value))
    return value.reduce(
      (sum: number, each: Value) => sum + valueBytes(each),
      48 + 8 * value.length,
    );
  if (Object.getPrototypeOf(value) === Object.prototype)
    return recordBytes(value as { readonly [name: string]: Value });
  return 96;
}

/** Bytes of a record's object with its values. */
export function recordBytes(record: { readonly [name: string]: Value | undefined }): number {
  let bytes = 24;
  for (const name in record) {
    const value = record[name];
    bytes += 8 + (value === undefined ? 0 : valueBytes(value));
  }
  return bytes;
}
