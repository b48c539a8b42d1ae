/**
 * JSON Lines and CSV: texts that name no schema, whose records are read by that of the target.
 *
 * Faults of single values can be given to `onReject`, and the reading goes on behind the record;
 * faults of the text itself (quotes, line ends, UTF-8) end it: what follows cannot be trusted.
 */
import {
  type CollectionDefinition,
  DatabaseError,
  type FieldDefinition,
  type RecordFields,
  type Value,
} from '../index.ts';
import { CsvReader, type CsvField } from './csv.ts';
import { failure, failureAt, type Place } from './failures.ts';
import { fromJson, fromText, nullOf, recordFromJson, unknownField } from './field-values.ts';
import { parseJson, setOwn, type JsonOptions } from './json.ts';
import type { LineReader } from './line-reader.ts';
import { liveFields } from './own-format.ts';
import type { Pair, Section, SectionReader } from './section.ts';
import { requireText, withoutMark } from './utf8.ts';

/** A record that was left out, and why. */
export interface Reject {
  readonly line: number;
  readonly column: number;
  readonly code: string;
  readonly message: string;
  /** The record as it stands in the text. */
  readonly text: string;
}

export type OnReject = ((reject: Reject) => void) | undefined;

/** Gives a fault of one record to `onReject`, or throws it. */
export function reject(cause: unknown, text: string, onReject: OnReject): void {
  const isOfRecord =
    cause instanceof DatabaseError &&
    cause.position !== undefined &&
    cause.code !== 'syntax.encoding';
  if (onReject === undefined || !isOfRecord) throw cause;
  const { line, column } = cause.position!;
  onReject({ line, column, code: cause.code, message: cause.message, text });
}

/** The field that a collection gives a value itself. */
function idFieldOf({ key, form }: CollectionDefinition): string | undefined {
  return key.kind === 'integer' && form === 'record' ? key.field : undefined;
}

export interface JsonLinesOptions {
  readonly json: JsonOptions;
  /** Whether each line is a value, stored under its number. */
  readonly isNumbered: boolean;
  readonly onReject: OnReject;
}

export class JsonLinesReader implements SectionReader {
  readonly #lines: LineReader;
  readonly #options: JsonLinesOptions;

  constructor(lines: LineReader, options: JsonLinesOptions) {
    this.#lines = lines;
    this.#options = options;
  }

  place(): Place {
    return this.#lines.place();
  }

  close(): void {
    this.#lines.close();
  }

