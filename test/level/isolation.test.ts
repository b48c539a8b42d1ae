/**
 * Isolation of `MonochordLevel`, against `memory-level`, whose trees are immutable: both get the
 * same random writes, iterators, snapshots, seeks, clears, failing batches and reopenings, and
 * must answer the same at every step.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AbstractLevel, AbstractSnapshot } from 'abstract-level';
import { MemoryLevel } from 'memory-level';
import { afterAll, describe, expect } from 'vitest';
import { Random } from '../../src/base/random.ts';
import { MonochordLevel } from '../../src/level/index.ts';
import { defineProperty } from '../support/properties.ts';

const folder = mkdtempSync(join(tmpdir(), 'monochord-isolation-'));
afterAll(() => rmSync(folder, { recursive: true }));

type Level = AbstractLevel<string | Buffer | Uint8Array, string, string>;
type Walker = ReturnType<Level['iterator']>;
type Pair<T> = readonly [ours: T, peer: T];

const STEPS = 150;
let files = 0;

class Trial {
  readonly random: Random;
  readonly levels: Pair<Level>;
  walkers: Pair<Walker>[] = [];
  snapshots: Pair<AbstractSnapshot>[] = [];

  constructor(seed: number, levels: Pair<Level>) {
    this.random = new Random(seed);
    this.levels = levels;
  }

  /** Keys of few letters, so that they meet; some are prefixes of others, some are not ASCII. */
  key(): string {
    const { random } = this;
    const letters = ['', 'a', 'b', 'é', '\u{1f34e}', '\0', '!'];
    return random.pick(letters) + random.pick(letters) + String(random.below(12));
  }

  /** Now and then a value that goes to overflow pages. */
  value(): string {
    const { random } = this;
    return String(random.word()).repeat(random.chance(0.05) ? 3000 : random.between(1, 4));
  }

  range(): object {
    const { random } = this;
    const options: Record<string, unknown> = { reverse: random.chance(0.4) };
    if (random.chance(0.5)) options[random.pick(['gt', 'gte'])] = this.key();
    if (random.chance(0.5)) options[random.pick(['lt', 'lte'])] = this.key();
    if (random.chance(0.3)) options['limit'] = random.below(12);
    return options;
  }

  /** Runs the same on both and compares what they answer. */
  async same(what: string, run: (level: Level, side: 0 | 1) => unknown): Promise<void> {
    const [ours, peer] = [await run(this.levels[0], 0), await run(this.levels[1], 1)];
    expect(ours, what).toEqual(peer);
  }

  batch(): { type: 'put' | 'del'; key: string; value: string }[] {
    const { random } = this;
    return Array.from({ length: random.between(1, 20) }, () => ({
      type: random.chance(0.7) ? 'put' : 'del',
      key: this.key(),
      value: this.value(),
    }));
  }

  /** A batch whose last change is refused by ours: nothing of it may be seen. */
  async brokenBatch(): Promise<void> {
    const broken = [...this.batch(), { type: 'put' as const, key: 'x'.repeat(2 ** 21), value: '' }];
    await expect(this.levels[0].batch(broken)).rejects.toThrow(/bytes/);
  }

  async write(): Promise<void> {
    const { random } = this;
    const [key, value, batch] = [this.key(), this.value(), this.batch()];
    const sub = { sublevel: 'abc'[random.below(3)]! };
    const at = random.below(this.snapshots.length + 1);
    const range = this.range();
    const kind = random.below(10);
    if (kind === 0) await this.brokenBatch();
    else if (kind < 4) await this.same('put', (level) => level.put(key, value));
    else if (kind < 6) await this.same('del', (level) => level.del(key));
    else if (kind < 8) await this.same('batch', (level) => level.batch(batch));
    else if (kind < 9)
      await this.same('sublevel', (level) => level.sublevel(sub.sublevel).batch(batch));
    else
      await this.same('clear', (level, side) => {
        const snapshot = this.snapshots[at]?.[side];
        return level.clear({ ...range, ...(snapshot && { snapshot }) });
      });
  }

  async read(): Promise<void> {
    const keys = Array.from({ length: 4 }, () => this.key());
    const at = this.random.below(this.snapshots.length + 1);
    const range = this.range();
    const seen = (side: 0 | 1): object => {
      const snapshot = this.snapshots[at]?.[side];
      return snapshot === undefined ? {} : { snapshot };
    };
    await this.same('getMany', (level, side) => level.getMany(keys, seen(side)));
    await this.same('hasMany', (level, side) => level.hasMany(keys, seen(side)));
    await this.same('getSync', (level, side) => level.getSync(keys[0]!, seen(side)));
    await this.same('keys', (level, side) => level.keys({ ...range, ...seen(side) }).all());
    await this.same('values', (level, side) => level.values({ ...range, ...seen(side) }).all());
  }

  async walk(): Promise<void> {
    const { random } = this;
    if (this.walkers.length < 6 && random.chance(0.4)) {
      const range = this.range();
      const at = random.below(this.snapshots.length + 1);
      const of = (side: 0 | 1): Walker => {
        const snapshot = this.snapshots[at]?.[side];
        return this.levels[side].iterator({ ...range, ...(snapshot && { snapshot }) });
      };
      this.walkers.push([of(0), of(1)]);
      return;
    }
    if (this.walkers.length === 0) return;
    const walker = random.pick(this.walkers);
    const [target, count] = [this.key(), random.between(1, 5)];
    const kind = random.below(4);
    if (kind === 0) for (const each of walker) each.seek(target);
    else if (kind === 1) await this.same('next', (_, side) => walker[side].next());
    else if (kind === 2) await this.same('nextv', (_, side) => walker[side].nextv(count));
    else await this.endWalk(walker);
  }

  async endWalk(walker: Pair<Walker>): Promise<void> {
    await this.same('all', (_, side) => walker[side].all());
    for (const each of walker) await each.close();
    this.walkers = this.walkers.filter((each) => each !== walker);
  }

  async snapshot(): Promise<void> {
    if (this.snapshots.length < 4) {
      this.snapshots.push([this.levels[0].snapshot(), this.levels[1].snapshot()]);
      return;
    }
    await this.reopen(false); // walkers on a snapshot would be refused from now on, on both sides
    for (const each of this.snapshots.shift()!) await each.close();
  }

  /** Ends what is open; the levels too, when they are to be opened again. */
  async reopen(close: boolean): Promise<void> {
    for (const walker of this.walkers) await this.endWalk(walker);
    if (!close) return;
    for (const pair of this.snapshots.splice(0)) for (const each of pair) await each.close();
    for (const level of this.levels) await level.close();
    for (const level of this.levels) await level.open();
  }

  async run(): Promise<void> {
    for (let step = 0; step < STEPS; step++) {
      const kind = this.random.below(100);
      if (kind < 45) await this.write();
      else if (kind < 65) await this.read();
      else if (kind < 90) await this.walk();
      else if (kind < 99) await this.snapshot();
      else await this.reopen(true);
    }
    await this.reopen(true);
    await this.same('all', (level) => level.iterator().all());
  }
}

