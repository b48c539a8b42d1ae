/** The systems that the simulation knows by name; the first is the default. */
import { DATABASE_SYSTEM } from './database-system.ts';
import type { SystemFactory } from './system.ts';
import { TRIVIAL_SYSTEM } from './trivial-system.ts';

export const SYSTEMS: readonly SystemFactory[] = [DATABASE_SYSTEM, TRIVIAL_SYSTEM];
