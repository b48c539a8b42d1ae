/**
 * Copies a snapshot into a new file, page by page with their PageIds (STORAGE rule 27). The new
 * file has its own file id, is complete before it gets its name, and holds nothing but the pages
 * of the snapshot, in order.
 */
import type { Steps } from '../base/steps.ts';
import { CHANGE_STRIDE } from './page-cache.ts';
import { type BufferId, type PageId, type View } from './pages.ts';
import { type Storage } from './storage.ts';

/** Pages that are copied between two yields. */
const PAGES_PER_STEP = 64;

/** Copies the pages that a view sees into an empty storage; answers how many there were. */
export function* copyPages(source: Storage, view: View, target: Storage): Steps<number> {
  const end = source.nextPage;
  target.startLog();
  target.coverPage(end);
  let batch: BufferId[] = [];
  let copied = 0;
  try {
    for (let id = 1; id < end; id++) {
      const buffer = copyOf(source, id as PageId, view, target);
      if (buffer !== 0) batch.push(buffer);
      if (batch.length < PAGES_PER_STEP && id < end - 1) continue;
      place(target, batch);
      copied += batch.length;
      batch = [];
      yield;
    }
  } finally {
    for (const buffer of batch) target.slab.give(buffer);
  }
  target.nextPage = end;
  target.commitId = view;
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
