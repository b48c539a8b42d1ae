/**
 * A program that calls every public function of the core once and answers what it saw, with
 * nothing in it that depends on time or place. `core`: what was imported or required; `folder`: an
 * empty one. Run by `package.test.ts` from the built files.
 */
import { join } from 'node:path';

const CUSTOMERS = {
  fields: { id: 'int', email: 'text', region: 'int', born: 'date?' },
  key: 'id',
  unique: ['email'],
  index: ['region'],
};

function keyValue(db, seen) {
  const kv = db.kv('ages', { values: 'int' });
  kv.put('ada', 36);
  kv.insert('bob', 40);
  kv.batch([{ type: 'put', key: 'eve', value: 1 }]);
  seen.kv = [kv.get('ada'), kv.getMany(['bob', 'none']), kv.has('eve'), kv.count()];
  seen.ends = [kv.first(), kv.last(), [...kv.keys()], [...kv.range({ gte: 'b', limit: 1 })]];
  seen.gone = [kv.delete('bob'), kv.deleteRange({ gte: 'e' }), kv.count()];
  const blobs = db.kv('blobs', { values: 'bytes' });
  blobs.put('large', new Uint8Array(100_000).fill(7));
  blobs.put('k'.repeat(5000), new Uint8Array(2));
  seen.large = [blobs.get('large').length, blobs.view('large', (bytes) => bytes[9])];
  const numbers = db.kv('numbers', { keys: 'int' });
  numbers.put(-2, { two: ['minus', 2] });
  seen.numbers = [numbers.get(-2), [...numbers.keys()]];
}

function objects(core, db, seen) {
  const { and, or, not, LocalDate } = core;
  const customers = db.collection('customers', CUSTOMERS);
  customers.insert({ id: 1, email: 'a@b.example', region: 3, born: new LocalDate(1990, 1, 2) });
  customers.insertMany([
    { id: 2, email: 'c@d.example', region: 3 },
    { id: 3, email: 'e@f.example', region: 4 },
  ]);
  customers.save({ id: 3, email: 'e@f.example', region: 5 });
  customers.update(2, { region: 4 });
  seen.refused = codeOf(() => customers.insert({ id: 9, email: 'a@b.example', region: 1 }));
  seen.born = String(customers.get(1).born);
  seen.unique = customers.get({ email: 'c@d.example' }).id;
  seen.many = customers.getMany([3, 7]).map((each) => each?.region);
  const ids = (query) => query.toArray().map((each) => each.id);
  seen.where = ids(customers.where({ region: 3 }));
  seen.conditions = [
    ids(customers.where(or({ region: 4 }, { region: 5 }))),
    ids(customers.where(not({ region: 4 }))),
    ids(customers.where(and({ region: 4 }, { id: 2 }))),
    ids(customers.all().orderBy('region', 'descending').limit(2)),
  ];
  const all = customers.all();
  seen.totals = [all.count(), all.sum('region'), all.avg('region'), all.min('id'), all.max('id')];
  seen.explained = typeof customers.where({ region: 3 }).explain();
  const session = db.session();
  session.get(customers, 1).region = 8;
  session.commit();
  session.close();
  seen.session = customers.get(1).region;
  const lines = db.collection('lines', { fields: { a: 'text', b: 'int' }, key: ['a', 'b'] });
  lines.insert({ a: 'x', b: 2 });
  seen.composite = [lines.get(['x', 2]), lines.get(['x', 3])];
  seen.deleted = [customers.delete(3), customers.has(3), customers.count()];
}

function codeOf(run) {
  try {
    run();
  } catch (cause) {
    return [cause.constructor.name, cause.code];
  }
  return 'it was allowed';
}

async function loads(db, seen) {
  const kv = db.kv('loaded', { values: 'int' });
  const report = kv.bulkLoad([
    ['b', 2],
    ['a', 1],
  ]);
  await kv.bulkLoadAsync([['c', 3]]);
  seen.loaded = [typeof report, [...kv.range()]];
  const customers = db.collection('customers', CUSTOMERS);
  customers.bulkLoad([{ id: 20, email: 'z@z.example', region: 9 }]);
  await customers.bulkLoadAsync([{ id: 21, email: 'y@z.example', region: 9 }]);
  seen.loaded.push(customers.where({ region: 9 }).count());
}

async function transactions(db, seen) {
  const kv = db.kv('ages', { values: 'int' });
  const before = db.snapshot();
  const tx = db.begin();
  kv.put('x', 1);
  const token = tx.savepoint();
  kv.put('y', 2);
  tx.rollbackTo(token);
  tx.release(token);
  tx.commit();
  seen.rolledBack = codeOf(() =>
    db.transaction(() => {
      kv.put('z', 1);
      throw new RangeError('back');
    }),
  );
  await db.transactionAsync(async (inner) => {
    await Promise.resolve();
    inner.kv('ages', { values: 'int' }).put('w', 3);
  });
  seen.snapshot = [before.kv('ages', { values: 'int' }).has('w'), [...kv.keys()]];
  before.close();
}

async function wholeFile(core, db, path, seen) {
  seen.check = db.check().faults.length;
  db.checkpoint();
  db.sync();
  await db.synced();
  db.backup(`${path}-copy`);
  await db.backupAsync(`${path}-copy-2`);
  db.compact();
  await db.compactAsync();
  seen.report = [typeof db.memory().usedBytes, typeof db.stats().commits];
  db.close();
  const reader = core.open(`${path}-copy`, { readOnly: true });
  seen.copy = [reader.refresh(), reader.kv('ages', { values: 'int' }).get('w')];
  seen.readOnly = codeOf(() => reader.kv('ages', { values: 'int' }).put('a', 1));
  reader.close();
  core.rebuild(path, { pageSize: '8 KiB' });
  core.undoRebuild(path);
  await core.rebuildAsync(path, { pageSize: '8 KiB' });
  seen.kept = core.forgetRebuild(path).length;
}

function values(core, seen) {
  const { Duration, Float, Int, LocalDateTime, LocalTime, Point, ZonedDateTime, ZonedTime } = core;
  seen.values = [core.int(3) instanceof Int, core.float(1) instanceof Float];
  seen.kinds = [Duration, LocalDateTime, LocalTime, Point, ZonedDateTime, ZonedTime].map(
    (each) => each.name,
  );
}

export async function run(core, folder) {
  const seen = {};
  const path = join(folder, 'all.mono');
  const db = core.open(path);
  keyValue(db, seen);
  objects(core, db, seen);
  await loads(db, seen);
  await transactions(db, seen);
  await wholeFile(core, db, path, seen);
  values(core, seen);
  const traced = core.open(join(folder, 'traced.mono'), { record: join(folder, 'trace.jsonl') });
  traced.kv('a').put('b', 'c');
  seen.traced = typeof traced.stats().recording;
  traced.close();
  const memory = core.open(':memory:');
  memory.kv('a').put('b', 'c');
  seen.memory = memory.kv('a').get('b');
  memory.close();
  return seen;
}
