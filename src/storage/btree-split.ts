/**
 * Changes of more than one node: splits, merges, redistribution, growth and collapse of the root.
 *
 * A node is split in the middle by bytes. At the right (left) edge of the tree, and where entries
 * arrive in order, it is cut at the new entry, so that what they leave behind is full. The root
 * keeps its page: it grows by moving its contents into a new child, and takes those of an only
 * child back when they fit.
 *
 * A node that uses less than a third of a page (with an order: and has fewer than order/2
 * children) is merged with a sibling, or filled up from one, when an entry is deleted. Nodes at
 * an edge that was split, and nodes whose siblings cannot help, may be emptier; no node but the
 * root is empty.
 *
 * Nothing here holds a buffer across `makeSeparator`, which may write overflow pages.
 */
import { assert } from '../base/assert.ts';
import { commonBytes, type Entry, type NodeEditor } from './btree-edit.ts';
import {
  descriptorBytes,
  KIND_LEAF,
  kindAt,
  LEVELS_MAX,
  type Limits,
  type Node,
} from './btree-node.ts';
import type { Path } from './btree-path.ts';
import type { Sequence } from './btree-sequence.ts';
import { Workbench } from './btree-workbench.ts';
import type { Overflow } from './overflow.ts';
import { NO_PAGE, WRITER, type PageId, type Pages, type StructureId } from './pages.ts';

/** Inserts in order after which a leaf is cut where they arrive, not in the middle. */
const RUN_MIN = 4;

export class Restructurer {
  readonly pages: Pages;
  readonly structure: StructureId;
  readonly limits: Limits;
  readonly #tree: { readonly overflow: Overflow };
  readonly path: Path;
  /** Most entries of a node, and fewest below which it may be merged; by the order. */
  readonly entriesMax: number;
  readonly entriesMin: number;
  readonly isBTree: boolean;
  // All from the workbench: the node being changed, a new one beside it, their parent, copies of
  // two siblings, entries in transit, a separator that goes away, bytes of a key.
  readonly #node: NodeEditor;
  readonly #fresh: NodeEditor;
  readonly #parent: NodeEditor;
  readonly #left: NodeEditor;
  readonly #right: NodeEditor;
  readonly #sequence: Sequence;
  readonly #staged: readonly [Entry, Entry];
  readonly #old: Entry;
  readonly #key: Uint8Array;
  /** Leaf and position of the last insert, to find entries that arrive in order. */
  #lastLeaf = 0;
  #lastPosition = 0;
  /** Inserts so far that came right after, or right before, the one before them. */
  #run = 0;

  constructor(
    pages: Pages,
    structure: StructureId,
    limits: Limits,
    tree: { readonly overflow: Overflow },
    path: Path,
    order: number,
  ) {
    this.pages = pages;
    this.structure = structure;
    this.limits = limits;
    this.#tree = tree;
    this.path = path;
    this.isBTree = path.isBTree;
    this.entriesMax = order === 0 ? 0xffff : order - 1;
    this.entriesMin = order === 0 ? 0xffff : ((order + 1) >> 1) - 1;
    const bench = Workbench.of(pages);
    this.#node = bench.node;
    this.#fresh = bench.fresh;
    this.#parent = bench.parent;
    this.#left = bench.left;
    this.#right = bench.right;
    this.#sequence = bench.sequence;
    this.#staged = bench.staged;
    this.#old = bench.old;
    this.#key = bench.key;
  }

  /** Puts an entry into the node at `depth` of the path, splitting nodes as it must. */
  insertInto(depth: number, position: number, entry: Entry): void {
    const page = this.path.nodes[depth]! as PageId;
    const node = this.#node.at(this.pages.edit(page));
    if (node.count < this.entriesMax && node.tryInsert(position, entry)) {
      if (node.level === 0) this.#noteInsert(page, position);
      return;
    }
    this.path.leave();
    this.#split(depth, position, entry);
  }

