/**
 * A unit of work: objects by identity. Within a session a record is one object, whoever asks; what
 * the caller changes in it is saved at `commit`.
 *
 *   get, add ──> held: clean ── the caller changes it ──> changed ── commit ──> clean
 *                        └── memory is wanted ──> evicted: the next `get` reads it anew
 *
 * Objects are charged to the ledger account `records`, by the sizes that FEASIBILITY section 8
 * measured. When the budget is full, clean objects leave the session, oldest first; changed ones
 * stay until the commit. An object that was evicted is no longer the session's: changes made to it
 * afterwards are not saved, so a changed object should be changed soon after it was read, or held
 * with `keep`.
 */
import { failure } from '../errors.ts';
import type { RecordInput } from '../model/record.ts';
import { equalValues, mapEntries, type Value } from '../model/value.ts';
import { Collection } from './collection.ts';
import type { Access } from './access.ts';
import type { ObjectScope } from './scope.ts';
import { recordBytes } from './record-bytes.ts';

/** Bytes of an entry apart from its objects: the entry, its key text, and two map slots. */
const ENTRY_BYTES = 24 + 8 * 8 + 2 * 56 + 64;
/** Share of the budget that a session's objects take at most. */
const BUDGET_SHARE = 1 / 4;

interface Entry {
  readonly access: Access;
  readonly key: string;
  readonly object: Record<string, Value>;
  /** The record as the database has it; `undefined` for one that is new. */
  saved: Record<string, Value> | undefined;
  readonly bytes: number;
  isKept: boolean;
  isDeleted: boolean;
}

/** A unit of work; made by `session` of a database. */
export class Session {
  readonly #scope: ObjectScope;
  readonly #entries = new Map<string, Entry>();
  #chargedBytes = 0;
  #isOpen = true;

  /** Not for use outside: call `session` of a database. */
  constructor(scope: ObjectScope) {
    this.#scope = scope;
  }

  /** Objects that the session holds. */
  get size(): number {
    return this.#entries.size;
  }

  /** Bytes charged for them. */
  get bytes(): number {
    return this.#chargedBytes;
  }

  /**
   * Returns the object of a record, the same one as long as the session holds it; `undefined` if
   * there is none.
   *
   * @example
   * const session = db.session();
   * const ada = session.get(customers, 1)!;
   * ada.region = 4;
   * session.commit(); // saves what was changed
   */
  get<R, I, Id, U>(collection: Collection<R, I, Id, U>, key: Id | U): Writable<R> | undefined {
    const access = this.#accessOf(collection);
    const name = access.isByFields(key) ? undefined : keyText(access, key);
    const held = name === undefined ? undefined : this.#entries.get(name);
    if (held !== undefined) return this.#touched(held) as Writable<R> | undefined;
    if (!access.isThere()) return undefined;
    const record = access.get(key);
    if (record === undefined) return undefined;
    const found = name ?? keyText(access, access.keyOfRecord(record));
    const other = this.#entries.get(found);
    if (other !== undefined) return this.#touched(other) as Writable<R> | undefined;
    return this.#hold(access, found, record, record).object as Writable<R>;
  }

  /** Adds a new object, which commit inserts; its key must be given. */
  add<R, I, Id, U>(collection: Collection<R, I, Id, U>, object: I): Writable<R> {
    const access = this.#accessOf(collection);
    const record = object as Record<string, Value>;
    const key = access.keyOfRecord(record);
    if (key === undefined || key === null)
      throw failure('usage.argument', `a session knows objects by key: give ${access.keyFields}`);
    const name = keyText(access, key);
    if (this.#entries.has(name)) {
      const detail = { collection: access.name, key };
      throw failure('constraint.unique', `the session has ${access.name} ${String(key)}`, {
        detail,
      });
    }
    return this.#hold(access, name, record, undefined).object as Writable<R>;
  }

  /** Deletes an object's record at the commit. */
  delete<R, I, Id, U>(collection: Collection<R, I, Id, U>, key: Id): boolean {
    const object = this.get(collection, key);
    if (object === undefined) return false;
    this.#entries.get(keyText(this.#accessOf(collection), key))!.isDeleted = true;
    return true;
  }

  /** Keeps an object in the session until the next commit, whatever memory is wanted. */
  keep<R, I, Id, U>(collection: Collection<R, I, Id, U>, key: Id): void {
    const entry = this.#entries.get(keyText(this.#accessOf(collection), key));
    if (entry !== undefined) entry.isKept = true;
  }

