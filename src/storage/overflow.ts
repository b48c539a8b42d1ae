/**
 * Bytes too long for a node: large values, and the tails of long keys.
 *
 * They fill whole pages, listed as runs of PageIds; what is left over lies in clusters of a page
 * that many values of the tree share. A node holds a descriptor of both:
 *
 *   offset  bytes  descriptor
 *        0      4  length of the stored bytes
 *        4      4  PageId of the cluster page that holds the rest, 0 for none
 *        8      2  first cluster there
 *       10      1  number of runs that follow, at most 8; 255: the id of a list page follows
 *       11      1  0
 *       12         runs of 8 bytes (first PageId, number of pages), or 4 bytes (PageId)
 *
 *   offset  bytes  full page (kind 4)     list page (kind 5)
 *       20      1  kind                   kind
 *       22      2                         number of runs
 *       24      4  its ordinal            next list page, 0 none
 *       28      4                         its ordinal
 *       32         stored bytes           runs of 8 bytes
 *
 * How much lies where follows from the length alone: full pages of `pagePayload` bytes, then the
 * rest in clusters (overflow-clusters.ts), or in one more full page where the clusters of a page
 * would not hold it.
 *
 * Writing calls `settle` after every page: no buffer may be held across `write`.
 */
import { comparePieces } from '../base/bytes.ts';
import {
  copyBytes,
  corruptPage,
  descriptorBytes,
  DESCRIPTOR_BYTES,
  DESCRIPTOR_LIST,
  DESCRIPTOR_RUNS_MAX,
  DESCRIPTOR_RUNS_OFFSET,
  KIND_OVERFLOW,
  KIND_RUNS,
} from './btree-node.ts';
import { Clusters } from './overflow-clusters.ts';
import {
  NO_PAGE,
  PAGE_HEADER_BYTES,
  WRITER,
  type BufferId,
  type PageId,
  type Pages,
  type StructureId,
  type View,
} from './pages.ts';

/** What a walk over stored bytes meets, for the whole-file check. */
export interface OverflowVisitor {
  page(page: PageId): void;
  clusters(page: PageId, first: number, count: number): void;
}

export class Overflow {
  /** Stored bytes of a full page. */
  readonly pagePayload: number;
  readonly clusters: Clusters;
  readonly #pages: Pages;
  readonly #structure: StructureId;
  readonly #runsPerList: number;
  /** Runs being read or written: first page, number of pages. */
  #runs: Uint32Array = new Uint32Array(2 * DESCRIPTOR_RUNS_MAX);
  #runCount = 0;
  #runAt = 0;
  #runUsed = 0;
  #nextList = 0;
  #listOrdinal = 0;
  // The descriptor that was decoded last.
  #owner = 0;
  #length = 0;
  #fullPages = 0;
  #restBytes = 0;
  #tailPage = 0;
  #tailFirst = 0;

  constructor(pages: Pages, structure: StructureId, root: PageId, clusterBytes: number) {
    this.#pages = pages;
    this.#structure = structure;
    this.pagePayload = pages.usableBytes - PAGE_HEADER_BYTES;
    this.clusters = new Clusters(pages, structure, root, clusterBytes);
    this.#runsPerList = this.pagePayload >> 3;
  }

  /** Bytes that a descriptor stands for. */
  lengthOf(descriptor: Uint8Array, at: number): number {
    return readUint32(descriptor, at);
  }

