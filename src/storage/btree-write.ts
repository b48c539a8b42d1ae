/**
 * Put, insert and delete of single entries.
 *
 * The common case touches one leaf and the root page's count. Large values and tails of long keys
 * are written to overflow first, while no node is held; what the entry had there before is freed
 * last.
 *
 * Entries that come in order take a shorter way: one whose key lies between the entry put last, or
 * one soon behind it, and the next belongs there and needs no descent (`putBehind`).
 * What they add to the tree's count waits until something asks for it, or for the end of the
 * transaction.
 */
import { failure } from '../errors.ts';
import type { Entry, NodeEditor } from './btree-edit.ts';
import {
  CELLS_WORD,
  copyBytes,
  descriptorBytes,
  ENTRY_BYTES,
  HEAD_BYTES,
  headOf,
  KEY_BYTES_MAX,
  KIND_LEAF,
  KIND_MASK,
  KIND_WORD,
  PREFIX_WORD,
  ROOT_COUNT_OFFSET,
  ROOT_HEADER_END,
  VALUE_BYTES_MAX,
} from './btree-node.ts';
import type { Path } from './btree-path.ts';
import { orderOf, Restructurer } from './btree-split.ts';
import { Workbench } from './btree-workbench.ts';
import type { Tree } from './btree.ts';
import { PAGE_HEADER_BYTES, WRITER, type BufferId, type PageId, type Pages } from './pages.ts';

/** Results of a put. */
export const EQUAL = 0;
export const INSERTED = 1;
export const UPDATED = 2;
/** `insert` met the key. */
export const EXISTS = 3;
/** The put waits for others; what it does comes out then. */
export const WAITING = 4;
export type PutResult =
  typeof EQUAL | typeof INSERTED | typeof UPDATED | typeof EXISTS | typeof WAITING;

/** After so many keys in a row that had to be looked for, only each of so many is tried. */
const MISSES_MAX = 8;
const TRY_EVERY = 16;
/** Entries behind the one put last that a key may belong behind. */
const STEPS_MAX = 2;

/** Whether there are leaves behind one: not known yet, none, some. */
const EDGE_UNKNOWN = 0;
const EDGE_LAST = 1;
const EDGE_INNER = 2;

export class TreeWriter {
  readonly restructurer: Restructurer;
  /** Entries put that the root page's count does not tell yet. */
  uncounted = 0;
  /** The transaction in which it knows the entry put last, as its write buffers count them. */
  epoch = 0;
  /** Leaf of the entry put last, 0 when that is not known, and the entry's ordinal there. */
  #leaf = 0;
  #last = 0;
  #edge: number = EDGE_UNKNOWN;
  /** Entries put behind the last since the restructurer heard of one. */
  #run = 0;
  /** Keys in a row that were not right behind the last. */
  #misses = 0;
  /** Head of the key that `#gapIn` found a place for. */
  #head = 0;
  readonly #tree: Tree;
  readonly #pages: Pages;
  readonly #path: Path;
  readonly #node: NodeEditor;
  readonly #entry: Entry;
  readonly #removed: Entry;

  constructor(tree: Tree) {
    const { pages, structure, limits } = tree;
    this.#tree = tree;
    this.#pages = pages;
    this.#path = tree.newPath();
    const bench = Workbench.of(pages);
    this.#node = bench.target;
    this.#entry = bench.entry;
    this.#removed = bench.removed;
    const order = tree.layout.order ?? 0;
    const path = this.#path;
    this.restructurer = new Restructurer(pages, structure, limits, tree, path, order);
  }

  /** The way to the entry written last, for whoever removes others: it may be led elsewhere. */
  get path(): Path {
    this.endRun();
    return this.#path;
  }

