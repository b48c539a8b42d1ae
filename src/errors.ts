/**
 * The errors of the database: ten classes, and one table with a row for each stable code.
 *
 * Line 0 of the strata: everything may import this file. `docs/ERRORS.md` is generated from
 * `ERROR_TABLE`; a test fails for a code that is thrown without a row, or a row that no test
 * provokes.
 */

/** The class that an error code belongs to: it says who can act on it. */
export type ErrorClass =
  | 'UsageError'
  | 'ParseError'
  | 'SchemaError'
  | 'ValueError'
  | 'ConstraintError'
  | 'ConflictError'
  | 'LimitError'
  | 'StorageError'
  | 'CorruptionError'
  | 'InternalError';

interface ErrorRow {
  readonly class: ErrorClass;
  readonly meaning: string;
  readonly hint: string;
}

/** One row for each error code: its class, what it means, and what to do about it. */
export const ERROR_TABLE = {
  'usage.argument': {
    class: 'UsageError',
    meaning: 'An argument or option has a wrong kind or value.',
    hint: 'Correct the argument that the message names.',
  },
  'usage.closed': {
    class: 'UsageError',
    meaning: 'The database, snapshot, transaction or cursor was used after it was closed.',
    hint: 'Open it again, or keep it open for as long as it is used.',
  },
  'usage.read_only': {
    class: 'UsageError',
    meaning: 'A write was asked of a database or snapshot that can only be read.',
    hint: 'Open the database without `readOnly`, or write outside the snapshot.',
  },
  'usage.transaction': {
    class: 'UsageError',
    meaning: 'A transaction call does not fit the state of the transaction.',
    hint: 'Transactions do not nest: use savepoints inside one.',
  },
  'usage.layout': {
    class: 'UsageError',
    meaning: 'A layout setting differs from what the file was made with, or cannot be had.',
    hint: 'Leave the setting out to use what the file carries, or change it with `rebuild`.',
  },
  'usage.trace': {
    class: 'UsageError',
    meaning: 'A recorded trace cannot be read, or belongs to another store.',
    hint: 'Give the trace that `open(path, { record })` wrote for this store.',
  },
  'usage.platform': {
    class: 'UsageError',
    meaning: 'This machine cannot hold a database of this format.',
    hint: 'The format is little-endian and needs Node.js 20 or newer.',
  },
  'syntax.unexpected': {
    class: 'ParseError',
    meaning: 'A text does not have the form that its format asks for.',
    hint: 'Correct the text at the place that the message names, or name the format it has.',
  },
  'syntax.incomplete': {
    class: 'ParseError',
    meaning: 'A text ends before it is complete.',
    hint: 'Make or copy the file again: its end is missing.',
  },
  'syntax.encoding': {
    class: 'ParseError',
    meaning: 'A text is not UTF-8.',
    hint: 'Convert the text to UTF-8.',
  },
  'syntax.duplicate_name': {
    class: 'ParseError',
    meaning: 'A name stands twice where each may stand once.',
    hint: 'Remove one of the two, or say that the last one counts.',
  },
  'syntax.checksum': {
    class: 'ParseError',
    meaning: 'A count or checksum of a dump is not that of what the dump holds.',
    hint: 'Make or copy the dump again: it was changed or damaged after it was made.',
  },
  'schema.unknown_collection': {
    class: 'SchemaError',
    meaning: 'There is no collection of that name.',
    hint: 'Create the collection first, or correct the name.',
  },
  'schema.unknown_index': {
    class: 'SchemaError',
    meaning: 'There is no index of that name.',
    hint: 'Create the index first, or correct the name.',
  },
  'schema.unknown_field': {
    class: 'SchemaError',
    meaning: 'The collection declares no field of that name.',
    hint: 'Correct the name, or declare the field.',
  },
  'schema.exists': {
    class: 'SchemaError',
    meaning: 'A collection or index of that name exists already.',
    hint: 'Choose another name, or drop the existing one first.',
  },
  'schema.mismatch': {
    class: 'SchemaError',
    meaning: 'A declaration differs from what the file holds.',
    hint: 'Declare it as the file has it, or migrate.',
  },
  'schema.unknown_collation': {
    class: 'SchemaError',
    meaning: 'The catalog names a collation that this process has not registered.',
    hint: 'Pass the collation in the `collations` option of open.',
  },
  'value.type': {
    class: 'ValueError',
    meaning: 'A value is of a kind that cannot be stored there.',
    hint: 'Convert the value to the kind that the message names.',
  },
  'value.out_of_range': {
    class: 'ValueError',
    meaning: 'A number or date is outside the range of its kind.',
    hint: 'Keep the value inside the range that the message gives.',
  },
  'value.text': {
    class: 'ValueError',
    meaning: 'A text cannot be stored as UTF-8: it has a lone surrogate.',
    hint: 'Mend the text with String.prototype.toWellFormed, or store bytes.',
  },
  'value.size': {
    class: 'ValueError',
    meaning: 'A key, value or record is larger than the format allows.',
    hint: 'Split the value, or store a shorter key.',
  },
  'constraint.unique': {
    class: 'ConstraintError',
    meaning: 'A unique key exists already.',
    hint: 'Use another key, or update the record that has it.',
  },
  'constraint.required': {
    class: 'ConstraintError',
    meaning: 'A field that must have a value has none.',
    hint: 'Give the field a value, or declare it optional.',
  },
  'constraint.check': {
    class: 'ConstraintError',
    meaning: 'A check of the collection refused the record.',
    hint: 'Correct the record.',
  },
  'conflict.writer_busy': {
    class: 'ConflictError',
    meaning: 'Another transaction of this process is writing.',
    hint: 'Write through the handles of that transaction, or wait for its end.',
  },
  'conflict.snapshot_expired': {
    class: 'ConflictError',
    meaning: 'The snapshot passed its age limit, or what it reads was overwritten by the writer.',
    hint: 'Take a new snapshot and repeat the reads.',
  },
  'limit.memory': {
    class: 'LimitError',
    meaning: 'The memory budget does not hold what was asked for.',
    hint: 'Open with a larger `memory`, close snapshots and cursors, or use smaller transactions.',
  },
  'limit.time': {
    class: 'LimitError',
    meaning: 'The call took longer than its time limit.',
    hint: 'Raise `timeoutMs`, or ask for less.',
  },
  'limit.cancelled': {
    class: 'LimitError',
    meaning: 'The call was cancelled.',
    hint: 'Nothing was changed; call again when it is wanted.',
  },
  'limit.log': {
    class: 'LimitError',
    meaning: 'The transaction does not fit the log or the page numbers that are left.',
    hint: 'Use smaller transactions.',
  },
  'storage.io': {
    class: 'StorageError',
    meaning: 'The operating system failed a read, write or sync.',
    hint: 'Look after the disk; reopen the database to recover.',
  },
  'storage.full': {
    class: 'StorageError',
    meaning: 'The disk is full; the transaction was rolled back and the database goes on.',
    hint: 'Free disk space, or delete records, a few at a time: a reserve is kept for that.',
  },
  'storage.locked': {
    class: 'StorageError',
    meaning: 'Another process, thread or handle has the database open for writing.',
    hint: 'Close it there, or open with `readOnly`.',
  },
  'storage.failed': {
    class: 'StorageError',
    meaning: 'An earlier failure made the state of the file unknown.',
    hint: 'Close and reopen the database: recovery restores every acknowledged commit.',
  },
  'storage.not_found': {
    class: 'StorageError',
    meaning: 'There is no database at the path.',
    hint: 'Correct the path, or open without `readOnly` to create it.',
  },
  'storage.permission': {
    class: 'StorageError',
    meaning: 'The operating system does not let this process open the path.',
    hint: 'Correct the permissions of the file and its folder, or open with `readOnly`.',
  },
  'storage.not_a_database': {
    class: 'StorageError',
    meaning: 'The path holds something else than a Monochord database.',
    hint: 'Correct the path. Nothing was written to it.',
  },
  'storage.future_format': {
    class: 'StorageError',
    meaning: 'The file was written by a newer version of the format.',
    hint: 'Open it with a newer version of monochord.',
  },
  'storage.log_missing': {
    class: 'StorageError',
    meaning: 'The file was not closed and its log is missing or belongs to another file.',
    hint: 'Put the log back beside the file, or restore a backup.',
  },
  'storage.recovery_needed': {
    class: 'StorageError',
    meaning: 'The file was not closed, and a read-only open cannot recover it.',
    hint: 'Open it once for writing, or pass `lastCheckpoint: true`.',
  },
  'corrupt.header': {
    class: 'CorruptionError',
    meaning: 'Neither copy of the file header is whole.',
    hint: 'Restore a backup.',
  },
  'corrupt.page': {
    class: 'CorruptionError',
    meaning: 'A page does not hold what was written to it.',
    hint: 'Restore a backup; `check` lists everything that is damaged.',
  },
  'corrupt.log': {
    class: 'CorruptionError',
    meaning: 'The log is damaged below a position that was synced.',
    hint: 'Restore a backup.',
  },
  'corrupt.record': {
    class: 'CorruptionError',
    meaning: 'The bytes of a record or key do not decode.',
    hint: 'Restore a backup; `check` lists everything that is damaged.',
  },
  'internal.assertion': {
    class: 'InternalError',
    meaning: 'The database found itself in a state that must not be.',
    hint: 'Please report this with the message.',
  },
} as const satisfies Record<string, ErrorRow>;

