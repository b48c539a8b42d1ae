/**
 * A random trial of a tree against a sorted map, over pages that take buffers away at every turn.
 *
 * From one seed: page size, layout, kinds of keys and values, then batches of puts, inserts,
 * deletes, range deletes, walks with writes in between, commits and rollbacks. After a batch the
 * whole tree is checked: entries in both directions, count, `check`, and that the tree's pages are
 * exactly those that exist (law S4). Snapshots are compared with the map of their commit.
 */
import { Ledger } from '../../src/base/ledger.ts';
import { Random } from '../../src/base/random.ts';
import { Cursor } from '../../src/storage/btree-cursor.ts';
import {
  EQUAL,
  INSERTED,
  Tree,
  UPDATED,
  WAITING,
  type TreeLayout,
} from '../../src/storage/btree.ts';
import { WRITER, type PageId, type View } from '../../src/storage/pages.ts';
import { WriteBuffers } from '../../src/storage/write-buffers.ts';
import { MemoryPages } from '../support/memory-pages.ts';

export const STRUCTURE = 7;

/** A key as a string of one character a byte: such strings compare as the bytes do. */
export type KeyText = string;

export function bytesOf(key: KeyText): Uint8Array {
  return new Uint8Array(Buffer.from(key, 'latin1'));
}

export function textOf(key: Uint8Array, length = key.length): KeyText {
  return Buffer.from(key.buffer, key.byteOffset, length).toString('latin1');
}

/** Fails with what differs. */
export function demand(condition: boolean, what: () => string): asserts condition {
  if (!condition) throw new Error(what());
}

export function demandBytes(found: Uint8Array, expected: Uint8Array, key: KeyText): void {
  demand(
    Buffer.compare(found, expected) === 0,
    () =>
      `value of ${show(key)}: ${found.length} bytes found, ${expected.length} expected; ` +
      `first difference at ${found.findIndex((byte, i) => byte !== expected[i])}`,
  );
}

export function show(key: KeyText): string {
  return JSON.stringify(key.length > 40 ? `${key.slice(0, 40)}... (${key.length})` : key);
}

/** Ways to make keys. */
export const KEY_KINDS = ['digits', 'binary', 'integers', 'prefixes', 'long', 'rising'] as const;
export type KeyKind = (typeof KEY_KINDS)[number];

/** Makes keys of one kind from a limited set, so that they are met again. */
export class KeySource {
  readonly #random: Random;
  readonly #kind: KeyKind;
  readonly #variety: number;
  readonly #pageBytes: number;
  #next: number;
  readonly #step: number;

  constructor(random: Random, kind: KeyKind, variety: number, pageBytes: number) {
    this.#random = random;
    this.#kind = kind;
    this.#variety = variety;
    this.#pageBytes = pageBytes;
    this.#step = random.chance(0.5) ? 1 : -1;
    this.#next = this.#step > 0 ? 0 : 2 ** 31;
  }

