/**
 * What the planner is told of a collection. Counts are exact and cost one page each: the trees keep
 * them. Distinct values of leading parts of a key, and the bytes of records, are estimated from a
 * few runs of neighbouring entries, spread over the tree; or they come from the last `analyse`,
 * which reads everything and stores what it saw in the catalog, and are scaled to today's count.
 *
 * Neighbours that differ in a leading part, as a share of all neighbours in the sampled runs, is an
 * unbiased estimate of different values per entry: each value begins once.
 */
import { ByteWriter, compareBytes } from '../base/bytes.ts';
import type { Steps } from '../base/steps.ts';
import type { CollectionStatistics, IndexStatistics } from '../model/source.ts';
import type { RecordReader } from '../model/record.ts';
import type { Value, ValueMap } from '../model/value.ts';
import { shareBelow } from '../storage/btree-check.ts';
import { Cursor } from '../storage/btree-cursor.ts';
import type { Tree } from '../storage/btree.ts';
import { WRITER, type View } from '../storage/pages.ts';
import { Bucket } from './bucket.ts';
import type { Collection } from './collection.ts';
import type { CollectionIndex } from './collection-index.ts';
import type { Store } from './store.ts';

const RUNS = 16;
const RUN_ENTRIES = 64;
const ENTRIES_PER_STEP = 1024;

/** What an analysis stores: counts at the time, and estimates that go with them. */
interface Analysis {
  readonly recordBytesAverage: number;
  readonly distinct: Readonly<
    Record<string, { entries: number; counts: readonly number[]; keysPerRecord?: number }>
  >;
}

/** The statistics of a collection as of a view. */
export function statisticsOf(
  store: Store,
  target: Collection | Bucket,
  view: View,
): CollectionStatistics {
  const analysis = store.catalog.analysis(target.structure, view) as unknown as
    Analysis | undefined;
  const indexes = target instanceof Bucket ? [] : target.indexes;
  return {
    recordCount: target.tree.count(view),
    recordBytesAverage: analysis?.recordBytesAverage ?? averageBytes(target.tree, view),
    indexes: indexes.map((index) => ({
      ...indexStatistics(index, view, analysis),
      keysPerRecord:
        analysis?.distinct[index.definition.name]?.keysPerRecord ??
        sampledKeys(target as Collection, index, view),
    })),
  };
}

function indexStatistics(
  index: CollectionIndex,
  view: View,
  analysis: Analysis | undefined,
): Omit<IndexStatistics, 'keysPerRecord'> {
  const { tree, definition } = index;
  const entryCount = tree.count(view);
  const known = analysis?.distinct[definition.name];
  const distinctCounts =
    known === undefined || known.entries === 0
      ? sampledCounts(index, entryCount, view)
      : known.counts.map((count) => Math.round((count * entryCount) / known.entries));
  return {
    name: definition.name,
    entryCount,
    distinctCounts,
    least: edge(index, view, false),
    greatest: edge(index, view, true),
  };
}

/** Average number of keys that sampled records have in an index. */
function sampledKeys(collection: Collection, index: CollectionIndex, view: View): number {
  if (!index.hasElements) return 1;
  const counter = new KeyCounter(collection, index);
  sample(collection.tree, view, (cursor) => counter.visit(cursor));
  return counter.average;
}

/** Counts the keys that records have in an index. */
class KeyCounter {
  readonly #index: CollectionIndex;
  readonly #reader: RecordReader;
  readonly #key = new ByteWriter(64);
  #keys = 0;
  #records = 0;

  constructor(collection: Collection, index: CollectionIndex) {
    this.#index = index;
    this.#reader = collection.codec.reader();
  }

  /** Counts those of the record that a cursor of its collection stands at. */
  visit(cursor: Cursor): void {
    const bytes = cursor.valueCopy();
    this.#reader.open(bytes, 0, bytes.length, 0);
    this.#index.eachKey(this.#reader, this.#key, () => this.#keys++);
    this.#records++;
  }

  get average(): number {
    return this.#records === 0 ? 1 : this.#keys / this.#records;
  }
}

function edge(index: CollectionIndex, view: View, last: boolean): Value | undefined {
  const { tree, codec } = index;
  if (!(last ? tree.last(view) : tree.first(view))) return undefined;
  return codec.decode(tree.key, 0, tree.keyLength, 1)[0];
}

/** Visits runs of neighbouring entries spread over a tree. */
function sample(tree: Tree, view: View, visit: (cursor: Cursor, isFirst: boolean) => void): void {
  const count = tree.count(view);
  const cursor = new Cursor(tree, view);
  try {
    for (const start of count <= RUNS * RUN_ENTRIES ? [undefined] : spreadKeys(tree, view)) {
      let found = start === undefined ? cursor.first() : cursor.seek(start, start.length);
      const most = start === undefined ? count : RUN_ENTRIES;
      for (let i = 0; found && i < most; i++) {
        visit(cursor, i === 0);
        found = cursor.next();
      }
    }
  } finally {
    cursor.close();
  }
}

