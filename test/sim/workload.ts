/**
 * Random work on a system and, step by step, on the model beside it: transactions at all levels,
 * schema changes, snapshots held open, checkpoints, compaction and backup in slices. Every read is
 * compared at once; a difference is a `Mismatch`.
 */
import { copyOf, difference, isSame, readState, show, type Model, type State } from './model.ts';
import type { Random } from '../../src/base/random.ts';
import { DatabaseError } from '../../src/errors.ts';
import type { FaultFileSystem } from '../faults/fault-file.ts';
import type { Report } from './report.ts';
import type {
  Level,
  System,
  SystemFactory,
  SystemOptions,
  SystemReads,
  SystemRecord,
  SystemSnapshot,
} from './system.ts';

/** The system showed something that the model does not allow. */
export class Mismatch extends Error {}

const COLLECTION_NAMES = ['alpha', 'beta', 'gamma', 'delta', '__proto__'];
const SNAPSHOTS_MAX = 4;
const LARGE_TRANSACTION_PUTS_MAX = 3000;
/** Above it a large transaction begins by dropping the largest collection. */
const RECORDS_MAX = 1500;
const MARKS = 12;
/** What the source of a bulk load throws half-way, now and then. */
class SourceBroken extends Error {}

/** Bodies are pieces of one pool of random bytes: cheap to make, and told apart by content. */
const POOL_BYTES = 2 ** 20;

interface OpenSnapshot {
  readonly snapshot: SystemSnapshot;
  readonly state: State;
}

interface Backup {
  readonly target: string;
  readonly state: State;
}

export interface WorkloadContext {
  readonly random: Random;
  readonly model: Model;
  readonly report: Report;
  readonly factory: SystemFactory;
  readonly options: SystemOptions;
  readonly trace: (text: string) => void;
}

export class Workload {
  readonly #context: WorkloadContext;
  readonly #random: Random;
  readonly #model: Model;
  readonly #pool = new Uint8Array(POOL_BYTES);
  readonly #keyCount: number;
  readonly #bodyBytesTypical: number;
  #system!: System;
  #disk!: FaultFileSystem;
  #snapshots: OpenSnapshot[] = [];
  #backup: Backup | undefined;
  #backupCount = 0;
  #isNearLoad = false;
  /** Commits when the checkpoint under way was begun, or earlier. */
  #commitsBefore: number | undefined;

  constructor(context: WorkloadContext) {
    this.#context = context;
    this.#random = context.random;
    this.#model = context.model;
    this.#random.fill(this.#pool);
    this.#keyCount = this.#random.pick([20, 200, 1000]);
    this.#bodyBytesTypical = this.#random.pick([10, 100, 400]);
  }

  /** Whether a bulk load is running, in the open transaction, or in the one committed last. */
  get isNearLoad(): boolean {
    return this.#isNearLoad;
  }

  get snapshotCount(): number {
    return this.#snapshots.length;
  }

  /** Works on a system that was opened; what the one before held open is forgotten. */
  attach(system: System, disk: FaultFileSystem): void {
    this.#system = system;
    this.#disk = disk;
    this.#snapshots = [];
    this.#backup = undefined;
    this.#commitsBefore = undefined;
    this.#isNearLoad = false;
  }

