/**
 * The one registry of property tests and fuzzers (STYLE "Tests").
 *
 * A property runs many cases, each from its own seed. A failure names the seed and the one-line
 * command that repeats that case alone. Each property brings a canary: the same check made to run
 * against something broken, which must fail, so that a check that checks nothing shows itself.
 *
 *   defineProperty({
 *     name: 'BTree keeps order',
 *     cases: 200,
 *     run: (seed) => { ... throws when the law is broken ... },
 *     canary: (seed) => { ... the same with a planted fault: must throw for one of the seeds ... },
 *   });
 *
 * In a test file this registers two tests. `npm run property -- NAME --seed N` repeats one case;
 * `--cases N` runs more of them than a test run does (`MONOCHORD_CASES` multiplies likewise).
 */
import { expect, test } from 'vitest';
import { Random } from '../../src/base/random.ts';

export interface Property {
  /** Says type, method and law; unique in the project. */
  readonly name: string;
  /** Cases of an ordinary test run: together with the other properties, minutes at most. */
  readonly cases: number;
  /** Runs the case of a seed; throws when the law is broken. */
  readonly run: (seed: number) => void | Promise<void>;
  /** As `run`, with a planted fault: must throw for at least one of the first `cases` seeds. */
  readonly canary: (seed: number) => void | Promise<void>;
  /** Milliseconds that all cases may take on a busy machine; default that of any test. */
  readonly timeoutMs?: number;
}

const registry = new Map<string, Property>();

/** The seeds of a property's cases: the one of the environment, or a fixed sequence by its name. */
function* seedsOf(property: Property): Generator<number> {
  const only = process.env['MONOCHORD_SEED'];
  if (only !== undefined) {
    yield Number(only);
    return;
  }
  const base = [...property.name].reduce((hash, c) => (hash * 31 + c.charCodeAt(0)) | 0, 7);
  const random = new Random(base);
  const cases = property.cases * Number(process.env['MONOCHORD_CASES'] ?? 1);
  for (let i = 0; i < cases; i++) yield random.seed();
}

/** The command that repeats one case of a property. */
export function repeatCommand(name: string, seed: number): string {
  return `npm run property -- ${JSON.stringify(name)} --seed ${seed}`;
}

/** Runs the cases of a property; the first failure is thrown with its seed and command. */
export async function runProperty(property: Property): Promise<void> {
  for (const seed of seedsOf(property)) {
    try {
      await property.run(seed);
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      const repeat = repeatCommand(property.name, seed);
      throw new Error(`${property.name}: seed ${seed}: ${reason}\nrepeat: ${repeat}`, { cause });
    }
  }
}

/** Whether the canary of a property fails, as it must. */
export async function canaryFails(property: Property): Promise<boolean> {
  for (const seed of seedsOf(property)) {
    try {
      await property.canary(seed);
    } catch {
      return true;
    }
  }
  return false;
}

/** Registers a property and its canary as tests of the file that calls it. */
export function defineProperty(property: Property): void {
  if (registry.has(property.name)) throw new Error(`two properties named ${property.name}`);
  registry.set(property.name, property);
  // More cases than usual are run from the command line, which sets no limit.
  const timeoutMs = process.env['MONOCHORD_CASES'] === undefined ? property.timeoutMs : undefined;
  test(`property: ${property.name}`, () => runProperty(property), timeoutMs);
  if (process.env['MONOCHORD_SEED'] === undefined)
    test(`canary: ${property.name}`, async () => {
      const fails = await canaryFails(property);
      expect(fails, 'the canary passed: the property checks nothing').toBe(true);
    });
}
