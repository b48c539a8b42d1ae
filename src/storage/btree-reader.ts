/**
 * Access to key and value of the entry that a tree or cursor stands at.
 *
 * Fields say where the value lies and hold a copy of the key; the former are valid as long as
 * `buffer` is: for a tree until its next call, for a cursor (which pins its leaf) until it moves.
 * There are three ways out: `valueCopy` answers bytes of the caller's own, `valueInto` copies into
 * an array of the caller's, `valueView` lends.
 */
import {
  cellHeadBytes,
  copyBytes,
  corruptPage,
  descriptorBytes,
  HEAD_BYTES,
  KEY_BYTES_MAX,
  KIND_LEAF,
  KIND_MASK,
  KIND_WORD,
  LENGTH_MASK,
  LONG_KEY,
  Node,
  PREFIX_WORD,
  VALUE_BYTES_MAX,
} from './btree-node.ts';
import type { Overflow } from './overflow.ts';
import { LATEST, type BufferId, type PageId, type Pages, type View } from './pages.ts';

/** Copies up to this length are cut from a shared pool; see `valueCopy`. */
const POOLED_BYTES_MAX = 2048;
const POOL_BYTES = 65536;
let pool = new ArrayBuffer(POOL_BYTES);
let poolAt = 0;

export abstract class EntryReader {
  /** Buffer of the node that holds the entry. */
  buffer: BufferId = -1;
  /** The bytes that `valueOffset` counts in: the chunk of the buffer. */
  bytes: Uint8Array;
  /** Where the value lies, or its descriptor if `isOverflow`. */
  valueOffset = 0;
  /** Length of the value. */
  valueBytes = 0;
  isOverflow = false;
  /** The key, in the first `keyLength` bytes of an array that grows; do not modify. */
  key: Uint8Array = new Uint8Array(64);
  keyLength = 0;
  readonly pages: Pages;
  protected view: View = LATEST;
  readonly #node: Node;

  constructor(pages: Pages) {
    this.pages = pages;
    this.bytes = new Uint8Array(0);
    this.#node = new Node(pages);
  }

  /** Where large values and the tails of long keys are. */
  abstract get overflow(): Overflow;

  /**
   * Copies the value. Copies of up to 2 KiB are cut from pools of 64 KiB, which is several times
   * faster than an allocation each; a pool lives as long as any copy cut from it.
   */
  valueCopy(): Uint8Array {
    const length = this.valueBytes;
    if (this.isOverflow) return this.#overflowCopy();
    const target = takeBytes(length);
    copyBytes(this.bytes, this.valueOffset, target, 0, length);
    return target;
  }

  /** Copies value bytes `from` ≤ x < `from + length` into the target; by default all of them. */
  valueInto(
    target: Uint8Array,
    targetOffset: number,
    from = 0,
    length: number = this.valueBytes - from,
  ): void {
    const at = this.valueOffset;
    if (!this.isOverflow) {
      copyBytes(this.bytes, at + from, target, targetOffset, length);
      return;
    }
    const owner = this.pages.pageOf(this.buffer);
    const descriptor = this.bytes.slice(at, at + descriptorBytes(this.bytes, at));
    this.overflow.read(this.view, owner, descriptor, 0, from, target, targetOffset, length);
  }

  /** Lends the value: a view of the page where it lies there, a copy where it is in overflow. */
  valueView(): Uint8Array {
    if (this.isOverflow) return this.valueCopy();
    return this.bytes.subarray(this.valueOffset, this.valueOffset + this.valueBytes);
  }

  /** Copies the key of entry `i`; the buffer must be pinned if the key may be long. */
  protected readKey(buffer: BufferId, i: number, view: View): void {
    const node = this.#node.at(buffer);
    const bytes = node.keyBytesAt(i);
    if (bytes > this.key.length) this.growKey(bytes);
    node.keyInto(i, this.key);
    this.keyLength = bytes;
    if (node.isLongKey(i)) this.readKeyTail(node, i, view);
  }

