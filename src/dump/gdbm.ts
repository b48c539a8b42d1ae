/**
 * What `gdbm_dump` writes, in both of its forms. A dump holds one database.
 *
 *   ASCII                              binary
 *   # GDBM dump file created by …      !␍␊! GDBM FLAT FILE DUMP …␍␊! GDBM version …␍␊!␍␊
 *   #:version=1.1                      then, for each key and each value:
 *   #:file=NAME                          0   4   length, highest byte first
 *   # End of header                      4   4   zero: the rest of a 64-bit word
 *   #:len=3                              8   …   the bytes
 *   base64, 76 characters a line
 *   #:len=…                            The end is the end of the file: only a cut inside an entry
 *   #:count=2                          can be told.
 *   # End of data
 */
import type { CollectionDefinition, RecordFields } from '../index.ts';
import { RECORD_BYTES_MAX } from '../limits.ts';
import { ChunkSource, type ByteChunks } from './chunk-source.ts';
import { failureAt, type Place } from './failures.ts';
import type { LineReader } from './line-reader.ts';
import { rawConversion } from './raw-values.ts';
import type { Pair, Section, SectionReader } from './section.ts';
import { base64Of, bytesOfBase64 } from './value-text.ts';

const BASE64_COLUMNS = 76;
const LF = 10;
const CR = 13;

// ASCII.

export class GdbmTextReader implements SectionReader {
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
    const lines = this.#lines;
    if (!(await lines.nextLine()) || !this.#text().startsWith('# GDBM dump file')) {
      const what = 'a dump of gdbm begins with "# GDBM dump file"';
      throw failureAt('syntax.unexpected', { ...lines.place(), line: 1 }, what);
    }
    for (let isHeader = true; isHeader;) {
      await this.#next('"# End of header"');
      const text = this.#text();
      isHeader = text !== '# End of header';
      if (!text.startsWith('#')) throw this.#unexpected('a header has lines that begin with "#"');
      const version = /^#:version=(.*)$/.exec(text);
      if (version !== null && !version[1]!.startsWith('1.'))
        throw this.#unexpected(`version ${version[1]} is not known`);
    }
    yield { name: undefined, shape: 'pairs', entries: (target) => this.#entries(target) };
    while (await lines.nextLine())
      if (lines.line.length > 0) throw this.#unexpected('something stands behind the end of data');
  }

  #text(): string {
    return Buffer.from(this.#lines.line).toString('latin1');
  }

  #unexpected(what: string): Error {
    return failureAt('syntax.unexpected', this.#lines.place(), what);
  }

