/**
 * Entries of one or two nodes and perhaps a single one between them, in key order: what a split,
 * a merge or a redistribution has to lay out. A split sees the entries of a node before the
 * place of the new one, the new one, and those behind it; a merge sees the left node, the
 * separator that comes down (unless it only separates leaves), and the right node.
 */
import { assert } from '../base/assert.ts';
import { commonBytes, type Entry, type NodeEditor } from './btree-edit.ts';
import { ENTRY_BYTES, HEAD_BYTES, KIND_LEAF, LENGTH_MASK, type Limits } from './btree-node.ts';

export class Sequence {
  count = 0;
  readonly #limits: Limits;
  #before: NodeEditor;
  #beforeCount = 0;
  #middle: Entry | undefined;
  #after: NodeEditor;
  #afterFrom = 0;
  readonly #first: Uint8Array;
  readonly #last: Uint8Array;

  constructor(limits: Limits, node: NodeEditor) {
    this.#limits = limits;
    this.#before = node;
    this.#middle = undefined;
    this.#after = node;
    this.#first = new Uint8Array(limits.usableBytes + 1);
    this.#last = new Uint8Array(limits.usableBytes + 1);
  }

  ofNode(node: NodeEditor): this {
    return this.#set(node, node.count, undefined, node, node.count);
  }

  /** The entries of a node with a new one at `position`. */
  ofInsert(node: NodeEditor, position: number, entry: Entry): this {
    return this.#set(node, position, entry, node, position);
  }

  /** The entries of two neighbours with the one between them, if it comes down. */
  ofPair(left: NodeEditor, between: Entry | undefined, right: NodeEditor): this {
    return this.#set(left, left.count, between, right, 0);
  }

  /** Key bytes that entry `v` has in the page. */
  keyBytes(v: number): number {
    const middle = this.#middleAt(v);
    if (middle !== undefined) return middle.keyBytes;
    return this.#nodeOf(v).keyBytesAt(this.#ordinalOf(v));
  }

  /** Bytes of entry `v`, directory entry included, in a node of that prefix length. */
  bytes(v: number, prefix: number): number {
    const middle = this.#middleAt(v);
    const kind = this.#before.kind;
    if (middle !== undefined) return ENTRY_BYTES + middle.cellBytes(kind, prefix);
    const node = this.#nodeOf(v);
    const i = this.#ordinalOf(v);
    const cell = node.cellBytesAt(i);
    if (prefix === node.prefixLength) return ENTRY_BYTES + cell;
    const suffix = (node.slotAt(i) >>> 16) & LENGTH_MASK;
    const tail = suffix > HEAD_BYTES ? suffix - HEAD_BYTES : 0;
    const other = suffix + node.prefixLength - prefix - HEAD_BYTES;
    const bytes = ENTRY_BYTES + cell - tail + (other > 0 ? other : 0);
    return kind === KIND_LEAF ? bytes : bytes + 3; // at most: padding may differ
  }

  /** Bytes of the entries `from` ≤ v < `to` together. */
  bytesOf(from: number, to: number, prefix: number): number {
    let bytes = 0;
    for (let v = from; v < to; v++) bytes += this.bytes(v, prefix);
    return bytes;
  }

  keyInto(v: number, target: Uint8Array): number {
    const middle = this.#middleAt(v);
    if (middle === undefined) return this.#nodeOf(v).keyInto(this.#ordinalOf(v), target);
    target.set(middle.key.subarray(0, middle.keyBytes));
    return middle.keyBytes;
  }

  /**
   * The prefix for a node of the entries `from` ≤ v < `to`: what they share, but no more than
   * leaves the longest key a full head. Its bytes are in `prefixBytes` until the next call.
   */
  prefixOf(from: number, to: number): number {
    if (from >= to) return 0;
    let longest = 0;
    for (let v = from; v < to; v++) longest = Math.max(longest, this.keyBytes(v));
    return this.sharedBy(from, to - 1, longest);
  }

  /** The prefix that entries `v` and `w` share, for a node whose longest key is given. */
  sharedBy(v: number, w: number, longest: number): number {
    const bytes = this.keyInto(v, this.#first);
    const shared = commonBytes(this.#first, bytes, this.#last, this.keyInto(w, this.#last));
    return Math.max(0, Math.min(shared, longest - HEAD_BYTES, this.#limits.prefixBytesMax));
  }

  get prefixBytes(): Uint8Array {
    return this.#first;
  }

  /** Appends the entries `from` ≤ v < `to` to a node being built. */
  appendTo(target: NodeEditor, from: number, to: number): void {
    const behind = this.#beforeCount + (this.#middle === undefined ? 0 : 1);
    const a = Math.min(to, this.#beforeCount);
    if (from < a) target.appendFrom(this.#before, from, a);
    const middle = this.#middle;
    if (middle !== undefined && from <= this.#beforeCount && this.#beforeCount < to) {
      target.append(middle);
    }
    const b = Math.max(from, behind);
    const shift = this.#afterFrom - behind;
    if (b < to) target.appendFrom(this.#after, b + shift, to + shift);
  }

  /** Entry `v`: the one between as it is, another staged into `target`. */
  entryAt(v: number, target: Entry): Entry {
    const middle = this.#middleAt(v);
    if (middle !== undefined) return middle;
    assert(target !== this.#middle, 'an entry is staged beside the one between');
    return this.#nodeOf(v).stage(this.#ordinalOf(v), target);
  }

  /**
   * Number of entries for the left of two nodes: balanced by bytes, or by number if all would fit
   * one node. When one `rises` between them it is the entry of that ordinal.
   */
  middle(prefix: number, rises: boolean): number {
    const total = this.bytesOf(0, this.count, prefix);
    const last = rises ? this.count - 2 : this.count - 1;
    if (total + prefix <= this.#limits.nodeBytes)
      return Math.max(1, Math.min(this.count >> 1, last));
    let left = 0;
    let best = 1;
    let bestDifference = Infinity;
    for (let v = 1; v <= last; v++) {
      left += this.bytes(v - 1, prefix);
      const right = total - left - (rises ? this.bytes(v, prefix) : 0);
      const difference = Math.abs(left - right);
      if (difference >= bestDifference) break;
      best = v;
      bestDifference = difference;
    }
    return best;
  }

  #set(
    before: NodeEditor,
    beforeCount: number,
    middle: Entry | undefined,
    after: NodeEditor,
    afterFrom: number,
  ): this {
    this.#before = before;
    this.#beforeCount = beforeCount;
    this.#middle = middle;
    this.#after = after;
    this.#afterFrom = afterFrom;
    this.count = beforeCount + (middle === undefined ? 0 : 1) + after.count - afterFrom;
    return this;
  }

  #middleAt(v: number): Entry | undefined {
    return v === this.#beforeCount ? this.#middle : undefined;
  }

  #nodeOf(v: number): NodeEditor {
    return v < this.#beforeCount ? this.#before : this.#after;
  }

  #ordinalOf(v: number): number {
    if (v < this.#beforeCount) return v;
    return v - this.#beforeCount - (this.#middle === undefined ? 0 : 1) + this.#afterFrom;
  }
}
