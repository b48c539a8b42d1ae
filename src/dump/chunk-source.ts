/** Where a reader's bytes come from: chunks one after the other, counted, with typed failures. */
import { failure, systemFailure } from './failures.ts';

/** Chunks of bytes: a stream, a list, anything that is iterated. */
export type ByteChunks = AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

export class ChunkSource {
  readonly file: string;
  isAtEnd = false;
  readonly #chunks: AsyncIterator<Uint8Array> | Iterator<Uint8Array>;
  readonly #onChunk: ((bytesRead: number) => void) | undefined;
  #bytesRead = 0;

  /** `onChunk`: called as bytes arrive; what it throws ends the reading. */
  constructor(chunks: ByteChunks, file: string, onChunk?: (bytesRead: number) => void) {
    this.file = file;
    this.#onChunk = onChunk;
    this.#chunks = iteratorOf(chunks);
  }

  /** The next chunk; `undefined` at the end. */
  async next(): Promise<Uint8Array | undefined> {
    if (this.isAtEnd) return undefined;
    let next: IteratorResult<Uint8Array>;
    try {
      next = await this.#chunks.next();
    } catch (cause) {
      throw systemFailure(cause, 'reading', this.file);
    }
    this.isAtEnd = next.done === true;
    if (next.done === true) return undefined;
    if (!(next.value instanceof Uint8Array))
      throw failure('usage.argument', `${this.file}: what is read comes in chunks of bytes`, {
        hint: 'Open the stream without an encoding.',
      });
    this.#bytesRead += next.value.length;
    this.#onChunk?.(this.#bytesRead);
    return next.value;
  }

  /** Lets the chunks go, wherever they are; not waited for, since they may hang. */
  close(): void {
    if (!this.isAtEnd) void Promise.resolve(this.#chunks.return?.()).catch(() => undefined);
    this.isAtEnd = true;
  }
}

function iteratorOf(chunks: ByteChunks): AsyncIterator<Uint8Array> | Iterator<Uint8Array> {
  const given = chunks as Partial<AsyncIterable<Uint8Array> & Iterable<Uint8Array>> | null;
  const iterator = given?.[Symbol.asyncIterator]?.() ?? given?.[Symbol.iterator]?.();
  if (iterator !== undefined) return iterator;
  throw failure('usage.argument', 'what is read is a path, or an iterable of chunks of bytes');
}
