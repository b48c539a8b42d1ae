/**
 * A plain model of the store: what collections, constraints and transactions mean, by scanning
 * arrays. Differential tests run the same calls on both.
 */
import { BINARY, NOCASE } from '../../src/model/collation.ts';
import { KeyCodec } from '../../src/model/key.ts';
import { ByteWriter } from '../../src/base/bytes.ts';
import type { RecordFields } from '../../src/model/record.ts';
import type { CollectionDefinition, IndexDefinition, KeyPart } from '../../src/model/schema.ts';
import { compareValues, equalValues, type Value } from '../../src/model/value.ts';

interface ModelCollection {
  readonly definition: CollectionDefinition;
  readonly indexes: readonly IndexDefinition[];
  readonly records: readonly RecordFields[];
  readonly nextId: number;
}

/** Everything, as an immutable value: going back is taking an older one. */
export type ModelState = ReadonlyMap<string, ModelCollection>;

export class ModelFailure extends Error {
  readonly code: string;
  constructor(code: string) {
    super(code);
    this.code = code;
  }
}

export function valueAt(record: RecordFields, part: KeyPart): Value {
  let value: Value | undefined = record[part.field];
  for (const step of part.path ?? [])
    value = (value as Record<string, Value> | null | undefined)?.[step];
  return value ?? null;
}

/** The keys of a record in an index: one, or one for each different element of a list. */
export function keyTexts(
  record: RecordFields,
  parts: readonly KeyPart[],
): { readonly key: string; readonly hasNull: boolean }[] {
  const part = parts.findIndex((each) => each.elements === true);
  if (part < 0) return [{ key: keyText(record, parts), hasNull: hasNull(record, parts) }];
  const list = valueAt(record, parts[part]!);
  if (!Array.isArray(list)) return [];
  const keys = new Map<string, boolean>();
  for (const element of list as readonly Value[]) {
    const values = parts.map((each, i) => (i === part ? element : valueAt(record, each)));
    keys.set(textOf(values, parts), values.includes(null));
  }
  return [...keys].map(([key, isNull]) => ({ key, hasNull: isNull }));
}

/** The key of a record as text that sorts and compares as its bytes. */
export function keyText(record: RecordFields, parts: readonly KeyPart[]): string {
  return textOf(
    parts.map((part) => valueAt(record, part)),
    parts,
  );
}

function textOf(values: readonly Value[], parts: readonly KeyPart[]): string {
  const codec = new KeyCodec(
    parts.map((part) => ({
      descending: part.descending,
      collation: part.collation === 'nocase' ? NOCASE : BINARY,
    })),
  );
  const writer = new ByteWriter();
  codec.encode(values, writer);
  return Buffer.from(writer.copy()).toString('latin1');
}

function hasNull(record: RecordFields, parts: readonly KeyPart[]): boolean {
  return parts.some((part) => valueAt(record, part) === null);
}

export class StoreModel {
  state: ModelState = new Map();

