/**
 * A database file and its log, open: creating, recovering, committing at a durability level, and
 * checkpoints paced by commits. The door of this folder: the store and `database.ts` use nothing
 * else but `pages.ts` and the trees.
 *
 *   absent ── create ──> clean ── first commit: log started, flag set ──> open for writing
 *                          ^                                                   │
 *                          └───── close: checkpoint, flag cleared, log cut ────┤
 *                          └───── open after a crash: recovery ────────────────┘
 */
import { assert } from '../base/assert.ts';
import { Ledger } from '../base/ledger.ts';
import { type DatabaseError, failure, isFull } from '../errors.ts';
import { CODE, MEMORY_BYTES_MIN, MEMORY_PAGES_MIN } from '../limits.ts';
import { Checkpoint, type CheckpointCounters } from './checkpoint.ts';
import { type Appended, appendFrames, countUnplaced, dropFrames, isShrinking } from './commit.ts';
import { type File, type FileSystem, type Lock } from './file.ts';
import {
  EMPTY_ROOT,
  type FileLayout,
  type Header,
  HEADER_BYTES,
  headerSlots,
  readHeader,
  writeHeaderCopy,
} from './header.ts';
import { Log, LOG_PENDING_BYTES, LOG_STEP_BYTES } from './log.ts';
import { PageFile } from './page-file.ts';
import { Pager } from './pager.ts';
import { replayLog } from './recovery.ts';
import { Slab } from './slab.ts';

/** What a commit promises (STORAGE rule 13). */
export type Durability = 'full' | 'group' | 'buffered' | 'none';

export interface StorageOptions {
  readonly fs: FileSystem;
  readonly path: string;
  readonly memoryBytes: number;
  /** Refuses a budget below `MEMORY_PAGES_MIN`: one that only takes copies of pages needs less. */
  readonly refuseSmallMemory?: boolean;
  /** Layout of a new file. */
  readonly layout: FileLayout;
  /** Random bytes that name a new file. */
  readonly fileId: Uint8Array; // read only when a file is made: it may be a getter
  readonly readOnly?: boolean;
  /** Lets a read-only open see the last checkpoint of a file that was not closed. */
  readonly lastCheckpoint?: boolean;
  /** Settings of the layout that the caller named: they must be what the file has. */
  readonly named?: Partial<FileLayout>;
  /** Delay after which a `buffered` commit is written and synced, milliseconds. */
  readonly delayMs?: number;
  /** Writes each commit of level `none` to the file. */
  readonly writeEach?: boolean;
  /** Milliseconds of a clock that only goes forward. */
  readonly now: () => number;
}

const SEGMENT_BYTES_MAX = 16 << 20;
const DELAY_MS = 250;
/** Pages of a checkpoint that are due together before any is written. */
const PAGES_DUE = 16;
const STEP_PAGES = 64;
/** Files of fewer headers are looked at for what processes that died making them left. */
const YOUNG_SEQUENCE = 64;

/** Counters of a storage; every one counts since the file was opened. */
export interface StorageCounters extends CheckpointCounters {
  commits: number;
  commitSyncs: number;
  placeSyncs: number;
  /** Syncs of starting a log and setting or clearing the flag. */
  headerSyncs: number;
  /** Commits that had to wait for a checkpoint. */
  stalls: number;
  recoveredCommits: number;
}

export class Storage extends Pager {
  readonly counters: StorageCounters = {
    commits: 0,
    commitSyncs: 0,
    placeSyncs: 0,
    headerSyncs: 0,
    stalls: 0,
    recoveredCommits: 0,
    checkpoints: 0,
    syncs: 0,
    sliceSyncs: 0,
    logSyncs: 0,
  };
  /** Header copies that were found damaged, and mended if the file may be written. */
  readonly mendedCopies: readonly number[];
  readonly #fs: FileSystem;
  readonly #file: File;
  readonly #lock: Lock | undefined;
  readonly #delayMs: number;
  readonly #writeEach: boolean;
  readonly #now: () => number;
  #logFile: File | undefined;
  #checkpoint: Checkpoint | undefined;
  /** Pages and fractions: a double from the start, since V8 forgets code when a field changes. */
  #credit = -0;
  /** When the oldest commit that is not synced was made; Infinity if there is none. */
  #oldestUnsyncedMs = Infinity;
  /** Place frames name slots that the data file was not synced for (rule 9). */
  #placesUnsynced = false;
  #closed = false;

