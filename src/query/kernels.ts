/**
 * Conditions over batches: vector primitives that narrow a selection, with the meaning of
 * `evaluate` in `expression.ts` for every row (law Q2).
 *
 * A kernel answers the rows of a selection for which its expression is `wanted`, true or false, in
 * ascending order; rows for which it is unknown are in neither (law Q4). `not` turns the wanted
 * value over, so no kernel computes a vector of truth values. Kernels are small functions called
 * once a batch (FEASIBILITY section 4); comparisons of numbers read two typed arrays.
 */
import { unreachable } from '../base/assert.ts';
import { BATCH_ROWS, type Batch, type Column } from '../model/batch.ts';
import { compareValues, equalValues, KIND, kindOf, numberOf, type Value } from '../model/value.ts';
import {
  compareNullable,
  evaluate,
  hasElement,
  hasPrefix,
  holds,
  isAmong,
  onPath,
  type Comparison,
  type Expression,
} from './expression.ts';

/** Rows in ascending order, the first `count` of a list. */
export type Rows = Uint16Array;

/** Writes the rows among the first `count` of `from` for which it holds to `into`. */
export type Kernel = (batch: Batch, from: Rows, count: number, into: Rows) => number;

/** All rows of a full batch. */
const ALL_ROWS = Uint16Array.from({ length: BATCH_ROWS }, (_, row) => row);

/** The rows of a batch that count, and how many. */
export function rowsOf(batch: Batch): Rows {
  return batch.selected ?? ALL_ROWS;
}

/** Bytes that a kernel's lists of rows take at most, for its charge. */
export function kernelBytes(expression: Expression): number {
  const own = expression.kind === 'and' || expression.kind === 'or' ? 3 : 1;
  const below =
    expression.kind === 'and' || expression.kind === 'or'
      ? expression.terms
      : 'term' in expression
        ? [expression.term]
        : [];
  return below.reduce((sum, each) => sum + kernelBytes(each), own * BATCH_ROWS * 2);
}

/** The kernel of a condition; `columns` are the names of the batch's columns. */
export function kernelOf(
  expression: Expression,
  columns: readonly string[],
  wanted = true,
): Kernel {
  switch (expression.kind) {
    case 'and':
    case 'or': {
      const terms = expression.terms.map((term) => kernelOf(term, columns, wanted));
      return (expression.kind === 'and') === wanted ? allOf(terms) : anyOf(terms);
    }
    case 'not':
      return kernelOf(expression.term, columns, !wanted);
    case 'isTrue': {
      const term = kernelOf(expression.term, columns, true);
      return wanted ? term : noneOf(term);
    }
    case 'literal':
      return (_, from, count, into) =>
        expression.value === wanted ? copyRows(from, count, into) : 0;
    case 'compare':
      return compareKernel(expression.op, expression.left, expression.right, columns, wanted);
    case 'isNull':
      return isNullKernel(expression.term, columns, wanted);
    case 'in': {
      const { values } = expression;
      const among = membership(values);
      return valueKernel(expression.term, columns, (value) => among(value) === wanted);
    }
    case 'prefix': {
      const { text } = expression;
      return valueKernel(expression.term, columns, (value) => hasPrefix(value, text) === wanted);
    }
    case 'contains': {
      const element = expression.value;
      return valueKernel(
        expression.term,
        columns,
        (value) => hasElement(value, element) === wanted,
      );
    }
    case 'column':
      return valueKernel(expression, columns, (value) => value === wanted);
    default:
      return unreachable(expression);
  }
}

function copyRows(from: Rows, count: number, into: Rows): number {
  for (let i = 0; i < count; i++) into[i] = from[i]!;
  return count;
}

function allOf(terms: readonly Kernel[]): Kernel {
  const scratch = [new Uint16Array(BATCH_ROWS), new Uint16Array(BATCH_ROWS)];
  return (batch, from, count, into) => {
    let rows = from;
    for (let i = 0; i < terms.length; i++) {
      const target = i === terms.length - 1 ? into : scratch[i & 1]!;
      count = terms[i]!(batch, rows, count, target);
      rows = target;
      if (count === 0) return 0;
    }
    return count;
  };
}

function anyOf(terms: readonly Kernel[]): Kernel {
  const hits = new Uint16Array(BATCH_ROWS);
  const isHit = new Uint8Array(BATCH_ROWS);
  const rest = new Uint16Array(BATCH_ROWS);
  return (batch, from, count, into) => {
    isHit.fill(0, 0, batch.count);
    let left = copyRows(from, count, rest);
    for (const term of terms) {
      const found = term(batch, rest, left, hits);
      for (let i = 0; i < found; i++) isHit[hits[i]!] = 1;
      let kept = 0;
      for (let i = 0; i < left; i++) {
        const row = rest[i]!;
        rest[kept] = row;
        kept += 1 - isHit[row]!;
      }
      left = kept;
      if (left === 0) break;
    }
    let total = 0;
    for (let i = 0; i < count; i++) {
      const row = from[i]!;
      into[total] = row;
      total += isHit[row]!;
    }
    return total;
  };
}

function noneOf(term: Kernel): Kernel {
  const hits = new Uint16Array(BATCH_ROWS);
  return (batch, from, count, into) => {
    const found = term(batch, from, count, hits);
    let at = 0;
    let total = 0;
    for (let i = 0; i < count; i++) {
      if (at < found && hits[at] === from[i]) at++;
      else into[total++] = from[i]!;
    }
    return total;
  };
}

