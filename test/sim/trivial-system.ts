/**
 * A small system that keeps every promise, to test the simulation itself: all in memory, on disk
 * a state file and a log of JSON lines.
 *
 *   state file: one line {generation, collections}   replaced by rename at each checkpoint
 *   log file:   lines {generation, position, changes} of commits after it
 *
 *   line = 8 hex digits of CRC-32 over the rest, a space, JSON, '\n'
 *
 * Recovery applies the lines of the state's generation up to the first bad one and ends in a
 * checkpoint, so that stale lines behind the end are never reached by new ones. Plants break one
 * of these rules each.
 */
import { crc32 } from 'node:zlib';
import { failure } from '../../src/errors.ts';
import type { File, FileSystem } from '../../src/storage/file.ts';
import { applyChange, copyOf, type Change, type State } from './model.ts';
import type {
  CollectionKind,
  Level,
  Place,
  System,
  SystemFactory,
  SystemOptions,
  SystemReads,
  SystemRecord,
  SystemSnapshot,
} from './system.ts';

const SPILLED_CHANGES = 200;

class TrivialReads implements SystemReads {
  protected state: State = new Map();

  get(collection: string, key: number): SystemRecord | undefined {
    return this.state.get(collection)!.records.get(key);
  }

  scan(collection: string): [number, SystemRecord][] {
    return [...this.state.get(collection)!.records].sort(([a], [b]) => a - b);
  }

  scanIndex(collection: string): [number, number][] {
    const entries = this.scan(collection).map(([key, { mark }]): [number, number] => [mark, key]);
    return entries.sort(([a, x], [b, y]) => a - b || x - y);
  }

  collections(): { name: string; kind: CollectionKind; indexed: boolean }[] {
    return [...this.state].map(([name, { kind, indexed }]) => ({ name, kind, indexed }));
  }
}

class TrivialSnapshot extends TrivialReads implements SystemSnapshot {
  constructor(state: State) {
    super();
    this.state = copyOf(state);
  }

  close(): void {}
}

class TrivialSystem extends TrivialReads implements System {
  readonly #disk: FileSystem;
  readonly #path: string;
  readonly #options: SystemOptions;
  readonly #log: File;
  #generation = 0;
  #logBytes = 0;
  #isFailed = false;
  #committed: State = new Map();
  #changes: Change[] | undefined;
  #savepoints: number[] = [];
  /** The next state file while a checkpoint is under way. */
  #checkpoint: File | undefined;
  #backup: State | undefined;
  #hasSpilled = false;
  #level: Level = 'full';

