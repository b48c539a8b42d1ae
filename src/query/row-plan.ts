/**
 * Row plans: a plan whose scan names whole keys is compiled to a loop over `PointAccess`, one
 * record at a time, without batches (DESIGN section 6).
 *
 *   limit?  project?  filter?  scan by points
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

/** Most keys that a row plan looks up. */
const POINTS_MAX = 64;

/** Calls with the columns of each row. */
export type RowPlan = (view: SourceView, visit: (row: Value[]) => void) => void;

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
  if (at.node === 'limit') {
    offset = at.offset;
    count = at.count ?? Infinity;
    at = at.input;
  }
  if (at.node === 'project') {
    columns = at.columns;
    at = at.input;
  }
  if (at.node === 'filter') {
    condition = at.condition;
    at = at.input;
  }
  return at.node === 'scan' ? { scan: at, condition, columns, offset, count } : undefined;
}

/** The keys that a scan names one by one, `undefined` if it reads intervals. */
function pointsOf(scan: ScanNode, tables: Tables): readonly (readonly Value[])[] | undefined {
  const ranges = scan.access?.ranges;
  if (ranges === undefined || ranges.length > POINTS_MAX) return undefined;
  const order = keyOrders(tables, scan.collection).find(
    (each) => each.index === scan.access!.index,
  );
  if (order === undefined) return undefined;
  if (order.index === undefined && !areKeys(ranges, tables.collection(scan.collection)!))
    return undefined;
  const isPoint = ranges.every(
    ({ from, to, fromExclusive, toInclusive }) =>
      from !== undefined &&
      from === to &&
      fromExclusive !== true &&
      toInclusive === true &&
      from.length === order.parts.length,
  );
  return isPoint ? ranges.map((range) => range.from!) : undefined;
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
  const points = pointsOf(shape.scan, tables);
  if (points === undefined) return undefined;
  const { key } = tables.collection(shape.scan.collection)!;
  const isOwn = shape.scan.access!.index === undefined;
  const keys = isOwn ? points.flatMap((point) => keyOf(key, point)) : points;
  const lookUp = recordsOf(shape.scan, keys, collection(shape.scan.collection));
  const { scan, condition, columns, offset, count } = shape;
  const most = scan.limit ?? Infinity;
  return (view, visit) => {
    let record: RecordFields;
    const valueOf = (name: string): Value => record[name] ?? null;
    let read = 0;
    let passed = 0;
    lookUp(view, (found) => {
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

type Records = (view: SourceView, visit: (record: RecordFields) => boolean) => void;

/** The records of keys, in the order of the scan, until the visitor answers false. */
function recordsOf(
  scan: ScanNode,
  points: readonly (readonly Value[])[],
  collection: PointCollection,
): Records {
  const inOrder = scan.access?.reverse === true ? [...points].reverse() : points;
  const { index: name } = scan.access!;
  if (name === undefined) {
    return (view, visit) => {
      for (const point of inOrder) {
        const record = collection.getByKey(point, view);
        if (record !== undefined && !visit(record)) return;
      }
    };
  }
  const index = collection.index(name);
  const ids: RecordId[] = [];
  return (view, visit) => {
    for (const point of inOrder) {
      const count = index.ids(point, ids, view);
      for (let i = 0; i < count; i++) {
        const id = ids[scan.access?.reverse === true ? count - 1 - i : i]!;
        const record = collection.get(id, view);
        if (record !== undefined && !visit(record)) return;
      }
    }
  };
}
