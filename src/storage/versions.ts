/**
 * Snapshots, and the older images of pages that they may still ask for (STORAGE rule 10).
 *
 * A version is the image of a page from one commit until the commit that replaced it. It is kept
 * while a snapshot lies in that interval, and hangs on the newest such snapshot; when that one
 * closes it moves to the next older one that needs it, or is dropped. A running checkpoint is a
 * snapshot like any other. Law S3: what a snapshot returns for a page never changes.
 */
import { assert } from '../base/assert.ts';
import { type Ledger } from '../base/ledger.ts';
import { type BufferId, type PageId } from './pages.ts';

/** Upper bound of the heap that a version takes with its table entries and held slot, bytes. */
const VERSION_BYTES = 320;
/** Upper bound of the heap that a snapshot takes, bytes. */
const SNAPSHOT_BYTES = 320;

export interface Version {
  readonly page: PageId;
  /** The commit that made the image. */
  readonly commit: number;
  /** The commit that replaced it. */
  readonly until: number;
  /** 0 when the image is only in its slot. */
  buffer: BufferId;
  /** A slot that holds the image and that this version names; 0 when there is none. */
  slot: number;
  checksum: number;
}

/** Snapshots of one commit. */
interface Point {
  readonly commit: number;
  count: number;
  readonly versions: Set<Version>;
}

export class Versions {
  /** Ascending by commit. */
  readonly #points: Point[] = [];
  readonly #byPage = new Map<PageId, Version[]>();
  readonly #byBuffer = new Map<BufferId, Version>();
  readonly #discard: (version: Version) => void;
  readonly #ledger: Ledger;
  #count = 0;

  /** `discard` gives back the buffer and the slot of a version that nobody needs. */
  constructor(discard: (version: Version) => void, ledger: Ledger) {
    this.#discard = discard;
    this.#ledger = ledger;
  }

  get count(): number {
    return this.#count;
  }

  /** Commits that snapshots are open at, ascending. */
  get commits(): number[] {
    return this.#points.map((p) => p.commit);
  }

  isOpen(commit: number): boolean {
    return this.#points.some((p) => p.commit === commit);
  }

  /** Opens a snapshot of the newest commit. */
  open(commit: number): void {
    const last = this.#points.at(-1);
    if (last?.commit === commit) {
      last.count++;
      return;
    }
    assert(last === undefined || last.commit < commit, 'snapshots are opened in order');
    this.#ledger.charge('versions', SNAPSHOT_BYTES);
    this.#points.push({ commit, count: 1, versions: new Set() });
  }

  /** Closes one snapshot of a commit. */
  close(commit: number): void {
    const place = this.#points.findIndex((p) => p.commit === commit);
    if (place < 0) return; // expired before
    const point = this.#points[place]!;
    if (--point.count > 0) return;
    this.#remove(place);
  }

  /** Closes every snapshot of a commit, so that reading at it fails. */
  expire(commit: number): void {
    const place = this.#points.findIndex((p) => p.commit === commit);
    if (place >= 0) this.#remove(place);
  }

  #remove(place: number): void {
    const [point] = this.#points.splice(place, 1);
    this.#ledger.release('versions', SNAPSHOT_BYTES);
    const older = this.#points[place - 1];
    for (const version of point!.versions) {
      if (older !== undefined && older.commit >= version.commit) older.versions.add(version);
      else this.#drop(version);
    }
  }

  #drop(version: Version): void {
    const list = this.#byPage.get(version.page)!;
    if (list.length === 1) this.#byPage.delete(version.page);
    else list.splice(list.indexOf(version), 1);
    if (version.buffer !== 0) this.#byBuffer.delete(version.buffer);
    this.#count--;
    this.#ledger.release('versions', VERSION_BYTES);
    this.#discard(version);
  }

  /** Whether a snapshot may ask for the image that `commit` made and that is replaced now. */
  needs(commit: number): boolean {
    const last = this.#points.at(-1);
    return last !== undefined && last.commit >= commit;
  }

  /**
   * Charges for `count` versions before any is kept.
   *
   * @throws {LimitError} limit.memory
   */
  reserve(count: number): void {
    this.#ledger.charge('versions', count * VERSION_BYTES);
  }

  bytesFor(count: number): number {
    return this.#points.length === 0 ? 0 : count * VERSION_BYTES;
  }

  /** Gives back what was reserved and not used. */
  unreserve(count: number): void {
    this.#ledger.release('versions', count * VERSION_BYTES);
  }

  /** Keeps a version that `needs` said yes to, out of what was reserved. */
  keep(version: Version): void {
    this.#points.at(-1)!.versions.add(version);
    const list = this.#byPage.get(version.page);
    if (list === undefined) this.#byPage.set(version.page, [version]);
    else list.push(version);
    if (version.buffer !== 0) this.#byBuffer.set(version.buffer, version);
    this.#count++;
  }

  /** The version of a page that a snapshot sees, `undefined` if it sees the newest image. */
  find(page: PageId, view: number): Version | undefined {
    if (this.#count === 0) return undefined;
    const list = this.#byPage.get(page);
    return list?.find((v) => v.commit <= view && view < v.until);
  }

  ofBuffer(buffer: BufferId): Version | undefined {
    return this.#byBuffer.get(buffer);
  }

  /** The image of a version is in a buffer now, or (0) in its slot only. */
  setBuffer(version: Version, buffer: BufferId): void {
    if (version.buffer !== 0) this.#byBuffer.delete(version.buffer);
    version.buffer = buffer;
    if (buffer !== 0) this.#byBuffer.set(buffer, version);
  }

  /** Closes everything. */
  dispose(): void {
    while (this.#points.length > 0) this.#remove(this.#points.length - 1);
  }
}
