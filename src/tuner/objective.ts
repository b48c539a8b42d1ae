/**
 * Objectives: what is to be fast, and what must hold, read from a sentence.
 *
 *   fastest mix
 *   fastest lookup with commit <= 5 ms, file <= 200 MiB, memory <= 32 MiB
 *   fastest lookup and scan
 *
 * `p99` may stand behind a phase: the ninety-ninth percentile of its runs instead of their median.
 * Line 7 of the strata.
 */
import { nameHint } from '../base/nearest.ts';
import { parseSize } from '../base/sizes.ts';
import { failure } from '../errors.ts';

export interface Constraint {
  /** A phase, `file` or `memory`. */
  readonly what: string;
  readonly isP99: boolean;
  /** Milliseconds, or bytes. */
  readonly most: number;
  /** The limit as it was written. */
  readonly text: string;
}

export interface Objective {
  readonly text: string;
  /** Phases that are to be fast; empty for the mix. */
  readonly phases: readonly string[];
  readonly constraints: readonly Constraint[];
}

/** @throws {UsageError} usage.argument naming the nearest phase. */
export function parseObjective(text: string, phases: readonly string[]): Objective {
  const match = /^\s*fastest\s+(.+?)(?:\s+with\s+(.+))?\s*$/i.exec(text);
  if (match === null) {
    throw failure('usage.argument', `"${text}" is not an objective`, {
      hint: 'Write: fastest lookup with commit <= 5 ms, file <= 200 MiB.',
    });
  }
  const wanted = match[1]!.split(/\s*(?:,|\+|\band\b)\s*/).filter((each) => each !== 'mix');
  for (const name of wanted) requirePhase(name, phases, ['mix']);
  const constraints = (match[2] ?? '')
    .split(/\s*(?:,|\band\b)\s*/)
    .filter((each) => each !== '')
    .map((each) => parseConstraint(each, phases));
  return { text: text.trim(), phases: wanted, constraints };
}

function requirePhase(name: string, phases: readonly string[], also: readonly string[]): void {
  if (phases.includes(name) || also.includes(name)) return;
  const hint = nameHint(name, [...phases, ...also]);
  throw failure('usage.argument', `"${name}" is no phase of the workload`, {
    ...(hint !== undefined && { hint }),
  });
}

function parseConstraint(text: string, phases: readonly string[]): Constraint {
  const match = /^(\S+)(\s+p99)?\s*(?:<=|≤|<)\s*(\d+(?:\.\d+)?)\s*(\w+)$/.exec(text);
  if (match === null) {
    throw failure('usage.argument', `"${text}" is not a constraint`, {
      hint: 'Write: commit p99 <= 5 ms, or: file <= 200 MiB.',
    });
  }
  const [, what, p99, number, unit] = match as unknown as [string, string, string, string, string];
  requirePhase(what, phases, ['file', 'memory']);
  const limit = `${number} ${unit}`;
  if (what === 'file' || what === 'memory') {
    return { what, isP99: false, most: parseSize(what, limit), text: limit };
  }
  const scale = unit === 'ms' ? 1 : unit === 's' ? 1000 : undefined;
  if (scale === undefined) throw failure('usage.argument', `${what}: ${unit} is not ms or s`);
  return { what, isP99: p99 !== undefined, most: Number(number) * scale, text: limit };
}

/** What a layout measured, for constraints. */
export interface Measured {
  readonly medianMs: (phase: string) => number;
  readonly p99Ms: (phase: string) => number;
  readonly fileBytes: number;
  readonly memoryBytes: number;
}

function foundOf({ what, isP99 }: Constraint, measured: Measured): number {
  if (what === 'file') return measured.fileBytes;
  if (what === 'memory') return measured.memoryBytes;
  return isP99 ? measured.p99Ms(what) : measured.medianMs(what);
}

/** Which constraints a layout misses, each with by how much; empty when it meets all. */
export function misses(objective: Objective, measured: Measured): string[] {
  return objective.constraints.flatMap((constraint) => {
    const { what, isP99, most, text } = constraint;
    const found = foundOf(constraint, measured);
    if (found <= most) return [];
    const over = ((found / most - 1) * 100).toFixed(found / most < 1.1 ? 1 : 0);
    const isBytes = what === 'file' || what === 'memory';
    const shown = isBytes ? bytesText(found) : `${found.toFixed(2)} ms`;
    return [`${what}${isP99 ? ' p99' : ''} is ${shown}, ${over} % above ${text}`];
  });
}

function bytesText(bytes: number): string {
  if (bytes < 2 ** 20) return `${(bytes / 1024).toFixed(0)} KiB`;
  return `${(bytes / 2 ** 20).toFixed(1)} MiB`;
}

/** How far a layout is from the constraints that it misses: the sum of log-ratios, 0 for none. */
export function overshoot(objective: Objective, measured: Measured): number {
  return objective.constraints.reduce((sum, constraint) => {
    return sum + Math.max(0, Math.log(foundOf(constraint, measured) / constraint.most));
  }, 0);
}
