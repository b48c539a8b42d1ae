/**
 * Regret: how much slower the layout that `tune` picks is than the best of all layouts of the same
 * space. `npm run bench -- regret [--seconds N] [WORKLOAD …]`; results in `bench/results/`.
 *
 *   space        page 8, 16, 32 KiB × b+tree, b-tree × order what fits, 128: twelve layouts
 *   exhaustive   every layout beside the defaults, two generations each; the best by the mix
 *   tune         the search of `monochord tune` over the same settings, in its time
 *   regret       pick against best, both measured once more beside the defaults, four generations:
 *                the best of many is partly luck, which a second measurement takes out
 */
import { execSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus, loadavg, tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { compareLayouts } from '../src/tuner/compare.ts';
import { nameOf } from '../src/tuner/candidates.ts';
import { parseObjective } from '../src/tuner/objective.ts';
import { makeReport } from '../src/tuner/report.ts';
import { scoreOf, searchLayouts } from '../src/tuner/search.ts';
import { loadWorkload } from '../src/tuner/workload.ts';

const root = fileURLToPath(new URL('../', import.meta.url));
const PAGES = [undefined, '16 KiB', '32 KiB'];
const TREES = [undefined, 'b-tree'];
const ORDERS = [undefined, 128];
const GROUP = 4;
const FLOOR = 1.1;
const TARGET = 1.05;

const args = process.argv.slice(2);
const at = args.indexOf('--seconds');
const seconds = at < 0 ? 90 : Number(args.splice(at, 2)[1]);
const names = args.length > 0 ? args : ['w2', 'skewed-gets', 'time-series', 'large-values'];

function layoutOf(pageSize, tree, order) {
  const index = { ...(tree && { tree }), ...(order && { order }) };
  return { ...(pageSize && { pageSize }), ...(Object.keys(index).length > 0 && { index }) };
}

const candidateOf = (layout) => ({ name: nameOf(layout), layout, why: 'one of the space' });
const space = PAGES.flatMap((page) =>
  TREES.flatMap((tree) => ORDERS.map((order) => layoutOf(page, tree, order))),
).filter((layout) => Object.keys(layout).length > 0);
const singles = [
  ...PAGES.slice(1).map((page) => layoutOf(page)),
  layoutOf(undefined, TREES[1]),
  layoutOf(undefined, undefined, ORDERS[1]),
];

/** Ratios of the mix to that of the defaults, by candidate. */
async function ratiosOf(settings, candidates, generationsMax) {
  const found = await compareLayouts({ ...settings, candidates, generationsMax });
  const objective = parseObjective('fastest mix', found.phases);
  return candidates.map((_, i) =>
    found.excluded.has(i + 1) ? Infinity : Math.exp(scoreOf(found, i + 1, objective, settings)),
  );
}

async function regretOf(name) {
  const workloadFile = `${root}bench/workloads/${name}.mjs`;
  const own = await loadWorkload(workloadFile);
  const workload = { ...own, candidates: singles.map(candidateOf) };
  const settings = {
    workload,
    workloadFile,
    memory: '32 MiB',
    source: undefined,
    deadline: Infinity,
    workerFile: `${root}dist/trial-worker.js`,
  };
  const begun = performance.now();
  const all = [];
  for (let i = 0; i < space.length; i += GROUP) {
    const group = space.slice(i, i + GROUP).map(candidateOf);
    const ratios = await ratiosOf(settings, group, 2);
    for (const [j, { name: layout }] of group.entries()) {
      all.push({ layout: space[i + j], name: layout, ratio: ratios[j] });
    }
  }
  all.push({ layout: {}, name: 'defaults', ratio: 1 });
  all.sort((a, b) => a.ratio - b.ratio);
  const objective = parseObjective(
    'fastest mix',
    own.phases.map((phase) => phase.name),
  );
  const tuned = { ...settings, deadline: performance.now() + seconds * 1000 };
  const found = await searchLayouts({ ...tuned, objective, entries: 0 });
  const report = makeReport({
    workload,
    comparison: found.comparison,
    steps: found.steps,
    objective,
    memory: settings.memory,
    file: 'FILE',
  });
  const pick = report.recommendation.layout;
  const pair = [all[0].layout, pick];
  const isSame = nameOf(pair[0]) === nameOf(pair[1]);
  const [best, picked] = isSame ? [1, 1] : await ratiosOf(settings, pair.map(candidateOf), 4);
  return {
    workload: own.name,
    best: nameOf(pair[0]),
    pick: nameOf(pick),
    /** Against the defaults, measured once more side by side. */
    bestRatio: best,
    pickRatio: picked,
    regret: picked / best,
    seconds: (performance.now() - begun) / 1000,
    exhaustive: all.map(({ name: layout, ratio }) => ({ layout, ratio })),
  };
}

const results = [];
for (const name of names) {
  const result = await regretOf(name);
  results.push(result);
  const share = ((result.regret - 1) * 100).toFixed(1);
  const verdict = result.regret <= TARGET ? 'target' : result.regret <= FLOOR ? 'floor' : 'MISSED';
  console.log(
    `${result.workload}: best ${result.best}, picked ${result.pick}, regret ${share} % ` +
      `(${verdict}), ${result.seconds.toFixed(0)} s, load ${loadavg()[0].toFixed(1)}`,
  );
}
const commit = execSync('git rev-parse --short HEAD', { cwd: root, encoding: 'utf8' }).trim();
const text = {
  machine: `${cpus()[0]?.model} x ${cpus().length}, Node ${process.version}`,
  date: new Date().toISOString(),
  commit,
  load: loadavg(),
  secondsOfTune: seconds,
  results,
};
mkdirSync(`${root}bench/results`, { recursive: true });
const isWhole = names.length === 4;
const file = isWhole ? `${root}bench/results/regret.json` : `${tmpdir()}/regret.json`;
writeFileSync(file, `${JSON.stringify(text, null, 2)}\n`);
process.exitCode = results.every((each) => each.regret <= FLOOR) ? 0 : 1;
