/**
 * The index compile of W1 by single puts in one transaction, in random order: two buckets, symbols
 * to numbers and numbers to eight bytes, close included. `npm run bench -- puts [OBJECTS] [SIZE]`
 * with the memory budget as SIZE; the peers' figure is `insert + close.cpu` of W1.
 */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { open } from '../dist/index.js';

const objects = Number(process.argv[2] ?? 1_100_000);
const memory = process.argv[3] ?? '16 MiB';

/** A bijection of 32-bit integers, so that symbols come in no order. */
function scattered(number) {
  let x = Math.imul(number ^ (number >>> 16), 0x45d9f3b);
  x = Math.imul(x ^ (x >>> 16), 0x45d9f3b);
  return (x ^ (x >>> 16)) >>> 0;
}

const order = Uint32Array.from({ length: objects }, (_, i) => i);
let state = 7;
for (let i = objects - 1; i > 0; i--) {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  const j = state % (i + 1);
  [order[i], order[j]] = [order[j], order[i]];
}

const folder = fs.mkdtempSync(path.join(process.env.SCRATCH ?? os.tmpdir(), 'monochord-puts-'));
const file = path.join(folder, 'db.mono');
const before = process.cpuUsage();
const db = open(file, { memory });
const symbols = db.kv('symbols', { keys: 'text', values: 'int' });
const numbers = db.kv('objects', { keys: 'int', values: 'bytes' });
const address = Buffer.alloc(8);
db.transaction(() => {
  for (const number of order) {
    symbols.put(`obj_${scattered(number).toString(36)}`, number);
    address.writeUInt32BE(number, 4);
    numbers.put(number, address);
  }
});
const { peakBytes, budgetBytes } = db.memory();
db.close();
const { user, system } = process.cpuUsage(before);
const fileBytes = fs.statSync(file).size;
fs.rmSync(folder, { recursive: true });
const cpuMs = (user + system) / 1000;
console.log(JSON.stringify({ objects, memory, cpuMs, fileBytes, peakBytes, budgetBytes }));
