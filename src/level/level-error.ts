/**
 * Errors under the codes that `abstract-level` names. What the database threw is the `cause`, so
 * nothing that it says is lost; an error without a counterpart passes as it is.
 */
import { DatabaseError } from '../index.ts';

/** An error with a code of `abstract-level`. */
export class LevelError extends Error {
  readonly code: string;

  constructor(code: string, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = code === 'LEVEL_ABORTED' ? 'AbortError' : 'LevelError';
    this.code = code;
  }
}

const CODES: Readonly<Record<string, string>> = {
  'usage.closed': 'LEVEL_DATABASE_NOT_OPEN',
  'usage.read_only': 'LEVEL_READONLY',
  'conflict.snapshot_expired': 'LEVEL_SNAPSHOT_NOT_OPEN',
  'storage.locked': 'LEVEL_LOCKED',
  'storage.io': 'LEVEL_IO_ERROR',
  'storage.full': 'LEVEL_IO_ERROR',
  'storage.failed': 'LEVEL_IO_ERROR',
  'storage.permission': 'LEVEL_IO_ERROR',
  'storage.not_a_database': 'LEVEL_CORRUPTION',
  'storage.log_missing': 'LEVEL_CORRUPTION',
  'corrupt.header': 'LEVEL_CORRUPTION',
  'corrupt.page': 'LEVEL_CORRUPTION',
  'corrupt.log': 'LEVEL_CORRUPTION',
  'corrupt.record': 'LEVEL_CORRUPTION',
};

/** What a caller of `abstract-level` is told about an error. */
export function levelError(cause: unknown): unknown {
  if (!(cause instanceof DatabaseError)) return cause;
  const code = CODES[cause.code];
  return code === undefined ? cause : new LevelError(code, cause.message, cause);
}

/** Runs something; what it throws is told in codes of `abstract-level`. */
export function translated<T>(run: () => T): T {
  try {
    return run();
  } catch (cause) {
    throw levelError(cause);
  }
}

/** The error of a read whose signal was aborted. */
export function aborted(signal: AbortSignal): LevelError {
  return new LevelError('LEVEL_ABORTED', 'Operation has been aborted', signal.reason);
}
