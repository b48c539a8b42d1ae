/**
 * A workload for tests whose program keeps decoded records in a session, and forgets to close it.
 * Each run writes what it found in memory, and read from the file, into the file that CACHE_LOG
 * names.
 */
import { appendFileSync } from 'node:fs';

const COUNT = 3000;
const SETTINGS = { fields: { id: 'int', name: 'text' }, key: 'id' };
/** What a run left in this process, for the next one to be found by. */
let left;

export default {
  name: 'sessions',
  phases: [
    {
      name: 'read',
      run(state, context) {
        const db = context.open();
        const found = { ...db.memory().accounts };
        const things = db.collection('things', SETTINGS);
        const session = db.session();
        const first = session.get(things, 1);
        const isOld = first === left;
        left = first;
        for (let round = 0; round < 2; round++)
          for (let id = 1; id <= COUNT; id++)
            context.check(session.get(things, id).name === `thing ${id}`, `thing ${id}`);
        const { accounts, usedBytes, budgetBytes } = db.memory();
        const line = {
          recordsBefore: found.records,
          isOld,
          pagesRead: db.stats().pagesRead,
          records: accounts.records,
          isWithin: usedBytes <= budgetBytes && accounts.records <= budgetBytes / 4,
          pid: process.pid,
        };
        appendFileSync(process.env.CACHE_LOG, `${JSON.stringify(line)}\n`);
      },
    },
  ],
};
