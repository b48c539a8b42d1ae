/** A sample of the bits that `npm run long -- flips` flips, all of them detected or harmless. */
import { describe, expect, test } from 'vitest';
import { flipAnywhere, flipHeaders, flipLog, flipPages, type FlipCounts } from './flips.ts';

const counts: FlipCounts = {};

describe('a flipped bit', { timeout: 120_000 }, () => {
  test('in a page or node of any kind is found', () => {
    flipPages(397, counts);
    expect(Object.keys(counts).filter((kind) => kind.startsWith('page')).length).toBeGreaterThan(2);
    expect(Object.keys(counts)).toContain('map node of level 1');
    expect(Object.keys(counts)).toContain('bitmap node of level 0');
  });

  test('anywhere in the file is found, unless nothing lies there', () => {
    flipAnywhere(2000, 300, counts);
  });

  test('in a header copy is reported, and the other copy is taken', () => {
    flipHeaders(13, counts);
    expect(counts['header copy 1']!.detected).toBeGreaterThan(300);
  });

  test('in the log is found where it was synced, and never yields half a commit', () => {
    flipLog(101, counts);
    for (const kind of [1, 2, 3, 4]) {
      expect(counts[`frame of kind ${kind}`]!.detected).toBeGreaterThan(0);
    }
  });
});