  next(): KeyText {
    const random = this.#random;
    const n = random.below(this.#variety);
    switch (this.#kind) {
      case 'digits':
        return `user${String(n).padStart(8, '0')}`;
      case 'binary':
        return this.#spelled(n, ['\0', '\x01', '\xff']);
      case 'integers':
        return textOf(integerKey(random.chance(0.1) ? n * 2 ** 20 : n));
      case 'prefixes':
        return `${'p'.repeat((n % 7) * 45)}${'q'.repeat(n % 3)}${n}`;
      case 'long':
        return this.#long(n);
      case 'rising':
        if (random.chance(0.2)) return textOf(integerKey(2 ** 30 + n));
        this.#next += this.#step;
        return textOf(integerKey(this.#next));
    }
  }

  /** Digits of n in a small alphabet, leading ones kept: keys that differ only in their zeroes. */
  #spelled(n: number, alphabet: readonly string[]): KeyText {
    let key = '';
    for (let rest = n; rest > 0; rest = Math.floor((rest - 1) / alphabet.length)) {
      key += alphabet[(rest - 1) % alphabet.length];
    }
    return key;
  }

  /** Lengths around all thresholds, differing at the front, behind the page's part, at the end. */
  #long(n: number): KeyText {
    const usable = this.#pageBytes;
    const lengths = [usable >> 5, usable >> 3, usable >> 2, usable, 3 * usable];
    const length = lengths[n % lengths.length]! + (Math.floor(n / 5) % 5) - 2;
    const front = String(Math.floor(n / 25) % 3);
    const end = String(Math.floor(n / 75));
    return front + 'l'.repeat(length - end.length) + end;
  }
}

/** An integer as 8 bytes that order as it does. */
export function integerKey(n: number): Uint8Array {
  const key = new Uint8Array(8);
  new DataView(key.buffer).setBigInt64(0, BigInt(n) ^ -(2n ** 63n));
  return key;
}

export interface TrialShape {
  readonly pageBytes: number;
  readonly reservedBytes: number;
  readonly layout: TreeLayout;
  readonly keys: KeyKind;
  readonly variety: number;
  /** Most bytes of ordinary values. */
  readonly valueBytes: number;
  /** Share of values with a length around a threshold of overflow. */
  readonly largeShare: number;
}

/** A random shape; orders below 41 come with small pages and values. */
export function randomShape(random: Random): TrialShape {
  const kind = random.pick(['b+tree', 'b-tree'] as const);
  const order = random.chance(0.5) ? random.between(3, 40) : undefined;
  const pageBytes = random.pick([4096, 4096, 4096, 8192, 16384, 65536]);
  const clusterBytes = random.pick([256, 512, 512, 1024, pageBytes / 2]);
  const large = random.chance(0.4);
  return {
    pageBytes,
    reservedBytes: random.pick([0, 28]),
    layout: { kind, order, clusterBytes },
    keys: random.pick(KEY_KINDS),
    variety: random.pick([30, 300, 1500]),
    valueBytes: random.pick([0, 8, 40, 120, 400]),
    largeShare: large ? 0.1 : 0,
  };
}

export class Trial {
  readonly random: Random;
  readonly shape: TrialShape;
  readonly pages: MemoryPages;
  readonly tree: Tree;
  map = new Map<KeyText, Uint8Array>();
  #committed = new Map<KeyText, Uint8Array>();
  #snapshot: { view: View; map: Map<KeyText, Uint8Array> } | undefined;
  readonly #keys: KeySource;
  /** Given: the tree is one of a store, whose entries in order take the short way. */
  readonly #buffers: WriteBuffers | undefined;
  /** How many keys come right behind the one before. */
  readonly #inOrder: number;
  #lastKey: KeyText = '';

