/**
 * The writing side of the pager: the open transaction's private pages, savepoints, spilling, and
 * publishing at commit. It implements `Pages` for the trees.
 *
 *   edit ─> private copy ── commit: frames in the log ──> newest image, dirty ─┐
 *                │ too many                                    │ evicted         │ checkpoint
 *                v                                             v                 v
 *             spilled ── commit: place frame ────────>  in a slot only known here ──> in the map
 *
 * Laws kept here and in the parts: S1 (slots.ts), S2 S6 (log-reader.ts, recovery.ts), S3
 * (versions.ts), S5 (checkpoint.ts), S8. Rules: STORAGE.md.
 */
import { assert } from '../base/assert.ts';
import { IntList } from '../base/int-list.ts';
import { failure, isFull } from '../errors.ts';
import { FREED, NEW, type Saved, USED } from './overlay.ts';
import { CHANGE_FREED, CHANGE_IN_LOG, CHANGE_STRIDE, PageCache } from './page-cache.ts';
import {
  type BufferId,
  NO_PAGE,
  PAGE_COMMIT_OFFSET,
  PAGE_ID_OFFSET,
  PAGE_STRUCTURE_OFFSET,
  type PageId,
  type Pages,
  type StructureId,
} from './pages.ts';
import { SlotReserve } from './slot-reserve.ts';
import { CLEAN, DIRTY, PRIVATE, VERSION } from './slab.ts';
import { type Version } from './versions.ts';

const PAGES_MAX = 2 ** 31 - 2;
/** Private pages that are spilled together. */
const SPILL_PAGES = 64;
/** Share of the buffers that private pages may take before they are spilled. */
const PRIVATE_SHARE = 0.4;

export class Pager extends PageCache implements Pages {
  inTransaction = false;
  spilledPages = 0;
  readonly reserve = new SlotReserve(this);
  #scannedLeaves = 0;
  #savedBuffers = 0;
  #versionsKept = 0;
  /** New pages that are in memory, in no order; unused while the transaction edits all of them. */
  readonly #ring = new IntList(this.ledger, 'transaction');
  #ringHand = 0;
  #ringSpilled = 0;
  #ringStopped = false;
  /** What a step of a transaction may be charged beyond the overlay's arrays. */
  readonly #headroomBytes = Math.min(1 << 20, this.ledger.budgetBytes >> 5);

  // ---- the open transaction

  begin(): void {
    assert(!this.inTransaction, 'one transaction at a time');
    this.inTransaction = true;
    this.#ringStopped = false;
    this.#ringSpilled = 0;
    this.reloads = 0;
  }

  edit(page: PageId): BufferId {
    const entry = this.entry(page);
    if (entry < 0) {
      const k = -1 - entry;
      const o = this.overlay;
      if (o.layer[k] === o.layers.length && o.slot[k] === 0 && o.buffer[k] !== 0) {
        o.flags[k] = o.flags[k]! | USED;
        return o.buffer[k]!;
      }
      return this.#editAgain(k);
    }
    assert(this.inTransaction, 'pages are edited in a transaction');
    this.overlay.reserve();
    const base = entry > 0 ? entry : this.newest(page);
    this.pin(base);
    const buffer = this.#privateBuffer(base);
    this.slab.copy(base, buffer);
    this.unpin(base);
    return this.#enterPrivate(page, buffer, base, this.slab.commit[base]!, 0);
  }

