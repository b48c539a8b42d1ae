/**
 * Two implementations of the `Pages` seam in memory.
 *
 * `MemoryPages` is an adversary: every read, edit and allocate takes away all unpinned buffers
 * that were read before (their bytes become 0xA5), `settle` moves private pages too, and `commit`
 * compares every private page with its base and fails for a byte that changed outside the marked
 * hulls. It also counts what a log of moves and ranges would hold, so that tests can bound the
 * bytes logged (FEASIBILITY 15.3).
 *
 * `PlainPages` does none of that: one buffer a page, for profiles.
 */
import { failure } from '../../src/errors.ts';
import {
  LATEST,
  PAGE_COMMIT_OFFSET,
  WRITER,
  type BufferId,
  type PageId,
  type Pages,
  type StructureId,
  type View,
} from '../../src/storage/pages.ts';

const POISON = 0xa5;
const BUFFERS_PER_CHUNK = 16;

interface Version {
  readonly commit: number;
  /** `undefined` when the page is free as of that commit. */
  readonly image: Uint8Array | undefined;
}

interface Private {
  buffer: BufferId;
  readonly base: Uint8Array;
  readonly isNew: boolean;
  frontFrom: number;
  frontTo: number;
  backFrom: number;
  backTo: number;
  readonly moves: number[];
}

/** The slab that both implementations share. */
class Slab {
  readonly pageBytes: number;
  readonly pageShift: number;
  readonly chunkShift = Math.log2(BUFFERS_PER_CHUNK);
  readonly chunkMask = BUFFERS_PER_CHUNK - 1;
  readonly usableBytes: number;
  readonly bytes: Uint8Array[] = [];
  readonly words: Int32Array[] = [];
  readonly floats: Float64Array[] = [];
  protected bufferCount = 0;

  constructor(pageBytes: number, reservedBytes = 0) {
    this.pageBytes = pageBytes;
    this.pageShift = Math.log2(pageBytes);
    this.usableBytes = pageBytes - reservedBytes;
  }

  protected addBuffer(): BufferId {
    if (this.bufferCount === this.bytes.length * BUFFERS_PER_CHUNK) {
      const chunk = new ArrayBuffer(this.pageBytes * BUFFERS_PER_CHUNK);
      this.bytes.push(new Uint8Array(chunk));
      this.words.push(new Int32Array(chunk));
      this.floats.push(new Float64Array(chunk));
    }
    return this.bufferCount++;
  }

  protected pageBytesOf(buffer: BufferId): Uint8Array {
    const from = (buffer & this.chunkMask) << this.pageShift;
    return this.bytes[buffer >> this.chunkShift]!.subarray(from, from + this.pageBytes);
  }
}

export class MemoryPages extends Slab implements Pages {
  /** Operations until one throws `limit.memory`; negative: never. */
  failAfter = -1;
  /** Bytes that the log of all commits so far would hold, and frames. */
  loggedBytes = 0;
  loggedFrames = 0;
  commitId = 0;
  readonly #versions = new Map<PageId, Version[]>();
  readonly #private = new Map<PageId, Private>();
  readonly #freed = new Set<PageId>();
  #freeIds: PageId[] = [];
  #transactionFreeIds: PageId[] = [];
  #nextId = 1;
  #nextIdAtBegin = 1;
  readonly #pages: PageId[] = [];
  readonly #pins: number[] = [];
  readonly #freeBuffers: BufferId[] = [];
  /** Unpinned buffers of committed images handed out since the last call. */
  #lent: BufferId[] = [];
  /** Pinned buffers of committed images, by page and commit. */
  readonly #held = new Map<string, BufferId>();
  readonly #heldKeys = new Map<BufferId, string>();
  /** Private pages handed out since the last settle. */
  #touched = new Set<PageId>();