  put(
    key: Uint8Array,
    keyLength: number,
    value: Uint8Array,
    valueOffset: number,
    valueLength: number,
    onlyNew: boolean,
  ): PutResult {
    if (keyLength > KEY_BYTES_MAX || valueLength > VALUE_BYTES_MAX) refuse(keyLength, valueLength);
    this.endRun();
    const found = this.#path.seek(WRITER, key, keyLength);
    if (found && onlyNew) return EXISTS;
    return this.#putAt(found, key, keyLength, value, valueOffset, valueLength);
  }

  /** Puts an entry where the path stands, which found its key or the place for it. */
  #putAt(
    found: boolean,
    key: Uint8Array,
    keyLength: number,
    value: Uint8Array,
    valueOffset: number,
    valueLength: number,
  ): PutResult {
    const entry = this.#entry;
    if (found) {
      const result = this.#update(key, keyLength, value, valueOffset, valueLength);
      entry.forgetValue();
      return result;
    }
    const path = this.#path;
    const { limits } = this.#tree;
    this.#tree.changes++;
    if (keyLength > limits.keyBytesMax) {
      this.restructurer.setLongKey(entry, key, keyLength);
    } else {
      entry.setKey(key, keyLength);
    }
    this.#setValue(entry, key, keyLength, value, valueOffset, valueLength);
    const position = path.positions[path.depth]!;
    this.restructurer.insertInto(path.depth, position, entry);
    entry.forgetValue();
    this.addCount(1);
    if (path.isAtLeaf) {
      this.#leaf = path.nodes[path.depth]!;
      this.#last = position;
      this.#edge = EDGE_UNKNOWN;
    }
    return INSERTED;
  }

  /** Whether the next key is worth a look at the place behind the entry put last. */
  #mayFollow(): boolean {
    if (this.#leaf === 0) return false;
    return this.#misses < MISSES_MAX || ++this.#misses % TRY_EVERY === 0;
  }

  /** Whether a key is found to belong behind the entry put last: then the tree has it not. */
  isBehind(key: Uint8Array, keyLength: number): boolean {
    if (!this.#mayFollow()) return false;
    return this.#gapIn(this.#pages.read(this.#leaf as PageId, WRITER), key, keyLength) > 0;
  }

  /**
   * Puts an entry that belongs behind the one put last; answers false, with nothing changed, if it
   * does not, or not near by, or if there is no room. The measured form.
   */
  putBehind(
    key: Uint8Array,
    keyLength: number,
    value: Uint8Array,
    valueOffset: number,
    valueLength: number,
  ): boolean {
    if (!this.#mayFollow()) return false;
    const pages = this.#pages;
    const { limits } = this.#tree;
    if (keyLength > limits.keyBytesMax || !limits.isInline(keyLength, valueLength)) return false;
    const buffer = pages.edit(this.#leaf as PageId);
    const position = this.#gapIn(buffer, key, keyLength);
    if (position === 0) return false;
    const chunk = buffer >> pages.chunkShift;
    const words = pages.words[chunk]!;
    const bytes = pages.bytes[chunk]!;
    const base = (buffer & pages.chunkMask) << pages.pageShift;
    const word = base >> 2;
    const kindWord = words[word + KIND_WORD]!;
    const count = kindWord >>> 16;
    const prefix = words[word + PREFIX_WORD]! & 0xffff;
    const directory = words[word + PREFIX_WORD]! >>> 16;
    const suffix = keyLength - prefix;
    const tail = suffix > HEAD_BYTES ? suffix - HEAD_BYTES : 0;
    const cellBytes = 2 + tail + valueLength;
    const cells = words[word + CELLS_WORD]! + cellBytes;
    // Not from the sum: of a page of 64 KiB it may not fit the half of the word that is its own.
    const cell = limits.usableBytes - (words[word + CELLS_WORD]! & 0xffff) - cellBytes;
    const end = directory + ENTRY_BYTES * (count + 1);
    if (end > cell || count >= this.restructurer.entriesMax) return false;
    const at = directory + ENTRY_BYTES * position;
    const slot = word + (at >> 2);
    if (position < count) {
      words.copyWithin(slot + 2, slot, word + (end >> 2) - 2);
      pages.noteMove(buffer, at, at + ENTRY_BYTES, end - ENTRY_BYTES - at);
    }
    words[slot] = this.#head;
    words[slot + 1] = cell | (suffix << 16);
    words[word + KIND_WORD] = (kindWord & 0xffff) | ((count + 1) << 16);
    words[word + CELLS_WORD] = cells;
    const to = base + cell;
    bytes[to] = valueLength;
    bytes[to + 1] = valueLength >>> 8;
    copyBytes(key, prefix + HEAD_BYTES, bytes, to + 2, tail);
    copyBytes(value, valueOffset, bytes, to + 2 + tail, valueLength);
    pages.markFront(buffer, 20, end);
    pages.markBack(buffer, cell, cell + cellBytes);
    this.#last = position;
    this.#run++;
    this.#misses = 0;
    this.uncounted++;
    this.#tree.changes++;
    return true;
  }

  /**
   * The ordinal that a key has in the leaf of the entry put last, if it belongs behind that entry
   * or a few further ones; 0 if it belongs elsewhere. The buffer holds the leaf.
   */
  #gapIn(buffer: BufferId, key: Uint8Array, keyLength: number): number {
    const pages = this.#pages;
    const words = pages.words[buffer >> pages.chunkShift]!;
    const bytes = pages.bytes[buffer >> pages.chunkShift]!;
    const base = (buffer & pages.chunkMask) << pages.pageShift;
    const word = base >> 2;
    const kindWord = words[word + KIND_WORD]!;
    const count = kindWord >>> 16;
    const prefix = words[word + PREFIX_WORD]! & 0xffff;
    let i = this.#last;
    this.#misses++;
    if (i >= count || prefix > keyLength || (kindWord & KIND_MASK) !== KIND_LEAF) return 0;
    const start = base + (this.#leaf === this.#tree.root ? ROOT_HEADER_END : PAGE_HEADER_BYTES);
    for (let k = prefix - 1; k >= 0; k--) if (bytes[start + k] !== key[k]) return 0;
    const head = headOf(key, prefix, keyLength);
    let slot = word + (words[word + PREFIX_WORD]! >>> 18) + 2 * i;
    let other = words[slot]!;
    if (head <= other && (head < other || this.#signAt(buffer, i, key, keyLength) >= 0)) return 0;
    for (let steps = 0; ++i < count; steps++) {
      other = words[(slot += 2)]!;
      if (head < other) break;
      const sign = head > other ? -1 : this.#signAt(buffer, i, key, keyLength);
      if (sign > 0) break;
      if (sign === 0 || steps === STEPS_MAX) return 0;
    }
    if (i === count && !this.#isLastLeaf()) return 0;
    this.#head = head;
    return i;
  }

  /** Sign of entry − key where their heads are equal. */
  #signAt(buffer: BufferId, i: number, key: Uint8Array, keyLength: number): number {
    return this.#path.compareTail(buffer, WRITER, i, key, keyLength);
  }

  #isLastLeaf(): boolean {
    if (this.#edge === EDGE_UNKNOWN)
      this.#edge = this.restructurer.isRightEdge(this.#path.depth) ? EDGE_LAST : EDGE_INNER;
    return this.#edge === EDGE_LAST;
  }

  /** Forgets the entry put last, before a change that may split or free its leaf. */
  endRun(): void {
    if (this.#run > 0) this.restructurer.noteRun(this.#leaf, this.#last, this.#run);
    this.#run = 0;
    this.#leaf = 0;
  }

  /** Adds what was put behind to the count of the root page. */
  settleCount(): void {
    if (this.uncounted > 0) this.addCount(this.uncounted);
    this.uncounted = 0;
  }

  /** Puts the next of sorted entries, after no other write than puts of those before. */
  putNext(
    key: Uint8Array,
    keyLength: number,
    value: Uint8Array,
    valueOffset: number,
    valueLength: number,
  ): PutResult {
    this.endRun();
    const found = this.#path.seekNear(WRITER, key, keyLength);
    return this.#putAt(found, key, keyLength, value, valueOffset, valueLength);
  }

  delete(key: Uint8Array, keyLength: number): boolean {
    const path = this.#path;
    this.endRun();
    if (!path.seek(WRITER, key, keyLength)) return false;
    this.#tree.changes++;
    this.restructurer.forget();
    this.removeAt(key, keyLength);
    this.addCount(-1);
    return true;
  }

  /** Removes the entry that the path stands at, which has the key, and leaves the count. */
  removeAt(key: Uint8Array, keyLength: number): void {
    const path = this.#path;
    this.endRun();
    const { depth } = path;
    const position = path.positions[depth]!;
    const node = this.#node.at(path.buffer);
    const ownsOverflow = node.isLongKey(position) || node.isLongValue(position);
    if (ownsOverflow) node.stage(position, this.#removed);
    if (node.kind === KIND_LEAF) {
      this.#node.at(this.#pages.edit(path.nodes[depth]! as PageId));
      this.#node.removeEntries(position, position + 1);
      this.restructurer.rebalance(depth);
    } else {
      this.#replaceByPrevious(key, keyLength);
    }
    if (ownsOverflow) this.restructurer.freeOverflow(this.#removed);
  }

  /** Adds to the number of entries that the root page keeps. */
  addCount(difference: number): void {
    const pages = this.#pages;
    const buffer = pages.edit(this.#tree.root);
    const base = (buffer & pages.chunkMask) << pages.pageShift;
    pages.floats[buffer >> pages.chunkShift]![(base + ROOT_COUNT_OFFSET) >> 3]! += difference;
    pages.markFront(buffer, ROOT_COUNT_OFFSET, ROOT_COUNT_OFFSET + 8);
  }

  forget(): void {
    this.#leaf = 0;
    this.#run = 0;
    this.#path.leave();
    this.restructurer.forget();
  }

  /** Overwrites the value of the entry that the path stands at. */
  #update(
    key: Uint8Array,
    keyLength: number,
    value: Uint8Array,
    valueOffset: number,
    valueLength: number,
  ): PutResult {
    const path = this.#path;
    const { depth } = path;
    const position = path.positions[depth]!;
    const page = path.nodes[depth]! as PageId;
    const node = this.#node.at(path.buffer);
    const isLong = node.isLongValue(position);
    if (isLong) {
      if (this.#hasLongValue(position, value, valueOffset, valueLength)) return EQUAL;
    } else if (node.valueBytesAt(position) === valueLength) {
      return this.#overwrite(page, position, value, valueOffset, valueLength);
    }
    this.#tree.changes++;
    const old = this.#removed;
    old.isLongKey = false;
    old.isLongValue = isLong;
    if (isLong) this.#stageDescriptor(position, old);
    const entry = this.#entry.setKey(key, Math.min(keyLength, node.keyBytesAt(position)));
    if (node.isLongKey(position)) this.#stageKeyDescriptor(position, entry);
    this.#setValue(entry, key, keyLength, value, valueOffset, valueLength);
    this.#node.at(this.#pages.edit(page));
    if (!this.#node.tryReplaceValue(position, entry)) this.#reinsert(depth, position, entry);
    this.restructurer.freeOverflow(old);
    return UPDATED;
  }

  /** Overwrites a value of the same length, from the first byte that differs to the last. */
  #overwrite(
    page: PageId,
    position: number,
    value: Uint8Array,
    valueOffset: number,
    valueLength: number,
  ): PutResult {
    const node = this.#node;
    const at = node.valueAt(position);
    const { bytes } = node;
    let first = 0;
    while (first < valueLength && bytes[at + first] === value[valueOffset + first]) first++;
    if (first === valueLength) return EQUAL;
    let last = valueLength - 1;
    while (bytes[at + last] === value[valueOffset + last]) last--;
    const inPage = at - node.base;
    this.#tree.changes++;
    node.at(this.#pages.edit(page));
    const entry = this.#entry.setValue(value, valueOffset, valueLength, false);
    node.overwriteValue(node.base + inPage, entry, first, last);
    return UPDATED;
  }

  /** Takes the entry out of its node and puts it in again with its new value, splitting. */
  #reinsert(depth: number, position: number, entry: Entry): void {
    const node = this.#node;
    const { restructurer } = this;
    if (node.kind !== KIND_LEAF) entry.child = node.childAt(position + 1);
    node.removeEntries(position, position + 1);
    restructurer.forget();
    restructurer.insertInto(depth, position, entry);
  }

  /** Gives the entry its value, which goes to overflow first if it is large. */
  #setValue(
    entry: Entry,
    key: Uint8Array,
    keyLength: number,
    value: Uint8Array,
    valueOffset: number,
    valueLength: number,
  ): void {
    if (this.#tree.limits.isInline(entry.keyBytes + entry.keyDescriptorBytes, valueLength)) {
      entry.setValue(value, valueOffset, valueLength, false);
      return;
    }
    const descriptor = entry.ownValueDescriptor;
    const bytes = this.#tree.overflow.write(
      value,
      valueOffset,
      valueLength,
      orderOf(key, keyLength),
      descriptor,
    );
    entry.setValue(descriptor, 0, bytes, true);
  }

  #hasLongValue(
    position: number,
    value: Uint8Array,
    valueOffset: number,
    valueLength: number,
  ): boolean {
    const { overflow } = this.#tree;
    const node = this.#node;
    const { page } = node;
    if (overflow.lengthOf(node.bytes, node.valueAt(position)) !== valueLength) return false;
    const old = this.#removed;
    this.#stageDescriptor(position, old);
    const sign = overflow.compare(WRITER, page, old.value, 0, value, valueOffset, valueLength);
    if (sign === 0) return true;
    node.at(this.#pages.read(page, WRITER));
    return false;
  }

  #stageKeyDescriptor(position: number, target: Entry): void {
    const { bytes } = this.#node;
    const at = this.#node.keyDescriptorAt(position);
    target.isLongKey = true;
    target.keyDescriptorBytes = descriptorBytes(bytes, at);
    target.keyDescriptor.set(bytes.subarray(at, at + target.keyDescriptorBytes));
  }

  #stageDescriptor(position: number, target: Entry): void {
    const node = this.#node;
    const at = node.valueAt(position);
    const bytes = node.valueBytesAt(position);
    target.ownValue(this.#tree.limits.usableBytes).set(node.bytes.subarray(at, at + bytes));
    target.valueBytes = bytes;
  }

  /**
   * Removes an entry of an inner node of a b-tree: its predecessor, the last entry of a leaf,
   * takes its place. The leaf is put right first, which may move the entry.
   */
  #replaceByPrevious(key: Uint8Array, keyLength: number): void {
    const path = this.#path;
    const node = this.#node;
    path.backward(WRITER);
    const { depth } = path;
    const position = path.positions[depth]!;
    node.at(this.#pages.edit(path.nodes[depth]! as PageId));
    const entry = node.stage(position, this.#entry);
    node.removeEntries(position, position + 1);
    this.restructurer.rebalance(depth);
    path.seek(WRITER, key, keyLength);
    const place = path.positions[path.depth]!;
    node.at(this.#pages.edit(path.nodes[path.depth]! as PageId));
    if (node.kind !== KIND_LEAF) entry.child = node.childAt(place + 1);
    node.removeEntries(place, place + 1);
    this.restructurer.insertInto(path.depth, place, entry);
  }
}

function refuse(keyLength: number, valueLength: number): never {
  throw failure(
    'value.size',
    `key of ${keyLength} bytes or value of ${valueLength} bytes is too large: ` +
      `keys have at most ${KEY_BYTES_MAX} bytes, values at most ${VALUE_BYTES_MAX}`,
    { detail: { keyLength, valueLength } },
  );
}
