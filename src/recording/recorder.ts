/**
 * Writes the trace of one open database, buffered. A trace is never worth the store: when its disk
 * is full or its size reached, recording stops, says so once, and the store goes on.
 *
 *   recording ── the file cannot be written, or is as large as it may be ──> stopped
 *             ── close ──> closed
 *
 * Line 6 of the strata.
 */
import * as fs from 'node:fs';
import * as path from 'node:path';
import { parseSize } from '../base/sizes.ts';
import { failure } from '../errors.ts';
import { TRACE_BUFFER_BYTES, TRACE_BYTES_DEFAULT } from '../limits.ts';
import { Mask } from './mask.ts';
import {
  encoded,
  type TracedCollection,
  type TraceHeader,
  type TraceLine,
} from './trace-format.ts';

/** What `record` of `open` takes; a text is the file. */
export interface RecordOptions {
  /** The trace; an existing one is gone on with. */
  readonly file: string;
  /**
   * `'plain'`, the default, or `'hash'`: texts and bytes become keyed hashes that keep equality,
   * length and common beginnings; the key is in `<file>.key`, which `tune` needs.
   */
  readonly values?: 'plain' | 'hash';
  /** Size at which recording stops; default 1 GiB. */
  readonly size?: number | string;
}

/** How far a recording is. */
export interface RecordingReport {
  readonly file: string;
  readonly operations: number;
  /** Bytes written, those that wait in memory included. */
  readonly bytes: number;
  /** Calls that a trace has no line for, by method: `{ 'Query.explain': 2 }`. */
  readonly skipped: Readonly<Record<string, number>>;
  /** Calls that failed: they changed nothing, and a trace has no line for them. */
  readonly failed: number;
  /** Why recording ended before the database was closed. */
  readonly stopped: string | undefined;
}

/** What the recorder asks of its database. */
export interface RecordedStore {
  header(): Omit<TraceHeader, 'trace' | 'values' | 'keyCheck'>;
  /** A collection as it is now. */
  collection(name: string): TracedCollection | undefined;
}

const FIELDS = ['file', 'values', 'size'];
const NEWLINE = 10;

/** The options with everything decided. @throws {UsageError} usage.argument */
export function recordSettings(given: string | RecordOptions): Required<RecordOptions> & {
  readonly size: number;
} {
  const options = typeof given === 'string' ? { file: given } : given;
  const refuse = (what: string): Error =>
    failure('usage.argument', `record: ${what}`, {
      hint: "Write: record: 'trace.jsonl', or record: { file: 'trace.jsonl', values: 'hash' }.",
    });
  if (typeof options !== 'object' || options === null) throw refuse('is no file and no options');
  const unknown = Object.keys(options).find((name) => !FIELDS.includes(name));
  if (unknown !== undefined) throw refuse(`${unknown} is not one of ${FIELDS.join(', ')}`);
  const { file, values = 'plain', size = TRACE_BYTES_DEFAULT } = options as RecordOptions;
  if (typeof file !== 'string' || file === '') throw refuse('names no file');
  if (values !== 'plain' && values !== 'hash') {
    throw refuse(`values ${String(values)} is not plain or hash`);
  }
  return { file, values, size: parseSize('record.size', size) };
}

export class Recorder {
  readonly mask: Mask | undefined;
  readonly #file: string;
  readonly #store: RecordedStore;
  readonly #bytesMax: number;
  readonly #known = new Set<string>();
  readonly #skipped: Record<string, number> = {};
  #fd: number | undefined;
  #waiting = '';
  #bytes = 0;
  #operations = 0;
  #failed = 0;
  #stopped: string | undefined;
  /** Ids of transactions and snapshots. */
  #ids = 0;

  /** @throws {UsageError, StorageError} when the file cannot be opened: nothing is recorded yet. */
  constructor(options: string | RecordOptions, store: RecordedStore) {
    const { file, values, size } = recordSettings(options);
    this.#file = file;
    this.#store = store;
    this.#bytesMax = size;
    try {
      if (values === 'hash') this.mask = new Mask(keyOf(`${file}.key`));
      this.#fd = fs.openSync(file, 'a');
      if (isCutOff(file)) this.#waiting = '\n';
    } catch (cause) {
      throw failure('storage.io', `the trace ${file} cannot be opened: ${messageOf(cause)}`, {
        cause,
        detail: { path: file },
      });
    }
    const header = store.header();
    for (const { name } of header.collections) this.#known.add(name);
    const check = this.mask === undefined ? {} : { keyCheck: this.mask.check };
    this.#add(JSON.stringify({ trace: 1, ...header, values, ...check }));
    this.flush();
  }

