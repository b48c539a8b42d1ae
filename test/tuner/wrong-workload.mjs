/** A workload for tests: small, and wrong or failing in the layouts that its candidates name. */
export default {
  name: 'small',
  expects: { found: 50 },
  phases: [
    {
      name: 'write',
      run(state, context) {
        state.order = context.treeLayout.order;
        state.db = context.open();
        const bucket = state.db.kv('numbers');
        state.db.transaction(() => {
          for (let i = 0; i < 50; i++) bucket.put(`key ${i}`, i);
        });
        if (state.order === 99) throw new Error('this layout fails');
      },
    },
    {
      name: 'read',
      run(state, context) {
        const bucket = state.db.kv('numbers');
        for (let i = 0; i < 50; i++) context.check(bucket.get(`key ${i}`) === i, `key ${i}`);
        context.count('found', state.order === 77 ? 49 : 50);
        state.db.close();
      },
    },
  ],
  candidates: [
    { name: 'order 32', layout: { index: { order: 32 } } },
    { name: 'wrong', layout: { index: { order: 77 } } },
    { name: 'failing', layout: { index: { order: 99 } } },
  ],
};
