/**
 * The store's point operations on the data of workload W2 at 100 times its size, over the real
 * storage on a memory file: inserts with their indexes, an email lookup with its purchases, gets,
 * updates. Every answer is checked. `npm run bench -- store-points [customers]`.
 */
import { runSteps } from '../src/base/steps.ts';
import {
  defineBucket,
  defineCollection,
  defineIndex,
  type SchemaChange,
} from '../src/model/schema.ts';
import { LATEST } from '../src/model/source.ts';
import { MemoryFileSystem } from '../src/storage/memory-file.ts';
import { Storage } from '../src/storage/storage.ts';
import { StorePointAccess } from '../src/store/point-access.ts';
import { schemaChange } from '../src/store/schema-changes.ts';
import { Store } from '../src/store/store.ts';

const CUSTOMERS = Number(process.argv[2] ?? 200_000);
const LOOKUPS = 200_000;

const storage = Storage.open({
  fs: new MemoryFileSystem(),
  path: 'w2.mono',
  memoryBytes: 256 * 1024 * 1024,
  layout: { pageBytes: 8192, extentBytes: 128 * 1024, clusterBytes: 512, tree: 'b+tree', order: 0 },
  fileId: new Uint8Array(16),
  now: () => performance.now(),
});
storage.begin();
Store.create(storage);
storage.commit('none');
const store = new Store(storage, { ledger: storage.ledger });
const points = new StorePointAccess(store);

const customers = defineCollection({
  name: 'customers',
  fields: { id: 'int', email: 'text', region: 'int', name: 'text' },
  key: 'id',
});
const purchases = defineCollection({
  name: 'purchases',
  fields: { id: 'int', reference: 'text', customerId: 'int', total: 'float' },
  key: 'id',
});
const changes: SchemaChange[] = [
  { change: 'createCollection', definition: customers },
  { change: 'createCollection', definition: purchases },
  { change: 'createCollection', definition: defineBucket('values', 'int', 'bytes') },
  {
    change: 'createIndex',
    definition: defineIndex(customers, { name: 'email', parts: ['email'], unique: true }),
  },
  {
    change: 'createIndex',
    definition: defineIndex(purchases, { name: 'customerId', parts: ['customerId'] }),
  },
];
store.begin();
for (const change of changes) runSteps(schemaChange(store, change));
store.commit('none');

function measure(label: string, count: number, run: (i: number) => void): void {
  const start = process.hrtime.bigint();
  for (let i = 0; i < count; i++) run(i);
  const nanoseconds = Number(process.hrtime.bigint() - start);
  console.log(`${label}: ${(nanoseconds / count / 1000).toFixed(3)} us`);
}

function check(holds: boolean): void {
  if (!holds) throw new Error('a wrong answer');
}

const byCustomers = points.collection('customers');
const byPurchases = points.collection('purchases');
const emailOf = (i: number): string => `user${(i * 7919) % CUSTOMERS}@example.com`;

/** Commits every 10,000 writes. */
function inBatches(i: number, write: () => void): void {
  if (i % 10_000 === 0) {
    if (store.transaction.isOpen) store.commit('none');
    store.begin();
  }
  write();
}

const emails = Array.from({ length: CUSTOMERS }, (_, i) => emailOf(i));
measure('insert of a customer, unique email in random order', CUSTOMERS, (i) =>
  inBatches(i, () => {
    byCustomers.insert({ id: i, email: emails[i]!, region: i % 16, name: `Customer ${i}` });
  }),
);
measure('insert of a purchase, index in order', 3 * CUSTOMERS, (i) =>
  inBatches(i, () => {
    const customerId = Math.floor(i / 3);
    byPurchases.insert({ id: i, reference: `ref-${i}`, customerId, total: i * 1.25 });
  }),
);
store.commit('none');

const email = byCustomers.index('email');
const byCustomer = byPurchases.index('customerId');
for (let round = 0; round < 3; round++)
  measure('lookup of a customer by email, and three purchases', LOOKUPS, (k) => {
    const i = (k * 104_729) % CUSTOMERS;
    const customer = email.get(emails[i]!, LATEST)!;
    check(customer['id'] === i);
    const found = byCustomer.getAll(i, LATEST);
    check(found.length === 3 && found[2]!['total'] === (3 * i + 2) * 1.25);
  });
measure('get by id', LOOKUPS, (k) => {
  const i = (k * 104_729) % CUSTOMERS;
  check(byCustomers.get(i, LATEST)!['region'] === i % 16);
});
measure('update of a field without index', CUSTOMERS, (i) =>
  inBatches(i, () => check(byCustomers.update(i, { region: (i + 1) % 16 }))),
);
measure('put of a changed record', CUSTOMERS, (i) =>
  inBatches(i, () => {
    byCustomers.put({ id: i, email: emails[i]!, region: i % 16, name: `Customer ${i}` });
  }),
);
measure('delete', CUSTOMERS, (i) => inBatches(i, () => check(byCustomers.delete(i))));
store.rollback();

const bucket = points.bucket('values');
const value = new Uint8Array(100).fill(5);
measure('bucket put, 100 bytes, int keys in order', 500_000, (i) =>
  inBatches(i, () => void bucket.put(i, value)),
);
store.commit('none');
for (let round = 0; round < 2; round++)
  measure('bucket get, random', 500_000, (k) => {
    check((bucket.get((k * 104_729) % 500_000, LATEST) as Uint8Array).length === 100);
  });
