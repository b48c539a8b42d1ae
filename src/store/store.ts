/**
 * The store: collections, indexes and their schema over trees, in one transaction.
 *
 * This class owns what is shared (trees, counters, versions of the schema) and the order of things
 * at the ends of a transaction:
 *
 *   commit     writes that wait enter trees ─> counters to the catalog ─> pages committed ─> new
 *              schema is everybody's
 *   rollback   pages go back ─> counters and names go back ─> new schema is forgotten ─> trees told
 *
 * `point-access.ts` and `embedded-source.ts` are its two faces to the question side,
 * `schema-changes.ts` changes the schema, `check.ts` checks law T1.
 */
import { Ledger } from '../base/ledger.ts';
import { Collations } from '../model/collation.ts';
import type { TreeLayout as SchemaLayout } from '../model/schema.ts';
import type { WorkSpace } from '../model/work.ts';
import { MemoryFileSystem } from '../storage/memory-file.ts';
import { Tree, type TreeLayout } from '../storage/btree.ts';
import { LATEST, WRITER, type PageId, type StructureId, type View } from '../storage/pages.ts';
import { Catalog } from './catalog.ts';
import { CollectionState } from './collection-state.ts';
import type { ConditionSource } from './constraints.ts';
import { Schema } from './schema.ts';
import type { CommitLevel, StoragePort } from './storage-port.ts';
import { Transaction } from './transaction.ts';
import { LedgerWorkSpace } from './work-space.ts';

export interface StoreOptions {
  readonly collations?: Collations;
  /** Makes functions of the texts of checks. */
  readonly conditions?: ConditionSource;
  readonly ledger?: Ledger;
  /** Makes where sorts of loads and index builds work, at the first; default memory of its own. */
  readonly work?: () => WorkSpace;
}

/** Working memory of a store that was given none, bytes. */
const WORK_BYTES_ALONE = 32 * 1024 * 1024;
/** Versions of the schema that are kept for snapshots older than the last change. */
const OLD_SCHEMAS_KEPT = 8;

export class Store {
  readonly storage: StoragePort;
  readonly catalog: Catalog;
  readonly transaction: Transaction;
  readonly collations: Collations;
  readonly conditions: ConditionSource;
  readonly ledger: Ledger | undefined;
  #work: WorkSpace | undefined;
  readonly #makeWork: () => WorkSpace;
  /** Changes whenever what was resolved by name may have become wrong. */
  epoch = 1;
  /** The commit that last changed the schema in this process, 0 if none did. */
  schemaCommit = 0;
  #latest: Schema;
  #changed: Schema | undefined;
  readonly #old = new Map<View, Schema>();
  readonly #trees = new Map<StructureId, Tree>();
  readonly #states = new Map<StructureId, CollectionState>();
  /** Tokens of savepoints; of each, whether the schema was changed, and how much was dropped. */
  readonly #schemaAt = new Map<number, { isChanged: boolean; dropped: number }>();
  /** Structures that the open transaction dropped. */
  #dropped: StructureId[] = [];
  /** Structures that only views of before have: a number each is kept, and no tree. */
  readonly #gone = new Set<StructureId>();

  /** Lays an empty file out: the catalog. In an open transaction of the storage. */
  static create(storage: StoragePort): void {
    Catalog.create(storage);
  }

