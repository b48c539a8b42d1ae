/**
 * Handles that write down what is asked of them: proxies around those of kv and objects, made only
 * where recording is on, so that the handles themselves know nothing of it.
 *
 * Which methods are written down, and what their arguments are, is in tables; a method that is in
 * none is called all the same and counted as skipped. Line 6 of the strata.
 */
import type { KeyValue, KeyValueChange } from '../kv/key-value.ts';
import { TRANSACTION, type PointCollection } from '../model/source.ts';
import type { Value } from '../model/value.ts';
import { Collection } from '../objects/collection.ts';
import type { Query } from '../objects/query.ts';
import type { Session } from '../objects/session.ts';
import type { DatabaseScope, Snapshot, Transaction } from '../scopes.ts';
import type { Recorder } from './recorder.ts';
import type { TraceLine } from './trace-format.ts';

/** Which transaction or snapshot lines belong to. */
export interface ScopeTag {
  readonly tx?: number;
  readonly snap?: number;
}

type Method = (...args: unknown[]) => unknown;
type Arguments = 'values' | 'range' | 'changes' | 'none';

const KV: Readonly<Record<string, Arguments>> = {
  get: 'values',
  getMany: 'values',
  has: 'values',
  put: 'values',
  insert: 'values',
  delete: 'values',
  batch: 'changes',
  deleteRange: 'range',
  count: 'range',
  first: 'range',
  last: 'range',
  range: 'range',
  keys: 'range',
};

const COLLECTION: Readonly<Record<string, Arguments>> = {
  get: 'values',
  getMany: 'values',
  has: 'values',
  insert: 'values',
  save: 'values',
  insertMany: 'values',
  update: 'values',
  delete: 'values',
  count: 'none',
};

/** Methods of queries that answer queries, and what they take. */
const CHAIN: Readonly<Record<string, 'conditions' | 'names'>> = {
  where: 'conditions',
  or: 'conditions',
  not: 'conditions',
  select: 'names',
  orderBy: 'names',
  limit: 'names',
  offset: 'names',
  distinct: 'names',
};
const ENDS = ['toArray', 'first', 'count', 'sum', 'avg', 'min', 'max'];
/** Methods whose first argument may be consumed by going over it. */
const ITERABLES = ['getMany', 'insertMany', 'batch'];
/** Methods of a handle that ask nothing of the store. */
const SILENT = ['name', 'constructor', 'then', 'toJSON'];

const originals = new WeakMap<object, object>();

/** The handle behind a recorded one; any other value is itself. */
export function unrecorded<T>(handle: T): T {
  return (originals.get(handle as object) as T | undefined) ?? handle;
}

/** Calls of an object by method name; what the table does not know is called as it is. */
function proxied<T extends object>(
  target: T,
  method: (name: string | symbol, original: Method) => Method | undefined,
): T {
  const made = new Map<string | symbol, unknown>();
  const proxy = new Proxy(target, {
    get(_, name) {
      const known = made.get(name);
      if (known !== undefined) return known;
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      const bound = (value as Method).bind(target) as Method;
      const wrapped = method(name, bound) ?? bound;
      made.set(name, wrapped);
      return wrapped;
    },
  });
  originals.set(proxy, target);
  return proxy;
}

/** How many rows, records or entries an answer stands for. */
function foundIn(answer: unknown): number {
  if (Array.isArray(answer)) return answer.filter((each) => each !== undefined).length;
  if (typeof answer === 'number') return answer;
  return answer === undefined || answer === false ? 0 : 1;
}

/** The rows of an iteration, which is written down when it ends. */
class CountedRows implements IterableIterator<unknown> {
  readonly #rows: Iterator<unknown>;
  #ended: ((count: number) => void) | undefined;
  #count = 0;

  constructor(rows: Iterable<unknown>, ended: (count: number) => void) {
    this.#rows = rows[Symbol.iterator]();
    this.#ended = ended;
  }

  [Symbol.iterator](): this {
    return this;
  }

  next(): IteratorResult<unknown> {
    const step = this.#rows.next();
    if (step.done === true) this.#end();
    else this.#count++;
    return step;
  }

  return(): IteratorResult<unknown> {
    this.#end();
    return this.#rows.return?.() ?? { done: true, value: undefined };
  }

  #end(): void {
    this.#ended?.(this.#count);
    this.#ended = undefined;
  }
}

/** Everything that is handed out in one scope. */
export class RecordedScope {
  readonly #recorder: Recorder;
  readonly #tag: ScopeTag;

  constructor(recorder: Recorder, tag: ScopeTag) {
    this.#recorder = recorder;
    this.#tag = tag;
  }

