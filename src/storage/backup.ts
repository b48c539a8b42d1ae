/**
 * Copies a snapshot into a new file, page by page with their PageIds (STORAGE rule 27). The new
 * file has its own file id, is complete before it gets its name, and holds nothing but the pages
 * of the snapshot, in order.
 */
import type { Steps } from '../base/steps.ts';
import { CHANGE_STRIDE } from './page-cache.ts';
import { type BufferId, type PageId, type View } from './pages.ts';
import { type Storage } from './storage.ts';

/** Pages that are copied between two yields; fewer where they are large. */
const PAGES_PER_STEP = 64;
/** Pages after which the new file makes a checkpoint, so that its list of them stays short. */
const PAGES_PER_CHECKPOINT = 4096;
const BUDGET_BYTES_MIN = 768 * 1024;
const BUDGET_PAGES_MIN = 28;

/** The budget of the storage that is copied into: bytes, for pages of a size. */
export function backupBudget(pageBytes: number): number {
  return Math.max(BUDGET_BYTES_MIN, BUDGET_PAGES_MIN * pageBytes);
}

/** Copies the pages that a view sees into an empty storage; answers how many there were. */
export function* copyPages(source: Storage, view: View, target: Storage): Steps<number> {
  const end = source.nextPage;
  target.startLog();
  target.coverPage(end);
  target.nextPage = end;
  target.commitId = view;
  const perStep = Math.min(PAGES_PER_STEP, (target.ledger.budgetBytes >> 4) / target.pageBytes);
  let batch: BufferId[] = [];
  let copied = 0;
  try {
    for (let id = 1; id < end; id++) {
      const buffer = copyOf(source, id as PageId, view, target);
      if (buffer !== 0) batch.push(buffer);
      if (batch.length < perStep && id < end - 1) continue;
      place(target, batch);
      copied += batch.length;
      batch = [];
      if (target.recent.count >= PAGES_PER_CHECKPOINT) target.checkpoint();
      yield;
    }
  } finally {
    for (const buffer of batch) target.slab.give(buffer);
  }
  return copied;
}

/** A buffer of the target with the page as the view sees it, 0 if it does not exist there. */
function copyOf(source: Storage, page: PageId, view: View, target: Storage): BufferId {
  const from = source.readIfVisible(page, view);
  if (from === 0) return 0;
  source.pin(from);
  try {
    const to = target.obtain();
    const at = source.slab.offset(from);
    const image = source.slab.bytesOf(from).subarray(at, at + source.pageBytes);
    target.slab.bytesOf(to).set(image, target.slab.offset(to));
    target.slab.page[to] = page;
    return to;
  } finally {
    source.unpin(from);
  }
}

function place(target: Storage, batch: readonly BufferId[]): void {
  target.recent.reserve(batch.length);
  target.writeBuffers(batch, (buffer, slot, checksum) => {
    const at = target.recent.put(target.pageOf(buffer)) * CHANGE_STRIDE;
    target.recent.values[at] = slot;
    target.recent.values[at + 1] = checksum;
  });
  for (const buffer of batch) target.slab.give(buffer);
}
