/**
 * The encoding of one value in a record: a descriptor byte, and the payload it describes.
 *
 *   00        null                            0b       text, not ASCII: length, UTF-8
 *   01, 02    false, true                     0c       text, ASCII: length, bytes
 *   03 … 07   int of 1, 2, 3, 4, 6 bytes      0d       bytes: length, bytes
 *   08        int of 8 bytes                  0e       (decimal)
 *   09        float64                         0f       (uuid) 16 bytes
 *   0a        float64 that a float32 holds    10       date: day:6
 *   11        time: nanosecond:6              12       zonedtime: nanosecond:6 offset:3
 *   13        localdatetime: day:6 nano:6     14       datetime: length, day:6 nano:6 offset:3 zone
 *   15        duration: length, 3 integers, nanoseconds:4
 *   16        point: length, srid:4 x:8 y:8 [z:8]
 *   17        list: length, count, (descriptor payload) …
 *   18        map: length, count, (name length, name, descriptor payload) …
 *   20 … 3f   int 0 … 31                      40 … 7f  text, not ASCII, of 0 … 63 bytes
 *   80 … ff   text, ASCII, of 0 … 127 bytes   others are free
 *
 * Numbers are little-endian; a length or count is a varint; an integer inside a duration is its
 * own descriptor and payload. The descriptor alone gives the size of a payload, or says that a
 * length leads it, so that a value is skipped without being read. Integers and floats stay apart,
 * and a float keeps the sign of its zero. Maps keep the order of their fields.
 *
 * What is read has been written by `write…`, or is damaged: then reading fails with corrupt.record,
 * looks at no byte beyond `end`, and takes no memory that the bytes do not pay for.
 */
import {
  hexOf,
  MALFORMED,
  readAscii,
  readFloat64,
  readInt32,
  readUtf8,
  readVarint,
  skipVarint,
  utf8Length,
  varintBytes,
  writeAscii,
  writeFloat64,
  writeInt32,
  writeUtf8,
  writeVarint,
  type ByteWriter,
} from '../base/bytes.ts';
import { failure } from '../errors.ts';
import { RECORD_BYTES_MAX, VALUE_DEPTH_MAX } from '../limits.ts';
import {
  Duration,
  LocalDate,
  LocalDateTime,
  LocalTime,
  Point,
  toInteger,
  ZonedDateTime,
  ZonedTime,
  type Integer,
} from './temporal.ts';
import {
  Float,
  isIntegerNumber,
  KIND,
  kindOf,
  mapEntries,
  numberOf,
  requireDepth,
  setField,
  toZoned,
  type Kind,
  type Value,
  type ValueMap,
} from './value.ts';

export const D_NULL = 0x00;
export const D_FALSE = 0x01;
export const D_TRUE = 0x02;
export const D_INT8 = 0x03;
export const D_INT16 = 0x04;
const D_INT24 = 0x05;
export const D_INT32 = 0x06;
const D_INT48 = 0x07;
const D_INT64 = 0x08;
export const D_FLOAT64 = 0x09;
export const D_FLOAT32 = 0x0a;
export const D_TEXT = 0x0b;
export const D_ASCII = 0x0c;
const D_BYTES = 0x0d;
const D_DATE = 0x10;
const D_TIME = 0x11;
const D_ZONED_TIME = 0x12;
const D_LOCAL_DATETIME = 0x13;
const D_DATETIME = 0x14;
const D_DURATION = 0x15;
const D_POINT = 0x16;
const D_LIST = 0x17;
const D_MAP = 0x18;
export const D_SMALL_INT = 0x20;
export const D_SMALL_INT_END = 0x40;
export const D_SHORT_TEXT = 0x40;
const SHORT_TEXT_MAX = 63;
export const D_SHORT_ASCII = 0x80;
const SHORT_ASCII_MAX = 127;

/** A length leads the payload. */
const LED = -1;
/** No such descriptor. */
const FREE = -2;

/** Bytes of the payload of each descriptor, `LED` or `FREE`. */
export const PAYLOAD_BYTES = payloadBytes();

/** Kind of the value of each descriptor; null for free ones. */
const DESCRIPTOR_KINDS = descriptorKinds();

