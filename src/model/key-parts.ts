/**
 * The order-preserving encoding of one value as a part of a key: bytes compare as the values do.
 *
 * The first byte is a tag, and the tags are in the order of the kinds:
 *
 *   02        null                      b8        time: nanosecond:6
 *   03, 04    false, true               bc        zonedtime: instant:7 offset:3
 *   20 … 9f   number                    c0        localdatetime: day:6 nanosecond:6
 *   a0        NaN                       c4        datetime: day:6 nanosecond:6 offset:3 zone 00
 *   a8        text: UTF-8 … 00          c8        duration: average:16 months:8 days:8
 *   b0        bytes: … 00               cc        point: srid:4 x y (00 | 01 z)
 *   b4        date: day:6               d8        list: part … 00
 *   d0        (uuid)                    e0        map: (01 name 00 part) … 00
 *
 * Integers of fixed width are highest byte first with the sign turned over. In text and bytes that
 * end with 00, the bytes 00 and 01 are written 01 01 and 01 02. No tag is 00, 01 or ff, so a
 * terminator or an end is below anything that follows it, also where a descending part is turned
 * over bit by bit. Every part says itself where it ends.
 *
 * Numbers. An integer and a float of equal value have equal bytes: those of the float64 (its sign
 * turned over) without its zeroes at the end, in groups of seven bits. The first group is in the
 * tag; each further byte is a group and, lowest, a bit that says that more follow. A negative
 * number is the one without its sign, turned over. Where integers are denser than floats, from
 * 2^53 to 2^63, the float is the next one below or equal, and two bytes tell how much is missing.
 */
import {
  hexOf,
  MALFORMED,
  readUtf8,
  skipVarint,
  writeUtf8,
  type ByteWriter,
} from '../base/bytes.ts';
import { failure } from '../errors.ts';
import { VALUE_DEPTH_MAX } from '../limits.ts';
import type { Collation } from './collation.ts';
import {
  Duration,
  LocalDate,
  LocalDateTime,
  LocalTime,
  NANOSECONDS_PER_SECOND,
  Point,
  ZonedDateTime,
  ZonedTime,
  type Integer,
} from './temporal.ts';
import {
  D_ASCII,
  D_SHORT_TEXT,
  D_SMALL_INT,
  D_SMALL_INT_END,
  D_TEXT,
  readPayload,
  skipPayload,
} from './value-codec.ts';
import {
  averageNanoseconds,
  instantOf,
  KIND,
  kindOf,
  numberOf,
  requireDepth,
  setField,
  sortedEntries,
  toZoned,
  type Value,
  type ValueMap,
} from './value.ts';

export const TAG_NULL = 0x02;
const TAG_FALSE = 0x03;
const TAG_TRUE = 0x04;
const TAG_NUMBER = 0x20;
const TAG_NUMBER_LAST = 0x9f;
const TAG_NAN = 0xa0;
const TAG_TEXT = 0xa8;
const TAG_BYTES = 0xb0;
const TAG_DATE = 0xb4;
const TAG_TIME = 0xb8;
const TAG_ZONED_TIME = 0xbc;
const TAG_LOCAL_DATETIME = 0xc0;
const TAG_DATETIME = 0xc4;
const TAG_DURATION = 0xc8;
const TAG_POINT = 0xcc;
const TAG_LIST = 0xd8;
const TAG_MAP = 0xe0;
const END = 0x00;
const MORE = 0x01;

/** Most bytes of a number. */
const NUMBER_BYTES_MAX = 12;
const DENSE_MIN = 2 ** 53;
const DENSE_MAX = 2 ** 63;

const float = new Float64Array(1);
const words = new Uint32Array(float.buffer);

/** Appends a value; text goes through the collation, inside lists and maps too. */
export function appendPart(writer: ByteWriter, value: Value, collation: Collation): void {
  if (typeof value === 'string' && collation.fold === undefined) appendText(writer, value);
  else if (typeof value === 'number') appendNumber(writer, value);
  else appendAny(writer, value, collation, 0);
}

