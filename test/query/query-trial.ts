/**
 * Random questions about random records, and the answers of a plain filter over an array: what the
 * tests of the query engine compare with (laws Q1, Q2, Q4, U1).
 */
import { Random } from '../../src/base/random.ts';
import { Ledger } from '../../src/base/ledger.ts';
import { defineCollection, defineIndex } from '../../src/model/schema.ts';
import { isPending, LATEST, type Pending, type RecordSource } from '../../src/model/source.ts';
import { compareValues, equalValues, float, type Value } from '../../src/model/value.ts';
import type { WorkSpace } from '../../src/model/work.ts';
import { MemoryFileSystem } from '../../src/storage/memory-file.ts';
import { LedgerWorkSpace } from '../../src/store/work-space.ts';
import type { Tables } from '../../src/query/access-path.ts';
import { columnsOf, type Plan, type SortKey } from '../../src/query/algebra.ts';
import { operatorOf } from '../../src/query/execute.ts';
import {
  and,
  column,
  compare,
  COMPARISONS,
  contains,
  isNull,
  isTrue,
  literal,
  not,
  or,
  prefixed,
  within,
  type Expression,
} from '../../src/query/expression.ts';
import { rowsOf } from '../../src/query/kernels.ts';
import { edgesBy, RememberedTables } from '../../src/query/tables.ts';
import { change, committed, openStore, type OpenedStore } from '../store/open-store.ts';

export type Row = { [name: string]: Value };

export const COLUMNS = ['id', 'a', 'b', 'c', 'd', 'e', 'm', 't'] as const;

export const items = defineCollection({
  name: 'items',
  fields: {
    id: 'int',
    a: 'int?',
    b: 'int',
    c: 'text?',
    d: 'float?',
    e: 'any?',
    m: 'map?',
    t: 'list?',
  },
  key: 'id',
});

const INDEXES = [
  defineIndex(items, { parts: ['a'] }),
  defineIndex(items, { parts: ['b', 'c'] }),
  defineIndex(items, { parts: [{ field: 'c', descending: true }] }),
  defineIndex(items, { parts: ['a', { field: 'd', descending: true }, 'id'] }),
  defineIndex(items, { parts: ['e'] }),
  defineIndex(items, { parts: [{ field: 'm', path: ['x'] }] }),
  defineIndex(items, { parts: ['d'], nulls: 'skip' }),
  defineIndex(items, { parts: [{ field: 't', elements: true }] }),
  defineIndex(items, { parts: ['b', { field: 't', elements: true, descending: true }, 'a'] }),
  defineIndex(items, { parts: [{ field: 't', elements: true }, 'd'], nulls: 'skip' }),
  defineIndex(items, { parts: [{ field: 'm', path: ['l'], elements: true }] }),
  defineIndex(items, { parts: ['id', 'b'], unique: true, nulls: 'equal' }),
];

const TEXTS = ['', 'a', 'ab', 'abc', 'b', 'ba', 'z', 'é', '\u{10ffff}', '\ud7ff'];
const ANYTHING: readonly Value[] = [null, true, 2, float(2), 2.5, 'a', 2n ** 60n, NaN, -0, [1]];

const ELEMENTS: readonly Value[] = [null, 1, 2, 3, 4, 'a', 'b', 'ab', [1]];

export interface Trial {
  readonly random: Random;
  readonly rows: readonly Row[];
  readonly opened: OpenedStore;
  readonly tables: Tables;
  readonly ledger: Ledger;
  readonly work: LedgerWorkSpace;
}

function randomRow(random: Random, id: number): Row {
  const maybe = <T extends Value>(value: T): T | null => (random.chance(0.2) ? null : value);
  return {
    id,
    a: maybe(random.below(8)),
    b: random.below(4),
    c: maybe(random.pick(TEXTS)),
    d: maybe(random.pick([0, 0.5, -1, 3, 1e300, NaN, -0])),
    e: random.pick(ANYTHING),
    m: maybe({ x: random.chance(0.3) ? null : random.below(5), l: randomList(random) }),
    t: maybe(randomList(random)),
  };
}

