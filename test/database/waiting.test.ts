/** Writes that wait change nothing but the time they take; the faults found were of neighbours. */
import { expect, test } from 'vitest';
import { Transaction } from '../../src/scopes.ts';
import { defineProperty } from '../support/properties.ts';
import { openDatabase } from './open-database.ts';
import { runWaitingCase } from './waiting-trial.ts';

defineProperty({
  name: 'writes that wait change nothing',
  cases: 8,
  run: (seed) => runWaitingCase(seed),
  canary: (seed) => runWaitingCase(seed, (answer) => answer.replace('"a"', '"z"')),
});

test('records that are neighbours are read as the transaction wrote them', () => {
  const db = openDatabase();
  const fields = { id: 'int', group: 'int', n: 'int' } as const;
  const records = db.collection('r', { fields, key: 'id', index: ['group'] });
  const count = 5000;
  const record = (id: number, n: number) => ({ id, group: Math.floor(id / 10), n });
  db.transaction(() => {
    for (let id = 0; id < count; id++) records.insert(record(id, id));
  });
  db.transaction(() => {
    // Enough of them, in no order, for the later ones to wait.
    for (let i = 0; i < 3000; i++) records.save(record(1000 + ((i * 7919) % 4000), -1));
    const waiting = db.memory().accounts.transaction;
    records.save(record(55, -2));
    expect(db.memory().accounts.transaction, 'it waits').toBe(waiting);
    const found = records.where({ group: 5 }).toArray();
    expect(found.map(({ n }) => n)).toEqual([50, 51, 52, 53, 54, -2, 56, 57, 58, 59]);
  });
});

test('schemas that a transaction changed often are charged once', () => {
  const db = openDatabase();
  const settings = { fields: { id: 'int', n: 'int' }, key: 'id', index: ['n'] } as const;
  db.collection('r', settings).insert({ id: 1, n: 1 });
  const before = db.memory().accounts.catalog;
  db.transaction((tx) => {
    const scope = Transaction.scopeOf(tx);
    for (let i = 0; i < 20; i++) {
      const { name } = scope.indexes('r')[0]!;
      scope.changeSchema({ change: 'dropIndex', collection: 'r', index: name });
      tx.collection('r', settings).save({ id: i, n: i });
    }
    expect(db.memory().accounts.catalog).toBeLessThanOrEqual(2 * before);
  });
  db.transaction((tx) => tx.collection('r', settings).save({ id: 99, n: 1 }));
  expect(db.memory().accounts.catalog).toBeLessThanOrEqual(before);
});
