/**
 * The reference model of the simulation: sorted maps, snapshots as copies, and the list of commits
 * with what is promised of each.
 *
 *   base --commit--> --commit--> durable --commit--> --commit--> head --(in doubt)-->
 *
 * `durable` is the newest commit that a crash must not take back. A crash may leave the state
 * after any commit from there on; also the one in doubt, which was under way or whose failure
 * left its outcome unknown. It never leaves anything else (laws S2, T2, T4).
 */
import type { CollectionKind, Level, SystemReads, SystemRecord } from './system.ts';

export interface CollectionState {
  readonly kind: CollectionKind;
  indexed: boolean;
  readonly records: Map<number, SystemRecord>;
}

export type State = Map<string, CollectionState>;

export function copyOf(state: State): State {
  const copy: State = new Map();
  for (const [name, each] of state)
    copy.set(name, { kind: each.kind, indexed: each.indexed, records: new Map(each.records) });
  return copy;
}

/** A change that a transaction made; applying those of a commit in order gives its state. */
export type Change =
  | { kind: 'put'; collection: string; key: number; record: SystemRecord }
  | { kind: 'delete'; collection: string; key: number }
  | { kind: 'createCollection'; collection: string; of: CollectionKind }
  | { kind: 'dropCollection'; collection: string }
  | { kind: 'index'; collection: string; indexed: boolean };

export function applyChange(state: State, change: Change): void {
  switch (change.kind) {
    case 'put':
      state.get(change.collection)!.records.set(change.key, change.record);
      return;
    case 'delete':
      state.get(change.collection)!.records.delete(change.key);
      return;
    case 'createCollection':
      state.set(change.collection, { kind: change.of, indexed: false, records: new Map() });
      return;
    case 'dropCollection':
      state.delete(change.collection);
      return;
    case 'index':
      state.get(change.collection)!.indexed = change.indexed;
      return;
  }
}

interface Commit {
  readonly level: Level;
  readonly changes: readonly Change[];
}

export class Model {
  /** State after the last commit that a crash must not take back, and the commits after it. */
  #durable: State = new Map();
  #commits: Commit[] = [];
  #inDoubt: Commit | undefined;
  /** State after every commit, and its copy with the changes of the open transaction. */
  head: State = new Map();
  #open: State | undefined;
  #changes: Change[] = [];
  /** Commits so far. */
  commitCount = 0;
  /** Commits that crashes took back. */
  takenBackCount = 0;
  /** For each savepoint, the count of changes before it. */
  #savepoints: number[] = [];

  /** What reads see now. */
  get seen(): State {
    return this.#open ?? this.head;
  }

  get inTransaction(): boolean {
    return this.#open !== undefined;
  }

  get savepointCount(): number {
    return this.#savepoints.length;
  }

  /** Commits that a crash may take back. */
  get commitsAtRisk(): number {
    return this.#commits.length;
  }

  begin(): void {
    this.#open = copyOf(this.head);
    this.#changes = [];
    this.#savepoints = [];
  }

