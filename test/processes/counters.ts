/**
 * What the child processes drive: a store of counters, over the storage core here. To point the
 * kills at another layer, write another `OpenCounters` and name it in `COUNTERS`.
 *
 * Commit `n` sets counter 0 and the counters `touchedBy(n)` to `n`: whoever knows `n` knows every
 * counter, so that a commit that is half there, lost or out of order shows itself.
 */
import { NodeFileSystem } from '../../src/storage/node-file.ts';
import { LATEST, type PageId } from '../../src/storage/pages.ts';
import { Storage } from '../../src/storage/storage.ts';

export const COUNTER_COUNT = 400;
/** The system whose way to lock files is used. */
const PLATFORM = (process.env['MONOCHORD_TEST_PLATFORM'] ?? process.platform) as NodeJS.Platform;

export interface Counters {
  /** Sets counter 0 and those that commit `n` touches; answers when that is durable. */
  commit(n: number): void;
  get(counter: number): number;
  close(): void;
}

export type OpenCounters = (path: string, fs?: NodeFileSystem) => Counters;

/** Counters that commit `n` touches: a few, or now and then all. */
export function touchedBy(n: number): number[] {
  if (n % 40 === 0) return Array.from({ length: COUNTER_COUNT }, (_, i) => i);
  return [0, 1 + (n % 399), 1 + ((n * 7) % 399), 1 + ((n * 31) % 399)];
}

/** The newest commit up to `n` that touched a counter; 0 if none did. */
function expectedOf(counter: number, n: number): number {
  for (let m = n; m > 0; m--) {
    if (m % 40 === 0 || touchedBy(m).includes(counter)) return m;
  }
  return 0;
}

/** Answers the newest commit after comparing every counter with what it must be then. */
export function verified(counters: Counters): number {
  const n = counters.get(0);
  for (let i = 1; i < COUNTER_COUNT; i++) {
    const expected = expectedOf(i, n);
    if (counters.get(i) === expected) continue;
    throw new Error(`counter ${i} is ${counters.get(i)} after commit ${n}, not ${expected}`);
  }
  return n;
}

/** A page a counter; the number stands at several places of the page. */
class PageCounters implements Counters {
  readonly #storage: Storage;

  constructor(path: string, fs = new NodeFileSystem(PLATFORM)) {
    this.#storage = Storage.open({
      fs,
      path,
      memoryBytes: 2 << 20,
      layout: {
        pageBytes: 4096,
        extentBytes: 65_536,
        clusterBytes: 512,
        tree: 'b+tree',
        order: 0,
      },
      fileId: crypto.getRandomValues(new Uint8Array(16)),
      now: () => performance.now(),
    });
    if (this.#storage.nextPage === 1) this.#create();
  }

  #create(): void {
    this.#storage.begin();
    for (let i = 0; i < COUNTER_COUNT; i++) {
      this.#storage.allocate(1);
      this.#storage.settle();
    }
    for (let i = 0; i < COUNTER_COUNT; i++) this.#set(i, 0);
    this.#storage.commit('full');
  }

  #set(counter: number, n: number): void {
    const storage = this.#storage;
    const buffer = storage.edit((counter + 1) as PageId);
    const at = (buffer & storage.chunkMask) << storage.pageShift;
    const words = storage.words[buffer >> storage.chunkShift]!;
    for (let w = 10; w < 1024; w += 100) words[(at >> 2) + w] = n;
    storage.markFront(buffer, 40, 4096);
    storage.settle();
  }

  commit(n: number): void {
    this.#storage.begin();
    for (const counter of touchedBy(n)) this.#set(counter, n);
    this.#storage.commit('full');
  }

  get(counter: number): number {
    const storage = this.#storage;
    const buffer = storage.read((counter + 1) as PageId, LATEST);
    const at = (buffer & storage.chunkMask) << storage.pageShift;
    const words = storage.words[buffer >> storage.chunkShift]!;
    const n = words[(at >> 2) + 10]!;
    for (let w = 110; w < 1024; w += 100) {
      if (words[(at >> 2) + w] !== n) throw new Error(`counter ${counter} is torn`);
    }
    return n;
  }

  close(): void {
    this.#storage.close();
  }
}

export const COUNTERS: Readonly<Record<string, OpenCounters>> = {
  pages: (path, fs) => new PageCounters(path, fs),
};
