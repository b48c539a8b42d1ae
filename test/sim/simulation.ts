/**
 * The life of one database under the fault disk, from one seed: cycles of opening, comparing with
 * the model, working, and a crash.
 *
 *   open (may crash inside recovery: again) --> recovered = allowed? --> check
 *     --> work, aimed at something (a checkpoint, a snapshot, a spill, anywhere)
 *     --> power loss | kill | clean close | injected failure --> open ...
 *
 * Nothing here depends on time: the same seed gives the same life.
 */
import { isVerifying, setVerifying } from '../../src/base/assert.ts';
import { Random } from '../../src/base/random.ts';
import { DatabaseError } from '../../src/errors.ts';
import { CrashSignal, FaultFileSystem, type Fault } from '../faults/fault-file.ts';
import { Model } from './model.ts';
import type { Hit, Report } from './report.ts';
import type { Plant, System, SystemFactory, SystemOptions } from './system.ts';
import { Mismatch, Workload } from './workload.ts';

export const DATABASE_PATH = '/sim/database';
/** Crashes, kills and closes in the life of one seed. */
const CYCLES_MIN = 4;
const CYCLES_MAX = 14;
const ACTIONS_MAX = 40;
/** Outcomes of one power loss that are tried beside the one that life goes on with. */
const OUTCOMES_MORE = 3;
const OPEN_TRIES_MAX = 50;
/** What injected failures come to; a read cut short looks like damage, or like a foreign file. */
const PLANNED: readonly string[] = [
  'storage.io',
  'storage.failed',
  'storage.full',
  'storage.not_a_database',
  'corrupt.header',
  'corrupt.page',
  'corrupt.log',
];
/** Every so many seeds runs with the expensive checks of `verify`. */
const VERIFIED_EVERY = 5;

/** What a cycle wants its end to hit; `kill` and `close` are ends without a power loss. */
const AIMS = [
  ...(['anywhere', 'anywhere', 'snapshot', 'snapshot', 'spill', 'spill', 'spill'] as const),
  ...(['checkpoint', 'checkpoint', 'checkpoint', 'checkpoint', 'checkpoint'] as const),
  ...(['recovery', 'recovery', 'recovery', 'recovery', 'kill', 'close'] as const),
] as const;
type Aim = (typeof AIMS)[number] | 'load';
/** What cycles of a life with bulk loads aim at, beside the others. */
const LOAD_SHARE = 0.8;

/** A loss, a failed check, or an error that must not be; says how to repeat it. */
export class SimulationFailure extends Error {
  readonly seed: number;

  constructor(seed: number, cycle: number, command: string, cause: unknown) {
    const reason = cause instanceof Error ? `${cause.name}: ${cause.message}` : String(cause);
    super(`seed ${seed}, cycle ${cycle}: ${reason}\nrepeat: ${command}`, { cause });
    this.name = 'SimulationFailure';
    this.seed = seed;
  }
}

export interface LifeOptions {
  readonly factory: SystemFactory;
  readonly seed: number;
  readonly plant?: Plant | undefined;
  readonly report: Report;
  /** Whether most cycles aim at a bulk load; the system must have them. */
  readonly withLoads?: boolean;
  readonly trace?: (text: string) => void;
}

/** The one command that repeats the life of a seed. */
export function repeatCommand(options: LifeOptions): string {
  const plant = options.plant === undefined ? '' : ` --plant ${options.plant}`;
  const loads = options.withLoads === true ? ' --loads' : '';
  return `npm run sim -- --system ${options.factory.name} --seed ${options.seed}${plant}${loads}`;
}

/**
 * Lives the life of one seed.
 *
 * @throws {SimulationFailure} when the system loses or shows what it must not.
 */
export function live(options: LifeOptions): void {
  const life = new Life(options);
  const before = isVerifying();
  setVerifying(options.seed % VERIFIED_EVERY === 0);
  try {
    const { plant, factory } = options;
    const run = (): void => {
      while (life.cycleCount < life.cyclesMax) life.cycle();
    };
    if (plant !== undefined && factory.withPlant !== undefined) factory.withPlant(plant, run);
    else run();
  } catch (cause) {
    throw new SimulationFailure(options.seed, life.cycleCount, repeatCommand(options), cause);
  } finally {
    setVerifying(before);
    life.end();
  }
  options.report.seeds++;
}

