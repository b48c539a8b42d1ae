/**
 * The contents of one file of the fault disk: what the running process sees, what the disk is sure
 * to hold, and the changes in between, of which a power loss keeps what it likes.
 *
 * Two images, and a list of changes that lead from the one to the other:
 *
 *   durable --(pending changes, in order)--> live
 *      ^                                       |
 *      +------------- sync --------------------+
 *
 * What a power loss may do (`survive`), and no more:
 *
 * - The unit is a sector of 512 bytes. A sector ends up as it was after some prefix of the changes
 *   that touched it. Different sectors are independent: a later write may survive where an
 *   earlier one to other sectors does not, and a write may survive in some of its sectors only.
 *   Within one sector there is no such choice, since the operating system writes whole pages.
 * - A sector caught in the middle may hold garbage, but only in the bytes that the write covered:
 *   bytes beside them that were durable stay (SQLite calls this powersafe overwrite).
 * - The length of the file ends up as it was after some prefix of the changes, independent of the
 *   sectors: data may lie cut off, or be missing and read as zeroes.
 * - A truncation either happened, with everything behind it gone, or did not, and then nothing
 *   that was written behind it afterwards survives.
 */
import type { Random } from '../../src/base/random.ts';

export const SECTOR_BYTES = 512;
export const BLOCK_BYTES = 4096;
const CHUNK_BYTES = 16 * 1024;

interface Write {
  readonly kind: 'write';
  readonly sequence: number;
  readonly position: number;
  readonly bytes: Uint8Array;
  /** Length of the live file after the change. */
  readonly lengthAfter: number;
}

interface Truncation {
  readonly kind: 'truncation';
  readonly sequence: number;
  readonly lengthAfter: number;
}

type Change = Write | Truncation;

/**
 * How a power loss treats unsynced changes: keeps all, loses all, keeps those up to a moment, or
 * decides write by write or sector by sector.
 */
export type Weather =
  | { readonly kind: 'kept' | 'lost' | 'writes' | 'sectors' }
  | { readonly kind: 'moment'; readonly sequence: number };

const GARBAGE_CHANCE = 0.03;

/** What a power loss leaves of the sectors. */
interface Survival {
  /** Ordinal of the last change that a sector holds; none: as it was when last synced. */
  readonly lastKept: Map<number, number>;
  /** Sectors that were being written: garbage, where nothing newer is kept. */
  readonly garbled: Set<number>;
}

/**
 * Growable bytes; those beyond `length` are always zero. Copies share chunks until one of them
 * writes there, since a simulated power loss copies whole disks.
 */
export class Image {
  readonly #chunks: (Uint8Array | undefined)[] = [];
  /** Whether the chunk is this image's alone. */
  #owned: boolean[] = [];
  length: number;

  constructor(bytes: Uint8Array = new Uint8Array(0)) {
    this.length = 0;
    this.write(bytes, 0);
  }

