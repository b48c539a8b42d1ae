/**
 * A trace as a workload. Before anything is measured it is run once on a copy of the store in
 * today's layout, which gives the answers that every layout must give, drops what the store as it
 * is now refuses, and ends where a run has become long enough. What is left is the replay: a file
 * that workers load.
 *
 *   trace + store ── prepareReplay ──> replay file ── replayWorkload ──> phases, in every worker
 *
 * Line 7 of the strata.
 */
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { Database } from '../database.ts';
import { DatabaseError, failure } from '../errors.ts';
import { Mask } from '../recording/mask.ts';
import { readKey } from '../recording/recorder.ts';
import {
  readTrace,
  type Trace,
  type TracedCollection,
  type TraceHeader,
  type TraceLine,
} from '../recording/trace-format.ts';
import { headerOf, tracedCollections } from '../recording/traced-store.ts';
import { readMarker } from '../rebuild/rebuild-marker.ts';
import { IndexAdvice } from './index-advice.ts';
import { maskedCopy } from './masked-copy.ts';
import { operationOf, Replay, REPLAY_PHASES, type Answer, type Operation } from './replay.ts';
import { WrongResult } from './wrong-result.ts';
import type { CandidateInput, Workload } from './workload.ts';

/**
 * Milliseconds of CPU time of the first run at which a replay ends: there are many runs, which are
 * several times faster than this one, in a process that is not warm.
 */
const RUN_MS_MAX = 3000;
const LOOK_EVERY = 16;
/** Differences in what a replay counts are shown up to so many. */
const NAMES_MAX = 5;

export interface PreparedReplay {
  /** The replay, for `loadWorkload`. */
  readonly file: string;
  /** The store that runs begin with: the one given, or its copy with hashed values. */
  readonly source: string;
  readonly candidates: readonly CandidateInput[];
  readonly collections: readonly TracedCollection[];
  /** What a reader of the report should know about the replay. */
  readonly notes: readonly string[];
}

interface ReplayHead {
  readonly replay: 1;
  readonly name: string;
  readonly phases: readonly string[];
  readonly operations: number;
  readonly checked: number;
  readonly schemas: readonly TracedCollection[];
  readonly notes: readonly string[];
  readonly candidates: readonly CandidateInput[];
  readonly collections: readonly TracedCollection[];
}

type ReplayLine = TraceLine & { readonly want?: readonly [number, number] };

export interface PrepareSettings {
  readonly trace: string;
  readonly store: string;
  /** Where the replay goes; it is kept there for the next time. */
  readonly folder: string;
  readonly memory: number | string;
}

/** Whether a workload is a trace rather than a module. */
export function isTrace(file: string): boolean {
  return file.endsWith('.jsonl');
}

/**
 * Makes the replay of a trace on a store, or takes the one of before.
 *
 * @throws {UsageError} usage.trace for a trace of another store, naming both, or without its key.
 */
export function prepareReplay(settings: PrepareSettings): PreparedReplay {
  const { store, folder } = settings;
  const trace = readTrace(settings.trace);
  requireSameStore(settings.trace, trace, store);
  fs.mkdirSync(folder, { recursive: true });
  const source = sourceOf(settings, trace);
  const file = path.join(folder, `replay-${keyOf(settings)}.jsonl`);
  if (!fs.existsSync(file)) {
    const text = new Reference(settings, trace, source).run();
    fs.writeFileSync(`${file}.new`, text);
    fs.renameSync(`${file}.new`, file);
  }
  const { candidates, collections, notes } = headOf(file);
  return { file, source, candidates, collections, notes };
}

function keyOf({ trace, store, memory }: PrepareSettings): string {
  const { size, mtimeMs } = fs.statSync(store);
  const hash = createHash('sha256').update(fs.readFileSync(trace));
  return hash
    .update(JSON.stringify([size, mtimeMs, memory]))
    .digest('hex')
    .slice(0, 12);
}

function requireSameStore(file: string, trace: Trace, store: string): void {
  const database = new Database(store, { readOnly: true });
  let own: Omit<TraceHeader, 'trace' | 'values'>;
  let ids: (string | undefined)[];
  try {
    own = headerOf(database);
    ids = [own.fileId, readMarker(database.store.catalog)?.from];
  } finally {
    database.close();
  }
  const other = trace.headers.find((header) => !ids.includes(header.fileId));
  if (other === undefined) return;
  throw failure(
    'usage.trace',
    `${file} was recorded on ${storeText(other)}, not on ${storeText(own)}`,
    { detail: { recordedOn: other.fileId, given: own.fileId } },
  );
}

function storeText({ file, fileId, collections }: Omit<TraceHeader, 'trace' | 'values'>): string {
  const names = collections.slice(0, NAMES_MAX).map(({ name, count }) => `${name} ${count}`);
  const rest = collections.length > NAMES_MAX ? ', …' : '';
  return `${file} (id ${fileId.slice(0, 8)}: ${names.join(', ') || 'empty'}${rest})`;
}

