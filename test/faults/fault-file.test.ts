/** The fault disk itself: what it must keep, what it may lose, and that it repeats. */
import { describe, expect, test } from 'vitest';
import { Random } from '../../src/base/random.ts';
import { DatabaseError } from '../../src/errors.ts';
import { defineProperty } from '../support/properties.ts';
import { damage } from './damage.ts';
import { CrashSignal, FaultFileSystem, type Fault } from './fault-file.ts';

const PATH = '/db/one';

function bytesOf(length: number, value: number): Uint8Array {
  return new Uint8Array(length).fill(value);
}

/** A disk with a file of `value`, name and contents durable. */
function diskWith(length: number, value: number, seed = 1): FaultFileSystem {
  const disk = new FaultFileSystem({ seed });
  disk.setImage(PATH, bytesOf(length, value));
  return disk;
}

function codeOf(call: () => unknown): string {
  try {
    call();
  } catch (error) {
    if (error instanceof DatabaseError) return error.code;
    throw error;
  }
  return 'none';
}

/** Whether some seed of a few hundred makes a crash that satisfies the condition. */
function mayHappen(disk: FaultFileSystem, condition: (after: FaultFileSystem) => boolean): boolean {
  for (let seed = 0; seed < 600; seed++) if (condition(disk.crash(seed))) return true;
  return false;
}

/** For each sector of the file after a crash, the one value it holds, or -1 if mixed. */
function sectorsOf(disk: FaultFileSystem): number[] {
  const image = disk.image(PATH);
  const values: number[] = [];
  for (let at = 0; at < image.length; at += 512) {
    const sector = image.subarray(at, at + 512);
    values.push(sector.every((each) => each === sector[0]) ? sector[0]! : -1);
  }
  return values;
}

describe('FaultFileSystem contents', () => {
  test('read sees what was written, and is short at the end of the file only', () => {
    const file = diskWith(10, 7).open(PATH, 'write');
    file.write(bytesOf(4, 9), 0, 4, 8);
    const target = new Uint8Array(20);
    expect(file.read(target, 2, 18, 6)).toBe(6);
    expect([...target.subarray(0, 9)]).toEqual([0, 0, 7, 7, 9, 9, 9, 9, 0]);
    expect(file.size()).toBe(12);
    expect(file.read(target, 0, 5, 100)).toBe(0);
  });

  test('truncate leaves zeroes where the file grows again', () => {
    const file = diskWith(1000, 7).open(PATH, 'write');
    file.truncate(10);
    file.write(bytesOf(1, 9), 0, 1, 999);
    const target = new Uint8Array(1000);
    file.read(target, 0, 1000, 0);
    expect([target[9], target[10], target[998], target[999]]).toEqual([7, 0, 0, 9]);
  });

  test('crash keeps what was synced', () => {
    const disk = diskWith(2048, 1);
    const file = disk.open(PATH, 'write');
    file.write(bytesOf(1024, 2), 0, 1024, 512);
    file.sync();
    file.write(bytesOf(512, 3), 0, 512, 1536);
    expect(mayHappen(disk, (after) => sectorsOf(after).slice(0, 3).join() !== '1,2,2')).toBe(false);
  });

  test('crash may keep, lose or tear an unsynced write, and leave garbage', () => {
    const disk = diskWith(2048, 1);
    disk.open(PATH, 'write').write(bytesOf(2048, 2), 0, 2048, 0);
    for (const outcome of ['2,2,2,2', '1,1,1,1', '2,2,1,1', '1,2,2,2', '1,2,1,2'])
      expect(
        mayHappen(disk, (after) => sectorsOf(after).join() === outcome),
        outcome,
      ).toBe(true);
    expect(
      mayHappen(disk, (after) => sectorsOf(after).includes(-1)),
      'garbage',
    ).toBe(true);
  });

  test('crash may keep a later write and lose an earlier one to another sector', () => {
    const disk = diskWith(1024, 1);
    const file = disk.open(PATH, 'write');
    file.write(bytesOf(512, 2), 0, 512, 0);
    file.write(bytesOf(512, 3), 0, 512, 512);
    expect(mayHappen(disk, (after) => sectorsOf(after).join() === '1,3')).toBe(true);
  });

  test('crash keeps earlier writes of a sector that holds a later one', () => {
    const disk = diskWith(512, 1);
    const file = disk.open(PATH, 'write');
    file.write(bytesOf(10, 2), 0, 10, 0);
    file.write(bytesOf(10, 3), 0, 10, 10);
    const isOdd = (after: FaultFileSystem): boolean =>
      after.image(PATH)[10] === 3 && after.image(PATH)[0] !== 2;
    expect(mayHappen(disk, isOdd)).toBe(false);
  });

  test('crash never harms bytes that a write did not cover', () => {
    const disk = diskWith(512, 1);
    disk.open(PATH, 'write').write(bytesOf(100, 2), 0, 100, 100);
    const harmed = (after: FaultFileSystem): boolean =>
      after.image(PATH).some((each, at) => (at < 100 || at >= 200) && each !== 1);
    expect(mayHappen(disk, harmed)).toBe(false);
  });

  test('crash may lose growth, keep it without data, or keep it', () => {
    const disk = diskWith(512, 1);
    disk.open(PATH, 'write').write(bytesOf(512, 2), 0, 512, 512);
    for (const outcome of ['1', '1,0', '1,2'])
      expect(
        mayHappen(disk, (after) => sectorsOf(after).join() === outcome),
        outcome,
      ).toBe(true);
  });

  test('crash never mixes a lost truncation with what was written behind it', () => {
    const disk = diskWith(2048, 1);
    const file = disk.open(PATH, 'write');
    file.truncate(512);
    file.write(bytesOf(512, 2), 0, 512, 512);
    const seen = new Set<string>();
    for (let seed = 0; seed < 600; seed++) seen.add(sectorsOf(disk.crash(seed)).join());
    const whole = [...seen].filter((each) => !each.includes('-1')).sort();
    expect(whole).toEqual(['1', '1,0', '1,1,1,1', '1,2']);
  });
});