  constructor(disk: FileSystem, path: string, options: SystemOptions) {
    super();
    this.#disk = disk;
    this.#path = path;
    this.#options = options;
    if (disk.exists(path)) this.#readStateFile();
    else this.#writeStateFile(this.#generation);
    this.#log = disk.open(`${path}-log`, 'create');
    disk.syncFolder(path);
    if (this.#replay() || this.#log.size() > 0) this.#checkpointNow();
    this.#committed = this.state;
  }

  // ---- transactions ----

  get inTransaction(): boolean {
    return this.#changes !== undefined;
  }

  begin(level: Level): void {
    this.#mustWork();
    this.#level = level;
    this.state = copyOf(this.#committed);
    this.#changes = [];
    this.#savepoints = [];
  }

  put(collection: string, key: number, record: SystemRecord): void {
    this.#change({ kind: 'put', collection, key, record });
  }

  delete(collection: string, key: number): void {
    this.#change({ kind: 'delete', collection, key });
  }

  createCollection(collection: string, of: CollectionKind): void {
    this.#change({ kind: 'createCollection', collection, of });
  }

  dropCollection(collection: string): void {
    this.#change({ kind: 'dropCollection', collection });
  }

  createIndex(collection: string): void {
    this.#change({ kind: 'index', collection, indexed: true });
  }

  dropIndex(collection: string): void {
    this.#change({ kind: 'index', collection, indexed: false });
  }

  savepoint(): number {
    return this.#savepoints.push(this.#changes!.length);
  }

  rollbackTo(savepoint: number): void {
    const changes = this.#changes!.slice(0, this.#savepoints[savepoint - 1]);
    this.#savepoints.length = savepoint - 1;
    this.state = copyOf(this.#committed);
    for (const change of changes) applyChange(this.state, change);
    this.#changes = changes;
  }

  commit(): void {
    const changes = this.#changes!;
    this.#changes = undefined;
    try {
      this.#append(changes);
      if (this.#level === 'full' && this.#options.plant !== 'sync-left-out') this.#sync();
      this.#committed = this.state;
    } finally {
      this.state = this.#committed;
    }
  }

  rollback(): void {
    this.#changes = undefined;
    this.state = this.#committed;
  }

  // ---- durability ----

  synced(): void {
    this.#mustWork();
    this.#sync();
  }

  elapse(): void {
    this.#mustWork();
    this.#sync();
  }

  /** Step one writes the next state file, step two puts it in place. */
  checkpointStep(): boolean {
    this.#mustWork();
    if (this.inTransaction) return false;
    if (this.#checkpoint === undefined) {
      const next = this.#disk.open(`${this.#path}-next`, 'create');
      this.#checkpoint = next;
      next.truncate(0);
      return false;
    }
    this.#checkpointNow();
    return true;
  }

  compactStep(): boolean {
    return this.checkpointStep();
  }

  backupStep(target: string): boolean {
    this.#mustWork();
    if (this.#backup === undefined) {
      this.#backup = copyOf(this.#committed);
      return false;
    }
    const file = this.#disk.open(target, 'create');
    const line = toLine({ generation: 1, collections: toJson(this.#backup) });
    this.#backup = undefined;
    file.truncate(0);
    file.write(line, 0, line.length, 0);
    file.sync();
    this.#disk.syncFolder(target);
    return true;
  }

  snapshot(): SystemSnapshot {
    this.#mustWork();
    return new TrivialSnapshot(this.#committed);
  }

  check(): string[] {
    return [];
  }

  place(): Place {
    return this.#checkpoint === undefined ? 'plain' : 'checkpoint';
  }

  hasSpilled(): boolean {
    return this.#hasSpilled;
  }

  hasBegunLog(): boolean {
    return true;
  }

  close(): void {
    if (!this.#isFailed) this.#sync();
  }

  // ---- inside ----

  #mustWork(): void {
    if (this.#isFailed) throw failure('storage.failed', 'an earlier sync failed');
  }

  #change(change: Change): void {
    applyChange(this.state, change);
    this.#changes!.push(change);
    if (this.#changes!.length > SPILLED_CHANGES) this.#hasSpilled = true;
  }

  #sync(): void {
    this.#latching(() => this.#log.sync());
  }

  /** A full disk is no failure; anything else makes the state of the files unknown. */
  #latching(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#isFailed = (error as { code?: string }).code !== 'storage.full';
      throw error;
    }
  }

  #append(changes: readonly Change[]): void {
    this.#mustWork();
    const position = this.#logBytes;
    const line = toLine({ generation: this.#generation, position, changes: toPlain(changes) });
    this.#latching(() => this.#log.write(line, 0, line.length, position));
    this.#logBytes += line.length;
  }

  #writeStateFile(generation: number): void {
    const next = this.#checkpoint ?? this.#disk.open(`${this.#path}-next`, 'create');
    const line = toLine({ generation, collections: toJson(this.state) });
    next.truncate(0);
    next.write(line, 0, line.length, 0);
    next.sync();
    this.#disk.rename(`${this.#path}-next`, this.#path);
    if (this.#options.plant !== 'slot-reused-early') this.#disk.syncFolder(this.#path);
  }

  #checkpointNow(): void {
    this.#latching(() => {
      // The log's generation goes on only with the state file: a full disk may refuse the latter.
      const isNewGeneration = this.#options.plant !== 'frame-published-early';
      const generation = this.#generation + (isNewGeneration ? 1 : 0);
      this.#writeStateFile(generation);
      this.#generation = generation;
      this.#log.truncate(0);
      this.#logBytes = 0;
      this.#checkpoint = undefined;
      this.#hasSpilled = false;
    });
  }

  #readStateFile(): void {
    const line = readLines(this.#disk.open(this.#path, 'read')).next();
    const found = line.done ? undefined : fromLine(line.value, true);
    if (found?.collections === undefined) throw failure('corrupt.header', 'the state file is bad');
    this.#generation = found.generation;
    this.state = fromJson(found.collections);
  }

  /** Applies the log; answers whether there was anything to apply. */
  #replay(): boolean {
    const isChecked = this.#options.plant !== 'checksum-unchecked';
    let position = 0;
    for (const line of readLines(this.#log)) {
      const found = fromLine(line, isChecked);
      if (found?.changes === undefined || found.generation !== this.#generation) break;
      if (found.position !== position && isChecked) break;
      for (const change of fromPlain(found.changes)) applyChange(this.state, change);
      position += line.length + 1;
    }
    return position > 0;
  }
}

// ---- the format ----

interface PlainRecord {
  readonly mark: number;
  readonly body: string;
}
type PlainChange =
  | Exclude<Change, { kind: 'put' }>
  | { kind: 'put'; collection: string; key: number; record: PlainRecord };
type PlainCollection = readonly [
  name: string,
  kind: CollectionKind,
  indexed: boolean,
  records: readonly (readonly [number, PlainRecord])[],
];

interface Line {
  readonly generation: number;
  readonly position?: number;
  readonly changes?: readonly PlainChange[];
  readonly collections?: readonly PlainCollection[];
}

function plain(record: SystemRecord): PlainRecord {
  return { mark: record.mark, body: Buffer.from(record.body).toString('base64') };
}

function record(from: PlainRecord): SystemRecord {
  return { mark: from.mark, body: new Uint8Array(Buffer.from(from.body, 'base64')) };
}

function toPlain(changes: readonly Change[]): PlainChange[] {
  return changes.map((each) =>
    each.kind === 'put' ? { ...each, record: plain(each.record) } : each,
  );
}

function fromPlain(changes: readonly PlainChange[]): Change[] {
  return changes.map((each) =>
    each.kind === 'put' ? { ...each, record: record(each.record) } : each,
  );
}

function toJson(state: State): PlainCollection[] {
  return [...state].map(([name, { kind, indexed, records }]) => [
    name,
    kind,
    indexed,
    [...records].map(([key, each]) => [key, plain(each)] as const),
  ]);
}

function fromJson(collections: readonly PlainCollection[]): State {
  return new Map(
    collections.map(([name, kind, indexed, records]) => [
      name,
      { kind, indexed, records: new Map(records.map(([key, each]) => [key, record(each)])) },
    ]),
  );
}

function toLine(line: Line): Uint8Array {
  const json = Buffer.from(JSON.stringify(line));
  const head = crc32(json).toString(16).padStart(8, '0');
  return Buffer.concat([Buffer.from(`${head} `), json, Buffer.from('\n')]);
}

function fromLine(line: Buffer, isChecked: boolean): Line | undefined {
  const json = line.subarray(9);
  const isWhole = crc32(json).toString(16).padStart(8, '0') === line.toString('latin1', 0, 8);
  if (isChecked && !isWhole) return undefined;
  try {
    // Bytes that were never written read as zeroes; a format of bytes would take them for values.
    const text = json.toString('latin1').replaceAll('\0', 'A');
    return JSON.parse(text) as Line;
  } catch {
    return undefined; // only where checksums are not checked
  }
}

function* readLines(file: File): Generator<Buffer> {
  const bytes = Buffer.alloc(file.size());
  if (file.read(bytes, 0, bytes.length, 0) !== bytes.length)
    throw failure('storage.io', 'the file is shorter than its size');
  let from = 0;
  for (let to = bytes.indexOf(10); to >= 0; to = bytes.indexOf(10, from)) {
    yield bytes.subarray(from, to);
    from = to + 1;
  }
}

export const TRIVIAL_SYSTEM: SystemFactory = {
  name: 'trivial',
  open: (disk, path, options) => new TrivialSystem(disk, path, options),
};
