/**
 * Law U1: layout, budget and tuning change time and space, never results. Random operations on a
 * bucket and on a collection with indexes, under a random layout, beside a plain model.
 */
import { isVerifying, setVerifying } from '../../src/base/assert.ts';
import { Random } from '../../src/base/random.ts';
import { WriteBuffers } from '../../src/storage/write-buffers.ts';
import { Database } from '../../src/database.ts';
import { DatabaseError } from '../../src/errors.ts';
import type { KeyValue, RangeOptions } from '../../src/kv/key-value.ts';
import { defineCollection, defineIndex } from '../../src/model/schema.ts';
import { LATEST, TRANSACTION, type SourceView } from '../../src/model/source.ts';
import type { OpenOptions } from '../../src/options.ts';
import { MemoryFileSystem } from '../../src/storage/memory-file.ts';
import { EmbeddedSource } from '../../src/store/embedded-source.ts';
import { StorePointAccess } from '../../src/store/point-access.ts';
import type { Property } from '../support/properties.ts';
import { LayoutModel, type Person } from './layout-model.ts';

const PATH = '/trial/database';
const MARKS = 9;
const OPERATIONS_PER_OPEN = 700;

export interface Layout {
  readonly options: OpenOptions;
  readonly keyCount: number;
  readonly valueBytesMax: number;
}

/** A layout that a file can have; small orders only where a tree stays small. */
export function randomLayout(random: Random): Layout {
  const pageBytes = random.pick([4096, 4096, 8192, 16384, 65536]);
  const isSmall = pageBytes === 4096 && random.chance(0.5);
  const order = isSmall ? random.between(3, 31) : random.pick([0, 0, 32, 100, 1000]);
  const clusters = [256, 512, 1024, 2048, 8192, 32768].filter((bytes) => bytes <= pageBytes / 2);
  return {
    options: {
      pageSize: pageBytes,
      extentSize: pageBytes * random.pick([1, 4, 16, 64]),
      clusterSize: random.pick(clusters),
      index: { tree: random.pick(['b+tree', 'b-tree']), order },
      memory: randomBudget(random, pageBytes),
    },
    keyCount: random.pick([40, 1000, 8000]),
    valueBytesMax: random.pick([8, 60, 300, 3000]),
  };
}

function randomBudget(random: Random, pageBytes: number): number {
  return random.pick([pageBytes > 16384 ? 6 : 3, 6, 16]) * 2 ** 20;
}

/** Runs operations from one seed; throws at the first difference. */
export class LayoutTrial {
  readonly layout: Layout;
  readonly #random: Random;
  readonly #files = new MemoryFileSystem();
  #database!: Database;
  #bucket!: KeyValue<number, Uint8Array>;
  #points!: StorePointAccess;
  readonly #model: LayoutModel;
  /** Plants the fault of a canary: the model misses one delete. */
  readonly #isBroken: boolean;

  constructor(seed: number, isBroken = false) {
    this.#random = new Random(seed);
    this.layout = randomLayout(this.#random);
    const { keyCount } = this.layout;
    this.#model = new LayoutModel(-(keyCount >> 2), keyCount);
    this.#isBroken = isBroken;
    this.#open(this.layout.options);
    const definition = defineCollection({
      name: 'people',
      fields: { id: 'int', mark: 'int', tag: 'text' },
      key: 'id',
    });
    const source = new EmbeddedSource(this.#database.store);
    this.#database.transaction(() => {
      source.applySchemaChange({ change: 'createCollection', definition });
      for (const [field, unique] of [
        ['mark', false],
        ['tag', true],
      ] as const)
        source.applySchemaChange({
          change: 'createIndex',
          definition: defineIndex(definition, { name: field, parts: [field], unique }),
        });
    });
  }

  run(operations: number): void {
    for (let done = 0; done < operations;) {
      if (this.#random.chance(0.5)) done += this.#transaction();
      else done += this.#operations(this.#random.between(1, 30));
      if (this.#random.chance(30 / OPERATIONS_PER_OPEN)) this.#reopen();
    }
    this.#compareAll();
    const { faults } = this.#database.check();
    if (faults.length > 0) throw faults[0];
    this.#database.close();
  }

  // ---- opening

  #open(options: OpenOptions): void {
    this.#database = new Database(PATH, { durability: 'none', ...options }, this.#files);
    this.#bucket = this.#database.kv('values', { keys: 'int', values: 'bytes' });
    this.#points = new StorePointAccess(this.#database.store);
  }

  /** Opens again under another budget: the file keeps its layout. */
  #reopen(): void {
    this.#database.close();
    const pageBytes = this.layout.options.pageSize as number;
    this.#open({ memory: randomBudget(this.#random, pageBytes) });
  }

