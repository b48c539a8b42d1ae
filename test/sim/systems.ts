/** The systems that the simulation knows by name; the first is the default. */
import type { SystemFactory } from './system.ts';
import { TRIVIAL_SYSTEM } from './trivial-system.ts';

export const SYSTEMS: readonly SystemFactory[] = [TRIVIAL_SYSTEM];
