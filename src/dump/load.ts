/**
 * Reading a dump into a database: everything or nothing, in one transaction, in memory for one
 * chunk and one record beside what the bulk load takes of the budget.
 */
import * as fs from 'node:fs';
import {
  DatabaseError,
  type BulkLoadAsyncOptions,
  type BulkLoadOptions,
  type BulkProgress,
  type Database,
  type RecordFields,
  type Transaction,
} from '../index.ts';
import { failure, failureAt, located, type Place } from './failures.ts';
import { extendedJson } from './field-values.ts';
import { FolderReader } from './files.ts';
import { requireDatabase, requireFormat, requireOptions, type DumpFormat } from './formats.ts';
import { GdbmBinaryReader, GdbmTextReader } from './gdbm.ts';
import type { JsonOptions } from './json.ts';
import { JsonDocumentReader } from './json-document.ts';
import { KvTextReader } from './kv-text.ts';
import type { ByteChunks } from './chunk-source.ts';
import { LineReader } from './line-reader.ts';
import { OwnReader } from './own-format.ts';
import type { Pair, Section, SectionReader } from './section.ts';
import {
  CsvTextReader,
  JsonLinesReader,
  type JsonLinesOptions,
  type Reject,
} from './table-text.ts';
import { targetOf, type Target, type TargetOptions } from './targets.ts';

export interface LoadProgress {
  /** The bucket or collection that is being loaded. */
  readonly collection: string;
  /** `'read'`: the text is read; `'build'`, `'index'`: what was read is written. */
  readonly phase: BulkProgress['phase'];
  /** Records, or entries of an index, done in the phase. */
  readonly phaseRecords: number;
  /** Records of the collection read so far. */
  readonly records: number;
  /** Bytes of the text so far. */
  readonly bytesRead: number;
}

export interface LoadOptions extends TargetOptions {
  readonly format: DumpFormat;
  /** Name of the text in messages; default its path, or "input". */
  readonly name?: string;
  /** CSV: whether the first record has the names; default true. */
  readonly header?: boolean;
  /** CSV: the names where there is no header. */
  readonly columns?: readonly string[];
  /** CSV: what stands between fields; default a comma. */
  readonly delimiter?: string;
  /** CSV: what stands, without quotes, for null; default nothing. */
  readonly null?: string;
  /** JSON: what becomes of numbers that nothing holds: default `'exact'`, they are refused. */
  readonly numbers?: JsonOptions['numbers'];
  /** JSON: what becomes of a name that an object has twice; default `'refuse'`. */
  readonly duplicateNames?: JsonOptions['duplicateNames'];
  /** JSON: whether objects `{"$kind": …}` stand for values of that kind; default false. */
  readonly extended?: boolean;
  /** JSON documents that are an object: the name of the list whose elements are loaded. */
  readonly list?: string;
  /** Takes records of CSV and JSON that cannot be stored; else the first ends the load. */
  readonly onReject?: (reject: Reject) => void;
  /** What becomes of a key that exists, there or earlier in the text; default `'refuse'`. */
  readonly onDuplicate?: BulkLoadOptions['onDuplicate'];
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: LoadProgress) => void;
}

const OPTION_NAMES: readonly (keyof LoadOptions)[] = [
  'into',
  'fields',
  'key',
  'open',
  'keys',
  'values',
  'lines',
  'format',
  'name',
  'header',
  'columns',
  'delimiter',
  'null',
  'numbers',
  'duplicateNames',
  'extended',
  'list',
  'onReject',
  'onDuplicate',
  'signal',
  'onProgress',
];

export interface LoadedSection {
  readonly collection: string;
  readonly records: number;
  readonly isNew: boolean;
}

export interface LoadReport {
  readonly sections: readonly LoadedSection[];
  readonly records: number;
  /** Records that were given to `onReject`. */
  readonly rejected: number;
  readonly bytesRead: number;
}

/** A text to load: its path, or its bytes; for the own format also a folder of `dumpToFolder`. */
export type LoadSource = string | ByteChunks;

