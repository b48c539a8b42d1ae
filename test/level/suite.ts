/** Runs the public test suite of `abstract-level` by tape, which that package runs it by. */
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);

/** What tape tells of a test or an assertion. */
interface Row {
  readonly type: string;
  readonly id: number;
  readonly name: string;
  readonly test?: number;
  readonly ok?: boolean;
  readonly skip?: unknown;
  readonly todo?: unknown;
}

interface Harness {
  createStream(options: object): { on(event: 'data', heard: (row: Row) => void): void };
  onFinish(run: () => void): void;
}

type Factory = (options?: object) => unknown;
const suite = require('abstract-level/test') as (options: object) => void;
const tape = require('tape') as { createHarness(): Harness };

export interface Outcome {
  readonly tests: number;
  readonly assertions: number;
  /** Assertions that failed, and tests that were skipped, by name. */
  readonly failed: readonly string[];
  readonly skipped: readonly string[];
}

/** Runs the suite, all of it, on databases that the factory makes. */
export function outcomeOf(factory: Factory): Promise<Outcome> {
  const harness = tape.createHarness();
  const names = new Map<number, string>();
  const failed: string[] = [];
  const skipped: string[] = [];
  let assertions = 0;
  harness.createStream({ objectMode: true }).on('data', (row) => {
    if (row.type === 'test') names.set(row.id, row.name);
    if (row.skip || row.todo) skipped.push(row.name);
    if (row.type !== 'assert') return;
    assertions++;
    if (row.ok !== true) failed.push(`${names.get(row.test!)}: ${row.name}`);
  });
  suite({ test: harness, factory });
  return new Promise((resolve) => {
    harness.onFinish(() => resolve({ tests: names.size, assertions, failed, skipped }));
  });
}
