/**
 * Checks of a whole tree, and what statistics ask of it.
 *
 * `checkTree` reads every page of the tree and reports each once, so that a whole-file check can
 * prove that every page is owned once (law S4). It verifies the order of all keys within the
 * bounds that separators set, levels, prefixes, heads, the places of cells, caps on entries, the
 * count, overflow pages and lists, and that cluster pages are used as descriptors say and hang in
 * the right bins. Whatever the bytes: it ends, and finds
 * `corrupt.page`.
 */
import { DatabaseError } from '../errors.ts';
import {
  corruptPage,
  DESCRIPTOR_BYTES_MAX,
  descriptorBytes,
  headOf,
  KEY_BYTES_MAX,
  KIND_INNER,
  kindAt,
  LEVELS_MAX,
  LONG_KEY,
  Node,
  ROOT_BINS,
  ROOT_BINS_OFFSET,
  ROOT_CLUSTER_BYTES_OFFSET,
  ROOT_COUNT_OFFSET,
  ROOT_ORDER_OFFSET,
} from './btree-node.ts';
import { compareKeys } from './btree-range.ts';
import { CLUSTER_BYTES_DEFAULT, type Tree } from './btree.ts';
import { BITMAP_OFFSET, CLUSTERS_OFFSET } from './overflow-clusters.ts';
import type { OverflowVisitor } from './overflow.ts';
import { PAGE_ORDER_OFFSET, type PageId, type View } from './pages.ts';

/** Called with each page of a tree once. */
export type PageVisitor = (page: PageId) => void;
/** Called with each fault that a check finds; it may throw to end the check. */
export type FaultVisitor = (fault: DatabaseError) => void;

/** Checks a tree; the first fault is thrown, or each is given to `report`. */
export function checkTree(
  tree: Tree,
  view: View,
  visit: PageVisitor = () => {},
  report: FaultVisitor = (fault) => {
    throw fault;
  },
): void {
  new TreeCheck(tree, view, visit, report).run();
}

class TreeCheck implements OverflowVisitor {
  readonly #tree: Tree;
  readonly #view: View;
  readonly #visit: PageVisitor;
  readonly #report: FaultVisitor;
  readonly #isBTree: boolean;
  readonly #entriesMax: number;
  readonly #seen = new Set<PageId>();
  /** Bitmaps of cluster pages as descriptors use them. */
  readonly #clusters = new Map<PageId, Uint8Array>();
  #entries = 0;
  /** The key met last, and whether the next must be above it (or only not below). */
  #last: Uint8Array | undefined;
  #isStrict = true;

  constructor(tree: Tree, view: View, visit: PageVisitor, report: FaultVisitor) {
    this.#tree = tree;
    this.#view = view;
    this.#visit = visit;
    this.#report = report;
    this.#isBTree = tree.layout.kind === 'b-tree';
    this.#entriesMax = (tree.layout.order ?? 0x1_0001) - 1;
  }

