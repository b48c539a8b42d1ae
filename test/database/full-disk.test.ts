/**
 * A disk that is full and stays so: nothing is lost, reading goes on whatever is in the cache,
 * deletes are taken, what they free can be written again, closing works, and so does recovery
 * (STORAGE rule 14).
 */
import { describe, expect } from 'vitest';
import { isVerifying, setVerifying } from '../../src/base/assert.ts';
import { Random } from '../../src/base/random.ts';
import type { Database } from '../../src/database.ts';
import { isFull } from '../../src/errors.ts';
import type { KeyValue } from '../../src/kv/key-value.ts';
import { SlotReserve } from '../../src/storage/slot-reserve.ts';
import { FaultFileSystem } from '../faults/fault-file.ts';
import { defineProperty } from '../support/properties.ts';
import { abandon, kill, openDatabase } from './open-database.ts';

type Bucket = KeyValue<number, Uint8Array>;

const KINDS = { keys: 'int', values: 'bytes' } as const;

class Life {
  readonly #random: Random;
  readonly #options: object;
  readonly #kept = new Map<number, number>();
  #disk: FaultFileSystem;
  #db: Database;
  #bucket: Bucket;
  #next = 0;

  constructor(random: Random) {
    this.#random = random;
    const [pageSize, megabytes] = random.pick([
      ['4 KiB', 2],
      ['4 KiB', 4],
      ['16 KiB', 4],
      ['64 KiB', 6],
    ] as const);
    const durability = random.pick(['full', 'buffered', 'none'] as const);
    this.#options = { pageSize, memory: `${megabytes} MiB`, durability, delayMs: 1e9 };
    const capacityBytes = Math.floor(megabytes * random.pick([0.5, 0.7, 1]) * 2 ** 20);
    this.#disk = new FaultFileSystem({ seed: random.seed(), capacityBytes });
    this.#db = openDatabase(this.#options, this.#disk);
    this.#bucket = this.#db.kv('b', KINDS);
    this.#bucket.put(-1, new Uint8Array(1));
    this.#kept.set(-1, 1);
  }

  live(): void {
    for (let round = 0; round < 3; round++) {
      this.#fill();
      this.#readAll();
      const choice = this.#random.below(4);
      if (choice === 0) this.#reopen(true);
      else if (choice === 1) this.#reopen(false);
      this.#deleteSome();
      this.#readAll();
      expect(this.#fill(), 'room comes back with deletes').toBeGreaterThan(0);
    }
    expect(this.#db.check().faults).toEqual([]);
    this.#db.close();
  }

  /** Leaves nothing open, also after a failure. */
  end(): void {
    if (this.#db.isOpen) abandon(this.#db);
  }

  /** Writes until the disk is full; answers how many records it took. */
  #fill(): number {
    for (let taken = 0; ; taken++) {
      const key = this.#random.chance(0.5) ? this.#next : this.#random.below(this.#next + 1);
      const size = this.#random.chance(0.02) ? 20_000 : 1 + this.#random.below(1500);
      try {
        this.#bucket.put(key, new Uint8Array(size).fill(key));
      } catch (cause) {
        if (!isFull(cause)) throw cause;
        return taken;
      }
      this.#kept.set(key, size);
      if (key === this.#next) this.#next++;
    }
  }

  #readAll(): void {
    for (const [key, size] of this.#kept) {
      const found = this.#bucket.get(key);
      if (found?.length === size && found[0] === (key & 255)) continue;
      if (key >= 0) expect.fail(`key ${key}: ${found?.length} bytes, not ${size}`);
    }
    expect(this.#bucket.count()).toBe(this.#kept.size);
  }

  #deleteSome(): void {
    const keys = [...this.#kept.keys()].filter((key) => key >= 0);
    if (this.#random.chance(0.5)) {
      this.#deleteRange(0, keys.sort((a, b) => a - b)[keys.length >> 1]!);
      return;
    }
    for (const key of keys) {
      if (this.#random.chance(0.5)) continue;
      expect(this.#bucket.delete(key)).toBe(true);
      this.#kept.delete(key);
    }
  }

  /** A range may be too large for what is kept; half of it is deleted first then. */
  #deleteRange(from: number, to: number): void {
    const keys = [...this.#kept.keys()].filter((key) => key >= from && key < to);
    try {
      expect(this.#bucket.deleteRange({ gte: from, lt: to })).toBe(keys.length);
      for (const key of keys) this.#kept.delete(key);
    } catch (cause) {
      if (!isFull(cause) || keys.length < 10) throw cause;
      const middle = keys.sort((a, b) => a - b)[keys.length >> 1]!;
      this.#deleteRange(from, middle);
      this.#deleteRange(middle, to);
    }
  }

  #reopen(byKill: boolean): void {
    this.#db.sync();
    if (byKill) this.#disk = kill(this.#db, this.#disk);
    else this.#db.close();
    this.#db = openDatabase(this.#options, this.#disk);
    this.#bucket = this.#db.kv('b', KINDS);
  }
}

function run(seed: number): void {
  const before = isVerifying();
  setVerifying(seed % 4 === 0);
  const life = new Life(new Random(seed));
  try {
    life.live();
  } finally {
    life.end();
    setVerifying(before);
  }
}

describe('a disk that stays full', { timeout: 60_000 }, () => {
  defineProperty({
    name: 'Database on a full disk reads, deletes, takes what that frees, and closes',
    cases: 2,
    run,
    canary: (seed) => {
      const { secure } = SlotReserve.prototype;
      SlotReserve.prototype.secure = () => undefined;
      try {
        run(seed);
      } finally {
        SlotReserve.prototype.secure = secure;
      }
    },
  });
});
