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