/** Keys at equal shares of the entries, found by halving the first bytes in which keys differ. */
function spreadKeys(tree: Tree, view: View): Uint8Array[] {
  tree.first(view);
  const first = tree.key.slice(0, tree.keyLength);
  tree.last(view);
  const last = tree.key.slice(0, tree.keyLength);
  let shared = 0;
  while (shared < first.length && first[shared] === last[shared]) shared++;
  const keys: Uint8Array[] = [];
  for (let run = 0; run < RUNS; run++) {
    const wanted = (run + 0.5) / RUNS;
    const key = new Uint8Array(shared + 6);
    key.set(first.subarray(0, shared));
    let low = 0;
    let high = 2 ** 48;
    for (let i = 0; i < 32; i++) {
      const middle = Math.floor((low + high) / 2);
      for (let b = 0; b < 6; b++) key[shared + b] = Math.floor(middle / 256 ** (5 - b)) % 256;
      if (shareBelow(tree, view, key) < wanted) low = middle;
      else high = middle;
    }
    keys.push(key.slice());
  }
  return keys;
}

function averageBytes(tree: Tree, view: View): number {
  let bytes = 0;
  let count = 0;
  sample(tree, view, (cursor) => {
    bytes += cursor.valueBytes;
    count++;
  });
  return count === 0 ? 0 : bytes / count;
}

/** Counts where each number of leading parts changes from one entry to the next. */
class Changes {
  readonly counts: number[];
  pairs = 0;
  readonly #index: CollectionIndex;
  #last: Uint8Array | undefined;

  constructor(index: CollectionIndex) {
    this.#index = index;
    this.counts = index.definition.parts.map(() => 0);
  }

  visit(cursor: Cursor, isFirst: boolean): void {
    const key = cursor.key.slice(0, cursor.keyLength);
    if (!isFirst && this.#last !== undefined) {
      this.pairs++;
      const last = this.#last;
      for (let parts = 1; parts <= this.counts.length; parts++) {
        const end = this.#index.codec.end(key, 0, key.length, parts);
        if (compareBytes(key, 0, end, last, 0, Math.min(end, last.length)) !== 0)
          this.counts[parts - 1]!++;
      }
    }
    this.#last = key;
  }
}

function sampledCounts(index: CollectionIndex, entryCount: number, view: View): number[] {
  const changes = new Changes(index);
  sample(index.tree, view, (cursor, isFirst) => changes.visit(cursor, isFirst));
  return changes.counts.map((count) => {
    if (entryCount === 0) return 0;
    const share = changes.pairs === 0 ? 0 : count / changes.pairs;
    return Math.max(1, Math.round(1 + share * (entryCount - 1)));
  });
}

/** Reads a collection and its indexes once, and stores exact statistics in the catalog. */
export function* analyse(store: Store, name: string): Steps<void> {
  const collection = store.schema(WRITER).collection(name, WRITER);
  let bytes = 0;
  let count = 0;
  const counters = collection.indexes.map((index) =>
    index.hasElements ? new KeyCounter(collection, index) : undefined,
  );
  for (const cursor of eachEntry(collection.tree)) {
    if (cursor === undefined) yield;
    else {
      bytes += cursor.valueBytes;
      count++;
      for (const counter of counters) counter?.visit(cursor);
    }
  }
  const distinct: Record<string, Value> = {};
  for (const [i, index] of collection.indexes.entries()) {
    const changes = new Changes(index);
    for (const cursor of eachEntry(index.tree)) {
      if (cursor === undefined) yield;
      else changes.visit(cursor, false);
    }
    const entries = index.tree.count(WRITER);
    const counts = changes.counts.map((each) => (entries === 0 ? 0 : each + 1));
    const keysPerRecord = counters[i]?.average ?? 1;
    distinct[index.definition.name] = { entries, counts, keysPerRecord };
  }
  const analysis: ValueMap = { recordBytesAverage: count === 0 ? 0 : bytes / count, distinct };
  store.catalog.writeAnalysis(collection.structure, analysis);
}

/** A cursor at every entry of a tree in turn; `undefined` between steps. */
function* eachEntry(tree: Tree): Generator<Cursor | undefined> {
  const cursor = new Cursor(tree, WRITER);
  try {
    let count = 0;
    for (let found = cursor.first(); found; found = cursor.next()) {
      yield cursor;
      if (++count % ENTRIES_PER_STEP === 0) yield undefined;
    }
  } finally {
    cursor.close();
  }
}
