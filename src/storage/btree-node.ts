/**
 * The node format of every tree, and reading it.
 *
 * A node is one page. Keys are byte strings compared as unsigned bytes. The bytes that all keys of
 * a node share are kept once (its prefix); the next four bytes of each key, its head, stand in the
 * directory as a number, so that a search compares numbers and looks at key bytes only where heads
 * are equal (FEASIBILITY 1.2). Numbers are little-endian; a head is the big-endian value of its
 * bytes, padded with zeroes, with the top bit flipped so that signed comparison orders it.
 *
 *   offset  bytes  meaning (bytes 0..20: see pages.ts)
 *       20      1  kind (bits 0-5), 0x40 an entry may own overflow pages, 0x80 root of the tree
 *       21      1  level: 0 for leaves, one more than its children otherwise
 *       22      2  number of entries
 *       24      2  prefix length
 *       26      2  offset of the directory, a multiple of 4
 *       28      2  bytes of the cell area, which ends at `usableBytes`
 *       30      2  bytes of the cell area that no cell uses
 *       32     48  root only: the root header below
 *                  prefix bytes, padded to a multiple of 4
 *                  inner nodes: first child (PageId), in the word before the directory
 *                  directory: 8 bytes an entry, in key order
 *                  free gap, then the cell area, which grows downward
 *
 *   root header, offsets in the page
 *       32      8  entries of the tree (float64)
 *       40     32  first cluster page with room, by class of its longest free run (overflow.ts)
 *       72      2  order: most children of a node, 0 when a page decides
 *       74      2  1 b+tree, 2 b-tree
 *       76      4  bytes of a cluster
 *
 *   directory entry
 *        0      4  head: key bytes prefix+0 .. prefix+3
 *        4      2  offset of the cell, in inner nodes a multiple of 4
 *        6      2  bits 0-13 key bytes in the page beyond the prefix, head included;
 *                  bit 14 long key: its tail is in overflow; bit 15 the value is in overflow
 *
 *   cell: leaf              cell: inner node, b+tree     cell: inner node, b-tree
 *        2  value bytes          4  child PageId              4  child PageId
 *           key tail                key tail                  2  value bytes
 *           descriptor              descriptor                   key tail, descriptor
 *           value                                                value
 *
 * The key tail is what follows the head, the descriptor is there for long keys (overflow.ts has
 * its format; a value in overflow is a descriptor as well), cells of inner nodes are padded to
 * multiples of 4. An inner node of n entries has n+1 children: the first child holds keys below
 * entry 0, the child of entry i those from entry i on (b+tree) or above it (b-tree). Entries of
 * inner b+tree nodes are separators, as short as they can be, and no entries of the tree.
 */
import { failure, type DatabaseError } from '../errors.ts';
import {
  PAGE_BODY_OFFSET,
  PAGE_HEADER_BYTES,
  type BufferId,
  type PageId,
  type Pages,
} from './pages.ts';

/** Kinds of pages that a tree owns (byte 20). */
export const KIND_LEAF = 1;
export const KIND_INNER = 2;
export const KIND_ENTRY_INNER = 3;
export const KIND_OVERFLOW = 4;
export const KIND_RUNS = 5;
export const KIND_CLUSTERS = 6;
export const KIND_MASK = 0x3f;
export const FLAG_OVERFLOW = 0x40;
export const FLAG_ROOT = 0x80;

export const NODE_KIND_OFFSET = PAGE_BODY_OFFSET;
export const NODE_LEVEL_OFFSET = 21;
export const NODE_COUNT_OFFSET = 22;
export const NODE_PREFIX_LENGTH_OFFSET = 24;
export const NODE_DIRECTORY_OFFSET = 26;
export const NODE_CELL_BYTES_OFFSET = 28;
export const NODE_FRAGMENTED_BYTES_OFFSET = 30;
export const ROOT_COUNT_OFFSET = 32;
export const ROOT_BINS_OFFSET = 40;
export const ROOT_BINS = 8;
export const ROOT_ORDER_OFFSET = 72;
export const ROOT_TREE_OFFSET = 74;
export const ROOT_CLUSTER_BYTES_OFFSET = 76;
export const ROOT_HEADER_END = 80;