  /** Pages that exist for the writer. */
  get pageCount(): number {
    let count = 0;
    for (const [page] of this.#versions) {
      if (!this.#private.has(page) && !this.#freed.has(page) && this.#image(page, LATEST)) count++;
    }
    return count + this.#private.size;
  }

  get pinCount(): number {
    return this.#pins.reduce((sum, pins) => sum + (pins ?? 0), 0);
  }

  /** Ids of all pages that exist for the view. */
  pageIds(view: View): PageId[] {
    const ids: PageId[] = [];
    for (let id = 1 as PageId; id < this.#nextId; id++) {
      if (this.#exists(id, view)) ids.push(id);
    }
    return ids;
  }

  read(page: PageId, view: View): BufferId {
    this.#operation();
    const own = view === WRITER ? this.#private.get(page) : undefined;
    if (own !== undefined) {
      this.#touched.add(page);
      return own.buffer;
    }
    const version =
      view === WRITER && this.#freed.has(page) ? undefined : this.#version(page, view);
    if (version?.image === undefined) {
      throw failure('corrupt.page', `page ${page} is free`, { detail: { page } });
    }
    const key = `${page}@${version.commit}`;
    const held = this.#held.get(key);
    if (held !== undefined) return held;
    const buffer = this.#takeBuffer(page);
    this.pageBytesOf(buffer).set(version.image);
    this.#heldKeys.set(buffer, key);
    this.#lent.push(buffer);
    return buffer;
  }

  edit(page: PageId): BufferId {
    this.#operation();
    this.#touched.add(page);
    const own = this.#private.get(page);
    if (own !== undefined) return own.buffer;
    const image = this.#freed.has(page) ? undefined : this.#image(page, LATEST);
    if (image === undefined) {
      throw failure('corrupt.page', `page ${page} is free`, { detail: { page } });
    }
    const buffer = this.#takeBuffer(page);
    this.pageBytesOf(buffer).set(image);
    this.#addPrivate(page, buffer, image, false);
    return buffer;
  }

  allocate(structure: StructureId): BufferId {
    this.#operation();
    const page = this.#takeId();
    const buffer = this.#takeBuffer(page);
    const bytes = this.pageBytesOf(buffer).fill(0);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    view.setUint32(0, page, true);
    view.setUint32(4, structure, true);
    this.#freed.delete(page);
    this.#addPrivate(page, buffer, bytes.slice(), true);
    this.#touched.add(page);
    return buffer;
  }

  free(page: PageId): void {
    if (!this.#exists(page, WRITER)) {
      throw failure('corrupt.page', `page ${page} is freed twice`, { detail: { page } });
    }
    const own = this.#private.get(page);
    if (own !== undefined) {
      this.#private.delete(page);
      this.#touched.delete(page);
      this.#dropBuffer(own.buffer);
    }
    this.#freed.add(page);
    this.#transactionFreeIds.push(page);
  }

  pageOf(buffer: BufferId): PageId {
    return this.#pages[buffer]!;
  }

  markFront(buffer: BufferId, from: number, to: number): void {
    const own = this.#own(buffer, from, to);
    own.frontFrom = Math.min(own.frontFrom, from);
    own.frontTo = Math.max(own.frontTo, to);
  }

  markBack(buffer: BufferId, from: number, to: number): void {
    const own = this.#own(buffer, from, to);
    own.backFrom = Math.min(own.backFrom, from);
    own.backTo = Math.max(own.backTo, to);
  }

  noteMove(buffer: BufferId, from: number, to: number, length: number): void {
    this.#own(buffer, from, from + length);
    this.#own(buffer, to, to + length).moves.push(from, to, length);
  }

  pin(buffer: BufferId): void {
    this.#pins[buffer] = this.#pinsOf(buffer) + 1;
    const key = this.#heldKeys.get(buffer);
    if (key !== undefined) this.#held.set(key, buffer);
    this.#lent = this.#lent.filter((b) => b !== buffer);
  }

  unpin(buffer: BufferId): void {
    const pins = this.#pinsOf(buffer) - 1;
    if (pins < 0) throw new Error(`buffer ${buffer} is unpinned more often than pinned`);
    this.#pins[buffer] = pins;
    const key = this.#heldKeys.get(buffer);
    if (pins === 0 && key !== undefined) {
      this.#held.delete(key);
      this.#lent.push(buffer);
    } else if (pins === 0 && this.#private.get(this.pageOf(buffer))?.buffer !== buffer) {
      this.#dropBuffer(buffer);
    }
  }

  settle(): void {
    for (const page of this.#touched) {
      const own = this.#private.get(page);
      if (own === undefined || this.#pinsOf(own.buffer) > 0) continue;
      const buffer = this.#takeBuffer(page);
      this.pageBytesOf(buffer).set(this.pageBytesOf(own.buffer));
      this.#dropBuffer(own.buffer);
      own.buffer = buffer;
    }
    this.#touched.clear();
  }

  /** Publishes the private pages under the next commit id. */
  commit(): number {
    this.commitId++;
    for (const page of this.#freed) this.#addVersion(page, undefined);
    for (const [page, own] of this.#private) {
      const bytes = this.pageBytesOf(own.buffer);
      this.#compare(page, own, bytes);
      this.#log(own, bytes);
      const image = bytes.slice();
      new DataView(image.buffer).setFloat64(PAGE_COMMIT_OFFSET, this.commitId, true);
      this.#addVersion(page, image);
    }
    this.loggedBytes += 48;
    this.#freeIds.push(...this.#transactionFreeIds);
    this.#endTransaction();
    return this.commitId;
  }

  rollback(): void {
    for (let id = this.#nextIdAtBegin; id < this.#nextId; id++) this.#freeIds.push(id as PageId);
    this.#freeIds = this.#freeIds.concat(
      [...this.#private.entries()]
        .filter(([p, o]) => o.isNew && p < this.#nextIdAtBegin)
        .map(([p]) => p),
    );
    this.#freeIds = [...new Set(this.#freeIds)].filter((p) => this.#image(p, LATEST) === undefined);
    this.#endTransaction();
  }

  /** Overwrites bytes of the committed image of a page, as damage with a right checksum would. */
  damage(page: PageId, change: (image: Uint8Array) => void): void {
    const versions = this.#versions.get(page)!;
    const newest = versions[versions.length - 1]!;
    const image = newest.image!.slice();
    change(image);
    versions[versions.length - 1] = { commit: newest.commit, image };
  }

  /** A copy of the newest committed image. */
  image(page: PageId): Uint8Array {
    return this.#image(page, LATEST)!.slice();
  }

  /** Forgets versions below the newest of each page, when no snapshot is open. */
  dropVersions(): void {
    for (const [page, versions] of this.#versions) {
      const newest = versions[versions.length - 1]!;
      if (newest.image === undefined) this.#versions.delete(page);
      else versions.splice(0, versions.length - 1);
    }
  }

  #operation(): void {
    if (this.failAfter >= 0 && this.failAfter-- === 0) {
      throw failure('limit.memory', 'planned failure of MemoryPages');
    }
    for (const buffer of this.#lent) this.#dropBuffer(buffer);
    this.#lent.length = 0;
  }

  #takeBuffer(page: PageId): BufferId {
    // First in, first out: a dropped buffer stays poisoned for as long as possible.
    const buffer = this.#freeBuffers.length > 24 ? this.#freeBuffers.shift()! : this.addBuffer();
    this.#pages[buffer] = page;
    return buffer;
  }

  #dropBuffer(buffer: BufferId): void {
    this.#heldKeys.delete(buffer);
    if (this.#pinsOf(buffer) > 0) return;
    this.pageBytesOf(buffer).fill(POISON);
    this.#freeBuffers.push(buffer);
  }

  #takeId(): PageId {
    const reuse = this.#transactionFreeIds.pop() ?? this.#freeIds.pop();
    return reuse ?? (this.#nextId++ as PageId);
  }

  #pinsOf(buffer: BufferId): number {
    return this.#pins[buffer] ?? 0;
  }

  #version(page: PageId, view: View): Version | undefined {
    const versions = this.#versions.get(page);
    if (versions === undefined) return undefined;
    for (let i = versions.length - 1; i >= 0; i--) {
      if (versions[i]!.commit <= view) return versions[i];
    }
    return undefined;
  }

  #image(page: PageId, view: View): Uint8Array | undefined {
    return this.#version(page, view)?.image;
  }

  #exists(page: PageId, view: View): boolean {
    if (view === WRITER && this.#private.has(page)) return true;
    if (view === WRITER && this.#freed.has(page)) return false;
    return this.#image(page, view) !== undefined;
  }

  #addPrivate(page: PageId, buffer: BufferId, base: Uint8Array, isNew: boolean): void {
    const none = this.pageBytes;
    this.#private.set(page, {
      buffer,
      base,
      isNew,
      frontFrom: none,
      frontTo: 0,
      backFrom: none,
      backTo: 0,
      moves: [],
    });
  }

