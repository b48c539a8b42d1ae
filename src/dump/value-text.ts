/**
 * Values as text: JSON, with a form for every kind that JSON does not have.
 *
 *   int                    digits                          5, -9223372036854775808
 *   float                  a point or an exponent          5.0, -0.0, 1e+300
 *   float, not finite      {"$float": "NaN"}               "Infinity", "-Infinity"
 *   bytes                  {"$bytes": base64}
 *   date … datetime        {"$date": ISO 8601}      $time $zonedtime $localdatetime $datetime
 *   duration               {"$duration": "P1M2DT3.5S"}
 *   point                  {"$point": [srid, x, y]}        or [srid, x, y, z]
 *   map of one name `$…`   {"$map": [name, value]}
 *
 * Any other object is a map. One value has one text, so equal data makes equal dumps.
 */
import {
  Duration,
  Float,
  Int,
  LocalDate,
  LocalDateTime,
  LocalTime,
  Point,
  type Value,
  ZonedDateTime,
  ZonedTime,
} from '../index.ts';
import { failure } from './failures.ts';
import {
  parseDate,
  parseDateTime,
  parseDuration,
  parseLocalDateTime,
  parseTime,
  parseZonedTime,
} from './temporal-text.ts';

/** What a kind that JSON does not have is written as; it may refuse. */
export type OtherText = (value: Exclude<Value, null | boolean | number | string>) => string;

/** A value as text, all kinds. */
export function valueText(value: Value): string {
  return jsonText(value, extendedText);
}

/** A value as JSON; `other` writes what JSON does not have, and maps that look like its forms. */
export function jsonText(value: Value, other: OtherText): string {
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value);
    case 'number':
      if (Number.isSafeInteger(value) && !Object.is(value, -0)) return String(value);
      return Number.isFinite(value) ? floatText(value) : other(new Float(value));
    case 'boolean':
      return value ? 'true' : 'false';
    case 'bigint':
      return String(value);
  }
  if (value === null) return 'null';
  if (Array.isArray(value)) return `[${value.map((each) => jsonText(each, other)).join(',')}]`;
  if (value instanceof Float)
    return Number.isFinite(value.value) ? floatText(value.value) : other(value);
  if (value instanceof Int) return String(value.value);
  if (isMap(value)) return mapText(value, other);
  return other(value);
}

/** A float as text that only a float has. */
export function floatText(value: number): string {
  const text = Object.is(value, -0) ? '-0' : String(value);
  return /^-?\d+$/.test(text) ? `${text}.0` : text;
}

function isMap(value: object): value is Readonly<Record<string, Value>> {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function mapText(map: Readonly<Record<string, Value>>, other: OtherText): string {
  const names = Object.keys(map);
  const texts = names.map((name) => [JSON.stringify(name), jsonText(map[name]!, other)]);
  const isForm = names.length === 1 && names[0]!.startsWith('$');
  if (isForm && other === extendedText) return `{"$map":[${texts[0]!.join(',')}]}`;
  return `{${texts.map((each) => each.join(':')).join(',')}}`;
}

const FORMS: readonly (readonly [string, abstract new (...args: never) => object])[] = [
  ['$date', LocalDate],
  ['$time', LocalTime],
  ['$zonedtime', ZonedTime],
  ['$localdatetime', LocalDateTime],
  ['$datetime', ZonedDateTime],
  ['$duration', Duration],
];

/** The forms of the table above. */
export function extendedText(value: Parameters<OtherText>[0]): string {
  if (value instanceof Float) return `{"$float":"${value.value}"}`;
  if (value instanceof Uint8Array) return `{"$bytes":"${base64Of(value)}"}`;
  if (value instanceof Point) {
    const { srid, x, y, z } = value;
    const parts = [x, y, ...(z === undefined ? [] : [z])].map((each) =>
      jsonText(new Float(each), extendedText),
    );
    return `{"$point":[${[srid, ...parts].join(',')}]}`;
  }
  const form = FORMS.find(([, type]) => value instanceof type);
  if (form === undefined) throw failure('value.type', 'a value of an unknown kind has no text');
  return `{"${form[0]}":"${String(value)}"}`;
}

const FLOATS: Readonly<Record<string, number>> = {
  NaN,
  Infinity,
  '-Infinity': -Infinity,
};

/** The value that a form stands for; `undefined` if it is none. */
export function revive(map: Record<string, Value>, name: string): Value | undefined {
  const inner = map[name]!;
  if (name === '$map') return mapOf(inner);
  if (name === '$point') return pointOf(inner);
  if (typeof inner !== 'string') return undefined;
  switch (name) {
    case '$float':
      return Object.hasOwn(FLOATS, inner) ? FLOATS[inner] : undefined;
    case '$bytes':
      return bytesOfBase64(inner);
    case '$date':
      return parseDate(inner);
    case '$time':
      return parseTime(inner);
    case '$zonedtime':
      return parseZonedTime(inner);
    case '$localdatetime':
      return parseLocalDateTime(inner);
    case '$datetime':
      return parseDateTime(inner);
    case '$duration':
      return parseDuration(inner);
    default:
      return undefined;
  }
}

function mapOf(pair: Value): Value | undefined {
  if (!Array.isArray(pair) || pair.length !== 2 || typeof pair[0] !== 'string') return undefined;
  return { [pair[0]]: pair[1] as Value };
}

function pointOf(value: Value): Point | undefined {
  if (!Array.isArray(value) || value.length < 3 || value.length > 4) return undefined;
  const numbers = (value as readonly Value[]).map((each) =>
    each instanceof Float ? each.value : each,
  );
  if (numbers.some((each) => typeof each !== 'number')) return undefined;
  const [srid, x, y, z] = numbers as number[];
  return new Point(srid!, x!, y!, z);
}

export function base64Of(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('base64');
}

/** The bytes of a base64 text; `undefined` unless it is exactly how bytes are written. */
export function bytesOfBase64(text: string): Uint8Array | undefined {
  const bytes = Buffer.from(text, 'base64');
  if (bytes.toString('base64') !== text) return undefined;
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length);
}
