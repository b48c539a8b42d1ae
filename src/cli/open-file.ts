/**
 * Opening files for commands: a path that does not exist is an error, not a new database. Line 9
 * of the strata.
 */
import * as fs from 'node:fs';
import { Database } from '../database.ts';
import { DatabaseError, failure } from '../errors.ts';
import type { OpenOptions } from '../options.ts';

export function requireFile(path: string): void {
  if (fs.existsSync(path)) return;
  throw failure('storage.not_found', `there is no file ${path}`, {
    detail: { path },
    hint: 'Correct the path.', // commands make no database, unlike `open`
  });
}

/** Runs a command on a database that it may write. */
export function withWriter<T>(path: string, run: (database: Database) => T): T {
  requireFile(path);
  return closing(new Database(path, {}), run);
}

/** Runs a command on a database that it reads, beside a writer if there is one. */
export function withReader<T>(
  path: string,
  run: (database: Database) => T,
  options: OpenOptions = {},
): T {
  return closing(openReader(path, options), run);
}

/** As `withReader`, for commands that wait. */
export async function withReaderAsync<T>(
  path: string,
  options: OpenOptions,
  run: (database: Database) => Promise<T>,
): Promise<T> {
  const database = openReader(path, options);
  try {
    return await run(database);
  } finally {
    database.close();
  }
}

function openReader(path: string, options: OpenOptions): Database {
  requireFile(path);
  try {
    return new Database(path, { ...options, readOnly: true });
  } catch (cause) {
    const isUnclosed = cause instanceof DatabaseError && cause.code === 'storage.recovery_needed';
    if (!isUnclosed) throw cause;
    return new Database(path, options); // recovers what its last writer left
  }
}

function closing<T>(database: Database, run: (database: Database) => T): T {
  try {
    return run(database);
  } finally {
    database.close();
  }
}
