/**
 * An index of a collection: the part that does not depend on how its entries are stored. It makes
 * the keys of the records before and after a change, decides what the change means for the index,
 * checks uniqueness, and then applies it; all decisions come before the first change to any tree.
 *
 *   posting-index.ts   integer record ids: key → ids, compressed
 *   entry-index.ts     records organised by key: one entry a record
 */
import { ByteWriter, compareBytes } from '../base/bytes.ts';
import { failure } from '../errors.ts';
import type { RecordId } from '../model/batch.ts';
import type { Collations } from '../model/collation.ts';
import { KeyCodec, requireKeySize } from '../model/key.ts';
import type { RecordCodec, RecordReader } from '../model/record.ts';
import { describeValue, partName, type IndexDefinition } from '../model/schema.ts';
import type { Value } from '../model/value.ts';
import type { Cursor } from '../storage/btree-cursor.ts';
import type { Tree } from '../storage/btree.ts';
import type { View } from '../storage/pages.ts';
import { PartSources } from './part-sources.ts';

/** What the key of a record is to the index. */
export const SKIPPED = 0; // no entry: a null under the policy `skip`, or no record
export const LOOSE = 1; // an entry that need not be unique
export const STRICT = 2; // an entry that must be the only one of its key
export type KeyState = typeof SKIPPED | typeof LOOSE | typeof STRICT;

export abstract class CollectionIndex {
  readonly definition: IndexDefinition;
  readonly codec: KeyCodec;
  readonly tree: Tree;
  /** Scratch for looking keys up. */
  readonly probe = new ByteWriter(64);
  protected readonly newKey = new ByteWriter(64);
  protected readonly oldKey = new ByteWriter(64);
  readonly #sources: PartSources;
  #newState: KeyState = SKIPPED;
  #oldState: KeyState = SKIPPED;
  #isUnchanged = false;

  constructor(
    definition: IndexDefinition,
    tree: Tree,
    records: RecordCodec,
    collations: Collations,
  ) {
    this.definition = definition;
    this.tree = tree;
    this.#sources = new PartSources(records, definition.parts);
    this.codec = new KeyCodec(
      definition.parts.map((part) => ({
        descending: part.descending,
        collation: collations.get(part.collation),
      })),
    );
  }

  /** Writes the key of an encoded record. */
  encode(reader: RecordReader, into: ByteWriter): KeyState {
    into.length = 0;
    const hasNull = this.#sources.appendAll(this.codec, reader, into);
    requireKeySize(into.length);
    const { unique, nulls } = this.definition;
    if (hasNull && nulls === 'skip') return SKIPPED;
    return unique && (!hasNull || nulls === 'equal') ? STRICT : LOOSE;
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
    this.#oldState = before === undefined ? SKIPPED : this.encode(before, this.oldKey);
    this.#newState = after === undefined ? SKIPPED : this.encode(after, this.newKey);
    const isSameKey =
      this.#oldState !== SKIPPED && this.#newState !== SKIPPED && sameKey(this.oldKey, this.newKey);
    this.#isUnchanged = isSameKey && isSameId;
    if (this.#newState === STRICT && !isSameKey && this.hasKey(this.newKey))
      throw this.#duplicate(after!);
  }

  /** The same decision where the record was there before, so that nothing needs checking. */
  planUnchecked(
    before: RecordReader | undefined,
    after: RecordReader | undefined,
    isSameId: boolean,
  ): void {
    this.#oldState = before === undefined ? SKIPPED : this.encode(before, this.oldKey);
    this.#newState = after === undefined ? SKIPPED : this.encode(after, this.newKey);
    this.#isUnchanged =
      isSameId &&
      this.#oldState !== SKIPPED &&
      this.#newState !== SKIPPED &&
      sameKey(this.oldKey, this.newKey);
  }

  /** Does what was planned; ids as in the record's collection. */
  apply(oldId: RecordId, newId: RecordId): void {
    if (this.#isUnchanged) return;
    if (this.#oldState !== SKIPPED) this.remove(this.oldKey, oldId, this.#oldState);
    if (this.#newState !== SKIPPED) this.add(this.newKey, newId, this.#newState);
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
): Error {
  const shown = values.map(describeValue).join(', ');
  const names = fields.map((field) => `${collection}.${field}`).join(', ');
  return failure('constraint.unique', `duplicate key for ${names}: ${shown}`, {
    detail: { collection, fields, values, ...(index !== undefined && { index }) },
  });
}
