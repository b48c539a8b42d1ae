/**
 * A whole JSON document as records: a list of them, or an object of lists, each a section of its
 * name. Read in one pass, in memory for one chunk and one element, whatever the document's size.
 *
 *   [ element, … ]                      one section without a name
 *   { "name": [ element, … ], … }       a section a name; with `list` that one, others are passed
 *
 * The scanner only finds where an element ends, by counting brackets outside of texts; `json.ts`
 * reads it and says what is wrong in it. An element whose brackets do not fit ends too early or
 * with the text, and is refused there.
 */
import type { CollectionDefinition, RecordFields, Value } from '../index.ts';
import { VALUE_DEPTH_MAX } from '../limits.ts';
import { ChunkSource, type ByteChunks } from './chunk-source.ts';
import { failureAt, type Place } from './failures.ts';
import { parseJson, type JsonOptions } from './json.ts';
import type { Pair, Section, SectionReader } from './section.ts';
import { entryReader, reject, type OnReject } from './table-text.ts';
import { requireText } from './utf8.ts';

/** Bytes of the longest element: a JavaScript text is no longer. */
const ELEMENT_BYTES_MAX = 500 * 2 ** 20;
/** Brackets that may be open: more than any value has, so that `json.ts` refuses it. */
const DEPTH_MAX = 3 * VALUE_DEPTH_MAX + 4;

const [LF, QUOTE, COMMA, COLON, BACKSLASH] = [0x0a, 0x22, 0x2c, 0x3a, 0x5c];
const [LIST, LIST_END, MAP, MAP_END] = [0x5b, 0x5d, 0x7b, 0x7d];
const NOTHING = new Uint8Array(0);

const isSpace = (byte: number): boolean =>
  byte === 0x20 || byte === LF || byte === 0x0d || byte === 0x09;
const endsWord = (byte: number): boolean =>
  isSpace(byte) || byte === COMMA || byte === COLON || byte === QUOTE;

/** Goes through the bytes of a document, value by value. */
class JsonScanner {
  readonly file: string;
  /** Bytes that were read of the value last gone through, with where it began. */
  start: Place;
  #line = 1;
  #column = 1;
  readonly #source: ChunkSource;
  #buffer: Uint8Array = NOTHING;
  #offset = 0;
  // Where the value that is gone through stands: open brackets, inside a text, behind a backslash.
  #depth = 0;
  #isInText = false;
  #isEscaped = false;

  constructor(chunks: ByteChunks, file: string, onChunk?: (bytesRead: number) => void) {
    this.file = file;
    this.#source = new ChunkSource(chunks, file, onChunk);
    this.start = this.place();
  }

