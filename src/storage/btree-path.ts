/**
 * The way from the root of a tree to an entry or to the place where it would stand.
 *
 * `#search` is what every get, write and cursor begins with, and the hottest code of the
 * database: it is one long function on purpose, binary search over the heads of each node, with
 * key bytes compared only where heads are equal (FEASIBILITY 1.2). It checks of each node what
 * keeps it inside the page and the descent finite: structure, kind, level, directory, cell area.
 */
import { comparePieces } from '../base/bytes.ts';
import {
  cellHeadBytes,
  CELLS_WORD,
  corruptPage,
  FLAG_OVERFLOW,
  HEAD_BYTES,
  headOf,
  KIND_INNER,
  KIND_LEAF,
  KIND_WORD,
  kindAt,
  LENGTH_MASK,
  LEVELS_MAX,
  LONG_KEY,
  Node,
  PREFIX_WORD,
  ROOT_HEADER_END,
} from './btree-node.ts';
import type { Overflow } from './overflow.ts';
import {
  PAGE_HEADER_BYTES,
  type BufferId,
  type PageId,
  type Pages,
  type StructureId,
  type View,
} from './pages.ts';

/** After so many keys in a row that were not near, some are not tried. */
const MISSES_MAX = 4;

/** Kind, root flag and level: what a node must have, given where it is met. */
const SHAPE_MASK = 0xffff & ~FLAG_OVERFLOW;

export class Path {
  /** Ordinal of the node that holds the position, from the root (0) on. */
  depth = 0;
  /** PageIds from the root on. */
  readonly nodes = new Uint32Array(LEVELS_MAX);
  /** Child taken in the nodes above `depth`; position of the entry in the node at `depth`. */
  readonly positions = new Int32Array(LEVELS_MAX);
  /** Buffer of the node at `depth`, valid until the next read unless pinned. */
  buffer: BufferId = -1;
  /** Whether the last search came to a leaf, and its way is still the way there. */
  isAtLeaf = false;
  readonly isBTree: boolean;
  readonly #pages: Pages;
  readonly #tree: { readonly overflow: Overflow };
  readonly #root: PageId;
  readonly #structure: number;
  readonly #node: Node;
  /** Kind, root flag and level of the root when it was last seen. */
  #rootShape = -1;
  /** Keys in a row that were not in the leaf before them. */
  #misses = 0;

  constructor(
    pages: Pages,
    tree: { readonly overflow: Overflow },
    root: PageId,
    structure: StructureId,
    isBTree: boolean,
  ) {
    this.#pages = pages;
    this.#tree = tree;
    this.#root = root;
    this.#structure = structure | 0;
    this.isBTree = isBTree;
    this.#node = new Node(pages);
  }

  /**
   * Goes to the first entry that is not below the key, in the leaf (or, in a b-tree, the node)
   * where the key is or would be. Answers whether that entry has the key.
   */
  seek(view: View, key: Uint8Array, keyLength: number): boolean {
    return this.#search(view, key, keyLength, 0);
  }

