/**
 * Reads and writes records of one collection, as one version of its schema has it, and keeps its
 * indexes true (law T1).
 *
 * Every write is one change from a record before to a record after, either of which may be none:
 *
 *   encode the record, find its key, read what is there now
 *   plan      every index compares the two records' keys; all constraints are checked
 *   apply     the tree, then every index
 *
 * Until `apply` nothing was changed, so a refused write leaves no trace; if `apply` itself fails
 * (memory, disk), the transaction can only be rolled back. Scratch buffers are kept between calls:
 * a write allocates nothing that grows with its record.
 */
import { ByteWriter, compareBytes } from '../base/bytes.ts';
import { failure } from '../errors.ts';
import type { RecordId } from '../model/batch.ts';
import {
  requireRecord,
  type RecordCodec,
  type RecordFields,
  type RecordInput,
  type RecordReader,
} from '../model/record.ts';
import type { RecordProgram } from '../model/record-program.ts';
import { RECORD_BYTES_MAX } from '../limits.ts';
import { partName, type CollectionDefinition } from '../model/schema.ts';
import type { Sorter } from '../model/sorter.ts';
import type { Integer } from '../model/temporal.ts';
import { Int, type Value } from '../model/value.ts';
import type { EntryReader } from '../storage/btree-reader.ts';
import type { Tree } from '../storage/btree.ts';
import { WRITER, type StructureId, type View } from '../storage/pages.ts';
import { duplicateKey, type CollectionIndex } from './collection-index.ts';
import type { CollectionState } from './collection-state.ts';
import type { Check } from './constraints.ts';
import type { RecordKeys } from './record-key.ts';
import type { Restorer, Transaction } from './transaction.ts';

export interface CollectionParts {
  readonly structure: StructureId;
  readonly definition: CollectionDefinition;
  readonly tree: Tree;
  readonly codec: RecordCodec;
  readonly program: RecordProgram;
  readonly keys: RecordKeys;
  readonly state: CollectionState;
  readonly indexes: readonly CollectionIndex[];
  readonly checks: readonly Check[];
  readonly transaction: Transaction;
}

export class Collection implements Restorer {
  readonly structure: StructureId;
  readonly definition: CollectionDefinition;
  readonly tree: Tree;
  readonly codec: RecordCodec;
  readonly keys: RecordKeys;
  readonly state: CollectionState;
  readonly indexes: readonly CollectionIndex[];
  /** Puts that found the same bytes there already. */
  elidedPuts = 0;
  readonly #program: RecordProgram;
  readonly #checks: readonly Check[];
  readonly #transaction: Transaction;
  readonly #hasIntegerIds: boolean;
  readonly #probe = new ByteWriter(64);
  readonly #key = new ByteWriter(64);
  readonly #oldKey = new ByteWriter(64);
  readonly #record = new ByteWriter(256);
  readonly #old = new ByteWriter(256);
  readonly #before: RecordReader;
  readonly #after: RecordReader;
  /** The id of `#key`, where that is an integer. */
  #id: RecordId = 0;
  #isBusy = false;

  constructor(parts: CollectionParts) {
    this.structure = parts.structure;
    this.definition = parts.definition;
    this.tree = parts.tree;
    this.codec = parts.codec;
    this.keys = parts.keys;
    this.state = parts.state;
    this.indexes = parts.indexes;
    this.#program = parts.program;
    this.#checks = parts.checks;
    this.#transaction = parts.transaction;
    this.#hasIntegerIds = parts.keys.form === 'id';
    this.#before = parts.codec.reader();
    this.#after = parts.codec.reader();
  }

  // Reading.

