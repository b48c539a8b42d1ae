/**
 * The operators that need all of their input first: sort, distinct and aggregate. All three are one
 * external sort, so all spill inside the budget; without groups an aggregate keeps one row.
 */
import { ByteWriter } from '../base/bytes.ts';
import { BINARY } from '../model/collation.ts';
import type { Batch } from '../model/batch.ts';
import { KeyCodec } from '../model/key.ts';
import { isPending, type Pending } from '../model/source.ts';
import {
  kindOfDescriptor as kindFrom,
  readPayload,
  skipPayload,
  withKind,
  writeValue,
} from '../model/value-codec.ts';
import type { Kind, Value } from '../model/value.ts';
import { Accumulator } from './accumulator.ts';
import type { AggregateColumn, SortKey } from './algebra.ts';
import { rowsOf } from './kernels.ts';
import type { Execution, Operator } from './operator.ts';
import { OwnBatch } from './operators.ts';
import { Sorter, type SortedEntry } from '../model/sorter.ts';

/** The value of a row with its kind. */
function valueAt(batch: Batch, column: number, row: number): Value {
  const { [column]: source } = batch.columns;
  return withKind(source!.get(row), source!.tags[row]! as Kind);
}

/** Takes in rows by a key of some of their columns, and gives them back in its order. */
class SortedRows {
  readonly #input: Operator;
  readonly #sorter: Sorter;
  readonly #codec: KeyCodec;
  readonly #keyColumns: readonly number[];
  readonly #key = new ByteWriter(64);
  readonly #row = new ByteWriter(256);
  #isSorted = false;

  constructor(
    input: Operator,
    keys: readonly { readonly ordinal: number; readonly descending: boolean }[],
    execution: Execution,
    limit?: number,
  ) {
    this.#input = input;
    this.#sorter = new Sorter(execution.work, { limit });
    this.#keyColumns = keys.map((key) => key.ordinal);
    this.#codec = new KeyCodec(keys.map(({ descending }) => ({ descending, collation: BINARY })));
  }

  /** Takes all of the input; answers `Pending` while that has nothing yet. */
  take(): Pending | undefined {
    while (!this.#isSorted) {
      const batch = this.#input.next();
      if (batch !== undefined && isPending(batch)) return batch;
      if (batch === undefined) {
        this.#input.close();
        this.#isSorted = true;
      } else this.#takeBatch(batch);
    }
    return undefined;
  }

  #takeBatch(batch: Batch): void {
    const rows = rowsOf(batch);
    for (let i = 0; i < batch.rowCount; i++) {
      const row = rows[i]!;
      this.#key.length = 0;
      for (let k = 0; k < this.#keyColumns.length; k++)
        this.#codec.append(k, batch.columns[this.#keyColumns[k]!]!.get(row), this.#key);
      this.#row.length = 0;
      for (let c = 0; c < batch.columns.length; c++) writeValue(this.#row, valueAt(batch, c, row));
      this.#sorter.add(this.#key, this.#row);
    }
  }

  next(): SortedEntry | undefined {
    return this.#sorter.next();
  }

  close(): void {
    this.#input.close();
    this.#sorter.close();
  }
}

/** Decodes the row of an entry into a batch. */
function addEntry(entry: SortedEntry, batch: Batch): void {
  const row = batch.count++;
  const { bytes, rowOffset } = entry;
  const end = rowOffset + entry.rowBytes;
  let at = rowOffset;
  for (const column of batch.columns) {
    const descriptor = bytes[at]!;
    column.set(row, readPayload(bytes, at + 1, end, descriptor), kindFrom(descriptor));
    at = skipPayload(bytes, at + 1, end, descriptor);
  }
}

export class SortOperator implements Operator {
  readonly #rows: SortedRows;
  readonly #own: OwnBatch;
  #left: number;

  constructor(
    input: Operator,
    keys: readonly SortKey[],
    columns: readonly string[],
    execution: Execution,
    limit = Infinity,
  ) {
    const ordinals = keys.map(({ column, descending }) => ({
      ordinal: columns.indexOf(column),
      descending,
    }));
    this.#own = new OwnBatch(columns.length, execution);
    this.#rows = new SortedRows(input, ordinals, execution, limit);
    this.#left = limit;
  }

  next(): Batch | undefined | Pending {
    const pending = this.#rows.take();
    if (pending !== undefined) return pending;
    const { batch } = this.#own;
    batch.clear();
    while (!this.#own.isFull && this.#left > 0) {
      const entry = this.#rows.next();
      if (entry === undefined) break;
      this.#left--;
      addEntry(entry, batch);
    }
    return batch.count === 0 ? undefined : batch;
  }

  close(): void {
    this.#rows.close();
    this.#own.close();
  }
}

/** Tells whether the key of an entry differs from that of the one before. */
class KeyChange {
  readonly #last = new ByteWriter(64);
  #isFirst = true;

  isNew(entry: SortedEntry): boolean {
    const { bytes, keyOffset, keyBytes } = entry;
    if (!this.#isFirst && keyBytes === this.#last.length) {
      let i = 0;
      while (i < keyBytes && bytes[keyOffset + i] === this.#last.bytes[i]) i++;
      if (i === keyBytes) return false;
    }
    this.#isFirst = false;
    this.#last.length = 0;
    this.#last.append(bytes, keyOffset, keyOffset + keyBytes);
    return true;
  }
}

export class DistinctOperator implements Operator {
  readonly #rows: SortedRows;
  readonly #own: OwnBatch;
  readonly #change = new KeyChange();

