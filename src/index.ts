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
export { Database, open } from './database.ts';
export { Snapshot, Transaction } from './scopes.ts';
export type { SliceOptions } from './slices.ts';
export type {
  AsyncTransactionOptions,
  FileLayoutOptions,
  MemoryReport,
  StatsReport,
  TransactionOptions,
} from './database.ts';
export { KeyValue } from './kv/key-value.ts';
export type { KeyValueChange, KeyValueOptions, RangeOptions } from './kv/key-value.ts';
export type {
  BulkLoadAsyncOptions,
  BulkLoadOptions,
  BulkProgress,
  BulkReport,
} from './model/bulk.ts';
export {
  Duration,
  LocalDate,
  LocalDateTime,
  LocalTime,
  Point,
  ZonedDateTime,
  ZonedTime,
} from './model/temporal.ts';
export { float, Float, int, Int } from './model/value.ts';
export type { Value, ValueMap } from './model/value.ts';
export type { Collection } from './objects/collection.ts';
export type {
  CollectionDefinition,
  FieldDefinition,
  FieldType,
  IndexDefinition,
  KeyPart,
  SchemaChange,
} from './model/schema.ts';
export type { RecordFields, RecordInput } from './model/record.ts';
export type { SchemaView } from './model/source.ts';
export type { CollectionOf } from './scopes.ts';
export { and, not, or } from './objects/conditions.ts';
export type {
  Combination,
  Condition,
  FieldCondition,
  FieldConditions,
  Operator,
} from './objects/conditions.ts';
export type { CollectionSettings, IndexPart, IndexSetting } from './objects/declaration.ts';
export type { Analysed, Explanation, Query } from './objects/query.ts';
export type { NodeReport } from './query/analysis.ts';
export type { Session } from './objects/session.ts';
export type { FieldTypes, RecordInputOf, RecordOf, StandardSchema } from './objects/types.ts';
export type { OpenOptions } from './options.ts';
export type { RecordingReport, RecordOptions } from './recording/recorder.ts';
export { forgetRebuild, rebuild, rebuildAsync, undoRebuild } from './rebuild/index.ts';
export type {
  CollectionChange,
  LayoutChange,
  LayoutPlan,
  RebuildAsyncOptions,
  RebuildOptions,
  RebuildProgress,
  RebuildReport,
  TreeChange,
  UndoOptions,
  UndoReport,
} from './rebuild/index.ts';
