/**
 * The cursors of the embedded source. Each call of `next` looks its place up again by key, fills
 * one batch and lets go of every page, so a cursor holds nothing between calls and may live across
 * writes and commits; a snapshot gives it one state throughout.
 *
 *   RecordScan   a collection in the order of its keys
 *   IndexScan    the entries of an index, with the records they name, or, if the key has all that
 *                is asked for, without reading them
 *   BucketScan   a key-value bucket
 *   RecordFetch  records by their ids
 *
 * Positions are encoded keys; an index scan's is length (varint), index key, key of the record.
 */
import { ByteWriter, compareBytes, MALFORMED, readVarint, skipVarint } from '../base/bytes.ts';
import type { Ledger } from '../base/ledger.ts';
import { failure } from '../errors.ts';
import { Batch, BATCH_ROWS, batchBytes, type RecordId } from '../model/batch.ts';
import type { Cursor } from '../model/source.ts';
import { KIND, type Kind, type Value } from '../model/value.ts';
import { Cursor as TreeCursor } from '../storage/btree-cursor.ts';
import type { Tree } from '../storage/btree.ts';
import type { View } from '../storage/pages.ts';
import type { Bucket } from './bucket.ts';
import type { Collection } from './collection.ts';
import type { CollectionIndex } from './collection-index.ts';
import type { EncodedRange } from './key-ranges.ts';
import type { RowFields } from './row-fields.ts';

/** What the scans have in common. */
export interface ScanPlan {
  /** In ascending order, without overlaps. */
  readonly ranges: readonly EncodedRange[];
  readonly reverse: boolean;
  readonly limit: number;
  readonly after: Uint8Array | undefined;
  readonly view: View;
  readonly columnCount: number;
  /** What the batch is charged to. */
  readonly ledger: Ledger | undefined;
}

abstract class BatchCursor implements Cursor<never> {
  protected readonly batch: Batch;
  #left: number;
  #isDone = false;
  readonly #ledger: Ledger | undefined;
  #chargedBytes: number;

