/**
 * Batches: rows as typed columns, what scans hand to the question side (DESIGN section 6).
 *
 * A column of a row has a tag, the number of the kind of its value (`KIND`), and the value in one
 * of two places: numbers that are exact in a float64, and booleans as 0 and 1, in `numbers`;
 * everything else (text, bigint, bytes, …) in `values`. So a kernel over numbers runs over two
 * typed arrays, and the kind that JavaScript cannot show, 1 against 1.0, is in the tag.
 *
 * Rows are 0 ≤ row < `count`. When `selected` is not `undefined` only the rows that it lists, in
 * ascending order, count; a filter shortens the selection and moves no value.
 *
 * A batch is filled again and again by the cursor that owns it: it is valid until the cursor's next
 * `next()`. Who makes one charges `batchBytes` first.
 */
import type { Integer } from './temporal.ts';
import { Float, Int, isIntegerNumber, KIND, kindOf, type Kind, type Value } from './value.ts';

/** Rows of a batch: large enough to pay for the call, small enough for the first-level caches. */
export const BATCH_ROWS = 1024;

/** Bytes a row of one column takes, apart from what texts and others point to. */
const COLUMN_ROW_BYTES = 1 + 8 + 8;

/** Bytes to charge for a batch of so many columns and rows; values pointed to are garbage. */
export function batchBytes(columnCount: number, rows = BATCH_ROWS): number {
  return 512 + rows * (8 + 8 + 2) + columnCount * (256 + rows * COLUMN_ROW_BYTES);
}

/** One column of a batch. */
export class Column {
  readonly tags: Uint8Array;
  readonly numbers: Float64Array;
  readonly values: Value[];

  constructor(rows: number) {
    this.tags = new Uint8Array(rows);
    this.numbers = new Float64Array(rows);
    this.values = new Array<Value>(rows).fill(null);
  }

  /** Puts a value into a row, with its kind where JavaScript does not show it. */
  set(row: number, value: Value, kind?: Kind): void {
    if (typeof value === 'string') {
      this.tags[row] = KIND.text;
      this.values[row] = value;
    } else if (typeof value === 'number') {
      this.tags[row] = kind ?? (isIntegerNumber(value) ? KIND.int : KIND.float);
      this.numbers[row] = value;
    } else this.#setOther(row, value);
  }

  #setOther(row: number, value: Value): void {
    if (value instanceof Float || value instanceof Int) {
      this.set(row, value.value, value instanceof Float ? KIND.float : KIND.int);
      return;
    }
    const tag = kindOf(value);
    this.tags[row] = tag;
    if (tag === KIND.bool) this.numbers[row] = value === true ? 1 : 0;
    else this.values[row] = value;
    if (tag === KIND.int) this.numbers[row] = Number(value);
  }

  /** The value of a row. */
  get(row: number): Value {
    switch (this.tags[row]) {
      case KIND.null:
        return null;
      case KIND.bool:
        return this.numbers[row] === 1;
      case KIND.float:
        return this.numbers[row]!;
      case KIND.int: {
        const number = this.numbers[row]!;
        return Number.isSafeInteger(number) ? number : this.values[row]!;
      }
      default:
        return this.values[row]!;
    }
  }
}

/**
 * Identifies a record of a collection: its integer id, or the encoded key of a collection that is
 * organised by key.
 */
export type RecordId = Integer | Uint8Array;

export class Batch {
  readonly capacity: number;
  readonly columns: readonly Column[];
  /** The record id of each row, where the request asked for it. */
  readonly ids: RecordId[];
  count: number;
  /** The rows that count, in ascending order; `undefined` for all. */
  selected: Uint16Array | undefined;
  selectedCount: number;

  constructor(columnCount: number, capacity = BATCH_ROWS) {
    this.capacity = capacity;
    this.columns = Array.from({ length: columnCount }, () => new Column(capacity));
    this.ids = new Array<RecordId>(capacity).fill(0);
    this.count = 0;
    this.selected = undefined;
    this.selectedCount = 0;
  }

  /** Empties the batch for its next filling. */
  clear(): void {
    this.count = 0;
    this.selected = undefined;
    this.selectedCount = 0;
  }

  /** Rows that count. */
  get rowCount(): number {
    return this.selected === undefined ? this.count : this.selectedCount;
  }
}
