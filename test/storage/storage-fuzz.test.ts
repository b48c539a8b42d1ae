/**
 * Mutation fuzzers of what the storage core decodes: header, log, nodes of map and bitmap. The
 * mutants have checksums that fit, so that they reach the code behind them. Whatever is in a file,
 * opening, reading, writing and closing it gives typed errors, never a failed assertion or an
 * exception of the language, and stays inside the budget.
 */
import { pageChecksum, crc32 } from '../../src/base/checksum.ts';
import { Random } from '../../src/base/random.ts';
import { DatabaseError } from '../../src/errors.ts';
import { HEADER_BYTES, HEADER_COPY_STRIDE, HEADER_FIELDS } from '../../src/storage/header.ts';
import { type PageId } from '../../src/storage/pages.ts';
import { type Storage } from '../../src/storage/storage.ts';
import { FaultFileSystem } from '../faults/fault-file.ts';
import { LogImage } from '../support/log-image.ts';
import { defineProperty } from '../support/properties.ts';
import {
  addPages,
  commitFill,
  commitNew,
  fill,
  holds,
  LOG_PATH,
  open,
  PAGE_BYTES,
  PATH,
} from '../support/small-storage.ts';

const BUDGET_BYTES = 2 << 20;
const TIME_MAX_MS = 10_000;
/** What a wrong file may be answered with. */
const ALLOWED = /^(corrupt\.|storage\.|limit\.|conflict\.|usage\.layout$)/;

interface Files {
  readonly image: Uint8Array;
  readonly log: Uint8Array;
  readonly pages: number;
}

/** A file with a map of two levels, and a log of commits with every kind of frame. */
function makeFiles(): Files {
  const disk = new FaultFileSystem({ seed: 1 });
  const first = open(disk, { memoryBytes: 8 << 20 });
  const pages = commitNew(first, 700, 1);
  first.close();
  const storage = open(disk, { memoryBytes: BUDGET_BYTES });
  commitFill(storage, pages.slice(0, 6), 2, 'full', 500);
  commitNew(storage, 60, 3);
  storage.begin();
  for (const page of pages.slice(600, 610)) storage.free(page);
  storage.commit('full');
  commitFill(storage, pages.slice(0, 30), 4, 'full', 200);
  return { image: disk.image(PATH), log: disk.image(LOG_PATH), pages: storage.nextPage };
}

let made: Files | undefined;
const files = (): Files => (made ??= makeFiles());

const ODD_NUMBERS = [0, 1, -1, 2, 7, 8, 255, 256, 4095, 4096, 65_535, 2 ** 31 - 1, -(2 ** 31)];
const ODD_FLOATS = [0, -0, 1, -1, 0.5, NaN, Infinity, -Infinity, 2 ** 31, 2 ** 53, 1e300, 8, 12];

/** Changes some bytes of a piece of a file, as numbers of several widths. */
function mutate(random: Random, bytes: Uint8Array, from: number, length: number): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset + from, length);
  for (let i = random.between(1, 3); i > 0; i--) {
    const width = random.pick([1, 4, 4, 8]);
    const at = random.below(Math.max(1, Math.floor((length - width) / width))) * width;
    if (at + width > length) continue;
    if (width === 1) view.setUint8(at, random.word());
    else if (width === 8) view.setFloat64(at, random.pick(ODD_FLOATS), true);
    else if (random.chance(0.5)) view.setInt32(at, random.pick(ODD_NUMBERS), true);
    else view.setInt32(at, view.getInt32(at, true) + random.between(-4, 4), true);
  }
}

/** Opens mutated files and uses them in every way; typed errors pass. */
function use(disk: FaultFileSystem, random: Random): void {
  const started = performance.now();
  for (const readOnly of [true, false]) {
    let storage: Storage | undefined;
    const attempt = (call: (storage: Storage) => void): void => {
      try {
        storage ??= open(disk, { readOnly, lastCheckpoint: true, memoryBytes: BUDGET_BYTES });
        call(storage);
      } catch (cause) {
        if (!(cause instanceof DatabaseError) || !ALLOWED.test(cause.code)) throw cause;
      }
    };
    attempt(() => undefined);
    const pages = Array.from({ length: 12 }, () => random.below(files().pages + 2));
    for (const page of pages) attempt((s) => void holds(s, page as PageId, 1));
    if (!readOnly) {
      for (let i = 0; i < 3; i++) attempt((s) => write(s, pages));
      attempt((s) => s.checkpoint());
    }
    attempt((s) => s.close());
    const peak = storage?.ledger.peakBytes ?? 0;
    if (peak > BUDGET_BYTES) throw new Error(`${peak} bytes were charged`);
    storage?.abandon();
  }
  const ms = performance.now() - started;
  if (ms > TIME_MAX_MS) throw new Error(`took ${Math.round(ms)} ms`);
}

function write(storage: Storage, pages: readonly number[]): void {
  try {
    storage.begin();
    addPages(storage, 3, 9);
    for (const page of new Set(pages.slice(0, 6))) fill(storage, page as PageId, 9, 300);
    storage.commit('full');
  } finally {
    if (storage.inTransaction) storage.rollback();
  }
}

function diskOf(image: Uint8Array, log: Uint8Array | undefined): FaultFileSystem {
  const disk = new FaultFileSystem({ seed: 1 });
  disk.setImage(PATH, image);
  if (log !== undefined) disk.setImage(LOG_PATH, log);
  return disk;
}

