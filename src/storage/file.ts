/**
 * The seam between storage and the operating system.
 *
 * `File` and `FileSystem` have three implementations: Node (`node-file.ts`), memory
 * (`memory-file.ts`) and faults (`test/faults/fault-file.ts`). All calls are synchronous.
 * Failures are thrown as `storage.io`, `storage.full`, `storage.permission`, `storage.not_found`.
 */

/** An open file. Positions and lengths are bytes. */
export interface File {
  /** Reads up to `length` bytes at `position`; answers how many there were (fewer at the end). */
  read(target: Uint8Array, targetOffset: number, length: number, position: number): number;
  /** Writes all `length` bytes at `position`, growing the file as needed, or throws. */
  write(source: Uint8Array, sourceOffset: number, length: number, position: number): void;
  /** Makes everything written before durable (data and size, not times). */
  sync(): void;
  truncate(length: number): void;
  size(): number;
  close(): void;
}

/** Held by the one writer process of a file; freed by the system when the process dies. */
export interface Lock {
  release(): void;
}

export type OpenMode =
  | 'read' // must exist; never written
  | 'write' // must exist
  | 'create'; // made new, or opened if it exists

export interface FileSystem {
  open(path: string, mode: OpenMode): File;
  exists(path: string): boolean;
  remove(path: string): void;
  rename(from: string, to: string): void;
  /**
   * The one name of a file that all its other names lead to; for a file that is not there yet, the
   * name it will have. Files that belong to a database lie beside that name.
   *
   * @throws {StorageError} storage.not_found for a link to nothing, or a folder that is missing.
   */
  resolve(path: string): string;
  /** Names this process among those that may make the same database at the same time. */
  readonly processTag: string;
  /** Removes what processes that died while they made a database at a path left beside it. */
  removeLeft(path: string): void;
  /** Gives a file a second name; answers false where the file system has no links. */
  link(existing: string, second: string): boolean;
  /** Makes creation, removal and renaming of files in the folder of `path` durable. */
  syncFolder(path: string): void;
  /**
   * Takes the writer lock of a database file.
   *
   * @throws {StorageError} storage.locked naming the holder's pid.
   */
  lock(path: string): Lock;
  /** Pid of the process that holds the writer lock, `undefined` if nobody does. */
  lockHolder(path: string): number | undefined;
}