  #privateBuffer(pinned: BufferId): BufferId {
    try {
      return this.obtain();
    } catch (cause) {
      if (pinned !== 0) this.unpin(pinned);
      throw cause;
    }
  }

  #enterPrivate(
    page: PageId,
    buffer: BufferId,
    base: BufferId,
    baseCommit: number,
    flags: number,
  ): BufferId {
    const k = this.overlay.add(page, buffer, base, baseCommit, flags);
    this.slab.kind[buffer] = PRIVATE;
    this.slab.page[buffer] = page;
    this.slab.owner[buffer] = k;
    this.slab.used[buffer] = 1;
    this.setEntry(page, -1 - k);
    return buffer;
  }

  /** An edit of a page that has a private image: spilled, or of an older layer. */
  #editAgain(k: number): BufferId {
    const o = this.overlay;
    assert(o.slot[k] !== FREED, 'a freed page is not edited');
    const older = o.layer[k]! < o.layers.length;
    const buffer = this.residentPrivate(k);
    this.pin(buffer);
    try {
      if (older) this.#save(k);
      else if (o.slot[k] !== 0) this.slots.drop(o.slot[k]!);
    } finally {
      this.unpin(buffer);
    }
    o.slot[k] = 0;
    o.layer[k] = o.layers.length;
    o.flags[k] = o.flags[k]! | USED;
    return buffer;
  }

  /** Saves the image that a page has in an older layer, before the newest layer changes it. */
  #save(k: number): void {
    const o = this.overlay;
    const layer = o.layers.at(-1)!;
    assert(k < layer.count, 'a page of an older layer was there at the savepoint');
    o.chargeSaved();
    let copy = 0;
    try {
      if (o.slot[k] === 0 && o.buffer[k] !== 0 && this.#privateShareTaken()) this.placePrivate([k]);
      if (o.slot[k] === 0 && o.buffer[k] !== 0) copy = this.obtain();
    } catch (cause) {
      o.unchargeSaved();
      throw cause;
    }
    if (copy !== 0) {
      this.slab.copy(o.buffer[k]!, copy);
      this.#savedBuffers++;
    }
    layer.saved.push({
      ordinal: k,
      buffer: copy,
      slot: o.slot[k]!, // the saved image takes over the name of a written one
      checksum: o.checksum[k]!,
      hull: o.hull.slice(k * 4, k * 4 + 4),
      layer: o.layer[k]!,
    });
  }

  allocate(structure: StructureId): BufferId {
    assert(this.inTransaction, 'pages are allocated in a transaction');
    this.overlay.reserve();
    const page = this.#newPageId();
    let buffer = 0;
    try {
      this.coverPage(page);
      buffer = this.obtain();
    } catch (cause) {
      this.freePages.tryPush(page);
      throw cause;
    }
    this.slab.zero(buffer);
    const w = this.slab.offset(buffer) >> 2;
    const words = this.slab.wordsOf(buffer);
    words[w + (PAGE_ID_OFFSET >> 2)] = page;
    words[w + (PAGE_STRUCTURE_OFFSET >> 2)] = structure;
    this.#enterPrivate(page, buffer, 0, 0, NEW);
    const k = this.slab.owner[buffer]!;
    this.overlay.mark(k, 0, 0, PAGE_COMMIT_OFFSET);
    if (!this.#ringStopped) this.#ring.tryPush(k);
    return buffer;
  }

  #newPageId(): PageId {
    const found = this.freePages.pop() ?? this.#freePageOfMap();
    if (found !== undefined) return found as PageId;
    if (this.nextPage >= PAGES_MAX) {
      throw failure('limit.log', `the file has ${this.nextPage} pages; no more are possible`);
    }
    return this.nextPage++ as PageId;
  }

  /** Looks through the leaves of the map, each once, for free PageIds of earlier processes. */
  #freePageOfMap(): number | undefined {
    const fan = this.map.leafFan;
    const known = this.header.nextPage;
    if (this.map.root.usedCount >= known - 1) return undefined;
    while (this.#scannedLeaves * fan < known) {
      const leaf = this.#scannedLeaves++;
      const first = Math.max(1, leaf * fan);
      const last = Math.min(known, (leaf + 1) * fan);
      if (this.map.usedUnder(leaf) >= last - first) continue;
      for (let page = last - 1; page >= first; page--) {
        const id = page as PageId;
        if (this.entry(id) === 0 && !this.#everChanged(id) && !this.locateInMap(id)) {
          this.freePages.tryPush(id);
        }
      }
      if (this.freePages.count > 0) return this.freePages.pop();
    }
    return undefined;
  }

  #everChanged(page: PageId): boolean {
    return this.recent.find(page) >= 0 || (this.closing?.find(page) ?? -1) >= 0;
  }

  free(page: PageId): void {
    assert(page !== NO_PAGE && this.inTransaction, 'a page is freed in a transaction');
    const o = this.overlay;
    const entry = this.entry(page);
    if (entry >= 0) {
      o.reserve();
      const commit = entry > 0 ? this.slab.commit[entry]! : 0; // 0: unknown, kept for any snapshot
      const k = o.add(page, 0, entry, commit, 0);
      o.slot[k] = FREED;
      this.setEntry(page, -1 - k);
      return;
    }
    const k = -1 - entry;
    assert(o.slot[k] !== FREED, `page ${page} is freed once`);
    if (o.layer[k]! < o.layers.length) this.#save(k);
    else if (o.slot[k] !== 0) this.slots.drop(o.slot[k]!);
    this.#dropPrivateBuffer(k);
    o.slot[k] = FREED;
    o.layer[k] = o.layers.length;
  }

  #dropPrivateBuffer(k: number): void {
    const o = this.overlay;
    if (o.buffer[k] === 0) return;
    this.giveUp(o.buffer[k]!);
    o.leaveBuffer(k);
  }

  markFront(buffer: BufferId, from: number, to: number): void {
    this.overlay.mark(this.slab.owner[buffer]!, 0, from, to);
  }

  markBack(buffer: BufferId, from: number, to: number): void {
    this.overlay.mark(this.slab.owner[buffer]!, 2, from, to);
  }

  noteMove(buffer: BufferId, from: number, to: number, length: number): void {
    this.overlay.noteMove(this.slab.owner[buffer]!, from, to, length);
  }

  // ---- spilling

  settle(): void {
    const needed = this.overlay.growthBytes + this.#headroomBytes;
    if (needed > this.ledger.availableBytes) this.ensureRoom(needed);
    const pages = Math.min(SPILL_PAGES, this.slab.count >> 3);
    const ringBytes = this.#ring.count * this.pageBytes;
    if (ringBytes * 4 > this.log.segmentBytes) this.#spillRing(pages);
    if (this.overlay.residentCount < pages || !this.#privateShareTaken()) return;
    if (this.mayGrow() && this.slab.tryGrow()) return;
    this.#spill(this.#longestUnused(pages));
  }

  /**
   * New pages beyond a quarter of a segment are placed by the commit in any case (commit.ts), so
   * from there on those not edited lately are written while the transaction goes on. A load so
   * takes a ring of buffers, which stay in the processor's caches, and leaves the others what they
   * hold. It ends when the transaction is found to come back to its pages. Source: PostgreSQL,
   * src/backend/storage/buffer/README, "Buffer Ring Replacement Strategy".
   */
  #spillRing(count: number): void {
    const o = this.overlay;
    const ring = this.#ring;
    const chosen: number[] = [];
    for (let looked = ring.count * 2; looked > 0 && chosen.length < count; looked--) {
      if (this.#ringHand >= ring.count) this.#ringHand = 0;
      const k = ring.at(this.#ringHand);
      if (o.buffer[k] !== 0 && (o.flags[k]! & USED) !== 0) {
        o.flags[k] = o.flags[k]! & ~USED;
        this.#ringHand++;
        continue;
      }
      ring.takeAt(this.#ringHand);
      if (o.buffer[k] !== 0) chosen.push(k);
    }
    this.#ringSpilled += chosen.length;
    if (this.reloads * 8 > this.#ringSpilled) {
      this.#ringStopped = true;
      ring.clear();
    }
    this.#spill(chosen);
  }

  /** What a ring still holds: a commit places it too, since it syncs slots in any case. */
  get leftInRing(): number[] {
    const o = this.overlay;
    if (this.#ringSpilled === 0) return [];
    return [...this.#ring.items()].filter((k) => o.buffer[k] !== 0 && o.slot[k] === 0);
  }

  #privateShareTaken(): boolean {
    return this.overlay.residentCount + this.#savedBuffers > this.slab.count * PRIVATE_SHARE;
  }

  /**
   * Makes the budget have room for `bytes`, giving chunks of the cache back; the caller holds no
   * buffer. It may not succeed: the charge that follows then fails with `limit.memory`.
   */
  ensureRoom(bytes: number): void {
    while (this.ledger.availableBytes < bytes && this.slab.maySpareChunk) {
      const first = this.slab.count - (1 << this.chunkShift);
      const inLast: number[] = [];
      for (let k = 0; k < this.overlay.count; k++) {
        if (this.overlay.buffer[k]! >= first) inLast.push(k);
      }
      for (let i = 0; i < inLast.length; i += SPILL_PAGES) {
        this.#spill(inLast.slice(i, i + SPILL_PAGES));
      }
      if (!this.giveChunkBack()) return;
    }
  }

  /** As the store asks for it. */
  makeRoom(byteCount: number): void {
    this.ensureRoom(byteCount);
  }

  /** Ordinals of resident private pages that were not edited for the longest time. */
  #longestUnused(count: number): number[] {
    const o = this.overlay;
    const chosen: number[] = [];
    for (let looked = 0; looked < o.count * 2 && chosen.length < count; looked++) {
      if (o.hand >= o.count) o.hand = 0;
      const k = o.hand++;
      if (o.buffer[k] === 0) continue;
      if ((o.flags[k]! & USED) !== 0) {
        o.flags[k] = o.flags[k]! & ~USED;
        continue;
      }
      o.flags[k] = o.flags[k]! | USED; // so that coming round again does not choose it twice
      chosen.push(k);
    }
    return chosen;
  }

  /** Writes private pages to slots, as of the commit that is being made. */
  #spill(ordinals: readonly number[]): void {
    const o = this.overlay;
    const unpinned = ordinals.filter((k) => this.slab.pins[o.buffer[k]!] === 0);
    for (const k of unpinned) if (o.slot[k] !== 0) this.#dropPrivateBuffer(k);
    const waiting = unpinned.filter((k) => o.slot[k] === 0);
    waiting.sort((a, b) => o.page[a]! - o.page[b]!);
    this.placePrivate(waiting);
    for (const k of waiting) this.#dropPrivateBuffer(k);
    this.spilledPages += waiting.length;
  }

  /** Writes private pages to slots; their buffers stay. */
  placePrivate(ordinals: readonly number[]): void {
    const o = this.overlay;
    this.#securePlaces(ordinals.length);
    for (const k of ordinals) this.stampCommit(o.buffer[k]!, this.commitId + 1);
    const buffers = ordinals.map((k) => o.buffer[k]!);
    this.writeBuffers(buffers, (buffer, slot, checksum) => {
      const k = this.slab.owner[buffer]!;
      o.slot[k] = slot;
      o.checksum[k] = checksum;
      o.dropMoves(k);
    });
  }

  /** Private pages leave the slots that what is committed needs (rule 14). */
  #securePlaces(count: number): void {
    try {
      this.reserve.secure(count);
    } catch (cause) {
      if (!isFull(cause) || this.reserve.lack(count, false) > 0) throw cause;
    }
  }

  /** Writes a commit id into the header of a page. */
  stampCommit(buffer: BufferId, commit: number): void {
    this.slab.floatsOf(buffer)[(this.slab.offset(buffer) + PAGE_COMMIT_OFFSET) >> 3] = commit;
    this.slab.commit[buffer] = commit;
  }

  // ---- taking back

  /** Drops every private page. */
  rollback(): void {
    const o = this.overlay;
    this.#ring.clear();
    while (o.layers.length > 0) for (const saved of o.popLayer().saved) this.#dropSaved(saved);
    for (let k = o.count - 1; k >= 0; k--) this.#undoPrivate(k);
    o.reset();
    this.inTransaction = false;
  }

  #undoPrivate(k: number): void {
    const o = this.overlay;
    const page = o.page[k] as PageId;
    this.#dropPrivateBuffer(k);
    if (o.slot[k]! > 0) this.slots.drop(o.slot[k]!);
    this.setEntry(page, o.base[k]!);
    if ((o.flags[k]! & NEW) !== 0) this.freePages.tryPush(page);
  }

  #dropSaved(saved: Saved): void {
    if (saved.buffer !== 0) {
      this.slab.give(saved.buffer);
      this.#savedBuffers--;
    }
    if (saved.slot > 0) this.slots.drop(saved.slot);
  }

  /** Opens a savepoint; answers its number. */
  savepoint(): number {
    assert(this.inTransaction, 'savepoints are made in a transaction');
    this.overlay.layers.push({ count: this.overlay.count, saved: [] });
    return this.overlay.layers.length;
  }

  /** Takes back everything since a savepoint, which stays open. */
  rollbackTo(savepoint: number): void {
    const o = this.overlay;
    assert(savepoint >= 1 && savepoint <= o.layers.length, 'the savepoint is open');
    this.#ring.clear(); // their ordinals are given to others
    while (o.layers.length >= savepoint) {
      const layer = o.popLayer();
      for (let i = layer.saved.length - 1; i >= 0; i--) this.#restore(layer.saved[i]!);
      for (let k = o.count - 1; k >= layer.count; k--) this.#undoPrivate(k);
      o.count = layer.count;
    }
    this.savepoint();
  }

  #restore(saved: Saved): void {
    const o = this.overlay;
    const k = saved.ordinal;
    if (o.slot[k]! > 0) this.slots.drop(o.slot[k]!);
    this.#dropPrivateBuffer(k);
    if (saved.buffer !== 0) {
      this.#savedBuffers--;
      o.buffer[k] = saved.buffer;
      o.residentCount++;
      this.slab.kind[saved.buffer] = PRIVATE;
      this.slab.page[saved.buffer] = o.page[k]!;
      this.slab.owner[saved.buffer] = k;
    }
    o.slot[k] = saved.slot;
    o.checksum[k] = saved.checksum;
    o.layer[k] = saved.layer;
    o.hull.set(saved.hull, k * 4);
    o.dropMoves(k); // only hints
  }

  /** Forgets a savepoint and those after it; their changes stay. */
  release(savepoint: number): void {
    const o = this.overlay;
    assert(savepoint >= 1 && savepoint <= o.layers.length, 'the savepoint is open');
    while (o.layers.length >= savepoint) {
      for (const saved of o.mergeLayer()) this.#dropSaved(saved);
    }
  }

  // ---- publishing (called by commit.ts after the commit frame)

  /** Makes private page `k` the newest committed image. */
  publish(k: number, commit: number): void {
    const o = this.overlay;
    const page = o.page[k] as PageId;
    const freed = o.slot[k] === FREED;
    const isNew = (o.flags[k]! & NEW) !== 0;
    if (freed && isNew) {
      this.setEntry(page, 0);
      this.freePages.tryPush(page);
      return;
    }
    const before = this.recent.find(page);
    const place = this.recent.put(page) * CHANGE_STRIDE;
    const { values } = this.recent;
    if (!isNew) this.#retireImage(k, commit, before * CHANGE_STRIDE);
    else assert(values[place]! <= 0, 'a new page had no image');
    values[place] = freed ? CHANGE_FREED : o.slot[k]!;
    values[place + 1] = o.checksum[k]!;
    values[place + 2] = o.slot[k]! > 0 ? CHANGE_IN_LOG : 0;
    const buffer = o.buffer[k]!;
    this.setEntry(page, buffer);
    if (freed) this.freePages.tryPush(page);
    if (buffer === 0) return;
    this.stampCommit(buffer, commit);
    this.slab.kind[buffer] = o.slot[k]! > 0 ? CLEAN : DIRTY;
  }

  /** The image that a commit replaces becomes a version, or its memory and slot are given back. */
  #retireImage(k: number, commit: number, place: number): void {
    const o = this.overlay;
    const { values } = this.recent;
    const page = o.page[k] as PageId;
    const base = o.base[k]!;
    const slot = place < 0 ? 0 : values[place]!;
    const checksum = place < 0 ? 0 : values[place + 1]!;
    const inLog = place >= 0 && (values[place + 2]! & CHANGE_IN_LOG) !== 0;
    if (slot > 0 && inLog) this.heldByLog.push(slot);
    if (!this.versions.needs(o.baseCommit[k]!)) {
      if (base !== 0) this.giveUp(base);
      if (slot > 0 && !inLog) this.slots.drop(slot);
      return;
    }
    const version = { page, commit: o.baseCommit[k]!, until: commit, buffer: base, slot, checksum };
    if (slot > 0 && inLog) this.slots.hold(slot);
    if (place < 0) this.#nameOldSlot(version, k);
    if (base !== 0) this.slab.kind[base] = VERSION;
    this.versions.keep(version);
    this.#versionsKept++;
  }

  /** Lets a version name the slot that the checkpoint or the map has for its image. */
  #nameOldSlot(version: Version, k: number): void {
    const place = this.closing?.find(version.page) ?? -1;
    const values = this.closing?.values;
    version.slot = place >= 0 ? values![place * CHANGE_STRIDE]! : this.overlay.oldSlot[k]!;
    version.checksum =
      place >= 0 ? values![place * CHANGE_STRIDE + 1]! : this.overlay.oldChecksum[k]!;
    assert(version.slot > 0 || version.buffer !== 0, 'a version has a buffer or a slot');
    if (version.slot > 0) this.slots.hold(version.slot);
  }

  /**
   * Does for publishing what can fail: room in the tables, and the slots of images that snapshots
   * need and that are not in buffers only.
   */
  preparePublish(): number {
    const o = this.overlay;
    this.ensureRoom(this.recent.growthBytes(o.count) + this.versions.bytesFor(o.count));
    this.recent.reserve(o.count);
    this.heldByLog.reserve(o.count);
    let needed = 0;
    for (let k = 0; k < o.count; k++) {
      if ((o.flags[k]! & NEW) !== 0 || !this.versions.needs(o.baseCommit[k]!)) continue;
      needed++;
      const base = o.base[k]!;
      if (base !== 0 && this.slab.kind[base] === DIRTY) continue;
      if (!this.locate(o.page[k] as PageId)) continue;
      if (this.foundSlot > 0) this.slots.load(this.foundSlot);
      o.oldSlot[k] = this.foundSlot;
      o.oldChecksum[k] = this.foundChecksum;
    }
    this.versions.reserve(needed);
    return needed;
  }

  /** Ends a commit whose pages are published; `reserved` versions were charged for it. */
  endCommit(commit: number, reserved: number): void {
    this.versions.unreserve(reserved - this.#versionsKept);
    this.#versionsKept = 0;
    this.#ring.clear();
    this.commitId = commit;
    while (this.overlay.layers.length > 0) {
      for (const saved of this.overlay.popLayer().saved) this.#dropSaved(saved);
    }
    this.overlay.reset();
    this.inTransaction = false;
  }
}
