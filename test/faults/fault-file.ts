/**
 * The fault disk: a `FileSystem` over memory that loses power, fails and fills up, all from one
 * seed. The same seed and the same calls give the same outcome.
 *
 * Contents of files: see `fault-node.ts`. Names of files are changes too: creating, removing,
 * renaming and linking are unsynced until `syncFolder`; a power loss keeps those up to a moment,
 * or, more rarely, any of them. Syncing a new file does not make its name durable, so a file that
 * was synced may vanish with its name (conservative: some file systems promise more).
 *
 * Ways out of a running process:
 *
 *   crash(seed?)  power loss: answers the disk that survives; may be asked again with other seeds
 *   kill()        the process dies, the machine does not: everything written is still seen, and
 *                 what was unsynced still is
 *   crashAfter(n) the n-th counted operation from now (write, sync, truncate, create, rename,
 *                 link, remove, syncFolder) is cut short: it throws `CrashSignal`, and so does
 *                 every call after it
 *
 * Injected failures: `inject`. Reads are short at the end of a file only, as those of a real disk
 * are; the fault `short` stands for a file that somebody else has truncated. `capacityBytes` makes
 * the disk fill up: writes into holes and beyond the end fail with `storage.full`, part written.
 */
import { failure } from '../../src/errors.ts';
import { assert } from '../../src/base/assert.ts';
import { Random } from '../../src/base/random.ts';
import type { File, FileSystem, Lock, OpenMode } from '../../src/storage/file.ts';
import { FaultNode, Image, type Weather } from './fault-node.ts';

/** Thrown where power is lost; not a `DatabaseError`, so that nothing takes it for a failure. */
export class CrashSignal extends Error {
  constructor() {
    super('power lost');
    this.name = 'CrashSignal';
  }
}

/** Operations that `crashAfter` counts; `read` is counted in `counts` only. */
export type Operation =
  'write' | 'sync' | 'truncate' | 'create' | 'rename' | 'link' | 'remove' | 'syncFolder';

/** A failure to inject: strikes the matching operations from the `at`-th on, `times` times. */
export interface Fault {
  readonly operation: Operation | 'read';
  /**
   * `io`: fails with `storage.io` (a failed sync keeps or loses what was unsynced, for good);
   * `full`: fails with `storage.full`; `permission`: fails with `storage.permission`. A write that
   * fails has written part of its bytes. `short`: a read answers fewer bytes than there are.
   */
  readonly kind: 'io' | 'full' | 'permission' | 'short';
  /** End of the path that it concerns; all files if left out. */
  readonly pathEnd?: string;
  /** Strikes first at this matching operation from now: 1 is the next. Default 1. */
  readonly at?: number;
  /** How often it strikes; Infinity for good. Default 1. */
  readonly times?: number;
}

/** What was asked of one file. */
export interface FileCounts {
  reads: number;
  writes: number;
  syncs: number;
  truncates: number;
  bytesRead: number;
  bytesWritten: number;
}

export interface FaultOptions {
  readonly seed: number;
  readonly capacityBytes?: number;
  /** Whether `link` works; default true. */
  readonly links?: boolean;
  /** Called at every counted operation before it is carried out, for traces. */
  readonly onOperation?: (operation: Operation, path: string) => void;
}

/** A change of names: `node` undefined removes the name. */
interface NameChange {
  readonly sequence: number;
  readonly folder: string;
  readonly names: readonly (readonly [path: string, node: FaultNode | undefined])[];
}

interface ArmedFault extends Fault {
  matchesLeft: number;
  strikesLeft: number;
}

export class FaultFileSystem implements FileSystem {
  readonly options: FaultOptions;
  capacityBytes: number;
  readonly #random: Random;
  #names = new Map<string, FaultNode>();
  #durableNames = new Map<string, FaultNode>();
  #nameChanges: NameChange[] = [];
  readonly #locks = new Map<string, FaultLock>();
  readonly #counts = new Map<string, FileCounts>();
  #faults: ArmedFault[] = [];
  #folderSyncs = 0;
  #sequence = 0;
  #crashAt = Infinity;
  #crashed = false;

  constructor(options: FaultOptions) {
    this.options = options;
    this.capacityBytes = options.capacityBytes ?? Infinity;
    this.#random = new Random(options.seed);
  }

  // ---- what tests ask ----

  /** Counted operations so far. */
  get operationCount(): number {
    return this.#sequence;
  }

