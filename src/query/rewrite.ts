/**
 * The rewrites: an ordered list of named, switchable changes of a plan into an equivalent one (law
 * Q1). Under `verify` the plan is checked after each.
 */
import { verify } from '../base/assert.ts';
import { and, conjunctsOf } from './conjuncts.ts';
import {
  bestPath,
  costOf,
  covers,
  directionOf,
  keyOrders,
  pathBy,
  scanCost,
  wholeOrder,
  type KeyOrder,
  type PathChoice,
  type Tables,
} from './access-path.ts';
import {
  columnsOf,
  inputsOf,
  mapPlan,
  withInputs,
  type Plan,
  type ScanNode,
  type SortKey,
} from './algebra.ts';
import { column, isTrue, not, type Expression } from './expression.ts';
import { fold } from './fold.ts';
import { readBy, validate } from './validate.ts';

/** One rewrite: its name, and the change of a whole plan. */
export interface Rewrite {
  readonly name: string;
  readonly apply: (plan: Plan, tables: Tables) => Plan;
}

/** All rewrites in the order in which they are made. */
export const REWRITES: readonly Rewrite[] = Object.freeze([
  { name: 'foldConstants', apply: (plan) => mapPlan(plan, foldConstants) },
  { name: 'mergeFilters', apply: (plan) => mapPlan(plan, mergeFilters) },
  { name: 'pushFilters', apply: (plan) => mapPlan(plan, pushFilters) },
  { name: 'limitBelowProject', apply: (plan) => mapPlan(plan, limitBelowProject) },
  { name: 'pruneColumns', apply: (plan) => pruneColumns(plan, new Set(columnsOf(plan))) },
  { name: 'rangesInOrder', apply: rangesInOrder },
  { name: 'unionOfIndexes', apply: (plan, tables) => mapPlan(plan, (p) => unionOf(p, tables)) },
  { name: 'rangesIntoScans', apply: (plan, tables) => mapPlan(plan, (p) => rangesIn(p, tables)) },
  { name: 'orderByIndex', apply: (plan, tables) => mapPlan(plan, (p) => orderByIndex(p, tables)) },
  { name: 'limitIntoSort', apply: (plan) => mapPlan(plan, limitIntoSort) },
  { name: 'limitIntoScan', apply: (plan) => mapPlan(plan, limitIntoScan) },
]);

/** The names of rewrites that are not made. */
export type RewritesOff = ReadonlySet<string>;

export function rewritten(plan: Plan, tables: Tables, off?: RewritesOff): Plan {
  let result = plan;
  verify(() => validate(result), 'plan is valid');
  for (const { name, apply } of REWRITES) {
    if (off?.has(name)) continue;
    result = apply(result, tables);
    verify(() => validate(result), 'plan is valid');
  }
  return result;
}

function filtered(input: Plan, condition: Expression | undefined): Plan {
  if (condition === undefined) return input;
  return Object.freeze({ node: 'filter', input, condition });
}

function nothing(plan: Plan): Plan {
  return Object.freeze({ node: 'values', columns: columnsOf(plan), rows: [] });
}

function foldConstants(plan: Plan): Plan {
  if (plan.node === 'project') {
    const columns = plan.columns.map((each) => ({ ...each, expression: fold(each.expression) }));
    return Object.freeze({ ...plan, columns });
  }
  if (plan.node !== 'filter') return plan;
  const condition = fold(plan.condition);
  if (condition.kind !== 'literal') return filtered(plan.input, condition);
  return condition.value === true ? plan.input : nothing(plan);
}

function mergeFilters(plan: Plan): Plan {
  if (plan.node !== 'filter' || plan.input.node !== 'filter') return plan;
  return filtered(plan.input.input, and([plan.input.condition, plan.condition]));
}

/** Filters go below what neither makes nor drops rows by their number. */
function pushFilters(plan: Plan): Plan {
  if (plan.node !== 'filter') return plan;
  const { input, condition } = plan;
  switch (input.node) {
    case 'sort':
      if (input.limit !== undefined) return plan;
      return withInputs(input, [pushFilters(filtered(input.input, condition))]);
    case 'distinct':
      return withInputs(input, [pushFilters(filtered(input.input, condition))]);
    case 'union':
      return withInputs(
        input,
        input.inputs.map((each) => pushFilters(filtered(each, condition))),
      );
    case 'project': {
      const renamed = substituted(condition, input.columns);
      if (renamed === undefined) return plan;
      return withInputs(input, [pushFilters(filtered(input.input, renamed))]);
    }
    case 'filter':
      return pushFilters(filtered(input.input, and([input.condition, condition])));
    default:
      return plan;
  }
}