  private constructor(
    options: StorageOptions,
    opened: {
      path: string;
      file: File;
      lock: Lock | undefined;
      header: Header;
      badCopies: readonly number[];
    },
  ) {
    const { header, file } = opened;
    const ledger = new Ledger(options.memoryBytes);
    ledger.charge('code', codeBytes('store', options.memoryBytes, header.layout));
    const slab = new Slab(header.layout.pageBytes, ledger);
    const stagingPages = Math.max(2, Math.min(64, options.memoryBytes / 32 / slab.pageBytes) | 0);
    super({
      ledger,
      slab,
      header,
      file: new PageFile(file, slab, stagingPages, ledger),
      log: new Log(header.fileId, segmentBytesFor(options.memoryBytes), ledger),
      path: opened.path,
      readOnly: options.readOnly ?? false,
    });
    this.#fs = options.fs;
    this.#file = file;
    this.#lock = opened.lock;
    this.#delayMs = options.delayMs ?? DELAY_MS;
    this.#writeEach = options.writeEach ?? false;
    this.#now = options.now;
    this.mendedCopies = opened.badCopies;
    if (header.bitmap.depth === 0) {
      for (let slot = 0; slot < headerSlots(slab.pageBytes); slot++) this.slots.claim(slot);
    }
  }

  /**
   * Opens a file, making it first if there is none, and recovers it if it was not closed.
   *
   * @throws {StorageError} storage.locked, storage.not_a_database, storage.future_format, …
   */
  static open(options: StorageOptions): Storage {
    const { fs, readOnly } = options;
    refuseBigEndian();
    const path = fs.resolve(options.path); // the log and the lock lie beside the file, not a link
    if (readOnly !== true) createIfAbsent(options, path);
    const file = fs.open(path, readOnly === true ? 'read' : 'write');
    let lock: Lock | undefined;
    try {
      if (readOnly !== true) lock = fs.lock(path);
      const { header, staleCopies, badCopies } = readHeader(file, path);
      refuseOtherLayout(options, path, header);
      requireMemory(options, header.layout);
      if (readOnly === true) refuseUnrecovered(options, path, header);
      else {
        mendCopies(file, header, staleCopies);
        if (header.sequence < YOUNG_SEQUENCE) fs.removeLeft(path);
      }
      const storage = new Storage(options, { path, file, lock, header, badCopies });
      if (readOnly !== true && header.openForWriting) storage.#recover();
      return storage;
    } catch (cause) {
      lock?.release();
      file.close();
      throw cause;
    }
  }

  get logPath(): string {
    return `${this.path}-log`;
  }

