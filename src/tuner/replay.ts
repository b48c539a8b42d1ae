/**
 * Running the lines of a trace again: what a line asks is asked of a database, and its answer is
 * reduced to a number of rows and a hash of them, which layouts must share.
 *
 * The hash does not depend on the order of rows, since an index may change the order of a query
 * that names none; where such a query is bounded, only the number counts. Line 7 of the strata.
 */
import type { Database } from '../database.ts';
import type { KeyValue, KeyValueOptions } from '../kv/key-value.ts';
import { hashValue, type Value } from '../model/value.ts';
import type { Collection } from '../objects/collection.ts';
import { decoded, type TracedCollection, type TraceLine } from '../recording/trace-format.ts';
import type { Snapshot, Transaction } from '../scopes.ts';

/** The kinds of work in a trace, which are the phases of its replay. */
export const REPLAY_PHASES = ['open', 'get', 'range', 'query', 'write', 'commit', 'close'] as const;
export type ReplayPhase = (typeof REPLAY_PHASES)[number];

/** One line, ready to be run. */
export interface Operation {
  readonly op: string;
  readonly phase: ReplayPhase;
  readonly on: string;
  readonly args: readonly unknown[];
  readonly chain: readonly (readonly [string, readonly unknown[]])[];
  readonly end: string;
  readonly snap: number | undefined;
  /** Rows that iterations take at the most: the application may have stopped early. */
  readonly rowsMax: number;
}

export interface Answer {
  readonly rows: number;
  /** 0 where it was not asked for, or means nothing. */
  readonly hash: number;
}

const PHASE_OF: Readonly<Record<string, ReplayPhase>> = {
  get: 'get',
  getMany: 'get',
  has: 'get',
  count: 'range',
  first: 'range',
  last: 'range',
  range: 'range',
  keys: 'range',
  query: 'query',
  commit: 'commit',
  reopen: 'open',
};

export function operationOf(line: TraceLine): Operation {
  const { op, on = '', args = [], chain = [], end = '', snap, found } = line;
  return {
    op,
    phase: PHASE_OF[op] ?? 'write',
    on,
    args: args.map(decoded),
    chain: chain.map(([name, each]) => [name, each.map(decoded)] as const),
    end,
    snap,
    rowsMax: found ?? Infinity,
  };
}

type Handle = KeyValue<Value, Value> | Collection;
type Methods = Readonly<Record<string, (...args: unknown[]) => unknown>>;

const FACTOR = 0x9e3779b1;
/** Digits of averages and sums that do not depend on the order of addition. */
const DIGITS = 9;

/** One database that a trace is run on. */
export class Replay {
  readonly #open: () => Database;
  readonly #schemas: ReadonlyMap<string, TracedCollection>;
  #database: Database;
  #tx: Transaction | undefined;
  readonly #handles = new Map<string, Handle>();
  readonly #snapshots = new Map<number, { snapshot: Snapshot; handles: Map<string, Handle> }>();
  readonly #savepoints = new Map<unknown, number>();
  /** Whether answers are hashed as well as counted. */
  isHashing = false;

  constructor(open: () => Database, schemas: ReadonlyMap<string, TracedCollection>) {
    this.#open = open;
    this.#schemas = schemas;
    this.#database = open();
  }