  // ---- transactions

  /** A transaction of some operations, with a savepoint perhaps, kept or not. */
  #transaction(): number {
    const random = this.#random;
    this.#model.commit();
    const tx = this.#database.begin();
    let done = this.#operations(random.between(1, 40));
    if (random.chance(0.4)) {
      const savepoint = tx.savepoint();
      const kept = this.#model.mark;
      done += this.#operations(random.between(1, 20));
      if (random.chance(0.5)) {
        tx.rollbackTo(savepoint);
        this.#model.rollbackTo(kept);
      } else tx.release(savepoint);
      done += this.#operations(random.between(1, 10));
    }
    if (random.chance(0.25)) {
      tx.rollback();
      this.#model.rollbackTo(0);
    } else tx.commit();
    return done;
  }

  get #view(): SourceView {
    return this.#database.store.transaction.isOpen ? TRANSACTION : LATEST;
  }

  /** Runs a write of the store: by itself if no transaction is open. */
  #write<T>(run: () => T): T {
    if (this.#database.store.transaction.isOpen) return run();
    return this.#database.transaction(run);
  }

  #operations(count: number): number {
    for (let i = 0; i < count; i++) this.#operation();
    return count;
  }

  #operation(): void {
    const choice = this.#random.below(100);
    if (choice < 30) this.#put();
    else if (choice < 40) this.#delete();
    else if (choice < 50) this.#get();
    else if (choice < 56) this.#range();
    else if (choice < 57) this.#deleteRange();
    else if (choice < 60) this.#batch();
    else if (choice < 75) this.#putPerson();
    else if (choice < 82) this.#deletePerson();
    else if (choice < 92) this.#getPerson();
    else this.#getByIndex();
  }

  #key(): number {
    return this.#random.below(this.layout.keyCount) - (this.layout.keyCount >> 2);
  }

  #value(): Uint8Array {
    const bytes = new Uint8Array(this.#random.below(this.layout.valueBytesMax + 1));
    return bytes.fill(this.#random.below(256));
  }

  // ---- the bucket

  #put(): void {
    const [key, value] = [this.#key(), this.#value()];
    this.#bucket.put(key, value);
    this.#model.setValue(key, value);
  }

  #delete(): void {
    const key = this.#key();
    same('delete', this.#bucket.delete(key), this.#model.value(key) !== undefined);
    if (!this.#isBroken || this.#random.chance(0.9)) this.#model.setValue(key, undefined);
  }

  #get(): void {
    const key = this.#key();
    const wanted = this.#model.value(key);
    sameBytes(`get ${key}`, this.#bucket.get(key), wanted);
    same(`has ${key}`, this.#bucket.has(key), wanted !== undefined);
  }

  #batch(): void {
    const keys = Array.from({ length: this.#random.between(1, 8) }, () => this.#key());
    const value = this.#value();
    this.#bucket.batch(
      keys.map((key, i) => (i % 3 === 2 ? { type: 'delete', key } : { type: 'put', key, value })),
    );
    for (const [i, key] of keys.entries())
      this.#model.setValue(key, i % 3 === 2 ? undefined : value);
  }

  /** A random range, and the keys of the model in it. */
  #bounds(): { options: RangeOptions<number>; keys: number[] } {
    const [a, b] = [this.#key(), this.#key()].sort((x, y) => x - y) as [number, number];
    const model = this.#model;
    switch (this.#random.below(4)) {
      case 0:
        return { options: { gte: a, lt: b }, keys: model.keys(a, b - 1) };
      case 1:
        return { options: { gt: a, lte: b }, keys: model.keys(a + 1, b) };
      case 2:
        return { options: { gte: a }, keys: model.keys(a, Infinity) };
      default:
        return { options: { lte: b }, keys: model.keys(-Infinity, b) };
    }
  }

  #range(): void {
    const { options, keys } = this.#bounds();
    const reverse = this.#random.chance(0.5);
    const limit = this.#random.pick([1, 7, 100]);
    const count = keys.length;
    const wanted = (reverse ? keys.reverse() : keys).slice(0, limit);
    let i = 0;
    for (const [key, bytes] of this.#bucket.range({ ...options, reverse, limit })) {
      same('key of a range', key, wanted[i++]);
      sameBytes(`value of ${key} in a range`, bytes, this.#model.value(key));
    }
    same('entries of a range', i, wanted.length);
    same('first', this.#bucket.first({ ...options, reverse })?.[0], wanted[0]);
    same('count', this.#bucket.count(options), count);
  }

  #deleteRange(): void {
    const { options, keys } = this.#bounds();
    same('deleteRange', this.#bucket.deleteRange(options), keys.length);
    for (const key of keys) this.#model.setValue(key, undefined);
  }

  // ---- the collection

  #putPerson(): void {
    const id = this.#key();
    const person = { mark: this.#random.below(MARKS), tag: this.#key() };
    const owner = this.#model.ownerOf(person.tag);
    const isTaken = owner !== undefined && owner !== id;
    let code = 'none';
    try {
      this.#write(() => {
        const handle = this.#points.collection('people');
        const fields = { mark: person.mark, tag: tagOf(person) };
        const isUpdate = person.mark % 2 === 0 && this.#model.person(id) !== undefined;
        if (isUpdate) handle.update(id, fields);
        else handle.put({ id, ...fields });
      });
    } catch (error) {
      if (!(error instanceof DatabaseError)) throw error;
      code = error.code;
    }
    same(`put of person ${id}`, code, isTaken ? 'constraint.unique' : 'none');
    if (!isTaken) this.#model.setPerson(id, person);
  }

  #deletePerson(): void {
    const id = this.#key();
    const found = this.#write(() => this.#points.collection('people').delete(id));
    same('delete of a person', found, this.#model.person(id) !== undefined);
    this.#model.setPerson(id, undefined);
  }

  #getPerson(): void {
    const id = this.#key();
    const found = this.#points.collection('people').get(id, this.#view);
    const wanted = this.#model.person(id);
    same(`mark of ${id}`, found?.['mark'], wanted?.mark);
    same(`tag of ${id}`, found?.['tag'], wanted && tagOf(wanted));
  }

  #getByIndex(): void {
    const people = this.#points.collection('people');
    const mark = this.#random.below(MARKS);
    const ids: unknown[] = [];
    people.index('mark').ids([mark], ids as number[], this.#view);
    const wanted = this.#model.idsOf(mark);
    // The list is handed over with room behind what was found.
    for (let i = 0; i <= wanted.length; i++) same(`id ${i} of mark ${mark}`, ids[i], wanted[i]);
    const person = this.#model.person(wanted[0]!);
    if (person === undefined) return;
    same('id of a tag', people.index('tag').get(tagOf(person), this.#view)?.['id'], wanted[0]);
  }

  #compareAll(): void {
    same('count of values', this.#bucket.count(), this.#model.valueCount);
    for (const [key, bytes] of this.#bucket.range()) {
      sameBytes(`value of ${key}`, bytes, this.#model.value(key));
    }
    const people = this.#points.collection('people');
    same('count of people', people.count(this.#view), this.#model.personCount);
    for (let mark = 0; mark < MARKS; mark++)
      for (const id of this.#model.idsOf(mark)) {
        const tag = tagOf(this.#model.person(id)!);
        same(`tag of ${id}`, people.get(id, this.#view)?.['tag'], tag);
      }
  }
}

function tagOf({ tag }: Person): string {
  return `tag ${tag}`;
}

function same(what: string, found: unknown, wanted: unknown): void {
  if (!Object.is(found, wanted)) {
    throw new Error(`${what}: ${String(found)}, not ${String(wanted)}`);
  }
}

function sameBytes(what: string, found?: Uint8Array, wanted?: Uint8Array): void {
  const isSame =
    found === undefined || wanted === undefined
      ? found === wanted
      : Buffer.compare(found, wanted) === 0;
  if (!isSame) throw new Error(`${what}: ${found?.length} bytes, not ${wanted?.length}`);
}

/** One in so many trials runs the expensive checks of `verify`, which cost as much as the rest. */
const TRIALS_A_VERIFIED = 5;

/** Operations of a trial, and trials of each of two properties: a million in every test run. */
const OPERATIONS = 2000;
const TRIALS = 250;

/** Runs one trial and says under which layout it failed. `isEager`: any writes may wait. */
function runLayoutTrial(seed: number, isEager: boolean, isBroken = false): void {
  const trial = new LayoutTrial(seed, isBroken);
  const wasVerifying = isVerifying();
  setVerifying(seed % TRIALS_A_VERIFIED === 0);
  WriteBuffers.isEager = isEager;
  try {
    trial.run(OPERATIONS);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`${reason}; layout ${JSON.stringify(trial.layout)}`, { cause });
  } finally {
    WriteBuffers.isEager = false;
    setVerifying(wasVerifying);
  }
}

/** The property of half a million operations, with writes that wait eagerly or not. */
export function layoutProperty(name: string, isEager: boolean): Property {
  return {
    name,
    cases: TRIALS,
    timeoutMs: 240_000,
    run: (seed) => runLayoutTrial(seed, isEager),
    canary: (seed) => runLayoutTrial(seed, isEager, true),
  };
}
