/** Collects pieces of text into chunks of bytes, which is what dumps are iterated as. */
import { utf8Of } from './utf8.ts';

/** Characters or bytes of a chunk, about. */
const CHUNK_SIZE = 64 * 1024;

export class TextOutput {
  #text = '';
  readonly #onChunk: ((chunk: Uint8Array) => void) | undefined;

  /** `onChunk`: sees every chunk before it is handed on. */
  constructor(onChunk?: (chunk: Uint8Array) => void) {
    this.#onChunk = onChunk;
  }

  add(text: string): void {
    this.#text += text;
  }

  /** Whether it is time to `take`. */
  get isFull(): boolean {
    return this.#text.length >= CHUNK_SIZE;
  }

  /** What was added since the last time. */
  take(): Uint8Array {
    const chunk = utf8Of(this.#text);
    this.#text = '';
    this.#onChunk?.(chunk);
    return chunk;
  }
}
