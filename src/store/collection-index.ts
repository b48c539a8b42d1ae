/**
 * An index of a collection: the part that does not depend on how its entries are stored. It makes
 * the keys of the records before and after a change, decides what the change means for the index,
 * checks uniqueness, and then applies it; all decisions come before the first change to any tree.
 *
 * A record has one key in an index, or, where a part stands for the elements of a list, one for
 * each different element: none without elements.
 *
 *   posting-index.ts   integer record ids: key → ids, compressed
 *   entry-index.ts     records organised by key: one entry a record
 */
import { ByteWriter, compareBytes } from '../base/bytes.ts';
import { failure } from '../errors.ts';
import type { RecordId } from '../model/batch.ts';
import type { Collations } from '../model/collation.ts';
import { KeyCodec, requireKeySize } from '../model/key.ts';
import { appendStoredPart } from '../model/key-parts.ts';
import type { RecordCodec, RecordReader } from '../model/record.ts';
import { describeValue, partName, type IndexDefinition } from '../model/schema.ts';
import type { Value } from '../model/value.ts';
import type { Cursor } from '../storage/btree-cursor.ts';
import type { Tree } from '../storage/btree.ts';
import type { TreeBuilder } from '../storage/bulk.ts';
import type { View } from '../storage/pages.ts';
import { KeySet } from './key-set.ts';
import { PartSources } from './part-sources.ts';

/** What the key of a record is to the index. */
export const SKIPPED = 0; // no entry: a null under the policy `skip`, or no record
export const LOOSE = 1; // an entry that need not be unique
export const STRICT = 2; // an entry that must be the only one of its key
export type KeyState = typeof SKIPPED | typeof LOOSE | typeof STRICT;

/** Places in a load of two records with the same key; `undefined` for one that was there before. */
export type DuplicateOrdinals = readonly [number | undefined, number | undefined];

/** Keys that are changed between two times that the storage may let go of pages. */
const KEYS_PER_SETTLING = 64;

/** What an index over elements needs beside: the keys of the records before and after. */
class Elements {
  readonly part: number;
  readonly before = new KeySet();
  readonly after = new KeySet();
  readonly visited = new KeySet();

  constructor(part: number) {
    this.part = part;
  }
}

/** Takes keys with what names their records, in order of both, and gives entries to a tree. */
export interface EntryBuilder {
  /**
   * `bytes` from `offset` on are the index's key, `keyBytes` long, and the record's key; `bytesAll`
   * is the length of both. Valid during the call only.
   */
  add(bytes: Uint8Array, offset: number, keyBytes: number, bytesAll: number, state: KeyState): void;
  finish(): void;
}

export abstract class CollectionIndex {
  readonly definition: IndexDefinition;
  readonly codec: KeyCodec;
  readonly tree: Tree;
  /** Scratch for looking keys up. */
  readonly probe = new ByteWriter(64);
  protected readonly newKey = new ByteWriter(64);
  protected readonly oldKey = new ByteWriter(64);
  readonly #sources: PartSources;
  /** The slot that is the key as it is stored; -1 for keys of other parts, or of several. */
  readonly #plainSlot: number;
  readonly #elements: Elements | undefined;
  /** What an entry of a key without nulls is. */
  readonly #fullState: KeyState;
  #newState: KeyState = SKIPPED;
  #oldState: KeyState = SKIPPED;
  #isUnchanged = false;
  #isSameId = false;

  constructor(
    definition: IndexDefinition,
    tree: Tree,
    records: RecordCodec,
    collations: Collations,
  ) {
    this.definition = definition;
    this.tree = tree;
    this.#sources = new PartSources(records, definition.parts);
    const elements = definition.parts.findIndex((part) => part.elements === true);
    this.#elements = elements < 0 ? undefined : new Elements(elements);
    this.codec = new KeyCodec(
      definition.parts.map((part) => ({
        descending: part.descending,
        collation: collations.get(part.collation),
      })),
    );
    const isPlain = this.codec.parts.length === 1 && !this.codec.parts[0]!.descending;
    this.#plainSlot = isPlain && elements < 0 ? this.#sources.slotOf(0) : -1;
    this.#fullState = definition.unique ? STRICT : LOOSE;
  }

