/**
 * Ranges of keys that conditions stand for, and what they are made of, so that those of other
 * values of the same parameters are made without planning anew.
 */
import type { KeyRange } from '../model/source.ts';
import { compareValues, equalValues, type Value } from '../model/value.ts';

/** The values that parameters have, by slot: one value, or the values of a list. */
export type Arguments = readonly (Value | readonly Value[])[];

/** Values that one part of a key may have. */
export interface Points {
  readonly values: readonly Value[];
  /** The parameter that has them, one or a list. */
  readonly slot?: number | undefined;
  readonly isList: boolean;
}

export interface Bound {
  readonly value: Value;
  readonly inclusive: boolean;
  readonly slot?: number | undefined;
  /** The bound is not the value, but where the texts end that begin with it. */
  readonly isPrefixEnd?: boolean;
}

/** Values between bounds, all of which hold. */
export interface Interval {
  readonly from: readonly Bound[];
  readonly to: readonly Bound[];
}

/** What the ranges of an access path are made of: points of leading parts, then an interval. */
export interface RangeSource {
  readonly points: readonly Points[];
  readonly interval: Interval | undefined;
  /** For every part, whether it descends. */
  readonly descending: readonly boolean[];
}

/** Whether a source has parameters. */
export function hasSlots({ points, interval }: RangeSource): boolean {
  const bounds = interval === undefined ? [] : [...interval.from, ...interval.to];
  return [...points, ...bounds].some((each) => each.slot !== undefined);
}

/** The ranges of a source, in ascending order; of the values of parameters where they are given. */
export function rangesOf(source: RangeSource, values?: Arguments): KeyRange[] {
  let prefixes: Value[][] = [[]];
  source.points.forEach((each, part) => {
    const points = ordered(valuesOf(each, values), source.descending[part]!);
    prefixes = prefixes.flatMap((prefix) => points.map((point) => [...prefix, point]));
  });
  const { interval } = source;
  if (interval === undefined)
    return prefixes.map((prefix) => ({ from: prefix, to: prefix, toInclusive: true }));
  const from = narrowest(interval.from, 1, values);
  const to = narrowest(interval.to, -1, values);
  const isTurned = source.descending[source.points.length] === true;
  return prefixes.map((prefix) =>
    isTurned ? rangeBetween(prefix, to, from) : rangeBetween(prefix, from, to),
  );
}

function valuesOf({ values, slot, isList }: Points, given: Arguments | undefined): Value[] {
  if (given === undefined || slot === undefined) return [...values];
  return isList ? [...(given[slot] as readonly Value[])] : [given[slot] as Value];
}

/** Different values in the order of a part. */
function ordered(values: Value[], descending: boolean): Value[] {
  if (values.length === 1) return values;
  const sorted = values.sort(compareValues);
  const different = sorted.filter((value, i) => i === 0 || !equalValues(value, sorted[i - 1]!));
  return descending ? different.reverse() : different;
}

/** A bound with its value. */
export interface KnownBound {
  readonly value: Value;
  readonly inclusive: boolean;
}

/** The narrowest of bounds on the same side; `sign` 1 for lower bounds, −1 for upper ones. */
export function narrowest(
  bounds: readonly Bound[],
  sign: 1 | -1,
  given?: Arguments,
): KnownBound | undefined {
  let best: KnownBound | undefined;
  for (const { value, inclusive, slot, isPrefixEnd } of bounds) {
    const bare = given === undefined || slot === undefined ? value : (given[slot] as Value);
    const known = {
      value: isPrefixEnd === true ? prefixEnd(bare as string)! : bare,
      inclusive,
    };
    const order = best === undefined ? 1 : compareValues(known.value, best.value) * sign;
    if (order > 0 || (order === 0 && !inclusive)) best = known;
  }
  return best;
}

function rangeBetween(
  prefix: Value[],
  low: KnownBound | undefined,
  high: KnownBound | undefined,
): KeyRange {
  return {
    ...(low !== undefined
      ? { from: [...prefix, low.value], fromExclusive: !low.inclusive }
      : prefix.length > 0 && { from: prefix }),
    ...(high !== undefined
      ? { to: [...prefix, high.value], toInclusive: high.inclusive }
      : prefix.length > 0 && { to: prefix, toInclusive: true }),
  };
}

/**
 * The least text that is greater than all texts with a prefix; `undefined` if there is none, or if
 * the prefix is no text that can be stored.
 */
export function prefixEnd(prefix: string): string | undefined {
  const points = Array.from(prefix);
  if (points.some(isSurrogate)) return undefined;
  while (points.length > 0) {
    const last = points.pop()!.codePointAt(0)!;
    if (last === 0x10ffff) continue;
    const next = last === 0xd7ff ? 0xe000 : last + 1; // surrogates are no characters
    return points.join('') + String.fromCodePoint(next);
  }
  return undefined;
}

function isSurrogate(point: string): boolean {
  const code = point.codePointAt(0)!;
  return code >= 0xd800 && code <= 0xdfff;
}