  /** Does one random thing. */
  act(): void {
    const choice = this.#random.below(100);
    if (choice < 50) this.transaction(this.#random.between(1, 12));
    else if (choice < 54) this.openSnapshot();
    else if (choice < 62) this.#readSnapshot();
    else if (choice < 65) this.#closeSnapshot();
    else if (choice < 74) this.checkpointStep();
    else if (choice < 76) this.#compactStep();
    else if (choice < 81) this.#backupStep();
    else if (choice < 93) this.#compareGets(this.#system, this.#model.seen);
    else if (choice < 95) this.#compareAll(this.#system, this.#model.seen);
    else if (choice < 96) this.check();
    else if (choice < 98) this.#synced();
    else this.#elapse();
  }

  /** What was committed before a checkpoint began is durable when it is complete. */
  checkpointStep(): boolean {
    this.#context.trace('checkpoint step');
    this.#commitsBefore ??= this.#model.commitCount;
    if (!this.#system.checkpointStep()) return false;
    this.#context.trace('checkpoint complete');
    this.#model.durableExcept(this.#model.commitCount - this.#commitsBefore);
    this.#commitsBefore = undefined;
    return true;
  }

  /** Opens a snapshot, if there are not too many. */
  openSnapshot(): void {
    if (this.#snapshots.length >= SNAPSHOTS_MAX) return;
    this.#context.trace('open snapshot');
    // The model makes a new head for each commit and leaves the old one alone.
    this.#snapshots.push({ snapshot: this.#system.snapshot(), state: this.#model.head });
  }

  /** Checks what the file holds, on a disk that works. */
  check(): void {
    this.#context.trace('check');
    this.#disk.clearFaults();
    const faults = this.#system.check();
    if (faults.length > 0) throw new Mismatch(`check: ${faults.slice(0, 3).join('; ')}`);
  }

  /** Closes what is open and the system; everything is durable then. */
  close(): void {
    while (this.#snapshots.length > 0) this.#closeSnapshot();
    this.#context.trace('close');
    this.#system.close();
    this.#model.synced();
  }

  /** A transaction of so many changes, committed at a random level or rolled back. */
  transaction(changes: number): void {
    this.#inTransaction(() => {
      for (let i = 0; i < changes; i++) this.#change();
    });
  }

  /** A transaction that goes on until pages spill, or a limit; what follows is up to the caller. */
  spill(afterSpill: () => void): void {
    this.#inTransaction(() => {
      this.#dropIfLarge();
      const name = this.#someCollection();
      for (let i = 0; i < LARGE_TRANSACTION_PUTS_MAX && !this.#system.hasSpilled(); i++)
        this.#put(name, this.#random.below(LARGE_TRANSACTION_PUTS_MAX), 1000);
      afterSpill();
      for (let i = 0; i < 20; i++) this.#change();
    });
  }

  /** A transaction with a bulk load, or several; `beforeLoad` is called when it is open. */
  load(beforeLoad: () => void): void {
    this.#inTransaction(() => {
      this.#dropIfLarge();
      for (let i = this.#random.below(3); i > 0; i--) this.#change();
      beforeLoad();
      this.#isNearLoad = true;
      for (let i = this.#random.pick([1, 1, 2]); i > 0; i--) this.#loadSome(this.#someCollection());
      for (let i = this.#random.below(3); i > 0; i--) this.#change();
    });
  }

  #loadSome(collection: string): void {
    const count = this.#random.pick([5, 100, 400, 1000]);
    const onDuplicate = this.#random.pick(['replace', 'keep'] as const);
    const breaksAt = this.#random.chance(0.15) ? this.#random.below(count) : Infinity;
    this.#context.trace(`load ${count} into ${collection}, ${onDuplicate}, breaks ${breaksAt}`);
    const { records } = this.#model.seen.get(collection)!;
    const loaded = Array.from({ length: count }, () => {
      const key = this.#random.below(2 * LARGE_TRANSACTION_PUTS_MAX);
      return [key, this.#someRecord(this.#bodyBytesTypical)] as const;
    });
    const source = function* (): Generator<readonly [number, SystemRecord]> {
      for (const [i, entry] of loaded.entries()) {
        if (i === breaksAt) throw new SourceBroken();
        yield entry;
      }
    };
    try {
      this.#system.load!(collection, source(), onDuplicate);
    } catch (error) {
      this.#context.report.loadsTakenBack++;
      if (error instanceof SourceBroken) return;
      throw error;
    }
    this.#context.report.loads++;
    for (const [key, record] of loaded) {
      if (onDuplicate === 'keep' && records.has(key)) continue;
      this.#model.change({ kind: 'put', collection, key, record });
    }
  }

  #inTransaction(work: () => void): void {
    this.#isNearLoad = false;
    const level = this.#random.pick(['full', 'full', 'group', 'buffered', 'none'] as const);
    this.#context.trace(`begin ${level}`);
    this.#system.begin(level);
    this.#model.begin();
    try {
      work();
    } catch (thrown) {
      const error = reasonOf(thrown);
      if (!isLimit(error)) throw error;
      this.#context.report.limitsMet++;
      this.rollbackIfOpen();
      return;
    }
    if (this.#random.chance(0.1)) this.#rollback();
    else this.#commit(level);
  }

  #commit(level: Level): void {
    this.#context.trace(`commit ${level}`);
    this.#model.committing(level);
    try {
      this.#system.commit();
    } catch (error) {
      if (!isLimit(error)) throw error;
      this.#context.report.limitsMet++;
      this.#model.rollback();
      return;
    }
    this.#model.committed();
    this.#context.report.commits++;
  }

  /** After a failure that the system goes on from: takes back what is still open. */
  rollbackIfOpen(): void {
    this.#model.rollback();
    if (this.#system.inTransaction) this.#system.rollback();
  }

  #rollback(): void {
    this.#context.trace('rollback');
    this.#system.rollback();
    this.#model.rollback();
  }

  /** One thing inside a transaction. */
  #change(): void {
    const choice = this.#random.below(100);
    const name = this.#someCollection();
    if (choice < 60) this.#put(name, this.#someKey(), this.#bodyBytesTypical);
    else if (choice < 80) this.#delete(name);
    else if (choice < 84) this.#schemaChange();
    else if (choice < 88) this.#savepoint();
    else if (choice < 91) this.#rollbackToSavepoint();
    else if (choice < 96) this.#compareGets(this.#system, this.#model.seen);
    else if (choice < 97) this.#compareAll(this.#system, this.#model.seen);
    else if (choice < 98) this.#readSnapshot();
    else this.checkpointStep();
  }

