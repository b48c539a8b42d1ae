/** The query engine against a plain filter: laws Q1, Q2, Q4, U1, and P6, P7 by name. */
import { describe, expect, test } from 'vitest';
import type { Random } from '../../src/base/random.ts';
import { LATEST } from '../../src/model/source.ts';
import { equalValues, type Value } from '../../src/model/value.ts';
import type { Plan } from '../../src/query/algebra.ts';
import { planText } from '../../src/query/explain.ts';
import {
  and,
  column,
  compare,
  contains,
  isNull,
  literal,
  not,
  or,
  prefixed,
  within,
  type Expression,
} from '../../src/query/expression.ts';
import { fold } from '../../src/query/fold.ts';
import { bound, shapeOf, withSlots } from '../../src/query/parameters.ts';
import type { Arguments } from '../../src/query/ranges.ts';
import { REWRITES, rewritten } from '../../src/query/rewrite.ts';
import { rowPlanOf } from '../../src/query/row-plan.ts';
import { PendingSource } from '../store/pending-source.ts';
import { defineProperty } from '../support/properties.ts';
import {
  compareRows,
  filterOf,
  idsOf,
  openTrial,
  plainTruth,
  randomCondition,
  randomOrder,
  run,
  scanOf,
  type Row,
  type Trial,
} from './query-trial.ts';

const QUESTIONS = 25;

function expectIds(trial: Trial, plan: Plan, condition: Expression, found: readonly Row[]): void {
  const expected = trial.rows.filter((row) => plainTruth(condition, row) === true);
  expect(idsOf(found), planText(plan, trial.tables)).toEqual(idsOf(expected));
}

const ALL_OFF = new Set(REWRITES.map((each) => each.name));

/** Some of the rewrites, or none, or all. */
function randomOff(random: Random): Set<string> {
  if (random.chance(0.2)) return ALL_OFF;
  return new Set(REWRITES.map((each) => each.name).filter(() => random.chance(0.3)));
}

defineProperty({
  name: 'queries Q1: a rewritten plan answers what a plain filter does',
  cases: 8,
  run: (seed) => {
    const trial = openTrial(seed);
    for (let i = 0; i < QUESTIONS; i++) {
      const condition = randomCondition(trial.random);
      const plan = rewritten(filterOf(condition), trial.tables, randomOff(trial.random));
      expectIds(trial, plan, condition, run(trial, plan));
      const whole = rewritten(filterOf(condition), trial.tables);
      expectIds(trial, whole, condition, run(trial, whole));
    }
    expect(trial.ledger.usedBytes).toBe(0);
  },
  canary: (seed) => {
    const trial = openTrial(seed);
    const condition = randomCondition(trial.random);
    const plan = rewritten(filterOf(not(condition)), trial.tables);
    expectIds(trial, plan, condition, run(trial, plan));
  },
});

/** A condition of the same shape with other constants. */
function revalued(random: Random, expression: Expression): Expression {
  const again = (each: Expression): Expression => revalued(random, each);
  switch (expression.kind) {
    case 'compare': {
      const { right } = expression;
      if (right.kind !== 'literal' || right.value === null) return expression;
      const value = random.pick<Value>([random.below(400), random.below(8), 'ab', 2.5, true]);
      return { ...expression, right: literal(value) };
    }
    case 'and':
    case 'or':
      return { ...expression, terms: expression.terms.map(again) };
    case 'not':
    case 'isNull':
    case 'isTrue':
      return { ...expression, term: again(expression.term) };
    case 'in': {
      const from = random.below(300);
      return { ...expression, values: expression.values.map((_, i) => from + 3 * i) };
    }
    case 'prefix':
      return { ...expression, text: random.pick(['a', 'ab', 'b', 'é']) };
    case 'contains':
      return expression.value === null
        ? expression
        : { ...expression, value: random.pick([1, 3, 'a', 'ab']) };
    default:
      return expression;
  }
}

