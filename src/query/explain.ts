/** Plans as text for people, one node a line, inputs indented below. */
import { describeValue, partName } from '../model/schema.ts';
import type { KeyRange } from '../model/source.ts';
import { covers, keyOrders, type Tables } from './access-path.ts';
import { inputsOf, type Plan, type ScanNode } from './algebra.ts';
import type { Expression } from './expression.ts';

/** An expression as text. */
export function expressionText(expression: Expression): string {
  switch (expression.kind) {
    case 'literal':
      return describeValue(expression.value);
    case 'column':
      return [expression.name, ...(expression.path ?? [])].join('.');
    case 'compare': {
      const { op, left, right } = expression;
      return `${expressionText(left)} ${op} ${expressionText(right)}`;
    }
    case 'and':
    case 'or':
      return `(${expression.terms.map(expressionText).join(` ${expression.kind} `)})`;
    case 'not':
      return `not ${expressionText(expression.term)}`;
    case 'isNull':
      return `${expressionText(expression.term)} is null`;
    case 'isTrue':
      return `(${expressionText(expression.term)}) is true`;
    case 'in': {
      const values = listText(expression.values.map(describeValue));
      return `${expressionText(expression.term)} in (${values})`;
    }
    case 'prefix':
      return `${expressionText(expression.term)} begins with ${describeValue(expression.text)}`;
    case 'contains':
      return `${expressionText(expression.term)} contains ${describeValue(expression.value)}`;
  }
}

const SHOWN_MAX = 4;

function listText(items: readonly string[]): string {
  const shown = items.slice(0, SHOWN_MAX);
  const rest = items.length - shown.length;
  return rest === 0 ? shown.join(', ') : `${shown.join(', ')} and ${rest} more`;
}

function rangeText({ from, to, fromExclusive, toInclusive }: KeyRange): string {
  const side = (values: KeyRange['from']): string => (values ?? []).map(describeValue).join(', ');
  if (from !== undefined && from === to) return `= ${side(from)}`;
  const low = from === undefined ? '' : `${side(from)} ${fromExclusive === true ? '<' : '<='} `;
  const high = to === undefined ? '' : ` ${toInclusive === true ? '<=' : '<'} ${side(to)}`;
  return `${low}key${high}`;
}

function scanText(scan: ScanNode, tables: Tables): string {
  const { collection, access, limit } = scan;
  const order = keyOrders(tables, collection).find((each) => each.index === access?.index);
  const parts: string[] = [`scan ${collection}`];
  if (access?.index !== undefined) {
    parts.push(`by index "${access.index}"`);
    if (order !== undefined && covers(tables, collection, order, scan.columns)) parts.push('alone');
  } else if (access?.ranges !== undefined)
    parts.push(`by key ${(order?.parts ?? []).map(partName).join(', ')}`);
  if (access?.ranges !== undefined) parts.push(`[${listText(access.ranges.map(rangeText))}]`);
  if (access?.reverse === true) parts.push('reverse');
  if (limit !== undefined) parts.push(`limit ${limit}`);
  return `${parts.join(' ')} → ${scan.columns.join(', ') || 'no columns'}`;
}

/** One node of a plan as text, without its inputs. */
export function nodeText(plan: Plan, tables: Tables): string {
  switch (plan.node) {
    case 'scan':
      return scanText(plan, tables);
    case 'values':
      return `values ${plan.rows.length} rows`;
    case 'filter':
      return `filter ${expressionText(plan.condition)}`;
    case 'project':
      return `project ${plan.columns.map((each) => each.name).join(', ')}`;
    case 'sort': {
      const keys = plan.keys.map((key) => `${key.column}${key.descending ? ' descending' : ''}`);
      return `sort by ${keys.join(', ')}${plan.limit === undefined ? '' : `, first ${plan.limit}`}`;
    }
    case 'limit':
      return `limit ${plan.count ?? 'none'}${plan.offset === 0 ? '' : ` from ${plan.offset}`}`;
    case 'distinct':
      return 'distinct';
    case 'aggregate': {
      const aggregates = plan.aggregates.map((each) => `${each.function}(${each.column ?? ''})`);
      const by = plan.groups.length === 0 ? '' : ` by ${plan.groups.join(', ')}`;
      return `aggregate ${aggregates.join(', ')}${by}`;
    }
    case 'union':
      return 'union';
  }
}

/** A plan as text. */
export function planText(plan: Plan, tables: Tables, depth = 0): string {
  const own = `${'  '.repeat(depth)}${nodeText(plan, tables)}`;
  return [own, ...inputsOf(plan).map((each) => planText(each, tables, depth + 1))].join('\n');
}
