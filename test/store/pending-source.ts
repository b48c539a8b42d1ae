/**
 * A record source that answers `Pending` at random before it answers as the source it wraps: for
 * tests that whoever drives a source copes with waiting (law Q2).
 */
import type { Random } from '../../src/base/random.ts';
import type { Batch } from '../../src/model/batch.ts';
import type { SchemaChange } from '../../src/model/schema.ts';
import type {
  CollectionStatistics,
  Cursor,
  FetchRequest,
  Pending,
  RecordSource,
  ScanRequest,
  SchemaView,
  SourceView,
  StatisticsRequest,
  WriteOutcome,
  WriteRequest,
} from '../../src/model/source.ts';

/** Waits for nothing: whoever drives a test source calls again at once. */
const PENDING: Pending = Object.freeze({
  pending: true,
  ready: Promise.resolve(),
});

export class PendingSource implements RecordSource<Pending> {
  readonly #source: RecordSource<never>;
  readonly #random: Random;
  readonly #share: number;
  pendingCount = 0;

  constructor(source: RecordSource<never>, random: Random, share = 0.5) {
    this.#source = source;
    this.#random = random;
    this.#share = share;
  }

  #or<T>(answer: () => T): T | Pending {
    if (!this.#random.chance(this.#share)) return answer();
    this.pendingCount++;
    return PENDING;
  }

  #cursor(cursor: Cursor<never>): Cursor<Pending> {
    return {
      next: (): Batch | undefined | Pending => this.#or(() => cursor.next()),
      position: () => cursor.position(),
      close: () => cursor.close(),
    };
  }

  schema(view: SourceView): SchemaView | Pending {
    return this.#or(() => this.#source.schema(view));
  }

  scan(request: ScanRequest): Cursor<Pending> {
    return this.#cursor(this.#source.scan(request));
  }

  fetch(request: FetchRequest): Cursor<Pending> {
    return this.#cursor(this.#source.fetch(request));
  }

  write(request: WriteRequest): WriteOutcome | Pending {
    return this.#or(() => this.#source.write(request));
  }

  statistics(request: StatisticsRequest): CollectionStatistics | Pending {
    return this.#or(() => this.#source.statistics(request));
  }

  applySchemaChange(change: SchemaChange): Pending | undefined {
    return this.#or((): undefined => this.#source.applySchemaChange(change));
  }
}
