/**
 * Typed objects in a collection: single records go straight to `PointAccess`, questions to the
 * query engine. A write outside a transaction commits by itself.
 */
import type { LoadRequest } from '../kv/key-value.ts';
import type { BulkLoadAsyncOptions, BulkLoadOptions, BulkReport } from '../model/bulk.ts';
import { failure } from '../errors.ts';
import type { RecordInput } from '../model/record.ts';
import { Access } from './access.ts';
import type { Condition, OperandFor, Operator } from './conditions.ts';
import { declare, declarationOf, type CollectionSettings } from './declaration.ts';
import { EVERYTHING, Query } from './query.ts';
import type { ObjectScope } from './scope.ts';
import type { OperandOf, PathOf } from './types.ts';

/**
 * A collection of objects; made by `collection` of a database, transaction or snapshot.
 *
 * `R`: records as read; `I`: records as written; `Id`: their key; `U`: what names one by a unique
 * index.
 */
export class Collection<R = unknown, I = unknown, Id = unknown, U = unknown> {
  readonly name: string;
  readonly #access: Access;

  /** Not for use outside: call `collection` of a database. */
  constructor(access: Access) {
    this.name = access.name;
    this.#access = access;
  }

  /** Binds a declaration to a scope. */
  static declared(scope: ObjectScope, name: string, settings: CollectionSettings): Collection {
    return new Collection(new Access(declare(name, settings, scope.layoutDefaults), scope));
  }

  /** The handle of a collection as the file has it; `undefined` if it has none of the name. */
  static stored(scope: ObjectScope, name: string): Collection | undefined {
    const definition = scope.definition(name);
    if (definition === undefined || definition.form !== 'record') return undefined;
    return Collection.existing(scope, name);
  }

  /**
   * Binds a collection as the file has it to a scope.
   *
   * @throws {SchemaError} schema.unknown_collection
   */
  static existing(scope: ObjectScope, name: string): Collection {
    const definition = scope.definition(name);
    return new Collection(new Access(declarationOf(name, definition, scope.indexes(name)), scope));
  }

