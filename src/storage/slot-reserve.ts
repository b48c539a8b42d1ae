/**
 * Slots that the file keeps for what is committed and lies in no slot yet (STORAGE rule 14).
 *
 * Every image that only the cache has needs a slot once: when it is evicted, or by the checkpoint;
 * so do the nodes of map and bitmap that change with it. A commit is taken when the file has those
 * slots, really has them: it is grown by writing zeroes, so that a disk that is full later stops
 * neither an eviction, nor a checkpoint, nor the close. Beyond them it keeps a few for commits that
 * only take away, each of which ends in a checkpoint when they are used up.
 */
import { isFull } from '../errors.ts';
import { type Pager } from './pager.ts';
import { DIRTY, VERSION } from './slab.ts';

/** Bytes of slots kept for commits that take away, or one in so many slots of a small file. */
const KEPT_BYTES_MAX = 1 << 20;
const KEPT_SHARE = 8;
const KEPT_MIN = 16;
/** A file that lacks more was cut by somebody: it is not filled up. */
const NOT_THERE_MAX = 4096;

export class SlotReserve {
  readonly #pager: Pager;
  /** Private pages that may still be committed or placed before slots are counted again. */
  #credit = 0;
  /** Fewer free slots than these: somebody else took some. */
  #freeLeast = 0;

  constructor(pager: Pager) {
    this.#pager = pager;
  }

  /**
   * Makes sure that `pages` more images find slots, growing the file if need be.
   *
   * @throws {StorageError} storage.full
   */
  secure(pages: number): void {
    const { slots } = this.#pager;
    this.#credit -= pages;
    const isWhole = this.#notThere === 0;
    if (isWhole && this.#credit >= 0 && slots.freeCount >= this.#freeLeast) return;
    const margin = Math.max(this.#kept, this.#pager.slab.count >> 6);
    const lack = this.lack(pages + margin, true);
    this.#credit = 0;
    if (lack > 0) this.#growBy(lack, margin);
    else this.#credit = margin >> 1; // a page may change a node with it
    this.#freeLeast = slots.freeCount - this.#credit;
  }

  #growBy(lack: number, margin: number): void {
    try {
      this.#pager.growFile(Math.max(0, lack - this.#notThere));
      this.#credit = margin >> 1;
    } catch (cause) {
      if (!isFull(cause) || lack > margin) throw cause; // else what is needed is there
    }
  }

  /** Slots that are missing for `pages` more images, with or without those kept; ≤ 0 if none. */
  lack(pages: number, withKept: boolean): number {
    const pager = this.#pager;
    const needed = this.#imagesWithoutSlot() + pages + this.#nodesFor(pages);
    return needed + (withKept ? this.#kept : 0) - (pager.slots.freeCount - this.#notThere);
  }

  /** Slots that were taken at the end and given back, or not written yet: the file has none. */
  get #notThere(): number {
    const { slots, file } = this.#pager;
    const count = slots.count - file.slotsThere;
    return count > 0 && count <= NOT_THERE_MAX ? count : 0;
  }

  get #kept(): number {
    const share = Math.floor(this.#pager.slots.count / KEPT_SHARE);
    return Math.min(KEPT_BYTES_MAX >> this.#pager.pageShift, KEPT_MIN + share);
  }

  #imagesWithoutSlot(): number {
    const { slab, versions } = this.#pager;
    const { kind, count } = slab;
    let n = 0;
    for (let b = 1; b < count; b++) {
      if (kind[b] === DIRTY) n++;
      else if (kind[b] === VERSION && versions.ofBuffer(b)!.slot === 0) n++;
    }
    return n;
  }

  /** Most nodes of map and bitmap that checkpoints of what is committed will write. */
  #nodesFor(pages: number): number {
    const { map, bitmap, recent, closing, nextPage, slots } = this.#pager;
    const changed = recent.count + (closing?.count ?? 0) + pages;
    const leaves = Math.ceil(nextPage / map.leafFan);
    const inner = Math.ceil(leaves / map.innerFan) + 2;
    const bits = Math.ceil(slots.count / bitmap.leafFan) + 1;
    return Math.min(changed, leaves) + Math.min(changed, inner) + bits + 2;
  }
}