  /** Adds the tail of a long key to the bytes that stand in the page. */
  protected readKeyTail(node: Node, i: number, view: View): void {
    const bytes = this.keyLength;
    const descriptor = node.keyDescriptorAt(i);
    const tail = this.overflow.lengthOf(node.bytes, descriptor);
    if (bytes + tail > KEY_BYTES_MAX) throw node.corrupt('length of a key', bytes + tail);
    if (bytes + tail > this.key.length) this.growKey(bytes + tail);
    this.overflow.read(view, node.page, node.bytes, descriptor, 0, this.key, bytes, tail);
    this.keyLength = bytes + tail;
  }

  protected growKey(bytes: number): void {
    const key = new Uint8Array(Math.max(bytes, 2 * this.key.length));
    key.set(this.key);
    this.key = key;
  }

  /** Finds the value of entry `i` of the node in a buffer. */
  protected locate(buffer: BufferId, i: number, view: View): void {
    const pages = this.pages;
    const chunk = buffer >> pages.chunkShift;
    const bytes = pages.bytes[chunk]!;
    const words = pages.words[chunk]!;
    const base = (buffer & pages.chunkMask) << pages.pageShift;
    const word = base >> 2;
    const kind = words[word + KIND_WORD]! & KIND_MASK;
    const slot = words[word + (words[word + PREFIX_WORD]! >>> 18) + 2 * i + 1]!;
    const suffix = (slot >>> 16) & LENGTH_MASK;
    const head = cellHeadBytes(kind);
    const cell = base + (slot & 0xffff);
    let at = cell + head + (suffix > HEAD_BYTES ? suffix - HEAD_BYTES : 0);
    if ((slot & LONG_KEY) !== 0) at += descriptorBytes(bytes, at);
    const lengthAt = kind === KIND_LEAF ? cell : cell + 4;
    const length = bytes[lengthAt]! | (bytes[lengthAt + 1]! << 8);
    if (!(at + length <= base + pages.usableBytes)) {
      throw corruptPage(words[word]!, 'end of a value', 'a place inside the page', at - base);
    }
    this.buffer = buffer;
    this.bytes = bytes;
    this.valueOffset = at;
    this.valueBytes = length;
    this.isOverflow = false;
    this.view = view;
    if (slot < 0) this.#locateOverflow(length, words[word]! as PageId);
  }

  #overflowCopy(): Uint8Array {
    const at = this.valueOffset;
    const owner = this.pages.pageOf(this.buffer);
    const descriptor = this.bytes.slice(at, at + descriptorBytes(this.bytes, at));
    this.overflow.checkLength(this.view, owner, descriptor, 0);
    const target = new Uint8Array(this.valueBytes);
    this.overflow.read(this.view, owner, descriptor, 0, 0, target, 0, target.length);
    return target;
  }

  #locateOverflow(length: number, page: PageId): void {
    const at = this.valueOffset;
    const bytes = descriptorBytes(this.bytes, at);
    if (bytes !== length) throw corruptPage(page, 'bytes of a descriptor', bytes, length);
    this.isOverflow = true;
    this.valueBytes = this.overflow.lengthOf(this.bytes, at);
    if (this.valueBytes > VALUE_BYTES_MAX) {
      throw corruptPage(page, 'length of a value', `at most ${VALUE_BYTES_MAX}`, this.valueBytes);
    }
  }
}

/** Takes bytes from the pool, or alone where they are many. */
function takeBytes(length: number): Uint8Array {
  if (length > POOLED_BYTES_MAX) return new Uint8Array(length);
  if (poolAt + length > POOL_BYTES) {
    pool = new ArrayBuffer(POOL_BYTES);
    poolAt = 0;
  }
  const bytes = new Uint8Array(pool, poolAt, length);
  poolAt += (length + 7) & ~7;
  return bytes;
}