function appendAny(writer: ByteWriter, value: Value, collation: Collation, depth: number): void {
  switch (kindOf(value)) {
    case KIND.null:
      return writer.byte(TAG_NULL);
    case KIND.bool:
      return writer.byte(value === true ? TAG_TRUE : TAG_FALSE);
    case KIND.int:
    case KIND.float:
      return appendNumber(writer, numberOf(value));
    case KIND.text:
      return appendCollated(writer, value as string, collation);
    case KIND.bytes:
      writer.byte(TAG_BYTES);
      return appendStuffed(writer, value as Uint8Array);
    case KIND.list:
      requireDepth(depth);
      writer.byte(TAG_LIST);
      for (const each of value as readonly Value[]) appendAny(writer, each, collation, depth + 1);
      return writer.byte(END);
    case KIND.map:
      return appendMap(writer, value as ValueMap, collation, depth);
    default:
      return appendTemporal(writer, value);
  }
}

function appendMap(writer: ByteWriter, map: ValueMap, collation: Collation, depth: number): void {
  requireDepth(depth);
  writer.byte(TAG_MAP);
  for (const [name, each] of sortedEntries(map)) {
    writer.byte(MORE);
    appendTextBody(writer, name);
    appendAny(writer, each, collation, depth + 1);
  }
  writer.byte(END);
}

/** Appends a text part under binary collation. */
export function appendText(writer: ByteWriter, text: string): void {
  writer.byte(TAG_TEXT);
  appendTextBody(writer, text);
}

function appendTextBody(writer: ByteWriter, text: string): void {
  const length = text.length;
  writer.reserve(3 * length + 1);
  const bytes = writer.bytes;
  const start = writer.length;
  let offset = start;
  for (let i = 0; i < length; i++) {
    const unit = text.charCodeAt(i);
    if (unit >= 0x80 || unit <= 1) return appendRareText(writer, text);
    bytes[offset++] = unit;
  }
  bytes[offset++] = END;
  writer.length = offset;
}

/** Appends a text that is not plain ASCII. */
function appendRareText(writer: ByteWriter, text: string): void {
  const start = writer.length;
  const end = writeUtf8(writer.bytes, start, text);
  if (end === MALFORMED) throw failure('value.text', `a key has a lone surrogate: ${text}`);
  if (text.includes('\u0000') || text.includes('\u0001'))
    return appendStuffed(writer, writer.bytes.slice(start, end));
  writer.bytes[end] = END;
  writer.length = end + 1;
}

function appendCollated(writer: ByteWriter, text: string, collation: Collation): void {
  if (collation.fold === undefined) return appendText(writer, text);
  const stand = collation.fold(text);
  if (typeof stand === 'string') return appendText(writer, stand);
  if (!(stand instanceof Uint8Array)) {
    throw failure('value.type', `collation "${collation.name}" answered neither text nor bytes`);
  }
  writer.byte(TAG_TEXT);
  appendStuffed(writer, stand);
}

/**
 * Appends a value as a record stores it (value-codec.ts): text goes from bytes to bytes, without
 * a string in between.
 */
export function appendStoredPart(
  writer: ByteWriter,
  bytes: Uint8Array,
  offset: number,
  end: number,
  descriptor: number,
  collation: Collation,
): void {
  if (descriptor >= D_SMALL_INT && descriptor < D_SMALL_INT_END)
    return appendNumber(writer, descriptor - D_SMALL_INT);
  const isText = descriptor >= D_SHORT_TEXT || descriptor === D_TEXT || descriptor === D_ASCII;
  if (!isText || collation.fold !== undefined) {
    appendPart(writer, readPayload(bytes, offset, end, descriptor), collation);
    return;
  }
  const to = skipPayload(bytes, offset, end, descriptor);
  const from = descriptor >= D_SHORT_TEXT ? offset : skipVarint(bytes, offset);
  writer.byte(TAG_TEXT);
  appendStuffedRange(writer, bytes, from, to);
}

/** Appends bytes with 00 and 01 escaped, and the terminator. */
function appendStuffed(writer: ByteWriter, source: Uint8Array): void {
  appendStuffedRange(writer, source, 0, source.length);
}

function appendStuffedRange(
  writer: ByteWriter,
  source: Uint8Array,
  from: number,
  to: number,
): void {
  writer.reserve(2 * (to - from) + 1);
  const bytes = writer.bytes;
  let offset = writer.length;
  for (let i = from; i < to; i++) {
    const byte = source[i]!;
    if (byte <= 1) {
      bytes[offset++] = 0x01;
      bytes[offset++] = byte + 1;
    } else bytes[offset++] = byte;
  }
  bytes[offset++] = END;
  writer.length = offset;
}