  async *sections(): AsyncGenerator<Section> {
    yield { name: undefined, shape: 'records', entries: (target) => this.#entries(target) };
  }

  async *#entries(target: CollectionDefinition): AsyncGenerator<Pair | RecordFields> {
    const lines = this.#lines;
    const { onReject } = this.#options;
    const read = entryReader(target, this.#options.isNumbered);
    while (lines.tryLine() || (await lines.nextLine())) {
      const { number, line } = lines;
      const text = requireText(number === 1 ? withoutMark(line) : line, lines.place());
      if (/^[ \t\r]*$/.test(text)) continue;
      let entry: Pair | RecordFields;
      try {
        entry = read(parseJson(text, lines.place(), this.#options.json), lines.place(), number);
      } catch (cause) {
        reject(cause, text, onReject);
        continue;
      }
      yield entry;
    }
  }
}

type ReadValue = (value: Value, place: Place, number: number) => Pair | RecordFields;

/** What makes entries of values: records or, `isNumbered`, the values under their numbers. */
export function entryReader(target: CollectionDefinition, isNumbered: boolean): ReadValue {
  return isNumbered ? numberedReader(target) : objectReader(target);
}

/** A value under the number of its line or place. */
function numberedReader(target: CollectionDefinition): ReadValue {
  const [key, value] = liveFields(target);
  if (target.form !== 'bucket' || key!.type !== 'int')
    throw failure('usage.argument', `${target.name} is no bucket of values under integers`);
  return (given, place, number) => [number, fromJson(value!, given, place)!];
}

/** A record, or an entry as an object of `key` and `value`. */
function objectReader(target: CollectionDefinition): ReadValue {
  const fields = liveFields(target);
  const idField = idFieldOf(target);
  return (given, place) => {
    const record = recordFromJson(fields, target.open, idField, given, place);
    return target.form === 'bucket' ? [record['key']!, record['value']!] : record;
  };
}

// CSV.

export interface CsvTextOptions {
  /** Names of the columns where the text has no header. */
  readonly columns: readonly string[] | undefined;
  readonly delimiter: string;
  /** What stands, without quotes, for null. */
  readonly nullText: string;
  readonly onReject: OnReject;
}

export class CsvTextReader implements SectionReader {
  readonly #lines: LineReader;
  readonly #csv: CsvReader;
  readonly #options: CsvTextOptions;

  constructor(lines: LineReader, options: CsvTextOptions) {
    this.#lines = lines;
    this.#csv = new CsvReader(lines, options.delimiter);
    this.#options = options;
  }

  /** The record that was read last begins there. */
  place(): Place {
    return { ...this.#lines.place(), line: this.#csv.firstLine };
  }

  close(): void {
    this.#lines.close();
  }

  async *sections(): AsyncGenerator<Section> {
    yield { name: undefined, shape: 'records', entries: (target) => this.#entries(target) };
  }

  async *#entries(target: CollectionDefinition): AsyncGenerator<Pair | RecordFields> {
    const csv = this.#csv;
    const columns = await this.#columns(liveFields(target), idFieldOf(target));
    const { nullText, onReject } = this.#options;
    for (;;) {
      const row = await csv.next();
      if (row === undefined) return;
      if (row.length === 1 && columns.length > 1 && csv.text === '') continue;
      let record: RecordFields;
      try {
        record = recordOf(columns, row, nullText, this.place());
      } catch (cause) {
        reject(cause, csv.text, onReject);
        continue;
      }
      yield target.form === 'bucket' ? [record['key']!, record['value']!] : record;
    }
  }

  /** The field of each column, from the header or the option. */
  async #columns(
    fields: readonly FieldDefinition[],
    idField: string | undefined,
  ): Promise<FieldDefinition[]> {
    let { columns: names } = this.#options;
    let places: Place[] = [];
    if (names === undefined) {
      const header = await this.#csv.next();
      if (header === undefined)
        throw failureAt('syntax.incomplete', { ...this.place(), line: 1 }, 'the header is missing');
      names = header.map((each) => each.text);
      places = header.map((each) => each.place);
    }
    const place = (i: number): Place => places[i] ?? { ...this.#lines.place(), line: 1 };
    const columns = names.map((name, i) => {
      if (names.indexOf(name) < i)
        throw failureAt('syntax.duplicate_name', place(i), `two columns are named "${name}"`);
      const field = fields.find((each) => each.name === name);
      if (field === undefined) throw unknownField(name, fields, place(i));
      return field;
    });
    for (const field of fields) {
      const isFilled = field.optional || field.initial !== undefined || field.type === 'any';
      if (isFilled || field.name === idField || columns.includes(field)) continue;
      const what = `no column is named "${field.name}", which must have a value`;
      throw failureAt('constraint.required', place(0), what, { detail: { field: field.name } });
    }
    return columns;
  }
}

function recordOf(
  columns: readonly FieldDefinition[],
  row: readonly CsvField[],
  nullText: string,
  start: Place,
): RecordFields {
  if (row.length !== columns.length) {
    const what = `${row.length} fields stand where there are ${columns.length} columns`;
    throw failureAt('syntax.unexpected', row[columns.length]?.place ?? start, what);
  }
  const record: RecordFields = {};
  for (let i = 0; i < columns.length; i++) {
    const { text, isQuoted, place } = row[i]!;
    const field = columns[i]!;
    const value =
      !isQuoted && text === nullText ? nullOf(field, text, place) : fromText(field, text, place);
    if (value !== undefined) setOwn(record, field.name, value);
  }
  return record;
}
