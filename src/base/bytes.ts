/**
 * Bytes as the encoders write them and the decoders read them: a growable scratch buffer, UTF-8,
 * variable-length integers, comparison.
 *
 * A varint is LEB128: seven bits a byte, the lowest first, the top bit says that more follow; it
 * holds 0 ≤ x < 2^53. Reading never goes past the end that the caller states: where bytes are
 * damaged a reader answers `MALFORMED` and the caller says what was being read.
 *
 * Loops over bytes and characters are written for the machine (STYLE rule 3).
 */
import { SCRATCH_BYTES_KEPT } from '../limits.ts';

/** What readers of numbers answer for bytes that are no number, or that end too early. */
export const MALFORMED = -1;

const float = new Float64Array(1);
const floatBytes = new Uint8Array(float.buffer);
const floatWords = new Int32Array(float.buffer);
const EMPTY = new Uint8Array(0);

/** Bytes above which the built-in routines of the platform beat a loop in JavaScript. */
const NATIVE_BYTES_MIN = 48;

type NativeText = {
  latin1Slice(this: Uint8Array, from: number, to: number): string;
  latin1Write(this: Uint8Array, text: string, offset: number, length: number): number;
  utf8Write(this: Uint8Array, text: string, offset: number, length: number): number;
};
const native = Buffer.prototype as unknown as NativeText;
// Present in Node.js 20; the library types of ES2023 do not know it yet.
const isWellFormed = (String.prototype as unknown as { isWellFormed(this: string): boolean })
  .isWellFormed;
const utf8Decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * A growable scratch buffer. `bytes` is replaced when it grows: read it again after every call
 * that may write.
 */
export class ByteWriter {
  bytes: Uint8Array;
  length: number;
  readonly #initialBytes: number;

  constructor(initialBytes = 1024) {
    this.bytes = new Uint8Array(initialBytes);
    this.length = 0;
    this.#initialBytes = initialBytes;
  }

  /** Makes room for `count` bytes behind `length`. */
  reserve(count: number): void {
    if (this.length + count > this.bytes.length) this.#grow(this.length + count);
  }

  #grow(bytesWanted: number): void {
    const grown = new Uint8Array(Math.max(bytesWanted, this.bytes.length * 2));
    grown.set(this.bytes.subarray(0, this.length));
    this.bytes = grown;
  }

  /** Empties the buffer, and gives memory back if it had grown large. */
  clear(): void {
    this.length = 0;
    if (this.bytes.length > SCRATCH_BYTES_KEPT) this.bytes = new Uint8Array(this.#initialBytes);
  }

  /** Gives memory back if the buffer had grown large; what it holds is lost then. */
  shrink(): void {
    if (this.bytes.length > SCRATCH_BYTES_KEPT) this.clear();
  }

  byte(value: number): void {
    if (this.length === this.bytes.length) this.#grow(this.length + 1);
    this.bytes[this.length++] = value;
  }

  append(source: Uint8Array, from: number, to: number): void {
    const count = to - from;
    this.reserve(count);
    copyBytes(source, from, this.bytes, this.length, count);
    this.length += count;
  }

  varint(value: number): void {
    this.reserve(8);
    this.length = writeVarint(this.bytes, this.length, value);
  }

  float64(value: number): void {
    this.reserve(8);
    writeFloat64(this.bytes, this.length, value);
    this.length += 8;
  }

  /** A copy of what was written, for whoever keeps it. */
  copy(): Uint8Array {
    return this.bytes.slice(0, this.length);
  }
}

/** Copies a few bytes in a loop and many by the platform. */
export function copyBytes(
  source: Uint8Array,
  from: number,
  target: Uint8Array,
  to: number,
  count: number,
): void {
  if (count > NATIVE_BYTES_MIN) target.set(source.subarray(from, from + count), to);
  else for (let i = 0; i < count; i++) target[to + i] = source[from + i]!;
}

/** Sign of the first difference of two pieces of the same length. */
export function comparePieces(
  a: Uint8Array,
  aAt: number,
  b: Uint8Array,
  bAt: number,
  length: number,
): number {
  for (let i = 0; i < length; i++) {
    const difference = a[aAt + i]! - b[bAt + i]!;
    if (difference !== 0) return difference;
  }
  return 0;
}

/** Orders two pieces of bytes as unsigned bytes, a prefix first: negative, 0 or positive. */
export function compareBytes(
  a: Uint8Array,
  aFrom: number,
  aTo: number,
  b: Uint8Array,
  bFrom: number,
  bTo: number,
): number {
  const aLength = aTo - aFrom;
  const bLength = bTo - bFrom;
  const shared = aLength < bLength ? aLength : bLength;
  for (let i = 0; i < shared; i++) {
    const difference = a[aFrom + i]! - b[bFrom + i]!;
    if (difference !== 0) return difference;
  }
  return aLength - bLength;
}

