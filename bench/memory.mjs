/**
 * Law M1: memory means what it says. `npm run bench -- memory [--records N] [--json FILE]`
 *
 * W1 (two buckets loaded in bulk) and the phases of W5, without result checks, run on the store at
 * budgets of 4, 16, 64 and 256 MiB and on a null store that answers from one constant record, each
 * in a process of its own for each workload. After each phase, after a collection: live memory
 * (heap and external) of the store's run, less that of the null store's, is at most the bytes
 * charged + 4 MiB; at the end peak resident memory, less the null store's, is at most the budget
 * + 24 MiB. Exit code 1 when one is not.
 */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { open } from '../dist/index.js';

const MIB = 2 ** 20;
const BUDGETS_MIB = [4, 16, 64, 256];
const LIVE_ALLOWANCE = 4 * MIB;
const PEAK_ALLOWANCE = 24 * MIB;

const { values: args } = parseArgs({
  options: {
    child: { type: 'string' },
    workload: { type: 'string' },
    records: { type: 'string', default: '300000' },
    json: { type: 'string' },
  },
});
const RECORDS = Number(args.records);

/** Answers everything from one record and keeps nothing. */
const nullStore = () => {
  const value = new Uint8Array(100);
  return {
    write: (run) => run(),
    load: (entries) => {
      for (const entry of entries) if (entry.length !== 2) throw new Error('no entry');
    },
    put: () => undefined,
    get: () => value,
    *range(options) {
      const count = options.limit ?? RECORDS;
      for (let i = 0; i < count; i++) yield ['user00000000', value];
    },
    charged: () => 0,
    close: () => undefined,
  };
};

const realStore = (file, budgetMiB) => {
  const db = open(file, { memory: budgetMiB * MIB, durability: 'buffered' });
  const kv = db.kv('records', { values: 'bytes' });
  const symbols = db.kv('symbols', { values: 'int' });
  const objects = db.kv('objects', { keys: 'int', values: 'bytes' });
  return {
    write: (run) => db.transaction(run),
    load: (entries, name) => (name === 'symbols' ? symbols : objects).bulkLoad(entries),
    put: (key, value) => kv.put(key, value),
    get: (key) => kv.get(key),
    range: (options) => kv.range(options),
    charged: () => {
      const { usedBytes, peakBytes, budgetBytes } = db.memory();
      if (peakBytes > budgetBytes) throw new Error(`${peakBytes} bytes charged of ${budgetBytes}`);
      return usedBytes;
    },
    close: () => db.close(),
  };
};

function child(kind) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'monochord-memory-'));
  const store = kind === 'null' ? nullStore() : realStore(path.join(folder, 'db'), Number(kind));
  const keys = Array.from({ length: RECORDS }, (_, i) => `user${String(i).padStart(8, '0')}`);
  const value = new Uint8Array(100);
  let state = 1;
  const below = (n) => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) % n;
  const update = (batch, count) => {
    for (let c = 0; c < count; c++) {
      store.write(() => {
        for (let j = 0; j < batch; j++) {
          value[4] = below(256);
          store.put(keys[below(RECORDS)], value);
        }
      });
    }
  };
  const address = new Uint8Array(8);
  function* scattered(entry) {
    for (let i = 0; i < RECORDS; i++) yield entry((i * 7919) % RECORDS);
  }
  const phases = {
    // W1: the index compile, both buckets in one transaction.
    'bulk load': () =>
      store.write(() => {
        store.load(
          scattered((i) => [keys[i], i]),
          'symbols',
        );
        store.load(
          scattered((i) => [i, address]),
          'objects',
        );
      }),
    load: () =>
      store.write(() => keys.forEach((_, i) => store.put(keys[(i * 7919) % RECORDS], value))),
    gets: () => {
      for (let i = 0; i < 200_000; i++) store.get(keys[below(RECORDS)]);
    },
    scan: () => {
      for (const entry of store.range({})) if (entry.length !== 2) throw new Error('no entry');
    },
    ranges: () => {
      for (let i = 0; i < 2000; i++) {
        for (const entry of store.range({ gte: keys[below(RECORDS - 100)], limit: 100 })) {
          if (entry.length !== 2) throw new Error('no entry');
        }
      }
    },
    'updates 1': () => update(1, 20_000),
    'updates 100': () => update(100, 200),
    'updates 10000': () => update(10_000, 10),
  };
  const rows = {};
  for (const [name, run] of Object.entries(phases)) {
    if ((name === 'bulk load') !== (args.workload === 'W1')) continue;
    run();
    globalThis.gc();
    globalThis.gc();
    const { heapUsed, external } = process.memoryUsage();
    rows[name] = { live: heapUsed + external, charged: store.charged() };
  }
  store.close();
  fs.rmSync(folder, { recursive: true, force: true });
  const peak = Number(/VmHWM:\s+(\d+)/.exec(fs.readFileSync('/proc/self/status', 'utf8'))[1]);
  console.log(JSON.stringify({ rows, peak: peak * 1024 }));
}

function run(kind, workload) {
  const script = fileURLToPath(import.meta.url);
  const flags = ['--expose-gc', script, '--child', String(kind), '--records', String(RECORDS)];
  flags.push('--workload', workload);
  const { status, stdout, stderr } = spawnSync(process.execPath, flags, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${kind}: ${stderr.slice(-1500)}`);
  return JSON.parse(stdout);
}

function measure(workload, report) {
  const empty = run('null', workload);
  for (const budget of BUDGETS_MIB) {
    const { rows, peak } = run(budget, workload);
    for (const [phase, { live, charged }] of Object.entries(rows)) {
      const kept = live - empty.rows[phase].live;
      report.push({ budget, phase, kept, bound: charged + LIVE_ALLOWANCE, charged });
    }
    const resident = peak - empty.peak;
    report.push({
      budget,
      phase: `${workload} peak`,
      kept: resident,
      bound: budget * MIB + PEAK_ALLOWANCE,
    });
  }
}

function parent() {
  const mib = (bytes) => (bytes / MIB).toFixed(1);
  const report = [];
  for (const workload of ['W1', 'W5']) measure(workload, report);
  for (const { budget, phase, kept, bound, charged } of report) {
    const used = charged === undefined ? '' : `charged ${mib(charged)} `;
    const verdict = kept <= bound ? 'holds' : 'BROKEN';
    console.log(
      `${budget} MiB  ${phase.padEnd(14)} ${mib(kept)} MiB of ${mib(bound)}  ${used} ${verdict}`,
    );
  }
  if (args.json !== undefined)
    fs.writeFileSync(args.json, `${JSON.stringify(report, undefined, 1)}\n`);
  if (report.some(({ kept, bound }) => kept > bound)) process.exit(1);
}

if (args.child === undefined) parent();
else child(args.child);
