/**
 * External sort of entries (a key and a row, both bytes) inside the working memory: for ORDER BY,
 * DISTINCT and GROUP BY on the question side, for bulk loads and index builds on the data side.
 *
 *   add ──> arena ── full: sorted ──> kept in memory, or spilled as a run ──> next: merge of all
 *
 * An arena (`sort-arena.ts`) is one piece of work memory that doubles until the work space refuses
 * more, up to a size that the processor's cache holds; a full one is sorted and kept while there is
 * memory for another, else it and those kept before are written as runs of the spill file. At the
 * end they are merged (`sort-merge.ts`), at most so many at a time.
 *
 * Equal keys come in the order in which they were added, or with `latestFirst` in the reverse.
 */
import type { ByteWriter } from '../base/bytes.ts';
import { DatabaseError } from '../errors.ts';
import { ARENA_BYTES_MAX, SortArena, type SortedEntry } from './sort-arena.ts';
import { EntryReader, MergeReader, mergeRuns, tooLarge } from './sort-merge.ts';
import type { SpillRun, WorkArea, WorkSpace } from './work.ts';

export { compareEntries, type SortedEntry } from './sort-arena.ts';

/** Bytes of the first arena: few rows take little. */
const ARENA_BYTES_FIRST = 4 * 1024;
/** Runs that are merged at a time: as many as there is memory for. */
const RUNS_MERGED_MIN = 2;
const RUNS_MERGED_MAX = 32;
/** Bytes that a run is read, and a merged one written, through. */
const BUFFER_BYTES_MIN = 4 * 1024;
const BUFFER_BYTES_MAX = 256 * 1024;
/** Entries before which those beyond the limit are not forgotten. */
const CUT_MIN = 1024;
/** Shared bytes of keys that are looked for. */
const SAMPLE_BYTES = 256;

export interface SorterOptions {
  /** Only so many of the first rows are wanted; default all. */
  readonly limit?: number | undefined;
  /** Of equal keys the one added last comes first. */
  readonly latestFirst?: boolean;
  /** Entries know their ordinals; not for sorters with a limit. */
  readonly ordinals?: boolean;
}

/** Takes entries in any order and gives them back in the order of their keys. */
export class Sorter {
  /** Entries that were added. */
  count = 0;
  /** Bytes of their keys and rows. */
  bytes = 0;
  /** Runs that were spilled, merged ones included. */
  runsSpilled = 0;
  readonly #work: WorkSpace;
  readonly #limit: number;
  readonly #latestFirst: boolean;
  readonly #ordinals: boolean;
  #arena: SortArena;
  /** Full arenas, sorted, in the order in which they were filled; none once one was spilled. */
  #full: SortArena[] = [];
  /** Spilled runs in the order in which their entries were added. */
  #runs: SpillRun[] = [];
  /** Leading bytes that all keys share. */
  #sharedBytes = Infinity;
  /** The first bytes of some key. */
  #sample: Uint8Array | undefined;
  #reader: MergeReader | undefined;

  constructor(work: WorkSpace, options: SorterOptions = {}) {
    this.#work = work;
    this.#limit = options.limit ?? Infinity;
    this.#latestFirst = options.latestFirst ?? false;
    this.#ordinals = options.ordinals ?? false;
    this.#arena = new SortArena(this.#latestFirst, 0);
  }

  add(key: ByteWriter, row: ByteWriter): void {
    this.addBytes(key.bytes, key.length, row.bytes, 0, row.length);
  }

  /** Adds an entry, whose bytes are copied. */
  addBytes(
    key: Uint8Array,
    keyBytes: number,
    row: Uint8Array,
    rowOffset: number,
    rowBytes: number,
  ): void {
    if (!this.#arena.add(key, keyBytes, row, rowOffset, rowBytes)) {
      this.#makeRoom(keyBytes + rowBytes);
      this.#arena.add(key, keyBytes, row, rowOffset, rowBytes);
    }
    this.count++;
    this.bytes += keyBytes + rowBytes;
  }