function payloadBytes(): Int16Array {
  const sizes = new Int16Array(256).fill(FREE);
  for (const [descriptor, size] of [
    [D_NULL, 0],
    [D_FALSE, 0],
    [D_TRUE, 0],
    [D_INT8, 1],
    [D_INT16, 2],
    [D_INT24, 3],
    [D_INT32, 4],
    [D_INT48, 6],
    [D_INT64, 8],
    [D_FLOAT64, 8],
    [D_FLOAT32, 4],
    [D_DATE, 6],
    [D_TIME, 6],
    [D_ZONED_TIME, 9],
    [D_LOCAL_DATETIME, 12],
  ] as const)
    sizes[descriptor] = size;
  for (const led of [D_TEXT, D_ASCII, D_BYTES, D_DATETIME, D_DURATION, D_POINT, D_LIST, D_MAP])
    sizes[led] = LED;
  for (let d = D_SMALL_INT; d < D_SMALL_INT_END; d++) sizes[d] = 0;
  for (let n = 0; n <= SHORT_TEXT_MAX; n++) sizes[D_SHORT_TEXT + n] = n;
  for (let n = 0; n <= SHORT_ASCII_MAX; n++) sizes[D_SHORT_ASCII + n] = n;
  return sizes;
}

function descriptorKinds(): Uint8Array {
  const kinds = new Uint8Array(256);
  kinds[D_FALSE] = kinds[D_TRUE] = KIND.bool;
  kinds.fill(KIND.int, D_INT8, D_INT64 + 1);
  kinds[D_FLOAT64] = kinds[D_FLOAT32] = KIND.float;
  kinds[D_TEXT] = kinds[D_ASCII] = KIND.text;
  kinds[D_BYTES] = KIND.bytes;
  kinds[D_DATE] = KIND.date;
  kinds[D_TIME] = KIND.time;
  kinds[D_ZONED_TIME] = KIND.zonedtime;
  kinds[D_LOCAL_DATETIME] = KIND.localdatetime;
  kinds[D_DATETIME] = KIND.datetime;
  kinds[D_DURATION] = KIND.duration;
  kinds[D_POINT] = KIND.point;
  kinds[D_LIST] = KIND.list;
  kinds[D_MAP] = KIND.map;
  kinds.fill(KIND.int, D_SMALL_INT, D_SMALL_INT_END);
  kinds.fill(KIND.text, D_SHORT_TEXT, 256);
  return kinds;
}

/** The kind of what a descriptor describes. */
export function kindOfDescriptor(descriptor: number): Kind {
  return DESCRIPTOR_KINDS[descriptor] as Kind;
}

/** The error of bytes that are no value. */
export function malformedRecord(
  bytes: Uint8Array,
  offset: number,
  end: number,
  cause?: unknown,
): Error {
  return failure('corrupt.record', `malformed record: ${end - offset} bytes before its end`, {
    detail: { offset, end, bytes: hexOf(bytes, offset, end) },
    ...(cause !== undefined && { cause }),
  });
}

// Writing. Every function writes the payload and answers the descriptor, which the caller places.

/** Appends a value: its descriptor and payload. */
export function writeValue(writer: ByteWriter, value: Value): void {
  appendValue(writer, value, 0);
}

function appendValue(writer: ByteWriter, value: Value, depth: number): void {
  writer.reserve(1);
  const at = writer.length++;
  const descriptor = writePayload(writer, value, depth);
  writer.bytes[at] = descriptor;
}

/** Appends the payload of a value of any kind; answers the descriptor. */
export function writePayload(writer: ByteWriter, value: Value, depth = 0): number {
  if (typeof value === 'string') return writeText(writer, value);
  if (typeof value === 'number')
    return isIntegerNumber(value) ? writeInt(writer, value) : writeFloat(writer, value);
  const kind = kindOf(value);
  switch (kind) {
    case KIND.null:
      return D_NULL;
    case KIND.bool:
      return value === true ? D_TRUE : D_FALSE;
    case KIND.int:
      return writeInt(writer, toInteger(numberOf(value)));
    case KIND.float:
      return writeFloat(writer, (value as Float).value);
    case KIND.bytes:
      return writeBytes(writer, value as Uint8Array);
    case KIND.list:
    case KIND.map:
      requireDepth(depth);
      return writeNested(writer, value, kind, depth);
    default:
      return writeTemporal(writer, value);
  }
}

