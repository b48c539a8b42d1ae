/**
 * Errors of dumps and loads: the core's own classes and codes, with the place in the text.
 *
 * This folder is built into an entry of its own beside the core, and takes from the core only what
 * the package exports: the `failure` of the core is not among that.
 */
import {
  ConflictError,
  ConstraintError,
  CorruptionError,
  DatabaseError,
  ERROR_TABLE,
  type ErrorClass,
  type ErrorCode,
  type ErrorOptions,
  InternalError,
  LimitError,
  ParseError,
  SchemaError,
  StorageError,
  UsageError,
  ValueError,
} from '../index.ts';

const CLASSES: Readonly<Record<ErrorClass, typeof DatabaseError>> = {
  UsageError,
  ParseError,
  SchemaError,
  ValueError,
  ConstraintError,
  ConflictError,
  LimitError,
  StorageError,
  CorruptionError,
  InternalError,
};

/** Makes the error of a code, of the class that the table gives for it. */
export function failure(code: ErrorCode, message: string, options?: ErrorOptions): DatabaseError {
  return new CLASSES[ERROR_TABLE[code].class](code, message, options);
}

/** A place in a text. Lines and columns count from 1; columns are characters, in binary bytes. */
export interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

export function placeText({ file, line, column }: Place): string {
  return `${file}:${line}:${column}`;
}

/** An error at a place of a text. */
export function failureAt(
  code: ErrorCode,
  place: Place,
  message: string,
  options: ErrorOptions = {},
): DatabaseError {
  const { file, line, column } = place;
  return failure(code, `${placeText(place)}: ${message}`, {
    ...options,
    detail: { file, line, column, ...options.detail },
    position: { line, column },
  });
}

/** An error of the database as one at a place: same code, same hint. */
export function located(cause: unknown, place: Place): unknown {
  if (!(cause instanceof DatabaseError) || cause.position !== undefined) return cause;
  const { code, message, detail, hint } = cause;
  return failureAt(code, place, message, { detail, hint, cause });
}

/** The error of a failed call to the operating system. */
export function systemFailure(cause: unknown, what: string, path: string): unknown {
  if (cause instanceof DatabaseError) return cause;
  const code = (cause as { code?: unknown }).code;
  if (typeof code !== 'string') return cause;
  const detail = { path, system: code };
  const message = `${what} ${path} failed: ${code}`;
  if (code === 'ENOENT' || code === 'ENOTDIR')
    return failure('storage.not_found', message, { detail, cause, hint: 'Correct the path.' });
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return failure('storage.full', message, { detail, cause, hint: 'Free disk space.' });
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS')
    return failure('storage.permission', message, { detail, cause });
  return failure('storage.io', message, { detail, cause });
}
