/**
 * Building an index bottom-up from the records of its collection, for bulk loads and for indexes
 * that are made over existing records.
 *
 * Keys are sorted together with what names their record, inside the working memory:
 *
 *   sorted key   key of the index · key of the record
 *   row          state · bytes of the index's key varint · ordinal + 1 varint, 0 if it has none
 *
 * so equal keys come together, their records in order.
 */
import { ByteWriter, compareBytes, readVarint, skipVarint } from '../base/bytes.ts';
import type { Steps } from '../base/steps.ts';
import type { RecordReader } from '../model/record.ts';
import { Sorter, type SortedEntry } from '../model/sorter.ts';
import type { WorkSpace } from '../model/work.ts';
import { TreeBuilder } from '../storage/bulk.ts';
import {
  STRICT,
  type CollectionIndex,
  type DuplicateOrdinals,
  type KeyState,
} from './collection-index.ts';

/** Entries between two places where other work may be done. */
const ENTRIES_PER_STEP = 256;

export class IndexBuild {
  readonly index: CollectionIndex;
  readonly #sorter: Sorter;
  readonly #key = new ByteWriter(64);
  readonly #row = new ByteWriter(16);
  // The entry before, if its key must be unique.
  readonly #last = new ByteWriter(64);
  #lastOrdinal: number | undefined;
  #hasLast = false;

  constructor(index: CollectionIndex, work: WorkSpace) {
    this.index = index;
    this.#sorter = new Sorter(work);
  }

  get runsSpilled(): number {
    return this.#sorter.runsSpilled;
  }

  /** Takes the keys of a record; `id` is the record's own key, `ordinal` its place in a load. */
  add(reader: RecordReader, id: Uint8Array, idBytes: number, ordinal?: number): void {
    const key = this.#key;
    const row = this.#row;
    this.index.eachKey(reader, key, (state) => {
      row.length = 0;
      row.byte(state);
      row.varint(key.length);
      row.varint(ordinal === undefined ? 0 : ordinal + 1);
      const { length } = key;
      key.append(id, 0, idBytes);
      this.#sorter.add(key, row);
      key.length = length; // whoever makes several keys goes on from this one
    });
  }

  /** Puts all entries in place of those that the index's tree has. */
  *build(fill: number, counted: (entries: number) => void): Steps<void> {
    const { tree } = this.index;
    const builder = new TreeBuilder(tree, fill);
    const entries = this.index.entryBuilder(builder);
    let count = 0;
    for (let at = this.#sorter.next(); at !== undefined; at = this.#sorter.next()) {
      const { state, keyBytes, ordinal } = headOf(at);
      if (state === STRICT) this.#requireOther(at, keyBytes, ordinal);
      entries.add(at.bytes, at.keyOffset, keyBytes, at.keyBytes, state);
      if (++count % ENTRIES_PER_STEP !== 0) continue;
      counted(count);
      yield;
    }
    entries.finish();
    builder.finish();
    counted(count);
  }

  /** Puts all entries into the index's tree one by one, in their order. */
  *insert(counted: (entries: number) => void): Steps<void> {
    const { index } = this;
    const { pages } = index.tree;
    const key = new ByteWriter(64);
    let count = 0;
    for (let at = this.#sorter.next(); at !== undefined; at = this.#sorter.next()) {
      const { state, keyBytes, ordinal } = headOf(at);
      pages.settle();
      key.length = 0;
      key.append(at.bytes, at.keyOffset, at.keyOffset + keyBytes);
      if (state === STRICT) {
        this.#requireOther(at, keyBytes, ordinal);
        if (index.hasKey(key)) throw this.#duplicate(key, undefined, ordinal);
      }
      const id = index.recordId(at.bytes, at.keyOffset + keyBytes, at.keyOffset + at.keyBytes);
      index.addBuilt(key, id, state);
      if (++count % ENTRIES_PER_STEP !== 0) continue;
      counted(count);
      yield;
    }
    counted(count);
  }

  /** Refuses a key that must be unique and that the entry before has as well. */
  #requireOther(at: SortedEntry, keyBytes: number, ordinal: number | undefined): void {
    const last = this.#last;
    const from = at.keyOffset;
    if (
      this.#hasLast &&
      last.length === keyBytes &&
      compareBytes(last.bytes, 0, keyBytes, at.bytes, from, from + keyBytes) === 0
    ) {
      throw this.#duplicate(last, this.#lastOrdinal, ordinal);
    }
    this.#hasLast = true;
    this.#lastOrdinal = ordinal;
    last.length = 0;
    last.append(at.bytes, from, from + keyBytes);
  }

  #duplicate(key: ByteWriter, a: number | undefined, b: number | undefined): Error {
    const isInOrder = a === undefined || (b !== undefined && a < b);
    const both: DuplicateOrdinals = isInOrder ? [a, b] : [b, a];
    return this.index.duplicateOf(key, both[1] === undefined ? undefined : both);
  }

  close(): void {
    this.#sorter.close();
  }
}

function headOf(at: SortedEntry): {
  state: KeyState;
  keyBytes: number;
  ordinal: number | undefined;
} {
  const { bytes, rowOffset } = at;
  const end = rowOffset + at.rowBytes;
  const state = bytes[rowOffset] as KeyState;
  const keyBytes = readVarint(bytes, rowOffset + 1, end);
  const ordinal = readVarint(bytes, skipVarint(bytes, rowOffset + 1), end);
  return { state, keyBytes, ordinal: ordinal === 0 ? undefined : ordinal - 1 };
}
