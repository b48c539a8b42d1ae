/**
 * `FileSystem` over Node's synchronous file calls. Failures of the system become typed errors; the
 * writer lock is in `writer-lock.ts`.
 */
import * as fs from 'node:fs';
import * as path from 'node:path';
import { type DatabaseError, failure } from '../errors.ts';
import { type File, type FileSystem, type Lock, type OpenMode } from './file.ts';
import { holderOf, isTagAlive, tagOfProcess, takeLock } from './writer-lock.ts';

interface SystemError extends Error {
  readonly code?: string;
}

/** The typed error for a failure of the operating system. */
export function systemFailure(doing: string, file: string, cause: unknown): DatabaseError {
  const code = (cause as SystemError).code;
  const detail = { path: file, systemCode: code };
  const message = `${doing} failed for ${file}: ${(cause as Error).message}`;
  switch (code) {
    case 'ENOSPC':
    case 'EDQUOT':
    case 'EFBIG':
      return failure('storage.full', message, { detail, cause });
    case 'ENOENT':
    case 'ENOTDIR':
      return notFound(file, detail, cause);
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return failure('storage.permission', message, { detail, cause });
    case 'EISDIR':
      return failure('storage.not_a_database', `${file} is a folder`, { detail, cause });
    default:
      return failure('storage.io', message, { detail, cause });
  }
}

/** A file that is not there, or its folder: that `open` would not make. */
function notFound(
  file: string,
  detail: Readonly<Record<string, unknown>>,
  cause: unknown,
): DatabaseError {
  const folder = path.dirname(file);
  if (fs.existsSync(folder)) {
    return failure('storage.not_found', `there is nothing at ${file}`, { detail, cause });
  }
  return failure('storage.not_found', `there is no folder ${folder}`, {
    detail,
    cause,
    hint: 'Correct the path, or make the folder.',
  });
}

class NodeFile implements File {
  readonly #fd: number;
  readonly #path: string;

  constructor(fd: number, filePath: string) {
    this.#fd = fd;
    this.#path = filePath;
  }

  read(target: Uint8Array, targetOffset: number, length: number, position: number): number {
    try {
      let done = 0;
      while (done < length) {
        const n = fs.readSync(
          this.#fd,
          target,
          targetOffset + done,
          length - done,
          position + done,
        );
        if (n === 0) break;
        done += n;
      }
      return done;
    } catch (cause) {
      throw systemFailure('read', this.#path, cause);
    }
  }

  write(source: Uint8Array, sourceOffset: number, length: number, position: number): void {
    try {
      let done = 0;
      while (done < length) {
        done += fs.writeSync(this.#fd, source, sourceOffset + done, length - done, position + done);
      }
    } catch (cause) {
      throw systemFailure('write', this.#path, cause);
    }
  }

  sync(): void {
    try {
      fs.fdatasyncSync(this.#fd);
    } catch (cause) {
      // Even for want of space: what of the written bytes is durable is unknown now.
      const message = `sync failed for ${this.#path}: ${(cause as Error).message}`;
      const detail = { path: this.#path, systemCode: (cause as SystemError).code };
      throw failure('storage.io', message, { detail, cause });
    }
  }

  truncate(length: number): void {
    try {
      fs.ftruncateSync(this.#fd, length);
    } catch (cause) {
      throw systemFailure('truncate', this.#path, cause);
    }
  }

  size(): number {
    try {
      return fs.fstatSync(this.#fd).size;
    } catch (cause) {
      throw systemFailure('stat', this.#path, cause);
    }
  }

  close(): void {
    try {
      fs.closeSync(this.#fd);
    } catch (cause) {
      throw systemFailure('close', this.#path, cause);
    }
  }
}

const FLAGS: Readonly<Record<OpenMode, number>> = {
  read: fs.constants.O_RDONLY,
  write: fs.constants.O_RDWR,
  create: fs.constants.O_RDWR | fs.constants.O_CREAT,
};

/** Making a file where a link points to nothing would make it somewhere nobody named. */
function refuseDangling(filePath: string): void {
  let target: string;
  try {
    target = fs.readlinkSync(filePath);
  } catch {
    return; // no link: there is nothing at all
  }
  throw failure(
    'storage.not_found',
    `${filePath} is a symbolic link to ${target}, where there is nothing`,
    { detail: { path: filePath, target } },
  );
}

/** The file system of this machine. */
export class NodeFileSystem implements FileSystem {
  readonly #platform: NodeJS.Platform;

  /** `platform` says how writers are locked; tests name others. */
  constructor(platform: NodeJS.Platform = process.platform) {
    this.#platform = platform;
  }

  open(filePath: string, mode: OpenMode): File {
    let fd: number;
    try {
      fd = fs.openSync(filePath, FLAGS[mode], 0o644);
    } catch (cause) {
      throw systemFailure('open', filePath, cause);
    }
    if (!fs.fstatSync(fd).isFile()) {
      fs.closeSync(fd);
      throw failure('storage.not_a_database', `${filePath} is not a regular file`, {
        detail: { path: filePath },
      });
    }
    return new NodeFile(fd, filePath);
  }

  exists(filePath: string): boolean {
    return fs.existsSync(filePath);
  }

  remove(filePath: string): void {
    try {
      fs.unlinkSync(filePath);
    } catch (cause) {
      if ((cause as SystemError).code === 'ENOENT') return; // it is gone
      throw systemFailure('remove', filePath, cause);
    }
  }

  rename(from: string, to: string): void {
    try {
      fs.renameSync(from, to);
    } catch (cause) {
      throw systemFailure('rename', from, cause);
    }
  }

  resolve(filePath: string): string {
    try {
      return fs.realpathSync.native(filePath);
    } catch (cause) {
      if ((cause as SystemError).code !== 'ENOENT') throw systemFailure('open', filePath, cause);
    }
    refuseDangling(filePath);
    try {
      const folder = fs.realpathSync.native(path.dirname(filePath));
      return path.join(folder, path.basename(filePath));
    } catch (cause) {
      throw systemFailure('open', filePath, cause);
    }
  }

  get processTag(): string {
    return tagOfProcess();
  }

  removeLeft(filePath: string): void {
    const folder = path.dirname(filePath);
    const start = `${path.basename(filePath)}-new-`;
    let names: string[];
    try {
      names = fs.readdirSync(folder);
    } catch {
      return; // a folder that may not be listed keeps what was left in it
    }
    for (const name of names) {
      if (!name.startsWith(start)) continue;
      const tag = name.slice(start.length).split('-')[0]!;
      if (!isTagAlive(tag)) this.remove(path.join(folder, name));
    }
  }

  link(existing: string, second: string): boolean {
    try {
      fs.linkSync(existing, second);
      return true;
    } catch (cause) {
      const code = (cause as SystemError).code;
      if (code === 'EPERM' || code === 'ENOTSUP' || code === 'ENOSYS' || code === 'EMLINK') {
        return false;
      }
      throw systemFailure('link', existing, cause);
    }
  }

  syncFolder(filePath: string): void {
    if (process.platform === 'win32') return; // folders cannot be opened there
    const folder = path.dirname(path.resolve(filePath));
    try {
      const fd = fs.openSync(folder, fs.constants.O_RDONLY);
      try {
        fs.fsyncSync(fd);
      } finally {
        fs.closeSync(fd);
      }
    } catch (cause) {
      throw systemFailure('sync of the folder', filePath, cause);
    }
  }

  lock(filePath: string): Lock {
    return takeLock(filePath, this.#platform);
  }

  lockHolder(filePath: string): number | undefined {
    return holderOf(filePath);
  }
}
