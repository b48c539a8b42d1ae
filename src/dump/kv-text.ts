/**
 * The text form of Berkeley DB's `db_dump` and LMDB's `mdb_dump`, versions 3.
 *
 *   VERSION=3
 *   format=bytevalue         or print
 *   database=NAME            only where a file has several
 *   type=btree               hash, recno, queue
 *   …=…
 *   HEADER=END
 *    6b6579                  a space, then a key: hex, or printable text with \xx and \\
 *    76616c7565              the value
 *   DATA=END
 *   VERSION=3 …              the next database
 *
 * A header with `mapsize` or `maxreaders` was written by mdb_dump, which writes a backslash as
 * itself (until 0.9.24 at least) or as `\5c`: there only the escape of a byte that it would escape
 * is one. Where its text leaves open what was meant, `\ba` is the byte, as mdb_load reads it.
 *
 * `recno` and `queue` have values only, unless `keys=1` says that decimal numbers stand before
 * them. `duplicates=1` says that a key may have several values; as a section it is a set of pairs.
 */
import type { CollectionDefinition, RecordFields } from '../index.ts';
import { failure, failureAt, type Place } from './failures.ts';
import type { LineReader } from './line-reader.ts';
import { rawConversion, type ToRaw } from './raw-values.ts';
import type { Pair, Section, SectionReader } from './section.ts';
import { textOf } from './utf8.ts';

type Encoding = 'bytevalue' | 'print';

interface Header {
  readonly encoding: Encoding | 'lmdb-print';
  readonly name: string | undefined;
  readonly isNumbered: boolean;
  readonly hasKeys: boolean;
  readonly isSet: boolean;
}

const SPACE = 0x20;
const BACKSLASH = 0x5c;

/** Value of each hexadecimal digit; 255 for what is none. */
const HEX_VALUES = new Uint8Array(256).fill(255);
for (let i = 0; i < 16; i++) {
  HEX_VALUES[i.toString(16).charCodeAt(0)] = i;
  HEX_VALUES[i.toString(16).toUpperCase().charCodeAt(0)] = i;
}

function isNotUpper(letter: number | undefined): boolean {
  return letter === undefined || letter < 0x41 || letter > 0x46;
}

function ascii(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');
}

export class KvTextReader implements SectionReader {
  readonly #lines: LineReader;

  constructor(lines: LineReader) {
    this.#lines = lines;
  }

  place(): Place {
    return this.#lines.place();
  }

  close(): void {
    this.#lines.close();
  }

  async *sections(): AsyncGenerator<Section> {
    let isFirst = true;
    while (await this.#lines.nextLine()) {
      const header = await this.#header();
      yield {
        name: header.name,
        shape: header.isNumbered ? 'numbered' : header.isSet ? 'pair set' : 'pairs',
        entries: (target) => this.#entries(header, target),
      };
      isFirst = false;
    }
    if (isFirst) throw this.#ends('"VERSION=3"');
  }

  #ends(wanted: string): Error {
    const place = { ...this.#lines.place(), line: this.#lines.number + 1 };
    return failureAt('syntax.incomplete', place, `the text ends before ${wanted}`);
  }

