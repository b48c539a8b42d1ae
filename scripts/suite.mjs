/**
 * Runs a conformance suite on a folder of its format: `npm run suite -- NAME FOLDER`.
 *
 *   --json FILE    writes the verdict of every case
 *   --failures N   prints at most so many failed cases, default 20
 *
 * Skipped cases count as not passed. Exit code: 0 all passed or skipped, 1 some failed, 2 used
 * wrongly, a missing folder among that.
 */
import { readdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { runSuite } from './suites/suite.ts';

const folder = fileURLToPath(new URL('suites/', import.meta.url));
const names = readdirSync(folder)
  .filter((name) => name !== 'suite.ts')
  .map((name) => name.replace(/\.ts$/, ''));

function usage(message) {
  console.error(`${message}\nusage: npm run suite -- NAME FOLDER [--json FILE] [--failures N]`);
  console.error(`suites: ${names.join(', ')}`);
  process.exit(2);
}

function options() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: { json: { type: 'string' }, failures: { type: 'string', default: '20' } },
    });
  } catch (cause) {
    return usage(cause.message);
  }
}

const { positionals, values } = options();
const [name, path] = positionals;
if (positionals.length !== 2 || !names.includes(name)) usage('name a suite and a folder');

const { suite } = await import(`./suites/${name}.ts`);
let report;
try {
  report = await runSuite(suite, path);
} catch (cause) {
  usage(cause.message);
}
const wrong = report.cases.filter((each) => each.verdict === 'failed');
for (const each of wrong.slice(0, Number(values.failures)))
  console.log(`failed  ${each.name}: ${each.reason}${each.detail ? `: ${each.detail}` : ''}`);
const total = report.cases.length;
console.log(`${name}: ${suite.about}`);
for (const [reason, count] of Object.entries(report.reasons).sort((a, b) => b[1] - a[1]))
  console.log(`${String(count).padStart(8)}  ${reason}`);
const share = ((report.passed / total) * 100).toFixed(2);
console.log(`${report.passed} of ${total} (${share} %)`);
console.log(`${report.passed} passed, ${report.failed} failed, ${report.skipped} skipped`);
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(report, null, 2)}\n`);
process.exitCode = report.failed === 0 ? 0 : 1;
