/**
 * The share of the budget that one operation plans for itself: a work space that refuses what goes
 * beyond the share, so that whoever sorts in it spills, and that knows the most it ever held.
 *
 * What a first piece needs is always asked for, however small the share: an entry may be larger.
 */
import { failure } from '../errors.ts';
import type { SpillRun, WorkArea, WorkSpace } from '../model/work.ts';
import type { Store } from './store.ts';

/** Share of the memory that is not spoken for, and the bounds of a plan, bytes. */
const SHARE = 0.5;
const SHARE_BYTES_MIN = 192 * 1024;
/** What the page cache keeps of the budget at least: one chunk of the slab. */
const CACHE_BYTES_MIN = 1 << 20;

export class WorkPlan implements WorkSpace {
  readonly shareBytes: number;
  /** Most bytes held at a time, by this plan and those made of it. */
  peakBytes = 0;
  #heldBytes = 0;
  readonly #work: WorkSpace;
  readonly #makeRoom: (byteCount: number) => void;
  readonly #parent: WorkPlan | undefined;

  /** `makeRoom`: called before memory is asked for, to make the budget have it. */
  constructor(
    work: WorkSpace,
    shareBytes: number,
    makeRoom: (byteCount: number) => void,
    parent?: WorkPlan,
  ) {
    this.#work = work;
    this.shareBytes = shareBytes;
    this.#makeRoom = makeRoom;
    this.#parent = parent;
  }

  /** A plan for a part of this one's share. */
  part(shareBytes: number): WorkPlan {
    return new WorkPlan(this.#work, shareBytes, this.#makeRoom, this);
  }

  get availableBytes(): number {
    return Math.max(0, this.shareBytes - this.#heldBytes);
  }

  reserve(byteCount: number): WorkArea {
    this.#take(byteCount);
    let area: WorkArea;
    try {
      area = this.#work.reserve(byteCount);
    } catch (cause) {
      this.#give(byteCount);
      throw cause;
    }
    let isHeld = true;
    return {
      bytes: area.bytes,
      release: () => {
        if (!isHeld) return;
        isHeld = false;
        area.release();
        this.#give(byteCount);
      },
    };
  }

  charge(byteCount: number): void {
    this.#take(byteCount);
    try {
      this.#work.charge(byteCount);
    } catch (cause) {
      this.#give(byteCount);
      throw cause;
    }
  }

  release(byteCount: number): void {
    this.#work.release(byteCount);
    this.#give(byteCount);
  }

  #take(byteCount: number): void {
    if (this.#heldBytes > 0 && this.#heldBytes + byteCount > this.shareBytes) {
      throw failure(
        'limit.memory',
        `a share of ${this.shareBytes} bytes is full: ${this.#heldBytes} bytes are in use and ` +
          `${byteCount} more were asked for`,
        { detail: { shareBytes: this.shareBytes, bytes: byteCount } },
      );
    }
    this.#makeRoom(byteCount);
    this.#note(byteCount);
  }

  #note(byteCount: number): void {
    this.#heldBytes += byteCount;
    if (this.#heldBytes > this.peakBytes) this.peakBytes = this.#heldBytes;
    if (this.#parent !== undefined) this.#parent.#note(byteCount);
  }

  #give(byteCount: number): void {
    this.#heldBytes -= byteCount;
    if (this.#parent !== undefined) this.#parent.#give(byteCount);
  }

  spill(): SpillRun {
    return this.#work.spill();
  }
}

/** Plans working memory for one operation of a store: a share of what pages and sorts share. */
export function planWork(store: Store): WorkPlan {
  const { work, ledger } = store;
  const makeRoom = (byteCount: number): void => store.storage.makeRoom?.(byteCount);
  if (ledger === undefined) return new WorkPlan(work, work.availableBytes / 2, makeRoom);
  const bound = ledger.usedBytes - ledger.bytesOf('buffers') + CACHE_BYTES_MIN;
  const share = Math.max(SHARE_BYTES_MIN, Math.floor((ledger.budgetBytes - bound) * SHARE));
  return new WorkPlan(work, share, makeRoom);
}
