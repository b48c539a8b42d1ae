/**
 * What readers of formats answer: a text as a sequence of sections, each to become, or to go into,
 * one bucket or collection.
 */
import type { CollectionDefinition, IndexDefinition, RecordFields, Value } from '../index.ts';
import type { Place } from './failures.ts';

/** An entry of a bucket. */
export type Pair = [Value, Value];

/**
 * What a section holds.
 *
 *   pairs      bytes under bytes, each key once
 *   numbered   bytes under the integers of record numbers
 *   pair set   bytes under bytes, a key with several values: a set of pairs
 *   records    records, or entries, that fit the section's own or the target's definition
 */
export type SectionShape = 'pairs' | 'numbered' | 'pair set' | 'records';

export interface Section {
  /** The name that the text gives it, `undefined` if it gives none. */
  readonly name: string | undefined;
  readonly shape: SectionShape;
  /** Definitions that the text carries. */
  readonly definition?: CollectionDefinition;
  readonly indexes?: readonly IndexDefinition[];
  /**
   * The entries of a bucket, or records of a collection, of that definition. Iterated once, to its
   * end, before the next section is asked for.
   */
  entries(target: CollectionDefinition): AsyncIterable<Pair | RecordFields>;
}

/** A text in some format, being read. */
export interface SectionReader {
  sections(): AsyncIterable<Section>;
  /** The place of what was read last. */
  place(): Place;
  close(): void;
}