function randomList(random: Random): Value {
  return Array.from({ length: random.below(6) }, () => random.pick(ELEMENTS));
}

/** A store of random records; `budget`: bytes for sorts; `share`: of indexes that it has. */
export function openTrial(seed: number, count = 200, budget = 8 << 20, share = 0.8): Trial {
  const random = new Random(seed);
  const opened = openStore();
  const rows = Array.from({ length: count }, (_, i) => randomRow(random, i * 2));
  committed(opened.store, () => {
    change(opened.store, { change: 'createCollection', definition: items });
    for (const definition of INDEXES) {
      if (random.chance(share)) change(opened.store, { change: 'createIndex', definition });
    }
    const target = opened.points.collection('items');
    for (const row of rows) target.insert(row);
  });
  const ledger = new Ledger(budget);
  const work = new LedgerWorkSpace(ledger, new MemoryFileSystem(), 'spill');
  return { random, rows, opened, tables: tablesOf(opened), ledger, work };
}

export function tablesOf(opened: OpenedStore): Tables {
  const { source, points } = opened;
  const schema = source.schema(LATEST);
  return new RememberedTables({
    definition: (name) => schema.collections.find((each) => each.name === name),
    indexes: (name) => schema.indexes.filter((each) => each.collection === name),
    statistics: (collection) => source.statistics({ collection, view: LATEST }),
    count: (name) => points.collection(name).count(LATEST),
    keyEdges: () => edgesBy(source, items, LATEST),
  });
}

// Random questions.

function randomOperand(random: Random, name: string): Value {
  switch (name) {
    case 'id':
      return random.below(420) - 10;
    case 'a':
    case 'b':
      return random.pick<Value>([random.below(9) - 1, 2.5, float(3)]);
    case 'c':
      return random.pick(TEXTS);
    case 'd':
      return random.pick<Value>([0, 0.5, 3, NaN, 7, 2n ** 60n]);
    case 'm':
      return random.below(5);
    default:
      return random.pick(ANYTHING.filter((value) => value !== null));
  }
}

function randomLeaf(random: Random): Expression {
  const name = random.pick(COLUMNS);
  const term = name === 'm' ? column('m', ['x']) : column(name);
  switch (random.below(8)) {
    case 0:
      return isNull(term);
    case 1: {
      const values = Array.from({ length: random.below(10) }, () => randomOperand(random, name));
      return within(term, random.chance(0.1) ? [...values, null] : values);
    }
    case 2:
      return prefixed(random.chance(0.8) ? column('c') : term, random.pick(TEXTS));
    case 4: {
      const list = random.pick([column('t'), column('t'), column('m', ['l']), term]);
      return contains(list, random.pick(ELEMENTS));
    }
    case 3:
      return random.chance(0.2)
        ? literal(random.pick([true, false, null]))
        : compare(random.pick(COMPARISONS), column('a'), column(random.pick(['b', 'd', 'e'])));
    default: {
      const operand = random.chance(0.05) ? null : randomOperand(random, name);
      const op = random.chance(0.4) ? '=' : random.pick(COMPARISONS);
      return random.chance(0.2)
        ? compare(op, literal(operand), term)
        : compare(op, term, literal(operand));
    }
  }
}

/** A random condition. */
export function randomCondition(random: Random, depth = 3): Expression {
  if (depth === 0 || random.chance(0.3)) return randomLeaf(random);
  const terms = (): Expression[] =>
    Array.from({ length: random.between(1, 4) }, () => randomCondition(random, depth - 1));
  switch (random.below(8)) {
    case 0:
      return not(randomCondition(random, depth - 1));
    case 1:
      return isTrue(randomCondition(random, depth - 1));
    case 2:
    case 3:
    case 4:
      return or(...terms());
    default:
      return and(...terms());
  }
}

