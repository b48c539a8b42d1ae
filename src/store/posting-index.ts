/**
 * An index whose entries are postings of integer ids (`posting.ts` has their format).
 *
 * A lookup of a key with one record, or few, is one descent to its head. Further blocks lie behind
 * the head under longer keys, so all ids of a key are one range of the tree.
 *
 * Ids that come to one key one after the other, ascending, wait together until another key comes:
 * then they enter the tree as one entry. Like everything that waits (write-buffer.ts) they do so
 * before anything else looks at the tree.
 */
import { ByteWriter, compareBytes } from '../base/bytes.ts';
import { failure } from '../errors.ts';
import type { RecordId } from '../model/batch.ts';
import type { Collations } from '../model/collation.ts';
import { ID_BYTES, readIdKey, writeIdKey } from '../model/key.ts';
import type { RecordCodec } from '../model/record.ts';
import type { IndexDefinition } from '../model/schema.ts';
import type { Integer } from '../model/temporal.ts';
import { Cursor } from '../storage/btree-cursor.ts';
import type { EntryReader } from '../storage/btree-reader.ts';
import type { BatchWriter, Tree } from '../storage/btree.ts';
import { TreeBuilder } from '../storage/bulk.ts';
import { WRITER, type View } from '../storage/pages.ts';
import type { WriteBuffer } from '../storage/write-buffer.ts';
import { CollectionIndex, STRICT, type EntryBuilder, type KeyState } from './collection-index.ts';
import {
  appendId,
  BLOCK_BYTES_MAX,
  isContinued,
  markContinued,
  PostingWalk,
  splitBlock,
  writeSingle,
  writeWith,
  writeWithout,
} from './posting.ts';

const block = new ByteWriter(1024);
const second = new ByteWriter(1024);
const blockKey = new ByteWriter(256);
/** Key and value of the entry that a cursor came to last. */
const entry = new ByteWriter(256);
const found = new ByteWriter(1024);
const walk = new PostingWalk();
const openWalk = new PostingWalk();
/** A key of a batch. */
const batchKey = new ByteWriter(256);
/** An open posting takes no more ids from here on: then it fits a block. */
const OPEN_BYTES_MAX = BLOCK_BYTES_MAX - ID_BYTES - 2;
/** An empty index is built bottom-up from a batch of at least so many ids. */
const BUILT_IDS_MIN = 64;

export class PostingIndex extends CollectionIndex implements BatchWriter {
  readonly #isLoose: boolean;
  /** Whether ids of one key wait: the key, their block, and the last of them. */
  isWaiting = false;
  readonly #openKey = new ByteWriter(64);
  readonly #open = new ByteWriter(64);
  #openLast: Integer = 0;

