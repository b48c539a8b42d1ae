/**
 * Bulk loads: many records into one collection or bucket, in any order, in the open transaction.
 *
 *   addEntry, addRecord ──> encoded, with its key, into the sorter
 *   finish ──> the tree: sorted records merged with what is there, built bottom-up
 *          └─> each index: keys sorted, built bottom-up (index-build.ts)
 *
 * Few records, against what the collection holds already, are put into the trees there are, in
 * order of their keys. Whoever drives a load takes everything back when it fails: the pages are
 * private pages of the transaction, spilled to free slots that nothing names before its commit.
 *
 * All sorting stays inside one share of the budget, planned as the load begins, and gives it back.
 */
import { ByteWriter, compareBytes } from '../base/bytes.ts';
import { assert } from '../base/assert.ts';
import type { Steps } from '../base/steps.ts';
import { failure } from '../errors.ts';
import type { BulkLoader, BulkLoadOptions, BulkProgress, BulkReport } from '../model/bulk.ts';
import type { RecordInput, RecordReader } from '../model/record.ts';
import { partName } from '../model/schema.ts';
import { Sorter, type SortedEntry } from '../model/sorter.ts';
import type { Value } from '../model/value.ts';
import { Cursor } from '../storage/btree-cursor.ts';
import { TreeBuilder } from '../storage/bulk.ts';
import { WRITER } from '../storage/pages.ts';
import { Bucket } from './bucket.ts';
import type { Collection } from './collection.ts';
import { duplicateKey, type DuplicateOrdinals } from './collection-index.ts';
import { IndexBuild } from './index-build.ts';
import type { Store } from './store.ts';
import { planWork, type WorkPlan } from './work-plan.ts';

/** Records between two places where other work may be done, and between two reports. */
const RECORDS_PER_STEP = 256;
const RECORDS_PER_PROGRESS = 16 * 1024;
/** A load of fewer than one record for so many that are there goes into the trees there are. */
const REBUILD_RATIO = 4;
/** Share of the plan that keys of all indexes get together. */
const INDEX_SHARE = 0.5;
const INDEX_BYTES_MIN = 64 * 1024;

const POLICIES = ['refuse', 'replace', 'keep'] as const;

/** Begins a load into a collection or bucket, as the open transaction has it. */
export function beginLoad(store: Store, name: string, options: BulkLoadOptions): BulkLoader {
  store.transaction.requireOpen();
  return new Load(store, name, options);
}

class Load implements BulkLoader {
  readonly #store: Store;
  readonly #target: Bucket | Collection;
  readonly #policy: (typeof POLICIES)[number];
  readonly #fill: number;
  readonly #onProgress: ((progress: BulkProgress) => void) | undefined;
  readonly #plan: WorkPlan;
  readonly #sorter: Sorter;
  readonly #indexes: readonly IndexBuild[];
  readonly #reader: RecordReader | undefined;
  #loaded = 0;
  #replaced = 0;
  #kept = 0;
  #levels = 0;
  /** Place in the load of the record written last, -1 if that was not of the load. */
  #lastOrdinal = -1;

