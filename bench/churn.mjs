/**
 * Space under churn. `npm run bench -- churn [--records N] [--times N] [--batch N] [--json FILE]`
 *
 * Overwrites random records until `times` as many bytes were written as there are, and compares
 * the file with that of the same records put once in random order: before and after `compact`.
 */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { open } from '../dist/index.js';

const { values: args } = parseArgs({
  options: {
    records: { type: 'string', default: '50000' },
    times: { type: 'string', default: '100' },
    batch: { type: 'string', default: '100' },
    memory: { type: 'string', default: '32 MiB' },
    json: { type: 'string' },
  },
});
const RECORDS = Number(args.records);
const TIMES = Number(args.times);
const BATCH = Number(args.batch);
const folder = fs.mkdtempSync(path.join(process.env.SCRATCH ?? os.tmpdir(), 'monochord-churn-'));
const file = path.join(folder, 'db');
const size = (name) => fs.statSync(name).size;

let state = 1;
const below = (n) => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) % n;
const value = new Uint8Array(100);
const fill = () => {
  for (let i = 0; i < 100; i += 4) value[i] = below(256);
};
const key = (i) => `user${String(i).padStart(8, '0')}`;

const db = open(file, { memory: args.memory, durability: 'buffered' });
const kv = db.kv('records', { values: 'bytes' });
const order = Uint32Array.from({ length: RECORDS }, (_, i) => i);
for (let i = RECORDS - 1; i > 0; i--) {
  const j = below(i + 1);
  [order[i], order[j]] = [order[j], order[i]];
}
for (let i = 0; i < RECORDS; i += BATCH) {
  db.transaction(() => {
    for (const k of order.subarray(i, i + BATCH)) {
      fill();
      kv.put(key(k), value);
    }
  });
}
db.checkpoint();
const once = size(file);
let fileMax = 0;
let logMax = 0;
const started = process.cpuUsage();
for (let done = 0; done < RECORDS * TIMES; done += BATCH) {
  db.transaction(() => {
    for (let j = 0; j < BATCH; j++) {
      fill();
      kv.put(key(below(RECORDS)), value);
    }
  });
  if (done % (BATCH * 100) !== 0) continue;
  fileMax = Math.max(fileMax, size(file));
  logMax = Math.max(logMax, size(`${file}-log`));
}
const cpu = process.cpuUsage(started);
const report = {
  records: RECORDS,
  times: TIMES,
  batch: BATCH,
  onceBytes: once,
  afterBytes: size(file),
  fileBytesMax: Math.max(fileMax, size(file)),
  logBytesMax: logMax,
  microsPerUpdate: (cpu.user + cpu.system) / (RECORDS * TIMES),
  compactedBytes: (db.compact(), size(file)),
  faults: db.check().faults.length,
};
report.ratioMax = report.fileBytesMax / once;
report.ratioCompacted = report.compactedBytes / once;
db.close();
fs.rmSync(folder, { recursive: true, force: true });
for (const [name, figure] of Object.entries(report)) {
  console.log(`${name.padEnd(16)} ${Number.isInteger(figure) ? figure : figure.toFixed(2)}`);
}
if (args.json !== undefined)
  fs.writeFileSync(args.json, `${JSON.stringify(report, undefined, 1)}\n`);
if (report.faults > 0 || report.ratioMax > 4 || report.ratioCompacted > 1.2) process.exit(1);