  run(): void {
    const { pages, root } = this.#tree;
    this.#guard(() => {
      const node = new Node(pages).at(pages.read(root, this.#view));
      const { level } = node;
      if (level >= LEVELS_MAX) throw node.corrupt('level', level, '0..63');
      this.#checkRootHeader(node);
      this.#checkNode(root, level, true, undefined);
      const count = this.#tree.count(this.#view);
      if (count !== this.#entries) throw corruptPage(root, 'entries', this.#entries, count);
    });
    for (const page of this.#clusters.keys()) this.#guard(() => this.#checkClusterPage(page));
    for (let bin = 0; bin < ROOT_BINS; bin++) this.#guard(() => this.#checkBin(bin));
  }

  page(page: PageId): void {
    if (this.#seen.has(page)) throw corruptPage(page, 'owners of the page', 1, 2);
    this.#seen.add(page);
    this.#visit(page);
  }

  clusters(page: PageId, first: number, count: number): void {
    let bitmap = this.#clusters.get(page);
    if (bitmap === undefined) {
      this.page(page);
      bitmap = new Uint8Array(CLUSTERS_OFFSET - BITMAP_OFFSET);
      this.#clusters.set(page, bitmap);
    }
    for (let i = first; i < first + count; i++) {
      const bit = 1 << (i & 7);
      if ((bitmap[i >> 3]! & bit) !== 0) throw corruptPage(page, `users of cluster ${i}`, 1, 2);
      bitmap[i >> 3]! |= bit;
    }
  }

  /** Runs a part of the check; a fault that it throws is reported, and the rest goes on. */
  #guard(part: () => void): void {
    try {
      part();
    } catch (error) {
      if (!(error instanceof DatabaseError) || !error.code.startsWith('corrupt.')) throw error;
      this.#report(error);
    }
  }

  /** Checks a node and all below it; its keys end below `bound`. */
  #checkNode(page: PageId, level: number, isRoot: boolean, bound: Uint8Array | undefined): void {
    const { pages, structure } = this.#tree;
    this.page(page);
    const buffer = pages.read(page, this.#view);
    const node = new Node(pages).at(buffer);
    node.checkHeader(structure, kindAt(level, this.#isBTree), level, isRoot);
    node.checkCells();
    pages.pin(buffer);
    try {
      this.#checkShape(node, isRoot);
      const { count } = node;
      for (let i = 0; i <= count; i++) {
        const key = i < count ? this.#keyOf(node, i) : undefined;
        if (level > 0) {
          const child = node.childAt(i);
          this.#guard(() => this.#checkNode(child, level - 1, false, key ?? bound));
        }
        if (key !== undefined) this.#checkEntry(node, i, key, bound);
      }
    } finally {
      pages.unpin(buffer);
    }
  }

  /** Entries between the key met last and the bound, heads, descriptors. */
  #checkEntry(node: Node, i: number, key: Uint8Array, bound: Uint8Array | undefined): void {
    const order = this.#last === undefined ? 1 : compareKeys(key, this.#last);
    const isSeparator = node.kind === KIND_INNER;
    if (order < 0 || (order === 0 && (this.#isStrict || isSeparator))) {
      throw node.corrupt(`order of entry ${i}`, 'not above the key before', 'ascending keys');
    }
    if (bound !== undefined && compareKeys(key, bound) >= 0) {
      throw node.corrupt(`order of entry ${i}`, 'not below its bound', 'a key below the separator');
    }
    this.#last = key;
    this.#isStrict = !isSeparator;
    if (!isSeparator) this.#entries++;
    if (node.isLongValue(i)) {
      const at = node.valueAt(i);
      const bytes = node.valueBytesAt(i);
      if (bytes !== descriptorBytes(node.bytes, at)) throw node.corrupt('descriptor', bytes);
      this.#walk(node, at);
    }
  }

  #keyOf(node: Node, i: number): Uint8Array {
    const { limits, overflow } = this.#tree;
    const prefix = node.prefixLength;
    const inPage = node.keyBytesAt(i);
    const key = new Uint8Array(inPage);
    node.keyInto(i, key);
    if (headOf(key, prefix, inPage) !== node.headAt(i)) {
      throw node.corrupt(`head of entry ${i}`, node.headAt(i), headOf(key, prefix, inPage));
    }
    if ((node.slotAt(i) & LONG_KEY) === 0) {
      if (inPage > limits.keyBytesMax) throw node.corrupt('key bytes', inPage, limits.keyBytesMax);
      return key;
    }
    if (inPage !== limits.longKeyBytes) {
      throw node.corrupt('bytes of a long key', inPage, limits.longKeyBytes);
    }
    const at = node.keyDescriptorAt(i);
    const tail = overflow.lengthOf(node.bytes, at);
    if (inPage + tail > KEY_BYTES_MAX || inPage + tail <= limits.keyBytesMax) {
      throw node.corrupt('length of a long key', inPage + tail, '<= 1 MiB');
    }
    this.#walk(node, at);
    const whole = new Uint8Array(inPage + tail);
    whole.set(key);
    overflow.read(this.#view, node.page, node.bytes, at, 0, whole, inPage, tail);
    return whole;
  }

  /** Checks what a descriptor in a pinned node names. */
  #walk(node: Node, at: number): void {
    if (!node.mayOverflow) throw node.corrupt('overflow flag', 0, 1);
    const descriptor = node.bytes.slice(at, at + DESCRIPTOR_BYTES_MAX);
    this.#tree.overflow.walk(this.#view, node.page, descriptor, 0, this);
  }

  /** Number of entries, prefix, order key. */
  #checkShape(node: Node, isRoot: boolean): void {
    const { count } = node;
    if (count > this.#entriesMax) throw node.corrupt('entries', count, this.#entriesMax);
    if (count === 0) {
      if (!isRoot) throw node.corrupt('entries', 0, 'one or more');
      return;
    }
    const { prefixBytesMax } = this.#tree.limits;
    if (node.prefixLength > prefixBytesMax) {
      throw node.corrupt('prefix length', node.prefixLength, prefixBytesMax);
    }
    const first = new Uint8Array(node.keyBytesAt(0));
    node.keyInto(0, first);
    const order = (headOf(first, 0, first.length) ^ 0x8000_0000) >>> 0;
    const found = node.words[node.word + (PAGE_ORDER_OFFSET >> 2)]! >>> 0;
    if (found !== order) throw node.corrupt('order key', found, order);
  }

  #checkRootHeader(node: Node): void {
    const { layout } = this.#tree;
    const words = node.words;
    const order = (layout.order ?? 0) | ((layout.kind === 'b-tree' ? 2 : 1) << 16);
    const found = words[node.word + (ROOT_ORDER_OFFSET >> 2)]!;
    if (found !== order) throw node.corrupt('order and kind', found, order);
    const clusterBytes = words[node.word + (ROOT_CLUSTER_BYTES_OFFSET >> 2)]!;
    const expected = layout.clusterBytes ?? CLUSTER_BYTES_DEFAULT;
    if (clusterBytes !== expected) throw node.corrupt('cluster bytes', clusterBytes, expected);
    const count = node.floats[(node.base + ROOT_COUNT_OFFSET) >> 3]!;
    if (!Number.isSafeInteger(count) || count < 0) throw node.corrupt('entries', count, 'a count');
  }

  /** Compares the bitmap of a cluster page with the clusters that descriptors use. */
  #checkClusterPage(page: PageId): void {
    const { pages } = this.#tree;
    const { clusters } = this.#tree.overflow;
    const node = new Node(pages).at(clusters.read(page, this.#view));
    const used = this.#clusters.get(page)!;
    let count = 0;
    for (let i = 0; i < used.length; i++) {
      const found = node.bytes[node.base + BITMAP_OFFSET + i]!;
      if (found !== used[i]) throw node.corrupt(`byte ${i} of the bitmap`, found, used[i]);
      for (let bits = found; bits !== 0; bits &= bits - 1) count++;
    }
    if (node.count !== count) throw node.corrupt('used clusters', node.count, count);
    const bin = clusters.classOf(clusters.longestRun(node.buffer));
    const found = node.level - 1;
    if (found !== bin) throw node.corrupt('bin', found, bin);
    if (bin < 0) this.#clusters.delete(page);
  }

  /** Walks the pages of a bin: each must be one that descriptors use, linked both ways. */
  #checkBin(bin: number): void {
    const { overflow, pages, root } = this.#tree;
    const node = new Node(pages).at(pages.read(root, this.#view));
    let page = node.words[(node.base + ROOT_BINS_OFFSET + 4 * bin) >> 2]! >>> 0;
    let previous = 0;
    while (page !== 0) {
      if (!this.#clusters.delete(page as PageId)) {
        throw corruptPage(page, 'place in the bins', 'once, and a cluster used', bin);
      }
      node.at(overflow.clusters.read(page as PageId, this.#view));
      if (node.level - 1 !== bin) throw node.corrupt('bin', node.level - 1, bin);
      const before = node.words[node.word + 6]! >>> 0;
      if (before !== previous) throw node.corrupt('previous page of a bin', before, previous);
      previous = page;
      page = node.words[node.word + 7]! >>> 0;
    }
    if (bin === ROOT_BINS - 1 && this.#clusters.size > 0) {
      const [lost] = this.#clusters.keys();
      throw corruptPage(lost!, 'place in the bins', 'in its bin', 'in none');
    }
  }
}

/** What a tree takes, by reading all its nodes (not its overflow pages). */
export interface TreeStats {
  readonly entries: number;
  /** Levels, 1 for a root that is a leaf. */
  readonly height: number;
  /** Nodes by level, leaves first. */
  readonly nodesByLevel: readonly number[];
  /** Bytes of nodes in use, of all their bytes: `usedBytes / nodeBytes` is the fill. */
  readonly usedBytes: number;
  readonly nodeBytes: number;
}

export function statsOf(tree: Tree, view: View): TreeStats {
  const { pages, root } = tree;
  const top = new Node(pages).at(pages.read(root, view)).level;
  if (top >= LEVELS_MAX) throw corruptPage(root, 'level', '0..63', top);
  const nodesByLevel = new Array<number>(top + 1).fill(0);
  let usedBytes = 0;
  const walk = (page: PageId, level: number): void => {
    const buffer = pages.read(page, view);
    const node = new Node(pages).at(buffer);
    const kind = kindAt(level, tree.layout.kind === 'b-tree');
    node.checkHeader(tree.structure, kind, level, page === root);
    nodesByLevel[level]!++;
    usedBytes += node.usedBytes + node.prefixOffset;
    if (level === 0) return;
    pages.pin(buffer);
    try {
      for (let i = 0; i <= node.count; i++) walk(node.childAt(i), level - 1);
    } finally {
      pages.unpin(buffer);
    }
  };
  walk(root, top);
  const nodes = nodesByLevel.reduce((sum, count) => sum + count, 0);
  return {
    entries: tree.count(view),
    height: top + 1,
    nodesByLevel,
    usedBytes,
    nodeBytes: nodes * tree.limits.usableBytes,
  };
}

/**
 * Share of the entries that lie below a key, 0 ≤ x ≤ 1, as if all children of a node held the
 * same; exact inside a leaf. One page read a level.
 */
export function shareBelow(tree: Tree, view: View, key: Uint8Array): number {
  const { pages } = tree;
  const path = tree.newPath();
  path.seek(view, key, key.length);
  const node = new Node(pages);
  let share = 0;
  for (let d = path.depth; d >= 0; d--) {
    node.at(pages.read(path.nodes[d]! as PageId, view));
    const position = path.positions[d]!;
    // At an inner entry of a b-tree, everything in the child before it is below the key.
    const inside = d === path.depth && node.level > 0 ? 1 : share;
    const parts = node.level === 0 ? node.count : node.count + 1;
    share = parts === 0 ? 0 : (position + (node.level === 0 ? 0 : inside)) / parts;
  }
  return share;
}
