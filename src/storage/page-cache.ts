/**
 * The reading side of the pager: pages in buffers, where their newest image lies, eviction.
 *
 * Every page table entry is a buffer of the newest committed image (> 0), a page with a private
 * copy (−1 − its ordinal in the overlay), or nothing resident (0). Where the newest committed image
 * lies in the file is told by, in this order: `recent` (changed since the boundary of the running
 * checkpoint, or since the last one), `closing` (changed before that boundary), the page map.
 *
 * Making room may write pages, which takes slots, which may load a node of the bitmap, which makes
 * room again: what is being written is pinned meanwhile, and a node is entered only if it is still
 * missing. That inner room is never made by writing: a few spare buffers are kept for it, since
 * every other one may be dirty.
 */
import { assert } from '../base/assert.ts';
import { IntList } from '../base/int-list.ts';
import { IntTable } from '../base/int-table.ts';
import { type Ledger } from '../base/ledger.ts';
import { type DatabaseError, failure, isFull } from '../errors.ts';
import { type Header, writeHeaderCopy } from './header.ts';
import { Loans } from './loans.ts';
import { type Log } from './log.ts';
import { FREED, Overlay } from './overlay.ts';
import { type PageFile } from './page-file.ts';
import {
  type BufferId,
  LATEST,
  PAGE_COMMIT_OFFSET,
  PAGE_ID_OFFSET,
  type PageId,
  type View,
  WRITER,
} from './pages.ts';
import { type BufferHost, Radix, treeOfNodeKey } from './radix.ts';
import {
  CLEAN,
  DIRTY,
  FREE,
  NODE,
  NODE_NEW,
  PRIVATE,
  SCRATCH,
  type Slab,
  VERSION,
} from './slab.ts';
import { Slots } from './slots.ts';
import { type Version, Versions } from './versions.ts';

/** Values of an entry of `recent` and `closing`: slot, checksum, flags. */
export const CHANGE_STRIDE = 3;
/** `slot` of a page that was freed. */
export const CHANGE_FREED = -1;
/** The slot is named by a place frame of the log: it is not reused before the next checkpoint. */
export const CHANGE_IN_LOG = 1;

const FLAT_PAGES_MAX = 1 << 20;
/** Slots that rest after a checkpoint are at most one in so many of the file. */
const RETIRED_SHARE = 8;
/** Buffers that one look for company of a dirty page to be written visits. */
const WRITE_LOOK = 256;
/** Buffers kept for the nodes that finding free slots may load: a path of the bitmap. */
const SPARE_BUFFERS = 3;

export interface PagerParts {
  readonly ledger: Ledger;
  readonly slab: Slab;
  readonly file: PageFile;
  readonly log: Log;
  readonly header: Header;
  readonly path: string;
  readonly readOnly: boolean;
}

export class PageCache implements BufferHost {
  readonly pageBytes: number;
  readonly pageShift: number;
  readonly chunkShift: number;
  readonly chunkMask: number;
  readonly usableBytes: number;
  readonly bytes: Uint8Array[];
  readonly words: Int32Array[];
  readonly floats: Float64Array[];

  readonly ledger: Ledger;
  readonly slab: Slab;
  readonly file: PageFile;
  readonly log: Log;
  readonly map: Radix;
  readonly bitmap: Radix;
  readonly slots: Slots;
  readonly versions: Versions;
  readonly loans: Loans;
  readonly overlay: Overlay;
  readonly path: string;
  readonly readOnly: boolean;
  /** The newest header in the file. */
  header: Header;
  /** Id of the newest commit. */
  commitId: number;
  nextPage: number;
  recent: IntTable;
  /** Pages of the running checkpoint. */
  closing: IntTable | undefined;
  /** Boundary of the running checkpoint. */
  boundary = -1;
  /** Replaced slots that place frames since the boundary name. */
  heldByLog: IntList;
  /** Slots that the last checkpoint replaced: free with the next (STORAGE rule 25). */
  retired: IntList;
  /** Free PageIds that may be handed out. */
  readonly freePages: IntList;
  /** First failure that made the state unknown; everything is refused until a reopen. */
  failed: DatabaseError | undefined;
  /** A check is looking for damage: finding it does not latch. */
  isChecking = false;
  evictedDirty = 0;
  /** Spilled pages that the open transaction has read back. */
  protected reloads = 0;
  #table: Int32Array;
  #far: IntTable | undefined;
  readonly #flatMax: number;
  #hand = 1;
  readonly #spare: BufferId[] = [];
  #isWriting = false;
  readonly #reserveBytes: number;

