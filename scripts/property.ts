/**
 * Repeats one case of a property, or runs more of its cases than a test run does:
 * `npm run property -- NAME --seed N`, `npm run property -- NAME --cases FACTOR`.
 */
import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { seed: { type: 'string' }, cases: { type: 'string' } },
});
const name = positionals[0];
if (name === undefined) {
  console.error('usage: npm run property -- NAME [--seed N] [--cases FACTOR]');
  process.exit(2);
}
const env = { ...process.env };
if (values.seed !== undefined) env['MONOCHORD_SEED'] = values.seed;
if (values.cases !== undefined) env['MONOCHORD_CASES'] = values.cases;
const pattern = `property: ${name}`.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
const run = spawnSync('node_modules/.bin/vitest', ['run', '--testTimeout=0', '-t', pattern], {
  env,
  stdio: 'inherit',
});
process.exit(run.status ?? 1);
