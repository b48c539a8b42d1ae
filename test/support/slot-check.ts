/**
 * The check of a file at the level of slots (law S4): every slot holds one page or node of the one
 * live map, or is free; the bitmap says so; every page holds its checksum. For a storage whose last
 * checkpoint holds everything: just opened, or after `checkpoint()`.
 */
import { headerSlots } from '../../src/storage/header.ts';
import { LATEST, type PageId } from '../../src/storage/pages.ts';
import { type Storage } from '../../src/storage/storage.ts';

/** Answers a sentence for each thing found wrong. */
export function slotFaults(storage: Storage): string[] {
  const faults: string[] = [];
  const names = new Map<number, string>();
  const name = (slot: number, what: string): void => {
    const other = names.get(slot);
    if (other !== undefined) faults.push(`slot ${slot} holds ${other} and ${what}`);
    names.set(slot, what);
  };
  for (let slot = 0; slot < headerSlots(storage.pageBytes); slot++) name(slot, 'the header');
  storage.map.visitSlots((slot, _, level, i) => name(slot, `map node ${i} of level ${level}`));
  storage.bitmap.visitSlots((slot, _, level, i) => name(slot, `node ${i} of level ${level}`));
  let pages = 0;
  for (let page = 1; page < storage.nextPage; page++) {
    if (!storage.locateInMap(page as PageId)) continue;
    pages++;
    name(storage.foundSlot, `page ${page}`);
    storage.read(page as PageId, LATEST); // throws unless it holds its checksum
  }
  if (pages !== storage.map.root.usedCount) {
    faults.push(`the map counts ${storage.map.root.usedCount} pages, it has ${pages}`);
  }
  if (storage.bitmap.depth > 0) faults.push(...bitmapFaults(storage, names));
  return faults;
}

function bitmapFaults(storage: Storage, names: ReadonlyMap<number, string>): string[] {
  const { bitmap } = storage;
  const faults: string[] = [];
  let used = 0;
  for (let slot = 0; slot < storage.slots.count; slot++) {
    const bit = bitOf(storage, slot);
    if (bit) used++;
    const what = names.get(slot);
    if (bit === (what !== undefined)) continue;
    faults.push(bit ? `slot ${slot} is used by nobody` : `slot ${slot} is free, but holds ${what}`);
  }
  if (used !== bitmap.root.usedCount) {
    faults.push(`the bitmap counts ${bitmap.root.usedCount} slots, it has ${used}`);
  }
  return faults;
}

function bitOf(storage: Storage, slot: number): boolean {
  const { bitmap, slab } = storage;
  const buffer = bitmap.node(0, Math.floor(slot / bitmap.leafFan));
  if (buffer === 0) return false;
  const at = slot % bitmap.leafFan;
  const word = slab.wordsOf(buffer)[(slab.offset(buffer) >> 2) + (at >> 5)]!;
  return (word & (1 << (at & 31))) !== 0;
}