/** Appends an integer or float. */
export function appendNumber(writer: ByteWriter, value: Integer): void {
  writer.reserve(NUMBER_BYTES_MAX);
  let below: number;
  if (typeof value === 'number') {
    if (value !== value) {
      writer.bytes[writer.length++] = TAG_NAN;
      return;
    }
    below = value;
  } else {
    below = Number(value);
    if (BigInt(below) > value) below = nextBelow(below);
  }
  const magnitude = below < 0 ? -below : below;
  const start = writer.length;
  const end = writeMagnitude(writer.bytes, start, magnitude);
  if (below < 0) invertNumber(writer.bytes, start, end);
  writer.length = end;
  if (magnitude >= DENSE_MIN && magnitude <= DENSE_MAX) {
    const missing = typeof value === 'number' ? 0 : Number(value - BigInt(below));
    writer.bytes[writer.length++] = missing >> 8;
    writer.bytes[writer.length++] = missing;
  }
}

/** The float64 just below; for 2^53 ≤ |x| ≤ 2^63. */
function nextBelow(value: number): number {
  const bits = new BigInt64Array(float.buffer);
  float[0] = value;
  bits[0] = bits[0]! + (value > 0 ? -1n : 1n);
  return float[0];
}

function invertNumber(bytes: Uint8Array, from: number, to: number): void {
  bytes[from] = TAG_NUMBER + TAG_NUMBER_LAST - bytes[from]!;
  for (let i = from + 1; i < to; i++) bytes[i] = ~bytes[i]!;
}

/** Writes the seven-bit groups of a number that is not negative; answers where they end. */
function writeMagnitude(bytes: Uint8Array, offset: number, value: number): number {
  float[0] = value + 0;
  const high = words[1]!;
  const low = words[0]!;
  bytes[offset++] = TAG_NUMBER + 64 + (high >>> 25);
  // What is left after each group, as two words, decides whether another follows.
  let rest = high & 0x3ffff;
  bytes[offset++] = ((high >>> 17) & 0xfe) | ((rest | low) !== 0 ? 1 : 0);
  if ((rest | low) === 0) return offset;
  rest = high & 0x7ff;
  bytes[offset++] = ((high >>> 10) & 0xfe) | ((rest | low) !== 0 ? 1 : 0);
  if ((rest | low) === 0) return offset;
  rest = high & 0xf;
  bytes[offset++] = ((high >>> 3) & 0xfe) | ((rest | low) !== 0 ? 1 : 0);
  if ((rest | low) === 0) return offset;
  rest = low << 3;
  bytes[offset++] = ((middleGroup(high, low) << 1) & 0xfe) | (rest !== 0 ? 1 : 0);
  for (let shift = 3; rest !== 0; shift += 7) {
    rest = shift + 7 < 32 ? low << (shift + 7) : 0;
    bytes[offset++] = (((low << shift) >>> 24) & 0xfe) | (rest !== 0 ? 1 : 0);
  }
  return offset;
}

/** The group that straddles the words: the last four bits of one, the first three of the other. */
function middleGroup(high: number, low: number): number {
  return ((high & 0xf) << 3) | (low >>> 29);
}

function appendTemporal(writer: ByteWriter, value: Value): void {
  if (value instanceof LocalDate) {
    writer.byte(TAG_DATE);
    appendInt48(writer, value.day);
  } else if (value instanceof LocalTime) {
    writer.byte(TAG_TIME);
    appendInt48(writer, value.nanosecond);
  } else if (value instanceof ZonedTime) {
    writer.byte(TAG_ZONED_TIME);
    appendBig(writer, BigInt(instantOf(value)), 7);
    appendInt24(writer, value.offsetSeconds);
  } else if (value instanceof LocalDateTime) {
    writer.byte(TAG_LOCAL_DATETIME);
    appendInt48(writer, value.day);
    appendInt48(writer, value.nanosecond);
  } else if (value instanceof ZonedDateTime || value instanceof Date) {
    const at = toZoned(value);
    writer.byte(TAG_DATETIME);
    appendInt48(writer, at.day);
    appendInt48(writer, at.nanosecond);
    appendInt24(writer, at.offsetSeconds);
    appendTextBody(writer, at.zone ?? '');
  } else if (value instanceof Duration) {
    writer.byte(TAG_DURATION);
    appendBig(writer, averageNanoseconds(value), 16);
    appendBig(writer, BigInt(value.months), 8);
    appendBig(writer, BigInt(value.days), 8);
  } else if (value instanceof Point) {
    writer.byte(TAG_POINT);
    appendInt48(writer, value.srid);
    appendNumber(writer, value.x);
    appendNumber(writer, value.y);
    writer.byte(value.z === undefined ? END : MORE);
    if (value.z !== undefined) appendNumber(writer, value.z);
  } else throw failure('value.type', 'a value of this kind cannot be a key');
}