export function writeVarint(bytes: Uint8Array, offset: number, value: number): number {
  while (value >= 0x1000_0000) {
    bytes[offset++] = (value & 0x7f) | 0x80;
    value = Math.floor(value / 128);
  }
  while (value >= 0x80) {
    bytes[offset++] = (value & 0x7f) | 0x80;
    value >>>= 7;
  }
  bytes[offset++] = value;
  return offset;
}

export function varintBytes(value: number): number {
  let count = 1;
  for (; value >= 128; value = Math.floor(value / 128)) count++;
  return count;
}

/** The varint at `offset`, `MALFORMED` if it does not end before `end` or passes 2^53. */
export function readVarint(bytes: Uint8Array, offset: number, end: number): number {
  if (offset >= end) return MALFORMED;
  let byte = bytes[offset++]!;
  if (byte < 0x80) return byte;
  let value = byte & 0x7f;
  for (let scale = 128; scale < 2 ** 53; scale *= 128) {
    if (offset >= end) return MALFORMED;
    byte = bytes[offset++]!;
    value += (byte & 0x7f) * scale;
    if (byte < 0x80) return value <= Number.MAX_SAFE_INTEGER ? value : MALFORMED;
  }
  return MALFORMED;
}

/** Where the varint that was read at `offset` ends. */
export function skipVarint(bytes: Uint8Array, offset: number): number {
  while (bytes[offset]! >= 0x80) offset++;
  return offset + 1;
}

export function writeFloat64(bytes: Uint8Array, offset: number, value: number): void {
  float[0] = value;
  for (let i = 0; i < 8; i++) bytes[offset + i] = floatBytes[i]!;
}

export function readFloat64(bytes: Uint8Array, offset: number): number {
  floatWords[0] = readInt32(bytes, offset);
  floatWords[1] = readInt32(bytes, offset + 4);
  return float[0]!;
}

/** Writes the low 32 bits of a number, lowest byte first. */
export function writeInt32(bytes: Uint8Array, offset: number, value: number): void {
  bytes[offset] = value;
  bytes[offset + 1] = value >>> 8;
  bytes[offset + 2] = value >>> 16;
  bytes[offset + 3] = value >>> 24;
}

export function readInt32(bytes: Uint8Array, offset: number): number {
  return (
    bytes[offset]! |
    (bytes[offset + 1]! << 8) |
    (bytes[offset + 2]! << 16) |
    (bytes[offset + 3]! << 24)
  );
}

/** Writes the low 32 bits of a number, highest byte first. */
export function writeBigEndian32(bytes: Uint8Array, offset: number, value: number): void {
  bytes[offset] = value >>> 24;
  bytes[offset + 1] = value >>> 16;
  bytes[offset + 2] = value >>> 8;
  bytes[offset + 3] = value;
}

/** The 32 bits at `offset`, highest byte first, as a number from 0 on. */
export function readBigEndian32(bytes: Uint8Array, offset: number): number {
  return (
    ((bytes[offset]! << 24) |
      (bytes[offset + 1]! << 16) |
      (bytes[offset + 2]! << 8) |
      bytes[offset + 3]!) >>>
    0
  );
}

/** Bytes of a text in UTF-8; a lone surrogate counts three. */
export function utf8Length(text: string): number {
  let count = text.length;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit < 0x80) continue;
    if (unit < 0x800) count++;
    else {
      count += 2;
      if (unit >= 0xd800 && unit < 0xdc00 && i + 1 < text.length) {
        const next = text.charCodeAt(i + 1);
        if (next >= 0xdc00 && next < 0xe000) i++;
      }
    }
  }
  return count;
}

/**
 * Writes a text whose characters are all below 128; answers false, with some of it written, when
 * one is not. There must be room for one byte a character.
 */
export function writeAscii(bytes: Uint8Array, offset: number, text: string): boolean {
  const length = text.length;
  for (let i = 0; i < length; i++) {
    const unit = text.charCodeAt(i);
    if (unit >= 0x80) return false;
    bytes[offset + i] = unit;
  }
  return true;
}

/**
 * Writes a text as UTF-8; answers where it ends, `MALFORMED` when it has a lone surrogate. There
 * must be room for three bytes a character.
 */
export function writeUtf8(bytes: Uint8Array, offset: number, text: string): number {
  if (text.length > NATIVE_BYTES_MIN) {
    if (!isWellFormed.call(text)) return MALFORMED;
    return offset + native.utf8Write.call(bytes, text, offset, bytes.length - offset);
  }
  for (let i = 0; i < text.length; i++) {
    let point = text.charCodeAt(i);
    if (point < 0x80) {
      bytes[offset++] = point;
      continue;
    }
    if (point < 0x800) bytes[offset++] = 0xc0 | (point >> 6);
    else {
      if (point >= 0xd800 && point < 0xe000) {
        point = text.codePointAt(i)!;
        if (point < 0x1_0000) return MALFORMED;
        i++;
        bytes[offset++] = 0xf0 | (point >> 18);
        bytes[offset++] = 0x80 | ((point >> 12) & 0x3f);
      } else bytes[offset++] = 0xe0 | (point >> 12);
      bytes[offset++] = 0x80 | ((point >> 6) & 0x3f);
    }
    bytes[offset++] = 0x80 | (point & 0x3f);
  }
  return offset;
}