  constructor(store: Store, name: string, options: BulkLoadOptions) {
    const { onDuplicate = 'refuse', fill = 1 } = options;
    if (!POLICIES.includes(onDuplicate)) {
      throw failure('usage.argument', `onDuplicate: ${String(onDuplicate)} is not known`, {
        hint: `It is one of ${POLICIES.join(', ')}.`,
      });
    }
    if (!(fill >= 0.3 && fill <= 1)) {
      throw failure('usage.argument', `fill: ${String(fill)} is not a number from 0.3 to 1`);
    }
    this.#store = store;
    this.#policy = onDuplicate;
    this.#fill = fill;
    this.#onProgress = options.onProgress;
    this.#target = store.schema(WRITER).require(name, WRITER);
    this.#plan = planWork(store);
    const indexes = this.#target instanceof Bucket ? [] : this.#target.indexes;
    const { shareBytes } = this.#plan;
    const own = indexes.length === 0 ? shareBytes : shareBytes * (1 - INDEX_SHARE);
    const each = Math.max(INDEX_BYTES_MIN, (shareBytes * INDEX_SHARE) / indexes.length);
    this.#sorter = new Sorter(this.#plan.part(Math.floor(own)), {
      ordinals: true,
      latestFirst: onDuplicate === 'replace',
    });
    this.#indexes = indexes.map(
      (index) => new IndexBuild(index, this.#plan.part(Math.floor(each))),
    );
    this.#reader = this.#target instanceof Bucket ? undefined : this.#target.codec.reader();
  }

  addEntry(key: Value, value: Value): void {
    assert(this.#target instanceof Bucket, 'entries go into buckets');
    this.#target.addTo(this.#sorter, key, value);
    this.#noteRead();
  }

  addRecord(record: RecordInput): void {
    assert(!(this.#target instanceof Bucket), 'records go into collections');
    this.#target.addTo(this.#sorter, record);
    this.#noteRead();
  }

  #noteRead(): void {
    if (this.#sorter.count % RECORDS_PER_PROGRESS === 0) this.#progress('read', this.#sorter.count);
  }

  #progress(phase: BulkProgress['phase'], records: number, index?: string): void {
    const { bytes } = this.#sorter;
    this.#onProgress?.({ phase, records, bytes, ...(index !== undefined && { index }) });
  }

  *finish(): Steps<Omit<BulkReport, 'seconds'>> {
    const { tree } = this.#target;
    this.#store.transaction.requireOpen();
    const { count } = this.#sorter;
    this.#progress('read', count);
    const there = tree.count(WRITER);
    const isBuilt = there === 0 || count * REBUILD_RATIO >= there;
    if (count > 0) {
      if (isBuilt) yield* this.#build(there);
      else yield* this.#insert();
      yield* this.#finishIndexes(isBuilt);
    }
    const runs = this.#indexes.reduce((n, i) => n + i.runsSpilled, this.#sorter.runsSpilled);
    return {
      records: count,
      loaded: this.#loaded,
      replaced: this.#replaced,
      kept: this.#kept,
      bytes: this.#sorter.bytes,
      runs,
      levels: this.#levels,
      workBytesPeak: this.#plan.peakBytes,
    };
  }

  *#finishIndexes(isBuilt: boolean): Steps<void> {
    this.#sorter.close(); // its memory is of no more use
    for (const build of this.#indexes) {
      const { name } = build.index.definition;
      let reported = 0;
      const counted = (entries: number): void => {
        if (entries - reported < RECORDS_PER_PROGRESS && entries !== 0) return;
        reported = entries;
        this.#progress('index', entries, name);
      };
      yield* isBuilt ? build.build(this.#fill, counted) : build.insert(counted);
      build.close();
    }
  }

  // ---- a tree that is built anew

  *#build(there: number): Steps<void> {
    const { tree } = this.#target;
    const builder = new TreeBuilder(tree, this.#fill);
    const cursor = there > 0 ? new Cursor(tree, WRITER) : undefined;
    try {
      let isThere = cursor?.first() ?? false;
      let at = this.#sorter.next();
      for (let count = 0; at !== undefined || isThere;) {
        const order = !isThere ? -1 : at === undefined ? 1 : orderOf(at, cursor!);
        if (order > 0) {
          this.#addThere(builder, cursor!);
          isThere = cursor!.next();
        } else if (order === 0 && this.#policy !== 'keep') {
          if (this.#policy === 'refuse') throw this.#duplicate(at!, undefined);
          this.#replaced++;
          this.#loaded--; // the one that takes its place is not new
          isThere = cursor!.next();
        } else {
          if (order === 0) this.#kept++;
          else this.#addLoaded(builder, at!);
          at = this.#sorter.next();
        }
        if (++count % RECORDS_PER_PROGRESS === 0) this.#progress('build', count);
        if (count % RECORDS_PER_STEP === 0) yield;
      }
    } finally {
      cursor?.close();
    }
    builder.finish();
    this.#levels = builder.levelCount;
  }

  /** Adds the record that a cursor stands at. */
  #addThere(builder: TreeBuilder, cursor: Cursor): void {
    const bytes = cursor.isOverflow ? cursor.valueCopy() : cursor.bytes;
    const from = cursor.isOverflow ? 0 : cursor.valueOffset;
    this.#addToIndexes(cursor.key, 0, cursor.keyLength, bytes, from, cursor.valueBytes);
    builder.add(cursor.key, cursor.keyLength, bytes, from, cursor.valueBytes);
    this.#lastOrdinal = -1;
  }

  #addLoaded(builder: TreeBuilder, at: SortedEntry): void {
    const { bytes, keyOffset, keyBytes, rowOffset, rowBytes, ordinal } = at;
    const isNew = builder.tryAdd(bytes, keyOffset, keyBytes, bytes, rowOffset, rowBytes);
    if (!isNew) return this.#meetTwin(at);
    this.#addToIndexes(bytes, keyOffset, keyBytes, bytes, rowOffset, rowBytes, ordinal);
    this.#loaded++;
    this.#lastOrdinal = ordinal;
  }

  /** A record of the load has the key of the one before it. */
  #meetTwin(at: SortedEntry): void {
    if (this.#policy === 'refuse') throw this.#duplicate(at, this.#lastOrdinal);
    if (this.#policy === 'replace') this.#replaced++;
    else this.#kept++;
  }

  #addToIndexes(
    key: Uint8Array,
    keyOffset: number,
    keyBytes: number,
    record: Uint8Array,
    offset: number,
    byteCount: number,
    ordinal?: number,
  ): void {
    if (this.#indexes.length === 0) return;
    const reader = this.#open(key, keyOffset, keyBytes, record, offset, byteCount);
    const own = key.subarray(keyOffset, keyOffset + keyBytes);
    for (const build of this.#indexes) build.add(reader, own, keyBytes, ordinal);
  }

  #open(
    key: Uint8Array,
    keyOffset: number,
    keyBytes: number,
    record: Uint8Array,
    offset: number,
    byteCount: number,
  ): RecordReader {
    const { keys } = this.#target;
    const id = keys.form === 'id' ? keys.toId(key, keyOffset, keyOffset + keyBytes) : 0;
    this.#reader!.open(record, offset, offset + byteCount, id as number | bigint);
    return this.#reader!;
  }

  // ---- a tree that is kept

  *#insert(): Steps<void> {
    const { tree } = this.#target;
    const key = new ByteWriter(64);
    let count = 0;
    for (let at = this.#sorter.next(); at !== undefined; at = this.#sorter.next()) {
      tree.pages.settle();
      const { bytes, keyOffset, keyBytes } = at;
      const end = keyOffset + keyBytes;
      const isTwin =
        count > 0 && compareBytes(key.bytes, 0, key.length, bytes, keyOffset, end) === 0;
      if (isTwin && this.#lastOrdinal >= 0) this.#meetTwin(at);
      else if (isTwin) this.#kept++;
      else {
        key.length = 0;
        key.append(bytes, keyOffset, end);
        this.#insertOne(key, at);
      }
      if (++count % RECORDS_PER_PROGRESS === 0) this.#progress('build', count);
      if (count % RECORDS_PER_STEP === 0) yield;
    }
  }

  #insertOne(key: ByteWriter, at: SortedEntry): void {
    const { tree } = this.#target;
    const { bytes, rowOffset, rowBytes, ordinal } = at;
    this.#lastOrdinal = -1;
    if (tree.find(WRITER, key.bytes, key.length)) {
      if (this.#policy === 'refuse') throw this.#duplicate(at, undefined);
      if (this.#policy === 'keep') {
        this.#kept++;
        return;
      }
      this.#removeFromIndexes(key);
      this.#replaced++;
    } else this.#loaded++;
    tree.put(key.bytes, key.length, bytes, rowOffset, rowBytes);
    this.#addToIndexes(key.bytes, 0, key.length, bytes, rowOffset, rowBytes, ordinal);
    this.#lastOrdinal = ordinal;
  }

  /** Takes the keys of the record that the tree has just found out of the indexes. */
  #removeFromIndexes(key: ByteWriter): void {
    if (this.#indexes.length === 0) return;
    const old = this.#target.tree.valueCopy();
    const reader = this.#open(key.bytes, 0, key.length, old, 0, old.length);
    const id = this.#target.keys.toId(key.bytes, 0, key.length);
    for (const { index } of this.#indexes) {
      index.planUnchecked(reader, undefined, true);
      index.apply(id, id);
    }
  }

  #duplicate(at: SortedEntry, other: number | undefined): Error {
    const { keys, definition } = this.#target;
    const { key, fields } = definition;
    const { keyOffset, keyBytes, ordinal } = at;
    const names =
      key.kind === 'fields'
        ? key.parts.map(partName)
        : [key.kind === 'integer' ? (key.field ?? 'record id') : fields[0]!.name];
    const values = keys.toValues(at.bytes, keyOffset, keyOffset + keyBytes);
    const isInOrder = other === undefined || other < ordinal;
    const ordinals: DuplicateOrdinals = isInOrder ? [other, ordinal] : [ordinal, other];
    return duplicateKey(definition.name, names, values, undefined, ordinals);
  }

  close(): void {
    this.#sorter.close();
    for (const build of this.#indexes) build.close();
  }
}

function orderOf(at: SortedEntry, cursor: Cursor): number {
  const { bytes, keyOffset, keyBytes } = at;
  return compareBytes(bytes, keyOffset, keyOffset + keyBytes, cursor.key, 0, cursor.keyLength);
}
