/**
 * Advice on indexes, from what a trace asks: an index for conditions that read a whole collection,
 * and indexes that nothing asked for. It is advice only until it is measured: each becomes a
 * candidate like any other. Line 7 of the strata.
 *
 *   fields of equalities, then one field of a range, else of the order  ──> parts of the index
 */
import type { Plan, ScanNode } from '../query/algebra.ts';
import type { Expression } from '../query/expression.ts';
import type { Query } from '../objects/query.ts';
import type { TracedCollection } from '../recording/trace-format.ts';
import type { Operation, Replay } from './replay.ts';
import type { CandidateInput, IndexChanges } from './workload.ts';

/** Indexes that are proposed at the most, the ones asked for most first. */
const ADDED_MAX = 4;
const PARTS_MAX = 3;

interface Wish {
  readonly collection: string;
  readonly parts: readonly string[];
  times: number;
}

/** Collects what queries ask, one call each. */
export class IndexAdvice {
  readonly #wishes = new Map<string, Wish>();
  readonly #used = new Set<string>();
  /** Questions of a shape that were explained already, and what came of it. */
  readonly #shapes = new Map<string, Wish | undefined>();

  see(operation: Operation, replay: Replay): void {
    const { op, on, args } = operation;
    if (op === 'query') {
      const shape = shapeOf(operation);
      if (!this.#shapes.has(shape)) this.#shapes.set(shape, this.#explained(operation, replay));
      const wish = this.#shapes.get(shape);
      if (wish !== undefined) wish.times++;
      return;
    }
    const [key] = args;
    if (typeof key !== 'object' || key === null || Array.isArray(key)) return;
    this.#used.add(`${on} ${Object.keys(key).join(',')}`);
  }

  #explained(operation: Operation, replay: Replay): Wish | undefined {
    const query = replay.queryOf(operation) as Query<unknown, unknown>;
    let wish: Wish | undefined;
    const visit = (plan: Plan, above: readonly Plan[]): void => {
      if (plan.node === 'scan') wish ??= this.#scanned(plan, above);
      else if (plan.node === 'union') for (const each of plan.inputs) visit(each, above);
      else if (plan.node !== 'values') visit(plan.input, [...above, plan]);
    };
    visit(query.explain().plan, []);
    return wish;
  }

  #scanned(scan: ScanNode, above: readonly Plan[]): Wish | undefined {
    const { collection, access } = scan;
    if (access?.index !== undefined) this.#used.add(`${collection} ${access.index}`);
    if (access?.ranges !== undefined) return undefined;
    const parts = partsFor(above);
    if (parts.length === 0) return undefined;
    const name = `${collection} ${parts.join(',')}`;
    const wish = this.#wishes.get(name) ?? { collection, parts, times: 0 };
    this.#wishes.set(name, wish);
    return wish;
  }

  /** What is worth measuring. */
  candidates(collections: readonly TracedCollection[]): CandidateInput[] {
    const byName = new Map(collections.map((each) => [each.name, each]));
    const wishes = [...this.#wishes.values()]
      .filter(({ collection, parts, times }) => {
        return times > 0 && !hasIndex(byName.get(collection), parts);
      })
      .sort((a, b) => b.times - a.times)
      .slice(0, ADDED_MAX);
    const added = wishes.map(({ collection, parts, times }) => {
      const indexes: IndexChanges = { add: [{ collection, parts }] };
      const why =
        `${times} ${times === 1 ? 'query' : 'queries'} of the trace read all ${collection} for ` +
        'want of it; every write of a record keeps it up';
      return { name: `index ${collection}(${parts.join(', ')})`, layout: { indexes }, why };
    });
    const dropped = collections.flatMap((collection) =>
      collection.indexes
        .filter((index) => !index.unique && !this.#isUsed(collection, index.name))
        .map((index) => {
          const indexes: IndexChanges = {
            drop: [{ collection: collection.name, index: index.name }],
          };
          const why =
            'nothing in the trace asks for it, every write of a record keeps it up; take it ' +
            'out of the declaration, too, or the next opening makes it again';
          return { name: `no index ${collection.name}.${index.name}`, layout: { indexes }, why };
        }),
    );
    return [...added, ...dropped];
  }

  #isUsed(collection: TracedCollection, index: string): boolean {
    const parts = collection.indexes.find((each) => each.name === index)!.parts;
    const fields = parts.map((part) => part.field).join(',');
    return (
      this.#used.has(`${collection.name} ${index}`) ||
      this.#used.has(`${collection.name} ${fields}`)
    );
  }
}

/** Text that queries share which differ in operands only. */
function shapeOf({ on, chain, end }: Operation): string {
  const blank = (value: unknown): unknown => {
    if (Array.isArray(value)) {
      return value.length === 3 && typeof value[0] === 'string' ? value.slice(0, 2) : [];
    }
    if (typeof value !== 'object' || value === null) return typeof value;
    if (value instanceof Uint8Array || value instanceof Date) return 'value';
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, blank(each)]));
  };
  const shown = chain.map(([name, args]) => [
    name,
    name === 'where' || name === 'or' || name === 'not'
      ? args.length === 3
        ? args.slice(0, 2)
        : args.map(blank)
      : args,
  ]);
  return JSON.stringify([on, shown, end]);
}

/** Parts of an index that the nodes above a scan of everything would use. */
function partsFor(above: readonly Plan[]): string[] {
  const equal: string[] = [];
  const ranged: string[] = [];
  const ordered: string[] = [];
  for (const plan of above) {
    if (plan.node === 'filter') collect(plan.condition, equal, ranged);
    if (plan.node === 'sort') ordered.push(...plan.keys.map((key) => key.column));
  }
  const last = ranged.find((name) => !equal.includes(name)) ?? ordered[0];
  const parts = [...new Set([...equal, ...(last === undefined ? [] : [last])])];
  return parts.slice(0, PARTS_MAX);
}

/** Fields of a condition that an index could narrow. */
function collect(condition: Expression, equal: string[], ranged: string[]): void {
  switch (condition.kind) {
    case 'and':
      for (const term of condition.terms) collect(term, equal, ranged);
      return;
    case 'isTrue':
      return collect(condition.term, equal, ranged);
    case 'compare': {
      const name = nameOf(condition.left) ?? nameOf(condition.right);
      if (name === undefined || condition.op === '!=') return;
      (condition.op === '=' ? equal : ranged).push(name);
      return;
    }
    case 'in':
    case 'isNull': {
      const name = nameOf(condition.term);
      if (name !== undefined) equal.push(name);
      return;
    }
    case 'prefix': {
      const name = nameOf(condition.term);
      if (name !== undefined) ranged.push(name);
      return;
    }
    default:
      return; // or, not: no one index narrows them
  }
}

function nameOf(expression: Expression): string | undefined {
  if (expression.kind !== 'column') return undefined;
  return [expression.name, ...(expression.path ?? [])].join('.');
}

function hasIndex(collection: TracedCollection | undefined, parts: readonly string[]): boolean {
  if (collection === undefined) return true; // it is gone: nothing to index
  const wanted = parts.join(',');
  return collection.indexes.some(
    (index) => index.parts.map((part) => part.field).join(',') === wanted,
  );
}
