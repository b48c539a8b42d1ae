/**
 * One case of "writes that wait change nothing": the same random calls on two databases, in one of
 * which every write waits that can, in a small budget, and in the other none does. Every answer,
 * every refusal and all that is left must be equal.
 */
import { Random } from '../../src/base/random.ts';
import { Database } from '../../src/database.ts';
import { DatabaseError } from '../../src/errors.ts';
import type { BulkLoadOptions, Collection, KeyValue, Transaction } from '../../src/index.ts';
import { Transaction as OpenTransaction } from '../../src/scopes.ts';
import { WriteBuffers } from '../../src/storage/write-buffers.ts';
import { FaultFileSystem } from '../faults/fault-file.ts';

type Fields = Record<string, unknown>;
type Call = (side: Side) => unknown;

const DUPLICATES = ['refuse', 'replace', 'keep'] as const;

/** One of the two databases, and what a case has open in it. */
class Side {
  readonly disk = new FaultFileSystem({ seed: 1 });
  readonly db: Database;
  readonly isEager: boolean;
  tx: Transaction | undefined;
  readonly cursors: Iterator<unknown>[] = [];
  readonly savepoints: number[] = [];
  settings: Fields;

  constructor(isEager: boolean, settings: Fields, layout: object, isInOrder: boolean) {
    this.isEager = isEager;
    // Keys in order make more pages, beside which a query has to have room.
    const memory = !isEager ? '16 MiB' : isInOrder ? '8 MiB' : '3 MiB';
    this.db = new Database('db', { memory, pageSize: 4096, index: layout }, this.disk);
    this.settings = settings;
  }

  get scope(): Transaction {
    return this.tx ?? (this.db as unknown as Transaction); // it has the handles too
  }

  get bucket(): KeyValue<number, string> {
    return this.scope.kv<number, string>('b', { keys: 'int', values: 'text' });
  }

  get records(): Collection<Fields, Fields, number, Fields> {
    return this.scope.collection('records', this.settings as never) as never;
  }

  /** Makes a call; answers what it did, as text. */
  answer(call: Call): string {
    WriteBuffers.isEager = this.isEager;
    try {
      return text(call(this));
    } catch (cause) {
      if (!(cause instanceof DatabaseError)) throw cause;
      return `refused: ${cause.code}`;
    } finally {
      WriteBuffers.isEager = false;
    }
  }

  end(isCommitted: boolean): void {
    this.cursors.length = 0;
    this.savepoints.length = 0;
    const { tx } = this;
    this.tx = undefined;
    if (isCommitted) tx?.commit();
    else tx?.rollback();
  }
}

function text(value: unknown): string {
  return String(JSON.stringify(value, (_, part) => (part instanceof Map ? [...part] : part)));
}

function sorted(rows: readonly unknown[]): string[] {
  return rows.map(text).sort();
}

/** The calls of a case, each with how often it is chosen. */
class Calls {
  readonly #random: Random;
  readonly #keys: number;
  readonly #bytes: number;
  /** How many keys are the next of those before. */
  readonly inOrder: number;
  #last = 0;

  constructor(random: Random) {
    this.#random = random;
    this.#keys = random.pick([20, 300, 5000]);
    this.#bytes = random.pick([5, 60, 1500]);
    this.inOrder = random.pick([0, 0.5, 0.97]);
  }

  #key(): number {
    const random = this.#random;
    this.#last = random.chance(this.inOrder)
      ? (this.#last + 1) % this.#keys
      : random.below(this.#keys);
    return this.#last;
  }

  /** A number below `count` that is often the same, or one more, for keys in order. */
  #follower(count: number): number {
    const random = this.#random;
    return random.chance(this.inOrder) ? (this.#last >> 2) % count : random.below(count);
  }

  #value(): string {
    return String.fromCharCode(97 + this.#random.below(26)).repeat(this.#random.below(this.#bytes));
  }

  #record(): Fields {
    const random = this.#random;
    return {
      id: this.#key(),
      group: random.chance(0.1) ? null : this.#follower(random.pick([7, 1000])),
      code: random.chance(0.2) ? null : this.#follower(3 * this.#keys) + (this.#last & 3),
      tags: Array.from({ length: random.below(5) }, () => random.pick([null, 'a', 'b', 'cc', ''])),
      note: this.#value(),
    };
  }

