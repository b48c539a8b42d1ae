/** Rebuilds a store in another layout, looks at it, and goes back: `node examples/rebuild.mjs`. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { open, rebuild, undoRebuild } from '../dist/index.js';

const folder = mkdtempSync(join(tmpdir(), 'monochord-example-'));
const path = join(folder, 'shop.mono');

const db = open(path);
const ages = db.kv('ages', { values: 'int' });
db.transaction(() => {
  for (let i = 0; i < 1000; i++) ages.put(`person ${i}`, i % 90);
});
db.close();

const report = rebuild(path, { pageSize: '16 KiB', collections: { ages: { tree: 'b-tree' } } });
console.log(`${report.entries} entries, old file at ${report.keptPath}`);

const rebuilt = open(path);
console.log(rebuilt.kv('ages', { values: 'int' }).get('person 42'));
rebuilt.close();

console.log(`back: ${undoRebuild(path).undonePath} is the rebuilt one`);
rmSync(folder, { recursive: true });
