/** Conditions as lists of terms. */
import type { Expression } from './expression.ts';

/** The terms that must all be true for a condition to be. */
export function conjunctsOf(condition: Expression): readonly Expression[] {
  return condition.kind === 'and' ? condition.terms : [condition];
}

/** The condition that all terms are true; of at least one. */
export function and(terms: readonly Expression[]): Expression {
  if (terms.length === 1) return terms[0]!;
  const flat = terms.flatMap((term) => conjunctsOf(term));
  return Object.freeze({ kind: 'and', terms: Object.freeze(flat) });
}