  copy(): Image {
    const copy = new Image();
    for (const [i, chunk] of this.#chunks.entries()) copy.#chunks[i] = chunk;
    copy.length = this.length;
    this.#owned = [];
    return copy;
  }

  /** Everything, in one piece. */
  get bytes(): Uint8Array {
    const bytes = new Uint8Array(this.length);
    this.read(bytes, 0, this.length, 0);
    return bytes;
  }

  read(target: Uint8Array, targetOffset: number, length: number, position: number): void {
    for (let done = 0; done < length;) {
      const start = (position + done) % CHUNK_BYTES;
      const n = Math.min(length - done, CHUNK_BYTES - start);
      const chunk = this.#chunks[Math.floor((position + done) / CHUNK_BYTES)];
      const to = targetOffset + done;
      if (chunk === undefined) target.fill(0, to, to + n);
      else target.set(chunk.subarray(start, start + n), to);
      done += n;
    }
  }

  write(source: Uint8Array, position: number): void {
    for (let done = 0; done < source.length;) {
      const start = (position + done) % CHUNK_BYTES;
      const n = Math.min(source.length - done, CHUNK_BYTES - start);
      const chunk = this.#own(Math.floor((position + done) / CHUNK_BYTES));
      chunk.set(source.subarray(done, done + n), start);
      done += n;
    }
    this.length = Math.max(this.length, position + source.length);
  }

  setLength(length: number): void {
    if (length < this.length) {
      const kept = Math.ceil(length / CHUNK_BYTES);
      this.#chunks.length = Math.min(this.#chunks.length, kept);
      this.#owned.length = Math.min(this.#owned.length, kept);
      const isCut = length % CHUNK_BYTES > 0 && this.#chunks[kept - 1] !== undefined;
      if (isCut) this.#own(kept - 1).fill(0, length % CHUNK_BYTES);
    }
    this.length = length;
  }

  #own(ordinal: number): Uint8Array {
    let chunk = this.#chunks[ordinal];
    if (chunk !== undefined && this.#owned[ordinal] === true) return chunk;
    chunk = chunk === undefined ? new Uint8Array(CHUNK_BYTES) : chunk.slice();
    this.#chunks[ordinal] = chunk;
    this.#owned[ordinal] = true;
    return chunk;
  }
}

export class FaultNode {
  live: Image;
  durable: Image;
  #pending: Change[] = [];
  /** For each block of the live file, whether space of the disk is taken for it. */
  #blocks = new Uint8Array(0);
  #blockCount = 0;

  constructor(durable: Image = new Image()) {
    this.durable = durable;
    this.live = durable.copy();
    this.#takeBlocks(0, this.live.length);
  }

  get pendingCount(): number {
    return this.#pending.length;
  }

  /** Space taken on the disk; holes take none. */
  get allocatedBytes(): number {
    return this.#blockCount * BLOCK_BYTES;
  }

  /** Space that a write there would take in addition. */
  bytesToAllocate(position: number, length: number): number {
    if (length === 0) return 0;
    let count = 0;
    const last = Math.ceil((position + length) / BLOCK_BYTES);
    for (let block = Math.floor(position / BLOCK_BYTES); block < last; block++)
      if (this.#blocks[block] !== 1) count++;
    return count * BLOCK_BYTES;
  }

  write(source: Uint8Array, position: number, sequence: number): void {
    const bytes = source.slice();
    this.live.write(bytes, position);
    this.#takeBlocks(position, bytes.length);
    const lengthAfter = this.live.length;
    this.#pending.push({ kind: 'write', sequence, position, bytes, lengthAfter });
  }

  truncate(length: number, sequence: number): void {
    this.live.setLength(length);
    const first = Math.ceil(length / BLOCK_BYTES);
    for (let block = first; block < this.#blocks.length; block++) {
      this.#blockCount -= this.#blocks[block]!;
      this.#blocks[block] = 0;
    }
    this.#pending.push({ kind: 'truncation', sequence, lengthAfter: length });
  }

  /** Makes every pending change durable. */
  sync(): void {
    for (const change of this.#pending)
      if (change.kind === 'write') this.durable.write(change.bytes, change.position);
      else this.durable.setLength(change.lengthAfter);
    this.durable.setLength(this.live.length);
    this.#pending = [];
  }

  /**
   * A sync that failed: the disk keeps what it likes, and what it lost stays lost, since the
   * operating system takes the changes for written. The running process goes on seeing them.
   */
  failSync(random: Random, weather: Weather): void {
    this.durable = this.survive(random, weather);
    this.#pending = [];
  }

  /** What the disk holds after a power loss now. Changes nothing here. */
  survive(random: Random, weather: Weather): Image {
    const survivor = this.durable.copy();
    const length = this.#survivingChangesOfLength(random, weather);
    const sectors = this.#survivingSectors(random, weather, length);
    for (const [ordinal, change] of this.#pending.entries()) {
      if (change.kind === 'write') applySectors(survivor, change, ordinal, sectors, random);
      else if (ordinal < length) survivor.setLength(change.lengthAfter);
    }
    survivor.setLength(length === 0 ? this.durable.length : this.#lengthAfter(length));
    return survivor;
  }

  #lengthAfter(count: number): number {
    return this.#pending[count - 1]!.lengthAfter;
  }

  /** How many of the pending changes, from the first, the surviving length has seen. */
  #survivingChangesOfLength(random: Random, weather: Weather): number {
    const count = this.#pending.length;
    if (weather.kind === 'kept') return count;
    if (weather.kind === 'lost') return 0;
    if (weather.kind === 'moment')
      return this.#pending.filter((change) => change.sequence <= weather.sequence).length;
    return random.chance(0.7) ? count : random.between(0, count);
  }

  #survivingSectors(random: Random, weather: Weather, length: number): Survival {
    const survival: Survival = { lastKept: new Map(), garbled: new Set() };
    let cutAt = Infinity; // behind it lies what a lost truncation would have cut
    for (const [ordinal, change] of this.#pending.entries()) {
      if (change.kind === 'truncation') {
        if (ordinal >= length) cutAt = Math.min(cutAt, change.lengthAfter);
        continue;
      }
      const fate = fateOf(change, random, weather);
      const first = Math.floor(change.position / SECTOR_BYTES);
      const end = change.position + change.bytes.length;
      const count = Math.ceil(end / SECTOR_BYTES) - first;
      const keeps = keptSectors(fate, count, random);
      for (let i = 0; i < count && (first + i + 1) * SECTOR_BYTES <= cutAt; i++)
        if (keeps(i)) survival.lastKept.set(first + i, ordinal);
        else if (fate === 'torn' && random.chance(GARBAGE_CHANCE)) survival.garbled.add(first + i);
    }
    return survival;
  }