  constructor(seed: number, shape?: TrialShape, isInStore = false) {
    this.random = new Random(seed);
    this.shape = shape ?? randomShape(this.random);
    this.pages = new MemoryPages(this.shape.pageBytes, this.shape.reservedBytes);
    const root = Tree.create(this.pages, STRUCTURE, this.shape.layout);
    this.#buffers = isInStore ? buffersWithoutRoom() : undefined;
    this.#inOrder = isInStore ? this.random.pick([0.5, 0.9, 0.98]) : 0;
    this.#buffers?.begin();
    this.tree = new Tree(this.pages, root, STRUCTURE, this.shape.layout, this.#buffers);
    const { keys, variety, pageBytes } = this.shape;
    this.#keys = new KeySource(this.random, keys, variety, pageBytes);
    this.pages.commit();
  }

  /** Runs a batch of operations of which a share are puts, then checks everything. */
  batch(operations: number, putShare: number): void {
    for (let i = 0; i < operations; i++) this.#operation(putShare);
    this.checkAll();
  }

  key(): KeyText {
    const { random } = this;
    const isNext = random.chance(this.#inOrder) && this.#lastKey.length < 300;
    this.#lastKey = isNext ? this.#behind(this.#lastKey) : this.#keys.next();
    return this.#lastKey;
  }

  /** A key soon behind another. */
  #behind(key: KeyText): KeyText {
    const last = key.charCodeAt(key.length - 1);
    const mayRise = key.length > 0 && last < 0xff && this.random.chance(0.9);
    return mayRise ? key.slice(0, -1) + String.fromCharCode(last + 1) : `${key}\0`;
  }

  value(): Uint8Array {
    const { random, shape } = this;
    let length = random.between(0, shape.valueBytes);
    if (random.chance(shape.largeShare)) {
      const { entryBytesMax, usableBytes } = this.tree.limits;
      const { pagePayload } = this.tree.overflow;
      const { payload, perPage } = this.tree.overflow.clusters;
      const clusters = payload * random.between(1, perPage);
      const whole = pagePayload * random.between(1, 3);
      const places = [entryBytesMax - 40, usableBytes >> 2, clusters, whole, whole + clusters];
      length = Math.max(0, random.pick(places) + random.between(-2, 2));
    }
    return filled(length, random.word());
  }

  put(key: KeyText, value: Uint8Array): void {
    const old = this.map.get(key);
    const expected =
      old === undefined ? INSERTED : Buffer.compare(old, value) === 0 ? EQUAL : UPDATED;
    const bytes = bytesOf(key);
    const found = this.tree.put(bytes, bytes.length, value, 0, value.length);
    demand(
      found === expected || (found === WAITING && this.#buffers !== undefined),
      () => `put of ${show(key)} answers ${found}, not ${expected}`,
    );
    this.map.set(key, value);
  }

  delete(key: KeyText): void {
    const found = this.tree.delete(bytesOf(key));
    const expected = this.map.delete(key);
    demand(found === expected, () => `delete of ${show(key)} answers ${found}`);
  }

  commit(): void {
    this.#buffers?.settle();
    this.#buffers?.begin();
    const view = this.pages.commit();
    this.#committed = new Map(this.map);
    if (this.random.chance(0.3)) this.#snapshot = { view, map: new Map(this.map) };
  }

  rollback(): void {
    this.#buffers?.forget();
    this.#buffers?.begin();
    this.pages.rollback();
    this.tree.noteRollback();
    this.map = new Map(this.#committed);
  }

  checkAll(): void {
    const { tree, pages } = this;
    checkEntries(tree, WRITER, this.map);
    const visited = new Set<PageId>();
    tree.check(WRITER, (page) => visited.add(page));
    const ids = pages.pageIds(WRITER);
    const lost = ids.filter((id) => !visited.has(id));
    demand(lost.length === 0, () => `pages ${lost.join(' ')} exist and are not the tree's`);
    demand(
      visited.size === ids.length,
      () => `${visited.size} pages are owned, ${ids.length} exist`,
    );
    demand(pages.pinCount === 0, () => `${pages.pinCount} pins are left`);
    if (this.#snapshot !== undefined) checkEntries(tree, this.#snapshot.view, this.#snapshot.map);
  }

  #operation(putShare: number): void {
    const { random } = this;
    const what = random.fraction();
    if (what < 0.02) this.commit();
    else if (what < 0.023) this.rollback();
    else if (what < 0.03) this.#walk();
    else if (what < 0.034) this.#deleteRange();
    else if (what < 0.1) this.#get(this.key());
    else if (what < 0.13) this.#insert(this.key(), this.value());
    else if (random.chance(putShare)) this.put(this.key(), this.#valueLike(this.key()));
    else this.delete(this.key());
  }

  /** A value, sometimes of the length and nearly the bytes of one that is there. */
  #valueLike(key: KeyText): Uint8Array {
    const old = this.map.get(key);
    if (old === undefined || this.random.chance(0.7)) return this.value();
    const value = old.slice();
    if (value.length > 0 && this.random.chance(0.7)) {
      value[this.random.below(value.length)]! ^= 1 + this.random.below(255);
    }
    return value;
  }

  #get(key: KeyText): void {
    const expected = this.map.get(key);
    const found = this.tree.find(WRITER, bytesOf(key));
    demand(found === (expected !== undefined), () => `find of ${show(key)} answers ${found}`);
    if (expected !== undefined) demandBytes(this.tree.valueCopy(), expected, key);
  }

  #insert(key: KeyText, value: Uint8Array): void {
    const bytes = bytesOf(key);
    const done = this.tree.insert(bytes, bytes.length, value, 0, value.length);
    demand(done === !this.map.has(key), () => `insert of ${show(key)} answers ${done}`);
    if (done) this.map.set(key, value);
  }

  #deleteRange(): void {
    const { random } = this;
    const ends = [this.key(), this.key()].sort();
    if (random.chance(0.5)) ends[1] = ends[0]! + '\x02';
    const from = random.chance(0.05) ? undefined : ends[0]!;
    const to = random.chance(0.05) ? undefined : ends[1]!;
    const removed = this.tree.deleteRange(
      from === undefined ? undefined : bytesOf(from),
      to === undefined ? undefined : bytesOf(to),
    );
    let expected = 0;
    for (const key of this.map.keys()) {
      if ((from !== undefined && key < from) || (to !== undefined && key >= to)) continue;
      this.map.delete(key);
      expected++;
    }
    demand(removed === expected, () => `deleteRange answers ${removed}, not ${expected}`);
  }