  /** Whether a name stands for a bucket of keys and values. */
  isBucket(name: string): boolean {
    return (this.#schemas.get(name)?.form ?? 'bucket') === 'bucket';
  }

  get database(): Database {
    return this.#database;
  }

  /** Runs one operation; answers `undefined` for those that answer nothing to compare. */
  run(operation: Operation): Answer | undefined {
    const { op, args } = operation;
    switch (op) {
      case 'begin':
        this.#tx?.rollback(); // of a transaction whose end is not in the trace
        this.#tx = this.#database.begin();
        return undefined;
      case 'commit':
      case 'rollback': {
        const tx = this.#tx;
        this.#tx = undefined;
        if (op === 'commit') tx?.commit();
        else tx?.rollback();
        return undefined;
      }
      case 'savepoint':
        if (this.#tx !== undefined) this.#savepoints.set(args[0], this.#tx.savepoint());
        return undefined;
      case 'rollbackTo':
      case 'release': {
        const token = this.#savepoints.get(args[0]);
        if (token !== undefined) this.#tx?.[op](token);
        return undefined;
      }
      case 'snapshot': {
        const snapshot = this.#database.snapshot();
        this.#snapshots.set(operation.snap!, { snapshot, handles: new Map() });
        return undefined;
      }
      case 'close':
        this.#snapshots.get(operation.snap!)?.snapshot.close();
        this.#snapshots.delete(operation.snap!);
        return undefined;
      case 'reopen':
        this.close();
        this.#database = this.#open();
        return undefined;
      default:
        return this.#answer(operation, this.#call(operation));
    }
  }

  close(): void {
    this.#tx?.rollback();
    this.#tx = undefined;
    for (const { snapshot } of this.#snapshots.values()) snapshot.close();
    this.#snapshots.clear();
    this.#handles.clear();
    this.#savepoints.clear();
    this.#database.close();
  }

  #call(operation: Operation): unknown {
    const { op, args } = operation;
    const handle = this.handle(operation.on, operation.snap) as unknown as Methods;
    if (op === 'saveMany') return (args[0] as unknown[]).map((each) => handle['save']!(each));
    if (op !== 'query') return handle[op]!(...args);
    const query = this.queryOf(operation) as Methods & Iterable<unknown>;
    return operation.end === 'iterate' ? query : query[operation.end]!(...args);
  }

  /** The query of an operation, before it answers. */
  queryOf({ chain, on, snap }: Operation): unknown {
    let query: unknown = this.handle(on, snap);
    for (const [name, args] of chain) query = (query as Methods)[name]!(...args);
    return query;
  }

  handle(name: string, snap: number | undefined): Handle {
    const within = snap === undefined ? undefined : this.#snapshots.get(snap);
    const handles = within?.handles ?? this.#handles;
    let handle = handles.get(name);
    if (handle === undefined) {
      handle = this.#made(name, within?.snapshot);
      handles.set(name, handle);
    }
    return handle;
  }

  #made(name: string, snapshot: Snapshot | undefined): Handle {
    const schema = this.#schemas.get(name);
    if (this.isBucket(name)) {
      return bucketOf(snapshot ?? this.#database, name, schema);
    }
    const stored = this.#database.storedCollection(name);
    const handle = stored ?? declared(this.#database, name, schema!);
    return snapshot === undefined ? handle : snapshot.collection(handle);
  }

  #answer(operation: Operation, answer: unknown): Answer {
    const { op, end, rowsMax } = operation;
    if (op === 'range' || op === 'keys' || end === 'iterate') {
      return this.#iterated(operation, answer as Iterable<unknown>, rowsMax);
    }
    const isHashed = this.isHashing && !isBounded(operation);
    if (Array.isArray(answer)) {
      const hash = isHashed ? answer.reduce<number>((sum, row) => (sum + hashOf(row)) | 0, 0) : 0;
      return { rows: answer.length, hash };
    }
    if (end === 'sum' || end === 'avg') {
      const text = typeof answer === 'number' ? answer.toPrecision(DIGITS) : '';
      return { rows: 1, hash: isHashed ? hashOf(text) : 0 };
    }
    if (typeof answer === 'number' && (op === 'count' || end === 'count' || op === 'deleteRange')) {
      return { rows: answer, hash: 0 };
    }
    const isThere = answer !== undefined && answer !== false;
    const isRead = operation.phase !== 'write';
    return { rows: isThere ? 1 : 0, hash: isThere && isHashed && isRead ? hashOf(answer) : 0 };
  }

  #iterated(operation: Operation, rows: Iterable<unknown>, most: number): Answer {
    let count = 0;
    let hash = 0;
    const isHashed = this.isHashing && operation.op !== 'query';
    if (most === 0) return { rows: 0, hash: 0 };
    for (const row of rows) {
      if (isHashed) hash = (hash + hashOf(row)) | 0;
      if (++count >= most) break;
    }
    return { rows: count, hash };
  }
}

/** Whether which rows a query answers may depend on the order it finds them in. */
function isBounded({ chain, end, op }: Operation): boolean {
  if (op !== 'query') return false;
  return end === 'first' || chain.some(([name]) => name === 'limit' || name === 'offset');
}

function hashOf(row: unknown): number {
  return Math.imul(hashValue(row as Value) ^ FACTOR, FACTOR);
}

function bucketOf(
  from: Database | Snapshot,
  name: string,
  schema: TracedCollection | undefined,
): Handle {
  const { key, value } = schema?.fields ?? {};
  const options = {
    ...(key !== undefined && { keys: key.replace('?', '') }),
    ...(value !== undefined && { values: value.replace('?', '') }),
  } as KeyValueOptions;
  return from.kv<Value, Value>(name, options);
}

/** A collection that the store lacked when the trace began, as the trace describes it. */
function declared(database: Database, name: string, schema: TracedCollection): Collection {
  const index = (unique: boolean): unknown[] =>
    schema.indexes
      .filter((each) => each.unique === unique)
      .map(({ parts, name: indexName, nulls }) => ({ parts, name: indexName, nulls }));
  const settings = {
    fields: schema.fields,
    key: schema.key.length === 1 ? schema.key[0]! : [...schema.key],
    unique: index(true),
    index: index(false),
    open: schema.open,
  };
  return database.collection(name, settings as never) as unknown as Collection;
}
