/**
 * Changing a node in a private buffer: entries in and out, compaction, building anew.
 *
 * Every change marks the hulls of what it touched (front: header and directory, back: cells) and
 * notes the slides of directory and cells, so that a commit logs little more than the entry
 * (FEASIBILITY 15.3). The free gap may hold old bytes; they mean nothing.
 */
import { assert } from '../base/assert.ts';
import {
  CELLS_WORD,
  cellHeadBytes,
  copyBytes,
  descriptorBytes,
  DESCRIPTOR_BYTES_MAX,
  ENTRY_BYTES,
  FLAG_OVERFLOW,
  FLAG_ROOT,
  HEAD_BYTES,
  headOf,
  KIND_INNER,
  KIND_LEAF,
  KIND_WORD,
  LENGTH_MASK,
  LONG_KEY,
  LONG_VALUE,
  Node,
  PREFIX_WORD,
  ROOT_HEADER_END,
} from './btree-node.ts';
import { NO_PAGE, PAGE_HEADER_BYTES, PAGE_ORDER_OFFSET, type PageId, type Pages } from './pages.ts';

const NO_BYTES = new Uint8Array(0);
const ORDER_WORD = PAGE_ORDER_OFFSET >> 2;

/** An entry on its way into a node: bytes of the caller, or staged in buffers of its own. */
export class Entry {
  key: Uint8Array = NO_BYTES;
  /** Key bytes that stand in the page. */
  keyBytes = 0;
  isLongKey = false;
  readonly keyDescriptor = new Uint8Array(DESCRIPTOR_BYTES_MAX);
  keyDescriptorBytes = 0;
  value: Uint8Array = NO_BYTES;
  valueOffset = 0;
  /** Bytes of the value, or of its descriptor. */
  valueBytes = 0;
  isLongValue = false;
  child: PageId = NO_PAGE;
  readonly ownValueDescriptor = new Uint8Array(DESCRIPTOR_BYTES_MAX);
  #ownKey: Uint8Array = NO_BYTES;
  #ownValue: Uint8Array = NO_BYTES;

