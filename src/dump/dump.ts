/**
 * Writing a dump: collections and buckets of one snapshot as a text, in chunks, in memory for one
 * chunk and one record.
 */
import type {
  CollectionDefinition,
  Database,
  FileLayoutOptions,
  IndexDefinition,
  RecordFields,
  Snapshot,
} from '../index.ts';
import { crc32 } from '../base/checksum.ts';
import { csvField } from './csv.ts';
import { failure } from './failures.ts';
import { toJson, toText } from './field-values.ts';
import { requireDatabase, requireFormat, requireOptions, type DumpFormat } from './formats.ts';
import { GDBM_BINARY_HEADER, gdbmBinary, gdbmEnd, gdbmHeader, gdbmLines } from './gdbm.ts';
import { KV_END, kvHeader, kvLines, type KvTextOptions } from './kv-text.ts';
import {
  liveFields,
  ownComplete,
  ownEnd,
  ownHead,
  ownRecord,
  ownSectionHead,
} from './own-format.ts';
import { toRaw } from './raw-values.ts';
import { TextOutput } from './text-output.ts';
import { utf8Of } from './utf8.ts';

export interface DumpProgress {
  readonly collection: string;
  /** Records of the collection so far, and in all. */
  readonly records: number;
  readonly recordsTotal: number;
}

export interface DumpOptions {
  readonly format: DumpFormat;
  /** Collections and buckets by name; default all. `csv`, `jsonl`, `json` and `gdbm` hold one. */
  readonly collections?: readonly string[];
  /** JSON: values of kinds that JSON does not have as objects `{"$kind": …}`. */
  readonly extended?: boolean;
  /** CSV: whether the first record has the names; default true. */
  readonly header?: boolean;
  /** CSV: what stands between fields; default a comma. */
  readonly delimiter?: string;
  /** CSV: what stands for null; default nothing. */
  readonly null?: string;
  /** CSV: whether records end with CR LF; default false. */
  readonly crlf?: boolean;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: DumpProgress) => void;
}

const OPTION_NAMES: readonly (keyof DumpOptions)[] = [
  'format',
  'collections',
  'extended',
  'header',
  'delimiter',
  'null',
  'crlf',
  'signal',
  'onProgress',
];

/** A collection or bucket to be dumped. */
export interface Source {
  readonly definition: CollectionDefinition;
  readonly indexes: readonly IndexDefinition[];
  readonly snapshot: Snapshot;
  readonly options: DumpOptions;
}

type Chunks = Generator<Uint8Array, void, undefined>;

/**
 * Iterates the text of a dump as chunks of bytes. Everything is read from one snapshot, which is
 * taken when the iteration begins and closed when it ends; writes go on meanwhile.
 *
 * @throws {UsageError} usage.argument for a collection that the format cannot hold.
 * @throws {ValueError} value.type for a value that the format does not have.
 * @throws {LimitError} limit.cancelled
 * @example
 * for await (const chunk of dump(db, { format: 'monochord' })) process.stdout.write(chunk);
 */
export async function* dump(
  db: Database,
  options: DumpOptions,
): AsyncGenerator<Uint8Array, void, undefined> {
  requireDatabase('dump', db);
  requireOptions('a dump', options, OPTION_NAMES);
  requireFormat(options.format);
  const snapshot = db.snapshot();
  try {
    const sources = sourcesOf(snapshot, options);
    for (const chunk of textOf(sources, db.layout, options)) {
      if (options.signal?.aborted === true)
        throw failure('limit.cancelled', 'the dump was cancelled');
      if (chunk.length > 0) yield chunk;
      await new Promise((resolve) => setImmediate(resolve)); // other work, and what cancels this
    }
  } finally {
    snapshot.close();
  }
}

/** What is to be dumped, by name. */
export function sourcesOf(snapshot: Snapshot, options: DumpOptions): Source[] {
  const { collections, indexes } = snapshot.schema();
  const names = options.collections ?? collections.map((each) => each.name);
  return names.map((name) => {
    const definition = collections.find((each) => each.name === name);
    if (definition === undefined) {
      const known = collections.map((each) => each.name).join(', ');
      throw failure('schema.unknown_collection', `there is no collection "${name}"`, {
        hint: known === '' ? 'The file is empty.' : `There is ${known}.`,
      });
    }
    if (definition.key.kind === 'generated')
      throw failure('usage.argument', `${name} has keys that no field holds: it has no dump`);
    const own = indexes.filter((each) => each.collection === name);
    return { definition, indexes: own, snapshot, options };
  });
}

function textOf(
  sources: readonly Source[],
  layout: FileLayoutOptions,
  options: DumpOptions,
): Chunks {
  switch (options.format) {
    case 'monochord':
      return ownText(sources, layout);
    case 'bdb':
    case 'bdb-print':
    case 'lmdb':
    case 'lmdb-print':
      return kvText(sources, options.format);
    case 'gdbm':
      return gdbmText(only(sources, options));
    case 'gdbm-binary':
      return gdbmBytes(only(sources, options));
    case 'jsonl':
    case 'json':
      return jsonText(only(sources, options));
    case 'csv':
      return csvText(only(sources, options));
  }
}

function only(sources: readonly Source[], { format }: DumpOptions): Source {
  if (sources.length === 1) return sources[0]!;
  throw failure('usage.argument', `${format} holds one collection, not ${sources.length}`, {
    hint: 'Name the one to dump.',
  });
}

