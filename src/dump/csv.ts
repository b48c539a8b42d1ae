/**
 * CSV as RFC 4180 has it: fields, quotes doubled inside quotes, line breaks inside quotes.
 *
 * Strict where leniency loses data: a quote stands around a whole field or nowhere, and records
 * end all with LF or all with CR LF. Whether a field was quoted is kept: an empty field is null,
 * an empty text is `""`. Memory: one record, at most 16 Mi characters while a quote is open.
 */
import { failureAt, type Place } from './failures.ts';
import type { LineReader } from './line-reader.ts';
import { requireText, withoutMark } from './utf8.ts';

/** Characters of the longest record over several lines: an open quote swallows all that follows. */
const RECORD_LENGTH_MAX = 16 * 2 ** 20;

/** Pieces joined before they are many: an open quote takes in hundreds of thousands of lines. */
const PIECES_JOINED = 1024;

/** A text that is made of many pieces, in little more memory than its characters take. */
class Pieces {
  length = 0;
  readonly #joined: string[] = [];
  #last: string[] = [];

  add(piece: string): void {
    this.length += piece.length;
    if (this.#last.push(piece) < PIECES_JOINED) return;
    this.#joined.push(this.#last.join(''));
    this.#last = [];
  }

  text(): string {
    return this.#joined.join('') + this.#last.join('');
  }
}

export interface CsvField {
  readonly text: string;
  readonly isQuoted: boolean;
  readonly place: Place;
}

export class CsvReader {
  readonly #lines: LineReader;
  readonly #delimiter: string;
  /** Line that the last record begins at. */
  firstLine = 0;
  /** The line that is being read, and the lines of the record before it, with what joins them. */
  #line = '';
  #before = new Pieces();
  #endsWithCr: boolean | undefined;

  constructor(lines: LineReader, delimiter: string) {
    this.#lines = lines;
    this.#delimiter = delimiter;
    lines.mayMixEnds = true;
  }

  /** The text of the last record, as it stands in the file. */
  get text(): string {
    return this.#before.text() + this.#line;
  }

  /** The fields of the next record; `undefined` at the end. */
  async next(): Promise<CsvField[] | undefined> {
    if (!this.#lines.tryLine() && !(await this.#lines.nextLine())) return undefined;
    this.firstLine = this.#lines.number;
    this.#line = this.#lineText();
    if (this.#before.length > 0) this.#before = new Pieces();
    const fields: CsvField[] = [];
    for (let at = 0; ;) {
      const { field, end } = this.#line[at] === '"' ? await this.#quoted(at) : this.#plain(at);
      fields.push(field);
      if (end === this.#line.length) break;
      at = end + 1; // behind the delimiter; one at the end has an empty field behind it
    }
    this.#requireEnd();
    return fields;
  }

  #lineText(): string {
    const { line, number } = this.#lines;
    return requireText(number === 1 ? withoutMark(line) : line, this.#lines.place());
  }

  #place(at: number): Place {
    return this.#lines.place(at + 1);
  }

  /** A field without quotes: up to a delimiter or the end of the line. */
  #plain(from: number): { field: CsvField; end: number } {
    const found = this.#line.indexOf(this.#delimiter, from);
    const end = found < 0 ? this.#line.length : found;
    const value = this.#line.slice(from, end);
    const quote = value.indexOf('"');
    if (quote >= 0) {
      const what = 'a quote stands inside a field that does not begin with one';
      throw failureAt('syntax.unexpected', this.#place(from + quote), what, {
        hint: 'A field with quotes is written in quotes, its own doubled: "say ""hello""".',
      });
    }
    return { field: { text: value, isQuoted: false, place: this.#place(from) }, end };
  }

  /** A field in quotes, over as many lines as it has. */
  async #quoted(from: number): Promise<{ field: CsvField; end: number }> {
    const place = this.#place(from);
    const parts = new Pieces();
    for (let at = from + 1; ;) {
      const quote = this.#line.indexOf('"', at);
      if (quote < 0) {
        parts.add(this.#line.slice(at));
        parts.add(await this.#joinLine(place));
        at = 0;
        continue;
      }
      parts.add(this.#line.slice(at, quote));
      const next = this.#line[quote + 1];
      if (next === '"') {
        parts.add('"');
        at = quote + 2;
        continue;
      }
      if (next !== undefined && next !== this.#delimiter) throw this.#notClosed(place, quote + 1);
      return { field: { text: parts.text(), isQuoted: true, place }, end: quote + 1 };
    }
  }

  /** What stands behind a closing quote: if the field began lines ago, the fault is there. */
  #notClosed(opening: Place, at: number): Error {
    const wrong = this.#place(at);
    const found = JSON.stringify(this.#line[at]);
    if (wrong.line === opening.line)
      return failureAt('syntax.unexpected', wrong, `${found} stands behind a closing quote`);
    const what =
      `the quote that opens here closes only at line ${wrong.line}, column ${wrong.column - 1}, ` +
      `where ${found} stands behind it`;
    return failureAt('syntax.unexpected', opening, what, { detail: { wrongLine: wrong.line } });
  }

  /** Goes to the next line of the record; answers what joins it to the one before. */
  async #joinLine(opening: Place): Promise<string> {
    const join = this.#lines.endsWithCr ? '\r\n' : '\n';
    this.#before.add(this.#line);
    this.#before.add(join);
    if (this.#before.length > RECORD_LENGTH_MAX) {
      const what = `the quote that opens here is open for ${RECORD_LENGTH_MAX} characters`;
      throw failureAt('syntax.unexpected', opening, what);
    }
    if (this.#lines.isEnded && (this.#lines.tryLine() || (await this.#lines.nextLine()))) {
      this.#line = this.#lineText();
      return join;
    }
    throw failureAt('syntax.incomplete', opening, 'the quote that opens here is never closed');
  }

  #requireEnd(): void {
    const { isEnded, endsWithCr } = this.#lines;
    if (!isEnded) return;
    this.#endsWithCr ??= endsWithCr;
    if (this.#endsWithCr === endsWithCr) return;
    const [has, had] = endsWithCr ? ['CR LF', 'LF'] : ['LF', 'CR LF'];
    const what = `the record ends with ${has}, those before with ${had}`;
    throw failureAt('syntax.unexpected', this.#place(this.#line.length), what, {
      hint: 'Give all records the same end, as the file had where it was made.',
    });
  }
}

/** A field as it is written: in quotes where it needs them, or where it would be read as null. */
export function csvField(text: string, delimiter: string, nullText: string): string {
  const isPlain =
    text !== nullText &&
    text !== '' &&
    !text.includes(delimiter) &&
    !text.includes('"') &&
    !text.includes('\n') &&
    !text.includes('\r');
  return isPlain ? text : `"${text.replaceAll('"', '""')}"`;
}
