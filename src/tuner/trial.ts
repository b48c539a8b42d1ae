/**
 * Trials: generations of fresh worker processes, one a layout, that take turns (FEASIBILITY
 * section 16.1).
 *
 *   generation:  start one worker per entry, all alive at once, all on one CPU where that can be
 *     14 rounds: every worker, in a new random order, runs the whole workload once
 *   the first 4 rounds are dropped
 *
 * Line 7 of the strata.
 */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Random } from '../base/random.ts';
import { failure } from '../errors.ts';
import { isTagAlive, tagOfProcess } from '../storage/writer-lock.ts';
import type {
  PlantedSlowdown,
  RunFacts,
  RunMessage,
  StartMessage,
  WorkerMessage,
} from './trial-messages.ts';
import type { TrialLayout } from './workload.ts';

/** Runs of every worker in a generation, and how many at the start are not counted. */
export const ROUNDS = 14;
export const ROUNDS_DROPPED = 4;

/** One line of a comparison. */
export interface Entry {
  readonly name: string;
  readonly layout: TrialLayout;
  readonly planted?: PlantedSlowdown;
  /** A store of its own that its runs begin with, as it is. */
  readonly source?: string;
}

/** What one generation measured: counted rounds only, milliseconds. */
export interface Generation {
  /** `cpuMs[round][entry][phase]`; an entry that failed has no times: an empty list. */
  readonly cpuMs: readonly (readonly (readonly number[])[])[];
  readonly wallMs: readonly (readonly (readonly number[])[])[];
  /** By entry. */
  readonly facts: readonly (RunFacts | undefined)[];
  /** Why entries are out, by ordinal; kept with the times, for when tuning goes on. */
  readonly excluded?: Readonly<Record<number, Exclusion>>;
  readonly seconds: number;
}

/** Why a layout is out. */
export interface Exclusion {
  readonly message: string;
  /** A wrong result, rather than an error. */
  readonly isWrong: boolean;
}

export interface TrialSettings {
  readonly workload: string;
  readonly memory: number | string;
  readonly source: string | undefined;
  /** Whether stores are measured as they are; default false: they are rebuilt first. */
  readonly isAsIs?: boolean;
  readonly entries: readonly Entry[];
  readonly rounds?: number;
  readonly roundsDropped?: number;
  readonly signal?: AbortSignal;
  /** The program of workers, where it is not the one beside this file. */
  readonly workerFile?: string;
  readonly onRound?: (round: number, rounds: number) => void;
}

const FOLDER_START = 'monochord-tune-';

/**
 * A folder for files of trials: in memory where there is a file system for that. Its name has the
 * tag of this process, by which folders of tuners that were killed are found and removed.
 */
export function trialFolder(bases: readonly string[] = ['/dev/shm', os.tmpdir()]): string {
  for (const base of bases) {
    removeLeft(base);
    try {
      return fs.mkdtempSync(path.join(base, `${FOLDER_START}${tagOfProcess()}-`));
    } catch {
      continue; // not there or not writable: the next
    }
  }
  throw failure('storage.permission', `no folder for the files of trials in ${os.tmpdir()}`);
}

/** Removes folders of trials whose process is gone. */
function removeLeft(base: string): void {
  let names: string[] = [];
  try {
    names = fs.readdirSync(base);
  } catch {
    return; // it is not there, or may not be listed
  }
  for (const name of names) {
    const tag = name.startsWith(FOLDER_START) ? name.slice(FOLDER_START.length) : '';
    if (!/^\d+\./.test(tag) || isTagAlive(tag.split('-')[0]!)) continue;
    try {
      fs.rmSync(path.join(base, name), { recursive: true, force: true });
    } catch {
      continue; // of another user
    }
  }
}

/** Whether processes can be pinned to a CPU here. */
export function canPin(): boolean {
  return spawnSync('taskset', ['-cp', String(process.pid)]).status === 0;
}

/** Milliseconds over which processors are watched. */
const WATCH_MS = 150;

/** The CPU that workers are pinned to: the idlest; `undefined` where none can be chosen. */
export function pinnedCpu(): string | undefined {
  const { stdout, status } = spawnSync('taskset', ['-cp', String(process.pid)], {
    encoding: 'utf8',
  });
  if (status !== 0) return undefined;
  const allowed = listOf(stdout.slice(stdout.lastIndexOf(':') + 1).trim());
  const before = idleTicks();
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, WATCH_MS);
  const after = idleTicks();
  const idle = (cpu: string): number => (after.get(cpu) ?? 0) - (before.get(cpu) ?? 0);
  return allowed.reduce<string | undefined>(
    (best, cpu) => (best === undefined || idle(cpu) >= idle(best) ? cpu : best),
    undefined,
  );
}

/** The numbers of a list such as `0,2-3`. */
function listOf(text: string): string[] {
  return text.split(',').flatMap((part) => {
    const [first, last] = part.split('-').map(Number) as [number, number?];
    return Array.from({ length: (last ?? first) - first + 1 }, (_, i) => String(first + i));
  });
}

/** Ticks that each CPU has been idle since the system started; empty without `/proc`. */
function idleTicks(): Map<string, number> {
  if (!fs.existsSync('/proc/stat')) return new Map();
  const lines = fs.readFileSync('/proc/stat', 'utf8').matchAll(/^cpu(\d+) \d+ \d+ \d+ (\d+)/gm);
  return new Map([...lines].map(([, cpu, idle]) => [cpu!, Number(idle)]));
}

class Worker {
  readonly #child: ChildProcess;
  #resolve: ((message: WorkerMessage) => void) | undefined;
  #ended: WorkerMessage | undefined;

