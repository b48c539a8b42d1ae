/**
 * Read-mostly key-value: 8,000 entries of 100 bytes; nine of ten gets ask for one of eighty
 * hot keys, and a few values change in between. Every answer is checked.
 */
const ENTRIES = 8000;
const HOT = 80;
const GETS = 5000;
const CHANGES = 20;

const keyOf = (i) => `user:${String((i * 7919) % ENTRIES).padStart(6, '0')}`;
const valueOf = (i, version) => `${i}.${version} `.padEnd(100, 'x');

/** The entry that get number `n` asks for. */
function asked(n) {
  const spread = (n * 48_271) % 2_147_483_647;
  return n % 10 === 0 ? spread % ENTRIES : spread % HOT;
}

export default {
  name: 'skewed gets',
  description: 'Read-mostly key-value: 8,000 entries, nine of ten gets in 1 % of them',
  confirmation: 'every configuration answered every get with the newest value',
  phases: [
    {
      name: 'write',
      run(state, context) {
        state.db = context.open();
        state.users = state.db.kv('users', { values: 'text', layout: context.treeLayout });
        state.versions = new Map();
        state.db.transaction(() => {
          for (let i = 0; i < ENTRIES; i++) state.users.put(keyOf(i), valueOf(i, 0));
        });
        state.db.close();
      },
    },
    {
      name: 'reopen',
      times: 4,
      run(state, context) {
        if (state.db.isOpen) state.db.close();
        state.db = context.open();
        state.users = state.db.kv('users', { values: 'text' });
        context.check(state.users.get(keyOf(1)) === valueOf(1, 0), 'entry 1 after reopening');
      },
    },
    {
      name: 'get',
      run(state, context) {
        for (let n = 0; n < GETS; n++) {
          const i = asked(n);
          const found = state.users.get(keyOf(i));
          context.check(found === valueOf(i, state.versions.get(i) ?? 0), `get ${n}`);
        }
      },
    },
    {
      name: 'change',
      run(state) {
        for (let n = 0; n < CHANGES; n++) {
          const i = asked(n * 31);
          const version = (state.versions.get(i) ?? 0) + 1;
          state.versions.set(i, version);
          state.users.put(keyOf(i), valueOf(i, version));
        }
        state.db.close();
      },
    },
  ],
  shares: { write: 0.05, reopen: 0.05, get: 0.8, change: 0.1 },
};
