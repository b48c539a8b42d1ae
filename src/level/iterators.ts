/**
 * The iterators of `abstract-level`: entries, keys, values. They differ in what they take of each
 * step of a walk; how they step, seek, close and heed a signal is the same.
 */
import { setImmediate } from 'node:timers/promises';
import {
  AbstractIterator,
  AbstractKeyIterator,
  AbstractValueIterator,
  type AbstractIteratorOptions,
} from 'abstract-level';
import type { Snapshot } from '../index.ts';
import { copied, type Format, type Formatted, given } from './formats.ts';
import { aborted, translated } from './level-error.ts';
import type { MonochordLevel } from './monochord-level.ts';
import { type Bucket, Walk, type WalkOptions } from './walk.ts';

/** Steps after which other work of the process gets a turn. */
const STEPS_A_TURN = 1000;

type Owner = MonochordLevel<unknown, unknown>;
type Options = AbstractIteratorOptions<unknown, unknown>;

/** The state of an iterator, and its methods as `abstract-level` asks for them. */
class Reader<Item> {
  readonly #walk: Walk;
  readonly #take: (walk: Walk) => Item;
  readonly #signal: AbortSignal | undefined;

  constructor(walk: Walk, take: (walk: Walk) => Item, options: WalkOptions) {
    this.#walk = walk;
    this.#take = take;
    this.#signal = options.signal ?? undefined;
  }

  async next(): Promise<Item | undefined> {
    if (this.#signal !== undefined) await this.#letAbort(this.#signal);
    return translated(() => (this.#walk.step() ? this.#take(this.#walk) : undefined));
  }

  /** Up to `count` items; between runs of steps the process does other work. */
  async nextMany(count: number): Promise<Item[]> {
    if (this.#signal !== undefined) await this.#letAbort(this.#signal);
    const items: Item[] = [];
    while (translated(() => this.#run(items, Math.min(count, items.length + STEPS_A_TURN)))) {
      if (items.length >= count) break;
      await setImmediate();
      if (this.#signal?.aborted === true) throw aborted(this.#signal);
    }
    return items;
  }

  /** Steps until there are so many items; false when the walk ended before. */
  #run(items: Item[], until: number): boolean {
    const walk = this.#walk;
    while (items.length < until) {
      if (!walk.step()) return false;
      items.push(this.#take(walk));
    }
    return true;
  }

  /** Gives the caller the chance to abort a read that it has just begun. */
  async #letAbort(signal: AbortSignal): Promise<void> {
    await undefined;
    if (signal.aborted) throw aborted(signal);
  }

  seek(target: Formatted): void {
    this.#walk.seek(target);
  }

  close(): void {
    this.#walk.close();
  }
}

type Entry = [Formatted | undefined, Formatted | undefined];

/** What an entry iterator takes: the parts that are asked for. */
function entryTaker(options: WalkOptions & { keys?: boolean }): (walk: Walk) => Entry {
  const { keyEncoding, valueEncoding } = options;
  const keys = options.keys !== false;
  const values = options.values !== false;
  return (walk) => [
    keys ? given(walk.key, keyEncoding) : undefined,
    values ? copied(walk.value, valueEncoding) : undefined,
  ];
}

export class EntryIterator extends AbstractIterator<Owner, unknown, unknown> {
  readonly #reader: Reader<Entry>;

  constructor(db: Owner, bucket: Bucket, own: Snapshot | undefined, options: WalkOptions) {
    super(db, options as Options);
    const walk = new Walk(bucket, own, options, options.values !== false);
    this.#reader = new Reader(walk, entryTaker(options), options);
  }

  _next(): Promise<Entry | undefined> {
    return this.#reader.next();
  }

  _nextv(size: number): Promise<Entry[]> {
    return this.#reader.nextMany(size);
  }

  _all(): Promise<Entry[]> {
    return this.#reader.nextMany(this.limit - this.count);
  }

  _seek(target: Formatted): void {
    this.#reader.seek(target);
  }

  async _close(): Promise<void> {
    this.#reader.close();
  }
}

export class KeyIterator extends AbstractKeyIterator<Owner, unknown> {
  readonly #reader: Reader<Formatted>;

  constructor(db: Owner, bucket: Bucket, own: Snapshot | undefined, options: WalkOptions) {
    super(db, options as Options);
    const format: Format = options.keyEncoding;
    const walk = new Walk(bucket, own, options, false);
    this.#reader = new Reader(walk, ({ key }) => given(key, format), options);
  }

  _next(): Promise<Formatted | undefined> {
    return this.#reader.next();
  }

  _nextv(size: number): Promise<Formatted[]> {
    return this.#reader.nextMany(size);
  }

  _all(): Promise<Formatted[]> {
    return this.#reader.nextMany(this.limit - this.count);
  }

  _seek(target: Formatted): void {
    this.#reader.seek(target);
  }

  async _close(): Promise<void> {
    this.#reader.close();
  }
}

export class ValueIterator extends AbstractValueIterator<Owner, unknown, unknown> {
  readonly #reader: Reader<Formatted>;

  constructor(db: Owner, bucket: Bucket, own: Snapshot | undefined, options: WalkOptions) {
    super(db, options as Options);
    const format: Format = options.valueEncoding;
    const walk = new Walk(bucket, own, options, true);
    this.#reader = new Reader(walk, ({ value }) => copied(value, format), options);
  }

  _next(): Promise<Formatted | undefined> {
    return this.#reader.next();
  }

  _nextv(size: number): Promise<Formatted[]> {
    return this.#reader.nextMany(size);
  }

  _all(): Promise<Formatted[]> {
    return this.#reader.nextMany(this.limit - this.count);
  }

  _seek(target: Formatted): void {
    this.#reader.seek(target);
  }

  async _close(): Promise<void> {
    this.#reader.close();
  }
}
