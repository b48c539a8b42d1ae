/**
 * The file header: what a file is, how it is laid out, and where its newest checkpoint lies.
 *
 * Two copies, at 0 and 4,096, so that one torn write leaves the other (STORAGE rule 1). A copy:
 *
 *   offset  bytes  meaning
 *        0     16  magic
 *       16      4  format version
 *       20      4  byte order mark 0x01020304, little-endian
 *       24     16  file id, random
 *       40      4  page size, bytes
 *       44      4  bytes reserved at the end of each page
 *       48      4  extent size, bytes
 *       52      4  default cluster size of new collections, bytes
 *       56      4  default tree of new collections: 0 b+tree, 1 b-tree
 *       60      4  default order of new trees, 0: what fits a page
 *       64      8  header sequence number (float64, as all eight-byte fields)
 *       72      8  commit id of the checkpoint
 *       80      8  generation of the log segment at which replay starts
 *       88      8  log position at which replay starts
 *       96      8  next PageId
 *      104      4  slots of the file
 *      108      4  flags: 1 open for writing
 *      112     16  map: depth, root slot, root checksum, pages in use
 *      128     16  bitmap of slots: depth, root slot, root checksum, slots in use
 *      144    364  zero
 *      508      4  crc32 of the bytes before
 */
import { crc32 } from '../base/checksum.ts';
import { failure } from '../errors.ts';
import { type File } from './file.ts';

/**
 * Version of the format that this program writes; it opens every version up to it, and a file
 * becomes one of this version when its header is written next.
 *
 *   1   the first
 *   2   indexes over the elements of lists: `elements` of a part in the catalog. A program of
 *       version 1 would take such an index for one over whole lists.
 */
export const FORMAT_VERSION = 2;
export const HEADER_BYTES = 512;
export const HEADER_COPY_STRIDE = 4096;

const MAGIC = 'Monochord\r\n\x1a\n\0\0\0';
const BYTE_ORDER_MARK = 0x01020304;
const FLAG_OPEN = 1;
const PAGE_BYTES_MIN = 4096;
const PAGE_BYTES_MAX = 65_536;
/** PageIds and slots are below 2^31. */
const IDS_MAX = 2 ** 31;
/** Levels of a radix tree that has an id for everything; see radix.ts. */
const DEPTH_MAX = 5;

/** Fields of the header, for the decoder and for `docs/FILE_FORMAT.md`: name, offset, bytes. */
export const HEADER_FIELDS = [
  ['magic', 0, 16],
  ['formatVersion', 16, 4],
  ['byteOrderMark', 20, 4],
  ['fileId', 24, 16],
  ['pageBytes', 40, 4],
  ['reservedBytes', 44, 4],
  ['extentBytes', 48, 4],
  ['clusterBytes', 52, 4],
  ['tree', 56, 4],
  ['order', 60, 4],
  ['sequence', 64, 8],
  ['commit', 72, 8],
  ['generation', 80, 8],
  ['replayPosition', 88, 8],
  ['nextPage', 96, 8],
  ['slotCount', 104, 4],
  ['flags', 108, 4],
  ['map', 112, 16],
  ['bitmap', 128, 16],
  ['checksum', 508, 4],
] as const;

/** Root of a radix tree of the file: the page map, or the bitmap of slots. */
export interface Root {
  /** Levels; 0 when there is no node. */
  readonly depth: number;
  readonly slot: number;
  readonly checksum: number;
  /** Map: pages in use. Bitmap: slots in use. */
  readonly usedCount: number;
}

/** Layout settings that hold for the whole file or as defaults of new collections. */
export interface FileLayout {
  readonly pageBytes: number;
  readonly extentBytes: number;
  readonly clusterBytes: number;
  readonly tree: 'b+tree' | 'b-tree';
  /** Children of a node at the most; 0: what fits a page. */
  readonly order: number;
}

export interface Header {
  readonly fileId: Uint8Array;
  readonly layout: FileLayout;
  readonly reservedBytes: number;
  readonly sequence: number;
  readonly commit: number;
  readonly generation: number;
  readonly replayPosition: number;
  readonly nextPage: number;
  readonly slotCount: number;
  readonly openForWriting: boolean;
  readonly map: Root;
  readonly bitmap: Root;
}

