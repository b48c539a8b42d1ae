/**
 * The example `examples/mud` on large textdumps: text → store → text.
 * `npm run bench -- mud DUMP [--objects 50000] [--memory '16 MiB'] [--json FILE]`
 *
 * DUMP is a textdump of ColdCore; it is scaled by copying to the number of objects. Compiling and
 * decompiling run in a process each: CPU seconds with the close, and the peak of resident memory.
 * The text must be the same, byte for byte. A million objects need 12 GB of disk: text, store and
 * text again.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { scale } from '../examples/mud/scale.mjs';

const { values: args, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    objects: { type: 'string', default: '50000' },
    memory: { type: 'string', default: '16 MiB' },
    json: { type: 'string' },
    child: { type: 'string' },
  },
});

/** One direction, in a process of its own. */
async function child(name, from, to) {
  const world = await import('../examples/mud/world.mjs');
  const cpu = process.cpuUsage();
  const wall = performance.now();
  const done = world[name](from, to, { memory: args.memory });
  const { user, system } = process.cpuUsage(cpu);
  const report = {
    done,
    cpuSeconds: (user + system) / 1e6,
    seconds: (performance.now() - wall) / 1000,
    peakResidentMiB: Math.round(process.resourceUsage().maxRSS / 1024),
  };
  console.log(JSON.stringify(report));
}

function run(name, from, to) {
  const self = fileURLToPath(import.meta.url);
  const options = ['--memory', args.memory, '--child', name];
  const { status, stdout } = spawnSync(process.execPath, [self, ...options, from, to], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  if (status !== 0) throw new Error(`${name} failed`);
  return JSON.parse(stdout);
}

function digest(file) {
  const hash = createHash('sha256');
  const input = fs.openSync(file, 'r');
  const chunk = Buffer.allocUnsafe(1 << 20);
  for (let count; (count = fs.readSync(input, chunk)) > 0;) hash.update(chunk.subarray(0, count));
  fs.closeSync(input);
  return hash.digest('hex');
}

function main(dump) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'monochord-mud-'));
  const [text, store, again] = ['a.txt', 'a.mono', 'b.txt'].map((each) => path.join(folder, each));
  try {
    const objects = scale(dump, Number(args.objects), text);
    const textBytes = fs.statSync(text).size;
    const compile = run('compile', text, store);
    const storeBytes = fs.statSync(store).size;
    const decompile = run('decompile', store, again);
    if (digest(text) !== digest(again)) throw new Error('the text differs');
    for (const each of [compile, decompile]) {
      each.megabytesASecond = Number((textBytes / 1e6 / each.cpuSeconds).toFixed(1));
    }
    const report = { objects, textBytes, storeBytes, memory: args.memory, compile, decompile };
    console.log(JSON.stringify(report, undefined, 1));
    if (args.json === undefined) return;
    const machine = { cpu: os.cpus()[0]?.model, cores: os.cpus().length, node: process.version };
    fs.writeFileSync(args.json, `${JSON.stringify({ machine, ...report }, undefined, 1)}\n`);
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}

if (args.child !== undefined) await child(args.child, ...positionals);
else if (positionals.length === 1) main(positionals[0]);
else console.error("usage: npm run bench -- mud DUMP [--objects N] [--memory '16 MiB']");
