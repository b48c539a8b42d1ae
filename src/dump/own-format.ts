/**
 * Monochord's own dump: text in lines, so that two dumps are compared by `diff`, and equal data
 * under an equal schema makes equal bytes.
 *
 *   monochord dump 1
 *   file {"pageSize":8192,…}                   layout that the file was made with
 *   collection {"name":"customers",…}          one section a collection or bucket, by name
 *   layout {…}                                 of its tree
 *   field {"name":"id","type":"int",…}         one line a field, in order
 *   check {…}   index {…}                      one line each
 *   encoding {"keys":"order-preserving 1","collations":["binary"]}
 *   records
 *   {"id":1,"email":"a@b.example"}             one line a record, by key; ["key",value] in a bucket
 *   end {"records":1,"crc32":"89ab4f20"}       of everything from the line "collection" on
 *   complete {"sections":1}
 *
 * Values are `value-text.ts`. Lines of records begin with "{" or "[", all others with a word.
 */
import { crc32 } from '../base/checksum.ts';
import type {
  CollectionDefinition,
  FieldDefinition,
  FileLayoutOptions,
  IndexDefinition,
  KeyPart,
  RecordFields,
  Value,
} from '../index.ts';
import { failureAt, type Place } from './failures.ts';
import { typedFloat } from './field-values.ts';
import { parseJson } from './json.ts';
import type { LineReader } from './line-reader.ts';
import type { Pair, Section, SectionReader } from './section.ts';
import { requireText, textOf } from './utf8.ts';
import { revive, valueText } from './value-text.ts';

export const OWN_FIRST_LINE = 'monochord dump 1';
/** Name of how values become ordered keys: a later version may write other keys. */
const KEY_ENCODING = 'order-preserving 1';

// Writing.

function line(word: string, value: unknown): string {
  return `${word} ${valueText(value as Value)}\n`;
}

export function ownHead(layout: FileLayoutOptions): string {
  return `${OWN_FIRST_LINE}\n${line('file', layout)}`;
}

/** The lines of a section before its records. */
export function ownSectionHead(
  definition: CollectionDefinition,
  indexes: readonly IndexDefinition[],
): string {
  const { name, form, open, key, layout, checks } = definition;
  const parts = [
    ...(key.kind === 'fields' ? key.parts : []),
    ...indexes.flatMap((index) => index.parts),
  ];
  const collations = [...new Set(parts.map((part: KeyPart) => part.collation))].sort();
  return [
    line('collection', { name, form, open, key }),
    line('layout', layout),
    ...liveFields(definition).map(({ dropped: _, ...field }) => line('field', field)),
    ...checks.map((check) => line('check', check)),
    ...indexes.map(({ collection: _, ...index }) => line('index', index)),
    line('encoding', { keys: KEY_ENCODING, collations }),
    'records\n',
  ].join('');
}

export function liveFields(definition: CollectionDefinition): FieldDefinition[] {
  return definition.fields.filter((field) => field.dropped !== true);
}

/** The text of a record, or of an entry of a bucket, without a line end. */
export function ownRecord(definition: CollectionDefinition, record: RecordFields): string {
  const { fields, form } = definition;
  if (form === 'bucket') {
    const [key, value] = fields;
    const texts = [typedFloat(key, record['key']!), typedFloat(value, record['value']!)];
    return `[${texts.map(valueText).join(',')}]`;
  }
  const texts = Object.keys(record).map((name) => {
    const field = fields.find((each) => each.name === name && each.dropped !== true);
    return `${JSON.stringify(name)}:${valueText(typedFloat(field, record[name]!))}`;
  });
  return `{${texts.join(',')}}`;
}

export function ownEnd(records: number, crc: number): string {
  return line('end', { records, crc32: crcText(crc) });
}

export function ownComplete(sections: number): string {
  return line('complete', { sections });
}

function crcText(crc: number): string {
  return (crc >>> 0).toString(16).padStart(8, '0');
}

// Reading.