/** What the runs of a replay begin with, where its store is another file by now. */
export function storeOfReplay(trace: string, store: string, folder: string): string {
  return sourceOf({ trace, store, folder }, readTrace(trace));
}

/** The store itself, or its copy whose values are hashed as those of the trace. */
function sourceOf(
  { trace: file, store, folder }: Omit<PrepareSettings, 'memory'>,
  trace: Trace,
): string {
  const hashed = trace.headers.filter((header) => header.values === 'hash');
  if (hashed.length === 0) return store;
  if (hashed.length < trace.headers.length) {
    throw failure('usage.trace', `${file} has plain and hashed values: record it anew`);
  }
  const keyFile = `${file}.key`;
  if (!fs.existsSync(keyFile)) {
    throw failure('usage.trace', `the values of ${file} are hashed, and ${keyFile} is missing`, {
      hint: 'The key was made beside the trace when it was recorded: bring both.',
    });
  }
  const mask = new Mask(readKey(keyFile));
  if (hashed.some((header) => header.keyCheck !== mask.check)) {
    throw failure('usage.trace', `${keyFile} is not the key that ${file} was recorded with`);
  }
  const { size, mtimeMs } = fs.statSync(store);
  const copy = path.join(folder, `hashed-${mask.check}-${size}-${Math.round(mtimeMs)}.mono`);
  if (!fs.existsSync(copy)) maskedCopy(store, copy, mask);
  return copy;
}

/** The first run of a trace, in this process. */
class Reference {
  readonly #settings: PrepareSettings;
  readonly #trace: Trace;
  readonly #source: string;
  readonly #lines: ReplayLine[] = [];
  readonly #phases = new Set<string>(['open', 'close']);
  readonly #dropped: Record<string, number> = {};
  readonly #advice = new IndexAdvice();
  #checked = 0;
  #moved = 0;

  constructor(settings: PrepareSettings, trace: Trace, source: string) {
    this.#settings = settings;
    this.#trace = trace;
    this.#source = source;
  }

