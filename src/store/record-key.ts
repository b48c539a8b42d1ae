/**
 * How a collection's records are keyed in its tree.
 *
 *   id         integer record ids: 8 bytes, in order
 *   text       one text field, binary and ascending: its UTF-8 bytes
 *   bytes      one bytes field, ascending: the bytes
 *   composite  any other key: the encoded parts
 *
 * A record id is the integer for `id`, and the key's bytes for the others.
 */
import type { ByteWriter } from '../base/bytes.ts';
import { failure } from '../errors.ts';
import type { RecordId } from '../model/batch.ts';
import type { Collations } from '../model/collation.ts';
import {
  appendTextKey,
  ID_BYTES,
  KeyCodec,
  readIdKey,
  readTextKey,
  requireKeySize,
  successor,
  writeIdKey,
} from '../model/key.ts';
import type { RecordReader } from '../model/record.ts';
import { describeValue, fieldOf, type CollectionDefinition } from '../model/schema.ts';
import { toInteger, type Integer } from '../model/temporal.ts';
import { compareValues, Float, Int, KIND, kindOf, numberOf, type Value } from '../model/value.ts';
import type { PartSources } from './part-sources.ts';

export type KeyForm = 'id' | 'text' | 'bytes' | 'composite';

/** What became of a bound: a key, or the place before or behind all keys. */
export type Bound = 'key' | 'before' | 'behind';

const INT64_MIN = -(2n ** 63n);
const INT64_MAX = 2n ** 63n - 1n;

export class RecordKeys {
  readonly form: KeyForm;
  readonly #name: string;
  readonly #codec: KeyCodec | undefined;
  readonly #sources: PartSources | undefined;

  constructor(
    definition: CollectionDefinition,
    sources: PartSources | undefined,
    codec?: KeyCodec,
  ) {
    this.#name = definition.name;
    this.form = formOf(definition);
    this.#sources = sources;
    this.#codec = codec;
  }

  /** `sources`: how keys are found in records; not for buckets, whose keys are given apart. */
  static of(
    definition: CollectionDefinition,
    collations: Collations,
    sources?: (parts: CollectionKeyParts) => PartSources,
  ): RecordKeys {
    const { key } = definition;
    if (key.kind !== 'fields') return new RecordKeys(definition, undefined);
    const orders = key.parts.map((part) => ({
      descending: part.descending,
      collation: collations.get(part.collation),
    }));
    return new RecordKeys(definition, sources?.(key.parts), new KeyCodec(orders));
  }

  /** Writes the key of a record id; answers its bytes. */
  fromId(id: RecordId, into: ByteWriter): number {
    into.length = 0;
    if (typeof id === 'number' && this.form === 'id') {
      if (!Number.isSafeInteger(id)) throw this.#wrongId(id);
      writeIdKey(into.bytes, 0, id);
      return (into.length = ID_BYTES);
    }
    if (id instanceof Uint8Array && this.form !== 'id') {
      into.append(id, 0, id.length);
      return into.length;
    }
    if (typeof id !== 'bigint' || this.form !== 'id') throw this.#wrongId(id);
    writeIdKey(into.bytes, 0, toInteger(id));
    return (into.length = ID_BYTES);
  }

