/**
 * Databases for tests, on a disk in memory that can fail, or in a folder that goes away. Whatever a
 * test leaves open is checked, the whole file, and closed; then nothing may be charged any more
 * (STYLE rule 6).
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterAll, afterEach, expect } from 'vitest';
import { Database } from '../../src/database.ts';
import { DatabaseError } from '../../src/errors.ts';
import type { OpenOptions } from '../../src/options.ts';
import { FaultFileSystem } from '../faults/fault-file.ts';

export const PATH = '/db/main';

const opened: Database[] = [];
const folders: string[] = [];

/** Opens a database; without a disk, on a new one in memory. */
export function openDatabase(
  options: OpenOptions = {},
  disk: FaultFileSystem = new FaultFileSystem({ seed: 1 }),
): Database {
  const database = new Database(PATH, options, disk);
  opened.push(database);
  return database;
}

/** Opens a database of a real file, for the same care. */
export function openPath(path: string, options: OpenOptions = {}): Database {
  const database = new Database(path, options);
  opened.push(database);
  return database;
}

/** A new folder, removed when the tests of the file are done. */
export function newFolder(): string {
  const folder = mkdtempSync(`${tmpdir()}/monochord-database-`);
  folders.push(folder);
  return folder;
}

/** Takes a database out of care: its process died, or it failed. */
export function abandon(database: Database): void {
  opened.splice(opened.indexOf(database), 1);
  try {
    database.close();
  } catch {
    return; // its disk answers nothing any more
  }
}

/** Ends the process of a database and answers the disk that the next one finds. */
export function kill(database: Database, disk: FaultFileSystem): FaultFileSystem {
  const next = disk.kill();
  abandon(database);
  return next;
}

/** The error that a call throws. */
export function errorOf(call: () => unknown): DatabaseError {
  try {
    call();
  } catch (cause) {
    if (cause instanceof DatabaseError) return cause;
    throw cause;
  }
  throw new Error('no error was thrown');
}

export function codeOf(call: () => unknown): string {
  return errorOf(call).code;
}

export async function codeOfAsync(call: Promise<unknown>): Promise<string> {
  try {
    await call;
  } catch (cause) {
    if (cause instanceof DatabaseError) return cause.code;
    throw cause;
  }
  return 'none';
}

/** Lets timers of so many milliseconds run. */
export function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

afterEach(() => {
  for (const database of opened.splice(0)) {
    if (database.isOpen) {
      expect(database.check().faults).toEqual([]);
      database.close();
    }
    expect(database.memory().usedBytes, JSON.stringify(database.memory().accounts)).toBe(0);
    const { peakBytes, budgetBytes } = database.memory();
    expect(peakBytes).toBeLessThanOrEqual(budgetBytes);
  }
});

afterAll(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});
