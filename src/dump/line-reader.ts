/**
 * Bytes of a text in chunks as lines, in memory for one chunk and one line.
 *
 * The first line decides whether lines end with LF or CR LF; another end is refused, since a text
 * that was half converted has lost what was in its values.
 */
import { ChunkSource, type ByteChunks } from './chunk-source.ts';
import { failureAt, type Place } from './failures.ts';

/** Bytes of the longest line: a JavaScript text is no longer. */
const LINE_BYTES_MAX = 500 * 2 ** 20;

const LF = 10;
const CR = 13;
const NOTHING = new Uint8Array(0);

export class LineReader {
  readonly file: string;
  /** Number of the line that was read last, from 1. */
  number = 0;
  /** The line without its end; valid until the next. */
  line: Uint8Array = NOTHING;
  /** Whether the last line had an end, rather than the text. */
  isEnded = true;
  /** Whether that end was CR LF. */
  endsWithCr = false;
  /** Whether lines may end in both ways: for texts whose lines are not all lines of the format. */
  mayMixEnds = false;
  readonly #source: ChunkSource;
  #buffer: Uint8Array = NOTHING;
  #offset = 0;
  #hasCr: boolean | undefined;

  /** `onChunk`: called as bytes arrive; what it throws ends the reading. */
  constructor(chunks: ByteChunks, file: string, onChunk?: (bytesRead: number) => void) {
    this.file = file;
    this.#source = new ChunkSource(chunks, file, onChunk);
  }

  /** The place of a byte of the last line. */
  place(column = 1): Place {
    return { file: this.file, line: this.number, column };
  }

  /** Goes to the next line if it has arrived; false says nothing about what follows. */
  tryLine(): boolean {
    const end = this.#buffer.indexOf(LF, this.#offset);
    if (end < 0) return false;
    this.#take(end, true);
    this.#offset = end + 1;
    return true;
  }

  /** Goes to the next line, waiting for it; false at the end of the text. */
  async nextLine(): Promise<boolean> {
    for (;;) {
      if (this.tryLine()) return true;
      if (this.#source.isAtEnd) break;
      await this.#fill();
    }
    if (this.#offset === this.#buffer.length) return false;
    this.#take(this.#buffer.length, false);
    this.#offset = this.#buffer.length;
    return true;
  }

  #take(end: number, isEnded: boolean): void {
    this.number++;
    this.isEnded = isEnded;
    const hasCr = end > this.#offset && this.#buffer[end - 1] === CR;
    this.endsWithCr = hasCr && isEnded;
    if (isEnded && !this.mayMixEnds) {
      this.#hasCr ??= hasCr;
      if (this.#hasCr !== hasCr) {
        const [has, had] = hasCr ? ['CR LF', 'LF'] : ['LF', 'CR LF'];
        const column = end - this.#offset + (hasCr ? 0 : 1);
        throw failureAt(
          'syntax.unexpected',
          this.place(column),
          `the line ends with ${has}, those before with ${had}`,
          { hint: 'Give all lines the same end, as the file had where it was made.' },
        );
      }
    }
    this.line = this.#buffer.subarray(this.#offset, hasCr && isEnded ? end - 1 : end);
  }

  /** Takes the next chunk behind what is left of the ones before. */
  async #fill(): Promise<void> {
    const next = await this.#source.next();
    if (next === undefined) return;
    const rest = this.#buffer.subarray(this.#offset);
    this.#offset = 0;
    if (rest.length === 0) {
      this.#buffer = next;
      return;
    }
    // A line longer than a chunk: parts are searched for its end once, then joined.
    const parts = [rest, next];
    let bytes = rest.length + next.length;
    for (let last = next; last.indexOf(LF) < 0;) {
      const more = await this.#source.next();
      if (more === undefined) break;
      last = more;
      parts.push(last);
      bytes += last.length;
      if (bytes > LINE_BYTES_MAX) {
        const place = { file: this.file, line: this.number + 1, column: LINE_BYTES_MAX };
        throw failureAt('value.size', place, `the line is longer than ${LINE_BYTES_MAX} bytes`);
      }
    }
    const joined = new Uint8Array(bytes);
    let offset = 0;
    for (const part of parts) {
      joined.set(part, offset);
      offset += part.length;
    }
    this.#buffer = joined;
  }

  /** Lets the source go, wherever it is; not waited for, since it may hang. */
  close(): void {
    this.#source.close();
  }
}
