/**
 * Postings: the integer ids of the records that share one index key, compressed.
 *
 *   block      first id (zigzag varint), then the distance to each next id (varint, never 0)
 *   head       the block under the index key itself; a byte 00 behind it says that more follow
 *   further    blocks under index key + first id at the time (8 bytes as in key.ts): ids from
 *              there on, up to the next block's
 *
 * A key with one record is a block of one id: two or three bytes. Index keys say themselves where
 * they end, so no other key lies between a head and its further blocks. A head is never empty while
 * there are further blocks. Varints go up to 2^64 here: ids beyond 2^52 are worked on as bigint.
 */
import { MALFORMED, readVarint, skipVarint, writeVarint, type ByteWriter } from '../base/bytes.ts';
import { failure } from '../errors.ts';
import { toInteger, type Integer } from '../model/temporal.ts';

/** A block that grows beyond this is split: long enough to pay, short enough to rewrite. */
export const BLOCK_BYTES_MAX = 400;

const CONTINUED = 0;
const NARROW = 2 ** 52;
const VARINT_BYTES_MAX = 10;

function malformed(what: string): Error {
  return failure('corrupt.record', `malformed posting: ${what}`);
}

/** Whether the ids of a key go on behind this head. */
export function isContinued(bytes: Uint8Array, from: number, to: number): boolean {
  // A block that ends in 00 is one id 0 if it has one byte; a distance is never 0.
  return to - from > 1 && bytes[to - 1] === CONTINUED;
}

function isNarrow(id: Integer): id is number {
  return typeof id === 'number' && id < NARROW && id > -NARROW;
}

function writeWide(bytes: Uint8Array, offset: number, value: bigint): number {
  for (; value >= 128n; value >>= 7n) bytes[offset++] = Number(value & 0x7fn) | 0x80;
  bytes[offset++] = Number(value);
  return offset;
}

function readWide(bytes: Uint8Array, offset: number, to: number): bigint {
  let value = 0n;
  for (let shift = 0n; shift < 70n; shift += 7n) {
    if (offset >= to) break;
    const byte = bytes[offset++]!;
    value |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) return BigInt.asUintN(64, value);
  }
  throw malformed('it ends inside a number');
}

/** Writes the first id of a block; answers where it ends. */
function writeFirst(bytes: Uint8Array, offset: number, id: Integer): number {
  if (isNarrow(id)) return writeVarint(bytes, offset, id >= 0 ? id * 2 : -id * 2 - 1);
  const wide = BigInt(id);
  return writeWide(bytes, offset, wide >= 0n ? wide * 2n : -wide * 2n - 1n);
}

/** Writes the distance from one id up to another. */
function writeDistance(bytes: Uint8Array, offset: number, from: Integer, to: Integer): number {
  if (isNarrow(from) && isNarrow(to)) return writeVarint(bytes, offset, to - from);
  return writeWide(bytes, offset, BigInt(to) - BigInt(from));
}

/** Walks over the ids of a block. */
export class PostingWalk {
  bytes: Uint8Array = new Uint8Array(0);
  /** Where the next number begins, and where the block ends, without a mark of continuation. */
  offset = 0;
  to = 0;
  /** The id that the last `next` came to. */
  id: Integer = 0;
  isContinued = false;
  #first = true;

  open(bytes: Uint8Array, from: number, to: number): void {
    this.bytes = bytes;
    this.isContinued = isContinued(bytes, from, to);
    this.offset = from;
    this.to = this.isContinued ? to - 1 : to;
    this.id = 0;
    this.#first = true;
    if (this.offset >= this.to) throw malformed('a block is empty');
  }

  /** Goes to the next id; answers false at the end. */
  next(): boolean {
    const { bytes, offset, to } = this;
    if (offset >= to) return false;
    const number = readVarint(bytes, offset, to);
    if (this.#first) {
      this.#first = false;
      this.id = number === MALFORMED ? wideFirst(bytes, offset, to) : narrowFirst(number);
    } else {
      if (number === 0) throw malformed('an id follows itself');
      this.id = this.#plus(number);
    }
    this.offset = skipVarint(bytes, offset);
    return true;
  }