/** Appends an integer in as few bytes as it needs. */
export function writeInt(writer: ByteWriter, value: Integer): number {
  if (typeof value !== 'number') return writeBigInt(writer, value);
  if (value >= 0 && value < 32) return D_SMALL_INT + value;
  writer.reserve(8);
  const bytes = writer.bytes;
  const offset = writer.length;
  if ((value | 0) === value) {
    bytes[offset] = value;
    if ((value << 24) >> 24 === value) {
      writer.length = offset + 1;
      return D_INT8;
    }
    bytes[offset + 1] = value >>> 8;
    if ((value << 16) >> 16 === value) {
      writer.length = offset + 2;
      return D_INT16;
    }
    bytes[offset + 2] = value >>> 16;
    if ((value << 8) >> 8 === value) {
      writer.length = offset + 3;
      return D_INT24;
    }
    bytes[offset + 3] = value >>> 24;
    writer.length = offset + 4;
    return D_INT32;
  }
  const high = Math.floor(value / 2 ** 32);
  writeInt32(bytes, offset, value);
  writeInt32(bytes, offset + 4, high);
  const isInt48 = (high << 16) >> 16 === high;
  writer.length = offset + (isInt48 ? 6 : 8);
  return isInt48 ? D_INT48 : D_INT64;
}

function writeBigInt(writer: ByteWriter, value: bigint): number {
  writer.reserve(8);
  writeInt32(writer.bytes, writer.length, Number(BigInt.asIntN(32, value)));
  writeInt32(writer.bytes, writer.length + 4, Number(value >> 32n));
  writer.length += 8;
  return D_INT64;
}

const single = new Float32Array(1);
const singleWord = new Int32Array(single.buffer);

/** Appends a float. */
export function writeFloat(writer: ByteWriter, value: number): number {
  writer.reserve(8);
  single[0] = value;
  if (single[0] === value) {
    writeInt32(writer.bytes, writer.length, singleWord[0]!);
    writer.length += 4;
    return D_FLOAT32;
  }
  writeFloat64(writer.bytes, writer.length, value === value ? value : NaN);
  writer.length += 8;
  return D_FLOAT64;
}

/** Appends a text. */
export function writeText(writer: ByteWriter, text: string): number {
  const length = text.length;
  if (length > SHORT_ASCII_MAX) return writeLongText(writer, text);
  writer.reserve(3 * length);
  const start = writer.length;
  if (writeAscii(writer.bytes, start, text)) {
    writer.length = start + length;
    return D_SHORT_ASCII + length;
  }
  const end = writeUtf8(writer.bytes, start, text);
  if (end === MALFORMED) throw loneSurrogate(text);
  if (end - start > SHORT_TEXT_MAX) return writeLongText(writer, text);
  writer.length = end;
  return D_SHORT_TEXT + end - start;
}

function writeLongText(writer: ByteWriter, text: string): number {
  const byteCount = utf8Length(text);
  const start = reserveLed(writer, byteCount);
  const end = writeUtf8(writer.bytes, start, text);
  if (end === MALFORMED) throw loneSurrogate(text);
  writer.length = end;
  return byteCount === text.length ? D_ASCII : D_TEXT;
}

function loneSurrogate(text: string): Error {
  const shown = text.length > 40 ? `${text.slice(0, 40)}…` : text;
  return failure('value.text', `a text has a lone surrogate: ${JSON.stringify(shown)}`);
}

export function writeBytes(writer: ByteWriter, value: Uint8Array): number {
  const start = reserveLed(writer, value.length);
  writer.bytes.set(value, start);
  writer.length = start + value.length;
  return D_BYTES;
}

/** Writes a length and makes room for as many bytes; answers where they begin. */
function reserveLed(writer: ByteWriter, byteCount: number): number {
  if (byteCount > RECORD_BYTES_MAX) {
    throw failure('value.size', `a value of ${byteCount} bytes is above ${RECORD_BYTES_MAX}`);
  }
  writer.reserve(byteCount + 8);
  writer.length = writeVarint(writer.bytes, writer.length, byteCount);
  return writer.length;
}