  /** Walks some steps in both directions, with writes in between. */
  #walk(): void {
    const { random } = this;
    const cursor = new Cursor(this.tree, WRITER);
    let at: KeyText = this.key();
    const inclusive = random.chance(0.5);
    const reverse = random.chance(0.5);
    let step = cursor.seek(bytesOf(at), at.length, inclusive, reverse);
    let expected = neighbour(this.map, at, inclusive, reverse);
    for (let i = 0; i < 12; i++) {
      demand(step === (expected !== undefined), () => `a step from ${show(at)} answers ${step}`);
      if (expected === undefined) break;
      at = textOf(cursor.key, cursor.keyLength);
      demand(at === expected, () => `a step ends at ${show(at)}, not ${show(expected!)}`);
      demandBytes(cursor.valueCopy(), this.map.get(at)!, at);
      if (random.chance(0.3)) this.put(this.key(), this.value());
      if (random.chance(0.3)) this.delete(random.chance(0.3) ? at : this.key());
      const back = random.chance(0.4);
      expected = neighbour(this.map, at, false, back);
      step = back ? cursor.previous() : cursor.next();
    }
    cursor.close();
  }
}

/** Write buffers of a budget that lets nothing wait: what waits is for tests of their own. */
function buffersWithoutRoom(): WriteBuffers {
  return new WriteBuffers({
    ledger: new Ledger(1 << 20),
    work: () => {
      throw new Error('nothing waits that could be spilled');
    },
    makeRoom: () => undefined,
    isBeyondCache: () => false,
    failed: () => undefined,
  });
}

/** The key of the map next to a key. */
function neighbour(
  map: Map<KeyText, Uint8Array>,
  key: KeyText,
  inclusive: boolean,
  reverse: boolean,
): KeyText | undefined {
  let best: KeyText | undefined;
  for (const other of map.keys()) {
    if (other === key ? !inclusive : other < key !== reverse) continue;
    if (best === undefined || other < best !== reverse) best = other;
  }
  return best;
}

/** Compares all entries, in both directions, and the count. */
export function checkEntries(tree: Tree, view: View, map: Map<KeyText, Uint8Array>): void {
  const keys = [...map.keys()].sort();
  const count = tree.count(view);
  demand(count === keys.length, () => `count is ${count}, not ${keys.length}`);
  const cursor = new Cursor(tree, view);
  let i = 0;
  for (let step = cursor.first(); step; step = cursor.next(), i++) {
    const key = textOf(cursor.key, cursor.keyLength);
    demand(key === keys[i], () => `entry ${i} is ${show(key)}, not ${show(keys[i] ?? 'none')}`);
    demandBytes(cursor.valueCopy(), map.get(key)!, key);
  }
  demand(i === keys.length, () => `a scan ends after ${i} of ${keys.length} entries`);
  for (let step = cursor.last(); step; step = cursor.previous()) {
    const key = textOf(cursor.key, cursor.keyLength);
    demand(key === keys[--i], () => `entry ${i} from behind is ${show(key)}`);
  }
  demand(i === 0, () => `a reverse scan leaves ${i} entries`);
  cursor.close();
}

/** Bytes that a seed decides, fast. */
export function filled(length: number, seed: number): Uint8Array {
  const bytes = new Uint8Array(length);
  let x = seed | 1;
  for (let i = 0; i < length; i++) {
    x = (Math.imul(x, 1664525) + 1013904223) | 0;
    bytes[i] = x >>> 24;
  }
  return bytes;
}
