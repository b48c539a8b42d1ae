/**
 * Constant folding and normal form of conditions: what needs no row is computed once, `and` and
 * `or` lie flat, `not` stands at the leaves where it changes a comparison. Equivalent under
 * three-valued logic (law Q1).
 */
import {
  compareNullable,
  hasElement,
  hasPrefix,
  isAmong,
  isNull,
  isTrue,
  literal,
  not,
  type Comparison,
  type Expression,
} from './expression.ts';

const TURNED: Readonly<Record<Comparison, Comparison>> = {
  '=': '=',
  '!=': '!=',
  '<': '>',
  '<=': '>=',
  '>': '<',
  '>=': '<=',
};
const NEGATED: Readonly<Record<Comparison, Comparison>> = {
  '=': '!=',
  '!=': '=',
  '<': '>=',
  '<=': '>',
  '>': '<=',
  '>=': '<',
};

/** The simplest equivalent of an expression; comparisons have the column on the left. */
export function fold(expression: Expression): Expression {
  switch (expression.kind) {
    case 'literal':
    case 'column':
      return expression;
    case 'compare':
      return foldCompare(expression.op, fold(expression.left), fold(expression.right));
    case 'and':
    case 'or':
      return foldTerms(expression.kind, expression.terms);
    case 'not':
      return foldNot(fold(expression.term));
    case 'isNull': {
      const term = fold(expression.term);
      return term.kind === 'literal' ? literal(term.value === null) : isNull(term);
    }
    case 'isTrue': {
      const term = fold(expression.term);
      if (term.kind === 'isTrue' || term.kind === 'isNull') return term;
      return term.kind === 'literal' ? literal(term.value === true) : isTrue(term);
    }
    case 'in': {
      const term = fold(expression.term);
      if (expression.values.length === 0) return literal(false);
      if (term.kind === 'literal') return literal(isAmong(term.value, expression.values));
      return Object.freeze({ ...expression, term });
    }
    case 'prefix': {
      const term = fold(expression.term);
      if (term.kind === 'literal') return literal(hasPrefix(term.value, expression.text));
      return Object.freeze({ ...expression, term });
    }
    case 'contains': {
      const term = fold(expression.term);
      if (term.kind === 'literal') return literal(hasElement(term.value, expression.value));
      return Object.freeze({ ...expression, term });
    }
  }
}

function foldCompare(op: Comparison, left: Expression, right: Expression): Expression {
  if (left.kind === 'literal' && right.kind === 'literal')
    return literal(compareNullable(op, left.value, right.value));
  if (isNullLiteral(left) || isNullLiteral(right)) return literal(null);
  if (left.kind === 'literal')
    return Object.freeze({ kind: 'compare', op: TURNED[op], left: right, right: left });
  return Object.freeze({ kind: 'compare', op, left, right });
}

function isNullLiteral(expression: Expression): boolean {
  return expression.kind === 'literal' && expression.value === null;
}

function foldTerms(kind: 'and' | 'or', given: readonly Expression[]): Expression {
  const decisive = kind === 'or';
  const terms: Expression[] = [];
  for (const each of given) {
    const term = fold(each);
    if (term.kind === kind) terms.push(...term.terms);
    else if (term.kind !== 'literal' || term.value !== !decisive) terms.push(term);
  }
  if (terms.some((term) => term.kind === 'literal' && term.value === decisive))
    return literal(decisive);
  if (terms.length === 0) return literal(!decisive);
  if (terms.length === 1) return terms[0]!;
  return Object.freeze({ kind, terms: Object.freeze(terms) });
}

function foldNot(term: Expression): Expression {
  switch (term.kind) {
    case 'literal':
      return literal(term.value === null ? null : term.value !== true);
    case 'not':
      return isCondition(term.term) ? term.term : not(term);
    case 'compare':
      return Object.freeze({ ...term, op: NEGATED[term.op] });
    case 'and':
    case 'or':
      return foldTerms(term.kind === 'and' ? 'or' : 'and', term.terms.map(not));
    default:
      return not(term);
  }
}

/** Whether an expression answers only true, false and null. */
function isCondition(expression: Expression): boolean {
  return expression.kind !== 'column' && expression.kind !== 'literal';
}
