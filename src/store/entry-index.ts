/**
 * An index of a collection that is organised by key: one entry a record.
 *
 *   entry                                  value
 *   key that must be unique                key of the record
 *   any other: key, then record's key      nothing
 *
 * Index keys say themselves where they end, so the key of the record is what follows.
 */
import { ByteWriter } from '../base/bytes.ts';
import { failure } from '../errors.ts';
import type { RecordId } from '../model/batch.ts';
import { requireKeySize } from '../model/key.ts';
import { Cursor } from '../storage/btree-cursor.ts';
import { WRITER, type View } from '../storage/pages.ts';
import type { TreeBuilder } from '../storage/bulk.ts';
import { CollectionIndex, STRICT, type EntryBuilder, type KeyState } from './collection-index.ts';

const joined = new ByteWriter(256);
const scratch: RecordId[] = [];
const NOTHING = new Uint8Array(0);

export class EntryIndex extends CollectionIndex {
  override hasKey(key: ByteWriter): boolean {
    return this.tree.has(WRITER, key.bytes, key.length);
  }

  protected override add(key: ByteWriter, id: RecordId, state: KeyState): void {
    const record = id as Uint8Array;
    if (state === STRICT) {
      this.tree.add(key.bytes, key.length, record, 0, record.length);
      return;
    }
    this.#join(key, record);
    requireKeySize(joined.length);
    this.tree.put(joined.bytes, joined.length, NOTHING, 0, 0);
  }

  protected override remove(key: ByteWriter, id: RecordId, state: KeyState): void {
    if (state !== STRICT) this.#join(key, id as Uint8Array);
    const entry = state === STRICT ? key : joined;
    if (this.tree.delete(entry.bytes, entry.length)) return;
    const { name, collection } = this.definition;
    throw failure('corrupt.record', `index ${name} of ${collection} misses a record`);
  }

  #join(key: ByteWriter, record: Uint8Array): void {
    joined.length = 0;
    joined.append(key.bytes, 0, key.length);
    joined.append(record, 0, record.length);
  }

  override entryBuilder(builder: TreeBuilder): EntryBuilder {
    return {
      add(bytes, offset, keyBytes, bytesAll, state) {
        if (state === STRICT) {
          const at = offset + keyBytes;
          builder.addFrom(bytes, offset, keyBytes, bytes, at, bytesAll - keyBytes);
          return;
        }
        requireKeySize(bytesAll);
        builder.addFrom(bytes, offset, bytesAll, NOTHING, 0, 0);
      },
      finish: () => undefined,
    };
  }

  override recordId(bytes: Uint8Array, from: number, to: number): RecordId {
    return bytes.slice(from, to);
  }

  override firstId(view: View): RecordId | undefined {
    this.#collect(view, scratch, 1);
    const first = scratch[0];
    scratch.length = 0;
    return first;
  }

  override collectIds(view: View, into: RecordId[]): number {
    return this.#collect(view, into, Infinity);
  }

  #collect(view: View, into: RecordId[], countMax: number): number {
    const { probe } = this;
    const cursor = new Cursor(this.tree, view);
    let count = 0;
    try {
      let isFound = cursor.seek(probe.bytes, probe.length);
      while (isFound && count < countMax && hasPrefix(cursor, probe)) {
        into[count++] = idBehind(cursor, probe.length);
        isFound = cursor.next();
      }
    } finally {
      cursor.close();
    }
    return count;
  }

  override idsAt(cursor: Cursor, into: RecordId[], count: number): number {
    into[count] = idBehind(cursor, this.keyEnd(cursor));
    return count + 1;
  }

  override keyEnd(cursor: Cursor): number {
    return this.codec.end(cursor.key, 0, cursor.keyLength);
  }

  override resumeKey(key: ByteWriter, id: RecordId, into: ByteWriter): void {
    this.#join(key, id as Uint8Array);
    into.length = 0;
    into.append(joined.bytes, 0, joined.length);
  }
}

/** The record of an entry whose index key ends there. */
function idBehind(cursor: Cursor, keyEnd: number): Uint8Array {
  if (cursor.keyLength === keyEnd) return cursor.valueCopy();
  return cursor.key.slice(keyEnd, cursor.keyLength);
}

function hasPrefix(cursor: Cursor, prefix: ByteWriter): boolean {
  if (cursor.keyLength < prefix.length) return false;
  for (let i = prefix.length - 1; i >= 0; i--) {
    if (cursor.key[i] !== prefix.bytes[i]) return false;
  }
  return true;
}
