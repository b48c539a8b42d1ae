/**
 * Rebuilds a database file in another layout, beside it, and swaps it in (STORAGE rule 27,
 * promise P4).
 *
 *   absent ── copy, a tree a commit ──> partial ── compare, close ──> whole ── swap ──> in place
 *      ^          no space: removed │       ^  │ cancelled, crash: stays
 *      └────────────────────────────┘       └──┘ the next call goes on, if old file and plan fit
 *
 * Until the swap the old file is only read, under its writer lock; the path always names a whole
 * file, old or new. Line 6 of the strata: it joins store and storage, as `maintenance.ts` does.
 */
import type { Steps } from '../base/steps.ts';
import { DatabaseError, failure } from '../errors.ts';
import { MEMORY_BYTES_MIN } from '../limits.ts';
import type { FileSystem } from '../storage/file.ts';
import type { FileLayout } from '../storage/header.ts';
import { Storage } from '../storage/storage.ts';
import { Catalog } from '../store/catalog.ts';
import { Store } from '../store/store.ts';
import { compareFiles, copyCatalog, copyTrees, countEntries, type OpenFile } from './copy-trees.ts';
import { planLayout, type LayoutChange, type LayoutPlan } from './rebuild-layout.ts';
import { idText, readMarker, writeMarker, type RebuildMarker } from './rebuild-marker.ts';
import { fileIdOf, freeKeptName, swapFiles } from './swap-files.ts';

/** How far a rebuild is. */
export interface RebuildProgress {
  readonly phase: 'copy' | 'compare';
  /** `collection` or `collection.index`. */
  readonly tree: string;
  readonly entries: number;
  readonly entriesTotal: number;
}

/** What a rebuild did. */
export interface RebuildReport {
  readonly path: string;
  /** Where the old file is kept; `undefined` if it was not. */
  readonly keptPath: string | undefined;
  readonly bytesBefore: number;
  readonly bytesAfter: number;
  /** Records and index entries that were copied and compared. */
  readonly entries: number;
  /** Whether an interrupted rebuild was gone on with. */
  readonly isResumed: boolean;
  readonly layout: LayoutPlan;
}

export interface RebuildSettings {
  readonly fs: FileSystem;
  readonly path: string;
  readonly change: LayoutChange;
  /** Shared by the two files. */
  readonly memoryBytes: number;
  /** Whether the old file stays under its second name. */
  readonly keepOld: boolean;
  readonly onProgress: (progress: RebuildProgress) => void;
}

/** The second name of the old file. */
export function keptPathOf(path: string): string {
  return `${path}-before`;
}

/** The name of the new file until it is in place. */
export function partialPathOf(path: string): string {
  return `${path}-rebuild`;
}

/** Buffers that a file needs at least, whatever its page size, for its private pages to spill. */
const BUFFERS_MIN = 256;

function requireMemory(memoryBytes: number, pageBytes: number): void {
  const least = 2 * Math.max(MEMORY_BYTES_MIN, BUFFERS_MIN * pageBytes);
  if (memoryBytes >= least) return;
  const what = `memory: ${memoryBytes} bytes is below ${least}, the least for two files`;
  throw failure('usage.argument', `${what} of which one has pages of ${pageBytes} bytes`, {
    detail: { memoryBytes, least },
  });
}

function openFile(
  settings: { fs: FileSystem; memoryBytes: number },
  path: string,
  layout?: FileLayout,
  fileId = newFileId(),
): OpenFile {
  const storage = Storage.open({
    fs: settings.fs,
    path,
    memoryBytes: Math.max(MEMORY_BYTES_MIN, settings.memoryBytes / 2),
    layout: layout ?? FALLBACK_LAYOUT,
    fileId,
    now: () => performance.now(),
  });
  return { storage, catalog: new Catalog(storage, () => storage.inTransaction) };
}

function newFileId(): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(16));
}

/** Layout of a file that `openFile` makes when none is given: it never does. */
const FALLBACK_LAYOUT: FileLayout = {
  pageBytes: 8192,
  extentBytes: 131_072,
  clusterBytes: 512,
  tree: 'b+tree',
  order: 0,
};

function openExisting(settings: { fs: FileSystem; memoryBytes: number }, path: string): OpenFile {
  if (!settings.fs.exists(path)) throw failure('storage.not_found', `there is no file ${path}`);
  return openFile(settings, path);
}

