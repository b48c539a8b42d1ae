/**
 * Aggregates of values, independent of their order (law Q2): sums of integers are exact, sums of
 * floats are the exact sum rounded once.
 *
 * Source of the float sum: J. R. Shewchuk, "Adaptive Precision Floating-Point Arithmetic", 1997, in
 * the form of Python's `math.fsum`.
 */
import { failure } from '../errors.ts';
import { describeValue } from '../model/schema.ts';
import { compareValues, Float, KIND, kindOf, numberOf, type Value } from '../model/value.ts';
import type { AggregateFunction } from './algebra.ts';

const INT64_MIN = -(2n ** 63n);
const INT64_MAX = 2n ** 63n - 1n;

/** Adds values up to one result; nulls do not count. */
export class Accumulator {
  readonly #function: AggregateFunction;
  #count = 0;
  #best: Value = null;
  #integers = 0;
  #wide = 0n;
  #hasFloats = false;
  /** Floats that do not overlap, smallest first; their sum is exact. */
  #partials: number[] = [];
  /** Sum of what is not finite. */
  #special = 0;
  #hasSpecial = false;

  constructor(name: AggregateFunction) {
    this.#function = name;
  }

  /** Counts rows, for `count` without a column. */
  addRows(count: number): void {
    this.#count += count;
  }

  add(value: Value): void {
    if (value === null) return;
    this.#count++;
    switch (this.#function) {
      case 'count':
        return;
      case 'min':
        if (this.#count === 1 || compareValues(value, this.#best) < 0) this.#best = value;
        return;
      case 'max':
        if (this.#count === 1 || compareValues(value, this.#best) > 0) this.#best = value;
        return;
      default:
        this.#addNumber(value);
    }
  }

  #addNumber(value: Value): void {
    const kind = kindOf(value);
    if (kind === KIND.float) {
      this.#hasFloats = true;
      this.#addFloat(numberOf(value) as number);
      return;
    }
    if (kind !== KIND.int) {
      const what = `${this.#function} takes numbers, not ${describeValue(value)}`;
      throw failure('value.type', what, { detail: { value } });
    }
    const integer = numberOf(value);
    const next = typeof integer === 'number' ? this.#integers + integer : NaN;
    if (Number.isSafeInteger(next)) this.#integers = next;
    else this.#wide += BigInt(integer);
  }

  #addFloat(value: number): void {
    if (!Number.isFinite(value)) {
      this.#special += value;
      this.#hasSpecial = true;
      return;
    }
    let x = value;
    let kept = 0;
    const partials = this.#partials;
    for (let i = 0; i < partials.length; i++) {
      let y = partials[i]!;
      if (Math.abs(x) < Math.abs(y)) [x, y] = [y, x];
      const high = x + y;
      const low = y - (high - x);
      if (low !== 0) partials[kept++] = low;
      x = high;
    }
    partials.length = kept;
    partials.push(x);
  }

  result(): Value {
    switch (this.#function) {
      case 'count':
        return this.#count;
      case 'min':
      case 'max':
        return this.#best;
      case 'sum':
        return this.#count === 0 ? null : this.#sum();
      case 'avg':
        return this.#count === 0 ? null : new Float(this.#floatSum() / this.#count);
    }
  }

  #sum(): Value {
    if (this.#hasFloats) return new Float(this.#floatSum());
    const sum = this.#wide + BigInt(this.#integers);
    if (sum < INT64_MIN || sum > INT64_MAX)
      throw failure('value.out_of_range', `the sum ${sum} does not fit 64 bits`);
    const near = Number(sum);
    return Number.isSafeInteger(near) ? near : sum;
  }

  /** The sum of everything as one float, rounded once. */
  #floatSum(): number {
    if (this.#hasSpecial) return this.#special;
    const integers = this.#wide + BigInt(this.#integers);
    const near = Number(integers);
    const parts = new Accumulator('sum');
    parts.#partials = [...this.#partials];
    parts.#addFloat(near);
    if (Number.isFinite(near)) parts.#addFloat(Number(integers - BigInt(near)));
    return roundedSum(parts.#partials);
  }
}

/** The sum of parts that do not overlap, rounded to even as if added exactly. */
function roundedSum(partials: readonly number[]): number {
  let i = partials.length - 1;
  if (i < 0) return 0;
  let high = partials[i]!;
  let low = 0;
  while (i > 0) {
    const x = high;
    const y = partials[--i]!;
    high = x + y;
    low = y - (high - x);
    if (low !== 0) break;
  }
  const isHalfway =
    i > 0 && ((low < 0 && partials[i - 1]! < 0) || (low > 0 && partials[i - 1]! > 0));
  if (!isHalfway) return high;
  const doubled = low * 2;
  const next = high + doubled;
  return doubled === next - high ? next : high;
}
