/**
 * Access paths: which key ranges of which index hold all rows of a condition, and what reading them
 * costs by the statistics.
 *
 * Part by part of an index's key, the terms of the condition on that part become points (equality,
 * `in`, null, an element) or one interval (comparisons, prefix); points of several parts multiply,
 * an interval ends the walk. A term that the ranges say exactly is dropped from the condition;
 * ranges compare by the one total order, as conditions do.
 */
import type { CollectionDefinition, IndexDefinition, KeyPart } from '../model/schema.ts';
import type { CollectionStatistics } from '../model/source.ts';
import { KIND, kindOf, numberOf, type Value } from '../model/value.ts';
import type { AccessPath, SortKey } from './algebra.ts';
import { and, conjunctsOf } from './conjuncts.ts';
import type { Expression } from './expression.ts';
import {
  hasSlots,
  narrowest,
  prefixEnd,
  rangesOf,
  type Bound,
  type Interval,
  type Points,
  type RangeSource,
} from './ranges.ts';

/** Most ranges that points multiply to. */
const RANGES_MAX = 1024;

/** The name under which statistics have the collection's own order. */
export const OWN_ORDER = '';

/** What the planner knows of a collection. */
export interface Tables {
  collection(name: string): CollectionDefinition | undefined;
  indexes(name: string): readonly IndexDefinition[];
  statistics(name: string): CollectionStatistics;
  /** Least and greatest number in columns that an order begins with. */
  edges(name: string): ReadonlyMap<string, readonly [number, number]>;
}

/** A key order that can be read by: an index, or the collection's own. */
export interface KeyOrder {
  readonly index: string | undefined;
  readonly parts: readonly KeyPart[];
  /** Whether no two entries have the same values of all parts. */
  readonly unique: boolean;
  /** Whether records with a null may have no entry. */
  readonly isPartial: boolean;
  /** The part that stands for elements, −1 if none does: records have any number of entries. */
  readonly elementPart: number;
}

/** A way to read all rows of a condition. */
export interface PathChoice {
  readonly access: AccessPath;
  readonly order: KeyOrder;
  /** Leading parts that have one value each. */
  readonly fixedParts: number;
  /** The terms that the ranges do not say. */
  readonly residual: Expression | undefined;
  readonly rows: number;
  readonly cost: number;
  /** Whether every range names one whole key. */
  readonly isPoints: boolean;
}

/** Cost of reading a record through an index, in records read one after the other. */
const FETCH_COST = 3;
/** Cost of an index entry whose record is not read. */
const ENTRY_COST = 0.5;
/** Cost of going to the start of a range. */
const SEEK_COST = 2;
/** Share of rows that an interval is taken to hold when nothing better is known. */
const INTERVAL_SHARE = 1 / 3;

/** Every order that a collection can be read in. */
export function keyOrders(tables: Tables, collection: string): readonly KeyOrder[] {
  const definition = tables.collection(collection);
  if (definition === undefined) return [];
  const { key } = definition;
  const own: KeyPart[] =
    key.kind === 'fields'
      ? [...key.parts]
      : key.kind === 'integer'
        ? [{ field: key.field, descending: false, collation: 'binary' }]
        : [];
  const orders: KeyOrder[] = [
    { index: undefined, parts: own, unique: true, isPartial: false, elementPart: -1 },
  ];
  for (const { name, parts, unique, nulls } of tables.indexes(collection))
    orders.push({
      index: name,
      parts,
      unique: unique && nulls === 'equal',
      isPartial: nulls === 'skip',
      elementPart: parts.findIndex((part) => part.elements === true),
    });
  return orders;
}

/** The best path that narrows a condition's rows; `undefined` if none does. */
export function bestPath(
  tables: Tables,
  collection: string,
  condition: Expression,
  columns: readonly string[],
): PathChoice | undefined {
  let best: PathChoice | undefined;
  for (const order of keyOrders(tables, collection)) {
    const path = pathBy(tables, collection, order, condition, columns);
    if (path !== undefined && (best === undefined || path.cost < best.cost)) best = path;
  }
  return best;
}

/** What a scan of everything costs. */
export function scanCost(tables: Tables, collection: string): number {
  return tables.statistics(collection).recordCount + SEEK_COST;
}

/** The terms on one part: points, or an interval. */
interface PartTerms {
  readonly points: Points | undefined;
  readonly interval: Interval;
  readonly used: readonly Expression[];
}

/** A path that reads all of an order; `undefined` if that misses records or repeats them. */
export function wholeOrder(
  order: KeyOrder,
  condition: Expression,
  rows: number,
): PathChoice | undefined {
  if (order.isPartial || order.elementPart >= 0) return undefined;
  const access = Object.freeze(order.index === undefined ? {} : { index: order.index });
  const none = { fixedParts: 0, residual: condition, isPoints: false };
  return { access, order, rows, cost: Infinity, ...none };
}

