/**
 * The whole-file check of storage: law S4 (every page is owned by exactly one structure or free;
 * every slot holds one page of the map, a node, or is free), and that everything in the file still
 * holds its checksum. What is wrong is reported, not thrown, and does not latch.
 *
 * It looks at the newest checkpoint, so the caller makes one first; the structures are walked by
 * whoever knows them, who fills `owned`.
 */
import type { Ledger } from '../base/ledger.ts';
import type { Steps } from '../base/steps.ts';
import { DatabaseError, failure } from '../errors.ts';
import { headerSlots, readHeader } from './header.ts';
import { type PageId } from './pages.ts';
import { type Radix } from './radix.ts';
import { type Storage } from './storage.ts';

export type ReportFault = (fault: DatabaseError) => void;

const PAGES_PER_STEP = 256;

/** A set of small integers, one bit each, charged to the ledger. */
export class BitSet {
  readonly #bits: Uint8Array;
  readonly #ledger: Ledger;

  constructor(size: number, ledger: Ledger) {
    this.#ledger = ledger;
    ledger.charge('work', (size >> 3) + 1);
    this.#bits = new Uint8Array((size >> 3) + 1);
  }

  has(item: number): boolean {
    return (this.#bits[item >> 3]! & (1 << (item & 7))) !== 0;
  }

  /** Adds an item; answers false if it was there, or lies beyond the size. */
  add(item: number): boolean {
    const byte = this.#bits[item >> 3];
    if (byte === undefined || (byte & (1 << (item & 7))) !== 0) return false;
    this.#bits[item >> 3] = byte | (1 << (item & 7));
    return true;
  }

  dispose(): void {
    this.#ledger.release('work', this.#bits.length);
  }
}

/** Checks both header copies, the map, the bitmap, and every page against its owner. */
export function* checkFile(storage: Storage, owned: BitSet, report: ReportFault): Steps<void> {
  checkHeaders(storage, report);
  const used = new BitSet(storage.slots.count, storage.ledger);
  try {
    for (let slot = 0; slot < headerSlots(storage.pageBytes); slot++) used.add(slot);
    for (const tree of [storage.map, storage.bitmap]) checkNodes(storage, tree, used, report);
    yield* checkPages(storage, owned, used, report);
    yield* checkBitmap(storage, used, report);
  } finally {
    used.dispose();
  }
}

/** Runs a part of the check; what it throws about the file is reported. */
function guard(report: ReportFault, part: () => void): void {
  try {
    part();
  } catch (cause) {
    if (!(cause instanceof DatabaseError)) throw cause;
    report(cause);
  }
}

function checkHeaders(storage: Storage, report: ReportFault): void {
  guard(report, () => {
    const { badCopies, header } = readHeader(storage.file.file, storage.path);
    for (const copy of badCopies) {
      report(failure('corrupt.header', `header copy ${copy} of ${storage.path} is damaged`));
    }
    if (header.sequence === storage.header.sequence || storage.readOnly) return;
    report(failure('corrupt.header', `the header of ${storage.path} is not the newest written`));
  });
}

function nameSlot(storage: Storage, used: BitSet, slot: number, what: string): void {
  if (used.add(slot)) return;
  const why = slot >= storage.slots.count ? 'beyond the end of the file' : 'of something else';
  throw failure('corrupt.page', `${what} lies in slot ${slot}, ${why}`, {
    detail: { path: storage.path, slot },
  });
}

/** Reads every node of a radix tree as the file has it. */
function checkNodes(storage: Storage, tree: Radix, used: BitSet, report: ReportFault): void {
  guard(report, () => {
    tree.visitSlots((slot, checksum, level, index) => {
      const what = `${tree.name} node ${index} of level ${level}`;
      guard(report, () => {
        nameSlot(storage, used, slot, what);
        requireChecksum(storage, slot, checksum, what);
      });
    });
  });
}

function requireChecksum(storage: Storage, slot: number, checksum: number, what: string): void {
  const buffer = storage.obtain();
  try {
    const whole = storage.file.read(slot, buffer);
    const found = whole ? storage.file.checksum(buffer) : 0;
    if (whole && found === checksum) return;
    throw failure('corrupt.page', `${what} in slot ${slot} does not hold its checksum`, {
      detail: { path: storage.path, slot, expected: checksum, found },
    });
  } finally {
    storage.slab.give(buffer);
  }
}

function* checkPages(
  storage: Storage,
  owned: BitSet,
  used: BitSet,
  report: ReportFault,
): Steps<void> {
  for (let id = 1; id < storage.nextPage; id++) {
    if (id % PAGES_PER_STEP === 0) yield;
    const page = id as PageId;
    guard(report, () => {
      const exists = storage.locate(page);
      if (exists !== owned.has(page)) throw unowned(storage, page, exists);
      if (!exists) return;
      const what = `page ${page}`;
      nameSlot(storage, used, storage.foundSlot, what);
      requireChecksum(storage, storage.foundSlot, storage.foundChecksum, what);
    });
  }
}

function unowned(storage: Storage, page: PageId, exists: boolean): DatabaseError {
  const what = exists ? 'is in the map, but nothing owns it' : 'is owned, but not in the map';
  return failure('corrupt.page', `page ${page} of ${storage.path} ${what}`, {
    detail: { path: storage.path, page },
  });
}

/** The bitmap of the checkpoint says of every slot what the rest of the check found. */
function* checkBitmap(storage: Storage, used: BitSet, report: ReportFault): Steps<void> {
  const { bitmap, slab } = storage;
  if (bitmap.depth === 0) return; // nothing was ever written
  for (let first = 0; first < storage.slots.count; first += bitmap.leafFan) {
    yield;
    guard(report, () => {
      const buffer = bitmap.node(0, first / bitmap.leafFan);
      const words = buffer === 0 ? undefined : slab.wordsOf(buffer);
      const at = buffer === 0 ? 0 : slab.offset(buffer) >> 2;
      const end = Math.min(storage.slots.count, first + bitmap.leafFan);
      for (let slot = first; slot < end; slot++) {
        const i = slot - first;
        const bit = words === undefined ? 0 : (words[at + (i >> 5)]! >>> (i & 31)) & 1;
        if ((bit === 1) !== used.has(slot)) report(wrongBit(storage, slot, bit === 1));
      }
    });
  }
}

function wrongBit(storage: Storage, slot: number, isUsed: boolean): DatabaseError {
  const what = isUsed ? 'used, but nothing lies there' : 'free, but something lies there';
  return failure('corrupt.page', `slot ${slot} of ${storage.path} is marked ${what}`, {
    detail: { path: storage.path, slot },
  });
}
