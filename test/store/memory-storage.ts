/**
 * The storage that the store stands on, in memory and as simple as can be: every page version has
 * an image of its own for ever, a savepoint is a copy of all private pages. It checks what the
 * store must not do: nest transactions, write outside one, leave buffers pinned. And it takes away
 * every buffer that it lent as soon as it may: the next call fills an unpinned one with 0xA5.
 */
import { failure } from '../../src/errors.ts';
import {
  WRITER,
  type BufferId,
  type PageId,
  type StructureId,
  type View,
} from '../../src/storage/pages.ts';
import type { StoragePort } from '../../src/store/storage-port.ts';

const CHUNK_PAGES = 16;
const FREE = -1;

interface Version {
  readonly commit: number;
  readonly buffer: BufferId;
}

interface Savepoint {
  readonly token: number;
  readonly images: Map<PageId, Uint8Array>;
  readonly freed: Set<PageId>;
  readonly nextPage: number;
  readonly freeIds: PageId[];
}

export class MemoryStorage implements StoragePort {
  readonly pageBytes: number;
  readonly pageShift: number;
  readonly chunkShift = Math.log2(CHUNK_PAGES);
  readonly chunkMask = CHUNK_PAGES - 1;
  readonly usableBytes: number;
  readonly bytes: Uint8Array[] = [];
  readonly words: Int32Array[] = [];
  readonly floats: Float64Array[] = [];
  commitId = 0;
  /** Edits until one throws `limit.memory`; negative: never. */
  failAfter = -1;
  #bufferCount = 0;
  readonly #pageOf: PageId[] = [];
  readonly #versions = new Map<PageId, Version[]>();
  #private = new Map<PageId, BufferId>();
  #freed = new Set<PageId>();
  #nextPage = 1;
  #freeIds: PageId[] = [];
  #savepoints: Savepoint[] = [];
  #isOpen = false;
  #start: Savepoint | undefined;
  #tokens = 0;
  readonly #pinned = new Map<BufferId, number>();
  #lent: BufferId[] = [];
  readonly #spare: BufferId[] = [];

  constructor(pageBytes = 4096) {
    this.pageBytes = pageBytes;
    this.usableBytes = pageBytes;
    this.pageShift = Math.log2(pageBytes);
  }