  /** Saves every object that was changed, added or deleted, in one transaction. */
  commit(): void {
    this.#check();
    const scope = this.#scope;
    const own = scope.beginWrite();
    const written: Entry[] = [];
    try {
      for (const entry of this.#entries.values()) if (this.#save(entry)) written.push(entry);
    } catch (cause) {
      if (own) scope.rollbackWrite();
      throw cause;
    }
    if (own) scope.commitWrite();
    for (const entry of written) {
      if (entry.isDeleted) this.#forget(entry);
      else entry.saved = copyOf(entry.object);
    }
    for (const entry of this.#entries.values()) entry.isKept = false;
  }

  /** Forgets every object; what was not committed is not saved. */
  close(): void {
    this.#isOpen = false;
    for (const entry of this.#entries.values()) this.#forget(entry);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #accessOf(collection: unknown): Access {
    this.#check();
    if (!(collection instanceof Collection))
      throw failure('usage.argument', 'a session takes a collection, as `db.collection` gives it');
    const access = Collection.accessOf(collection);
    if (access.scope.ledger !== this.#scope.ledger)
      throw failure('usage.argument', `collection ${access.name} is of another database`);
    return access;
  }

  #check(): void {
    if (!this.#isOpen) throw failure('usage.closed', 'the session is closed');
    this.#scope.check();
  }

  /** The object of an entry, which becomes the youngest. */
  #touched(entry: Entry): Record<string, Value> | undefined {
    if (entry.isDeleted) return undefined;
    this.#entries.delete(entry.key);
    this.#entries.set(entry.key, entry);
    return entry.object;
  }

  #hold(
    access: Access,
    key: string,
    record: Record<string, Value>,
    saved: Record<string, Value> | undefined,
  ): Entry {
    // The object and the copy that changes are found by.
    const bytes = ENTRY_BYTES + 2 * key.length + 2 * recordBytes(record);
    this.#charge(bytes);
    const entry: Entry = {
      access,
      key,
      object: record,
      saved: saved === undefined ? undefined : copyOf(saved),
      bytes,
      isKept: false,
      isDeleted: false,
    };
    this.#entries.set(key, entry);
    return entry;
  }

  /** Charges for an object, after clean ones left if they must. */
  #charge(bytes: number): void {
    const { ledger } = this.#scope;
    const most = ledger.budgetBytes * BUDGET_SHARE;
    // Some more than is wanted, so that the list is not searched for every object.
    if (this.#chargedBytes + bytes > most) this.#evict(bytes + most / 8);
    if (!ledger.tryCharge('records', bytes)) {
      this.#evict(Math.max(bytes, this.#chargedBytes / 4));
      ledger.charge('records', bytes);
    }
    this.#chargedBytes += bytes;
  }

  /** Lets clean objects go, oldest first, until so many bytes are free. */
  #evict(bytesWanted: number): void {
    let freed = 0;
    for (const entry of this.#entries.values()) {
      if (freed >= bytesWanted) return;
      if (entry.isKept || entry.isDeleted || isChanged(entry)) continue;
      freed += entry.bytes;
      this.#forget(entry);
    }
  }

  #forget(entry: Entry): void {
    this.#entries.delete(entry.key);
    this.#scope.ledger.release('records', entry.bytes);
    this.#chargedBytes -= entry.bytes;
  }

  /** Writes what an entry's object became; answers whether anything was written. */
  #save(entry: Entry): boolean {
    const { access, object, saved } = entry;
    if (entry.isDeleted) {
      const key = access.keyOfRecord(saved ?? object);
      if (saved !== undefined) access.points.delete(access.idOf(key));
      return true;
    }
    if (saved === undefined) {
      access.requireThere();
      access.points.insert(access.prepared(object));
      return true;
    }
    if (!isChanged(entry)) return false;
    const changes: Record<string, Value | undefined> = {};
    for (const name of new Set([...Object.keys(object), ...Object.keys(saved)]))
      if (!isSame(object[name], saved[name])) changes[name] = object[name];
    const id = access.idOf(access.keyOfRecord(saved));
    const isValidated = access.declared.validator !== undefined;
    const written: RecordInput = isValidated ? access.prepared(object) : changes;
    if (access.points.update(id, written)) return true;
    access.points.insert(access.prepared(object)); // it was deleted behind the session's back
    return true;
  }
}

/** Records as sessions hand them out: to be changed. */
export type Writable<R> = { -readonly [N in keyof R]: R[N] };

function keyText(access: Access, key: unknown): string {
  const parts = Array.isArray(key) ? key : [key];
  const texts = parts.map((part) => `${typeof part}:${String(part)}`);
  return `${access.name}\0${texts.join('\0')}`;
}

function isSame(a: Value | undefined, b: Value | undefined): boolean {
  if (a === b) return true;
  if (a === undefined || b === undefined) return false;
  return equalValues(a, b) && typeof a === typeof b;
}

function isChanged({ object, saved }: Entry): boolean {
  if (saved === undefined) return true;
  const names = Object.keys(object);
  if (names.length !== Object.keys(saved).length) return true;
  return names.some((name) => !isSame(object[name], saved[name]));
}

/** A copy whose lists and maps are copies, too: everything else cannot be changed. */
function copyOf(record: Record<string, Value>): Record<string, Value> {
  return copyValue(record) as Record<string, Value>;
}

function copyValue(value: Value): Value {
  if (typeof value !== 'object' || value === null) return value;
  if (value instanceof Uint8Array) return value.slice();
  if (Array.isArray(value)) return value.map((each: Value) => copyValue(each));
  if (value instanceof Map || Object.getPrototypeOf(value) === Object.prototype)
    return Object.fromEntries(
      mapEntries(value as { readonly [name: string]: Value }).map(([name, each]) => [
        name,
        copyValue(each),
      ]),
    );
  return value;
}
