/**
 * The crash simulation: `npm run sim -- --seed N` lives the life of one seed; with `--minutes M`,
 * or `--crashes C` and `--seeds S` (until both are reached), it goes on with N + 1, N + 2, ... and
 * prints the table of what the crashes hit.
 *
 *   --system NAME  which system of test/sim/systems.ts (default: the first)
 *   --plant NAME   a fault that the system plants in itself, to see it found
 *   --loads        most cycles aim at a bulk load
 *   --trace        prints every step
 *   --on           goes on after a failure and lists them all
 *
 * Exit code: 0 nothing found, 1 something found, 2 the run was too narrow to say.
 */
import { parseArgs } from 'node:util';
import { Report } from '../test/sim/report.ts';
import { live, SimulationFailure } from '../test/sim/simulation.ts';
import { PLANTS } from '../test/sim/system.ts';
import { SYSTEMS } from '../test/sim/systems.ts';

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    minutes: { type: 'string' },
    crashes: { type: 'string' },
    seeds: { type: 'string' },
    system: { type: 'string' },
    plant: { type: 'string' },
    loads: { type: 'boolean', default: false },
    trace: { type: 'boolean', default: false },
    on: { type: 'boolean', default: false },
  },
});

const factory = SYSTEMS.find((each) => each.name === (values.system ?? SYSTEMS[0]?.name));
const plant = PLANTS.find((each) => each === values.plant);
if (factory === undefined || (values.plant !== undefined && plant === undefined)) {
  console.error(`systems: ${SYSTEMS.map((each) => each.name).join(', ')}`);
  console.error(`plants: ${PLANTS.join(', ')}`);
  process.exit(2);
}

const report = new Report();
const started = Date.now();
const isCounted = values.crashes !== undefined || values.seeds !== undefined;
const untilMs = started + Number(values.minutes ?? (isCounted ? Infinity : 0)) * 60_000;
const crashesWanted = Number(values.crashes ?? (isCounted ? 0 : Infinity));
const seedsWanted = Number(values.seeds ?? 0);
const trace = values.trace ? (text: string): void => console.log(text) : undefined;

/** Lives the life of one seed; answers whether nothing was found. */
function livesWell(seed: number): boolean {
  try {
    const { loads: withLoads } = values;
    live({ factory: factory!, seed, plant, report, withLoads, ...(trace && { trace }) });
    return true;
  } catch (error) {
    console.error(error instanceof SimulationFailure ? error.message : error);
    if (values.trace) console.error(error);
    process.exitCode = 1;
    return false;
  }
}

let seed = Number(values.seed);
while (livesWell(seed++) || values.on) {
  if (Date.now() >= untilMs) break;
  if (report.crashes >= crashesWanted && report.seeds >= seedsWanted) break;
}
console.log(`system            ${factory.name}, seeds from ${values.seed}`);
console.log(report.toString());
console.log(`seconds           ${((Date.now() - started) / 1000).toFixed(1)}`);
const isLong = report.crashes >= 1000;
if (process.exitCode === undefined && isLong && !report.isBroad) process.exitCode = 2;
