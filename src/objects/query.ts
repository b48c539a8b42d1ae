/**
 * Queries of one collection: immutable, each method answers a new one, and nothing is read before
 * a method that answers rows. One equality on an indexed field goes straight to the index.
 */
import { failure } from '../errors.ts';
import type { RecordFields } from '../model/record.ts';
import type { Value } from '../model/value.ts';
import { compareValues } from '../model/value.ts';
import { and, evaluate, not, or, type Expression } from '../query/expression.ts';
import type { Access } from './access.ts';
import {
  expressionOf,
  isPlainObject,
  type Condition,
  type OperandFor,
  type Operator,
} from './conditions.ts';
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
}

export const EVERYTHING: QuerySpec = Object.freeze({
  condition: undefined,
  select: undefined,
  order: [],
  limit: undefined,
  offset: 0,
});

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

  /** Returns all rows. */
  toArray(): T[] {
    const access = this.#access;
    if (!access.isThere()) return [];
    if (this.#field !== undefined) {
      const lookup = access.byField.get(this.#field)!;
      return lookup.index.getAll(this.#operand, access.scope.view) as T[];
    }
    return this.#crude() as T[];
  }

  #crude(): RecordFields[] {
    const { scope, points, name } = this.#access;
    const { condition, order } = this.#whole();
    const found: RecordFields[] = [];
    const cursor = scope.source.scan({ collection: name, fields: [], ids: true, view: scope.view });
    for (let batch = cursor.next(); batch !== undefined; batch = cursor.next()) {
      for (let row = 0; row < batch.count; row++) {
        const record = points.get(batch.ids[row]!, scope.view)!;
        if (condition === undefined || evaluate(condition, (n) => record[n] ?? null) === true)
          found.push(record);
      }
    }
    for (const { field, descending } of [...order].reverse())
      found.sort((a, b) => compareValues(a[field]!, b[field]!) * (descending ? -1 : 1));
    return found;
  }

  [Symbol.iterator](): IterableIterator<T> {
    return this.toArray()[Symbol.iterator]();
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

void failure;
