/**
 * A radix tree of the data file, shadowed: the page map and the bitmap of slots are two of them
 * (STORAGE rules 2 and 3). Its nodes have no PageId; they are cached in buffers like pages.
 *
 *   leaf     the owner's: 8-byte entries (map) or bits (bitmap); covers `leafFan` ids
 *   inner    entries of 16 bytes: slot u32, checksum u32, ids in use beneath u32, 0 u32
 *
 * A node is named by (level, index); level 0 are the leaves, the root is (depth − 1, 0). A changed
 * node (`NODE_NEW`) stays in its buffer until the checkpoint saves it to a new slot, children
 * before parents, the root last.
 */
import { assert } from '../base/assert.ts';
import { type Ledger } from '../base/ledger.ts';
import { failure } from '../errors.ts';
import { EMPTY_ROOT, type Root } from './header.ts';
import { type PageFile } from './page-file.ts';
import { type BufferId } from './pages.ts';
import { NODE, NODE_NEW, type Slab } from './slab.ts';

const INNER_ENTRY_BYTES = 16;
const LEVEL_SHIFT = 26;
const TREE_SHIFT = 30;
const INDEX_MASK = (1 << LEVEL_SHIFT) - 1;

/** Gives buffers, evicting what it must, and is told of failures. */
export interface BufferHost {
  obtain(): BufferId;
  /** Notes a failure that makes the state unknown; answers the error to throw. */
  latch(cause: unknown): unknown;
}

export class Radix {
  readonly leafFan: number;
  readonly innerFan: number;
  #root: Root = EMPTY_ROOT;
  /** Changed nodes by level. */
  readonly #changed: Set<number>[] = [];
  /** Buffers of nodes by level and index. */
  readonly #nodes: Int32Array[] = [];
  readonly #tree: number;
  readonly name: string;
  readonly #slab: Slab;
  readonly #file: PageFile;
  readonly #host: BufferHost;
  readonly #ledger: Ledger;

  constructor(
    tree: 0 | 1,
    leafFan: number,
    parts: { slab: Slab; file: PageFile; host: BufferHost; ledger: Ledger },
  ) {
    this.#tree = tree;
    this.name = tree === 0 ? 'page map' : 'slot bitmap';
    this.leafFan = leafFan;
    this.innerFan = parts.slab.pageBytes / INNER_ENTRY_BYTES;
    this.#slab = parts.slab;
    this.#file = parts.file;
    this.#host = parts.host;
    this.#ledger = parts.ledger;
  }

  get root(): Root {
    return this.#root;
  }

  get depth(): number {
    return this.#root.depth;
  }

  /** Takes the root of a header and forgets every node. */
  reset(root: Root): void {
    this.forgetAll();
    this.#root = root;
  }

  /** Gives back the buffers of all nodes. */
  forgetAll(): void {
    for (const nodes of this.#nodes) {
      for (let i = 0; i < nodes.length; i++) {
        if (nodes[i] !== 0) this.#slab.give(nodes[i]!);
      }
      this.#ledger.release('tables', nodes.byteLength);
    }
    this.#nodes.length = 0;
    this.#changed.length = 0;
  }

  /** Forgets an unchanged node whose buffer is taken by the clock. */
  forget(key: number): void {
    this.#nodes[(key >> LEVEL_SHIFT) & 15]![key & INDEX_MASK] = 0;
  }

  /** A node's buffer moved. */
  moved(key: number, to: BufferId): void {
    this.#nodes[(key >> LEVEL_SHIFT) & 15]![key & INDEX_MASK] = to;
  }

  #slotFor(level: number, index: number): Int32Array {
    while (this.#nodes.length <= level) this.#nodes.push(new Int32Array(0));
    const nodes = this.#nodes[level]!;
    if (index < nodes.length) return nodes;
    const length = Math.max(index + 1, nodes.length * 2, 8);
    this.#ledger.charge('tables', length * 4);
    const larger = new Int32Array(length);
    larger.set(nodes);
    this.#ledger.release('tables', nodes.byteLength);
    this.#nodes[level] = larger;
    return larger;
  }

  /** Buffer of a node, 0 where the tree has none (everything beneath is zero). */
  node(level: number, index: number): BufferId {
    if (level >= this.#root.depth) return 0;
    const cached = this.#nodes[level]?.[index] ?? 0;
    if (cached !== 0) {
      this.#slab.used[cached] = 1;
      return cached;
    }
    if (level === this.#root.depth - 1) {
      return index === 0 ? this.#load(level, index, this.#root.slot, this.#root.checksum) : 0;
    }
    const parent = this.node(level + 1, Math.floor(index / this.innerFan));
    if (parent === 0) return 0;
    const words = this.#slab.wordsOf(parent);
    const w = (this.#slab.offset(parent) >> 2) + (index % this.innerFan) * 4;
    return this.#load(level, index, words[w]!, words[w + 1]!);
  }

  #load(level: number, index: number, slot: number, checksum: number): BufferId {
    if (slot === 0) return 0;
    const buffer = this.#host.obtain();
    try {
      const nodes = this.#slotFor(level, index);
      if (nodes[index] !== 0) {
        this.#slab.give(buffer); // making room loaded it meanwhile
        return nodes[index]!;
      }
      this.#read(level, index, slot, checksum, buffer);
      this.#enter(nodes, level, index, buffer, NODE);
      return buffer;
    } catch (cause) {
      this.#slab.give(buffer);
      throw this.#host.latch(cause);
    }
  }

  #read(level: number, index: number, slot: number, checksum: number, buffer: BufferId): void {
    const whole = this.#file.read(slot, buffer);
    const found = whole ? this.#file.checksum(buffer) : 0;
    if (whole && found === checksum) return;
    const what = `${this.name} node ${index} of level ${level} in slot ${slot}`;
    throw failure('corrupt.page', `${what} does not hold its checksum`, {
      detail: { node: index, level, slot, expected: checksum, found },
    });
  }