/** The records of a source; tells of progress now and then. */
export function* recordsOf({ definition, snapshot, options }: Source): Iterable<RecordFields> {
  const { name } = definition;
  const recordsTotal = snapshot.recordCount(name);
  let records = 0;
  for (const record of snapshot.exactRecords(name)) {
    if (records++ % 1024 === 0) options.onProgress?.({ collection: name, records, recordsTotal });
    yield record;
  }
  options.onProgress?.({ collection: name, records, recordsTotal });
}

function* ownText(sources: readonly Source[], layout: FileLayoutOptions): Chunks {
  let crc = 0;
  const output = new TextOutput((chunk) => {
    crc = crc32(chunk, 0, chunk.length, crc);
  });
  output.add(ownHead(layout));
  for (const source of sources) {
    const { definition, indexes } = source;
    yield output.take();
    crc = 0;
    output.add(ownSectionHead(definition, indexes));
    let records = 0;
    for (const record of recordsOf(source)) {
      output.add(`${ownRecord(definition, record)}\n`);
      records++;
      if (output.isFull) yield output.take();
    }
    yield output.take();
    output.add(ownEnd(records, crc));
  }
  output.add(ownComplete(sources.length));
  yield output.take();
}

function* kvText(sources: readonly Source[], format: DumpFormat): Chunks {
  const options: KvTextOptions = {
    store: format.startsWith('lmdb') ? 'lmdb' : 'bdb',
    encoding: format.endsWith('-print') ? 'print' : 'bytevalue',
    isNamed: sources.length !== 1,
  };
  const output = new TextOutput();
  const raws = sources.map(({ definition }) => toRaw(definition)); // refuses before it writes
  for (const [i, source] of sources.entries()) {
    const raw = raws[i]!;
    output.add(kvHeader(source.definition.name, raw, options));
    for (const record of recordsOf(source)) {
      output.add(kvLines(raw.key(record), raw.value(record), options));
      if (output.isFull) yield output.take();
    }
    output.add(KV_END);
  }
  yield output.take();
}

function* gdbmText(source: Source): Chunks {
  const raw = toRaw(source.definition);
  requireSingle(source, raw.isSet);
  const output = new TextOutput();
  output.add(gdbmHeader(source.definition.name));
  let count = 0;
  for (const record of recordsOf(source)) {
    output.add(gdbmLines(raw.key(record)) + gdbmLines(raw.value(record)));
    count++;
    if (output.isFull) yield output.take();
  }
  output.add(gdbmEnd(count));
  yield output.take();
}

function* gdbmBytes(source: Source): Chunks {
  const raw = toRaw(source.definition);
  requireSingle(source, raw.isSet);
  let parts: Uint8Array[] = [utf8Of(GDBM_BINARY_HEADER)];
  let size = 0;
  for (const record of recordsOf(source)) {
    for (const bytes of [raw.key(record), raw.value(record)]) {
      parts.push(gdbmBinary(bytes));
      size += bytes.length + 8;
    }
    if (size < 64 * 1024) continue;
    yield new Uint8Array(Buffer.concat(parts));
    parts = [];
    size = 0;
  }
  yield new Uint8Array(Buffer.concat(parts));
}

function requireSingle({ definition }: Source, isSet: boolean): void {
  if (!isSet) return;
  throw failure('usage.argument', `gdbm has one value a key; ${definition.name} may have several`);
}

/** Records as JSON, one a line; as a document with brackets around them and commas between. */
function* jsonText({ definition, options, ...rest }: Source): Chunks {
  const isDocument = options.format === 'json';
  let isFirst = true;
  const fields = new Map(liveFields(definition).map((field) => [field.name, field]));
  const output = new TextOutput();
  for (const record of recordsOf({ definition, options, ...rest })) {
    const texts = Object.keys(record).map((name) => {
      const value = toJson(fields.get(name), record[name]!, options.extended === true);
      return `${JSON.stringify(name)}:${value}`;
    });
    const text = `{${texts.join(',')}}`;
    if (isDocument) output.add(isFirst ? `[\n${text}` : `,\n${text}`);
    else output.add(`${text}\n`);
    isFirst = false;
    if (output.isFull) yield output.take();
  }
  if (isDocument) output.add(isFirst ? '[]\n' : '\n]\n');
  yield output.take();
}

function* csvText(source: Source): Chunks {
  const { definition, options } = source;
  const { delimiter = ',', null: nullText = '', header = true, crlf = false } = options;
  const fields = liveFields(definition);
  const end = crlf ? '\r\n' : '\n';
  const output = new TextOutput();
  const names = fields.map((field) => csvField(field.name, delimiter, nullText));
  if (header) output.add(names.join(delimiter) + end);
  for (const record of recordsOf(source)) {
    if (Object.keys(record).length > fields.length)
      throw undeclared(definition, record, fields.length);
    const texts = fields.map((field) => {
      const text = toText(field, record[field.name]!);
      return text === undefined ? nullText : csvField(text, delimiter, nullText);
    });
    output.add(texts.join(delimiter) + end);
    if (output.isFull) yield output.take();
  }
  yield output.take();
}

function undeclared({ name }: CollectionDefinition, record: RecordFields, from: number): Error {
  const field = Object.keys(record)[from];
  return failure('value.type', `a record of ${name} has the undeclared field "${field}"`, {
    detail: { collection: name, field },
    hint: 'CSV has declared fields only: use the format "jsonl" or "monochord".',
  });
}