  get pinCount(): number {
    return [...this.#pinned.values()].reduce((sum, pins) => sum + pins, 0);
  }

  /** Pages in use as of the newest commit. */
  get pageCount(): number {
    let count = 0;
    for (const versions of this.#versions.values()) if (versions.at(-1)!.buffer !== FREE) count++;
    return count;
  }

  // Transactions.

  begin(): void {
    if (this.#isOpen) throw new Error('transactions do not nest');
    this.#isOpen = true;
    this.#start = this.#take();
  }

  commit(): number {
    this.#requireEnd();
    this.commitId++;
    for (const [page, buffer] of this.#private) this.#addVersion(page, buffer);
    for (const page of this.#freed) this.#addVersion(page, FREE);
    this.#end();
    return this.commitId;
  }

  rollback(): void {
    this.#requireEnd();
    this.#nextPage = this.#start!.nextPage;
    this.#freeIds = this.#start!.freeIds;
    this.#end();
  }

  #requireEnd(): void {
    if (!this.#isOpen) throw new Error('no transaction is open');
    if (this.pinCount !== 0) throw new Error(`${this.pinCount} buffers are pinned at the end`);
  }

  #end(): void {
    this.#private = new Map();
    this.#freed = new Set();
    this.#savepoints = [];
    this.#isOpen = false;
  }

  #addVersion(page: PageId, buffer: BufferId): void {
    const versions = this.#versions.get(page) ?? [];
    versions.push({ commit: this.commitId, buffer });
    this.#versions.set(page, versions);
  }

  openSnapshot(): number {
    return this.commitId;
  }

  savepoint(): number {
    const savepoint = this.#take();
    this.#savepoints.push(savepoint);
    return savepoint.token;
  }

  #take(): Savepoint {
    const images = new Map<PageId, Uint8Array>();
    for (const [page, buffer] of this.#private) images.set(page, this.#image(buffer).slice());
    return {
      token: ++this.#tokens,
      images,
      freed: new Set(this.#freed),
      nextPage: this.#nextPage,
      freeIds: [...this.#freeIds],
    };
  }

  rollbackTo(token: number): void {
    const place = this.#placeOf(token);
    const savepoint = this.#savepoints[place]!;
    this.#private = new Map();
    for (const [page, image] of savepoint.images) {
      const buffer = this.#addBuffer(page);
      this.#image(buffer).set(image);
      this.#private.set(page, buffer);
    }
    this.#freed = new Set(savepoint.freed);
    this.#nextPage = savepoint.nextPage;
    this.#freeIds = [...savepoint.freeIds];
    this.#savepoints.length = place + 1;
  }

  release(token: number): void {
    this.#savepoints.length = this.#placeOf(token);
  }

  #placeOf(token: number): number {
    const place = this.#savepoints.findIndex((each) => each.token === token);
    if (place < 0) throw new Error('no such savepoint');
    return place;
  }

  // Pages.

  read(page: PageId, view: View): BufferId {
    if (view === WRITER) {
      const own = this.#private.get(page);
      if (own !== undefined) return own;
      if (this.#freed.has(page)) throw this.#isFree(page);
    }
    const versions = this.#versions.get(page) ?? [];
    for (let i = versions.length - 1; i >= 0; i--) {
      const { commit, buffer } = versions[i]!;
      if (commit > view) continue;
      if (buffer === FREE) break;
      return this.#lend(page, buffer);
    }
    throw this.#isFree(page);
  }

  /** A copy of a committed image, in a buffer that is taken away at the next call. */
  #lend(page: PageId, image: BufferId): BufferId {
    this.#takeBack();
    const buffer = this.#spare.pop() ?? this.#addBuffer(page);
    this.#pageOf[buffer] = page;
    this.#image(buffer).set(this.#image(image));
    this.#lent.push(buffer);
    return buffer;
  }

  #takeBack(): void {
    for (const buffer of this.#lent) {
      if ((this.#pinned.get(buffer) ?? 0) > 0) continue;
      this.#image(buffer).fill(0xa5);
      this.#spare.unshift(buffer);
    }
    this.#lent = this.#lent.filter((buffer) => (this.#pinned.get(buffer) ?? 0) > 0);
  }

  #isFree(page: PageId): Error {
    return failure('corrupt.page', `page ${page} is free`);
  }

  edit(page: PageId): BufferId {
    this.#edits();
    const own = this.#private.get(page);
    if (own !== undefined) return own;
    const from = this.read(page, WRITER);
    const buffer = this.#addBuffer(page);
    this.#image(buffer).set(this.#image(from));
    this.#private.set(page, buffer);
    this.#takeBack();
    return buffer;
  }

  allocate(structure: StructureId): BufferId {
    this.#edits();
    this.#takeBack();
    const page = this.#freeIds.pop() ?? (this.#nextPage++ as PageId);
    const buffer = this.#addBuffer(page);
    const at = (buffer & this.chunkMask) << (this.pageShift - 2);
    const words = this.words[buffer >> this.chunkShift]!;
    words[at] = page;
    words[at + 1] = structure;
    this.#freed.delete(page);
    this.#private.set(page, buffer);
    return buffer;
  }

  free(page: PageId): void {
    this.read(page, WRITER);
    this.#private.delete(page);
    this.#freed.add(page);
    this.#freeIds.push(page);
  }

  #edits(): void {
    if (!this.#isOpen) throw new Error('pages are changed in a transaction');
    if (this.failAfter >= 0 && this.failAfter-- === 0)
      throw failure('limit.memory', 'planned failure of MemoryStorage');
  }

  pageOf(buffer: BufferId): PageId {
    return this.#pageOf[buffer]!;
  }

  markFront(): void {}
  markBack(): void {}
  noteMove(): void {}
  settle(): void {}

  pin(buffer: BufferId): void {
    this.#pinned.set(buffer, (this.#pinned.get(buffer) ?? 0) + 1);
  }

  unpin(buffer: BufferId): void {
    this.#pinned.set(buffer, this.#pinned.get(buffer)! - 1);
  }

  #addBuffer(page: PageId): BufferId {
    if (this.#bufferCount === this.bytes.length * CHUNK_PAGES) {
      const chunk = new ArrayBuffer(this.pageBytes * CHUNK_PAGES);
      this.bytes.push(new Uint8Array(chunk));
      this.words.push(new Int32Array(chunk));
      this.floats.push(new Float64Array(chunk));
    }
    this.#pageOf.push(page);
    return this.#bufferCount++;
  }

  #image(buffer: BufferId): Uint8Array {
    const from = (buffer & this.chunkMask) << this.pageShift;
    return this.bytes[buffer >> this.chunkShift]!.subarray(from, from + this.pageBytes);
  }
}
