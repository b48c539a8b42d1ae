/**
 * The catalog: one tree, rooted at page 1, that names everything else. It is read on demand, so
 * opening costs the same however much there is, and it is a tree like others, so it goes back with
 * a transaction and a snapshot sees its own.
 *
 *   key                              value
 *   'C' name                         map { structure, root, definition } of a collection
 *   'I' collection:4 name            map { structure, root, definition } of an index
 *   'F' collection:4 number:4        name of an undeclared field, UTF-8
 *   'N' collection:4                 next generated id, varint
 *   'A' collection:4                 map of statistics from the last analysis
 *   'S'                              next structure id, varint
 *
 * `collection` is the structure id of the collection's tree, highest byte first; it is never used
 * again. Maps are in the value encoding.
 */
import {
  ByteWriter,
  MALFORMED,
  readBigEndian32,
  readUtf8,
  readVarint,
  writeBigEndian32,
  writeUtf8,
} from '../base/bytes.ts';
import { assert } from '../base/assert.ts';
import { failure } from '../errors.ts';
import {
  collectionFromValue,
  definitionToValue,
  indexFromValue,
  requireName,
  type CollectionDefinition,
  type IndexDefinition,
} from '../model/schema.ts';
import { readWholeValue, writeValue } from '../model/value-codec.ts';
import type { Value, ValueMap } from '../model/value.ts';
import { Cursor } from '../storage/btree-cursor.ts';
import { Tree } from '../storage/btree.ts';
import {
  LATEST,
  WRITER,
  type PageId,
  type Pages,
  type StructureId,
  type View,
} from '../storage/pages.ts';

const CATALOG_ROOT = 1 as PageId;
const CATALOG_STRUCTURE: StructureId = 1;
const CATALOG_LAYOUT = { kind: 'b+tree' } as const;

const COLLECTION = 'C'.charCodeAt(0);
const INDEX = 'I'.charCodeAt(0);
const FIELD_NAME = 'F'.charCodeAt(0);
const NEXT_ID = 'N'.charCodeAt(0);
const ANALYSIS = 'A'.charCodeAt(0);
const NEXT_STRUCTURE = 'S'.charCodeAt(0);

export interface CollectionEntry {
  readonly structure: StructureId;
  readonly root: PageId;
  readonly definition: CollectionDefinition;
}

export interface IndexEntry {
  readonly structure: StructureId;
  readonly root: PageId;
  readonly definition: IndexDefinition;
}

export class Catalog {
  readonly tree: Tree;
  readonly #key = new ByteWriter(64);
  readonly #value = new ByteWriter(256);
  readonly #isWriting: () => boolean;
  readonly #isEmpty: () => boolean;

  /** Makes the catalog of an empty file, in an open transaction. */
  static create(pages: Pages): void {
    const root = Tree.create(pages, CATALOG_STRUCTURE, CATALOG_LAYOUT);
    assert(root === CATALOG_ROOT, 'the catalog is the first page of a file');
  }

  /**
   * `isWriting`: whether a transaction is open, whose changes the newest view includes. `isEmpty`:
   * whether the file has no page yet, as a reader finds it beside a writer that made it and did not
   * complete a checkpoint.
   */
  constructor(pages: Pages, isWriting: () => boolean, isEmpty: () => boolean = () => false) {
    this.tree = new Tree(pages, CATALOG_ROOT, CATALOG_STRUCTURE, CATALOG_LAYOUT);
    this.#isWriting = isWriting;
    this.#isEmpty = isEmpty;
  }

  /** Whether there is no tree to read: nothing was ever written into the file. */
  get isEmpty(): boolean {
    return this.#isEmpty();
  }

  newestView(): View {
    return this.#isWriting() ? WRITER : LATEST;
  }

  // Collections.

  collection(name: string, view: View): CollectionEntry | undefined {
    const value = this.#read(this.#named(COLLECTION, name), view);
    return value === undefined ? undefined : collectionEntry(value);
  }

  collections(view: View): CollectionEntry[] {
    return this.#all(this.#start(COLLECTION), view, collectionEntry);
  }

  collectionNames(view: View): string[] {
    return this.collections(view).map((entry) => entry.definition.name);
  }

  writeCollection(entry: CollectionEntry): void {
    this.#write(this.#named(COLLECTION, entry.definition.name), entryToValue(entry));
  }

  deleteCollection(name: string): void {
    this.#delete(this.#named(COLLECTION, name));
  }

  // Indexes.

  indexes(collection: StructureId, view: View): IndexEntry[] {
    return this.#all(this.#numbered(INDEX, collection), view, indexEntry);
  }

  writeIndex(collection: StructureId, entry: IndexEntry): void {
    const key = this.#numbered(INDEX, collection);
    this.#appendName(key, entry.definition.name);
    this.#write(key, entryToValue(entry));
  }

  deleteIndex(collection: StructureId, name: string): void {
    const key = this.#numbered(INDEX, collection);
    this.#appendName(key, name);
    this.#delete(key);
  }

  // Undeclared field names.

