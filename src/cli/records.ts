/** `monochord get` and `ls`: records and collections to look at. Line 9 of the strata. */
import { failure } from '../errors.ts';
import type { CollectionDefinition } from '../model/schema.ts';
import { LATEST } from '../model/source.ts';
import type { Value } from '../model/value.ts';
import { Cursor } from '../storage/btree-cursor.ts';
import { Bucket } from '../store/bucket.ts';
import type { Collection } from '../store/collection.ts';
import { withReader } from './open-file.ts';
import { EXIT, oneLine, print, table, type CommonOptions } from './output.ts';

/** A key as it is written on a command line: JSON, or a text where that is what the key takes. */
function keyValue(text: string, type: string): Value {
  if (type === 'text') return text;
  try {
    return JSON.parse(text) as Value;
  } catch {
    return text;
  }
}

function keyTypes(definition: CollectionDefinition): string[] {
  const { key, fields } = definition;
  if (key.kind === 'generated') return ['int'];
  const names = key.kind === 'integer' ? [key.field] : key.parts.map((part) => part.field);
  return names.map((name) => fields.find((field) => field.name === name)?.type ?? 'any');
}

/** Prints the record of a key; answers the exit code. */
export function getCommand(
  path: string,
  name: string,
  key: readonly string[],
  options: CommonOptions,
): number {
  return withReader(path, ({ store }) => {
    const target = store.schema(LATEST).require(name, LATEST);
    const types = keyTypes(target.definition);
    if (key.length !== types.length) {
      throw failure('usage.argument', `the key of ${name} has ${types.length} parts`);
    }
    const values = key.map((text, i) => keyValue(text, types[i]!));
    const record =
      target instanceof Bucket
        ? target.find(values[0]!, LATEST)
          ? target.valueOf(target.tree)
          : undefined
        : target.getByKey(values, LATEST);
    if (record === undefined) {
      process.stderr.write(`monochord: ${name} has no record ${values.map(oneLine).join(' ')}\n`);
      return EXIT.failed;
    }
    print(options, record, () => oneLine(record));
    return EXIT.done;
  });
}

interface ListOptions extends CommonOptions {
  readonly limit: string;
}

/** Lists collections, or the first records of one. */
export function listCommand(path: string, name: string | undefined, options: ListOptions): void {
  const limit = /^\d+$/.test(options.limit) ? Number(options.limit) : NaN;
  if (!Number.isSafeInteger(limit)) {
    throw failure('usage.argument', `--limit: ${options.limit} is not a whole number of records`);
  }
  withReader(path, ({ store }) => {
    if (name !== undefined) {
      const records = firstRecords(store.schema(LATEST).require(name, LATEST), limit);
      print(options, records, () => records.map(oneLine).join('\n'));
      return;
    }
    const all = store.catalog.collections(LATEST).map(({ structure, definition }) => ({
      name: definition.name,
      form: definition.form === 'bucket' ? 'key-value' : 'records',
      count: store.schema(LATEST).require(definition.name, LATEST).tree.count(LATEST),
      indexes: store.catalog.indexes(structure, LATEST).map((index) => index.definition.name),
    }));
    print(options, all, () => {
      if (all.length === 0) return `${path} has no collections`;
      const rows = all.map((each) => [
        each.name,
        String(each.count),
        each.form,
        each.indexes.join('; '),
      ]);
      return table(['collection', 'records', 'form', 'indexes'], rows);
    });
  });
}

type Target = Bucket | Collection;

function firstRecords(target: Target, limit: number): unknown[] {
  const records: unknown[] = [];
  const cursor = new Cursor(target.tree, LATEST);
  try {
    for (let found = cursor.first(); found && records.length < limit; found = cursor.next()) {
      if (target instanceof Bucket) {
        const [key] = target.keys.toValues(cursor.key, 0, cursor.keyLength);
        records.push({ key, value: target.valueOf(cursor) });
      } else {
        const id = target.keys.toId(cursor.key, 0, cursor.keyLength);
        const bytes = cursor.valueCopy();
        const integer = id instanceof Uint8Array ? 0 : id;
        records.push(target.codec.decode(bytes, 0, bytes.length, integer));
      }
    }
  } finally {
    cursor.close();
  }
  return records;
}