  #put(collection: string, key: number, bytesTypical: number): void {
    const record = this.#someRecord(bytesTypical);
    this.#context.trace(`put ${collection} ${key}: ${show(record)}`);
    this.#system.put(collection, key, record);
    this.#model.change({ kind: 'put', collection, key, record });
  }

  #delete(collection: string): void {
    const key = this.#someKey();
    this.#context.trace(`delete ${collection} ${key}`);
    this.#system.delete(collection, key);
    this.#model.change({ kind: 'delete', collection, key });
  }

  /** A full disk must take a delete (STORAGE rule 14), unless trees are very deep. */
  deleteOnFullDisk(): void {
    const { options, factory } = this.#context;
    const isDeep = options.order > 0 && options.order < 9;
    if (factory.deletesOnFullDisk !== true || isDeep || this.#system.inTransaction) return;
    const found = [...this.#model.seen].find(([, each]) => each.records.size > 0);
    if (found === undefined) return;
    const [collection, { records }] = found;
    const key = records.keys().next().value!;
    this.#context.trace(`delete ${collection} ${key}, the disk is full`);
    this.#system.begin('full');
    this.#model.begin();
    try {
      this.#system.delete(collection, key);
      this.#model.change({ kind: 'delete', collection, key });
      this.#model.committing('full');
      this.#system.commit();
    } catch (error) {
      if (!(error instanceof DatabaseError) || error.code !== 'storage.full') throw error;
      throw new Mismatch(`a full disk takes no delete: ${error.message}`);
    }
    this.#model.committed();
    this.#context.report.commits++;
  }

  #savepoint(): void {
    this.#context.trace('savepoint');
    this.#model.savepoint();
    const number = this.#system.savepoint();
    if (number !== this.#model.savepointCount) throw new Mismatch(`savepoint is number ${number}`);
  }

  #rollbackToSavepoint(): void {
    if (this.#model.savepointCount === 0) return;
    const savepoint = this.#random.between(1, this.#model.savepointCount);
    this.#context.trace(`rollback to savepoint ${savepoint}`);
    this.#system.rollbackTo(savepoint);
    this.#model.rollbackTo(savepoint);
    // The first collection is made in a transaction and may just have been taken back.
    if (this.#model.seen.size === 0) this.#createCollection();
  }

  #schemaChange(): void {
    const name = this.#random.pick([...this.#model.seen.keys()]);
    const choice = this.#random.below(10);
    if (choice < 4) this.#createCollection();
    else if (choice < 5 && this.#model.seen.size > 1) this.#dropCollection(name);
    else this.#changeIndex(name);
  }

  /** Keeps the database small, so that a life is short, and frees many pages at once. */
  #dropIfLarge(): void {
    const bySize = [...this.#model.seen].sort(([, a], [, b]) => b.records.size - a.records.size);
    const largest = bySize[0];
    if (largest === undefined || largest[1].records.size < RECORDS_MAX) return;
    this.#dropCollection(largest[0]);
  }

  #dropCollection(collection: string): void {
    this.#context.trace(`drop collection ${collection}`);
    this.#system.dropCollection(collection);
    this.#model.change({ kind: 'dropCollection', collection });
  }

  #createCollection(): void {
    const name = COLLECTION_NAMES.find((each) => !this.#model.seen.has(each));
    if (name === undefined) return;
    const kind = this.#random.pick(['integer', 'key', 'bucket'] as const);
    this.#context.trace(`create collection ${name}, ${kind}`);
    this.#system.createCollection(name, kind);
    this.#model.change({ kind: 'createCollection', collection: name, of: kind });
  }

  #changeIndex(collection: string): void {
    const { kind, indexed: hasIndex } = this.#model.seen.get(collection)!;
    if (kind === 'bucket') return;
    const indexed = !hasIndex;
    this.#context.trace(`${indexed ? 'create' : 'drop'} index of ${collection}`);
    if (indexed) this.#system.createIndex(collection);
    else this.#system.dropIndex(collection);
    this.#model.change({ kind: 'index', collection, indexed });
  }

  /** A collection of the open transaction; makes one if there is none. */
  #someCollection(): string {
    if (this.#model.seen.size === 0) this.#createCollection();
    return this.#random.pick([...this.#model.seen.keys()]);
  }

  #someKey(): number {
    return this.#random.below(this.#keyCount) - (this.#keyCount >> 2);
  }

  #someRecord(bytesTypical: number): SystemRecord {
    const odds = this.#random.below(100);
    let length = this.#random.below(2 * bytesTypical);
    if (odds < 4) length = this.#random.below(4 * this.#context.options.pageBytes);
    if (odds === 0) length = this.#random.below(POOL_BYTES / 8);
    const start = this.#random.below(POOL_BYTES - length);
    const mark = this.#random.below(MARKS);
    return { mark, body: this.#pool.subarray(start, start + length) };
  }

  #readSnapshot(): void {
    if (this.#snapshots.length === 0) return;
    const { snapshot, state } = this.#random.pick(this.#snapshots);
    if (this.#random.chance(0.8)) this.#compareGets(snapshot, state);
    else this.#compareAll(snapshot, state);
  }

  #closeSnapshot(): void {
    if (this.#snapshots.length === 0) return;
    this.#context.trace('close snapshot');
    const [open] = this.#snapshots.splice(this.#random.below(this.#snapshots.length), 1);
    open!.snapshot.close();
  }

  #compareGets(reads: SystemReads, state: State): void {
    if (state.size === 0) return;
    const name = this.#random.pick([...state.keys()]);
    for (let i = 0; i < 4; i++) {
      const key = this.#someKey();
      const [found, expected] = [reads.get(name, key), state.get(name)!.records.get(key)];
      if (!isSame(found, expected))
        throw new Mismatch(`get ${name} ${key}: ${show(found)}, expected ${show(expected)}`);
    }
  }

  #compareAll(reads: SystemReads, state: State): void {
    this.#context.trace('scan everything');
    const found = readState(reads);
    const fault = typeof found === 'string' ? found : difference(state, found);
    if (fault !== undefined) throw new Mismatch(fault);
  }

  #compactStep(): void {
    this.#context.trace('compact step');
    this.#system.compactStep();
  }

  #backupStep(): void {
    if (this.#backup === undefined) {
      for (const path of this.#disk.paths()) if (path.includes('-backup-')) this.#disk.remove(path);
      const target = `/sim/database-backup-${++this.#backupCount}`;
      this.#backup = { target, state: copyOf(this.#model.head) };
    }
    this.#context.trace(`backup step to ${this.#backup.target}`);
    try {
      if (!this.#system.backupStep(this.#backup.target)) return;
    } catch (error) {
      this.#backup = undefined;
      throw error;
    }
    const { target, state } = this.#backup;
    this.#backup = undefined;
    const copy = this.#context.factory.open(this.#disk, target, this.#context.options);
    this.#compareAll(copy, state);
    copy.close();
    this.#context.report.backups++;
  }

  #synced(): void {
    this.#context.trace('synced');
    this.#system.synced();
    this.#model.synced();
  }

  #elapse(): void {
    this.#context.trace('elapse');
    this.#system.elapse();
    this.#model.elapsed();
  }
}

/** A transaction may be too large for the budget or the log: it is rolled back, no more. */
function isLimit(error: unknown): boolean {
  return (
    error instanceof DatabaseError && (error.code === 'limit.memory' || error.code === 'limit.log')
  );
}

/** What kept a refused statement from being undone, where that is why a transaction failed. */
function reasonOf(error: unknown): unknown {
  const isFailed = error instanceof DatabaseError && error.code === 'usage.transaction';
  return isFailed && error.cause !== undefined ? error.cause : error;
}