  get report(): RecordingReport {
    return {
      file: this.#file,
      operations: this.#operations,
      bytes: this.#bytes + this.#waiting.length,
      skipped: { ...this.#skipped },
      failed: this.#failed,
      stopped: this.#stopped,
    };
  }

  newId(): number {
    return ++this.#ids;
  }

  /** Adds a line. */
  note(line: TraceLine): void {
    if (this.#fd === undefined) return;
    try {
      if (line.on !== undefined && !this.#known.has(line.on)) this.#introduce(line.on);
      this.#operations++;
      this.#add(JSON.stringify(line));
    } catch (cause) {
      this.#stop(messageOf(cause)); // such as a value that is none: never the caller's fault
    }
  }

  /** Describes a collection that was made since the header. */
  #introduce(name: string): void {
    const schema = this.#store.collection(name);
    if (schema === undefined) return; // it is made by the first write: the next line tells
    this.#known.add(name);
    this.#add(JSON.stringify({ op: 'schema', on: name, schema: { ...schema, count: 0 } }));
  }

  /** The values of a call as JSON, masked if that was asked for. */
  values(args: readonly unknown[]): unknown[] {
    return args.map((each) => encoded(this.mask === undefined ? each : this.mask.value(each)));
  }

  conditions(args: readonly unknown[]): unknown[] {
    if (this.mask === undefined) return args.map(encoded);
    if (args.length === 3) return (this.mask.condition(args) as unknown[]).map(encoded);
    return args.map((each) => encoded(this.mask!.condition(each)));
  }

  ranges(args: readonly unknown[]): unknown[] {
    return args.map((each) => encoded(this.mask === undefined ? each : this.mask.range(each)));
  }

  skip(method: string): void {
    this.#skipped[method] = (this.#skipped[method] ?? 0) + 1;
  }

  fail(): void {
    this.#failed++;
  }

  #add(text: string): void {
    this.#waiting += `${text}\n`;
    if (this.#waiting.length < TRACE_BUFFER_BYTES) return;
    this.flush();
    if (this.#bytes >= this.#bytesMax) this.#stop(`it reached its size of ${this.#bytesMax} bytes`);
  }

  /** Writes what waits. */
  flush(): void {
    if (this.#fd === undefined || this.#waiting === '') return;
    const bytes = Buffer.from(this.#waiting);
    this.#waiting = '';
    try {
      for (let at = 0; at < bytes.length;) at += fs.writeSync(this.#fd, bytes, at);
      this.#bytes += bytes.length;
    } catch (cause) {
      this.#stop(messageOf(cause));
    }
  }

  #stop(why: string): void {
    this.#waiting = '';
    this.#stopped = why;
    this.#release();
    process.emitWarning(`recording to ${this.#file} stopped: ${why}`, 'MonochordRecording');
  }

  #release(): void {
    if (this.#fd === undefined) return;
    const fd = this.#fd;
    this.#fd = undefined;
    try {
      fs.closeSync(fd);
    } catch {
      return; // what could be written is; the store must not hear of it
    }
  }

  close(): void {
    this.flush();
    this.#release();
  }
}

function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}

/** Whether a file ends within a line: its last process was killed. */
function isCutOff(file: string): boolean {
  const { size } = fs.statSync(file);
  if (size === 0) return false;
  const fd = fs.openSync(file, 'r');
  const last = new Uint8Array(1);
  fs.readSync(fd, last, 0, 1, size - 1);
  fs.closeSync(fd);
  return last[0] !== NEWLINE;
}

/** The key of hashes, made the first time; only its owner may read it. */
function keyOf(file: string): Uint8Array {
  if (!fs.existsSync(file)) {
    const { randomBytes } = process.getBuiltinModule('node:crypto');
    fs.writeFileSync(file, `${randomBytes(32).toString('hex')}\n`, { mode: 0o600 });
  }
  return readKey(file);
}

/** @throws {UsageError} usage.trace for a file that is no key. */
export function readKey(file: string): Uint8Array {
  const text = fs.readFileSync(file, 'utf8').trim();
  if (/^[0-9a-f]{64}$/.test(text)) return new Uint8Array(Buffer.from(text, 'hex'));
  throw failure('usage.trace', `${path.basename(file)} is not the key of a trace`);
}