/** The path by one order that narrows a condition's rows; `undefined` if it does not. */
export function pathBy(
  tables: Tables,
  collection: string,
  order: KeyOrder,
  condition: Expression,
  columns: readonly string[],
): PathChoice | undefined {
  const terms = conjunctsOf(condition);
  const points: Points[] = [];
  let rangeCount = 1;
  let interval: Interval | undefined;
  let fixedParts = 0;
  const used = new Set<Expression>();
  for (const part of order.parts) {
    if (part.collation !== 'binary') break;
    const found = termsOn(part, terms);
    if (found === undefined) break;
    if (found.points === undefined) interval = found.interval;
    else {
      const { length } = found.points.values;
      if (rangeCount * length > RANGES_MAX) break;
      rangeCount *= length;
      if (length === 1 && fixedParts === points.length) fixedParts++;
      points.push(found.points);
    }
    found.used.forEach((term) => used.add(term));
    if (interval !== undefined) break;
  }
  if (used.size === 0) return undefined;
  // Only with one element given does a record have one entry, and every record that is meant.
  if (order.elementPart >= points.length) return undefined;
  const whole = interval === undefined ? points.length : points.length + 1;
  // Records with a null have no entry in such an index.
  const asksForNull = points.some(({ values }) => values.includes(null));
  if (order.isPartial && (whole < order.parts.length || asksForNull)) return undefined;
  const descending = order.parts.map((part) => part.descending);
  const source: RangeSource = { points, interval, descending };
  const ranges = rangesOf(source);
  const residual = terms.filter((term) => !used.has(term));
  const rows = estimatedRows(tables, collection, order, source, ranges.length);
  return {
    access: Object.freeze({
      ...(order.index !== undefined && { index: order.index }),
      ranges,
      ...(hasSlots(source) && { source }),
    }),
    order,
    fixedParts,
    residual: residual.length === 0 ? undefined : and(residual),
    rows,
    cost: costOf(tables, collection, order, rows, ranges.length, columns),
    isPoints: interval === undefined && points.length === order.parts.length,
  };
}

/** What reading so many rows by an order costs. */
export function costOf(
  tables: Tables,
  collection: string,
  order: KeyOrder,
  rows: number,
  ranges: number,
  columns: readonly string[],
): number {
  const seeks = ranges * SEEK_COST;
  if (order.index === undefined) return rows + seeks;
  return rows * (covers(tables, collection, order, columns) ? ENTRY_COST : FETCH_COST) + seeks;
}

/** Whether the entries of an order have all the columns, so that no record is read. */
export function covers(
  tables: Tables,
  collection: string,
  order: KeyOrder,
  columns: readonly string[],
): boolean {
  const definition = tables.collection(collection);
  const key = definition?.key;
  return columns.every((name) => {
    if (key?.kind === 'integer' && key.field === name) return true;
    const part = order.parts.find((each) => each.field === name);
    const type = definition?.fields.find((field) => field.name === name)?.type;
    const isExact = !['any', 'json', 'number', 'list', 'map', undefined].includes(type);
    if (part === undefined || part.path !== undefined || part.elements === true) return false;
    return isExact && part.collation === 'binary';
  });
}

function isOnPart(expression: Expression, part: KeyPart): boolean {
  if (expression.kind !== 'column' || expression.name !== part.field) return false;
  return (expression.path ?? []).join('\0') === (part.path ?? []).join('\0');
}

/** What the terms of a condition say of one part; `undefined` if nothing. */
function termsOn(part: KeyPart, terms: readonly Expression[]): PartTerms | undefined {
  for (const term of terms) {
    const points = part.elements === true ? elementOf(part, term) : pointsOf(part, term);
    if (points !== undefined) return { points, interval: { from: [], to: [] }, used: [term] };
  }
  if (part.elements === true) return undefined;
  const from: Bound[] = [];
  const to: Bound[] = [];
  const used: Expression[] = [];
  for (const term of terms) {
    const interval = intervalOf(part, term);
    if (interval === undefined) continue;
    from.push(...interval.from);
    to.push(...interval.to);
    used.push(term);
  }
  return used.length === 0 ? undefined : { points: undefined, interval: { from, to }, used };
}

/** The element that a term asks for of the list that a part stands for. */
function elementOf(part: KeyPart, term: Expression): Points | undefined {
  if (term.kind !== 'contains' || !isOnPart(term.term, part)) return undefined;
  return { values: [term.value], slot: term.slot, isList: false };
}

