/**
 * Dumps in files: one file, which appears under its name only when it is whole, or a folder with
 * one file a record for version control.
 *
 *   DIR/monochord-dump.txt           "monochord dump 1" and the layout of the file
 *   DIR/NAME/collection.txt          the head of a section, as in the one-file form
 *   DIR/NAME/records/KEY.json        a record, one field a line; in a bucket a list of two
 *
 * NAME and KEY are written so that every file system takes them and tells them apart: a-z 0-9 . _ -
 * stand for themselves, other bytes as %xx; a long one is cut, with a hash behind it. There are no
 * counts and checksums in this form: it is for files that are edited and merged.
 */
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { join } from 'node:path';
import type {
  CollectionDefinition,
  Database,
  FileLayoutOptions,
  RecordFields,
  Value,
} from '../index.ts';
import { dump, recordsOf, sourcesOf, type DumpOptions, type Source } from './dump.ts';
import { failure, failureAt, systemFailure, type Place } from './failures.ts';
import { requireDatabase, requireOptions } from './formats.ts';
import { parseJson } from './json.ts';
import {
  headLine,
  layoutIn,
  liveFields,
  OWN_FIRST_LINE,
  ownEntry,
  ownHead,
  ownRecord,
  ownSectionHead,
  SectionHead,
} from './own-format.ts';
import type { Pair, Section, SectionReader } from './section.ts';
import { requireText, utf8Of } from './utf8.ts';
import { revive } from './value-text.ts';

/** What marks a folder as a dump. */
export const MARKER = 'monochord-dump.txt';
const HEAD_FILE = 'collection.txt';
const RECORDS = 'records';
/** Letters of a name before it is cut: file systems take 255 bytes. */
const NAME_LENGTH_MAX = 180;

/** Runs calls to the operating system; what they throw names the path. */
function system<T>(what: string, path: string, run: () => T): T {
  try {
    return run();
  } catch (cause) {
    throw systemFailure(cause, what, path);
  }
}

/**
 * Writes a dump to a file. The file appears, or takes the place of an older one, when it is whole
 * and synced. Returns its bytes.
 *
 * @throws {StorageError} storage.full, storage.permission, storage.not_found, storage.io
 */
export async function dumpToFile(
  db: Database,
  path: string,
  options: DumpOptions,
): Promise<number> {
  requirePath('dumpToFile', path);
  const part = `${path}.part-${process.pid}`;
  const file = system('writing', part, () => fs.openSync(part, 'w'));
  let bytes = 0;
  try {
    try {
      for await (const chunk of dump(db, options)) {
        for (let at = 0; at < chunk.length;)
          at += system('writing', part, () => fs.writeSync(file, chunk, at));
        bytes += chunk.length;
      }
      system('syncing', part, () => fs.fsyncSync(file));
    } finally {
      fs.closeSync(file);
    }
    system('renaming', path, () => fs.renameSync(part, path));
  } catch (cause) {
    fs.rmSync(part, { force: true });
    throw cause;
  }
  return bytes;
}

/** Options of a dump to a folder. */
export type FolderDumpOptions = Pick<DumpOptions, 'collections' | 'signal' | 'onProgress'>;

/**
 * Writes one file a record into a folder, which is made, or is one that holds such a dump: then
 * collections in it are replaced, one after the other. Returns the number of records.
 *
 * @throws {UsageError} usage.argument for a folder that holds something else.
 */
export async function dumpToFolder(
  db: Database,
  folder: string,
  options: FolderDumpOptions = {},
): Promise<number> {
  requireDatabase('dumpToFolder', db);
  requirePath('dumpToFolder', folder);
  requireOptions('a dump to a folder', options, ['collections', 'signal', 'onProgress']);
  requireOwnFolder(folder);
  const snapshot = db.snapshot();
  const part = join(folder, `.part-${process.pid}`);
  let records = 0;
  try {
    const sources = sourcesOf(snapshot, { ...options, format: 'monochord' });
    system('making', part, () => fs.mkdirSync(part, { recursive: true }));
    const made: string[] = [];
    for (const source of sources) {
      records += await writeSection(part, source, options.signal);
      made.push(fileName(source.definition.name));
    }
    writeText(join(part, MARKER), ownHead(db.layout));
    system('renaming into', folder, () => replaceSections(folder, part, made));
  } finally {
    snapshot.close();
    fs.rmSync(part, { recursive: true, force: true });
  }
  return records;
}