  fieldNames(collection: StructureId, view: View): string[] {
    const names: string[] = [];
    this.#each(this.#numbered(FIELD_NAME, collection), view, (cursor, prefixLength) => {
      const number = readBigEndian32(cursor.key, prefixLength);
      const bytes = cursor.valueCopy();
      const name = readUtf8(bytes, 0, bytes.length);
      if (name === undefined || number !== names.length)
        throw failure('corrupt.record', `field name ${number} of collection ${collection}`);
      names.push(name);
    });
    return names;
  }

  writeFieldName(collection: StructureId, number: number, name: string): void {
    const key = this.#numbered(FIELD_NAME, collection);
    appendNumber(key, number);
    const value = this.#value;
    value.length = 0;
    this.#appendName(value, name);
    this.tree.put(key.bytes, key.length, value.bytes, 0, value.length);
  }

  deleteFieldName(collection: StructureId, number: number): void {
    const key = this.#numbered(FIELD_NAME, collection);
    appendNumber(key, number);
    this.#delete(key);
  }

  // Counters.

  nextId(collection: StructureId, view: View): number {
    return this.#readNumber(this.#numbered(NEXT_ID, collection), view) ?? 1;
  }

  writeNextId(collection: StructureId, nextId: number): void {
    this.#writeNumber(this.#numbered(NEXT_ID, collection), nextId);
  }

  /** Gives a structure id that was never given before. */
  takeStructure(): StructureId {
    const next = this.nextStructure(WRITER);
    this.#writeNumber(this.#start(NEXT_STRUCTURE), next + 1);
    return next;
  }

  nextStructure(view: View): StructureId {
    return this.#readNumber(this.#start(NEXT_STRUCTURE), view) ?? CATALOG_STRUCTURE + 1;
  }

  // Statistics.

  analysis(collection: StructureId, view: View): ValueMap | undefined {
    return this.#read(this.#numbered(ANALYSIS, collection), view) as ValueMap | undefined;
  }

  writeAnalysis(collection: StructureId, analysis: ValueMap): void {
    this.#write(this.#numbered(ANALYSIS, collection), analysis);
  }

  /** Deletes everything that is kept under a collection's number. */
  deleteNumbered(collection: StructureId): void {
    for (const kind of [INDEX, FIELD_NAME, NEXT_ID, ANALYSIS]) {
      const keys: Uint8Array[] = [];
      this.#each(this.#numbered(kind, collection), WRITER, (cursor) => {
        keys.push(cursor.key.slice(0, cursor.keyLength));
      });
      for (const key of keys) this.tree.delete(key, key.length);
    }
  }

  // Keys.

  #start(kind: number): ByteWriter {
    this.#key.length = 0;
    this.#key.byte(kind);
    return this.#key;
  }

  #named(kind: number, name: string): ByteWriter {
    requireName('collection', name);
    const key = this.#start(kind);
    this.#appendName(key, name);
    return key;
  }

  #numbered(kind: number, collection: StructureId): ByteWriter {
    const key = this.#start(kind);
    appendNumber(key, collection);
    return key;
  }

  #appendName(writer: ByteWriter, name: string): void {
    writer.reserve(3 * name.length);
    const end = writeUtf8(writer.bytes, writer.length, name);
    if (end === MALFORMED) throw failure('value.text', `the name "${name}" has a lone surrogate`);
    writer.length = end;
  }

  // Entries.

  #read(key: ByteWriter, view: View): Value | undefined {
    if (this.isEmpty || !this.tree.find(view, key.bytes, key.length)) return undefined;
    const bytes = this.tree.valueCopy();
    return readWholeValue(bytes, 0, bytes.length);
  }

  #write(key: ByteWriter, value: Value): void {
    this.#value.length = 0;
    writeValue(this.#value, value);
    this.tree.put(key.bytes, key.length, this.#value.bytes, 0, this.#value.length);
  }

  #delete(key: ByteWriter): void {
    this.tree.delete(key.bytes, key.length);
  }

  #readNumber(key: ByteWriter, view: View): number | undefined {
    if (this.isEmpty || !this.tree.find(view, key.bytes, key.length)) return undefined;
    const bytes = this.tree.valueCopy();
    const number = readVarint(bytes, 0, bytes.length);
    if (number === MALFORMED) throw failure('corrupt.record', 'a counter of the catalog');
    return number;
  }

  #writeNumber(key: ByteWriter, number: number): void {
    this.#value.length = 0;
    this.#value.varint(number);
    this.tree.put(key.bytes, key.length, this.#value.bytes, 0, this.#value.length);
  }

  #all<T>(prefix: ByteWriter, view: View, make: (value: Value) => T): T[] {
    const all: T[] = [];
    this.#each(prefix, view, (cursor) => {
      const bytes = cursor.valueCopy();
      all.push(make(readWholeValue(bytes, 0, bytes.length)));
    });
    return all;
  }

  /** Visits the entries whose keys begin with the prefix. */
  #each(
    prefix: ByteWriter,
    view: View,
    visit: (cursor: Cursor, prefixLength: number) => void,
  ): void {
    if (this.isEmpty) return;
    const start = prefix.copy();
    const cursor = new Cursor(this.tree, view);
    try {
      let found = cursor.seek(start, start.length);
      while (found && start.every((byte, i) => i < cursor.keyLength && cursor.key[i] === byte)) {
        visit(cursor, start.length);
        found = cursor.next();
      }
    } finally {
      cursor.close();
    }
  }
}

function appendNumber(key: ByteWriter, number: number): void {
  key.reserve(4);
  writeBigEndian32(key.bytes, key.length, number);
  key.length += 4;
}

function entryToValue(entry: CollectionEntry | IndexEntry): Value {
  const { structure, root } = entry;
  return { structure, root, definition: definitionToValue(entry.definition) };
}

function collectionEntry(value: Value): CollectionEntry {
  const { structure, root, definition } = value as unknown as CollectionEntry;
  return { structure, root, definition: collectionFromValue(definition as unknown as Value) };
}

function indexEntry(value: Value): IndexEntry {
  const { structure, root, definition } = value as unknown as IndexEntry;
  return { structure, root, definition: indexFromValue(definition as unknown as Value) };
}