/** Rebuilds a file; the path names the old one until the last step. */
export function* rebuildSteps(settings: RebuildSettings): Steps<RebuildReport> {
  const { fs, path } = settings;
  const kept = keptPathOf(path);
  const source = openExisting(settings, path);
  try {
    const { header } = source.storage;
    const plan = planLayout(header.layout, source.catalog, settings.change);
    requireMemory(settings.memoryBytes, Math.max(header.layout.pageBytes, plan.file.pageBytes));
    const fileId = idText(header.fileId);
    freeKeptName(fs, kept, fileId);
    const marker = {
      from: fileId,
      fromCommit: source.storage.commitId,
      commit: 0,
      plan: JSON.stringify(plan),
    };
    const entries = countEntries(source, plan);
    const isResumed = yield* buildPartial(settings, source, plan, marker, entries);
    const partial = partialPathOf(path);
    const bytesBefore = sizeOf(fs, path);
    const bytesAfter = sizeOf(fs, partial);
    swapInto(settings, source, kept, partial);
    return {
      path,
      keptPath: settings.keepOld ? kept : undefined,
      bytesBefore,
      bytesAfter,
      entries,
      isResumed,
      layout: plan,
    };
  } finally {
    source.storage.close();
  }
}

/** Swaps; where the system refuses to rename over an open file, the old one is closed first. */
function swapInto(
  settings: RebuildSettings,
  source: OpenFile,
  kept: string,
  partial: string,
): void {
  const { fs, path } = settings;
  try {
    swapFiles(fs, path, kept, partial);
  } catch (cause) {
    if ((cause as DatabaseError).code !== 'storage.permission' || !fs.exists(partial)) throw cause;
    source.storage.close();
    fs.rename(partial, path);
    fs.syncFolder(path);
  }
  for (const left of [`${partial}-log`, `${partial}-lock`]) fs.remove(left);
  if (settings.keepOld) return;
  fs.remove(kept);
  fs.syncFolder(path);
}

function sizeOf(fs: FileSystem, path: string): number {
  const file = fs.open(path, 'read');
  try {
    return file.size();
  } finally {
    file.close();
  }
}

/** Makes the new file whole under its own name; answers whether it was there in part. */
function* buildPartial(
  settings: RebuildSettings,
  source: OpenFile,
  plan: LayoutPlan,
  marker: RebuildMarker,
  entriesTotal: number,
): Steps<boolean> {
  const partial = partialPathOf(settings.path);
  const left = resume(settings, partial, marker);
  let target = left ?? begin(settings, partial, plan, marker);
  let isGood = true;
  try {
    const count = (phase: RebuildProgress['phase']): ((n: number, tree: string) => void) => {
      let entries = 0;
      return (n, tree) => {
        entries += n;
        settings.onProgress({ phase, tree, entries, entriesTotal });
      };
    };
    yield* copyTrees(source, target, plan, count('copy'));
    finishCatalog(source, target, marker);
    // Closed and opened again, so that what is compared is what lies in the file.
    target.storage.close();
    target = openFile(settings, partial);
    yield* compareFiles(source, target, plan, count('compare'));
  } catch (cause) {
    isGood = false;
    throw cause;
  } finally {
    if (isGood) target.storage.close();
    else discard(settings.fs, target, partial);
  }
  return left !== undefined;
}

/** After an error: the space is given back, unless even that fails; the next call starts anew. */
function discard(fs: FileSystem, target: OpenFile, partial: string): void {
  target.storage.abandon();
  removePartial(fs, partial);
}

function removePartial(fs: FileSystem, partial: string): void {
  for (const name of [partial, `${partial}-log`]) if (fs.exists(name)) fs.remove(name);
}

/** The file that an interrupted rebuild of the same file to the same layout left. */
function resume(
  settings: RebuildSettings,
  partial: string,
  marker: RebuildMarker,
): OpenFile | undefined {
  const { fs } = settings;
  if (fs.exists(partial)) {
    let target: OpenFile | undefined;
    try {
      target = openFile(settings, partial);
      const found = target.storage.nextPage > 1 ? readMarker(target.catalog) : undefined;
      const isSame =
        found !== undefined &&
        found.from === marker.from &&
        found.fromCommit === marker.fromCommit &&
        found.plan === marker.plan;
      if (isSame) return target;
    } catch (cause) {
      // What a crash left need not be a database; another process that works on it is not that.
      const isLeft = cause instanceof DatabaseError && cause.code !== 'storage.locked';
      if (!isLeft) throw cause;
    }
    target?.storage.abandon();
  }
  removePartial(fs, partial);
  return undefined;
}