function requireOwnFolder(folder: string): void {
  const names = fs.existsSync(folder)
    ? system('reading', folder, () => fs.readdirSync(folder)).filter((n) => !n.startsWith('.'))
    : [];
  if (names.length === 0 || names.includes(MARKER)) return;
  throw failure('usage.argument', `${folder} holds something else than a dump`, {
    hint: 'Name an empty folder, one that does not exist, or one with an earlier dump.',
  });
}

/** New sections take the place of old ones; those of collections that are gone go, too. */
function replaceSections(folder: string, part: string, made: readonly string[]): void {
  for (const name of fs.readdirSync(folder)) {
    const isSection = fs.existsSync(join(folder, name, HEAD_FILE));
    if (isSection && !made.includes(name)) fs.rmSync(join(folder, name), { recursive: true });
  }
  for (const name of made) {
    fs.rmSync(join(folder, name), { recursive: true, force: true });
    fs.renameSync(join(part, name), join(folder, name));
  }
  fs.renameSync(join(part, MARKER), join(folder, MARKER));
}

function writeText(path: string, text: string): void {
  system('writing', path, () => fs.writeFileSync(path, text, { flag: 'wx' }));
}

/** Records between which other work is done. */
const RECORDS_PER_SLICE = 256;

async function writeSection(
  part: string,
  source: Source,
  signal: AbortSignal | undefined,
): Promise<number> {
  const { definition, indexes } = source;
  const folder = join(part, fileName(definition.name));
  const records = join(folder, RECORDS);
  system('making', records, () => fs.mkdirSync(records, { recursive: true }));
  writeText(join(folder, HEAD_FILE), ownSectionHead(definition, indexes));
  let count = 0;
  for (const record of recordsOf(source)) {
    writeText(join(records, `${recordName(definition, record)}.json`), spread(definition, record));
    if (++count % RECORDS_PER_SLICE !== 0) continue;
    if (signal?.aborted === true) throw failure('limit.cancelled', 'the dump was cancelled');
    await new Promise((resolve) => setImmediate(resolve));
  }
  return count;
}

/** A record with one field a line, so that a changed field is a changed line. */
function spread(definition: CollectionDefinition, record: RecordFields): string {
  if (definition.form === 'bucket') {
    const { key, value } = record;
    return `[\n  ${one(definition, 'key', key!)},\n  ${one(definition, 'value', value!)}\n]\n`;
  }
  const lines = Object.keys(record).map(
    (name) => `  ${JSON.stringify(name)}: ${one(definition, name, record[name]!)}`,
  );
  return `{\n${lines.join(',\n')}\n}\n`;
}

/** The text of one field: that of a record that has only it, without name and braces. */
function one(definition: CollectionDefinition, name: string, value: Value): string {
  const asRecord: CollectionDefinition = { ...definition, form: 'record' };
  return ownRecord(asRecord, { [name]: value }).slice(JSON.stringify(name).length + 2, -1);
}

/** The name of a record's file, from the values of its key. */
function recordName(definition: CollectionDefinition, record: RecordFields): string {
  const { key } = definition;
  const names = key.kind === 'fields' ? key.parts.map((part) => [part.field, part.path]) : [];
  const fields = key.kind === 'integer' ? [[key.field, undefined]] : names;
  const texts = (fields as [string, readonly string[] | undefined][]).map(([name, path]) => {
    let value: Value = record[name]!;
    for (const step of path ?? []) value = (value as Record<string, Value> | null)?.[step] ?? null;
    const isText = path === undefined && typeOf(definition, name) === 'text';
    return isText ? String(value) : one(definition, name, value);
  });
  return fileName(texts.length === 1 ? texts[0]! : texts.map(escapeComma).join(','));
}

function typeOf({ fields }: CollectionDefinition, name: string): string | undefined {
  return fields.find((field) => field.name === name && field.dropped !== true)?.type;
}

/** Two lists of texts that differ also differ when they are joined by commas. */
function escapeComma(text: string): string {
  return text.replace(/[%,]/g, (letter) => (letter === ',' ? '%2C' : '%25'));
}

/** A text as the name of a file. */
export function fileName(text: string): string {
  let name = '';
  for (const byte of utf8Of(text)) {
    const letter = String.fromCharCode(byte);
    name += /[a-z0-9._-]/.test(letter) ? letter : `%${byte.toString(16).padStart(2, '0')}`;
  }
  const whole = /^(?:\.|$)|\.$|^(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)/.test(name)
    ? `%${name}`
    : name;
  if (whole.length <= NAME_LENGTH_MAX) return whole;
  const hash = createHash('sha256').update(text).digest('hex').slice(0, 32);
  return `${whole.slice(0, NAME_LENGTH_MAX - 40).replace(/%[0-9a-f]?$/, '')}%-${hash}`;
}

