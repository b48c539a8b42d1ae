/**
 * How the entries of a write buffer enter their tree.
 *
 * They are put in the order of their keys, each near the one before. A tree that has few entries
 * beside them is built anew, bottom-up, which is faster and fills its pages.
 */
import { compareBytes } from '../base/bytes.ts';
import { Cursor } from './btree-cursor.ts';
import { copyBytes } from './btree-node.ts';
import { clearTree } from './btree-range.ts';
import { EQUAL } from './btree-write.ts';
import type { Tree } from './btree.ts';
import { TreeBuilder } from './bulk.ts';
import { WRITER } from './pages.ts';
import type { WriteBuffer } from './write-buffer.ts';
import { BUFFERED_BYTES_MAX, type WriteBuffers } from './write-buffers.ts';

/** A tree of at most so many entries is built anew, bottom-up, by a batch of at least so many. */
const FEW_ENTRIES = 256;
const BUILT_ENTRIES_MIN = 64;

interface SettledEntry {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
}

const batchKey = new Uint8Array(BUFFERED_BYTES_MAX);

/** Writes the entries of a buffer, in the order of their keys, to a tree in which none wait. */
export function writeBatch(
  tree: Tree,
  buffer: WriteBuffer,
  ordinals: Int32Array,
  buffers: WriteBuffers,
): void {
  const few = ordinals.length >= BUILT_ENTRIES_MIN ? takeFew(tree) : undefined;
  if (few !== undefined) buildFrom(tree, few, buffer, ordinals, buffers);
  else putBatch(tree, buffer, ordinals, buffers);
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
  buffer: WriteBuffer,
  ordinals: Int32Array,
  buffers: WriteBuffers,
): void {
  const builder = new TreeBuilder(tree);
  const addOld = ({ key, value }: SettledEntry) =>
    builder.add(key, key.length, value, 0, value.length);
  let next = 0;
  for (const ordinal of ordinals) {
    const bytes = buffer.bytesOf(ordinal);
    const at = buffer.keyAt(ordinal);
    const length = buffer.keyLengthOf(ordinal);
    const valueAt = buffer.valueAt(ordinal);
    const valueLength = buffer.valueLengthOf(ordinal);
    for (; next < few.length; next++) {
      const old = few[next]!;
      const sign = compareBytes(old.key, 0, old.key.length, bytes, at, at + length);
      if (sign > 0) break;
      if (sign < 0) addOld(old);
      else if (
        compareBytes(old.value, 0, old.value.length, bytes, valueAt, valueAt + valueLength) === 0
      )
        buffers.elidedPuts++;
    }
    builder.addFrom(bytes, at, length, bytes, valueAt, valueLength);
  }
  few.slice(next).forEach(addOld);
  builder.finish();
}

function putBatch(
  tree: Tree,
  buffer: WriteBuffer,
  ordinals: Int32Array,
  buffers: WriteBuffers,
): void {
  const writer = tree.writer;
  writer.forget();
  // Every other batch from its end: the leaves that are still in the cache come first.
  if (buffer.batches % 2 === 0) ordinals.reverse();
  for (const ordinal of ordinals) {
    const bytes = buffer.bytesOf(ordinal);
    const length = buffer.keyLengthOf(ordinal);
    copyBytes(bytes, buffer.keyAt(ordinal), batchKey, 0, length);
    tree.pages.settle();
    const at = buffer.valueAt(ordinal);
    const result = writer.putNext(batchKey, length, bytes, at, buffer.valueLengthOf(ordinal));
    if (result === EQUAL) buffers.elidedPuts++;
  }
}
