/** The header: its two copies, its fields, and what a damaged, foreign or future file says. */
import { describe, expect, test } from 'vitest';
import { crc32 } from '../../src/base/checksum.ts';
import { DatabaseError } from '../../src/errors.ts';
import {
  encodeHeader,
  FORMAT_VERSION,
  HEADER_BYTES,
  HEADER_COPY_STRIDE,
  HEADER_FIELDS,
  readHeader,
} from '../../src/storage/header.ts';
import { FaultFileSystem } from '../faults/fault-file.ts';
import { codeOf, commitNew, holds, open, PAGE_BYTES, PATH } from '../support/small-storage.ts';

/** A disk with a closed file of three pages. */
function closedDisk(): FaultFileSystem {
  const disk = new FaultFileSystem({ seed: 1 });
  const storage = open(disk);
  commitNew(storage, 3, 1);
  storage.close();
  return disk;
}

function seal(image: Uint8Array, ordinal: number): void {
  const at = ordinal * HEADER_COPY_STRIDE;
  const view = new DataView(image.buffer, image.byteOffset + at, HEADER_BYTES);
  view.setInt32(508, crc32(image.subarray(at, at + HEADER_BYTES), 0, 508, 0), true);
}

/** Changes both copies by `change`, with checksums that fit. */
function forge(disk: FaultFileSystem, change: (view: DataView) => void, copies = [0, 1]): void {
  const image = disk.image(PATH);
  for (const ordinal of copies) {
    const at = image.byteOffset + ordinal * HEADER_COPY_STRIDE;
    change(new DataView(image.buffer, at, HEADER_BYTES));
    seal(image, ordinal);
  }
  disk.setImage(PATH, image);
}

function spoil(disk: FaultFileSystem, ordinals: readonly number[], offset = 64): void {
  const image = disk.image(PATH);
  for (const ordinal of ordinals) image[ordinal * HEADER_COPY_STRIDE + offset]! ^= 4;
  disk.setImage(PATH, image);
}

