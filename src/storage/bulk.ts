/**
 * Building a tree bottom-up from entries in ascending order.
 *
 * One node a level is in the making: its entries wait in an arena until the next does not fit,
 * then it is written as a page and what separates it from the next goes up a level. Nodes get the
 * longest prefix their keys share and are filled to `fill` of a page (or the order). Memory is
 * about two pages a level, whatever the number of entries; `settle` is called after every page.
 *
 * Where an entry rises between two nodes (inner nodes, and all of a b-tree), the first that does
 * not fit waits for a follower: then it rises, or at the end the node is cut in two. So no node is
 * empty. The top node goes to the root page.
 */
import { assert } from '../base/assert.ts';
import { failure } from '../errors.ts';
import { ADDED, ENTRIES_MIN, FULL, IS_LAST, LevelArena } from './bulk-arena.ts';
import { commonBytes, Entry, NodeEditor } from './btree-edit.ts';
import { KEY_BYTES_MAX, kindAt, VALUE_BYTES_MAX } from './btree-node.ts';
import { clearTree, compareKeys } from './btree-range.ts';
import { orderOf, type Restructurer } from './btree-split.ts';
import type { Tree } from './btree.ts';
import { NO_PAGE, WRITER, type PageId } from './pages.ts';

export class TreeBuilder {
  readonly #tree: Tree;
  readonly #restructurer: Restructurer;
  readonly #levels: LevelArena[] = [];
  readonly #node: NodeEditor;
  readonly #isBTree: boolean;
  readonly #entriesMax: number;
  readonly #fillBytes: number;
  /** The entry being added, one read back from an arena, one on its way up. */
  readonly #entry = new Entry();
  readonly #loaded = new Entry();
  readonly #rising = new Entry();
  /** The key added last, unless the last entry of the leaf has it. */
  #isLastInLeaf = false;
  #last: Uint8Array = new Uint8Array(64);
  #lastLength = -1;
  #count = 0;

  /**
   * `tree`: in the open transaction; what it holds stays readable until `finish`, and is replaced
   * by it. `fill`: share of a node that is filled, 0.3 ≤ fill ≤ 1.
   */
  constructor(tree: Tree, fill = 1) {
    if (!(fill >= 0.3 && fill <= 1)) {
      throw failure('usage.argument', `fill ${fill} is not a number from 0.3 to 1`);
    }
    this.#tree = tree;
    this.#restructurer = tree.writer.restructurer;
    this.#node = new NodeEditor(tree.pages);
    this.#isBTree = tree.layout.kind === 'b-tree';
    this.#entriesMax = this.#restructurer.entriesMax;
    this.#fillBytes = Math.floor(fill * tree.limits.usableBytes);
    this.#addLevel();
  }

  /**
   * Adds an entry whose key is above all before it.
   *
   * @throws {UsageError} usage.argument when it is not.
   * @throws {ValueError} value.size when key or value is too large.
   */
  add(
    key: Uint8Array,
    keyLength: number,
    value: Uint8Array,
    valueOffset: number,
    valueLength: number,
  ): void {
    if (this.tryAdd(key, 0, keyLength, value, valueOffset, valueLength)) return;
    throw this.#notAbove();
  }

  /**
   * Adds an entry, as `add`, whose key begins at an offset; answers false, with nothing added, when
   * its key is the one before.
   */
  tryAdd(
    key: Uint8Array,
    keyOffset: number,
    keyLength: number,
    value: Uint8Array,
    valueOffset: number,
    valueLength: number,
  ): boolean {
    const leaf = this.#levels[0]!;
    const { limits } = this.#tree;
    const isPlain = keyLength <= limits.keyBytesMax && limits.isInline(keyLength, valueLength);
    if (!isPlain || this.#isBTree || !leaf.isPlain || leaf.count === 0) {
      const whole = keyOffset === 0 ? key : key.subarray(keyOffset, keyOffset + keyLength);
      return this.#addSlowly(isPlain, whole, keyLength, value, valueOffset, valueLength);
    }
    for (;;) {
      const outcome = leaf.tryAddPlain(
        key,
        keyOffset,
        keyLength,
        value,
        valueOffset,
        valueLength,
        this.#entriesMax,
        this.#fillBytes,
      );
      if (outcome === ADDED) {
        this.#isLastInLeaf = true;
        this.#count++;
        return true;
      }
      if (outcome === IS_LAST) return false;
      if (outcome !== FULL) throw this.#notAbove();
      this.#takeLast();
      const whole = keyOffset === 0 ? key : key.subarray(keyOffset, keyOffset + keyLength);
      this.#closeLeaf(whole, keyLength);
    }
  }

  /** Adds an entry, as `add`, whose key begins at an offset. */
  addFrom(
    key: Uint8Array,
    keyOffset: number,
    keyLength: number,
    value: Uint8Array,
    valueOffset: number,
    valueLength: number,
  ): void {
    if (this.tryAdd(key, keyOffset, keyLength, value, valueOffset, valueLength)) return;
    throw this.#notAbove();
  }

