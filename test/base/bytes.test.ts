/** Bytes: varints, UTF-8 against the platform, comparison, the growable writer. */
import { describe, expect, test } from 'vitest';
import {
  ByteWriter,
  compareBytes,
  compareText,
  hexOf,
  MALFORMED,
  readAscii,
  readFloat64,
  readUtf8,
  readVarint,
  skipVarint,
  utf8Bytes,
  utf8Length,
  varintBytes,
  writeUtf8,
} from '../../src/base/bytes.ts';
import { Random } from '../../src/base/random.ts';

const UNITS = ['a', '\u0000', 'é', '€', '\uffff', '😀', '\ud800', '\udc00'];

function randomText(random: Random, units: readonly string[]): string {
  return Array.from({ length: random.below(80) }, () => random.pick(units)).join('');
}

describe('varint', () => {
  test('comes back at every width', () => {
    for (let bits = 0; bits <= 53; bits++) {
      for (const value of [2 ** bits - 1, Math.min(2 ** bits, 2 ** 53 - 1)]) {
        const writer = new ByteWriter(1);
        writer.varint(value);
        expect(readVarint(writer.bytes, 0, writer.length)).toBe(value);
        expect(skipVarint(writer.bytes, 0)).toBe(writer.length);
        expect(varintBytes(value)).toBe(writer.length);
        expect(readVarint(writer.bytes, 0, writer.length - 1)).toBe(MALFORMED);
      }
    }
  });

  test('is malformed when it is too long', () => {
    expect(readVarint(new Uint8Array(20).fill(0xff), 0, 20)).toBe(MALFORMED);
    expect(readVarint(new Uint8Array([255, 255, 255, 255, 255, 255, 255, 127]), 0, 8)).toBe(
      MALFORMED,
    );
  });
});

describe('UTF-8', () => {
  test('is what the platform writes, and refuses lone surrogates', () => {
    const random = new Random(1);
    for (let i = 0; i < 2000; i++) {
      const text = randomText(random, UNITS.slice(0, random.chance(0.5) ? 6 : 8));
      const expected = Buffer.from(text);
      expect(utf8Length(text)).toBe(expected.length);
      const bytes = new Uint8Array(3 * text.length + 1);
      const end = writeUtf8(bytes, 1, text);
      if (expected.toString() !== text) {
        expect(end).toBe(MALFORMED);
        expect(utf8Bytes(text)).toBeUndefined();
      } else {
        expect(bytes.slice(1, end)).toEqual(new Uint8Array(expected));
        expect(readUtf8(bytes, 1, end)).toBe(text);
        expect(utf8Bytes(text)).toEqual(bytes.slice(1, end));
      }
    }
    expect(readUtf8(new Uint8Array([0x61, 0xc0, 0x80]), 0, 3)).toBeUndefined();
  });

  test('readAscii reads every length', () => {
    const bytes = new Uint8Array(Buffer.from('x0123456789abcdefghij'));
    for (let n = 0; n <= 20; n++)
      expect(readAscii(bytes, 1, n)).toBe('0123456789abcdefghij'.slice(0, n));
  });

  test('compareText orders as the bytes do', () => {
    const random = new Random(2);
    for (let i = 0; i < 3000; i++) {
      const [a, b] = [randomText(random, UNITS.slice(0, 6)), randomText(random, UNITS.slice(0, 6))];
      const order = Math.sign(compareText(a.slice(0, 3), b.slice(0, 3)));
      const wellFormed = [a, b].every(
        (t) => Buffer.from(t.slice(0, 3)).toString() === t.slice(0, 3),
      );
      if (wellFormed)
        expect(order).toBe(Buffer.compare(Buffer.from(a.slice(0, 3)), Buffer.from(b.slice(0, 3))));
    }
  });
});

describe('ByteWriter', () => {
  test('grows, copies, and gives large buffers back', () => {
    const writer = new ByteWriter(2);
    const long = new Uint8Array(100_000).map((_, i) => i);
    writer.byte(1);
    writer.float64(-0.5);
    writer.append(long, 0, long.length);
    expect(readFloat64(writer.bytes, 1)).toBe(-0.5);
    expect(writer.copy().subarray(9)).toEqual(long);
    writer.clear();
    expect([writer.length, writer.bytes.length]).toEqual([0, 2]);
  });
});

describe('compareBytes', () => {
  test('puts a prefix first and compares unsigned', () => {
    const bytes = new Uint8Array([1, 2, 255, 1, 2, 3]);
    expect(compareBytes(bytes, 0, 2, bytes, 3, 6)).toBeLessThan(0);
    expect(compareBytes(bytes, 0, 3, bytes, 3, 6)).toBeGreaterThan(0);
    expect(compareBytes(bytes, 0, 2, bytes, 3, 5)).toBe(0);
    expect(hexOf(bytes, 0, 6, 3)).toBe('0102ff…');
  });
});