  #enter(nodes: Int32Array, level: number, index: number, buffer: BufferId, kind: number): void {
    assert(index <= INDEX_MASK, 'radix node index fits its key');
    nodes[index] = buffer;
    this.#slab.kind[buffer] = kind;
    this.#slab.used[buffer] = 1;
    this.#slab.page[buffer] = (this.#tree << TREE_SHIFT) | (level << LEVEL_SHIFT) | index;
    if (kind === NODE_NEW) this.#changedAt(level).add(index);
  }

  #changedAt(level: number): Set<number> {
    while (this.#changed.length <= level) this.#changed.push(new Set());
    return this.#changed[level]!;
  }

  /** Buffer of a node that is about to be changed; made of zeroes where there is none. */
  change(level: number, index: number): BufferId {
    const buffer = this.node(level, index);
    if (buffer === 0) return this.#make(level, index);
    this.#slab.kind[buffer] = NODE_NEW;
    this.#changedAt(level).add(index);
    return buffer;
  }

  #make(level: number, index: number): BufferId {
    const buffer = this.#host.obtain();
    const nodes = this.#slotFor(level, index);
    this.#slab.zero(buffer);
    this.#enter(nodes, level, index, buffer, NODE_NEW);
    return buffer;
  }

  /** Adds levels until the tree covers an id. */
  cover(id: number): void {
    while (this.#root.depth === 0 || id >= this.leafFan * this.innerFan ** (this.depth - 1)) {
      const before = this.#root;
      this.#root = { depth: before.depth + 1, slot: 0, checksum: 0, usedCount: before.usedCount };
      if (before.depth === 0) continue;
      const buffer = this.#make(before.depth, 0);
      this.#putEntry(buffer, 0, before.slot, before.checksum, before.usedCount);
    }
  }

  #putEntry(parent: BufferId, place: number, slot: number, checksum: number, used: number): void {
    const words = this.#slab.wordsOf(parent);
    const w = (this.#slab.offset(parent) >> 2) + place * 4;
    words[w] = slot;
    words[w + 1] = checksum;
    words[w + 2] = used;
  }

  /** Ids in use beneath a leaf, as its parent counts them; −1 if the leaf is not saved yet. */
  usedUnder(leaf: number): number {
    if (this.depth === 0) return 0;
    if (this.depth === 1) return this.#root.usedCount;
    const parent = this.node(1, Math.floor(leaf / this.innerFan));
    if (parent === 0) return 0;
    const w = (this.#slab.offset(parent) >> 2) + (leaf % this.innerFan) * 4;
    return this.#slab.wordsOf(parent)[w + 2]!;
  }

  /** Slot that a node has in the file, 0 if it has none yet; its checksum is in `foundChecksum`. */
  slotOf(level: number, index: number): number {
    if (level >= this.depth) return 0;
    if (level === this.depth - 1) {
      this.foundChecksum = this.#root.checksum;
      return this.#root.slot;
    }
    const parent = this.node(level + 1, Math.floor(index / this.innerFan));
    if (parent === 0) return 0;
    const w = (this.#slab.offset(parent) >> 2) + (index % this.innerFan) * 4;
    this.foundChecksum = this.#slab.wordsOf(parent)[w + 1]!;
    return this.#slab.wordsOf(parent)[w]!;
  }

  foundChecksum = 0;

  /** Changed nodes of a level, ascending. */
  changedOf(level: number): number[] {
    return [...(this.#changed[level] ?? [])].sort((a, b) => a - b);
  }

  isChanged(level: number, index: number): boolean {
    return this.#changed[level]?.has(index) ?? false;
  }

  /**
   * Writes a changed node to a new slot and notes it in its parent, which is changed by that.
   * `used` counts the ids in use of a leaf; an inner node sums its entries.
   */
  save(level: number, index: number, slot: number, used: number): void {
    const buffer = this.#nodes[level]![index]!;
    assert(this.#slab.kind[buffer] === NODE_NEW, 'a saved node was changed');
    const count = level === 0 ? used : this.#sumUsed(buffer);
    const checksum = this.#file.checksum(buffer);
    this.#file.stage(slot, buffer);
    this.#file.finish();
    if (level === this.depth - 1) {
      this.#root = { depth: this.depth, slot, checksum, usedCount: count };
    } else {
      const parent = this.change(level + 1, Math.floor(index / this.innerFan));
      this.#putEntry(parent, index % this.innerFan, slot, checksum, count);
    }
    this.#slab.kind[buffer] = NODE;
    this.#changed[level]!.delete(index);
  }

  #sumUsed(buffer: BufferId): number {
    const words = this.#slab.wordsOf(buffer);
    const from = this.#slab.offset(buffer) >> 2;
    let sum = 0;
    for (let w = from + 2; w < from + (this.#slab.pageBytes >> 2); w += 4) sum += words[w]!;
    return sum;
  }

  /** Calls `visit` for the slot of every node that the file has, parents first. */
  visitSlots(
    visit: (slot: number, checksum: number, level: number, index: number) => void,
    level = this.depth - 1,
    index = 0,
  ): void {
    const slot = level < 0 ? 0 : this.slotOf(level, index);
    if (slot === 0) return;
    visit(slot, this.foundChecksum, level, index);
    if (level === 0) return;
    for (let i = 0; i < this.innerFan; i++) {
      this.visitSlots(visit, level - 1, index * this.innerFan + i);
    }
  }
}

/** Which tree a node key belongs to: 0 the map, 1 the bitmap. */
export function treeOfNodeKey(key: number): number {
  return key >> TREE_SHIFT;
}