/** The condition with projected columns replaced by what they are; only where those are columns. */
function substituted(
  condition: Expression,
  columns: readonly { readonly name: string; readonly expression: Expression }[],
): Expression | undefined {
  let isPossible = true;
  const replace = (expression: Expression): Expression => {
    switch (expression.kind) {
      case 'literal':
        return expression;
      case 'column': {
        const source = columns.find((each) => each.name === expression.name)!.expression;
        if (source.kind !== 'column') isPossible = false;
        else return column(source.name, [...(source.path ?? []), ...(expression.path ?? [])]);
        return expression;
      }
      case 'compare':
        return { ...expression, left: replace(expression.left), right: replace(expression.right) };
      case 'and':
      case 'or':
        return { ...expression, terms: expression.terms.map(replace) };
      default:
        return { ...expression, term: replace(expression.term) };
    }
  };
  const result = replace(condition);
  return isPossible ? result : undefined;
}

/** Rows that are left out are not computed. */
function limitBelowProject(plan: Plan): Plan {
  if (plan.node !== 'limit' || plan.input.node !== 'project') return plan;
  const below = Object.freeze({ ...plan, input: plan.input.input });
  return withInputs(plan.input, [limitBelowProject(below)]);
}

/** Scans read only the columns that something above them reads. */
function pruneColumns(plan: Plan, wanted: ReadonlySet<string>): Plan {
  if (plan.node === 'scan') {
    const columns = plan.columns.filter((name) => wanted.has(name));
    return columns.length === plan.columns.length ? plan : Object.freeze({ ...plan, columns });
  }
  if (plan.node === 'values') return plan;
  if (plan.node === 'union') return plan;
  const keepsAll = plan.node === 'distinct' || plan.node === 'project' || plan.node === 'aggregate';
  const needed = new Set(keepsAll ? [] : wanted);
  if (plan.node === 'distinct') columnsOf(plan.input).forEach((name) => needed.add(name));
  readBy(plan).forEach((name) => needed.add(name));
  const input = pruneColumns(plan.input, needed);
  return withInputs(plan, [input]);
}

function rangesIn(plan: Plan, tables: Tables): Plan {
  if (plan.node !== 'filter' || plan.input.node !== 'scan') return plan;
  const scan = plan.input;
  if (scan.access !== undefined || scan.limit !== undefined) return plan;
  const path = bestPath(tables, scan.collection, plan.condition, scan.columns);
  if (path === undefined || path.cost >= scanCost(tables, scan.collection) + 4) return plan;
  const access: ScanNode = Object.freeze({ ...scan, access: path.access });
  return filtered(access, path.residual);
}

/** What sorting a row costs, in records read one after the other. */
const SORT_COST = 1;
/** Share of rows that pass a condition of which nothing is known. */
const RESIDUAL_SHARE = 1 / 3;

/**
 * Sorted rows of a condition are read in their order, where an index gives both and that costs less
 * than the best path and a sort: few of many rows in an order are found without reading them all.
 */
function rangesInOrder(plan: Plan, tables: Tables): Plan {
  if (plan.node === 'limit' && plan.input.node === 'sort' && plan.count !== undefined) {
    const { input } = plan;
    const read = filterInOrder(input.input, input.keys, tables, plan.offset + plan.count);
    if (read !== undefined) return withInputs(plan, [read]);
  }
  if (plan.node === 'sort') {
    const read = filterInOrder(plan.input, plan.keys, tables, plan.limit);
    if (read !== undefined) return read;
  }
  return withInputs(
    plan,
    inputsOf(plan).map((each) => rangesInOrder(each, tables)),
  );
}