  constructor(cpu: string | undefined, workerFile: string | undefined) {
    const here = fileURLToPath(import.meta.url);
    const beside = `trial-worker${path.extname(here)}`;
    const file = workerFile ?? path.join(path.dirname(here), beside);
    const isSource = file.endsWith('.ts');
    const loader = isSource ? ['--import', 'ts-blank-space/register'] : [];
    const node = ['--single-threaded', '--expose-gc', '--no-warnings', ...loader, file];
    const command = cpu === undefined ? process.execPath : 'taskset';
    const args = cpu === undefined ? node : ['-c', cpu, process.execPath, ...node];
    this.#child = spawn(command, args, { stdio: ['ignore', 'ignore', 'pipe', 'ipc'] });
    let errors = '';
    this.#child.stderr!.on('data', (text) => (errors = `${errors}${text}`.slice(-2000)));
    this.#child.on('message', (message) => this.#settle(message as WorkerMessage));
    this.#child.on('error', (cause) => this.#end(cause.message));
    this.#child.on('exit', (code, signal) => {
      this.#end(`the worker ended (${signal ?? code}) ${errors.trim().split('\n').at(-1) ?? ''}`);
    });
  }

  ask(message: StartMessage | RunMessage): Promise<WorkerMessage> {
    if (this.#ended !== undefined) return Promise.resolve(this.#ended);
    return new Promise((resolve) => {
      this.#resolve = resolve;
      this.#child.send(message);
    });
  }

  #settle(message: WorkerMessage): void {
    const resolve = this.#resolve;
    this.#resolve = undefined;
    resolve?.(message);
  }

  #end(message: string): void {
    this.#ended = { kind: 'failed', message, isWrong: false };
    this.#settle(this.#ended);
  }

  stop(): void {
    this.#child.kill('SIGKILL');
  }
}

/**
 * Runs one generation. Entries that fail, or answer wrongly, are added to `excluded` by their
 * ordinal and left out from then on; those that are in it already are not started.
 *
 * @throws {LimitError} limit.cancelled
 */
export async function runGeneration(
  settings: TrialSettings,
  excluded: Map<number, Exclusion>,
  seed: number,
): Promise<Generation> {
  const { entries, rounds = ROUNDS, roundsDropped = ROUNDS_DROPPED } = settings;
  const since = performance.now();
  const folder = trialFolder();
  const cpu = pinnedCpu();
  const workers = entries.map((_, i) =>
    excluded.has(i) ? undefined : new Worker(cpu, settings.workerFile),
  );
  const stop = (): void => workers.forEach((worker) => worker?.stop());
  settings.signal?.addEventListener('abort', stop);
  const cpuMs: number[][][] = [];
  const wallMs: number[][][] = [];
  const facts: (RunFacts | undefined)[] = entries.map(() => undefined);
  try {
    await startAll(settings, workers, excluded, folder);
    const random = new Random(seed);
    for (let round = 0; round < rounds; round++) {
      const cpuOf: number[][] = entries.map(() => []);
      const wallOf: number[][] = entries.map(() => []);
      for (const i of randomOrder(entries.length, random)) {
        if (excluded.has(i)) continue;
        const reply = await workers[i]!.ask({ kind: 'run' });
        refuseCancelled(settings.signal);
        if (reply.kind !== 'ran') exclude(excluded, i, reply);
        else {
          cpuOf[i] = [...reply.cpuMs];
          wallOf[i] = [...reply.wallMs];
          facts[i] = reply.facts;
        }
      }
      settings.onRound?.(round + 1, rounds);
      if (round < roundsDropped) continue;
      cpuMs.push(cpuOf);
      wallMs.push(wallOf);
    }
  } finally {
    settings.signal?.removeEventListener('abort', stop);
    stop();
    fs.rmSync(folder, { recursive: true, force: true });
  }
  const seconds = (performance.now() - since) / 1000;
  return { cpuMs, wallMs, facts, excluded: Object.fromEntries(excluded), seconds };
}

async function startAll(
  settings: TrialSettings,
  workers: readonly (Worker | undefined)[],
  excluded: Map<number, Exclusion>,
  folder: string,
): Promise<void> {
  const { entries, workload, memory, source } = settings;
  const replies = entries.map(async ({ layout, planted, source: other }, i) => {
    const own = path.join(folder, String(i));
    fs.mkdirSync(own);
    return workers[i]?.ask({
      kind: 'start',
      workload: path.resolve(workload),
      layout,
      memory,
      folder: own,
      source: other ?? source,
      isAsIs: settings.isAsIs === true || other !== undefined,
      planted,
    });
  });
  for (const [i, reply] of (await Promise.all(replies)).entries()) {
    if (reply?.kind === 'failed') exclude(excluded, i, reply);
  }
  refuseCancelled(settings.signal);
}

function exclude(excluded: Map<number, Exclusion>, i: number, reply: WorkerMessage): void {
  if (reply.kind !== 'failed') return;
  excluded.set(i, { message: reply.message, isWrong: reply.isWrong });
}

function refuseCancelled(signal: AbortSignal | undefined): void {
  if (signal?.aborted !== true) return;
  throw failure('limit.cancelled', 'tuning was interrupted; finished trials are kept');
}

/** A random permutation of 0 … count − 1. */
export function randomOrder(count: number, random: Random): number[] {
  const order = Array.from({ length: count }, (_, i) => i);
  for (let i = count - 1; i > 0; i--) {
    const j = random.below(i + 1);
    [order[i], order[j]] = [order[j]!, order[i]!];
  }
  return order;
}
