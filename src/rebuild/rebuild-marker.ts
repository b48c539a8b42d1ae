/**
 * The marker of a rebuilt file: one entry of its catalog that says which file it was made from.
 *
 *   key 'R'    map { from: text, fromCommit, commit, plan: text }
 *
 * `from` is the file id of the old file in hexadecimal, `fromCommit` its newest commit, `plan` the
 * layout as JSON. `commit` is the commit that ended the copy, 0 while it is unfinished. An
 * interrupted rebuild goes on with a file whose marker fits; `undoRebuild` sees by it whether the
 * rebuilt file was written since.
 */
import { ByteWriter } from '../base/bytes.ts';
import { readWholeValue, writeValue } from '../model/value-codec.ts';
import type { ValueMap } from '../model/value.ts';
import { LATEST } from '../storage/pages.ts';
import type { Catalog } from '../store/catalog.ts';

const KEY = Uint8Array.of('R'.charCodeAt(0));

export interface RebuildMarker {
  readonly from: string;
  readonly fromCommit: number;
  readonly commit: number;
  readonly plan: string;
}

/** The marker of a file, `undefined` if it was never rebuilt. */
export function readMarker(catalog: Catalog): RebuildMarker | undefined {
  if (catalog.isEmpty || !catalog.tree.find(LATEST, KEY, KEY.length)) return undefined;
  const bytes = catalog.tree.valueCopy();
  const { from, fromCommit, commit, plan } = readWholeValue(bytes, 0, bytes.length) as ValueMap;
  return {
    from: String(from),
    fromCommit: Number(fromCommit),
    commit: Number(commit),
    plan: String(plan),
  };
}

/** Writes the marker in the open transaction. */
export function writeMarker(catalog: Catalog, marker: RebuildMarker): void {
  const writer = new ByteWriter(256);
  writeValue(writer, { ...marker });
  catalog.tree.put(KEY, KEY.length, writer.bytes, 0, writer.length);
}

/** Whether a key of the catalog is the marker's. */
export function isMarkerKey(key: Uint8Array, keyLength: number): boolean {
  return keyLength === KEY.length && key[0] === KEY[0];
}

/** A file id as text. */
export function idText(fileId: Uint8Array): string {
  return Array.from(fileId, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
