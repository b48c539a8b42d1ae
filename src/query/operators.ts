/**
 * The streaming operators: scan, filter, project, limit, union and values. None holds more than one
 * batch.
 */
import { Batch, BATCH_ROWS, batchBytes } from '../model/batch.ts';
import { isPending, type Cursor, type Pending } from '../model/source.ts';
import type { Value } from '../model/value.ts';
import type { ProjectedColumn, ScanNode } from './algebra.ts';
import { evaluate, type Expression } from './expression.ts';
import { kernelBytes, kernelOf, rowsOf, type Kernel, type Rows } from './kernels.ts';
import type { Execution, Operator } from './operator.ts';

export class ScanOperator implements Operator {
  readonly #node: ScanNode;
  readonly #execution: Execution;
  #cursor: Cursor<Pending> | undefined;
  #isClosed = false;

  constructor(node: ScanNode, execution: Execution) {
    this.#node = node;
    this.#execution = execution;
  }

  next(): Batch | undefined | Pending {
    if (this.#isClosed) return undefined;
    this.#cursor ??= this.#open();
    return this.#cursor.next();
  }

  #open(): Cursor<Pending> {
    const { collection, columns, access, limit } = this.#node;
    const { index, ranges, reverse } = access ?? {};
    return this.#execution.source.scan({
      collection,
      fields: columns,
      ...(index !== undefined && { index }),
      ...(ranges !== undefined && { ranges }),
      ...(reverse !== undefined && { reverse }),
      ...(limit !== undefined && { limit }),
      view: this.#execution.view,
    });
  }

  close(): void {
    this.#isClosed = true;
    this.#cursor?.close();
  }
}

export class FilterOperator implements Operator {
  readonly #input: Operator;
  readonly #kernel: Kernel;
  readonly #rows: Rows;
  readonly #execution: Execution;
  #chargedBytes: number;

  constructor(
    input: Operator,
    condition: Expression,
    columns: readonly string[],
    execution: Execution,
  ) {
    this.#input = input;
    this.#execution = execution;
    this.#chargedBytes = kernelBytes(condition) + BATCH_ROWS * 2;
    execution.work.charge(this.#chargedBytes);
    this.#kernel = kernelOf(condition, columns);
    this.#rows = new Uint16Array(BATCH_ROWS);
  }

  next(): Batch | undefined | Pending {
    for (;;) {
      const batch = this.#input.next();
      if (batch === undefined || isPending(batch)) return batch;
      const count = this.#kernel(batch, rowsOf(batch), batch.rowCount, this.#rows);
      if (count === 0) continue;
      batch.selected = this.#rows;
      batch.selectedCount = count;
      return batch;
    }
  }

  close(): void {
    this.#input.close();
    this.#execution.work.release(this.#chargedBytes);
    this.#chargedBytes = 0;
  }
}

/** A batch of an operator's own, charged. */
export class OwnBatch {
  readonly batch: Batch;
  readonly #execution: Execution;
  #chargedBytes: number;

  constructor(columns: number, execution: Execution) {
    this.#execution = execution;
    this.#chargedBytes = batchBytes(columns, execution.batchRows);
    execution.work.charge(this.#chargedBytes);
    this.batch = new Batch(columns, execution.batchRows);
  }

  /** Adds a row of values; kinds come with those that keep theirs. */
  add(values: readonly Value[]): void {
    const row = this.batch.count++;
    for (let i = 0; i < values.length; i++) this.batch.columns[i]!.set(row, values[i]!);
  }

  get isFull(): boolean {
    return this.batch.count === this.batch.capacity;
  }

  close(): void {
    this.#execution.work.release(this.#chargedBytes);
    this.#chargedBytes = 0;
  }
}

export class ProjectOperator implements Operator {
  readonly #input: Operator;
  readonly #columns: readonly ProjectedColumn[];
  readonly #ordinals: readonly number[];
  readonly #names: readonly string[];
  readonly #own: OwnBatch;
  #from: Batch | undefined;
  #next = 0;
  #row = 0;
  readonly #valueOf = (name: string): Value =>
    this.#from!.columns[this.#names.indexOf(name)]!.get(this.#row);

