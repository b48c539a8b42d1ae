/**
 * What the tuner and its worker processes say to each other: plain data over the channel of
 * `child_process`.
 *
 *   tuner   start ─────────────> worker     once
 *           <────── ready or failed
 *           run  ──────────────>            once a round
 *           <────── ran or failed
 */
import type { TrialLayout } from './workload.ts';

/** A planted slowdown, for tests of the procedure: burns a share of a phase's own CPU time. */
export interface PlantedSlowdown {
  readonly phase: string;
  readonly share: number;
}

export interface StartMessage {
  readonly kind: 'start';
  readonly workload: string;
  readonly layout: TrialLayout;
  readonly memory: number | string;
  /** A folder of the worker's own. */
  readonly folder: string;
  /** A store that every run begins with a copy of, in the worker's layout. */
  readonly source: string | undefined;
  /** Whether the store is taken as it is, and not rebuilt. */
  readonly isAsIs: boolean;
  readonly planted: PlantedSlowdown | undefined;
}

export interface RunMessage {
  readonly kind: 'run';
}

/** Facts about the files that a run left, the same in every run of a layout. */
export interface RunFacts {
  /** Database file and log. */
  readonly fileBytes: number;
  /** Most bytes of the budget in use at the end of any phase. */
  readonly memoryBytes: number;
  readonly trees: readonly TreeFacts[];
}

export interface TreeFacts {
  readonly name: string;
  readonly entries: number;
  readonly height: number;
  readonly pages: number;
}

export type WorkerMessage =
  | { readonly kind: 'ready' }
  | {
      readonly kind: 'ran';
      /** Milliseconds by phase. */
      readonly cpuMs: readonly number[];
      readonly wallMs: readonly number[];
      readonly facts: RunFacts;
    }
  | { readonly kind: 'failed'; readonly message: string; readonly isWrong: boolean };