/** Stable code of an error. */
export type ErrorCode = keyof typeof ERROR_TABLE;

/** What an error tells beside its message. */
export interface ErrorOptions {
  /** The values that the message was made of, for programs. */
  readonly detail?: Readonly<Record<string, unknown>>;
  /** What to do, where it is more exact than the hint of the code. */
  readonly hint?: string;
  /** Where in a text the error lies; 1-based. */
  readonly position?: { readonly line: number; readonly column: number };
  readonly cause?: unknown;
}

/** The base of every error that the database throws. */
export class DatabaseError extends Error {
  readonly code: ErrorCode;
  readonly detail: Readonly<Record<string, unknown>>;
  readonly hint: string;
  readonly position: { readonly line: number; readonly column: number } | undefined;

  constructor(code: ErrorCode, message: string, options: ErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = ERROR_TABLE[code].class;
    this.code = code;
    this.detail = options.detail ?? {};
    this.hint = options.hint ?? ERROR_TABLE[code].hint;
    this.position = options.position;
  }
}

/** The caller used the interface in a way that cannot work. */
export class UsageError extends DatabaseError {}
/** A text does not parse. */
export class ParseError extends DatabaseError {}
/** A name or declaration does not fit the schema. */
export class SchemaError extends DatabaseError {}
/** A value cannot be stored or computed with. */
export class ValueError extends DatabaseError {}
/** A constraint refused a change. */
export class ConstraintError extends DatabaseError {}
/** Another transaction or snapshot stands in the way; the call may be repeated. */
export class ConflictError extends DatabaseError {}
/** A limit was reached. */
export class LimitError extends DatabaseError {}
/** The operating system or the state of the files stands in the way. */
export class StorageError extends DatabaseError {}
/** The files do not hold what was written to them. */
export class CorruptionError extends DatabaseError {}
/** A fault of the database itself. */
export class InternalError extends DatabaseError {}

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

/** Whether an error says that a disk is full: nothing has changed, and nothing latches. */
export function isFull(cause: unknown): boolean {
  return cause instanceof StorageError && cause.code === 'storage.full';
}
