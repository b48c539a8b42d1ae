/**
 * Iteration over a tree, in both directions.
 *
 * A cursor stands at an entry, before the first or after the last. At an entry it pins the node,
 * holds a copy of the key, and says where the value lies (btree-reader.ts). With a snapshot that
 * stays valid until the cursor moves or is closed, whatever is written meanwhile; a cursor of the
 * writer keeps its key, but its value only until the next write to the tree, which may change the
 * page in place. A cursor of a snapshot goes from leaf to leaf along its path; one that sees the
 * writer's pages or the newest commit looks its key up again after the tree was changed, so it
 * meets entries put ahead of it and not those deleted. Its owner must not let it live across a
 * commit.
 *
 * Every call that throws leaves the cursor before the first entry, without a pin.
 */
import {
  cellHeadBytes,
  HEAD_BYTES,
  KIND_WORD,
  KIND_MASK,
  LENGTH_MASK,
  LONG_KEY,
  Node,
} from './btree-node.ts';
import type { Path } from './btree-path.ts';
import { EntryReader } from './btree-reader.ts';
import type { Tree } from './btree.ts';
import type { Overflow } from './overflow.ts';
import { LATEST, WRITER, type BufferId, type View } from './pages.ts';

/** Where a cursor stands. */
const BEFORE = 0;
const AT = 1;
const AFTER = 2;

export class Cursor extends EntryReader {
  readonly #tree: Tree;
  readonly #path: Path;
  readonly #isSnapshot: boolean;
  readonly #isWriter: boolean;
  readonly #node: Node;
  #state = BEFORE;
  #pinned: BufferId = -1;
  /** Changes of the tree when the path was last right. */
  #changes = -1;
  // The pinned node: entries, position, whether it is a leaf, and where its parts lie.
  #count = 0;
  #position = 0;
  #isLeaf = true;
  #prefix = 0;
  #entries = 0;
  #words: Int32Array;
  #base = 0;
  #cellHead = 2;

  constructor(tree: Tree, view: View) {
    super(tree.pages);
    this.#tree = tree;
    this.#path = tree.newPath();
    this.view = view;
    this.#isSnapshot = view < LATEST;
    this.#isWriter = view === WRITER;
    this.#node = new Node(tree.pages);
    this.#words = new Int32Array(0);
  }

  override get overflow(): Overflow {
    return this.#tree.overflow;
  }

