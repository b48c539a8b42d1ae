/**
 * What the object API needs of where its handles were taken from, beyond the `Scope` that all
 * handles share: single records, batches, the schema and its changes, and working memory.
 */
import type { Ledger } from '../base/ledger.ts';
import type { Scope } from '../kv/key-value.ts';
import type { IndexDefinition, SchemaChange } from '../model/schema.ts';
import type { PointCollection, RecordSource } from '../model/source.ts';
import type { WorkSpace } from '../model/work.ts';

export interface ObjectScope extends Scope {
  readonly source: RecordSource<never>;
  readonly work: WorkSpace;
  readonly ledger: Ledger;
  /** Whether nothing can be written here at all. */
  readonly isReadOnly: boolean;
  collection(name: string): PointCollection;
  /** The indexes of a collection as the view has them. */
  indexes(name: string): readonly IndexDefinition[];
  /** Applies a change in the open transaction. */
  changeSchema(change: SchemaChange): void;
}