class Life {
  readonly #random: Random;
  readonly #model = new Model();
  readonly #workload: Workload;
  readonly #factory: SystemFactory;
  readonly #options: SystemOptions;
  readonly #report: Report;
  readonly #trace: (text: string) => void;
  readonly #withLoads: boolean;
  #disk: FaultFileSystem;
  #system: System | undefined;
  /** Whether the last process ended without closing. */
  #isDirty = false;
  /** Decides when the disk fills up, apart from everything else. */
  readonly #fullness: Random;
  #failuresPlanned = false;
  readonly cyclesMax: number;
  cycleCount = 0;

  constructor(options: LifeOptions) {
    this.#random = new Random(options.seed);
    this.#withLoads = options.withLoads ?? false;
    this.#fullness = new Random(options.seed + 0x5bd1e995);
    this.#factory = options.factory;
    this.#report = options.report;
    this.#trace = options.trace ?? (() => undefined);
    this.#options = randomOptions(this.#random, options.plant);
    this.cyclesMax = this.#random.between(CYCLES_MIN, CYCLES_MAX);
    this.#disk = new FaultFileSystem({ seed: this.#random.seed() });
    this.#workload = new Workload({
      random: this.#random,
      model: this.#model,
      report: this.#report,
      factory: this.#factory,
      options: this.#options,
      trace: this.#trace,
    });
    this.#trace(`options ${JSON.stringify(this.#options)}`);
  }

  cycle(): void {
    this.cycleCount++;
    const isLoad = this.#withLoads && this.#random.chance(LOAD_SHARE);
    const aim = isLoad ? 'load' : this.#random.pick(AIMS);
    this.#trace(`--- cycle ${this.cycleCount}: ${aim}`);
    try {
      if (this.#random.chance(0.05)) this.#planFailure(['io', 'io', 'full']);
      this.#open(aim);
      if (isLoad && this.#random.chance(0.2)) this.#planFailure(['full']);
      else if (this.#random.chance(0.15)) this.#planFailure(['io', 'io', 'full', 'short']);
      if (this.#fullness.chance(0.2)) this.#fillDisk();
      this.#work(aim);
      this.#end(aim);
    } catch (error) {
      this.#survive(error);
    }
    this.#disk.clearFaults();
    this.#disk.capacityBytes = Infinity;
    this.#failuresPlanned = false;
  }

  /** Opens until it succeeds; power may be lost in recovery, more than once. */
  #open(aim: Aim): void {
    for (let tries = 0; tries < OPEN_TRIES_MAX; tries++) {
      if (aim === 'recovery' && tries < 3 && (tries === 0 || this.#random.chance(0.5)))
        this.#disk.crashAfter(1 + this.#random.below(this.#random.pick([4, 16, 64])));
      try {
        this.#system = this.#factory.open(this.#disk, DATABASE_PATH, this.#options);
        break;
      } catch (error) {
        if (!(error instanceof CrashSignal)) throw error;
        this.#losePower(this.#isDirty ? ['recovery'] : []);
      }
    }
    if (this.#system === undefined) throw new Mismatch(`not open after ${OPEN_TRIES_MAX} tries`);
    this.#workload.attach(this.#system, this.#disk);
    const before = this.#model.takenBackCount;
    const fault = this.#model.recover(this.#system);
    if (fault !== undefined) throw new Mismatch(fault);
    this.#report.commitsTakenBack += this.#model.takenBackCount - before;
    this.#workload.check();
    this.#isDirty = true;
  }

  /**
   * Leaves the disk a little room, or none; a full disk is planned then. The log has begun: on a
   * disk that is full before the first commit it may find no room (STORAGE rule 14). Bytes in its
   * file say nothing: they may be an old log's, or of a start that failed.
   */
  #fillDisk(): void {
    this.#tolerate(() => this.#workload.transaction(1));
    if (!this.#system!.hasBegunLog()) return;
    const room = this.#fullness.below(1 + this.#fullness.below(500_000));
    this.#trace(`the disk has room for ${room} bytes`);
    this.#disk.capacityBytes = this.#disk.usedBytes + room;
    this.#failuresPlanned = true;
  }

  /** A short read is not for recovery: a log cut short by somebody else ends there. */
  #planFailure(kinds: readonly ('io' | 'full' | 'short')[]): void {
    const kind = this.#random.pick(kinds);
    const others = ['write', 'sync', 'read'] as const;
    const operation =
      kind === 'full' ? 'write' : kind === 'short' ? 'read' : this.#random.pick(others);
    const fault: Fault = {
      kind,
      operation,
      at: 1 + this.#random.below(40),
      times: this.#random.pick([1, 1, 3, Infinity]),
    };
    this.#trace(`inject ${JSON.stringify(fault)}`);
    this.#failuresPlanned = true;
    this.#disk.inject(fault);
  }

  /** Works until power is lost, at the place aimed at, or for a while. */
  #work(aim: Aim): void {
    const warmUp = this.#random.below(8);
    for (let i = 0; i < warmUp; i++) this.#act();
    this.#aim(aim);
    for (let i = 0; i < ACTIONS_MAX && !this.#disk.crashed; i++) this.#act();
  }

  #aim(aim: Aim): void {
    switch (aim) {
      case 'anywhere':
        this.#armCrash(300);
        return;
      case 'snapshot':
        this.#tolerate(() => this.#workload.openSnapshot());
        this.#armCrash(100);
        return;
      case 'spill':
        this.#tolerate(() => this.#workload.spill(() => this.#armCrash(30)));
        return;
      case 'load':
        this.#crashNearLoad();
        return;
      case 'checkpoint':
        this.#crashInCheckpoint();
        return;
      case 'recovery':
      case 'kill':
      case 'close':
        return;
    }
  }

  /** Power is lost, or the process killed, inside a bulk load, its commit, or soon after. */
  #crashNearLoad(): void {
    const operationsMax = this.#random.pick([10, 60, 300]);
    for (let i = 0; i < 4 && !this.#disk.crashed; i++) {
      this.#tolerate(() => this.#workload.load(() => this.#armCrash(operationsMax)));
    }
  }

  /** Power is lost where a checkpoint begins or, more often, when it has begun. */
  #crashInCheckpoint(): void {
    this.#tolerate(() => this.#workload.transaction(20));
    if (this.#random.chance(0.7)) this.#tolerate(() => this.#workload.checkpointStep());
    this.#armCrash(this.#random.pick([3, 10, 40]));
    for (let i = 0; i < ACTIONS_MAX; i++) {
      let done = false;
      this.#tolerate(() => (done = this.#workload.checkpointStep()));
      if (done) this.#tolerate(() => this.#workload.transaction(20));
      else if (this.#random.chance(0.2)) this.#act();
    }
  }

  #armCrash(operationsMax: number): void {
    this.#disk.crashAfter(1 + this.#random.below(1 + this.#random.below(operationsMax)));
  }

  #act(): void {
    this.#tolerate(() => this.#workload.act());
  }

  /**
   * Lets a full budget pass, and a full disk if it was planned: the transaction is rolled back, no
   * more.
   */
  #tolerate(action: () => void): void {
    try {
      action();
    } catch (error) {
      if (isFailure(error) && error.code === 'limit.memory') {
        this.#trace('budget full');
        this.#report.limitsMet++;
        this.#workload.rollbackIfOpen();
        return;
      }
      if (!(this.#failuresPlanned && isFailure(error) && error.code === 'storage.full'))
        throw error;
      this.#trace('disk full');
      this.#report.failuresInjected++;
      this.#workload.rollbackIfOpen();
      if (this.#disk.capacityBytes < Infinity) {
        this.#disk.clearFaults();
        this.#workload.deleteOnFullDisk();
        if (this.#fullness.chance(0.3)) this.#disk.capacityBytes = Infinity;
      } else if (this.#random.chance(0.5)) this.#disk.clearFaults();
    }
  }

  /** The cycle comes to its end without having lost power. */
  #end(aim: Aim): void {
    this.#disk.clearFaults();
    if (aim === 'kill') {
      this.#report.kills++;
      this.#abandon(() => this.#disk.kill());
      return;
    }
    if (aim === 'close' || aim === 'recovery') {
      this.#workload.close();
      this.#report.cleanCloses++;
      this.#isDirty = false;
      this.#abandon(() => (this.#random.chance(0.5) ? this.#disk.kill() : this.#disk.crash()));
      return;
    }
    this.#losePower(this.#hits());
  }

  /** Takes what ended the work: power loss, or a planned failure. Anything else is ours. */
  #survive(error: unknown): void {
    if (error instanceof CrashSignal || (this.#disk.crashed && isFailure(error))) {
      this.#losePower(this.#hits());
      return;
    }
    if (!this.#failuresPlanned || !isFailure(error) || !isPlanned(error)) throw error;
    this.#trace(`failed: ${error.message}`);
    this.#report.failuresInjected++;
    this.#closeAfterFailure();
    this.#abandon(() => (this.#random.chance(0.5) ? this.#disk.kill() : this.#disk.crash()));
  }

  /** Closing after a failure may fail again, and must do no harm. */
  #closeAfterFailure(): void {
    if (this.#random.chance(0.5)) return;
    this.#disk.clearFaults();
    try {
      this.#system?.close();
    } catch (error) {
      if (!isFailure(error) && !(error instanceof CrashSignal)) throw error;
    }
  }

  #losePower(hits: readonly Hit[]): void {
    this.#trace(`power lost: ${hits.join(', ')}`);
    this.#disk.capacityBytes = Infinity; // what was not synced may take space again
    if (this.#random.chance(0.1)) {
      this.#report.kills++;
      this.#abandon(() => this.#disk.kill());
      return;
    }
    this.#report.moments++;
    this.#report.crash(hits);
    this.#abandon(() => {
      for (let i = 0; i < OUTCOMES_MORE && this.#disk.hasUnsynced; i++) {
        this.#report.crash(hits);
        this.#tryOutcome(this.#disk.crash(this.#random.seed()));
      }
      return this.#disk.crash();
    });
  }

  /** Opens what another outcome of the same power loss leaves; life does not go on from there. */
  #tryOutcome(disk: FaultFileSystem): void {
    this.#trace('another outcome');
    if (this.#random.chance(0.3)) {
      disk.crashAfter(1 + this.#random.below(this.#random.pick([4, 16, 64])));
      try {
        this.#factory.open(disk, DATABASE_PATH, this.#options).abandon?.();
      } catch (error) {
        if (!(error instanceof CrashSignal)) throw error;
        this.#report.moments++;
        this.#report.crash(['recovery']);
      }
      disk = disk.crash(this.#random.seed());
    }
    const system = this.#factory.open(disk, DATABASE_PATH, this.#options);
    const fault = this.#model.allows(system) ?? system.check()[0];
    if (fault !== undefined) throw new Mismatch(fault);
    disk.cutPower();
    system.abandon?.();
  }

  /** Forgets the process and goes on with the disk it left. */
  #abandon(next: () => FaultFileSystem): void {
    this.end();
    this.#disk = next();
  }

  /** The process is no more. */
  end(): void {
    this.#disk.cutPower();
    this.#system?.abandon?.();
    this.#system = undefined;
  }

  /** What a crash at this moment hits. */
  #hits(): Hit[] {
    const hits: Hit[] = [];
    if (this.#system === undefined) return hits;
    if (this.#system.place() === 'checkpoint') hits.push('checkpoint');
    if (this.#workload.snapshotCount > 0) hits.push('snapshot');
    if (this.#system.hasSpilled()) hits.push('spill');
    if (this.#workload.isNearLoad) hits.push('load');
    return hits;
  }
}

function isFailure(error: unknown): error is DatabaseError {
  return error instanceof DatabaseError;
}

function isPlanned(error: DatabaseError): boolean {
  return PLANNED.includes(error.code);
}

function randomOptions(random: Random, plant: Plant | undefined): SystemOptions {
  const pageBytes = random.pick([4096, 4096, 8192, 16384]);
  return {
    pageBytes,
    memoryBytes: random.pick([2, 2, 3, 4, 6]) * 2 ** 20,
    tree: random.pick(['b+tree', 'b-tree']),
    order: pageBytes === 4096 ? random.pick([0, 0, 4, 9, 32]) : random.pick([0, 32]),
    delayMs: random.pick([1e9, 1e9, 0]),
    writeEach: random.chance(0.3),
    plant,
  };
}