  /** Goes to the first entry; false if there is none. */
  first(): boolean {
    this.close();
    if (this.#isWriter) this.#tree.settleWrites();
    const found = this.#path.first(this.view);
    return this.#arrive(found, AFTER);
  }

  /** Goes to the last entry; false if there is none. */
  last(): boolean {
    this.close();
    if (this.#isWriter) this.#tree.settleWrites();
    const found = this.#path.last(this.view);
    return this.#arrive(found, BEFORE);
  }

  /**
   * Goes to the first entry at (if `inclusive`) or after the key, or with `reverse` to the last
   * one at or before it; false if there is none.
   */
  seek(key: Uint8Array, keyLength: number, inclusive = true, reverse = false): boolean {
    this.close();
    if (this.#isWriter) this.#tree.settleWrites();
    const path = this.#path;
    const found = path.seek(this.view, key, keyLength);
    if (found && inclusive) return this.#arrive(true, AFTER);
    if (reverse) return this.#arrive(path.backward(this.view), BEFORE);
    if (found) return this.#arrive(path.forward(this.view), AFTER);
    if (path.positions[path.depth]! < this.#node.at(path.buffer).count) {
      return this.#arrive(true, AFTER);
    }
    return this.#arrive(path.forward(this.view), AFTER);
  }

  /** Goes to the next entry; false, and after the last, if there is none. */
  next(): boolean {
    if (this.#state !== AT) return this.#state === BEFORE ? this.first() : false;
    if (this.#isWriter) this.#tree.settleWrites();
    if (this.#isSnapshot || this.#changes === this.#tree.changes) {
      const position = this.#position + 1;
      if (this.#isLeaf && position < this.#count) {
        this.#position = position;
        this.#load();
        return true;
      }
      this.#path.positions[this.#path.depth] = this.#position;
      this.#unpin();
      return this.#arrive(this.#path.forward(this.view), AFTER);
    }
    return this.seek(this.key, this.keyLength, false, false);
  }

  /** Goes to the previous entry; false, and before the first, if there is none. */
  previous(): boolean {
    if (this.#state !== AT) return this.#state === AFTER ? this.last() : false;
    if (this.#isWriter) this.#tree.settleWrites();
    if (this.#isSnapshot || this.#changes === this.#tree.changes) {
      const position = this.#position - 1;
      if (this.#isLeaf && position >= 0) {
        this.#position = position;
        this.#load();
        return true;
      }
      this.#path.positions[this.#path.depth] = this.#position;
      this.#unpin();
      return this.#arrive(this.#path.backward(this.view), BEFORE);
    }
    return this.seek(this.key, this.keyLength, false, true);
  }

  /** Whether the cursor stands at an entry. */
  get isAtEntry(): boolean {
    return this.#state === AT;
  }

  /** Lets go of the pinned node; the cursor then stands before the first entry. */
  close(): void {
    this.#unpin();
    this.#state = BEFORE;
  }

  #unpin(): void {
    const buffer = this.#pinned;
    this.#state = BEFORE;
    if (buffer < 0) return;
    this.#pinned = -1;
    this.pages.unpin(buffer);
  }

  /** Settles at the entry the path stands at, or beyond the end. */
  #arrive(found: boolean, otherwise: number): boolean {
    if (!found) {
      this.#state = otherwise;
      return false;
    }
    const path = this.#path;
    const { depth, buffer } = path;
    const node = this.#node.at(buffer);
    const position = path.positions[depth]!;
    if (position >= node.count) throw node.corrupt('entries', node.count, `more than ${position}`);
    this.pages.pin(buffer);
    this.#pinned = buffer;
    this.#changes = this.#tree.changes;
    this.#count = node.count;
    this.#position = position;
    this.#isLeaf = node.level === 0;
    this.#prefix = node.prefixLength;
    this.#entries = node.word + (node.directory >> 2);
    this.#words = node.words;
    this.#base = node.base;
    this.#cellHead = cellHeadBytes(node.words[node.word + KIND_WORD]! & KIND_MASK);
    if (this.#prefix > this.key.length) this.growKey(this.#prefix);
    const from = node.base + node.prefixOffset;
    for (let i = 0; i < this.#prefix; i++) this.key[i] = node.bytes[from + i]!;
    this.bytes = node.bytes;
    this.buffer = buffer;
    try {
      this.#load();
    } catch (error) {
      this.close();
      throw error;
    }
    this.#state = AT;
    return true;
  }

  /** Reads the key and finds the value of the entry in the pinned node; the prefix is there. */
  #load(): void {
    const at = this.#entries + 2 * this.#position;
    const slot = this.#words[at + 1]!;
    const suffix = (slot >>> 16) & LENGTH_MASK;
    const prefix = this.#prefix;
    const length = prefix + suffix;
    if (length > this.key.length - HEAD_BYTES) this.growKey(length + HEAD_BYTES);
    const key = this.key;
    const head = this.#words[at]! ^ 0x8000_0000;
    key[prefix] = head >>> 24;
    key[prefix + 1] = head >>> 16;
    key[prefix + 2] = head >>> 8;
    key[prefix + 3] = head;
    this.keyLength = length;
    const bytes = this.bytes;
    const cell = this.#base + (slot & 0xffff);
    const from = cell + this.#cellHead - prefix - HEAD_BYTES;
    for (let i = prefix + HEAD_BYTES; i < length; i++) key[i] = bytes[from + i]!;
    if ((slot & LONG_KEY) !== 0 || slot < 0 || !this.#isLeaf) {
      this.#loadOther();
      return;
    }
    const valueAt = suffix > HEAD_BYTES ? cell + 2 + suffix - HEAD_BYTES : cell + 2;
    const valueBytes = bytes[cell]! | (bytes[cell + 1]! << 8);
    if (!(valueAt + valueBytes <= this.#base + this.pages.usableBytes)) {
      throw this.#node.at(this.buffer).corrupt('end of a value', valueAt - this.#base);
    }
    this.valueOffset = valueAt;
    this.valueBytes = valueBytes;
    this.isOverflow = false;
  }

  /** Long keys, values in overflow, entries of inner nodes. */
  #loadOther(): void {
    const node = this.#node.at(this.buffer);
    this.locate(this.buffer, this.#position, this.view);
    if (node.isLongKey(this.#position)) this.readKeyTail(node, this.#position, this.view);
  }
}