  async #next(wanted: string): Promise<void> {
    if (this.#lines.tryLine() || (await this.#lines.nextLine())) return;
    const place = { ...this.#lines.place(), line: this.#lines.number + 1 };
    throw failureAt('syntax.incomplete', place, `the text ends before ${wanted}`);
  }

  async *#entries(target: CollectionDefinition): AsyncGenerator<Pair | RecordFields> {
    const conversion = rawConversion(target);
    let count = 0;
    let key: Pair[0] | undefined;
    for (;;) {
      await this.#next('"# End of data"');
      const text = this.#text();
      const length = /^#:len=([0-9]{1,10})$/.exec(text);
      if (length === null) {
        await this.#end(text, count, key !== undefined);
        return;
      }
      const bytes = await this.#bytes(Number(length[1]));
      if (key === undefined) key = conversion.key(bytes, this.#lines.place());
      else {
        yield conversion.entry(key, conversion.value(bytes, this.#lines.place()));
        key = undefined;
        count++;
      }
    }
  }

  /** Bytes of a known length, from the lines that follow. */
  async #bytes(length: number): Promise<Uint8Array> {
    if (length > RECORD_BYTES_MAX) throw this.#unexpected(`a length of ${length} is too large`);
    const parts: string[] = [];
    for (let left = Math.ceil(length / 3) * 4; left > 0;) {
      await this.#next('the end of a value');
      const line = this.#text();
      const wrong = /[^A-Za-z0-9+/=]/.exec(line);
      if (wrong !== null || line.length === 0 || line.length > left) {
        const column = wrong === null ? Math.min(line.length, left) + 1 : wrong.index + 1;
        const what = `base64 of ${length} bytes should stand here`;
        throw failureAt('syntax.unexpected', this.#lines.place(column), what);
      }
      parts.push(line);
      left -= line.length;
    }
    const bytes = bytesOfBase64(parts.join(''));
    if (bytes?.length === length) return bytes;
    throw this.#unexpected(`the lines before are no base64 of ${length} bytes`);
  }

  async #end(text: string, count: number, lacksValue: boolean): Promise<void> {
    const stated = /^#:count=([0-9]{1,15})$/.exec(text);
    if (stated === null) throw this.#unexpected('"#:len=" or "#:count=" should stand here');
    if (lacksValue) throw this.#unexpected('the last key has no value');
    if (Number(stated[1]) !== count) {
      const what = `the dump says ${stated[1]} entries and has ${count}`;
      throw failureAt('syntax.checksum', this.#lines.place(9), what);
    }
    await this.#next('"# End of data"');
    if (this.#text() !== '# End of data') throw this.#unexpected('"# End of data" is missing');
  }
}

/** The header of an ASCII dump; without a date, so that equal data makes equal dumps. */
export function gdbmHeader(name: string): string {
  const shown = name.replace(/[^\x20-\x7e]/g, '_');
  return [
    '# GDBM dump file created by Monochord',
    '#:version=1.1',
    `#:file=${shown}`,
    '#:format=standard',
    '# End of header\n',
  ].join('\n');
}

/** The lines of a key or value. */
export function gdbmLines(bytes: Uint8Array): string {
  const base64 = base64Of(bytes);
  let text = `#:len=${bytes.length}\n`;
  for (let at = 0; at < base64.length; at += BASE64_COLUMNS)
    text += `${base64.slice(at, at + BASE64_COLUMNS)}\n`;
  return text;
}

export function gdbmEnd(count: number): string {
  return `#:count=${count}\n# End of data\n`;
}

// Binary.

export const GDBM_BINARY_HEADER =
  '!\r\n! GDBM FLAT FILE DUMP -- THIS IS NOT A TEXT FILE\r\n' +
  '! GDBM version 1.23. 04/02/2022\r\n!\r\n';

/** Length and bytes of a key or value. */
export function gdbmBinary(bytes: Uint8Array): Uint8Array {
  const item = new Uint8Array(8 + bytes.length);
  new DataView(item.buffer).setUint32(0, bytes.length);
  item.set(bytes, 8);
  return item;
}

/** Reads the binary form. Places are line 1 and, as columns, bytes from 1. */
export class GdbmBinaryReader implements SectionReader {
  readonly #file: string;
  readonly #source: ChunkSource;
  #buffer: Uint8Array = new Uint8Array(0);
  #offset = 0;
  /** Bytes before the buffer. */
  #before = 0;

  constructor(chunks: ByteChunks, file: string, onChunk?: (bytesRead: number) => void) {
    this.#file = file;
    this.#source = new ChunkSource(chunks, file, onChunk);
  }

  place(): Place {
    return { file: this.#file, line: 1, column: this.#before + this.#offset + 1 };
  }

  close(): void {
    this.#source.close();
  }

  async *sections(): AsyncGenerator<Section> {
    await this.#header();
    yield { name: undefined, shape: 'pairs', entries: (target) => this.#entries(target) };
  }

  /** Lines that begin with "!", the last of them alone. */
  async #header(): Promise<void> {
    for (;;) {
      let line = '';
      for (;;) {
        const byte = (await this.#take(1))?.[0];
        if (byte === undefined || (line === '' && byte !== 0x21) || line.length > 1000) {
          const what = 'a binary dump of gdbm begins with lines "!"';
          throw failureAt('syntax.unexpected', this.place(), what);
        }
        if (byte === LF) break;
        if (byte !== CR) line += String.fromCharCode(byte);
      }
      if (line === '!' && this.#before + this.#offset > 3) return;
    }
  }

  async *#entries(target: CollectionDefinition): AsyncGenerator<Pair | RecordFields> {
    const conversion = rawConversion(target);
    for (;;) {
      const key = await this.#item(true);
      if (key === undefined) return;
      const value = (await this.#item(false))!;
      yield conversion.entry(
        conversion.key(key, this.place()),
        conversion.value(value, this.place()),
      );
    }
  }

  async #item(mayEnd: boolean): Promise<Uint8Array | undefined> {
    const head = await this.#take(8);
    if (head === undefined) {
      if (mayEnd && this.#offset === this.#buffer.length) return undefined;
      throw failureAt('syntax.incomplete', this.place(), 'the dump ends inside an entry');
    }
    const view = new DataView(head.buffer, head.byteOffset, 8);
    const length = view.getUint32(0);
    if (view.getUint32(4) !== 0 || length > RECORD_BYTES_MAX)
      throw failureAt('syntax.unexpected', this.place(), 'no length stands here');
    const bytes = await this.#take(length);
    if (bytes !== undefined) return bytes.slice();
    const what = `the dump ends inside a value of ${length} bytes`;
    throw failureAt('syntax.incomplete', this.place(), what);
  }

  /** The next bytes; `undefined`, and nothing taken, when there are fewer. */
  async #take(count: number): Promise<Uint8Array | undefined> {
    if (this.#buffer.length - this.#offset < count) {
      const parts = [this.#buffer.subarray(this.#offset)];
      let bytes = parts[0]!.length;
      while (bytes < count) {
        const next = await this.#source.next();
        if (next === undefined) break;
        parts.push(next);
        bytes += next.length;
      }
      this.#before += this.#offset;
      this.#offset = 0;
      this.#buffer = new Uint8Array(Buffer.concat(parts));
      if (bytes < count) return undefined;
    }
    const taken = this.#buffer.subarray(this.#offset, this.#offset + count);
    this.#offset += count;
    return taken;
  }
}