function pointsOf(part: KeyPart, term: Expression): Points | undefined {
  if (term.kind === 'isNull' && isOnPart(term.term, part)) return { values: [null], isList: false };
  if (term.kind === 'in' && isOnPart(term.term, part)) {
    const values = term.values.filter((value) => value !== null);
    return { values, slot: term.slot, isList: true };
  }
  if (term.kind !== 'compare' || term.op !== '=' || !isOnPart(term.left, part)) return undefined;
  return term.right.kind === 'literal' && term.right.value !== null
    ? { values: [term.right.value], slot: term.right.slot, isList: false }
    : undefined;
}

const ABOVE_NULL: Bound = { value: null, inclusive: false };

function intervalOf(part: KeyPart, term: Expression): Interval | undefined {
  if (term.kind === 'prefix' && isOnPart(term.term, part)) {
    const { text: value, slot } = term;
    if (prefixEnd(value) === undefined) return undefined;
    return {
      from: [{ value, slot, inclusive: true }],
      to: [{ value, slot, inclusive: false, isPrefixEnd: true }],
    };
  }
  if (term.kind === 'not' && term.term.kind === 'isNull' && isOnPart(term.term.term, part))
    return { from: [ABOVE_NULL], to: [] };
  if (term.kind !== 'compare' || !isOnPart(term.left, part)) return undefined;
  if (term.right.kind !== 'literal' || term.right.value === null) return undefined;
  const { value, slot } = term.right;
  const bound = { value, slot, inclusive: term.op === '<=' || term.op === '>=' };
  if (term.op === '>' || term.op === '>=') return { from: [bound], to: [] };
  if (term.op === '<' || term.op === '<=') return { from: [ABOVE_NULL], to: [bound] };
  return undefined;
}

function estimatedRows(
  tables: Tables,
  collection: string,
  order: KeyOrder,
  { points, interval }: RangeSource,
  ranges: number,
): number {
  const statistics = tables.statistics(collection);
  const index = statistics.indexes.find((each) => each.name === (order.index ?? OWN_ORDER));
  const parts = points.length;
  const total = statistics.recordCount;
  const distinct =
    parts === 0
      ? 1
      : order.index === undefined
        ? parts === order.parts.length
          ? total
          : Math.sqrt(total)
        : (index?.distinctCounts[parts - 1] ?? total);
  const each = (total * (index?.keysPerRecord ?? 1)) / Math.max(1, distinct);
  const share =
    interval === undefined ? 1 : intervalShare(interval, parts === 0 ? index : undefined);
  return Math.min(total, ranges * each * share);
}

function intervalShare(
  interval: Interval,
  index: { readonly least: Value | undefined; readonly greatest: Value | undefined } | undefined,
): number {
  const from = narrowest(interval.from, 1);
  const to = narrowest(interval.to, -1);
  const least = asNumber(index?.least);
  const greatest = asNumber(index?.greatest);
  if (least !== undefined && greatest !== undefined && greatest > least) {
    const low = asNumber(from?.value) ?? least;
    const high = asNumber(to?.value) ?? greatest;
    const share = (Math.min(high, greatest) - Math.max(low, least)) / (greatest - least);
    return Math.min(1, Math.max(share, 0.0001));
  }
  const sides = (from !== undefined && from.value !== null ? 1 : 0) + (to === undefined ? 0 : 1);
  if (sides === 0) return 1;
  return sides === 1 ? INTERVAL_SHARE : INTERVAL_SHARE * INTERVAL_SHARE;
}

export function asNumber(value: Value | undefined): number | undefined {
  if (value === undefined || value === null) return undefined;
  const kind = kindOf(value);
  return kind === KIND.int || kind === KIND.float ? Number(numberOf(value)) : undefined;
}

/**
 * Whether reading by a path gives an order; in which direction, or `undefined` if it does not.
 * `idField`: the field by which entries of equal keys are ordered, if one is.
 */
export function directionOf(
  order: KeyOrder,
  fixedParts: number,
  keys: readonly SortKey[],
  idField: string | undefined,
): 'forward' | 'reverse' | undefined {
  const fixed = new Set(order.parts.slice(0, fixedParts).map((part) => nameOf(part)));
  const rest = order.parts.slice(fixedParts);
  let reverse: boolean | undefined;
  let at = 0;
  for (const key of keys) {
    if (fixed.has(key.column)) continue;
    if (order.unique && at >= rest.length) break;
    const part = rest[at++];
    const isId = part === undefined && at === rest.length + 1 && key.column === idField;
    if (!isId && (part === undefined || part.collation !== 'binary')) return undefined;
    if (!isId && nameOf(part!) !== key.column) return undefined;
    const turned = key.descending !== (part?.descending ?? false);
    if (reverse !== undefined && reverse !== turned) return undefined;
    reverse = turned;
    if (isId) break;
  }
  return reverse === true ? 'reverse' : 'forward';
}

/** The column that a part is; paths and elements are no columns. */
function nameOf(part: KeyPart): string | undefined {
  return part.path === undefined && part.elements !== true ? part.field : undefined;
}