  #recover(): void {
    if (!this.#fs.exists(this.logPath)) {
      throw failure('storage.log_missing', `${this.path} was not closed and its log is missing`, {
        detail: { path: this.path, logPath: this.logPath },
      });
    }
    const logFile = this.#fs.open(this.logPath, 'write');
    try {
      const found = replayLog(this, logFile, this.logPath);
      this.counters.recoveredCommits = found.commits;
      this.#startCheckpoint(false, found.generation + 1, found.end);
      this.#finishCheckpoint();
      logFile.truncate(0);
    } finally {
      logFile.close();
    }
  }

  // ---- transactions

  /** Refuses work after a failure that made the state unknown. */
  refuseIfFailed(): void {
    const { failed } = this;
    if (this.#closed) throw failure('usage.closed', `${this.path} is closed`);
    if (failed === undefined) return;
    throw failure(
      'storage.failed',
      `${this.path} refuses work after an earlier failure: ${failed.message}`,
      { cause: failed, detail: { path: this.path, code: failed.code } },
    );
  }

  override begin(): void {
    this.refuseIfFailed();
    if (this.readOnly) throw failure('usage.read_only', `${this.path} is open for reading only`);
    super.begin();
  }

  /**
   * Commits the open transaction; answers its commit id. If it throws `storage.full`,
   * `limit.memory` or `limit.log` the transaction is still open and the caller rolls it back; any
   * other failure latches.
   */
  commit(level: Durability): number {
    assert(this.inTransaction, 'a transaction is open');
    if (this.overlay.count === 0) {
      // What it found as it wanted it may be of commits that are not durable yet (law T4).
      if (level === 'full') this.flush();
      this.rollback();
      return this.commitId;
    }
    this.startLog();
    this.#secureSlots();
    const appended = this.#append();
    const reserved = this.#prepare(appended.start);
    const placesSynced = this.#syncPlaces(level, appended.pagesPlaced > 0, reserved);
    const commit = this.commitId + 1;
    this.log.appendCommit(commit, this.nextPage, placesSynced);
    try {
      this.#secure(level);
    } catch (cause) {
      this.versions.unreserve(reserved);
      throw this.latchUnknown(cause, `whether commit ${commit} is durable is unknown`);
    }
    for (let k = 0; k < this.overlay.count; k++) this.publish(k, commit);
    this.endCommit(commit, reserved);
    this.counters.commits++;
    this.#pace(appended.bytes + appended.pagesPlaced * this.pageBytes);
    return commit;
  }

  /** Makes sure that everything committed will find a slot, this transaction too (rule 14). */
  #secureSlots(): void {
    try {
      this.reserve.secure(this.overlay.count);
    } catch (cause) {
      if (!isFull(cause)) throw cause;
      const steps = [
        (): void => this.releaseRetired(),
        (): void => this.#finishCheckpoint(),
        (): void => this.#restartLog(), // what a checkpoint replaces is free after it
      ];
      const withKept = !isShrinking(this);
      for (const step of steps) {
        if (this.reserve.lack(countUnplaced(this.overlay), withKept) <= 0) return;
        step();
      }
      if (this.reserve.lack(countUnplaced(this.overlay), withKept) > 0) throw cause;
    }
  }

  /** Appends the frames; where the disk has no room for the log, it is started anew once. */
  #append(): Appended {
    const makeRoom = (): void => this.#makeLogRoom();
    try {
      return appendFrames(this, makeRoom);
    } catch (cause) {
      if (!isFull(cause) || !this.log.started) throw cause;
      if (this.log.used < LOG_STEP_BYTES >> 2) throw cause;
      this.#restartLog();
      return appendFrames(this, makeRoom);
    }
  }

  /** Everything goes into a checkpoint, and the log begins anew in the space that it gives back. */
  #restartLog(): void {
    try {
      this.#endLog();
    } finally {
      if (!this.log.started) {
        this.#logFile?.close();
        this.#logFile = undefined;
      }
    }
    this.startLog();
  }

  /** Does what can fail before the commit frame; undoes the frames if it does. */
  #prepare(start: number): number {
    try {
      return this.preparePublish();
    } catch (cause) {
      dropFrames(this, start);
      throw cause;
    }
  }

  /** Syncs place slots before a `full` commit frame; answers whether all of its own are synced. */
  #syncPlaces(level: Durability, placed: boolean, reserved: number): boolean {
    if (placed) this.#placesUnsynced = true;
    if (level !== 'full') return !placed;
    try {
      this.#syncPlaceSlots();
    } catch (cause) {
      this.versions.unreserve(reserved);
      throw cause;
    }
    return true;
  }

  #syncPlaceSlots(): void {
    if (!this.#placesUnsynced) return;
    if (this.syncFile()) this.counters.placeSyncs++;
    this.#placesUnsynced = false;
  }

  /** Brings the appended commit as far as its level promises. A failure latches. */
  #secure(level: Durability): void {
    const { log } = this;
    if (level === 'full') {
      if (this.syncLog()) this.counters.commitSyncs++;
      this.#oldestUnsyncedMs = Infinity;
      return;
    }
    const now = this.#now();
    this.#oldestUnsyncedMs = Math.min(this.#oldestUnsyncedMs, now);
    if (level === 'group' && log.pendingBytes < LOG_PENDING_BYTES) return;
    const late = now - this.#oldestUnsyncedMs >= this.#delayMs;
    if (late && level === 'buffered') this.flush();
    else if (late || log.pendingBytes >= LOG_PENDING_BYTES || this.#writeEach) this.#writeLog();
  }

  #writeLog(): void {
    try {
      this.log.write();
    } catch (cause) {
      throw this.latch(cause);
    }
  }

  /** Whether commits wait to be written or synced. */
  get hasUnsynced(): boolean {
    return this.log.synced < this.log.appended;
  }

  /** Writes and syncs every commit so far: place slots first, then the log (rule 9). */
  flush(): void {
    this.refuseIfFailed();
    if (!this.hasUnsynced) return;
    this.#syncPlaceSlots();
    if (this.syncLog()) this.counters.commitSyncs++;
    this.#oldestUnsyncedMs = Infinity;
  }

  // ---- snapshots

  /** Opens a snapshot of the newest commit; answers its commit id, which is its view. */
  openSnapshot(): number {
    this.refuseIfFailed();
    this.versions.open(this.commitId);
    return this.commitId;
  }

  closeSnapshot(commit: number): void {
    if (!this.#closed) this.versions.close(commit);
  }

  /** As `openSnapshot`, for one that keeps the buffers of what it lends; see `loans.ts`. */
  openLendingSnapshot(): number {
    const commit = this.openSnapshot();
    try {
      this.loans.open(commit);
    } catch (cause) {
      this.versions.close(commit);
      throw cause;
    }
    return commit;
  }

  closeLendingSnapshot(commit: number): void {
    if (this.#closed) return;
    this.loans.close(commit);
    this.versions.close(commit);
  }

  // ---- log and checkpoints

  /** The first commit after a clean open: a new log, then the flag in both header copies. */
  startLog(): void {
    if (this.log.started) return;
    const logFile = this.#fs.open(this.logPath, 'create');
    const { header } = this;
    try {
      this.log.start(logFile, header.generation + 1, header.replayPosition);
      // Also for a log that was there: a process that died may have left both names unsynced.
      this.#fs.syncFolder(this.logPath);
    } catch (cause) {
      this.log.stop(false);
      logFile.close();
      throw this.latch(cause);
    }
    this.#logFile = logFile;
    this.writeHeader({
      ...header,
      sequence: header.sequence + 1,
      generation: this.log.generation,
      replayPosition: this.log.segmentStart,
      openForWriting: true,
    });
    this.counters.headerSyncs += 3;
  }

  /** The log has its first step before the file takes what room there is. */
  override growFile(slots: number): void {
    this.startLog();
    super.growFile(slots);
  }

  /** Makes the log take a commit: ends the running checkpoint, starts another. */
  #makeLogRoom(): void {
    if (this.#checkpoint !== undefined || !this.log.otherFree) {
      this.counters.stalls++;
      if (this.#checkpoint === undefined) this.#beginCheckpoint(); // the last could not start
      this.#finishCheckpoint();
    }
    try {
      this.#beginCheckpoint();
    } catch (cause) {
      if (!isFull(cause)) throw cause;
      this.#restartLog(); // the disk has no room for another segment
    }
  }

  /** Closes the open segment and starts a checkpoint of what it holds. */
  #beginCheckpoint(): void {
    const { log } = this;
    try {
      if (log.otherFree) log.switchSegment();
    } catch (cause) {
      throw this.latch(cause);
    }
    this.#startCheckpoint(true, log.generation, log.segmentStart);
  }

  #startCheckpoint(openForWriting: boolean, generation: number, replayPosition: number): void {
    const goal = { openForWriting, generation, replayPosition, syncSlices: true };
    this.#checkpoint = new Checkpoint(this, goal, this.counters);
    this.#credit = 0;
  }

  #stepCheckpoint(pages: number): void {
    const checkpoint = this.#checkpoint!;
    checkpoint.step(pages);
    if (!checkpoint.done) return;
    this.#checkpoint = undefined;
    if (this.log.started) this.log.releaseSegment();
  }

  #finishCheckpoint(): void {
    while (this.#checkpoint !== undefined) this.#stepCheckpoint(STEP_PAGES);
  }

  /** A commit earns the checkpoint credit in proportion to what it logged and placed (rule 17). */
  #pace(bytesLogged: number): void {
    try {
      if (this.#checkpoint === undefined) {
        const changedBytes = this.recent.count * this.pageBytes;
        if (changedBytes <= this.ledger.budgetBytes >> 3 && this.log.otherFree) return;
        this.#beginCheckpoint();
      }
      const left = Math.max(1, this.log.room);
      this.#credit += (this.#checkpoint!.remaining * bytesLogged) / left;
      while (this.#checkpoint !== undefined && this.#credit >= PAGES_DUE) {
        const pages = Math.min(STEP_PAGES, Math.floor(this.#credit));
        this.#credit -= pages;
        this.#stepCheckpoint(pages);
      }
    } catch (cause) {
      this.#tolerate(cause);
    }
  }

  /** A checkpoint that lacks space or memory waits for a better time; the commit stands. */
  #tolerate(cause: unknown): void {
    const { code } = cause as DatabaseError;
    if (code !== 'storage.full' && code !== 'limit.memory') throw cause;
  }

  get checkpointRunning(): boolean {
    return this.#checkpoint !== undefined;
  }

  /** Does a step of the running checkpoint in idle time; answers whether there is more to do. */
  idle(): boolean {
    if (this.#checkpoint === undefined || this.failed !== undefined) return false;
    try {
      this.#stepCheckpoint(STEP_PAGES);
    } catch (cause) {
      this.#tolerate(cause);
      return false;
    }
    return this.#checkpoint !== undefined;
  }

  /** Starts a checkpoint if there is something to write; answers whether one is running. */
  startCheckpoint(): boolean {
    this.refuseIfFailed();
    if (this.#checkpoint === undefined && this.recent.count > 0 && this.log.started) {
      this.#beginCheckpoint();
    }
    return this.#checkpoint !== undefined;
  }

  /** Makes every commit so far the file's newest checkpoint. */
  checkpoint(): void {
    this.#finishCheckpoint();
    try {
      this.startCheckpoint();
    } catch (cause) {
      if (!isFull(cause)) throw cause;
      this.#restartLog();
    }
    this.#finishCheckpoint();
  }

  /** Charges for the code of objects and questions, which the first collection loads. */
  chargeObjectsCode(): void {
    const { ledger, header } = this;
    ledger.charge('code', codeBytes('objects', ledger.budgetBytes, header.layout));
  }

  // ---- reading beside a writer of another process

  /** Whether the writer completed a checkpoint since this read-only storage read the header. */
  hasMovedOn(): boolean {
    return readHeader(this.#file, this.path).header.sequence !== this.header.sequence;
  }

  /** Moves a read-only storage on to the newest checkpoint; answers whether there was a newer. */
  refresh(): boolean {
    assert(this.readOnly, 'only a read-only storage moves on');
    const { header } = readHeader(this.#file, this.path);
    if (header.sequence === this.header.sequence) return false;
    this.forgetPages();
    this.header = header;
    this.map.reset(header.map);
    this.bitmap.reset(header.bitmap);
    this.commitId = header.commit;
    this.nextPage = header.nextPage;
    this.coverPage(header.nextPage);
    return true;
  }

  // ---- the end

  /**
   * Closes the file: a checkpoint, the flag cleared, the log cut to nothing. After a failure only
   * the handles are closed, and the next open recovers.
   */
  close(): void {
    if (this.#closed) return;
    try {
      if (this.inTransaction) this.rollback();
      if (!this.readOnly && this.failed === undefined) this.#closeCleanly();
    } finally {
      this.#closed = true;
      this.#release();
    }
  }

  #closeCleanly(): void {
    this.#finishCheckpoint();
    if (!this.log.started) return;
    this.#endLog();
    this.releaseRetired();
    this.cutFile();
  }

  /** Makes everything committed the file's state, clears the flag and cuts the log to nothing. */
  #endLog(): void {
    const { log } = this;
    this.#finishCheckpoint();
    if (this.recent.count > 0) {
      this.#startCheckpoint(false, log.generation + 1, log.appended);
      try {
        this.#finishCheckpoint();
      } catch (cause) {
        this.#checkpoint?.leaveOpen(log.generation, log.appended); // commits may follow
        throw cause;
      }
    } else {
      this.writeHeader({
        ...this.header,
        sequence: this.header.sequence + 1,
        commit: this.commitId,
        generation: log.generation + 1,
        replayPosition: log.appended,
        openForWriting: false,
      });
      this.counters.headerSyncs += 2;
    }
    log.stop(true);
  }

  /** Takes free slots off the end of the file; the newest checkpoint must be the only one. */
  cutFile(): void {
    const { slots } = this;
    const end = slots.usedEnd();
    if (end >= slots.count) return;
    slots.cut(end);
    this.file.cut(end);
  }

  /** Leaves the file as a crash would: nothing is written, handles are closed. */
  abandon(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#release();
  }

  #release(): void {
    this.#checkpoint?.dispose();
    this.dispose();
    this.log.dispose();
    this.file.dispose();
    this.#logFile?.close();
    this.#file.close();
    this.#lock?.release();
    this.ledger.release('code', this.ledger.bytesOf('code'));
  }
}

