/** The nearest name, as errors suggest it. */
import { describe, expect, test } from 'vitest';
import { editDistance, nameHint, nearestName } from '../../src/base/nearest.ts';

describe('nearestName', () => {
  test('finds what was mistyped and nothing far off', () => {
    const names = ['customers', 'purchases', 'regions'];
    expect(nearestName('custmoers', names)).toBe('customers');
    expect(nearestName('Regions', names)).toBe('regions');
    expect(nearestName('zebra', names)).toBeUndefined();
    expect(nearestName('x'.repeat(100), names)).toBeUndefined();
  });

  test('nameHint lists what there is when nothing is near', () => {
    expect(nameHint('zebra', ['a', 'b'])).toBe('There is "a", "b".');
    expect(nameHint('zebra', [])).toBeUndefined();
  });
});

describe('editDistance', () => {
  test('counts changes and swaps', () => {
    const counted = ['ab ba', 'kitten sitting', 'a  a', 'abc '].map((pair) => pair.split(' '));
    expect(counted.map(([a, b]) => editDistance(a!, b!))).toEqual([1, 3, 1, 3]);
  });
});