  /** Merges or fills up the node at `depth` of the path, and those above it, where they need it. */
  rebalance(depth: number): void {
    let at = depth;
    for (; at > 0; at--) {
      const page = this.path.nodes[at]! as PageId;
      if (!this.#isUnderfull(this.#node.at(this.pages.read(page, WRITER)))) return;
      const parent = this.#readParent(at);
      const child = this.path.positions[at - 1]!;
      if (parent.count === 0) break;
      const hasLeft = child > 0;
      const hasRight = child < parent.count;
      if (hasLeft && this.#merge(at, child - 1)) continue;
      if (hasRight && this.#merge(at, child)) continue;
      this.#share(at, hasLeft ? child - 1 : child);
      return;
    }
    this.#collapseRoot();
  }

  /** Gives the overflow pages of an entry back: those of its value and of its key. */
  freeOverflow(entry: Entry): void {
    const root = this.path.nodes[0]! as PageId;
    if (entry.isLongValue) this.#tree.overflow.free(root, entry.value, entry.valueOffset);
    if (entry.isLongKey) this.#tree.overflow.free(root, entry.keyDescriptor, 0);
  }

  /** Forgets what it knows of the last insert. */
  forget(): void {
    this.#lastLeaf = 0;
  }

  #noteInsert(page: number, position: number): void {
    const step = position - this.#lastPosition;
    if (page === this.#lastLeaf && (step === 1 || (step === 0 && position === 0))) this.#run++;
    else this.#run = 0;
    this.#placeLast(page, position);
  }

  /** Notes inserts, each right behind the one before, of which the last is at a position. */
  noteRun(page: number, position: number, count: number): void {
    this.#run = page === this.#lastLeaf ? this.#run + count : count;
    this.#placeLast(page, position);
  }

  /** Notes where the last insert is now that its leaf was split. */
  #placeLast(page: number, position: number): void {
    this.#lastLeaf = page;
    this.#lastPosition = position;
  }

  #split(inDepth: number, position: number, entry: Entry): void {
    let depth = inDepth;
    if (depth === 0) {
      this.#growRoot();
      depth = 1;
    }
    const { pages, path } = this;
    const page = path.nodes[depth]! as PageId;
    const node = this.#node.at(pages.edit(page)).checkCells();
    const middle = this.#middleOf(node, depth, position, entry);
    const fresh = this.#fresh.at(pages.allocate(this.structure));
    const freshPage = pages.pageOf(fresh.buffer);
    const above = path.positions[depth - 1]!;
    if (middle === 0) {
      const risen = this.#splitBefore(node, fresh, entry);
      risen.child = page;
      const parent = this.#parent.at(pages.edit(path.nodes[depth - 1]! as PageId));
      parent.setChild(above, freshPage);
      this.insertInto(depth - 1, above, risen);
      return;
    }
    const risen = this.#splitAfter(node, fresh, position, entry, middle);
    risen.child = freshPage;
    this.insertInto(depth - 1, above, risen);
  }

  /**
   * Number of entries, the new one counted, that stay below the cut; 0: only the new one goes to
   * a page of its own, before all others.
   */
  #middleOf(node: NodeEditor, depth: number, position: number, entry: Entry): number {
    const rises = this.isBTree || node.kind !== KIND_LEAF;
    const isOutside = !node.hasPrefixOf(entry);
    const isInRun = this.#run >= RUN_MIN && this.path.nodes[depth] === this.#lastLeaf;
    if (position === 0 && (isOutside || isInRun || this.#isLeftEdge(depth))) return 0;
    const sequence = this.#sequence.ofInsert(node, position, entry);
    const { count } = sequence;
    const before = position - (rises ? 1 : 0);
    const isLast = position === node.count;
    if (isOutside || (isLast && this.isRightEdge(depth))) {
      assert(isLast, 'a key without the prefix lies at an end of the node');
      return before;
    }
    const prefix = node.prefixLength;
    if (before > 0 && isInRun && position === this.#lastPosition + 1) {
      const bytes = sequence.bytesOf(position, count, prefix);
      if (this.limits.fits(node.kind, prefix, bytes, false)) return before;
    }
    return sequence.middle(prefix, rises);
  }

  /** Splits so that entries from `middle` on go to the fresh page; answers what rises. */
  #splitAfter(
    node: NodeEditor,
    fresh: NodeEditor,
    position: number,
    entry: Entry,
    middle: number,
  ): Entry {
    const rises = this.isBTree || node.kind !== KIND_LEAF;
    const sequence = this.#sequence.ofInsert(node, position, entry);
    const { count } = sequence;
    let risen = this.#free(entry);
    if (rises) risen = sequence.entryAt(middle, risen);
    const from = rises ? middle + 1 : middle;
    const isAlone = from === count - 1;
    const prefix = isAlone
      ? sequence.sharedBy(from - 1, from, sequence.keyBytes(from))
      : sequence.prefixOf(from, count);
    const firstChild = node.kind === KIND_LEAF ? NO_PAGE : risen.child;
    fresh.begin(node.kind, node.level, false, sequence.prefixBytes, prefix, firstChild);
    sequence.appendTo(fresh, from, count);
    fresh.finish();
    const kept = position < middle ? middle - 1 : middle;
    node.removeEntries(kept, node.count);
    if (position < middle) {
      assert(node.tryInsert(position, entry), 'half a node has room for an entry');
    }
    if (node.level === 0) {
      if (position < middle) this.#placeLast(node.page, position);
      else this.#placeLast(fresh.page, position - from);
    }
    if (position <= middle) this.#lengthenPrefix(node);
    if (!rises) this.makeSeparator(node, node.count - 1, fresh, 0, risen);
    return risen;
  }

  /** Splits so that the new first entry alone goes to the fresh page; answers what rises. */
  #splitBefore(node: NodeEditor, fresh: NodeEditor, entry: Entry): Entry {
    const rises = this.isBTree || node.kind !== KIND_LEAF;
    const isLeaf = node.kind === KIND_LEAF;
    const sequence = this.#sequence.ofInsert(node, 0, entry);
    const risen = this.#free(entry);
    const prefix = sequence.sharedBy(0, 1, entry.keyBytes);
    const firstChild = isLeaf ? NO_PAGE : node.childAt(0);
    fresh.begin(node.kind, node.level, false, sequence.prefixBytes, prefix, firstChild);
    fresh.append(entry);
    fresh.finish();
    if (rises) {
      node.stage(0, risen);
      if (!isLeaf) node.setChild(0, risen.child);
      node.removeEntries(0, 1);
    }
    if (node.level === 0) this.#placeLast(fresh.page, 0);
    if (!rises) this.makeSeparator(fresh, 0, node, 0, risen);
    return risen;
  }

