/**
 * What a value is: its kinds, their representation in JavaScript, and the one total order, the one
 * equality and the one hash that indexes, sorts, joins and grouping share (DESIGN section 2).
 *
 *   kind            number  in JavaScript
 *   null                 0  null
 *   bool                 1  boolean
 *   int                  2  number; bigint beyond ±(2^53 − 1); `int(x)` where a caller insists
 *   float                3  number; `float(x)` where a caller insists on a float that is whole
 *   decimal              4  reserved
 *   text                 5  string without lone surrogates
 *   bytes                6  Uint8Array
 *   date                 7  LocalDate
 *   time                 8  LocalTime
 *   zonedtime            9  ZonedTime
 *   localdatetime       10  LocalDateTime
 *   datetime            11  ZonedDateTime; a Date is accepted
 *   duration            12  Duration
 *   point               13  Point
 *   uuid                14  reserved
 *   list                15  array
 *   map                 16  plain object, or Map with text keys
 *   node … path      17–19  results only
 *
 * The numbers are in files and batches for ever, and give the order between kinds; int, float and
 * decimal are one kind to the order. Within a kind: false before true; numbers by exact value, −0
 * equal to 0, 1 equal to 1.0, NaN equal to itself and last; text by UTF-8 bytes; instants before
 * their offsets and zones; durations by their average length, then months, days; lists element by
 * element, a prefix first; maps as lists of (name, value) in the order of their names.
 */
import { compareBytes, compareText } from '../base/bytes.ts';
import { failure } from '../errors.ts';
import { VALUE_DEPTH_MAX } from '../limits.ts';
import {
  Duration,
  LocalDate,
  LocalDateTime,
  LocalTime,
  NANOSECONDS_PER_SECOND,
  Point,
  toInteger,
  ZonedDateTime,
  ZonedTime,
  type Integer,
} from './temporal.ts';

/** The numbers of the kinds; they never change. */
export const KIND = {
  null: 0,
  bool: 1,
  int: 2,
  float: 3,
  decimal: 4,
  text: 5,
  bytes: 6,
  date: 7,
  time: 8,
  zonedtime: 9,
  localdatetime: 10,
  datetime: 11,
  duration: 12,
  point: 13,
  uuid: 14,
  list: 15,
  map: 16,
  node: 17,
  relationship: 18,
  path: 19,
} as const;
export type KindName = keyof typeof KIND;
export type Kind = (typeof KIND)[KindName];

/** Names of the kinds, by number. */
export const KIND_NAMES = Object.keys(KIND) as readonly KindName[];

/** A number that is an integer whatever it looks like; made by `int`. */
export class Int {
  readonly value: Integer;
  constructor(value: Integer) {
    this.value = toInteger(value);
    Object.freeze(this);
  }
}

/** A number that is a float even when it is whole; made by `float`. */
export class Float {
  readonly value: number;
  constructor(value: number) {
    if (typeof value !== 'number') throw failure('value.type', 'float() takes a number');
    this.value = value;
    Object.freeze(this);
  }
}

/** Says that a number is meant as an integer. */
export function int(value: Integer): Int {
  return new Int(value);
}

/** Says that a number is meant as a float. */
export function float(value: number): Float {
  return new Float(value);
}

export interface ValueMap {
  readonly [name: string]: Value;
}

/** Anything that can be stored. */
export type Value =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | Int
  | Float
  | LocalDate
  | LocalTime
  | ZonedTime
  | LocalDateTime
  | ZonedDateTime
  | Date
  | Duration
  | Point
  | readonly Value[]
  | ReadonlyMap<string, Value>
  | ValueMap;

/** A whole number in the safe range is an integer, but for −0, whose sign only a float keeps. */
export function isIntegerNumber(value: number): boolean {
  return Number.isSafeInteger(value) && (value !== 0 || 1 / value > 0);
}

/**
 * The kind of a value.
 *
 * @throws {ValueError} value.type for what is no value, value.out_of_range for a wide bigint.
 */
export function kindOf(value: unknown): Kind {
  switch (typeof value) {
    case 'string':
      return KIND.text;
    case 'number':
      return isIntegerNumber(value) ? KIND.int : KIND.float;
    case 'boolean':
      return KIND.bool;
    case 'bigint':
      toInteger(value);
      return KIND.int;
    case 'object':
      return kindOfObject(value);
    default:
      throw failure('value.type', `a ${typeof value} is not a value that can be stored`);
  }
}

function kindOfObject(value: object | null): Kind {
  if (value === null) return KIND.null;
  if (Array.isArray(value)) return KIND.list;
  if (value instanceof Uint8Array) return KIND.bytes;
  if (isPlain(value) || value instanceof Map) return KIND.map;
  if (value instanceof Float) return KIND.float;
  if (value instanceof Int) return KIND.int;
  if (value instanceof Date || value instanceof ZonedDateTime) return KIND.datetime;
  if (value instanceof LocalDate) return KIND.date;
  if (value instanceof LocalTime) return KIND.time;
  if (value instanceof ZonedTime) return KIND.zonedtime;
  if (value instanceof LocalDateTime) return KIND.localdatetime;
  if (value instanceof Duration) return KIND.duration;
  if (value instanceof Point) return KIND.point;
  const name: unknown = value.constructor?.name;
  throw failure('value.type', `an object of class ${String(name)} is not a value`, {
    hint: 'Store a plain object with the fields that matter.',
  });
}

