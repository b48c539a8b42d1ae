/**
 * Plans: questions as frozen plain data, a tree of nodes that each answer rows of named columns.
 *
 *   values     rows that the plan itself holds
 *   scan       records of a collection, by an access path once one is chosen
 *   filter     rows for which a condition is true
 *   project    computed columns
 *   sort       rows in an order; with a limit only the first of them
 *   limit      some rows of a sequence
 *   distinct   rows that differ, by the one equality
 *   aggregate  one row for each group, or one in all
 *   union      the rows of several inputs of the same columns, one after the other
 *
 * Front ends make plans, `rewrite.ts` changes them into equivalent ones, `execute.ts` runs them.
 */
import { unreachable } from '../base/assert.ts';
import type { KeyRange } from '../model/source.ts';
import type { Value } from '../model/value.ts';
import type { Expression } from './expression.ts';
import type { RangeSource } from './ranges.ts';

/** How a scan goes over its collection. */
export interface AccessPath {
  /** The index it goes by; absent: the collection's own order. */
  readonly index?: string;
  /** What it reads, in ascending order of keys; absent: everything. */
  readonly ranges?: readonly KeyRange[];
  readonly reverse?: boolean;
  /** What the ranges were made of, where parameters are among it. */
  readonly source?: RangeSource;
}

export interface ScanNode {
  readonly node: 'scan';
  readonly collection: string;
  readonly columns: readonly string[];
  readonly access?: AccessPath;
  /** Most rows. */
  readonly limit?: number;
}

export interface SortKey {
  readonly column: string;
  readonly descending: boolean;
}

export interface ProjectedColumn {
  readonly name: string;
  readonly expression: Expression;
}

export type AggregateFunction = 'count' | 'sum' | 'min' | 'max' | 'avg';

export interface AggregateColumn {
  readonly name: string;
  readonly function: AggregateFunction;
  /** The column whose values that are not null count; absent for `count` of rows. */
  readonly column?: string;
}

export type Plan =
  | {
      readonly node: 'values';
      readonly columns: readonly string[];
      readonly rows: readonly (readonly Value[])[];
    }
  | ScanNode
  | { readonly node: 'filter'; readonly input: Plan; readonly condition: Expression }
  | {
      readonly node: 'project';
      readonly input: Plan;
      readonly columns: readonly ProjectedColumn[];
    }
  | {
      readonly node: 'sort';
      readonly input: Plan;
      readonly keys: readonly SortKey[];
      readonly limit?: number;
    }
  | {
      readonly node: 'limit';
      readonly input: Plan;
      readonly offset: number;
      readonly count?: number;
    }
  | { readonly node: 'distinct'; readonly input: Plan }
  | {
      readonly node: 'aggregate';
      readonly input: Plan;
      readonly groups: readonly string[];
      readonly aggregates: readonly AggregateColumn[];
    }
  | { readonly node: 'union'; readonly inputs: readonly Plan[] };

/** The columns that a plan answers, in order. */
export function columnsOf(plan: Plan): readonly string[] {
  switch (plan.node) {
    case 'values':
    case 'scan':
      return plan.columns;
    case 'project':
      return plan.columns.map((each) => each.name);
    case 'filter':
    case 'sort':
    case 'limit':
    case 'distinct':
      return columnsOf(plan.input);
    case 'aggregate':
      return [...plan.groups, ...plan.aggregates.map((each) => each.name)];
    case 'union':
      return columnsOf(plan.inputs[0]!);
    default:
      return unreachable(plan);
  }
}

export function inputsOf(plan: Plan): readonly Plan[] {
  if (plan.node === 'values' || plan.node === 'scan') return [];
  return plan.node === 'union' ? plan.inputs : [plan.input];
}

/** The plan with other inputs; itself where they are the same. */
export function withInputs(plan: Plan, inputs: readonly Plan[]): Plan {
  const old = inputsOf(plan);
  if (old.every((each, i) => each === inputs[i])) return plan;
  if (plan.node === 'union') return Object.freeze({ ...plan, inputs: Object.freeze(inputs) });
  return Object.freeze({ ...plan, input: inputs[0]! } as Plan);
}

/** Rewrites a plan from its leaves up. */
export function mapPlan(plan: Plan, change: (plan: Plan) => Plan): Plan {
  return change(
    withInputs(
      plan,
      inputsOf(plan).map((each) => mapPlan(each, change)),
    ),
  );
}