function filterInOrder(
  plan: Plan,
  keys: readonly SortKey[],
  tables: Tables,
  wanted: number | undefined,
): Plan | undefined {
  if (plan.node !== 'filter' || plan.input.node !== 'scan') return undefined;
  const { condition } = plan;
  const scan = plan.input;
  const { collection, columns } = scan;
  if (scan.access !== undefined || scan.limit !== undefined) return undefined;
  if (conjunctsOf(condition).some((term) => term.kind === 'or')) return undefined; // see `unionOf`
  const key = tables.collection(collection)?.key;
  const idField = key?.kind === 'integer' ? key.field : undefined;
  const orders = keyOrders(tables, collection);
  const paths = orders.map((order) => pathBy(tables, collection, order, condition, columns));
  const all = tables.statistics(collection).recordCount;
  const matching = Math.min(
    all * RESIDUAL_SHARE,
    ...paths.map((path) => (path === undefined ? all : matchingRows(path))),
  );
  const scanned = Math.min(scanCost(tables, collection), ...paths.map((path) => path?.cost ?? all));
  let least = scanned + matching * SORT_COST;
  let best: { readonly path: PathChoice; readonly reverse: boolean } | undefined;
  orders.forEach((order, i) => {
    const path = paths[i] ?? wholeOrder(order, condition, all);
    if (path === undefined) return;
    const direction = directionOf(order, path.fixedParts, keys, idField);
    if (direction === undefined) return;
    const rows = Math.min(path.rows, wanted ?? all);
    // Where some rows do not pass, twice as many are taken to be read as their share says.
    const read =
      path.residual === undefined
        ? rows
        : Math.min(path.rows, (2 * rows * path.rows) / Math.max(1, matching));
    const ranges = path.access.ranges?.length ?? 1;
    const cost = costOf(tables, collection, order, read, ranges, columns);
    if (cost >= least) return;
    least = cost;
    best = { path, reverse: direction === 'reverse' };
  });
  if (best === undefined) return undefined;
  const { path, reverse } = best;
  return filtered(withAccess(scan, { ...path.access, reverse }), path.residual);
}

function matchingRows({ rows, residual }: PathChoice): number {
  return residual === undefined ? rows : rows * RESIDUAL_SHARE;
}

/**
 * A condition with an `or` becomes a union of scans, one for each of its terms, where that reads
 * less than one scan; rows of an earlier input are left out of the later ones.
 */
function unionOf(plan: Plan, tables: Tables): Plan {
  if (plan.node !== 'filter' || plan.input.node !== 'scan') return plan;
  const scan = plan.input;
  if (scan.access !== undefined || scan.limit !== undefined) return plan;
  const { collection, columns } = scan;
  const single = bestPath(tables, collection, plan.condition, columns);
  const singleCost = Math.min(single?.cost ?? Infinity, scanCost(tables, collection));
  const terms = conjunctsOf(plan.condition);
  for (const term of terms) {
    if (term.kind !== 'or') continue;
    const rest = terms.filter((each) => each !== term);
    const branches = term.terms.map((each, i) => {
      const before = term.terms.slice(0, i).map((earlier) => not(isTrue(earlier)));
      return { narrow: and([...rest, each]), whole: and([...rest, each, ...before]) };
    });
    let cost = 0;
    for (const { narrow } of branches)
      cost += bestPath(tables, collection, narrow, columns)?.cost ?? Infinity;
    if (cost >= singleCost) continue;
    const inputs = branches.map(({ whole }) => unionOf(filtered(scan, whole), tables));
    return Object.freeze({ node: 'union', inputs: inputs.flatMap(flatUnion) });
  }
  return plan;
}

function flatUnion(plan: Plan): readonly Plan[] {
  return plan.node === 'union' ? plan.inputs : [plan];
}

/** A sort whose input can be read in its order goes away. */
function orderByIndex(plan: Plan, tables: Tables): Plan {
  if (plan.node === 'limit') {
    const { input } = plan;
    if (input.node !== 'sort' || plan.count === undefined) return plan;
    const rows = plan.offset + plan.count;
    return withInputs(plan, [inOrder(input.input, input.keys, tables, rows) ?? input]);
  }
  if (plan.node !== 'sort') return plan;
  return inOrder(plan.input, plan.keys, tables, plan.limit) ?? plan;
}

