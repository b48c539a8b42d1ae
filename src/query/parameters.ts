/**
 * Questions of one shape: the same but for their constants. A plan is made for the shape, with the
 * constants as numbered parameters, and asked again with others in their place.
 *
 *   shapeOf      what two questions of one shape have in common, as text; their constants apart
 *   withSlots    the condition whose constants are parameters
 *   bound        the plan of a shape with the constants of one question
 *
 * What a plan depends on beyond the costs is part of the shape: which constants are null, how many
 * different values a list has, and that a prefix has an end. Questions with other constants (long
 * lists, values of rare kinds in lists) have no shape and are planned each time.
 */
import type { Value } from '../model/value.ts';
import { mapPlan, type Plan } from './algebra.ts';
import type { Expression } from './expression.ts';
import { prefixEnd, rangesOf, type Arguments } from './ranges.ts';

/** Longest list that is a parameter: beyond, looking rows up costs more than planning. */
const LIST_MAX = 64;

/** A name in a text of names: none is the beginning of another. */
export function nameText(name: string): string {
  return `${name.length}:${name}`;
}

/**
 * The shape of a condition as text, `undefined` if it has none; adds its constants to `values`, in
 * the order of their slots.
 */
export function shapeOf(
  expression: Expression,
  values: (Value | readonly Value[])[],
): string | undefined {
  switch (expression.kind) {
    case 'column':
      return [expression.name, ...(expression.path ?? [])].map(nameText).join('');
    case 'compare': {
      const left = shapeOf(expression.left, values);
      if (left === undefined || expression.right.kind !== 'literal') return undefined;
      const { value } = expression.right;
      if (value === null) return `(${left}${expression.op}null)`;
      values.push(value);
      return `(${left}${expression.op})`;
    }
    case 'and':
    case 'or': {
      let text = `${expression.kind}(`;
      for (const term of expression.terms) {
        const shape = shapeOf(term, values);
        if (shape === undefined) return undefined;
        text += shape;
      }
      return `${text})`;
    }
    case 'not':
    case 'isNull':
    case 'isTrue': {
      const term = shapeOf(expression.term, values);
      return term === undefined ? undefined : `${expression.kind}(${term})`;
    }
    case 'in': {
      const term = shapeOf(expression.term, values);
      if (term === undefined || !isList(expression.values)) return undefined;
      values.push(expression.values);
      return `in${expression.values.length}(${term})`;
    }
    case 'prefix': {
      const term = shapeOf(expression.term, values);
      if (term === undefined || prefixEnd(expression.text) === undefined) return undefined;
      values.push(expression.text);
      return `prefix(${term})`;
    }
    case 'contains': {
      const term = shapeOf(expression.term, values);
      if (term === undefined || expression.value === null) return undefined;
      values.push(expression.value);
      return `contains(${term})`;
    }
    default:
      return undefined;
  }
}

/** Whether a list is of different plain values, so that its length is the number of its points. */
function isList(values: readonly Value[]): boolean {
  if (values.length === 0 || values.length > LIST_MAX) return false;
  for (const value of values)
    if (typeof value !== 'string' && typeof value !== 'number') return false;
  return values.length === 1 || new Set(values).size === values.length;
}

/** The condition whose constants are parameters, numbered as `shapeOf` lists them. */
export function withSlots(expression: Expression): Expression {
  let next = 0;
  const visit = (each: Expression): Expression => {
    switch (each.kind) {
      case 'compare': {
        const { right } = each;
        if (right.kind !== 'literal' || right.value === null) return each;
        return Object.freeze({ ...each, right: Object.freeze({ ...right, slot: next++ }) });
      }
      case 'and':
      case 'or':
        return Object.freeze({ ...each, terms: Object.freeze(each.terms.map(visit)) });
      case 'not':
      case 'isNull':
      case 'isTrue':
        return Object.freeze({ ...each, term: visit(each.term) });
      case 'in':
      case 'prefix':
      case 'contains':
        return Object.freeze({ ...each, slot: next++ });
      default:
        return each;
    }
  };
  return visit(expression);
}

/** A condition with the constants of a question. */
export function boundExpression(expression: Expression, values: Arguments): Expression {
  switch (expression.kind) {
    case 'literal':
      if (expression.slot === undefined) return expression;
      return { kind: 'literal', value: values[expression.slot] as Value };
    case 'column':
      return expression;
    case 'compare':
      return { ...expression, right: boundExpression(expression.right, values) };
    case 'and':
    case 'or':
      return {
        ...expression,
        terms: expression.terms.map((term) => boundExpression(term, values)),
      };
    case 'not':
    case 'isNull':
    case 'isTrue':
      return { ...expression, term: boundExpression(expression.term, values) };
    case 'in': {
      if (expression.slot === undefined) return expression;
      const { kind, term, slot } = expression;
      return { kind, term, values: values[slot] as readonly Value[] };
    }
    case 'prefix': {
      if (expression.slot === undefined) return expression;
      const { kind, term, slot } = expression;
      return { kind, term, text: values[slot] as string };
    }
    case 'contains': {
      if (expression.slot === undefined) return expression;
      const { kind, term, slot } = expression;
      return { kind, term, value: values[slot] as Value };
    }
  }
}

/** The plan of a shape with the constants of a question. */
export function bound(plan: Plan, values: Arguments): Plan {
  if (values.length === 0) return plan;
  return mapPlan(plan, (each) => {
    if (each.node === 'filter')
      return { ...each, condition: boundExpression(each.condition, values) };
    if (each.node !== 'scan' || each.access?.source === undefined) return each;
    const { source, ...access } = each.access;
    return { ...each, access: { ...access, ranges: rangesOf(source, values) } };
  });
}