  /** Makes the arena have room for an entry: a cut one, a larger one, or another. */
  #makeRoom(entryBytes: number): void {
    const arena = this.#arena;
    if (arena.count >= Math.max(CUT_MIN, 2 * this.#limit) && this.#tryCut(entryBytes)) return;
    const held = arena.byteCount;
    const needed = SortArena.bytesFor(entryBytes);
    const wanted = Math.max(ARENA_BYTES_FIRST, 2 * held, held + needed);
    if (held < ARENA_BYTES_MAX) {
      const larger = this.#tryReserve(Math.max(held + needed, Math.min(wanted, ARENA_BYTES_MAX)));
      if (larger !== undefined) return arena.moveTo(larger);
    } else if (this.#runs.length === 0) {
      const another = this.#tryReserve(Math.max(held, needed));
      if (another !== undefined) {
        arena.sort();
        this.#full.push(arena);
        this.#begin(another);
        return;
      }
    }
    this.#spillAll();
    // Given back, the memory may make a larger one.
    const possible = Math.min(wanted, ARENA_BYTES_MAX, this.#work.availableBytes);
    const most = Math.max(needed, possible);
    const least = Math.max(needed, Math.min(held, ARENA_BYTES_MAX));
    this.#begin(this.#tryReserve(most) ?? this.#tryReserve(least) ?? this.#refuse(entryBytes));
  }

  /** Everything else is spilled by then: the entry is larger than what a sort may take. */
  #refuse(entryBytes: number): never {
    throw tooLarge(entryBytes, this.#work, this.#ordinals ? this.count : undefined);
  }

  #begin(area: WorkArea): void {
    this.#arena = new SortArena(this.#latestFirst, this.count);
    this.#arena.moveTo(area);
  }

  /** Forgets entries beyond the limit; answers whether there is room then. */
  #tryCut(entryBytes: number): boolean {
    const scratch = this.#tryReserve(this.#arena.byteCount);
    if (scratch === undefined) return false;
    this.#arena.cut(this.#limit, scratch);
    scratch.release();
    return this.#arena.hasRoom(entryBytes);
  }

  #tryReserve(bytes: number): WorkArea | undefined {
    try {
      return this.#work.reserve((bytes + 3) & ~3);
    } catch (cause) {
      if (cause instanceof DatabaseError && cause.code === 'limit.memory') return undefined;
      throw cause;
    }
  }

  /** Writes all arenas as runs and gives their memory back. */
  #spillAll(): void {
    for (const arena of [...this.#full, this.#arena]) {
      if (arena.count > 0) {
        const run = this.#work.spill();
        this.#runs.push(run);
        this.runsSpilled++;
        arena.writeTo(run, this.#limit, this.#ordinals);
        this.#noteShared(arena);
      }
      arena.release();
    }
    this.#full = [];
  }

  /** Leading bytes that the keys of an arena share with all before it. */
  #noteShared(arena: SortArena): void {
    arena.open(0);
    const { bytes, keyOffset } = arena;
    const most = Math.min(arena.sharedBytes, this.#sharedBytes, SAMPLE_BYTES);
    this.#sample ??= bytes.slice(keyOffset, keyOffset + most);
    let i = 0;
    while (i < most && bytes[keyOffset + i] === this.#sample[i]) i++;
    this.#sharedBytes = i;
  }

  /** Goes to the next entry in order; answers it, until the next call; `undefined` at the end. */
  next(): SortedEntry | undefined {
    this.#reader ??= this.#finish();
    return this.#reader.next();
  }

  #finish(): MergeReader {
    if (this.#runs.length === 0) {
      this.#arena.sort();
      const arenas = [...this.#full, this.#arena].filter((arena) => arena.count > 0);
      for (const arena of arenas) this.#noteShared(arena);
      const shared = this.#sharedBytes;
      const readers = arenas.map((arena) => EntryReader.ofArena(arena, shared));
      return new MergeReader(readers, this.#latestFirst);
    }
    this.#spillAll();
    const few = Math.floor(this.#work.availableBytes / (4 * BUFFER_BYTES_MIN)) - 1;
    const merged = Math.max(RUNS_MERGED_MIN, Math.min(RUNS_MERGED_MAX, few));
    while (this.#runs.length > merged) this.#mergeSome(Math.min(merged, this.#runs.length));
    return this.#mergeOf(this.#runs.splice(0));
  }

  #mergeOf(runs: readonly SpillRun[]): MergeReader {
    const share = Math.floor(this.#work.availableBytes / (runs.length + 1)) & ~4095;
    return mergeRuns(runs, this.#work, {
      bufferBytes: Math.max(BUFFER_BYTES_MIN, Math.min(BUFFER_BYTES_MAX, share)),
      sharedBytes: this.#sharedBytes,
      latestFirst: this.#latestFirst,
      hasOrdinals: this.#ordinals,
    });
  }

  #mergeSome(count: number): void {
    const merged = this.#work.spill();
    const reader = this.#mergeOf(this.#runs.splice(0, count, merged));
    this.runsSpilled++;
    let buffer: WorkArea | undefined;
    try {
      buffer = this.#work.reserve(BUFFER_BYTES_MIN);
      reader.writeTo(merged, buffer.bytes, this.#ordinals);
    } finally {
      buffer?.release();
      reader.close();
    }
  }

  /** Gives memory and runs back. */
  close(): void {
    this.#reader?.close();
    for (const arena of [...this.#full, this.#arena]) arena.release();
    for (const run of this.#runs) run.close();
    this.#full = [];
    this.#runs = [];
  }
}