function checkShapes(seed: number, other: (values: Arguments) => Arguments): void {
  const trial = openTrial(seed);
  const { random, tables, opened } = trial;
  let asked = 0;
  for (let i = 0; i < 2 * QUESTIONS; i++) {
    const condition = fold(randomCondition(random));
    const keys = random.chance(0.5) ? randomOrder(random) : [];
    const shape = shapeOf(condition, []);
    if (shape === undefined) continue;
    const input = filterOf(withSlots(condition));
    const template = rewritten(keys.length === 0 ? input : { node: 'sort', keys, input }, tables);
    const rowPlan = rowPlanOf(template, tables, (name) => opened.points.collection(name));
    for (let turn = 0; turn < 3; turn++) {
      const next = revalued(random, condition);
      const values: (Value | readonly Value[])[] = [];
      if (shapeOf(next, values) !== shape) continue;
      asked++;
      const plan = bound(template, other(values));
      const found = run(trial, plan);
      expectIds(trial, plan, next, found);
      found.forEach((row, at) => {
        if (at > 0) expect(compareRows(keys, found[at - 1]!, row)).toBeLessThanOrEqual(0);
      });
      const ids: Value[] = [];
      const isDone = rowPlan?.(LATEST, (row) => ids.push(row[0]!), other(values));
      if (isDone === true) expect(ids).toEqual(found.map((row) => row['id']));
    }
  }
  expect(asked).toBeGreaterThan(20);
}

defineProperty({
  name: 'queries Q1: the plan of a shape answers for other constants, too',
  cases: 6,
  run: (seed) => checkShapes(seed, (values) => values),
  canary: (seed) => checkShapes(seed, (values) => [...values].reverse()),
});

defineProperty({
  name: 'queries Q2: order, limit and offset by any path, batches and waiting',
  cases: 8,
  run: (seed) => {
    const trial = openTrial(seed);
    const { random, rows, opened, tables } = trial;
    for (let i = 0; i < QUESTIONS; i++) {
      const condition = randomCondition(random, 2);
      const keys = randomOrder(random);
      const plain = rows.filter((row) => plainTruth(condition, row) === true);
      plain.sort((a, b) => compareRows(keys, a, b));
      const offset = random.chance(0.3) ? random.below(20) : 0;
      const count = random.pick([0, 1, 7, 1000]);
      const plan = rewritten(
        { node: 'limit', offset, count, input: { node: 'sort', keys, input: filterOf(condition) } },
        tables,
        randomOff(random),
      );
      const found = run(trial, plan, {
        source: new PendingSource(opened.source, random),
        batchRows: random.pick([1, 3, 1024]),
      });
      const expected = plain.slice(offset, offset + count);
      const text = planText(plan, tables);
      expect(found.length, text).toBe(expected.length);
      // Rows of equal keys may change places: their keys may not.
      found.forEach((row, at) => {
        expect(compareRows(keys, row, expected[at]!), text).toBe(0);
        expect(plainTruth(condition, row), text).toBe(true);
      });
      expect(new Set(found.map((row) => row['id'])).size).toBe(found.length);
    }
    expect(trial.ledger.usedBytes).toBe(0);
  },
  canary: (seed) => {
    const trial = openTrial(seed);
    const keys = randomOrder(trial.random);
    const found = run(trial, rewritten({ node: 'sort', keys, input: scanOf() }, trial.tables));
    found.reverse().forEach((row, at, all) => {
      if (at > 0) expect(compareRows(keys, all[at - 1]!, row)).toBeLessThanOrEqual(0);
    });
  },
});

defineProperty({
  name: 'queries Q4: p, not p and p is null partition the records',
  cases: 8,
  run: (seed) => {
    const trial = openTrial(seed, 120);
    for (let i = 0; i < QUESTIONS; i++) {
      const p = randomCondition(trial.random);
      const parts = [p, not(p), isNull(p)].flatMap((condition) =>
        run(trial, rewritten(filterOf(condition), trial.tables)),
      );
      expect(idsOf(parts)).toEqual(idsOf(trial.rows));
    }
  },
  canary: (seed) => {
    const trial = openTrial(seed, 120);
    const p = randomCondition(trial.random);
    const parts = [p, not(p)].flatMap((condition) => run(trial, filterOf(condition)));
    expect(idsOf(parts)).toEqual(idsOf(trial.rows));
  },
});

