/**
 * Where a section goes: an existing bucket or collection, or a new one by what the text or the
 * caller says. Nothing is guessed: a target that neither names is refused.
 */
import type {
  CollectionDefinition,
  FieldDefinition,
  FieldType,
  IndexDefinition,
  Transaction,
  Value,
} from '../index.ts';
import { failure } from './failures.ts';
import type { Section } from './section.ts';
import { valueText } from './value-text.ts';

/** What a caller says of a target that does not exist yet. */
export interface TargetOptions {
  /** Name of the bucket or collection; default what the text says. */
  readonly into?: string;
  /** Types of the fields of a new collection: `{ id: 'int', name: 'text?' }`. */
  readonly fields?: Readonly<Record<string, FieldType | `${FieldType}?`>>;
  /** The field or fields that identify a record of it; without, records get an `id`. */
  readonly key?: string | readonly string[];
  /** Whether its records may have other fields. */
  readonly open?: boolean;
  /** Kinds of keys and values of a new bucket. */
  readonly keys?: FieldType;
  readonly values?: FieldType;
  /** JSON: each line or element is a value, stored in a bucket under its number, from 1. */
  readonly lines?: boolean;
}

export interface Target {
  readonly definition: CollectionDefinition;
  readonly isNew: boolean;
}

/** Finds or makes the target of a section, in the open transaction. */
export function targetOf(tx: Transaction, section: Section, options: TargetOptions): Target {
  const name = options.into ?? section.name;
  if (name === undefined) {
    throw failure('usage.argument', 'the text does not say which collection it is of', {
      hint: 'Say where it goes: `into`, on the command line --into NAME.',
    });
  }
  const existing = find(tx, name);
  if (section.definition !== undefined) return restored(tx, name, section, existing);
  if (existing !== undefined) {
    refuseOther(existing, options);
    return { definition: existing, isNew: false };
  }
  make(tx, name, section, options);
  return { definition: find(tx, name)!, isNew: true };
}

function find(tx: Transaction, name: string): CollectionDefinition | undefined {
  return tx.schema().collections.find((each) => each.name === name);
}

/** A section that carries its definitions: made, or the same as what there is. */
function restored(
  tx: Transaction,
  name: string,
  section: Section,
  existing: CollectionDefinition | undefined,
): Target {
  const definition = { ...section.definition!, name };
  if (existing === undefined) tx.changeSchema({ change: 'createCollection', definition });
  else requireSame(existing, definition);
  const present = tx.schema().indexes.filter((each) => each.collection === name);
  for (const index of section.indexes ?? []) {
    const own = { ...index, collection: name };
    const old = present.find((each) => each.name === index.name);
    if (old === undefined) tx.changeSchema({ change: 'createIndex', definition: own });
    else requireSameIndex(old, own);
  }
  return { definition: find(tx, name)!, isNew: existing === undefined };
}

/** A definition as text, without what does not matter to its records. */
function comparable(definition: CollectionDefinition): string {
  const { form, open, key, checks } = definition;
  const fields = definition.fields.filter((field) => field.dropped !== true);
  return valueText({ form, open, key, checks, fields } as unknown as Value);
}

function requireSame(existing: CollectionDefinition, asked: CollectionDefinition): void {
  if (comparable(existing) === comparable(asked)) return;
  const { name } = existing;
  throw failure('schema.mismatch', `${name} is declared otherwise in the file than in the dump`, {
    detail: { collection: name, inFile: comparable(existing), inDump: comparable(asked) },
    hint: 'Load it under another name, or into a file that does not have it.',
  });
}

function requireSameIndex(old: IndexDefinition, asked: IndexDefinition): void {
  const text = ({ parts, unique, nulls }: IndexDefinition): string =>
    valueText({ parts, unique, nulls } as unknown as Value);
  if (text(old) === text(asked)) return;
  const what = `index "${old.name}" of ${old.collection} is another in the file than in the dump`;
  throw failure('schema.mismatch', what, { detail: { index: old.name } });
}

/** What is said of a target that exists has to be so. */
function refuseOther(existing: CollectionDefinition, options: TargetOptions): void {
  const { name, form, fields } = existing;
  const isBucket = form === 'bucket';
  const said = [
    ['fields', options.fields],
    ['key', options.key],
    ['open', options.open],
  ].filter(([, value]) => value !== undefined);
  if (said.length > 0) {
    throw failure('usage.argument', `${said[0]![0] as string}: ${name} exists already`, {
      hint: 'Leave out what the file says: an existing collection keeps its declaration.',
    });
  }
  for (const [i, asked] of [options.keys, options.values].entries()) {
    if (asked === undefined || (isBucket && fields[i]!.type === asked)) continue;
    const what = isBucket ? `has ${['keys', 'values'][i]} of ${fields[i]!.type}` : 'is no bucket';
    throw failure('schema.mismatch', `${name} ${what}, not of ${asked}`);
  }
}

function make(tx: Transaction, name: string, section: Section, options: TargetOptions): void {
  const { fields, key, open, keys, values } = options;
  if (fields !== undefined) {
    const settings = {
      fields,
      ...(key !== undefined && { key }),
      ...(open !== undefined && { open }),
    };
    tx.collection(name, settings as never);
    return;
  }
  if (key !== undefined || open !== undefined)
    throw failure('usage.argument', `key and open are of a new collection: say its fields, too`);
  switch (section.shape) {
    case 'pairs':
      return makeBucket(tx, name, keys ?? 'bytes', values ?? 'bytes');
    case 'numbered':
      return makeBucket(tx, name, keys ?? 'int', values ?? 'bytes');
    case 'pair set':
      return makePairSet(tx, name, keys ?? 'bytes', values ?? 'bytes');
    case 'records':
      if (options.lines === true) return makeBucket(tx, name, 'int', values ?? 'json');
      if (keys !== undefined || values !== undefined)
        return makeBucket(tx, name, keys ?? 'text', values ?? 'json');
      throw failure(
        'usage.argument',
        `there is no collection "${name}", and its fields are not said`,
        {
          hint:
            'Make it first, or say its fields: { id: "int", name: "text?" }, on the command line ' +
            '--fields id:int,name:text? --key id; for a bucket: --keys text --values json.',
        },
      );
  }
}

function field(name: string, type: FieldType): FieldDefinition {
  return { name, type, optional: false };
}

const BINARY = { descending: false, collation: 'binary' };

function makeBucket(tx: Transaction, name: string, keys: FieldType, values: FieldType): void {
  create(tx, {
    name,
    form: 'bucket',
    fields: [field('key', keys), field('value', values)],
    key: { kind: 'fields', parts: [{ field: 'key', ...BINARY }] },
  });
}

/** Keys with several values: records organised by both. */
function makePairSet(tx: Transaction, name: string, keys: FieldType, values: FieldType): void {
  create(tx, {
    name,
    form: 'record',
    fields: [field('key', keys), field('value', values)],
    key: {
      kind: 'fields',
      parts: [
        { field: 'key', ...BINARY },
        { field: 'value', ...BINARY },
      ],
    },
  });
}

function create(
  tx: Transaction,
  definition: Pick<CollectionDefinition, 'name' | 'form' | 'fields' | 'key'>,
): void {
  const layout = {} as CollectionDefinition['layout']; // that of the file
  tx.changeSchema({
    change: 'createCollection',
    definition: { ...definition, open: false, checks: [], layout },
  });
}