function begin(
  settings: RebuildSettings,
  partial: string,
  plan: LayoutPlan,
  marker: RebuildMarker,
): OpenFile {
  const fileId = newFileId();
  try {
    const target = openFile(settings, partial, plan.file, fileId);
    try {
      target.storage.begin();
      Store.create(target.storage);
      writeMarker(target.catalog, marker);
      target.storage.commit('full');
      return target;
    } catch (cause) {
      target.storage.abandon();
      throw cause;
    }
  } catch (cause) {
    if (cause instanceof DatabaseError && cause.code !== 'storage.locked') {
      removePartial(settings.fs, partial);
    }
    throw cause;
  }
}

/** The last commit of the copy: what the catalog has beside trees, and the marker's end. */
function finishCatalog(source: OpenFile, target: OpenFile, marker: RebuildMarker): void {
  const { storage, catalog } = target;
  const found = readMarker(catalog);
  if (found !== undefined && found.commit !== 0) return; // it was interrupted after the copy
  storage.begin();
  try {
    copyCatalog(source, target);
    writeMarker(catalog, { ...marker, commit: storage.commitId + 1 });
    storage.commit('full');
  } finally {
    if (storage.inTransaction) storage.rollback();
    catalog.tree.noteRollback();
  }
}

/** What an undo did. */
export interface UndoReport {
  readonly path: string;
  /** Where the file that was rebuilt is kept now. */
  readonly undonePath: string;
  /** Commits to the rebuilt file that the old one does not have. */
  readonly commitsLeft: number;
}

/**
 * Puts the kept file back in place; the rebuilt one is kept under another name.
 *
 * @throws {UsageError} usage.argument when there is no kept file, when it is of another rebuild,
 * or when the rebuilt file was written since and `force` is not set.
 */
export function undo(
  fs: FileSystem,
  path: string,
  force: boolean,
  memoryBytes: number,
): UndoReport {
  const kept = keptPathOf(path);
  const keptId = fileIdOf(fs, kept);
  if (keptId === undefined) {
    throw failure('usage.argument', `there is no kept file ${kept}`, {
      hint: 'There is nothing to undo: no rebuild kept its old file, or it was let go.',
    });
  }
  const current = openExisting({ fs, memoryBytes }, path);
  try {
    const { storage } = current;
    const marker = readMarker(current.catalog);
    if (marker === undefined || marker.from !== keptId) {
      const what = `${path} was not rebuilt from the file that is kept at ${kept}`;
      throw failure('usage.argument', what, { detail: { path, keptPath: kept } });
    }
    const commitsLeft = storage.commitId - marker.commit;
    if (commitsLeft > 0 && !force) {
      const loss = `an undo would lose ${commitsLeft} commits`;
      const what = `${path} was written since it was rebuilt: ${loss}`;
      throw failure('usage.argument', what, {
        detail: { path, commits: commitsLeft },
        hint: 'Rebuild it to the old layout instead, or force the undo.',
      });
    }
    const undonePath = `${path}-undone`;
    fs.remove(undonePath);
    swapFiles(fs, path, undonePath, kept);
    return { path, undonePath, commitsLeft };
  } finally {
    current.storage.close();
  }
}

/** Removes what rebuilds and undos have kept, and unfinished copies; answers their paths. */
export function forget(fs: FileSystem, path: string): string[] {
  if (!fs.exists(path)) throw failure('storage.not_found', `there is no file ${path}`);
  const partial = partialPathOf(path);
  const holder = fs.exists(partial) ? fs.lockHolder(partial) : undefined;
  if (holder !== undefined) {
    throw failure('storage.locked', `${partial} is being written by process ${holder}`, {
      detail: { path: partial, pid: holder },
    });
  }
  const names = [keptPathOf(path), `${path}-undone`, partial, `${partial}-log`];
  const there = names.filter((name) => fs.exists(name));
  for (const name of there) fs.remove(name);
  if (there.length > 0) fs.syncFolder(path);
  return there;
}

/** Layout of a file and of every tree in it, as `rebuild` would keep it. */
export function layoutOf(storage: Storage, catalog: Catalog): LayoutPlan {
  return planLayout(storage.header.layout, catalog, {});
}
