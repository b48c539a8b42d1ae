/**
 * Running plans: a tree of operators for a rewritten plan, and the rows of it one after the other.
 */
import { assert, unreachable } from '../base/assert.ts';
import { BATCH_ROWS, type Batch } from '../model/batch.ts';
import { isPending, type RecordSource, type SourceView } from '../model/source.ts';
import type { WorkSpace } from '../model/work.ts';
import { columnsOf, type Plan } from './algebra.ts';
import type { Analysis } from './analysis.ts';
import {
  FilterOperator,
  LimitOperator,
  ProjectOperator,
  ScanOperator,
  UnionOperator,
  ValuesOperator,
} from './operators.ts';
import { DistinctOperator, GroupOperator, SortOperator, TotalOperator } from './sort-operators.ts';
import type { Execution, Operator } from './operator.ts';

/**
 * The operators of a plan; whoever asks closes the topmost, which closes all. Under an analysis
 * each of them is measured.
 */
export function operatorOf(plan: Plan, execution: Execution, analysis?: Analysis): Operator {
  if (analysis === undefined) return made(plan, execution, undefined);
  const own = analysis.executionOf(plan, execution);
  return analysis.wrap(plan, made(plan, own, { analysis, execution }));
}

/** What the inputs of an analysed node are made with. */
interface Analysed {
  readonly analysis: Analysis;
  readonly execution: Execution;
}

function made(plan: Plan, execution: Execution, analysed: Analysed | undefined): Operator {
  const inputOf = (input: Plan): Operator =>
    operatorOf(input, analysed?.execution ?? execution, analysed?.analysis);
  if (plan.node === 'scan') return new ScanOperator(plan, execution);
  if (plan.node === 'values') return new ValuesOperator(plan.rows, plan.columns.length, execution);
  if (plan.node === 'union')
    return new UnionOperator((ordinal) => {
      const input = plan.inputs[ordinal];
      return input === undefined ? undefined : inputOf(input);
    });
  const input = inputOf(plan.input);
  try {
    return over(plan, input, execution);
  } catch (cause) {
    input.close();
    throw cause;
  }
}

type UnaryPlan = Exclude<Plan, { readonly node: 'scan' | 'values' | 'union' }>;

function over(plan: UnaryPlan, input: Operator, execution: Execution): Operator {
  const columns = columnsOf(plan.input);
  switch (plan.node) {
    case 'filter':
      return new FilterOperator(input, plan.condition, columns, execution);
    case 'project':
      return new ProjectOperator(input, plan.columns, columns, execution);
    case 'limit':
      return new LimitOperator(input, plan.offset, plan.count ?? Infinity);
    case 'sort':
      return new SortOperator(input, plan.keys, columns, execution, plan.limit);
    case 'distinct':
      return new DistinctOperator(input, columns, execution);
    case 'aggregate':
      return plan.groups.length === 0
        ? new TotalOperator(input, plan.aggregates, columns, execution)
        : new GroupOperator(input, plan.groups, plan.aggregates, columns, execution);
    default:
      return unreachable(plan);
  }
}

/** Makes the execution of a plan over a source that never waits. */
export function synchronous(
  source: RecordSource<never>,
  view: SourceView,
  work: WorkSpace,
): Execution {
  return { source, view, work, batchRows: BATCH_ROWS };
}

/** The next batch of operators over a source that never waits. */
export function nextBatch(operator: Operator): Batch | undefined {
  const batch = operator.next();
  assert(batch === undefined || !isPending(batch), 'a source that never waits answered Pending');
  return batch;
}
