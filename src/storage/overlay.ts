/**
 * The private pages of the open transaction: which there are, where they lie, what may have
 * changed in them, and the savepoints that can take changes back.
 *
 *   edit / allocate            spill (slot written)              reload
 *   ───────────────> resident ─────────────────────> spilled ─────────────> resident
 *          │ free
 *          └──────> freed
 *
 * Every private page has an ordinal; what is known of it is in parallel arrays, charged before
 * they grow. A savepoint is a layer: the first edit of a page in a layer saves the image and hulls
 * that the page had before (DESIGN section 3, Undo).
 */
import { assert } from '../base/assert.ts';
import { type Ledger } from '../base/ledger.ts';
import { MOVES_MAX } from './log-format.ts';
import { type BufferId, type PageId } from './pages.ts';

/** The page did not exist before the transaction: its base is zeroes. */
export const NEW = 1;
/** Clock bit of spilling: set by every edit. */
export const USED = 2;

/** `slot` of a page that the transaction freed. */
export const FREED = -1;

const BYTES_EACH = 8 * 4 + 8 + 4 * 4 + 1 + 8;
const MOVES_BYTES = MOVES_MAX * 3 * 8 + 64;
/** Upper bound of the heap that a saved image takes beside its buffer, bytes. */
const SAVED_BYTES = 160;
const NO_HULL = 1 << 20;

/** What a page was when a layer first edited it. */
export interface Saved {
  readonly ordinal: number;
  /** Buffer with the image, 0 when it is in `slot` or there is none (the page was freed). */
  readonly buffer: BufferId;
  readonly slot: number;
  readonly checksum: number;
  readonly hull: Int32Array;
  readonly layer: number;
}

export interface Layer {
  /** Private pages when the savepoint was made. */
  readonly count: number;
  readonly saved: Saved[];
}