  constructor(
    definition: IndexDefinition,
    tree: Tree,
    records: RecordCodec,
    collations: Collations,
  ) {
    super(definition, tree, records, collations);
    this.#isLoose = !definition.unique;
    if (this.#isLoose) this.#takeOver();
  }

  override hasKey(key: ByteWriter): boolean {
    return this.tree.has(WRITER, key.bytes, key.length);
  }

  protected override add(key: ByteWriter, id: RecordId, state: KeyState): void {
    const { tree } = this;
    if (state === STRICT) {
      writeSingle(block, id as Integer);
      tree.add(key.bytes, key.length, block.bytes, 0, block.length);
      return;
    }
    if (!this.#isLoose || !tree.isBuffered) return this.#addNow(key, id as Integer);
    if (tree.batchWriter !== this) this.#takeOver();
    if (this.isWaiting && this.#addToOpen(key, id as Integer)) return;
    if (tree.mayDefer) {
      this.#blockKeyOf(key, id as Integer);
      if (tree.defer(blockKey.bytes, blockKey.length)) return;
    }
    this.settle();
    tree.noteWaiting();
    this.isWaiting = true;
    this.#openKey.length = 0;
    this.#openKey.append(key.bytes, 0, key.length);
    this.#openLast = id as Integer;
    writeSingle(this.#open, id as Integer);
  }

  /** Another version of the schema wrote to the tree, or was read, since this one did. */
  #takeOver(): void {
    this.tree.settleWrites();
    this.tree.batchWriter = this;
  }

  /** Adds an id to those that wait, if it is behind them under the same key. */
  #addToOpen(key: ByteWriter, id: Integer): boolean {
    const open = this.#open;
    if (id <= this.#openLast || open.length > OPEN_BYTES_MAX) return false;
    const { bytes, length } = this.#openKey;
    if (length !== key.length) return false;
    for (let i = length - 1; i >= 0; i--) if (bytes[i] !== key.bytes[i]) return false;
    appendId(open, this.#openLast, id);
    this.#openLast = id;
    return true;
  }

  /** Writes the ids that wait. */
  settle(): void {
    if (!this.isWaiting) return;
    this.isWaiting = false;
    const { tree } = this;
    const key = this.#openKey;
    const open = this.#open;
    if (tree.addBehind(key.bytes, key.length, open.bytes, 0, open.length)) return;
    if (!tree.find(WRITER, key.bytes, key.length)) {
      tree.insert(key.bytes, key.length, open.bytes, 0, open.length);
      return;
    }
    openWalk.open(open.bytes, 0, open.length);
    openWalk.next();
    this.#addToFound(key, openWalk.id);
    while (openWalk.next()) this.#addNow(key, openWalk.id);
  }

  /** Forgets the ids that wait: the transaction goes back. */
  forget(): void {
    this.isWaiting = false;
  }

  #addNow(key: ByteWriter, id: Integer): void {
    const { tree } = this;
    if (tree.find(WRITER, key.bytes, key.length)) return this.#addToFound(key, id);
    writeSingle(block, id);
    tree.insert(key.bytes, key.length, block.bytes, 0, block.length);
  }

  /** Adds an id under a key that the tree has just found. */
  #addToFound(key: ByteWriter, id: Integer): void {
    const { tree } = this;
    if (this.#isContinuedAt(tree)) {
      this.#findBlock(key, id);
      if (writeWith(found.bytes, 0, found.length, id, block)) this.#putAdded(key, entry);
      return;
    }
    const from = tree.valueOffset;
    if (writeWith(tree.bytes, from, from + tree.valueBytes, id, block)) this.#putAdded(key, key);
  }

  /** Writes ids that waited: entries are a key and an id, in order. */
  writeBatch(buffer: WriteBuffer, ordinals: Int32Array): void {
    const { tree } = this;
    const isBuilt = ordinals.length >= BUILT_IDS_MIN && tree.count(WRITER) === 0;
    const tops = isBuilt ? new TreeBuilder(tree) : undefined;
    const builder = tops === undefined ? undefined : new PostingBuilder(tops);
    for (const ordinal of ordinals) {
      const bytes = buffer.bytesOf(ordinal);
      const at = buffer.keyAt(ordinal);
      const keyBytes = buffer.keyLengthOf(ordinal) - ID_BYTES;
      if (builder !== undefined) {
        builder.add(bytes, at, keyBytes);
        continue;
      }
      tree.pages.settle();
      batchKey.length = 0;
      batchKey.append(bytes, at, at + keyBytes);
      this.#addNow(batchKey, readIdKey(bytes, at + keyBytes));
    }
    builder?.finish();
    tops?.finish();
    tree.pages.settle();
  }

  #isContinuedAt(at: EntryReader): boolean {
    if (at.isOverflow) throw failure('corrupt.record', 'a posting lies in overflow');
    return isContinued(at.bytes, at.valueOffset, at.valueOffset + at.valueBytes);
  }

  /** Writes `block`, to which an id was added, back to its entry; splits it when it is long. */
  #putAdded(key: ByteWriter, entry: ByteWriter): void {
    if (block.length <= BLOCK_BYTES_MAX) return this.#putBlock(entry, block);
    const isHead = entry.length === key.length;
    const first = splitBlock(block, second);
    if (isHead) markContinued(block);
    this.#putBlock(entry, block);
    this.#blockKeyOf(key, first);
    this.#putBlock(blockKey, second);
  }