export const EMPTY_ROOT: Root = { depth: 0, slot: 0, checksum: 0, usedCount: 0 };

/** Slots at the start of the file that the two header copies take. */
export function headerSlots(pageBytes: number): number {
  return pageBytes >= 2 * HEADER_COPY_STRIDE ? 1 : 2;
}

function putRoot(view: DataView, at: number, root: Root): void {
  view.setUint32(at, root.depth, true);
  view.setUint32(at + 4, root.slot, true);
  view.setInt32(at + 8, root.checksum, true);
  view.setUint32(at + 12, root.usedCount, true);
}

function getRoot(view: DataView, at: number): Root {
  return {
    depth: view.getUint32(at, true),
    slot: view.getUint32(at + 4, true),
    checksum: view.getInt32(at + 8, true),
    usedCount: view.getUint32(at + 12, true),
  };
}

export function encodeHeader(header: Header): Uint8Array {
  const bytes = new Uint8Array(HEADER_BYTES);
  const view = new DataView(bytes.buffer);
  for (let i = 0; i < MAGIC.length; i++) bytes[i] = MAGIC.charCodeAt(i);
  view.setUint32(16, FORMAT_VERSION, true);
  view.setUint32(20, BYTE_ORDER_MARK, true);
  bytes.set(header.fileId, 24);
  view.setUint32(40, header.layout.pageBytes, true);
  view.setUint32(44, header.reservedBytes, true);
  view.setUint32(48, header.layout.extentBytes, true);
  view.setUint32(52, header.layout.clusterBytes, true);
  view.setUint32(56, header.layout.tree === 'b-tree' ? 1 : 0, true);
  view.setUint32(60, header.layout.order, true);
  view.setFloat64(64, header.sequence, true);
  view.setFloat64(72, header.commit, true);
  view.setFloat64(80, header.generation, true);
  view.setFloat64(88, header.replayPosition, true);
  view.setFloat64(96, header.nextPage, true);
  view.setUint32(104, header.slotCount, true);
  view.setUint32(108, header.openForWriting ? FLAG_OPEN : 0, true);
  putRoot(view, 112, header.map);
  putRoot(view, 128, header.bitmap);
  view.setInt32(508, crc32(bytes, 0, 508, 0), true);
  return bytes;
}

type CopyState =
  | { readonly kind: 'valid'; readonly header: Header }
  | { readonly kind: 'future'; readonly version: number }
  | { readonly kind: 'bad' } // has the magic, does not hold its checksum
  | { readonly kind: 'foreign' };

function decodeCopy(bytes: Uint8Array): CopyState {
  for (let i = 0; i < MAGIC.length; i++) {
    if (bytes[i] !== MAGIC.charCodeAt(i)) return { kind: 'foreign' };
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, HEADER_BYTES);
  if (view.getInt32(508, true) !== crc32(bytes, 0, 508, 0)) return { kind: 'bad' };
  const version = view.getUint32(16, true);
  if (version > FORMAT_VERSION) return { kind: 'future', version };
  if (view.getUint32(20, true) !== BYTE_ORDER_MARK) return { kind: 'bad' };
  const header = decodeFields(bytes, view);
  return isPossible(header) ? { kind: 'valid', header } : { kind: 'bad' };
}

function isCount(x: number, min: number, max: number): boolean {
  return Number.isSafeInteger(x) && x >= min && x <= max;
}

/** Whether the fields lie in their ranges: a checksum says nothing against a wrong writer. */
function isPossible(header: Header): boolean {
  const { layout, map, bitmap, slotCount } = header;
  const { pageBytes, order } = layout;
  const isPage = isCount(pageBytes, PAGE_BYTES_MIN, PAGE_BYTES_MAX);
  if (!isPage || (pageBytes & (pageBytes - 1)) !== 0) return false;
  const first = headerSlots(pageBytes);
  const numbers = [header.sequence, header.commit, header.generation, header.replayPosition];
  return (
    numbers.every((x) => isCount(x, 0, Number.MAX_SAFE_INTEGER)) &&
    header.replayPosition % 8 === 0 &&
    header.reservedBytes < pageBytes / 4 &&
    order < 65_536 &&
    isCount(header.nextPage, 1, IDS_MAX) &&
    isCount(slotCount, first, IDS_MAX) &&
    [map, bitmap].every((root) => {
      if (root.depth === 0) return root.slot === 0;
      return root.depth <= DEPTH_MAX && isCount(root.slot, first, slotCount - 1);
    })
  );
}

