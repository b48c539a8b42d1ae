/**
 * Checksums: `pageChecksum` for pages, `crc32` for headers and log frames.
 *
 * `pageChecksum` is the eight-lane form of xxHash32 over 32-bit words: fast in JavaScript (about
 * 7 GB/s), and one changed bit always changes the lane it falls in, since each round is a
 * bijection of the lane. Source: Yann Collet, xxHash fast digest algorithm (specification).
 *
 * `crc32` is the polynomial 0xEDB88320 (IEEE 802.3) by two routes with one result: slicing-by-4 in
 * JavaScript for short inputs, `zlib.crc32` for long ones where the running Node has it.
 */
const PRIME_1 = 0x9e3779b1 | 0;
const PRIME_2 = 0x85ebca77 | 0;
const PRIME_3 = 0xc2b2ae3d | 0;
const PRIME_4 = 0x27d4eb2f | 0;
const PRIME_5 = 0x165667b1 | 0;

const { imul } = Math;

function merge(hash: number, lane: number): number {
  const x = imul(hash ^ imul(lane, PRIME_3), PRIME_4);
  return (x << 17) | (x >>> 15);
}

/**
 * Checksum of `count` words from `from` on; `count` is a multiple of eight. The rounds are written
 * out: a process that opens a file and gets one key runs this before anything is compiled.
 */
export function pageChecksum(words: Int32Array, from: number, count: number, seed: number): number {
  let a = (seed + PRIME_1) | 0;
  let b = (seed + PRIME_2) | 0;
  let c = (seed + PRIME_3) | 0;
  let d = (seed + PRIME_4) | 0;
  let e = (seed + PRIME_5) | 0;
  let f = seed ^ PRIME_1;
  let g = seed ^ PRIME_2;
  let h = seed ^ PRIME_3;
  const end = from + count;
  for (let i = from; i < end; i += 8) {
    a = (a + imul(words[i]!, PRIME_2)) | 0;
    a = imul((a << 13) | (a >>> 19), PRIME_1);
    b = (b + imul(words[i + 1]!, PRIME_2)) | 0;
    b = imul((b << 13) | (b >>> 19), PRIME_1);
    c = (c + imul(words[i + 2]!, PRIME_2)) | 0;
    c = imul((c << 13) | (c >>> 19), PRIME_1);
    d = (d + imul(words[i + 3]!, PRIME_2)) | 0;
    d = imul((d << 13) | (d >>> 19), PRIME_1);
    e = (e + imul(words[i + 4]!, PRIME_2)) | 0;
    e = imul((e << 13) | (e >>> 19), PRIME_1);
    f = (f + imul(words[i + 5]!, PRIME_2)) | 0;
    f = imul((f << 13) | (f >>> 19), PRIME_1);
    g = (g + imul(words[i + 6]!, PRIME_2)) | 0;
    g = imul((g << 13) | (g >>> 19), PRIME_1);
    h = (h + imul(words[i + 7]!, PRIME_2)) | 0;
    h = imul((h << 13) | (h >>> 19), PRIME_1);
  }
  let x = merge(count, a);
  x = merge(x, b);
  x = merge(x, c);
  x = merge(x, d);
  x = merge(x, e);
  x = merge(x, f);
  x = merge(x, g);
  x = merge(x, h);
  x = imul(x ^ (x >>> 15), PRIME_2);
  x = imul(x ^ (x >>> 13), PRIME_3);
  return x ^ (x >>> 16);
}

const TABLES = makeTables();

function makeTables(): Int32Array {
  const tables = new Int32Array(4 * 256);
  for (let i = 0; i < 256; i++) {
    let x = i;
    for (let k = 0; k < 8; k++) x = x & 1 ? (x >>> 1) ^ 0xedb88320 : x >>> 1;
    tables[i] = x;
  }
  for (let i = 0; i < 256; i++) {
    for (let t = 1; t < 4; t++) {
      const before = tables[(t - 1) * 256 + i]!;
      tables[t * 256 + i] = (before >>> 8) ^ tables[before & 255]!;
    }
  }
  return tables;
}

/** The route in JavaScript; `seed` is the checksum of what came before, 0 at the start. */
export function crc32Plain(bytes: Uint8Array, from: number, to: number, seed: number): number {
  let x = ~seed;
  let i = from;
  for (; i + 4 <= to; i += 4) {
    x ^= bytes[i]! | (bytes[i + 1]! << 8) | (bytes[i + 2]! << 16) | (bytes[i + 3]! << 24);
    x =
      TABLES[768 + (x & 255)]! ^
      TABLES[512 + ((x >>> 8) & 255)]! ^
      TABLES[256 + ((x >>> 16) & 255)]! ^
      TABLES[x >>> 24]!;
  }
  for (; i < to; i++) x = (x >>> 8) ^ TABLES[(x ^ bytes[i]!) & 255]!;
  return ~x;
}

type NativeCrc32 = (data: Uint8Array, value: number) => number;

/** Loaded at the first long input: importing the package and opening a file do without. */
function loadNative(): NativeCrc32 {
  const zlib = process.getBuiltinModule('node:zlib') as { crc32?: NativeCrc32 };
  return zlib.crc32 ?? ((bytes, seed) => crc32Plain(bytes, 0, bytes.length, seed));
}
let nativeCrc32: NativeCrc32 | undefined;

/** Below this length the call into zlib costs more than the loop (FEASIBILITY 15.2). */
const NATIVE_FROM_BYTES = 512;

/** CRC-32 of `bytes[from..to)` as a signed 32-bit number, continued from `seed`. */
export function crc32(bytes: Uint8Array, from: number, to: number, seed: number): number {
  if (to - from < NATIVE_FROM_BYTES) return crc32Plain(bytes, from, to, seed);
  nativeCrc32 ??= loadNative();
  return nativeCrc32(bytes.subarray(from, to), seed >>> 0) | 0;
}