  #notAbove(): Error {
    return failure('usage.argument', `entry ${this.#count}: its key is not above the one before`);
  }

  /** Brings the key added last to `#last`. */
  #takeLast(): void {
    if (!this.#isLastInLeaf) return;
    this.#isLastInLeaf = false;
    const leaf = this.#levels[0]!;
    const length = leaf.copyLastKey(this.#last);
    if (length > this.#last.length) {
      this.#last = new Uint8Array(2 * length);
      leaf.copyLastKey(this.#last);
    }
    this.#lastLength = length;
  }

  /** Adds the first entry of a leaf, and any with parts in overflow, and all of a b-tree. */
  #addSlowly(
    isPlain: boolean,
    key: Uint8Array,
    keyLength: number,
    value: Uint8Array,
    valueOffset: number,
    valueLength: number,
  ): boolean {
    if (keyLength > KEY_BYTES_MAX || valueLength > VALUE_BYTES_MAX) {
      throw failure('value.size', `key of ${keyLength} or value of ${valueLength} bytes`);
    }
    this.#takeLast();
    const order = this.#orderOf(key, keyLength);
    if (order === 0) return false;
    if (order < 0) throw this.#notAbove();
    const leaf = this.#levels[0]!;
    if (isPlain && !this.#isBTree && leaf.count === 0) {
      const outcome = leaf.tryAddPlain(key, 0, keyLength, value, valueOffset, valueLength, 1, 0);
      assert(outcome === ADDED, 'an empty leaf takes any entry');
      this.#count++;
      this.#isLastInLeaf = true;
      return true;
    }
    this.#addEntry(key, keyLength, value, valueOffset, valueLength);
    return true;
  }

  #addEntry(
    key: Uint8Array,
    keyLength: number,
    value: Uint8Array,
    valueOffset: number,
    valueLength: number,
  ): void {
    const entry = this.#entry;
    const { limits } = this.#tree;
    if (keyLength > limits.keyBytesMax) this.#restructurer.setLongKey(entry, key, keyLength);
    else entry.setKey(key, keyLength);
    if (limits.isInline(entry.keyBytes + entry.keyDescriptorBytes, valueLength)) {
      entry.setValue(value, valueOffset, valueLength, false);
    } else {
      const order = orderOf(key, keyLength);
      const descriptor = entry.ownValueDescriptor;
      const { overflow, pages } = this.#tree;
      const bytes = overflow.write(value, valueOffset, valueLength, order, descriptor);
      entry.setValue(descriptor, 0, bytes, true);
      pages.settle(); // its clusters may be the only page that was written
    }
    const leaf = this.#levels[0]!;
    const isFull = !this.#isBTree && leaf.count > 0 && !this.#fitsWith(leaf, 0, entry);
    if (isFull) this.#closeLeaf(key, keyLength);
    leaf.add(entry);
    this.#count++;
    if (this.#isBTree) this.#afterAdd(0);
    this.#keepLast(key, keyLength);
  }

  /** Levels of the tree, as far as it is built. */
  get levelCount(): number {
    return this.#levels.length;
  }

  /** Frees what the tree held, writes what waits, and the root page. */
  finish(): void {
    const { pages, root } = this.#tree;
    this.#takeLast();
    if (this.#tree.count(WRITER) > 0) clearTree(this.#tree);
    let at = 0;
    for (; ; at++) {
      const level = this.#levels[at]!;
      if (level.fitting > 0) this.#cut(at, this.#middleOf(level, at));
      if (at === this.#levels.length - 1) {
        if (this.#fits(level, at, 0, level.count, true)) break;
        this.#cut(at, this.#middleOf(level, at));
      }
      this.#attach(at + 1, this.#write(at, level.count));
      pages.settle();
    }
    const target = this.#node.at(pages.edit(root));
    this.#build(target, at, this.#levels[at]!.count, true);
    if (this.#count > 0) this.#tree.writer.addCount(this.#count);
    this.#tree.noteRollback();
    pages.settle();
  }

  /** Writes the leaf of a b+tree; the key is that of the next leaf's first entry. */
  #closeLeaf(key: Uint8Array, keyLength: number): void {
    const page = this.#write(0, this.#levels[0]!.count);
    this.#levels[0]!.drop(this.#levels[0]!.count);
    this.#attach(1, page);
    const common = commonBytes(this.#last, this.#lastLength, key, keyLength);
    this.#pushSeparator(key, common + 1);
  }

  /** Adds the first bytes of a key to the level above the leaves. */
  #pushSeparator(key: Uint8Array, length: number): void {
    const rising = this.#rising;
    this.#restructurer.setLongKey(rising, key, length);
    this.#levels[1]!.add(rising);
    this.#afterAdd(1);
  }

  /** Writes a node of a level where entries rise, if it is full and another can follow. */
  #afterAdd(at: number): void {
    const level = this.#levels[at]!;
    if (level.fitting === 0) {
      if (!this.#fitsAll(level, at)) level.fitting = level.count - 1;
      return;
    }
    this.#cut(at, level.fitting);
  }

  /** Writes the first `middle` entries as a node and lets the next rise, or a separator. */
  #cut(at: number, middle: number): void {
    const level = this.#levels[at]!;
    const page = this.#write(at, middle);
    const rises = at > 0 || this.#isBTree;
    this.#attach(at + 1, page);
    if (rises) {
      const risen = level.load(middle, this.#rising);
      level.firstChild = risen.child;
      risen.child = NO_PAGE;
      this.#levels[at + 1]!.add(risen);
      level.drop(middle + 1); // only now: the value of what rises lies in the arena
      this.#afterAdd(at + 1);
      return;
    }
    const before = this.#wholeKey(level, middle - 1);
    const key = this.#wholeKey(level, middle);
    level.drop(middle);
    this.#pushSeparator(key, commonBytes(before, before.length, key, key.length) + 1);
  }

  /** Makes a page the child that the last entry of a level waits for, or its first. */
  #attach(at: number, page: PageId): void {
    if (at === this.#levels.length) this.#addLevel();
    const level = this.#levels[at]!;
    if (level.count === 0) level.firstChild = page;
    else level.setChild(level.count - 1, page);
  }

  #addLevel(): void {
    this.#levels.push(
      new LevelArena(kindAt(this.#levels.length, this.#isBTree), this.#tree.limits),
    );
  }

  /** Writes the first `count` entries of a level as a new page. */
  #write(at: number, count: number): PageId {
    const { pages, structure } = this.#tree;
    const target = this.#node.at(pages.allocate(structure));
    this.#build(target, at, count, false);
    const page = pages.pageOf(target.buffer);
    pages.settle();
    return page;
  }

  #build(target: NodeEditor, at: number, count: number, isRoot: boolean): void {
    const level = this.#levels[at]!;
    const prefix = level.prefixOf(0, count);
    const kind = kindAt(at, this.#isBTree);
    const first = count > 0 ? level.load(0, this.#loaded).key : this.#last;
    target.begin(kind, at, isRoot, first, prefix, level.firstChild);
    if (at === 0 && level.isPlain && count === level.count) level.fillLeaf(target);
    else for (let i = 0; i < count; i++) target.append(level.load(i, this.#loaded));
    target.finish();
  }

  /** Where to cut a level that is one entry too large for a node: halves, if both then fit. */
  #middleOf(level: LevelArena, at: number): number {
    const { count } = level;
    const rises = at > 0 || this.#isBTree;
    const middle = count >> 1;
    const from = rises ? middle + 1 : middle;
    if (this.#fits(level, at, 0, middle, false) && this.#fits(level, at, from, count, false)) {
      return middle;
    }
    return rises ? count - 2 : count - 1;
  }

  #fits(level: LevelArena, at: number, from: number, to: number, isRoot: boolean): boolean {
    if (to - from > this.#entriesMax) return false;
    const prefix = level.prefixOf(from, to);
    const bytes = level.bytesOf(from, to, prefix);
    return this.#tree.limits.fits(kindAt(at, this.#isBTree), prefix, bytes, isRoot);
  }

  /** Whether all entries of a level fit one node, filled as it should be. */
  #fitsAll(level: LevelArena, at: number): boolean {
    return this.#allows(level.count, level.sharedPrefix, level.sharedBytes, at);
  }

  /** Whether an entry fits the node of a level together with all before it. */
  #fitsWith(level: LevelArena, at: number, entry: Entry): boolean {
    level.measureWith(entry);
    return this.#allows(level.count + 1, level.measuredPrefix, level.measuredBytes, at);
  }

  #allows(count: number, prefix: number, bytes: number, at: number): boolean {
    if (count > this.#entriesMax) return false;
    if (!this.#tree.limits.fits(kindAt(at, this.#isBTree), prefix, bytes, false)) return false;
    return count <= ENTRIES_MIN || bytes + prefix + 40 <= this.#fillBytes;
  }

  #wholeKey(level: LevelArena, i: number): Uint8Array {
    const { overflow, root } = this.#tree;
    const entry = level.load(i, this.#loaded);
    const tail = entry.isLongKey ? overflow.lengthOf(entry.keyDescriptor, 0) : 0;
    const key = new Uint8Array(entry.keyBytes + tail);
    key.set(entry.key.subarray(0, entry.keyBytes));
    if (tail > 0) {
      overflow.read(WRITER, root, entry.keyDescriptor, 0, 0, key, entry.keyBytes, tail);
    }
    return key;
  }

  /** Whether a key is above the one added last: positive; 0 when it is that. */
  #orderOf(key: Uint8Array, keyLength: number): number {
    if (this.#lastLength < 0) return 1;
    return compareKeys(key.subarray(0, keyLength), this.#last.subarray(0, this.#lastLength));
  }

  #keepLast(key: Uint8Array, keyLength: number): void {
    if (this.#last.length < keyLength) this.#last = new Uint8Array(2 * keyLength);
    for (let i = 0; i < keyLength; i++) this.#last[i] = key[i]!;
    this.#lastLength = keyLength;
  }
}
