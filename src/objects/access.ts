/**
 * What collections, queries and sessions share: one declared collection as one scope sees it, with
 * its handles for single records resolved once.
 *
 *   unsettled ── the scope sees it outside a transaction ──> settled: never asked again
 */
import { nameHint } from '../base/nearest.ts';
import { failure } from '../errors.ts';
import type { RecordId } from '../model/batch.ts';
import type { RecordFields, RecordInput } from '../model/record.ts';
import {
  describeValue,
  partField,
  partName,
  type CollectionDefinition,
  type IndexDefinition,
} from '../model/schema.ts';
import { TRANSACTION, type PointCollection, type PointIndex } from '../model/source.ts';
import type { Value } from '../model/value.ts';
import { edgesBy, RememberedTables } from '../query/tables.ts';
import { isPlainObject, operandOf } from './conditions.ts';
import type { Declaration } from './declaration.ts';
import { applyDrift, driftOf } from './drift.ts';
import type { ObjectScope } from './scope.ts';
import type { StandardResult } from './types.ts';

/** How records are found by equal values of some fields. */
export interface Lookup {
  /** Whether null equals null, and names one record at most. */
  readonly findsNull: boolean;
  readonly hasElements: boolean;
  readonly index: PointIndex;
  readonly fields: readonly string[];
  /** What `typeof` says of operands that need no further check; for indexes of one field. */
  readonly operandType: string;
}

const OPERAND_TYPES: Readonly<Record<string, string>> = {
  int: 'number',
  float: 'number',
  number: 'number',
  text: 'string',
  bool: 'boolean',
};

export class Access {
  readonly name: string;
  readonly scope: ObjectScope;
  readonly declared: Declaration;
  readonly points: PointCollection;
  readonly definition: CollectionDefinition;
  /** The field that is the record id, `undefined` when the collection is organised by key. */
  readonly idField: string | undefined;
  readonly keyFields: readonly string[];
  /** Indexes of one field, by its name: for equality. */
  readonly byField = new Map<string, Lookup>();
  /** Unique indexes by their fields, joined by commas. */
  readonly #unique = new Map<string, Lookup>();
  readonly tables: RememberedTables;
  readonly #keyText: string;
  readonly #isPlain: boolean;
  #isSettled = false;

  constructor(declared: Declaration, scope: ObjectScope) {
    const { definition } = declared;
    this.name = definition.name;
    this.scope = scope;
    this.declared = declared;
    this.definition = definition;
    this.points = scope.collection(this.name);
    const { key } = definition;
    this.idField = key.kind === 'integer' ? key.field : undefined;
    this.keyFields = key.kind === 'fields' ? key.parts.map(partName) : [this.idField!];
    this.#keyText = textOf(this.keyFields);
    this.tables = new RememberedTables({
      definition: (name) => scope.definition(name),
      indexes: (name) => scope.indexes(name),
      statistics: (name) => scope.source.statistics({ collection: name, view: scope.view }),
      count: (name) => scope.collection(name).count(scope.view),
      keyEdges: (name) => edgesBy(scope.source, scope.definition(name), scope.view),
    });
    this.#isPlain = declared.validator === undefined && declared.defaults.length === 0;
    if (!scope.isReadOnly) this.#bringUp();
    this.#settle();
    const present = scope.isReadOnly ? this.#presentIndexes() : declared.indexes;
    for (const index of present) this.#addLookup(index);
  }