function appendInt48(writer: ByteWriter, value: number): void {
  appendBig(writer, BigInt(value), 6);
}

function appendInt24(writer: ByteWriter, value: number): void {
  appendBig(writer, BigInt(value), 3);
}

/** Appends an integer of a fixed width, highest byte first, its sign turned over. */
function appendBig(writer: ByteWriter, value: bigint, byteCount: number): void {
  let rest = value + (1n << BigInt(8 * byteCount - 1));
  writer.reserve(byteCount);
  for (let i = byteCount - 1; i >= 0; i--) {
    writer.bytes[writer.length + i] = Number(rest & 0xffn);
    rest >>= 8n;
  }
  writer.length += byteCount;
}

/** Tags of numbers below 2^53: those that have no two bytes behind their groups. */
const TAG_SPARSE_MIN = 0x3f;
const TAG_SPARSE_MAX = 0x80;

/** Where the ascending part at `offset` ends: the common kinds are not read for that. */
export function skipPart(bytes: Uint8Array, offset: number, end: number): number {
  const tag = offset < end ? bytes[offset]! : 0;
  if (tag === TAG_TEXT || tag === TAG_BYTES) {
    for (let at = offset + 1; at < end; at++) if (bytes[at] === END) return at + 1;
  } else if (tag >= TAG_SPARSE_MIN && tag <= TAG_SPARSE_MAX) {
    const turn = tag < TAG_NUMBER + 64 ? 1 : 0;
    for (let at = offset + 1; at < end; at++) if ((bytes[at]! & 1) === turn) return at + 1;
  } else if (tag >= TAG_NULL && tag <= TAG_TRUE) return offset + 1;
  const reader = new PartReader(bytes, offset, end);
  reader.read();
  return reader.offset;
}

/** Reads the parts of a key, one after the other. */
export class PartReader {
  bytes: Uint8Array;
  offset: number;
  end: number;

  constructor(bytes: Uint8Array, offset: number, end: number) {
    this.bytes = bytes;
    this.offset = offset;
    this.end = end;
  }

  /**
   * The next part. What equals an integer comes as one, text as the collation left it.
   *
   * @throws {CorruptionError} corrupt.record when the bytes are no part.
   */
  read(): Value {
    return this.#part(0);
  }

