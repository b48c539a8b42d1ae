/** Key ranges of requests as intervals of encoded keys. */
import { ByteWriter, compareBytes } from '../base/bytes.ts';
import type { KeyRange } from '../model/source.ts';
import type { Value } from '../model/value.ts';
import type { Bound } from './record-key.ts';

/** Encodes a bound, as `RecordKeys.bound`. */
export type EncodeBound = (values: readonly Value[], behind: boolean, into: ByteWriter) => Bound;

/** The keys `from` ≤ key < `to`; an end that is `undefined` is open. */
export class EncodedRange {
  readonly from: Uint8Array | undefined;
  readonly to: Uint8Array | undefined;

  constructor(from: Uint8Array | undefined, to: Uint8Array | undefined) {
    this.from = from;
    this.to = to;
  }

  /** Whether a key is at or above the end. */
  isBehind(key: Uint8Array, length: number): boolean {
    const { to } = this;
    return to !== undefined && compareBytes(key, 0, length, to, 0, to.length) >= 0;
  }

  /** Whether a key is below the start. */
  isBefore(key: Uint8Array, length: number): boolean {
    const { from } = this;
    return from !== undefined && compareBytes(key, 0, length, from, 0, from.length) < 0;
  }
}

/** The encoded form of a range, `undefined` if no key can be in it. */
export function encodedRange(range: KeyRange, encode: EncodeBound): EncodedRange | undefined {
  const writer = new ByteWriter(64);
  let from: Uint8Array | undefined;
  let to: Uint8Array | undefined;
  if (range.from !== undefined) {
    const bound = encode(range.from, range.fromExclusive === true, writer);
    if (bound === 'behind') return undefined;
    if (bound === 'key') from = writer.copy();
  }
  if (range.to !== undefined) {
    const bound = encode(range.to, range.toInclusive === true, writer);
    if (bound === 'before') return undefined;
    if (bound === 'key') to = writer.copy();
  }
  const isEmpty =
    from !== undefined &&
    to !== undefined &&
    compareBytes(from, 0, from.length, to, 0, to.length) >= 0;
  return isEmpty ? undefined : new EncodedRange(from, to);
}
