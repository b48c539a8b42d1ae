/**
 * Queries of one collection: immutable, each method answers a new one, and nothing is read before
 * a method that answers rows. One equality on an indexed field goes straight to the index.
 */
import { requireNames } from '../base/arguments.ts';
import { failure } from '../errors.ts';
import type { Batch } from '../model/batch.ts';
import type { SourceView } from '../model/source.ts';
import { setField, type Value } from '../model/value.ts';
import type { CollectionDefinition } from '../model/schema.ts';
import {
  columnsOf,
  type AggregateColumn,
  type AggregateFunction,
  type Plan,
} from '../query/algebra.ts';
import { Analysis, reportText, type NodeReport } from '../query/analysis.ts';
import { nextBatch, operatorOf, synchronous } from '../query/execute.ts';
import { planText } from '../query/explain.ts';
import { and, column, eachColumn, not, or, type Expression } from '../query/expression.ts';
import { rowsOf } from '../query/kernels.ts';
import type { Execution, Operator as PlanOperator } from '../query/operator.ts';
import { bound, nameText, shapeOf, withSlots } from '../query/parameters.ts';
import { boundsOf, type PlannedState } from '../query/plan-cache.ts';
import type { Arguments } from '../query/ranges.ts';
import { rewritten } from '../query/rewrite.ts';
import { rowPlanOf, type RowPlan } from '../query/row-plan.ts';
import type { Access } from './access.ts';
import {
  expressionOf,
  isPlainObject,
  columnOf,
  type Condition,
  type OperandFor,
  type Operator,
} from './conditions.ts';
import { pathOf } from './declaration.ts';
import type { OperandOf, PathOf } from './types.ts';

/** One key of an order. */
export interface OrderKey {
  readonly field: string;
  readonly descending: boolean;
}

/** What a query asks, beside the collection. */
export interface QuerySpec {
  readonly condition: Expression | undefined;
  readonly select: readonly string[] | undefined;
  readonly order: readonly OrderKey[];
  readonly limit: number | undefined;
  readonly offset: number;
  readonly distinct: boolean;
}

export const EVERYTHING: QuerySpec = Object.freeze({
  condition: undefined,
  select: undefined,
  order: [],
  limit: undefined,
  offset: 0,
  distinct: false,
});

/** How a query is answered. */
export interface Explanation {
  /** The plan after all rewrites, as data. */
  readonly plan: Plan;
  /** Whether records are looked up one by one, or read in batches. */
  readonly execution: 'row plan' | 'vectors';
  /** The plan as text, one node a line. */
  readonly text: string;
}

/** How a query was answered, with what each node of the plan did. */
export interface Analysed extends Explanation {
  /** The topmost node with its inputs; of a row plan one node, which is all of it. */
  readonly report: NodeReport;
}

/** Rows with some fields, or what lies on paths. */
export type Selected<R, N extends string> = { [P in N]: P extends keyof R ? R[P] : Value };

/** Fields of a record that hold numbers. */
type NumberField<R> = {
  [N in keyof R & string]: NonNullable<R[N]> extends number ? N : never;
}[keyof R & string];

/** A query; made by `where` or `all` of a collection. `T` is what its rows are. */
export class Query<R, T> implements Iterable<T> {
  readonly #access: Access;
  readonly #spec: QuerySpec;
  /** One equality that is all there is to the query, in place of the condition. */
  readonly #field: string | undefined;
  readonly #operand: Value;

  /** Not for use outside: call `where` or `all` of a collection. */
  constructor(access: Access, spec: QuerySpec, field?: string, operand: Value = null) {
    this.#access = access;
    this.#spec = spec;
    this.#field = field;
    this.#operand = operand;
  }

  /** The query of a condition. */
  static of<R>(access: Access, condition: unknown): Query<R, R> {
    if (isPlainObject(condition)) {
      const equality = equalityIn(access, condition);
      if (equality !== undefined)
        return new Query<R, R>(access, EVERYTHING, equality, condition[equality] as Value);
    }
    return new Query<R, R>(access, {
      ...EVERYTHING,
      condition: expressionOf(access.definition, condition),
    });
  }