  /**
   * The same for a key that is likely to lie in the leaf that the path came to last, as the next
   * of sorted keys does. After the last search entries may have been put, but not removed; who
   * splits nodes calls `leave`.
   */
  seekNear(view: View, key: Uint8Array, keyLength: number): boolean {
    const { depth } = this;
    if (depth > 0 && this.isAtLeaf && this.#misses < MISSES_MAX) {
      const found = this.#search(view, key, keyLength, depth);
      const position = this.positions[depth]!;
      // Between two entries of a leaf is no other place where the key could be.
      if (found || (position > 0 && position < this.#node.at(this.buffer).count)) {
        this.#misses = 0;
        return found;
      }
      this.#misses++;
    } else this.#misses = (this.#misses + 1) % (4 * MISSES_MAX);
    return this.#search(view, key, keyLength, 0);
  }

  /** Says that the nodes of the path are not what they were. */
  leave(): void {
    this.isAtLeaf = false;
  }

  /** Searches from the node at a depth down: the root, or the leaf where the path stands. */
  #search(view: View, key: Uint8Array, keyLength: number, from: number): boolean {
    const pages = this.#pages;
    const usable = pages.usableBytes;
    let page = from === 0 ? (this.#root as number) : this.nodes[from]!;
    let shape = from === 0 ? this.#rootShape : kindAt(0, this.isBTree);
    let depth = from;
    for (;;) {
      const buffer = pages.read(page as PageId, view);
      const chunk = buffer >> pages.chunkShift;
      const words = pages.words[chunk]!;
      const bytes = pages.bytes[chunk]!;
      const base = (buffer & pages.chunkMask) << pages.pageShift;
      const word = base >> 2;
      const kindWord = words[word + KIND_WORD]!;
      const count = kindWord >>> 16;
      const prefix = words[word + PREFIX_WORD]! & 0xffff;
      const directory = words[word + PREFIX_WORD]! >>> 16;
      const start = depth === 0 ? ROOT_HEADER_END : PAGE_HEADER_BYTES;
      if (
        (kindWord & SHAPE_MASK) !== shape ||
        words[word + 1] !== this.#structure ||
        directory + (count << 3) > usable - (words[word + CELLS_WORD]! & 0xffff) ||
        start + prefix > directory ||
        (directory & 3) !== 0
      ) {
        shape = this.#checkShape(buffer, depth, shape);
      }
      const kind = kindWord & 0x3f;
      let low = 0;
      let high = count - 1;
      let found = false;
      if (prefix !== 0) {
        const most = prefix < keyLength ? prefix : keyLength;
        const at = base + start;
        let i = 0;
        while (i < most && bytes[at + i] === key[i]) i++;
        if (i === most) {
          if (keyLength < prefix) high = -1;
        } else if (key[i]! < bytes[at + i]!) high = -1;
        else low = count;
      }
      const entries = word + (directory >> 2);
      const head = headOf(key, prefix, keyLength);
      while (low <= high) {
        const middle = (low + high) >>> 1;
        const other = words[entries + 2 * middle]!;
        if (other < head) low = middle + 1;
        else if (other > head) high = middle - 1;
        else {
          const slot = words[entries + 2 * middle + 1]!;
          const suffix = (slot >>> 16) & LENGTH_MASK;
          const rest = keyLength - prefix;
          const sign =
            (slot & LONG_KEY) === 0 && (suffix <= HEAD_BYTES || rest <= HEAD_BYTES)
              ? suffix - rest
              : this.compareTail(buffer, view, middle, key, keyLength);
          if (sign < 0) low = middle + 1;
          else if (sign > 0) high = middle - 1;
          else {
            low = middle;
            found = true;
            break;
          }
        }
      }
      this.nodes[depth] = page;
      if (kind === KIND_LEAF || (found && kind !== KIND_INNER)) {
        this.positions[depth] = low;
        this.depth = depth;
        this.buffer = buffer;
        this.isAtLeaf = kind === KIND_LEAF;
        return found;
      }
      if (found) low++;
      this.positions[depth] = low;
      if (low === 0) page = words[entries - 1]! >>> 0;
      else {
        const cell = words[entries + 2 * low - 1]! & 0xffff;
        if (cell > usable - 4 || (cell & 3) !== 0) throw corruptPage(page, 'cell offset', '', cell);
        page = words[(base + cell) >> 2]! >>> 0;
      }
      depth++;
      shape = ((shape & 0xff00) - 0x100) | kindAt((shape >>> 8) - 1, this.isBTree);
    }
  }

  /**
   * Goes one entry on within the leaf where `seek` or `step` found one, if that entry has the key;
   * otherwise answers false, and the position is not to be used. The tree must not have changed.
   */
  step(view: View, key: Uint8Array, keyLength: number): boolean {
    const pages = this.#pages;
    const { depth } = this;
    const buffer = pages.read(this.nodes[depth]! as PageId, view);
    const words = pages.words[buffer >> pages.chunkShift]!;
    const base = (buffer & pages.chunkMask) << pages.pageShift;
    const word = base >> 2;
    const kindWord = words[word + KIND_WORD]!;
    const position = this.positions[depth]! + 1;
    if ((kindWord & 0x3f) !== KIND_LEAF || position >= kindWord >>> 16) return false;
    const prefix = words[word + PREFIX_WORD]! & 0xffff;
    const entry = word + (words[word + PREFIX_WORD]! >>> 18) + 2 * position;
    if (words[entry] !== headOf(key, prefix, keyLength)) return false;
    const slot = words[entry + 1]!;
    const suffix = (slot >>> 16) & LENGTH_MASK;
    if ((slot & LONG_KEY) !== 0 || suffix !== keyLength - prefix) return false;
    const bytes = pages.bytes[buffer >> pages.chunkShift]!;
    const from = base + (depth === 0 ? ROOT_HEADER_END : PAGE_HEADER_BYTES);
    for (let i = prefix - 1; i >= 0; i--) if (bytes[from + i] !== key[i]) return false;
    if (suffix > HEAD_BYTES && this.compareTail(buffer, view, position, key, keyLength) !== 0)
      return false;
    this.positions[depth] = position;
    this.buffer = buffer;
    return true;
  }

  /** Goes to the first entry of the tree; false if there is none. */
  first(view: View): boolean {
    this.#descend(view, this.#root, 0, false);
    return this.#node.count > 0;
  }

  /** Goes to the last entry of the tree; false if there is none. */
  last(view: View): boolean {
    this.#descend(view, this.#root, 0, true);
    return this.#node.count > 0;
  }

  /**
   * Goes to the entry after the position, which may be one past the last of a leaf; false if
   * there is none, and then the position is not to be used.
   */
  forward(view: View): boolean {
    let depth = this.depth;
    let node = this.#read(view, depth);
    if (node.level > 0) {
      this.positions[depth]!++;
      this.#descend(view, node.childAt(this.positions[depth]!), depth + 1, false);
      return true;
    }
    if (++this.positions[depth]! < node.count) return true;
    do {
      if (depth-- === 0) return false;
      node = this.#read(view, depth);
    } while (this.positions[depth]! >= node.count);
    this.depth = depth;
    if (this.isBTree) return true;
    this.positions[depth]!++;
    this.#descend(view, node.childAt(this.positions[depth]!), depth + 1, false);
    return true;
  }

  /** Goes to the entry before the position; false if there is none, as `forward`. */
  backward(view: View): boolean {
    let depth = this.depth;
    const node = this.#read(view, depth);
    if (node.level > 0) {
      this.#descend(view, node.childAt(this.positions[depth]!), depth + 1, true);
      return true;
    }
    if (--this.positions[depth]! >= 0) return true;
    do {
      if (depth-- === 0) return false;
    } while (this.positions[depth]! === 0);
    this.#read(view, depth);
    this.positions[depth]!--;
    this.depth = depth;
    if (this.isBTree) return true;
    this.#descend(view, this.#node.childAt(this.positions[depth]!), depth + 1, true);
    return true;
  }

  /** Goes down along one side, from a page that stands at `depth`, to the end of a leaf. */
  #descend(view: View, from: PageId, fromDepth: number, toLast: boolean): void {
    let page = from;
    let depth = fromDepth;
    for (;;) {
      this.nodes[depth] = page;
      const node = this.#read(view, depth);
      const level = node.level;
      if (level === 0) {
        this.positions[depth] = toLast ? node.count - 1 : 0;
        this.depth = depth;
        return;
      }
      this.positions[depth] = toLast ? node.count : 0;
      page = node.childAt(toLast ? node.count : 0);
      depth++;
    }
  }