  /** The place of the next byte. */
  place(): Place {
    return { file: this.file, line: this.#line, column: this.#column };
  }

  /** Skips the byte order mark that a file may begin with. */
  async skipMark(): Promise<void> {
    while (this.#buffer.length < 3 && (await this.#fill()));
    const [first, second, third] = this.#buffer;
    if (first === 0xef && second === 0xbb && third === 0xbf) this.#offset = 3;
  }

  /** The next byte that is no space, which stays next; `undefined` at the end. */
  async peek(): Promise<number | undefined> {
    for (;;) {
      while (this.#offset < this.#buffer.length) {
        const byte = this.#buffer[this.#offset]!;
        if (!isSpace(byte)) return byte;
        this.#pass(this.#offset + 1);
      }
      if (!(await this.#fill())) return undefined;
    }
  }

  /** Takes the next byte, which is no space, if it is this one. */
  async takes(byte: number): Promise<boolean> {
    if ((await this.peek()) !== byte) return false;
    this.#pass(this.#offset + 1);
    return true;
  }

  async unexpected(wanted: string): Promise<Error> {
    if ((await this.peek()) === undefined)
      return failureAt('syntax.incomplete', this.place(), `the text ends before ${wanted}`);
    const found = String.fromCharCode(this.#buffer[this.#offset]!);
    const what = `${JSON.stringify(found)} stands where ${wanted} should be`;
    return failureAt('syntax.unexpected', this.place(), what);
  }

  /** The text of the next value, as far as its brackets say; `start` is where it began. */
  async value(): Promise<string> {
    await this.#begin();
    const parts: Uint8Array[] = [];
    let bytes = 0;
    for (;;) {
      const from = this.#offset;
      const isWhole = this.#scan();
      const part = this.#buffer.subarray(from, this.#offset);
      bytes += part.length;
      if (bytes > ELEMENT_BYTES_MAX) {
        const what = `the value is longer than ${ELEMENT_BYTES_MAX} bytes`;
        throw failureAt('value.size', this.start, what);
      }
      if (isWhole && parts.length === 0) return requireText(part, this.start);
      parts.push(part);
      if (isWhole || !(await this.#fill())) break;
    }
    return requireText(Buffer.concat(parts), this.start);
  }

  /** Goes past the next value, whatever its size. */
  async skip(): Promise<void> {
    await this.#begin();
    while (!this.#scan()) if (!(await this.#fill())) return;
  }

  async #begin(): Promise<void> {
    await this.peek();
    this.start = this.place();
    this.#depth = 0;
    this.#isInText = this.#isEscaped = false;
  }

  /** Goes on to the end of the value, and says whether that was in the buffer. */
  #scan(): boolean {
    const buffer = this.#buffer;
    const first = this.start.line === this.#line && this.start.column === this.#column;
    for (let at = this.#offset; at < buffer.length; at++) {
      const byte = buffer[at]!;
      if (this.#isInText) {
        if (this.#isEscaped) this.#isEscaped = false;
        else if (byte === BACKSLASH) this.#isEscaped = true;
        else if (byte === QUOTE) {
          this.#isInText = false;
          if (this.#depth === 0) return this.#pass(at + 1);
        }
        continue;
      }
      const isFirst = first && at === this.#offset;
      if (byte === MAP || byte === LIST) {
        if (++this.#depth > DEPTH_MAX) return this.#pass(at + 1);
      } else if (byte === MAP_END || byte === LIST_END) {
        // One that nothing opened ends the word before it, or is itself what is wrong.
        if (this.#depth === 0) return this.#pass(isFirst ? at + 1 : at);
        if (--this.#depth === 0) return this.#pass(at + 1);
      } else if (this.#depth === 0 && !isFirst && endsWord(byte)) return this.#pass(at);
      else if (byte === QUOTE) this.#isInText = true;
      else if (isFirst && (byte === COMMA || byte === COLON)) return this.#pass(at + 1);
    }
    this.#pass(buffer.length);
    return false;
  }

  /** Moves to an offset of the buffer, counting lines, and columns as a text has them. */
  #pass(to: number): true {
    const buffer = this.#buffer;
    for (let at = this.#offset; at < to; at++) {
      const byte = buffer[at]!;
      if (byte === LF) {
        this.#line++;
        this.#column = 1;
      } else if ((byte & 0xc0) !== 0x80) this.#column += byte >= 0xf0 ? 2 : 1;
    }
    this.#offset = to;
    return true;
  }

  /** Takes the next chunk behind what is left; false at the end. */
  async #fill(): Promise<boolean> {
    const next = await this.#source.next();
    if (next === undefined) return false;
    const rest = this.#buffer.subarray(this.#offset);
    this.#buffer = rest.length === 0 ? next : Buffer.concat([rest, next]);
    this.#offset = 0;
    return true;
  }

  /** Lets the source go; not waited for, since it may hang. */
  close(): void {
    this.#source.close();
  }
}

export interface JsonDocumentOptions {
  readonly json: JsonOptions;
  /** The name of the list that is read, where the document is an object. */
  readonly list: string | undefined;
  /** Whether each element is a value, stored under its number. */
  readonly isNumbered: boolean;
  readonly onReject: OnReject;
}

export class JsonDocumentReader implements SectionReader {
  readonly #scanner: JsonScanner;
  readonly #options: JsonDocumentOptions;

  constructor(
    chunks: ByteChunks,
    file: string,
    options: JsonDocumentOptions,
    onChunk?: (bytesRead: number) => void,
  ) {
    this.#scanner = new JsonScanner(chunks, file, onChunk);
    this.#options = options;
  }

  /** The element that was read last begins there. */
  place(): Place {
    return this.#scanner.start;
  }

  close(): void {
    this.#scanner.close();
  }

  async *sections(): AsyncGenerator<Section> {
    const scanner = this.#scanner;
    await scanner.skipMark();
    if (this.#options.list === undefined && (await scanner.takes(LIST)))
      yield this.#section(undefined);
    else if (await scanner.takes(MAP)) yield* this.#lists();
    else {
      const { list } = this.#options;
      throw await scanner.unexpected(list === undefined ? '"[" or "{"' : '"{"');
    }
    if ((await scanner.peek()) !== undefined) throw await scanner.unexpected('the end of the text');
  }

  #section(name: string | undefined): Section {
    return { name, shape: 'records', entries: (target) => this.#entries(target) };
  }

  /** Sections of an object of lists. */
  async *#lists(): AsyncGenerator<Section> {
    const scanner = this.#scanner;
    const { list } = this.#options;
    const names = new Set<string>();
    if (!(await scanner.takes(MAP_END)))
      do {
        if ((await scanner.peek()) !== QUOTE) throw await scanner.unexpected('a name in quotes');
        const name = parseJson(await scanner.value(), scanner.start) as string;
        const place = scanner.start;
        if (!(await scanner.takes(COLON))) throw await scanner.unexpected('":"');
        if (list !== undefined && name !== list) {
          await scanner.skip();
          continue;
        }
        if (names.has(name)) {
          const what = `the name ${JSON.stringify(name)} stands twice in an object`;
          throw failureAt('syntax.duplicate_name', place, what);
        }
        names.add(name);
        if (!(await scanner.takes(LIST))) throw await this.#notList(name);
        yield this.#section(name);
      } while (await this.#goesOn(MAP_END, '"," or "}"'));
    if (list === undefined || names.size > 0) return;
    const what = `the document has no list ${JSON.stringify(list)}`;
    throw failureAt('syntax.unexpected', scanner.place(), what);
  }

  async #notList(name: string): Promise<Error> {
    if ((await this.#scanner.peek()) === undefined) return await this.#scanner.unexpected('a list');
    const what = `${JSON.stringify(name)} is no list of records`;
    return failureAt('syntax.unexpected', this.#scanner.place(), what, {
      hint: 'Name the list that has the records: `list`, on the command line --list NAME.',
    });
  }

  /** Whether a comma stands next, rather than the end of a list or object. */
  async #goesOn(end: number, wanted: string): Promise<boolean> {
    if (await this.#scanner.takes(COMMA)) return true;
    if (await this.#scanner.takes(end)) return false;
    throw await this.#scanner.unexpected(wanted);
  }

  async *#entries(target: CollectionDefinition): AsyncGenerator<Pair | RecordFields> {
    const scanner = this.#scanner;
    const { onReject, isNumbered } = this.#options;
    const read = entryReader(target, isNumbered);
    let number = 0;
    if (await scanner.takes(LIST_END)) return;
    do {
      const text = await scanner.value();
      const { start } = scanner;
      let entry: Pair | RecordFields | undefined;
      try {
        entry = read(this.#parsed(text, start), start, ++number);
      } catch (cause) {
        await this.#requireElement(cause);
        reject(cause, text, onReject);
      }
      if (entry !== undefined) yield entry;
    } while (await this.#goesOn(LIST_END, '"," or "]"'));
  }

  /** Rethrows what is wrong with brackets and words: where the next element begins is not known. */
  async #requireElement(cause: unknown): Promise<void> {
    const { code } = cause as { readonly code?: unknown };
    if (code === 'syntax.incomplete' && (await this.#scanner.peek()) !== undefined)
      throw await this.#scanner.unexpected('the rest of a value');
    if (code === 'syntax.incomplete' || code === 'syntax.unexpected') throw cause;
  }

  #parsed(text: string, start: Place): Value {
    return parseJson(text, start, this.#options.json);
  }
}