function segmentBytesFor(memoryBytes: number): number {
  const wanted = Math.min(SEGMENT_BYTES_MAX, memoryBytes / 4);
  return Math.max(1, Math.floor(wanted / LOG_STEP_BYTES)) * LOG_STEP_BYTES;
}

function refuseBigEndian(): void {
  if (new Uint8Array(new Uint32Array([1]).buffer)[0] === 1) return;
  throw failure('usage.platform', 'this machine is big-endian, the format is little-endian');
}

/** Least budget for pages of a size. */
function leastMemory({ pageBytes }: FileLayout): number {
  return Math.max(MEMORY_BYTES_MIN, MEMORY_PAGES_MIN * pageBytes);
}

/** What a budget is charged for the code of a part of the package. */
function codeBytes(part: keyof typeof CODE, memoryBytes: number, layout: FileLayout): number {
  const beyond = Math.max(0, memoryBytes - leastMemory(layout));
  return Math.min(CODE[part].bytesMax, Math.floor(beyond * CODE[part].share));
}

/** Refuses a budget that is too small for pages of a size, before anything is written. */
function requireMemory(options: StorageOptions, layout: FileLayout): void {
  const { memoryBytes, refuseSmallMemory } = options;
  const { pageBytes } = layout;
  const least = leastMemory(layout);
  if (refuseSmallMemory !== true || memoryBytes >= least) return;
  const what = `memory: ${memoryBytes} bytes is under ${least}, least for pages of ${pageBytes}`;
  throw failure('usage.argument', what, {
    detail: { memoryBytes, least, pageBytes },
    hint: `open with memory: '${Math.ceil(least / 2 ** 20)} MiB' or more, or use smaller pages`,
  });
}