  /** A staged entry that is not the given one. */
  #free(entry: Entry): Entry {
    return entry === this.#staged[0] ? this.#staged[1] : this.#staged[0];
  }

  /** Rebuilds a node that was split if its keys now share two bytes more than its prefix says. */
  #lengthenPrefix(node: NodeEditor): void {
    const sequence = this.#sequence.ofNode(node);
    const prefix = sequence.prefixOf(0, sequence.count);
    const more = prefix - node.prefixLength;
    if (more >= 2 && node.gapBytes + node.fragmentedBytes > more + 8) {
      node.rebuild(sequence.prefixBytes, prefix);
    }
  }

  /** Moves the contents of the root into a new child, the only one; the path then has one more. */
  #growRoot(): void {
    const { pages, path } = this;
    const rootPage = path.nodes[0]! as PageId;
    const root = this.#parent.at(pages.edit(rootPage)).checkCells();
    const { kind, level, count } = root;
    assert(level + 1 < LEVELS_MAX, 'a tree has fewer than 64 levels');
    const child = this.#fresh.at(pages.allocate(this.structure));
    const page = pages.pageOf(child.buffer);
    const sequence = this.#sequence.ofNode(root);
    const prefix = sequence.prefixOf(0, count);
    const firstChild = kind === KIND_LEAF ? NO_PAGE : root.childAt(0);
    child.begin(kind, level, false, sequence.prefixBytes, prefix, firstChild);
    child.appendFrom(root, 0, count);
    child.finish();
    root.begin(kindAt(level + 1, this.isBTree), level + 1, true, this.#key, 0, page);
    root.finish();
    for (let i = path.depth; i >= 0; i--) {
      path.nodes[i + 1] = path.nodes[i]!;
      path.positions[i + 1] = path.positions[i]!;
    }
    path.nodes[1] = page;
    path.positions[0] = 0;
    path.depth++;
    if (this.#lastLeaf === rootPage) this.#lastLeaf = page;
  }

  /** Takes the contents of the root's only child back into the root, if they fit. */
  #collapseRoot(): void {
    const { pages, path } = this;
    const rootPage = path.nodes[0]! as PageId;
    for (;;) {
      const root = this.#parent.at(pages.read(rootPage, WRITER));
      if (root.level === 0 || root.count > 0) return;
      const page = root.childAt(0);
      const child = this.#readChild(page, this.#left, root.level - 1);
      const { kind, level, count } = child;
      const sequence = this.#sequence.ofNode(child);
      const prefix = sequence.prefixOf(0, count);
      if (!this.limits.fits(kind, prefix, sequence.bytesOf(0, count, prefix), true)) return;
      const firstChild = kind === KIND_LEAF ? NO_PAGE : child.childAt(0);
      const target = this.#parent.at(pages.edit(rootPage));
      target.begin(kind, level, true, sequence.prefixBytes, prefix, firstChild);
      target.appendFrom(child, 0, count);
      target.finish();
      pages.free(page);
    }
  }

  #isUnderfull(node: Node): boolean {
    const { count } = node;
    if (count === 0) return true;
    return count < this.entriesMin && node.usedBytes < this.limits.fillBytesMin;
  }

  /** Merges the children on both sides of entry `at` of the parent, if one node holds them. */
  #merge(depth: number, at: number): boolean {
    const { pages } = this;
    const sequence = this.#loadPair(depth, at);
    const { count } = sequence;
    if (count > this.entriesMax) return false;
    const left = this.#left;
    const right = this.#right.page;
    const { kind } = left;
    let prefix = sequence.prefixOf(0, count);
    if (!this.limits.fits(kind, prefix, sequence.bytesOf(0, count, prefix), false)) {
      // A full node and an empty one always go together: with the prefix that the full one had.
      if (left.count > 0 && this.#right.count > 0) return false;
      prefix = left.count > 0 ? left.prefixLength : this.#right.prefixLength;
      if (count > left.count + this.#right.count) return false;
    }
    const firstChild = kind === KIND_LEAF ? NO_PAGE : left.childAt(0);
    const target = this.#node.at(pages.edit(left.page));
    target.begin(kind, left.level, false, sequence.prefixBytes, prefix, firstChild);
    sequence.appendTo(target, 0, count);
    target.finish();
    pages.free(right);
    this.#stageOldSeparator(depth, at);
    this.#parent.at(pages.edit(this.path.nodes[depth - 1]! as PageId)).removeEntries(at, at + 1);
    this.freeOverflow(this.#old);
    return true;
  }

  /** Evens out the children on both sides of entry `at` of the parent. */
  #share(depth: number, at: number): void {
    const { pages, path } = this;
    const sequence = this.#loadPair(depth, at);
    const left = this.#left;
    const right = this.#right;
    const isLeaf = left.kind === KIND_LEAF;
    const rises = this.isBTree || !isLeaf;
    const middle = this.#middleOfPair(sequence, rises);
    if (middle === left.count) return;
    let risen = this.#staged[1];
    if (rises) risen = sequence.entryAt(middle, risen);
    const from = rises ? middle + 1 : middle;
    const leftChild = isLeaf ? NO_PAGE : left.childAt(0);
    const rightChild = isLeaf ? NO_PAGE : risen.child;
    const target = this.#node.at(pages.edit(left.page));
    this.#build(target, sequence, 0, middle, leftChild);
    const other = this.#fresh.at(pages.edit(right.page));
    this.#build(other, sequence, from, sequence.count, rightChild);
    this.#stageOldSeparator(depth, at);
    if (!rises) this.makeSeparator(target, target.count - 1, other, 0, risen);
    risen.child = right.page;
    const parent = this.#parent.at(pages.edit(path.nodes[depth - 1]! as PageId));
    parent.removeEntries(at, at + 1);
    this.insertInto(depth - 1, at, risen);
    this.freeOverflow(this.#old);
  }

  /**
   * Entries for the left of two siblings: as they are if an even share would not fit, but one at
   * least for each.
   */
  #middleOfPair(sequence: Sequence, rises: boolean): number {
    const { count } = sequence;
    const { kind } = this.#left;
    const middle = sequence.middle(sequence.prefixOf(0, count), rises);
    const from = rises ? middle + 1 : middle;
    const prefix = sequence.prefixOf(0, middle);
    const bytes = sequence.bytesOf(0, middle, prefix);
    const otherPrefix = sequence.prefixOf(from, count);
    const otherBytes = sequence.bytesOf(from, count, otherPrefix);
    const fits =
      this.limits.fits(kind, prefix, bytes, false) &&
      this.limits.fits(kind, otherPrefix, otherBytes, false);
    if (fits) return middle;
    if (this.#left.count === 0) return 1;
    return this.#right.count === 0 ? count - (rises ? 2 : 1) : this.#left.count;
  }

  /** Builds a node of the entries `from` ≤ v < `to`, over what the page held. */
  #build(
    target: NodeEditor,
    sequence: Sequence,
    from: number,
    to: number,
    firstChild: PageId,
  ): void {
    const { kind, level } = this.#left;
    const prefix = sequence.prefixOf(from, to);
    target.begin(kind, level, false, sequence.prefixBytes, prefix, firstChild);
    sequence.appendTo(target, from, to);
    target.finish();
  }

  /** Copies two siblings, and the entry between them if it would come down. */
  #loadPair(depth: number, at: number): Sequence {
    const parent = this.#readParent(depth);
    const level = parent.level - 1;
    const comesDown = this.isBTree || level > 0;
    const down = comesDown ? parent.stage(at, this.#staged[0]) : undefined;
    const leftPage = parent.childAt(at);
    const rightPage = parent.childAt(at + 1);
    const left = this.#readChild(leftPage, this.#left, level);
    const right = this.#readChild(rightPage, this.#right, level);
    if (down !== undefined) down.child = level > 0 ? right.childAt(0) : NO_PAGE;
    return this.#sequence.ofPair(left, down, right);
  }

  /** Notes the overflow of a separator of leaves that goes away; others only move. */
  #stageOldSeparator(depth: number, at: number): void {
    const parent = this.#readParent(depth);
    this.#old.setKey(this.#key, 0);
    if (this.isBTree || parent.level !== 1 || !parent.isLongKey(at)) return;
    parent.stage(at, this.#old);
  }

  #readParent(depth: number): NodeEditor {
    const page = this.path.nodes[depth - 1]! as PageId;
    return this.#parent.at(this.pages.read(page, WRITER));
  }

  /** Copies a node into a scratch one and checks it. */
  #readChild(page: PageId, target: NodeEditor, level: number): NodeEditor {
    this.#node.at(this.pages.read(page, WRITER));
    target.copyFrom(this.#node);
    return target
      .checkHeader(this.structure, kindAt(level, this.isBTree), level, false)
      .checkCells();
  }

  /** Whether the node at a depth of the path is the last of its level. */
  isRightEdge(depth: number): boolean {
    for (let i = depth; i > 0; i--) {
      if (this.path.positions[i - 1]! < this.#readParent(i).count) return false;
    }
    return true;
  }

  #isLeftEdge(depth: number): boolean {
    for (let i = 0; i < depth; i++) if (this.path.positions[i]! > 0) return false;
    return true;
  }

  /**
   * Makes the shortest key above entry `i` of the left node and not above entry `j` of the right
   * one. May write overflow pages: no buffer survives it.
   */
  makeSeparator(left: Node, i: number, right: Node, j: number, target: Entry): void {
    const a = this.#key;
    const aBytes = left.keyInto(i, a);
    const b = target.ownKey(this.limits.usableBytes + 1);
    const bBytes = right.keyInto(j, b);
    const common = commonBytes(a, aBytes, b, bBytes);
    if (common < bBytes && (common < aBytes || !left.isLongKey(i))) {
      target.setKey(b, common + 1);
      return;
    }
    const whole = this.wholeKey(right, j);
    const other = this.wholeKey(left, i);
    const bytes = commonBytes(other, other.length, whole, whole.length) + 1;
    this.setLongKey(target, whole, bytes);
  }

  /** Gives an entry a key of the caller's, the tail of a long one written to overflow. */
  setLongKey(target: Entry, key: Uint8Array, keyLength: number): void {
    const { limits } = this;
    const isLong = keyLength > limits.keyBytesMax;
    const keyBytes = isLong ? limits.longKeyBytes : keyLength;
    const own = target.ownKey(limits.usableBytes + 1);
    own.set(key.subarray(0, keyBytes));
    target.setKey(own, keyBytes);
    if (!isLong) return;
    const order = orderOf(key, keyLength);
    target.isLongKey = true;
    target.keyDescriptorBytes = this.#tree.overflow.write(
      key,
      keyBytes,
      keyLength - keyBytes,
      order,
      target.keyDescriptor,
    );
  }

  /** All bytes of a key, its tail in overflow included. */
  wholeKey(node: Node, i: number): Uint8Array {
    const bytes = node.keyBytesAt(i);
    if (!node.isLongKey(i)) {
      const key = new Uint8Array(bytes);
      node.keyInto(i, key);
      return key;
    }
    const descriptor = node.keyDescriptorAt(i);
    const tail = this.#tree.overflow.lengthOf(node.bytes, descriptor);
    const copy = node.bytes.slice(descriptor, descriptor + descriptorBytes(node.bytes, descriptor));
    const key = new Uint8Array(bytes + tail);
    node.keyInto(i, key);
    this.#tree.overflow.read(WRITER, node.page, copy, 0, 0, key, bytes, tail);
    return key;
  }
}

/** First four bytes of a key as a number, for the order of pages in the file. */
export function orderOf(key: Uint8Array, keyLength: number): number {
  let order = 0;
  for (let i = 0; i < 4; i++) order = (order << 8) | (i < keyLength ? key[i]! : 0);
  return order;
}
