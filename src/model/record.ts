/**
 * The encoding of records: declared fields in slots, the rest as pairs.
 *
 *   head           varint   2 × slots + (1 if pairs follow)
 *   descriptors    slots    one byte a slot, in the order of the declared fields
 *   payloads                of the slots, one after the other
 *   pair count     varint   only if the head says that pairs follow
 *   pairs                   field number (varint), descriptor, payload; numbers ascend
 *
 * A declared field has a slot, but for the field that is the record id, which is the key of the
 * tree and comes from there. Slots are only added at the end: a record with fewer was written
 * before the others were declared and has their initial values. Descriptors stand together and
 * alone give the sizes of payloads (`value-codec.ts`), so one field is read by adding up sizes.
 *
 * `RecordCodec` is the generic form; `record-program.ts` generates a decoder and an encoder for one
 * definition, which answer the same.
 */
import { compareBytes, MALFORMED, readVarint, skipVarint, type ByteWriter } from '../base/bytes.ts';
import { failure } from '../errors.ts';
import {
  accept,
  missingField,
  unknownName,
  type CollectionDefinition,
  type FieldDefinition,
  type FieldType,
} from './schema.ts';
import type { Integer } from './temporal.ts';
import {
  D_NULL,
  kindOfDescriptor,
  malformedRecord,
  readPayload,
  skipPayload,
  skipValue,
  writePayload,
  writeFloat,
} from './value-codec.ts';
import { Float, KIND, setField, type Kind, type KindName, type Value } from './value.ts';

/** A record as callers have it: its fields by name. */
export type RecordFields = { [name: string]: Value };
/** A record as callers give it: `undefined` is a field that is not there. */
export type RecordInput = { readonly [name: string]: Value | undefined };

/** The numbers of undeclared field names in one collection. */
export interface FieldNames {
  /** The number of a name, given to it now if it has none. */
  intern(name: string): number;
  numberOf(name: string): number | undefined;
  nameOf(number: number): string | undefined;
}

/** One slot of a record. */
export interface Slot {
  readonly field: FieldDefinition;
  /** Kinds that the slot may hold, as bits. */
  readonly kinds: number;
  readonly initial: Value;
}

const ANY_KIND = -1;

function kindsOf(type: FieldType): number {
  if (type === 'any' || type === 'json') return ANY_KIND;
  if (type === 'number') return (1 << KIND.int) | (1 << KIND.float);
  return 1 << KIND[type as KindName];
}

export class RecordCodec {
  readonly definition: CollectionDefinition;
  readonly slots: readonly Slot[];
  /** The slot of each declared field; −1 for the field that is the record id. */
  readonly slotOfField: readonly number[];
  /** The field that is the record id, if one is. */
  readonly idField: string | undefined;
  readonly names: FieldNames;
  readonly #ordinals = new Map<string, number>();

  constructor(definition: CollectionDefinition, names: FieldNames) {
    this.definition = definition;
    this.names = names;
    this.idField = definition.key.kind === 'integer' ? definition.key.field : undefined;
    const slots: Slot[] = [];
    this.slotOfField = definition.fields.map((field, ordinal) => {
      if (field.dropped !== true) this.#ordinals.set(field.name, ordinal);
      if (field.name === this.idField && field.dropped !== true) return -1;
      const kinds = field.dropped === true ? ANY_KIND : kindsOf(field.type);
      slots.push({ field, kinds, initial: field.initial ?? null });
      return slots.length - 1;
    });
    this.slots = slots;
  }

  /** Position of a declared field in the definition, `undefined` if it is not declared. */
  ordinalOf(name: string): number | undefined {
    return this.#ordinals.get(name);
  }

  /**
   * Appends a record.
   *
   * @throws {ValueError} value.type, value.text, value.size, value.out_of_range.
   * @throws {ConstraintError} constraint.required for a required field without a value.
   * @throws {SchemaError} schema.unknown_field for an undeclared field of a closed collection.
   */
  encode(record: RecordInput, into: ByteWriter): void {
    const { slots } = this;
    const head = into.length;
    into.varint(slots.length * 2);
    const descriptors = into.length;
    into.reserve(slots.length);
    into.length += slots.length;
    for (let i = 0; i < slots.length; i++) {
      const descriptor = this.writeSlot(i, ownValue(record, slots[i]!.field), into);
      into.bytes[descriptors + i] = descriptor;
    }
    this.appendPairs(record, into, head);
  }