  #some<T>(make: () => T): T[] {
    return Array.from({ length: this.#random.below(this.#random.pick([4, 40, 400])) }, make);
  }

  next(): Call {
    const choice = this.#random.below(100);
    if (choice < 40) return this.#write();
    if (choice < 75) return this.#read();
    if (choice < 92) return this.#borders();
    return this.#schema();
  }

  #write(): Call {
    const random = this.#random;
    const key = this.#key();
    const value = this.#value();
    const record = this.#record();
    const options: BulkLoadOptions = { onDuplicate: random.pick(DUPLICATES) };
    const entries = this.#some((): [number, string] => [this.#key(), this.#value()]);
    const records = this.#some(() => this.#record());
    const changes = { group: random.below(7), note: value };
    switch (random.below(12)) {
      case 0:
      case 1:
        return ({ bucket }) => entries.forEach(([k, v]) => bucket.put(k, v));
      case 2:
        return ({ bucket }) => bucket.delete(key);
      case 3:
        return ({ bucket }) => bucket.insert(key, value);
      case 4:
        return ({ bucket }) => bucket.deleteRange({ gte: key, lt: key + 5 });
      case 5:
        return ({ bucket }) => bucket.bulkLoad(entries, options).loaded;
      case 6:
      case 7:
        return ({ records: all }) => records.slice(0, 40).map((each) => all.save(each));
      case 8:
        return ({ records: all }) => all.insertMany(records);
      case 9:
        return ({ records: all }) => [all.update(key, changes), all.save(record)];
      case 10:
        return ({ records: all }) => [all.delete(key), all.delete(key + 1)];
      default:
        return ({ records: all }) => all.bulkLoad(records, options).loaded;
    }
  }

  #read(): Call {
    const random = this.#random;
    const key = this.#key();
    const reverse = random.chance(0.4);
    const group = random.below(7);
    const odd = random.pick<unknown>([group, null, String(group), group + 0.5, BigInt(group), NaN]);
    const tag = random.pick(['a', 'b', 'cc', '', null]);
    switch (random.below(12)) {
      case 0:
        return ({ bucket }) => [bucket.get(key), bucket.has(key + 1), bucket.getMany([key, 3, 4])];
      case 1:
        return ({ bucket }) => [...bucket.range({ gte: key, limit: 9, reverse })];
      case 2:
        return ({ bucket }) => [bucket.count(), bucket.first(), bucket.last()];
      case 3:
        return (side) => side.cursors.push(side.bucket.range({ gte: key, reverse }));
      case 4:
        return ({ cursors }) => cursors.map((cursor) => [cursor.next(), cursor.next()]);
      case 5:
        return ({ records }) => [records.get(key), records.has(key + 1), records.getMany([key, 1])];
      case 6:
      case 7:
        return ({ records }) => sorted(records.where({ group }).toArray());
      case 8:
        return ({ records }) => sorted(records.where('group', '=', odd as never).toArray());
      case 9:
        return ({ records }) => sorted(records.where('tags', 'contains', tag as never).toArray());
      case 10:
        return ({ records }) => [records.count(), records.get({ code: key })];
      default:
        return ({ db }) => {
          const snapshot = db.snapshot();
          try {
            const all = snapshot.kv<number, string>('b', { keys: 'int', values: 'text' });
            return [all.get(key), all.count(), all.first()];
          } finally {
            snapshot.close();
          }
        };
    }
  }

  #borders(): Call {
    const random = this.#random;
    const place = random.below(4);
    const commits = random.chance(0.7);
    switch (random.below(6)) {
      case 0:
      case 1:
        return (side) => {
          if (side.tx !== undefined) side.end(commits);
          else side.tx = side.db.begin();
        };
      case 2:
        return (side) => void (side.tx ??= side.db.begin());
      case 3:
        return (side) => {
          if (side.tx !== undefined) side.savepoints.push(side.tx.savepoint());
        };
      case 4:
        return (side) => {
          const savepoint = side.savepoints[place];
          if (savepoint === undefined) return;
          side.savepoints.length = place + 1;
          side.tx!.rollbackTo(savepoint);
        };
      default:
        return (side) => {
          const savepoint = side.savepoints[place];
          if (savepoint === undefined) return;
          side.savepoints.length = place;
          side.tx!.release(savepoint);
        };
    }
  }

  #schema(): Call {
    const change = this.#random.below(6);
    return (side) => {
      if (side.tx === undefined) return undefined;
      const scope = OpenTransaction.scopeOf(side.tx);
      if (change === 0) scope.changeSchema({ change: 'dropCollection', collection: 'records' });
      else if (change === 1) scope.changeSchema({ change: 'dropCollection', collection: 'b' });
      else {
        const indexes = scope.indexes('records');
        const index = indexes[change % Math.max(1, indexes.length)]?.name;
        if (index === undefined) return undefined;
        // The next handle declares it, and so makes it again over what waits.
        scope.changeSchema({ change: 'dropIndex', collection: 'records', index });
      }
      return undefined;
    };
  }
}

