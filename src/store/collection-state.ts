/**
 * What a collection has in memory and on disk that changes with its records: the next generated
 * id, and the numbers of undeclared field names. One object a collection, shared by all versions
 * of its schema, and taken back by `Transaction` when pages are.
 *
 * The next id is stored only when the tree does not tell it: when the record with the greatest id
 * that was ever given is deleted. Otherwise it is one more than the last key.
 */
import type { Ledger } from '../base/ledger.ts';
import { failure } from '../errors.ts';
import type { FieldNames } from '../model/record.ts';
import { OPEN_FIELDS_MAX } from '../limits.ts';
import { requireName } from '../model/schema.ts';
import type { Catalog } from './catalog.ts';
import type { Transaction } from './transaction.ts';
import type { StructureId, View } from '../storage/pages.ts';

/** Ids from here on are not generated: a number cannot count on. */
const GENERATED_MAX = Number.MAX_SAFE_INTEGER;

/** Upper bound of what a name takes in the heap: text, list slot, map entry. */
function nameBytes(name: string): number {
  return 128 + 2 * name.length;
}

/** A copy of a state, which can put itself back. */
export interface SavedState {
  readonly state: CollectionState;
  /** `withPages`: the pages went back too; otherwise names leave the catalog one by one. */
  restore(withPages: boolean): void;
}

export class CollectionState implements FieldNames {
  readonly id: StructureId;
  /** The next id that would be generated; 0 while it is not known. */
  nextId = 0;
  /** Whether the catalog must be told the next id at commit. */
  isNextIdStale = false;
  /** The mark of the transaction's that this state has a copy of. */
  savedMark = -1;
  readonly #catalog: Catalog;
  readonly #transaction: Transaction;
  readonly #ledger: Ledger | undefined;
  readonly #names: string[] = [];
  readonly #numbers = new Map<string, number>();
  /** Names that the catalog has; later ones were given since. */
  #storedCount = 0;
  #isLoaded = false;

  constructor(
    id: StructureId,
    catalog: Catalog,
    transaction: Transaction,
    ledger: Ledger | undefined,
  ) {
    this.id = id;
    this.#ledger = ledger;
    this.#catalog = catalog;
    this.#transaction = transaction;
  }

  /** Says that the state is about to change. */
  touch(): void {
    if (this.savedMark !== this.#transaction.mark) this.#transaction.save(this);
  }

  save(mark: number): SavedState {
    const { nextId, isNextIdStale, savedMark } = this;
    const nameCount = this.#isLoaded ? this.#storedCount : -1;
    this.savedMark = mark;
    return {
      state: this,
      restore: (withPages) => {
        this.nextId = nextId;
        this.isNextIdStale = isNextIdStale;
        this.savedMark = savedMark;
        this.#restoreNames(nameCount, withPages);
      },
    };
  }

  #restoreNames(nameCount: number, withPages: boolean): void {
    if (!withPages && nameCount >= 0) {
      for (let number = nameCount; number < this.#storedCount; number++)
        this.#catalog.deleteFieldName(this.id, number);
    }
    this.#storedCount = Math.min(this.#storedCount, Math.max(0, nameCount));
    this.forgetNewNames();
    // Names that were read since the copy was made are read again when they are wanted.
    if (nameCount < 0) this.#isLoaded = false;
  }

  /** The next id that the catalog was told, 1 if none was. */
  storedNextId(): number {
    return this.#catalog.nextId(this.id, this.#catalog.newestView());
  }

  /** Gives the next id. */
  takeId(): number {
    const id = this.nextId;
    if (id >= GENERATED_MAX)
      throw failure('value.out_of_range', 'the collection has no more ids to generate');
    return id;
  }

  /** Sees an id that was put: those generated later are above it. */
  noteId(id: number): void {
    if (id < this.nextId) return;
    this.touch();
    this.nextId = id + 1;
  }

  /** Sees that a record was deleted: the greatest id must not be given again. */
  noteDeleted(id: number): void {
    if (id !== this.nextId - 1) return;
    this.touch();
    this.isNextIdStale = true;
  }

  /** Writes what the catalog has to know, before the pages are committed. */
  store(): void {
    if (!this.isNextIdStale) return;
    this.#catalog.writeNextId(this.id, this.nextId);
    this.isNextIdStale = false;
  }

  /** Sees that the collection is dropped: the catalog shall not hear of it any more. */
  drop(): void {
    this.touch();
    this.isNextIdStale = false;
  }

  // FieldNames.

  intern(name: string): number {
    const known = this.numberOf(name);
    if (known !== undefined) return known;
    requireName('field', name);
    if (this.#names.length >= OPEN_FIELDS_MAX) {
      throw failure('value.size', `more than ${OPEN_FIELDS_MAX} different fields: "${name}"`);
    }
    return this.#add(name);
  }

  #add(name: string): number {
    this.#ledger?.charge('catalog', nameBytes(name));
    this.#numbers.set(name, this.#names.length);
    return this.#names.push(name) - 1;
  }

  numberOf(name: string): number | undefined {
    return this.#numbers.get(name);
  }

  nameOf(number: number): string | undefined {
    return this.#names[number];
  }

  get hasNewNames(): boolean {
    return this.#names.length > this.#storedCount;
  }

  /** Writes the names that a record brought to the catalog. */
  storeNames(): void {
    this.touch();
    for (let number = this.#storedCount; number < this.#names.length; number++)
      this.#catalog.writeFieldName(this.id, number, this.#names[number]!);
    this.#storedCount = this.#names.length;
  }

  /** Forgets the names of a record that was refused. */
  forgetNewNames(): void {
    while (this.#names.length > this.#storedCount) this.#forgetLast();
  }

  #forgetLast(): void {
    const name = this.#names.pop()!;
    this.#numbers.delete(name);
    this.#ledger?.release('catalog', nameBytes(name));
  }

  /** Gives back what was charged, when the collection is gone. */
  dispose(): void {
    while (this.#names.length > 0) this.#forgetLast();
    this.#isLoaded = false;
  }

  /** Reads the names, once; before any record is, since reading pages takes buffers away. */
  load(): void {
    if (this.#isLoaded) return;
    const view: View = this.#catalog.newestView();
    for (const name of this.#catalog.fieldNames(this.id, view)) this.#add(name);
    this.#storedCount = this.#names.length;
    this.#isLoaded = true;
  }
}
