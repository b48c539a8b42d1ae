/**
 * Where the parts of a key are found in an encoded record: in a slot, in an undeclared field, in
 * the record id, or along a path into a map.
 */
import type { ByteWriter } from '../base/bytes.ts';
import type { KeyCodec } from '../model/key.ts';
import type { RecordCodec, RecordReader } from '../model/record.ts';
import type { KeyPart } from '../model/schema.ts';
import type { Value } from '../model/value.ts';

const RECORD_ID = -1;
const UNDECLARED = -2;

interface PartSource {
  readonly slot: number;
  readonly name: string;
  readonly path: readonly string[] | undefined;
}

export class PartSources {
  readonly #sources: readonly PartSource[];

  constructor(codec: RecordCodec, parts: readonly KeyPart[]) {
    this.#sources = parts.map((part) => {
      const ordinal = codec.ordinalOf(part.field);
      const slot = ordinal === undefined ? UNDECLARED : codec.slotOfField[ordinal]!;
      return { slot, name: part.field, path: part.path };
    });
  }

  get count(): number {
    return this.#sources.length;
  }

  /** The slot that is a part as it is; -1 if it is found otherwise. */
  slotOf(part: number): number {
    const { slot, path } = this.#sources[part]!;
    return path === undefined && slot >= 0 ? slot : -1;
  }

  /** Appends all parts of a key; answers whether one of them is null. */
  appendAll(codec: KeyCodec, reader: RecordReader, into: ByteWriter): boolean {
    let hasNull = false;
    for (let i = 0; i < this.#sources.length; i++) {
      if (this.append(i, codec, reader, into)) hasNull = true;
    }
    return hasNull;
  }

  /** Appends one part of a key; answers whether it is null. */
  append(part: number, codec: KeyCodec, reader: RecordReader, into: ByteWriter): boolean {
    const { slot, path } = this.#sources[part]!;
    if (path === undefined && slot >= 0 && reader.locate(slot)) {
      codec.appendStored(part, reader, into);
      return reader.descriptor === 0;
    }
    const value = this.value(part, reader);
    codec.append(part, value, into);
    return value === null;
  }

  /** The value of a part; null where the record has none. */
  value(part: number, reader: RecordReader): Value {
    const { slot, name, path } = this.#sources[part]!;
    let value: Value | undefined;
    if (slot === RECORD_ID) value = reader.id;
    else if (slot === UNDECLARED) value = reader.getNamed(name);
    else value = reader.getSlot(slot);
    if (path !== undefined) for (const step of path) value = stepInto(value, step);
    return value ?? null;
  }

  /** Whether two records have the same bytes in every part, so that their keys are the same. */
  sameBytes(a: RecordReader, b: RecordReader): boolean {
    for (const { slot } of this.#sources) {
      if (slot < 0) return false;
      if (!a.locate(slot) || !b.locate(slot) || !a.sameLocated(b)) return false;
    }
    return true;
  }
}

function stepInto(value: Value | undefined, step: string): Value | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (value instanceof Map) return value.get(step) as Value | undefined;
  return Object.hasOwn(value, step) ? (value as Record<string, Value>)[step] : undefined;
}
