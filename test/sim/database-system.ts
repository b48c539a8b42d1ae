/**
 * The real database under the simulation.
 *
 *   kind       what it is here
 *   integer    a collection whose record id is the key
 *   key        a collection organised by key: two integers, or a text that may be very long
 *   bucket     a key-value bucket; the value is the mark (4 bytes, little-endian) and the body
 *
 * "The index" of a collection is two: one on `mark`, and a unique one on mark and key. Records are
 * written by each of the ways there are, chosen by the mark, so that a seed repeats.
 *
 * Timers do not run while a life is lived; `elapse` and `synced` are the calls they would make.
 */
import { runLoad } from '../../src/bulk-run.ts';
import { Log } from '../../src/storage/log.ts';
import { WriteBuffers } from '../../src/storage/write-buffers.ts';
import { Database } from '../../src/database.ts';
import type { Steps } from '../../src/base/steps.ts';
import { DatabaseError } from '../../src/errors.ts';
import type { KeyValue } from '../../src/kv/key-value.ts';
import type { Snapshot, Transaction } from '../../src/index.ts';
import { backupSteps } from '../../src/maintenance.ts';
import type { RecordId } from '../../src/model/batch.ts';
import type { BulkLoader } from '../../src/model/bulk.ts';
import {
  defineBucket,
  defineCollection,
  defineIndex,
  type CollectionDefinition,
} from '../../src/model/schema.ts';
import { LATEST, TRANSACTION, type ScanRequest, type SourceView } from '../../src/model/source.ts';
import type { Value } from '../../src/model/value.ts';
import { compactFile } from '../../src/storage/compact.ts';
import type { FileSystem } from '../../src/storage/file.ts';
import { EmbeddedSource } from '../../src/store/embedded-source.ts';
import { StorePointAccess } from '../../src/store/point-access.ts';
import { withPlant } from './plants.ts';
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

const INDEX = 'mark';
const UNIQUE_INDEX = 'mark and key';
/** Least allocation units of large values by the first letter of the name; others: the default. */
const CLUSTER_BYTES: Readonly<Record<string, number>> = { a: 256, b: 2048 };
/** Every so many text keys is longer than a page holds. */
const LONG_KEY_EVERY = 13;
const LONG_KEY_TAIL = 'x'.repeat(3000);
const TEXT_KEY_BASE = 5_000_000;
const MARK_BYTES = 4;

/** What is wrong with what the database showed. */
class Wrong extends Error {}

/** The database of an open file, and the ways in that the simulation uses. */
class Access {
  readonly database: Database;
  readonly points: StorePointAccess;
  readonly source: EmbeddedSource;

  constructor(database: Database) {
    this.database = database;
    this.points = new StorePointAccess(database.store);
    this.source = new EmbeddedSource(database.store);
  }

  definition(name: string, view: SourceView): CollectionDefinition {
    return this.database.store.schema(view).require(name, view).definition;
  }
}

// ---- keys

function keyFieldsOf(definition: CollectionDefinition): readonly string[] {
  const { key } = definition;
  if (key.kind === 'fields') return key.parts.map((part) => part.field);
  return ['id'];
}

function keyValuesOf(definition: CollectionDefinition, key: number): Value[] {
  if (definition.key.kind !== 'fields') return [key];
  if (definition.key.parts.length === 2) return [Math.floor(key / 16), ((key % 16) + 16) % 16];
  return [`key ${key + TEXT_KEY_BASE}${key % LONG_KEY_EVERY === 0 ? LONG_KEY_TAIL : ''}`];
}

function keyOf(definition: CollectionDefinition, values: readonly Value[]): number {
  if (definition.key.kind !== 'fields') return values[0] as number;
  if (definition.key.parts.length === 2) return (values[0] as number) * 16 + (values[1] as number);
  return Number.parseInt((values[0] as string).slice(4), 10) - TEXT_KEY_BASE;
}