/** The same rows in an order, `undefined` where that does not pay; `rows`: how many are wanted. */
function inOrder(
  plan: Plan,
  keys: readonly SortKey[],
  tables: Tables,
  rows: number | undefined,
): Plan | undefined {
  if (plan.node === 'filter') {
    const input = inOrder(plan.input, keys, tables, rows);
    return input === undefined ? undefined : withInputs(plan, [input]);
  }
  if (plan.node === 'project') {
    const below = keys.map((key) => {
      const source = plan.columns.find((each) => each.name === key.column)!.expression;
      return source.kind === 'column' && source.path === undefined
        ? { column: source.name, descending: key.descending }
        : undefined;
    });
    if (below.some((key) => key === undefined)) return undefined;
    const input = inOrder(plan.input, below as SortKey[], tables, rows);
    return input === undefined ? undefined : withInputs(plan, [input]);
  }
  return plan.node === 'scan' ? scanInOrder(plan, keys, tables, rows) : undefined;
}

function scanInOrder(
  scan: ScanNode,
  keys: readonly SortKey[],
  tables: Tables,
  rows: number | undefined,
): Plan | undefined {
  const orders = keyOrders(tables, scan.collection);
  const key = tables.collection(scan.collection)?.key;
  const idField = key?.kind === 'integer' ? key.field : undefined;
  if (scan.access !== undefined) {
    const order = orders.find((each) => each.index === scan.access!.index)!;
    const direction = directionOf(order, fixedIn(scan), keys, idField);
    if (direction === undefined) return undefined;
    return withAccess(scan, { ...scan.access, reverse: direction === 'reverse' });
  }
  for (const order of orders) {
    if (order.isPartial || order.elementPart >= 0) continue;
    const direction = directionOf(order, 0, keys, idField);
    if (direction === undefined) continue;
    if (!paysInOrder(scan, order, tables, rows)) continue;
    return withAccess(scan, {
      ...(order.index !== undefined && { index: order.index }),
      reverse: direction === 'reverse',
    });
  }
  return undefined;
}

function withAccess(scan: ScanNode, access: NonNullable<ScanNode['access']>): ScanNode {
  return Object.freeze({ ...scan, access: Object.freeze(access) });
}

/** Whether reading by an order costs less than sorting. */
function paysInOrder(
  scan: ScanNode,
  order: KeyOrder,
  tables: Tables,
  rows: number | undefined,
): boolean {
  if (order.index === undefined || covers(tables, scan.collection, order, scan.columns))
    return true;
  const all = tables.statistics(scan.collection).recordCount;
  const wanted = Math.min(all, rows ?? all);
  const sort = scanCost(tables, scan.collection) * 2;
  return costOf(tables, scan.collection, order, wanted, 1, scan.columns) < sort;
}

/** Leading parts that every range of a scan fixes to one and the same value. */
function fixedIn(scan: ScanNode): number {
  const ranges = scan.access?.ranges;
  if (ranges === undefined || ranges.length !== 1) return 0;
  const { from = [], to = [] } = ranges[0]!;
  let fixed = 0;
  while (fixed < from.length && fixed < to.length && from[fixed] === to[fixed]) fixed++;
  return fixed;
}

/** A sort that only the first rows are wanted of keeps no more. */
function limitIntoSort(plan: Plan): Plan {
  if (plan.node !== 'limit' || plan.count === undefined || plan.input.node !== 'sort') return plan;
  const limit = Math.min(plan.offset + plan.count, plan.input.limit ?? Infinity);
  return withInputs(plan, [Object.freeze({ ...plan.input, limit })]);
}

/** A scan under a limit ends when it has enough. */
function limitIntoScan(plan: Plan): Plan {
  if (plan.node !== 'limit' || plan.count === undefined) return plan;
  return withInputs(plan, [limited(plan.input, plan.offset + plan.count)]);
}

function limited(plan: Plan, rows: number): Plan {
  if (plan.node === 'project') return withInputs(plan, [limited(plan.input, rows)]);
  if (plan.node === 'union')
    return withInputs(
      plan,
      plan.inputs.map((each) => limited(each, rows)),
    );
  if (plan.node !== 'scan') return plan;
  return Object.freeze({ ...plan, limit: Math.min(rows, plan.limit ?? Infinity) });
}