  /**
   * Stores bytes and puts their descriptor into `descriptor`; answers the descriptor's length.
   * `order`: first four key bytes of the owner, for pages' order in the file.
   */
  write(
    source: Uint8Array,
    offset: number,
    length: number,
    order: number,
    descriptor: Uint8Array,
  ): number {
    this.#plan(length);
    const list = this.#writePages(source, offset, length, order);
    let tailPage = 0;
    let tailFirst = 0;
    if (this.#restBytes > 0) {
      const from = offset + this.#fullPages * this.pagePayload;
      tailFirst = this.clusters.write(source, from, this.#restBytes, order);
      tailPage = this.clusters.page;
    }
    descriptor.fill(0, 0, DESCRIPTOR_BYTES);
    writeUint32(descriptor, 0, length);
    writeUint32(descriptor, 4, tailPage);
    descriptor[8] = tailFirst;
    if (list !== 0) {
      descriptor[DESCRIPTOR_RUNS_OFFSET] = DESCRIPTOR_LIST;
      writeUint32(descriptor, DESCRIPTOR_BYTES, list);
      return DESCRIPTOR_BYTES + 4;
    }
    descriptor[DESCRIPTOR_RUNS_OFFSET] = this.#runCount;
    for (let i = 0; i < 2 * this.#runCount; i++) {
      writeUint32(descriptor, DESCRIPTOR_BYTES + 4 * i, this.#runs[i]!);
    }
    return DESCRIPTOR_BYTES + 8 * this.#runCount;
  }

  /**
   * Checks that a descriptor names as many pages as its length needs, before memory is taken for
   * that length.
   */
  checkLength(view: View, owner: PageId, descriptor: Uint8Array, at: number): void {
    this.#decode(owner, descriptor, at);
    if (this.#nextList === 0) return; // inline runs were added up
    let pages = 0;
    while (this.#nextList !== 0 && pages <= this.#fullPages) {
      this.#loadList(view);
      for (let i = 0; i < this.#runCount; i++) pages += this.#runs[2 * i + 1]!;
    }
    if (pages !== this.#fullPages) throw this.#corrupt('pages of its runs', this.#fullPages, pages);
  }

  /** Copies stored bytes `from` ≤ x < `from + length` into the target. */
  read(
    view: View,
    owner: PageId,
    descriptor: Uint8Array,
    at: number,
    from: number,
    target: Uint8Array,
    targetOffset: number,
    length: number,
  ): void {
    this.#decode(owner, descriptor, at);
    this.#scan(view, from, length, target, targetOffset, true);
  }

  /**
   * Compares all stored bytes with bytes of the caller; answers the sign of stored − given. A
   * proper beginning of the other is the lesser.
   */
  compare(
    view: View,
    owner: PageId,
    descriptor: Uint8Array,
    at: number,
    other: Uint8Array,
    offset: number,
    length: number,
  ): number {
    this.#decode(owner, descriptor, at);
    const stored = this.#length;
    const sign = this.#scan(view, 0, stored < length ? stored : length, other, offset, false);
    return sign !== 0 ? sign : stored - length;
  }

  /** Gives the pages and clusters of stored bytes back. */
  free(owner: PageId, descriptor: Uint8Array, at: number): void {
    this.#decode(owner, descriptor, at);
    let left = this.#fullPages;
    while (left > 0) {
      if (this.#runAt === this.#runCount) {
        const list = this.#nextList as PageId;
        this.#loadList(WRITER);
        this.#pages.free(list);
      }
      const first = this.#runs[2 * this.#runAt]!;
      const count = this.#runs[2 * this.#runAt + 1]!;
      this.#runAt++;
      if (count > left) throw this.#corrupt('pages of its runs', left, count);
      for (let i = 0; i < count; i++) this.#pages.free((first + i) as PageId);
      left -= count;
    }
    if (this.#restBytes > 0) {
      this.clusters.free(this.#tailPage as PageId, this.#tailFirst, this.#restBytes);
    }
  }

  /** Reads and checks every page of stored bytes and reports it. */
  walk(
    view: View,
    owner: PageId,
    descriptor: Uint8Array,
    at: number,
    visitor: OverflowVisitor,
  ): void {
    this.#decode(owner, descriptor, at);
    for (let ordinal = 0; ordinal < this.#fullPages; ordinal++) {
      if (this.#runAt === this.#runCount) {
        const list = this.#nextList as PageId;
        this.#loadList(view);
        visitor.page(list);
      }
      const page = this.#nextPage(view);
      this.#readFull(page, ordinal, view);
      visitor.page(page);
    }
    if (this.#runAt !== this.#runCount || this.#nextList !== 0) {
      throw this.#corrupt('pages of its runs', this.#fullPages, 'more');
    }
    if (this.#restBytes > 0) {
      const count = this.clusters.countFor(this.#restBytes);
      this.clusters.readUsed(this.#tailPage as PageId, view, this.#tailFirst, count);
      visitor.clusters(this.#tailPage as PageId, this.#tailFirst, count);
    }
  }

  /** Full pages and bytes in clusters for a length. */
  #plan(length: number): void {
    const payload = this.pagePayload;
    this.#fullPages = Math.floor(length / payload);
    this.#restBytes = length - this.#fullPages * payload;
    if (this.#restBytes > this.clusters.payload * this.clusters.perPage) {
      this.#fullPages++;
      this.#restBytes = 0;
    }
  }

  /** Writes the full pages; leaves runs in `#runs` and answers the first list page, or 0. */
  #writePages(source: Uint8Array, offset: number, length: number, order: number): number {
    const payload = this.pagePayload;
    let list = 0;
    let lastList = 0;
    let lists = 0;
    this.#runCount = 0;
    for (let ordinal = 0; ordinal < this.#fullPages; ordinal++) {
      const from = ordinal * payload;
      const count = Math.min(payload, length - from);
      const page = this.#writeFull(source, offset + from, count, ordinal, order);
      if (this.#addRun(page)) continue;
      lastList = this.#writeList(lastList, lists++, order);
      if (list === 0) list = lastList;
      this.#addRun(page);
    }
    if (list === 0 && this.#runCount <= DESCRIPTOR_RUNS_MAX) return 0;
    lastList = this.#writeList(lastList, lists, order);
    return list === 0 ? lastList : list;
  }

  #writeFull(
    source: Uint8Array,
    from: number,
    count: number,
    ordinal: number,
    order: number,
  ): PageId {
    const pages = this.#pages;
    const buffer = pages.allocate(this.#structure);
    const words = this.#wordsOf(buffer);
    const base = this.#baseOf(buffer);
    words[(base + 16) >> 2] = order;
    words[(base + 20) >> 2] = KIND_OVERFLOW;
    words[(base + 24) >> 2] = ordinal;
    copyBytes(source, from, this.#bytesOf(buffer), base + PAGE_HEADER_BYTES, count);
    pages.markFront(buffer, 16, PAGE_HEADER_BYTES);
    pages.markBack(buffer, PAGE_HEADER_BYTES, PAGE_HEADER_BYTES + count);
    const page = pages.pageOf(buffer);
    pages.settle();
    return page;
  }

  /** Adds a page to the runs; false when a list page's worth of them is full. */
  #addRun(page: number): boolean {
    const last = 2 * this.#runCount - 2;
    if (last >= 0 && this.#runs[last]! + this.#runs[last + 1]! === page) {
      this.#runs[last + 1]!++;
      return true;
    }
    if (this.#runCount === this.#runsPerList) return false;
    if (2 * this.#runCount === this.#runs.length) this.#growRuns();
    this.#runs[last + 2] = page;
    this.#runs[last + 3] = 1;
    this.#runCount++;
    return true;
  }

  #growRuns(): void {
    const runs = new Uint32Array(2 * this.#runsPerList);
    runs.set(this.#runs);
    this.#runs = runs;
  }

  /** Writes the runs as a list page after another one and empties them. */
  #writeList(previous: number, ordinal: number, order: number): number {
    const pages = this.#pages;
    const buffer = pages.allocate(this.#structure);
    const words = this.#wordsOf(buffer);
    const word = this.#baseOf(buffer) >> 2;
    words[word + 4] = order;
    words[word + 5] = KIND_RUNS | (this.#runCount << 16);
    words[word + 7] = ordinal;
    for (let i = 0; i < 2 * this.#runCount; i++) words[word + 8 + i] = this.#runs[i]!;
    pages.markFront(buffer, 16, PAGE_HEADER_BYTES + 8 * this.#runCount);
    const page = pages.pageOf(buffer);
    if (previous !== 0) {
      const last = pages.edit(previous as PageId);
      this.#wordsOf(last)[(this.#baseOf(last) >> 2) + 6] = page;
      pages.markFront(last, 24, 28);
    }
    pages.settle();
    this.#runCount = 0;
    return page;
  }

  /** Takes a descriptor apart; the runs it holds go to `#runs`. */
  #decode(owner: PageId, descriptor: Uint8Array, at: number): void {
    this.#owner = owner;
    this.#length = readUint32(descriptor, at);
    this.#plan(this.#length);
    this.#tailPage = readUint32(descriptor, at + 4);
    this.#tailFirst = descriptor[at + 8]! | (descriptor[at + 9]! << 8);
    this.#runCount = this.#runAt = this.#runUsed = 0;
    this.#nextList = this.#listOrdinal = 0;
    const runs = descriptor[at + DESCRIPTOR_RUNS_OFFSET]!;
    if (runs === DESCRIPTOR_LIST) {
      this.#nextList = readUint32(descriptor, at + DESCRIPTOR_BYTES);
    } else {
      if (runs > DESCRIPTOR_RUNS_MAX || at + descriptorBytes(descriptor, at) > descriptor.length) {
        throw this.#corrupt('runs of a descriptor', DESCRIPTOR_RUNS_MAX, runs);
      }
      let pages = 0;
      for (let i = 0; i < 2 * runs; i++) {
        this.#runs[i] = readUint32(descriptor, at + DESCRIPTOR_BYTES + 4 * i);
        if ((i & 1) === 1) pages += this.#runs[i]!;
      }
      this.#runCount = runs;
      if (pages !== this.#fullPages) {
        throw this.#corrupt('pages of its runs', this.#fullPages, pages);
      }
    }
    if (this.#restBytes > 0 !== (this.#tailPage !== 0)) {
      throw this.#corrupt('cluster page of a descriptor', this.#restBytes, this.#tailPage);
    }
  }

  /**
   * Goes over stored bytes `from` ≤ x < `from + length`: copies them to the other bytes, or
   * compares, and then answers the sign of the first difference.
   */
  #scan(
    view: View,
    from: number,
    length: number,
    other: Uint8Array,
    offset: number,
    copies: boolean,
  ): number {
    const payload = this.pagePayload;
    const end = from + length;
    const pagesEnd = Math.min(end, this.#fullPages * payload);
    let at = from;
    if (at < pagesEnd) this.#skipPages(Math.floor(at / payload), view);
    while (at < pagesEnd) {
      const ordinal = Math.floor(at / payload);
      const inside = at - ordinal * payload;
      const count = Math.min(payload - inside, pagesEnd - at);
      const buffer = this.#readFull(this.#nextPage(view), ordinal, view);
      const place = this.#baseOf(buffer) + PAGE_HEADER_BYTES + inside;
      const bytes = this.#bytesOf(buffer);
      if (copies) copyBytes(bytes, place, other, offset + at - from, count);
      else {
        const sign = comparePieces(bytes, place, other, offset + at - from, count);
        if (sign !== 0) return sign;
      }
      at += count;
    }
    if (at >= end) return 0;
    const count = this.clusters.countFor(this.#restBytes);
    const first = this.#tailFirst;
    const buffer = this.clusters.readUsed(this.#tailPage as PageId, view, first, count);
    const inside = at - this.#fullPages * payload;
    const place = this.#baseOf(buffer) + this.clusters.offsetOf(first) + inside;
    const bytes = this.#bytesOf(buffer);
    if (!copies) return comparePieces(bytes, place, other, offset + at - from, end - at);
    copyBytes(bytes, place, other, offset + at - from, end - at);
    return 0;
  }

  #skipPages(count: number, view: View): void {
    let left = count;
    while (left > 0) {
      if (this.#runAt === this.#runCount) this.#loadList(view);
      const run = this.#runs[2 * this.#runAt + 1]!;
      if (run > left) {
        this.#runUsed = left;
        return;
      }
      this.#runAt++;
      left -= run;
    }
  }

  #nextPage(view: View): PageId {
    if (this.#runAt === this.#runCount) this.#loadList(view);
    const first = this.#runs[2 * this.#runAt]!;
    const page = first + this.#runUsed++;
    if (this.#runUsed >= this.#runs[2 * this.#runAt + 1]!) {
      this.#runAt++;
      this.#runUsed = 0;
    }
    return page as PageId;
  }

  /** Reads the next list page into `#runs`. */
  #loadList(view: View): void {
    const page = this.#nextList as PageId;
    if (page === NO_PAGE) throw this.#corrupt('pages of its runs', this.#fullPages, 'fewer');
    const buffer = this.#readKind(page, view, KIND_RUNS);
    const words = this.#wordsOf(buffer);
    const word = this.#baseOf(buffer) >> 2;
    const count = words[word + 5]! >>> 16;
    const ordinal = words[word + 7]! >>> 0;
    if (count === 0 || count > this.#runsPerList) throw corruptPage(page, 'runs', '1..', count);
    if (ordinal !== this.#listOrdinal) {
      throw corruptPage(page, 'ordinal of a list page', this.#listOrdinal, ordinal);
    }
    if (2 * count > this.#runs.length) this.#growRuns();
    for (let i = 0; i < 2 * count; i++) this.#runs[i] = words[word + 8 + i]!;
    for (let i = 0; i < count; i++) {
      if (this.#runs[2 * i + 1] === 0) throw corruptPage(page, 'pages of a run', '1..', 0);
    }
    this.#nextList = words[word + 6]! >>> 0;
    this.#listOrdinal++;
    this.#runCount = count;
    this.#runAt = this.#runUsed = 0;
  }

  #readFull(page: PageId, ordinal: number, view: View): BufferId {
    const buffer = this.#readKind(page, view, KIND_OVERFLOW);
    const found = this.#wordsOf(buffer)[(this.#baseOf(buffer) >> 2) + 6]! >>> 0;
    if (found !== ordinal) throw corruptPage(page, 'ordinal of an overflow page', ordinal, found);
    return buffer;
  }

  #readKind(page: PageId, view: View, kind: number): BufferId {
    const buffer = this.#pages.read(page, view);
    const words = this.#wordsOf(buffer);
    const word = this.#baseOf(buffer) >> 2;
    const found = words[word + 5]! & 0xff;
    if (found !== kind) throw corruptPage(page, 'kind', kind, found);
    if (words[word + 1] !== (this.#structure | 0)) {
      throw corruptPage(page, 'structure', this.#structure, words[word + 1]);
    }
    return buffer;
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

  #corrupt(what: string, expected: unknown, found: unknown): Error {
    return corruptPage(this.#owner, what, expected, found);
  }
}

function readUint32(bytes: Uint8Array, at: number): number {
  return (
    (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>> 0
  );
}

function writeUint32(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value;
  bytes[at + 1] = value >>> 8;
  bytes[at + 2] = value >>> 16;
  bytes[at + 3] = value >>> 24;
}