/** A random order of some columns. */
export function randomOrder(random: Random): SortKey[] {
  const names = random.shuffle(['id', 'a', 'b', 'c', 'd', 'e']).slice(0, random.between(1, 4));
  return names.map((name) => ({ column: name, descending: random.chance(0.4) }));
}

// The plain answers.

type Truth = boolean | null;

/** What a condition says of a row: written apart from the engine's. */
export function plainTruth(expression: Expression, row: Row): Value {
  switch (expression.kind) {
    case 'literal':
      return expression.value;
    case 'column': {
      const value = row[expression.name] ?? null;
      if (expression.path === undefined) return value;
      return value === null ? null : ((value as Row)[expression.path[0]!] ?? null);
    }
    case 'compare': {
      const left = plainTruth(expression.left, row);
      const right = plainTruth(expression.right, row);
      if (left === null || right === null) return null;
      const order = Math.sign(compareValues(left, right));
      return { '=': [0], '!=': [-1, 1], '<': [-1], '<=': [-1, 0], '>': [1], '>=': [0, 1] }[
        expression.op
      ].includes(order === 0 ? 0 : order);
    }
    case 'and':
    case 'or': {
      const truths = expression.terms.map((term) => plainTruth(term, row) as Truth);
      const decisive = expression.kind === 'or';
      if (truths.includes(decisive)) return decisive;
      return truths.includes(null) ? null : !decisive;
    }
    case 'not': {
      const truth = plainTruth(expression.term, row) as Truth;
      return truth === null ? null : !truth;
    }
    case 'isTrue':
      return plainTruth(expression.term, row) === true;
    case 'isNull':
      return plainTruth(expression.term, row) === null;
    case 'in': {
      const value = plainTruth(expression.term, row);
      if (expression.values.length === 0) return false;
      if (value === null) return null;
      if (expression.values.some((each) => each !== null && equalValues(value, each))) return true;
      return expression.values.includes(null) ? null : false;
    }
    case 'prefix': {
      const value = plainTruth(expression.term, row);
      return typeof value === 'string' ? value.startsWith(expression.text) : null;
    }
    case 'contains': {
      const value = plainTruth(expression.term, row);
      if (!Array.isArray(value)) return null;
      return value.some((each: Value) => compareValues(each, expression.value) === 0);
    }
  }
}

/** Compares rows by sort keys. */
export function compareRows(keys: readonly SortKey[], a: Row, b: Row): number {
  for (const key of keys) {
    const order = compareValues(a[key.column]!, b[key.column]!);
    if (order !== 0) return key.descending ? -order : order;
  }
  return 0;
}

// Running.

export interface RunOptions {
  readonly source?: RecordSource<Pending>;
  readonly work?: WorkSpace;
  readonly batchRows?: number;
}

/** The rows of a plan as it stands. */
export function run(trial: Trial, plan: Plan, options: RunOptions = {}): Row[] {
  const names = columnsOf(plan);
  const found: Row[] = [];
  const operator = operatorOf(plan, {
    source: options.source ?? trial.opened.source,
    view: LATEST,
    work: options.work ?? trial.work,
    batchRows: options.batchRows ?? 1024,
  });
  try {
    for (;;) {
      const batch = operator.next();
      if (batch === undefined) return found;
      if (isPending(batch)) continue;
      const rows = rowsOf(batch);
      for (let i = 0; i < batch.rowCount; i++) {
        const values = batch.columns.map((each) => each.get(rows[i]!));
        found.push(Object.fromEntries(names.map((name, c) => [name, values[c]!])));
      }
    }
  } finally {
    operator.close();
  }
}

export function scanOf(columns: readonly string[] = COLUMNS): Plan {
  return { node: 'scan', collection: 'items', columns };
}

export function filterOf(condition: Expression, columns?: readonly string[]): Plan {
  return { node: 'filter', input: scanOf(columns), condition };
}

/** The ids of rows, in order of ids. */
export function idsOf(rows: readonly Row[]): number[] {
  return rows.map((row) => row['id'] as number).sort((a, b) => a - b);
}