describe('FaultFileSystem names', () => {
  test('crash may take a synced new file back until its folder is synced', () => {
    const disk = new FaultFileSystem({ seed: 1 });
    const file = disk.open(PATH, 'create');
    file.write(bytesOf(10, 1), 0, 10, 0);
    file.sync();
    expect(mayHappen(disk, (after) => !after.exists(PATH))).toBe(true);
    expect(mayHappen(disk, (after) => after.exists(PATH))).toBe(true);
    disk.syncFolder(PATH);
    expect(mayHappen(disk, (after) => !after.exists(PATH))).toBe(false);
    expect(mayHappen(disk, (after) => after.image(PATH).join() !== bytesOf(10, 1).join())).toBe(
      false,
    );
  });

  test('rename is all or nothing', () => {
    const disk = diskWith(1, 1);
    disk.setImage('/db/two', bytesOf(1, 2));
    disk.rename('/db/two', PATH);
    const states = new Set<string>();
    for (let seed = 0; seed < 300; seed++) {
      const after = disk.crash(seed);
      states.add(`${after.image(PATH).join()} ${after.exists('/db/two')}`);
    }
    expect([...states].sort()).toEqual(['1 true', '2 false']);
  });

  test('link gives a second name to the same contents, or answers false', () => {
    const disk = diskWith(1, 1);
    expect(disk.link(PATH, '/db/two')).toBe(true);
    disk.open(PATH, 'write').write(bytesOf(1, 5), 0, 1, 0);
    expect(disk.image('/db/two')[0]).toBe(5);
    expect(new FaultFileSystem({ seed: 1, links: false }).options.links).toBe(false);
    const without = new FaultFileSystem({ seed: 1, links: false });
    without.setImage(PATH, bytesOf(1, 1));
    expect(without.link(PATH, '/db/two')).toBe(false);
  });

  test('remove lets an open file go on', () => {
    const disk = diskWith(1, 1);
    const file = disk.open(PATH, 'write');
    disk.remove(PATH);
    expect(disk.exists(PATH)).toBe(false);
    expect(file.read(new Uint8Array(1), 0, 1, 0)).toBe(1);
  });

  test('lock is refused twice and freed by a crash', () => {
    const disk = diskWith(1, 1);
    const lock = disk.lock(PATH);
    expect(codeOf(() => disk.lock(PATH))).toBe('storage.locked');
    expect(disk.lockHolder(PATH)).toBe(process.pid);
    expect(disk.crash().lockHolder(PATH)).toBeUndefined();
    lock.release();
    disk.lock(PATH);
  });
});

