/**
 * Conditions as callers of `where` write them, and their expressions.
 *
 *   ['age', '>=', 18]                      a field or path, an operator, an operand
 *   { region: 3, age: { '>=': 18 } }       all of its fields
 *   and(…) or(…) not(…)                    conditions of conditions
 *
 * Null is compared as a value here: `{ joined: null }` and `['joined', '=', null]` ask for records
 * without one, `'!='` for those with one. Undefined is refused wherever it stands: it is a variable
 * that was not set far more often than a wish for all records, and a delete may follow.
 */
import { ByteWriter } from '../base/bytes.ts';
import { nameHint } from '../base/nearest.ts';
import { failure } from '../errors.ts';
import { accept, describeValue, fieldOf, type CollectionDefinition } from '../model/schema.ts';
import { KIND, kindOf, type Kind, type Value } from '../model/value.ts';
import { writeValue } from '../model/value-codec.ts';
import {
  and as allOf,
  column,
  COMPARISONS,
  compare,
  contains,
  isNull,
  literal,
  not as negation,
  or as anyOf,
  prefixed,
  within,
  type Comparison,
  type Expression,
} from '../query/expression.ts';
import { pathOf } from './declaration.ts';
import type { OperandOf, PathOf } from './types.ts';

/** Operators of conditions. */
export type Operator = Comparison | 'in' | 'not in' | 'prefix' | 'between' | 'contains';
const OPERATORS: readonly string[] = [
  ...COMPARISONS,
  'in',
  'not in',
  'prefix',
  'between',
  'contains',
];

/** What the operators take, by operator. */
export type Operands<V> = {
  readonly [O in Comparison]?: V;
} & {
  readonly in?: readonly V[];
  readonly 'not in'?: readonly V[];
  readonly prefix?: string;
  /** Both ends included. */
  readonly between?: readonly [V, V];
  /** An element of a list. */
  readonly contains?: ElementOf<V>;
};

/** The elements of what may be a list. */
export type ElementOf<V> = V extends readonly (infer E)[] ? E : never;

/** What an operator takes on its right side. */
export type OperandFor<O extends Operator, V> = O extends 'in' | 'not in'
  ? readonly V[]
  : O extends 'between'
    ? readonly [V, V]
    : O extends 'prefix'
      ? string
      : O extends 'contains'
        ? ElementOf<V>
        : V;

/** Conditions on several fields, all of which must hold. */
export type FieldConditions<R> = {
  readonly [P in PathOf<R>]?: OperandOf<R, P> | Operands<OperandOf<R, P>>;
};

/** A condition on one field. */
export type FieldCondition<R> = {
  [P in PathOf<R>]: {
    [O in Operator]: readonly [P, O, OperandFor<O, OperandOf<R, P>>];
  }[Operator];
}[PathOf<R>];

/** Anything that `where` takes. */
export type Condition<R> = FieldConditions<R> | FieldCondition<R> | Combination<R>;

/** Conditions joined by and, or, not; made by `and`, `or` and `not`. */
export class Combination<R> {
  readonly kind: 'and' | 'or' | 'not';
  readonly terms: readonly Condition<R>[];

  constructor(kind: 'and' | 'or' | 'not', terms: readonly Condition<R>[]) {
    this.kind = kind;
    this.terms = terms;
  }
}

/** Says that all of the conditions hold. */
export function and<R>(...terms: readonly NoInfer<Condition<R>>[]): Combination<R> {
  return new Combination('and', terms);
}

/**
 * Says that at least one of the conditions holds.
 *
 * @example
 * customers.where(or({ region: 3 }, ['name', 'prefix', 'Ada'])).toArray();
 */
export function or<R>(...terms: readonly NoInfer<Condition<R>>[]): Combination<R> {
  return new Combination('or', terms);
}

/** Says that a condition does not hold; where it is unknown, because of a null, this is too. */
export function not<R>(term: NoInfer<Condition<R>>): Combination<R> {
  return new Combination('not', [term]);
}

