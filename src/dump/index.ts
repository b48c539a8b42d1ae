/**
 * The entry `monochord/dump`: databases as texts that travel, and texts into databases.
 *
 * Line 8 of the strata: uses the package as any caller does, by its door only. Each
 * format has a file of its own.
 */
export { dump } from './dump.ts';
export type { DumpOptions, DumpProgress } from './dump.ts';
export { dumpToFile, dumpToFolder, layoutOfDump } from './files.ts';
export type { FolderDumpOptions } from './files.ts';
export { DUMP_FORMATS } from './formats.ts';
export type { DumpFormat } from './formats.ts';
export type { Place } from './failures.ts';
export { parseJson, parseJsonBytes } from './json.ts';
export type { JsonOptions } from './json.ts';
export { load } from './load.ts';
export type { LoadedSection, LoadOptions, LoadProgress, LoadReport, LoadSource } from './load.ts';
export type { Reject } from './table-text.ts';
