/**
 * A storage with pages of patterns, for tests of the storage core: a page filled from a stamp says
 * which write it holds, so that a reader knows old, new and torn images from each other.
 */
import { Random } from '../../src/base/random.ts';
import { DatabaseError } from '../../src/errors.ts';
import { type FileSystem } from '../../src/storage/file.ts';
import { type FileLayout } from '../../src/storage/header.ts';
import { LATEST, PAGE_HEADER_BYTES, type PageId, type View } from '../../src/storage/pages.ts';
import { type Durability, Storage, type StorageOptions } from '../../src/storage/storage.ts';

export const PATH = '/db/file';
export const LOG_PATH = `${PATH}-log`;
export const PAGE_BYTES = 4096;
export const LAYOUT: FileLayout = {
  pageBytes: PAGE_BYTES,
  extentBytes: 16 * PAGE_BYTES,
  clusterBytes: 512,
  tree: 'b+tree',
  order: 0,
};

/** Opens a storage; the clock stands still and the budget is small unless told otherwise. */
export function open(fs: FileSystem, over: Partial<StorageOptions> = {}): Storage {
  return Storage.open({
    fs,
    path: PATH,
    memoryBytes: 2 << 20,
    layout: LAYOUT,
    fileId: Uint8Array.from({ length: 16 }, (_, i) => i + 1),
    now: () => 0,
    ...over,
  });
}

/** Fills the body of a private page; pages of equal stamps differ from each other. */
export function fill(
  storage: Storage,
  page: PageId,
  stamp: number,
  bytes = storage.pageBytes,
): void {
  const buffer = storage.edit(page);
  const at = (buffer & storage.chunkMask) << storage.pageShift;
  const words = storage.words[buffer >> storage.chunkShift]!;
  const random = new Random(stamp * 1000 + page);
  for (let w = PAGE_HEADER_BYTES; w < bytes; w += 4) words[(at + w) >> 2] = random.word();
  storage.markFront(buffer, PAGE_HEADER_BYTES, bytes);
}

/** Takes `count` new pages in the open transaction, filled from a stamp. */
export function addPages(storage: Storage, count: number, stamp: number): PageId[] {
  return Array.from({ length: count }, () => {
    const page = storage.pageOf(storage.allocate(1));
    fill(storage, page, stamp);
    storage.settle();
    return page;
  });
}

/** Commits `count` new pages. */
export function commitNew(
  storage: Storage,
  count: number,
  stamp: number,
  level: Durability = 'full',
): PageId[] {
  storage.begin();
  const pages = addPages(storage, count, stamp);
  storage.commit(level);
  return pages;
}

/** Commits a change of pages, of their first `bytes` bytes. */
export function commitFill(
  storage: Storage,
  pages: readonly PageId[],
  stamp: number,
  level: Durability = 'full',
  bytes = storage.pageBytes,
): void {
  storage.begin();
  for (const page of pages) {
    fill(storage, page, stamp, bytes);
    storage.settle();
  }
  storage.commit(level);
}

/** Whether a page holds what `fill` wrote with a stamp. */
export function holds(
  storage: Storage,
  page: PageId,
  stamp: number,
  view: View = LATEST,
  bytes = storage.pageBytes,
): boolean {
  const buffer = storage.read(page, view);
  const at = (buffer & storage.chunkMask) << storage.pageShift;
  const words = storage.words[buffer >> storage.chunkShift]!;
  const random = new Random(stamp * 1000 + page);
  for (let w = PAGE_HEADER_BYTES; w < bytes; w += 4) {
    if (words[(at + w) >> 2] !== (random.word() | 0)) return false;
  }
  return true;
}

/** The code of the error that a call throws, 'none' if it throws none; other errors pass. */
export function codeOf(call: () => unknown): string {
  try {
    call();
  } catch (cause) {
    if (cause instanceof DatabaseError) return cause.code;
    throw cause;
  }
  return 'none';
}