  #part(depth: number): Value {
    if (depth > VALUE_DEPTH_MAX) throw this.#malformed();
    const tag = this.#byte();
    if (tag >= TAG_NUMBER && tag <= TAG_NUMBER_LAST) return this.#number(tag);
    switch (tag) {
      case TAG_NULL:
        return null;
      case TAG_FALSE:
        return false;
      case TAG_TRUE:
        return true;
      case TAG_NAN:
        return NaN;
      case TAG_TEXT:
        return this.#text();
      case TAG_BYTES:
        return this.#stuffed();
      case TAG_LIST:
        return this.#list(depth);
      case TAG_MAP:
        return this.#map(depth);
      default:
        return this.#temporal(tag);
    }
  }

  #byte(): number {
    if (this.offset >= this.end) throw this.#malformed();
    return this.bytes[this.offset++]!;
  }

  #number(tag: number): Value {
    const negative = tag < TAG_NUMBER + 64;
    const turn = negative ? 0xff : 0;
    const top = negative ? TAG_NUMBER_LAST - tag - 64 : tag - TAG_NUMBER - 64;
    let bits = BigInt(top);
    let shift = 57n;
    bits <<= shift;
    for (let more = 1; more !== 0;) {
      const byte = this.#byte() ^ turn;
      more = byte & 1;
      shift -= 7n;
      if (shift < -6n) throw this.#malformed();
      const group = BigInt(byte >> 1);
      bits |= shift >= 0n ? group << shift : group >> -shift;
    }
    words[0] = Number(bits & 0xffff_ffffn);
    words[1] = Number(bits >> 32n);
    const value = negative ? -float[0]! : float[0]!;
    const magnitude = Math.abs(value);
    if (!(magnitude >= DENSE_MIN && magnitude <= DENSE_MAX)) return value;
    const missing = (this.#byte() << 8) | this.#byte();
    if (value === DENSE_MAX) return value;
    return BigInt(value) + BigInt(missing);
  }

  #text(): string {
    const stuffed = this.#stuffed();
    const text = readUtf8(stuffed, 0, stuffed.length);
    if (text === undefined) throw this.#malformed();
    return text;
  }

  #stuffed(): Uint8Array {
    const start = this.offset;
    let escapes = 0;
    let at = start;
    for (; ; at++) {
      if (at >= this.end) throw this.#malformed();
      const byte = this.bytes[at]!;
      if (byte === END) break;
      if (byte === 1) {
        escapes++;
        const escaped = this.bytes[++at]!;
        if (at >= this.end || escaped < 1 || escaped > 2) throw this.#malformed();
      }
    }
    const plain = new Uint8Array(at - start - escapes);
    for (let from = start, to = 0; from < at; from++, to++) {
      const byte = this.bytes[from]!;
      plain[to] = byte === 1 ? this.bytes[++from]! - 1 : byte;
    }
    this.offset = at + 1;
    return plain;
  }

  #list(depth: number): Value {
    const list: Value[] = [];
    while (this.#peek() !== END) list.push(this.#part(depth + 1));
    this.offset++;
    return list;
  }

  #map(depth: number): Value {
    const map: Record<string, Value> = {};
    while (this.#byte() === MORE) setField(map, this.#text(), this.#part(depth + 1));
    if (this.bytes[this.offset - 1] !== END) throw this.#malformed();
    return map;
  }

  #peek(): number {
    if (this.offset >= this.end) throw this.#malformed();
    return this.bytes[this.offset]!;
  }

  #temporal(tag: number): Value {
    try {
      switch (tag) {
        case TAG_DATE:
          return new LocalDate(this.#int(6));
        case TAG_TIME:
          return new LocalTime(this.#int(6));
        case TAG_ZONED_TIME:
          return this.#zonedTime();
        case TAG_LOCAL_DATETIME:
          return new LocalDateTime(this.#int(6), this.#int(6));
        case TAG_DATETIME:
          return new ZonedDateTime(this.#int(6), this.#int(6), this.#int(3), this.#zone());
        case TAG_DURATION:
          return this.#duration();
        case TAG_POINT:
          return this.#point();
        default:
          throw this.#malformed();
      }
    } catch (cause) {
      throw this.#malformed(cause);
    }
  }

  #zone(): string | undefined {
    const zone = this.#text();
    return zone === '' ? undefined : zone;
  }

  #zonedTime(): ZonedTime {
    const instant = this.#int(7);
    const offsetSeconds = this.#int(3);
    return new ZonedTime(instant + offsetSeconds * NANOSECONDS_PER_SECOND, offsetSeconds);
  }

  #duration(): Duration {
    const average = this.#big(16);
    const months = this.#big(8);
    const days = this.#big(8);
    const rest = average - averageNanoseconds(new Duration(months, days, 0));
    const second = BigInt(NANOSECONDS_PER_SECOND);
    const nanoseconds = ((rest % second) + second) % second;
    return new Duration(months, days, (rest - nanoseconds) / second, Number(nanoseconds));
  }

  #point(): Point {
    const srid = this.#int(6);
    const x = this.#coordinate();
    const y = this.#coordinate();
    return new Point(srid, x, y, this.#byte() === MORE ? this.#coordinate() : undefined);
  }

  #coordinate(): number {
    const value = this.#part(0);
    return typeof value === 'bigint' ? Number(value) : (value as number);
  }

  #int(byteCount: number): number {
    return Number(this.#big(byteCount));
  }

  #big(byteCount: number): bigint {
    let value = 0n;
    for (let i = 0; i < byteCount; i++) value = (value << 8n) | BigInt(this.#byte());
    return value - (1n << BigInt(8 * byteCount - 1));
  }

  #malformed(cause?: unknown): Error {
    const { bytes, offset, end } = this;
    return failure('corrupt.record', `malformed key near offset ${offset} of ${end}`, {
      detail: { offset, end, bytes: hexOf(bytes, Math.max(0, offset - 8), end) },
      ...(cause !== undefined && { cause }),
    });
  }
}
