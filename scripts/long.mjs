/**
 * Runs the long jobs and writes what they print under `test/long-results/`: `npm run long` runs
 * all of them, `npm run long -- NAME ...` those named, `npm run long -- --list` lists them.
 *
 * A result file holds the command, the machine, the commit, the exit code and the last lines of
 * output; it is checked in, so that a claim can link to it.
 */
import { execSync, spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../', import.meta.url));
const LINES_KEPT = 200;

/** Tests under another Node: the npm package `node` brings it, for this run only. */
const onNode = (version) =>
  `npm exec --yes --package=node@${version} -- node node_modules/vitest/vitest.mjs run`;

/** A script in TypeScript. */
const script = (path) => `node --import ts-blank-space/register ${path}`;

/** Each long job: its name and its command. Add a line here for each new one. */
const JOBS = [
  ['tests-node-20', onNode(20)],
  ['tests-node-22', onNode(22)],
  ['tests-node-24', onNode(24)],
  ['simulation', 'npm run sim -- --seed 1 --crashes 50000 --seeds 2000 --on'],
  ['layouts', 'npm run property -- "Database under any layout does as plain maps" --cases 4'],
  ['kills', script('test/processes/run-kills.ts 2000')],
  ['level', 'MONOCHORD_LONG=1 npx vitest run test/level --reporter=verbose'],
  ['verdicts', `node scripts/build.mjs && ${script('test/tuner/run-verdicts.ts 12')}`],
  ['dump-streams', script('test/dump/run-streams.ts 128')],
  ['broken-quote', `node scripts/build.mjs && ${script('test/dump/run-broken-quote.ts')}`],
  ['flips', script('test/storage/run-flips.ts')],
  [
    'pages',
    'npm run property -- "Storage keeps pages through power loss, kills and damage" --cases 200',
  ],
  [
    'fuzz-header',
    'npm run property -- "readHeader takes any header whose checksum fits" --cases 50',
  ],
  ['fuzz-log', 'npm run property -- "recovery takes any log whose checksums fit" --cases 50'],
  [
    'fuzz-nodes',
    'npm run property -- "Radix takes any nodes of map and bitmap whose checksums fit" --cases 50',
  ],
];

function commitOf() {
  const commit = execSync('git rev-parse --short HEAD', { cwd: root, encoding: 'utf8' }).trim();
  const dirty = execSync('git status --porcelain -uno', { cwd: root, encoding: 'utf8' }).trim();
  return dirty === '' ? commit : `${commit} with changes`;
}

function run([name, command]) {
  console.log(`\n=== ${name}: ${command}`);
  const started = Date.now();
  const job = spawnSync(
    'bash',
    ['-c', `${command} 2>&1 | tee /dev/stderr; exit \${PIPESTATUS[0]}`],
    {
      cwd: root,
      env: { ...process.env, NO_COLOR: '1' },
      stdio: ['ignore', 'pipe', 'inherit'],
      maxBuffer: 2 ** 30,
    },
  );
  const output = String(job.stdout).split(root).join('').trimEnd().split('\n');
  const machine = `${cpus()[0]?.model} x ${cpus().length}, ${Math.round(totalmem() / 2 ** 30)} GiB`;
  const head = [
    `command: ${command}`,
    `commit:  ${commitOf()}`,
    `machine: ${machine}, Node ${process.version}`,
    `date:    ${new Date(started).toISOString()}, ${Math.round((Date.now() - started) / 1000)} s`,
    `exit:    ${job.status}`,
  ];
  mkdirSync(`${root}test/long-results`, { recursive: true });
  const text = [...head, '', ...output.slice(-LINES_KEPT), ''].join('\n');
  writeFileSync(`${root}test/long-results/${name}.txt`, text);
  return job.status === 0;
}

const wanted = process.argv.slice(2);
if (wanted.includes('--list')) {
  for (const [name, command] of JOBS) console.log(`${name}: ${command}`);
} else {
  const unknown = wanted.filter((each) => !JOBS.some(([name]) => name === each));
  if (unknown.length > 0) throw new Error(`no long job of the name ${unknown.join(', ')}`);
  const jobs = JOBS.filter(([name]) => wanted.length === 0 || wanted.includes(name));
  const failed = jobs.filter((job) => !run(job)).map(([name]) => name);
  console.log(
    `\n${jobs.length - failed.length} passed, ${failed.length} failed ${failed.join(' ')}`,
  );
  process.exitCode = failed.length === 0 ? 0 : 1;
}
