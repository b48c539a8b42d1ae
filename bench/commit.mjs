/**
 * What a synced commit costs above the disk. `npm run bench -- commit [--rounds N] [--json FILE]`
 *
 * Single: one-record commits at level `full`, alternating in one process with overwriting as many
 * bytes of a preallocated file and `fdatasync`; the figure is the median of the paired differences.
 * Group: 64 clients that each await `transactionAsync` at level `group`, against single commits.
 */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { open } from '../dist/index.js';

const CLIENTS = 64;
const ROUNDS_PER_CLIENT = 1000;
const { values: args } = parseArgs({
  options: { rounds: { type: 'string', default: '1500' }, json: { type: 'string' } },
});
const ROUNDS = Number(args.rounds);
const folder = fs.mkdtempSync(path.join(process.env.SCRATCH ?? os.tmpdir(), 'monochord-commit-'));
const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];
const micros = (since) => (performance.now() - since) * 1000;

const db = open(path.join(folder, 'db'), { memory: '64 MiB' });
const kv = db.kv('records', { values: 'bytes' });
const keys = Array.from({ length: 10_000 }, (_, i) => `user${String(i).padStart(8, '0')}`);
const value = new Uint8Array(100);
db.transaction(() => keys.forEach((key) => kv.put(key, value)));
let version = 0;
const change = () => {
  value[4] = ++version;
  value[5] = version >> 8;
  kv.put(keys[(version * 7919) % keys.length], value);
};

const before = db.stats().logBytes;
for (let i = 0; i < 100; i++) change();
const bytes = Math.round((db.stats().logBytes - before) / 100);
const file = fs.openSync(path.join(folder, 'plain'), 'w');
const block = Buffer.alloc(1 << 20);
for (let i = 0; i < 16; i++) fs.writeSync(file, block);
fs.fdatasyncSync(file);
let position = 0;
const overwrite = () => {
  fs.writeSync(file, block, 0, bytes, position);
  fs.fdatasyncSync(file);
  position = (position + bytes) % (15 << 20);
};

const commits = [];
const plain = [];
for (let i = 0; i < ROUNDS; i++) {
  for (const which of i % 2 === 0 ? [0, 1] : [1, 0]) {
    const since = performance.now();
    if (which === 0) change();
    else overwrite();
    (which === 0 ? commits : plain).push(micros(since));
  }
}
const difference = median(commits.map((commit, i) => commit - plain[i]));

const single = (() => {
  const since = performance.now();
  for (let i = 0; i < ROUNDS; i++) change();
  return ROUNDS / (performance.now() - since);
})();
const client = async (count) => {
  for (let i = 0; i < count; i++) {
    await db.transactionAsync((tx) => void tx.kv('records').put(keys[++version % 10_000], value), {
      durability: 'group',
    });
  }
};
const clientSync = async (count) => {
  for (let i = 0; i < count; i++) {
    db.transaction(change, { durability: 'group' });
    await db.synced();
  }
};
const rateOf = async (run) => {
  const since = performance.now();
  await Promise.all(Array.from({ length: CLIENTS }, () => run(ROUNDS_PER_CLIENT)));
  return (CLIENTS * ROUNDS_PER_CLIENT) / (performance.now() - since);
};
const group = await rateOf(clientSync);
const groupAsync = await rateOf(client);
db.close();
fs.rmSync(folder, { recursive: true, force: true });

const report = {
  rounds: ROUNDS,
  bytesLogged: bytes,
  commitMicros: median(commits),
  overwriteMicros: median(plain),
  differenceMicros: difference,
  singlePerSecond: single * 1000,
  groupPerSecond: group * 1000,
  groupAsyncPerSecond: groupAsync * 1000,
  groupRatio: group / single,
  groupAsyncRatio: groupAsync / single,
};
for (const [name, figure] of Object.entries(report))
  console.log(`${name.padEnd(20)} ${figure.toFixed(1)}`);
if (args.json !== undefined)
  fs.writeFileSync(args.json, `${JSON.stringify(report, undefined, 1)}\n`);