/** The same places in words of the page. */
export const KIND_WORD = NODE_KIND_OFFSET >> 2;
export const PREFIX_WORD = NODE_PREFIX_LENGTH_OFFSET >> 2;
export const CELLS_WORD = NODE_CELL_BYTES_OFFSET >> 2;

export const ENTRY_BYTES = 8;
export const HEAD_BYTES = 4;
export const LENGTH_MASK = 0x3fff;
/** In word 1 of a directory entry: the key has a tail in overflow. */
export const LONG_KEY = 0x4000_0000;
/** In word 1 of a directory entry: the value is in overflow. The sign bit. */
export const LONG_VALUE = 0x8000_0000 | 0;

/** Deepest tree; order 3 filled as badly as may be is below it for 2^53 entries. */
export const LEVELS_MAX = 64;
export const KEY_BYTES_MAX = 1 << 20;
export const VALUE_BYTES_MAX = 2 ** 31 - 1;

/** Descriptor of bytes in overflow: fixed part, and most runs that stand in the descriptor. */
export const DESCRIPTOR_BYTES = 12;
export const DESCRIPTOR_RUNS_OFFSET = 10;
export const DESCRIPTOR_RUNS_MAX = 8;
export const DESCRIPTOR_LIST = 255;
export const DESCRIPTOR_BYTES_MAX = DESCRIPTOR_BYTES + 8 * DESCRIPTOR_RUNS_MAX;

/** Makes the error for a page that does not hold what it should. */
export function corruptPage(
  page: number,
  what: string,
  expected: unknown,
  found: unknown,
): DatabaseError {
  return failure('corrupt.page', `page ${page}: ${what}: expected ${expected}, found ${found}`, {
    detail: { page, what, expected, found },
  });
}

/** Answers the bytes of a descriptor at `at`, at most `DESCRIPTOR_BYTES_MAX`. */
export function descriptorBytes(bytes: Uint8Array, at: number): number {
  const runs = bytes[at + DESCRIPTOR_RUNS_OFFSET]!;
  if (runs === DESCRIPTOR_LIST) return DESCRIPTOR_BYTES + 4;
  return DESCRIPTOR_BYTES + 8 * (runs < DESCRIPTOR_RUNS_MAX ? runs : DESCRIPTOR_RUNS_MAX);
}

/** Bytes of a cell before the key tail. */
export function cellHeadBytes(kind: number): number {
  return kind === KIND_LEAF ? 2 : kind === KIND_INNER ? 4 : 6;
}

/** The head of a key whose bytes `from` ≤ x < `end` are looked at: biased, zero-padded. */
export function headOf(key: Uint8Array, from: number, end: number): number {
  if (from + HEAD_BYTES <= end) {
    return (
      ((key[from]! << 24) | (key[from + 1]! << 16) | (key[from + 2]! << 8) | key[from + 3]!) ^
      0x8000_0000
    );
  }
  let head = 0;
  for (let i = from; i < from + HEAD_BYTES; i++) head = (head << 8) | (i < end ? key[i]! : 0);
  return head ^ 0x8000_0000;
}

/**
 * Copies bytes: up to 32 by a loop, where `set` costs more (40 ns; a loop of 100 bytes 90 to 160,
 * measured by copies between two 1 MiB arrays on Node 20).
 */
export function copyBytes(
  source: Uint8Array,
  from: number,
  target: Uint8Array,
  to: number,
  length: number,
): void {
  if (length > 32) {
    target.set(source.subarray(from, from + length), to);
    return;
  }
  let i = 0;
  for (; i + 4 <= length; i += 4) {
    target[to + i] = source[from + i]!;
    target[to + i + 1] = source[from + i + 1]!;
    target[to + i + 2] = source[from + i + 2]!;
    target[to + i + 3] = source[from + i + 3]!;
  }
  for (; i < length; i++) target[to + i] = source[from + i]!;
}

/** The sizes that follow from the page size, the same for every tree of a file. */
export class Limits {
  readonly usableBytes: number;
  /** Room for prefix, directory and cells; a root has 48 bytes less. */
  readonly nodeBytes: number;
  /** Largest entry, its directory entry and padding included: four fit any node. */
  readonly entryBytesMax: number;
  /** Longest key that stands in a page as a whole. */
  readonly keyBytesMax: number;
  /** Bytes that a longer key keeps in the page. */
  readonly longKeyBytes: number;
  /** Longest prefix of a node: the head of a long key never reaches into its tail. */
  readonly prefixBytesMax: number;
  /** A node that uses fewer bytes and has a sibling is merged or filled up. */
  readonly fillBytesMin: number;

