/**
 * Whether a plan makes sense: every column that a node reads is one of its input, names are not
 * twice, the inputs of a union agree. Checked after each rewrite under `verify`.
 */
import { assert } from '../base/assert.ts';
import { columnsOf, inputsOf, type Plan } from './algebra.ts';
import { eachColumn } from './expression.ts';

/** @throws {InternalError} internal.assertion naming the node and the column. */
export function validate(plan: Plan): true {
  for (const input of inputsOf(plan)) validate(input);
  const names = columnsOf(plan);
  assert(new Set(names).size === names.length, `columns of ${plan.node} have different names`);
  for (const name of readBy(plan)) {
    const known = inputsOf(plan).every((input) => columnsOf(input).includes(name));
    assert(known, `${plan.node} reads the column ${name} of its input`);
  }
  if (plan.node === 'union') {
    const first = columnsOf(plan.inputs[0]!).join();
    const same = plan.inputs.every((input) => columnsOf(input).join() === first);
    assert(same, 'inputs of a union have the same columns');
  }
  if (plan.node === 'values')
    assert(
      plan.rows.every((row) => row.length === plan.columns.length),
      'rows of values have a value for each column',
    );
  return true;
}

/** The columns of its inputs that a node reads itself. */
export function readBy(plan: Plan): Set<string> {
  const names = new Set<string>();
  const add = (name: string): unknown => names.add(name);
  switch (plan.node) {
    case 'filter':
      eachColumn(plan.condition, add);
      break;
    case 'project':
      for (const { expression } of plan.columns) eachColumn(expression, add);
      break;
    case 'sort':
      for (const { column } of plan.keys) add(column);
      break;
    case 'aggregate':
      plan.groups.forEach(add);
      for (const { column } of plan.aggregates) if (column !== undefined) add(column);
      break;
    default:
  }
  return names;
}