// Reading.

/** Bytes at the beginning of a dump that have its layout. */
const LAYOUT_BYTES = 4096;

/**
 * The layout of the file that a dump in the own format was made of, as `open` takes it for another
 * file; `undefined` if it is no such dump. Takes a path, a folder, or the first bytes.
 *
 * @throws {StorageError} storage.not_found, storage.permission, storage.io
 */
export function layoutOfDump(source: string | Uint8Array): FileLayoutOptions | undefined {
  if (source instanceof Uint8Array) return layoutIn(wholeLines(source));
  requirePath('layoutOfDump', source);
  const isFolder = fs.statSync(source, { throwIfNoEntry: false })?.isDirectory() === true;
  const path = isFolder ? join(source, MARKER) : source;
  const bytes = new Uint8Array(LAYOUT_BYTES);
  const count = system('reading', path, () => {
    const file = fs.openSync(path, 'r');
    try {
      return fs.readSync(file, bytes);
    } finally {
      fs.closeSync(file);
    }
  });
  return layoutIn(wholeLines(bytes.subarray(0, count)));
}

function requirePath(where: string, path: unknown): void {
  if (typeof path !== 'string' || path === '')
    throw failure('usage.argument', `${where} takes a path, a text that is not empty`);
}

function wholeLines(bytes: Uint8Array): Uint8Array {
  return bytes.subarray(0, bytes.indexOf(10, bytes.indexOf(10) + 1));
}

/** Reads a folder as `dumpToFolder` writes it. */
export class FolderReader implements SectionReader {
  readonly #folder: string;
  readonly #onFile: ((bytesRead: number) => void) | undefined;
  #place: Place;
  #bytesRead = 0;

  constructor(folder: string, onFile?: (bytesRead: number) => void) {
    this.#folder = folder;
    this.#onFile = onFile;
    this.#place = { file: folder, line: 1, column: 1 };
  }

  place(): Place {
    return this.#place;
  }

  close(): void {
    return; // files are opened one at a time
  }

  #read(path: string): string {
    const bytes = system('reading', path, () => fs.readFileSync(path));
    this.#bytesRead += bytes.length;
    this.#onFile?.(this.#bytesRead);
    this.#place = { file: path, line: 1, column: 1 };
    return requireText(bytes, this.#place);
  }

  async *sections(): AsyncGenerator<Section> {
    const marker = join(this.#folder, MARKER);
    if (!this.#read(marker).startsWith(`${OWN_FIRST_LINE}\n`)) {
      const what = `a dump begins with "${OWN_FIRST_LINE}"`;
      throw failureAt('syntax.unexpected', this.#place, what);
    }
    for (const name of fs.readdirSync(this.#folder).sort()) {
      const folder = join(this.#folder, name);
      if (fs.existsSync(join(folder, HEAD_FILE))) yield this.#section(folder);
    }
  }

  #section(folder: string): Section {
    const text = this.#read(join(folder, HEAD_FILE));
    const head = new SectionHead();
    const lines = text.split(/\r?\n/).filter((line) => line !== '');
    for (const [i, line] of lines.entries()) {
      const place = { ...this.#place, line: i + 1 };
      const isLast = i === lines.length - 1;
      const next = headLine(line, place);
      if (isLast ? next.word !== 'records' : !head.take(next))
        throw failureAt('syntax.unexpected', place, `"${next.word}" cannot stand here`);
    }
    const { definition, indexes } = head.complete(this.#place);
    return {
      name: definition.name,
      shape: 'records',
      definition,
      indexes,
      entries: (target) => this.#entries(join(folder, RECORDS), target),
    };
  }

  async *#entries(
    folder: string,
    target: CollectionDefinition,
  ): AsyncGenerator<Pair | RecordFields> {
    const names = liveFields(target).map((field) => field.name);
    const directory = await fs.promises.opendir(folder);
    for await (const { name } of directory) {
      if (!name.endsWith('.json')) continue;
      const text = this.#read(join(folder, name));
      const place = this.#place;
      const entry = ownEntry(target, parseJson(text, place, { revive }), place);
      if (target.form === 'record' && !target.open) {
        const unknown = Object.keys(entry).find((each) => !names.includes(each));
        if (unknown !== undefined)
          throw failureAt('schema.unknown_field', place, `there is no field "${unknown}"`);
      }
      yield entry;
    }
  }
}