  constructor(usableBytes: number) {
    this.usableBytes = usableBytes;
    this.nodeBytes = usableBytes - PAGE_HEADER_BYTES - 8; // first child, padding of the prefix
    this.entryBytesMax = ((usableBytes - ROOT_HEADER_END - 8) >> 2) & ~3;
    this.keyBytesMax = usableBytes >> 3;
    this.longKeyBytes = usableBytes >> 5;
    this.prefixBytesMax = this.longKeyBytes - HEAD_BYTES;
    this.fillBytesMin = Math.floor(usableBytes / 3);
  }

  /** Whether entries of so many bytes fit a node of that prefix length. */
  fits(kind: number, prefix: number, bytes: number, isRoot: boolean): boolean {
    const start = isRoot ? ROOT_HEADER_END : PAGE_HEADER_BYTES;
    const directory = ((start + prefix + 3) & ~3) + (kind === KIND_LEAF ? 0 : 4);
    return directory + bytes <= this.usableBytes;
  }

  /** Whether a value of that length stands in the page, beside `keyBytes` key bytes there. */
  isInline(keyBytes: number, valueBytes: number): boolean {
    return keyBytes + valueBytes + 20 <= this.entryBytesMax;
  }
}

/**
 * A node in a buffer (or in a scratch page of its own), seen through its format. Fields are those
 * of the buffer last given to `at`; they are valid as long as that buffer is.
 */
export class Node {
  readonly pages: Pages;
  readonly usableBytes: number;
  buffer: BufferId = -1;
  bytes: Uint8Array;
  words: Int32Array;
  floats: Float64Array;
  /** Offset of the page in `bytes`, and in `words`. */
  base = 0;
  word = 0;

  constructor(pages: Pages) {
    this.pages = pages;
    this.usableBytes = pages.usableBytes;
    this.bytes = new Uint8Array(0);
    this.words = new Int32Array(0);
    this.floats = new Float64Array(0);
  }

  at(buffer: BufferId): this {
    const pages = this.pages;
    const chunk = buffer >> pages.chunkShift;
    this.buffer = buffer;
    this.bytes = pages.bytes[chunk]!;
    this.words = pages.words[chunk]!;
    this.floats = pages.floats[chunk]!;
    this.base = (buffer & pages.chunkMask) << pages.pageShift;
    this.word = this.base >> 2;
    return this;
  }

  /** Turns to a scratch page of its own. */
  atScratch(scratch: ArrayBuffer): this {
    this.buffer = -1;
    this.bytes = new Uint8Array(scratch);
    this.words = new Int32Array(scratch);
    this.floats = new Float64Array(scratch);
    this.base = 0;
    this.word = 0;
    return this;
  }

  /** Copies the page of another node into this one's. */
  copyFrom(other: Node): this {
    const from = other.base;
    this.bytes.set(other.bytes.subarray(from, from + this.usableBytes), this.base);
    return this;
  }

  get page(): PageId {
    return (this.words[this.word]! >>> 0) as PageId;
  }

  get kind(): number {
    return this.words[this.word + KIND_WORD]! & KIND_MASK;
  }

  get isRoot(): boolean {
    return (this.words[this.word + KIND_WORD]! & FLAG_ROOT) !== 0;
  }

  get mayOverflow(): boolean {
    return (this.words[this.word + KIND_WORD]! & FLAG_OVERFLOW) !== 0;
  }

  get level(): number {
    return (this.words[this.word + KIND_WORD]! >>> 8) & 0xff;
  }

  get count(): number {
    return this.words[this.word + KIND_WORD]! >>> 16;
  }

  get prefixLength(): number {
    return this.words[this.word + PREFIX_WORD]! & 0xffff;
  }

  /** Offset of the prefix bytes in the page. */
  get prefixOffset(): number {
    return this.isRoot ? ROOT_HEADER_END : PAGE_HEADER_BYTES;
  }

  /** Offset of the directory in the page. */
  get directory(): number {
    return this.words[this.word + PREFIX_WORD]! >>> 16;
  }