function recordOf(definition: CollectionDefinition, key: number, record: SystemRecord) {
  const values = keyValuesOf(definition, key);
  const fields: Record<string, Value> = { mark: record.mark, body: record.body };
  for (const [i, name] of keyFieldsOf(definition).entries()) fields[name] = values[i]!;
  return fields;
}

// ---- values of buckets

function packed(record: SystemRecord): Uint8Array {
  const bytes = new Uint8Array(MARK_BYTES + record.body.length);
  new DataView(bytes.buffer).setUint32(0, record.mark, true);
  bytes.set(record.body, MARK_BYTES);
  return bytes;
}

function unpacked(bytes: Uint8Array): SystemRecord {
  const mark = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  return { mark, body: bytes.slice(MARK_BYTES) };
}

// ---- reading

type Bucket = KeyValue<number, Uint8Array>;

/** Reads of one view: the newest state, or a snapshot. */
abstract class Reads implements SystemReads {
  protected readonly access: Access;

  constructor(access: Access) {
    this.access = access;
  }

  protected abstract get view(): SourceView;
  protected abstract bucket(name: string): Bucket;

  get(name: string, key: number): SystemRecord | undefined {
    const { view } = this;
    const definition = this.access.definition(name, view);
    if (definition.form === 'bucket') return this.#getFromBucket(name, key);
    const handle = this.access.points.collection(name);
    const found =
      definition.key.kind === 'fields'
        ? handle.getByKey(keyValuesOf(definition, key), view)
        : handle.get(key, view);
    if (found === undefined) return undefined;
    return { mark: found['mark'] as number, body: found['body'] as Uint8Array };
  }

  /** By one of the two ways to read. */
  #getFromBucket(name: string, key: number): SystemRecord | undefined {
    const bucket = this.bucket(name);
    if (key % 2 === 0) return bucket.view(key, unpacked);
    const bytes = bucket.get(key);
    if (bucket.has(key) !== (bytes !== undefined)) throw new Wrong(`has ${key} says otherwise`);
    return bytes === undefined ? undefined : unpacked(bytes);
  }

  *scan(name: string): Generator<[number, SystemRecord]> {
    const { view } = this;
    const definition = this.access.definition(name, view);
    let count = 0;
    if (definition.form === 'bucket') {
      const bucket = this.bucket(name);
      for (const [key, bytes] of bucket.range()) {
        count++;
        yield [key, unpacked(bytes)];
      }
      if (bucket.count() !== count) throw new Wrong(`${name} counts ${bucket.count()}: ${count}`);
      return;
    }
    const keys = keyFieldsOf(definition);
    const fields = [...keys, 'mark', 'body'];
    for (const row of rows(this.access, { collection: name, fields, view })) {
      count++;
      const [mark, body] = row.slice(keys.length) as [number, Uint8Array];
      yield [keyOf(definition, row), { mark, body }];
    }
    const counted = this.access.points.collection(name).count(view);
    if (counted !== count) throw new Wrong(`${name} counts ${counted} records, not ${count}`);
  }

  scanIndex(name: string): (readonly [number, number])[] {
    const { view } = this;
    const definition = this.access.definition(name, view);
    const fields = [...keyFieldsOf(definition), 'mark'];
    const entriesOf = (index: string): (readonly [number, number])[] =>
      [...rows(this.access, { collection: name, index, fields, view })].map((row) => {
        return [row.at(-1) as number, keyOf(definition, row)] as const;
      });
    const entries = entriesOf(INDEX);
    const unique = entriesOf(UNIQUE_INDEX);
    const differs = unique.some((each, i) => each.join() !== entries[i]?.join());
    if (differs || unique.length !== entries.length) {
      throw new Wrong(`the indexes of ${name} have ${entries.length} and ${unique.length} entries`);
    }
    return entries;
  }

  collections(): { name: string; kind: CollectionKind; indexed: boolean }[] {
    const { collections, indexes } = this.access.source.schema(this.view);
    return collections.map(({ name, form, key }) => ({
      name,
      kind: form === 'bucket' ? 'bucket' : key.kind === 'fields' ? 'key' : 'integer',
      indexed: indexes.some((each) => each.collection === name),
    }));
  }
}

