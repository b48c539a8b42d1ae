/**
 * Row plans: a plan whose scan names whole keys is compiled to a loop over `PointAccess`, one
 * record at a time, without batches (DESIGN section 6).
 *
 *   project?  limit?  filter?  scan by points
 *
 * The rows are those of the vectorised operators, in the same order (law Q2).
 */
import type { RecordId } from '../model/batch.ts';
import type { RecordFields } from '../model/record.ts';
import type { CollectionDefinition, RecordKey } from '../model/schema.ts';
import type { KeyRange, PointCollection, SourceView } from '../model/source.ts';
import { KIND, kindOf, numberOf, type KindName, type Value } from '../model/value.ts';
import { keyOrders, type Tables } from './access-path.ts';
import type { Plan, ProjectedColumn, ScanNode } from './algebra.ts';
import { evaluate, type Expression } from './expression.ts';
import { boundExpression } from './parameters.ts';
import { rangesOf, type Arguments } from './ranges.ts';

/** Most keys that a row plan looks up. */
const POINTS_MAX = 64;

/**
 * Calls with the columns of each row, for the constants of a question where the plan has
 * parameters; answers false, and calls nothing, where those are no keys of the collection.
 */
export type RowPlan = (
  view: SourceView,
  visit: (row: Value[]) => void,
  values?: Arguments,
) => boolean;

interface Shape {
  readonly scan: ScanNode;
  readonly condition: Expression | undefined;
  readonly columns: readonly ProjectedColumn[] | undefined;
  readonly offset: number;
  readonly count: number;
}

function shapeOf(plan: Plan): Shape | undefined {
  let at = plan;
  let offset = 0;
  let count = Infinity;
  let columns: readonly ProjectedColumn[] | undefined;
  let condition: Expression | undefined;
  if (at.node === 'project') {
    columns = at.columns;
    at = at.input;
  }
  if (at.node === 'limit') {
    offset = at.offset;
    count = at.count ?? Infinity;
    at = at.input;
  }
  if (at.node === 'filter') {
    condition = at.condition;
    at = at.input;
  }
  return at.node === 'scan' ? { scan: at, condition, columns, offset, count } : undefined;
}

/** Whether a scan names keys one by one, and reads no intervals. */
function isByPoints(scan: ScanNode, tables: Tables): boolean {
  const ranges = scan.access?.ranges;
  if (ranges === undefined || ranges.length > POINTS_MAX) return false;
  const order = keyOrders(tables, scan.collection).find(
    (each) => each.index === scan.access!.index,
  );
  if (order === undefined) return false;
  return ranges.every(
    ({ from, to, fromExclusive, toInclusive }) =>
      from !== undefined &&
      from === to &&
      fromExclusive !== true &&
      toInclusive === true &&
      from.length === order.parts.length,
  );
}

/** Whether values are of the kinds that the parts of a collection's own key have. */
function areKeys(ranges: readonly KeyRange[], { key, fields }: CollectionDefinition): boolean {
  if (key.kind !== 'fields') return true;
  return ranges.every(({ from = [] }) =>
    from.every((value, i) => {
      const type = fields.find((field) => field.name === key.parts[i]?.field)?.type;
      return type === 'any' || type === 'json' || kindOf(value) === KIND[type as KindName];
    }),
  );
}

/** The row plan of a plan, `undefined` where it has none. */
export function rowPlanOf(
  plan: Plan,
  tables: Tables,
  collection: (name: string) => PointCollection,
): RowPlan | undefined {
  const shape = shapeOf(plan);
  if (shape === undefined) return undefined;
  if (!isByPoints(shape.scan, tables)) return undefined;
  const { scan, columns, offset, count } = shape;
  const definition = tables.collection(scan.collection)!;
  const { source, index } = scan.access!;
  const lookUp = recordsOf(scan, collection(scan.collection));
  const most = scan.limit ?? Infinity;
  return (view, visit, values) => {
    const isAsked = values !== undefined && source !== undefined;
    const ranges = isAsked ? rangesOf(source, values) : scan.access!.ranges!;
    if (index === undefined && !areKeys(ranges, definition)) return false;
    const points: (readonly Value[])[] = [];
    for (const { from } of ranges) {
      if (index !== undefined) points.push(from!);
      else points.push(...keyOf(definition.key, from!));
    }
    const condition =
      values === undefined || shape.condition === undefined
        ? shape.condition
        : boundExpression(shape.condition, values);
    let record: RecordFields;
    const valueOf = (name: string): Value => record[name] ?? null;
    let read = 0;
    let passed = 0;
    lookUp(points, view, (found) => {
      record = found;
      if (read++ >= most) return false;
      if (condition !== undefined && evaluate(condition, valueOf) !== true) return true;
      if (passed++ < offset) return true;
      if (passed > offset + count) return false;
      visit(
        columns === undefined
          ? scan.columns.map(valueOf)
          : columns.map((each) => evaluate(each.expression, valueOf)),
      );
      return true;
    });
    return true;
  };
}

/** A point as a key that the collection can have; none where it cannot. */
function keyOf(key: RecordKey, point: readonly Value[]): readonly (readonly Value[])[] {
  if (key.kind !== 'integer') return [point];
  const kind = kindOf(point[0]);
  if (kind !== KIND.int && kind !== KIND.float) return [];
  const number = numberOf(point[0]!);
  return typeof number === 'bigint' || Number.isSafeInteger(number) ? [[number]] : [];
}

type Records = (
  points: readonly (readonly Value[])[],
  view: SourceView,
  visit: (record: RecordFields) => boolean,
) => void;

/** The records of keys, in the order of the scan, until the visitor answers false. */
function recordsOf(scan: ScanNode, collection: PointCollection): Records {
  const { index: name, reverse } = scan.access!;
  const inOrder = <T>(points: readonly T[]): readonly T[] =>
    reverse === true ? [...points].reverse() : points;
  if (name === undefined) {
    return (points, view, visit) => {
      for (const point of inOrder(points)) {
        const record = collection.getByKey(point, view);
        if (record !== undefined && !visit(record)) return;
      }
    };
  }
  const index = collection.index(name);
  const ids: RecordId[] = [];
  return (points, view, visit) => {
    for (const point of inOrder(points)) {
      const count = index.ids(point, ids, view);
      for (let i = 0; i < count; i++) {
        const id = ids[reverse === true ? count - 1 - i : i]!;
        const record = collection.get(id, view);
        if (record !== undefined && !visit(record)) return;
      }
    }
  };
}