  get cellBytes(): number {
    return this.words[this.word + CELLS_WORD]! & 0xffff;
  }

  get fragmentedBytes(): number {
    return this.words[this.word + CELLS_WORD]! >>> 16;
  }

  /** Free bytes between directory and cells. */
  get gapBytes(): number {
    return this.usableBytes - this.cellBytes - this.directory - ENTRY_BYTES * this.count;
  }

  /** Bytes of prefix, directory and cells in use. */
  get usedBytes(): number {
    return this.usableBytes - this.prefixOffset - this.gapBytes - this.fragmentedBytes;
  }

  headAt(i: number): number {
    return this.words[this.word + (this.directory >> 2) + 2 * i]!;
  }

  /** Word 1 of a directory entry. */
  slotAt(i: number): number {
    return this.words[this.word + (this.directory >> 2) + 2 * i + 1]!;
  }

  isLongKey(i: number): boolean {
    return (this.slotAt(i) & LONG_KEY) !== 0;
  }

  isLongValue(i: number): boolean {
    return this.slotAt(i) < 0;
  }

  /** Child by ordinal: 0 is the first child, i the child of entry i-1. */
  childAt(i: number): PageId {
    if (i === 0) return (this.words[this.word + (this.directory >> 2) - 1]! >>> 0) as PageId;
    const cell = this.slotAt(i - 1) & 0xffff;
    if (cell > this.usableBytes - 4 || (cell & 3) !== 0) throw this.corrupt('cell offset', cell);
    return (this.words[(this.base + cell) >> 2]! >>> 0) as PageId;
  }

  /** Key bytes of an entry that stand in the page, prefix included. */
  keyBytesAt(i: number): number {
    return this.prefixLength + ((this.slotAt(i) >>> 16) & LENGTH_MASK);
  }

  /** Offset in `bytes` of the descriptor of a long key. */
  keyDescriptorAt(i: number): number {
    const slot = this.slotAt(i);
    const suffix = (slot >>> 16) & LENGTH_MASK;
    const tail = suffix > HEAD_BYTES ? suffix - HEAD_BYTES : 0;
    const at = (slot & 0xffff) + cellHeadBytes(this.kind) + tail;
    if (at > this.usableBytes - DESCRIPTOR_BYTES) throw this.corrupt('cell offset', at);
    if (at + descriptorBytes(this.bytes, this.base + at) > this.usableBytes) {
      throw this.corrupt('end of a descriptor', at);
    }
    return this.base + at;
  }

  /** Bytes of the value (or its descriptor) in the cell. */
  valueBytesAt(i: number): number {
    const kind = this.kind;
    if (kind === KIND_INNER) return 0;
    const at = this.base + (this.slotAt(i) & 0xffff) + (kind === KIND_LEAF ? 0 : 4);
    return this.bytes[at]! | (this.bytes[at + 1]! << 8);
  }

  /** Offset in `bytes` of the value (or its descriptor). */
  valueAt(i: number): number {
    const slot = this.slotAt(i);
    let at: number;
    if ((slot & LONG_KEY) !== 0) {
      const descriptor = this.keyDescriptorAt(i);
      at = descriptor - this.base + descriptorBytes(this.bytes, descriptor);
    } else {
      const suffix = (slot >>> 16) & LENGTH_MASK;
      const tail = suffix > HEAD_BYTES ? suffix - HEAD_BYTES : 0;
      at = (slot & 0xffff) + cellHeadBytes(this.kind) + tail;
    }
    if (at + this.valueBytesAt(i) > this.usableBytes) throw this.corrupt('end of a value', at);
    return this.base + at;
  }

  /** Bytes of the cell of an entry, padding included. */
  cellBytesAt(i: number): number {
    const slot = this.slotAt(i);
    const cell = slot & 0xffff;
    if ((slot & LONG_KEY) === 0 && this.kind === KIND_LEAF) {
      const { bytes } = this;
      const at = this.base + cell;
      const suffix = (slot >>> 16) & LENGTH_MASK;
      const tail = suffix > HEAD_BYTES ? suffix - HEAD_BYTES : 0;
      const length = 2 + tail + (bytes[at]! | (bytes[at + 1]! << 8));
      if (cell + length > this.usableBytes) throw this.corrupt('end of a cell', cell + length);
      return length;
    }
    const length = this.valueAt(i) - this.base + this.valueBytesAt(i) - cell;
    return this.kind === KIND_LEAF ? length : (length + 3) & ~3;
  }

