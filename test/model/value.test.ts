/** The one order, equality and hash of values: exact numbers, UTF-8 text, all kinds. */
import { describe, expect, test } from 'vitest';
import { Random } from '../../src/base/random.ts';
import { Duration, LocalDate, Point, ZonedDateTime } from '../../src/model/temporal.ts';
import {
  compareValues,
  equalValues,
  float,
  hashValue,
  int,
  KIND,
  kindOf,
  type Value,
} from '../../src/model/value.ts';
import { defineProperty } from '../support/properties.ts';
import { randomValue } from './random-values.ts';

type Compare = (a: Value, b: Value) => number;

/** Throws unless the order is total over random values and agrees with equality and hash. */
function checkOrder(seed: number, compare: Compare): void {
  const random = new Random(seed);
  const values = Array.from({ length: 24 }, () => randomValue(random));
  for (const a of values) {
    if (compare(a, a) !== 0) throw new Error('a value is not equal to itself');
    for (const b of values) {
      const order = Math.sign(compare(a, b));
      if (order !== -Math.sign(compare(b, a))) throw new Error('order is not antisymmetric');
      if ((order === 0) !== equalValues(a, b)) throw new Error('equality is not order 0');
      if (order === 0 && hashValue(a) !== hashValue(b)) throw new Error('equal, hashes differ');
    }
  }
  const sorted = [...values].sort(compare);
  for (let i = 0; i < sorted.length; i++) {
    for (let j = i; j < sorted.length; j++) {
      if (compare(sorted[i]!, sorted[j]!) > 0) throw new Error('order is not transitive');
    }
  }
}

defineProperty({
  name: 'compareValues is a total order that agrees with equality and hash',
  cases: 150,
  run: (seed) => checkOrder(seed, compareValues),
  canary: (seed) =>
    checkOrder(seed, (a, b) =>
      typeof a === 'number' && typeof b === 'number' ? a - b : compareValues(a, b),
    ),
});

describe('compareValues', () => {
  test('orders integers and floats exactly', () => {
    expect(compareValues(2n ** 53n + 1n, 2 ** 53)).toBeGreaterThan(0);
    expect(equalValues(2n ** 53n, 2 ** 53)).toBe(true);
    expect(equalValues(1, float(1))).toBe(true);
    expect(equalValues(int(1), float(1))).toBe(true);
    expect(equalValues(-0, 0)).toBe(true);
    expect(hashValue(-0)).toBe(hashValue(0));
    expect(equalValues(NaN, NaN)).toBe(true);
    expect(compareValues(NaN, Infinity)).toBeGreaterThan(0);
    expect(compareValues(2n ** 63n - 1n, 2 ** 63)).toBeLessThan(0);
    expect(hashValue(2n ** 60n)).toBe(hashValue(2 ** 60));
  });

  test('orders text by its UTF-8 bytes', () => {
    const texts = ['', 'a', 'a\u0000', 'aé', 'b', 'é', '€', '\ue000', '\uffff', '😀', '😀a'];
    const byBytes = [...texts].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    expect([...texts].reverse().sort(compareValues)).toEqual(byBytes);
  });

  test('orders the kinds', () => {
    const inOrder: Value[] = [
      null,
      false,
      true,
      -1,
      NaN,
      '',
      'z',
      new Uint8Array(),
      LocalDate.of(1970, 1, 1),
      new Date(0),
      new Duration(0, 0, 1),
      new Point(4326, 1, 2),
      [],
      [null],
      {},
      { a: 1 },
    ];
    expect([...inOrder].reverse().sort(compareValues)).toEqual(inOrder);
  });

  test('treats a Date as its instant in UTC and orders instants before zones', () => {
    expect(equalValues(new Date(5), ZonedDateTime.fromDate(new Date(5)))).toBe(true);
    const london = new ZonedDateTime(0, 0, 3600, 'Europe/London');
    expect(compareValues(new ZonedDateTime(0, 0), london)).toBeLessThan(0);
    expect(compareValues(london, new ZonedDateTime(0, 1))).toBeLessThan(0);
  });

  test('ignores the order of the fields of a map', () => {
    expect(equalValues({ a: 1, b: 2 }, { b: 2, a: 1 })).toBe(true);
    expect(equalValues({ a: 1 }, new Map([['a', 1]]))).toBe(true);
    expect(hashValue({ a: 1, b: 2 })).toBe(hashValue({ b: 2, a: 1 }));
  });
});

describe('kindOf', () => {
  test('takes whole safe numbers for integers, others for floats', () => {
    expect([1, -0, 1.5, 2 ** 53, 2n ** 60n, float(1), int(1)].map(kindOf)).toEqual([
      KIND.int,
      KIND.float,
      KIND.float,
      KIND.float,
      KIND.int,
      KIND.float,
      KIND.int,
    ]);
  });

  test('refuses what is no value', () => {
    const none = [undefined, () => 0, Symbol('s'), new Set(), new (class Account {})(), /x/];
    for (const each of none) expect(() => kindOf(each)).toThrow(/value/);
    expect(() => kindOf(2n ** 63n)).toThrow(
      expect.objectContaining({ code: 'value.out_of_range' }),
    );
  });
});

describe('temporal values', () => {
  test('LocalDate knows the calendar over its whole range', () => {
    expect(String(LocalDate.of(2024, 2, 29))).toBe('2024-02-29');
    expect(String(LocalDate.of(-999_999_999, 1, 1))).toBe('-999999999-01-01');
    expect(String(LocalDate.of(999_999_999, 12, 31))).toBe('+999999999-12-31');
    for (let day = -800_000; day < 800_000; day += 997) {
      const date = new Date(day * 86_400_000);
      const text = String(new LocalDate(day));
      expect(text).toBe(
        date
          .toISOString()
          .slice(0, -14)
          .replace(/^([+-])00/, '$1')
          .replace('+', ''),
      );
    }
    expect(() => LocalDate.of(2023, 2, 29)).toThrow(/day 29 is not in 1 … 28/);
  });

  test('ZonedDateTime shows its local time and zone, and goes through Date', () => {
    const at = new ZonedDateTime(0, 82_800e9, 7200, 'Europe/Paris');
    expect(String(at)).toBe('1970-01-02T01:00:00+02:00[Europe/Paris]');
    expect(ZonedDateTime.fromDate(new Date(-1)).toDate().getTime()).toBe(-1);
    expect(() => ZonedDateTime.fromDate(new Date(NaN))).toThrow(/invalid/);
  });

  test('Duration shows borrowed seconds with their sign', () => {
    expect(String(new Duration(1, 2, -1, 500_000_000))).toBe('P1M2DT-0.5S');
    expect(String(new Duration(0, 0, -2, 500_000_000))).toBe('P0M0DT-1.5S');
  });
});