  /** The handle of the same collection in another scope. */
  static again(scope: ObjectScope, handle: Collection): Collection {
    return new Collection(new Access(handle.#access.declared, scope));
  }

  /** What sessions work on. */
  static accessOf(collection: Collection): Access {
    return collection.#access;
  }

  // Single records.

  /**
   * Returns the record of a key, or of values of a unique index; `undefined` if there is none.
   *
   * @example
   * customers.get(1);
   * customers.get({ email: 'a@b.example' });
   */
  get(key: Id | U): R | undefined {
    const access = this.#access;
    try {
      return access.isThere() ? (access.get(key) as R | undefined) : undefined;
    } catch (cause) {
      if (access.scope.mayRepeat(cause)) return this.get(key);
      throw cause;
    }
  }

  /** Returns the records of keys, in their order; `undefined` where there is none. */
  getMany(keys: Iterable<Id | U>): (R | undefined)[] {
    return Array.from(requireIterable('getMany', keys), (key) => this.get(key));
  }

  /** Tells whether there is a record with the key. */
  has(key: Id | U): boolean {
    const access = this.#access;
    if (access.isByFields(key)) return this.get(key) !== undefined;
    return access.read(
      () => access.isThere() && access.points.has(access.idOf(key), access.scope.view),
    );
  }

  /**
   * Writes a record that must be new; returns its key.
   *
   * @throws {ConstraintError} constraint.unique when the key or a unique index has it already.
   */
  insert(record: I): Id {
    return this.#put(record as RecordInput, true);
  }

  /**
   * Writes a record, whether there is one of its key or not; returns its key.
   *
   * @throws {ConstraintError} constraint.unique when another record has a unique value of it.
   */
  save(record: I): Id {
    return this.#put(record as RecordInput, false);
  }

  #put(record: RecordInput, isNew: boolean): Id {
    const access = this.#access;
    const { scope, points } = access;
    const own = scope.beginWrite();
    let id: unknown;
    let written = record;
    try {
      access.requireThere();
      written = access.prepared(record);
      id = isNew ? points.insert(written) : points.put(written);
    } catch (cause) {
      if (own) scope.rollbackWrite();
      throw cause;
    }
    if (own) scope.commitWrite();
    return (access.idField === undefined ? access.keyOfRecord(written) : id) as Id;
  }

  /** Writes many records that must be new, all or none; returns their keys. */
  insertMany(records: Iterable<I>): Id[] {
    requireIterable('insertMany', records);
    return this.#access.write(() => Array.from(records, (record) => this.insert(record)));
  }

  /**
   * Writes many records, in any order, all or none: sorted within the memory budget, collection and
   * indexes built bottom-up, many times faster than one by one. In an open transaction it is a part
   * of that. Unique indexes are checked as of the end of the load.
   *
   * @throws {ConstraintError} constraint.unique when the key of a record, or that of a unique
   * index, exists or comes twice; `onDuplicate` says what to do about the former.
   */
  bulkLoad(records: Iterable<I>, options: BulkLoadOptions = {}): BulkReport {
    const access = this.#access;
    return access.write(() => {
      access.requireThere();
      return access.scope.load(this.#loadRequest(), records, options);
    });
  }

  /**
   * As `bulkLoad`, from an iterable, an asynchronous one or a stream, in slices between which other
   * work is done. Nothing is changed when it is cancelled or when the source fails.
   *
   * @throws {LimitError} limit.cancelled when its signal is aborted.
   */
  bulkLoadAsync(
    records: Iterable<I> | AsyncIterable<I> | ReadableStream<I>,
    options: BulkLoadAsyncOptions = {},
  ): Promise<BulkReport> {
    const { declared, scope } = this.#access;
    return scope.loadAsync(this.#loadRequest(), records, options, (own) =>
      new Access(declared, own).requireThere(),
    );
  }

  #loadRequest(): LoadRequest<I> {
    const access = this.#access;
    return {
      name: this.name,
      take: (loader, record) => loader.addRecord(access.prepared(record as RecordInput)),
    };
  }

  /** Changes some fields of a record; returns whether there is one. */
  update(key: Id | U, changes: Partial<I>): boolean {
    const access = this.#access;
    return access.write(() => {
      access.requireThere();
      const old = access.isByFields(key) || access.declared.validator ? access.get(key) : undefined;
      if (old === undefined && access.isByFields(key)) return false;
      const id = access.idOf(old === undefined ? key : access.keyOfRecord(old));
      const { validator } = access.declared;
      if (validator === undefined) return access.points.update(id, changes as RecordInput);
      if (old === undefined) return false;
      const merged = { ...old, ...(changes as RecordInput) };
      return access.points.update(id, access.prepared(merged));
    });
  }

  /** Deletes a record; returns whether there was one. */
  delete(key: Id | U): boolean {
    const access = this.#access;
    return access.write(() => {
      if (!access.isThere()) return false;
      if (!access.isByFields(key)) return access.points.delete(access.idOf(key));
      const old = access.get(key);
      return old !== undefined && access.points.delete(access.idOf(access.keyOfRecord(old)));
    });
  }

  // Questions.

  /**
   * Returns a query of the records that a condition holds for; nothing is read yet.
   *
   * @example
   * customers.where({ region: 3 }).where('name', '>=', 'A').orderBy('name').limit(10).toArray();
   */
  where(condition: Condition<R>): Query<R, R>;
  where<P extends PathOf<R>, O extends Operator>(
    field: P,
    operator: O,
    operand: OperandFor<O, OperandOf<R, P>>,
  ): Query<R, R>;
  where(condition: unknown, ...rest: readonly unknown[]): Query<R, R> {
    return Query.of<R>(this.#access, rest.length === 0 ? condition : [condition, ...rest]);
  }

  /** Returns a query of all records. */
  all(): Query<R, R> {
    return new Query<R, R>(this.#access, EVERYTHING);
  }

  /** Returns the number of records. */
  count(): number {
    const access = this.#access;
    return access.read(() => (access.isThere() ? access.points.count(access.scope.view) : 0));
  }

  [Symbol.iterator](): IterableIterator<R> {
    return this.all()[Symbol.iterator]();
  }
}

function requireIterable<T>(method: string, given: Iterable<T>): Iterable<T> {
  if (typeof (given as Partial<Iterable<T>> | null)?.[Symbol.iterator] === 'function') return given;
  throw failure('usage.argument', `${method}: takes a list or another iterable`);
}
