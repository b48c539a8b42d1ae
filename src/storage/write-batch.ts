/**
 * How the entries of a write buffer enter their tree.
 *
 * They are put in the order of their keys, each near the one before. A tree that has few entries
 * beside them is built anew, bottom-up, which is faster and fills its pages.
 */
import { compareBytes } from '../base/bytes.ts';
import type { SortedEntry } from '../model/sort-arena.ts';
import type { MergeReader } from '../model/sort-merge.ts';
import { Cursor } from './btree-cursor.ts';
import { copyBytes } from './btree-node.ts';
import { clearTree } from './btree-range.ts';
import { EQUAL } from './btree-write.ts';
import type { Tree } from './btree.ts';
import { TreeBuilder } from './bulk.ts';
import { WRITER } from './pages.ts';
import type { WriteBuffer } from './write-buffer.ts';
import { BUFFERED_BYTES_MAX, type WriteBuffers } from './write-buffers.ts';
import type { WriteRuns } from './write-runs.ts';

/** A tree of at most so many entries is built anew, bottom-up, by a batch of at least so many. */
const FEW_ENTRIES = 256;
const BUILT_ENTRIES_MIN = 64;

interface SettledEntry {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
}

const batchKey = new Uint8Array(BUFFERED_BYTES_MAX);

/** Entries in the order of their keys; of equal keys the first counts. */
interface SortedSource {
  /** The next entry, valid until the call after it; `undefined` at the end. */
  next(): SourceEntry | undefined;
}

type SourceEntry = Omit<SortedEntry, 'ordinal'>;

/** The entries of a buffer, in the order of ordinals. */
class BufferSource implements SortedSource, SourceEntry {
  bytes: Uint8Array = batchKey;
  keyOffset = 0;
  keyBytes = 0;
  rowOffset = 0;
  rowBytes = 0;
  readonly #buffer: WriteBuffer;
  readonly #ordinals: Int32Array;
  #next = 0;

  constructor(buffer: WriteBuffer, ordinals: Int32Array) {
    this.#buffer = buffer;
    this.#ordinals = ordinals;
  }

  next(): SourceEntry | undefined {
    if (this.#next === this.#ordinals.length) return undefined;
    const ordinal = this.#ordinals[this.#next++]!;
    this.bytes = this.#buffer.bytesOf(ordinal);
    this.keyOffset = this.#buffer.keyAt(ordinal);
    this.keyBytes = this.#buffer.keyLengthOf(ordinal);
    this.rowOffset = this.keyOffset + this.keyBytes;
    this.rowBytes = this.#buffer.valueLengthOf(ordinal);
    return this;
  }
}

/** Writes the entries of a buffer, in the order of their keys, to a tree in which none wait. */
export function writeBatch(
  tree: Tree,
  buffer: WriteBuffer,
  ordinals: Int32Array,
  buffers: WriteBuffers,
): void {
  const few = ordinals.length >= BUILT_ENTRIES_MIN ? takeFew(tree) : undefined;
  // Every other batch from its end: the leaves that are still in the cache come first.
  if (few === undefined && buffer.batches % 2 === 0) ordinals.reverse();
  const source = new BufferSource(buffer, ordinals);
  if (few !== undefined) buildFrom(tree, few, source, buffers);
  else putBatch(tree, source, buffers);
  tree.pages.settle();
}

/** Writes the entries of runs to a tree in which none wait, and gives the runs back. */
export function writeRuns(tree: Tree, runs: WriteRuns, buffers: WriteBuffers): void {
  let source: MergeReader | undefined;
  try {
    tree.pages.settle();
    const few = takeFew(tree);
    source = runs.take(buffers.roomForMerge());
    if (few !== undefined) buildFrom(tree, few, source, buffers);
    else putBatch(tree, source, buffers);
  } finally {
    source?.close();
    runs.close();
  }
  tree.pages.settle();
}

/** Takes all entries out of a tree that has few, and all small; `undefined` if it is not so. */
function takeFew(tree: Tree): SettledEntry[] | undefined {
  if (tree.settledCount > FEW_ENTRIES) return undefined;
  const few: SettledEntry[] = [];
  const cursor = new Cursor(tree, WRITER);
  try {
    for (let found = cursor.first(); found; found = cursor.next()) {
      if (cursor.keyLength + cursor.valueBytes > BUFFERED_BYTES_MAX) return undefined;
      few.push({ key: cursor.key.slice(0, cursor.keyLength), value: cursor.valueCopy() });
    }
  } finally {
    cursor.close();
  }
  if (few.length > 0) clearTree(tree);
  return few;
}

/** Builds the tree bottom-up of entries that it had and those that waited. */
function buildFrom(
  tree: Tree,
  few: readonly SettledEntry[],
  source: SortedSource,
  buffers: WriteBuffers,
): void {
  const builder = new TreeBuilder(tree);
  const addOld = ({ key, value }: SettledEntry) =>
    builder.add(key, key.length, value, 0, value.length);
  let next = 0;
  for (let at = source.next(); at !== undefined; at = source.next()) {
    const { bytes, keyOffset, keyBytes, rowOffset, rowBytes } = at;
    for (; next < few.length; next++) {
      const old = few[next]!;
      const sign = compareBytes(old.key, 0, old.key.length, bytes, keyOffset, keyOffset + keyBytes);
      if (sign > 0) break;
      if (sign < 0) addOld(old);
      else if (
        compareBytes(old.value, 0, old.value.length, bytes, rowOffset, rowOffset + rowBytes) === 0
      )
        buffers.elidedPuts++;
    }
    builder.tryAdd(bytes, keyOffset, keyBytes, bytes, rowOffset, rowBytes);
  }
  few.slice(next).forEach(addOld);
  builder.finish();
}

function putBatch(tree: Tree, source: SortedSource, buffers: WriteBuffers): void {
  const writer = tree.writer;
  writer.forget();
  let length = -1;
  for (let at = source.next(); at !== undefined; at = source.next()) {
    const { bytes, keyOffset, keyBytes, rowOffset, rowBytes } = at;
    const end = keyOffset + keyBytes;
    if (compareBytes(batchKey, 0, length, bytes, keyOffset, end) === 0) continue; // an older one
    length = keyBytes;
    copyBytes(bytes, keyOffset, batchKey, 0, length);
    tree.pages.settle();
    const result = writer.putNext(batchKey, length, bytes, rowOffset, rowBytes);
    if (result === EQUAL) buffers.elidedPuts++;
  }
}
