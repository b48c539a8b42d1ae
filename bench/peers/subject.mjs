/**
 * Monochord as the subject of the peer benchmarks: built package, public interface only.
 *
 * `make` functions by workload and setting, as the harness's README says; see docs/BENCHMARKS.md.
 */
import path from 'node:path';
import { open } from '../../dist/index.js';

/** W1: two buckets, symbol to object number and that to eight bytes, loaded in bulk. */
const w1 = (memory) => (dir) => {
  let db;
  let symbols;
  let objects;
  const start = () => {
    db = open(path.join(dir, 'db.mono'), { memory });
    symbols = db.kv('symbols', { keys: 'text', values: 'int' });
    objects = db.kv('objects', { keys: 'int', values: 'bytes' });
  };
  return {
    load({ order, syms, addrs }) {
      function* symbolEntries() {
        for (let i = 0; i < syms.length; i++) yield [syms[i], order[i]];
      }
      function* objectEntries() {
        for (let i = 0; i < order.length; i++) yield [order[i], addrs.subarray(i * 8, i * 8 + 8)];
      }
      start();
      db.transaction(() => {
        symbols.bulkLoad(symbolEntries());
        objects.bulkLoad(objectEntries());
      });
      db.close();
    },
    open: start,
    get(symbol) {
      const number = symbols.get(symbol);
      const bytes = objects.get(number);
      return [number, Buffer.from(bytes.buffer, bytes.byteOffset, 8).readBigUInt64BE()];
    },
    close: () => db.close(),
  };
};

/** W5: point operations on one bucket of bytes. */
const w5 =
  (memory) =>
  async (dir, { N, key, val }) => {
    let db;
    let kv;
    return {
      open(mode) {
        const durability = mode === 'durable' ? 'full' : 'buffered';
        db = open(path.join(dir, 'db.mono'), { memory, durability });
        kv = db.kv('records', { keys: 'text', values: 'bytes' });
      },
      load(order) {
        db.transaction(() => {
          for (const i of order) kv.put(key(i), val(i, 0));
        });
      },
      get: (i) => kv.get(key(i)),
      many: (list) => kv.getMany(list.map(key)),
      scan(f) {
        for (const [k, v] of kv.range()) f(k, v);
      },
      range(i, count, f) {
        for (const [k, v] of kv.range({ gte: key(i), limit: count })) f(k, v);
      },
      update(list, version) {
        db.transaction(() => {
          for (const i of list) kv.put(key(i), val(i, version));
        });
      },
      close: () => db.close(),
      N,
    };
  };

/** W2: two collections of objects, a unique index and one on the owner. */
const w2 = async (dir) => {
  let db;
  let customers;
  let purchases;
  let tx;
  return {
    open() {
      db = open(path.join(dir, 'db.mono'));
      customers = db.collection('customers', {
        fields: { id: 'int', email: 'text', region: 'int', name: 'text' },
        key: 'id',
        unique: ['email'],
      });
      purchases = db.collection('purchases', {
        fields: { id: 'int', reference: 'text', customerId: 'int', total: 'int' },
        key: 'id',
        index: ['customerId'],
      });
    },
    begin() {
      tx = db.begin();
    },
    save(customer, email) {
      customers.save(email === undefined ? customer : { ...customer, email });
    },
    savePurchase(purchase) {
      purchases.save(purchase);
    },
    commit() {
      if (tx?.isOpen) tx.commit();
    },
    close: () => db.close(),
    byEmail: (email) => customers.get({ email }),
    byCustomer: (customerId) => purchases.where({ customerId }).toArray(),
  };
};

export default {
  w1: { '4MiB': w1('4 MiB'), '16MiB': w1('16 MiB'), '145MiB': w1('145 MiB') },
  w2: { '': w2 },
  w5: { '32MiB': w5('32 MiB'), '256MiB': w5('256 MiB') },
};
