/**
 * A tree: ordered byte-string keys with values, in the pages of one structure.
 *
 * Two shapes: a b+tree keeps its entries in the leaves, a b-tree in inner nodes as well. The root
 * keeps its PageId for ever, so whoever names a tree names it once. `order` caps the children of
 * a node, and with that its entries: at most order-1 in any node, leaves included.
 *
 * A call that finds an entry leaves its place in fields (see btree-reader.ts), so that the hot
 * path allocates nothing. Writing works in the view `WRITER` only; a write that throws before its
 * first change leaves the tree as it was, one that throws later is undone by rolling back the
 * transaction. One object serves one tree: it knows when its cursors must look again. Whoever
 * rolls back calls `noteRollback`.
 *
 *   btree-node.ts      format of a node      btree-path.ts    search, steps between leaves
 *   btree-edit.ts      changing a node       btree-split.ts   changing several
 *   btree-write.ts     put, insert, delete   btree-cursor.ts  iteration
 *   btree-range.ts     ranges, clear, drop   btree-check.ts   checks and statistics
 *   bulk.ts            building bottom-up    overflow.ts      large values, long keys
 *   write-buffer.ts    where the writes of a long transaction wait, until they go in sorted
 */
import type { ByteWriter } from '../base/bytes.ts';
import { failure, isFull } from '../errors.ts';
import {
  KIND_LEAF,
  KIND_WORD,
  FLAG_ROOT,
  Limits,
  Node,
  PREFIX_WORD,
  ROOT_CLUSTER_BYTES_OFFSET,
  ROOT_COUNT_OFFSET,
  ROOT_HEADER_END,
  ROOT_ORDER_OFFSET,
} from './btree-node.ts';
import { Path } from './btree-path.ts';
import {
  checkTree,
  shareBelow,
  statsOf,
  type FaultVisitor,
  type PageVisitor,
  type TreeStats,
} from './btree-check.ts';
import { clearTree, dropTree, removeRange } from './btree-range.ts';
import { EntryReader } from './btree-reader.ts';
import { EQUAL, INSERTED, TreeWriter, WAITING, type PutResult } from './btree-write.ts';
import { Overflow } from './overflow.ts';
import { WRITER, type PageId, type Pages, type StructureId, type View } from './pages.ts';
import { writeBatch, writeRuns } from './write-batch.ts';
import { UNKNOWN, WriteBuffer } from './write-buffer.ts';
import { BUFFERED_BYTES_MAX, type BufferedTree, type WriteBuffers } from './write-buffers.ts';

export { EQUAL, INSERTED, UPDATED, WAITING, type PutResult } from './btree-write.ts';

/**
 * What puts entries that wait into their tree, where an entry is not simply put: those of a
 * non-unique index, say, many of which make one entry of the tree.
 */
export interface BatchWriter {
  /** Whether it keeps something of its own that is not in the tree yet. */
  readonly isWaiting: boolean;
  /** Writes that to the tree. */
  settle(): void;
  /** Forgets it: the transaction goes back. */
  forget(): void;
  writeBatch(buffer: WriteBuffer, ordinals: Int32Array): void;
}

/** The settings of one tree; fixed in the file. */
export interface TreeLayout {
  readonly kind: 'b+tree' | 'b-tree';
  /** Most children of a node, 3 ≤ order ≤ 65535; `undefined`: what fits a page. */
  readonly order?: number | undefined;
  /** Unit for the tails of large values: a power of two, 256 to half a page; default 512. */
  readonly clusterBytes?: number | undefined;
}

export const CLUSTER_BYTES_DEFAULT = 512;
export const CLUSTER_BYTES_MIN = 256;

export class Tree extends EntryReader implements BufferedTree {
  readonly root: PageId;
  readonly structure: StructureId;
  readonly layout: TreeLayout;
  readonly limits: Limits;
  /** Bumped by every write: cursors of the writer look again when it moved. */
  changes = 0;
  /** What writes the entries given to `defer`. */
  batchWriter: BatchWriter | undefined;
  readonly #path: Path;
  readonly #buffers: WriteBuffers | undefined;
  #buffer: WriteBuffer | undefined;
  #writer: TreeWriter | undefined;
  #overflow: Overflow | undefined;

