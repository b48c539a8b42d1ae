/** Collections of objects: records, questions, drift between declaration and file, sessions. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { and, not, open, or, type Database } from '../../src/index.ts';
import { defineProperty } from '../support/properties.ts';
import { Random } from '../../src/base/random.ts';

const CUSTOMERS = {
  fields: {
    id: 'int',
    email: 'text',
    region: 'int',
    name: 'text',
    joined: 'datetime?',
    extra: 'json?',
  },
  key: 'id',
  unique: ['email'],
  index: ['region', ['region', 'name'], 'extra.city'],
} as const;

let db: Database;
beforeEach(() => {
  db = open(':memory:', { memory: '4 MiB' });
});
afterEach(() => {
  if (!db.isOpen) return;
  expect(db.check().faults).toEqual([]);
  const { accounts } = db.memory();
  expect([accounts.records, accounts.work]).toEqual([0, 0]);
  db.close();
});

const code = (text: string, hint?: string): unknown =>
  expect.objectContaining({ code: text, ...(hint !== undefined && { hint }) });

function filled(count = 40): ReturnType<typeof customersOf> {
  const customers = customersOf(db);
  db.transaction(() => {
    for (let id = 1; id <= count; id++)
      customers.insert({
        id,
        email: `c${id}@example.com`,
        region: id % 4,
        name: `N${id % 10}`,
        extra: { city: `city ${id % 3}` },
      });
  });
  return customers;
}

function customersOf(database: Database) {
  return database.collection('customers', CUSTOMERS);
}

describe('Collection', () => {
  test('insert, get by key and by a unique index, save, update, delete', () => {
    const customers = customersOf(db);
    expect(customers.get(1)).toBeUndefined();
    expect(customers.insert({ id: 1, email: 'a@b', region: 3, name: 'Ada' })).toBe(1);
    const ada = { id: 1, email: 'a@b', region: 3, name: 'Ada', joined: null, extra: null };
    expect(customers.get(1)).toEqual(ada);
    expect(customers.get({ email: 'a@b' })).toEqual(ada);
    expect(customers.get({ id: 1 })).toEqual(ada);
    expect(customers.get({ email: 'x' })).toBeUndefined();
    expect(customers.getMany([1, 2])).toEqual([ada, undefined]);
    customers.save({ id: 1, email: 'a@c', region: 4, name: 'Ada' });
    expect(customers.update(1, { name: 'Eve' })).toBe(true);
    expect(customers.update({ email: 'a@c' }, { region: 5 })).toBe(true);
    expect(customers.update({ email: 'nobody' }, { region: 5 })).toBe(false);
    expect(customers.update(9, { region: 5 })).toBe(false);
    expect(customers.get(1)).toEqual({ ...ada, email: 'a@c', region: 5, name: 'Eve' });
    expect([customers.has(1), customers.has({ email: 'a@b' })]).toEqual([true, false]);
    expect([customers.delete({ email: 'a@c' }), customers.delete(1)]).toEqual([true, false]);
    expect(customers.count()).toBe(0);
  });

  test('a duplicate is refused and leaves no trace', () => {
    const customers = filled(3);
    const again = { id: 9, email: 'c1@example.com', region: 1, name: 'x' };
    expect(() => customers.insert(again)).toThrow(code('constraint.unique'));
    expect(() => customers.insertMany([{ ...again, id: 10, email: 'new' }, again])).toThrow(
      code('constraint.unique'),
    );
    expect(customers.count()).toBe(3);
    expect(() => customers.insert({ id: 4 } as never)).toThrow(code('constraint.required'));
  });

  test('names that are not known are refused with the nearest', () => {
    const customers = filled(1);
    const bad = { ...CUSTOMERS, uniqe: ['email'] } as never;
    expect(() => db.collection('x', bad)).toThrow(code('usage.argument', 'Did you mean "unique"?'));
    expect(() => db.collection('x', { fields: { id: 'imt' } } as never)).toThrow(
      code('usage.argument', 'Did you mean "int"?'),
    );
    expect(() => customers.where({ regio: 1 } as never)).toThrow(
      code('schema.unknown_field', 'Did you mean "region"?'),
    );
    expect(() => customers.get({ emial: 'x' } as never)).toThrow(
      code('schema.unknown_index', 'Did you mean "email"?'),
    );
    expect(() => customers.where({ region: { '=>': 1 } } as never)).toThrow(code('usage.argument'));
    expect(() => customers.where('region', 'inn' as never, 1 as never)).toThrow(
      code('usage.argument', 'Did you mean "in"?'),
    );
    expect(() => customers.where({ region: 'x' } as never)).toThrow(code('value.type'));
    const hinted = (part: string): unknown =>
      code('usage.argument', expect.stringContaining(part) as unknown as string);
    expect(() => customers.where('region', 'like' as never, 1 as never)).toThrow(
      hinted('"prefix", "between", "contains".'),
    );
    expect(() => customers.where(5 as never)).toThrow(hinted("where('name', '=', 'Ada')"));
    expect(() => customers.all().orderBy('region', 'down' as never)).toThrow(
      hinted("'descending'"),
    );
    expect(() => customers.get('1' as never)).toThrow(/takes int, not "1"/);
    expect(() => customers.get('1' as never)).toThrow(code('value.type'));
    expect(() => customers.all().limit(-1)).toThrow(code('usage.argument'));
    expect(() => db.collection('t', { fields: { a: 'int' }, index: ['b'] })).toThrow(
      code('schema.unknown_field'),
    );
  });

  test('where: comparisons, lists, prefixes, paths, nulls, and or not', () => {
    const customers = filled();
    const ids = (rows: Iterable<{ id: number }>): number[] =>
      [...rows].map((row) => row.id).sort((a, b) => a - b);
    const byPlain = (test: (id: number) => boolean): number[] =>
      Array.from({ length: 40 }, (_, i) => i + 1).filter(test);
    expect(ids(customers.where({ region: 3 }))).toEqual(byPlain((id) => id % 4 === 3));
    expect(ids(customers.where({ region: 3 }).toArray())).toEqual(byPlain((id) => id % 4 === 3));
    expect(ids(customers.where({ region: { '>=': 1, '<': 3 } }))).toEqual(
      byPlain((id) => id % 4 === 1 || id % 4 === 2),
    );
    expect(ids(customers.where('id', 'in', [3, 5, 99]))).toEqual([3, 5]);
    expect(ids(customers.where('id', 'not in', [3, 5]).where('id', 'between', [2, 6]))).toEqual([
      2, 4, 6,
    ]);
    expect(ids(customers.where('email', 'prefix', 'c1@'))).toEqual([1]);
    expect(ids(customers.where('extra.city', '=', 'city 1'))).toEqual(
      byPlain((id) => id % 3 === 1),
    );
    expect(ids(customers.where({ joined: null }))).toHaveLength(40);
    expect(ids(customers.where({ joined: { '!=': null } }))).toEqual([]);
    const either = or({ id: 1 }, ['name', '=', 'N2'], and({ id: 7 }));
    expect(ids(customers.where(either))).toEqual([1, 2, 7, 12, 22, 32]);
    expect(ids(customers.where({ id: 1 }).or({ id: 2 }))).toEqual([1, 2]);
    expect(ids(customers.where({ region: 1 }).not({ name: 'N1' }))).toEqual(
      byPlain((id) => id % 4 === 1 && id % 10 !== 1),
    );
    expect(ids(customers.where(not({ region: { in: [0, 1, 2] } })))).toEqual(
      byPlain((id) => id % 4 === 3),
    );
  });

  test('orderBy, limit, offset, select, distinct, first and aggregates', () => {
    const customers = filled();
    const query = customers.where({ region: 3 }).where('name', '>=', 'N5').orderBy('name');
    expect(query.limit(3).select('name', 'id').toArray()).toEqual([
      { name: 'N5', id: 15 },
      { name: 'N5', id: 35 },
      { name: 'N7', id: 7 },
    ]);
    expect(query.limit(3).explain().text).toContain('by index "region, name" [3, "N5" <= key');
    expect(query.explain().text).not.toContain('sort');
    expect(customers.all().orderBy('id', 'descending').offset(1).first()?.id).toBe(39);
    expect(customers.all().select('region').distinct().count()).toBe(4);
    expect(customers.where({ region: 9 }).first()).toBeUndefined();
    expect(customers.where({ region: 1 }).count()).toBe(10);
    expect(customers.all().limit(7).count()).toBe(7);
    expect(customers.where('id', '<=', 4).sum('id')).toBe(10);
    expect(customers.where('id', '<=', 4).avg('id')).toBe(2.5);
    expect(customers.all().min('name')).toBe('N0');
    expect(customers.all().max('id')).toBe(40);
    expect(customers.where({ region: 9 }).sum('id')).toBeUndefined();
    expect(customers.where({ id: 3 }).explain().execution).toBe('row plan');
  });

  test('a question asked again with other constants is planned once', () => {
    const customers = filled(200);
    const ask = (region: number, name: string): number[] =>
      customers
        .where({ region, name })
        .toArray()
        .map(({ id }) => id);
    for (let i = 0; i < 40; i++) {
      const expected = Array.from({ length: 200 }, (_, n) => n + 1).filter(
        (id) => id % 4 === i % 4 && id % 10 === i % 10,
      );
      expect(ask(i % 4, `N${i % 10}`)).toEqual(expected);
    }
    const { plans } = db.memory().accounts;
    expect(plans).toBeGreaterThan(0);
    ask(3, 'N3');
    expect(db.memory().accounts.plans).toBe(plans);
    // Another index, and the same question is planned anew.
    const before = customers.where({ name: 'N3', id: { '>': 5 } });
    expect(before.explain().text).not.toContain('by index "name, id"');
    const { index, ...rest } = CUSTOMERS;
    const wider = db.collection('customers', { ...rest, index: [...index, ['name', 'id']] });
    const after = wider.where({ name: 'N3', id: { '>': 8 } });
    expect(after.explain().text).toContain('by index "name, id"');
    expect(after.count()).toBe(19);
    // Bounds that hold little and bounds that hold much are planned apart.
    expect(customers.where('id', '>', 198).explain().text).toContain('by key id [198 < key]');
    for (let i = 0; i < 400; i++)
      customers
        .all()
        .limit(i + 1)
        .offset(i)
        .toArray();
    expect(db.memory().accounts.plans).toBeLessThan(512 * 1024);
  });

  test('explain with analyze runs the query and tells what each node did', () => {
    const customers = filled(3000);
    const query = customers.where('region', '>=', 1).orderBy('email').select('email');
    const { report, text, execution } = query.explain({ analyze: true });
    expect(execution).toBe('vectors');
    expect([report.node, report.rows, report.spills]).toEqual(['project email', 2250, 0]);
    const sort = report.inputs[0]!;
    expect([sort.node, sort.rows]).toEqual(['sort by email', 2250]);
    expect(sort.memoryBytes).toBeGreaterThan(2250 * 20);
    const scan = sort.inputs[0]!.node.startsWith('filter')
      ? sort.inputs[0]!.inputs[0]!
      : sort.inputs[0]!;
    expect(scan.memoryBytes).toBeGreaterThan(0);
    expect(report.ms).toBeGreaterThanOrEqual(sort.ms);
    expect(text.split('\n')[1]).toMatch(
      /^ {2}sort by email \(2250 rows, [\d.]+ ms, \d+ pages read, \d+ bytes\)$/,
    );
    const points = customers.where({ region: 1, name: 'N1' }).explain({ analyze: true });
    expect(points.execution).toBe('row plan');
    expect([points.report.rows, points.report.inputs]).toEqual([150, []]);
    expect(() => query.explain({ analyse: true } as never)).toThrow(
      code('usage.argument', 'Did you mean "analyze"?'),
    );
    db.close();
    db = open(':memory:', { memory: '2 MiB' });
    const many = filled(12_000);
    const wide = many.all().orderBy('name').explain({ analyze: true }).report;
    const spilled = wide.inputs[0]!;
    expect(spilled.node).toBe('sort by name');
    expect(spilled.spills).toBeGreaterThan(0);
    expect(spilled.spilledBytes).toBeGreaterThan(12_000 * 10);
    expect(wide.pagesRead).toBeGreaterThan(0);
  });

  test('iteration reads a snapshot, lazily, and gives it back', () => {
    const customers = filled();
    let seen = 0;
    for (const each of customers) {
      customers.delete(each.id);
      if (++seen === 5) break;
    }
    expect(customers.count()).toBe(35);
    expect(db.stats().snapshots).toEqual([]);
    const all = [...customers.all()];
    expect(all).toHaveLength(35);
    const rows = customers.where('id', '>', 0)[Symbol.iterator]();
    rows.next();
    db.transaction(() =>
      customers
        .all()
        .toArray()
        .forEach(({ id }) => customers.delete(id)),
    );
    expect([...rows]).toHaveLength(34);
    expect(db.stats().snapshots).toEqual([]);
  });

  test('transactions, snapshots and asynchronous transactions have their own handles', async () => {
    const customers = filled(2);
    const snapshot = db.snapshot();
    const next = { id: 3, email: 'x', region: 1, name: 'x' };
    await db.transactionAsync(async (tx) => {
      const inside = tx.collection(customers);
      inside.insert(next);
      await Promise.resolve();
      expect([inside.count(), customers.count()]).toEqual([3, 2]);
    });
    expect(snapshot.collection('customers', CUSTOMERS).count()).toBe(2);
    expect(snapshot.collection(customers).where({ region: 1 }).toArray()).toHaveLength(1);
    expect(() => snapshot.collection(customers).delete(1)).toThrow(code('usage.read_only'));
    snapshot.close();
    const tx = db.begin();
    const made = tx.collection('made', { fields: { id: 'int', a: 'text' }, key: 'id' });
    made.insert({ id: 1, a: 'x' });
    tx.rollback();
    expect(made.constructor.name).toBe('Collection');
    const again = db.collection('made', { fields: { id: 'int', a: 'text' }, key: 'id' });
    expect(again.count()).toBe(0);
  });

  test('keys: generated, of several fields, of text; defaults', () => {
    const notes = db.collection('notes', {
      fields: { text: 'text', stars: 'int', made: 'datetime' },
      defaults: { stars: 5, made: () => new Date(0) },
    });
    expect([notes.insert({ text: 'a' }), notes.insert({ text: 'b', stars: 1 })]).toEqual([1, 2]);
    expect(notes.get(1)).toMatchObject({ id: 1, text: 'a', stars: 5 });
    const cities = db.collection('cities', {
      fields: { country: 'text', city: 'text', size: 'int' },
      key: ['country', 'city'],
    });
    expect(cities.insert({ country: 'no', city: 'Oslo', size: 7 })).toEqual(['no', 'Oslo']);
    expect(cities.get(['no', 'Oslo'])?.size).toBe(7);
    expect(cities.get({ city: 'Oslo', country: 'no' })?.size).toBe(7);
    expect(cities.update(['no', 'Oslo'], { size: 8 })).toBe(true);
    expect(cities.where({ country: 'no' }).toArray()).toHaveLength(1);
    expect(cities.delete(['no', 'Oslo'])).toBe(true);
    const words = db.collection('words', { fields: { word: 'text', n: 'int?' }, key: 'word' });
    words.save({ word: 'x' });
    expect([words.get('x'), words.delete('x')]).toEqual([{ word: 'x', n: null }, true]);
  });
});

describe('Collection: bad input', () => {
  const loose = (settings: unknown, name = 'x') => db.collection(name, settings as never) as never;

  test('paths: rows are ordered by, selected and aggregated by what lies on them', () => {
    const customers = filled(9);
    const byCity = customers.all().orderBy('extra.city', 'descending').orderBy('id');
    expect(
      byCity
        .limit(4)
        .toArray()
        .map(({ id }) => id),
    ).toEqual([2, 5, 8, 1]);
    expect(byCity.select('extra.city', 'id').first()).toEqual({ 'extra.city': 'city 2', id: 2 });
    expect(customers.all().select('extra.city').distinct().orderBy('extra.city').toArray()).toEqual(
      ['city 0', 'city 1', 'city 2'].map((city) => ({ 'extra.city': city })),
    );
    expect(customers.all().max('extra.city' as never)).toBe('city 2');
    expect([...byCity.offset(8)].map(({ id }) => id)).toEqual([9]);
  });

  test('names of the prototype of objects are names like others', () => {
    const fields = JSON.parse('{"id":"int","__proto__":"text","constructor":"text?"}') as object;
    const odd = db.collection('odd', { fields: fields as { id: 'int' }, key: 'id' });
    odd.insert(JSON.parse('{"id":1,"__proto__":"x"}') as never);
    const expected = JSON.parse('{"id":1,"__proto__":"x","constructor":null}') as object;
    expect(odd.get(1)).toEqual(expected);
    expect(odd.where(JSON.parse('{"__proto__":"x"}') as never).toArray()).toEqual([expected]);
    expect(odd.where({ constructor: 'x' } as never).count()).toBe(0);
  });

  test('records that throw, repeat themselves or never end change nothing', () => {
    const notes = db.collection('notes', { fields: { id: 'int', j: 'json?' }, key: 'id' });
    const own = new Error('of the caller');
    const throwing = {
      get j(): never {
        throw own;
      },
    };
    expect(() => notes.insert(throwing)).toThrow(own);
    const proxy = new Proxy({ j: 1 }, { get: () => throwing.j, ownKeys: () => throwing.j });
    expect(() => notes.insert(proxy)).toThrow(own);
    const cycle: Record<string, unknown> = {};
    cycle['self'] = cycle;
    let deep: unknown = 1;
    for (let i = 0; i < 100_000; i++) deep = [deep];
    for (const j of [cycle, deep] as never[]) {
      expect(() => notes.insert({ j })).toThrow(code('value.size'));
      expect(() => notes.where({ j: { '=': j } })).toThrow(code('value.size'));
      expect(() => notes.where('j', 'contains', j)).toThrow(code('value.size'));
    }
    expect(() => notes.where({ j: [() => 1] } as never)).toThrow(code('value.type'));
    expect(notes.count()).toBe(0);
    expect(notes.insert({ j: 1 })).toBe(1);
  });

  test('settings and arguments of another kind are refused', () => {
    const fields = { a: 'text' };
    for (const settings of [
      { key: 5 },
      { index: 'a' },
      { index: [null] },
      { index: [{}] },
      { unique: { a: 1 } },
      { defaults: 5 },
      { migrate: 5 },
      { open: 'yes' },
      { layout: 5 },
      { layout: { oder: 5 } },
      { index: [{ field: 'a', descending: 'yes' }] },
      { index: ['a.b'] },
    ])
      expect(() => loose({ fields, ...settings })).toThrow(code('usage.argument'));
    expect(() => loose({ fields, layout: { oder: 5 } })).toThrow(
      code('usage.argument', 'Did you mean "order"?'),
    );
    const customers = filled(3);
    expect(() => customers.getMany(null as never)).toThrow(code('usage.argument'));
    expect(() => customers.insertMany(5 as never)).toThrow(code('usage.argument'));
    expect(() => customers.get({ email: 5 } as never)).toThrow(code('value.type'));
    expect(customers.get({ email: null } as never)).toBeUndefined();
    expect(() => customers.where('region.x' as never, '=', 1 as never)).toThrow(
      code('usage.argument'),
    );
    expect(() => customers.where('region', 'prefix', '1')).toThrow(code('usage.argument'));
    expect(customers.count()).toBe(3);
  });

  test('queries outlive neither their collection nor the database', () => {
    const customers = filled(3);
    const query = customers.where('region', '>=', 0).orderBy('name');
    const rows = query[Symbol.iterator]();
    expect(rows.next().done).toBe(false);
    db.close();
    for (const ask of [
      () => query.toArray(),
      () => [...query],
      () => query.count(),
      () => query.explain(),
      () => query.explain({ analyze: true }),
      () => rows.next(),
      () => customers.get(1),
      () => customers.save({ id: 1, email: 'a', region: 1, name: 'x' }),
    ])
      expect(ask).toThrow(code('usage.closed'));
  });
});

describe('Collection: lists and their elements', () => {
  const POSTS = {
    fields: { id: 'int', tags: 'list', region: 'int?', slugs: 'list?', extra: 'json?' },
    key: 'id',
    unique: ['slugs'],
    index: ['tags', ['region', 'tags'], 'extra.words[]'],
  } as const;

  test('records are found by each element, once, through the index', () => {
    const posts = db.collection('posts', POSTS);
    posts.insert({ id: 1, tags: ['a', 'b', 'a'], region: 1, extra: { words: ['x', 1] } });
    posts.insert({ id: 2, tags: ['b', null, 3], region: 2, extra: { words: 'x' } });
    posts.insert({ id: 3, tags: [], slugs: ['s', 't'] });
    const ids = (query: Iterable<{ id: number }>): number[] => [...query].map(({ id }) => id);
    const byB = posts.where('tags', 'contains', 'b');
    expect(byB.explain().text).toContain('by index "tags[]" [= "b"]');
    expect(byB.explain().execution).toBe('row plan');
    expect([ids(byB), byB.toArray().map(({ id }) => id), byB.count()]).toEqual([[1, 2], [1, 2], 2]);
    expect(ids(posts.where({ tags: { contains: 'a' } }))).toEqual([1]);
    expect(ids(posts.where({ tags: { contains: null } }))).toEqual([2]);
    expect(ids(posts.where({ tags: { contains: 3 }, region: 2 }))).toEqual([2]);
    expect(posts.where({ tags: { contains: 'b' }, region: 1 }).explain().text).toContain(
      'by index "region, tags[]" [= 1, "b"]',
    );
    expect(ids(posts.where('extra.words', 'contains', 'x'))).toEqual([1]);
    const either = posts.where(
      or({ tags: { contains: 'a' } }, { tags: { contains: 'b' } }, { tags: { contains: 3 } }),
    );
    expect(ids(either.orderBy('id'))).toEqual([1, 2]);
    expect(ids(posts.where(not({ tags: { contains: 'b' } })))).toEqual([3]);
    expect(ids(posts.where({ tags: [] }))).toEqual([3]);
    expect(posts.get({ slugs: 't' })?.id).toBe(3);
    expect(() => posts.update(1, { slugs: ['q', 't'] })).toThrow(code('constraint.unique'));
    expect(posts.update(3, { slugs: ['t', 'u'], tags: ['a'] })).toBe(true);
    expect([posts.get({ slugs: 's' }), posts.get({ slugs: 'u' })?.id]).toEqual([undefined, 3]);
    expect(ids(posts.where('tags', 'contains', 'a'))).toEqual([1, 3]);
    expect(posts.delete({ slugs: 'u' })).toBe(true);
    expect(ids(posts.where('tags', 'contains', 'a'))).toEqual([1]);
  });

  test('an index over elements is added to records that are there', () => {
    const { index, unique, ...plain } = POSTS;
    const before = db.collection('posts', plain);
    for (let id = 1; id <= 300; id++)
      before.insert({ id, tags: [id % 7, id % 5, 'x'], slugs: [`s${id}`] });
    const after = db.collection('posts', { ...plain, index, unique });
    expect(after.where('tags', 'contains', 6).count()).toBe(
      before
        .all()
        .toArray()
        .filter(({ tags }) => tags.includes(6)).length,
    );
    expect(after.get({ slugs: 's200' })?.id).toBe(200);
    expect(db.check().faults).toEqual([]);
    const again = { ...plain, unique: ['tags'] } as const;
    expect(() => db.collection('posts', again)).toThrow(code('constraint.unique'));
    const whole = db.collection('posts', { ...plain, index: [{ field: 'tags', elements: false }] });
    expect(whole.where({ tags: [1, 1, 'x'] }).explain().text).toContain('by index "tags" ');
  });

  test('undefined in a condition is refused, wherever it stands', () => {
    const posts = db.collection('posts', POSTS);
    const filter: { region?: number } = {};
    for (const condition of [
      { region: filter.region },
      { region: { '>=': undefined } },
      { region: { between: [1, undefined] } },
      { region: { in: [1, undefined] } },
      ['region', '=', undefined],
      or({ id: 1 }, { region: undefined } as never),
    ]) {
      const refused = code('usage.argument', expect.stringContaining('Leave') as never);
      expect(() => posts.where(condition as never).count()).toThrow(refused);
    }
    expect(posts.where({ ...filter }).count()).toBe(posts.count());
  });

  test('elements of what is no list are refused', () => {
    const posts = db.collection('posts', POSTS);
    expect(() => posts.where({ tags: 'a' } as never)).toThrow(
      code('value.type', 'Ask for an element: { tags: { contains: … } }.'),
    );
    for (const condition of [
      { region: { contains: 1 } },
      { 'tags.x': { contains: 1 } },
      ['tags', 'contains', undefined],
    ])
      expect(() => posts.where(condition as never).count()).toThrow(code('usage.argument'));
    for (const index of ['region[]', ['tags', 'slugs'], { field: 'id', elements: true }])
      expect(() => db.collection('bad', { ...POSTS, index: [index] } as never)).toThrow(
        code('usage.argument'),
      );
    expect(() => db.collection('bad', { fields: { a: 'list' }, key: 'a[]' } as never)).toThrow(
      code('schema.unknown_field'),
    );
  });

  test('records with a list of many elements are written and deleted within the budget', () => {
    db.close();
    db = open(':memory:', { memory: '2 MiB' });
    const posts = db.collection('posts', { fields: { id: 'int', tags: 'list' }, index: ['tags'] });
    const tags = Array.from({ length: 20_000 }, (_, i) => `tag ${i}`);
    posts.insert({ id: 1, tags });
    expect(posts.where('tags', 'contains', 'tag 19999').count()).toBe(1);
    posts.update(1, { tags: tags.slice(10_000) });
    expect(posts.where('tags', 'contains', 'tag 1').count()).toBe(0);
    posts.delete(1);
    expect(posts.where('tags', 'contains', 'tag 19999').count()).toBe(0);
  });
});

describe('Collection: declaration and file', () => {
  const base = { fields: { id: 'int', a: 'text' }, key: 'id' } as const;

  test('added optional fields, fields with defaults and indexes are applied', () => {
    db.collection('c', base).insert({ id: 1, a: 'x' });
    const wider = db.collection('c', {
      fields: { id: 'int', a: 'text', b: 'int?', n: 'int' },
      key: 'id',
      defaults: { n: 7 },
      unique: ['a'],
      index: ['b'],
    });
    expect(wider.get({ a: 'x' })).toEqual({ id: 1, a: 'x', b: null, n: 7 });
    const turned = db.collection('c', { ...base, index: ['a'] });
    turned.insert({ id: 2, a: 'x' });
    expect(turned.where({ a: 'x' }).count()).toBe(2);
  });

  test('what cannot be applied is refused whole, naming the field', () => {
    db.collection('c', base).insertMany([
      { id: 1, a: 'x' },
      { id: 2, a: 'x' },
    ]);
    const refused = (settings: unknown): unknown => {
      try {
        db.collection('c', settings as never);
      } catch (cause) {
        return cause;
      }
      return undefined;
    };
    expect(refused({ ...base, fields: { id: 'int', a: 'int' } })).toEqual(code('schema.mismatch'));
    expect(refused({ ...base, fields: { id: 'int', a: 'text', b: 'int' } })).toEqual(
      code('schema.mismatch'),
    );
    expect(refused({ ...base, fields: { id: 'int' } })).toEqual(code('schema.mismatch'));
    expect(refused({ ...base, key: 'a' })).toEqual(code('schema.mismatch'));
    expect(refused({ ...base, layout: { order: 7 } })).toEqual(code('usage.layout'));
    expect(
      refused({ ...base, fields: { id: 'int', a: 'text', b: 'int?' }, unique: ['a'] }),
    ).toEqual(code('constraint.unique'));
    expect(db.collection('c', base).get(1)).toEqual({ id: 1, a: 'x' });
    db.kv('bucket').put('a', 1);
    expect(() => db.collection('bucket', base)).toThrow(code('schema.mismatch'));
  });

  test('migrate makes new records of old ones', () => {
    db.collection('c', { ...base, index: ['a'] }).insertMany([
      { id: 1, a: '10' },
      { id: 2, a: '20' },
    ]);
    const changed = db.collection('c', {
      fields: { id: 'int', a: 'int', double: 'int' },
      key: 'id',
      index: ['a'],
      migrate: (old) => ({ id: old['id']!, a: Number(old['a']), double: Number(old['a']) * 2 }),
    });
    expect(changed.where({ a: 20 }).toArray()).toEqual([{ id: 2, a: 20, double: 40 }]);
    expect(changed.count()).toBe(2);
  });

  test('a Standard Schema is type and validator', () => {
    const schema = {
      '~standard': {
        version: 1,
        vendor: 'test',
        types: undefined as unknown as {
          input: { id: number; name: string };
          output: { id: number; name: string };
        },
        validate: (value: unknown) => {
          const { id, name } = value as { id: number; name: unknown };
          return typeof name === 'string'
            ? { value: { id, name: name.trim() } }
            : { issues: [{ message: 'is no text', path: ['name'] }] };
        },
      },
    } as const;
    const people = db.collection('people', { fields: schema, key: 'id', index: ['name'] });
    people.insert({ id: 1, name: ' Ada ' });
    expect(people.get(1)).toEqual({ id: 1, name: 'Ada' });
    expect(people.where({ name: 'Ada' }).toArray()).toEqual([{ id: 1, name: 'Ada' }]);
    expect([...people.where('name', 'prefix', 'A')]).toEqual([{ id: 1, name: 'Ada' }]);
    expect(() => people.insert({ id: 2, name: 3 } as never)).toThrow(code('constraint.check'));
    expect(people.update(1, { name: 'Eve ' })).toBe(true);
    expect(people.get(1)?.name).toBe('Eve');
  });
});

describe('P23: decoded records are inside the budget', () => {
  test('a session reads more than fits, evicts clean objects and saves changed ones', () => {
    db.close();
    db = open(':memory:', { memory: '2 MiB' });
    const customers = filled(6000);
    const session = db.session();
    const first = session.get(customers, 1)!;
    first.region = 99;
    expect(session.get(customers, 1)).toBe(first);
    expect(session.get(customers, { email: 'c1@example.com' })).toBe(first);
    for (let id = 2; id <= 6000; id++) session.get(customers, id);
    const { accounts, usedBytes, budgetBytes } = db.memory();
    expect(accounts.records).toBe(session.bytes);
    expect(accounts.records).toBeLessThanOrEqual(budgetBytes / 4);
    expect(accounts.records).toBeGreaterThan(budgetBytes / 8);
    expect(usedBytes).toBeLessThanOrEqual(budgetBytes);
    expect(session.size).toBeLessThan(1500);
    expect(session.get(customers, 1)).toBe(first); // changed: it stayed
    session.add(customers, { id: 50_000, email: 'new', region: 1, name: 'New' });
    session.delete(customers, 2);
    expect(session.get(customers, 2)).toBeUndefined();
    session.commit();
    expect(customers.get(1)?.region).toBe(99);
    expect([customers.has(50_000), customers.has(2)]).toEqual([true, false]);
    first.region = 100;
    first.extra = { city: 'x' };
    session.get(customers, 50_000)!.email = 'c7@example.com';
    expect(() => session.commit()).toThrow(code('constraint.unique'));
    expect(customers.get(1)?.region).toBe(99);
    session.get(customers, 50_000)!.email = 'fine';
    session.commit();
    expect(customers.get(1)).toMatchObject({ region: 100, extra: { city: 'x' } });
    session.close();
    expect(() => session.get(customers, 1)).toThrow(code('usage.closed'));
  });
});

defineProperty({
  name: 'objects Q2: where answers what a plain filter of all records does',
  cases: 4,
  run: (seed) => checkWhere(seed, (found, expected) => expect(found).toEqual(expected)),
  canary: (seed) => checkWhere(seed, (found, expected) => expect(found).toEqual([...expected, -1])),
});

function checkWhere(seed: number, check: (found: number[], expected: number[]) => void): void {
  const random = new Random(seed);
  using database = open(':memory:', { memory: '2 MiB' });
  const customers = customersOf(database);
  const count = 300;
  database.transaction(() => {
    for (let id = 1; id <= count; id++)
      customers.save({ id, email: `${id}`, region: random.below(5), name: `${random.below(9)}` });
  });
  const all = customers.all().toArray();
  for (let i = 0; i < 20; i++) {
    const region = random.below(6);
    const name = `${random.below(9)}`;
    const id = random.below(count);
    const operator = random.pick(['>=', '<', '!='] as const);
    const holds = {
      '>=': (text: string) => text >= name,
      '<': (text: string) => text < name,
      '!=': (text: string) => text !== name,
    }[operator];
    const query = customers
      .where({ region })
      .where('name', operator, name)
      .or({ id })
      .orderBy('id');
    const expected = all.filter(
      (row) => row.id === id || (row.region === region && holds(row.name)),
    );
    const found = query.toArray().map((row) => row.id);
    expect([...query].map((row) => row.id)).toEqual(found);
    expect(query.count()).toBe(found.length);
    check(
      found,
      expected.map((row) => row.id),
    );
  }
}