  /** Copies the key bytes that stand in the page into `target`; answers their number. */
  keyInto(i: number, target: Uint8Array): number {
    const bytes = this.bytes;
    const prefix = this.prefixLength;
    const suffix = (this.slotAt(i) >>> 16) & LENGTH_MASK;
    if (prefix + suffix > this.usableBytes) throw this.corrupt('key bytes', prefix + suffix);
    copyBytes(bytes, this.base + this.prefixOffset, target, 0, prefix);
    const head = this.headAt(i) ^ 0x8000_0000;
    const heads = suffix < HEAD_BYTES ? suffix : HEAD_BYTES;
    for (let k = 0; k < heads; k++) target[prefix + k] = head >>> (24 - 8 * k);
    if (suffix > HEAD_BYTES) {
      const at = (this.slotAt(i) & 0xffff) + cellHeadBytes(this.kind);
      if (at + suffix - HEAD_BYTES > this.usableBytes) throw this.corrupt('end of a key', at);
      copyBytes(bytes, this.base + at, target, prefix + HEAD_BYTES, suffix - HEAD_BYTES);
    }
    return prefix + suffix;
  }

  /** Checks that the header describes a node of the page it lies in. */
  checkHeader(structure: number, kind: number, level: number, isRoot: boolean): this {
    const words = this.words;
    if (words[this.word + 1] !== (structure | 0)) {
      throw this.corrupt('structure', words[this.word + 1], structure);
    }
    if (this.kind !== kind) throw this.corrupt('kind', this.kind, kind);
    if (this.level !== level) throw this.corrupt('level', this.level, level);
    if (this.isRoot !== isRoot) throw this.corrupt('root flag', this.isRoot, isRoot);
    const directory = this.directory;
    const first = this.prefixOffset + this.prefixLength + (kind === KIND_LEAF ? 0 : 4);
    if (directory < first || (directory & 3) !== 0) throw this.corrupt('directory', directory);
    if (this.gapBytes < 0) throw this.corrupt('entries', this.count);
    return this;
  }

  /** Checks that the cells lie in the cell area and fill it but for the fragments. */
  checkCells(): this {
    const lowest = this.usableBytes - this.cellBytes;
    const count = this.count;
    let sum = this.fragmentedBytes;
    for (let i = 0; i < count; i++) {
      const cell = this.slotAt(i) & 0xffff;
      if (cell < lowest || cell > this.usableBytes - 2) throw this.corrupt('cell offset', cell);
      const bytes = this.cellBytesAt(i);
      if (cell + bytes > this.usableBytes) throw this.corrupt('end of a cell', cell + bytes);
      sum += bytes;
    }
    if (sum !== this.cellBytes) throw this.corrupt('bytes of cells', sum, this.cellBytes);
    return this;
  }

  corrupt(
    what: string,
    found: unknown,
    expected: unknown = 'a place inside the page',
  ): DatabaseError {
    return corruptPage(this.page, what, expected, found);
  }
}

/** Kind of the nodes at a level. */
export function kindAt(level: number, isBTree: boolean): number {
  return level === 0 ? KIND_LEAF : isBTree ? KIND_ENTRY_INNER : KIND_INNER;
}

/** Bytes that entries take in a page of a tree; all of a page that has no entries of its own. */
export function bytesHeld(pages: Pages, buffer: BufferId): number {
  const at = (buffer & pages.chunkMask) << pages.pageShift;
  const bytes = pages.bytes[buffer >> pages.chunkShift]!;
  const kind = bytes[at + NODE_KIND_OFFSET]! & KIND_MASK;
  if (kind !== KIND_LEAF && kind !== KIND_INNER && kind !== KIND_ENTRY_INNER) {
    return pages.usableBytes;
  }
  const u16 = (offset: number): number => bytes[at + offset]! | (bytes[at + offset + 1]! << 8);
  const cells = u16(NODE_CELL_BYTES_OFFSET) - u16(NODE_FRAGMENTED_BYTES_OFFSET);
  return u16(NODE_COUNT_OFFSET) * ENTRY_BYTES + cells;
}
