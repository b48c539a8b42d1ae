/**
 * A walk through a range of keys as of one commit: what the three kinds of iterators share.
 *
 * A range of the bucket is opened by the first step and by the first step after a `seek`; every
 * one reads the same snapshot, the walk's own or the caller's.
 */
import type { KeyValue, RangeOptions, Snapshot } from '../index.ts';
import { bytesOf, type Format, type Formatted } from './formats.ts';

export type Bucket = KeyValue<Uint8Array, Uint8Array>;

/** Bounds as `abstract-level` gives them, encoded; of two on one side the inclusive one counts. */
export interface Bounds {
  readonly gt?: Formatted;
  readonly gte?: Formatted;
  readonly lt?: Formatted;
  readonly lte?: Formatted;
}

/** Options of an iterator as `abstract-level` gives them. */
export interface WalkOptions extends Bounds {
  readonly reverse: boolean;
  readonly keyEncoding: Format;
  readonly valueEncoding: Format;
  readonly values?: boolean;
  readonly signal?: AbortSignal | null;
}

type ByteRange = Pick<RangeOptions<Uint8Array>, 'gt' | 'gte' | 'lt' | 'lte'>;

/** The range of bytes that bounds stand for. */
export function byteRange({ gt, gte, lt, lte }: Bounds): ByteRange {
  const from = gte ?? gt;
  const to = lte ?? lt;
  return {
    ...(from !== undefined && { [gte === undefined ? 'gt' : 'gte']: bytesOf(from) }),
    ...(to !== undefined && { [lte === undefined ? 'lt' : 'lte']: bytesOf(to) }),
  };
}

function isInside(key: Uint8Array, { gt, gte, lt, lte }: ByteRange): boolean {
  if (gt !== undefined && Buffer.compare(key, gt) <= 0) return false;
  if (gte !== undefined && Buffer.compare(key, gte) < 0) return false;
  if (lt !== undefined && Buffer.compare(key, lt) >= 0) return false;
  return lte === undefined || Buffer.compare(key, lte) <= 0;
}

export class Walk {
  readonly #bucket: Bucket;
  readonly #own: Snapshot | undefined;
  readonly #range: ByteRange;
  readonly #reverse: boolean;
  readonly #withValues: boolean;
  /** Where the next range begins instead of its bound. */
  #start: ByteRange = {};
  #entries: IterableIterator<[Uint8Array, Uint8Array]> | undefined;
  #keys: IterableIterator<Uint8Array> | undefined;
  #isAtEnd = false;

  key!: Uint8Array;
  /** Lent until the next step. */
  value!: Uint8Array;

  /** `own`: a snapshot that is closed with the walk. */
  constructor(bucket: Bucket, own: Snapshot | undefined, options: WalkOptions, values: boolean) {
    this.#bucket = bucket;
    this.#own = own;
    this.#range = byteRange(options);
    this.#reverse = options.reverse;
    this.#withValues = values;
  }

  /** Goes on to the next entry; false at the end. */
  step(): boolean {
    if (this.#isAtEnd) return false;
    const found = this.#withValues ? this.#stepEntry() : this.#stepKey();
    if (!found) this.#isAtEnd = true;
    return found;
  }

  #stepEntry(): boolean {
    this.#entries ??= this.#bucket.range(this.#options());
    const step = this.#entries.next();
    if (step.done === true) return false;
    [this.key, this.value] = step.value;
    return true;
  }

  #stepKey(): boolean {
    this.#keys ??= this.#bucket.keys(this.#options());
    const step = this.#keys.next();
    if (step.done === true) return false;
    this.key = step.value;
    return true;
  }

  #options(): RangeOptions<Uint8Array> {
    const { gte, lte } = this.#start;
    const reverse = this.#reverse;
    if (gte === undefined && lte === undefined) return { ...this.#range, reverse };
    const { gt: _gt, gte: _gte, ...upper } = this.#range;
    if (gte !== undefined) return { ...upper, gte, reverse };
    const { lt: _lt, lte: _lte, ...lower } = this.#range;
    return { ...lower, lte: lte!, reverse };
  }

  /** Makes the next step go to a key or behind it; outside the range there is nothing. */
  seek(target: Formatted): void {
    this.#release();
    const key = bytesOf(target);
    this.#isAtEnd = !isInside(key, this.#range);
    this.#start = this.#reverse ? { lte: key } : { gte: key };
  }

  #release(): void {
    this.#entries?.return?.();
    this.#keys?.return?.();
    this.#entries = undefined;
    this.#keys = undefined;
  }

  close(): void {
    this.#isAtEnd = true;
    this.#release();
    this.#own?.close();
  }
}
