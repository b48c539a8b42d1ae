/**
 * Bulk loads as the question side asks for them and the store does them: options, progress, report,
 * and the loader that takes records one by one.
 */
import type { Steps } from '../base/steps.ts';
import type { RecordInput } from './record.ts';
import type { Value } from './value.ts';

/** What a bulk load is doing: taking records in, or building a tree. */
export interface BulkProgress {
  /**
   * `'read'`: records come in; `'build'`: they are written in order of their keys; `'index'`: the
   * entries of `index` are.
   */
  readonly phase: 'read' | 'build' | 'index';
  /** Records, or entries of the index, done in this phase. */
  readonly records: number;
  /** Bytes of the encoded keys and records that were read so far. */
  readonly bytes: number;
  readonly index?: string;
}

/** Options of a bulk load. */
export interface BulkLoadOptions {
  /** Called now and then; what it throws ends the load. */
  readonly onProgress?: (progress: BulkProgress) => void;
  /**
   * What becomes of a record whose key exists, in the file or earlier in the load: `'refuse'` ends
   * the load, which is the default; `'replace'` writes the later record, `'keep'` the earlier one.
   * Unique indexes are checked in any case, as of the end of the load.
   */
  readonly onDuplicate?: 'refuse' | 'replace' | 'keep';
  /** Share of a page that is filled where pages are built anew, 0.3 to 1; default 1. */
  readonly fill?: number;
}

/** Options of an asynchronous bulk load. */
export interface BulkLoadAsyncOptions extends BulkLoadOptions {
  /** Cancels the load: nothing of it remains. */
  readonly signal?: AbortSignal;
}

/** What a bulk load did. */
export interface BulkReport {
  /** Records that were read. */
  readonly records: number;
  /** Records that are new in the file. */
  readonly loaded: number;
  /** Records that a later one of the same key replaced, in the file or in the load. */
  readonly replaced: number;
  /** Records that were left out because an earlier one has their key. */
  readonly kept: number;
  /** Bytes of the encoded keys and records. */
  readonly bytes: number;
  /** Sorted runs that did not fit the memory and went through the spill file. */
  readonly runs: number;
  /** Levels of the tree that was built; 0 when records were put into the tree there was. */
  readonly levels: number;
  /** Most working memory held at a time, bytes; it is part of the memory budget. */
  readonly workBytesPeak: number;
  readonly seconds: number;
}

/** Takes the records of one bulk load; made in an open transaction. */
export interface BulkLoader {
  /** Takes an entry of a bucket. */
  addEntry(key: Value, value: Value): void;
  /** Takes a record of a collection. */
  addRecord(record: RecordInput): void;
  /** Writes what was taken; answers the report without `seconds`. */
  finish(): Steps<Omit<BulkReport, 'seconds'>>;
  /** Gives memory back, whether finished or not. */
  close(): void;
}
