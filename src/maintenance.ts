/**
 * Long operations over the whole file, as step machines that `database.ts` drives: the check and
 * the backup. Line 6 of the strata: they join store and storage.
 */
import type { Steps } from './base/steps.ts';
import { DatabaseError, failure } from './errors.ts';
import { LATEST } from './model/source.ts';
import { backupBudget, copyPages } from './storage/backup.ts';
import { BitSet, checkFile } from './storage/check.ts';
import { type FileSystem } from './storage/file.ts';
import { Storage } from './storage/storage.ts';
import { checkStore, treesOf } from './store/check.ts';
import { type Store } from './store/store.ts';

/** What a check found. */
export interface CheckReport {
  /** Everything that is wrong; empty when the file is whole. */
  readonly faults: readonly DatabaseError[];
  readonly pages: number;
  readonly slots: number;
}

/** Checks every tree, every record and index, every page and slot; reports what is wrong. */
export function* checkSteps(
  storage: Storage,
  store: Store,
  report: (fault: DatabaseError) => void,
): Steps<void> {
  const owned = new BitSet(storage.nextPage, storage.ledger);
  const visit = (page: number): void => {
    if (owned.add(page)) return;
    report(failure('corrupt.page', `page ${page} of ${storage.path} has two owners`));
  };
  try {
    for (const { tree } of treesOf(store, LATEST)) {
      tree.check(LATEST, visit, report);
      yield;
    }
    yield* checkStore(store, LATEST, report);
    yield* checkFile(storage, owned, report);
  } catch (cause) {
    if (!(cause instanceof DatabaseError)) throw cause;
    report(cause); // the catalog itself is damaged: what hangs on it cannot be found
  } finally {
    owned.dispose();
  }
}

/**
 * Copies the newest commit into a new file, which gets its name when it is whole.
 *
 * @throws {UsageError} usage.argument when there is something at the path.
 */
export function* backupSteps(storage: Storage, fs: FileSystem, path: string): Steps<number> {
  if (typeof path !== 'string' || path === '' || fs.exists(path)) {
    const where = String(path);
    throw failure('usage.argument', `a backup needs a free path; there is something at ${where}`, {
      hint: 'Give another path, or remove what is there.',
      detail: { path },
    });
  }
  const temporary = `${path}-backup`;
  const view = storage.openSnapshot();
  const memoryBytes = backupBudget(storage.pageBytes);
  let taken = 0;
  let target: Storage | undefined;
  let copied = 0;
  try {
    takeMemory(storage, memoryBytes);
    taken = memoryBytes;
    for (const left of [temporary, `${temporary}-log`]) if (fs.exists(left)) fs.remove(left);
    target = Storage.open({
      fs,
      path: temporary,
      memoryBytes,
      layout: storage.header.layout,
      fileId: crypto.getRandomValues(new Uint8Array(16)),
      now: () => performance.now(),
    });
    copied = yield* copyPages(storage, view, target);
    target.close();
    fs.rename(temporary, path);
    fs.syncFolder(path);
  } finally {
    target?.abandon();
    for (const left of [temporary, `${temporary}-log`]) if (fs.exists(left)) fs.remove(left);
    storage.ledger.release('work', taken);
    storage.closeSnapshot(view);
  }
  return copied;
}

/** Charges memory for work; where it is short, changed nodes of the page map are written for it. */
function takeMemory(storage: Storage, bytes: number): void {
  if (storage.ledger.tryCharge('work', bytes)) return;
  if (!storage.readOnly && !storage.inTransaction) storage.checkpoint();
  storage.makeRoom(bytes);
  storage.ledger.charge('work', bytes);
}
