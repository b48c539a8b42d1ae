/**
 * What every operator is: a state machine that answers one batch a call.
 *
 * `next` answers a batch that is valid until the next call, `undefined` at the end, or `Pending`
 * when its source has nothing yet: whoever drives it gives control up, and calls again. Waiting is
 * never remembered but in the operator's own fields, so the call can simply be repeated.
 */
import type { Batch } from '../model/batch.ts';
import type { Pending, RecordSource, SourceView } from '../model/source.ts';
import type { WorkSpace } from '../model/work.ts';

export interface Operator {
  next(): Batch | undefined | Pending;
  /** Gives everything back that it holds; may be called twice. */
  close(): void;
}

/** What a plan is run with. */
export interface Execution {
  readonly source: RecordSource<Pending>;
  readonly view: SourceView;
  readonly work: WorkSpace;
  /** Rows of batches that operators make; smaller in tests. */
  readonly batchRows: number;
}
