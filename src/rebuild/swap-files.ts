/**
 * Putting one file in the place of another, keeping the other under a second name (STORAGE rule
 * 27). At every moment the path names one whole file:
 *
 *   path = old                       ── second name, folder synced ──>
 *   path = old, kept = old           ── rename over, folder synced ──>
 *   path = new, kept = old
 *
 * Where links fail the old file is copied under a third name first, which then becomes the second.
 * A second name of the file that the path still names is left over from an interruption.
 */
import { failure, type DatabaseError } from '../errors.ts';
import type { FileSystem } from '../storage/file.ts';
import { readHeader } from '../storage/header.ts';
import { idText } from './rebuild-marker.ts';

const COPY_BYTES = 1 << 20;

/** The id of a database file, `undefined` if there is no readable header. */
export function fileIdOf(fs: FileSystem, path: string): string | undefined {
  if (!fs.exists(path)) return undefined;
  const file = fs.open(path, 'read');
  try {
    return idText(readHeader(file, path).header.fileId);
  } catch (cause) {
    const { code } = cause as DatabaseError;
    if (code === 'storage.not_a_database' || code === 'corrupt.header') return undefined;
    throw cause;
  } finally {
    file.close();
  }
}

/**
 * Frees the name for the old file: what an interrupted swap left there is removed.
 *
 * @throws {UsageError} usage.argument when an earlier file is kept there.
 */
export function freeKeptName(fs: FileSystem, kept: string, fileId: string): void {
  if (!fs.exists(kept)) return;
  if (fileIdOf(fs, kept) !== fileId) {
    throw failure('usage.argument', `${kept} is there already: a file kept by an earlier rebuild`, {
      detail: { path: kept },
      hint: 'Undo that rebuild, or let the kept file go (forgetRebuild, rebuild --forget).',
    });
  }
  fs.remove(kept);
  fs.syncFolder(kept);
}

/** Gives the file at `path` the second name `kept`, then the file at `next` the name `path`. */
export function swapFiles(fs: FileSystem, path: string, kept: string, next: string): void {
  if (!fs.link(path, kept)) copyFile(fs, path, kept);
  fs.syncFolder(path);
  fs.rename(next, path);
  fs.syncFolder(path);
}

function copyFile(fs: FileSystem, path: string, kept: string): void {
  const temporary = `${kept}-copy`;
  fs.remove(temporary);
  const source = fs.open(path, 'read');
  try {
    const target = fs.open(temporary, 'create');
    try {
      const buffer = new Uint8Array(COPY_BYTES);
      for (let at = 0; ;) {
        const length = source.read(buffer, 0, COPY_BYTES, at);
        if (length === 0) break;
        target.write(buffer, 0, length, at);
        at += length;
      }
      target.sync();
    } finally {
      target.close();
    }
  } catch (cause) {
    fs.remove(temporary);
    throw cause;
  } finally {
    source.close();
  }
  fs.rename(temporary, kept);
}