describe('FaultFileSystem failures', () => {
  function struck(fault: Fault): { disk: FaultFileSystem; write: () => void; sync: () => void } {
    const disk = diskWith(2048, 1);
    const file = disk.open(PATH, 'write');
    disk.inject(fault);
    return {
      disk,
      write: () => file.write(bytesOf(2048, 2), 0, 2048, 0),
      sync: () => file.sync(),
    };
  }

  test('inject strikes the at-th operation, times times', () => {
    const { write } = struck({ operation: 'write', kind: 'io', at: 2, times: 2 });
    const codes = [1, 2, 3, 4].map(() => codeOf(write));
    expect(codes).toEqual(['none', 'storage.io', 'storage.io', 'none']);
  });

  test('a write that fails has written part of its bytes', () => {
    const { disk, write } = struck({ operation: 'write', kind: 'io' });
    expect(codeOf(write)).toBe('storage.io');
    const twos = disk.image(PATH).filter((each) => each === 2).length;
    expect(twos).toBeGreaterThan(0);
    expect(twos).toBeLessThan(2048);
  });

  test('what a failed sync lost stays lost after a sync that works, and is seen until then', () => {
    let lost = 0;
    for (let seed = 0; seed < 20; seed++) {
      const disk = diskWith(512, 1, seed);
      const file = disk.open(PATH, 'write');
      file.write(bytesOf(512, 2), 0, 512, 0);
      disk.inject({ operation: 'sync', kind: 'io' });
      expect(codeOf(() => file.sync())).toBe('storage.io');
      file.sync();
      expect(disk.image(PATH)[0]).toBe(2);
      if (disk.crash().image(PATH)[0] !== 2) lost++;
    }
    expect(lost).toBeGreaterThan(0);
    expect(lost).toBeLessThan(20);
  });

  test('short reads answer fewer bytes, other reads fail', () => {
    const disk = diskWith(100, 1);
    const file = disk.open(PATH, 'read');
    disk.inject({ operation: 'read', kind: 'short' });
    disk.inject({ operation: 'read', kind: 'io', at: 2 });
    expect(file.read(new Uint8Array(100), 0, 100, 0)).toBeLessThan(100);
    expect(codeOf(() => file.read(new Uint8Array(100), 0, 100, 0))).toBe('storage.io');
    expect(file.read(new Uint8Array(100), 0, 100, 0)).toBe(100);
  });

  test('a full disk refuses growth and holes, not overwriting, and room comes back', () => {
    const disk = new FaultFileSystem({ seed: 1, capacityBytes: 8192 });
    const file = disk.open(PATH, 'create');
    file.write(bytesOf(8192, 1), 0, 8192, 0);
    expect(codeOf(() => file.write(bytesOf(1, 2), 0, 1, 8192))).toBe('storage.full');
    file.write(bytesOf(100, 3), 0, 100, 4000);
    file.truncate(4096);
    file.truncate(100_000);
    file.write(bytesOf(1, 2), 0, 1, 90_000);
    expect(codeOf(() => file.write(bytesOf(1, 2), 0, 1, 50_000))).toBe('storage.full');
  });
});

