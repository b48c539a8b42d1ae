/**
 * What the planner knows of the collections of one view, with statistics remembered until the
 * number of records has changed much.
 */
import type { CollectionDefinition, IndexDefinition } from '../model/schema.ts';
import type { CollectionStatistics, RecordSource, SourceView } from '../model/source.ts';
import type { Value } from '../model/value.ts';
import { asNumber, keyOrders, OWN_ORDER, type Tables } from './access-path.ts';

/** Share of records by which a count may change before statistics are asked for again. */
const STALE_SHARE = 0.25;
/** Records whose coming and going never makes statistics stale. */
const STALE_RECORDS = 64;

/** Whether so many records are so different from so many before that plans may differ. */
export function isStale(before: number, count: number): boolean {
  return Math.abs(count - before) > STALE_RECORDS + before * STALE_SHARE;
}

/** Where the knowledge comes from. */
export interface TablesSource {
  definition(name: string): CollectionDefinition | undefined;
  indexes(name: string): readonly IndexDefinition[];
  statistics(name: string): CollectionStatistics;
  count(name: string): number;
  /** Least and greatest value of the first part of the collection's own key. */
  keyEdges(name: string): readonly [Value | undefined, Value | undefined];
}

interface Known {
  readonly statistics: CollectionStatistics;
  readonly indexCount: number;
}

export class RememberedTables implements Tables {
  readonly #source: TablesSource;
  readonly #known = new Map<string, Known>();

  constructor(source: TablesSource) {
    this.#source = source;
  }

  collection(name: string): CollectionDefinition | undefined {
    return this.#source.definition(name);
  }

  indexes(name: string): readonly IndexDefinition[] {
    return this.#source.indexes(name);
  }

  statistics(name: string): CollectionStatistics {
    const known = this.#known.get(name);
    const count = this.#source.count(name);
    const indexCount = this.#source.indexes(name).length;
    if (known !== undefined && known.indexCount === indexCount) {
      if (!isStale(known.statistics.recordCount, count)) return known.statistics;
    }
    const statistics = this.#ask(name);
    this.#known.set(name, { statistics, indexCount });
    return statistics;
  }

  edges(name: string): ReadonlyMap<string, readonly [number, number]> {
    const edges = new Map<string, readonly [number, number]>();
    const orders = keyOrders(this, name);
    for (const { name: index, least, greatest } of this.statistics(name).indexes) {
      const order = orders.find((each) => (each.index ?? OWN_ORDER) === index);
      const part = order?.parts[0];
      if (part === undefined || part.path !== undefined || part.elements === true) continue;
      const [a, b] = [asNumber(least), asNumber(greatest)];
      if (a !== undefined && b !== undefined && a !== b)
        edges.set(part.field, [Math.min(a, b), Math.max(a, b)]);
    }
    return edges;
  }

  #ask(name: string): CollectionStatistics {
    const statistics = this.#source.statistics(name);
    const { recordCount } = statistics;
    const [least, greatest] = this.#source.keyEdges(name);
    const own = {
      name: OWN_ORDER,
      entryCount: recordCount,
      distinctCounts: [],
      keysPerRecord: 1,
      least,
      greatest,
    };
    return { ...statistics, indexes: [own, ...statistics.indexes] };
  }
}

/** The edges of a collection's own key by reading its first and its last record. */
export function edgesBy(
  source: RecordSource<never>,
  definition: CollectionDefinition | undefined,
  view: SourceView,
): readonly [Value | undefined, Value | undefined] {
  const key = definition?.key;
  if (key === undefined || key.kind === 'generated') return [undefined, undefined];
  const field = key.kind === 'integer' ? key.field : key.parts[0]!.field;
  const edge = (reverse: boolean): Value | undefined => {
    const request = { collection: definition!.name, fields: [field], reverse, limit: 1, view };
    const cursor = source.scan(request);
    try {
      return cursor.next()?.columns[0]!.get(0);
    } finally {
      cursor.close();
    }
  };
  return [edge(false), edge(true)];
}
