/**
 * Values of 10 B to 100 MB (P19): space and latency. `npm run bench -- values [--json FILE]`
 *
 * For each size: a new file with some megabytes of such values in one transaction, closed; bytes of
 * the file for each byte of values; CPU of a put with its share of the commit and the close; CPU
 * and elapsed time of a get from a file just opened, and of the same one again. 16 MiB of memory.
 */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { open } from '../dist/index.js';

const { values: args } = parseArgs({ options: { json: { type: 'string' } } });
const SIZES = [
  10, 100, 1000, 4000, 4097, 8191, 10_000, 100_000, 1_000_000, 1_000_001, 10_000_000, 100_000_000,
];
const BYTES = 4_000_000;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'monochord-values-'));

/** Runs something; answers CPU and elapsed microseconds. */
function timed(run) {
  const cpu = process.cpuUsage();
  const wall = performance.now();
  run();
  const { user, system } = process.cpuUsage(cpu);
  return { cpuUs: user + system, us: (performance.now() - wall) * 1000 };
}

function measure(size) {
  const file = path.join(folder, `${size}.mono`);
  const count = Math.max(1, Math.floor(BYTES / size));
  const value = Buffer.alloc(size, 'value and value, ');
  const use = (run) => {
    const db = open(file, { memory: '16 MiB' });
    run(db, db.kv('values', { keys: 'int', values: 'bytes' }));
    db.close();
  };
  const put = timed(() =>
    use((db, kv) =>
      db.transaction(() => {
        for (let i = 0; i < count; i++) kv.put(i, value);
      }),
    ),
  );
  const report = { size, count, putCpuUs: put.cpuUs / count };
  report.bytesPerByte = fs.statSync(file).size / (count * size);
  // Gets spread over the file; enough of them that CPU time can be told.
  const gets = Math.min(count, 1000);
  use((db, kv) => {
    const all = () => {
      for (let i = 0; i < gets; i++) {
        if (kv.get(Math.floor((i * count) / gets))?.length !== size) throw new Error('no value');
      }
    };
    const read = db.stats().pagesRead;
    const [cold, warm] = [timed(all), timed(all)];
    report.pagesAGet = (db.stats().pagesRead - read) / gets / 2;
    report.getColdCpuUs = cold.cpuUs / gets;
    report.getColdUs = cold.us / gets;
    report.getWarmCpuUs = warm.cpuUs / gets;
  });
  fs.rmSync(file);
  return report;
}

measure(1000); // what is compiled on the way is not part of it
const rows = SIZES.map(measure);
const whole = (value) => (value < 100 ? value.toFixed(1) : Math.round(value).toLocaleString('en'));
console.log(
  '| bytes | file bytes a byte | put, µs CPU | get cold, µs CPU | elapsed | warm, µs CPU |',
);
console.log('| --- | --- | --- | --- | --- | --- |');
for (const row of rows) {
  const times = [row.putCpuUs, row.getColdCpuUs, row.getColdUs, row.getWarmCpuUs].map(whole);
  const size = row.size.toLocaleString('en');
  console.log(`| ${size} | ${row.bytesPerByte.toFixed(2)} | ${times.join(' | ')} |`);
}
fs.rmSync(folder, { recursive: true });
if (args.json !== undefined) {
  const machine = { cpu: os.cpus()[0]?.model, cores: os.cpus().length, node: process.version };
  fs.writeFileSync(args.json, `${JSON.stringify({ machine, rows }, undefined, 1)}\n`);
}
