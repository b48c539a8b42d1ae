/**
 * Workload W2: a store of customers and their purchases, written, committed, closed, opened again,
 * looked up and read from end to end. Every result is checked.
 *
 * The sample of `npm start`. CUSTOMERS in the environment makes it larger.
 */
const CUSTOMERS = Number(process.env.CUSTOMERS ?? 2000);
const PURCHASES = 3;
const LOOKUP_EVERY = 4;

const customerOf = (id) => ({
  id,
  email: `customer${id}@example.com`,
  region: id % 16,
  name: `Customer ${id}`,
});

const purchaseOf = (customerId, n) => ({
  id: customerId * 10 + n,
  reference: `P-${customerId}-${n}`,
  customerId,
  total: 10 + n,
});

function collections(db, layout) {
  return {
    customers: db.collection('customers', {
      fields: { id: 'int', email: 'text', region: 'int', name: 'text' },
      key: 'id',
      unique: [{ parts: ['email'], layout }],
      layout,
    }),
    purchases: db.collection('purchases', {
      fields: { id: 'int', reference: 'text', customerId: 'int', total: 'int' },
      key: 'id',
      index: [{ parts: ['customerId'], layout }],
      layout,
    }),
  };
}

function isCustomer(found, id) {
  const { email, region, name } = customerOf(id);
  return (
    found !== undefined &&
    found.id === id &&
    found.email === email &&
    found.region === region &&
    found.name === name
  );
}

function isPurchase(found, customerId, n) {
  const { id, reference, total } = purchaseOf(customerId, n);
  return (
    found !== undefined &&
    found.id === id &&
    found.reference === reference &&
    found.customerId === customerId &&
    found.total === total
  );
}

function lookUp(state, context, id) {
  const customer = state.customers.get({ email: customerOf(id).email });
  context.check(isCustomer(customer, id), `customer ${id} by email`);
  const purchases = state.purchases.where({ customerId: customer.id }).toArray();
  context.check(purchases.length === PURCHASES, `purchases of customer ${id}: ${purchases.length}`);
  const ordered = purchases.sort((a, b) => a.id - b.id);
  for (let n = 0; n < PURCHASES; n++) {
    context.check(isPurchase(ordered[n], id, n), `purchase ${n} of customer ${id}`);
  }
}

export default {
  name: 'W2, object store',
  description:
    `${CUSTOMERS} customers with a unique email and ${CUSTOMERS * PURCHASES} purchases with an ` +
    `index on their customer, written in one transaction; then ${CUSTOMERS / LOOKUP_EVERY} ` +
    'lookups by email and customer on the reopened store, and a scan of everything',
  expects: {
    'customers stored': CUSTOMERS,
    'purchases stored': CUSTOMERS * PURCHASES,
    'customers found': CUSTOMERS,
    'purchases found': CUSTOMERS * PURCHASES,
  },
  confirmation:
    `every configuration stored and found all ${CUSTOMERS.toLocaleString('en')} customers and ` +
    `${(CUSTOMERS * PURCHASES).toLocaleString('en')} purchases`,
  phases: [
    {
      name: 'write',
      run(state, context) {
        state.db = context.open();
        Object.assign(state, collections(state.db, context.treeLayout));
        state.tx = state.db.begin();
        for (let id = 1; id <= CUSTOMERS; id++) {
          state.customers.save(customerOf(id));
          for (let n = 0; n < PURCHASES; n++) state.purchases.save(purchaseOf(id, n));
        }
        context.count('customers stored', CUSTOMERS);
        context.count('purchases stored', CUSTOMERS * PURCHASES);
      },
    },
    {
      name: 'commit',
      run(state) {
        state.tx.commit();
      },
    },
    {
      name: 'close',
      run(state) {
        state.db.close();
      },
    },
    {
      name: 'reopen',
      times: 4,
      run(state, context) {
        if (state.db.isOpen) state.db.close();
        state.db = context.open();
        Object.assign(state, collections(state.db, context.treeLayout));
        const first = state.customers.get({ email: 'customer1@example.com' });
        context.check(isCustomer(first, 1), 'customer 1 after reopening');
      },
    },
    {
      name: 'lookup',
      run(state, context) {
        for (let id = 1; id <= CUSTOMERS; id += LOOKUP_EVERY) lookUp(state, context, id);
      },
    },
    {
      name: 'scan',
      run(state, context) {
        let id = 0;
        for (const customer of state.customers.where({})) {
          context.check(isCustomer(customer, ++id), `customer ${id} in order`);
        }
        let at = 0;
        for (const purchase of state.purchases.where({})) {
          const customerId = Math.floor(at / PURCHASES) + 1;
          context.check(isPurchase(purchase, customerId, at++ % PURCHASES), `purchase ${at}`);
        }
        context.count('customers found', id);
        context.count('purchases found', at);
        state.db.close();
      },
    },
  ],
  candidates: [
    {
      name: 'index order 32',
      layout: { index: { order: 32 } },
      why:
        'a node takes its own page however few children it may have, so a low order makes more ' +
        'nodes, more levels and a larger file; each node is searched faster',
    },
    {
      name: 'b-tree',
      layout: { index: { tree: 'b-tree' } },
      why:
        'entries lie in inner nodes too, which hold fewer children then; some lookups end ' +
        'higher up, and a scan goes up and down between leaves',
    },
    {
      name: 'cluster 2 KiB',
      layout: { clusterSize: '2 KiB' },
      why:
        'clusters hold the tails of values over a quarter page, and no record here is longer ' +
        'than about 60 bytes: nothing is ever put in one (512 bytes, the setting that the ' +
        'original comparison tried, is the default here, so it is varied)',
    },
    {
      name: 'page 16 KiB',
      layout: { pageSize: '16 KiB' },
      why:
        'fewer and larger pages: fewer to write and check at commit and close, more bytes to ' +
        'read and check for the first lookup in each',
    },
  ],
};
