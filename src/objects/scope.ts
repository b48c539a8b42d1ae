/**
 * What the object API needs of where its handles were taken from, beyond the `Scope` that all
 * handles share: single records, batches, the schema and its changes, and working memory.
 */
import type { Ledger } from '../base/ledger.ts';
import type { Scope } from '../kv/key-value.ts';
import type { IndexDefinition, SchemaChange } from '../model/schema.ts';
import type { PointCollection, RecordSource } from '../model/source.ts';
import type { WorkSpace } from '../model/work.ts';
import type { PlanCache } from '../query/plan-cache.ts';

export interface ObjectScope extends Scope {
  readonly source: RecordSource<never>;
  readonly work: WorkSpace;
  readonly ledger: Ledger;
  /** Pages read from the file so far. */
  readonly pagesRead: number;
  /** Plans of the database's questions. */
  readonly plans: PlanCache;
  /** Whether nothing can be written here at all. */
  readonly isReadOnly: boolean;
  collection(name: string): PointCollection;
  /** The indexes of a collection as the view has them. */
  indexes(name: string): readonly IndexDefinition[];
  /** Another object for each version of a collection's definition and indexes. */
  version(name: string): object | undefined;
  /** Applies a change in the open transaction. */
  changeSchema(change: SchemaChange): void;
}
