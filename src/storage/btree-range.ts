/**
 * Removing many entries at once: a range of keys, or all.
 *
 * A range is removed in steps: look for its first entry and for the first one behind it; where
 * whole children of a node lie between the two ways down, free them with all below and take them
 * out of the node in one piece; else take the entries out of the leaf; then put the node right
 * as after a delete. Few steps a level are needed. Leaves that go as a whole are only counted,
 * unless they say that entries own overflow pages.
 */
import { Entry, NodeEditor } from './btree-edit.ts';
import { KIND_INNER, kindAt, LEVELS_MAX, type Node } from './btree-node.ts';
import type { Path } from './btree-path.ts';
import type { Tree } from './btree.ts';
import { NO_PAGE, WRITER, type PageId } from './pages.ts';

/** Removes the entries with `from` ≤ key < `to`, an end left out being open; answers how many. */
export function removeRange(
  tree: Tree,
  from: Uint8Array | undefined,
  to: Uint8Array | undefined,
): number {
  if (from !== undefined && to !== undefined && compareKeys(from, to) >= 0) return 0;
  return new RangeRemover(tree).remove(from, to);
}

/** Removes all entries; the root page stays. */
export function clearTree(tree: Tree): void {
  const remover = new RangeRemover(tree);
  const { pages } = tree;
  tree.noteRollback();
  const node = new NodeEditor(pages).at(pages.read(tree.root, WRITER));
  remover.freeContents(tree.root, checkRoot(node));
  const root = node.at(pages.edit(tree.root));
  root.begin(kindAt(0, false), 0, true, new Uint8Array(0), 0, NO_PAGE);
  root.finish();
  tree.writer.addCount(-tree.count(WRITER));
  pages.settle();
}

/** Gives all pages back, the root page too; the tree is then not to be used. */
export function dropTree(tree: Tree): void {
  clearTree(tree);
  tree.pages.free(tree.root);
}

class RangeRemover {
  readonly #tree: Tree;
  readonly #path: Path;
  readonly #end: Path;
  readonly #node: NodeEditor;
  readonly #entry = new Entry();

  constructor(tree: Tree) {
    this.#tree = tree;
    this.#path = tree.writer.path;
    this.#end = tree.newPath();
    this.#node = new NodeEditor(tree.pages);
  }

  remove(from: Uint8Array | undefined, to: Uint8Array | undefined): number {
    const path = this.#path;
    const end = this.#end;
    const { writer, pages } = this.#tree;
    let removed = 0;
    while (this.#goTo(path, from)) {
      const isBounded = to !== undefined && this.#goTo(end, to);
      if (isBounded && isSamePlace(path, end)) break;
      this.#tree.noteRollback();
      const step = this.#removeSome(isBounded);
      writer.addCount(-step);
      removed += step;
      pages.settle();
    }
    return removed;
  }

  /**
   * Frees everything that the entries of a node own, and all below it, but not its page; answers
   * the entries of the tree that were there.
   */
  freeContents(page: PageId, level: number): number {
    const { pages, structure, layout } = this.#tree;
    const node = new NodeEditor(pages).at(pages.read(page, WRITER));
    const { buffer } = node;
    const isBTree = layout.kind === 'b-tree';
    node.checkHeader(structure, kindAt(level, isBTree), level, page === this.#tree.root);
    let entries = node.kind === KIND_INNER ? 0 : node.count;
    pages.pin(buffer);
    try {
      if (node.mayOverflow) this.#freeOverflow(node, 0, node.count);
      for (let i = 0; level > 0 && i <= node.count; i++) {
        entries += this.#freeSubtree(node.childAt(i), level - 1);
      }
    } finally {
      pages.unpin(buffer);
    }
    return entries;
  }

  #freeSubtree(page: PageId, level: number): number {
    const entries = this.freeContents(page, level);
    this.#tree.pages.free(page);
    // Clusters given back make private pages; whoever holds a buffer above has pinned it.
    if (level === 0) this.#tree.pages.settle();
    return entries;
  }