export class Overlay {
  count = 0;
  /** Private pages that are in buffers. */
  residentCount = 0;
  page = new Int32Array(0);
  /** Buffer of the private image, 0 when it is spilled or freed. */
  buffer = new Int32Array(0);
  /** Buffer of the committed image, 0 when it is not resident or there is none. */
  base = new Int32Array(0);
  baseCommit = new Float64Array(0);
  /** Slot of a spilled image, `FREED`, or 0. */
  slot = new Int32Array(0);
  checksum = new Int32Array(0);
  /** Slot of the committed image, for a version of it; set by `preparePublish`. */
  oldSlot = new Int32Array(0);
  oldChecksum = new Int32Array(0);
  layer = new Int32Array(0);
  flags = new Uint8Array(0);
  /** Front hull from, to, back hull from, to: bytes of the page. */
  hull = new Int32Array(0);
  readonly moves: (number[] | undefined)[] = [];
  readonly layers: Layer[] = [];
  /** Where the search for pages to spill goes on. */
  hand = 0;
  readonly #ledger: Ledger;
  #moveLists = 0;

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
  }

  /** Makes room for one more page, before anything is changed. */
  reserve(): void {
    if (this.count < this.page.length) return;
    const before = this.page.length;
    const length = grownLength(before);
    this.#ledger.charge('transaction', length * BYTES_EACH);
    this.page = copied(this.page, new Int32Array(length));
    this.buffer = copied(this.buffer, new Int32Array(length));
    this.base = copied(this.base, new Int32Array(length));
    this.baseCommit = copied(this.baseCommit, new Float64Array(length));
    this.slot = copied(this.slot, new Int32Array(length));
    this.checksum = copied(this.checksum, new Int32Array(length));
    this.oldSlot = copied(this.oldSlot, new Int32Array(length));
    this.oldChecksum = copied(this.oldChecksum, new Int32Array(length));
    this.layer = copied(this.layer, new Int32Array(length));
    this.flags = copied(this.flags, new Uint8Array(length));
    this.hull = copied(this.hull, new Int32Array(length * 4));
    this.#ledger.release('transaction', before * BYTES_EACH);
  }

  /** Bytes that the arrays will be charged for soon; 0 while there is room. */
  get growthBytes(): number {
    if (this.count + 64 < this.page.length) return 0;
    return grownLength(this.page.length) * BYTES_EACH;
  }

  /** Adds a page after `reserve`; answers its ordinal. */
  add(page: PageId, buffer: BufferId, base: BufferId, baseCommit: number, flags: number): number {
    const k = this.count++;
    this.page[k] = page;
    this.buffer[k] = buffer;
    this.base[k] = base;
    this.baseCommit[k] = baseCommit;
    this.slot[k] = 0;
    this.checksum[k] = 0;
    this.oldSlot[k] = 0;
    this.layer[k] = this.layers.length;
    this.flags[k] = flags | USED;
    this.clearHulls(k);
    this.moves[k] = undefined;
    if (buffer !== 0) this.residentCount++;
    return k;
  }

  /** The image of a page is no longer in a buffer. */
  leaveBuffer(k: number): void {
    this.buffer[k] = 0;
    this.residentCount--;
  }

  clearHulls(k: number): void {
    this.hull[k * 4] = this.hull[k * 4 + 2] = NO_HULL;
    this.hull[k * 4 + 1] = this.hull[k * 4 + 3] = 0;
  }

  /** Widens a hull: `which` is 0 for the front, 2 for the back. */
  mark(k: number, which: 0 | 2, from: number, to: number): void {
    const h = k * 4 + which;
    if (from < this.hull[h]!) this.hull[h] = from;
    if (to > this.hull[h + 1]!) this.hull[h + 1] = to;
  }

  noteMove(k: number, from: number, to: number, length: number): void {
    if ((this.flags[k]! & NEW) !== 0) return; // nothing slides in zeroes
    let list = this.moves[k];
    if (list === undefined) {
      if (!this.#ledger.tryCharge('transaction', MOVES_BYTES)) return; // only a hint
      this.#moveLists++;
      list = this.moves[k] = [];
    }
    if (list.length < MOVES_MAX * 3) list.push(from, to, length);
  }

  /** Forgets the moves of a page that is written to a slot: nothing compares it any more. */
  dropMoves(k: number): void {
    if (this.moves[k] === undefined) return;
    this.moves[k] = undefined;
    this.#moveLists--;
    this.#ledger.release('transaction', MOVES_BYTES);
  }

  /** Charges for a saved image; the caller then pushes it to the newest layer, or cannot. */
  chargeSaved(): void {
    this.#ledger.charge('transaction', SAVED_BYTES);
  }

  unchargeSaved(): void {
    this.#ledger.release('transaction', SAVED_BYTES);
  }

  /** Takes the newest layer off and forgets its charges; the caller restores or drops images. */
  popLayer(): Layer {
    const layer = this.layers.pop();
    assert(layer !== undefined, 'there is a savepoint');
    this.#ledger.release('transaction', layer.saved.length * SAVED_BYTES);
    return layer;
  }

  /** Moves what a layer saved to the one beneath, which may have saved the page already. */
  mergeLayer(): Saved[] {
    const layer = this.popLayer();
    const depth = this.layers.length;
    const dropped: Saved[] = [];
    const beneath = this.layers.at(-1);
    for (const saved of layer.saved) {
      const wanted = beneath !== undefined && saved.ordinal < beneath.count && saved.layer < depth;
      if (!wanted) {
        dropped.push(saved);
        continue;
      }
      this.#ledger.charge('transaction', SAVED_BYTES);
      beneath.saved.push(saved);
    }
    for (let k = 0; k < this.count; k++) if (this.layer[k]! > depth) this.layer[k] = depth;
    return dropped;
  }

  /** Forgets every page, and gives back memory beyond what a small transaction needs. */
  reset(): void {
    this.#ledger.release('transaction', this.#moveLists * MOVES_BYTES);
    this.#moveLists = 0;
    this.moves.length = 0;
    this.count = this.residentCount = this.hand = 0;
    if (this.page.length <= 1024) return;
    this.#ledger.release('transaction', this.page.length * BYTES_EACH);
    this.page = this.buffer = this.base = this.slot = this.checksum = new Int32Array(0);
    this.layer = this.hull = this.oldSlot = this.oldChecksum = new Int32Array(0);
    this.baseCommit = new Float64Array(0);
    this.flags = new Uint8Array(0);
  }

  dispose(): void {
    this.reset();
    this.#ledger.release('transaction', this.page.length * BYTES_EACH);
    this.page = new Int32Array(0);
  }
}

function grownLength(length: number): number {
  return Math.max(64, length + (length >> 3), Math.min(length * 2, 4096));
}

function copied<T extends Uint8Array | Int32Array | Float64Array>(from: T, to: T): T {
  to.set(from);
  return to;
}