  get(id: RecordId, view: View): RecordFields | undefined {
    const { tree, keys } = this;
    const length = keys.fromId(id, this.#probe);
    return tree.find(view, this.#probe.bytes, length) ? this.decodeFound(id) : undefined;
  }

  getByKey(values: readonly Value[], view: View): RecordFields | undefined {
    const length = this.keys.fromValues(values, this.#probe);
    if (!this.tree.find(view, this.#probe.bytes, length)) return undefined;
    return this.decodeFound(this.#hasIntegerIds ? this.#idIn(this.#probe) : 0);
  }

  /**
   * Adds the records of ids, the first `count` of `ids`, to `into`. Ids that follow each other are
   * neighbours in the tree too, and cost one descent together.
   */
  getRuns(ids: readonly RecordId[], count: number, view: View, into: RecordFields[]): void {
    for (let i = 0; i < count;) {
      const id = ids[i]!;
      if (typeof id === 'number' && ids[i + 1] === id + 1 && i + 1 < count) {
        i = this.#getRun(ids, i, count, view, into);
      } else {
        const record = this.get(id, view);
        if (record !== undefined) into.push(record);
        i++;
      }
    }
  }

  /** Adds the records of a run of ids; answers where it ends. */
  #getRun(
    ids: readonly RecordId[],
    from: number,
    count: number,
    view: View,
    into: RecordFields[],
  ): number {
    const { tree, keys } = this;
    const probe = this.#probe;
    let id = ids[from] as number;
    let isBehind = false;
    for (let i = from; ;) {
      const length = keys.fromId(id, probe);
      isBehind = isBehind
        ? tree.findNext(view, probe.bytes, length)
        : tree.find(view, probe.bytes, length);
      if (isBehind) into.push(this.#decodeAt(tree, id));
      i++;
      if (i === count || ids[i] !== id + 1) return i;
      id++;
    }
  }

  has(id: RecordId, view: View): boolean {
    const length = this.keys.fromId(id, this.#probe);
    return this.tree.has(view, this.#probe.bytes, length);
  }

  /** The record that the tree has just found. */
  decodeFound(id: RecordId): RecordFields {
    return this.#decodeAt(this.tree, this.#hasIntegerIds ? (id as Integer) : 0);
  }

  #decodeAt(at: EntryReader, id: Integer): RecordFields {
    if (!at.isOverflow) {
      const from = at.valueOffset;
      return this.#program.decode(at.bytes, from, from + at.valueBytes, id);
    }
    const bytes = at.valueCopy();
    return this.#program.decode(bytes, 0, bytes.length, id);
  }

  /** Turns a reader to a record; answers false if there is none. Valid until the next call. */
  read(id: RecordId, view: View, reader: RecordReader): boolean {
    const { tree } = this;
    const length = this.keys.fromId(id, this.#probe);
    if (!tree.find(view, this.#probe.bytes, length)) return false;
    const integer = this.#hasIntegerIds ? (id as Integer) : 0;
    if (!tree.isOverflow) {
      const from = tree.valueOffset;
      reader.open(tree.bytes, from, from + tree.valueBytes, integer);
    } else {
      const bytes = tree.valueCopy();
      reader.open(bytes, 0, bytes.length, integer);
    }
    return true;
  }

  count(view: View): number {
    return this.tree.count(view);
  }

  #idIn(key: ByteWriter): RecordId {
    return this.keys.toId(key.bytes, 0, key.length);
  }

  // Writing.

  /** Writes a record that must be new; answers its id. */
  insert(record: RecordInput): RecordId {
    this.#enter();
    try {
      this.#encode(record);
      const isFree = this.#makeKey(record);
      const { tree } = this;
      if (!isFree && tree.has(WRITER, this.#key.bytes, this.#key.length))
        throw this.#duplicateKey();
      return this.#add();
    } finally {
      this.#leave();
    }
  }

  /** Writes a record, whether its key exists or not; answers its id. */
  put(record: RecordInput): RecordId {
    this.#enter();
    try {
      this.#encode(record);
      const isFree = this.#makeKey(record);
      if (isFree || !this.#readOld(this.#key)) return this.#add();
      return this.#replace();
    } finally {
      this.#leave();
    }
  }

  /**
   * Encodes a record of a bulk load into a sorter, with its key, checked as one that is put; unique
   * keys and indexes are up to the load.
   */
  addTo(sorter: Sorter, record: RecordInput): void {
    this.#enter();
    try {
      this.#encode(record);
      this.#makeKey(record);
      if (this.#checks.length > 0) {
        this.#openAfter(this.#idIn(this.#key));
        this.#runChecks();
      }
      if (this.state.hasNewNames) this.state.storeNames();
      if (this.#hasIntegerIds) this.state.noteId(Number(this.#idIn(this.#key)));
      const { bytes, length } = this.#record;
      sorter.addBytes(this.#key.bytes, this.#key.length, bytes, 0, length);
    } finally {
      this.#leave();
    }
  }

  /** Changes some fields of a record; answers false if there is none. */
  update(id: RecordId, fields: RecordInput): boolean {
    requireRecord(fields);
    this.#enter();
    try {
      this.keys.fromId(id, this.#oldKey);
      if (!this.#readOld(this.#oldKey)) return false;
      const { codec } = this;
      this.#refuseUnknown(fields);
      this.#record.clear();
      codec.encodeChanged(this.#old.bytes, 0, this.#old.length, fields, this.#record);
      this.#requireSize();
      this.#makeChangedKey(id, fields);
      if (sameBytes(this.#key, this.#oldKey)) this.#replace();
      else this.#move();
      return true;
    } finally {
      this.#leave();
    }
  }

  /** Deletes a record; answers false if there is none. */
  delete(id: RecordId): boolean {
    this.#enter();
    try {
      this.keys.fromId(id, this.#oldKey);
      if (!this.#readOld(this.#oldKey)) return false;
      this.#plan(false, true);
      this.#note(this.#oldKey, true);
      this.#applyDelete(id);
      return true;
    } finally {
      this.#leave();
    }
  }

  /** Makes the record at a key the old bytes again, or none: the inverse of one change. */
  restore(key: Uint8Array, old: Uint8Array | undefined): void {
    this.#key.length = 0;
    this.#key.append(key, 0, key.length);
    const isThere = this.#readOld(this.#key);
    const id = this.#idIn(this.#key);
    this.#record.clear();
    if (old !== undefined) this.#record.append(old, 0, old.length);
    const after = old === undefined ? undefined : this.#openAfter(id);
    for (const index of this.indexes)
      index.planUnchecked(isThere ? this.#before : undefined, after, true);
    if (old === undefined) this.tree.delete(this.#key.bytes, this.#key.length);
    else this.#putRecord();
    this.#applyIndexes(id, id);
  }

  // The steps of a write.

  #enter(): void {
    this.#transaction.requireOpen();
    if (this.#isBusy) {
      throw failure('usage.transaction', `${this.definition.name} is written while it writes`, {
        hint: 'Do not write to a collection from getters, collations or checks of its records.',
      });
    }
    this.#isBusy = true;
    if (this.#hasIntegerIds && this.state.nextId === 0) this.#loadNextId();
  }

  #leave(): void {
    this.#isBusy = false;
    this.#record.shrink();
    this.#old.shrink();
    if (this.state.hasNewNames) this.state.forgetNewNames();
  }

  #loadNextId(): void {
    const { tree, state } = this;
    const stored = state.storedNextId();
    const last = tree.last(WRITER) ? this.keys.toId(tree.key, 0, tree.keyLength) : 0;
    state.nextId = Math.max(stored, Number(last) + 1);
  }

  #encode(record: RecordInput): void {
    requireRecord(record);
    this.#record.clear();
    this.#program.encode(record, this.#record);
    this.#requireSize();
  }

  #requireSize(): void {
    const { length } = this.#record;
    if (length > RECORD_BYTES_MAX)
      throw failure('value.size', `a record of ${length} bytes is above ${RECORD_BYTES_MAX}`);
  }

  /** Makes the key of the encoded record; answers whether it is known to be free. */
  #makeKey(record: RecordInput): boolean {
    if (!this.#hasIntegerIds) {
      this.#after.open(this.#record.bytes, 0, this.#record.length, 0);
      this.keys.fromRecord(this.#after, this.#key);
      return false;
    }
    const { idField } = this.codec;
    const given = idField === undefined ? undefined : record[idField];
    if (given === undefined || given === null) {
      this.#id = this.state.takeId();
      this.keys.fromId(this.#id, this.#key);
      return true;
    }
    const id = given instanceof Int ? given.value : (given as RecordId);
    this.keys.fromId(id, this.#key);
    this.#id = typeof id === 'number' ? id : this.#idIn(this.#key);
    // Above every id that was ever given there is nothing to look for.
    return typeof id === 'number' && id >= this.state.nextId;
  }

  #makeChangedKey(id: RecordId, fields: RecordInput): void {
    const { idField } = this.codec;
    if (this.#hasIntegerIds) {
      const given = idField === undefined ? undefined : fields[idField];
      const wanted = given instanceof Int ? given.value : given;
      this.keys.fromId(wanted === undefined ? id : (wanted as RecordId), this.#key);
    } else {
      this.#after.open(this.#record.bytes, 0, this.#record.length, 0);
      this.keys.fromRecord(this.#after, this.#key);
    }
  }

  #refuseUnknown(fields: RecordInput): void {
    if (this.definition.open) return;
    for (const name of Object.keys(fields)) {
      if (this.codec.ordinalOf(name) === undefined) throw this.codec.unknownField(name);
    }
  }

  /** Copies the record at a key to `#old`; answers false if there is none. */
  #readOld(key: ByteWriter): boolean {
    const old = this.#old;
    if (this.tree.copyOwn(key.bytes, key.length, old) < 0) return false;
    this.#before.open(old.bytes, 0, old.length, this.#hasIntegerIds ? this.#integerIn(key) : 0);
    return true;
  }

  #integerIn(key: ByteWriter): Integer {
    return this.#idIn(key) as Integer;
  }

  #openAfter(id: RecordId): RecordReader {
    this.#after.open(
      this.#record.bytes,
      0,
      this.#record.length,
      this.#hasIntegerIds ? (id as Integer) : 0,
    );
    return this.#after;
  }

  /** Checks every constraint, and has every index plan a change of the record before. */
  #plan(hasAfter: boolean, isSameId: boolean): void {
    const before = this.#before;
    const after = hasAfter ? this.#after : undefined;
    if (hasAfter && this.#checks.length > 0) this.#runChecks();
    const { indexes } = this;
    for (let i = 0; i < indexes.length; i++) indexes[i]!.plan(before, after, isSameId);
  }

  #runChecks(): void {
    const id = this.#hasIntegerIds ? this.#after.id : 0;
    const record = this.#program.decode(this.#record.bytes, 0, this.#record.length, id);
    for (const check of this.#checks) check.require(this.definition.name, record);
  }

  /** Adds the encoded record under the key that `#makeKey` made, which is free. */
  #add(): RecordId {
    const { indexes, state } = this;
    const key = this.#key;
    const record = this.#record;
    const id = this.#hasIntegerIds ? this.#id : this.#idIn(key);
    if (indexes.length > 0 || this.#checks.length > 0) {
      const after = this.#openAfter(id);
      if (this.#checks.length > 0) this.#runChecks();
      for (let i = 0; i < indexes.length; i++) indexes[i]!.planNew(after);
    }
    this.#note(key, false);
    try {
      if (state.hasNewNames) state.storeNames();
      this.tree.add(key.bytes, key.length, record.bytes, 0, record.length);
      for (let i = 0; i < indexes.length; i++) indexes[i]!.applyNew(id);
      if (this.#hasIntegerIds) state.noteId(Number(id));
      return id;
    } catch (error) {
      this.#transaction.fail();
      throw error;
    }
  }

  /** Replaces the old record by the encoded one under the same key. */
  #replace(): RecordId {
    const id = this.#idIn(this.#key);
    if (sameBytes(this.#old, this.#record)) {
      this.elidedPuts++;
      this.#transaction.countElided();
      return id;
    }
    this.#openAfter(id);
    this.#plan(true, true);
    this.#note(this.#key, true);
    try {
      if (this.state.hasNewNames) this.state.storeNames();
      this.#putRecord();
      this.#applyIndexes(id, id);
      return id;
    } catch (error) {
      this.#transaction.fail();
      throw error;
    }
  }

  /** Replaces the old record by the encoded one under another key. */
  #move(): void {
    const { tree } = this;
    if (tree.has(WRITER, this.#key.bytes, this.#key.length)) throw this.#duplicateKey();
    const oldId = this.#idIn(this.#oldKey);
    const newId = this.#idIn(this.#key);
    this.#openAfter(newId);
    this.#plan(true, false);
    this.#note(this.#oldKey, true);
    this.#note(this.#key, false);
    try {
      if (this.state.hasNewNames) this.state.storeNames();
      tree.delete(this.#oldKey.bytes, this.#oldKey.length);
      this.#putRecord();
      this.#applyIndexes(oldId, newId);
      if (!this.#hasIntegerIds) return;
      this.state.noteDeleted(Number(oldId));
      this.state.noteId(Number(newId));
    } catch (error) {
      this.#transaction.fail();
      throw error;
    }
  }

  #applyDelete(id: RecordId): void {
    try {
      this.tree.delete(this.#oldKey.bytes, this.#oldKey.length);
      this.#applyIndexes(id, id);
      if (this.#hasIntegerIds) this.state.noteDeleted(Number(id));
    } catch (error) {
      this.#transaction.fail();
      throw error;
    }
  }

  #putRecord(): void {
    const record = this.#record;
    this.tree.put(this.#key.bytes, this.#key.length, record.bytes, 0, record.length);
  }

  #applyIndexes(oldId: RecordId, newId: RecordId): void {
    const { indexes } = this;
    for (let i = 0; i < indexes.length; i++) indexes[i]!.apply(oldId, newId);
  }

  #note(key: ByteWriter, hasOld: boolean): void {
    if (!this.#transaction.wantsNotes) return;
    this.#transaction.note(this, key.copy(), hasOld ? this.#old.copy() : undefined);
  }

  #duplicateKey(): Error {
    const { key, name } = this.definition;
    const fields =
      key.kind === 'fields' ? key.parts.map(partName) : [this.codec.idField ?? 'record id'];
    const values = this.keys.toValues(this.#key.bytes, 0, this.#key.length);
    return duplicateKey(name, fields, values);
  }
}

function sameBytes(a: ByteWriter, b: ByteWriter): boolean {
  if (a.length !== b.length) return false;
  return compareBytes(a.bytes, 0, a.length, b.bytes, 0, b.length) === 0;
}