  #takeBlocks(position: number, length: number): void {
    if (length === 0) return;
    const last = Math.ceil((position + length) / BLOCK_BYTES);
    if (last > this.#blocks.length) {
      const grown = new Uint8Array(2 * last);
      grown.set(this.#blocks);
      this.#blocks = grown;
    }
    for (let block = Math.floor(position / BLOCK_BYTES); block < last; block++) {
      this.#blockCount += 1 - this.#blocks[block]!;
      this.#blocks[block] = 1;
    }
  }
}

type Fate = 'kept' | 'lost' | 'torn';

function fateOf(change: Change, random: Random, weather: Weather): Fate {
  switch (weather.kind) {
    case 'kept':
    case 'lost':
      return weather.kind;
    case 'moment':
      if (change.sequence === weather.sequence) return 'torn';
      return change.sequence < weather.sequence ? 'kept' : 'lost';
    case 'sectors':
      return 'torn';
    case 'writes':
      return random.pick(['kept', 'kept', 'lost', 'lost', 'torn'] as const);
  }
}

/** Says which of a write's `count` sectors survive: a front run, a back run, or any. */
function keptSectors(fate: Fate, count: number, random: Random): (sector: number) => boolean {
  if (fate === 'kept') return () => true;
  if (fate === 'lost') return () => false;
  const shape = random.pick(['front', 'back', 'any'] as const);
  const middle = random.between(0, count);
  if (shape === 'front') return (sector) => sector < middle;
  if (shape === 'back') return (sector) => sector >= middle;
  const share = random.fraction();
  return () => random.chance(share);
}

/** Applies those sectors of a write that hold it or a later change; rarely as garbage. */
function applySectors(
  survivor: Image,
  write: Write,
  ordinal: number,
  survival: Survival,
  random: Random,
): void {
  const end = write.position + write.bytes.length;
  let from = write.position;
  while (from < end) {
    const sector = Math.floor(from / SECTOR_BYTES);
    const to = Math.min(end, (sector + 1) * SECTOR_BYTES);
    const last = survival.lastKept.get(sector) ?? -1;
    if (last >= ordinal)
      survivor.write(write.bytes.subarray(from - write.position, to - write.position), from);
    else if (last === -1 && survival.garbled.has(sector))
      survivor.write(garbage(to - from, random), from);
    from = to;
  }
}

function garbage(length: number, random: Random): Uint8Array {
  const bytes = new Uint8Array(length);
  random.fill(bytes);
  return bytes;
}