  /** Appends the undeclared fields, and says so in the head at that offset. */
  appendPairs(record: RecordInput, into: ByteWriter, head: number): void {
    if (this.#writePairs(record, into)) into.bytes[head]! |= 1;
  }

  /**
   * Appends a record that differs from an encoded one in the given fields; the others keep their
   * bytes, and so their exact types. A field of an open record that is `undefined` goes away.
   */
  encodeChanged(
    bytes: Uint8Array,
    from: number,
    to: number,
    changes: RecordInput,
    into: ByteWriter,
  ): void {
    const { slots } = this;
    const walk = new RecordReader(this);
    walk.open(bytes, from, to, 0);
    const head = into.length;
    into.varint(slots.length * 2);
    const descriptors = into.length;
    into.reserve(slots.length);
    into.length += slots.length;
    for (let i = 0; i < slots.length; i++) {
      const name = slots[i]!.field.name;
      const changed = slots[i]!.field.dropped !== true && Object.hasOwn(changes, name);
      const descriptor =
        changed || i >= walk.slotCount
          ? this.writeSlot(i, changed ? changes[name] : undefined, into)
          : walk.copySlot(i, into);
      into.bytes[descriptors + i] = descriptor;
    }
    const pairs = this.#changedPairs(walk, changes);
    if (pairs.length > 0) {
      into.bytes[head]! |= 1;
      writePairList(pairs, into);
    }
  }

  /** Writes the payload of a slot; answers its descriptor. */
  writeSlot(ordinal: number, value: Value | undefined, into: ByteWriter): number {
    const { field, initial } = this.slots[ordinal]!;
    if (field.dropped === true) return D_NULL;
    const given = value === undefined ? initial : value;
    if (given === null) {
      if (field.optional || field.type === 'any') return D_NULL;
      throw missingField(this.definition.name, field.name);
    }
    const accepted = accept(field, given);
    return field.type === 'float'
      ? writeFloat(into, accepted instanceof Float ? accepted.value : (accepted as number))
      : writePayload(into, accepted);
  }

  /** Appends the undeclared fields; answers whether there were any. */
  #writePairs(record: RecordInput, into: ByteWriter): boolean {
    const pairs: Pair[] = [];
    for (const name of Object.keys(record)) {
      if (this.#ordinals.has(name) || record[name] === undefined) continue;
      pairs.push({ number: this.#numberFor(name), value: record[name] });
    }
    if (pairs.length === 0) return false;
    writePairList(pairs, into);
    return true;
  }

  #numberFor(name: string): number {
    if (this.definition.open) return this.names.intern(name);
    throw this.unknownField(name);
  }

  /** The error of a field that a closed collection does not declare. */
  unknownField(name: string): Error {
    const what = `field of ${this.definition.name} named`;
    return unknownName('schema.unknown_field', what, name, this.#ordinals.keys());
  }

  #changedPairs(walk: RecordReader, changes: RecordInput): Pair[] {
    const pairs: Pair[] = [];
    const changed = new Set<number>();
    for (const name of Object.keys(changes)) {
      if (this.#ordinals.has(name)) continue;
      const number = this.#numberFor(name);
      changed.add(number);
      if (changes[name] !== undefined) pairs.push({ number, value: changes[name] });
    }
    walk.forEachPair((number, bytes, from, to) => {
      if (!changed.has(number)) pairs.push({ number, bytes, from, to });
    });
    return pairs;
  }

  /**
   * The record in the bytes.
   *
   * @throws {CorruptionError} corrupt.record when the bytes are no such record.
   */
  decode(bytes: Uint8Array, from: number, to: number, id: Integer): RecordFields {
    const record: RecordFields = {};
    const head = readVarint(bytes, from, to);
    if (head === MALFORMED) throw malformedRecord(bytes, from, to);
    const descriptors = skipVarint(bytes, from);
    const slotCount = Math.floor(head / 2);
    if (slotCount > this.slots.length || slotCount > to - descriptors)
      throw malformedRecord(bytes, from, to);
    let offset = descriptors + slotCount;
    for (let ordinal = 0; ordinal < this.slotOfField.length; ordinal++) {
      const index = this.slotOfField[ordinal]!;
      const { name, dropped } = this.definition.fields[ordinal]!;
      if (index < 0) setField(record, name, id);
      else if (index >= slotCount) {
        if (dropped !== true) setField(record, name, this.slots[index]!.initial);
      } else {
        const descriptor = bytes[descriptors + index]!;
        const next = skipPayload(bytes, offset, to, descriptor);
        if (dropped !== true)
          setField(record, name, this.readSlot(index, bytes, offset, next, descriptor));
        offset = next;
      }
    }
    if (head % 2 === 1) offset = this.#decodePairs(record, bytes, offset, to);
    if (offset !== to) throw malformedRecord(bytes, offset, to);
    return record;
  }

  /** Reads a slot, and sees that it holds what the field may hold. */
  readSlot(
    ordinal: number,
    bytes: Uint8Array,
    offset: number,
    end: number,
    descriptor: number,
  ): Value {
    if (descriptor === D_NULL) return null;
    const kind = kindOfDescriptor(descriptor);
    if (((this.slots[ordinal]!.kinds >> kind) & 1) === 0) throw malformedRecord(bytes, offset, end);
    return readPayload(bytes, offset, end, descriptor);
  }

  #decodePairs(record: RecordFields, bytes: Uint8Array, offset: number, to: number): number {
    const count = readVarint(bytes, offset, to);
    if (count === MALFORMED || !this.definition.open) throw malformedRecord(bytes, offset, to);
    offset = skipVarint(bytes, offset);
    let last = -1;
    for (let i = 0; i < count; i++) {
      const number = readVarint(bytes, offset, to);
      const name = number === MALFORMED ? undefined : this.names.nameOf(number);
      if (name === undefined || number <= last) throw malformedRecord(bytes, offset, to);
      const at = skipVarint(bytes, offset);
      offset = skipValue(bytes, at, to);
      setField(record, name, readPayload(bytes, at + 1, offset, bytes[at]!));
      last = number;
    }
    return offset;
  }

  /** A reader of single fields. */
  reader(): RecordReader {
    return new RecordReader(this);
  }
}

/** The value that a record itself has for a field: what its prototype has is no field. */
function ownValue(record: RecordInput, field: FieldDefinition): Value | undefined {
  const value = record[field.name];
  if (value === undefined || !(field.name in Object.prototype)) return value;
  return Object.hasOwn(record, field.name) ? value : undefined;
}

/** An undeclared field: a value, or the bytes of one. */
interface Pair {
  readonly number: number;
  readonly value?: Value;
  readonly bytes?: Uint8Array;
  readonly from?: number;
  readonly to?: number;
}

function writePairList(pairs: Pair[], into: ByteWriter): void {
  pairs.sort((a, b) => a.number - b.number);
  into.varint(pairs.length);
  for (const { number, value, bytes, from, to } of pairs) {
    into.varint(number);
    if (bytes !== undefined) into.append(bytes, from!, to!);
    else {
      into.reserve(1);
      const at = into.length++;
      const descriptor = writePayload(into, value!);
      into.bytes[at] = descriptor;
    }
  }
}

/**
 * Reads single fields of an encoded record, lazily. Valid while the bytes are. Asking for fields
 * in their order costs one walk over the descriptors in all.
 */
export class RecordReader {
  readonly #codec: RecordCodec;
  #bytes: Uint8Array;
  #to: number;
  #id: Integer;
  #descriptors: number;
  slotCount: number;
  #hasPairs: boolean;
  /** Descriptor and payload that `locate` came to. */
  descriptor: number;
  offset: number;
  /** The next slot that the walk comes to, and where its payload begins. */
  #slot: number;
  #offset: number;

  constructor(codec: RecordCodec) {
    this.#codec = codec;
    this.#bytes = new Uint8Array(0);
    this.#to = 0;
    this.#id = 0;
    this.#descriptors = 0;
    this.slotCount = 0;
    this.#hasPairs = false;
    this.descriptor = 0;
    this.offset = 0;
    this.#slot = 0;
    this.#offset = 0;
  }

  /** Turns to a record. */
  open(bytes: Uint8Array, from: number, to: number, id: Integer): void {
    const head = readVarint(bytes, from, to);
    if (head === MALFORMED) throw malformedRecord(bytes, from, to);
    this.#bytes = bytes;
    this.#to = to;
    this.#id = id;
    this.#descriptors = head < 0x80 ? from + 1 : skipVarint(bytes, from);
    this.slotCount = head < 0x80 ? head >> 1 : Math.floor(head / 2);
    this.#hasPairs = head % 2 === 1;
    this.#slot = 0;
    this.#offset = this.#descriptors + this.slotCount;
    if (this.slotCount > this.#codec.slots.length || this.#offset > to)
      throw malformedRecord(bytes, from, to);
  }

  /** The value of a declared field, by its position in the definition. */
  get(ordinal: number): Value {
    const slot = this.#codec.slotOfField[ordinal]!;
    return slot < 0 ? this.#id : this.getSlot(slot);
  }

  getSlot(slot: number): Value {
    if (slot >= this.slotCount) return this.#codec.slots[slot]!.initial;
    this.#walkTo(slot);
    const descriptor = this.#bytes[this.#descriptors + slot]!;
    return this.#codec.readSlot(slot, this.#bytes, this.#offset, this.#to, descriptor);
  }

  /** The kind of a declared field's value; `undefined` where it is not in the record's bytes. */
  kind(ordinal: number): Kind | undefined {
    const slot = this.#codec.slotOfField[ordinal]!;
    if (slot < 0) return KIND.int;
    if (slot >= this.slotCount) return undefined;
    return kindOfDescriptor(this.#bytes[this.#descriptors + slot]!);
  }

  /**
   * Goes to the bytes of a slot: then `descriptor`, `offset` and `end` tell of its payload. Answers
   * false where the record has no such slot and the field its initial value.
   */
  locate(slot: number): boolean {
    if (slot >= this.slotCount) return false;
    this.#walkTo(slot);
    this.descriptor = this.#bytes[this.#descriptors + slot]!;
    this.offset = this.#offset;
    return true;
  }

  /** Goes to the bytes of an undeclared field, as `locate`. */
  locateNumber(wanted: number): boolean {
    let found = false;
    this.forEachPair((number, bytes, from) => {
      if (number !== wanted) return;
      found = true;
      this.descriptor = bytes[from]!;
      this.offset = from + 1;
    });
    return found;
  }

  /** The value that `locate` or `locateNumber` came to. */
  readLocated(): Value {
    return readPayload(this.#bytes, this.offset, this.#to, this.descriptor);
  }

  /** Whether the located payload is the same, byte for byte, as the other's. */
  sameLocated(other: RecordReader): boolean {
    if (this.descriptor !== other.descriptor) return false;
    const to = skipPayload(this.#bytes, this.offset, this.#to, this.descriptor);
    const otherTo = skipPayload(other.#bytes, other.offset, other.#to, other.descriptor);
    return compareBytes(this.#bytes, this.offset, to, other.#bytes, other.offset, otherTo) === 0;
  }

  get bytes(): Uint8Array {
    return this.#bytes;
  }

  get end(): number {
    return this.#to;
  }

  get id(): Integer {
    return this.#id;
  }

  /** The value of a field by name, declared or not; `undefined` if the record has none. */
  getNamed(name: string): Value | undefined {
    const ordinal = this.#codec.ordinalOf(name);
    if (ordinal !== undefined) return this.get(ordinal);
    const wanted = this.#codec.names.numberOf(name);
    let found: Value | undefined;
    if (wanted === undefined) return undefined;
    this.forEachPair((number, bytes, from, to) => {
      if (number === wanted) found = readPayload(bytes, from + 1, to, bytes[from]!);
    });
    return found;
  }

  /** Calls with each undeclared field: its number, and where its descriptor and payload lie. */
  forEachPair(each: (number: number, bytes: Uint8Array, from: number, to: number) => void): void {
    if (!this.#hasPairs) return;
    this.#walkTo(this.slotCount);
    const bytes = this.#bytes;
    let offset = this.#offset;
    const count = readVarint(bytes, offset, this.#to);
    if (count === MALFORMED) throw malformedRecord(bytes, offset, this.#to);
    offset = skipVarint(bytes, offset);
    for (let i = 0; i < count; i++) {
      const number = readVarint(bytes, offset, this.#to);
      if (number === MALFORMED) throw malformedRecord(bytes, offset, this.#to);
      const from = skipVarint(bytes, offset);
      offset = skipValue(bytes, from, this.#to);
      each(number, bytes, from, offset);
    }
  }

  /** Appends the payload of a slot as it is; answers its descriptor. */
  copySlot(slot: number, into: ByteWriter): number {
    this.#walkTo(slot);
    const descriptor = this.#bytes[this.#descriptors + slot]!;
    const end = skipPayload(this.#bytes, this.#offset, this.#to, descriptor);
    into.append(this.#bytes, this.#offset, end);
    return descriptor;
  }

  #walkTo(slot: number): void {
    if (slot < this.#slot) {
      this.#slot = 0;
      this.#offset = this.#descriptors + this.slotCount;
    }
    for (; this.#slot < slot; this.#slot++) {
      const descriptor = this.#bytes[this.#descriptors + this.#slot]!;
      this.#offset = skipPayload(this.#bytes, this.#offset, this.#to, descriptor);
    }
  }
}

/** Refuses what is no object of fields. */
export function requireRecord(record: unknown): asserts record is RecordInput {
  if (typeof record === 'object' && record !== null && !Array.isArray(record)) return;
  throw failure(
    'value.type',
    `a record is an object, not ${record === null ? 'null' : typeof record}`,
  );
}