export function isPlainObject(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** The expression of a condition on the records of a collection. */
export function expressionOf(definition: CollectionDefinition, condition: unknown): Expression {
  if (condition instanceof Combination) {
    const terms = condition.terms.map((term: unknown) => expressionOf(definition, term));
    if (condition.kind === 'not') return negation(terms[0]!);
    return condition.kind === 'and' ? allOf(...terms) : anyOf(...terms);
  }
  if (Array.isArray(condition) && condition.length === 3)
    return comparison(definition, condition[0], condition[1], condition[2]);
  if (isPlainObject(condition)) {
    const terms = Object.entries(condition);
    return allOf(...terms.map(([name, value]) => fieldTerm(definition, name, value)));
  }
  throw failure(
    'usage.argument',
    'a condition is an object, [field, operator, value], or made by and, or, not',
    { hint: "Write where({ name: 'Ada' }) or where('name', '=', 'Ada'); functions are not taken." },
  );
}

function fieldTerm(definition: CollectionDefinition, name: string, value: unknown): Expression {
  const operators = isPlainObject(value) ? Object.keys(value) : [];
  const areOperators = operators.length > 0 && operators.every((each) => OPERATORS.includes(each));
  if (!areOperators) {
    refuseNearOperators(definition, name, value, operators);
    return comparison(definition, name, '=', value);
  }
  const terms = Object.entries(value as Record<string, unknown>).map(([operator, operand]) =>
    comparison(definition, name, operator, operand),
  );
  return allOf(...terms);
}

/** A map compared with a field that holds none is a mistyped operator. */
function refuseNearOperators(
  definition: CollectionDefinition,
  name: string,
  value: unknown,
  operators: readonly string[],
): void {
  const field = fieldOf(definition, pathOf(name, definition.fields)[0]!);
  const type = field?.type ?? 'any';
  if (!isPlainObject(value) || type === 'map' || type === 'json' || type === 'any') return;
  throw unknownOperator(operators.find((each) => !OPERATORS.includes(each)) ?? '{}');
}

function unknownOperator(name: unknown): Error {
  const hint = nameHint(String(name), OPERATORS);
  return failure('usage.argument', `"${String(name)}" is not an operator`, {
    detail: { operator: name },
    ...(hint !== undefined && { hint }),
  });
}

function comparison(
  definition: CollectionDefinition,
  name: unknown,
  operator: unknown,
  operand: unknown,
): Expression {
  const term = columnOf(definition, name);
  const taken = (value: unknown): Value => operandOf(definition, name as string, value);
  switch (operator) {
    case 'in':
      return amongTerm(term, listOf(operator, operand).map(taken));
    case 'not in':
      return negation(amongTerm(term, listOf(operator, operand).map(taken)));
    case 'between': {
      const [least, greatest] = listOf(operator, operand).map(taken);
      return allOf(
        compare('>=', term, literal(least ?? null)),
        compare('<=', term, literal(greatest ?? null)),
      );
    }
    case 'contains':
      requireList(definition, name as string);
      return contains(term, elementOf(name as string, operand));
    case 'prefix':
      requireText(definition, name as string);
      if (typeof operand === 'string') return prefixed(term, operand);
      throw failure('usage.argument', `prefix: takes a text, not ${typeof operand}`);
    default: {
      if (!(COMPARISONS as readonly unknown[]).includes(operator)) throw unknownOperator(operator);
      const value = taken(operand);
      if (value !== null) return compare(operator as Comparison, term, literal(value));
      if (operator === '=') return isNull(term);
      if (operator === '!=') return negation(isNull(term));
      return compare(operator as Comparison, term, literal(null));
    }
  }
}

function requireText(definition: CollectionDefinition, name: string): void {
  const type = fieldOf(definition, pathOf(name, definition.fields)[0]!)?.type ?? 'any';
  if (['any', 'json', 'text', 'map'].includes(type)) return;
  throw failure('usage.argument', `prefix: ${name} is ${type}, which begins with no text`, {
    detail: { field: name, type },
  });
}

/** Refuses to look for elements in what never is a list. */
function requireList(definition: CollectionDefinition, name: string): void {
  const path = pathOf(name, definition.fields);
  const type = fieldOf(definition, path[0]!)?.type ?? 'any';
  if (['any', 'json', path.length === 1 ? 'list' : 'map'].includes(type)) return;
  const what = path.length === 1 ? `${name} is ${type}, which` : `${name} is a path that`;
  throw failure('usage.argument', `contains: ${what} has no elements`, {
    detail: { field: name, type },
    ...(type === 'text' && { hint: 'Texts are asked for by "prefix".' }),
  });
}

/** Refuses lists and maps that no record can hold: too deep, or with what is no value. */
function requireStorable(value: Value): void {
  writeValue(new ByteWriter(256), value);
}

function elementOf(name: string, value: unknown): Value {
  if (value !== undefined) {
    const kind = kindOf(value);
    if (kind === KIND.list || kind === KIND.map) requireStorable(value as Value);
    return value as Value;
  }
  throw failure('usage.argument', `${name} is asked to contain undefined`);
}

/** Membership where null is a value like others. */
function amongTerm(term: Expression, values: readonly Value[]): Expression {
  const known = values.filter((value) => value !== null);
  if (known.length === values.length) return within(term, known);
  return anyOf(within(term, known), isNull(term));
}

function listOf(operator: string, operand: unknown): readonly unknown[] {
  if (!Array.isArray(operand) && !(operand instanceof Set)) {
    throw failure('usage.argument', `${operator}: takes a list`);
  }
  const list = [...operand];
  if (operator === 'between' && list.length !== 2)
    throw failure('usage.argument', `between: takes two values, not ${list.length}`);
  return list;
}

/** The column of a field or path. */
export function columnOf(definition: CollectionDefinition, name: unknown): Expression {
  if (typeof name !== 'string') throw failure('usage.argument', 'a field is named by a text');
  const [field, ...path] = pathOf(name, definition.fields);
  requireFieldName(definition, field!);
  const type = fieldOf(definition, field!)?.type ?? 'any';
  if (path.length > 0 && !['map', 'json', 'any'].includes(type)) {
    throw failure('usage.argument', `${name} is a path into ${field}, which is ${type}`, {
      detail: { field: name, type },
    });
  }
  return column(field!, path);
}

/** @throws {SchemaError} schema.unknown_field naming the nearest. */
export function requireFieldName(definition: CollectionDefinition, name: string): void {
  if (definition.open || fieldOf(definition, name) !== undefined) return;
  const names = definition.fields.filter((field) => field.dropped !== true).map((f) => f.name);
  const hint = nameHint(name, names);
  throw failure('schema.unknown_field', `${definition.name} has no field "${name}"`, {
    detail: { collection: definition.name, field: name },
    ...(hint !== undefined && { hint }),
  });
}

/** The operand as it compares with the field; refuses what the field can never hold. */
export function operandOf(definition: CollectionDefinition, name: string, value: unknown): Value {
  if (value === undefined) {
    throw failure('usage.argument', `${name} is compared with undefined`, {
      detail: { field: name },
      hint:
        'Leave the condition out if any value will do; compare with null to ask for records ' +
        'without one.',
    });
  }
  const kind = kindOf(value);
  if (kind === KIND.list || kind === KIND.map) requireStorable(value as Value);
  const path = pathOf(name, definition.fields);
  const field = path.length === 1 ? fieldOf(definition, name) : undefined;
  if (field === undefined || kind === KIND.null) return value as Value;
  const numeric = field.type === 'int' || field.type === 'float' || field.type === 'number';
  if (numeric && isNumeric(kind)) return value as Value;
  if (field.type === 'list' && kind !== KIND.list) {
    throw failure('value.type', `${name} is a list, and compared with ${describeValue(value)}`, {
      detail: { field: name, type: field.type, value },
      hint: `Ask for an element: { ${name}: { contains: … } }.`,
    });
  }
  return accept(field, value as Value);
}

function isNumeric(kind: Kind): boolean {
  return kind === KIND.int || kind === KIND.float;
}