defineProperty({
  name: 'queries Q2: row plans answer what vectors do, in the same order',
  cases: 8,
  run: (seed) => {
    const trial = openTrial(seed);
    const { random, opened, tables } = trial;
    let rowPlans = 0;
    for (let i = 0; i < 4 * QUESTIONS; i++) {
      const names = random.pick([['id'], ['a'], ['b', 'c'], ['id', 'b'], ['e']]);
      const equalities = names.map((name) => {
        const value = random.pick(trial.rows)[name]!;
        if (value === null) return isNull(column(name));
        return random.chance(0.3)
          ? within(column(name), [value, random.pick(trial.rows)[name]!])
          : compare('=', column(name), literal(value));
      });
      const condition = and(...equalities, randomCondition(random, 1));
      let plan = filterOf(condition);
      if (random.chance(0.3))
        plan = { node: 'limit', offset: random.below(3), count: 2, input: plan };
      plan = rewritten(plan, tables);
      const rowPlan = rowPlanOf(plan, tables, (name) => opened.points.collection(name));
      if (rowPlan === undefined) continue;
      rowPlans++;
      const ids: Value[] = [];
      rowPlan(LATEST, (row) => ids.push(row[0]!));
      expect(ids, planText(plan, tables)).toEqual(run(trial, plan).map((row) => row['id']));
    }
    expect(rowPlans).toBeGreaterThan(5);
  },
  canary: (seed) => {
    const trial = openTrial(seed);
    const plan = rewritten(filterOf(compare('=', column('a'), literal(3))), trial.tables);
    const rowPlan = rowPlanOf(plan, trial.tables, (name) => trial.opened.points.collection(name));
    const ids: Value[] = [];
    rowPlan?.(LATEST, (row) => ids.push(row[0]!));
    expect(ids.reverse()).toEqual(run(trial, plan).map((row) => row['id']));
  },
});

defineProperty({
  name: 'queries U1: sorts, groups and distinct rows do not depend on memory',
  cases: 4,
  run: (seed) => {
    const trial = openTrial(seed, 1500, 110 * 1024);
    const { random, rows, tables } = trial;
    const keys = [...randomOrder(random), { column: 'id', descending: random.chance(0.5) }];
    const sorted = run(trial, { node: 'sort', keys, input: scanOf() }, { batchRows: 16 });
    const expected = [...rows].sort((a, b) => compareRows(keys, a, b));
    expect(sorted.map((row) => row['id'])).toEqual(expected.map((row) => row['id']));
    sorted.forEach((row, i) => {
      for (const name of ['c', 'e', 'm']) expect(row[name]).toEqual(plain(expected[i]![name]!));
    });
    expect(trial.work.spilledBytes).toBeGreaterThan(0);
    const few = run(trial, { node: 'sort', keys, limit: 5, input: scanOf() }, { batchRows: 16 });
    expect(few.map((row) => row['id'])).toEqual(expected.slice(0, 5).map((row) => row['id']));
    checkGroups(trial);
    const different = run(
      trial,
      rewritten({ node: 'distinct', input: scanOf(['a', 'b']) }, tables),
      { batchRows: 16 },
    );
    const pairs = new Set(rows.map((row) => `${String(row['a'])} ${String(row['b'])}`));
    expect(different.length).toBe(pairs.size);
    expect(trial.ledger.usedBytes).toBe(0);
  },
  canary: (seed) => {
    const trial = openTrial(seed, 300, 64 * 1024 * 1024);
    run(trial, { node: 'sort', keys: randomOrder(trial.random), input: scanOf() });
    expect(trial.work.spilledBytes).toBeGreaterThan(0);
  },
});

/** A value as reading shows it: without the wrapper that keeps its kind. */
function plain(value: Value): Value {
  return typeof value === 'object' && value !== null && 'value' in value
    ? (value.value as Value)
    : value;
}

function checkGroups(trial: Trial): void {
  const plan: Plan = {
    node: 'aggregate',
    input: scanOf(),
    groups: ['b', 'a'],
    aggregates: [
      { name: 'rows', function: 'count' },
      { name: 'texts', function: 'count', column: 'c' },
      { name: 'sum', function: 'sum', column: 'id' },
      { name: 'least', function: 'min', column: 'c' },
      { name: 'mean', function: 'avg', column: 'id' },
    ],
  };
  const groups = run(trial, plan, { batchRows: 16 });
  let count = 0;
  for (const group of groups) {
    const members = trial.rows.filter(
      (row) => equalValues(row['a']!, group['a']!) && row['b'] === group['b'],
    );
    count += members.length;
    const sum = members.reduce((total, row) => total + (row['id'] as number), 0);
    expect(group['rows']).toBe(members.length);
    expect(group['texts']).toBe(members.filter((row) => row['c'] !== null).length);
    expect(group['sum']).toBe(sum);
    expect(group['mean']).toBe(sum / members.length);
  }
  expect(count).toBe(trial.rows.length);
}