  /** Reads a header whose first line was read. */
  async #header(): Promise<Header> {
    const lines = this.#lines;
    if (ascii(lines.line) !== 'VERSION=3') {
      const what = 'a dump begins with "VERSION=3"';
      throw failureAt('syntax.unexpected', lines.place(), what, {
        hint: 'This is the text of db_dump or mdb_dump; other formats have other names.',
      });
    }
    const settings = new Map<string, string>();
    for (;;) {
      if (!(await lines.nextLine())) throw this.#ends('"HEADER=END"');
      const line = ascii(lines.line);
      if (line === 'HEADER=END') break;
      const at = line.indexOf('=');
      if (at < 1 || line.startsWith(' ')) {
        throw failureAt('syntax.unexpected', lines.place(), 'a header has lines "name=value"');
      }
      const name = line.slice(0, at);
      if (settings.has(name)) {
        throw failureAt('syntax.duplicate_name', lines.place(), `"${name}" stands twice`);
      }
      settings.set(name, line.slice(at + 1));
      this.#requireSetting(name, line.slice(at + 1), at + 2);
    }
    return this.#complete(settings);
  }

  #requireSetting(name: string, value: string, column: number): void {
    const allowed =
      name === 'format'
        ? ['bytevalue', 'print']
        : name === 'type'
          ? ['btree', 'hash', 'recno', 'queue']
          : [value];
    if (allowed.includes(value)) return;
    const what = `${name} is one of ${allowed.join(', ')}, not "${value}"`;
    throw failureAt('syntax.unexpected', this.#lines.place(column), what);
  }

  #complete(settings: ReadonlyMap<string, string>): Header {
    const encoding = settings.get('format');
    if (encoding === undefined) {
      throw failureAt('syntax.unexpected', this.#lines.place(), 'the header has no "format="');
    }
    const type = settings.get('type') ?? 'btree';
    const name = settings.get('database');
    const isNumbered = type === 'recno' || type === 'queue';
    const isLmdb = settings.has('mapsize') || settings.has('maxreaders');
    return {
      encoding: encoding === 'print' && isLmdb ? 'lmdb-print' : (encoding as Encoding),
      name: name === undefined ? undefined : this.#name(name),
      isNumbered,
      hasKeys: !isNumbered || settings.get('keys') === '1',
      isSet: settings.get('duplicates') === '1' || settings.get('dupsort') === '1',
    };
  }

  /** Berkeley DB escapes names as it does printable values, LMDB writes them as they are. */
  #name(latin: string): string {
    const bytes = Buffer.from(latin, 'latin1');
    const isEscaped = /^(?:[^\\]|\\\\|\\[0-9a-fA-F]{2})*$/.test(latin);
    const name = textOf(isEscaped ? this.#printed(bytes, 0) : bytes);
    if (name !== undefined && name !== '') return name;
    throw failureAt('syntax.encoding', this.#lines.place(), 'the name of a database is not UTF-8');
  }

  async *#entries(
    header: Header,
    target: CollectionDefinition,
  ): AsyncGenerator<Pair | RecordFields> {
    const lines = this.#lines;
    const conversion = rawConversion(target);
    const { encoding } = header;
    const read =
      encoding === 'bytevalue'
        ? this.#hex
        : encoding === 'print'
          ? this.#printed
          : this.#printedByLmdb;
    let count = 0;
    for (;;) {
      if (!lines.tryLine() && !(await lines.nextLine())) throw this.#ends('"DATA=END"');
      if (this.#isEnd()) return;
      count++;
      let key: Pair[0] = count;
      if (header.hasKeys) {
        key = conversion.key(read.call(this, lines.line, 1), lines.place(2));
        if (!lines.tryLine() && !(await lines.nextLine())) throw this.#ends('the value of a key');
        if (this.#isEnd()) {
          const what = '"DATA=END" stands where the value of a key should be';
          throw failureAt('syntax.unexpected', lines.place(), what);
        }
      }
      const value = conversion.value(read.call(this, lines.line, 1), lines.place(2));
      yield conversion.entry(key, value);
    }
  }

  /** Whether the line ends the data; what is neither that nor data is refused. */
  #isEnd(): boolean {
    const { line } = this.#lines;
    if (line[0] === SPACE) return false;
    if (line.length === 8 && ascii(line) === 'DATA=END') return true;
    const what = 'a line of data begins with a space, or is "DATA=END"';
    throw failureAt('syntax.unexpected', this.#lines.place(), what);
  }

  #hex(line: Uint8Array, from: number): Uint8Array {
    const digits = line.length - from;
    const bytes = new Uint8Array(digits >> 1);
    for (let i = 0, at = from; i < bytes.length; i++, at += 2) {
      const high = HEX_VALUES[line[at]!]!;
      const low = HEX_VALUES[line[at + 1]!]!;
      if ((high | low) > 15) throw this.#notHex(high > 15 ? at : at + 1);
      bytes[i] = (high << 4) | low;
    }
    if (digits % 2 === 0) return bytes;
    const what = `an odd number of hexadecimal digits, ${digits}`;
    throw failureAt('syntax.unexpected', this.#lines.place(line.length), what);
  }

  #notHex(at: number): Error {
    const found = JSON.stringify(String.fromCharCode(this.#lines.line[at] ?? 0));
    const what = `${found} is no hexadecimal digit`;
    return failureAt('syntax.unexpected', this.#lines.place(at + 1), what);
  }

  #printed(line: Uint8Array, from: number): Uint8Array {
    const bytes = new Uint8Array(line.length - from);
    let count = 0;
    for (let at = from; at < line.length; at++) {
      let byte = line[at]!;
      if (byte === BACKSLASH) {
        if (line[at + 1] === BACKSLASH) at++;
        else {
          const high = HEX_VALUES[line[at + 1] ?? 0]!;
          const low = HEX_VALUES[line[at + 2] ?? 0]!;
          if ((high | low) > 15) {
            const what = 'a backslash stands before another or two hexadecimal digits';
            throw failureAt('syntax.unexpected', this.#lines.place(at + 1), what);
          }
          byte = (high << 4) | low;
          at += 2;
        }
      }
      bytes[count++] = byte;
    }
    return bytes.subarray(0, count);
  }

  /** Escapes are those that mdb_dump writes; any other backslash is itself. */
  #printedByLmdb(line: Uint8Array, from: number): Uint8Array {
    const bytes = new Uint8Array(line.length - from);
    let count = 0;
    for (let at = from; at < line.length; at++) {
      let byte = line[at]!;
      if (byte === BACKSLASH) {
        const high = HEX_VALUES[line[at + 1] ?? 0]!;
        const low = HEX_VALUES[line[at + 2] ?? 0]!;
        const escaped = (high << 4) | low;
        const isLower = isNotUpper(line[at + 1]) && isNotUpper(line[at + 2]);
        const isEscaped = escaped < 0x20 || escaped > 0x7e || escaped === BACKSLASH;
        if ((high | low) < 16 && isLower && isEscaped) {
          byte = escaped;
          at += 2;
        }
      }
      bytes[count++] = byte;
    }
    return bytes.subarray(0, count);
  }
}

// Writing.

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));
const PRINTED = Array.from({ length: 256 }, (_, byte) => {
  if (byte === BACKSLASH) return '\\\\';
  return byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : `\\${HEX[byte]!}`;
});

