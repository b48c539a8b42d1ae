/**
 * The door of `monochord/level`: an `abstract-level` database over one key-value bucket.
 *
 * Line 8 of the strata, beside `index.ts`, whose public names are all it uses. `abstract-level` is
 * an optional peer dependency: who imports this door has it installed.
 */
export { LevelError } from './level-error.ts';
export { MonochordLevel } from './monochord-level.ts';
export type { MonochordLevelOptions, SyncOption } from './monochord-level.ts';
