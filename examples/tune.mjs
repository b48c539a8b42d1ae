/**
 * From an empty folder to a tuned store: `node examples/tune.mjs`. Stores records, records what the
 * application asks, lets the tuner measure layouts on that, and applies its answer.
 *
 * SECONDS in the environment is the time to tune for: a few minutes give real answers. Without it
 * only today's layout is measured, once, which ends soon and recommends nothing.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { open } from '../dist/index.js';

const folder = mkdtempSync(join(tmpdir(), 'monochord-example-'));
const path = join(folder, 'shop.mono');
const trace = join(folder, 'trace.jsonl');
const declaration = {
  fields: { id: 'int', email: 'text', city: 'text', spent: 'int' },
  key: 'id',
  unique: ['email'],
};

// 1. Store.
let db = open(path);
let customers = db.collection('customers', declaration);
db.transaction(() => {
  for (let id = 1; id <= 1000; id++) {
    customers.insert({ id, email: `c${id}@x.example`, city: `City ${id % 40}`, spent: id % 97 });
  }
});
db.close();

// 2. The application runs, and writes down what it asks.
db = open(path, { record: trace });
customers = db.collection('customers', declaration);
for (let i = 1; i <= 40; i++) {
  customers.get({ email: `c${i * 20}@x.example` });
  customers.where({ city: `City ${i % 40}` }).toArray(); // no index: reads every customer
}
customers.update(7, { spent: 1 });
console.log(`${db.stats().recording.operations} operations recorded`);
db.close();

// 3. Tune on a copy of the store, apply what is recommended, measure again.
const cli = fileURLToPath(new URL('../dist/cli.js', import.meta.url));
const { SECONDS } = process.env;
const time = SECONDS === undefined ? ['--compare', '--generations', '1'] : ['--seconds', SECONDS];
const out = join(folder, 'out');
const args = ['tune', path, '--workload', trace, ...time, '--out', out, '--apply'];
const tuned = spawnSync(process.execPath, [cli, ...args], { encoding: 'utf8' });
process.stdout.write(tuned.stdout);
process.stderr.write(tuned.stderr);
const report = JSON.parse(readFileSync(join(out, 'report.json'), 'utf8'));
console.log(`recommended: ${report.recommendation.name}`);
rmSync(folder, { recursive: true });
process.exitCode = tuned.status;