/** Appends a list or map: first its body, then, in front of it, the length that leads it. */
function writeNested(writer: ByteWriter, value: Value, kind: Kind, depth: number): number {
  const start = writer.length;
  if (kind === KIND.list) {
    const list = value as readonly Value[];
    writer.varint(list.length);
    for (const each of list) appendValue(writer, each, depth + 1);
  } else {
    const entries = mapEntries(value as ValueMap);
    writer.varint(entries.length);
    for (const [name, each] of entries) {
      appendName(writer, name);
      appendValue(writer, each, depth + 1);
    }
  }
  leadWithLength(writer, start);
  return kind === KIND.list ? D_LIST : D_MAP;
}

function appendName(writer: ByteWriter, name: string): void {
  const byteCount = utf8Length(name);
  const start = reserveLed(writer, byteCount);
  const end = writeUtf8(writer.bytes, start, name);
  if (end === MALFORMED) throw loneSurrogate(name);
  writer.length = end;
}

/** Puts the length of what was written from `start` on in front of it. */
function leadWithLength(writer: ByteWriter, start: number): void {
  const byteCount = writer.length - start;
  const ledBytes = varintBytes(byteCount);
  writer.reserve(ledBytes);
  writer.bytes.copyWithin(start + ledBytes, start, writer.length);
  writeVarint(writer.bytes, start, byteCount);
  writer.length += ledBytes;
}

function writeTemporal(writer: ByteWriter, value: Value): number {
  writer.reserve(64);
  const start = writer.length;
  if (value instanceof LocalDate) {
    writeInt48(writer, value.day);
    return D_DATE;
  }
  if (value instanceof LocalTime) {
    writeInt48(writer, value.nanosecond);
    return D_TIME;
  }
  if (value instanceof ZonedTime) {
    writeInt48(writer, value.nanosecond);
    writeInt24(writer, value.offsetSeconds);
    return D_ZONED_TIME;
  }
  if (value instanceof LocalDateTime) {
    writeInt48(writer, value.day);
    writeInt48(writer, value.nanosecond);
    return D_LOCAL_DATETIME;
  }
  if (value instanceof ZonedDateTime || value instanceof Date) {
    const at = toZoned(value);
    writeInt48(writer, at.day);
    writeInt48(writer, at.nanosecond);
    writeInt24(writer, at.offsetSeconds);
    const zone = at.zone ?? '';
    writer.reserve(zone.length);
    writeAscii(writer.bytes, writer.length, zone);
    writer.length += zone.length;
    leadWithLength(writer, start);
    return D_DATETIME;
  }
  if (value instanceof Duration) return writeDuration(writer, value);
  return writePoint(writer, value as Point);
}

function writeDuration(writer: ByteWriter, value: Duration): number {
  const start = writer.length;
  for (const part of [value.months, value.days, value.seconds]) appendValue(writer, part, 0);
  writer.reserve(4);
  writeInt32(writer.bytes, writer.length, value.nanoseconds);
  writer.length += 4;
  leadWithLength(writer, start);
  return D_DURATION;
}

function writePoint(writer: ByteWriter, value: Point): number {
  const start = writer.length;
  writer.reserve(4);
  writeInt32(writer.bytes, start, value.srid);
  writer.length += 4;
  writer.float64(value.x);
  writer.float64(value.y);
  if (value.z !== undefined) writer.float64(value.z);
  leadWithLength(writer, start);
  return D_POINT;
}

function writeInt24(writer: ByteWriter, value: number): void {
  writer.reserve(4);
  writeInt32(writer.bytes, writer.length, value);
  writer.length += 3;
}

function writeInt48(writer: ByteWriter, value: number): void {
  writer.reserve(8);
  writeInt32(writer.bytes, writer.length, value);
  writeInt32(writer.bytes, writer.length + 4, Math.floor(value / 2 ** 32));
  writer.length += 6;
}

// Reading.

/** Where the payload of a descriptor at `offset` ends. */
export function skipPayload(
  bytes: Uint8Array,
  offset: number,
  end: number,
  descriptor: number,
): number {
  let size = PAYLOAD_BYTES[descriptor]!;
  if (size < 0) {
    if (size === FREE) throw malformedRecord(bytes, offset, end);
    size = readVarint(bytes, offset, end);
    if (size === MALFORMED) throw malformedRecord(bytes, offset, end);
    offset = skipVarint(bytes, offset);
  }
  if (size > end - offset) throw malformedRecord(bytes, offset, end);
  return offset + size;
}