  #whole(): QuerySpec {
    if (this.#field === undefined) return this.#spec;
    const condition = expressionOf(this.#access.definition, { [this.#field]: this.#operand });
    return { ...this.#spec, condition };
  }

  #with(changes: Partial<QuerySpec>): Query<R, T> {
    return new Query<R, T>(this.#access, { ...this.#whole(), ...changes });
  }

  #joined(term: Expression, join: (a: Expression, b: Expression) => Expression): Query<R, T> {
    const { condition } = this.#whole();
    return this.#with({ condition: condition === undefined ? term : join(condition, term) });
  }

  /** Narrows to rows that this condition holds for, too. */
  where(condition: Condition<R>): Query<R, T>;
  where<P extends PathOf<R>, O extends Operator>(
    field: P,
    operator: O,
    operand: OperandFor<O, OperandOf<R, P>>,
  ): Query<R, T>;
  where(condition: unknown, ...rest: readonly unknown[]): Query<R, T> {
    const whole = rest.length === 0 ? condition : [condition, ...rest];
    return this.#joined(expressionOf(this.#access.definition, whole), and);
  }

  /** Adds rows that this condition holds for. */
  or(condition: Condition<R>): Query<R, T> {
    return this.#joined(expressionOf(this.#access.definition, condition), or);
  }

  /** Takes away rows that this condition holds for; those for which it is unknown, too. */
  not(condition: Condition<R>): Query<R, T> {
    return this.#joined(not(expressionOf(this.#access.definition, condition)), and);
  }

  /** Narrows rows to some of their fields; what lies on a path has the path as its name. */
  select<N extends PathOf<R>>(...fields: readonly N[]): Query<R, Selected<R, N>> {
    if (fields.length === 0) throw failure('usage.argument', 'select: names no field');
    for (const field of fields) columnOf(this.#access.definition, field);
    const select = [...new Set<string>(fields)];
    return new Query<R, Selected<R, N>>(this.#access, { ...this.#whole(), select });
  }

  /** Orders rows by a field, after the fields ordered by before; nulls come first. */
  orderBy(field: PathOf<R>, direction: 'ascending' | 'descending' = 'ascending'): Query<R, T> {
    columnOf(this.#access.definition, field);
    if (direction !== 'ascending' && direction !== 'descending')
      throw failure('usage.argument', `orderBy: ${String(direction)} is no direction`, {
        hint: "the directions are 'ascending' and 'descending'",
      });
    const { order } = this.#whole();
    return this.#with({ order: [...order, { field, descending: direction === 'descending' }] });
  }

  /** Keeps the first rows only. */
  limit(count: number): Query<R, T> {
    return this.#with({ limit: wholeNumber('limit', count) });
  }

  /** Leaves the first rows out. */
  offset(count: number): Query<R, T> {
    return this.#with({ offset: wholeNumber('offset', count) });
  }

  /** Keeps rows that differ in what is selected. */
  distinct(): Query<R, T> {
    return this.#with({ distinct: true });
  }

  // Answers.

  /** Returns all rows. */
  toArray(): T[] {
    try {
      return this.#rows();
    } catch (cause) {
      if (this.#access.scope.mayRepeat(cause)) return this.toArray();
      throw cause;
    }
  }

  #rows(): T[] {
    const access = this.#access;
    if (!access.isThere()) return [];
    if (this.#field !== undefined) {
      const lookup = access.byField.get(this.#field)!;
      return lookup.index.getAll(this.#operand, access.scope.view) as T[];
    }
    const { prepared, values } = this.#asked();
    const { names, make, rowPlan } = prepared;
    const { view } = access.scope;
    const rows: T[] = [];
    const visit = (row: readonly Value[]): unknown => rows.push(make(row, view) as T);
    if (rowPlan !== undefined && rowPlan(view, visit, values)) return rows;
    eachRow(this.#operator(bound(prepared.plan, values), view), names.length, visit);
    return rows;
  }

  /** Returns the first row, `undefined` if there is none. */
  first(): T | undefined {
    const { limit } = this.#spec;
    return limit === 0 ? undefined : this.limit(1).toArray()[0];
  }

  /** Returns the number of rows. */
  count(): number {
    const access = this.#access;
    if (!access.isThere()) return 0;
    return this.#aggregate('count') as number;
  }

  /** Returns the sum of a field over the rows that have it, `undefined` if none has. */
  sum(field: NumberField<R>): number | undefined {
    return (this.#aggregate('sum', field) ?? undefined) as number | undefined;
  }

  /** Returns the average of a field over the rows that have it, `undefined` if none has. */
  avg(field: NumberField<R>): number | undefined {
    return (this.#aggregate('avg', field) ?? undefined) as number | undefined;
  }

  /** Returns the least value of a field, `undefined` if no row has one. */
  min<N extends keyof R & string>(field: N): NonNullable<R[N]> | undefined {
    return (this.#aggregate('min', field) ?? undefined) as NonNullable<R[N]> | undefined;
  }

  /** Returns the greatest value of a field, `undefined` if no row has one. */
  max<N extends keyof R & string>(field: N): NonNullable<R[N]> | undefined {
    return (this.#aggregate('max', field) ?? undefined) as NonNullable<R[N]> | undefined;
  }

  /** Iterates the rows as of the moment of the call, reading them as they are asked for. */
  [Symbol.iterator](): IterableIterator<T> {
    const access = this.#access;
    if (!access.isThere()) return ([] as T[])[Symbol.iterator]();
    const { prepared, values } = this.#asked();
    const { names, make } = prepared;
    const view = access.scope.hold();
    try {
      const operator = this.#operator(bound(prepared.plan, values), view);
      return new Rows<T>(access, view, operator, names.length, make);
    } catch (cause) {
      access.scope.release(view);
      throw cause;
    }
  }

  /**
   * Shows how the query is answered.
   *
   * @example
   * console.log(customers.where({ region: 3 }).explain().text);
   */
  explain(): Explanation;
  /**
   * Runs the query, and shows what each node of its plan did: rows, milliseconds, pages read from
   * the file, most bytes of working memory, spilled runs. `text` has it in a line a node.
   *
   * @example
   * console.log(customers.all().orderBy('name').explain({ analyze: true }).text);
   */
  explain(options: { readonly analyze: true }): Analysed;
  explain(options: { readonly analyze?: boolean }): Explanation;
  explain(options: { readonly analyze?: boolean } = {}): Explanation {
    requireNames('explain', options, ['analyze']);
    this.#access.scope.check();
    const { prepared, values } = this.#asked();
    const plan = bound(prepared.plan, values);
    const execution = prepared.rowPlan === undefined ? 'vectors' : 'row plan';
    if (options.analyze !== true)
      return { plan, execution, text: planText(plan, this.#access.tables) };
    return this.#access.read(() => this.#analysed(plan, prepared, values));
  }

  #analysed(plan: Plan, prepared: Prepared, values: Arguments): Analysed {
    const { scope, tables } = this.#access;
    const analysis = new Analysis({
      pagesRead: () => scope.pagesRead,
      workBytes: () => scope.ledger.bytesOf('work'),
      now: () => performance.now(),
    });
    const { rowPlan } = prepared;
    let isDone = false;
    if (rowPlan !== undefined)
      analysis.time(plan, () => {
        isDone = rowPlan(scope.view, () => analysis.addRow(plan), values);
      });
    if (isDone) {
      const report = { ...analysis.report(plan, tables), inputs: [] };
      const below = planText(plan, tables).split('\n').slice(1);
      const text = [`${reportText(report)}: a row plan`, ...below].join('\n');
      return { plan, execution: 'row plan', report, text };
    }
    eachRow(operatorOf(plan, this.#execution(scope.view), analysis), 0, () => undefined);
    const report = analysis.report(plan, tables);
    return { plan, execution: 'vectors', report, text: reportText(report) };
  }

  // From what is asked to a plan.

  #operator(plan: Plan, view: number): PlanOperator {
    return operatorOf(plan, this.#execution(view));
  }

  #execution(view: number): Execution {
    const { scope } = this.#access;
    return synchronous(scope.source, view, scope.work);
  }

  /** The plan of this query's shape, made or found, and the query's own constants. */
  #asked(total?: AggregateColumn): Asked {
    const access = this.#access;
    const { scope, name } = access;
    const spec = this.#whole();
    const values: (Value | readonly Value[])[] = [];
    const condition = spec.condition === undefined ? '' : shapeOf(spec.condition, values);
    if (condition === undefined) return { prepared: this.#prepared(spec, total), values: [] };
    const shape = `${nameText(name)}${specText(spec, total)}${condition}`;
    const version = scope.version(name);
    const recordCount = version === undefined ? 0 : access.points.count(scope.view);
    const state: PlannedState = { version, recordCount };
    const found = scope.plans.find(shape, state, values) as Prepared | undefined;
    if (found !== undefined) return { prepared: found, values };
    const slotted =
      spec.condition === undefined ? spec : { ...spec, condition: withSlots(spec.condition) };
    const prepared = this.#prepared(slotted, total);
    const bounds =
      slotted.condition === undefined ? [] : boundsOf(slotted.condition, access.tables, name);
    scope.plans.keep(shape, state, values, bounds, prepared, nodesOf(prepared.plan));
    return { prepared, values };
  }

  #prepared(spec: QuerySpec, total: AggregateColumn | undefined): Prepared {
    const access = this.#access;
    const { scope, tables } = access;
    if (total !== undefined) return this.#preparedTotal(spec, total);
    const wholeOpen = spec.select === undefined && access.isOpenHere;
    const names = spec.select ?? (wholeOpen ? access.keyFields : access.fieldNames());
    const plan = rewritten(this.#plan(spec, names), tables);
    const { points } = access;
    const make = wholeOpen
      ? (row: readonly Value[], view: SourceView) => points.getByKey(row, view)
      : maker(names);
    const rowPlan = rowPlanOf(plan, tables, (name) => scope.collection(name));
    return { plan, names, make, rowPlan };
  }

  #preparedTotal(spec: QuerySpec, total: AggregateColumn): Prepared {
    const access = this.#access;
    const isBounded = spec.limit !== undefined || spec.offset !== 0;
    const select = spec.select ?? (spec.distinct ? access.fieldNames() : []);
    const names = new Set(total.column === undefined ? select : [...select, total.column]);
    const input = this.#plan({ ...spec, order: isBounded ? spec.order : [] }, [...names]);
    const plan: Plan = { node: 'aggregate', input, groups: [], aggregates: [total] };
    const { tables } = access;
    return {
      plan: rewritten(plan, tables),
      names: [total.name],
      make: maker([]),
      rowPlan: undefined,
    };
  }

  #plan(spec: QuerySpec, names: readonly string[]): Plan {
    const access = this.#access;
    const definition = scopeDefinition(access);
    const fields = access.isOpenHere ? [...namesIn(definition, spec, names)] : access.fieldNames();
    let plan: Plan = { node: 'scan', collection: access.name, columns: fields };
    if (spec.condition !== undefined)
      plan = { node: 'filter', input: plan, condition: spec.condition };
    if (spec.distinct) plan = { node: 'distinct', input: projected(definition, plan, names) };
    else plan = withPaths(definition, plan, spec.order, names);
    const keys = spec.order.map(({ field, descending }) => ({ column: field, descending }));
    if (spec.distinct) requireOrderOf(spec.order, names);
    if (keys.length > 0) plan = { node: 'sort', input: plan, keys };
    if (!spec.distinct) plan = projected(definition, plan, names);
    const { limit, offset } = spec;
    if (limit === undefined && offset === 0) return plan;
    return { node: 'limit', input: plan, offset, ...(limit !== undefined && { count: limit }) };
  }

  #aggregate(name: AggregateFunction, field?: string): Value {
    const access = this.#access;
    if (field !== undefined) columnOf(access.definition, field);
    return access.read(() => (access.isThere() ? this.#aggregated(name, field) : null));
  }

  #aggregated(name: AggregateFunction, field: string | undefined): Value {
    const access = this.#access;
    const spec = this.#whole();
    const isBounded = spec.limit !== undefined || spec.offset !== 0;
    if (field === undefined && spec.condition === undefined && !isBounded && !spec.distinct)
      return access.points.count(access.scope.view);
    if (field === undefined && this.#field !== undefined)
      return access.byField.get(this.#field)!.index.ids([this.#operand], [], access.scope.view);
    const total = { name, function: name, ...(field !== undefined && { column: field }) };
    const { prepared, values } = this.#asked(total);
    let result: Value = null;
    eachRow(this.#operator(bound(prepared.plan, values), access.scope.view), 1, (row) => {
      result = row[0]!;
    });
    return result;
  }
}

interface Prepared {
  readonly plan: Plan;
  readonly names: readonly string[];
  readonly make: (row: readonly Value[], view: SourceView) => unknown;
  readonly rowPlan: RowPlan | undefined;
}

/** A plan with the constants of a question in the places of its parameters. */
interface Asked {
  readonly prepared: Prepared;
  readonly values: Arguments;
}

/** What a query asks beside its condition, as text. */
function specText(spec: QuerySpec, total: AggregateColumn | undefined): string {
  const { select, order, limit, offset, distinct } = spec;
  const parts = [
    total === undefined ? '' : `${total.function}${nameText(total.column ?? '')}`,
    select === undefined ? '*' : select.map(nameText).join(''),
    order.map((key) => `${key.descending ? '-' : '+'}${nameText(key.field)}`).join(''),
    `${limit ?? ''},${offset},${distinct ? 'distinct' : ''}`,
  ];
  return `|${parts.join('|')}|`;
}

/** Objects that a plan is made of, texts by their length, for its charge. */
function nodesOf(value: unknown): number {
  if (typeof value === 'string') return value.length / 64;
  if (typeof value !== 'object' || value === null) return 0;
  if (value instanceof Uint8Array) return value.length / 64;
  return Object.values(value).reduce((sum: number, each) => sum + nodesOf(each), 1);
}

/** The definition as the scope has it. */
function scopeDefinition({ scope, name, definition }: Access): CollectionDefinition {
  return scope.definition(name) ?? definition;
}

/** Fields, and what lies on paths, under their names; a column below may have the name already. */
function projected(definition: CollectionDefinition, input: Plan, names: readonly string[]): Plan {
  const below = columnsOf(input);
  const columns = names.map((name) => ({
    name,
    expression: below.includes(name) ? column(name) : columnOf(definition, name),
  }));
  return { node: 'project', input, columns };
}

/** Makes columns of the paths that rows are ordered by, beside the fields that are wanted. */
function withPaths(
  definition: CollectionDefinition,
  input: Plan,
  order: readonly OrderKey[],
  names: readonly string[],
): Plan {
  const fields = columnsOf(input);
  const paths = order.map(({ field }) => field).filter((field) => !fields.includes(field));
  if (paths.length === 0) return input;
  const keys = order.map(({ field }) => field).filter((field) => fields.includes(field));
  const wanted = names.map((name) => pathOf(name, definition.fields)[0]!);
  return projected(definition, input, [...new Set([...paths, ...keys, ...wanted])]);
}

/** The fields that a query of an open collection reads. */
function namesIn(
  definition: CollectionDefinition,
  spec: QuerySpec,
  names: readonly string[],
): Set<string> {
  const fieldIn = (name: string): string => pathOf(name, definition.fields)[0]!;
  const all = new Set(names.map(fieldIn));
  for (const { field } of spec.order) all.add(fieldIn(field));
  if (spec.condition !== undefined) eachColumn(spec.condition, (name) => all.add(name));
  return all;
}

function requireOrderOf(order: readonly OrderKey[], names: readonly string[]): void {
  for (const { field } of order) {
    if (names.includes(field)) continue;
    throw failure('usage.argument', `distinct rows cannot be ordered by ${field}`, {
      hint: 'Select the field, too.',
    });
  }
}

function wholeNumber(what: string, value: number): number {
  if (Number.isSafeInteger(value) && value >= 0) return value;
  throw failure('usage.argument', `${what}: ${String(value)} is not a whole number of rows`);
}

/** Makes objects of one shape. */
function maker(names: readonly string[]): (row: readonly Value[]) => Record<string, Value> {
  return (row) => {
    const record: Record<string, Value> = {};
    for (let i = 0; i < names.length; i++) setField(record, names[i]!, row[i]!);
    return record;
  };
}

/** Calls with each row of operators, and closes them. */
function eachRow(
  operator: PlanOperator,
  columns: number,
  visit: (row: readonly Value[]) => void,
): void {
  const row = new Array<Value>(columns).fill(null);
  try {
    for (;;) {
      const batch = nextBatch(operator);
      if (batch === undefined) return;
      const rows = rowsOf(batch);
      for (let i = 0; i < batch.rowCount; i++) {
        for (let c = 0; c < columns; c++) row[c] = batch.columns[c]!.get(rows[i]!);
        visit(row);
      }
    }
  } finally {
    operator.close();
  }
}

/** The rows of operators over a view that is held until the end. */
class Rows<T> implements IterableIterator<T> {
  readonly #access: Access;
  readonly #view: number;
  readonly #operator: PlanOperator;
  readonly #make: Prepared['make'];
  readonly #row: Value[];
  #batch: Batch | undefined;
  #next = 0;
  #isOpen = true;

  constructor(
    access: Access,
    view: number,
    operator: PlanOperator,
    columns: number,
    make: Prepared['make'],
  ) {
    this.#access = access;
    this.#view = view;
    this.#operator = operator;
    this.#make = make;
    this.#row = new Array<Value>(columns).fill(null);
  }

  [Symbol.iterator](): this {
    return this;
  }

  next(): IteratorResult<T> {
    if (!this.#isOpen) return { done: true, value: undefined };
    try {
      this.#access.scope.check();
      while (this.#batch === undefined || this.#next >= this.#batch.rowCount) {
        this.#batch = nextBatch(this.#operator);
        this.#next = 0;
        if (this.#batch === undefined) return this.return();
      }
      const row = rowsOf(this.#batch)[this.#next++]!;
      for (let c = 0; c < this.#row.length; c++) this.#row[c] = this.#batch.columns[c]!.get(row);
      return { done: false, value: this.#make(this.#row, this.#view) as T };
    } catch (cause) {
      this.return();
      this.#access.scope.mayRepeat(cause); // an iteration cannot be: it says if the writer moved on
      throw cause;
    }
  }

  return(): IteratorResult<T> {
    if (this.#isOpen) {
      this.#isOpen = false;
      this.#operator.close();
      this.#access.scope.release(this.#view);
    }
    return { done: true, value: undefined };
  }
}

/** The field of a condition that is one equality on an indexed field with a fit operand. */
function equalityIn(
  access: Access,
  condition: Readonly<Record<string, unknown>>,
): string | undefined {
  let field: string | undefined;
  for (const name in condition) {
    if (field !== undefined) return undefined;
    field = name;
  }
  if (field === undefined) return undefined;
  const lookup = access.byField.get(field);
  return lookup !== undefined && typeof condition[field] === lookup.operandType ? field : undefined;
}
