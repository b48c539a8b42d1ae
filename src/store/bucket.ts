/**
 * A key-value bucket: a collection of a key and a value, whose value is stored without a record
 * around it.
 *
 *   values of type     stored as
 *   bytes              the bytes
 *   text               UTF-8
 *   any other          the value encoding (model/value-codec.ts)
 *
 * This is the shortest way from a caller to a tree: the key is written once, the value read in
 * place.
 */
import { ByteWriter, MALFORMED, readUtf8, writeUtf8 } from '../base/bytes.ts';
import { failure } from '../errors.ts';
import type { RecordId } from '../model/batch.ts';
import { RECORD_BYTES_MAX } from '../limits.ts';
import {
  accept,
  missingField,
  type CollectionDefinition,
  type FieldDefinition,
} from '../model/schema.ts';
import type { Sorter } from '../model/sorter.ts';
import { readWholeValue, writeValue } from '../model/value-codec.ts';
import { Float, type Value } from '../model/value.ts';
import { removeRange } from '../storage/btree-range.ts';
import type { EntryReader } from '../storage/btree-reader.ts';
import { EQUAL, type Tree } from '../storage/btree.ts';
import { WRITER, type StructureId, type View } from '../storage/pages.ts';
import { duplicateKey } from './collection-index.ts';
import type { RecordKeys } from './record-key.ts';
import type { Restorer, Transaction } from './transaction.ts';

type ValueForm = 'bytes' | 'text' | 'encoded';

export class Bucket implements Restorer {
  readonly structure: StructureId;
  readonly definition: CollectionDefinition;
  readonly tree: Tree;
  readonly keys: RecordKeys;
  /** Puts that found the same bytes there already. */
  elidedPuts = 0;
  readonly #transaction: Transaction;
  readonly #field: FieldDefinition;
  readonly #form: ValueForm;
  readonly #key = new ByteWriter(64);
  readonly #value = new ByteWriter(256);

  constructor(
    structure: StructureId,
    definition: CollectionDefinition,
    tree: Tree,
    keys: RecordKeys,
    transaction: Transaction,
  ) {
    this.structure = structure;
    this.definition = definition;
    this.tree = tree;
    this.keys = keys;
    this.#transaction = transaction;
    this.#field = definition.fields[1]!;
    const { type } = this.#field;
    this.#form = (type === 'bytes' || type === 'text') && !this.#field.optional ? type : 'encoded';
  }

  // Reading.