/** The rows of a scan, each an array of the fields asked for. */
function* rows(access: Access, request: ScanRequest): Generator<Value[]> {
  const cursor = access.source.scan(request);
  try {
    for (let batch = cursor.next(); batch !== undefined; batch = cursor.next()) {
      for (let row = 0; row < batch.count; row++) {
        yield batch.columns.map((column) => column.get(row));
      }
    }
  } finally {
    cursor.close();
  }
}

class DatabaseSnapshot extends Reads implements SystemSnapshot {
  readonly #snapshot: Snapshot;

  constructor(access: Access) {
    super(access);
    this.#snapshot = access.database.snapshot();
  }

  protected override get view(): SourceView {
    return this.#snapshot.commitId;
  }

  protected override bucket(name: string): Bucket {
    return this.#snapshot.kv<number, Uint8Array>(name);
  }

  close(): void {
    this.#snapshot.close();
  }
}

// ---- the system

/** Before the database opens: the first one of a process is to be like those after it. */
function beEager(options: SystemOptions): void {
  // Half of the systems let writes wait from the first on, which transactions here never reach.
  WriteBuffers.isEager = !options.writeEach;
  // And frames of half of them are written before their commit frame, as those of large ones.
  Log.isEager = options.writeEach || options.tree === 'b-tree';
}

class DatabaseSystem extends Reads implements System {
  readonly #disk: FileSystem;
  readonly #layout: SystemOptions;
  #tx: Transaction | undefined;
  #savepoints: number[] = [];
  /** Complete checkpoints when the one asked for is. */
  #checkpointsWanted: number | undefined;
  #compaction: Steps<number> | undefined;
  #backup: Steps<number> | undefined;
  #spilledBefore = 0;
  #checkpointsSeen = 0;

  constructor(disk: FileSystem, path: string, options: SystemOptions) {
    beEager(options);
    super(
      new Access(
        new Database(
          path,
          {
            memory: options.memoryBytes,
            pageSize: options.pageBytes,
            delayMs: options.delayMs,
            writeEach: options.writeEach,
            index: { tree: options.tree, order: options.order },
          },
          disk,
        ),
      ),
    );
    this.#disk = disk;
    this.#layout = options;
  }

