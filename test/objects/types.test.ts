/**
 * What must and must not compile: `npm run check:types` reads this file, and fails where an
 * expected error is missing. At run time nothing but a handle is made.
 */
import { expect, expectTypeOf, test } from 'vitest';
import {
  not,
  open,
  or,
  type StandardSchema,
  type Value,
  type ZonedDateTime,
} from '../../src/index.ts';

const db = open(':memory:');
const customers = db.collection('customers', {
  fields: { id: 'int', email: 'text', region: 'int', joined: 'datetime?', extra: 'json?' },
  key: 'id',
  unique: ['email', ['region', 'id']],
  index: ['region', ['region', 'email'], 'extra.city'],
});
const cities = db.collection('cities', {
  fields: { country: 'text', city: 'text', size: 'int' },
  key: ['country', 'city'],
  defaults: { size: 0 },
});
const posts = db.collection('posts', {
  fields: { id: 'int', tags: 'list', extra: 'json?', slugs: 'list' },
  key: 'id',
  unique: ['slugs'],
  index: ['tags', 'extra.words[]', ['id', 'tags']],
});
const notes = db.collection('notes', { fields: { text: 'text' } });
const schema: StandardSchema<{ id: number }, { id: number; tags: string[] }> = {
  '~standard': {
    version: 1,
    vendor: 'test',
    validate: (value) => ({ value: { ...(value as { id: number }), tags: [] } }),
  },
};
const tagged = db.collection('tagged', { fields: schema, key: 'id' });

interface Customer {
  id: number;
  email: string;
  region: number;
  joined: ZonedDateTime | null;
  extra: Value;
}

test('records are inferred from the declaration', () => {
  expectTypeOf(customers.get(1)).toEqualTypeOf<Customer | undefined>();
  expectTypeOf(customers.where({ region: 1 }).toArray()).toEqualTypeOf<Customer[]>();
  expectTypeOf(customers.all().select('id', 'email').first()).toEqualTypeOf<
    { id: number; email: string } | undefined
  >();
  expectTypeOf(cities.insert).returns.toEqualTypeOf<readonly [string, string]>();
  expectTypeOf(notes.get(1)).toEqualTypeOf<{ text: string; id: number } | undefined>();
  expectTypeOf(customers.all().min('email')).toEqualTypeOf<string | undefined>();
  expectTypeOf(tagged.get(1)).toEqualTypeOf<{ id: number; tags: string[] } | undefined>();
  expect([tagged.insert({ id: 1 }), tagged.get(1)]).toEqual([1, { id: 1, tags: [] }]);
});

/** Never called: only compiled. */
export function mustCompile(): void {
  customers.insert({ id: 1, email: 'a', region: 3 });
  customers.insert({ email: 'a', region: 3n, joined: new Date(), extra: { a: [1, null] } });
  customers.get({ email: 'a' });
  customers.get({ region: 1, id: 2 });
  customers.where({ region: { '>=': 1, in: [1, 2] }, joined: null });
  customers.where('joined', '<', new Date());
  customers.where('extra.city.name', 'prefix', 'A');
  customers.where(or({ region: 1 }, ['email', 'prefix', 'a'], not({ id: 3 })));
  customers.update(1, { region: 4 });
  cities.insert({ country: 'no', city: 'Oslo' });
  cities.get(['no', 'Oslo']);
  notes.insert({ text: 'a' });
  void customers.all().orderBy('extra.city').select('id', 'extra.city').first()?.['extra.city'];
  posts.where('tags', 'contains', 'x').where({ tags: { contains: 3 } });
  posts.where('extra.words', 'contains', null);
  posts.get({ slugs: 'x' });
  tagged.where({ tags: { contains: 'x' } });
  customers.all().sum('region');
}

/** Never called: only compiled. */
export function mustNotCompile(): void {
  // @ts-expect-error a required field is missing
  customers.insert({ id: 1, email: 'a' });
  // @ts-expect-error a field that is not declared
  customers.insert({ id: 1, email: 'a', region: 3, nmae: 'x' });
  // @ts-expect-error a wrong type
  customers.insert({ id: 1, email: 5, region: 3 });
  // @ts-expect-error null in a required field
  customers.save({ id: 1, email: null, region: 3 });
  // @ts-expect-error no unique index
  customers.get({ region: 3 });
  // @ts-expect-error a key of the wrong type
  customers.get('1');
  // @ts-expect-error not a key of two fields
  cities.get('no');
  // @ts-expect-error a field that is not there
  customers.where({ regoin: 3 });
  // @ts-expect-error an operand of the wrong type
  customers.where({ region: 'x' });
  // @ts-expect-error an operator that is not there
  customers.where('region', '=>', 3);
  // @ts-expect-error a path into a text
  customers.where('email.x', '=', 3);
  // @ts-expect-error a condition of a combination
  customers.where(or({ regoin: 1 }, { id: 3 }));
  // @ts-expect-error an element of what is no list
  customers.where('region', 'contains', 3);
  // @ts-expect-error an element of the wrong type
  tagged.where({ tags: { contains: 3 } });
  // @ts-expect-error a field that is not there
  customers.all().orderBy('nmae');
  // @ts-expect-error a path into a text
  customers.all().orderBy('email.x');
  // @ts-expect-error a path into a text
  customers.all().select('email.x');
  // @ts-expect-error not a number
  customers.all().sum('email');
  // @ts-expect-error a type that is not there
  db.collection('x', { fields: { id: 'integer' } });
  // @ts-expect-error a unique index of a field that is not there
  db.collection('x', { fields: { id: 'int' }, key: 'id', unique: ['email'] });
  // @ts-expect-error rows of a selection have no other fields
  void customers.all().select('id').first()?.email;
  // @ts-expect-error a setting that is not there
  db.collection('x', { fields: { id: 'int' }, indices: [] });
}
