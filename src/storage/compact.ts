/**
 * Moves pages into lower slots while commits go on, and cuts the file (STORAGE rule 27).
 *
 * A page that lies beyond what the file needs is copied to a low free slot, as if it had been
 * evicted; the checkpoint names the new slot and frees the old one. No pointer changes and nothing
 * is logged: until the checkpoint is complete the old slots hold.
 */
import type { Steps } from '../base/steps.ts';
import { CHANGE_STRIDE } from './page-cache.ts';
import { type BufferId, type PageId } from './pages.ts';
import { headerSlots } from './header.ts';
import { type Storage } from './storage.ts';

/** Pages that are moved between two yields; fewer where the memory holds few. */
const PAGES_PER_STEP = 64;
/** Rounds in which commits may undo what was moved. */
const ROUNDS_MAX = 8;

/** Compacts the file; answers the bytes it became smaller by. No transaction may be open. */
export function* compactFile(storage: Storage): Steps<number> {
  const before = storage.slots.count;
  storage.startLog();
  try {
    for (let round = 0; round < ROUNDS_MAX; round++) {
      storage.checkpoint();
      const needed = slotsNeeded(storage);
      storage.slots.prefer(needed);
      const moved = yield* moveBeyond(storage, needed);
      storage.checkpoint();
      if (moved === 0) break;
    }
  } finally {
    storage.slots.prefer(0);
  }
  storage.releaseRetired();
  storage.cutFile();
  return (before - storage.slots.count) * storage.pageBytes;
}

/** Slots that the pages and nodes of the newest checkpoint take, and their copies when changed. */
function slotsNeeded(storage: Storage): number {
  let nodes = 0;
  for (const tree of [storage.map, storage.bitmap]) tree.visitSlots(() => nodes++);
  return headerSlots(storage.pageBytes) + storage.map.root.usedCount + 2 * nodes;
}

function* moveBeyond(storage: Storage, bound: number): Steps<number> {
  let moved = 0;
  const roomMax = Math.max(PAGES_PER_STEP, storage.ledger.budgetBytes >> 7);
  const perStep = Math.min(PAGES_PER_STEP, Math.max(1, storage.slab.count >> 3));
  let batch: BufferId[] = [];
  for (let id = 1; id < storage.nextPage && moved < roomMax; id++) {
    const page = id as PageId;
    const isLast = id === storage.nextPage - 1;
    if (liesBeyond(storage, page, bound)) {
      const buffer = storage.newest(page);
      storage.pin(buffer);
      batch.push(buffer);
    }
    if (batch.length < perStep && !isLast) continue;
    moved += batch.length;
    move(storage, batch);
    batch = [];
    yield;
  }
  return moved;
}

/** Whether the map has the page, unchanged since, in a slot at or above the bound. */
function liesBeyond(storage: Storage, page: PageId, bound: number): boolean {
  if (storage.recent.find(page) >= 0 || (storage.closing?.find(page) ?? -1) >= 0) return false;
  return storage.locateInMap(page) && storage.foundSlot >= bound;
}

function move(storage: Storage, batch: readonly BufferId[]): void {
  try {
    storage.recent.reserve(batch.length);
    storage.reserve.secure(batch.length);
    storage.writeBuffers(batch, (buffer, slot, checksum) => {
      const place = storage.recent.put(storage.pageOf(buffer)) * CHANGE_STRIDE;
      storage.recent.values[place] = slot;
      storage.recent.values[place + 1] = checksum;
    });
  } finally {
    for (const buffer of batch) storage.unpin(buffer);
  }
}
