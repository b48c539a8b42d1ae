/** Ranges of a bucket: a cursor over one, and removing one. Part of `point-access.ts`. */
import type { BucketCursor, KeyRange, SourceView } from '../model/source.ts';
import type { Value } from '../model/value.ts';
import { Cursor } from '../storage/btree-cursor.ts';
import type { EntryReader } from '../storage/btree-reader.ts';
import type { Bucket } from './bucket.ts';
import { encodedRange, type EncodedRange } from './key-ranges.ts';
import type { StoragePort } from './storage-port.ts';

function encodedIn(bucket: Bucket, range: KeyRange): EncodedRange | undefined {
  return encodedRange(range, (values, behind, into) => bucket.keys.bound(values, behind, into));
}

/** A cursor over a range of a bucket. */
export function cursorOf(
  storage: StoragePort,
  bucket: Bucket,
  range: KeyRange,
  reverse: boolean,
  view: SourceView,
): BucketCursor {
  return new StoreBucketCursor(storage, bucket, encodedIn(bucket, range), reverse, view);
}

/** The value where a reader of a snapshot stands, right until that closes: lent, else a copy. */
export function lentValue(storage: StoragePort, at: EntryReader, view: SourceView): Uint8Array {
  if (at.isOverflow || storage.loans?.lend(view, at.buffer) !== true) return at.valueCopy();
  return at.valueView();
}

/** Removes the entries of a range; answers how many. */
export function removeKeys(bucket: Bucket, range: KeyRange): number {
  const encoded = encodedIn(bucket, range);
  return encoded === undefined ? 0 : bucket.deleteRange(encoded.from, encoded.to);
}

class StoreBucketCursor implements BucketCursor {
  readonly #storage: StoragePort;
  readonly #view: SourceView;
  readonly #bucket: Bucket;
  readonly #range: EncodedRange | undefined;
  readonly #reverse: boolean;
  readonly #cursor: Cursor;
  #isStarted = false;
  #isDone: boolean;

  constructor(
    storage: StoragePort,
    bucket: Bucket,
    range: EncodedRange | undefined,
    reverse: boolean,
    view: SourceView,
  ) {
    this.#storage = storage;
    this.#view = view;
    this.#bucket = bucket;
    this.#range = range;
    this.#reverse = reverse;
    this.#cursor = new Cursor(bucket.tree, view);
    this.#isDone = range === undefined;
  }

  next(): boolean {
    if (this.#isDone) return false;
    const found = this.#isStarted ? this.#step() : this.#start();
    this.#isStarted = true;
    if (found && this.#isInside()) return true;
    this.close();
    return false;
  }

  #step(): boolean {
    return this.#reverse ? this.#cursor.previous() : this.#cursor.next();
  }

  #start(): boolean {
    const { from, to } = this.#range!;
    if (this.#reverse) {
      if (to === undefined) return this.#cursor.last();
      return this.#cursor.seek(to, to.length, false, true);
    }
    if (from === undefined) return this.#cursor.first();
    return this.#cursor.seek(from, from.length);
  }

  #isInside(): boolean {
    const { key, keyLength } = this.#cursor;
    return this.#reverse
      ? !this.#range!.isBefore(key, keyLength)
      : !this.#range!.isBehind(key, keyLength);
  }

  key(): Value {
    return this.#bucket.keys.toValues(this.#cursor.key, 0, this.#cursor.keyLength)[0]!;
  }

  value(): Value {
    return this.#bucket.valueOf(this.#cursor);
  }

  valueBytes(): Uint8Array {
    const { bytes, valueOffset, valueBytes, isOverflow } = this.#cursor;
    if (isOverflow) return this.#cursor.valueCopy();
    return bytes.subarray(valueOffset, valueOffset + valueBytes);
  }

  lentBytes(): Uint8Array {
    return lentValue(this.#storage, this.#cursor, this.#view);
  }

  close(): void {
    this.#cursor.close();
    this.#isDone = true;
  }
}