  #putBlock(entry: ByteWriter, value: ByteWriter): void {
    this.tree.putNow(entry.bytes, entry.length, value.bytes, 0, value.length);
  }

  #blockKeyOf(key: ByteWriter, id: Integer): void {
    blockKey.length = 0;
    blockKey.append(key.bytes, 0, key.length);
    blockKey.reserve(ID_BYTES);
    writeIdKey(blockKey.bytes, blockKey.length, id);
    blockKey.length += ID_BYTES;
  }

  /** Finds the block, of several, in which an id is or would be: its entry's key and its bytes. */
  #findBlock(key: ByteWriter, id: Integer): void {
    this.#blockKeyOf(key, id);
    const cursor = new Cursor(this.tree, WRITER);
    try {
      const found = cursor.seek(blockKey.bytes, blockKey.length, true, true);
      if (!found || !hasPrefix(cursor, key)) throw this.#missing(id);
      take(cursor);
    } finally {
      cursor.close();
    }
  }

  protected override remove(key: ByteWriter, id: RecordId, _state: KeyState): void {
    const { tree } = this;
    if (!tree.find(WRITER, key.bytes, key.length)) throw this.#missing(id);
    if (this.#isContinuedAt(tree)) return this.#removeFurther(key, id as Integer);
    const from = tree.valueOffset;
    if (!writeWithout(tree.bytes, from, from + tree.valueBytes, id as Integer, block))
      throw this.#missing(id);
    if (block.length === 0) tree.delete(key.bytes, key.length);
    else this.#putBlock(key, block);
  }

  #missing(id: RecordId): Error {
    const { name, collection } = this.definition;
    return failure('corrupt.record', `index ${name} of ${collection} misses record ${String(id)}`);
  }

  #removeFurther(key: ByteWriter, id: Integer): void {
    this.#findBlock(key, id);
    if (!writeWithout(found.bytes, 0, found.length, id, block)) throw this.#missing(id);
    const isHead = entry.length === key.length;
    // A head that is emptied keeps its mark, one byte.
    if (block.length > (isHead ? 1 : 0)) return this.#putBlock(entry, block);
    if (isHead) {
      if (!this.#takeNext(key)) throw this.#missing(id);
      block.length = 0;
      block.append(found.bytes, 0, found.length);
      this.tree.delete(entry.bytes, entry.length);
    } else {
      this.tree.delete(entry.bytes, entry.length);
      this.#takeHead(key);
    }
    if (this.#takeNext(key)) markContinued(block);
    this.#putBlock(key, block);
  }

  /** Copies the head of a key, without its mark, to `block`. */
  #takeHead(key: ByteWriter): void {
    const { tree } = this;
    if (!tree.find(WRITER, key.bytes, key.length)) throw this.#missing(-1);
    block.length = 0;
    block.append(tree.bytes, tree.valueOffset, tree.valueOffset + tree.valueBytes - 1);
  }

  /** Finds the block behind the head of a key; answers whether there is one. */
  #takeNext(key: ByteWriter): boolean {
    const cursor = new Cursor(this.tree, WRITER);
    try {
      if (!cursor.seek(key.bytes, key.length, false) || !hasPrefix(cursor, key)) return false;
      take(cursor);
      return true;
    } finally {
      cursor.close();
    }
  }

  override entryBuilder(builder: TreeBuilder): EntryBuilder {
    return new PostingBuilder(builder);
  }

  override recordId(bytes: Uint8Array, from: number): RecordId {
    return readIdKey(bytes, from);
  }

  override firstId(view: View): RecordId | undefined {
    const { tree, probe } = this;
    if (!tree.find(view, probe.bytes, probe.length)) return undefined;
    walk.open(tree.bytes, tree.valueOffset, tree.valueOffset + tree.valueBytes);
    walk.next();
    return walk.id;
  }

  override collectIds(view: View, into: RecordId[]): number {
    const { tree, probe } = this;
    if (!tree.find(view, probe.bytes, probe.length)) return 0;
    if (!this.#isContinuedAt(tree)) return collect(tree, into, 0);
    const cursor = new Cursor(tree, view);
    let count = 0;
    try {
      let isFound = cursor.seek(probe.bytes, probe.length);
      while (isFound && hasPrefix(cursor, probe)) {
        count = this.idsAt(cursor, into, count);
        isFound = cursor.next();
      }
    } finally {
      cursor.close();
    }
    return count;
  }

  override idsAt(cursor: Cursor, into: RecordId[], count: number): number {
    if (cursor.isOverflow) throw failure('corrupt.record', 'a posting lies in overflow');
    return collect(cursor, into, count);
  }

  override keyEnd(cursor: Cursor): number {
    return this.codec.end(cursor.key, 0, cursor.keyLength);
  }

  override resumeKey(key: ByteWriter, id: RecordId, into: ByteWriter): void {
    this.#blockKeyOf(key, id as Integer);
    into.length = 0;
    into.append(blockKey.bytes, 0, blockKey.length);
  }
}

