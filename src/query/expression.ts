/**
 * Expressions: what is computed of one row, as frozen plain data, and their meaning for one value
 * at a time. `kernels.ts` computes the same over batches.
 *
 * Logic is three-valued: null is unknown. A comparison with null is null, `and` is false if any
 * term is, `or` is true if any is, `not null` is null; a filter keeps what is true (law Q4).
 * Everything else is compared in the one total order of `model/value.ts`. Where a language means
 * something else, its binder writes another expression.
 */
import { unreachable } from '../base/assert.ts';
import { deepFreeze } from '../model/schema.ts';
import { compareValues, equalValues, type Value } from '../model/value.ts';

export const COMPARISONS = ['=', '!=', '<', '<=', '>', '>='] as const;
export type Comparison = (typeof COMPARISONS)[number];

/**
 * A constant may be a parameter: `slot` is its number among those of the question, and its value
 * that of the question which was planned. `parameters.ts` puts others in its place.
 */
export type Expression =
  | { readonly kind: 'literal'; readonly value: Value; readonly slot?: number }
  /** A column of the input by name, or what lies on a path into the maps that it holds. */
  | { readonly kind: 'column'; readonly name: string; readonly path?: readonly string[] }
  | {
      readonly kind: 'compare';
      readonly op: Comparison;
      readonly left: Expression;
      readonly right: Expression;
    }
  | { readonly kind: 'and' | 'or'; readonly terms: readonly Expression[] }
  | { readonly kind: 'not'; readonly term: Expression }
  | { readonly kind: 'isNull'; readonly term: Expression }
  /** Whether the term is true: neither false nor unknown. */
  | { readonly kind: 'isTrue'; readonly term: Expression }
  /** Whether the term equals one of the values; null among them makes a miss unknown. */
  | {
      readonly kind: 'in';
      readonly term: Expression;
      readonly values: readonly Value[];
      readonly slot?: number;
    }
  /** Whether the term is a text that begins with another; null for what is no text. */
  | {
      readonly kind: 'prefix';
      readonly term: Expression;
      readonly text: string;
      readonly slot?: number;
    }
  /**
   * Whether the term is a list with an element that equals the value, null being equal to null;
   * null for what is no list.
   */
  | {
      readonly kind: 'contains';
      readonly term: Expression;
      readonly value: Value;
      readonly slot?: number;
    };

export function literal(value: Value): Expression {
  return Object.freeze({ kind: 'literal', value });
}

export function column(name: string, path: readonly string[] = []): Expression {
  return deepFreeze({ kind: 'column', name, ...(path.length > 0 && { path }) });
}

export function compare(op: Comparison, left: Expression, right: Expression): Expression {
  return Object.freeze({ kind: 'compare', op, left, right });
}

export function and(...terms: readonly Expression[]): Expression {
  return joined('and', terms);
}

export function or(...terms: readonly Expression[]): Expression {
  return joined('or', terms);
}

function joined(kind: 'and' | 'or', terms: readonly Expression[]): Expression {
  if (terms.length === 1) return terms[0]!;
  return Object.freeze({ kind, terms: Object.freeze([...terms]) });
}

export function not(term: Expression): Expression {
  return Object.freeze({ kind: 'not', term });
}

export function isNull(term: Expression): Expression {
  return Object.freeze({ kind: 'isNull', term });
}

export function isTrue(term: Expression): Expression {
  return Object.freeze({ kind: 'isTrue', term });
}

export function within(term: Expression, values: readonly Value[]): Expression {
  return Object.freeze({ kind: 'in', term, values: Object.freeze([...values]) });
}

export function prefixed(term: Expression, text: string): Expression {
  return Object.freeze({ kind: 'prefix', term, text });
}

export function contains(term: Expression, value: Value): Expression {
  return Object.freeze({ kind: 'contains', term, value });
}