  /** A buffer of the entry's own for key bytes, which `key` then names. */
  ownKey(bytes: number): Uint8Array {
    if (this.#ownKey.length < bytes) this.#ownKey = new Uint8Array(bytes);
    this.key = this.#ownKey;
    return this.#ownKey;
  }

  ownValue(bytes: number): Uint8Array {
    if (this.#ownValue.length < bytes) this.#ownValue = new Uint8Array(bytes);
    this.value = this.#ownValue;
    this.valueOffset = 0;
    return this.#ownValue;
  }

  /** Lets go of the caller's bytes, behind which there may be far more. */
  forgetValue(): void {
    this.value = NO_BYTES;
  }

  /** Makes it an entry with a key that stands in the page, without value and child. */
  setKey(key: Uint8Array, keyBytes: number): this {
    this.key = key;
    this.keyBytes = keyBytes;
    this.isLongKey = false;
    this.keyDescriptorBytes = 0;
    this.valueBytes = 0;
    this.isLongValue = false;
    this.child = NO_PAGE;
    return this;
  }

  setValue(value: Uint8Array, offset: number, bytes: number, isLong: boolean): this {
    this.value = value;
    this.valueOffset = offset;
    this.valueBytes = bytes;
    this.isLongValue = isLong;
    return this;
  }

  /** Bytes of the entry's cell in a node of that kind and prefix length. */
  cellBytes(kind: number, prefix: number): number {
    const tail = this.keyBytes - prefix - HEAD_BYTES;
    const bytes = cellHeadBytes(kind) + (tail > 0 ? tail : 0) + this.keyDescriptorBytes;
    if (kind === KIND_LEAF) return bytes + this.valueBytes;
    return (bytes + (kind === KIND_INNER ? 0 : this.valueBytes) + 3) & ~3;
  }
}

/** Number of leading bytes that two keys share, of those that stand in pages. */
export function commonBytes(a: Uint8Array, aBytes: number, b: Uint8Array, bBytes: number): number {
  const most = aBytes < bBytes ? aBytes : bBytes;
  let i = 0;
  while (i < most && a[i] === b[i]) i++;
  return i;
}

/** Key bytes of the entry being copied from one node to another: one place for all editors. */
let copiedKey = new Uint8Array(0);

export class NodeEditor extends Node {
  /** Cell offset × 2^16 + ordinal of entries, while compacting. */
  #order = new Uint32Array(256);

  constructor(pages: Pages) {
    super(pages);
    if (copiedKey.length <= pages.usableBytes) copiedKey = new Uint8Array(pages.usableBytes + 1);
  }

  override at(buffer: number): this {
    super.at(buffer);
    return this;
  }

  /** Puts the entry at ordinal `i` if the page has room; answers whether it had. */
  tryInsert(i: number, entry: Entry): boolean {
    if (!this.hasPrefixOf(entry) && !this.#shortenPrefix(entry)) return false;
    const cellBytes = entry.cellBytes(this.kind, this.prefixLength);
    const bytes = cellBytes + ENTRY_BYTES;
    if (this.gapBytes < bytes) {
      if (this.gapBytes + this.fragmentedBytes < bytes) return false;
      this.compact();
    }
    this.#openDirectory(i);
    this.#writeEntry(i, entry, cellBytes);
    if (i === 0) this.#setOrder();
    return true;
  }

  /** Whether the key of the entry begins with the prefix of the node. */
  hasPrefixOf(entry: Entry): boolean {
    const prefix = this.prefixLength;
    if (prefix > entry.keyBytes) return false;
    const at = this.base + this.prefixOffset;
    const { bytes } = this;
    const { key } = entry;
    for (let i = 0; i < prefix; i++) if (bytes[at + i] !== key[i]) return false;
    return true;
  }

  /** Removes the entries `from` ≤ i < `to`. */
  removeEntries(from: number, to: number): void {
    const { words, count } = this;
    if (from >= to) return;
    const lowest = this.usableBytes - this.cellBytes;
    let freed = 0;
    let cut = 0;
    for (let i = from; i < to; i++) {
      const bytes = this.cellBytesAt(i);
      if (to - from === 1 && (this.slotAt(i) & 0xffff) === lowest) cut = bytes;
      else freed += bytes;
    }
    const directory = this.directory;
    const at = directory + ENTRY_BYTES * from;
    const next = directory + ENTRY_BYTES * to;
    const length = ENTRY_BYTES * (count - to);
    if (length > 0) {
      const word = this.word;
      words.copyWithin(word + (at >> 2), word + (next >> 2), word + ((next + length) >> 2));
      this.pages.noteMove(this.buffer, next, at, length);
    }
    const left = count - (to - from);
    const cells = left === 0 ? 0 : this.cellBytes - cut;
    const fragments = left === 0 ? 0 : this.fragmentedBytes + freed;
    if (fragments > cells) throw this.corrupt('fragments', fragments);
    this.#setCount(left);
    words[this.word + CELLS_WORD] = cells | (fragments << 16);
    if (from === 0) this.#setOrder();
    this.pages.markFront(this.buffer, PAGE_ORDER_OFFSET, at + length);
  }

  /**
   * Overwrites a value of the same length that differs in the bytes `first` ≤ k ≤ `last`.
   */
  overwriteValue(at: number, entry: Entry, first: number, last: number): void {
    const offset = entry.valueOffset;
    copyBytes(entry.value, offset + first, this.bytes, at + first, last - first + 1);
    const from = at - this.base;
    this.pages.markBack(this.buffer, from + first, from + last + 1);
  }

  /**
   * Gives entry `i` another value, in its cell or in a new one from the gap; key and child stay.
   * Answers whether there was room; if not, nothing changed.
   */
  tryReplaceValue(i: number, entry: Entry): boolean {
    const old = this.cellBytesAt(i);
    const kept = this.valueAt(i) - this.base - (this.slotAt(i) & 0xffff);
    const exact = kept + entry.valueBytes;
    const bytes = this.kind === KIND_LEAF ? exact : (exact + 3) & ~3;
    if (bytes > old && this.gapBytes < bytes) return false;
    const { words, base } = this;
    const slotWord = this.word + (this.directory >> 2) + 2 * i + 1;
    const slot = words[slotWord]!;
    let cell = slot & 0xffff;
    let cells = this.cellBytes;
    let fragments = this.fragmentedBytes;
    if (bytes <= old) {
      fragments += old - bytes;
    } else {
      cells += bytes;
      fragments += old;
      const to = this.usableBytes - cells;
      this.bytes.copyWithin(base + to, base + cell, base + cell + kept);
      cell = to;
    }
    words[slotWord] = (slot & ~0xffff & ~LONG_VALUE) | cell | (entry.isLongValue ? LONG_VALUE : 0);
    if (entry.isLongValue) words[this.word + KIND_WORD]! |= FLAG_OVERFLOW;
    words[this.word + CELLS_WORD] = cells | (fragments << 16);
    this.#writeValueLength(base + cell, entry.valueBytes);
    copyBytes(entry.value, entry.valueOffset, this.bytes, base + cell + kept, entry.valueBytes);
    this.pages.markFront(this.buffer, 20, this.directory + ENTRY_BYTES * (i + 1));
    this.pages.markBack(this.buffer, cell, cell + bytes);
    return true;
  }

  /** Makes child `i` (0: the first child) another page. */
  setChild(i: number, child: PageId): void {
    if (i === 0) {
      const at = this.directory - 4;
      this.words[(this.base + at) >> 2] = child | 0;
      this.pages.markFront(this.buffer, at, at + 4);
      return;
    }
    const cell = this.slotAt(i - 1) & 0xffff;
    this.words[(this.base + cell) >> 2] = child | 0;
    this.pages.markBack(this.buffer, cell, cell + 4);
  }

  /**
   * Slides the cells up against the end of the page, highest first, joining neighbours that
   * slide together into one noted move.
   */
  compact(): void {
    this.checkCells();
    const { words, bytes, base, count } = this;
    const slots = this.word + (this.directory >> 2) + 1;
    const order = this.#sortedCells();
    let free = this.usableBytes;
    // The run of cells that slide together: from `low` to `high` by `slide`.
    let low = free;
    let high = free;
    let slide = 0;
    for (let k = count - 1; k >= -1; k--) {
      const i = k < 0 ? 0 : order[k]! & 0xffff;
      const cell = k < 0 ? 0 : order[k]! >>> 16;
      const size = k < 0 ? 0 : this.cellBytesAt(i);
      if (k < 0 || cell + size !== low) {
        if (slide > 0 && high > low) {
          bytes.copyWithin(base + low + slide, base + low, base + high);
          this.pages.noteMove(this.buffer, low, low + slide, high - low);
        }
        if (k < 0) break;
        high = cell + size;
        slide = free - high;
      }
      low = cell;
      free -= size;
      words[slots + 2 * i] = (words[slots + 2 * i]! & ~0xffff) | free;
    }
    words[this.word + CELLS_WORD] = this.usableBytes - free;
    this.pages.markFront(this.buffer, 20, this.directory + ENTRY_BYTES * count);
    this.pages.markBack(this.buffer, free, this.usableBytes);
  }

  /** Makes the page an empty node with the first `prefix` bytes of `key` as its prefix. */
  begin(
    kind: number,
    level: number,
    isRoot: boolean,
    key: Uint8Array,
    prefix: number,
    firstChild: PageId,
  ): this {
    const start = isRoot ? ROOT_HEADER_END : PAGE_HEADER_BYTES;
    const directory = ((start + prefix + 3) & ~3) + (kind === KIND_LEAF ? 0 : 4);
    const { words, word } = this;
    words[word + KIND_WORD] = kind | (isRoot ? FLAG_ROOT : 0) | (level << 8);
    words[word + PREFIX_WORD] = prefix | (directory << 16);
    words[word + CELLS_WORD] = 0;
    if (kind !== KIND_LEAF) words[word + (directory >> 2) - 1] = firstChild | 0;
    copyBytes(key, 0, this.bytes, this.base + start, prefix);
    return this;
  }

  /** Adds an entry after all others; there must be room. */
  append(entry: Entry): void {
    const cellBytes = entry.cellBytes(this.kind, this.prefixLength);
    assert(this.gapBytes >= cellBytes + ENTRY_BYTES, 'a node being built has room');
    this.#writeEntry(this.count, entry, cellBytes);
  }

  /**
   * Makes the entries of an empty leaf of `count` that lie in an array, each with its whole key
   * and its value behind it; `fields` has `stride` numbers each: where the key begins, its bytes,
   * and at `valueField` the bytes of the value. There must be room. The measured form.
   */
  fillLeaf(
    source: Uint8Array,
    fields: Uint32Array,
    stride: number,
    valueField: number,
    count: number,
  ): void {
    const { bytes, words, base } = this;
    const prefix = this.prefixLength;
    let cell = this.usableBytes;
    let slot = this.word + (this.directory >> 2);
    for (let i = 0, field = 0; i < count; i++, field += stride, slot += 2) {
      const key = fields[field]!;
      const keyBytes = fields[field + 1]!;
      const valueBytes = fields[field + valueField]!;
      const end = key + keyBytes;
      let from = key + prefix + HEAD_BYTES;
      if (from > end) from = end;
      cell -= 2 + end - from + valueBytes;
      words[slot] = headOf(source, key + prefix, end);
      words[slot + 1] = cell | ((keyBytes - prefix) << 16);
      let at = base + cell;
      bytes[at++] = valueBytes;
      bytes[at++] = valueBytes >>> 8;
      copyBytes(source, from, bytes, at, end - from + valueBytes);
    }
    const cells = this.usableBytes - cell;
    assert(cell >= this.directory + ENTRY_BYTES * count, 'a leaf being built has room');
    words[this.word + CELLS_WORD] = cells;
    this.#setCount(count);
  }

  /** Adds the entries `from` ≤ i < `to` of another node of the same kind after all others. */
  appendFrom(source: Node, from: number, to: number): void {
    const { words } = this;
    const prefix = this.prefixLength;
    const same = prefix === source.prefixLength;
    const cellHead = cellHeadBytes(this.kind);
    for (let i = from; i < to; i++) {
      const slot = source.slotAt(i);
      const cell = source.base + (slot & 0xffff);
      if (same) {
        const bytes = source.cellBytesAt(i);
        const to = this.#takeCell(bytes);
        copyBytes(source.bytes, cell, this.bytes, this.base + to, bytes);
        this.#addSlot(source.headAt(i), (slot & ~0xffff) | to);
        continue;
      }
      const keyBytes = source.keyInto(i, copiedKey);
      const suffix = keyBytes - prefix;
      const tail = suffix > HEAD_BYTES ? suffix - HEAD_BYTES : 0;
      const oldSuffix = (slot >>> 16) & LENGTH_MASK;
      const oldTail = oldSuffix > HEAD_BYTES ? oldSuffix - HEAD_BYTES : 0;
      const rest = source.valueAt(i) + source.valueBytesAt(i) - cell - cellHead - oldTail;
      const exact = cellHead + tail + rest;
      const to = this.#takeCell(this.kind === KIND_LEAF ? exact : (exact + 3) & ~3);
      const at = this.base + to;
      copyBytes(source.bytes, cell, this.bytes, at, cellHead);
      copyBytes(copiedKey, prefix + HEAD_BYTES, this.bytes, at + cellHead, tail);
      copyBytes(source.bytes, cell + cellHead + oldTail, this.bytes, at + cellHead + tail, rest);
      const flags = slot & (LONG_KEY | LONG_VALUE);
      this.#addSlot(headOf(copiedKey, prefix, keyBytes), flags | (suffix << 16) | to);
    }
    if (source.mayOverflow) words[this.word + KIND_WORD]! |= FLAG_OVERFLOW;
  }

  /** Ends building: sets the order key and marks everything built. */
  finish(): void {
    this.#setOrder();
    const end = this.directory + ENTRY_BYTES * this.count;
    this.pages.markFront(this.buffer, PAGE_ORDER_OFFSET, end);
    this.pages.markBack(this.buffer, this.usableBytes - this.cellBytes, this.usableBytes);
  }

  /** Copies entry `i` into buffers of the entry's own. */
  stage(i: number, entry: Entry): Entry {
    const key = entry.ownKey(this.usableBytes + 1);
    entry.setKey(key, this.keyInto(i, key));
    if (this.isLongKey(i)) {
      const at = this.keyDescriptorAt(i);
      entry.isLongKey = true;
      entry.keyDescriptorBytes = descriptorBytes(this.bytes, at);
      copyBytes(this.bytes, at, entry.keyDescriptor, 0, entry.keyDescriptorBytes);
    }
    const valueBytes = this.valueBytesAt(i);
    const at = this.valueAt(i);
    copyBytes(this.bytes, at, entry.ownValue(this.usableBytes), 0, valueBytes);
    entry.valueBytes = valueBytes;
    entry.isLongValue = this.isLongValue(i);
    if (this.kind !== KIND_LEAF) entry.child = this.childAt(i + 1);
    return entry;
  }

  /** Builds the node anew with another prefix, from a scratch copy of itself. */
  rebuild(key: Uint8Array, prefix: number): void {
    const scratch = new NodeEditor(this.pages).atScratch(new ArrayBuffer(this.pages.pageBytes));
    scratch.copyFrom(this);
    const firstChild = this.kind === KIND_LEAF ? NO_PAGE : scratch.childAt(0);
    this.begin(this.kind, this.level, this.isRoot, key, prefix, firstChild);
    this.appendFrom(scratch, 0, scratch.count);
    this.finish();
  }

  /** Builds the node anew with a prefix that the entry shares too, if all of it then fits. */
  #shortenPrefix(entry: Entry): boolean {
    const at = this.base + this.prefixOffset;
    const old = this.bytes.subarray(at, at + this.prefixLength);
    const prefix = commonBytes(old, old.length, entry.key, entry.keyBytes);
    const kind = this.kind;
    let bytes = ENTRY_BYTES + entry.cellBytes(kind, prefix) + ((prefix + 3) & ~3);
    if (kind !== KIND_LEAF) bytes += 4;
    for (let i = 0; i < this.count; i++) {
      bytes += ENTRY_BYTES + this.cellBytesAt(i);
      const suffix = (this.slotAt(i) >>> 16) & LENGTH_MASK;
      const longer = suffix + old.length - prefix - HEAD_BYTES;
      const tail = suffix > HEAD_BYTES ? suffix - HEAD_BYTES : 0;
      if (longer > 0) bytes += longer - tail + (kind === KIND_LEAF ? 0 : 3);
    }
    if (bytes > this.usableBytes - this.prefixOffset) return false;
    this.checkCells();
    this.rebuild(entry.key, prefix);
    return true;
  }

  /** Makes room for a directory entry at ordinal `i`. */
  #openDirectory(i: number): void {
    const at = this.directory + ENTRY_BYTES * i;
    const length = ENTRY_BYTES * (this.count - i);
    if (length > 0) {
      const word = this.word + (at >> 2);
      this.words.copyWithin(word + 2, word, word + (length >> 2));
      this.pages.noteMove(this.buffer, at, at + ENTRY_BYTES, length);
    }
    this.pages.markFront(this.buffer, i === 0 ? PAGE_ORDER_OFFSET : 20, at + ENTRY_BYTES + length);
  }

  /** Writes cell and directory entry at ordinal `i`, which is open, and counts it. */
  #writeEntry(i: number, entry: Entry, cellBytes: number): void {
    const { bytes, words, kind } = this;
    const prefix = this.prefixLength;
    const cell = this.#takeCell(cellBytes);
    const suffix = entry.keyBytes - prefix;
    const slotWord = this.word + (this.directory >> 2) + 2 * i;
    words[slotWord] = headOf(entry.key, prefix, entry.keyBytes);
    words[slotWord + 1] =
      cell |
      (suffix << 16) |
      (entry.isLongKey ? LONG_KEY : 0) |
      (entry.isLongValue ? LONG_VALUE : 0);
    this.#setCount(this.count + 1);
    if (entry.isLongKey || entry.isLongValue) words[this.word + KIND_WORD]! |= FLAG_OVERFLOW;
    let at = this.base + cell;
    if (kind !== KIND_LEAF) words[at >> 2] = entry.child | 0;
    if (kind !== KIND_INNER) this.#writeValueLength(at, entry.valueBytes);
    at += cellHeadBytes(kind);
    if (suffix > HEAD_BYTES) {
      const tail = suffix - HEAD_BYTES;
      copyBytes(entry.key, prefix + HEAD_BYTES, bytes, at, tail);
      at += tail;
    }
    if (entry.keyDescriptorBytes > 0) {
      copyBytes(entry.keyDescriptor, 0, bytes, at, entry.keyDescriptorBytes);
      at += entry.keyDescriptorBytes;
    }
    if (kind !== KIND_INNER) copyBytes(entry.value, entry.valueOffset, bytes, at, entry.valueBytes);
    this.pages.markBack(this.buffer, cell, cell + cellBytes);
  }