/** A text of bytes below 128. Eight characters a call, and never a rope (FEASIBILITY 6). */
export function readAscii(b: Uint8Array, at: number, length: number): string {
  const f = String.fromCharCode;
  switch (length) {
    case 0:
      return '';
    case 1:
      return f(b[at]!);
    case 2:
      return f(b[at]!, b[at + 1]!);
    case 3:
      return f(b[at]!, b[at + 1]!, b[at + 2]!);
    case 4:
      return f(b[at]!, b[at + 1]!, b[at + 2]!, b[at + 3]!);
    case 5:
      return f(b[at]!, b[at + 1]!, b[at + 2]!, b[at + 3]!, b[at + 4]!);
    case 6:
      return f(b[at]!, b[at + 1]!, b[at + 2]!, b[at + 3]!, b[at + 4]!, b[at + 5]!);
    case 7:
      return f(b[at]!, b[at + 1]!, b[at + 2]!, b[at + 3]!, b[at + 4]!, b[at + 5]!, b[at + 6]!);
    case 8:
      // prettier-ignore
      return f(b[at]!, b[at + 1]!, b[at + 2]!, b[at + 3]!, b[at + 4]!, b[at + 5]!, b[at + 6]!,
        b[at + 7]!);
    case 9:
      // prettier-ignore
      return f(b[at]!, b[at + 1]!, b[at + 2]!, b[at + 3]!, b[at + 4]!, b[at + 5]!, b[at + 6]!,
        b[at + 7]!, b[at + 8]!);
    case 10:
      // prettier-ignore
      return f(b[at]!, b[at + 1]!, b[at + 2]!, b[at + 3]!, b[at + 4]!, b[at + 5]!, b[at + 6]!,
        b[at + 7]!, b[at + 8]!, b[at + 9]!);
    case 11:
      // prettier-ignore
      return f(b[at]!, b[at + 1]!, b[at + 2]!, b[at + 3]!, b[at + 4]!, b[at + 5]!, b[at + 6]!,
        b[at + 7]!, b[at + 8]!, b[at + 9]!, b[at + 10]!);
    case 12:
      // prettier-ignore
      return f(b[at]!, b[at + 1]!, b[at + 2]!, b[at + 3]!, b[at + 4]!, b[at + 5]!, b[at + 6]!,
        b[at + 7]!, b[at + 8]!, b[at + 9]!, b[at + 10]!, b[at + 11]!);
    default:
      return native.latin1Slice.call(b, at, at + length);
  }
}

/** A text of UTF-8 bytes, `undefined` if they are not valid UTF-8. */
export function readUtf8(bytes: Uint8Array, from: number, to: number): string | undefined {
  let ascii = true;
  for (let i = from; i < to; i++) {
    if (bytes[i]! >= 0x80) {
      ascii = false;
      break;
    }
  }
  if (ascii) return readAscii(bytes, from, to - from);
  try {
    return utf8Decoder.decode(bytes.subarray(from, to));
  } catch {
    return undefined;
  }
}

/** The bytes of a text in UTF-8, `undefined` if it has a lone surrogate. */
export function utf8Bytes(text: string): Uint8Array | undefined {
  if (text === '') return EMPTY;
  const bytes = new Uint8Array(text.length * 3);
  const end = writeUtf8(bytes, 0, text);
  return end === MALFORMED ? undefined : bytes.slice(0, end);
}

/**
 * Orders two texts by their UTF-8 bytes. UTF-16 units order the same, except that surrogates
 * (above U+FFFF) belong behind U+E000 to U+FFFF.
 */
export function compareText(a: string, b: string): number {
  if (a === b) return 0;
  const shared = a.length < b.length ? a.length : b.length;
  for (let i = 0; i < shared; i++) {
    const x = a.charCodeAt(i);
    const y = b.charCodeAt(i);
    if (x === y) continue;
    if (x >= 0xd800 && y >= 0xd800) return utf8Rank(x) - utf8Rank(y);
    return x - y;
  }
  return a.length - b.length;
}

function utf8Rank(unit: number): number {
  return unit < 0xe000 ? unit + 0x1_0000 : unit;
}

/** Bytes as hexadecimal digits, for messages: at most `countMax` of them. */
export function hexOf(bytes: Uint8Array, from: number, to: number, countMax = 32): string {
  let text = '';
  for (let i = from; i < to && i < from + countMax; i++)
    text += bytes[i]!.toString(16).padStart(2, '0');
  return to - from > countMax ? `${text}…` : text;
}
