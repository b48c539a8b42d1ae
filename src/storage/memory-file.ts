/**
 * `FileSystem` in memory, for `:memory:` databases and tests: chunks of 256 KiB, made when first
 * written, so that a large file never needs one large allocation.
 */
import { failure } from '../errors.ts';
import { type File, type FileSystem, type Lock, type OpenMode } from './file.ts';

const CHUNK_BYTES = 256 * 1024;

class Content {
  readonly chunks: (Uint8Array | undefined)[] = [];
  length = 0;
}

class MemoryFile implements File {
  readonly #content: Content;

  constructor(content: Content) {
    this.#content = content;
  }

  read(target: Uint8Array, targetOffset: number, length: number, position: number): number {
    const wanted = Math.max(0, Math.min(length, this.#content.length - position));
    let done = 0;
    while (done < wanted) {
      const at = position + done;
      const start = at % CHUNK_BYTES;
      const n = Math.min(wanted - done, CHUNK_BYTES - start);
      const chunk = this.#content.chunks[Math.floor(at / CHUNK_BYTES)];
      const to = targetOffset + done;
      if (chunk === undefined) target.fill(0, to, to + n);
      else target.set(chunk.subarray(start, start + n), to);
      done += n;
    }
    return wanted;
  }

  write(source: Uint8Array, sourceOffset: number, length: number, position: number): void {
    const { chunks } = this.#content;
    let done = 0;
    while (done < length) {
      const at = position + done;
      const start = at % CHUNK_BYTES;
      const n = Math.min(length - done, CHUNK_BYTES - start);
      const ordinal = Math.floor(at / CHUNK_BYTES);
      const chunk = (chunks[ordinal] ??= new Uint8Array(CHUNK_BYTES));
      chunk.set(source.subarray(sourceOffset + done, sourceOffset + done + n), start);
      done += n;
    }
    this.#content.length = Math.max(this.#content.length, position + length);
  }

  sync(): void {}

  truncate(length: number): void {
    const content = this.#content;
    if (length < content.length) {
      const kept = Math.ceil(length / CHUNK_BYTES);
      content.chunks.length = Math.min(content.chunks.length, kept);
      if (length % CHUNK_BYTES > 0) content.chunks[kept - 1]?.fill(0, length % CHUNK_BYTES);
    }
    content.length = length;
  }

  size(): number {
    return this.#content.length;
  }

  close(): void {}
}

export class MemoryFileSystem implements FileSystem {
  readonly #files = new Map<string, Content>();
  readonly #locked = new Set<string>();

  #find(path: string): Content {
    const content = this.#files.get(path);
    if (content === undefined) {
      throw failure('storage.not_found', `there is nothing at ${path}`, { detail: { path } });
    }
    return content;
  }

  open(path: string, mode: OpenMode): File {
    if (mode === 'create' && !this.#files.has(path)) this.#files.set(path, new Content());
    return new MemoryFile(this.#find(path));
  }

  exists(path: string): boolean {
    return this.#files.has(path);
  }

  remove(path: string): void {
    this.#files.delete(path);
  }

  rename(from: string, to: string): void {
    const content = this.#find(from);
    this.#files.delete(from);
    this.#files.set(to, content);
  }

  resolve(path: string): string {
    return path;
  }

  get processTag(): string {
    return 'memory';
  }

  removeLeft(): void {}

  link(existing: string, second: string): boolean {
    this.#files.set(second, this.#find(existing));
    return true;
  }

  syncFolder(): void {}

  lock(path: string): Lock {
    if (this.#locked.has(path)) {
      throw failure('storage.locked', `${path} is open in this process`, {
        detail: { path, pid: process.pid },
      });
    }
    this.#locked.add(path);
    return { release: () => void this.#locked.delete(path) };
  }

  lockHolder(path: string): number | undefined {
    return this.#locked.has(path) ? process.pid : undefined;
  }

  /** Bytes that the files take, in chunks. */
  get bytes(): number {
    let chunks = 0;
    for (const content of new Set(this.#files.values())) {
      for (const chunk of content.chunks) if (chunk !== undefined) chunks++;
    }
    return chunks * CHUNK_BYTES;
  }
}