  change(change: Change): void {
    applyChange(this.#open!, change);
    this.#changes.push(change);
  }

  savepoint(): void {
    this.#savepoints.push(this.#changes.length);
  }

  rollbackTo(savepoint: number): void {
    this.#changes.length = this.#savepoints[savepoint - 1]!;
    this.#savepoints.length = savepoint - 1;
    this.#open = copyOf(this.head);
    for (const change of this.#changes) applyChange(this.#open, change);
  }

  rollback(): void {
    this.#open = undefined;
    this.#inDoubt = undefined;
  }

  /** The open transaction is being committed: from now to `committed` it is in doubt. */
  committing(level: Level): void {
    this.#inDoubt = { level, changes: this.#changes };
  }

  committed(): void {
    const commit = this.#inDoubt!;
    this.#inDoubt = undefined;
    this.head = this.#open!;
    this.#open = undefined;
    this.#commits.push(commit);
    this.commitCount++;
    // A sync covers all commits before it, whatever their level (STORAGE rule 9).
    if (commit.level === 'full') this.synced();
  }

  /** Every commit so far is durable. */
  synced(): void {
    this.durableExcept(0);
  }

  /** Every commit but the last `count` ones is durable. */
  durableExcept(count: number): void {
    for (const commit of this.#commits.splice(0, Math.max(0, this.#commits.length - count)))
      for (const change of commit.changes) applyChange(this.#durable, change);
  }

  /** The delay passed: commits up to the last one that syncs by itself are durable. */
  elapsed(): void {
    const last = this.#commits.findLastIndex((commit) => commit.level !== 'none');
    this.durableExcept(this.#commits.length - 1 - last);
  }

  /**
   * Takes what a system holds after a crash for the newest state, if it is one that the crash may
   * leave; answers what is wrong otherwise. What a reopened system shows is durable: recovery ends
   * in a checkpoint.
   */
  recover(system: SystemReads): string | undefined {
    const match = this.#match(system);
    if (typeof match === 'string') return match;
    const { state, kept } = match;
    this.takenBackCount += Math.max(0, this.#commits.length - kept);
    this.#durable = state;
    this.head = copyOf(state);
    this.#commits = [];
    this.#inDoubt = undefined;
    this.#open = undefined;
    return undefined;
  }

  /** As `recover`, but the crash did not happen: only answers what is wrong. */
  allows(system: SystemReads): string | undefined {
    const match = this.#match(system);
    return typeof match === 'string' ? match : undefined;
  }

  /** The state that a system shows and after how many commits it is; a sentence if none has it. */
  #match(system: SystemReads): { state: State; kept: number } | string {
    const found = readState(system);
    if (typeof found === 'string') return found;
    const commits = this.#inDoubt ? [...this.#commits, this.#inDoubt] : this.#commits;
    const state = copyOf(this.#durable);
    const oldest = difference(state, found);
    let matched = oldest === undefined;
    let kept = 0;
    while (!matched && kept < commits.length) {
      for (const change of commits[kept++]!.changes) applyChange(state, change);
      matched = difference(state, found) === undefined;
    }
    if (!matched)
      return `recovered state is none of ${commits.length + 1} allowed ones; from the oldest, the \
durable one: ${oldest}; from the newest: ${difference(state, found)}`;
    return { state, kept };
  }
}

/** Reads everything a system holds; a sentence if its scans are out of order or disagree. */
export function readState(reads: SystemReads): State | string {
  const state: State = new Map();
  for (const { name, kind, indexed } of reads.collections()) {
    const records = new Map<number, SystemRecord>();
    let before = -Infinity;
    for (const [key, record] of reads.scan(name)) {
      if (!(key > before)) return `scan of ${name} gives key ${key} after ${before}`;
      records.set((before = key), record);
    }
    state.set(name, { kind, indexed, records });
    const fault = indexed ? indexFault(reads, name, records) : undefined;
    if (fault !== undefined) return fault;
  }
  return state;
}

/** Law T1: every entry names one live record, and every live record has its entry. */
function indexFault(
  reads: SystemReads,
  name: string,
  records: ReadonlyMap<number, SystemRecord>,
): string | undefined {
  let count = 0;
  let beforeMark = -Infinity;
  let beforeKey = -Infinity;
  for (const [mark, key] of reads.scanIndex(name)) {
    const inOrder = mark > beforeMark || (mark === beforeMark && key > beforeKey);
    if (!inOrder) return `index of ${name} gives ${mark},${key} after ${beforeMark},${beforeKey}`;
    if (records.get(key)?.mark !== mark)
      return `index of ${name} gives mark ${mark} for key ${key}: ${show(records.get(key))}`;
    count++;
    [beforeMark, beforeKey] = [mark, key];
  }
  if (count === records.size) return undefined;
  return `index of ${name} has ${count} entries for ${records.size} records`;
}

/** Says in what a state differs from the expected one; `undefined` if in nothing. */
export function difference(expected: State, found: State): string | undefined {
  for (const name of found.keys())
    if (!expected.has(name)) return `collection ${name} is there and should not be`;
  for (const [name, want] of expected) {
    const have = found.get(name);
    if (have === undefined) return `collection ${name} is missing`;
    if (have.kind !== want.kind) return `collection ${name} is of kind ${have.kind}`;
    if (have.indexed !== want.indexed) return `index of ${name}: ${have.indexed}`;
    for (const [key, record] of want.records)
      if (!isSame(record, have.records.get(key)))
        return `${name} ${key}: ${show(have.records.get(key))}, expected ${show(record)}`;
    if (have.records.size === want.records.size) continue;
    const extra = [...have.records.keys()].find((key) => !want.records.has(key));
    return `${name} ${extra}: there and should not be`;
  }
  return undefined;
}

export function isSame(a: SystemRecord | undefined, b: SystemRecord | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return a.mark === b.mark && Buffer.compare(a.body, b.body) === 0;
}

export function show(record: SystemRecord | undefined): string {
  if (record === undefined) return 'no record';
  const bytes = Buffer.from(record.body.subarray(0, 6)).toString('hex');
  return `mark ${record.mark}, ${record.body.length} bytes ${bytes}`;
}