  /** The id that lies a distance behind this one; `MALFORMED` for a distance of many bits. */
  #plus(distance: number): Integer {
    const { id } = this;
    if (distance !== MALFORMED && typeof id === 'number') {
      const sum = id + distance;
      if (Number.isSafeInteger(sum)) return sum;
    }
    return wideSum(id, readWide(this.bytes, this.offset, this.to));
  }
}

function narrowFirst(number: number): Integer {
  return number % 2 === 0 ? number / 2 : -(number + 1) / 2;
}

function wideFirst(bytes: Uint8Array, offset: number, to: number): Integer {
  const wide = readWide(bytes, offset, to);
  return toInteger(wide % 2n === 0n ? wide / 2n : -(wide / 2n) - 1n);
}

function wideSum(id: Integer, distance: bigint): Integer {
  const sum = BigInt(id) + distance;
  if (distance === 0n || sum !== BigInt.asIntN(64, sum)) throw malformed('an id is out of range');
  return toInteger(sum);
}

const walk = new PostingWalk();

/** Writes a block of one id. */
export function writeSingle(writer: ByteWriter, id: Integer): void {
  writer.length = 0;
  writer.reserve(VARINT_BYTES_MAX);
  writer.length = writeFirst(writer.bytes, 0, id);
}

/** Appends an id to a block, without a mark, whose last id is known and less. */
export function appendId(writer: ByteWriter, last: Integer, id: Integer): void {
  writer.reserve(VARINT_BYTES_MAX);
  writer.length = writeDistance(writer.bytes, writer.length, last, id);
}

/** Writes a block with an id put in; answers false, with nothing written, if it is there. */
export function writeWith(
  bytes: Uint8Array,
  from: number,
  to: number,
  id: Integer,
  writer: ByteWriter,
): boolean {
  walk.open(bytes, from, to);
  writer.length = 0;
  writer.reserve(to - from + 3 * VARINT_BYTES_MAX);
  let before: Integer | undefined;
  let at = from;
  while (walk.next()) {
    if (walk.id >= id) break;
    before = walk.id;
    at = walk.offset;
  }
  const isLast = at === walk.to;
  if (!isLast && walk.id === id) return false;
  writer.append(bytes, from, at);
  let end = writer.length;
  const out = writer.bytes;
  end = before === undefined ? writeFirst(out, end, id) : writeDistance(out, end, before, id);
  if (!isLast) end = writeDistance(out, end, id, walk.id);
  writer.length = end;
  writer.append(bytes, isLast ? at : walk.offset, to);
  return true;
}

/**
 * Writes a block without an id; answers false if it is not there. What is left may be empty, or the
 * mark of continuation alone.
 */
export function writeWithout(
  bytes: Uint8Array,
  from: number,
  to: number,
  id: Integer,
  writer: ByteWriter,
): boolean {
  walk.open(bytes, from, to);
  writer.length = 0;
  writer.reserve(to - from + VARINT_BYTES_MAX);
  let before: Integer | undefined;
  let at = from;
  for (;;) {
    if (!walk.next() || walk.id > id) return false;
    if (walk.id === id) break;
    before = walk.id;
    at = walk.offset;
  }
  writer.append(bytes, from, at);
  if (walk.next()) {
    const end = writer.length;
    writer.length =
      before === undefined
        ? writeFirst(writer.bytes, end, walk.id)
        : writeDistance(writer.bytes, end, before, walk.id);
  }
  writer.append(bytes, walk.offset, to);
  return true;
}

/**
 * Splits a block in the middle: `writer` keeps the first half (without a mark), `second` gets the
 * other. Answers the first id of the second half.
 */
export function splitBlock(writer: ByteWriter, second: ByteWriter): Integer {
  walk.open(writer.bytes, 0, writer.length);
  const middle = walk.to / 2;
  let at = 0;
  while (walk.next() && walk.offset < middle) at = walk.offset;
  second.length = 0;
  second.reserve(walk.to + VARINT_BYTES_MAX);
  const first = walk.id;
  second.length = writeFirst(second.bytes, 0, first);
  second.append(writer.bytes, walk.offset, walk.to);
  writer.length = at;
  return first;
}

/** Marks a head as one that is followed by further blocks. */
export function markContinued(writer: ByteWriter): void {
  writer.byte(CONTINUED);
}
