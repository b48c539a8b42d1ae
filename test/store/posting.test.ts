/** Postings: sets of ids under random changes, at the edges of their range, and damaged. */
import { describe, expect, test } from 'vitest';
import { ByteWriter } from '../../src/base/bytes.ts';
import { Random } from '../../src/base/random.ts';
import { toInteger, type Integer } from '../../src/model/temporal.ts';
import {
  isContinued,
  markContinued,
  PostingWalk,
  splitBlock,
  writeSingle,
  writeWith,
  writeWithout,
} from '../../src/store/posting.ts';
import { randomInteger } from '../model/random-values.ts';
import { defineProperty } from '../support/properties.ts';

function idsOf(block: ByteWriter): Integer[] {
  const walk = new PostingWalk();
  const ids: Integer[] = [];
  walk.open(block.bytes, 0, block.length);
  while (walk.next()) ids.push(walk.id);
  return ids;
}

const byValue = (a: Integer, b: Integer): number => (a < b ? -1 : a > b ? 1 : 0);

/** Throws unless a block does as a sorted set does. */
function checkBlock(seed: number, dropLast: boolean): void {
  const random = new Random(seed);
  const wide = random.chance(0.3);
  const next = (): Integer => (wide ? randomInteger(random) : random.between(-9, 400));
  const isMarked = random.chance(0.5);
  const first = next();
  let set = [first];
  let [block, other] = [new ByteWriter(8), new ByteWriter(8)];
  writeSingle(block, first);
  if (isMarked) markContinued(block);
  for (let i = 0; i < 80; i++) {
    const id = next();
    const known = set.includes(id);
    const adds = set.length < 2 || random.chance(0.7);
    const done = (adds ? writeWith : writeWithout)(block.bytes, 0, block.length, id, other);
    expect(done).toBe(adds !== known);
    if (!done) continue;
    [block, other] = [other, block];
    set = adds ? [...set, id].sort(byValue) : set.filter((each) => each !== id);
    if (dropLast && set.length > 3) set.pop();
    expect(idsOf(block)).toEqual(set);
    expect(isContinued(block.bytes, 0, block.length)).toBe(isMarked);
  }
  if (block.length < 40) return;
  expect(splitBlock(block, other)).toBe(idsOf(other)[0]);
  expect([...idsOf(block), ...idsOf(other)]).toEqual(set);
}

defineProperty({
  name: 'posting blocks do as sorted sets',
  cases: 200,
  run: (seed) => checkBlock(seed, false),
  canary: (seed) => checkBlock(seed, true),
});

describe('PostingWalk', () => {
  test('meets damaged bytes with corrupt.record only', () => {
    const random = new Random(4);
    const walk = new PostingWalk();
    for (let i = 0; i < 5000; i++) {
      const bytes = new Uint8Array(random.below(24));
      random.fill(bytes);
      if (random.chance(0.5)) bytes.fill(0xff, 0, random.below(20));
      try {
        walk.open(bytes, 0, bytes.length);
        while (walk.next()) expect(toInteger(walk.id)).toBe(walk.id);
      } catch (error) {
        expect(error).toEqual(expect.objectContaining({ code: 'corrupt.record' }));
      }
    }
  });
});