  /** Makes an empty tree in the open transaction; answers its root page. */
  static create(pages: Pages, structure: StructureId, layout: TreeLayout): PageId {
    checkLayout(layout, pages.pageBytes);
    const buffer = pages.allocate(structure);
    const node = new Node(pages).at(buffer);
    const { words, word } = node;
    words[word + KIND_WORD] = KIND_LEAF | FLAG_ROOT;
    words[word + PREFIX_WORD] = ROOT_HEADER_END << 16;
    const tree = layout.kind === 'b-tree' ? 2 : 1;
    words[word + (ROOT_ORDER_OFFSET >> 2)] = (layout.order ?? 0) | (tree << 16);
    words[word + (ROOT_CLUSTER_BYTES_OFFSET >> 2)] = layout.clusterBytes ?? CLUSTER_BYTES_DEFAULT;
    pages.markFront(buffer, 16, ROOT_HEADER_END);
    return pages.pageOf(buffer);
  }

  /** `buffers`: those of the store's transactions; without, every write goes to the pages. */
  constructor(
    pages: Pages,
    root: PageId,
    structure: StructureId,
    layout: TreeLayout,
    buffers?: WriteBuffers,
  ) {
    checkLayout(layout, pages.pageBytes);
    super(pages);
    this.root = root;
    this.structure = structure;
    this.layout = layout;
    this.limits = new Limits(pages.usableBytes);
    this.#path = this.newPath();
    this.#buffers = buffers;
    this.#buffer = undefined;
    this.#writer = undefined;
    this.#overflow = undefined;
  }

  /** Entries of the tree. */
  count(view: View): number {
    if (view === WRITER) this.settleWrites();
    return this.#countInPages(view);
  }

  /** Entries that the transaction sees in the pages, without those that wait. */
  get settledCount(): number {
    return this.#countInPages(WRITER) + this.#uncounted;
  }

