/**
 * Law M1: memory means what it says. `npm run bench -- memory [--records N] [--only W1,W2,W5]
 * [--json FILE]`
 *
 * W1 (two buckets loaded in bulk), W2 (customers and their purchases, two in three of the records
 * customers: 100 times the sample store) and the phases of W5, without result checks, run on the
 * store at budgets of 4, 16, 64 and 256 MiB and on a null store that answers from one constant
 * record, each in a process of its own for each workload. After each phase, after a collection:
 * live memory (heap and external) of the store's run, less that of the null store's, is at most the
 * bytes charged + 4 MiB; at the end peak resident memory, less the null store's, is at most the
 * budget + 24 MiB. Exit code 1 when one is not. What of it is code and bytecode, which grows with
 * what a program calls and not with its data, is shown beside it.
 */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { getHeapCodeStatistics } from 'node:v8';
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
    only: { type: 'string' },
    json: { type: 'string' },
  },
});
const RECORDS = Number(args.records);

/** Customers of W2, and their purchases. */
const CUSTOMERS = Math.floor((RECORDS * 2) / 3);
const PURCHASES_EACH = 3;
const customerOf = (id) => ({
  id,
  email: `customer${id}@example.com`,
  region: id % 16,
  name: `Customer ${id}`,
});
const purchaseOf = (id, n) => ({
  id: id * 10 + n,
  reference: `P-${id}-${n}`,
  customerId: id,
  total: 10 + n,
});

/** Answers everything from one record and keeps nothing. */
const nullStore = () => {
  const value = new Uint8Array(100);
  const record = purchaseOf(1, 1);
  return {
    write: (run) => run(),
    saveCustomer: () => 1,
    savePurchase: () => 1,
    byEmail: () => customerOf(1),
    byCustomer: () => [record, record, record],
    updateTotal: () => true,
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

/** Handles of objects, for the workload that has some: others are to load no code for them. */
const objectsOf = (db) => {
  const customers = db.collection('customers', {
    fields: { id: 'int', email: 'text', region: 'int', name: 'text' },
    key: 'id',
    unique: ['email'],
  });
  const purchases = db.collection('purchases', {
    fields: { id: 'int', reference: 'text', customerId: 'int', total: 'int' },
    key: 'id',
    index: ['customerId'],
  });
  return {
    saveCustomer: (customer) => customers.save(customer),
    savePurchase: (purchase) => purchases.save(purchase),
    byEmail: (email) => customers.get({ email }),
    byCustomer: (customerId) => purchases.where({ customerId }).toArray(),
    updateTotal: (id, total) => purchases.update(id, { total }),
  };
};

const realStore = (file, budgetMiB) => {
  const db = open(file, { memory: budgetMiB * MIB, durability: 'buffered' });
  const kv = db.kv('records', { values: 'bytes' });
  const symbols = db.kv('symbols', { values: 'int' });
  const objects = db.kv('objects', { keys: 'int', values: 'bytes' });
  return {
    ...(args.workload === 'W2' && objectsOf(db)),
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
  /** Saves every customer with its purchases, `step` apart: neighbours, or in no order. */
  const saveAll = (step) =>
    store.write(() => {
      for (let i = 0; i < CUSTOMERS; i++) {
        const id = 1 + ((i * step) % CUSTOMERS);
        store.saveCustomer(customerOf(id));
        for (let n = 0; n < PURCHASES_EACH; n++) store.savePurchase(purchaseOf(id, n));
      }
    });
  const objectPhases = {
    save: () => saveAll(1),
    'save again': () => saveAll(7919),
    lookups: () => {
      for (let id = 1; id <= CUSTOMERS; id += 4) {
        store.byEmail(`customer${id}@example.com`);
        if (store.byCustomer(id).length !== PURCHASES_EACH) throw new Error('no purchases');
      }
    },
    changes: () =>
      store.write(() => {
        for (let i = 0; i < 50_000; i++) store.updateTotal((1 + below(CUSTOMERS)) * 10, i);
      }),
  };
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
  const isObjects = args.workload === 'W2';
  for (const [name, run] of Object.entries(isObjects ? objectPhases : phases)) {
    if (!isObjects && (name === 'bulk load') !== (args.workload === 'W1')) continue;
    run();
    globalThis.gc();
    globalThis.gc();
    const { heapUsed, external } = process.memoryUsage();
    const { code_and_metadata_size: machine, bytecode_and_metadata_size: bytecode } =
      getHeapCodeStatistics();
    const charged = store.charged();
    rows[name] = { live: heapUsed + external, charged, code: machine + bytecode };
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
    for (const [phase, { live, charged, code }] of Object.entries(rows)) {
      const kept = live - empty.rows[phase].live;
      const more = code - empty.rows[phase].code;
      report.push({ budget, phase, kept, bound: charged + LIVE_ALLOWANCE, charged, code: more });
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
  for (const workload of args.only?.split(',') ?? ['W1', 'W2', 'W5']) measure(workload, report);
  for (const { budget, phase, kept, bound, charged, code } of report) {
    const used = charged === undefined ? '' : `charged ${mib(charged)}, code ${mib(code)}`;
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