/**
 * Makes a new file whole under another name, then gives it its name. The other name is of this
 * file alone, so that two processes that create the same database at once do not share it.
 */
function createIfAbsent(options: StorageOptions, path: string): void {
  const { fs, layout } = options;
  if (fs.exists(path)) return;
  requireMemory(options, layout);
  const { fileId } = options;
  const unique = Array.from(fileId, (byte) => byte.toString(16).padStart(2, '0')).join('');
  const temporary = `${path}-new-${fs.processTag}-${unique}`;
  try {
    makeFile(fs, temporary, fileId, layout);
    giveName(fs, temporary, path);
  } catch (cause) {
    fs.remove(temporary);
    throw cause;
  }
  fs.syncFolder(path);
}

function makeFile(fs: FileSystem, path: string, fileId: Uint8Array, layout: FileLayout): void {
  const file = fs.open(path, 'create');
  try {
    file.truncate(0);
    const header: Header = {
      fileId,
      layout,
      reservedBytes: 0,
      sequence: 1,
      commit: 0,
      generation: 0,
      replayPosition: 0,
      nextPage: 1,
      slotCount: headerSlots(layout.pageBytes),
      openForWriting: false,
      map: EMPTY_ROOT,
      bitmap: EMPTY_ROOT,
    };
    const bytes = headerSlots(layout.pageBytes) * layout.pageBytes;
    file.write(new Uint8Array(bytes), 0, bytes, 0);
    writeHeaderCopy(file, header, 0);
    writeHeaderCopy(file, header, 1);
    file.sync();
  } finally {
    file.close();
  }
}

