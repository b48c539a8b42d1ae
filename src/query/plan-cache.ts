/**
 * Plans that were made, by the shape of their questions: one cache for a database, bounded, charged
 * to the ledger account `plans`, and emptied when memory is wanted elsewhere.
 *
 * A plan is used again while the collection is the same version of itself and its number of records
 * has not changed much. Bounds of intervals decide by how much they hold whether an index pays, so
 * plans are kept apart by the order of magnitude of that.
 */
import type { Ledger } from '../base/ledger.ts';
import { eachCondition, type Expression } from './expression.ts';
import type { Arguments } from './ranges.ts';
import { isStale } from './tables.ts';
import type { Tables } from './access-path.ts';

/** Plans that are kept at most: more shapes than a program has. */
const PLANS_MAX = 256;
/** Share of the budget that plans take at most. */
const BUDGET_SHARE = 1 / 16;
/** Bytes of an entry beside its key, and of one object of a plan: upper bounds. */
const ENTRY_BYTES = 512;
const NODE_BYTES = 160;

/** What a plan was made for. */
export interface PlannedState {
  /** The version of the collection: another object when its definition or indexes changed. */
  readonly version: object | undefined;
  readonly recordCount: number;
}

/** Bounds of one column, by the slots of their parameters, and its least and greatest value. */
export interface Bounds {
  readonly lower: readonly number[];
  readonly upper: readonly number[];
  readonly least: number;
  readonly greatest: number;
}

interface Entry<Prepared> extends PlannedState {
  readonly bounds: readonly Bounds[];
  /** Plans by the magnitudes of what the bounds hold. */
  readonly plans: Map<string, Prepared>;
  bytes: number;
}

export class PlanCache<Prepared = unknown> {
  readonly #ledger: Ledger;
  readonly #entries = new Map<string, Entry<Prepared>>();
  #bytes = 0;

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
    ledger.addReclaimer(() => this.clear());
  }

  /** Shapes that have plans. */
  get count(): number {
    return this.#entries.size;
  }

  /** The plan of a shape for such constants, `undefined` if there is none that still holds. */
  find(shape: string, state: PlannedState, values: Arguments): Prepared | undefined {
    const entry = this.#entries.get(shape);
    if (entry === undefined) return undefined;
    if (entry.version !== state.version || isStale(entry.recordCount, state.recordCount)) {
      this.#drop(shape, entry);
      return undefined;
    }
    return entry.plans.get(magnitudes(entry.bounds, values));
  }

  /** Keeps a plan; `bounds` as `boundsOf` answers them. */
  keep(
    shape: string,
    state: PlannedState,
    values: Arguments,
    bounds: readonly Bounds[],
    prepared: Prepared,
    nodes: number,
  ): void {
    const bytes = ENTRY_BYTES + 2 * shape.length + nodes * NODE_BYTES;
    if (!this.#ledger.tryCharge('plans', bytes)) return;
    this.#bytes += bytes;
    let entry = this.#entries.get(shape);
    if (entry === undefined) {
      entry = { ...state, bounds, plans: new Map(), bytes: 0 };
      this.#entries.set(shape, entry);
    }
    entry.bytes += bytes;
    entry.plans.set(magnitudes(entry.bounds, values), prepared);
    const most = this.#ledger.budgetBytes * BUDGET_SHARE;
    for (const [oldest, each] of this.#entries) {
      if (this.#entries.size <= PLANS_MAX && this.#bytes <= most) return;
      this.#drop(oldest, each);
    }
  }

  #drop(shape: string, entry: Entry<Prepared>): void {
    this.#entries.delete(shape);
    this.#bytes -= entry.bytes;
    this.#ledger.release('plans', entry.bytes);
  }

  /** Forgets every plan; answers the bytes that are free now. */
  clear(): number {
    let bytes = 0;
    for (const [shape, entry] of this.#entries) {
      bytes += entry.bytes;
      this.#drop(shape, entry);
    }
    return bytes;
  }
}

/** The bounds in a condition with slots that tell how much of a column they hold. */
export function boundsOf(condition: Expression, tables: Tables, collection: string): Bounds[] {
  const slots = new Map<string, { lower: number[]; upper: number[] }>();
  eachCondition(condition, (term) => {
    if (term.kind !== 'compare' || term.left.kind !== 'column') return;
    if (term.left.path !== undefined || term.right.kind !== 'literal') return;
    const { slot } = term.right;
    if (slot === undefined || term.op === '=' || term.op === '!=') return;
    const { name } = term.left;
    const known = slots.get(name) ?? { lower: [], upper: [] };
    (term.op === '>' || term.op === '>=' ? known.lower : known.upper).push(slot);
    slots.set(name, known);
  });
  if (slots.size === 0) return [];
  const edges = tables.edges(collection);
  return [...slots].flatMap(([name, { lower, upper }]) => {
    const edge = edges.get(name);
    if (edge === undefined) return [];
    return [{ lower, upper, least: edge[0], greatest: edge[1] }];
  });
}

/** By how much the bounds narrow, in powers of four. */
function magnitudes(bounds: readonly Bounds[], values: Arguments): string {
  let text = '';
  for (const { lower, upper, least, greatest } of bounds) {
    let low = least;
    let high = greatest;
    for (const slot of lower) low = Math.max(low, numberIn(values[slot], low));
    for (const slot of upper) high = Math.min(high, numberIn(values[slot], high));
    const share = Math.max((high - low) / (greatest - least), 0.0001);
    text += `${Math.round(Math.log2(share) / 2)},`;
  }
  return text;
}

function numberIn(value: unknown, otherwise: number): number {
  return typeof value === 'number' && !Number.isNaN(value) ? value : otherwise;
}
