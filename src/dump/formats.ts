/** The formats of dumps, by name. */
import { nearestName } from '../base/nearest.ts';
import { Database } from '../index.ts';
import { failure } from './failures.ts';

/**
 *   monochord      Monochord's own: everything, schema included
 *   bdb, lmdb      text of db_dump and mdb_dump, hexadecimal; …-print with printable characters
 *   gdbm           ASCII of gdbm_dump; gdbm-binary its binary form
 *   jsonl          JSON Lines: one JSON text a line
 *   json           one JSON document: a list of records, or an object of such lists
 *   csv            RFC 4180
 */
export const DUMP_FORMATS = [
  'monochord',
  'bdb',
  'bdb-print',
  'lmdb',
  'lmdb-print',
  'gdbm',
  'gdbm-binary',
  'jsonl',
  'json',
  'csv',
] as const;
export type DumpFormat = (typeof DUMP_FORMATS)[number];

export function requireFormat(format: unknown): asserts format is DumpFormat {
  if (DUMP_FORMATS.includes(format as DumpFormat)) return;
  const near = nearestName(String(format), DUMP_FORMATS);
  const what = format === undefined ? 'is missing' : `${String(format)} is not known`;
  throw failure('usage.argument', `format: ${what}; there is ${DUMP_FORMATS.join(', ')}`, {
    ...(near !== undefined && { hint: `Did you mean "${near}"?` }),
  });
}

/** Refuses what `open` did not give. */
export function requireDatabase(where: string, db: unknown): void {
  if (!(db instanceof Database))
    throw failure('usage.argument', `${where} takes a database, as open gives it`);
}

/** Refuses names that an options object does not have, and delimiters that cannot be. */
export function requireOptions(where: string, options: object, names: readonly string[]): void {
  if (typeof options !== 'object' || options === null)
    throw failure('usage.argument', `the options of ${where} are an object`);
  for (const name of Object.keys(options)) {
    if (names.includes(name)) continue;
    const near = nearestName(name, names);
    throw failure('usage.argument', `${name} is not an option of ${where}`, {
      detail: { option: name },
      ...(near !== undefined && { hint: `Did you mean "${near}"?` }),
    });
  }
  const { delimiter } = options as { readonly delimiter?: unknown };
  if (delimiter === undefined) return;
  if (typeof delimiter === 'string' && /^[^"\r\n]$/u.test(delimiter) && delimiter.length === 1)
    return;
  throw failure('usage.argument', 'delimiter: is one character, no quote and no line break');
}