/** True, false, or null for unknown; other values where an expression is no condition. */
export function evaluate(expression: Expression, valueOf: (name: string) => Value): Value {
  switch (expression.kind) {
    case 'literal':
      return expression.value;
    case 'column':
      return onPath(valueOf(expression.name), expression.path);
    case 'compare':
      return compareNullable(
        expression.op,
        evaluate(expression.left, valueOf),
        evaluate(expression.right, valueOf),
      );
    case 'and':
    case 'or':
      return evaluateTerms(expression.kind === 'or', expression.terms, valueOf);
    case 'not':
      return negated(evaluate(expression.term, valueOf));
    case 'isNull':
      return evaluate(expression.term, valueOf) === null;
    case 'isTrue':
      return evaluate(expression.term, valueOf) === true;
    case 'in':
      return isAmong(evaluate(expression.term, valueOf), expression.values);
    case 'prefix':
      return hasPrefix(evaluate(expression.term, valueOf), expression.text);
    case 'contains':
      return hasElement(evaluate(expression.term, valueOf), expression.value);
    default:
      return unreachable(expression);
  }
}

function evaluateTerms(
  decisive: boolean,
  terms: readonly Expression[],
  valueOf: (name: string) => Value,
): Value {
  let result: boolean | null = !decisive;
  for (const term of terms) {
    const value = evaluate(term, valueOf);
    if (value === decisive) return decisive;
    if (value === null) result = null;
  }
  return result;
}

function negated(value: Value): Value {
  return value === null ? null : value !== true;
}

/** A comparison, null if either side is. */
export function compareNullable(op: Comparison, left: Value, right: Value): boolean | null {
  if (left === null || right === null) return null;
  if (op === '=') return equalValues(left, right);
  if (op === '!=') return !equalValues(left, right);
  return holds(op, compareValues(left, right));
}

/** Whether a comparison holds of the sign of the difference of its sides. */
export function holds(op: Comparison, difference: number): boolean {
  switch (op) {
    case '=':
      return difference === 0;
    case '!=':
      return difference !== 0;
    case '<':
      return difference < 0;
    case '<=':
      return difference <= 0;
    case '>':
      return difference > 0;
    case '>=':
      return difference >= 0;
    default:
      return unreachable(op);
  }
}

export function isAmong(value: Value, values: readonly Value[]): boolean | null {
  if (value === null) return values.length === 0 ? false : null;
  let result: boolean | null = false;
  for (const each of values) {
    if (each === null) result = null;
    else if (equalValues(value, each)) return true;
  }
  return result;
}

export function hasPrefix(value: Value, text: string): boolean | null {
  return typeof value === 'string' ? value.startsWith(text) : null;
}

export function hasElement(value: Value, element: Value): boolean | null {
  if (!Array.isArray(value)) return null;
  return (value as readonly Value[]).some((each) => equalValues(each, element));
}

/** What lies on a path into maps; null where it ends early. */
export function onPath(value: Value, path: readonly string[] | undefined): Value {
  if (path === undefined) return value;
  let at: unknown = value;
  for (const name of path) {
    if (at instanceof Map) at = at.get(name);
    else if (typeof at === 'object' && at !== null && !Array.isArray(at) && Object.hasOwn(at, name))
      at = (at as Record<string, unknown>)[name];
    else return null;
  }
  return (at ?? null) as Value;
}

/** Calls with every term of a condition, those of terms included. */
export function eachCondition(expression: Expression, visit: (term: Expression) => void): void {
  visit(expression);
  if (expression.kind === 'and' || expression.kind === 'or')
    for (const term of expression.terms) eachCondition(term, visit);
  else if (expression.kind === 'not' || expression.kind === 'isTrue')
    eachCondition(expression.term, visit);
}

/** Calls with every column that an expression reads. */
export function eachColumn(expression: Expression, visit: (name: string) => void): void {
  switch (expression.kind) {
    case 'literal':
      return;
    case 'column':
      return visit(expression.name);
    case 'compare':
      eachColumn(expression.left, visit);
      return eachColumn(expression.right, visit);
    case 'and':
    case 'or':
      return expression.terms.forEach((term) => eachColumn(term, visit));
    case 'not':
    case 'isNull':
    case 'isTrue':
    case 'in':
    case 'prefix':
    case 'contains':
      return eachColumn(expression.term, visit);
    default:
      return unreachable(expression);
  }
}