/** Where the value (descriptor and payload) at `offset` ends. */
export function skipValue(bytes: Uint8Array, offset: number, end: number): number {
  if (offset >= end) throw malformedRecord(bytes, offset, end);
  return skipPayload(bytes, offset + 1, end, bytes[offset]!);
}

/** Reads the value (descriptor and payload) that fills the bytes. */
export function readWholeValue(bytes: Uint8Array, offset: number, end: number): Value {
  if (skipValue(bytes, offset, end) !== end) throw malformedRecord(bytes, offset, end);
  return readPayload(bytes, offset + 1, end, bytes[offset]!, 0);
}

/**
 * Reads the payload of a descriptor.
 *
 * @throws {CorruptionError} corrupt.record when there is no such value before `end`.
 */
export function readPayload(
  bytes: Uint8Array,
  offset: number,
  end: number,
  descriptor: number,
  depth = 0,
): Value {
  if (descriptor >= D_SHORT_ASCII) {
    const length = descriptor - D_SHORT_ASCII;
    if (length > end - offset) throw malformedRecord(bytes, offset, end);
    return readAscii(bytes, offset, length);
  }
  if (descriptor >= D_SMALL_INT && descriptor < D_SMALL_INT_END) return descriptor - D_SMALL_INT;
  const to = skipPayload(bytes, offset, end, descriptor);
  switch (descriptor) {
    case D_NULL:
      return null;
    case D_FALSE:
      return false;
    case D_TRUE:
      return true;
    case D_INT8:
      return (bytes[offset]! << 24) >> 24;
    case D_INT16:
      return ((bytes[offset]! << 16) | (bytes[offset + 1]! << 24)) >> 16;
    case D_INT24:
      return readInt24(bytes, offset);
    case D_INT32:
      return readInt32(bytes, offset);
    case D_INT48:
      return readInt48(bytes, offset);
    case D_INT64:
      return readInt64(bytes, offset);
    case D_FLOAT64:
      return readFloat64(bytes, offset);
    case D_FLOAT32:
      return readFloat32(bytes, offset);
    default:
      return readRare(bytes, offset, to, descriptor, depth);
  }
}

function readInt24(bytes: Uint8Array, offset: number): number {
  return ((bytes[offset]! << 8) | (bytes[offset + 1]! << 16) | (bytes[offset + 2]! << 24)) >> 8;
}

function readInt48(bytes: Uint8Array, offset: number): number {
  const high = ((bytes[offset + 4]! << 16) | (bytes[offset + 5]! << 24)) >> 16;
  return high * 2 ** 32 + (readInt32(bytes, offset) >>> 0);
}

function readInt64(bytes: Uint8Array, offset: number): Integer {
  const low = readInt32(bytes, offset) >>> 0;
  const high = readInt32(bytes, offset + 4);
  const value = high * 2 ** 32 + low;
  return Number.isSafeInteger(value) ? value : (BigInt(high) << 32n) + BigInt(low);
}

export function readFloat32(bytes: Uint8Array, offset: number): number {
  singleWord[0] = readInt32(bytes, offset);
  return single[0]!;
}

/** Reads a payload of a kind that is long or rare; it lies between `offset` and `to`. */
function readRare(
  bytes: Uint8Array,
  offset: number,
  to: number,
  descriptor: number,
  depth: number,
): Value {
  if (PAYLOAD_BYTES[descriptor] === LED) offset = skipVarint(bytes, offset);
  switch (descriptor) {
    case D_ASCII:
      return readAscii(bytes, offset, to - offset);
    case D_BYTES:
      return bytes.slice(offset, to);
    case D_LIST:
      return readList(bytes, offset, to, depth);
    case D_MAP:
      return readMap(bytes, offset, to, depth);
    case D_DATE:
    case D_TIME:
    case D_ZONED_TIME:
    case D_LOCAL_DATETIME:
    case D_DATETIME:
    case D_DURATION:
    case D_POINT:
      return readTemporal(bytes, offset, to, descriptor);
    default: {
      const text = readUtf8(bytes, offset, to);
      if (text === undefined) throw malformedRecord(bytes, offset, to);
      return text;
    }
  }
}

/** The number of members of a list or map; each takes a byte at least, so damage costs nothing. */
function readCount(bytes: Uint8Array, offset: number, to: number): number {
  const count = readVarint(bytes, offset, to);
  if (count === MALFORMED || count > to - offset) throw malformedRecord(bytes, offset, to);
  return count;
}