  #addVersion(page: PageId, image: Uint8Array | undefined): void {
    const versions = this.#versions.get(page);
    if (versions === undefined) this.#versions.set(page, [{ commit: this.commitId, image }]);
    else versions.push({ commit: this.commitId, image });
  }

  #own(buffer: BufferId, from: number, to: number): Private {
    const own = this.#private.get(this.pageOf(buffer));
    if (own?.buffer !== buffer) throw new Error(`buffer ${buffer} is marked and not private`);
    if (from < 0 || from > to || to > this.usableBytes) throw new Error(`mark ${from}..${to}`);
    return own;
  }

  #compare(page: PageId, own: Private, bytes: Uint8Array): void {
    for (let i = 0; i < bytes.length; i++) {
      if (bytes[i] === own.base[i]) continue;
      if (i >= own.frontFrom && i < own.frontTo) continue;
      if (i >= own.backFrom && i < own.backTo) continue;
      if (i >= PAGE_COMMIT_OFFSET && i < PAGE_COMMIT_OFFSET + 8) continue;
      throw new Error(
        `page ${page}: byte ${i} changed outside the hulls ` +
          `${own.frontFrom}..${own.frontTo} and ${own.backFrom}..${own.backTo}`,
      );
    }
  }

  /** Counts the log bytes of one page: header, moves of 8 bytes, ranges of words. */
  #log(own: Private, bytes: Uint8Array): void {
    const scratch = own.base.slice();
    let size = 32;
    if (own.moves.length <= 3 * 64) {
      for (let i = 0; i < own.moves.length; i += 3) {
        const from = own.moves[i]!;
        scratch.copyWithin(own.moves[i + 1]!, from, from + own.moves[i + 2]!);
        size += 8;
      }
    }
    const now = new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length >> 2);
    const was = new Int32Array(scratch.buffer);
    for (let i = 4; i < now.length;) {
      if (now[i] === was[i]) {
        i++;
        continue;
      }
      let end = i + 1;
      for (let j = end, gap = 0; j < now.length && gap < 2; j++) {
        if (now[j] === was[j]) gap++;
        else {
          end = j + 1;
          gap = 0;
        }
      }
      size += 4 + (end - i) * 4;
      i = end;
    }
    this.loggedBytes += size;
    this.loggedFrames++;
  }

  #endTransaction(): void {
    for (const [, own] of this.#private) {
      if (this.#pinsOf(own.buffer) === 0) this.#dropBuffer(own.buffer);
    }
    this.#private.clear();
    this.#freed.clear();
    this.#transactionFreeIds = [];
    this.#touched = new Set();
    this.#nextIdAtBegin = this.#nextId;
  }
}