  #wrongId(id: unknown): Error {
    const wanted = this.form === 'id' ? 'integers of 64 bits' : 'the bytes of their keys';
    const shown = describeValue(id);
    return failure('value.type', `record ids of ${this.#name} are ${wanted}, not ${shown}`);
  }

  /** The record id of a key. */
  toId(bytes: Uint8Array, from: number, to: number): RecordId {
    if (this.form !== 'id') return bytes.slice(from, to);
    if (to - from !== ID_BYTES) throw failure('corrupt.record', 'a record id has not 8 bytes');
    return readIdKey(bytes, from);
  }

  /** Writes the key of all its values; answers its bytes. */
  fromValues(values: readonly Value[], into: ByteWriter): number {
    const wanted = this.#codec?.parts.length ?? 1;
    if (values.length !== wanted) {
      const { length } = values;
      throw failure('usage.argument', `a key of ${this.#name} has ${wanted} parts, not ${length}`);
    }
    if (this.form !== 'composite') return this.fromOne(values[0]!, into);
    return this.#codec!.encode(values, into);
  }

  /** Writes the key of its one value; answers its bytes. */
  fromOne(value: Value, into: ByteWriter): number {
    into.length = 0;
    switch (this.form) {
      case 'text':
        if (typeof value !== 'string') throw this.#wrongKey(value, 'text');
        appendTextKey(into, value);
        break;
      case 'id':
        return this.fromId(integerOf(value, this.#name), into);
      case 'bytes':
        if (!(value instanceof Uint8Array)) throw this.#wrongKey(value, 'bytes');
        into.append(value, 0, value.length);
        break;
      case 'composite':
        if (this.#codec!.parts.length !== 1) return this.fromValues([value], into);
        this.#codec!.append(0, value, into);
    }
    requireKeySize(into.length);
    return into.length;
  }

  #wrongKey(value: unknown, type: string): Error {
    return failure('value.type', `keys of ${this.#name} are ${type}, not ${describeValue(value)}`);
  }

  /** Writes the key of an encoded record of a collection organised by key. */
  fromRecord(reader: RecordReader, into: ByteWriter): number {
    into.length = 0;
    if (this.form === 'composite') this.#sources!.appendAll(this.#codec!, reader, into);
    else {
      const value = this.#sources!.value(0, reader);
      if (this.form === 'text') appendTextKey(into, value as string);
      else into.append(value as Uint8Array, 0, (value as Uint8Array).length);
    }
    requireKeySize(into.length);
    return into.length;
  }

  /** The values of a key. */
  toValues(bytes: Uint8Array, from: number, to: number): Value[] {
    switch (this.form) {
      case 'id':
        return [readIdKey(bytes, from)];
      case 'text':
        return [readTextKey(bytes, from, to)];
      case 'bytes':
        return [bytes.slice(from, to)];
      case 'composite':
        return this.#codec!.decode(bytes, from, to);
    }
  }

  /**
   * Writes the least key that is not below the values, or, if `behind`, not below any key that
   * begins with them. Values of another kind than the keys are before or behind them all.
   */
  bound(values: readonly Value[], behind: boolean, into: ByteWriter): Bound {
    into.length = 0;
    if (values.length === 0) return behind ? 'behind' : 'before';
    if (this.form === 'composite') return encodedBound(this.#codec!, values, behind, into);
    const value = values[0]!;
    if (this.form === 'id') return this.#idBound(value, behind, into);
    const kind = kindOf(value);
    const own = this.form === 'text' ? KIND.text : KIND.bytes;
    if (kind !== own) return kind < own ? 'before' : 'behind';
    if (this.form === 'text') appendTextKey(into, value as string);
    else into.append(value as Uint8Array, 0, (value as Uint8Array).length);
    if (behind) into.byte(0);
    return 'key';
  }

  #idBound(value: Value, behind: boolean, into: ByteWriter): Bound {
    if (compareValues(value, -Infinity) < 0) return 'before';
    if (compareValues(value, Infinity) > 0) return 'behind';
    const least = leastInteger(numberOf(value), behind);
    if (least === undefined) return 'behind';
    into.reserve(ID_BYTES);
    writeIdKey(into.bytes, 0, toInteger(least < INT64_MIN ? INT64_MIN : least));
    into.length = ID_BYTES;
    return 'key';
  }
}

export type CollectionKeyParts = Extract<CollectionDefinition['key'], { kind: 'fields' }>['parts'];

/** Bound of a key encoded in parts, as `RecordKeys.bound`. */
export function encodedBound(
  codec: KeyCodec,
  values: readonly Value[],
  behind: boolean,
  into: ByteWriter,
): Bound {
  codec.encode(values, into);
  if (!behind) return 'key';
  return successor(into) === 0 ? 'behind' : 'key';
}

/** The least integer that is at least the value, or above it; `undefined` beyond 64 bits. */
function leastInteger(value: Integer, above: boolean): bigint | undefined {
  if (value === Infinity || Number(value) > 2 ** 63) return undefined;
  if (Number(value) < -(2 ** 63)) return INT64_MIN;
  const exact = typeof value === 'number' ? BigInt(Math.ceil(value)) : value;
  const isWhole = typeof value === 'bigint' || Number.isInteger(value);
  const least = above && isWhole ? exact + 1n : exact;
  return least > INT64_MAX ? undefined : least;
}

function integerOf(value: Value, collection: string): Integer {
  const bare = value instanceof Int || value instanceof Float ? value.value : value;
  if (typeof bare === 'bigint') return toInteger(bare);
  if (typeof bare === 'number' && Number.isSafeInteger(bare)) return bare;
  const shown = describeValue(value);
  throw failure('value.type', `keys of ${collection} are integers, not ${shown}`);
}

function formOf(definition: CollectionDefinition): KeyForm {
  const { key } = definition;
  if (key.kind !== 'fields') return 'id';
  const only = key.parts.length === 1 ? key.parts[0]! : undefined;
  if (only === undefined || only.path !== undefined || only.descending) return 'composite';
  const field = fieldOf(definition, only.field);
  if (field === undefined || field.optional || only.collation !== 'binary') return 'composite';
  return field.type === 'text' || field.type === 'bytes' ? field.type : 'composite';
}