function printedText(bytes: Uint8Array): string {
  let text = '';
  for (const byte of bytes) text += PRINTED[byte]!;
  return text;
}

/** All versions of mdb_load read `\\5c`. */
function printedForLmdb(bytes: Uint8Array): string {
  let text = '';
  for (const byte of bytes) text += byte === BACKSLASH ? '\\5c' : PRINTED[byte]!;
  return text;
}

function hexText(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex');
}

/** Room that `mdb_load` is told to keep in the address space: it takes none until it is filled. */
const MAP_BYTES = 64 * 2 ** 30;

export interface KvTextOptions {
  readonly store: 'bdb' | 'lmdb';
  readonly encoding: Encoding;
  /** Whether the header has the name. */
  readonly isNamed: boolean;
}

/** The header of a section, as the tools of each store take it. */
export function kvHeader(name: string, raw: ToRaw, options: KvTextOptions): string {
  const { store, encoding, isNamed } = options;
  if (isNamed && store === 'lmdb' && /[\r\n]/.test(name)) {
    throw failure('usage.argument', `the name ${JSON.stringify(name)} has a line break`);
  }
  const bytes = new TextEncoder().encode(name);
  const shown = store === 'bdb' ? printedText(bytes) : name;
  return [
    'VERSION=3',
    `format=${encoding}`,
    ...(isNamed ? [`database=${shown}`] : []),
    raw.isNumbered && store === 'bdb' ? 'type=recno' : 'type=btree',
    ...(raw.isNumbered && store === 'bdb' ? ['keys=1'] : []),
    ...(raw.isSet ? ['duplicates=1', ...(store === 'bdb' ? ['dupsort=1'] : [])] : []),
    ...(store === 'lmdb' ? [`mapsize=${MAP_BYTES}`, 'maxreaders=126'] : []),
    'db_pagesize=4096',
    'HEADER=END\n',
  ].join('\n');
}

/** The lines of one entry. */
export function kvLines(
  key: Uint8Array,
  value: Uint8Array,
  { store, encoding }: KvTextOptions,
): string {
  const print = store === 'lmdb' ? printedForLmdb : printedText;
  const show = encoding === 'print' ? print : hexText;
  return ` ${show(key)}\n ${show(value)}\n`;
}

export const KV_END = 'DATA=END\n';
