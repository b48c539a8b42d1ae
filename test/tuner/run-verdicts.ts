/**
 * Promise P24 on live trials, a long job: generations of real trials of W2 are recorded, in which
 * some entries are the same layout once more and others burn 15 % of one phase's own time; whole
 * runs of the procedure, looks included, are then drawn from them with replacement.
 *
 * `node test/tuner/run-verdicts.ts [GENERATIONS]`; the command line must be built.
 */
import { loadavg } from 'node:os';
import { fileURLToPath } from 'node:url';
import { Random } from '../../src/base/random.ts';
import { runGeneration, type Entry, type Generation } from '../../src/tuner/trial.ts';
import { judge, logRatios, LOOKS, median, sharesOf } from '../../src/tuner/verdict.ts';
import { loadWorkload } from '../../src/tuner/workload.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const workloadFile = `${root}bench/workloads/w2.mjs`;
const generationCount = Number(process.argv[2] ?? 12);
const PLANTED = 0.15;
const SAME = 3;
const REPETITIONS = 1000;
const DRAWS_MIN = 0.97;
const FOUND_MIN = 0.9;

const workload = await loadWorkload(workloadFile);
const phases = workload.phases.map((phase) => phase.name);
const entries: Entry[] = [
  { name: 'defaults', layout: {} },
  ...Array.from({ length: SAME }, (_, i) => ({ name: `same ${i + 1}`, layout: {} })),
  ...phases.map((phase) => ({
    name: `slower ${phase}`,
    layout: {},
    planted: { phase, share: PLANTED },
  })),
];

const generations: Generation[] = [];
for (let i = 0; i < generationCount; i++) {
  const generation = await runGeneration(
    {
      workload: workloadFile,
      memory: '32 MiB',
      source: undefined,
      entries,
      workerFile: `${root}dist/trial-worker.js`,
    },
    new Map(),
    i + 1,
  );
  generations.push(generation);
  const load = loadavg()[0]!.toFixed(1);
  console.log(`generation ${i + 1}: ${generation.seconds.toFixed(0)} s, load ${load}`);
}

const shares = generations.map((generation) => sharesOf(generation, phases, undefined));
/** `ratios[generation][entry][phase]`, the mix last. */
const ratios = generations.map((generation, g) =>
  entries.map((_, entry) => logRatios(generation, entry, shares[g]!)),
);
const random = new Random(24);

/** One whole run of the procedure for a phase of an entry. */
function verdict(entry: number, phase: number): string {
  const values: number[] = [];
  for (const look of LOOKS) {
    while (values.length < look) values.push(ratios[random.below(ratios.length)]![entry]![phase]!);
    const { judgement } = judge(values);
    if (judgement !== 'unresolved' || look === LOOKS.at(-1)) return judgement;
  }
  return 'unresolved';
}

function shareOf(entry: number, phase: number, wanted: readonly string[]): number {
  let count = 0;
  for (let i = 0; i < REPETITIONS; i++) if (wanted.includes(verdict(entry, phase))) count++;
  return count / REPETITIONS;
}

const percent = (share: number): string => `${(share * 100).toFixed(1)} %`;
let isMet = true;
console.log(`\n${generations.length} generations of ${entries.length} entries, W2, one machine`);
console.log('the same layout once more: false differences, draws, not resolved; deviation');
for (const [at, name] of [...phases, 'mix'].entries()) {
  const all = Array.from({ length: SAME }, (_, i) => i + 1);
  const mean = (wanted: string[]): number =>
    all.reduce((sum, entry) => sum + shareOf(entry, at, wanted), 0) / SAME;
  const wrong = mean(['faster', 'slower']);
  const draws = mean(['draw']);
  const values = ratios.flatMap((each) => all.map((entry) => each[entry]![at]!));
  const middle = median(values);
  const deviation = Math.sqrt(median(values.map((v) => (v - middle) ** 2))) * 1.4826;
  const open = percent(Math.max(0, 1 - wrong - draws));
  console.log(`  ${name}: ${percent(wrong)}, ${percent(draws)}, ${open}; ${percent(deviation)}`);
  if (wrong > 1 - DRAWS_MIN) isMet = false;
  if (name === 'mix' && draws < DRAWS_MIN) isMet = false;
}
console.log(`one phase slower by ${percent(PLANTED)}: found, called a draw, called faster`);
for (const [at, name] of phases.entries()) {
  const entry = 1 + SAME + at;
  const found = shareOf(entry, at, ['slower']);
  const draw = shareOf(entry, at, ['draw']);
  const faster = shareOf(entry, at, ['faster']);
  console.log(`  ${name}: ${percent(found)}, ${percent(draw)}, ${percent(faster)}`);
  if (found < FOUND_MIN) isMet = false;
}
console.log(
  `${isMet ? 'met' : 'NOT met'}: same layout draw in at least ${percent(DRAWS_MIN)}, no phase ` +
    `falsely different in more than ${percent(1 - DRAWS_MIN)}, slowdown found in at least ` +
    percent(FOUND_MIN),
);
process.exitCode = isMet ? 0 : 1;
