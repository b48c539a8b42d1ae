/**
 * Keys: what the parts of `key-parts.ts` are put together to.
 *
 *   record id     8 bytes, highest first, sign turned over; no tag
 *   text key      UTF-8 bytes of the text; no tag, no terminator: the tree knows its length
 *   bytes key     the bytes
 *   composite     one encoded part after the other; a descending part is turned over bit by bit
 *
 * Bytes of equal keys are equal, and order as the keys do. A key range is half open: from a key,
 * included, to a key, excluded; `successor` makes the key behind all those with a prefix.
 */
import {
  MALFORMED,
  readBigEndian32,
  readUtf8,
  writeBigEndian32,
  writeUtf8,
} from '../base/bytes.ts';
import type { ByteWriter } from '../base/bytes.ts';
import { failure } from '../errors.ts';
import { KEY_BYTES_MAX } from '../limits.ts';
import type { Collation } from './collation.ts';
import { appendPart, appendStoredPart, PartReader, skipPart, TAG_NULL } from './key-parts.ts';
import type { RecordReader } from './record.ts';
import type { Integer } from './temporal.ts';
import type { Value } from './value.ts';

/** How one part of a composite key is ordered. */
export interface KeyOrder {
  readonly descending: boolean;
  readonly collation: Collation;
}

/** Refuses a key that is too long. */
export function requireKeySize(byteCount: number): void {
  if (byteCount <= KEY_BYTES_MAX) return;
  throw failure('value.size', `a key of ${byteCount} bytes is above the limit ${KEY_BYTES_MAX}`, {
    detail: { bytes: byteCount, limit: KEY_BYTES_MAX },
  });
}

/** The order-preserving encoding of composite keys of one order. */
export class KeyCodec {
  readonly parts: readonly KeyOrder[];

  constructor(parts: readonly KeyOrder[]) {
    this.parts = parts;
  }

  /** Writes the key of as many values as are given into an emptied buffer; answers its bytes. */
  encode(values: readonly Value[], into: ByteWriter): number {
    into.length = 0;
    for (let i = 0; i < values.length; i++) this.append(i, values[i]!, into);
    requireKeySize(into.length);
    return into.length;
  }

  /** Appends one part. */
  append(ordinal: number, value: Value, into: ByteWriter): void {
    const part = this.parts[ordinal]!;
    const start = into.length;
    appendPart(into, value, part.collation);
    if (part.descending) invert(into.bytes, start, into.length);
  }

  /** Appends one part that a record reader has located. */
  appendStored(ordinal: number, reader: RecordReader, into: ByteWriter): void {
    const part = this.parts[ordinal]!;
    const start = into.length;
    const { bytes, offset, end, descriptor } = reader;
    appendStoredPart(into, bytes, offset, end, descriptor, part.collation);
    if (part.descending) invert(into.bytes, start, into.length);
  }

  /**
   * The values of a key, or of its first `count` parts. An integer and a float that are equal
   * come back the same, text as its collation left it.
   *
   * @throws {CorruptionError} corrupt.record when the bytes are no such key.
   */
  decode(bytes: Uint8Array, from: number, to: number, count = this.parts.length): Value[] {
    const values: Value[] = [];
    let offset = from;
    for (let i = 0; i < count; i++) {
      const reader = this.#readerAt(i, bytes, offset, to);
      const start = reader.offset;
      values.push(reader.read());
      offset += reader.offset - start;
    }
    return values;
  }

  /** Where the first `count` parts of a key end. */
  end(bytes: Uint8Array, from: number, to: number, count = this.parts.length): number {
    let offset = from;
    for (let i = 0; i < count; i++) {
      if (this.parts[i]!.descending) {
        const reader = this.#readerAt(i, bytes, offset, to);
        reader.read();
        offset += reader.offset;
      } else offset = skipPart(bytes, offset, to);
    }
    return offset;
  }

  #readerAt(ordinal: number, bytes: Uint8Array, offset: number, to: number): PartReader {
    if (!this.parts[ordinal]!.descending) return new PartReader(bytes, offset, to);
    const turned = bytes.slice(offset, to);
    invert(turned, 0, turned.length);
    return new PartReader(turned, 0, turned.length);
  }
}

/** Whether a part that starts with this byte is a null. */
export function isNullTag(byte: number, descending: boolean): boolean {
  return (descending ? byte ^ 0xff : byte) === TAG_NULL;
}

function invert(bytes: Uint8Array, from: number, to: number): void {
  for (let i = from; i < to; i++) bytes[i] = ~bytes[i]!;
}

/**
 * Turns a prefix into the least key behind all keys that start with it; answers its bytes,
 * 0 if there is none (the prefix is empty or all ff).
 */
export function successor(writer: ByteWriter): number {
  let length = writer.length;
  while (length > 0 && writer.bytes[length - 1] === 0xff) length--;
  if (length > 0) writer.bytes[length - 1]!++;
  writer.length = length;
  return length;
}

export const ID_BYTES = 8;

/** Writes a record id as a key of 8 bytes. */
export function writeIdKey(bytes: Uint8Array, offset: number, id: Integer): void {
  if (typeof id === 'number') {
    writeBigEndian32(bytes, offset, Math.floor(id / 2 ** 32) ^ 0x8000_0000);
    writeBigEndian32(bytes, offset + 4, id);
  } else {
    const bits = BigInt.asUintN(64, id);
    writeBigEndian32(bytes, offset, Number(bits >> 32n) ^ 0x8000_0000);
    writeBigEndian32(bytes, offset + 4, Number(bits & 0xffff_ffffn));
  }
}

/** The record id of a key of 8 bytes. */
export function readIdKey(bytes: Uint8Array, offset: number): Integer {
  const high = (readBigEndian32(bytes, offset) ^ 0x8000_0000) | 0;
  const low = readBigEndian32(bytes, offset + 4);
  if (high >= -0x20_0000 && high < 0x20_0000) {
    const id = high * 2 ** 32 + low;
    if (Number.isSafeInteger(id)) return id;
  }
  return (BigInt(high) << 32n) + BigInt(low);
}

/** Appends a text as a whole key. */
export function appendTextKey(writer: ByteWriter, text: string): void {
  const length = text.length;
  writer.reserve(3 * length);
  const bytes = writer.bytes;
  const start = writer.length;
  for (let i = 0; i < length; i++) {
    const unit = text.charCodeAt(i);
    if (unit >= 0x80) return appendWideTextKey(writer, text);
    bytes[start + i] = unit;
  }
  writer.length = start + length;
}

function appendWideTextKey(writer: ByteWriter, text: string): void {
  const end = writeUtf8(writer.bytes, writer.length, text);
  if (end === MALFORMED) throw failure('value.text', `a key has a lone surrogate: ${text}`);
  writer.length = end;
}

/** @throws {CorruptionError} corrupt.record when the bytes are not UTF-8. */
export function readTextKey(bytes: Uint8Array, from: number, to: number): string {
  const text = readUtf8(bytes, from, to);
  if (text === undefined) throw failure('corrupt.record', 'a text key is not UTF-8');
  return text;
}
