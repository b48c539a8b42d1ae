/**
 * A worker process of a trial: it stays warm and runs the whole workload once whenever it is told,
 * in one layout (FEASIBILITY section 16.1). Started with `--single-threaded --expose-gc`.
 *
 * Line 7 of the strata; `trial.ts` starts it.
 */
import * as fs from 'node:fs';
import * as path from 'node:path';
import { parseSize } from '../base/sizes.ts';
import { Database } from '../database.ts';
import { LATEST } from '../model/source.ts';
import type { OpenOptions } from '../options.ts';
import { treesOf } from '../store/check.ts';
import { applyLayout } from './apply.ts';
import type {
  RunFacts,
  RunMessage,
  StartMessage,
  TreeFacts,
  WorkerMessage,
} from './trial-messages.ts';
import {
  loadWorkload,
  requireCounts,
  textOf,
  type Phase,
  type Workload,
  type WorkloadContext,
} from './workload.ts';
import { WrongResult } from './wrong-result.ts';

const collectMinor = (globalThis as { gc?: (options: { type: 'minor' }) => void }).gc;

/** One layout's trial in this process. */
class Trial {
  readonly #start: StartMessage;
  readonly #workload: Workload;
  readonly #path: string;
  readonly #base: string | undefined;
  #counts: Record<string, number> = {};
  #opened: Database[] = [];
  #memoryBytes = 0;
  #isFirstRun = true;
  #trees: TreeFacts[] | undefined;

