/**
 * What opening costs (law S7, P18). `npm run bench -- open [--max N] [--json FILE]`
 *
 * Files of 10^3 to `max` records: open plus first get, in a fresh process each and, `again`, in a
 * process that has opened and closed the file once, median of 9; then recovery of files of growing
 * size whose logs are the same: the process is killed after the same commits, of records that every
 * file has (`recover`), and of records all over the file (`scattered`: a log of the same length
 * that names more pages, at most one for each commit). And what `import('monochord')` adds to the
 * start of a process.
 */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const { values: args } = parseArgs({
  options: {
    max: { type: 'string', default: '10000000' },
    child: { type: 'string' },
    file: { type: 'string' },
    records: { type: 'string' },
    mark: { type: 'string' },
    json: { type: 'string' },
  },
});
const RUNS = 9;
const COMMITS = 20_000;
const RECOVERED_MIN = 100_000;
const key = (i) => `user${String(i).padStart(8, '0')}`;
const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];
const cpuMs = (since) => {
  const { user, system } = process.cpuUsage(since);
  return (user + system) / 1000;
};

function openAndGet(open) {
  const wall = performance.now();
  const cpu = process.cpuUsage();
  const db = open(args.file);
  const found = db.kv('records', { values: 'bytes' }).get(key(7));
  const report = { ms: performance.now() - wall, cpuMs: cpuMs(cpu), reads: db.stats().pagesRead };
  if (found?.length !== 100) throw new Error('no record');
  db.close();
  return report;
}

const children = {
  import: async () => {
    const wall = performance.now();
    const cpu = process.cpuUsage();
    await import('../dist/index.js');
    return { ms: performance.now() - wall, cpuMs: cpuMs(cpu) };
  },
  open: async () => {
    const { open } = await import('../dist/index.js');
    const first = openAndGet(open);
    const again = openAndGet(open);
    return { ...first, againMs: again.ms, againCpuMs: again.cpuMs };
  },
  leave: async () => {
    const { open } = await import('../dist/index.js');
    const db = open(args.file, { memory: '64 MiB', durability: 'none', writeEach: true });
    const kv = db.kv('records', { values: 'bytes' });
    const records = Number(args.records);
    const value = new Uint8Array(100).fill(Number(args.mark));
    let state = 1;
    for (let i = 0; i < COMMITS; i++) {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      value[0] = i;
      value[1] = i >> 8;
      kv.put(key(state % records), value);
    }
    process.kill(process.pid, 'SIGKILL');
  },
};

function run(child, options = {}) {
  const script = fileURLToPath(import.meta.url);
  const given = Object.entries({ child, ...options });
  const flags = [script, ...given.flatMap(([name, value]) => [`--${name}`, String(value)])];
  const { stdout } = spawnSync(process.execPath, flags, { encoding: 'utf8' });
  return stdout === '' ? undefined : JSON.parse(stdout);
}

function medianOf(runs) {
  const names = Object.keys(runs[0]);
  return Object.fromEntries(names.map((name) => [name, median(runs.map((each) => each[name]))]));
}

async function make(file, records) {
  const { open } = await import('../dist/index.js');
  const db = open(file, { memory: '64 MiB', durability: 'none' });
  const kv = db.kv('records', { values: 'bytes' });
  const value = new Uint8Array(100);
  for (let i = 0; i < records; i += 100_000) {
    db.transaction(() => {
      for (let k = i; k < Math.min(records, i + 100_000); k++) kv.put(key(k), value);
    });
  }
  db.close();
}

async function parent() {
  const folder = fs.mkdtempSync(path.join(process.env.SCRATCH ?? os.tmpdir(), 'monochord-open-'));
  const report = { import: medianOf(Array.from({ length: RUNS }, () => run('import'))), open: {} };
  report.recover = {};
  report.scattered = {};
  console.log('import', report.import);
  for (let records = 1000; records <= Number(args.max); records *= 10) {
    const file = path.join(folder, `db${records}`);
    await make(file, records);
    const bytes = fs.statSync(file).size;
    const opened = medianOf(Array.from({ length: RUNS }, () => run('open', { file })));
    report.open[records] = { bytes, ...opened };
    console.log('open', records, report.open[records]);
    if (records < RECOVERED_MIN) continue;
    for (const [name, among, mark] of [
      ['recover', RECOVERED_MIN, 1],
      ['scattered', records, 2],
    ]) {
      run('leave', { file, records: among, mark }); // equal values would not be written
      const logBytes = fs.statSync(`${file}-log`).size;
      const { ms, cpuMs, reads } = run('open', { file });
      report[name][records] = { bytes, logBytes, ms, cpuMs, reads };
      console.log(name, records, report[name][records]);
    }
    fs.rmSync(file);
  }
  fs.rmSync(folder, { recursive: true, force: true });
  if (args.json !== undefined)
    fs.writeFileSync(args.json, `${JSON.stringify(report, undefined, 1)}\n`);
}

if (args.child === undefined) await parent();
else console.log(JSON.stringify(await children[args.child]()));