  constructor(parts: PagerParts) {
    const { ledger, slab, header } = parts;
    this.ledger = ledger;
    this.slab = slab;
    this.file = parts.file;
    this.log = parts.log;
    this.path = parts.path;
    this.readOnly = parts.readOnly;
    this.header = header;
    this.pageBytes = slab.pageBytes;
    this.pageShift = slab.pageShift;
    this.chunkShift = slab.chunkShift;
    this.chunkMask = slab.chunkMask;
    this.usableBytes = slab.pageBytes - header.reservedBytes;
    this.bytes = slab.bytes;
    this.words = slab.words;
    this.floats = slab.floats;
    const shared = { slab, file: parts.file, host: this, ledger };
    this.map = new Radix(0, this.pageBytes / 8, shared);
    this.bitmap = new Radix(1, this.pageBytes * 8, shared);
    this.map.reset(header.map);
    this.bitmap.reset(header.bitmap);
    this.slots = new Slots(this.bitmap, slab, slotsOf(header, this.file.slotsThere), ledger);
    this.versions = new Versions((version) => this.#discard(version), ledger);
    this.loans = new Loans(slab, ledger, (buffer) => this.unpin(buffer));
    this.overlay = new Overlay(ledger);
    this.recent = new IntTable(CHANGE_STRIDE, ledger, 'tables');
    this.heldByLog = new IntList(ledger, 'tables');
    this.retired = new IntList(ledger, 'tables');
    this.freePages = new IntList(ledger, 'tables');
    this.commitId = header.commit;
    this.nextPage = header.nextPage;
    this.#flatMax = Math.min(FLAT_PAGES_MAX, ledger.budgetBytes >> 6);
    this.#reserveBytes = Math.min(16 << 20, ledger.budgetBytes >> 3);
    this.#table = new Int32Array(0);
    ledger.addReclaimer((wanted) => this.#reclaim(wanted));
    this.coverPage(this.nextPage);
  }

  // ---- the page table

  protected entry(page: number): number {
    if (page < this.#table.length) return this.#table[page]!;
    return this.#far === undefined ? 0 : this.#far.get(page, 0);
  }

  protected setEntry(page: number, value: number): void {
    if (page < this.#table.length) this.#table[page] = value;
    else if (value === 0) this.#far?.delete(page);
    else this.#far!.values[this.#far!.put(page)] = value;
  }

  /** Makes the page table take a page, so that entering it cannot fail. */
  coverPage(page: number): void {
    if (page < this.#table.length) return;
    if (page >= this.#flatMax) {
      this.#far ??= new IntTable(1, this.ledger, 'tables');
      this.#far.reserve(64);
      page = this.#flatMax - 1;
      if (page < this.#table.length) return;
    }
    const before = this.#table.length;
    const length = Math.min(this.#flatMax, Math.max(page + 1, before * 2, 1024));
    this.ledger.charge('tables', length * 4);
    const larger = new Int32Array(length);
    larger.set(this.#table);
    this.#table = larger;
    this.ledger.release('tables', before * 4);
  }

  // ---- reading

  read(page: PageId, view: View): BufferId {
    const entry = page < this.#table.length ? this.#table[page]! : this.entry(page);
    if (entry > 0 && (view >= LATEST || this.slab.commit[entry]! <= view)) {
      this.slab.used[entry] = 1;
      return entry;
    }
    return this.#readSlowly(page, view);
  }

  #readSlowly(page: PageId, view: View): BufferId {
    const entry = this.entry(page);
    if (view === WRITER && entry < 0) return this.residentPrivate(-1 - entry);
    if (view < LATEST) {
      const version = this.versions.find(page, view);
      if (version !== undefined) return this.#readVersion(version);
    }
    const buffer = this.newest(page);
    if (this.slab.commit[buffer]! > view) {
      throw failure(
        'conflict.snapshot_expired',
        `page ${page} was changed after the snapshot of commit ${view}, which is not open any more`,
        { detail: { commit: view } },
      );
    }
    return buffer;
  }

  /** Buffer of a page as a snapshot sees it, 0 if it does not exist there. */
  readIfVisible(page: PageId, view: View): BufferId {
    const version = this.versions.find(page, view);
    if (version !== undefined) return this.#readVersion(version);
    if (this.entry(page) <= 0 && !this.locate(page)) return 0;
    const buffer = this.newest(page);
    return this.slab.commit[buffer]! > view ? 0 : buffer;
  }

  /** Buffer of the newest committed image of a page. */
  newest(page: PageId): BufferId {
    const entry = this.entry(page);
    const buffer = entry >= 0 ? entry : this.overlay.base[-1 - entry]!;
    if (buffer > 0) {
      this.slab.used[buffer] = 1;
      return buffer;
    }
    const loaded = this.#load(page);
    const now = this.entry(page); // making room may have spilled, never committed
    if (now >= 0) this.setEntry(page, loaded);
    else this.overlay.base[-1 - now] = loaded;
    return loaded;
  }

  /** Recovery: makes a buffer the newest image of a page. */
  enterNewest(page: PageId, buffer: BufferId): void {
    this.slab.page[buffer] = page;
    this.slab.used[buffer] = 1;
    this.slab.commit[buffer] = 0;
    this.setEntry(page, buffer);
  }

  /** Recovery: forgets the buffer of a page whose newest image lies elsewhere now. */
  dropNewest(page: PageId): void {
    const entry = this.entry(page);
    if (entry <= 0) return;
    this.setEntry(page, 0);
    this.giveUp(entry);
  }

  /** Forgets every page: the file moved on under a read-only storage. */
  forgetPages(): void {
    for (let b = 1; b < this.slab.count; b++) {
      if (this.slab.kind[b] !== CLEAN) continue;
      this.setEntry(this.slab.page[b]!, 0);
      this.giveUp(b);
    }
  }

  /** Whether a committed page exists; sets `foundSlot` (0: in a buffer) and `foundChecksum`. */
  locate(page: PageId): boolean {
    for (const table of [this.recent, this.closing]) {
      const place = table === undefined ? -1 : table.find(page);
      if (place < 0) continue;
      this.foundSlot = table!.values[place * CHANGE_STRIDE]!;
      this.foundChecksum = table!.values[place * CHANGE_STRIDE + 1]!;
      return this.foundSlot !== CHANGE_FREED;
    }
    return this.locateInMap(page);
  }

  foundSlot = 0;
  foundChecksum = 0;

  /** Looks a page up in the map, as `locate`. */
  locateInMap(page: PageId): boolean {
    const leaf = this.map.node(0, Math.floor(page / this.map.leafFan));
    if (leaf === 0) {
      this.foundSlot = 0;
      return false;
    }
    const w = (this.slab.offset(leaf) >> 2) + (page % this.map.leafFan) * 2;
    const words = this.slab.wordsOf(leaf);
    this.foundSlot = words[w]!;
    this.foundChecksum = words[w + 1]!;
    return this.foundSlot !== 0;
  }

  #load(page: PageId): BufferId {
    if (page <= 0 || !this.locate(page)) {
      throw this.corrupted(
        page,
        `page ${page} of ${this.path} is free, but something points to it`,
      );
    }
    const slot = this.foundSlot;
    const checksum = this.foundChecksum;
    assert(slot !== 0, 'a committed page without a slot is resident');
    const buffer = this.readSlot(page, slot, checksum);
    this.slab.kind[buffer] = CLEAN;
    return buffer;
  }

  /** Reads the image of a page from a slot into a new buffer of kind SCRATCH. */
  protected readSlot(page: PageId, slot: number, checksum: number): BufferId {
    const buffer = this.obtain();
    try {
      const whole = this.file.read(slot, buffer);
      const isTrusted = this.file.isVerified(slot) && !this.isChecking && !this.readOnly;
      const found = whole ? (isTrusted ? checksum : this.file.checksum(buffer)) : 0;
      if (!whole || found !== checksum) {
        const why = whole ? 'does not hold its checksum' : 'lies beyond the end of the file';
        throw this.corrupted(page, `page ${page} in slot ${slot} of ${this.path} ${why}`, {
          slot,
          expected: checksum,
          found,
        });
      }
      const w = this.slab.offset(buffer) >> 2;
      const id = this.slab.wordsOf(buffer)[w + (PAGE_ID_OFFSET >> 2)]!;
      if (id !== page) {
        throw this.corrupted(page, `slot ${slot} of ${this.path} holds page ${id}, not ${page}`);
      }
      if (!isTrusted) this.file.noteVerified(slot);
    } catch (cause) {
      this.slab.give(buffer);
      throw this.latch(cause);
    }
    this.slab.page[buffer] = page;
    this.slab.used[buffer] = 1;
    const at = (this.slab.offset(buffer) + PAGE_COMMIT_OFFSET) >> 3;
    this.slab.commit[buffer] = this.slab.floatsOf(buffer)[at]!;
    return buffer;
  }

  /** Buffer of a private page, read back if it was spilled. */
  protected residentPrivate(k: number): BufferId {
    const o = this.overlay;
    if (o.buffer[k] !== 0) return o.buffer[k]!;
    const page = o.page[k] as PageId;
    if (o.slot[k] === FREED) {
      throw this.corrupted(page, `page ${page} is read after the transaction freed it`);
    }
    const buffer = this.readSlot(page, o.slot[k]!, o.checksum[k]!);
    this.slab.kind[buffer] = PRIVATE;
    this.slab.owner[buffer] = k;
    o.buffer[k] = buffer;
    o.residentCount++;
    this.reloads++;
    return buffer;
  }

  #readVersion(version: Version): BufferId {
    if (version.buffer === 0) {
      const buffer = this.readSlot(version.page, version.slot, version.checksum);
      this.slab.kind[buffer] = VERSION;
      this.versions.setBuffer(version, buffer);
    }
    this.slab.used[version.buffer] = 1;
    return version.buffer;
  }

  corrupted(page: PageId, message: string, detail: Record<string, unknown> = {}): DatabaseError {
    return failure('corrupt.page', message, { detail: { path: this.path, page, ...detail } });
  }

  /** Notes a failure that makes the state unknown; answers the error to throw. */
  latch(cause: unknown): unknown {
    const { code } = cause as DatabaseError;
    if (code === 'storage.io' || String(code).startsWith('corrupt.')) {
      if (!this.readOnly && !this.isChecking) this.failed ??= cause as DatabaseError;
    }
    return cause;
  }

  /**
   * Latches a failure after which nobody knows what the files hold, a full disk included: that is
   * `storage.io` here, since rolling back would not help. Answers the error to throw.
   */
  latchUnknown(cause: unknown, what: string): unknown {
    const { code, message } = cause as DatabaseError;
    if (code !== 'storage.io' && code !== 'storage.full') return this.latch(cause);
    const detail = { ...(cause as DatabaseError).detail, path: this.path };
    return this.latch(failure('storage.io', `${what}: ${message}`, { cause, detail }));
  }

  // ---- buffers

  pageOf(buffer: BufferId): PageId {
    return this.slab.page[buffer] as PageId;
  }

  pin(buffer: BufferId): void {
    this.slab.pins[buffer]!++;
  }

  unpin(buffer: BufferId): void {
    assert(this.slab.pins[buffer]! > 0, 'a pinned buffer is unpinned');
    if (--this.slab.pins[buffer]! > 0 || this.slab.kind[buffer] !== FREE) return;
    this.slab.give(buffer); // it was given up while pinned
  }

  /** Gives a buffer back, or lets the last unpin do it. */
  protected giveUp(buffer: BufferId): void {
    if (this.slab.pins[buffer]! > 0) this.slab.kind[buffer] = FREE;
    else this.slab.give(buffer);
  }

  /** A buffer of kind SCRATCH, by growing or evicting. */
  obtain(): BufferId {
    let buffer = this.slab.take();
    if (buffer === 0 && this.mayGrow() && this.slab.tryGrow()) {
      while (this.#spare.length < SPARE_BUFFERS) this.#keepSpare(this.slab.take());
      buffer = this.slab.take();
    }
    if (buffer === 0) buffer = this.#evict();
    this.slab.kind[buffer] = SCRATCH;
    return buffer;
  }

  protected mayGrow(): boolean {
    return (
      this.slab.count === 0 ||
      this.ledger.availableBytes > this.#reserveBytes + this.slab.chunkBytes
    );
  }

  /** Makes a buffer free of its contents; answers one that is out of the free list. */
  #evict(): BufferId {
    const { kind, used, pins, count } = this.slab;
    let full: unknown; // a full disk: reading goes on with what need not be written
    for (let looked = 0; looked < count * 3; looked++) {
      const b = this.#hand++;
      if (this.#hand >= count) this.#hand = 1;
      const k = kind[b]!;
      if (k === FREE || k >= NODE_NEW || pins[b] !== 0 || b === 0) continue;
      if (k === PRIVATE && !this.#isWrittenPrivate(b)) continue;
      if (used[b] !== 0) used[b] = 0;
      else if (!this.#isWritten(b) && (this.#isWriting || full !== undefined)) continue;
      else {
        if (!this.#isWritten(b)) full = this.#tryWriteOut(b);
        if (full !== undefined && !this.#isWritten(b)) continue;
        this.#forget(b);
        if (this.#isWriting || this.#spare.length === SPARE_BUFFERS) return b;
        this.#keepSpare(b);
      }
    }
    const spare = this.#isWriting ? this.#spare.pop() : undefined;
    if (spare !== undefined) return spare;
    if (full !== undefined) throw full;
    throw failure(
      'limit.memory',
      `all ${count} pages that the memory holds are in use by open work`,
      {
        detail: { buffers: count, budgetBytes: this.ledger.budgetBytes },
      },
    );
  }

  #keepSpare(buffer: BufferId): void {
    this.slab.kind[buffer] = SCRATCH;
    this.#spare.push(buffer);
  }

  /** Whether the file has what a buffer holds, so that it may be forgotten. */
  #isWritten(buffer: BufferId): boolean {
    const kind = this.slab.kind[buffer]!;
    return kind === VERSION ? this.#versionHasSlot(buffer) : kind !== DIRTY;
  }

  /** A private page that was spilled and read back, but not edited since: its slot has it. */
  #isWrittenPrivate(buffer: BufferId): boolean {
    return this.overlay.slot[this.slab.owner[buffer]!]! > 0;
  }

  /** Removes what names a buffer whose contents the file has. */
  #forget(buffer: BufferId): void {
    const page = this.slab.page[buffer]!;
    switch (this.slab.kind[buffer]) {
      case CLEAN: {
        const entry = this.entry(page);
        if (entry === buffer) this.setEntry(page, 0);
        else if (entry < 0) this.overlay.base[-1 - entry] = 0;
        break;
      }
      case VERSION: {
        const version = this.versions.ofBuffer(buffer);
        assert(version !== undefined, 'a version has its buffer');
        this.versions.setBuffer(version, 0);
        break;
      }
      case PRIVATE:
        this.overlay.leaveBuffer(this.slab.owner[buffer]!);
        break;
      case NODE:
        (treeOfNodeKey(page) === 0 ? this.map : this.bitmap).forget(page);
        break;
      default:
        assert(false, 'only what the file has is forgotten');
    }
  }

  /** As `#writeOut`; answers the failure if the disk is full. */
  #tryWriteOut(first: BufferId): unknown {
    try {
      this.#writeOut(first);
      return undefined;
    } catch (cause) {
      if (!isFull(cause)) throw cause;
      return cause;
    }
  }

  /** Writes a dirty page or version to a slot, and others that are as little used with it. */
  #writeOut(first: BufferId): void {
    const { kind, used, pins, count } = this.slab;
    const buffers = [first];
    for (let i = 1; i < WRITE_LOOK && buffers.length < this.file.runMax; i++) {
      const b = first + i;
      if (b >= count) break;
      if (kind[b] !== DIRTY && kind[b] !== VERSION) continue;
      if (used[b] === 0 && pins[b] === 0) buffers.push(b);
    }
    const waiting = buffers.filter((b) => !this.#isWritten(b));
    this.evictedDirty += waiting.length;
    this.writeBuffers(waiting, (b, slot, checksum) => this.imageLocated(b, slot, checksum));
  }

  #versionHasSlot(buffer: BufferId): boolean {
    return this.versions.ofBuffer(buffer)!.slot !== 0;
  }

  /**
   * Writes buffers to free slots, in runs; `place` is told where each went after its run is
   * written. On failure the slots of the run are free again and nothing was told of it.
   */
  writeBuffers(
    buffers: readonly BufferId[],
    place: (buffer: BufferId, slot: number, checksum: number) => void,
  ): void {
    for (const buffer of buffers) this.pin(buffer);
    this.#isWriting = true;
    try {
      for (let done = 0; done < buffers.length; done += this.slots.taken) {
        const first = this.slots.takeRun(Math.min(buffers.length - done, this.file.runMax));
        this.#writeRun(buffers, done, first, this.slots.taken);
        for (let i = 0; i < this.slots.taken; i++) {
          const buffer = buffers[done + i]!;
          place(buffer, first + i, this.file.checksum(buffer));
        }
      }
    } finally {
      this.#isWriting = false;
      for (const buffer of buffers) this.unpin(buffer);
    }
  }

  #writeRun(buffers: readonly BufferId[], from: number, first: number, count: number): void {
    try {
      for (let i = 0; i < count; i++) this.file.stage(first + i, buffers[from + i]!);
      this.file.finish();
    } catch (cause) {
      this.file.abandon();
      for (let i = 0; i < count; i++) this.slots.drop(first + i);
      if (isFull(cause)) this.slots.noteFull(this.file.slotsThere);
      throw this.latch(cause);
    }
  }

  /**
   * Grows the file by so many slots, before anything is written to them.
   *
   * @throws {StorageError} storage.full
   */
  growFile(slots: number): void {
    const { file } = this;
    try {
      file.grow(Math.max(this.slots.count, file.slotsThere) + slots);
      this.slots.cannotGrow = false;
    } catch (cause) {
      this.slots.cannotGrow = isFull(cause);
      throw this.latch(cause);
    } finally {
      this.slots.growTo(file.slotsThere);
    }
  }

  /** Notes the slot of a dirty newest image, which is clean with that. */
  #located(buffer: BufferId, slot: number, checksum: number): void {
    const page = this.slab.page[buffer]!;
    let table = this.recent;
    let place = table.find(page);
    if (place < 0) {
      table = this.closing!;
      place = table.find(page);
    }
    assert(place >= 0 && table.values[place * CHANGE_STRIDE] === 0, 'a dirty page has no slot');
    table.values[place * CHANGE_STRIDE] = slot;
    table.values[place * CHANGE_STRIDE + 1] = checksum;
    this.slab.kind[buffer] = CLEAN;
  }

  /** Notes the slot of a version; the running checkpoint adopts it if it is its image. */
  #versionLocated(version: Version, slot: number, checksum: number): void {
    version.slot = slot;
    version.checksum = checksum;
    if (this.closing === undefined) return;
    if (version.commit > this.boundary || version.until <= this.boundary) return;
    const place = this.closing.find(version.page);
    if (place < 0 || this.closing.values[place * CHANGE_STRIDE] !== 0) return;
    this.slots.hold(slot);
    this.closing.values[place * CHANGE_STRIDE] = slot;
    this.closing.values[place * CHANGE_STRIDE + 1] = checksum;
  }

  /** Buffer of a page as of the boundary of the running checkpoint; it has no slot yet. */
  boundaryBuffer(page: PageId): BufferId {
    const version = this.versions.find(page, this.boundary);
    if (version !== undefined) return version.buffer;
    return this.newest(page);
  }

  /** Notes the slot of a dirty page or a version that was written. */
  imageLocated(buffer: BufferId, slot: number, checksum: number): void {
    if (this.slab.kind[buffer] === DIRTY) this.#located(buffer, slot, checksum);
    else this.#versionLocated(this.versions.ofBuffer(buffer)!, slot, checksum);
  }

  #discard(version: Version): void {
    if (version.buffer !== 0) this.giveUp(version.buffer);
    if (version.slot !== 0) this.slots.drop(version.slot);
  }

  /** Gives memory of the cache back to the budget, chunk by chunk from the end. */
  #reclaim(wanted: number): number {
    let given = 0;
    while (given < wanted && this.giveChunkBack()) given += this.slab.chunkBytes;
    return given;
  }