  /** Whether records may have several keys here, or none. */
  get hasElements(): boolean {
    return this.#elements !== undefined;
  }

  /**
   * Calls with each key that an encoded record has here, in order and without repetition; the key
   * is in `into` during the call, its state says whether it must be unique.
   */
  eachKey(
    reader: RecordReader,
    into: ByteWriter,
    visit: (state: typeof LOOSE | typeof STRICT) => void,
  ): void {
    if (this.#elements === undefined) {
      const state = this.#encode(reader, into);
      if (state !== SKIPPED) visit(state);
      return;
    }
    const { visited } = this.#elements;
    this.#collect(reader, visited, into);
    for (let i = 0; i < visited.count; i++) visit(visited.at(i, into));
    visited.clear();
  }

  /** Whether the first `length` bytes are a key that an encoded record has here. */
  isKeyOf(reader: RecordReader, bytes: Uint8Array, length: number, scratch: ByteWriter): boolean {
    let isKey = false;
    const compare = (): void => {
      isKey ||= compareBytes(scratch.bytes, 0, scratch.length, bytes, 0, length) === 0;
    };
    if (this.#elements === undefined) this.eachKey(reader, scratch, compare);
    else this.#eachElement(reader, scratch, compare);
    return isKey;
  }

  /** Writes the one key of an encoded record. */
  #encode(reader: RecordReader, into: ByteWriter): KeyState {
    into.length = 0;
    let hasNull: boolean;
    if (this.#plainSlot >= 0 && reader.locate(this.#plainSlot)) {
      const { bytes, offset, end, descriptor } = reader;
      appendStoredPart(into, bytes, offset, end, descriptor, this.codec.parts[0]!.collation);
      hasNull = descriptor === 0;
    } else hasNull = this.#sources.appendAll(this.codec, reader, into);
    requireKeySize(into.length);
    return hasNull ? this.#stateOf(true) : this.#fullState;
  }

