/**
 * A model of the storage beneath the trees: pages of random bytes, with transactions, savepoints,
 * snapshots, checkpoints, reopening and power loss, compared page by page. One seed, one course.
 */
import { assert } from '../../src/base/assert.ts';
import { Random } from '../../src/base/random.ts';
import { type FileSystem } from '../../src/storage/file.ts';
import { LATEST, type PageId, type View, WRITER } from '../../src/storage/pages.ts';
import { type Durability, Storage } from '../../src/storage/storage.ts';

export const PAGE_BYTES = 4096;
type State = Map<number, Uint8Array>;

export function openStorage(fs: FileSystem, memoryBytes: number, seed: number): Storage {
  const fileId = new Uint8Array(16);
  new Random(seed).fill(fileId);
  return Storage.open({
    fs,
    path: 'model.mono',
    memoryBytes,
    layout: {
      pageBytes: PAGE_BYTES,
      extentBytes: 16 * PAGE_BYTES,
      clusterBytes: 512,
      tree: 'b+tree',
      order: 0,
    },
    fileId,
    now: () => 0,
    delayMs: 1e9,
  });
}

function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a.subarray(20), b.subarray(20)) === 0;
}

/** One course over one open storage; `committed` lists the state after every commit. */
export class PageModel {
  storage: Storage;
  state: State = new Map();
  /** State after each commit since the file was opened, newest last; [0] is what was opened. */
  history: State[] = [new Map()];
  /** Commits of the history that are durable. */
  durable = 0;
  readonly snapshots: { view: number; state: State }[] = [];
  readonly random: Random;

  constructor(storage: Storage, random: Random, state: State) {
    this.storage = storage;
    this.random = random;
    this.state = state;
    this.history = [state];
  }

  /** The bytes of a page as a view sees them, where they lie in the cache. */
  page(view: View, page: number): Uint8Array {
    const pager = this.storage;
    const b = pager.read(page as PageId, view);
    const at = (b & pager.chunkMask) << pager.pageShift;
    return pager.bytes[b >> pager.chunkShift]!.subarray(at, at + PAGE_BYTES);
  }

  compare(view: View, state: State, share: number): void {
    for (const [page, bytes] of state) {
      if (!this.random.chance(share)) continue;
      assert(sameBytes(this.page(view, page), bytes), `page ${page} as view ${view} sees it`);
    }
  }

  /** Changes some bytes of a page as an editor would: two hulls, and a slide now and then. */
  #scribble(work: State, page: number): void {
    const pager = this.storage;
    const { random } = this;
    const b = pager.edit(page as PageId);
    const at = (b & pager.chunkMask) << pager.pageShift;
    const bytes = pager.bytes[b >> pager.chunkShift]!;
    for (const back of [false, true]) {
      if (random.chance(0.3)) continue;
      const from = back ? random.between(2000, 4000) : random.between(20, 1000);
      const to = from + random.between(1, random.chance(0.1) ? 1000 : 60);
      const end = Math.min(to, PAGE_BYTES);
      if (random.chance(0.2)) {
        const source = random.between(20, PAGE_BYTES - (end - from));
        bytes.copyWithin(at + from, at + source, at + source + end - from);
        pager.noteMove(b, source, from, end - from);
      }
      const changed = random.below(end - from);
      for (let i = 0; i < changed; i++) bytes[at + from + i] = random.word();
      if (back) pager.markBack(b, from, end);
      else pager.markFront(b, from, end);
    }
    work.set(page, bytes.slice(at, at + PAGE_BYTES));
  }

  #change(work: State): void {
    const pager = this.storage;
    const { random } = this;
    const pages = [...work.keys()];
    const roll = random.fraction();
    if (pages.length === 0 || roll < 0.25) {
      const b = pager.allocate(1 + random.below(3));
      const page = pager.pageOf(b);
      assert(!work.has(page), `page ${page} was free`);
      work.set(page, new Uint8Array(PAGE_BYTES));
      this.#scribble(work, page);
    } else if (roll < 0.35 && pages.length > 5) {
      const page = random.pick(pages);
      pager.free(page as PageId);
      work.delete(page);
    } else {
      this.#scribble(work, random.pick(pages));
    }
    if (random.chance(0.5)) pager.settle();
  }

  /** A transaction of random changes; returns after commit or rollback. */
  transaction(level: Durability, changes: number): void {
    const { storage, random } = this;
    const pager = storage;
    storage.begin();
    let work = new Map(this.state);
    const savepoints: { token: number; state: State }[] = [];
    for (let i = 0; i < changes; i++) {
      this.#change(work);
      const roll = random.fraction();
      if (roll < 0.03) {
        savepoints.push({ token: pager.savepoint(), state: new Map(work) });
      } else if (roll < 0.05 && savepoints.length > 0) {
        const place = random.below(savepoints.length);
        pager.rollbackTo(savepoints[place]!.token);
        work = new Map(savepoints[place]!.state);
        savepoints.length = place + 1;
      } else if (roll < 0.06 && savepoints.length > 0) {
        const place = random.below(savepoints.length);
        pager.release(savepoints[place]!.token);
        savepoints.length = place;
      }
    }
    this.compare(WRITER, work, 1);
    this.compare(LATEST, this.state, 0.1);
    if (random.chance(0.1)) {
      storage.rollback();
      this.compare(LATEST, this.state, 0.2);
      return;
    }
    this.history.push(work); // before: a crash inside may or may not have made it durable
    storage.commit(level);
    this.state = work;
    if (level === 'full') this.durable = this.history.length - 1;
  }

  step(): void {
    const { random, storage } = this;
    const roll = random.fraction();
    if (roll < 0.7) {
      const level = random.pick<Durability>(['full', 'group', 'buffered', 'none']);
      const large = random.chance(0.05) ? 600 : random.chance(0.3) ? 40 : 4;
      this.transaction(level, random.between(1, large));
    } else if (roll < 0.76) {
      storage.flush();
      this.durable = this.history.length - 1;
    } else if (roll < 0.82) {
      this.snapshots.push({ view: storage.openSnapshot(), state: this.state });
    } else if (roll < 0.88 && this.snapshots.length > 0) {
      const [snapshot] = this.snapshots.splice(random.below(this.snapshots.length), 1);
      this.compare(snapshot!.view, snapshot!.state, 1);
      storage.closeSnapshot(snapshot!.view);
    } else if (roll < 0.9) {
      storage.checkpoint();
      this.durable = this.history.length - 1;
    } else {
      storage.startCheckpoint();
      storage.idle();
    }
    for (const snapshot of this.snapshots) this.compare(snapshot.view, snapshot.state, 0.02);
    this.compare(LATEST, this.state, 0.02);
  }

  /** The state of the history that a reopened storage has, from the newest back. */
  static recovered(storage: Storage, random: Random, from: PageModel): State {
    for (let i = from.history.length - 1; i >= from.durable; i--) {
      const model = new PageModel(storage, random, from.history[i]!);
      try {
        model.compare(LATEST, model.state, 1);
        if (storage.map.root.usedCount === model.state.size) return model.state;
      } catch {
        continue; // another state of the history
      }
    }
    throw new Error(`no state from commit ${from.durable} on matches what was recovered`);
  }
}