describe('FaultFileSystem crash points', () => {
  test('crashAfter throws CrashSignal at the n-th operation and at every call after it', () => {
    const disk = diskWith(10, 1);
    const file = disk.open(PATH, 'write');
    disk.crashAfter(2);
    file.write(bytesOf(1, 2), 0, 1, 0);
    expect(() => file.sync()).toThrow(CrashSignal);
    expect(disk.crashed).toBe(true);
    expect(() => file.read(new Uint8Array(1), 0, 1, 0)).toThrow(CrashSignal);
    expect(() => disk.exists(PATH)).toThrow(CrashSignal);
    expect(mayHappen(disk, (after) => after.image(PATH)[0] === 1)).toBe(true);
    expect(mayHappen(disk, (after) => after.image(PATH)[0] === 2)).toBe(true);
  });

  test('kill keeps what was written, and a later power loss may still lose it', () => {
    const disk = diskWith(10, 1);
    disk.open(PATH, 'write').write(bytesOf(1, 2), 0, 1, 0);
    const killed = disk.kill();
    expect(killed.image(PATH)[0]).toBe(2);
    expect(mayHappen(killed, (after) => after.image(PATH)[0] === 1)).toBe(true);
  });

  test('counts tell reads, writes, syncs and bytes of each file', () => {
    const disk = diskWith(10, 1);
    const file = disk.open(PATH, 'write');
    file.write(bytesOf(3, 2), 0, 3, 0);
    file.write(bytesOf(3, 2), 0, 2, 0);
    file.sync();
    file.read(new Uint8Array(4), 0, 4, 8);
    expect(disk.counts(PATH)).toEqual({
      reads: 1,
      writes: 2,
      syncs: 1,
      truncates: 0,
      bytesRead: 2,
      bytesWritten: 5,
    });
  });
});

describe('damage', () => {
  test('damage flips, zeroes, swaps, copies and cuts', () => {
    const disk = new FaultFileSystem({ seed: 1 });
    disk.setImage(PATH, Uint8Array.of(1, 2, 3, 4));
    const image = (): string => disk.image(PATH).join();
    damage(disk, PATH, { kind: 'flip', bit: 9 });
    expect(image()).toBe('1,0,3,4');
    damage(disk, PATH, { kind: 'swap', from: 0, to: 2, length: 2 });
    expect(image()).toBe('3,4,1,0');
    damage(disk, PATH, { kind: 'copy', from: 0, to: 2, length: 1 });
    expect(image()).toBe('3,4,3,0');
    damage(disk, PATH, { kind: 'zero', position: 1, length: 2 });
    expect(image()).toBe('3,0,0,0');
    damage(disk, PATH, { kind: 'cut', length: 1 });
    expect(image()).toBe('3');
  });
});

/** Random calls on a file; answers how often a crash at the end gave what. */
function exercise(
  random: Random,
  disk: FaultFileSystem,
  synced: (image: Uint8Array) => void,
): void {
  const file = disk.open(PATH, 'create');
  disk.syncFolder(PATH);
  for (let i = 0; i < 30; i++) {
    const length = random.between(1, 1500);
    if (random.chance(0.1)) file.truncate(random.below(6000));
    else file.write(bytesOf(length, i + 1), 0, length, random.below(5000));
    if (random.chance(0.1)) {
      file.sync();
      synced(disk.image(PATH));
    }
  }
}

defineProperty({
  name: 'FaultFileSystem repeats: same seed and calls, same disk after the crash',
  cases: 40,
  run: (seed) => expectSame(seed, seed),
  canary: (seed) => expectSame(seed, seed + 1),
});

function expectSame(first: number, second: number): void {
  const images = [first, second].map((seed) => {
    const disk = new FaultFileSystem({ seed });
    exercise(new Random(first), disk, () => undefined);
    return disk.crash().image(PATH).join();
  });
  expect(images[0]).toBe(images[1]);
}

/** After a crash every byte is one that it had at the last sync or was given since. */
function checkOrigins(seed: number, syncsCount: boolean): void {
  const random = new Random(seed);
  const disk = new FaultFileSystem({ seed });
  let durable: Uint8Array = new Uint8Array(0);
  exercise(random, disk, (image) => {
    if (syncsCount) durable = image.slice();
  });
  disk.open(PATH, 'write').sync();
  if (syncsCount) durable = disk.image(PATH);
  expect(disk.crash(seed).image(PATH).join()).toBe(durable.join());
}

defineProperty({
  name: 'FaultFileSystem keeps every byte that was synced',
  cases: 40,
  run: (seed) => checkOrigins(seed, true),
  canary: (seed) => checkOrigins(seed, false),
});