describe('P6: OR does not switch off optimisation', () => {
  test('random AND/OR predicates give the rows of a full scan and use index unions', () => {
    let unions = 0;
    for (let seed = 1; seed <= 6; seed++) {
      const trial = openTrial(seed, 400);
      const { random, tables } = trial;
      for (let i = 0; i < 30; i++) {
        const leaf = (): Expression =>
          random.pick([
            () => compare('=', column('id'), literal(random.below(800))),
            () => within(column('id'), [random.below(800), random.below(800)]),
            () =>
              and(
                compare('=', column('a'), literal(random.below(8))),
                compare('=', column('b'), literal(1)),
              ),
            () => compare('=', column('c'), literal('abc')),
          ])();
        const condition = random.chance(0.5)
          ? or(leaf(), leaf(), leaf())
          : and(or(leaf(), leaf()), compare('>=', column('b'), literal(1)));
        const plan = rewritten(filterOf(condition), tables);
        if (planText(plan, tables).includes('union')) unions++;
        const scan = run(trial, filterOf(condition));
        expect(idsOf(run(trial, plan))).toEqual(idsOf(scan));
        expectIds(trial, plan, condition, scan);
      }
    }
    expect(unions).toBeGreaterThan(30);
  });
});

describe('P7: indexes serve more than equality on one column', () => {
  const trial = openTrial(4, 600, 8 << 20, 1);
  const text = (plan: Plan): string => planText(rewritten(plan, trial.tables), trial.tables);

  test('range', () => {
    const condition = and(
      compare('>', column('id'), literal(10)),
      compare('<=', column('id'), literal(20)),
    );
    expect(text(filterOf(condition))).toBe(
      'scan items by key id [10 < key <= 20] → id, a, b, c, d, e, m, t',
    );
  });

  test('prefix of a text', () => {
    const condition = and(compare('=', column('b'), literal(2)), prefixed(column('c'), 'ab'));
    expect(text(filterOf(condition))).toContain('by index "b, c" [2, "ab" <= key < 2, "ac"]');
  });

  test('composite keys, and IN as many ranges', () => {
    const condition = and(within(column('b'), [3, 1, 3]), compare('=', column('c'), literal('a')));
    expect(text(filterOf(condition))).toContain('by index "b, c" [= 1, "a", = 3, "a"]');
  });

  test('order of an index instead of a sort, in both directions', () => {
    const order = (descending: boolean): Plan => ({
      node: 'limit',
      offset: 0,
      count: 3,
      input: {
        node: 'sort',
        keys: [
          { column: 'b', descending },
          { column: 'c', descending },
        ],
        input: scanOf(['id', 'b', 'c']),
      },
    });
    expect(text(order(false))).toBe(
      'limit 3\n  scan items by index "b, c" alone limit 3 → id, b, c',
    );
    expect(text(order(true))).toContain('reverse');
  });

  test('elements of lists: one entry a record, alone or under other parts', () => {
    const has = contains(column('t'), 3);
    expect(text(filterOf(has))).toContain('by index "t[]" [= 3]');
    expect(text(filterOf(and(compare('=', column('b'), literal(2)), has)))).toContain(
      'by index "b, t[], a" [= 2, 3]',
    );
    expect(text(filterOf(contains(column('m', ['l']), 'a')))).toContain('by index "m.l[]" [= "a"]');
    // Without an element an index over elements names records several times, or never.
    expect(text(filterOf(compare('=', column('b'), literal(2))))).not.toContain('[]');
    const order: Plan = {
      node: 'sort',
      keys: [{ column: 't', descending: false }],
      input: scanOf(['t']),
    };
    expect(text(order)).toContain('sort by t');
  });

  test('a range read in the order asked for, as far as the limit', () => {
    const ordered = (condition: Expression, column_: string): Plan => ({
      node: 'limit',
      offset: 0,
      count: 3,
      input: {
        node: 'project',
        columns: [{ name: 'id', expression: column('id') }],
        input: {
          node: 'sort',
          keys: [{ column: column_, descending: false }],
          input: filterOf(condition),
        },
      },
    });
    expect(text(ordered(compare('>=', column('id'), literal(100)), 'id'))).toMatch(
      /^project id\n {2}limit 3\n {4}scan items by .*\[100 <= key\] limit 3 → id$/,
    );
    expect(text(ordered(compare('>=', column('a'), literal(1)), 'a'))).toContain(
      'by index "a" alone [1 <= key] limit 3',
    );
  });

  test('index-only reads', () => {
    const condition = compare('=', column('b'), literal(2));
    expect(text(filterOf(condition, ['id', 'b', 'c']))).toContain('alone');
  });
});