/** One buffer a page and no versions: what a warm cache costs at least. */
export class PlainPages extends Slab implements Pages {
  readonly #free: PageId[] = [];

  constructor(pageBytes: number, reservedBytes = 0) {
    super(pageBytes, reservedBytes);
    this.addBuffer(); // page 0 is none
  }

  get pageCount(): number {
    return this.bufferCount - 1 - this.#free.length;
  }

  read(page: PageId, _view: View): BufferId {
    return page;
  }

  edit(page: PageId): BufferId {
    return page;
  }

  allocate(structure: StructureId): BufferId {
    const buffer = this.#free.pop() ?? (this.addBuffer() as PageId);
    const words = this.words[buffer >> this.chunkShift]!;
    const from = (buffer & this.chunkMask) << (this.pageShift - 2);
    words.fill(0, from, from + (this.pageBytes >> 2));
    words[from] = buffer;
    words[from + 1] = structure;
    return buffer;
  }

  free(page: PageId): void {
    this.#free.push(page);
  }

  pageOf(buffer: BufferId): PageId {
    return buffer as PageId;
  }

  markFront(_buffer: BufferId, _from: number, _to: number): void {}
  markBack(_buffer: BufferId, _from: number, _to: number): void {}
  noteMove(_buffer: BufferId, _from: number, _to: number, _length: number): void {}
  pin(_buffer: BufferId): void {}
  unpin(_buffer: BufferId): void {}
  settle(): void {}
}