  constructor(columnCount: number, limit: number, ledger: Ledger | undefined) {
    const rows = Math.max(1, Math.min(BATCH_ROWS, limit));
    this.#left = limit;
    this.#ledger = ledger;
    this.#chargedBytes = batchBytes(columnCount, rows);
    ledger?.charge('work', this.#chargedBytes);
    this.batch = new Batch(columnCount, rows);
  }

  next(): Batch | undefined {
    if (this.#isDone) return undefined;
    const { batch } = this;
    batch.clear();
    if (this.#left > 0) this.fill(Math.min(batch.capacity, this.#left));
    this.#left -= batch.count;
    if (batch.count > 0) return batch;
    this.close();
    return undefined;
  }

  close(): void {
    this.#isDone = true;
    this.#ledger?.release('work', this.#chargedBytes);
    this.#chargedBytes = 0;
  }

  abstract position(): Uint8Array | undefined;
  /** Fills the emptied batch with up to so many rows; with none at the end. */
  protected abstract fill(rowCount: number): void;
}

/** A walk over the entries of a tree that lie in ranges, from a place on. */
class RangeWalk {
  readonly #tree: Tree;
  readonly #plan: ScanPlan;
  #range: number;

  constructor(tree: Tree, plan: ScanPlan) {
    this.#tree = tree;
    this.#plan = plan;
    this.#range = plan.reverse ? plan.ranges.length - 1 : 0;
  }

  /** Opens a cursor; whoever asks closes it. */
  open(): TreeCursor {
    return new TreeCursor(this.#tree, this.#plan.view);
  }

  /** Goes to the first entry of what is left; answers whether there is one. */
  start(cursor: TreeCursor): boolean {
    const range = this.#plan.ranges[this.#range];
    if (range === undefined) return false;
    return this.settle(cursor, this.#enter(cursor, range));
  }

  #enter(cursor: TreeCursor, { from, to }: EncodedRange): boolean {
    if (this.#plan.reverse)
      return to === undefined ? cursor.last() : cursor.seek(to, to.length, false, true);
    return from === undefined ? cursor.first() : cursor.seek(from, from.length);
  }

  step(cursor: TreeCursor): boolean {
    return this.settle(cursor, this.#plan.reverse ? cursor.previous() : cursor.next());
  }

  /** Goes on to later ranges until the cursor's entry lies in one; answers whether it does. */
  settle(cursor: TreeCursor, found: boolean): boolean {
    const { ranges, reverse } = this.#plan;
    while (found) {
      const range = ranges[this.#range];
      if (range === undefined) return false;
      const { key, keyLength } = cursor;
      const isPast = reverse ? range.isBefore(key, keyLength) : range.isBehind(key, keyLength);
      const isShort = reverse ? range.isBehind(key, keyLength) : range.isBefore(key, keyLength);
      if (!isPast && !isShort) return true;
      if (isPast) this.#range += reverse ? -1 : 1;
      const next = ranges[this.#range];
      if (next === undefined) return false;
      // What lies before the next range is not walked over.
      found = this.#enter(cursor, next);
    }
    return false;
  }

  /** Goes behind an entry by its key. */
  resume(cursor: TreeCursor, key: Uint8Array): boolean {
    const found = cursor.seek(key, key.length, false, this.#plan.reverse);
    return this.settle(cursor, found);
  }
}

export class RecordScan extends BatchCursor {
  readonly #collection: Collection;
  readonly #fields: RowFields;
  readonly #walk: RangeWalk;
  #after: Uint8Array | undefined;

  constructor(collection: Collection, fields: RowFields, plan: ScanPlan) {
    super(plan.columnCount, plan.limit, plan.ledger);
    this.#collection = collection;
    this.#fields = fields;
    this.#walk = new RangeWalk(collection.tree, plan);
    this.#after = plan.after;
  }

  protected override fill(rowCount: number): void {
    const walk = this.#walk;
    const cursor = walk.open();
    const { keys } = this.#collection;
    const { reader } = this.#fields;
    try {
      let found = this.#after ? walk.resume(cursor, this.#after) : walk.start(cursor);
      while (found) {
        const id = keys.toId(cursor.key, 0, cursor.keyLength);
        openAt(cursor, reader, id);
        this.#fields.addRow(this.batch, id);
        if (this.batch.count === rowCount) {
          this.#after = cursor.key.slice(0, cursor.keyLength);
          return;
        }
        found = walk.step(cursor);
      }
      const last = this.batch.ids[this.batch.count - 1];
      if (this.batch.count > 0) this.#after = keyOf(this.#collection, last!);
    } finally {
      cursor.close();
    }
  }

  override position(): Uint8Array | undefined {
    return this.#after;
  }
}

function openAt(cursor: TreeCursor, reader: RowFields['reader'], id: RecordId): void {
  const integer = id instanceof Uint8Array ? 0 : id;
  if (cursor.isOverflow) {
    const bytes = cursor.valueCopy();
    reader.open(bytes, 0, bytes.length, integer);
  } else {
    const { bytes, valueOffset, valueBytes } = cursor;
    reader.open(bytes, valueOffset, valueOffset + valueBytes, integer);
  }
}

function keyOf(collection: Collection, id: RecordId): Uint8Array {
  const writer = new ByteWriter(16);
  collection.keys.fromId(id, writer);
  return writer.copy();
}

export class BucketScan extends BatchCursor {
  readonly #bucket: Bucket;
  readonly #fields: readonly string[];
  readonly #walk: RangeWalk;
  #after: Uint8Array | undefined;

  constructor(bucket: Bucket, fields: readonly string[], plan: ScanPlan) {
    super(plan.columnCount, plan.limit, plan.ledger);
    this.#bucket = bucket;
    this.#fields = fields;
    this.#walk = new RangeWalk(bucket.tree, plan);
    this.#after = plan.after;
  }

  protected override fill(rowCount: number): void {
    const walk = this.#walk;
    const cursor = walk.open();
    const { keys } = this.#bucket;
    try {
      let found = this.#after ? walk.resume(cursor, this.#after) : walk.start(cursor);
      while (found && this.batch.count < rowCount) {
        const row = this.batch.count++;
        this.batch.ids[row] = keys.toId(cursor.key, 0, cursor.keyLength);
        for (let i = 0; i < this.#fields.length; i++)
          this.batch.columns[i]!.set(row, this.#value(cursor, this.#fields[i]!));
        this.#after = cursor.key.slice(0, cursor.keyLength);
        found = this.batch.count < rowCount && walk.step(cursor);
      }
    } finally {
      cursor.close();
    }
  }

  #value(cursor: TreeCursor, field: string): Value {
    return field === 'key'
      ? this.#bucket.keys.toValues(cursor.key, 0, cursor.keyLength)[0]!
      : this.#bucket.valueOf(cursor);
  }

  override position(): Uint8Array | undefined {
    return this.#after;
  }
}

/** Where a field that an index scan need not read records for comes from. */
export interface CoveredField {
  /** Part of the key; −1 for the record id. */
  readonly part: number;
  readonly kind: Kind;
}

export class IndexScan extends BatchCursor {
  readonly #collection: Collection;
  readonly #index: CollectionIndex;
  readonly #fields: RowFields;
  readonly #covered: readonly CoveredField[] | undefined;
  readonly #walk: RangeWalk;
  readonly #reverse: boolean;
  readonly #view: View;
  readonly #ids: RecordId[] = [];
  readonly #key = new ByteWriter(64);
  readonly #seek = new ByteWriter(64);
  #isStarted = false;
  #lastId: RecordId = 0;

  constructor(
    collection: Collection,
    index: CollectionIndex,
    fields: RowFields,
    covered: readonly CoveredField[] | undefined,
    plan: ScanPlan,
  ) {
    super(plan.columnCount, plan.limit, plan.ledger);
    this.#collection = collection;
    this.#index = index;
    this.#fields = fields;
    this.#covered = covered;
    this.#walk = new RangeWalk(index.tree, plan);
    this.#reverse = plan.reverse;
    this.#view = plan.view;
    if (plan.after !== undefined) this.#restore(plan.after);
  }

  protected override fill(rowCount: number): void {
    const walk = this.#walk;
    const cursor = walk.open();
    const { batch } = this;
    let wanted = 0;
    try {
      let found = this.#isStarted ? this.#resume(cursor) : walk.start(cursor);
      while (found && wanted < rowCount) {
        wanted = this.#takeEntry(cursor, wanted, rowCount);
        found = wanted < rowCount && walk.step(cursor);
      }
    } finally {
      cursor.close();
    }
    if (this.#covered !== undefined) return;
    for (let i = 0; i < wanted; i++) this.#readRecord(batch, batch.ids[i]!);
  }

  /** Takes the ids of the cursor's entry, as many as there is room for. */
  #takeEntry(cursor: TreeCursor, wanted: number, rowCount: number): number {
    const index = this.#index;
    const end = index.keyEnd(cursor);
    const isSameKey =
      this.#isStarted &&
      compareBytes(cursor.key, 0, end, this.#key.bytes, 0, this.#key.length) === 0;
    const ids = this.#ids;
    const count = index.idsAt(cursor, ids, 0);
    const values = this.#covered === undefined ? undefined : index.codec.decode(cursor.key, 0, end);
    for (let i = 0; i < count && wanted < rowCount; i++) {
      const id = ids[this.#reverse ? count - 1 - i : i]!;
      if (isSameKey && !this.#isAfter(id)) continue;
      this.batch.ids[wanted++] = id;
      if (values !== undefined) this.#coverRow(id, values);
      this.#lastId = id;
      this.#isStarted = true;
    }
    this.#key.length = 0;
    this.#key.append(cursor.key, 0, end);
    return wanted;
  }

  #isAfter(id: RecordId): boolean {
    const order = compareIds(id, this.#lastId);
    return this.#reverse ? order < 0 : order > 0;
  }

  #coverRow(id: RecordId, values: readonly Value[]): void {
    const { batch } = this;
    const row = batch.count++;
    this.#covered!.forEach(({ part, kind }, i) => {
      const value = part < 0 ? (id as Value) : values[part]!;
      const asFloat = kind === KIND.float && typeof value === 'bigint';
      const shown = asFloat ? Number(value) : value;
      batch.columns[i]!.set(row, shown, shown === null ? KIND.null : kind);
    });
  }

  #readRecord(batch: Batch, id: RecordId): void {
    if (!this.#collection.read(id, this.#view, this.#fields.reader)) {
      const { name, collection } = this.#index.definition;
      throw failure('corrupt.record', `index ${name} of ${collection} names a missing record`);
    }
    this.#fields.addRow(batch, id);
  }

  /** Goes to the entry that holds the last id, or where it would be: its rest comes next. */
  #resume(cursor: TreeCursor): boolean {
    const key = this.#key;
    this.#index.resumeKey(key, this.#lastId, this.#seek);
    const found = cursor.seek(this.#seek.bytes, this.#seek.length, true, true);
    const isBelow = !found || compareBytes(cursor.key, 0, key.length, key.bytes, 0, key.length) < 0;
    if (!isBelow || this.#reverse) return this.#walk.settle(cursor, found);
    return this.#walk.settle(cursor, found ? cursor.next() : cursor.first());
  }

  override position(): Uint8Array | undefined {
    if (!this.#isStarted) return undefined;
    const writer = new ByteWriter(64);
    writer.varint(this.#key.length);
    writer.append(this.#key.bytes, 0, this.#key.length);
    const record = keyOf(this.#collection, this.#lastId);
    writer.append(record, 0, record.length);
    return writer.copy();
  }

  #restore(position: Uint8Array): void {
    const length = readVarint(position, 0, position.length);
    const from = skipVarint(position, 0);
    if (length === MALFORMED || from + length > position.length)
      throw failure('usage.argument', '`after` is no position of this scan');
    this.#key.append(position, from, from + length);
    this.#lastId = this.#collection.keys.toId(position, from + length, position.length);
    this.#isStarted = true;
  }
}

function compareIds(a: RecordId, b: RecordId): number {
  if (a instanceof Uint8Array && b instanceof Uint8Array)
    return compareBytes(a, 0, a.length, b, 0, b.length);
  return a < b ? -1 : a > b ? 1 : 0;
}

export class RecordFetch extends BatchCursor {
  readonly #collection: Collection;
  readonly #fields: RowFields;
  readonly #records: readonly RecordId[];
  readonly #view: View;
  #next = 0;

  constructor(
    collection: Collection,
    fields: RowFields,
    records: readonly RecordId[],
    view: View,
    columnCount: number,
    ledger: Ledger | undefined,
  ) {
    super(columnCount, records.length, ledger);
    this.#collection = collection;
    this.#fields = fields;
    this.#records = records;
    this.#view = view;
  }

  protected override fill(rowCount: number): void {
    while (this.batch.count < rowCount && this.#next < this.#records.length) {
      const id = this.#records[this.#next++]!;
      if (this.#collection.read(id, this.#view, this.#fields.reader))
        this.#fields.addRow(this.batch, id);
    }
  }

  override position(): Uint8Array | undefined {
    return undefined;
  }
}
