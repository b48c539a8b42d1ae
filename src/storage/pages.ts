/**
 * The seam between the structures (trees, overflow) and the pager: pages by id, seen through a
 * view, as pieces of a slab of buffers.
 *
 * A view is a number that is compared with the commit id of a page: `WRITER` sees the private
 * pages of the open transaction, `LATEST` the newest commit, a commit id the snapshot of that
 * commit.
 *
 * Lifetimes. A buffer that `read` answers stays valid until the next `read`, `edit` or
 * `allocate`, any of which may evict it, unless it is pinned. A buffer that `edit` or `allocate`
 * answers is private to the open transaction and stays valid until `settle`, `savepoint`,
 * commit or rollback; reading that page with `WRITER` answers the same buffer.
 *
 * Every page starts with this header; bytes from 20 on belong to the structure that owns the page:
 *
 *   offset  bytes  meaning
 *        0      4  PageId
 *        4      4  structure that owns the page
 *        8      8  id of the commit that last changed it (float64; set at commit)
 *       16      4  first four bytes of the page's first key, big-endian value as uint32: the
 *                  structure keeps it, a checkpoint orders pages by it
 *       20     12  the structure's own header
 */

export type PageId = number & { readonly __brand: 'PageId' };
/** Ordinal of a buffer in the slab. */
export type BufferId = number;
/** `WRITER`, `LATEST`, or the commit id of a snapshot. */
export type View = number;
/** Number of a tree or other owner of pages, given by the catalog; 0 < structure < 2^32. */
export type StructureId = number;

/** Sees the newest commit. */
export const LATEST: View = 2 ** 53;
/** Sees the private pages of the open transaction. */
export const WRITER: View = 2 ** 54;

/** No page: PageIds begin at 1. Page 1 is the root of the catalog. */
export const NO_PAGE = 0 as PageId;

export const PAGE_ID_OFFSET = 0;
export const PAGE_STRUCTURE_OFFSET = 4;
export const PAGE_COMMIT_OFFSET = 8;
export const PAGE_ORDER_OFFSET = 16;
export const PAGE_BODY_OFFSET = 20;
export const PAGE_HEADER_BYTES = 32;

/** As many zeroes as the largest page has, for whoever compares with them or writes them. */
export const ZERO_WORDS = new Int32Array(65536 >> 2);
export const ZERO_BYTES = new Uint8Array(ZERO_WORDS.buffer);

/**
 * Pages as the structures see them. A buffer `b` is the `pageBytes` bytes of
 * `bytes[b >> chunkShift]` from `(b & chunkMask) << pageShift` on; `words`, `floats` are views
 * of the same chunks. The arrays may grow; chunks never move.
 */
export interface Pages {
  /** Bytes of a page: a power of two, 4 KiB to 64 KiB. */
  readonly pageBytes: number;
  readonly pageShift: number;
  readonly chunkShift: number;
  readonly chunkMask: number;
  /** Bytes of a page that structures may use, from offset 0: `pageBytes` less a reserved tail. */
  readonly usableBytes: number;
  readonly bytes: Uint8Array[];
  readonly words: Int32Array[];
  readonly floats: Float64Array[];

  /**
   * Answers a buffer that holds the page as the view sees it.
   *
   * @throws {CorruptionError} corrupt.page when the page is free or its checksum differs.
   */
  read(page: PageId, view: View): BufferId;
  /** Answers the transaction's private copy of a page, making it first if there is none. */
  edit(page: PageId): BufferId;
  /** Takes a new page of zeroes but for its id and structure, already private; see `pageOf`. */
  allocate(structure: StructureId): BufferId;
  /** Gives up a page in the open transaction. */
  free(page: PageId): void;
  /** The page that a buffer holds. */
  pageOf(buffer: BufferId): PageId;

  /**
   * Notes that bytes `from` ≤ x < `to` of a private buffer may have changed. Each buffer has two
   * hulls: one for the front of the page (header and directory), one for its back (cells). Bytes
   * changed outside a hull would be lost, so `verify` compares whole pages.
   */
  markFront(buffer: BufferId, from: number, to: number): void;
  markBack(buffer: BufferId, from: number, to: number): void;
  /**
   * Hints that `length` bytes of a private buffer were slid from `from` to `to`. Calls are in the
   * order of the slides; the destination must lie inside a hull. A wrong hint costs log bytes,
   * never data.
   */
  noteMove(buffer: BufferId, from: number, to: number, length: number): void;

  /** Keeps a buffer from being evicted or reused until `unpin`; calls nest. */
  pin(buffer: BufferId): void;
  unpin(buffer: BufferId): void;

  /** Says that the caller holds no buffer: private pages may now be spilled to the file. */
  settle(): void;
}