  /** Reads and checks the node at `depth`; the root first, which tells the levels below. */
  #read(view: View, depth: number): Node {
    this.buffer = this.#pages.read(this.nodes[depth]! as PageId, view);
    const node = this.#node.at(this.buffer);
    const shape = node.words[node.word + KIND_WORD]! & SHAPE_MASK;
    const level = depth === 0 ? node.level : (this.#rootShape >>> 8) - depth;
    if (level < 0 || level >= LEVELS_MAX) throw node.corrupt('level', level, '0..63');
    node.checkHeader(this.#structure, kindAt(level, this.isBTree), level, depth === 0);
    if (depth === 0) this.#rootShape = shape;
    return node;
  }

  /** Checks a node that does not look as expected; answers the shape of a root. */
  #checkShape(buffer: BufferId, depth: number, shape: number): number {
    const node = this.#node.at(buffer);
    const found = node.words[node.word + KIND_WORD]! & SHAPE_MASK;
    const level = depth === 0 ? node.level : shape >>> 8;
    if (level >= LEVELS_MAX) throw node.corrupt('level', level, '0..63');
    node.checkHeader(this.#structure, kindAt(level, this.isBTree), level, depth === 0);
    if (depth === 0) this.#rootShape = found;
    return found;
  }

  /** Sign of entry − key where heads are equal and more than the lengths must be looked at. */
  compareTail(buffer: BufferId, view: View, i: number, key: Uint8Array, keyLength: number): number {
    const node = this.#node.at(buffer);
    const slot = node.slotAt(i);
    const prefix = node.prefixLength;
    const suffix = (slot >>> 16) & LENGTH_MASK;
    const tail = suffix > HEAD_BYTES ? suffix - HEAD_BYTES : 0;
    const at = (slot & 0xffff) + cellHeadBytes(node.kind);
    if (at + tail > node.usableBytes) throw node.corrupt('end of a key', at + tail);
    const rest = keyLength - prefix - HEAD_BYTES;
    const most = rest < tail ? rest : tail;
    const sign = comparePieces(node.bytes, node.base + at, key, prefix + HEAD_BYTES, most);
    if (sign !== 0) return sign;
    if ((slot & LONG_KEY) === 0) return suffix - (keyLength - prefix);
    const inPage = prefix + suffix;
    if (keyLength <= inPage) return 1;
    const descriptor = node.keyDescriptorAt(i);
    this.#pages.pin(buffer);
    try {
      return this.#tree.overflow.compare(
        view,
        node.page,
        node.bytes,
        descriptor,
        key,
        inPage,
        keyLength - inPage,
      );
    } finally {
      this.#pages.unpin(buffer);
    }
  }
}
