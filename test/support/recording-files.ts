/** A file system that notes every operation on the one beneath it, with position and length. */
import { type File, type FileSystem, type Lock, type OpenMode } from '../../src/storage/file.ts';

export interface Note {
  readonly operation: 'read' | 'write' | 'sync' | 'truncate' | 'close' | 'syncFolder' | 'rename';
  readonly path: string;
  readonly position: number;
  readonly length: number;
}

export class RecordingFileSystem implements FileSystem {
  readonly notes: Note[] = [];
  readonly #under: FileSystem;

  constructor(under: FileSystem) {
    this.#under = under;
  }

  note(operation: Note['operation'], path: string, position = 0, length = 0): void {
    this.notes.push({ operation, path, position, length });
  }

  open(path: string, mode: OpenMode): File {
    return new RecordingFile(this, path, this.#under.open(path, mode));
  }

  exists(path: string): boolean {
    return this.#under.exists(path);
  }

  remove(path: string): void {
    this.#under.remove(path);
  }

  rename(from: string, to: string): void {
    this.note('rename', to);
    this.#under.rename(from, to);
  }

  resolve(path: string): string {
    return this.#under.resolve(path);
  }

  get processTag(): string {
    return this.#under.processTag;
  }

  removeLeft(path: string): void {
    this.#under.removeLeft(path);
  }

  link(existing: string, second: string): boolean {
    return this.#under.link(existing, second);
  }

  syncFolder(path: string): void {
    this.note('syncFolder', path);
    this.#under.syncFolder(path);
  }

  lock(path: string): Lock {
    return this.#under.lock(path);
  }

  lockHolder(path: string): number | undefined {
    return this.#under.lockHolder(path);
  }
}

class RecordingFile implements File {
  readonly #notes: RecordingFileSystem;
  readonly #path: string;
  readonly #under: File;

  constructor(notes: RecordingFileSystem, path: string, under: File) {
    this.#notes = notes;
    this.#path = path;
    this.#under = under;
  }

  read(target: Uint8Array, targetOffset: number, length: number, position: number): number {
    this.#notes.note('read', this.#path, position, length);
    return this.#under.read(target, targetOffset, length, position);
  }

  write(source: Uint8Array, sourceOffset: number, length: number, position: number): void {
    this.#notes.note('write', this.#path, position, length);
    this.#under.write(source, sourceOffset, length, position);
  }

  sync(): void {
    this.#notes.note('sync', this.#path);
    this.#under.sync();
  }

  truncate(length: number): void {
    this.#notes.note('truncate', this.#path, 0, length);
    this.#under.truncate(length);
  }

  size(): number {
    return this.#under.size();
  }

  close(): void {
    this.#notes.note('close', this.#path);
    this.#under.close();
  }
}
