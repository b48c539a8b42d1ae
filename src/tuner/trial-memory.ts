/**
 * Trials that are kept: one line of JSON a generation, so that an interrupted tuning goes on and
 * nothing is measured twice. A line counts only for the same workload, store, memory, entries,
 * program and machine. Line 7 of the strata.
 */
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import type { Entry, Generation } from './trial.ts';

interface Line {
  readonly key: string;
  readonly entries: string;
  readonly generation: Generation;
}

export class TrialMemory {
  readonly #file: string;
  readonly #key: string;
  readonly #left: Line[];

  /** `parts`: everything that a trial depends on beside its entries. */
  constructor(file: string, parts: readonly unknown[]) {
    this.#file = file;
    this.#key = createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 16);
    this.#left = readLines(file).filter((line) => line.key === this.#key);
  }

  /** Generations from before that are left. */
  get count(): number {
    return this.#left.length;
  }

  /** Gives a generation of exactly these entries, each once. */
  take(entries: readonly Entry[]): Generation | undefined {
    const wanted = JSON.stringify(entries.map((entry) => entry.layout));
    const at = this.#left.findIndex((line) => line.entries === wanted);
    return at < 0 ? undefined : this.#left.splice(at, 1)[0]!.generation;
  }

  add(entries: readonly Entry[], generation: Generation): void {
    const line: Line = {
      key: this.#key,
      entries: JSON.stringify(entries.map((entry) => entry.layout)),
      generation,
    };
    fs.mkdirSync(path.dirname(this.#file), { recursive: true });
    const isCut = fs.existsSync(this.#file) && !fs.readFileSync(this.#file, 'utf8').endsWith('\n');
    fs.appendFileSync(this.#file, `${isCut ? '\n' : ''}${JSON.stringify(line)}\n`);
  }
}

/** A last line that was cut off by an interruption is left out. */
function readLines(file: string): Line[] {
  if (!fs.existsSync(file)) return [];
  return fs
    .readFileSync(file, 'utf8')
    .split('\n')
    .flatMap((text) => {
      try {
        return text === '' ? [] : [JSON.parse(text) as Line];
      } catch {
        return []; // cut off
      }
    });
}

/** What a trial depends on: workload, store, memory, program, machine. */
export function trialParts(
  workloadFile: string,
  source: string | undefined,
  memory: number | string,
): unknown[] {
  const stat = source === undefined ? undefined : fs.statSync(source);
  return [
    fs.readFileSync(workloadFile, 'utf8'),
    source === undefined ? '' : [path.resolve(source), stat!.size, stat!.mtimeMs],
    memory,
    process.version,
    os.cpus()[0]?.model,
    os.hostname(),
  ];
}