  constructor(input: Operator, columns: readonly string[], execution: Execution) {
    const keys = columns.map((_, ordinal) => ({ ordinal, descending: false }));
    this.#own = new OwnBatch(columns.length, execution);
    this.#rows = new SortedRows(input, keys, execution);
  }

  next(): Batch | undefined | Pending {
    const pending = this.#rows.take();
    if (pending !== undefined) return pending;
    const { batch } = this.#own;
    batch.clear();
    while (!this.#own.isFull) {
      const entry = this.#rows.next();
      if (entry === undefined) break;
      if (this.#change.isNew(entry)) addEntry(entry, batch);
    }
    return batch.count === 0 ? undefined : batch;
  }

  close(): void {
    this.#rows.close();
    this.#own.close();
  }
}

/** Aggregates of all rows: one row in any case. */
export class TotalOperator implements Operator {
  readonly #input: Operator;
  readonly #ordinals: readonly number[];
  readonly #accumulators: readonly Accumulator[];
  readonly #own: OwnBatch;
  #isDone = false;

  constructor(
    input: Operator,
    aggregates: readonly AggregateColumn[],
    columns: readonly string[],
    execution: Execution,
  ) {
    this.#input = input;
    this.#ordinals = aggregates.map(({ column }) =>
      column === undefined ? -1 : columns.indexOf(column),
    );
    this.#accumulators = aggregates.map((each) => new Accumulator(each.function));
    this.#own = new OwnBatch(aggregates.length, execution);
  }

  next(): Batch | undefined | Pending {
    if (this.#isDone) return undefined;
    for (;;) {
      const batch = this.#input.next();
      if (batch !== undefined && isPending(batch)) return batch;
      if (batch === undefined) break;
      this.#accumulators.forEach((each, i) => this.#takeBatch(each, this.#ordinals[i]!, batch));
    }
    this.#isDone = true;
    this.#own.batch.clear();
    this.#own.add(this.#accumulators.map((each) => each.result()));
    return this.#own.batch;
  }

  #takeBatch(accumulator: Accumulator, ordinal: number, batch: Batch): void {
    const count = batch.rowCount;
    if (ordinal < 0) {
      accumulator.addRows(count);
      return;
    }
    const rows = rowsOf(batch);
    for (let i = 0; i < count; i++) accumulator.add(valueAt(batch, ordinal, rows[i]!));
  }

  close(): void {
    this.#input.close();
    this.#own.close();
  }
}

/** Aggregates of groups, in the order of their keys. */
export class GroupOperator implements Operator {
  readonly #rows: SortedRows;
  readonly #inputBatch: OwnBatch;
  readonly #own: OwnBatch;
  readonly #groups: readonly number[];
  readonly #aggregates: readonly AggregateColumn[];
  readonly #ordinals: readonly number[];
  readonly #change = new KeyChange();
  #accumulators: Accumulator[] = [];
  #key: Value[] | undefined;
  #isDone = false;

  constructor(
    input: Operator,
    groups: readonly string[],
    aggregates: readonly AggregateColumn[],
    columns: readonly string[],
    execution: Execution,
  ) {
    this.#groups = groups.map((name) => columns.indexOf(name));
    this.#aggregates = aggregates;
    this.#ordinals = aggregates.map(({ column }) =>
      column === undefined ? -1 : columns.indexOf(column),
    );
    const keys = this.#groups.map((ordinal) => ({ ordinal, descending: false }));
    this.#own = new OwnBatch(groups.length + aggregates.length, execution);
    this.#inputBatch = new OwnBatch(columns.length, execution);
    this.#rows = new SortedRows(input, keys, execution);
  }

  next(): Batch | undefined | Pending {
    const pending = this.#rows.take();
    if (pending !== undefined) return pending;
    this.#own.batch.clear();
    while (!this.#isDone && !this.#own.isFull) this.#takeEntry(this.#rows.next());
    return this.#own.batch.count === 0 ? undefined : this.#own.batch;
  }

  #takeEntry(entry: SortedEntry | undefined): void {
    const isNew = entry === undefined || this.#change.isNew(entry);
    if (isNew && this.#key !== undefined)
      this.#own.add([...this.#key, ...this.#accumulators.map((each) => each.result())]);
    if (entry === undefined) {
      this.#isDone = true;
      return;
    }
    const { batch } = this.#inputBatch;
    batch.clear();
    addEntry(entry, batch);
    if (isNew) {
      this.#key = this.#groups.map((ordinal) => valueAt(batch, ordinal, 0));
      this.#accumulators = this.#aggregates.map((each) => new Accumulator(each.function));
    }
    this.#accumulators.forEach((accumulator, i) => {
      const ordinal = this.#ordinals[i]!;
      if (ordinal < 0) accumulator.addRows(1);
      else accumulator.add(valueAt(batch, ordinal, 0));
    });
  }

  close(): void {
    this.#rows.close();
    this.#own.close();
    this.#inputBatch.close();
  }
}