/**
 * Loads a text into the database, all of it or, when something is wrong, nothing. Formats that
 * name their sections make or fill the collections of those names; the others need `into`.
 *
 * Waits for the writers before it. Reading a path, an error of a key that exists twice names the
 * line; a stream is gone by then.
 *
 * @throws {ParseError} with the place in the text; see `docs/ERRORS.md`.
 * @throws {ValueError} for values that cannot be stored, with the place.
 * @throws {ConstraintError} constraint.unique for a key that exists twice.
 * @throws {LimitError} limit.cancelled
 * @example
 * await load(db, 'prices.csv', { format: 'csv', into: 'prices', fields: { id: 'int' } });
 */
export async function load(
  db: Database,
  source: LoadSource,
  options: LoadOptions,
): Promise<LoadReport> {
  requireDatabase('load', db);
  requireOptions('a load', options, OPTION_NAMES);
  requireFormat(options.format);
  const run = new Load(source, options);
  const { signal } = options;
  try {
    return await db.transactionAsync((tx) => run.run(tx), signal === undefined ? {} : { signal });
  } finally {
    run.close();
  }
}

class Load {
  readonly #source: LoadSource;
  readonly #options: LoadOptions;
  readonly #reader: SectionReader;
  #rejected = 0;
  #bytesRead = 0;
  #collection = '';
  #records = 0;

  constructor(source: LoadSource, options: LoadOptions) {
    this.#source = source;
    this.#options = options;
    this.#reader = readerOf(source, this.#ownOptions(), (bytesRead) => this.#arrived(bytesRead));
  }