  #stateOf(hasNull: boolean): KeyState {
    const { unique, nulls } = this.definition;
    if (hasNull && nulls === 'skip') return SKIPPED;
    return unique && (!hasNull || nulls === 'equal') ? STRICT : LOOSE;
  }

  /** Writes the key of each element of a record, in the order of the list. */
  #eachElement(
    reader: RecordReader,
    into: ByteWriter,
    visit: (state: typeof LOOSE | typeof STRICT) => void,
  ): void {
    const { codec } = this;
    const sources = this.#sources;
    const elementPart = this.#elements!.part;
    const list = sources.value(elementPart, reader);
    if (!Array.isArray(list)) return;
    into.length = 0;
    let hasNull = false;
    for (let i = 0; i < elementPart; i++)
      if (sources.append(i, codec, reader, into)) hasNull = true;
    const head = into.length;
    const tail = new ByteWriter(64);
    for (let i = elementPart + 1; i < sources.count; i++)
      if (sources.append(i, codec, reader, tail)) hasNull = true;
    for (const element of list as readonly Value[]) {
      into.length = head;
      codec.append(elementPart, element, into);
      into.append(tail.bytes, 0, tail.length);
      requireKeySize(into.length);
      const state = this.#stateOf(hasNull || element === null);
      if (state !== SKIPPED) visit(state);
    }
  }

  /** Makes a set of the keys that a record has here; of none for no record. */
  #collect(reader: RecordReader | undefined, into: KeySet, scratch: ByteWriter): void {
    into.clear();
    if (reader === undefined) return;
    this.#eachElement(reader, scratch, (state) => into.add(scratch, state));
    into.order();
  }

  /**
   * Decides what changing one record into another means: either may be `undefined` for none.
   * `isSameId`: both have the same record id.
   *
   * @throws {ConstraintError} constraint.unique when another record has the new key.
   */
  plan(before: RecordReader | undefined, after: RecordReader | undefined, isSameId: boolean): void {
    this.#isUnchanged = false;
    if (before !== undefined && after !== undefined) {
      if (isSameId && this.#sources.sameBytes(before, after)) {
        this.#isUnchanged = true;
        return;
      }
    }
    if (this.#elements !== undefined) {
      this.#planElements(before, after, isSameId);
      this.#requireFree(this.#elements);
      return;
    }
    this.#oldState = before === undefined ? SKIPPED : this.#encode(before, this.oldKey);
    this.#newState = after === undefined ? SKIPPED : this.#encode(after, this.newKey);
    const isSameKey =
      this.#oldState !== SKIPPED && this.#newState !== SKIPPED && sameKey(this.oldKey, this.newKey);
    this.#isUnchanged = isSameKey && isSameId;
    if (this.#newState === STRICT && !isSameKey && this.hasKey(this.newKey))
      throw this.#duplicate(after!);
  }

  /** `plan` of a record that is new. */
  planNew(after: RecordReader): void {
    if (this.#elements !== undefined) return this.plan(undefined, after, true);
    this.#isUnchanged = false;
    this.#oldState = SKIPPED;
    const state = this.#encode(after, this.newKey);
    this.#newState = state;
    if (state === STRICT && this.hasKey(this.newKey)) throw this.#duplicate(after);
  }

  /** `apply` of what `planNew` planned. */
  applyNew(id: RecordId): void {
    if (this.#elements !== undefined) this.#applyElements(this.#elements, id, id);
    else if (this.#newState !== SKIPPED) this.add(this.newKey, id, this.#newState);
  }

  #planElements(
    before: RecordReader | undefined,
    after: RecordReader | undefined,
    isSameId: boolean,
  ): void {
    this.#isUnchanged = false;
    this.#isSameId = isSameId;
    this.#collect(before, this.#elements!.before, this.oldKey);
    this.#collect(after, this.#elements!.after, this.newKey);
  }

  /** Refuses new keys that must be unique and are there; those of the record itself are not new. */
  #requireFree({ before, after }: Elements): void {
    if (!this.definition.unique) return;
    const { newKey } = this;
    after.eachMissingIn(before, (i) => {
      if (after.at(i, newKey) === STRICT && this.hasKey(newKey)) throw this.duplicateOf(newKey);
    });
  }

  /** The same decision where the record was there before, so that nothing needs checking. */
  planUnchecked(
    before: RecordReader | undefined,
    after: RecordReader | undefined,
    isSameId: boolean,
  ): void {
    if (this.#elements !== undefined) return this.#planElements(before, after, isSameId);
    this.#oldState = before === undefined ? SKIPPED : this.#encode(before, this.oldKey);
    this.#newState = after === undefined ? SKIPPED : this.#encode(after, this.newKey);
    this.#isUnchanged =
      isSameId &&
      this.#oldState !== SKIPPED &&
      this.#newState !== SKIPPED &&
      sameKey(this.oldKey, this.newKey);
  }

  /** Does what was planned; ids as in the record's collection. */
  apply(oldId: RecordId, newId: RecordId): void {
    if (this.#isUnchanged) return;
    if (this.#elements !== undefined) return this.#applyElements(this.#elements, oldId, newId);
    if (this.#oldState !== SKIPPED) this.remove(this.oldKey, oldId, this.#oldState);
    if (this.#newState !== SKIPPED) this.add(this.newKey, newId, this.#newState);
  }

  #applyElements({ before, after }: Elements, oldId: RecordId, newId: RecordId): void {
    const { oldKey, newKey } = this;
    let changed = 0;
    const settle = (): void => {
      if (++changed % KEYS_PER_SETTLING === 0) this.tree.pages.settle();
    };
    const remove = (i: number): void => {
      const state = before.at(i, oldKey);
      this.remove(oldKey, oldId, state);
      settle();
    };
    const add = (i: number): void => {
      const state = after.at(i, newKey);
      this.add(newKey, newId, state);
      settle();
    };
    if (this.#isSameId) {
      before.eachMissingIn(after, remove);
      after.eachMissingIn(before, add);
    } else {
      for (let i = 0; i < before.count; i++) remove(i);
      for (let i = 0; i < after.count; i++) add(i);
    }
    before.clear();
    after.clear();
  }

  /** Puts the entry of a record, for building; the key must be unique where that is asked. */
  addBuilt(key: ByteWriter, id: RecordId, state: KeyState): void {
    this.add(key, id, state);
  }

  #duplicate(record: RecordReader): Error {
    const { collection, parts, name } = this.definition;
    const values = parts.map((_, i) => this.#sources.value(i, record));
    return duplicateKey(collection, parts.map(partName), values, name);
  }

  /** The error of a key that must be unique and is there already; with the values of the key. */
  duplicateOf({ bytes, length }: ByteWriter, ordinals?: DuplicateOrdinals): Error {
    const { collection, parts, name } = this.definition;
    const values = this.codec.decode(bytes, 0, length);
    return duplicateKey(collection, parts.map(partName), values, name, ordinals);
  }

  /** Makes the entries of sorted keys for a bottom-up build. */
  abstract entryBuilder(builder: TreeBuilder): EntryBuilder;
  /** The record id of a record's key. */
  abstract recordId(bytes: Uint8Array, from: number, to: number): RecordId;
  /** Whether a unique key has an entry in the transaction's view. */
  abstract hasKey(key: ByteWriter): boolean;
  protected abstract add(key: ByteWriter, id: RecordId, state: KeyState): void;
  protected abstract remove(key: ByteWriter, id: RecordId, state: KeyState): void;

  /** The least id of the records with the key in `probe`, `undefined` if there is none. */
  abstract firstId(view: View): RecordId | undefined;
  /** Writes the ids of the records with the key in `probe` to `into`; answers how many. */
  abstract collectIds(view: View, into: RecordId[]): number;
  /**
   * Writes the ids of the entry that a cursor over the index's tree stands at to `into` from
   * `count` on, in order; answers how many there are then.
   */
  abstract idsAt(cursor: Cursor, into: RecordId[], count: number): number;
  /** Where the parts of the key end at the cursor's entry. */
  abstract keyEnd(cursor: Cursor): number;
  /**
   * Writes the key of the entry at which a scan goes on behind an id; `key` is the encoded parts.
   */
  abstract resumeKey(key: ByteWriter, id: RecordId, into: ByteWriter): void;
}

function sameKey(a: ByteWriter, b: ByteWriter): boolean {
  return compareBytes(a.bytes, 0, a.length, b.bytes, 0, b.length) === 0;
}

/** The error of a key that another record has. */
export function duplicateKey(
  collection: string,
  fields: readonly string[],
  values: readonly Value[],
  index?: string,
  ordinals?: DuplicateOrdinals,
): Error {
  const shown = values.map(describeValue).join(', ');
  const names = fields.map((field) => `${collection}.${field}`).join(', ');
  const where = ordinals === undefined ? '' : placesOf(ordinals);
  return failure('constraint.unique', `duplicate key for ${names}: ${shown}${where}`, {
    detail: {
      collection,
      fields,
      values,
      ...(index !== undefined && { index }),
      ...(ordinals !== undefined && { ordinals }),
    },
  });
}

/** Which records of a load have the same key; the first may be one that was there before. */
function placesOf([first, second]: DuplicateOrdinals): string {
  if (second === undefined) return '';
  if (first === undefined) return ` (record ${second} of the load, and one there before)`;
  return ` (records ${first} and ${second} of the load)`;
}
