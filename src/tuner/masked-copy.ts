/**
 * A copy of a store whose values are hashed as those of a trace are, so that the trace fits it.
 * Line 7 of the strata.
 */
import * as fs from 'node:fs';
import { runSteps } from '../base/steps.ts';
import { Database } from '../database.ts';
import { LATEST } from '../model/source.ts';
import type { Value } from '../model/value.ts';
import type { Mask } from '../recording/mask.ts';
import { schemaChange } from '../store/schema-changes.ts';

/** Records of one transaction. */
const AT_ONCE = 2000;

/** Writes the copy; an unfinished one is left under another name and begun anew. */
export function maskedCopy(source: string, target: string, mask: Mask): void {
  const unfinished = `${target}.new`;
  for (const name of [unfinished, `${unfinished}-log`]) fs.rmSync(name, { force: true });
  const from = new Database(source, { readOnly: true });
  const { pageBytes, extentBytes, clusterBytes, tree, order } = from.storage.header.layout;
  const to = new Database(unfinished, {
    pageSize: pageBytes,
    extentSize: extentBytes,
    clusterSize: clusterBytes,
    index: { tree, order },
    durability: 'none',
  });
  try {
    const { catalog } = from.store;
    for (const { structure, definition } of catalog.collections(LATEST)) {
      to.transaction(() => {
        runSteps(schemaChange(to.store, { change: 'createCollection', definition }));
        for (const { definition: index } of catalog.indexes(structure, LATEST)) {
          runSteps(schemaChange(to.store, { change: 'createIndex', definition: index }));
        }
      });
      if (definition.form === 'bucket') copyBucket(from, to, definition.name, mask);
      else copyRecords(from, to, definition.name, mask);
    }
  } finally {
    to.close();
    from.close();
  }
  fs.renameSync(unfinished, target);
}

function copyBucket(from: Database, to: Database, name: string, mask: Mask): void {
  const target = to.kv<Value, Value>(name);
  inGroups(to, from.kv<Value, Value>(name).range(), ([key, value]) => {
    target.put(mask.value(key) as Value, mask.value(value) as Value);
  });
}

function copyRecords(from: Database, to: Database, name: string, mask: Mask): void {
  const target = to.storedCollection(name)!;
  inGroups(to, from.storedCollection(name)!, (record) => target.insert(mask.value(record)));
}

function inGroups<T>(to: Database, rows: Iterable<T>, put: (row: T) => void): void {
  let tx = to.begin();
  let count = 0;
  for (const row of rows) {
    put(row);
    if (++count % AT_ONCE !== 0) continue;
    tx.commit();
    tx = to.begin();
  }
  tx.commit();
}