  #ownOptions(): LoadOptions {
    const { onReject } = this.#options;
    if (onReject === undefined) return this.#options;
    return {
      ...this.#options,
      onReject: (reject) => {
        this.#rejected++;
        onReject(reject);
      },
    };
  }

  /** Bytes arrived: the load may be cancelled between them. */
  #arrived(bytesRead: number): void {
    this.#bytesRead = bytesRead;
    const { signal, onProgress } = this.#options;
    if (signal?.aborted === true)
      throw failure('limit.cancelled', 'the load was cancelled; nothing was changed');
    onProgress?.(this.#progress());
  }

  close(): void {
    this.#reader.close();
  }

  async run(tx: Transaction): Promise<LoadReport> {
    const sections: LoadedSection[] = [];
    for await (const section of this.#reader.sections()) {
      if (sections.length > 0 && this.#options.into !== undefined) {
        const what = 'the text has several sections, which do not all go into one collection';
        throw failureAt('usage.argument', this.#reader.place(), what, {
          hint: 'Leave `into` out: each section has a name.',
        });
      }
      sections.push(await this.#section(tx, section, sections.length));
    }
    const records = sections.reduce((sum, each) => sum + each.records, 0);
    return { sections, records, rejected: this.#rejected, bytesRead: this.#bytesRead };
  }

  async #section(tx: Transaction, section: Section, ordinal: number): Promise<LoadedSection> {
    let target: Target;
    try {
      target = targetOf(tx, section, this.#options);
    } catch (cause) {
      throw section.definition === undefined ? cause : located(cause, this.#reader.place());
    }
    const { definition, isNew } = target;
    this.#collection = definition.name;
    this.#records = 0;
    try {
      await this.#store(tx, target, this.#counted(section.entries(definition)));
    } catch (cause) {
      throw await this.#placed(cause, target, ordinal);
    }
    return { collection: definition.name, records: this.#records, isNew };
  }

  async #store(
    tx: Transaction,
    { definition }: Target,
    entries: AsyncIterable<Pair | RecordFields>,
  ): Promise<void> {
    const { signal, onDuplicate, onProgress } = this.#options;
    const options: BulkLoadAsyncOptions = {
      ...(signal !== undefined && { signal }),
      ...(onDuplicate !== undefined && { onDuplicate }),
      ...(onProgress !== undefined && {
        onProgress: ({ phase, records }) =>
          onProgress({ ...this.#progress(), phase, phaseRecords: records }),
      }),
    };
    const { name, form } = definition;
    if (form === 'bucket')
      await tx.kv(name).bulkLoadAsync(entries as AsyncIterable<[never, never]>, options);
    else await tx.collection(name).bulkLoadAsync(entries as AsyncIterable<RecordFields>, options);
  }

  #progress(): LoadProgress {
    return {
      collection: this.#collection,
      phase: 'read',
      phaseRecords: this.#records,
      records: this.#records,
      bytesRead: this.#bytesRead,
    };
  }

  async *#counted(
    entries: AsyncIterable<Pair | RecordFields>,
  ): AsyncGenerator<Pair | RecordFields> {
    for await (const entry of entries) {
      this.#records++;
      yield entry;
    }
  }

  /** An error of storing an entry, with the place of that entry. */
  async #placed(cause: unknown, target: Target, ordinal: number): Promise<unknown> {
    if (!(cause instanceof DatabaseError) || cause.position !== undefined) return cause;
    if (cause.detail['ordinals'] !== undefined) {
      const place = await this.#placeOfSecond(cause, target, ordinal).catch(() => undefined);
      return place === undefined ? cause : located(cause, place);
    }
    const isOfEntry = /^(?:value|constraint)\.|^schema\.unknown_field$/.test(cause.code);
    return isOfEntry ? located(cause, this.#reader.place()) : cause;
  }

  /** The place of an entry, the later of two, by its ordinal; found by reading again up to it. */
  async #placeOfSecond(
    cause: DatabaseError,
    { definition }: Target,
    ordinal: number,
  ): Promise<Place | undefined> {
    const [, second] = (cause.detail['ordinals'] ?? []) as readonly (number | undefined)[];
    if (second === this.#records - 1) return this.#reader.place();
    if (typeof this.#source !== 'string' || second === undefined) return undefined;
    const again = readerOf(this.#source, { ...this.#options, onReject: () => undefined });
    try {
      let passed = 0;
      for await (const section of again.sections()) {
        let count = 0;
        for await (const _ of section.entries(definition))
          if (passed === ordinal && count++ === second) return again.place();
        passed++;
      }
      return undefined;
    } finally {
      again.close();
    }
  }
}

/** The bytes of a file, which is opened when the first are asked for. */
async function* bytesOf(path: string): AsyncGenerator<Uint8Array, void, undefined> {
  yield* fs.createReadStream(path, { highWaterMark: 256 * 1024 });
}

/** The reader of a format. */
export function readerOf(
  source: LoadSource,
  options: LoadOptions,
  onChunk?: (bytesRead: number) => void,
): SectionReader {
  const { format, onReject } = options;
  const isPath = typeof source === 'string';
  if (isPath && format === 'monochord' && isFolder(source))
    return new FolderReader(source, onChunk);
  const file = options.name ?? (isPath ? source : 'input');
  const chunks = isPath ? bytesOf(source) : source;
  if (format === 'gdbm-binary') return new GdbmBinaryReader(chunks, file, onChunk);
  if (format === 'json') {
    const settings = { ...jsonSettings(options), list: options.list };
    return new JsonDocumentReader(chunks, file, settings, onChunk);
  }
  const lines = new LineReader(chunks, file, onChunk);
  switch (format) {
    case 'monochord':
      return new OwnReader(lines);
    case 'bdb':
    case 'bdb-print':
    case 'lmdb':
    case 'lmdb-print':
      return new KvTextReader(lines);
    case 'gdbm':
      return new GdbmTextReader(lines);
    case 'jsonl':
      return new JsonLinesReader(lines, jsonSettings(options));
    case 'csv':
      return new CsvTextReader(lines, {
        columns: columnsOf(options),
        delimiter: options.delimiter ?? ',',
        nullText: options.null ?? '',
        onReject,
      });
  }
}

function jsonSettings(options: LoadOptions): JsonLinesOptions {
  const { numbers, duplicateNames, extended = false, lines = false, onReject } = options;
  const json: JsonOptions = {
    ...(numbers !== undefined && { numbers }),
    ...(duplicateNames !== undefined && { duplicateNames }),
  };
  return { json: extendedJson(json, extended), isNumbered: lines, onReject };
}

function isFolder(path: string): boolean {
  return fs.statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

function columnsOf({ header = true, columns }: LoadOptions): readonly string[] | undefined {
  if (header && columns !== undefined)
    throw failure('usage.argument', 'columns: a text with a header names them itself', {
      hint: 'Say `header: false`, too, if its first record is a record.',
    });
  if (!header && columns === undefined)
    throw failure('usage.argument', 'columns: a text without header needs their names');
  return columns;
}
