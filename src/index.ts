/**
 * The door of the package: everything that `import 'monochord'` gives, and nothing else.
 *
 * Line 8 of the strata.
 */
export {
  ConflictError,
  ConstraintError,
  CorruptionError,
  DatabaseError,
  ERROR_TABLE,
  InternalError,
  LimitError,
  ParseError,
  SchemaError,
  StorageError,
  UsageError,
  ValueError,
} from './errors.ts';
export type { ErrorClass, ErrorCode, ErrorOptions } from './errors.ts';
export { Database, open, Snapshot, Transaction } from './database.ts';
export type {
  AsyncTransactionOptions,
  MemoryReport,
  StatsReport,
  TransactionOptions,
} from './database.ts';
export { KeyValue } from './kv/key-value.ts';
export type { KeyValueChange, KeyValueOptions, RangeOptions } from './kv/key-value.ts';
export type { OpenOptions } from './options.ts';