/** The layout that the beginning of a dump names; `undefined` if it is no beginning of one. */
export function layoutIn(bytes: Uint8Array): FileLayoutOptions | undefined {
  const [first, file] = (textOf(bytes) ?? '').split(/\r?\n/, 2);
  if (first !== OWN_FIRST_LINE || file === undefined) return undefined;
  const place = { file: 'the dump', line: 2, column: 1 };
  const { word, value } = headLine(file, place);
  return word === 'file' ? (value as unknown as FileLayoutOptions) : undefined;
}

/** A line of a header: its word, and the value behind it. */
interface HeadLine {
  readonly word: string;
  readonly value: Record<string, Value>;
}

const WORD = /^([a-z]+)(?: (?=\{))?/;

/** Reads a line `word {…}`. */
export function headLine(text: string, place: Place): HeadLine {
  const word = WORD.exec(text);
  if (word === null || (word[0].length < text.length && !word[0].endsWith(' '))) {
    throw failureAt('syntax.unexpected', place, 'a line has a word and an object, or is a record');
  }
  const rest = text.slice(word[0].length);
  if (rest === '') return { word: word[1]!, value: {} };
  const at = { ...place, column: word[0].length + 1 };
  const value = parseJson(rest, at, { revive });
  return { word: word[1]!, value: value as Record<string, Value> };
}

/** What the lines before the records of a section say. */
export class SectionHead {
  #collection: Record<string, Value> | undefined;
  #layout: Value | undefined;
  #keys: Value | undefined;
  readonly #fields: Value[] = [];
  readonly #checks: Value[] = [];
  readonly #indexes: Record<string, Value>[] = [];

  /** Takes a line; answers false when its word is none of a head. */
  take({ word, value }: HeadLine): boolean {
    switch (word) {
      case 'collection':
        this.#collection = value;
        return true;
      case 'layout':
        this.#layout = value;
        return true;
      case 'field':
        this.#fields.push(value);
        return true;
      case 'check':
        this.#checks.push(value);
        return true;
      case 'index':
        this.#indexes.push(value);
        return true;
      case 'encoding':
        this.#keys = value['keys'];
        return true;
      default:
        return false;
    }
  }

  /** The definitions, which the database checks when it makes them. */
  complete(place: Place): { definition: CollectionDefinition; indexes: IndexDefinition[] } {
    const collection = this.#collection;
    const isWhole =
      collection !== undefined &&
      typeof collection['name'] === 'string' &&
      typeof collection['open'] === 'boolean' &&
      (collection['form'] === 'record' || collection['form'] === 'bucket') &&
      isKey(collection['key']) &&
      typeof this.#layout === 'object' &&
      this.#fields.every((field) => typeof (field as { name?: unknown }).name === 'string') &&
      this.#indexes.every((index) => Array.isArray(index['parts']));
    if (!isWhole) {
      throw failureAt('syntax.unexpected', place, 'the lines before say no collection with a key');
    }
    if (this.#keys !== KEY_ENCODING) {
      const what = `keys are encoded as ${String(this.#keys)}, which this version does not know`;
      throw failureAt('syntax.unexpected', place, what);
    }
    const definition = {
      ...collection,
      layout: this.#layout,
      fields: this.#fields,
      checks: this.#checks,
    } as unknown as CollectionDefinition;
    const indexes = this.#indexes.map((index) => ({ ...index, collection: definition.name }));
    return { definition, indexes: indexes as unknown as IndexDefinition[] };
  }
}

function isKey(key: Value | undefined): boolean {
  const { kind, field, parts } = (key ?? {}) as Record<string, Value>;
  return (kind === 'integer' && typeof field === 'string') || (kind === 'fields' && !!parts);
}

/** A record or entry from its value. */
export function ownEntry(
  definition: CollectionDefinition,
  value: Value,
  place: Place,
): Pair | RecordFields {
  if (definition.form === 'bucket') {
    if (Array.isArray(value) && value.length === 2) return value as unknown as Pair;
    throw failureAt('syntax.unexpected', place, 'an entry of a bucket is a list of key and value');
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as RecordFields;
  throw failureAt('syntax.unexpected', place, 'a record is an object');
}

export class OwnReader implements SectionReader {
  readonly #lines: LineReader;
  #crc = 0;
  /** The layout that the dump says its file had. */
  file: Partial<FileLayoutOptions> | undefined;

  constructor(lines: LineReader) {
    this.#lines = lines;
  }

  place(): Place {
    return this.#lines.place();
  }

  close(): void {
    this.#lines.close();
  }

  #text(): string {
    return requireText(this.#lines.line, this.#lines.place());
  }

  async #next(wanted: string): Promise<void> {
    if (!this.#lines.tryLine() && !(await this.#lines.nextLine())) {
      const place = { ...this.#lines.place(), line: this.#lines.number + 1 };
      throw failureAt('syntax.incomplete', place, `the dump ends before ${wanted}`);
    }
  }

  #sum(): void {
    const { line: bytes } = this.#lines;
    this.#crc = crc32(bytes, 0, bytes.length, this.#crc);
    this.#crc = crc32(LINE_END, 0, 1, this.#crc);
  }

  /** Reads the first two lines. */
  async head(): Promise<void> {
    const place = { ...this.#lines.place(), line: 1 };
    if (!(await this.#lines.nextLine()) || this.#text() !== OWN_FIRST_LINE) {
      throw failureAt('syntax.unexpected', place, `a dump begins with "${OWN_FIRST_LINE}"`);
    }
    await this.#next('the line "file"');
    const { word, value } = headLine(this.#text(), this.#lines.place());
    if (word !== 'file') throw this.#unexpected('the line "file" should stand here');
    this.file = value as Partial<FileLayoutOptions>;
  }

  #unexpected(what: string): Error {
    return failureAt('syntax.unexpected', this.#lines.place(), what);
  }

  async *sections(): AsyncGenerator<Section> {
    if (this.file === undefined) await this.head();
    for (let count = 0; ; count++) {
      await this.#next('"complete"');
      this.#crc = 0;
      this.#sum();
      const first = headLine(this.#text(), this.#lines.place());
      if (first.word === 'complete') {
        await this.#complete(first, count);
        return;
      }
      if (first.word !== 'collection')
        throw this.#unexpected('"collection" or "complete" should stand here');
      yield await this.#section(first);
    }
  }

  async #complete(last: HeadLine, count: number): Promise<void> {
    const stated = last.value['sections'];
    if (stated !== count) {
      const what = `the dump says ${String(stated)} sections and has ${count}`;
      throw failureAt('syntax.checksum', this.#lines.place(), what);
    }
    while (await this.#lines.nextLine())
      if (this.#lines.line.length > 0) throw this.#unexpected('something stands behind "complete"');
  }

  async #section(first: HeadLine): Promise<Section> {
    const head = new SectionHead();
    head.take(first);
    for (;;) {
      await this.#next('"records"');
      this.#sum();
      const next = headLine(this.#text(), this.#lines.place());
      if (next.word === 'records') break;
      if (next.word === 'collection' || !head.take(next))
        throw this.#unexpected(`"${next.word}" cannot stand before "records"`);
    }
    const { definition, indexes } = head.complete(this.#lines.place());
    return {
      name: definition.name,
      shape: 'records',
      definition,
      indexes,
      entries: (target) => this.#entries(target),
    };
  }

  async *#entries(target: CollectionDefinition): AsyncGenerator<Pair | RecordFields> {
    const lines = this.#lines;
    for (let count = 0; ; count++) {
      if (!lines.tryLine()) await this.#next('"end"');
      const first = lines.line[0];
      if (first !== 0x7b && first !== 0x5b) {
        this.#end(count);
        return;
      }
      this.#sum();
      const place = lines.place();
      yield ownEntry(target, parseJson(this.#text(), place, { revive }), place);
    }
  }

  #end(count: number): void {
    const { word, value } = headLine(this.#text(), this.#lines.place());
    if (word !== 'end') throw this.#unexpected('a record or "end" should stand here');
    const fail = (what: string): Error =>
      failureAt('syntax.checksum', this.#lines.place(), `the section ${what}`);
    if (value['records'] !== count)
      throw fail(`says ${String(value['records'])} records and has ${count}`);
    if (value['crc32'] !== crcText(this.#crc))
      throw fail(`says the checksum ${String(value['crc32'])} and has ${crcText(this.#crc)}`);
  }
}

const LINE_END = Uint8Array.of(10);
