/**
 * Mixed updates with large values: 600 documents of 0.5 to 12 KiB, half of them replaced by others
 * of another size, some deleted, all read. Clusters hold their tails. Every answer is checked.
 */
const DOCUMENTS = 600;
const UPDATES = 300;

const sizeOf = (i, version) => 500 + ((i * 2711 + version * 977) % 11_500);

function contentOf(i, version) {
  const bytes = new Uint8Array(sizeOf(i, version));
  bytes.fill((i + version) & 255);
  bytes[0] = version;
  return bytes;
}

function isContent(found, i, version) {
  if (found === undefined || found.length !== sizeOf(i, version)) return false;
  return found[0] === version && found[found.length - 1] === ((i + version) & 255);
}

export default {
  name: 'large values',
  description: '600 documents of 0.5 to 12 KiB, half of them replaced, some deleted',
  expects: { documents: DOCUMENTS - DOCUMENTS / 10 },
  confirmation: 'every configuration had every document at its newest version',
  phases: [
    {
      name: 'write',
      run(state, context) {
        state.db = context.open({ durability: 'buffered' });
        state.documents = state.db.kv('documents', {
          keys: 'int',
          values: 'bytes',
          layout: context.treeLayout,
        });
        state.db.transaction(() => {
          for (let i = 0; i < DOCUMENTS; i++) state.documents.put(i, contentOf(i, 0));
        });
      },
    },
    {
      name: 'update',
      run(state) {
        state.versions = new Uint8Array(DOCUMENTS);
        for (let n = 0; n < UPDATES; n++) {
          const i = (n * 7919) % DOCUMENTS;
          state.versions[i]++;
          state.documents.put(i, contentOf(i, state.versions[i]));
        }
        for (let i = 0; i < DOCUMENTS; i += 10) state.documents.delete(i);
      },
    },
    {
      name: 'close',
      run(state, context) {
        state.db.close();
        state.db = context.open();
        state.documents = state.db.kv('documents', { keys: 'int', values: 'bytes' });
      },
    },
    {
      name: 'read',
      run(state, context) {
        for (let i = 0; i < DOCUMENTS; i++) {
          const found = state.documents.get(i);
          if (i % 10 === 0) context.check(found === undefined, `document ${i} was deleted`);
          else context.check(isContent(found, i, state.versions[i]), `document ${i}`);
        }
      },
    },
    {
      name: 'scan',
      run(state, context) {
        let count = 0;
        for (const [i, found] of state.documents.range()) {
          context.check(isContent(found, i, state.versions[i]), `document ${i} in the scan`);
          count++;
        }
        context.count('documents', count);
        state.db.close();
      },
    },
  ],
};