  /** Gives the last chunk of the slab back to the budget; false if something in it must stay. */
  protected giveChunkBack(): boolean {
    return this.#emptyLastChunk() && this.slab.tryShrink();
  }

  #emptyLastChunk(): boolean {
    const { slab } = this;
    const { count } = slab;
    if (!slab.maySpareChunk) return false;
    const first = count - (1 << this.chunkShift);
    for (const b of this.#spare.filter((each) => each >= first)) {
      this.#spare.splice(this.#spare.indexOf(b), 1); // the next eviction keeps another one
      slab.give(b);
    }
    for (let b = first; b < count; b++) {
      const kind = slab.kind[b]!;
      if (slab.pins[b] !== 0 || kind >= NODE_NEW) return false;
      if (kind === PRIVATE && !this.#isWrittenPrivate(b)) return false;
    }
    for (let b = first; b < count; b++) {
      if (slab.kind[b] === FREE) continue;
      if (!this.#isWritten(b)) this.#writeOut(b);
      this.#forget(b);
      slab.give(b);
    }
    if (this.#hand >= first) this.#hand = 1;
    return true;
  }

  /** Lets slots that the last checkpoint replaced be written again, readers or not. */
  releaseRetired(): void {
    for (const slot of this.retired.items()) this.slots.drop(slot);
    this.retired.clear();
  }

  /**
   * Takes over the slots that a complete checkpoint replaced. They rest until the next one, so
   * that read-only processes seldom have to look again, but no more than a share of the file:
   * what rests makes the file grow, and readers are safe without it (rule 25).
   */
  retire(replaced: IntList): void {
    this.releaseRetired();
    const most = this.slots.cannotGrow ? 0 : Math.floor(this.slots.count / RETIRED_SHARE);
    while (replaced.count > most) this.slots.drop(replaced.pop()!);
    this.retired = replaced;
  }

  // ---- the files; a failure latches

  /** Syncs the data file; answers whether there was anything to sync. */
  syncFile(): boolean {
    try {
      return this.file.sync();
    } catch (cause) {
      throw this.latch(cause);
    }
  }

  /** Writes out and syncs the log; answers whether there was anything to sync. */
  syncLog(): boolean {
    try {
      this.log.write();
      return this.log.sync();
    } catch (cause) {
      throw this.latch(cause);
    }
  }

  /** Writes both copies of a header, each followed by a sync, and makes it the newest. */
  writeHeader(header: Header): void {
    try {
      for (const ordinal of [0, 1]) {
        writeHeaderCopy(this.file.file, header, ordinal);
        this.file.file.sync();
      }
    } catch (cause) {
      throw this.latchUnknown(cause, 'the header was not written');
    }
    this.header = header;
  }

  // ---- the end

  /** Gives every buffer and table back. */
  dispose(): void {
    this.map.forgetAll();
    this.bitmap.forgetAll();
    this.versions.dispose();
    this.loans.dispose();
    this.overlay.dispose();
    this.recent.dispose();
    this.closing?.dispose();
    this.#far?.dispose();
    this.slots.dispose();
    this.heldByLog.clear();
    this.retired.clear();
    this.freePages.clear();
    this.ledger.release('tables', this.#table.byteLength);
    this.#table = new Int32Array(0);
    this.slab.dispose();
  }
}

/** Slots that a file has: closing cuts it after the header says how many there are. */
function slotsOf({ slotCount, bitmap }: Header, slotsThere: number): number {
  return bitmap.usedCount > slotsThere ? slotCount : Math.min(slotCount, slotsThere);
}