  constructor(start: StartMessage, workload: Workload) {
    this.#start = start;
    this.#workload = workload;
    this.#path = path.join(start.folder, 'store');
    this.#base = start.source === undefined ? undefined : path.join(start.folder, 'base');
    if (start.source === undefined) return;
    fs.copyFileSync(start.source, this.#base!);
    if (!start.isAsIs) applyLayout(this.#base!, start.layout, { keepOld: false });
  }

  async run(): Promise<WorkerMessage> {
    this.#prepare();
    const context = this.#context();
    this.#isFirstRun = false;
    const state: Record<string, unknown> = {};
    let cpuMs: number[] = [];
    let wallMs: number[] = [];
    try {
      if (this.#workload.interleave !== undefined) ({ cpuMs, wallMs } = this.#interleave(context));
      else
        for (const phase of this.#workload.phases) {
          const times = await this.#time(phase, state, context);
          cpuMs.push(times.cpuMs);
          wallMs.push(times.wallMs);
          this.#noteMemory();
        }
      requireCounts(this.#workload, this.#counts);
    } finally {
      for (const database of this.#opened) database.close();
    }
    return { kind: 'ran', cpuMs, wallMs, facts: this.#facts() };
  }

  async #time(
    phase: Phase,
    state: Record<string, unknown>,
    context: WorkloadContext,
  ): Promise<{ cpuMs: number; wallMs: number }> {
    collectMinor?.({ type: 'minor' });
    const wall = performance.now();
    const before = process.cpuUsage();
    for (let i = phase.times ?? 1; i > 0; i--) {
      const waiting = phase.run!(state, context);
      if (waiting !== undefined) await waiting;
    }
    const { planted } = this.#start;
    if (planted?.phase === phase.name) burn(before, planted.share);
    const used = process.cpuUsage(before);
    return { cpuMs: (used.user + used.system) / 1000, wallMs: performance.now() - wall };
  }

  /** Phases that take turns within a run: each change of phase reads the clocks once. */
  #interleave(context: WorkloadContext): { cpuMs: number[]; wallMs: number[] } {
    const names = this.#workload.phases.map((phase) => phase.name);
    const cpuMs = names.map(() => 0);
    const wallMs = names.map(() => 0);
    collectMinor?.({ type: 'minor' });
    let at = -1;
    let wall = 0;
    let cpu = process.cpuUsage();
    const enter = (phase: string | undefined): void => {
      const next = phase === undefined ? -1 : names.indexOf(phase);
      if (next === at) return;
      const used = process.cpuUsage();
      const now = performance.now();
      if (at >= 0) {
        cpuMs[at]! += (used.user + used.system - cpu.user - cpu.system) / 1000;
        wallMs[at]! += now - wall;
      }
      if (next === names.length - 1) this.#noteMemory(); // the last phase closes
      at = next;
      wall = performance.now();
      cpu = next === names.length - 1 ? process.cpuUsage() : used;
    };
    this.#workload.interleave!(context, enter);
    enter(undefined);
    return { cpuMs, wallMs };
  }

  #prepare(): void {
    for (const name of [this.#path, `${this.#path}-log`]) fs.rmSync(name, { force: true });
    if (this.#base !== undefined) fs.copyFileSync(this.#base, this.#path);
    this.#counts = {};
    this.#opened = [];
    this.#memoryBytes = 0;
  }

  #context(): WorkloadContext {
    const { layout, memory } = this.#start;
    const { clusterSize, index } = layout;
    const isFirstRun = this.#isFirstRun;
    const cluster = clusterSize === undefined ? undefined : parseSize('clusterSize', clusterSize);
    return {
      path: this.#path,
      treeLayout: {
        ...(index?.tree !== undefined && { tree: index.tree }),
        ...(index?.order !== undefined && { order: index.order }),
        ...(cluster !== undefined && { clusterSize: cluster }),
      },
      open: (options: OpenOptions = {}) => {
        const { pageSize, extentSize } = layout;
        const named = {
          ...(pageSize !== undefined && { pageSize }),
          ...(extentSize !== undefined && { extentSize }),
          ...(clusterSize !== undefined && { clusterSize }),
          ...(index !== undefined && { index }),
        };
        const database = new Database(this.#path, {
          memory: layout.memory ?? memory,
          ...(fs.existsSync(this.#path) ? {} : named),
          ...options,
        });
        this.#opened.push(database);
        return database;
      },
      check: (isRight, what) => {
        if (!isRight) throw new WrongResult(what);
      },
      isFirstRun,
      count: (what, by = 1) => {
        this.#counts[what] = (this.#counts[what] ?? 0) + by;
      },
    };
  }

  #noteMemory(): void {
    for (const database of this.#opened) {
      if (!database.isOpen) continue;
      this.#memoryBytes = Math.max(this.#memoryBytes, database.memory().peakBytes);
    }
    this.#opened = this.#opened.filter((database) => database.isOpen);
  }

  #facts(): RunFacts {
    const fileBytes = [this.#path, `${this.#path}-log`]
      .filter((name) => fs.existsSync(name))
      .reduce((sum, name) => sum + fs.statSync(name).size, 0);
    this.#trees ??= this.#treeFacts();
    return { fileBytes, memoryBytes: this.#memoryBytes, trees: this.#trees };
  }

  #treeFacts(): TreeFacts[] {
    if (!fs.existsSync(this.#path)) return [];
    const database = new Database(this.#path, {});
    try {
      return treesOf(database.store, LATEST).map(({ name, tree }) => {
        const { entries, height, nodesByLevel } = tree.stats(LATEST);
        return { name, entries, height, pages: nodesByLevel.reduce((sum, n) => sum + n, 0) };
      });
    } finally {
      database.close();
    }
  }
}

/** Uses CPU time until the phase has taken its share more. */
function burn(before: NodeJS.CpuUsage, share: number): void {
  const used = process.cpuUsage(before);
  const until = (used.user + used.system) * (1 + share);
  for (;;) {
    const now = process.cpuUsage(before);
    if (now.user + now.system >= until) return;
  }
}

function failed(cause: unknown): WorkerMessage {
  return { kind: 'failed', message: textOf(cause), isWrong: cause instanceof WrongResult };
}

async function answer(message: StartMessage | RunMessage): Promise<WorkerMessage> {
  try {
    if (message.kind === 'run') return await trial!.run();
    trial = new Trial(message, await loadWorkload(message.workload));
    return { kind: 'ready' };
  } catch (cause) {
    return failed(cause);
  }
}

let trial: Trial | undefined;
process.on('message', (message) => {
  void answer(message as StartMessage | RunMessage).then((reply) => process.send!(reply));
});
process.on('disconnect', () => process.exit());
