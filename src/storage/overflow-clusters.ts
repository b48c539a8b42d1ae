/**
 * Clusters: pieces of pages that the tails of a tree's large values and long keys share.
 *
 *   offset  bytes  cluster page (kind 6; bytes 0..20: see pages.ts)
 *       20      1  kind
 *       21      1  class of the bin it hangs in + 1, 0 for none
 *       22      2  used clusters
 *       24      4  previous page of the bin, 0 for none
 *       28      4  next page of the bin
 *       32     32  bitmap of clusters, 1 = used
 *       64         clusters
 *
 * A page of `clusterBytes` clusters has pageBytes / clusterBytes of them, a few bytes shorter than
 * their name because of the header; the clusters of one tail are neighbours.
 *
 * Pages with room hang in eight doubly linked bins, by the class (log2) of their longest free run;
 * the heads stand in the tree's root page. So room is found without a scan: at most `BIN_TRIES`
 * pages a class are looked at. A page whose last cluster goes free is given back.
 */
import {
  copyBytes,
  corruptPage,
  KIND_CLUSTERS,
  ROOT_BINS,
  ROOT_BINS_OFFSET,
} from './btree-node.ts';
import {
  NO_PAGE,
  WRITER,
  type BufferId,
  type PageId,
  type Pages,
  type StructureId,
  type View,
} from './pages.ts';

export const BITMAP_OFFSET = 32;
export const CLUSTERS_OFFSET = 64;
const BIN_TRIES = 4;

export class Clusters {
  /** Bytes that a cluster holds. */
  readonly payload: number;
  readonly perPage: number;
  /** The page that `write` wrote to last. */
  page: PageId = NO_PAGE;
  readonly #pages: Pages;
  readonly #structure: StructureId;
  readonly #root: PageId;

  constructor(pages: Pages, structure: StructureId, root: PageId, clusterBytes: number) {
    this.#pages = pages;
    this.#structure = structure;
    this.#root = root;
    this.perPage = pages.pageBytes / clusterBytes;
    this.payload = Math.floor((pages.usableBytes - CLUSTERS_OFFSET) / this.perPage) & ~3;
  }

  /** Clusters that so many bytes take. */
  countFor(bytes: number): number {
    return Math.ceil(bytes / this.payload);
  }

  /** Offset of a cluster in its page. */
  offsetOf(cluster: number): number {
    return CLUSTERS_OFFSET + cluster * this.payload;
  }

