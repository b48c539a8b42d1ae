/**
 * Reads and writes slots of the data file, and counts what it does.
 *
 * Pages that go to neighbouring slots are gathered in one staging area and written by one call
 * (FEASIBILITY 15.4). Slots are numbered from 0; the header copies take the first one or two.
 */
import { pageChecksum } from '../base/checksum.ts';
import { type Ledger } from '../base/ledger.ts';
import { type File } from './file.ts';
import { type BufferId, ZERO_BYTES } from './pages.ts';
import { type Slab } from './slab.ts';

export class PageFile {
  readonly file: File;
  /** Bytes written since the last sync. */
  unsyncedBytes = 0;
  reads = 0;
  pagesWritten = 0;
  writes = 0;
  /** Slots that the file has, written once at least: writing them again takes no space. */
  slotsThere: number;
  readonly #slab: Slab;
  readonly #ledger: Ledger;
  /** Charged from the first on, made by the first write: its memory is zeroed, which costs. */
  #staging = new Uint8Array(0);
  readonly #stagingPages: number;
  #stagedFirst = 0;
  /** One bit for each slot that need not be checked when it is read again. */
  #verified = new Uint8Array(0);
  #stagedCount = 0;

  constructor(file: File, slab: Slab, stagingPages: number, ledger: Ledger) {
    this.file = file;
    this.#slab = slab;
    this.#ledger = ledger;
    this.#stagingPages = stagingPages;
    this.slotsThere = Math.floor(file.size() / slab.pageBytes);
    ledger.charge('log', stagingPages * slab.pageBytes);
  }

  /** Pages that one write call takes at the most. */
  get runMax(): number {
    return this.#stagingPages;
  }

  /** Whether the slot held its checksum when it was read before, and was not written since. */
  isVerified(slot: number): boolean {
    return (this.#verified[slot >> 3]! & (1 << (slot & 7))) !== 0;
  }

  /** Notes that a slot held its checksum; without room for the note it is checked again. */
  noteVerified(slot: number): void {
    if (slot >> 3 >= this.#verified.length && !this.#growVerified(slot)) return;
    this.#verified[slot >> 3] = this.#verified[slot >> 3]! | (1 << (slot & 7));
  }

  #growVerified(slot: number): boolean {
    const length = Math.max(1024, (slot >> 3) + 1, this.#verified.length * 2);
    if (!this.#ledger.tryCharge('tables', length)) return false;
    const larger = new Uint8Array(length);
    larger.set(this.#verified);
    this.#ledger.release('tables', this.#verified.length);
    this.#verified = larger;
    return true;
  }

  /** Reads a slot into a buffer; false if the file has no such slot. */
  read(slot: number, buffer: BufferId): boolean {
    if (slot < 0) return false;
    this.reads++;
    const { pageBytes } = this.#slab;
    const bytes = this.#slab.bytesOf(buffer);
    const offset = this.#slab.offset(buffer);
    return this.file.read(bytes, offset, pageBytes, slot * pageBytes) === pageBytes;
  }

  checksum(buffer: BufferId): number {
    const { pageBytes } = this.#slab;
    const from = this.#slab.offset(buffer) >> 2;
    return pageChecksum(this.#slab.wordsOf(buffer), from, pageBytes >> 2, 0);
  }

  /** Copies a buffer to be written to a slot; `finish` must follow before anyone reads it. */
  stage(slot: number, buffer: BufferId): void {
    const { pageBytes } = this.#slab;
    const full = this.#stagedCount === this.#stagingPages;
    if (this.#stagedCount > 0 && (full || slot !== this.#stagedFirst + this.#stagedCount)) {
      this.finish();
    }
    if (this.#stagedCount === 0) this.#stagedFirst = slot;
    if (slot >> 3 < this.#verified.length) {
      this.#verified[slot >> 3] = this.#verified[slot >> 3]! & ~(1 << (slot & 7));
    }
    const from = this.#slab.offset(buffer);
    const image = this.#slab.bytesOf(buffer).subarray(from, from + pageBytes);
    if (this.#staging.length === 0) this.#staging = new Uint8Array(this.#stagingPages * pageBytes);
    this.#staging.set(image, this.#stagedCount * pageBytes);
    this.#stagedCount++;
  }

  /** Writes what is staged. */
  finish(): void {
    const count = this.#stagedCount;
    if (count === 0) return;
    this.#stagedCount = 0;
    const { pageBytes } = this.#slab;
    this.unsyncedBytes += count * pageBytes;
    this.pagesWritten += count;
    this.writes++;
    this.file.write(this.#staging, 0, count * pageBytes, this.#stagedFirst * pageBytes);
    this.slotsThere = Math.max(this.slotsThere, this.#stagedFirst + count);
  }

  /**
   * Makes the file have so many slots, by writing zeroes.
   *
   * @throws {StorageError} storage.full; it may have grown by some.
   */
  grow(slots: number): void {
    const { pageBytes } = this.#slab;
    while (this.slotsThere < slots) {
      const most = Math.max(1, Math.floor(ZERO_BYTES.length / pageBytes));
      const count = Math.min(most, slots - this.slotsThere);
      this.file.write(ZERO_BYTES, 0, count * pageBytes, this.slotsThere * pageBytes);
      this.slotsThere += count;
    }
  }

  /** Cuts the file to so many slots. */
  cut(slots: number): void {
    this.file.truncate(slots * this.#slab.pageBytes);
    this.slotsThere = slots;
  }

  /** Forgets what is staged, after a failure. */
  abandon(): void {
    this.#stagedCount = 0;
  }

  /** Syncs if anything was written since the last time; answers whether it did. */
  sync(): boolean {
    this.finish();
    if (this.unsyncedBytes === 0) return false;
    this.file.sync();
    this.unsyncedBytes = 0;
    return true;
  }

  dispose(): void {
    this.#ledger.release('log', this.#stagingPages * this.#slab.pageBytes);
    this.#ledger.release('tables', this.#verified.length);
    this.#verified = new Uint8Array(0);
  }
}