  #collection(name: string): ModelCollection {
    const found = this.state.get(name);
    if (found === undefined) throw new ModelFailure('schema.unknown_collection');
    return found;
  }

  #set(name: string, collection: ModelCollection | undefined): void {
    const changed = new Map(this.state);
    if (collection === undefined) changed.delete(name);
    else changed.set(name, collection);
    this.state = changed;
  }

  create(definition: CollectionDefinition): void {
    if (this.state.has(definition.name)) throw new ModelFailure('schema.exists');
    this.#set(definition.name, { definition, indexes: [], records: [], nextId: 1 });
  }

  drop(name: string): void {
    this.#collection(name);
    this.#set(name, undefined);
  }

  rename(name: string, to: string): void {
    const found = this.#collection(name);
    if (this.state.has(to)) throw new ModelFailure('schema.exists');
    this.#set(name, undefined);
    const indexes = found.indexes.map((index) => ({ ...index, collection: to }));
    this.#set(to, { ...found, indexes, definition: { ...found.definition, name: to } });
  }

  addIndex(index: IndexDefinition): void {
    const found = this.#collection(index.collection);
    if (found.indexes.some((each) => each.name === index.name))
      throw new ModelFailure('schema.exists');
    found.records.forEach((record, i) => {
      this.#requireUnique(found.records.slice(0, i), record, [index]);
    });
    this.#set(index.collection, { ...found, indexes: [...found.indexes, index] });
  }

  dropIndex(name: string, index: string): void {
    const found = this.#collection(name);
    if (!found.indexes.some((each) => each.name === index))
      throw new ModelFailure('schema.unknown_index');
    const indexes = found.indexes.filter((each) => each.name !== index);
    this.#set(name, { ...found, indexes });
  }

  /** Text that identifies a record in its collection. */
  idText(definition: CollectionDefinition, record: RecordFields): string {
    const { key } = definition;
    if (key.kind === 'fields') return keyText(record, key.parts);
    return String(record[key.kind === 'integer' ? key.field : 'id']);
  }

  #complete(found: ModelCollection, record: RecordFields): RecordFields {
    const { definition } = found;
    const complete: RecordFields = {};
    for (const field of definition.fields) complete[field.name] = record[field.name] ?? null;
    for (const [name, value] of Object.entries(record)) complete[name] = value;
    const { key } = definition;
    if (key.kind === 'integer' && complete[key.field] === null) complete[key.field] = found.nextId;
    return complete;
  }

  put(name: string, given: RecordFields, mustBeNew: boolean): RecordFields {
    const found = this.#collection(name);
    const record = this.#complete(found, given);
    for (const field of found.definition.fields) {
      const isKey =
        found.definition.key.kind === 'integer' && found.definition.key.field === field.name;
      if (!isKey && !field.optional && record[field.name] === null)
        throw new ModelFailure('constraint.required');
    }
    const id = this.idText(found.definition, record);
    const others = found.records.filter((each) => this.idText(found.definition, each) !== id);
    if (mustBeNew && others.length !== found.records.length)
      throw new ModelFailure('constraint.unique');
    this.#requireUnique(others, record, found.indexes);
    this.#replace(found, others, record);
    return record;
  }

  #replace(found: ModelCollection, others: readonly RecordFields[], record: RecordFields): void {
    const { key, name } = found.definition;
    const id = key.kind === 'integer' ? Number(record[key.field]) : 0;
    const nextId = Math.max(found.nextId, id + 1);
    const records = [...others, record].sort((a, b) => this.#compare(found.definition, a, b));
    this.#set(name, { ...found, records, nextId });
  }

  #compare(definition: CollectionDefinition, a: RecordFields, b: RecordFields): number {
    const { key } = definition;
    if (key.kind === 'integer') return compareValues(a[key.field]!, b[key.field]!);
    const [x, y] = [this.idText(definition, a), this.idText(definition, b)];
    return x < y ? -1 : x > y ? 1 : 0;
  }

  #requireUnique(
    others: readonly RecordFields[],
    record: RecordFields,
    indexes: readonly IndexDefinition[],
  ): void {
    for (const { unique, nulls, parts } of indexes) {
      if (!unique) continue;
      const taken = new Set(
        others.flatMap((other) => keyTexts(other, parts).map((each) => each.key)),
      );
      for (const { key, hasNull: isNull } of keyTexts(record, parts))
        if ((!isNull || nulls === 'equal') && taken.has(key))
          throw new ModelFailure('constraint.unique');
    }
  }

  update(name: string, id: string, changes: RecordFields): boolean {
    const found = this.#collection(name);
    const { definition } = found;
    const old = found.records.find((each) => this.idText(definition, each) === id);
    if (old === undefined) return false;
    const record: RecordFields = { ...old, ...changes };
    const others = found.records.filter((each) => each !== old);
    const newId = this.idText(definition, record);
    for (const field of definition.fields)
      if (!field.optional && record[field.name] === null)
        throw new ModelFailure('constraint.required');
    if (others.some((each) => this.idText(definition, each) === newId))
      throw new ModelFailure('constraint.unique');
    this.#requireUnique(others, record, found.indexes);
    this.#replace(found, others, record);
    return true;
  }

  delete(name: string, id: string): boolean {
    const found = this.#collection(name);
    const records = found.records.filter((each) => this.idText(found.definition, each) !== id);
    this.#set(name, { ...found, records });
    return records.length !== found.records.length;
  }

  /** The records of an index in its order, once a key, equal keys by their ids. */
  byIndex(name: string, index: IndexDefinition): RecordFields[] {
    const { records, definition } = this.#collection(name);
    return records
      .flatMap((record) => keyTexts(record, index.parts).map((each) => ({ record, ...each })))
      .filter((each) => index.nulls !== 'skip' || !each.hasNull)
      .sort((a, b) => {
        if (a.key !== b.key) return a.key < b.key ? -1 : 1;
        return this.#compare(definition, a.record, b.record);
      })
      .map(({ record }) => record);
  }
}

export function sameRecord(a: RecordFields, b: RecordFields): boolean {
  const names = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...names].every(
    (name) => Object.hasOwn(a, name) && Object.hasOwn(b, name) && equalValues(a[name]!, b[name]!),
  );
}