  #writeValueLength(cell: number, valueBytes: number): void {
    const at = this.kind === KIND_LEAF ? cell : cell + 4;
    this.bytes[at] = valueBytes;
    this.bytes[at + 1] = valueBytes >>> 8;
  }

  /** Takes a cell from the gap; answers its offset. */
  #takeCell(cellBytes: number): number {
    const at = this.word + CELLS_WORD;
    const cells = this.words[at]! + cellBytes;
    this.words[at] = cells;
    return this.usableBytes - (cells & 0xffff);
  }

  #addSlot(head: number, slot: number): void {
    const count = this.count;
    const at = this.word + (this.directory >> 2) + 2 * count;
    this.words[at] = head;
    this.words[at + 1] = slot;
    this.#setCount(count + 1);
  }

  #setCount(count: number): void {
    const at = this.word + KIND_WORD;
    this.words[at] = (this.words[at]! & 0xffff) | (count << 16);
  }

  /** Puts the first four bytes of the first key where checkpoints look for them. */
  #setOrder(): void {
    if (this.count === 0) return;
    const prefix = this.prefixLength;
    const at = this.base + this.prefixOffset;
    let order = 0;
    for (let i = 0; i < HEAD_BYTES; i++) {
      const byte =
        i < prefix
          ? this.bytes[at + i]!
          : (this.headAt(0) ^ 0x8000_0000) >>> (24 - 8 * (i - prefix));
      order = (order << 8) | (byte & 0xff);
    }
    this.words[this.word + ORDER_WORD] = order;
  }

  /** Cell offsets and ordinals of all entries, ascending by offset. */
  #sortedCells(): Uint32Array {
    const { words, count } = this;
    if (this.#order.length < count) this.#order = new Uint32Array(2 * count);
    const order = this.#order;
    const slots = this.word + (this.directory >> 2) + 1;
    if (count > 160) {
      for (let i = 0; i < count; i++) order[i] = (words[slots + 2 * i]! << 16) | i;
      order.subarray(0, count).sort();
      return order;
    }
    for (let i = 0; i < count; i++) {
      const item = ((words[slots + 2 * i]! << 16) | i) >>> 0;
      let k = i;
      for (; k > 0 && order[k - 1]! > item; k--) order[k] = order[k - 1]!;
      order[k] = item;
    }
    return order;
  }
}