  get #database(): Database {
    return this.access.database;
  }

  protected override get view(): SourceView {
    return this.inTransaction ? TRANSACTION : LATEST;
  }

  protected override bucket(name: string): Bucket {
    return this.#database.kv<number, Uint8Array>(name);
  }

  // ---- transactions

  get inTransaction(): boolean {
    return this.#tx !== undefined && this.#tx.isOpen;
  }

  begin(level: Level): void {
    this.#savepoints = [];
    this.#tx = this.#database.begin({ durability: level });
  }

  put(name: string, key: number, record: SystemRecord): void {
    const definition = this.access.definition(name, TRANSACTION);
    if (definition.form === 'bucket') this.#putIntoBucket(name, key, record);
    else this.#putIntoCollection(definition, key, record);
  }

  #putIntoBucket(name: string, key: number, record: SystemRecord): void {
    const bucket = this.#tx!.kv<number, Uint8Array>(name);
    const value = packed(record);
    if (record.mark % 4 === 1 && !bucket.has(key)) bucket.insert(key, value);
    else if (record.mark % 4 === 2) bucket.batch([{ type: 'put', key, value }]);
    else {
      if (record.mark % 4 === 3) this.#failStatement(name, { key, value });
      bucket.put(key, value);
    }
  }

  #putIntoCollection(definition: CollectionDefinition, key: number, record: SystemRecord): void {
    const { name } = definition;
    const handle = this.access.points.collection(name);
    const whole = recordOf(definition, key, record);
    if (record.mark % 4 === 1) {
      const { mark, body } = record;
      if (!handle.update(this.#idOf(definition, key), { mark, body })) handle.insert(whole);
    } else if (record.mark % 4 === 2) {
      this.access.source.write({
        collection: name,
        changes: [{ change: 'put', record: whole }],
      });
    } else {
      if (record.mark % 4 === 3) this.#failStatement(name, whole);
      handle.put(whole);
    }
  }

  /** A statement whose second change is refused: the first must be undone. */
  #failStatement(collection: string, record: Record<string, Value>): void {
    try {
      this.access.source.write({
        collection,
        changes: [
          { change: 'put', record },
          { change: 'insert', record },
        ],
      });
    } catch (error) {
      if (error instanceof DatabaseError && error.code === 'constraint.unique') return;
      throw error;
    }
    throw new Wrong(`${collection} took the same key twice`);
  }

  #idOf(definition: CollectionDefinition, key: number): RecordId {
    if (definition.key.kind !== 'fields') return key;
    return this.access.points.collection(definition.name).idOf(keyValuesOf(definition, key));
  }

  load(
    name: string,
    records: Iterable<readonly [number, SystemRecord]>,
    onDuplicate: 'replace' | 'keep',
  ): void {
    const definition = this.access.definition(name, TRANSACTION);
    const take = (loader: BulkLoader, [key, record]: readonly [number, SystemRecord]): void => {
      if (definition.form === 'bucket') loader.addEntry(key, packed(record));
      else loader.addRecord(recordOf(definition, key, record));
    };
    runLoad(this.#database.store, name, records, take, { onDuplicate });
  }

  delete(name: string, key: number): void {
    const definition = this.access.definition(name, TRANSACTION);
    if (definition.form === 'bucket') {
      const bucket = this.#tx!.kv<number, Uint8Array>(name);
      if (key % 2 === 0) bucket.delete(key);
      else bucket.deleteRange({ gte: key, lte: key });
    } else this.access.points.collection(name).delete(this.#idOf(definition, key));
  }

  savepoint(): number {
    return this.#savepoints.push(this.#tx!.savepoint());
  }

  rollbackTo(savepoint: number): void {
    const token = this.#savepoints[savepoint - 1]!;
    this.#tx!.rollbackTo(token);
    this.#tx!.release(token);
    this.#savepoints.length = savepoint - 1;
  }

  commit(): void {
    this.#tx!.commit();
    this.#noteCheckpoints();
  }

  rollback(): void {
    this.#tx!.rollback();
  }

  createCollection(name: string, kind: CollectionKind): void {
    this.access.source.applySchemaChange({
      change: 'createCollection',
      definition: this.#definitionOf(name, kind),
    });
  }

  #definitionOf(name: string, kind: CollectionKind): CollectionDefinition {
    const { tree, order } = this.#layout;
    const layout = { tree, order, clusterSize: CLUSTER_BYTES[name[0]!] ?? 0 };
    if (kind === 'bucket') return defineBucket(name, 'int', 'bytes', layout);
    const rest = { mark: 'int', body: 'bytes' };
    if (kind === 'integer') {
      return defineCollection({ name, fields: { id: 'int', ...rest }, key: 'id', layout });
    }
    if (name.length % 2 === 0) {
      return defineCollection({ name, fields: { text: 'text', ...rest }, key: ['text'], layout });
    }
    const fields = { group: 'int', item: 'int', ...rest };
    return defineCollection({ name, fields, key: ['group', 'item'], layout });
  }

  dropCollection(collection: string): void {
    this.access.source.applySchemaChange({ change: 'dropCollection', collection });
  }

  createIndex(collection: string): void {
    const { tree, order } = this.#layout;
    const of = this.access.definition(collection, TRANSACTION);
    const keyParts = keyFieldsOf(of);
    for (const [name, unique, parts] of [
      [INDEX, false, ['mark']],
      [UNIQUE_INDEX, true, ['mark', ...keyParts]],
    ] as const) {
      const definition = defineIndex(of, { name, parts, unique, layout: { tree, order } });
      this.access.source.applySchemaChange({ change: 'createIndex', definition });
    }
  }

  dropIndex(collection: string): void {
    for (const index of [INDEX, UNIQUE_INDEX]) {
      this.access.source.applySchemaChange({ change: 'dropIndex', collection, index });
    }
  }

  snapshot(): SystemSnapshot {
    return new DatabaseSnapshot(this.access);
  }

  // ---- time

  synced(): void {
    this.#database.sync();
  }

  elapse(): void {
    this.#database.sync();
  }

  checkpointStep(): boolean {
    const { storage } = this.#database;
    const { counters } = storage;
    this.#checkpointsWanted ??= counters.checkpoints + (storage.checkpointRunning ? 2 : 1);
    let done = false;
    if (storage.checkpointRunning) storage.idle();
    else done = !storage.startCheckpoint(); // nothing was changed since the last
    this.#noteCheckpoints();
    if (!done && counters.checkpoints < this.#checkpointsWanted) return false;
    this.#checkpointsWanted = undefined;
    return true;
  }

  compactStep(): boolean {
    this.#compaction ??= compactFile(this.#database.storage);
    if (!this.#step(this.#compaction, () => (this.#compaction = undefined))) return false;
    this.#noteCheckpoints();
    return true;
  }

  backupStep(target: string): boolean {
    this.#backup ??= backupSteps(this.#database.storage, this.#disk, target);
    return this.#step(this.#backup, () => (this.#backup = undefined));
  }

  /** Does one step; what ends, well or not, is forgotten. */
  #step(steps: Steps<number>, forget: () => void): boolean {
    let isDone = true;
    try {
      isDone = steps.next().done === true;
    } finally {
      if (isDone) forget();
    }
    return isDone;
  }

  // ---- what is asked

  check(): string[] {
    const faults = this.#database.check().faults.map((fault) => `${fault.code}: ${fault.message}`);
    this.#noteCheckpoints();
    const { usedBytes, budgetBytes, peakBytes } = this.#database.memory();
    if (Math.max(usedBytes, peakBytes) > budgetBytes) {
      faults.push(`${usedBytes} bytes charged, ${peakBytes} at the peak, of ${budgetBytes}`);
    }
    return faults;
  }

  place(): Place {
    if (this.#database.storage.checkpointRunning) return 'checkpoint';
    return this.#compaction !== undefined ? 'compact' : this.#backup ? 'backup' : 'plain';
  }

  hasSpilled(): boolean {
    return this.#database.storage.spilledPages > this.#spilledBefore;
  }

  hasBegunLog(): boolean {
    return this.#database.storage.log.started;
  }

  /** What was spilled before a checkpoint became complete is in it, or rolled back. */
  #noteCheckpoints(): void {
    const { counters, spilledPages } = this.#database.storage;
    if (counters.checkpoints === this.#checkpointsSeen) return;
    this.#checkpointsSeen = counters.checkpoints;
    this.#spilledBefore = spilledPages;
  }

  close(): void {
    this.#compaction?.return(0);
    this.#backup?.return(0);
    this.#database.close();
    const { usedBytes, accounts } = this.#database.memory();
    if (usedBytes !== 0) throw new Wrong(`charged after close: ${JSON.stringify(accounts)}`);
  }

  abandon(): void {
    try {
      this.#database.close(); // the disk answers nothing any more; this frees timers and lists
    } catch {
      return;
    }
  }
}

export const DATABASE_SYSTEM: SystemFactory = {
  name: 'database',
  deletesOnFullDisk: true,
  withPlant,
  open: (disk, path, options) => new DatabaseSystem(disk, path, options),
};
