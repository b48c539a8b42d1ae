/**
 * Put, insert and delete of single entries.
 *
 * The common case touches one leaf and the root page's count. Large values and tails of long keys
 * are written to overflow first, while no node is held; what the entry had there before is freed
 * last.
 */
import { failure } from '../errors.ts';
import type { Entry, NodeEditor } from './btree-edit.ts';
import {
  descriptorBytes,
  KEY_BYTES_MAX,
  KIND_LEAF,
  ROOT_COUNT_OFFSET,
  VALUE_BYTES_MAX,
} from './btree-node.ts';
import type { Path } from './btree-path.ts';
import { orderOf, Restructurer } from './btree-split.ts';
import { Workbench } from './btree-workbench.ts';
import type { Tree } from './btree.ts';
import { WRITER, type PageId, type Pages } from './pages.ts';

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

export class TreeWriter {
  readonly restructurer: Restructurer;
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

  get path(): Path {
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
    if (found) return this.#update(key, keyLength, value, valueOffset, valueLength);
    const path = this.#path;
    const entry = this.#entry;
    const { limits } = this.#tree;
    this.#tree.changes++;
    if (keyLength > limits.keyBytesMax) {
      this.restructurer.setLongKey(entry, key, keyLength);
    } else {
      entry.setKey(key, keyLength);
    }
    this.#setValue(entry, key, keyLength, value, valueOffset, valueLength);
    this.restructurer.insertInto(path.depth, path.positions[path.depth]!, entry);
    this.addCount(1);
    return INSERTED;
  }

  /** Puts the next of sorted entries, after no other write than puts of those before. */
  putNext(
    key: Uint8Array,
    keyLength: number,
    value: Uint8Array,
    valueOffset: number,
    valueLength: number,
  ): PutResult {
    const found = this.#path.seekNear(WRITER, key, keyLength);
    return this.#putAt(found, key, keyLength, value, valueOffset, valueLength);
  }

  delete(key: Uint8Array, keyLength: number): boolean {
    const path = this.#path;
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
