/**
 * The life of a storage beneath the trees, from one seed: pages change, power is lost anywhere,
 * also in recovery, processes die, the disk is damaged at rest; after each the pages must be those
 * of a commit that may be the last, and the slots must be in order.
 */
import { Random } from '../../src/base/random.ts';
import { DatabaseError } from '../../src/errors.ts';
import { LATEST, type PageId } from '../../src/storage/pages.ts';
import { type Storage } from '../../src/storage/storage.ts';
import { damage } from '../faults/damage.ts';
import { CrashSignal, FaultFileSystem } from '../faults/fault-file.ts';
import { openStorage, PAGE_BYTES, PageModel } from '../support/page-model.ts';
import { open } from '../support/small-storage.ts';
import { slotFaults } from '../support/slot-check.ts';

const MEMORY_BYTES = 2 << 20;
const STEPS_MAX = 60;
const DAMAGES = 12;
const PATH = 'model.mono';

type State = Map<number, Uint8Array>;

class Life {
  readonly #random: Random;
  readonly #seed: number;
  #disk: FaultFileSystem;
  /** The model of the last process, with every state that may be found now. */
  #before: PageModel | undefined;

  constructor(seed: number) {
    this.#seed = seed;
    this.#random = new Random(seed);
    this.#disk = new FaultFileSystem({ seed });
  }

  round(): void {
    const roll = this.#random.fraction();
    if (roll < 0.5) this.#disk.crashAfter(this.#random.between(1, this.#random.pick([20, 400])));
    try {
      const storage = openStorage(this.#disk, MEMORY_BYTES, this.#seed);
      const state = this.#recover(storage);
      const model = new PageModel(storage, this.#random, state);
      this.#before = model;
      const steps = roll < 0.8 ? this.#random.below(STEPS_MAX) : STEPS_MAX;
      for (let i = 0; i < steps; i++) model.step();
      if (roll < 0.8) this.#crashInCommit(model);
      if (roll >= 0.9) this.#closeAndDamage(model);
    } catch (cause) {
      if (!(cause instanceof CrashSignal)) throw cause;
    }
    this.#disk = this.#random.chance(0.1) ? this.#disk.kill() : this.#disk.crash();
  }

  /** Aims at the write of the log, which may be torn then, or at the sync behind it. */
  #crashInCommit(model: PageModel): void {
    if (!this.#disk.crashed) this.#disk.crashAfter(this.#random.between(1, 2));
    for (;;) model.transaction('full', this.#random.between(4, 40));
  }

  #recover(storage: Storage): State {
    if (this.#before === undefined) return new Map();
    const state = PageModel.recovered(storage, this.#random, this.#before);
    const faults = slotFaults(storage);
    if (faults.length > 0) throw new Error(faults.slice(0, 5).join('; '));
    return state;
  }

  #closeAndDamage(model: PageModel): void {
    for (const snapshot of model.snapshots) model.storage.closeSnapshot(snapshot.view);
    model.storage.close();
    model.history = [model.state];
    model.durable = 0;
    for (let i = 0; i < DAMAGES; i++) this.#damagedCopy(model.state);
  }

  /** Reads a damaged copy: every page is right, or found damaged. */
  #damagedCopy(state: State): void {
    const disk = new FaultFileSystem({ seed: this.#seed });
    disk.setImage(PATH, this.#disk.image(PATH));
    this.#damage(disk);
    let storage: Storage | undefined;
    try {
      storage = open(disk, { path: PATH, readOnly: true, memoryBytes: MEMORY_BYTES });
      for (const [page, bytes] of state) expectRightOrDamaged(storage, page, bytes);
    } catch (cause) {
      if (!isDamage(cause)) throw cause;
    }
    storage?.abandon();
  }

  #damage(disk: FaultFileSystem): void {
    const random = this.#random;
    const { length } = disk.image(PATH);
    const slot = (): number => random.below(Math.floor(length / PAGE_BYTES)) * PAGE_BYTES;
    const kind = random.pick(['flip', 'zero', 'swap', 'copy', 'cut'] as const);
    const [from, to] = [slot(), slot()];
    if (kind === 'flip') damage(disk, PATH, { kind, bit: random.below(length * 8) });
    else if (kind === 'zero') damage(disk, PATH, { kind, position: from, length: PAGE_BYTES });
    else if (kind === 'cut') damage(disk, PATH, { kind, length: from });
    else damage(disk, PATH, { kind, from, to, length: PAGE_BYTES });
  }
}

function isDamage(cause: unknown): boolean {
  if (!(cause instanceof DatabaseError)) return false;
  return cause.code.startsWith('corrupt.') || cause.code === 'storage.not_a_database';
}

function expectRightOrDamaged(storage: Storage, page: number, expected: Uint8Array): void {
  let buffer: number;
  try {
    buffer = storage.read(page as PageId, LATEST);
  } catch (cause) {
    if (isDamage(cause)) return;
    throw cause;
  }
  const at = (buffer & storage.chunkMask) << storage.pageShift;
  const found = storage.bytes[buffer >> storage.chunkShift]!.subarray(at + 20, at + PAGE_BYTES);
  if (Buffer.compare(found, expected.subarray(20)) === 0) return;
  throw new Error(`page ${page} of a damaged file holds something else, and nobody says so`);
}

/** Lives `rounds` rounds; throws when something is lost or wrong. */
export function livePages(seed: number, rounds: number): void {
  const life = new Life(seed);
  for (let round = 0; round < rounds; round++) life.round();
}