  /** Goes to the first entry that is not below the key; false if there is none. */
  #goTo(path: Path, key: Uint8Array | undefined): boolean {
    if (key === undefined) return path.first(WRITER);
    if (path.seek(WRITER, key, key.length)) return true;
    const { count } = this.#node.at(path.buffer);
    return path.positions[path.depth]! < count || path.forward(WRITER);
  }

  /** Removes a first piece of what lies between the two paths; answers the entries. */
  #removeSome(isBounded: boolean): number {
    const path = this.#path;
    const { depth } = path;
    for (let d = 0; d <= depth; d++) {
      const node = this.#node.at(this.#tree.pages.read(path.nodes[d]! as PageId, WRITER));
      if (node.level === 0) return this.#removeFromLeaf(d, isBounded);
      const last = this.#lastChildInside(d, node, isBounded);
      const first = path.positions[d]! + 1;
      if (first <= last) return this.#removeChildren(d, first, last);
    }
    const i = path.positions[depth]!;
    const { writer } = this.#tree;
    const key = writer.restructurer.wholeKey(this.#node, i);
    path.seek(WRITER, key, key.length);
    writer.removeAt(key, key.length);
    return 1;
  }

  /** Last child of the node at depth `d` of the path that lies wholly before the end. */
  #lastChildInside(d: number, node: Node, isBounded: boolean): number {
    const end = this.#end;
    if (!isBounded || d > end.depth || end.nodes[d] !== this.#path.nodes[d]) return node.count;
    return d === end.depth ? end.positions[d]! : end.positions[d]! - 1;
  }

  /** Frees children `first` ≤ i ≤ `last` of a node with the entries before them. */
  #removeChildren(d: number, first: number, last: number): number {
    const { pages, writer } = this.#tree;
    const page = this.#path.nodes[d]! as PageId;
    const node = this.#node.at(pages.edit(page));
    const level = node.level - 1;
    let entries = node.kind === KIND_INNER ? 0 : last - first + 1;
    const { buffer } = node;
    pages.pin(buffer);
    try {
      if (node.mayOverflow) this.#freeOverflow(node, first - 1, last);
      for (let i = first; i <= last; i++) entries += this.#freeSubtree(node.childAt(i), level);
      node.removeEntries(first - 1, last);
    } finally {
      pages.unpin(buffer);
    }
    writer.restructurer.rebalance(d);
    return entries;
  }

  #removeFromLeaf(d: number, isBounded: boolean): number {
    const { pages, writer } = this.#tree;
    const page = this.#path.nodes[d]! as PageId;
    const node = this.#node.at(pages.edit(page));
    const from = this.#path.positions[d]!;
    const end = this.#end;
    const isLast = isBounded && d === end.depth && end.nodes[d] === page;
    const to = isLast ? end.positions[d]! : node.count;
    if (node.mayOverflow) this.#freeOverflow(node, from, to);
    node.removeEntries(from, to);
    writer.restructurer.rebalance(d);
    return to - from;
  }

  /** Frees what entries `from` ≤ i < `to` of a node own in overflow; callers pin what they hold. */
  #freeOverflow(node: NodeEditor, from: number, to: number): void {
    const { pages, writer } = this.#tree;
    const { buffer } = node;
    pages.pin(buffer);
    try {
      for (let i = from; i < to; i++) {
        if (!node.isLongKey(i) && !node.isLongValue(i)) continue;
        writer.restructurer.freeOverflow(node.stage(i, this.#entry));
        pages.settle(); // the clusters of each lie in pages of their own
      }
    } finally {
      pages.unpin(buffer);
    }
  }
}

/** Level of a root, checked. */
function checkRoot(node: Node): number {
  const { level } = node;
  if (level >= LEVELS_MAX) throw node.corrupt('level', level, '0..63');
  return level;
}

function isSamePlace(a: Path, b: Path): boolean {
  const { depth } = a;
  if (depth !== b.depth || a.nodes[depth] !== b.nodes[depth]) return false;
  return a.positions[depth] === b.positions[depth];
}

/** Order of two keys: unsigned bytes, a beginning before the whole. */
export function compareKeys(a: Uint8Array, b: Uint8Array): number {
  const most = Math.min(a.length, b.length);
  for (let i = 0; i < most; i++) {
    const difference = a[i]! - b[i]!;
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}