/** Runs a case; `plant` may change our level before. */
async function trial(seed: number, plant?: (level: Level) => void): Promise<void> {
  const ours = new MonochordLevel(join(folder, `${++files}.mono`), { memory: '2 MiB' });
  const peer = new MemoryLevel<string, string>();
  await Promise.all([ours.open(), peer.open()]);
  plant?.(ours as unknown as Level);
  try {
    await new Trial(seed, [ours as unknown as Level, peer as unknown as Level]).run();
    expect(ours.database!.check().faults).toEqual([]);
    expect(ours.database!.stats().snapshots, 'nothing stays open').toEqual([]);
  } finally {
    await ours.close();
  }
}

describe('MonochordLevel', () => {
  defineProperty({
    name: 'MonochordLevel isolates iterators, snapshots and batches as memory-level does',
    cases: 12,
    run: (seed) => trial(seed),
    // Iterators that read what is newest when they are read, not when they were made.
    canary: (seed) =>
      trial(seed, (level) => {
        const { iterator } = level;
        level.iterator = ((options: object) => {
          const late = { next: undefined as Walker | undefined };
          const made = (): Walker => (late.next ??= iterator.call(level, options as never));
          return {
            next: () => made().next(),
            nextv: (count: number) => made().nextv(count),
            all: () => made().all(),
            seek: (key: string) => made().seek(key),
            close: () => made().close(),
          };
        }) as never;
      }),
  });
});