  get(key: Value, view: View): Value | undefined {
    const { tree } = this;
    const length = this.#writeKey(key); // before `bytes` is asked for: a long key replaces them
    if (!tree.find(view, this.#key.bytes, length)) return undefined;
    return this.valueOf(tree);
  }

  has(key: Value, view: View): boolean {
    const length = this.#writeKey(key);
    return this.tree.has(view, this.#key.bytes, length);
  }

  count(view: View): number {
    return this.tree.count(view);
  }

  /** The value where a tree or cursor stands, the caller's own. */
  valueOf(at: EntryReader): Value {
    if (this.#form === 'bytes') return at.valueCopy();
    if (at.isOverflow) return this.decode(at.valueCopy());
    return this.#decodeIn(at.bytes, at.valueOffset, at.valueOffset + at.valueBytes);
  }

  /** The value of stored bytes. */
  decode(bytes: Uint8Array): Value {
    if (this.#form === 'bytes') return bytes;
    return this.#decodeIn(bytes, 0, bytes.length);
  }

  #decodeIn(bytes: Uint8Array, from: number, to: number): Value {
    if (this.#form !== 'text') return readWholeValue(bytes, from, to);
    const text = readUtf8(bytes, from, to);
    if (text !== undefined) return text;
    throw failure('corrupt.record', `a value of ${this.definition.name} is not UTF-8`);
  }

  /** Finds a key; its value is then in the tree's fields. */
  find(key: Value, view: View): boolean {
    const length = this.#writeKey(key);
    return this.tree.find(view, this.#key.bytes, length);
  }

  #writeKey(key: Value): number {
    if (this.keys.form === 'composite') accept(this.definition.fields[0]!, key);
    return this.keys.fromOne(key, this.#key);
  }

  /** The encoded key of a record id. */
  keyOf(id: RecordId): Uint8Array {
    this.keys.fromId(id, this.#key);
    return this.#key.copy();
  }

  // Writing.

  /** Writes regardless; answers whether anything changed. */
  put(key: Value, value: Value): boolean {
    const { tree } = this;
    this.#transaction.requireOpen();
    const keyLength = this.#writeKey(key);
    const bytes = this.#encode(value);
    const length = bytes === value ? (value as Uint8Array).length : this.#value.length;
    if (this.#transaction.wantsNotes) this.#note();
    try {
      if (tree.put(this.#key.bytes, keyLength, bytes, 0, length) !== EQUAL) return true;
    } catch (error) {
      this.#transaction.fail();
      throw error;
    } finally {
      this.#value.shrink();
    }
    this.elidedPuts++;
    this.#transaction.countElided();
    return false;
  }

  /** Encodes an entry of a bulk load into a sorter. */
  addTo(sorter: Sorter, key: Value, value: Value): void {
    const keyLength = this.#writeKey(key);
    const bytes = this.#encode(value);
    const length = bytes === value ? bytes.length : this.#value.length;
    sorter.addBytes(this.#key.bytes, keyLength, bytes, 0, length);
    this.#value.shrink();
  }

  /** @throws {ConstraintError} constraint.unique when the key exists. */
  insert(key: Value, value: Value): void {
    this.#transaction.requireOpen();
    if (this.has(key, WRITER)) throw duplicateKey(this.definition.name, ['key'], [key]);
    this.put(key, value);
  }

  delete(key: Value): boolean {
    this.#transaction.requireOpen();
    const keyLength = this.#writeKey(key);
    return this.#deleteWritten(keyLength);
  }

  #deleteWritten(keyLength: number): boolean {
    if (this.#transaction.wantsNotes) this.#note();
    try {
      return this.tree.delete(this.#key.bytes, keyLength);
    } catch (error) {
      this.#transaction.fail();
      throw error;
    }
  }

  /** Deletes the entry of an encoded key. */
  deleteKey(key: Uint8Array): boolean {
    this.#transaction.requireOpen();
    this.#key.length = 0;
    this.#key.append(key, 0, key.length);
    return this.#deleteWritten(key.length);
  }

  /** Deletes the entries with `from` ≤ key < `to`; answers how many there were. */
  deleteRange(from: Uint8Array | undefined, to: Uint8Array | undefined): number {
    this.#transaction.requireOpen();
    this.#transaction.noteAll();
    try {
      return removeRange(this.tree, from, to);
    } catch (error) {
      this.#transaction.fail();
      throw error;
    }
  }

  restore(key: Uint8Array, old: Uint8Array | undefined): void {
    if (old === undefined) this.tree.delete(key, key.length);
    else this.tree.put(key, key.length, old, 0, old.length);
  }

  /** The value as it is stored: the caller's bytes themselves, or the scratch. */
  #encode(value: Value): Uint8Array {
    const field = this.#field;
    if (this.#form === 'bytes' && value instanceof Uint8Array) {
      if (value.length > RECORD_BYTES_MAX)
        throw failure('value.size', `a value of ${value.length} bytes is above the limit`);
      return value;
    }
    if (value === null || value === undefined) {
      if (!field.optional) throw missingField(this.definition.name, field.name);
      value = null;
    } else value = accept(field, value);
    const writer = this.#value;
    writer.clear();
    if (this.#form === 'text') this.#writeText(value as string);
    else writeValue(writer, field.type === 'float' && value !== null ? asFloat(value) : value);
    return writer.bytes;
  }

  #writeText(text: string): void {
    const writer = this.#value;
    writer.reserve(3 * text.length);
    const end = writeUtf8(writer.bytes, 0, text);
    if (end === MALFORMED) throw failure('value.text', 'a value has a lone surrogate');
    writer.length = end;
  }

  #note(): void {
    const { tree } = this;
    const key = this.#key;
    const found = tree.find(WRITER, key.bytes, key.length);
    this.#transaction.note(this, key.copy(), found ? tree.valueCopy() : undefined);
  }
}

/** A float keeps its kind when it is whole. */
function asFloat(value: Value): Value {
  return typeof value === 'number' ? new Float(value) : value;
}