function decodeFields(bytes: Uint8Array, view: DataView): Header {
  return {
    fileId: bytes.slice(24, 40),
    layout: {
      pageBytes: view.getUint32(40, true),
      extentBytes: view.getUint32(48, true),
      clusterBytes: view.getUint32(52, true),
      tree: view.getUint32(56, true) === 1 ? 'b-tree' : 'b+tree',
      order: view.getUint32(60, true),
    },
    reservedBytes: view.getUint32(44, true),
    sequence: view.getFloat64(64, true),
    commit: view.getFloat64(72, true),
    generation: view.getFloat64(80, true),
    replayPosition: view.getFloat64(88, true),
    nextPage: view.getFloat64(96, true),
    slotCount: view.getUint32(104, true),
    openForWriting: (view.getUint32(108, true) & FLAG_OPEN) !== 0,
    map: getRoot(view, 112),
    bitmap: getRoot(view, 128),
  };
}

/** What reading the header found. */
export interface HeaderReading {
  readonly header: Header;
  /** Copies that are bad or older than the newest: they are written before anything is reused. */
  readonly staleCopies: readonly number[];
  /** Copies whose bytes are damaged; reported by `check`. */
  readonly badCopies: readonly number[];
}

/**
 * Reads both copies and takes the newest valid one.
 *
 * @throws {StorageError} storage.not_a_database, storage.future_format
 * @throws {CorruptionError} corrupt.header when both copies are bad.
 */
export function readHeader(file: File, path: string): HeaderReading {
  const copies = [0, 1].map((ordinal) => {
    const bytes = new Uint8Array(HEADER_BYTES);
    const length = file.read(bytes, 0, HEADER_BYTES, ordinal * HEADER_COPY_STRIDE);
    return length < HEADER_BYTES ? ({ kind: 'foreign' } as const) : decodeCopy(bytes);
  });
  // A newer program was here, and perhaps died between the copies: the older one is not taken.
  if (copies.some((c) => c.kind === 'future')) throw unreadable(copies, path);
  const valid = copies.flatMap((c) => (c.kind === 'valid' ? [c.header] : []));
  const newest = valid.reduce<Header | undefined>(
    (best, h) => (best === undefined || h.sequence > best.sequence ? h : best),
    undefined,
  );
  if (newest === undefined) throw unreadable(copies, path);
  const ordinals = [0, 1];
  return {
    header: newest,
    staleCopies: ordinals.filter((i) => {
      const copy = copies[i]!;
      return copy.kind !== 'valid' || copy.header.sequence !== newest.sequence;
    }),
    badCopies: ordinals.filter((i) => copies[i]!.kind !== 'valid'),
  };
}

function unreadable(copies: readonly CopyState[], path: string): Error {
  for (const copy of copies) {
    if (copy.kind !== 'future') continue;
    const message =
      `${path} has format version ${copy.version}; ` +
      `this program reads versions up to ${FORMAT_VERSION}`;
    return failure('storage.future_format', message, {
      detail: { path, fileVersion: copy.version, programVersion: FORMAT_VERSION },
    });
  }
  if (copies.some((c) => c.kind === 'bad')) {
    return failure('corrupt.header', `both header copies of ${path} are damaged`, {
      detail: { path },
    });
  }
  return failure('storage.not_a_database', `${path} is not a Monochord database`, {
    detail: { path },
  });
}

export function writeHeaderCopy(file: File, header: Header, ordinal: number): void {
  file.write(encodeHeader(header), 0, HEADER_BYTES, ordinal * HEADER_COPY_STRIDE);
}