  #countInPages(view: View): number {
    const pages = this.pages;
    const buffer = pages.read(this.root, view);
    const base = (buffer & pages.chunkMask) << pages.pageShift;
    return pages.floats[buffer >> pages.chunkShift]![(base + ROOT_COUNT_OFFSET) >> 3]!;
  }

  /** Finds a key; its value is then in the fields until the next call. */
  find(view: View, key: Uint8Array, keyLength: number = key.length): boolean {
    if (view === WRITER && this.#mayWait(key, keyLength)) this.settleWrites();
    return this.#findInPages(view, key, keyLength);
  }

  #findInPages(view: View, key: Uint8Array, keyLength: number): boolean {
    const path = this.#path;
    if (!path.seek(view, key, keyLength)) return false;
    this.locate(path.buffer, path.positions[path.depth]!, view);
    return true;
  }

  /**
   * As `find`, for a key that is expected right behind the one that was found last: looks there
   * first. Call `find` before, in the same view, and do not write to the tree meanwhile.
   */
  findNext(view: View, key: Uint8Array, keyLength: number = key.length): boolean {
    const path = this.#path;
    const { changes } = this;
    const mayWait = view === WRITER && this.#mayWait(key, keyLength);
    if (mayWait || this.changes !== changes || !path.step(view, key, keyLength))
      return this.find(view, key, keyLength);
    this.locate(path.buffer, path.positions[path.depth]!, view);
    return true;
  }

  /** Whether the tree has the key. */
  has(view: View, key: Uint8Array, keyLength: number = key.length): boolean {
    if (view === WRITER) {
      if (this.#ordinalOf(key, keyLength) >= 0) return true;
      if (this.#follower?.isBehind(key, keyLength) === true) return false;
    }
    return this.#path.seek(view, key, keyLength);
  }

  /**
   * Copies the transaction's value of a key into `target` at 0; answers its length, -1 if there is
   * no such key.
   */
  copyOwn(key: Uint8Array, keyLength: number, target: ByteWriter): number {
    const waiting = this.#ordinalOf(key, keyLength);
    target.clear();
    if (waiting >= 0) {
      const buffer = this.#buffer!;
      const at = buffer.valueAt(waiting);
      target.append(buffer.bytesOf(waiting), at, at + buffer.valueLengthOf(waiting));
      return target.length;
    }
    if (!this.#findInPages(WRITER, key, keyLength)) return -1;
    target.reserve(this.valueBytes);
    this.valueInto(target.bytes, 0);
    target.length = this.valueBytes;
    return target.length;
  }

  /** Finds the first entry; its key is in `key`, its value in the fields. */
  first(view: View): boolean {
    if (view === WRITER) this.settleWrites();
    return this.#path.first(view) && this.#load(view);
  }

  /** Finds the last entry, as `first`. */
  last(view: View): boolean {
    if (view === WRITER) this.settleWrites();
    return this.#path.last(view) && this.#load(view);
  }

  /**
   * Puts an entry, whether the key exists or not; the value is `valueLength` bytes of `value` from
   * `valueOffset` on. Answers INSERTED, UPDATED, EQUAL if the same bytes were there already, or
   * WAITING if that comes out later.
   *
   * @throws {ValueError} value.size for a key beyond 1 MiB or a value beyond 2 GiB - 1.
   */
  put(
    key: Uint8Array,
    keyLength: number,
    value: Uint8Array,
    valueOffset: number,
    valueLength: number,
  ): PutResult {
    if (this.#putBehind(key, keyLength, value, valueOffset, valueLength)) return INSERTED;
    if (this.#wait(key, keyLength, value, valueOffset, valueLength)) return WAITING;
    return this.#ownWriter().put(key, keyLength, value, valueOffset, valueLength, false);
  }

  /** Puts an entry into the pages, whatever waits for other keys. */
  putNow(
    key: Uint8Array,
    keyLength: number,
    value: Uint8Array,
    valueOffset: number,
    valueLength: number,
  ): PutResult {
    if (this.#mayWait(key, keyLength)) this.settleWrites();
    return this.#ownWriter().put(key, keyLength, value, valueOffset, valueLength, false);
  }

  /** Puts an entry whose key is known to be new. */
  add(
    key: Uint8Array,
    keyLength: number,
    value: Uint8Array,
    valueOffset: number,
    valueLength: number,
  ): void {
    if (this.#putBehind(key, keyLength, value, valueOffset, valueLength)) return;
    if (this.#wait(key, keyLength, value, valueOffset, valueLength)) return;
    this.#ownWriter().put(key, keyLength, value, valueOffset, valueLength, true);
  }

  /** Puts an entry right behind the one put last, if nothing waits and it belongs there. */
  #putBehind(
    key: Uint8Array,
    keyLength: number,
    value: Uint8Array,
    valueOffset: number,
    valueLength: number,
  ): boolean {
    const writer = this.#follower;
    if (writer === undefined) return false;
    if (!writer.putBehind(key, keyLength, value, valueOffset, valueLength)) return false;
    if (writer.uncounted === 1) this.#buffers!.opened(this);
    return true;
  }

  /** What puts entries right behind the last, if that may be. */
  get #follower(): TreeWriter | undefined {
    const writer = this.#writer;
    const { epoch } = this.#buffers ?? NO_BUFFERS;
    if (writer === undefined || epoch === 0) return undefined;
    // The leaf is the transaction's own already: looking at it changes nothing.
    if (writer.epoch !== epoch) {
      writer.epoch = epoch;
      writer.endRun();
      return undefined;
    }
    return this.#buffer === undefined || this.#buffer.isEmpty ? writer : undefined;
  }

  /** Puts an entry with a new key; false, and nothing changed, if the key exists. */
  insert(
    key: Uint8Array,
    keyLength: number,
    value: Uint8Array,
    valueOffset: number,
    valueLength: number,
  ): boolean {
    if (this.#putBehind(key, keyLength, value, valueOffset, valueLength)) return true;
    if (this.#mayWait(key, keyLength)) this.settleWrites();
    const result = this.#ownWriter().put(key, keyLength, value, valueOffset, valueLength, true);
    return result === INSERTED;
  }

  /** Puts an entry right behind the one put last; answers false if it does not belong there. */
  addBehind(
    key: Uint8Array,
    keyLength: number,
    value: Uint8Array,
    valueOffset: number,
    valueLength: number,
  ): boolean {
    return this.#putBehind(key, keyLength, value, valueOffset, valueLength);
  }

  /** Whether writes to the tree may wait. */
  get isBuffered(): boolean {
    return this.#buffers !== undefined;
  }

  /** Says that the batch writer keeps something from now on. */
  noteWaiting(): void {
    this.#buffers!.opened(this);
  }

  /** Whether the next write may be deferred; if not, it is counted as one that is not. */
  get mayDefer(): boolean {
    return this.#buffers !== undefined && this.#buffer?.skipWrite() !== true;
  }

  /**
   * Leaves a key to the batch writer, later and sorted; answers false if it cannot wait, and then
   * nothing does.
   */
  defer(key: Uint8Array, keyLength: number): boolean {
    return keyLength <= BUFFERED_BYTES_MAX && this.#enter(key, keyLength, NOTHING, 0, 0);
  }

  /** Lets a write wait if it may; answers whether it does. */
  #wait(
    key: Uint8Array,
    keyLength: number,
    value: Uint8Array,
    valueOffset: number,
    valueLength: number,
  ): boolean {
    if (this.#buffers === undefined || this.#buffer?.skipWrite() === true) return false;
    if (this.batchWriter === undefined && keyLength + valueLength <= BUFFERED_BYTES_MAX)
      return this.#enter(key, keyLength, value, valueOffset, valueLength);
    if (this.#mayWait(key, keyLength)) this.settleWrites();
    return false;
  }

  #enter(
    key: Uint8Array,
    keyLength: number,
    value: Uint8Array,
    valueOffset: number,
    valueLength: number,
  ): boolean {
    const buffers = this.#buffers;
    if (buffers === undefined) return false;
    const buffer = (this.#buffer ??= new WriteBuffer(
      buffers,
      this,
      this.batchWriter === undefined,
    ));
    if (!buffer.countWrite(key, keyLength)) {
      this.settleWrites();
      return false;
    }
    if (buffer.count === 0) buffers.opened(this);
    if (buffer.add(key, keyLength, value, valueOffset, valueLength)) return true;
    // Copies: the caller's arrays may be what a batch writer works with.
    const ownKey = key.slice(0, keyLength);
    const ownValue = value.slice(valueOffset, valueOffset + valueLength);
    buffers.spill();
    buffers.opened(this);
    if (buffer.add(ownKey, keyLength, ownValue, 0, valueLength)) return true;
    this.settleWrites();
    if (this.batchWriter !== undefined) return false;
    const result = this.#ownWriter().put(ownKey, keyLength, ownValue, 0, valueLength, false);
    if (result === EQUAL) buffers.elidedPuts++;
    return true;
  }

  /** Whether an entry waits that the key would have to find. */
  #mayWait(key: Uint8Array, keyLength: number): boolean {
    return this.#ordinalOf(key, keyLength) >= 0;
  }

  /**
   * The ordinal of the entry that waits for a key, -1 if none does. Where that cannot be said,
   * everything is written first.
   */
  #ordinalOf(key: Uint8Array, keyLength: number): number {
    const { batchWriter } = this;
    if (batchWriter !== undefined && batchWriter.isWaiting) this.settleWrites();
    const buffer = this.#buffer;
    if (buffer === undefined || buffer.isEmpty) return -1;
    const found = buffer.find(key, keyLength);
    if (found !== UNKNOWN) return found;
    this.settleWrites();
    return -1;
  }

  /** Writes what waits to the pages. If that fails, the transaction can only go back. */
  settleWrites(): void {
    const { batchWriter } = this;
    const buffer = this.#buffer;
    const hasBatch = buffer !== undefined && !buffer.isEmpty;
    if (!hasBatch && batchWriter?.isWaiting !== true && this.#uncounted === 0) return;
    this.#buffer = undefined; // the tree is written as if nothing waited
    try {
      batchWriter?.settle();
      if (hasBatch) this.#writeWaiting(buffer);
      this.#writer?.settleCount();
    } catch (cause) {
      this.#buffers!.failed();
      throw cause;
    } finally {
      if (hasBatch) buffer.clear();
    }
    this.#buffer = buffer;
  }

  #writeWaiting(buffer: WriteBuffer): void {
    if (buffer.runCount > 0) {
      if (buffer.count > 0) trySpill(buffer);
      writeRuns(this, buffer.takeRuns(), this.#buffers!);
    }
    if (buffer.count === 0) return;
    const ordinals = buffer.sorted();
    if (this.batchWriter !== undefined) this.batchWriter.writeBatch(buffer, ordinals);
    else writeBatch(this, buffer, ordinals, this.#buffers!);
  }

  /** Makes room in memory: what waits becomes a run of the spill file, or is written. */
  spillWrites(): void {
    const buffer = this.#buffer;
    try {
      if (buffer?.maySpill === true && trySpill(buffer)) return;
    } catch (cause) {
      this.#buffers!.failed();
      throw cause;
    }
    const holdsMemory = buffer === undefined || buffer.count > 0 || buffer.runCount === 0;
    if (holdsMemory) this.settleWrites();
  }

  /** Entries in the pages that the root page's count does not tell yet. */
  get #uncounted(): number {
    return this.#writer === undefined ? 0 : this.#writer.uncounted;
  }

  /** Forgets what waits: the transaction goes back. */
  forgetWrites(): void {
    this.batchWriter?.forget();
    if (this.#writer !== undefined) this.#writer.uncounted = 0;
    this.#buffer?.clear();
  }

  /** Removes an entry; false if there is none of that key. */
  delete(key: Uint8Array, keyLength: number = key.length): boolean {
    if (this.#mayWait(key, keyLength)) this.settleWrites();
    return this.#ownWriter().delete(key, keyLength);
  }

  /**
   * Removes the entries with `from` ≤ key < `to`, an end left out being open; answers how many.
   * Whole subtrees are freed without a look at their entries.
   */
  deleteRange(from?: Uint8Array, to?: Uint8Array): number {
    return removeRange(this, from, to);
  }

  /** Removes all entries. */
  clear(): void {
    clearTree(this);
  }

  /** Gives all pages of the tree back; it is then not to be used. */
  drop(): void {
    dropTree(this);
  }

  /** Reads the whole tree and verifies it; see btree-check.ts. */
  check(view: View, visit?: PageVisitor, report?: FaultVisitor): void {
    if (view === WRITER) this.settleWrites();
    checkTree(this, view, visit, report);
  }

  /** Height, nodes by level and fill; reads every node. */
  stats(view: View): TreeStats {
    if (view === WRITER) this.settleWrites();
    return statsOf(this, view);
  }

  /** Entries with `from` ≤ key < `to`, estimated by descending twice; exact inside a leaf. */
  estimate(view: View, from?: Uint8Array, to?: Uint8Array): number {
    if (view === WRITER) this.settleWrites();
    const low = from === undefined ? 0 : shareBelow(this, view, from);
    const high = to === undefined ? 1 : shareBelow(this, view, to);
    return Math.max(0, high - low) * this.count(view);
  }

  /** Says that the transaction, or a part of it, was rolled back. */
  noteRollback(): void {
    this.changes++;
    this.#writer?.forget();
  }

  /** What writes the tree, in which nothing waits then; made at the first write. */
  get writer(): TreeWriter {
    this.settleWrites();
    return this.#ownWriter();
  }

  #ownWriter(): TreeWriter {
    return (this.#writer ??= new TreeWriter(this));
  }

  /** Made when the first large value or long key is met. */
  override get overflow(): Overflow {
    return (this.#overflow ??= this.#makeOverflow());
  }

  #makeOverflow(): Overflow {
    const clusterBytes = this.layout.clusterBytes ?? CLUSTER_BYTES_DEFAULT;
    return new Overflow(this.pages, this.structure, this.root, clusterBytes);
  }

  /** A path of its own, for a cursor or writer. */
  newPath(): Path {
    const isBTree = this.layout.kind === 'b-tree';
    return new Path(this.pages, this, this.root, this.structure, isBTree);
  }

  #load(view: View): boolean {
    const path = this.#path;
    const i = path.positions[path.depth]!;
    const { buffer } = path;
    this.pages.pin(buffer);
    try {
      this.readKey(buffer, i, view);
    } finally {
      this.pages.unpin(buffer);
    }
    // The same page again: reading the tail of a long key may have taken the buffer.
    this.locate(this.pages.read(path.nodes[path.depth]! as PageId, view), i, view);
    return true;
  }
}

const NOTHING = new Uint8Array(0);
const NO_BUFFERS = { epoch: 0 };

/** Writes a buffer to a run; answers false if the disk is full, and everything still waits. */
function trySpill(buffer: WriteBuffer): boolean {
  try {
    buffer.spill();
    return true;
  } catch (cause) {
    if (!isFull(cause)) throw cause;
    return false;
  }
}

/** Refuses a layout that no tree can have. */
export function checkLayout(layout: TreeLayout, pageBytes: number): void {
  const { order, clusterBytes = CLUSTER_BYTES_DEFAULT } = layout;
  if (order !== undefined && !(Number.isInteger(order) && order >= 3 && order <= 0xffff)) {
    throw failure('usage.layout', `order ${order} is not a whole number from 3 to 65535`);
  }
  const isPower = (clusterBytes & (clusterBytes - 1)) === 0;
  if (!isPower || clusterBytes < CLUSTER_BYTES_MIN || clusterBytes > pageBytes / 2) {
    throw failure(
      'usage.layout',
      `clusterBytes ${clusterBytes} is not a power of two from ${CLUSTER_BYTES_MIN} to half a page`,
    );
  }
}
