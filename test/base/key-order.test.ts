/** Keys in order: beside a plain sort, with ties, prefixes of each other, and long runs. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { KeyOrder } from '../../src/base/key-order.ts';

const SHIFT = 10;

/** Lays keys into pieces and answers them sorted, and the ordinals. */
function sorted(keys: readonly Uint8Array[], common: number): number[] {
  const pieces: Uint8Array[] = [];
  const places = new Int32Array(keys.length);
  const lengths = new Int32Array(keys.length);
  let used = (1 << SHIFT) + 1;
  keys.forEach((key, i) => {
    if (used + key.length > 1 << SHIFT) {
      pieces.push(new Uint8Array(1 << SHIFT));
      used = 0;
    }
    pieces.at(-1)!.set(key, used);
    places[i] = ((pieces.length - 1) << SHIFT) + used;
    lengths[i] = key.length;
    used += key.length;
  });
  const ordinals = Int32Array.from(keys.keys());
  new KeyOrder(pieces, SHIFT, places, lengths).sort(ordinals, common);
  return [...ordinals];
}

function expected(keys: readonly Uint8Array[]): number[] {
  return [...keys.keys()].sort((a, b) => Buffer.compare(keys[a]!, keys[b]!) || a - b);
}

describe('KeyOrder', () => {
  test('orders keys as a plain sort does, equal ones as they came', () => {
    const byte = fc.constantFrom(0, 1, 127, 128, 255);
    const key = fc.array(byte, { maxLength: 11 }).map((list) => Uint8Array.from(list));
    fc.assert(
      fc.property(fc.array(key, { maxLength: 300, size: 'max' }), (keys) => {
        expect(sorted(keys, 0)).toEqual(expected(keys));
      }),
      { numRuns: 300 },
    );
  });

  test('orders many keys with a long common beginning and many ties', () => {
    const keys = Array.from({ length: 5000 }, (_, i) =>
      Buffer.from(`customer-${(i * 7919) % 500}${'x'.repeat(i % 7)}`),
    );
    expect(sorted(keys, 9)).toEqual(expected(keys));
    expect(sorted(keys.slice().sort(Buffer.compare), 0)).toEqual(
      expected(keys.slice().sort(Buffer.compare)),
    );
  });
});