/** Runs a case; throws when the two differ. `plant` spoils answers of the one whose writes wait. */
export function runWaitingCase(seed: number, plant?: (answer: string) => string): void {
  const random = new Random(seed);
  const calls = new Calls(random);
  const settings = {
    fields: { id: 'int', group: 'int?', code: 'int?', tags: 'list', note: 'text' },
    key: 'id',
    index: ['group', 'tags', ['group', 'note']].filter(() => random.chance(0.7)),
    unique: random.chance(0.6) ? ['code'] : [],
  };
  const layout = { tree: random.pick(['b+tree', 'b-tree']), order: random.pick([0, 0, 4, 31]) };
  const waiting = new Side(true, settings, layout, calls.inOrder > 0);
  const direct = new Side(false, settings, layout, calls.inOrder > 0);
  const fills = random.chance(0.3);
  try {
    for (let i = 0; i < 60; i++) {
      const call = calls.next();
      // Outside a transaction a call of many writes would be done in part.
      const isFull = fills && waiting.tx !== undefined && random.chance(0.5);
      const { usedBytes } = waiting.disk;
      waiting.disk.capacityBytes = isFull ? usedBytes + random.below(200_000) : Infinity;
      let found = waiting.answer(call);
      if (found === 'refused: storage.full') {
        waiting.disk.capacityBytes = Infinity;
        if (direct.tx === undefined) throw new Error(`call ${i}: ${found} outside a transaction`);
        for (const side of [waiting, direct]) side.end(false);
        continue;
      }
      if (plant !== undefined) found = plant(found);
      const expected = direct.answer(call);
      if (found === expected) continue;
      throw new Error(
        `call ${i}, ${String(call)}: ${found.slice(0, 300)}, not ${expected.slice(0, 300)}`,
      );
    }
    waiting.disk.capacityBytes = Infinity;
    for (const side of [waiting, direct]) side.answer(() => side.end(true));
    compare(waiting, direct);
  } finally {
    for (const side of [waiting, direct]) side.db.close();
  }
}

function compare(waiting: Side, direct: Side): void {
  const all: Call = ({ bucket, records }) => [[...bucket.range()], records.all().toArray()];
  const found = waiting.answer(all);
  const expected = direct.answer(all);
  if (found === expected) return requireWhole([waiting, direct]);
  let at = 0;
  while (found[at] === expected[at]) at++;
  const around = (of: string): string => of.slice(Math.max(0, at - 40), at + 80);
  throw new Error(`what is left differs: ${around(found)}, not ${around(expected)}`);
}

function requireWhole(sides: readonly Side[]): void {
  for (const { db } of sides) {
    const { faults } = db.check();
    if (faults.length > 0) throw faults[0]!;
    const { transaction, work } = db.memory().accounts;
    if (transaction + work > 100_000) throw new Error(`${transaction} and ${work} bytes are held`);
  }
}
