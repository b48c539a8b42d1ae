/**
 * What the planner knows of the collections of one view, with statistics remembered until the
 * number of records has changed much.
 */
import type { CollectionDefinition, IndexDefinition } from '../model/schema.ts';
import type { CollectionStatistics } from '../model/source.ts';
import type { Tables } from './access-path.ts';

/** Share of records by which a count may change before statistics are asked for again. */
const STALE_SHARE = 0.25;
/** Records whose coming and going never makes statistics stale. */
const STALE_RECORDS = 64;

/** Where the knowledge comes from. */
export interface TablesSource {
  definition(name: string): CollectionDefinition | undefined;
  indexes(name: string): readonly IndexDefinition[];
  statistics(name: string): CollectionStatistics;
  count(name: string): number;
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
      const before = known.statistics.recordCount;
      if (Math.abs(count - before) <= STALE_RECORDS + before * STALE_SHARE) return known.statistics;
    }
    const statistics = this.#source.statistics(name);
    this.#known.set(name, { statistics, indexCount });
    return statistics;
  }
}