/** Reads a value of a row: a column, a path into one, or anything else an expression says. */
function readerOf(
  expression: Expression,
  columns: readonly string[],
): (batch: Batch, row: number) => Value {
  if (expression.kind === 'literal') return () => expression.value;
  if (expression.kind === 'column') {
    const ordinal = columns.indexOf(expression.name);
    const { path } = expression;
    if (path === undefined) return (batch, row) => batch.columns[ordinal]!.get(row);
    return (batch, row) => onPath(batch.columns[ordinal]!.get(row), path);
  }
  let batch: Batch;
  let row = 0;
  const valueOf = (name: string): Value => batch.columns[columns.indexOf(name)]!.get(row);
  return (at, atRow) => {
    batch = at;
    row = atRow;
    return evaluate(expression, valueOf);
  };
}

function valueKernel(
  term: Expression,
  columns: readonly string[],
  test: (value: Value) => boolean,
): Kernel {
  const read = readerOf(term, columns);
  return (batch, from, count, into) => {
    let total = 0;
    for (let i = 0; i < count; i++) {
      const row = from[i]!;
      if (test(read(batch, row))) into[total++] = row;
    }
    return total;
  };
}

function isNullKernel(term: Expression, columns: readonly string[], wanted: boolean): Kernel {
  if (term.kind !== 'column' || term.path !== undefined)
    return valueKernel(term, columns, (value) => (value === null) === wanted);
  const ordinal = columns.indexOf(term.name);
  return (batch, from, count, into) => {
    const { tags } = batch.columns[ordinal]!;
    let total = 0;
    for (let i = 0; i < count; i++) {
      const row = from[i]!;
      into[total] = row;
      if ((tags[row] === KIND.null) === wanted) total++;
    }
    return total;
  };
}

function compareKernel(
  op: Comparison,
  left: Expression,
  right: Expression,
  columns: readonly string[],
  wanted: boolean,
): Kernel {
  if (left.kind === 'column' && left.path === undefined && right.kind === 'literal') {
    const ordinal = columns.indexOf(left.name);
    const { value } = right;
    if (value === null) return () => 0;
    const exact = exactNumber(value);
    if (exact !== undefined) return numberKernel(ordinal, op, exact, wanted);
    return literalKernel(ordinal, op, value, wanted);
  }
  const readLeft = readerOf(left, columns);
  const readRight = readerOf(right, columns);
  return (batch, from, count, into) => {
    let total = 0;
    for (let i = 0; i < count; i++) {
      const row = from[i]!;
      if (compareNullable(op, readLeft(batch, row), readRight(batch, row)) === wanted)
        into[total++] = row;
    }
    return total;
  };
}

/** A number that compares with float64 as it is; NaN and wide integers go the long way. */
function exactNumber(value: Value): number | undefined {
  const kind = kindOf(value);
  if (kind !== KIND.int && kind !== KIND.float) return undefined;
  const number = numberOf(value);
  return typeof number === 'number' && Math.abs(number) <= Number.MAX_SAFE_INTEGER
    ? number
    : undefined;
}

/**
 * Compares numbers: a column value that float64 does not hold exactly lies on the same side of a
 * safe literal as its nearest float64 does.
 */
function numberKernel(ordinal: number, op: Comparison, literal: number, wanted: boolean): Kernel {
  const below = holds(op, -1) === wanted ? 1 : 0;
  const equal = holds(op, 0) === wanted ? 1 : 0;
  const above = holds(op, 1) === wanted ? 1 : 0;
  const textsAbove = above; // every other kind but null and bool is above numbers
  return (batch, from, count, into) => {
    const { tags, numbers } = batch.columns[ordinal]!;
    let total = 0;
    for (let i = 0; i < count; i++) {
      const row = from[i]!;
      const tag = tags[row]!;
      into[total] = row;
      if (tag === KIND.int || tag === KIND.float) {
        const number = numbers[row]!;
        total += number < literal ? below : number === literal ? equal : above;
      } else if (tag === KIND.bool) total += below;
      else if (tag !== KIND.null) total += textsAbove;
    }
    return total;
  };
}

function literalKernel(ordinal: number, op: Comparison, literal: Value, wanted: boolean): Kernel {
  const isEquality = op === '=' || op === '!=';
  const whenEqual = (op === '=') === wanted;
  const isText = typeof literal === 'string';
  return (batch, from, count, into) => {
    const column: Column = batch.columns[ordinal]!;
    const { tags, values } = column;
    let total = 0;
    for (let i = 0; i < count; i++) {
      const row = from[i]!;
      const tag = tags[row]!;
      if (tag === KIND.null) continue;
      const value = isText && tag === KIND.text ? values[row]! : column.get(row);
      const isHit = isEquality
        ? equalValues(value, literal) === whenEqual
        : holds(op, compareValues(value, literal)) === wanted;
      if (isHit) into[total++] = row;
    }
    return total;
  };
}

/** Values from which on a set of texts and safe numbers is faster than comparing one by one. */
const SET_VALUES_MIN = 8;

function membership(values: readonly Value[]): (value: Value) => boolean | null {
  const isPlain = values.every((value) => typeof value === 'string' || Number.isSafeInteger(value));
  if (!isPlain || values.length < SET_VALUES_MIN) return (value) => isAmong(value, values);
  const set = new Set<Value>(values.map((value) => (value === 0 ? 0 : value)));
  return (value) =>
    value === null ? null : set.has(typeof value === 'bigint' ? Number(value) : value);
}