function readList(bytes: Uint8Array, offset: number, to: number, depth: number): Value[] {
  if (depth > VALUE_DEPTH_MAX) throw malformedRecord(bytes, offset, to);
  const count = readCount(bytes, offset, to);
  const list: Value[] = [];
  offset = skipVarint(bytes, offset);
  for (let i = 0; i < count; i++) {
    const next = skipValue(bytes, offset, to);
    list.push(readPayload(bytes, offset + 1, next, bytes[offset]!, depth + 1));
    offset = next;
  }
  if (offset !== to) throw malformedRecord(bytes, offset, to);
  return list;
}

function readMap(bytes: Uint8Array, offset: number, to: number, depth: number): Value {
  if (depth > VALUE_DEPTH_MAX) throw malformedRecord(bytes, offset, to);
  const count = readCount(bytes, offset, to);
  const map: Record<string, Value> = {};
  offset = skipVarint(bytes, offset);
  for (let i = 0; i < count; i++) {
    const nameBytes = readVarint(bytes, offset, to);
    if (nameBytes === MALFORMED) throw malformedRecord(bytes, offset, to);
    const nameFrom = skipVarint(bytes, offset);
    if (nameBytes > to - nameFrom) throw malformedRecord(bytes, offset, to);
    const name = readUtf8(bytes, nameFrom, nameFrom + nameBytes);
    if (name === undefined) throw malformedRecord(bytes, offset, to);
    offset = nameFrom + nameBytes;
    const next = skipValue(bytes, offset, to);
    setField(map, name, readPayload(bytes, offset + 1, next, bytes[offset]!, depth + 1));
    offset = next;
  }
  if (offset !== to) throw malformedRecord(bytes, offset, to);
  return map;
}

function readTemporal(bytes: Uint8Array, at: number, to: number, descriptor: number): Value {
  try {
    switch (descriptor) {
      case D_DATE:
        return new LocalDate(readInt48(bytes, at));
      case D_TIME:
        return new LocalTime(readInt48(bytes, at));
      case D_ZONED_TIME:
        return new ZonedTime(readInt48(bytes, at), readInt24(bytes, at + 6));
      case D_LOCAL_DATETIME:
        return new LocalDateTime(readInt48(bytes, at), readInt48(bytes, at + 6));
      case D_DATETIME:
        return readDatetime(bytes, at, to);
      case D_DURATION:
        return readDuration(bytes, at, to);
      default:
        return readPoint(bytes, at, to);
    }
  } catch (cause) {
    throw malformedRecord(bytes, at, to, cause);
  }
}

function readDatetime(bytes: Uint8Array, at: number, to: number): Value {
  if (to - at < 15) throw malformedRecord(bytes, at, to);
  const zone = to - at === 15 ? undefined : readAscii(bytes, at + 15, to - at - 15);
  const day = readInt48(bytes, at);
  return new ZonedDateTime(day, readInt48(bytes, at + 6), readInt24(bytes, at + 12), zone);
}

function readDuration(bytes: Uint8Array, at: number, to: number): Value {
  const parts: Integer[] = [];
  for (let i = 0; i < 3; i++) {
    const next = skipValue(bytes, at, to);
    const part = readPayload(bytes, at + 1, next, bytes[at]!);
    if (kindOf(part) !== KIND.int) throw malformedRecord(bytes, at, to);
    parts.push(part as Integer);
    at = next;
  }
  if (to - at !== 4) throw malformedRecord(bytes, at, to);
  return new Duration(parts[0]!, parts[1]!, parts[2]!, readInt32(bytes, at));
}

function readPoint(bytes: Uint8Array, at: number, to: number): Value {
  if (to - at !== 20 && to - at !== 28) throw malformedRecord(bytes, at, to);
  const z = to - at === 28 ? readFloat64(bytes, at + 20) : undefined;
  return new Point(
    readInt32(bytes, at),
    readFloat64(bytes, at + 4),
    readFloat64(bytes, at + 12),
    z,
  );
}

/**
 * A value whose JavaScript form keeps its kind: a float that looks whole comes as `float(x)`.
 * For whoever writes the value again, or shows its type.
 */
export function withKind(value: Value, kind: Kind): Value {
  return kind === KIND.float && isIntegerNumber(value as number)
    ? new Float(value as number)
    : value;
}