/** Whether an object is a map: made by `{}`, in any realm, or without a prototype. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return (
    prototype === null ||
    prototype === Object.prototype ||
    (Object.getPrototypeOf(prototype) === null && !(Symbol.iterator in value))
  );
}

/** The fields of a map in their own order; fields that are `undefined` are absent. */
export function mapEntries(map: ReadonlyMap<string, Value> | ValueMap): [string, Value][] {
  const entries = map instanceof Map ? [...map] : Object.entries(map);
  if (map instanceof Map) for (const name of map.keys()) requireText(name);
  return entries.filter((entry) => entry[1] !== undefined) as [string, Value][];
}

/** Refuses fields of a map whose names are no texts: a `Map` may have any. */
function requireText(name: unknown): void {
  if (typeof name === 'string') return;
  throw failure('value.type', `the names of a map are texts, not ${String(name)}`);
}

/** The fields of a map in the order of their names. */
export function sortedEntries(map: ReadonlyMap<string, Value> | ValueMap): [string, Value][] {
  return mapEntries(map).sort((a, b) => compareText(a[0], b[0]));
}

/** Sets a field of a map as its own, whatever its name: `__proto__` is a name like others. */
export function setField(map: Record<string, Value>, name: string, value: Value): void {
  if (name === '__proto__') {
    const own = { value, enumerable: true, configurable: true, writable: true };
    Object.defineProperty(map, name, own);
  } else map[name] = value;
}

/** The instant of a datetime in either form. */
export function toZoned(value: ZonedDateTime | Date): ZonedDateTime {
  return value instanceof Date ? ZonedDateTime.fromDate(value) : value;
}

/** Refuses nesting that decoding could not follow. */
export function requireDepth(depth: number): void {
  if (depth > VALUE_DEPTH_MAX) {
    throw failure('value.size', `a value is nested deeper than ${VALUE_DEPTH_MAX} levels`);
  }
}

/** The total order: negative, 0 or positive. */
export function compareValues(a: Value, b: Value): number {
  if (typeof a === 'number' && typeof b === 'number') {
    return a < b ? -1 : a > b ? 1 : a === b ? 0 : compareNaN(a, b);
  }
  if (typeof a === 'string' && typeof b === 'string') return compareText(a, b);
  return compareAny(a, b, 0);
}

/** The one equality: same place in the total order. */
export function equalValues(a: Value, b: Value): boolean {
  if (a === b) return true;
  if (typeof a === 'string' || typeof b === 'string') return false;
  return compareValues(a, b) === 0;
}

function compareNaN(a: Integer, b: Integer): number {
  return (a === a ? 0 : 1) - (b === b ? 0 : 1);
}

/** Orders numbers and bigints by exact value: JavaScript compares the two kinds exactly. */
function compareNumbers(a: Integer, b: Integer): number {
  return a < b ? -1 : a > b ? 1 : compareNaN(a, b);
}

function rankOf(kind: Kind): number {
  return kind === KIND.float || kind === KIND.decimal ? KIND.int : kind;
}

function compareAny(a: Value, b: Value, depth: number): number {
  const kind = kindOf(a);
  const rank = rankOf(kind);
  const difference = rank - rankOf(kindOf(b));
  if (difference !== 0) return difference;
  switch (kind) {
    case KIND.null:
      return 0;
    case KIND.bool:
      return Number(a) - Number(b);
    case KIND.int:
    case KIND.float:
      return compareNumbers(numberOf(a), numberOf(b));
    case KIND.text:
      return compareText(a as string, b as string);
    case KIND.bytes:
      return compareByteValues(a as Uint8Array, b as Uint8Array);
    case KIND.list:
      return compareLists(a as readonly Value[], b as readonly Value[], depth + 1);
    case KIND.map:
      return compareMaps(a as ValueMap, b as ValueMap, depth + 1);
    default:
      return compareParts(a, b);
  }
}

/** The bare number of an int or float in any form. */
export function numberOf(value: Value): Integer {
  return value instanceof Int || value instanceof Float ? value.value : (value as Integer);
}

function compareByteValues(a: Uint8Array, b: Uint8Array): number {
  return compareBytes(a, 0, a.length, b, 0, b.length);
}