  get folderSyncCount(): number {
    return this.#folderSyncs;
  }

  /** Whether power was lost; every call throws `CrashSignal` then. */
  get crashed(): boolean {
    return this.#crashed;
  }

  paths(): string[] {
    return [...this.#names.keys()].sort();
  }

  /** Bytes that all files take. */
  get usedBytes(): number {
    let bytes = 0;
    for (const node of new Set(this.#names.values())) bytes += node.allocatedBytes;
    return bytes;
  }

  /** What was asked of the file of that path since it was first opened. */
  counts(path: string): Readonly<FileCounts> {
    return this.#countsOf(path);
  }

  /** Unsynced changes of a file. */
  pendingCount(path: string): number {
    return this.#nodeOf(path).pendingCount;
  }

  /** Whether a power loss may take anything back. */
  get hasUnsynced(): boolean {
    if (this.#nameChanges.length > 0) return true;
    return [...this.#names.values()].some((node) => node.pendingCount > 0);
  }

  /** A copy of what the process sees of a file. */
  image(path: string): Uint8Array {
    return this.#nodeOf(path).live.bytes;
  }

  /** Puts a file there at rest, name and contents durable: for damage and for old files. */
  setImage(path: string, bytes: Uint8Array): void {
    const node = new FaultNode(new Image(bytes));
    this.#names.set(path, node);
    this.#durableNames.set(path, node);
  }

  // ---- faults ----

  inject(fault: Fault): void {
    this.#faults.push({
      ...fault,
      matchesLeft: fault.at ?? 1,
      strikesLeft: fault.times ?? 1,
    });
  }

  /** Takes every injected failure back. */
  clearFaults(): void {
    this.#faults = [];
  }

  /** Loses power inside the n-th counted operation from now; Infinity takes it back. */
  crashAfter(operations: number): void {
    assert(operations >= 1, 'a crash comes at the next operation or later');
    this.#crashAt = this.#sequence + operations;
  }

  /** Loses power now; every later call throws `CrashSignal`. */
  cutPower(): void {
    this.#crashed = true;
  }

  /** The disk as a power loss at this moment leaves it, all durable. Changes nothing here. */
  crash(seed: number = this.#random.seed()): FaultFileSystem {
    const random = new Random(seed);
    const weather = this.#weather(random);
    const survivor = this.#successor(random.seed());
    const nodes = new Map<FaultNode, FaultNode>();
    for (const [path, node] of this.#survivingNames(random, weather)) {
      let copy = nodes.get(node);
      if (copy === undefined)
        nodes.set(node, (copy = new FaultNode(node.survive(random, weather))));
      survivor.#names.set(path, copy);
      survivor.#durableNames.set(path, copy);
    }
    return survivor;
  }

  /** The disk as the death of the process leaves it: nothing written is lost, nothing synced. */
  kill(): FaultFileSystem {
    const survivor = this.#successor(this.#random.seed());
    survivor.#names = this.#names;
    survivor.#durableNames = this.#durableNames;
    survivor.#nameChanges = this.#nameChanges;
    survivor.#sequence = this.#sequence;
    this.#crashed = true;
    return survivor;
  }

  // ---- FileSystem ----

  open(path: string, mode: OpenMode): File {
    this.#mustRun();
    let node = this.#names.get(path);
    if (node === undefined) {
      if (mode !== 'create') throw failure('storage.not_found', `there is no file ${path}`);
      this.#count('create', path);
      node = new FaultNode();
      this.#changeNames(path, [[path, node]]);
      this.#crashHere();
    }
    return new FaultFile(this, path, node, mode !== 'read');
  }

  exists(path: string): boolean {
    this.#mustRun();
    return this.#names.has(path);
  }

  remove(path: string): void {
    this.#mustRun();
    if (!this.#names.has(path)) return;
    this.#count('remove', path);
    this.#changeNames(path, [[path, undefined]]);
    this.#crashHere();
  }

  rename(from: string, to: string): void {
    const node = this.#nodeOf(from);
    this.#count('rename', from);
    this.#changeNames(to, [
      [from, undefined],
      [to, node],
    ]);
    this.#crashHere();
  }

  resolve(path: string): string {
    this.#mustRun();
    return path;
  }

  get processTag(): string {
    return 'fault';
  }

  /** Every process but this one is dead. */
  removeLeft(path: string): void {
    for (const each of this.paths()) if (each.startsWith(`${path}-new-`)) this.remove(each);
  }

  link(existing: string, second: string): boolean {
    const node = this.#nodeOf(existing);
    if (this.options.links === false) return false;
    this.#count('link', existing);
    if (this.#names.has(second)) throw failure('storage.io', `${second} exists already`);
    this.#changeNames(second, [[second, node]]);
    this.#crashHere();
    return true;
  }

  syncFolder(path: string): void {
    this.#count('syncFolder', path);
    this.#crashHere();
    this.#folderSyncs++;
    const folder = folderOf(path);
    for (const change of this.#nameChanges)
      if (change.folder === folder) applyNames(this.#durableNames, change);
    this.#nameChanges = this.#nameChanges.filter((change) => change.folder !== folder);
  }

  lock(path: string): Lock {
    this.#mustRun();
    if (this.#locks.has(path))
      throw failure('storage.locked', `${path} is open for writing in process ${process.pid}`, {
        detail: { path, pid: process.pid },
      });
    const lock = new FaultLock(() => this.#locks.delete(path));
    this.#locks.set(path, lock);
    return lock;
  }

  lockHolder(path: string): number | undefined {
    return this.#locks.has(path) ? process.pid : undefined;
  }

  // ---- called by open files ----

  /** Counts a read, and answers how many of the bytes there are it may give. */
  beginRead(path: string, there: number): number {
    this.#mustRun();
    const counts = this.#countsOf(path);
    counts.reads++;
    const fault = this.#strike('read', path);
    if (fault === 'short') there = this.#random.below(Math.max(1, there));
    else if (fault !== undefined) this.#fail(fault, 'read', path);
    counts.bytesRead += there;
    return there;
  }

  writeTo(path: string, node: FaultNode, bytes: Uint8Array, position: number): void {
    const counts = this.#countsOf(path);
    counts.writes++;
    counts.bytesWritten += bytes.length;
    const fault = this.#begin('write', path);
    const room = Math.max(0, this.capacityBytes - this.#allocatedBytes());
    const full = node.bytesToAllocate(position, bytes.length) > room;
    if (fault === undefined && !full) {
      node.write(bytes, position, this.#sequence);
      this.#crashHere();
      return;
    }
    let part = this.#random.between(0, bytes.length - 1);
    if (full) while (node.bytesToAllocate(position, part) > room) part >>= 1;
    if (part > 0) node.write(bytes.subarray(0, part), position, this.#sequence);
    this.#crashHere();
    this.#fail(fault ?? 'full', 'write', path);
  }

  truncateTo(path: string, node: FaultNode, length: number): void {
    this.#countsOf(path).truncates++;
    this.#count('truncate', path);
    node.truncate(length, this.#sequence);
    this.#crashHere();
  }

  syncOf(path: string, node: FaultNode): void {
    this.#countsOf(path).syncs++;
    const fault = this.#begin('sync', path);
    this.#crashHere();
    if (fault !== undefined) {
      node.failSync(this.#random, this.#weather(this.#random));
      this.#fail(fault, 'sync', path);
    }
    node.sync();
  }

  // ---- inside ----

  #successor(seed: number): FaultFileSystem {
    return new FaultFileSystem({ ...this.options, seed, capacityBytes: this.capacityBytes });
  }

  #mustRun(): void {
    if (this.#crashed) throw new CrashSignal();
  }

  /** Starts a counted operation; answers the failure that strikes it. */
  #begin(operation: Operation, path: string): Fault['kind'] | undefined {
    this.#mustRun();
    this.#sequence++;
    this.options.onOperation?.(operation, path);
    return this.#strike(operation, path);
  }

  /** Starts a counted operation that has no half: an injected failure comes before it. */
  #count(operation: Operation, path: string): void {
    const fault = this.#begin(operation, path);
    if (fault !== undefined) this.#fail(fault, operation, path);
  }

  /** Loses power if it is time, with the operation that was begun not finished for sure. */
  #crashHere(): void {
    if (this.#sequence < this.#crashAt) return;
    this.#crashed = true;
    throw new CrashSignal();
  }

  #strike(operation: Operation | 'read', path: string): Fault['kind'] | undefined {
    let struck: Fault['kind'] | undefined;
    for (const fault of this.#faults) {
      if (fault.operation !== operation || !path.endsWith(fault.pathEnd ?? '')) continue;
      if (fault.matchesLeft > 1) fault.matchesLeft--;
      else if (fault.strikesLeft > 0 && struck === undefined) {
        fault.strikesLeft--;
        struck = fault.kind;
      }
    }
    return struck;
  }

  #fail(kind: Fault['kind'], operation: Operation | 'read', path: string): never {
    const detail = { path, operation, injected: true };
    if (kind === 'full') throw failure('storage.full', `no space left for ${path}`, { detail });
    const code = kind === 'permission' ? 'storage.permission' : 'storage.io';
    throw failure(code, `${operation} of ${path} failed (injected)`, { detail });
  }

  #allocatedBytes(): number {
    return this.capacityBytes === Infinity ? 0 : this.usedBytes;
  }

  #nodeOf(path: string): FaultNode {
    this.#mustRun();
    const node = this.#names.get(path);
    if (node === undefined) throw failure('storage.not_found', `there is no file ${path}`);
    return node;
  }

  #countsOf(path: string): FileCounts {
    let counts = this.#counts.get(path);
    if (counts === undefined) {
      counts = { reads: 0, writes: 0, syncs: 0, truncates: 0, bytesRead: 0, bytesWritten: 0 };
      this.#counts.set(path, counts);
    }
    return counts;
  }

  #changeNames(path: string, names: NameChange['names']): void {
    const change = { sequence: this.#sequence, folder: folderOf(path), names };
    applyNames(this.#names, change);
    this.#nameChanges.push(change);
  }

  #weather(random: Random): Weather {
    const kind = random.pick(['kept', 'lost', 'moment', 'writes', 'writes', 'sectors'] as const);
    if (kind !== 'moment') return { kind };
    // The recent past: unsynced changes are seldom older.
    const age = random.below(1 + random.below(64));
    return { kind, sequence: Math.max(0, this.#sequence - age) };
  }

  #survivingNames(random: Random, weather: Weather): Map<string, FaultNode> {
    const names = new Map(this.#durableNames);
    const any = weather.kind === 'sectors' && random.chance(0.5);
    let until = this.#nameChanges[random.below(this.#nameChanges.length)]?.sequence ?? 0;
    if (weather.kind === 'kept') until = Infinity;
    if (weather.kind === 'lost') until = 0;
    if (weather.kind === 'moment') until = weather.sequence;
    for (const change of this.#nameChanges)
      if (any ? random.chance(0.5) : change.sequence <= until) applyNames(names, change);
    return names;
  }
}

function folderOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/') + 1);
}

function applyNames(names: Map<string, FaultNode>, change: NameChange): void {
  for (const [path, node] of change.names)
    if (node === undefined) names.delete(path);
    else names.set(path, node);
}

class FaultLock implements Lock {
  readonly #release: () => void;

  constructor(release: () => void) {
    this.#release = release;
  }

  release(): void {
    this.#release();
  }
}

class FaultFile implements File {
  readonly #disk: FaultFileSystem;
  readonly #path: string;
  readonly #node: FaultNode;
  readonly #writable: boolean;
  #open = true;

  constructor(disk: FaultFileSystem, path: string, node: FaultNode, writable: boolean) {
    this.#disk = disk;
    this.#path = path;
    this.#node = node;
    this.#writable = writable;
  }

  read(target: Uint8Array, targetOffset: number, length: number, position: number): number {
    assert(this.#open, 'a file is read while it is open');
    assert(targetOffset + length <= target.length, 'a read fits its target');
    const live = this.#node.live;
    const there = Math.max(0, Math.min(length, live.length - position));
    const count = this.#disk.beginRead(this.#path, there);
    live.read(target, targetOffset, count, position);
    return count;
  }

  write(source: Uint8Array, sourceOffset: number, length: number, position: number): void {
    this.#mustWrite();
    assert(sourceOffset + length <= source.length, 'a write lies in its source');
    if (length === 0) return;
    const bytes = source.subarray(sourceOffset, sourceOffset + length);
    this.#disk.writeTo(this.#path, this.#node, bytes, position);
  }

  sync(): void {
    this.#mustWrite();
    this.#disk.syncOf(this.#path, this.#node);
  }

  truncate(length: number): void {
    this.#mustWrite();
    this.#disk.truncateTo(this.#path, this.#node, length);
  }

  size(): number {
    assert(this.#open, 'a file is asked while it is open');
    return this.#node.live.length;
  }

  close(): void {
    this.#open = false;
  }

  #mustWrite(): void {
    assert(this.#open && this.#writable, 'a file is written while it is open for writing');
  }
}
