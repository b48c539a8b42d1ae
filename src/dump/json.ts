/**
 * JSON as RFC 8259 has it, read strictly, with the place of what is wrong.
 *
 * What `JSON.parse` does not do, and why this is not it:
 *
 *   numbers     without a point or exponent they are integers of 64 bits, exact; with one they are
 *               floats and keep that kind (`5.0` is `float(5)`); what neither holds is refused, or
 *               by option made the nearest float or kept as the text of its digits
 *   names       one that stands twice in an object is refused, or by option the last counts
 *   texts       `\ud800` without its other half is refused: it is no UTF-8
 *   nesting     deeper than 500 levels is refused: it could not be stored
 *
 * A byte order mark is skipped at the start of a file by whoever reads the file, and is wrong
 * anywhere else.
 */
import { VALUE_DEPTH_MAX } from '../limits.ts';
import { Float, type Value } from '../index.ts';
import { failure, failureAt, type Place } from './failures.ts';
import { requireText, withoutMark } from './utf8.ts';

export interface JsonOptions {
  /** What becomes of numbers that neither an integer of 64 bits nor a float holds. */
  readonly numbers?: 'exact' | 'nearest' | 'text';
  /** What becomes of a name that an object has twice. */
  readonly duplicateNames?: 'refuse' | 'last';
  /** What an object stands for, if not for itself. */
  readonly revive?: (map: Record<string, Value>, name: string) => Value | undefined;
}

const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
/** What a text cannot have as it stands. */
// eslint-disable-next-line no-control-regex
const NOT_PLAIN = /[\\\u0000-\u001f]/;
const LONE_SURROGATE = /\p{Surrogate}/u;
const INT64_MIN = -(2n ** 63n);
const INT64_MAX = 2n ** 63n - 1n;
const ESCAPES: Readonly<Record<string, string>> = {
  '"': '"',
  '\\': '\\',
  '/': '/',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
};

const NOWHERE: Place = { file: 'text', line: 1, column: 1 };

/**
 * The value of a JSON text that begins at a place.
 *
 * @throws {ParseError} syntax.unexpected, syntax.incomplete, syntax.duplicate_name
 * @throws {ValueError} value.out_of_range, value.text, value.size
 */
export function parseJson(text: string, start: Place = NOWHERE, options: JsonOptions = {}): Value {
  if (typeof text !== 'string') throw failure('usage.argument', 'parseJson takes a text');
  const parser = new JsonParser(text, start, options);
  return parser.whole();
}

/**
 * As `parseJson`, of bytes: UTF-8, with or without a byte order mark.
 *
 * @throws {ParseError} syntax.encoding, too.
 */
export function parseJsonBytes(
  bytes: Uint8Array,
  start: Place = NOWHERE,
  options: JsonOptions = {},
): Value {
  if (!(bytes instanceof Uint8Array)) throw failure('usage.argument', 'parseJsonBytes takes bytes');
  return parseJson(requireText(withoutMark(bytes), start), start, options);
}

class JsonParser {
  /** Where the next character is. */
  at = 0;
  readonly #text: string;
  readonly #start: Place;
  readonly #options: JsonOptions;

  constructor(text: string, start: Place, options: JsonOptions) {
    this.#text = text;
    this.#start = start;
    this.#options = options;
  }

  /** The value that the whole text is. */
  whole(): Value {
    this.space();
    const value = this.value(0);
    this.space();
    if (this.at < this.#text.length) throw this.#unexpected('the end of the text');
    return value;
  }

  /** The place of a position in the text. */
  place(at = this.at): Place {
    const { file, line, column } = this.#start;
    const before = this.#text.slice(0, at);
    const lastBreak = before.lastIndexOf('\n');
    if (lastBreak < 0) return { file, line, column: column + at };
    return { file, line: line + before.split('\n').length - 1, column: at - lastBreak };
  }

  #unexpected(wanted: string): Error {
    if (this.at >= this.#text.length)
      return failureAt('syntax.incomplete', this.place(), `the text ends before ${wanted}`);
    const found = String.fromCodePoint(this.#text.codePointAt(this.at)!);
    return failureAt(
      'syntax.unexpected',
      this.place(),
      `${JSON.stringify(found)} stands where ${wanted} should be`,
    );
  }

  space(): void {
    const text = this.#text;
    for (;;) {
      const code = text.charCodeAt(this.at);
      if (code !== 32 && code !== 10 && code !== 13 && code !== 9) return;
      this.at++;
    }
  }

  /** A value at the current position. */
  value(depth: number): Value {
    switch (this.#text.charCodeAt(this.at)) {
      case 0x22:
        return this.text();
      case 0x7b:
        return this.#map(depth);
      case 0x5b:
        return this.#list(depth);
      case 0x74:
        return this.#word('true', true);
      case 0x66:
        return this.#word('false', false);
      case 0x6e:
        return this.#word('null', null);
      default:
        return this.#number();
    }
  }

  #word(word: string, value: Value): Value {
    for (const letter of word) {
      if (this.#text[this.at] !== letter) throw this.#unexpected(`"${word}"`);
      this.at++;
    }
    return value;
  }

  #number(): Value {
    NUMBER.lastIndex = this.at;
    const match = NUMBER.exec(this.#text);
    if (match === null) throw this.#unexpected('a value');
    const [digits, fraction, exponent] = match;
    const value =
      fraction === undefined && exponent === undefined
        ? this.#integer(digits)
        : this.#float(digits);
    this.at += digits.length;
    return value;
  }

  #integer(digits: string): Value {
    const near = Number(digits);
    if (Number.isSafeInteger(near)) return near;
    const exact = BigInt(digits);
    if (exact >= INT64_MIN && exact <= INT64_MAX) return exact;
    return this.#other(digits, near, `${digits} is beyond integers of 64 bits`);
  }

  #float(digits: string): Value {
    const near = Number(digits);
    if (!Number.isFinite(near))
      return this.#other(digits, near, `${digits} is beyond what a float holds`);
    return Number.isSafeInteger(near) && !Object.is(near, -0) ? new Float(near) : near;
  }