  constructor(
    input: Operator,
    columns: readonly ProjectedColumn[],
    names: readonly string[],
    execution: Execution,
  ) {
    this.#input = input;
    this.#columns = columns;
    this.#names = names;
    this.#ordinals = columns.map(({ expression }) =>
      expression.kind === 'column' && expression.path === undefined
        ? names.indexOf(expression.name)
        : -1,
    );
    this.#own = new OwnBatch(columns.length, execution);
  }

  next(): Batch | undefined | Pending {
    const { batch } = this.#own;
    if (this.#from === undefined) {
      const from = this.#input.next();
      if (from === undefined || isPending(from)) return from;
      this.#from = from;
      this.#next = 0;
    }
    batch.clear();
    const rows = rowsOf(this.#from);
    while (this.#next < this.#from.rowCount && !this.#own.isFull) this.#addRow(rows[this.#next++]!);
    if (this.#next >= this.#from.rowCount) this.#from = undefined;
    return batch;
  }

  #addRow(row: number): void {
    const { batch } = this.#own;
    const at = batch.count++;
    this.#row = row;
    for (let i = 0; i < this.#columns.length; i++) {
      const ordinal = this.#ordinals[i]!;
      const target = batch.columns[i]!;
      if (ordinal < 0) target.set(at, evaluate(this.#columns[i]!.expression, this.#valueOf));
      else {
        const source = this.#from!.columns[ordinal]!;
        target.tags[at] = source.tags[row]!;
        target.numbers[at] = source.numbers[row]!;
        target.values[at] = source.values[row]!;
      }
    }
  }

  close(): void {
    this.#input.close();
    this.#own.close();
  }
}

export class LimitOperator implements Operator {
  readonly #input: Operator;
  readonly #rows = new Uint16Array(BATCH_ROWS);
  #offset: number;
  #left: number;

  constructor(input: Operator, offset: number, count: number) {
    this.#input = input;
    this.#offset = offset;
    this.#left = count;
  }

  next(): Batch | undefined | Pending {
    while (this.#left > 0) {
      const batch = this.#input.next();
      if (batch === undefined || isPending(batch)) return batch;
      const { rowCount } = batch;
      const skipped = Math.min(this.#offset, rowCount);
      this.#offset -= skipped;
      const taken = Math.min(this.#left, rowCount - skipped);
      if (taken === 0) continue;
      this.#left -= taken;
      if (taken === rowCount) return batch;
      const rows = rowsOf(batch);
      for (let i = 0; i < taken; i++) this.#rows[i] = rows[skipped + i]!;
      batch.selected = this.#rows;
      batch.selectedCount = taken;
      return batch;
    }
    return undefined;
  }

  close(): void {
    this.#input.close();
  }
}

/** The rows of several inputs, each opened when the one before has ended. */
export class UnionOperator implements Operator {
  readonly #open: (ordinal: number) => Operator | undefined;
  #input: Operator | undefined;
  #ordinal = 0;

  constructor(open: (ordinal: number) => Operator | undefined) {
    this.#open = open;
  }

  next(): Batch | undefined | Pending {
    for (;;) {
      this.#input ??= this.#open(this.#ordinal);
      if (this.#input === undefined) return undefined;
      const batch = this.#input.next();
      if (batch !== undefined) return batch;
      this.close();
      this.#ordinal++;
    }
  }

  close(): void {
    this.#input?.close();
    this.#input = undefined;
  }
}

export class ValuesOperator implements Operator {
  readonly #rows: readonly (readonly Value[])[];
  readonly #own: OwnBatch;
  #next = 0;

  constructor(rows: readonly (readonly Value[])[], columns: number, execution: Execution) {
    this.#rows = rows;
    this.#own = new OwnBatch(columns, execution);
  }

  next(): Batch | undefined {
    if (this.#next >= this.#rows.length) return undefined;
    this.#own.batch.clear();
    while (this.#next < this.#rows.length && !this.#own.isFull)
      this.#own.add(this.#rows[this.#next++]!);
    return this.#own.batch;
  }

  close(): void {
    this.#own.close();
  }
}