/** Gives a new file its name, unless another process was faster: then that file is the database. */
function giveName(fs: FileSystem, temporary: string, path: string): void {
  try {
    if (!fs.link(temporary, path)) {
      if (!fs.exists(path)) fs.rename(temporary, path);
      else fs.remove(temporary);
      return;
    }
  } catch (cause) {
    if (!fs.exists(path)) throw cause;
  }
  fs.remove(temporary);
}

function refuseOtherLayout(options: StorageOptions, path: string, header: Header): void {
  for (const [name, value] of Object.entries(options.named ?? {})) {
    const inFile = header.layout[name as keyof FileLayout];
    if (value === undefined || value === inFile) continue;
    throw failure(
      'usage.layout',
      `${path} was made with ${name} ${inFile}, but ${value} was asked for`,
      { detail: { path, setting: name, inFile, askedFor: value } },
    );
  }
}

function refuseUnrecovered(options: StorageOptions, path: string, header: Header): void {
  const { fs } = options;
  if (!header.openForWriting || options.lastCheckpoint === true) return;
  if (fs.lockHolder(path) !== undefined) return;
  throw failure('storage.recovery_needed', `${path} was not closed by its last writer`, {
    detail: { path },
  });
}

/** Writes header copies that are bad or old before anything else is (rule 21). */
function mendCopies(file: File, header: Header, ordinals: readonly number[]): void {
  if (ordinals.length === 0) return;
  for (const ordinal of ordinals) writeHeaderCopy(file, header, ordinal);
  assert(HEADER_BYTES <= 512, 'a header copy is one sector');
  file.sync();
}
