/** Which slots are free: runs, names held twice, growth, recovery's claims, and a model. */
import { describe, expect, test } from 'vitest';
import { Random } from '../../src/base/random.ts';
import { type Slots } from '../../src/storage/slots.ts';
import { MemoryFileSystem } from '../../src/storage/memory-file.ts';
import { defineProperty } from '../support/properties.ts';
import { codeOf, open } from '../support/small-storage.ts';

/** The slots of a new file of two slots, both the header's. */
function newSlots(): Slots {
  return open(new MemoryFileSystem(), { memoryBytes: 4 << 20 }).slots;
}

/** Takes slots one by one or in runs until there are `count`. */
function grow(slots: Slots, count: number): void {
  while (slots.count < count) slots.takeRun(Math.min(64, count - slots.count));
}

describe('Slots', () => {
  test('the header copies are never free', () => {
    const slots = newSlots();
    expect(slots.count).toBe(2);
    expect([slots.isBusy(0), slots.isBusy(1)]).toEqual([true, true]);
    expect(slots.take()).toBe(2);
  });

  test('takeRun answers neighbours, at most as many as asked for', () => {
    const slots = newSlots();
    const first = slots.takeRun(10);
    expect([first, slots.taken]).toEqual([2, 10]);
    for (let slot = 2; slot < 12; slot++) expect(slots.isBusy(slot)).toBe(true);
    expect(slots.isBusy(12)).toBe(false);
  });

  test('a slot with two names is free with the last', () => {
    const slots = newSlots();
    const slot = slots.take();
    slots.hold(slot);
    slots.drop(slot);
    expect(slots.isBusy(slot)).toBe(true);
    slots.drop(slot);
    expect(slots.isBusy(slot)).toBe(false);
    expect(
      codeOf(() => slots.drop(slot)),
      'and has no third',
    ).toBe('corrupt.page');
  });

  test('runs of 16 are preferred to 4 and to single slots, wherever they lie', () => {
    const slots = newSlots();
    grow(slots, 400);
    for (let slot = 10; slot < 200; slot += 2) slots.drop(slot);
    for (let slot = 220; slot < 224; slot++) slots.drop(slot);
    for (let slot = 300; slot < 316; slot++) slots.drop(slot);
    expect([slots.takeRun(16), slots.taken]).toEqual([300, 16]);
    expect([slots.takeRun(4), slots.taken]).toEqual([220, 4]);
    expect(slots.takeRun(1)).toBeLessThan(200);
  });

  test('the file grows only when less than a quarter of it is free', () => {
    const slots = newSlots();
    grow(slots, 1000);
    for (let slot = 100; slot < 800; slot += 2) slots.drop(slot); // single slots, a third
    let taken = 0;
    while (slots.count === 1000) {
      slots.takeRun(16);
      taken += slots.taken;
    }
    expect(taken).toBeGreaterThan(50);
    expect((slots.freeCount - 16) / slots.count).toBeLessThan(0.26);
  });

  test('claim names a slot that the file may not even have, once', () => {
    const slots = newSlots();
    expect(slots.claim(40_000)).toBe(true);
    expect(slots.claim(40_000)).toBe(false);
    expect(slots.count).toBe(40_001);
    expect(slots.freeCount).toBe(40_001 - 3);
  });

  test('usedEnd is behind the last slot that has a name', () => {
    const slots = newSlots();
    grow(slots, 100);
    for (let slot = 60; slot < 100; slot++) slots.drop(slot);
    expect(slots.usedEnd()).toBe(60);
  });
});

/** Random calls against a set; `lie` plants a fault. */
function compareWithSet(seed: number, lie: boolean): void {
  const random = new Random(seed);
  const slots = newSlots();
  const busy = new Map<number, number>([
    [0, 1],
    [1, 1],
  ]);
  for (let i = 0; i < 400; i++) {
    const roll = random.fraction();
    const names = [...busy.keys()].filter((slot) => slot > 1);
    if (roll < 0.5 || names.length === 0) {
      const first = slots.takeRun(random.between(1, 40));
      for (let slot = first; slot < first + slots.taken; slot++) {
        if (busy.has(slot)) throw new Error(`slot ${slot} was taken twice`);
        busy.set(slot, 1);
      }
    } else if (roll < 0.6) {
      const slot = random.pick(names);
      slots.hold(slot);
      busy.set(slot, busy.get(slot)! + 1);
    } else {
      for (let n = random.between(1, 30); n > 0 && names.length > 0; n--) {
        const slot = names.splice(random.below(names.length), 1)[0]!;
        slots.drop(slot);
        if (lie && n === 30) continue;
        if (busy.get(slot) === 1) busy.delete(slot);
        else busy.set(slot, busy.get(slot)! - 1);
      }
    }
  }
  for (let slot = 0; slot < slots.count; slot++) {
    if (slots.isBusy(slot) !== busy.has(slot)) throw new Error(`slot ${slot} differs`);
  }
  if (slots.freeCount !== slots.count - busy.size)
    throw new Error('the count of free slots differs');
}

defineProperty({
  name: 'Slots keeps what is named apart from what is free',
  cases: 20,
  run: (seed) => compareWithSet(seed, false),
  canary: (seed) => compareWithSet(seed, true),
});