/** Makes postings of ids that come in order, key by key: a block is filled, then written. */
class PostingBuilder implements EntryBuilder {
  readonly #builder: TreeBuilder;
  /** The index's key of the block, and behind it, for a further block, its first id. */
  readonly #key = new ByteWriter(64);
  #keyBytes = -1;
  readonly #block = new ByteWriter(2 * BLOCK_BYTES_MAX);
  #last: Integer = 0;

  constructor(builder: TreeBuilder) {
    this.#builder = builder;
  }

  add(bytes: Uint8Array, offset: number, keyBytes: number): void {
    const id = readIdKey(bytes, offset + keyBytes);
    const block = this.#block;
    if (this.#isKey(bytes, offset, keyBytes)) {
      const before = block.length;
      appendId(block, this.#last, id);
      this.#last = id;
      if (block.length <= BLOCK_BYTES_MAX) return;
      block.length = before;
      if (this.#key.length === keyBytes) markContinued(block);
      this.#write();
      this.#key.length = keyBytes;
      this.#key.append(bytes, offset + keyBytes, offset + keyBytes + ID_BYTES);
    } else {
      this.#write();
      this.#key.length = 0;
      this.#key.append(bytes, offset, offset + keyBytes);
      this.#keyBytes = keyBytes;
    }
    writeSingle(block, id);
    this.#last = id;
  }

  #isKey(bytes: Uint8Array, offset: number, keyBytes: number): boolean {
    if (keyBytes !== this.#keyBytes) return false;
    const key = this.#key.bytes;
    return compareBytes(key, 0, keyBytes, bytes, offset, offset + keyBytes) === 0;
  }

  #write(): void {
    if (this.#keyBytes < 0) return;
    const block = this.#block;
    this.#builder.addFrom(this.#key.bytes, 0, this.#key.length, block.bytes, 0, block.length);
  }

  finish(): void {
    this.#write();
  }
}

/** Keeps the key and value of the entry that a cursor stands at. */
function take(cursor: Cursor): void {
  if (cursor.isOverflow) throw failure('corrupt.record', 'a posting lies in overflow');
  entry.length = 0;
  entry.append(cursor.key, 0, cursor.keyLength);
  found.length = 0;
  found.append(cursor.bytes, cursor.valueOffset, cursor.valueOffset + cursor.valueBytes);
}

function collect(at: EntryReader, into: RecordId[], count: number): number {
  walk.open(at.bytes, at.valueOffset, at.valueOffset + at.valueBytes);
  while (walk.next()) into[count++] = walk.id;
  return count;
}

function hasPrefix(cursor: Cursor, prefix: ByteWriter): boolean {
  if (cursor.keyLength < prefix.length) return false;
  for (let i = prefix.length - 1; i >= 0; i--) {
    if (cursor.key[i] !== prefix.bytes[i]) return false;
  }
  return true;
}