  constructor(storage: StoragePort, options: StoreOptions = {}) {
    this.storage = storage;
    this.collations = options.collations ?? new Collations();
    this.conditions = options.conditions ?? (() => undefined);
    this.ledger = options.ledger;
    this.#makeWork = options.work ?? workAlone;
    this.transaction = new Transaction(storage, () => this.work, options.ledger);
    this.catalog = new Catalog(
      storage,
      () => this.transaction.isOpen,
      () => storage.nextPage === 1,
    );
    this.#latest = new Schema(this);
    this.ledger?.addReclaimer(() => this.#reclaim());
  }

  // What is shared.

  /** Working memory of sorts. */
  get work(): WorkSpace {
    return (this.#work ??= this.#makeWork());
  }

  tree(structure: StructureId, root: PageId, layout: SchemaLayout): Tree {
    const known = this.#trees.get(structure);
    if (known !== undefined) return known;
    const tree = new Tree(
      this.storage,
      root,
      structure,
      treeLayout(layout),
      this.transaction.buffers,
    );
    if (!this.#gone.has(structure)) this.#trees.set(structure, tree);
    return tree;
  }

  state(structure: StructureId): CollectionState {
    const known = this.#states.get(structure);
    if (known !== undefined) return known;
    const state = new CollectionState(structure, this.catalog, this.transaction, this.ledger);
    this.#states.set(structure, state);
    return state;
  }

  /** The schema as a view has it. */
  schema(view: View): Schema {
    if (view === WRITER) return this.#changed ?? this.#latest;
    if (view >= this.schemaCommit) return this.#latest;
    const old = this.#old.get(view) ?? new Schema(this);
    this.#old.delete(view);
    this.#keepOldSchemas(OLD_SCHEMAS_KEPT - 1);
    this.#old.set(view, old); // the one asked for last is the last
    return old;
  }

  /** Gives back old versions but the one asked for last, which may be what needs the room. */
  #reclaim(): number {
    const { usedBytes } = this.ledger!;
    this.#keepOldSchemas(1);
    return usedBytes - this.ledger!.usedBytes;
  }

  #keepOldSchemas(count: number): void {
    for (const [view, old] of this.#old) {
      if (this.#old.size <= count) return;
      old.dispose();
      this.#old.delete(view);
    }
  }

  /** Whether the open transaction has a schema of its own. */
  get isSchemaChanged(): boolean {
    return this.#changed !== undefined;
  }

  /** The schema that the open transaction may change. */
  changingSchema(): Schema {
    this.transaction.requireOpen();
    if (this.#changed === undefined) {
      this.#changed = new Schema(this);
      this.epoch++;
    }
    return this.#changed;
  }

  /** Says that the transaction changed the definition of a name. */
  schemaChanged(name: string): void {
    this.changingSchema().forget(name);
    this.epoch++;
  }

  /** Says, once a drop is done, that the transaction dropped a structure. */
  noteDropped(structure: StructureId): void {
    this.#dropped.push(structure);
  }

  /** How many trees are kept for structures; for tests. */
  get treeCount(): number {
    return this.#trees.size;
  }

  // Transactions.

  begin(): void {
    this.transaction.begin();
  }

  /** Commits; answers the commit id. When it throws, the transaction is still open. */
  commit(level: CommitLevel): number {
    this.transaction.requireOpen();
    this.transaction.storeStates();
    this.transaction.buffers.settle();
    const commitId = this.storage.commit(level);
    if (this.#changed !== undefined) {
      this.#latest.dispose();
      this.#latest = this.#changed;
      this.#changed = undefined;
      this.schemaCommit = commitId;
      this.epoch++;
    }
    this.transaction.end();
    this.#schemaAt.clear();
    // Views of before hold on to the trees they have; nobody asks for these again.
    for (const structure of this.#dropped.splice(0)) {
      this.#trees.delete(structure);
      this.#gone.add(structure);
    }
    return commitId;
  }

  rollback(): void {
    this.transaction.buffers.forget();
    this.storage.rollback();
    this.transaction.restoreAll();
    this.transaction.end();
    this.#schemaAt.clear();
    this.#dropped = [];
    if (this.#changed !== undefined) {
      this.#changed.dispose();
      this.#changed = undefined;
      this.epoch++;
    }
    this.noteRollback();
    this.#forgetNew(LATEST);
  }

  /** Marks a point to come back to; answers its token. */
  savepoint(): number {
    const token = this.transaction.savepoint();
    const isChanged = this.#changed !== undefined;
    this.#schemaAt.set(token, { isChanged, dropped: this.#dropped.length });
    return token;
  }

  rollbackTo(token: number): void {
    this.transaction.rollbackTo(token);
    const then = this.#schemaAt.get(token);
    this.#dropped.length = then?.dropped ?? 0;
    if (this.#changed !== undefined) {
      // The catalog went back: what the version knows is read again.
      this.#changed.dispose();
      this.#changed = then?.isChanged === true ? new Schema(this) : undefined;
      this.epoch++;
    }
    this.noteRollback();
    this.#forgetNew(WRITER);
  }

  release(token: number): void {
    this.transaction.release(token);
  }

  /** Whether a savepoint is still there to go back to. */
  hasSavepoint(token: number): boolean {
    return this.transaction.hasSavepoint(token);
  }

  /** Runs a statement of many changes, which happen all or not at all. */
  statement<T>(run: () => T): T {
    return this.transaction.statement(run, () => this.noteRollback());
  }

  /** Tells every tree that its pages went back. */
  noteRollback(): void {
    this.catalog.tree.noteRollback();
    for (const tree of this.#trees.values()) tree.noteRollback();
  }

  /** Forgets trees and counters of structures that the view does not have. */
  #forgetNew(view: View): void {
    const next = this.catalog.nextStructure(view);
    for (const structure of this.#trees.keys())
      if (structure >= next) this.#trees.delete(structure);
    for (const structure of this.#states.keys())
      if (structure >= next) this.#forgetState(structure);
  }

  #forgetState(structure: StructureId): void {
    this.#states.get(structure)!.dispose();
    this.#states.delete(structure);
  }

  /** Gives back what is charged for what was read; the store is not used any more. */
  dispose(): void {
    for (const schema of [this.#latest, this.#changed, ...this.#old.values()]) schema?.dispose();
    for (const structure of this.#states.keys()) this.#forgetState(structure);
  }

  /** Forgets everything that was read, because the file moved on under a read-only process. */
  refresh(): void {
    for (const schema of [this.#latest, ...this.#old.values()]) schema.dispose();
    this.#latest = new Schema(this);
    this.#old.clear();
    this.#trees.clear();
    this.#gone.clear();
    for (const structure of this.#states.keys()) this.#forgetState(structure);
    this.epoch++;
    this.noteRollback();
  }
}

function workAlone(): WorkSpace {
  return new LedgerWorkSpace(new Ledger(WORK_BYTES_ALONE), new MemoryFileSystem(), 'work');
}

/** A layout as trees take it. */
export function treeLayout(layout: SchemaLayout): TreeLayout {
  return {
    kind: layout.tree,
    ...(layout.order !== 0 && { order: layout.order }),
    ...(layout.clusterSize !== 0 && { clusterBytes: layout.clusterSize }),
  };
}