  /** Writes bytes into neighbouring clusters of a page; sets `page`, answers the first cluster. */
  write(source: Uint8Array, from: number, bytes: number, order: number): number {
    const pages = this.#pages;
    const clusters = this.countFor(bytes);
    const page = this.#findRoom(clusters);
    const buffer = page === NO_PAGE ? pages.allocate(this.#structure) : pages.edit(page);
    const word = this.#baseOf(buffer) >> 2;
    const words = this.#wordsOf(buffer);
    if (page === NO_PAGE) {
      words[word + 4] = order;
      words[word + 5] = KIND_CLUSTERS;
    }
    const first = this.#findRun(buffer, clusters);
    const at = CLUSTERS_OFFSET + first * this.payload;
    copyBytes(source, from, this.#bytesOf(buffer), this.#baseOf(buffer) + at, bytes);
    pages.markBack(buffer, at, at + bytes);
    this.#flip(buffer, first, clusters, 1);
    this.page = pages.pageOf(buffer);
    this.#rebin(buffer);
    return first;
  }

  /** Gives the clusters of so many bytes back, and the page with its last. */
  free(page: PageId, first: number, bytes: number): void {
    const clusters = this.countFor(bytes);
    this.readUsed(page, WRITER, first, clusters);
    const buffer = this.#pages.edit(page);
    this.#flip(buffer, first, clusters, 0);
    const used = this.#wordsOf(buffer)[(this.#baseOf(buffer) >> 2) + 5]! >>> 16;
    if (used > 0) {
      this.#rebin(buffer);
      return;
    }
    this.#unlink(buffer);
    this.#pages.free(page);
  }

  /** Reads a cluster page and checks its header; answers its buffer. */
  read(page: PageId, view: View): BufferId {
    const buffer = this.#pages.read(page, view);
    const words = this.#wordsOf(buffer);
    const word = this.#baseOf(buffer) >> 2;
    const found = words[word + 5]! & 0xff;
    if (found !== KIND_CLUSTERS) throw corruptPage(page, 'kind', KIND_CLUSTERS, found);
    if (words[word + 1] !== (this.#structure | 0)) {
      throw corruptPage(page, 'structure', this.#structure, words[word + 1]);
    }
    return buffer;
  }

  /** Class of the bin for a longest free run; -1 for none. */
  classOf(longest: number): number {
    return longest === 0 ? -1 : 31 - Math.clz32(longest);
  }

  /** Longest run of free clusters in the page of a buffer. */
  longestRun(buffer: BufferId): number {
    const bytes = this.#bytesOf(buffer);
    const at = this.#baseOf(buffer) + BITMAP_OFFSET;
    let longest = 0;
    let run = 0;
    for (let i = 0; i < this.perPage; i++) {
      run = (bytes[at + (i >> 3)]! & (1 << (i & 7))) === 0 ? run + 1 : 0;
      if (run > longest) longest = run;
    }
    return longest;
  }

  /** Reads a cluster page of which the clusters must be in use. */
  readUsed(page: PageId, view: View, first: number, clusters: number): BufferId {
    const buffer = this.read(page, view);
    if (first + clusters > this.perPage) {
      throw corruptPage(page, 'last cluster in use', this.perPage - 1, first + clusters - 1);
    }
    const bytes = this.#bytesOf(buffer);
    const at = this.#baseOf(buffer) + BITMAP_OFFSET;
    for (let i = first; i < first + clusters; i++) {
      if ((bytes[at + (i >> 3)]! & (1 << (i & 7))) === 0) {
        throw corruptPage(page, `use of cluster ${i}`, 1, 0);
      }
    }
    return buffer;
  }

  /** A cluster page with so many free neighbours, or none. */
  #findRoom(clusters: number): PageId {
    const pages = this.#pages;
    for (let bin = this.classOf(clusters); bin < ROOT_BINS; bin++) {
      const root = pages.read(this.#root, WRITER);
      let page = this.#wordsOf(root)[((this.#baseOf(root) + ROOT_BINS_OFFSET) >> 2) + bin]! >>> 0;
      for (let tries = 0; page !== 0 && tries < BIN_TRIES; tries++) {
        const buffer = this.read(page as PageId, WRITER);
        if (this.#findRun(buffer, clusters) >= 0) return page as PageId;
        page = this.#wordsOf(buffer)[(this.#baseOf(buffer) >> 2) + 7]! >>> 0;
      }
    }
    return NO_PAGE;
  }

  /** First cluster of a run of so many free ones, or -1. */
  #findRun(buffer: BufferId, clusters: number): number {
    const bytes = this.#bytesOf(buffer);
    const at = this.#baseOf(buffer) + BITMAP_OFFSET;
    let run = 0;
    for (let i = 0; i < this.perPage; i++) {
      run = (bytes[at + (i >> 3)]! & (1 << (i & 7))) === 0 ? run + 1 : 0;
      if (run === clusters) return i - clusters + 1;
    }
    return -1;
  }

  /** Makes clusters used (1) or free (0). */
  #flip(buffer: BufferId, first: number, clusters: number, to: number): void {
    const bytes = this.#bytesOf(buffer);
    const base = this.#baseOf(buffer);
    for (let i = first; i < first + clusters; i++) {
      const at = base + BITMAP_OFFSET + (i >> 3);
      const bit = 1 << (i & 7);
      if (((bytes[at]! & bit) !== 0) === (to === 1)) {
        throw corruptPage(this.#pages.pageOf(buffer), `use of cluster ${i}`, 1 - to, to);
      }
      bytes[at]! ^= bit;
    }
    this.#wordsOf(buffer)[(base >> 2) + 5]! += (to === 1 ? clusters : -clusters) << 16;
    this.#pages.markFront(buffer, 16, CLUSTERS_OFFSET);
  }

  /** Moves a cluster page to the bin of its longest free run. */
  #rebin(buffer: BufferId): void {
    const bin = this.classOf(this.longestRun(buffer));
    const old = this.#bytesOf(buffer)[this.#baseOf(buffer) + 21]! - 1;
    if (bin === old) return;
    if (bin >= ROOT_BINS)
      throw corruptPage(this.#pages.pageOf(buffer), 'free clusters', 'few', 'all');
    this.#unlink(buffer);
    if (bin >= 0) this.#link(buffer, bin);
  }

  #link(buffer: BufferId, bin: number): void {
    const pages = this.#pages;
    const page = pages.pageOf(buffer);
    const root = pages.edit(this.#root);
    const slot = (this.#baseOf(root) + ROOT_BINS_OFFSET + 4 * bin) >> 2;
    const next = this.#wordsOf(root)[slot]!;
    this.#wordsOf(root)[slot] = page;
    pages.markFront(root, ROOT_BINS_OFFSET + 4 * bin, ROOT_BINS_OFFSET + 4 * bin + 4);
    const words = this.#wordsOf(buffer);
    const word = this.#baseOf(buffer) >> 2;
    this.#bytesOf(buffer)[4 * word + 21] = bin + 1;
    words[word + 6] = 0;
    words[word + 7] = next;
    pages.markFront(buffer, 20, 32);
    if (next !== 0) this.#setNeighbour(next >>> 0, 6, page);
  }

  #unlink(buffer: BufferId): void {
    const pages = this.#pages;
    const base = this.#baseOf(buffer);
    const bin = this.#bytesOf(buffer)[base + 21]! - 1;
    if (bin < 0) return;
    if (bin >= ROOT_BINS) throw corruptPage(pages.pageOf(buffer), 'bin', `< ${ROOT_BINS}`, bin);
    const words = this.#wordsOf(buffer);
    const previous = words[(base >> 2) + 6]!;
    const next = words[(base >> 2) + 7]!;
    this.#bytesOf(buffer)[base + 21] = 0;
    words[(base >> 2) + 6] = 0;
    words[(base >> 2) + 7] = 0;
    pages.markFront(buffer, 20, 32);
    if (previous !== 0) {
      this.#setNeighbour(previous >>> 0, 7, next);
    } else {
      const root = pages.edit(this.#root);
      const at = ROOT_BINS_OFFSET + 4 * bin;
      this.#wordsOf(root)[(this.#baseOf(root) + at) >> 2] = next;
      pages.markFront(root, at, at + 4);
    }
    if (next !== 0) this.#setNeighbour(next >>> 0, 6, previous);
  }

  /** Sets word 6 (previous) or 7 (next) of a cluster page. */
  #setNeighbour(page: number, word: number, value: number): void {
    this.read(page as PageId, WRITER);
    const buffer = this.#pages.edit(page as PageId);
    this.#wordsOf(buffer)[(this.#baseOf(buffer) >> 2) + word] = value;
    this.#pages.markFront(buffer, 4 * word, 4 * word + 4);
  }

  #bytesOf(buffer: BufferId): Uint8Array {
    return this.#pages.bytes[buffer >> this.#pages.chunkShift]!;
  }

  #wordsOf(buffer: BufferId): Int32Array {
    return this.#pages.words[buffer >> this.#pages.chunkShift]!;
  }

  #baseOf(buffer: BufferId): number {
    return (buffer & this.#pages.chunkMask) << this.#pages.pageShift;
  }
}