  #note(line: TraceLine): void {
    this.#recorder.note({ ...line, ...this.#tag });
  }

  /** Calls, and writes down unless it failed. */
  #call(run: () => unknown, line: (answer: unknown) => TraceLine): unknown {
    let answer: unknown;
    try {
      answer = run();
    } catch (cause) {
      this.#recorder.fail();
      throw cause;
    }
    this.#note(line(answer));
    return answer;
  }

  #arguments(kind: Arguments, args: readonly unknown[]): unknown[] {
    switch (kind) {
      case 'none':
        return [];
      case 'range':
        return this.#recorder.ranges(args);
      case 'changes':
        return [(args[0] as KeyValueChange<Value, Value>[]).map((each) => this.#change(each))];
      case 'values':
        return this.#recorder.values(args);
    }
  }

  #change(change: KeyValueChange<Value, Value>): unknown {
    const [key] = this.#recorder.values([change.key]);
    if (change.type === 'delete') return { type: 'delete', key };
    return { type: 'put', key, value: this.#recorder.values([change.value])[0] };
  }

  keyValue<K extends Value, V extends Value>(handle: KeyValue<K, V>): KeyValue<K, V> {
    const on = handle.name;
    return proxied(handle, (name, original) => {
      const kind = KV[name as string];
      if (name === 'view') return this.#view(on, original);
      if (kind === undefined) return this.#skipping('KeyValue', name, original);
      return (...given) => {
        const args = materialised(name as string, given);
        if (name === 'range' || name === 'keys') {
          const rows = original(...args) as Iterable<unknown>;
          return new CountedRows(rows, (found) =>
            this.#note({ op: name, on, args: this.#arguments(kind, args), found }),
          );
        }
        return this.#call(
          () => original(...args),
          (answer) => {
            const found = name === 'batch' ? (args[0] as unknown[]).length : foundIn(answer);
            return { op: name as string, on, args: this.#arguments(kind, args), found };
          },
        );
      };
    });
  }

  /** `view` lends bytes: it reads as `get` does. */
  #view(on: string, original: Method): Method {
    return (...args) =>
      this.#call(
        () => original(...args),
        (answer) => ({
          op: 'get',
          on,
          args: this.#recorder.values(args.slice(0, 1)),
          found: foundIn(answer),
        }),
      );
  }

  #skipping(kind: string, name: string | symbol, original: Method): Method | undefined {
    if (typeof name === 'symbol' || SILENT.includes(name)) return undefined;
    return (...args) => {
      this.#recorder.skip(`${kind}.${name}`);
      return original(...args);
    };
  }

  collection(handle: Collection): Collection {
    const on = handle.name;
    return proxied(handle, (name, original) => {
      if (name === 'where' || name === 'all') {
        return (...args) =>
          this.#query(original(...args) as Query<unknown, unknown>, on, [
            [name, this.#recorder.conditions(args)],
          ]);
      }
      if (name === Symbol.iterator) {
        return () => {
          const line = { op: 'query', on, chain: [['all', []] as const], end: 'iterate' };
          const rows = original() as Iterable<unknown>;
          return new CountedRows(rows, (found) => this.#note({ ...line, found }));
        };
      }
      const kind = COLLECTION[name as string];
      if (kind === undefined) return this.#skipping('Collection', name, original);
      const completes = name === 'insert' || name === 'save';
      return (...given) => {
        const args = materialised(name as string, given);
        return this.#call(
          () => original(...args),
          (answer) => {
            const written = completes ? [this.#written(handle, args[0], answer)] : [...args];
            if (name === 'insertMany') {
              const records = args[0] as unknown[];
              const keys = answer as unknown[];
              written[0] = records.map((each, i) => this.#written(handle, each, keys[i]));
            }
            const found = completes ? 1 : foundIn(answer);
            return { op: name as string, on, args: this.#arguments(kind, written), found };
          },
        );
      };
    });
  }

  /** A record as it was written: with a generated key, with defaults, as its validator made it. */
  #written(handle: object, record: unknown, key: unknown): unknown {
    const access = Collection.accessOf(handle as Collection);
    const { validator, defaults } = access.declared;
    if (validator !== undefined || defaults.length > 0) return access.get(key) ?? record;
    const { idField } = access;
    const given = record as Readonly<Record<string, unknown>>;
    if (idField === undefined || given[idField] !== undefined) return record;
    return { ...given, [idField]: key };
  }

  #query(
    query: Query<unknown, unknown>,
    on: string,
    chain: readonly (readonly [string, readonly unknown[]])[],
  ): Query<unknown, unknown> {
    return proxied(query, (name, original) => {
      if (name === Symbol.iterator) {
        return () =>
          new CountedRows(original() as Iterable<unknown>, (found) =>
            this.#note({ op: 'query', on, chain, end: 'iterate', found }),
          );
      }
      const kind = CHAIN[name as string];
      if (kind !== undefined) {
        return (...args) => {
          const next = original(...args) as Query<unknown, unknown>;
          const shown = kind === 'names' ? args : this.#recorder.conditions(args);
          return this.#query(next, on, [...chain, [name as string, shown]]);
        };
      }
      if (!ENDS.includes(name as string)) return this.#skipping('Query', name, original);
      return (...args) =>
        this.#call(
          () => original(...args),
          (answer) => {
            const isRows = name === 'toArray' || name === 'first' || name === 'count';
            const found = isRows ? foundIn(answer) : 1;
            return { op: 'query', on, chain, end: name as string, args, found };
          },
        );
    });
  }

  /** A transaction: where it begins, its savepoints, how it ends. */
  transaction(transaction: Transaction): Transaction {
    this.#note({ op: 'begin' });
    return proxied(transaction, (name, original) => {
      if (name === 'commit') {
        return () => {
          try {
            original();
          } catch (cause) {
            this.#note({ op: 'rollback' });
            throw cause;
          }
          this.#note({ op: 'commit' });
        };
      }
      if (name === 'savepoint') {
        return () => this.#call(original, (token) => ({ op: 'savepoint', args: [token] }));
      }
      if (name === 'rollbackTo' || name === 'release') {
        return (token) =>
          this.#call(
            () => original(token),
            () => ({ op: name, args: [token] }),
          );
      }
      if (name !== 'rollback' && name !== Symbol.dispose) return undefined;
      return () => {
        if (transaction.isOpen) this.#note({ op: 'rollback' });
        return original();
      };
    });
  }

  snapshot(snapshot: Snapshot): Snapshot {
    this.#note({ op: 'snapshot' });
    return proxied(snapshot, (name, original) => {
      if (name !== 'close' && name !== Symbol.dispose) return undefined;
      return () => {
        this.#note({ op: 'close' });
        return original();
      };
    });
  }

  /**
   * A session: what it reads from the store, and what its commit writes. What it answers from its
   * own objects asks nothing of the store.
   */
  session(session: Session, scope: DatabaseScope): Session {
    const handles = new Map<string, Collection>();
    const within = (handle: unknown): unknown => {
      const original = unrecorded(handle);
      if (!(original instanceof Collection)) return handle;
      let made = handles.get(original.name);
      if (made === undefined) {
        made = Collection.again(this.#noticing(scope), original);
        handles.set(original.name, made);
      }
      return made;
    };
    return proxied(session, (name, original) => {
      if (name !== 'commit') return (handle, ...args) => original(within(handle), ...args);
      return () => {
        const isOwn = scope.view !== TRANSACTION;
        if (isOwn) this.#note({ op: 'begin' });
        try {
          original();
        } catch (cause) {
          if (isOwn) this.#note({ op: 'rollback' });
          throw cause;
        }
        if (isOwn) this.#note({ op: 'commit' });
      };
    });
  }

  /** The same scope, whose single records are written down. */
  #noticing(scope: DatabaseScope): DatabaseScope {
    const same: DatabaseScope = Object.create(scope) as DatabaseScope;
    same.collection = (name) => this.#points(scope.collection(name), scope);
    return same;
  }

  #points(points: PointCollection, scope: DatabaseScope): PointCollection {
    const on = points.name;
    /** The key whose id was asked for last, where records have keys of fields. */
    let keyed: { readonly id: unknown; readonly key: unknown } | undefined;
    const keyOf = (id: unknown): unknown => (keyed?.id === id ? keyed?.key : id);
    const note = (op: string, args: readonly unknown[], found: number): void =>
      this.#note({ op, on, args: this.#recorder.values(args), found });
    return proxied(points, (name, original) => {
      switch (name) {
        case 'idOf':
          return (values) => {
            const id = original(values);
            const list = values as readonly Value[];
            keyed = { id, key: list.length === 1 ? list[0] : list };
            return id;
          };
        case 'get':
        case 'getByKey':
          return (key, view) => {
            const answer = original(key, view);
            const shown = name === 'getByKey' && (key as unknown[]).length === 1;
            note('get', [shown ? (key as unknown[])[0] : key], foundIn(answer));
            return answer;
          };
        case 'insert':
          return (record) => {
            const id = original(record);
            note('insert', [record], 1);
            return id;
          };
        case 'update':
        case 'delete':
          return (id, ...rest) => {
            const answer = original(id, ...rest);
            note(name, [keyOf(id), ...rest], foundIn(answer));
            return answer;
          };
        case 'index':
          return (index) => this.#index(original(index) as object, on, scope, index as string);
        default:
          return undefined;
      }
    });
  }

  #index(index: object, on: string, scope: DatabaseScope, named: string): object {
    const parts = scope.indexes(on).find((each) => each.name === named)?.parts ?? [];
    const fields = parts.map((part) => [part.field, ...(part.path ?? [])].join('.'));
    return proxied(index, (name, original) => {
      if (name !== 'get' && name !== 'getByParts') return undefined;
      return (value, view) => {
        const answer = original(value, view);
        const values = name === 'get' ? [value] : (value as unknown[]);
        const key = Object.fromEntries(fields.map((field, i) => [field, values[i]]));
        const args = this.#recorder.values([key]);
        this.#note({ op: 'get', on, args, found: foundIn(answer) });
        return answer;
      };
    });
  }
}

/** Arguments that can be gone over twice. */
function materialised(name: string, args: readonly unknown[]): readonly unknown[] {
  return ITERABLES.includes(name) ? [[...(args[0] as Iterable<unknown>)], ...args.slice(1)] : args;
}