  /** The text of the replay. */
  run(): string {
    const copy = path.join(this.#settings.folder, `reference-${process.pid}.mono`);
    fs.copyFileSync(this.#source, copy);
    try {
      return this.#run(copy);
    } finally {
      for (const name of [copy, `${copy}-log`]) fs.rmSync(name, { force: true });
    }
  }

  #run(copy: string): string {
    const schemas = schemasOf(this.#trace);
    const lines = inOrder(this.#trace);
    const open = (): Database => new Database(copy, { memory: this.#settings.memory });
    const replay = new Replay(open, schemas);
    replay.isHashing = true;
    const collections = tracedCollections(replay.database);
    const begun = process.cpuUsage();
    let inTransaction = false;
    let done = 0;
    for (const line of lines) {
      if (!inTransaction && done % LOOK_EVERY === 0 && cpuMsSince(begun) > RUN_MS_MAX) break;
      this.#one(line, replay);
      if (line.op === 'begin') inTransaction = true;
      if (line.op === 'commit' || line.op === 'rollback') inTransaction = false;
      done++;
    }
    replay.close();
    const head: ReplayHead = {
      replay: 1,
      name: `trace of ${this.#trace.headers[0]!.file}`,
      phases: REPLAY_PHASES.filter((name) => this.#phases.has(name)),
      operations: this.#lines.length,
      checked: this.#checked,
      schemas: [...schemas.values()],
      notes: this.#notes(lines.length, done),
      candidates: this.#advice.candidates(collections),
      collections,
    };
    return [head, ...this.#lines].map((line) => `${JSON.stringify(line)}\n`).join('');
  }

  #notes(total: number, done: number): string[] {
    const dropped = Object.entries(this.#dropped).map(([code, count]) => `${count} ${code}`);
    return [
      ...(done < total ? [`the first ${done} of ${total} operations are replayed`] : []),
      ...(this.#trace.isCut ? ['the trace was cut off: its last operation is missing'] : []),
      ...(dropped.length > 0 ? [`left out, refused by the store: ${dropped.join(', ')}`] : []),
      ...(this.#moved > 0
        ? [`${this.#moved} of ${this.#checked} answers count other rows than when recorded`]
        : []),
    ];
  }

  /** Runs a line, and keeps it unless the store refuses it. */
  #one(line: TraceLine, replay: Replay): void {
    const operation = operationOf(line);
    try {
      this.#keep(line, operation, replay.run(operation));
    } catch (cause) {
      if (!(cause instanceof DatabaseError)) throw cause;
      this.#again(line, cause, replay);
      return;
    }
    if (operation.phase !== 'write') this.#advise(operation, replay);
  }

  #advise(operation: Operation, replay: Replay): void {
    if (operation.snap === undefined) this.#advice.see(operation, replay);
  }

  /** An insert of what the store has by now is a put; anything else is left out. */
  #again(line: TraceLine, cause: DatabaseError, replay: Replay): void {
    const isBucket = replay.isBucket(line.on ?? '');
    const other: Readonly<Record<string, string>> = {
      insert: isBucket ? 'put' : 'save',
      insertMany: 'saveMany',
    };
    const op = other[line.op];
    if (op === undefined || cause.code !== 'constraint.unique') return this.#drop(cause);
    const changed = { ...line, op };
    const operation = operationOf(changed);
    try {
      this.#keep(changed, operation, replay.run(operation));
    } catch (second) {
      if (!(second instanceof DatabaseError)) throw second;
      this.#drop(second);
    }
  }

  #drop(cause: DatabaseError): void {
    this.#dropped[cause.code] = (this.#dropped[cause.code] ?? 0) + 1;
  }

  #keep(line: TraceLine, operation: Operation, answer: Answer | undefined): void {
    this.#phases.add(operation.phase);
    if (answer === undefined) {
      this.#lines.push(line);
      return;
    }
    this.#checked++;
    const isCounted = operation.phase !== 'write' && line.found !== undefined;
    if (isCounted && line.found !== answer.rows) this.#moved++;
    this.#lines.push({ ...line, want: [answer.rows, answer.hash] });
  }
}

function cpuMsSince(begun: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(begun);
  return (user + system) / 1000;
}

/** The newest description of every collection. */
function schemasOf({ headers, lines }: Trace): Map<string, TracedCollection> {
  const schemas = new Map<string, TracedCollection>();
  for (const header of headers) {
    for (const each of header.collections) schemas.set(each.name, each);
  }
  for (const { op, schema } of lines) if (op === 'schema') schemas.set(schema!.name, schema!);
  return schemas;
}

/**
 * Lines in an order in which one writer can run them: an asynchronous transaction stands where it
 * was committed, since nothing that others asked before could see it.
 */
function inOrder({ lines }: Trace): TraceLine[] {
  const ordered: TraceLine[] = [];
  const waiting = new Map<number, TraceLine[]>();
  for (const line of lines) {
    if (line.op === 'schema') continue;
    if (line.op === 'reopen') waiting.clear(); // what had not ended then was rolled back
    if (line.tx === undefined) {
      ordered.push(line);
      continue;
    }
    const own = waiting.get(line.tx) ?? [];
    own.push(line);
    waiting.set(line.tx, own);
    if (line.op === 'commit') ordered.push(...own);
    if (line.op === 'commit' || line.op === 'rollback') waiting.delete(line.tx);
  }
  return ordered;
}

function headOf(file: string): ReplayHead {
  const text = fs.readFileSync(file, 'utf8');
  return JSON.parse(text.slice(0, text.indexOf('\n'))) as ReplayHead;
}

/** The workload of a replay file. @throws {UsageError} usage.trace */
export function replayWorkload(file: string): Workload {
  const [first, ...rest] = fs.readFileSync(file, 'utf8').split('\n');
  const head = JSON.parse(first!) as Partial<ReplayHead>;
  if (head.replay !== 1) {
    throw failure('usage.trace', `${file} is a trace: it is replayed on the store it is of`, {
      hint: 'Name the store: monochord tune app.mono --workload trace.jsonl.',
    });
  }
  const { name, phases, operations, checked, schemas } = head as ReplayHead;
  const lines = rest.filter((text) => text !== '').map((text) => JSON.parse(text) as ReplayLine);
  const steps = lines.map((line) => ({ operation: operationOf(line), want: line.want }));
  const byName = new Map(schemas.map((each) => [each.name, each]));
  return {
    name,
    description: `${operations} operations in the order they were recorded`,
    confirmation: `every configuration gave today’s answers to all ${checked} operations`,
    phases: phases.map((each) => ({ name: each })),
    interleave(context, enter) {
      enter('open');
      const replay = new Replay(() => context.open(), byName);
      replay.isHashing = context.isFirstRun;
      try {
        for (const { operation, want } of steps) {
          enter(operation.phase);
          const answer = replay.run(operation);
          if (want !== undefined) requireSame(operation, answer, want, context.isFirstRun);
        }
        enter('close');
      } finally {
        replay.close();
      }
    },
  };
}

function requireSame(
  { op, on, end }: Operation,
  answer: Answer | undefined,
  [rows, hash]: readonly [number, number],
  isHashed: boolean,
): void {
  if (answer?.rows === rows && (!isHashed || answer.hash === hash)) return;
  const what = `${op} ${end} of ${on}`;
  throw new WrongResult(
    answer?.rows === rows ? `${what}: other rows` : `${what}: ${answer?.rows} rows, not ${rows}`,
  );
}