function sealHeaders(image: Uint8Array): void {
  const view = new DataView(image.buffer, image.byteOffset);
  for (const at of [0, HEADER_COPY_STRIDE]) {
    view.setInt32(at + 508, crc32(image.subarray(at, at + HEADER_BYTES), 0, 508, 0), true);
  }
}

function headerMutant(seed: number): Uint8Array {
  const random = new Random(seed);
  const image = files().image.slice();
  const [, offset, bytes] = random.pick(HEADER_FIELDS.slice(1, -1));
  mutate(random, image, offset, bytes);
  image.copyWithin(HEADER_COPY_STRIDE, 0, HEADER_BYTES);
  sealHeaders(image);
  return image;
}

defineProperty({
  name: 'readHeader takes any header whose checksum fits',
  cases: 80,
  run: (seed) => use(diskOf(headerMutant(seed), files().log), new Random(seed)),
  canary: (seed) => {
    // A map without a bound on its depth: what the check of ranges is for.
    const image = headerMutant(seed);
    new DataView(image.buffer).setUint32(112, 2 ** 32 - 1, true);
    sealHeaders(image);
    const disk = diskOf(image, undefined);
    const storage = open(disk, { readOnly: true, lastCheckpoint: true });
    holds(storage, 1 as PageId, 1);
  },
});

function logMutant(seed: number): Uint8Array {
  const random = new Random(seed);
  const image = new LogImage(files().log.slice());
  const frames = image.frames();
  if (random.chance(0.15)) {
    const [at, length] = random.pick([
      [0, 32],
      [4096, 40],
    ] as const);
    mutate(random, image.bytes, at + 24, length - 24);
    image.sealHeader(at);
  } else {
    for (let i = random.between(1, 3); i > 0; i--) {
      const frame = random.pick(frames);
      const whole = random.chance(0.5) ? frame.bytes : Math.min(frame.bytes, 64);
      mutate(random, image.bytes, frame.offset + 8, whole - 8); // length and checksum stay
    }
    image.seal(frames.map((f) => ({ ...f, kind: image.bytes[f.offset + 8]! })));
  }
  return image.bytes;
}

defineProperty({
  name: 'recovery takes any log whose checksums fit',
  cases: 80,
  run: (seed) => use(diskOf(files().image, logMutant(seed)), new Random(seed)),
  canary: (seed) => {
    // A log that nobody mutated gives every page of its commits: the fuzzer reaches recovery.
    const storage = open(diskOf(files().image, logMutant(seed)));
    for (let page = 1; page < 6; page++) {
      if (!holds(storage, page as PageId, 4, undefined, 200)) throw new Error('a page differs');
    }
  },
});

interface NodeAt {
  readonly tree: 'map' | 'bitmap';
  readonly slot: number;
  readonly level: number;
  readonly index: number;
}

function nodesOf(image: Uint8Array): NodeAt[] {
  const storage = open(diskOf(image, undefined), { readOnly: true, lastCheckpoint: true });
  const nodes: NodeAt[] = [];
  for (const tree of ['map', 'bitmap'] as const) {
    storage[tree].visitSlots((slot, _, level, index) => nodes.push({ tree, slot, level, index }));
  }
  storage.abandon();
  return nodes;
}

/** Gives a changed node, its parents and the header the checksums that fit. */
function sealNode(image: Uint8Array, nodes: readonly NodeAt[], node: NodeAt): void {
  const words = new Int32Array(image.buffer, image.byteOffset + node.slot * PAGE_BYTES, 1024);
  const checksum = pageChecksum(words, 0, 1024, 0);
  const fan = PAGE_BYTES / 16;
  const parent = nodes.find(
    (each) =>
      each.tree === node.tree &&
      each.level === node.level + 1 &&
      each.index === Math.floor(node.index / fan),
  );
  const view = new DataView(image.buffer, image.byteOffset);
  if (parent !== undefined) {
    view.setInt32(parent.slot * PAGE_BYTES + (node.index % fan) * 16 + 4, checksum, true);
    sealNode(image, nodes, parent);
    return;
  }
  const at = node.tree === 'map' ? 112 : 128;
  for (const copy of [0, HEADER_COPY_STRIDE]) view.setInt32(copy + at + 8, checksum, true);
  sealHeaders(image);
}

let cleanImage: Uint8Array | undefined;

/** The file without a log to be replayed. */
function closedImage(): Uint8Array {
  if (cleanImage !== undefined) return cleanImage;
  const disk = diskOf(files().image, files().log);
  open(disk).close();
  return (cleanImage = disk.image(PATH));
}

function nodeMutant(seed: number): Uint8Array {
  const random = new Random(seed);
  const image = closedImage().slice();
  const nodes = nodesOf(image);
  const node = random.pick(nodes);
  const length = random.chance(0.5) ? 256 : PAGE_BYTES;
  mutate(random, image, node.slot * PAGE_BYTES, length);
  sealNode(image, nodes, node);
  return image;
}

defineProperty({
  name: 'Radix takes any nodes of map and bitmap whose checksums fit',
  cases: 80,
  run: (seed) => use(diskOf(nodeMutant(seed), undefined), new Random(seed)),
  canary: (seed) => {
    const storage = open(diskOf(nodeMutant(seed), undefined), { readOnly: true });
    for (let page = 1; page < 600; page++) {
      if (!holds(storage, page as PageId, page < 31 ? 4 : 1, undefined, 200)) {
        throw new Error('a page differs');
      }
    }
  },
});