  #other(digits: string, near: number, what: string): Value {
    const { numbers = 'exact' } = this.#options;
    if (numbers === 'text') return digits;
    if (numbers === 'nearest') return near;
    const shown = what.length > 90 ? `${what.slice(0, 40)}…${what.slice(-40)}` : what;
    throw failureAt('value.out_of_range', this.place(), shown, {
      hint: 'Load with `numbers` "text" to keep its digits, or "nearest" for the nearest float.',
    });
  }

  /** A text in quotes. */
  text(): string {
    const start = this.at + 1;
    const end = this.#text.indexOf('"', start);
    if (end >= 0) {
      const slice = this.#text.slice(start, end);
      if (!NOT_PLAIN.test(slice)) {
        this.at = end + 1;
        return slice;
      }
    }
    return this.#escapedText();
  }

  #escapedText(): string {
    const from = this.at++;
    let value = '';
    for (;;) {
      const letter = this.#text[this.at];
      if (letter === '"') break;
      if (letter === undefined || letter < ' ') throw this.#unexpected('the end of a text');
      this.at++;
      value += letter === '\\' ? this.#escape() : letter;
    }
    this.at++;
    if (!LONE_SURROGATE.test(value)) return value;
    throw failureAt('value.text', this.place(from), 'the text has half of a surrogate pair');
  }

  #escape(): string {
    const letter = this.#text[this.at];
    const plain = letter === undefined ? undefined : ESCAPES[letter];
    if (plain !== undefined) {
      this.at++;
      return plain;
    }
    if (letter !== 'u') throw this.#unexpected('the letter of an escape');
    this.at++;
    const hex = /^[0-9a-fA-F]{0,4}/.exec(this.#text.slice(this.at, this.at + 4))![0];
    this.at += hex.length;
    if (hex.length < 4) throw this.#unexpected('four hexadecimal digits');
    return String.fromCharCode(Number.parseInt(hex, 16));
  }

  #deeper(depth: number): void {
    this.at++;
    // A record has levels of its own around a value; a form of one may take three levels of text.
    const levels = VALUE_DEPTH_MAX * (this.#options.revive === undefined ? 1 : 3);
    if (depth <= levels + 2) return;
    const what = `nested deeper than ${VALUE_DEPTH_MAX} levels`;
    throw failureAt('value.size', this.place(this.at - 1), what);
  }

  #list(depth: number): Value {
    this.#deeper(depth);
    const list: Value[] = [];
    this.space();
    if (this.#takes(']')) return list;
    for (;;) {
      this.space();
      list.push(this.value(depth + 1));
      this.space();
      if (this.#takes(']')) return list;
      if (!this.#takes(',')) throw this.#unexpected('"," or "]"');
    }
  }

  #map(depth: number): Value {
    const from = this.at;
    this.#deeper(depth);
    const map: Record<string, Value> = {};
    let only: string | undefined;
    let count = 0;
    this.space();
    if (this.#takes('}')) return map;
    for (;;) {
      this.space();
      const nameAt = this.at;
      if (this.#text[this.at] !== '"') throw this.#unexpected('a name in quotes');
      const name = this.text();
      if (Object.hasOwn(map, name) && this.#options.duplicateNames !== 'last') {
        const what = `the name ${JSON.stringify(name)} stands twice in an object`;
        throw failureAt('syntax.duplicate_name', this.place(nameAt), what);
      }
      this.space();
      if (!this.#takes(':')) throw this.#unexpected('":"');
      this.space();
      setOwn(map, name, this.value(depth + 1));
      only = name;
      count++;
      this.space();
      if (this.#takes('}')) break;
      if (!this.#takes(',')) throw this.#unexpected('"," or "}"');
    }
    const { revive } = this.#options;
    if (revive === undefined || count !== 1 || !only.startsWith('$')) return map;
    return this.#revived(revive, map, only, from);
  }

  #revived(
    revive: NonNullable<JsonOptions['revive']>,
    map: Record<string, Value>,
    name: string,
    from: number,
  ): Value {
    const what = `{${JSON.stringify(name)}: …} stands for no value`;
    let value: Value | undefined;
    try {
      value = revive(map, name);
    } catch (cause) {
      throw failureAt('syntax.unexpected', this.place(from), what, { cause });
    }
    if (value === undefined) throw failureAt('syntax.unexpected', this.place(from), what);
    return value;
  }

  #takes(letter: string): boolean {
    if (this.#text[this.at] !== letter) return false;
    this.at++;
    return true;
  }
}

/** Sets a field as the map's own, whatever its name. */
export function setOwn(map: Record<string, Value>, name: string, value: Value): void {
  if (name !== '__proto__') map[name] = value;
  else
    Object.defineProperty(map, name, {
      value,
      enumerable: true,
      configurable: true,
      writable: true,
    });
}
