/**
 * What commands print and how they end: results on standard output as text or JSON, progress on
 * standard error when that is a terminal, errors as one line with code and hint.
 *
 *   exit code   meaning
 *       0       done
 *       1       failed: the error has a code, such as storage.locked
 *       2       used wrongly: arguments, options, names, layouts
 *       3       check found faults
 *       4       tune --check: worse than the baseline
 *       5       tune: no layout meets the objective
 *     130       interrupted; what is finished is kept
 *
 * Line 9 of the strata.
 */
import Table from 'cli-table3';
import { DatabaseError, SchemaError, UsageError } from '../errors.ts';

export const EXIT = { done: 0, failed: 1, usage: 2, faults: 3, worse: 4, unmet: 5, stopped: 130 };

/** Options that every command has. */
export interface CommonOptions {
  readonly json?: boolean;
}

/** Prints a result: as JSON when that was asked for, else as text. */
export function print(options: CommonOptions, result: unknown, text: () => string): void {
  const shown = options.json === true ? JSON.stringify(result, jsonValue, 2) : text();
  process.stdout.write(`${shown}\n`);
}

/** Values that JSON does not have: big integers as text, bytes as base64 in a map. */
function jsonValue(_key: string, value: unknown): unknown {
  if (typeof value === 'bigint') return value.toString();
  if (value instanceof Uint8Array) return { base64: Buffer.from(value).toString('base64') };
  return value;
}

/** One value on one line. */
export function oneLine(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value, jsonValue);
}

/** A table without vertical lines; the first column is text, the others are numbers. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const made = new Table({
    head: [...head],
    colAligns: head.map((_, i) => (i === 0 ? 'left' : 'right')),
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 2 },
    chars: {
      top: '',
      'top-mid': '',
      'top-left': '',
      'top-right': '',
      bottom: '',
      'bottom-mid': '',
      'bottom-left': '',
      'bottom-right': '',
      left: '',
      'left-mid': '',
      mid: '',
      'mid-mid': '',
      right: '',
      'right-mid': '',
      middle: '',
    },
  });
  made.push(...rows.map((row) => [...row]));
  return made.toString().replace(/[ \t]+$/gm, '');
}

/** Text in lines of at most `columns` characters, the second and later ones indented. */
export function wrap(text: string, columns = 100, indent = '  '): string {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(/\s+/)) {
    if (line !== '' && line.length + 1 + word.length > columns) {
      lines.push(line);
      line = indent;
    }
    line += line === '' || line === indent ? word : ` ${word}`;
  }
  return [...lines, line].join('\n');
}

const PROGRESS_EVERY_MS = 100;

/** A line of progress that is written over itself. */
export class Progress {
  #last = 0;
  #isShown = false;

  show(text: string): void {
    if (!process.stderr.isTTY || performance.now() - this.#last < PROGRESS_EVERY_MS) return;
    this.#last = performance.now();
    this.#isShown = true;
    const columns = process.stderr.columns ?? 80;
    process.stderr.write(`\r\x1b[K${text.slice(0, columns - 1)}`);
  }

  end(): void {
    if (this.#isShown) process.stderr.write('\r\x1b[K');
    this.#isShown = false;
  }
}

/** Says what went wrong; answers the exit code. */
export function explain(cause: unknown, options: CommonOptions): number {
  if (!(cause instanceof DatabaseError)) {
    process.stderr.write(`monochord: ${cause instanceof Error ? cause.stack : String(cause)}\n`);
    return EXIT.failed;
  }
  const { code, message, hint } = cause;
  if (options.json === true) {
    process.stdout.write(`${JSON.stringify({ error: { code, message, hint } }, jsonValue, 2)}\n`);
  } else {
    process.stderr.write(`monochord: ${message} [${code}]\n`);
    if (hint !== undefined) process.stderr.write(`  ${hint}\n`);
  }
  if (code === 'limit.cancelled') return EXIT.stopped;
  return cause instanceof UsageError || cause instanceof SchemaError ? EXIT.usage : EXIT.failed;
}

/** A signal that Ctrl-C aborts; a second Ctrl-C ends the process at once. */
export function interruptSignal(): AbortSignal {
  const controller = new AbortController();
  process.once('SIGINT', () => controller.abort());
  process.once('SIGTERM', () => controller.abort());
  return controller.signal;
}

export function bytesText(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  if (bytes < 10 * 2 ** 20) return `${(bytes / 1024).toFixed(1)} KiB`;
  return `${(bytes / 2 ** 20).toFixed(1)} MiB`;
}