describe('readHeader', () => {
  test('encodeHeader then readHeader gives every field back', () => {
    const disk = closedDisk();
    const { header } = readHeader(disk.open(PATH, 'read'), PATH);
    const odd = {
      ...header,
      layout: { ...header.layout, tree: 'b-tree' as const, order: 77, clusterBytes: 1024 },
      sequence: 2 ** 40,
      commit: 2 ** 41,
      generation: 2 ** 33,
      replayPosition: 2 ** 45,
      nextPage: 2 ** 30,
      slotCount: 2 ** 30,
      openForWriting: true,
      map: { depth: 2, slot: 2 ** 29, checksum: -7, usedCount: 2 ** 30 - 9 },
    };
    const image = disk.image(PATH);
    for (const ordinal of [0, 1]) image.set(encodeHeader(odd), ordinal * HEADER_COPY_STRIDE);
    disk.setImage(PATH, image);
    expect(readHeader(disk.open(PATH, 'read'), PATH).header).toEqual(odd);
  });

  test('HEADER_FIELDS do not overlap and stay inside a copy', () => {
    let end = 0;
    for (const [name, offset, bytes] of HEADER_FIELDS) {
      expect(offset, name).toBeGreaterThanOrEqual(end);
      end = offset + bytes;
    }
    expect(end).toBe(HEADER_BYTES);
  });

  test('the newer of two valid copies wins, and the older is written before anything else', () => {
    const disk = closedDisk();
    forge(disk, (view) => view.setFloat64(64, 1000, true), [1]);
    const storage = open(disk);
    expect(storage.header.sequence).toBe(1000);
    expect(storage.mendedCopies).toEqual([]);
    const image = disk.image(PATH);
    expect(image.subarray(0, HEADER_BYTES)).toEqual(
      image.subarray(HEADER_COPY_STRIDE, HEADER_COPY_STRIDE + HEADER_BYTES),
    );
    expect(disk.pendingCount(PATH), 'mended and synced').toBe(0);
    storage.close();
  });

  test.each([0, 1])('a damaged copy %i is mended and reported', (ordinal) => {
    const disk = closedDisk();
    spoil(disk, [ordinal]);
    const first = open(disk);
    expect(first.mendedCopies).toEqual([ordinal]);
    expect(holds(first, 1 as never, 1)).toBe(true);
    first.close();
    const second = open(disk);
    expect(second.mendedCopies).toEqual([]);
    second.close();
  });

  test('a damaged copy is reported and left alone by a read-only open', () => {
    const disk = closedDisk();
    spoil(disk, [0]);
    const before = disk.image(PATH);
    const storage = open(disk, { readOnly: true });
    expect(storage.mendedCopies).toEqual([0]);
    storage.close();
    expect(disk.image(PATH)).toEqual(before);
  });

  test('two damaged copies are corrupt.header, and nothing is written', () => {
    const disk = closedDisk();
    spoil(disk, [0, 1]);
    const before = disk.image(PATH);
    expect(codeOf(() => open(disk))).toBe('corrupt.header');
    expect(disk.image(PATH)).toEqual(before);
    expect(disk.lockHolder(PATH), 'the lock is given back').toBeUndefined();
  });

  test.each([[[0, 1]], [[0]], [[1]]])('a future version in copies %j is refused', (copies) => {
    const disk = closedDisk();
    forge(disk, (view) => view.setUint32(16, FORMAT_VERSION + 6, true), copies);
    const before = disk.image(PATH);
    let found: unknown;
    try {
      open(disk);
    } catch (cause) {
      found = cause;
    }
    expect(found).toBeInstanceOf(DatabaseError);
    expect((found as DatabaseError).code).toBe('storage.future_format');
    expect((found as Error).message).toContain(`${FORMAT_VERSION + 6}`);
    expect((found as Error).message).toMatch(new RegExp(`up to ${FORMAT_VERSION}$`));
    expect(disk.image(PATH)).toEqual(before);
  });

  test.each([
    ['an empty file', 0],
    ['a short file', 100],
    ['a foreign file', 20_000],
  ])('%s is storage.not_a_database, and stays as it is', (_, length) => {
    const disk = new FaultFileSystem({ seed: 1 });
    const bytes = new Uint8Array(length).fill(65);
    disk.setImage(PATH, bytes);
    expect(codeOf(() => open(disk))).toBe('storage.not_a_database');
    expect(codeOf(() => open(disk, { readOnly: true }))).toBe('storage.not_a_database');
    expect(disk.image(PATH)).toEqual(bytes);
    expect(disk.exists(`${PATH}-log`)).toBe(false);
  });

  test('fields out of their ranges are corruption, not trust, though the checksum fits', () => {
    const changes: [string, (view: DataView) => void][] = [
      ['page size 0', (v) => v.setUint32(40, 0, true)],
      ['page size 4097', (v) => v.setUint32(40, 4097, true)],
      ['page size 2^31', (v) => v.setUint32(40, 2 ** 31, true)],
      ['reserved bytes', (v) => v.setUint32(44, PAGE_BYTES, true)],
      ['sequence NaN', (v) => v.setFloat64(64, NaN, true)],
      ['commit below 0', (v) => v.setFloat64(72, -1, true)],
      ['generation half', (v) => v.setFloat64(80, 0.5, true)],
      ['replay position odd', (v) => v.setFloat64(88, 4, true)],
      ['next page 0', (v) => v.setFloat64(96, 0, true)],
      ['next page huge', (v) => v.setFloat64(96, 1e300, true)],
      ['slots 0', (v) => v.setUint32(104, 0, true)],
      ['depth of the map', (v) => v.setUint32(112, 2 ** 32 - 1, true)],
      ['depth of the bitmap', (v) => v.setUint32(128, 60, true)],
      ['root of the map', (v) => v.setUint32(116, 2 ** 31, true)],
      ['root of the bitmap in the header', (v) => v.setUint32(132, 0, true)],
    ];
    for (const [what, change] of changes) {
      const disk = closedDisk();
      forge(disk, change);
      expect(
        codeOf(() => open(disk)),
        what,
      ).toBe('corrupt.header');
    }
  });
});

describe('Storage.open layout', () => {
  test('settings of the file win, and a different one that was named shows both values', () => {
    const disk = closedDisk();
    const storage = open(disk, { layout: { ...storageLayout(), pageBytes: 65_536 } });
    expect(storage.pageBytes).toBe(PAGE_BYTES);
    storage.close();
    for (const [name, value] of Object.entries({
      pageBytes: 8192,
      extentBytes: 4096,
      clusterBytes: 256,
      tree: 'b-tree',
      order: 5,
    })) {
      const call = (): unknown => open(disk, { named: { [name]: value } });
      expect(codeOf(call), name).toBe('usage.layout');
      expect(call, name).toThrow(String(value));
    }
    open(disk, { named: { pageBytes: PAGE_BYTES, tree: 'b+tree' } }).close();
  });
});

function storageLayout() {
  return {
    pageBytes: PAGE_BYTES,
    extentBytes: 16 * PAGE_BYTES,
    clusterBytes: 512,
    tree: 'b+tree' as const,
    order: 0,
  };
}