function compareLists(a: readonly Value[], b: readonly Value[], depth: number): number {
  requireDepth(depth);
  const shared = Math.min(a.length, b.length);
  for (let i = 0; i < shared; i++) {
    const difference = compareAny(a[i]!, b[i]!, depth);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

function compareMaps(a: ValueMap, b: ValueMap, depth: number): number {
  requireDepth(depth);
  const left = sortedEntries(a);
  const right = sortedEntries(b);
  const shared = Math.min(left.length, right.length);
  for (let i = 0; i < shared; i++) {
    const [aName, aValue] = left[i]!;
    const [bName, bValue] = right[i]!;
    const difference = compareText(aName, bName) || compareAny(aValue, bValue, depth);
    if (difference !== 0) return difference;
  }
  return left.length - right.length;
}

/** Orders two values of one temporal kind, or two points, part by part. */
function compareParts(a: Value, b: Value): number {
  const left = orderedParts(a);
  const right = orderedParts(b);
  for (let i = 0; i < left.length; i++) {
    const x = left[i];
    const y = right[i];
    if (x === undefined || y === undefined) {
      if (x !== y) return x === undefined ? -1 : 1;
    } else {
      const difference =
        typeof x === 'string' ? compareText(x, y as string) : compareNumbers(x, y as Integer);
      if (difference !== 0) return difference;
    }
  }
  return 0;
}

/**
 * What a temporal value or point is ordered, compared and hashed by: numbers and texts, most
 * significant first. Keys encode the same parts in the same order.
 */
export function orderedParts(value: Value): readonly (Integer | string | undefined)[] {
  if (value instanceof LocalDate) return [value.day];
  if (value instanceof LocalTime) return [value.nanosecond];
  if (value instanceof ZonedTime) return [instantOf(value), value.offsetSeconds];
  if (value instanceof LocalDateTime) return [value.day, value.nanosecond];
  if (value instanceof ZonedDateTime || value instanceof Date) {
    const at = toZoned(value);
    return [at.day, at.nanosecond, at.offsetSeconds, at.zone];
  }
  if (value instanceof Duration) return [averageNanoseconds(value), value.months, value.days];
  if (value instanceof Point) return [value.srid, value.x, value.y, value.z];
  throw failure('value.type', 'a value of an unknown kind cannot be ordered');
}

/** Nanoseconds of a zoned time in UTC, which may lie outside the day. */
export function instantOf(time: ZonedTime): number {
  return time.nanosecond - time.offsetSeconds * NANOSECONDS_PER_SECOND;
}

/** Seconds of a twelfth of the average Gregorian year. */
const SECONDS_PER_MONTH = 2_629_746n;

export function averageNanoseconds(value: Duration): bigint {
  const seconds =
    BigInt(value.months) * SECONDS_PER_MONTH + BigInt(value.days) * 86_400n + BigInt(value.seconds);
  return seconds * BigInt(NANOSECONDS_PER_SECOND) + BigInt(value.nanoseconds);
}

const hashFloat = new Float64Array(1);
const hashWords = new Int32Array(hashFloat.buffer);
const NAN_HASH = 0x7ff8_dead | 0;

/** A 32-bit hash: equal values have equal hashes, whatever their form. */
export function hashValue(value: Value): number {
  if (typeof value === 'number') return hashNumber(value);
  if (typeof value === 'string') return hashText(value);
  return hashAny(value, 0);
}

function mix(hash: number, word: number): number {
  hash = Math.imul(hash ^ word, 0x9e37_79b1);
  return hash ^ (hash >>> 15);
}

function hashNumber(value: number): number {
  if ((value | 0) === value) return mix(KIND.int, value | 0);
  if (value !== value) return NAN_HASH;
  hashFloat[0] = value;
  return mix(mix(KIND.float, hashWords[0]!), hashWords[1]!);
}

function hashInteger(value: Integer): number {
  if (typeof value === 'number') return hashNumber(value);
  const near = Number(value);
  if (BigInt(near) === value) return hashNumber(near);
  const low = Number(BigInt.asIntN(32, value));
  return mix(mix(KIND.decimal, low), Number(BigInt.asIntN(32, value >> 32n)));
}

export function hashText(text: string): number {
  let hash = 0x811c_9dc5 | 0;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x0100_0193);
  return mix(hash, text.length);
}

function hashAny(value: Value, depth: number): number {
  requireDepth(depth);
  const kind = kindOf(value);
  switch (kind) {
    case KIND.null:
      return 0x6e75_6c6c;
    case KIND.bool:
      return value === true ? 0x7472_7565 : 0x6661_6c73;
    case KIND.int:
    case KIND.float:
      return hashInteger(numberOf(value));
    case KIND.text:
      return hashText(value as string);
    case KIND.bytes:
      return (value as Uint8Array).reduce((hash, byte) => mix(hash, byte), kind);
    case KIND.list: {
      let hash: number = kind;
      for (const each of value as readonly Value[]) hash = mix(hash, hashAny(each, depth + 1));
      return hash;
    }
    case KIND.map: {
      let sum: number = kind;
      for (const [name, each] of mapEntries(value as ValueMap))
        sum = (sum + mix(hashText(name), hashAny(each, depth + 1))) | 0;
      return sum;
    }
    default: {
      let hash: number = kind;
      for (const part of orderedParts(value)) {
        if (part !== undefined)
          hash = mix(hash, typeof part === 'string' ? hashText(part) : hashInteger(part));
      }
      return hash;
    }
  }
}