  #presentIndexes(): readonly IndexDefinition[] {
    if (this.scope.definition(this.name) === undefined) return [];
    return this.scope.indexes(this.name);
  }

  #addLookup(index: IndexDefinition): void {
    const fields = index.parts.map(partField);
    const hasElements = index.parts.some((part) => part.elements === true);
    const field = this.definition.fields.find((each) => each.name === fields[0]);
    const isBinary = index.parts.every((part) => part.collation === 'binary');
    const lookup: Lookup = {
      index: this.points.index(index.name),
      findsNull: index.nulls === 'equal',
      hasElements,
      fields,
      operandType: isBinary && fields.length === 1 ? (OPERAND_TYPES[field?.type ?? ''] ?? '') : '',
    };
    if (index.unique) this.#unique.set(textOf(fields), lookup);
    if (fields.length === 1 && !hasElements && !this.byField.has(fields[0]!))
      this.byField.set(fields[0]!, lookup);
  }

  /** Brings the file to the declaration, in a transaction of its own unless one is open. */
  #bringUp(): void {
    const { scope, declared } = this;
    const drift = driftOf(declared, scope);
    if (drift.changes.length === 0 && !drift.migrate) return;
    this.write(() => applyDrift(declared, scope, drift));
  }

  #settle(): boolean {
    const isThere = this.scope.definition(this.name) !== undefined;
    if (isThere && this.scope.view !== TRANSACTION) this.#isSettled = true;
    return isThere;
  }

  /** Whether the collection exists as the scope sees it; checks that the scope may be used. */
  isThere(): boolean {
    this.scope.check();
    return this.#isSettled || this.#settle();
  }

  /** Makes the collection if a transaction that was rolled back took it away. */
  requireThere(): void {
    if (this.#isSettled || this.#settle()) return;
    applyDrift(this.declared, this.scope, driftOf(this.declared, this.scope));
  }

  /** Reads, and again if only the writer of another process moved on meanwhile. */
  read<T>(run: () => T): T {
    for (;;) {
      try {
        return run();
      } catch (cause) {
        if (!this.scope.mayRepeat(cause)) throw cause;
      }
    }
  }

  /** Runs a function in the open transaction, or in one of its own. */
  write<T>(run: () => T): T {
    const own = this.scope.beginWrite();
    let result: T;
    try {
      result = run();
    } catch (cause) {
      if (own) this.scope.rollbackWrite();
      throw cause;
    }
    if (own) this.scope.commitWrite();
    return result;
  }

  /** Whether records may have undeclared fields, as the scope's view has the collection. */
  get isOpenHere(): boolean {
    return (this.scope.definition(this.name) ?? this.definition).open;
  }

  /** The fields of a record, as the scope's view has the collection. */
  fieldNames(): readonly string[] {
    const { fields } = this.scope.definition(this.name) ?? this.definition;
    return fields.filter((field) => field.dropped !== true).map((field) => field.name);
  }

  // Keys.

  /** Whether an argument names a record by fields rather than by its key. */
  isByFields(key: unknown): key is Readonly<Record<string, unknown>> {
    return isPlainObject(key);
  }

  /** The record of a key or of values of a unique index; `undefined` if there is none. */
  get(key: unknown): RecordFields | undefined {
    if (typeof key === 'object' && this.isByFields(key)) return this.#getByFields(key);
    const { view } = this.scope;
    if (this.idField === undefined) return this.points.getByKey(this.keyValues(key), view);
    return this.points.get(this.integerId(key), view);
  }

  #getByFields(key: Readonly<Record<string, unknown>>): RecordFields | undefined {
    const names = Object.keys(key);
    const lookup = this.#unique.get(names.length === 1 ? names[0]! : textOf(names));
    if (lookup === undefined) {
      if (textOf(names) !== this.#keyText) throw this.#noUnique(names);
      return this.get(this.keyFields.length === 1 ? key[names[0]!] : this.#keyOf(key));
    }
    const { view } = this.scope;
    if (names.length === 1) {
      const value = this.#lookedUp(lookup, names[0]!, key[names[0]!]);
      if (value === null && !lookup.findsNull) return undefined;
      return lookup.index.get(value, view);
    }
    const values = lookup.fields.map((name) => this.#lookedUp(lookup, name, key[name]));
    if (values.includes(null) && !lookup.findsNull) return undefined;
    return lookup.index.getByParts(values, view);
  }

  /** A value to look up: checked unless it is plainly of the field's type. */
  #lookedUp(lookup: Lookup, name: string, value: unknown): Value {
    if (typeof value === lookup.operandType || lookup.hasElements) return requireValue(name, value);
    return operandOf(this.definition, name, value);
  }

  #noUnique(names: readonly string[]): Error {
    const known = [...this.#unique.keys(), this.#keyText];
    const hint = nameHint(textOf(names), known);
    return failure('schema.unknown_index', `${this.name} has no unique index on ${names}`, {
      detail: { collection: this.name, fields: names },
      ...(hint !== undefined && { hint }),
    });
  }

  #keyOf(record: Readonly<Record<string, unknown>>): readonly unknown[] {
    return this.keyFields.map((name) => record[name]);
  }

  /** The record id that a key stands for. */
  idOf(key: unknown): RecordId {
    if (typeof key === 'object' && this.isByFields(key)) {
      const record = this.#getByFields(key);
      return this.idOf(record === undefined ? this.#absentKey(key) : this.keyOfRecord(record));
    }
    if (this.idField !== undefined) return this.integerId(key);
    return this.points.idOf(this.keyValues(key));
  }

  /** A key that names no record: fields of the key itself, or an error. */
  #absentKey(key: Readonly<Record<string, unknown>>): unknown {
    const isKey = textOf(Object.keys(key)) === this.#keyText;
    if (isKey) return this.keyFields.length === 1 ? key[this.keyFields[0]!] : this.#keyOf(key);
    throw failure('usage.argument', 'no record has these values'); // callers ask `get` before
  }

  integerId(key: unknown): RecordId {
    if (typeof key === 'number' && Number.isSafeInteger(key)) return key;
    if (typeof key === 'bigint') return key;
    const shown = describeValue(key);
    throw failure('value.type', `${this.name}.${this.idField} takes int, not ${shown}`, {
      detail: { collection: this.name, value: key },
    });
  }

  keyValues(key: unknown): readonly Value[] {
    const { keyFields } = this;
    if (keyFields.length === 1) return [requireValue(keyFields[0]!, key)];
    if (!Array.isArray(key) || key.length !== keyFields.length) {
      throw failure('usage.argument', `a key of ${this.name} is a list of ${this.#keyText}`);
    }
    return keyFields.map((name, i) => requireValue(name, key[i]));
  }

  /** The key of a record as callers have it: a value, or a list of several. */
  keyOfRecord(record: Readonly<Record<string, unknown>>): unknown {
    return this.keyFields.length === 1 ? record[this.keyFields[0]!] : this.#keyOf(record);
  }

  // Records on their way in.

  /** A record as it is written: validated, with defaults for what it leaves out. */
  prepared(record: RecordInput): RecordInput {
    return this.#isPlain ? record : this.#validated(this.#withDefaults(record));
  }

  #withDefaults(record: RecordInput): RecordInput {
    if (!isPlainObject(record)) return record; // the store says what is wrong with it
    let complete: Record<string, Value | undefined> | undefined;
    for (const [name, value] of this.declared.defaults) {
      if (record[name] !== undefined) continue;
      complete ??= { ...record };
      complete[name] = typeof value === 'function' ? value() : value;
    }
    return complete ?? record;
  }

  #validated(record: RecordInput): RecordInput {
    const { validator } = this.declared;
    if (validator === undefined) return record;
    const result = validator['~standard'].validate(record);
    if (result instanceof Promise) {
      result.catch(() => undefined); // it is the error below that the caller gets
      throw failure('usage.argument', `the validator of ${this.name} answers a promise`, {
        hint: 'Records are written synchronously: use a schema without asynchronous steps.',
      });
    }
    if (result.issues !== undefined) throw this.#refused(result);
    const output = result.value as RecordInput;
    const { idField } = this;
    if (idField === undefined || output[idField] !== undefined) return output;
    return record[idField] === undefined ? output : { ...output, [idField]: record[idField] };
  }

  #refused(result: Extract<StandardResult<unknown>, { issues: readonly unknown[] }>): Error {
    const { message, path } = result.issues[0]!;
    const steps = (path ?? []).map((step) => String(typeof step === 'object' ? step.key : step));
    const where = [this.name, ...steps].join('.');
    return failure('constraint.check', `${where}: ${message}`, {
      detail: { collection: this.name, issues: result.issues },
    });
  }
}

function textOf(names: readonly string[]): string {
  return names.length === 1 ? names[0]! : [...names].sort().join(', ');
}

function requireValue(name: string, value: unknown): Value {
  if (value !== undefined) return value as Value;
  throw failure('usage.argument', `${name}: is undefined`);
}
