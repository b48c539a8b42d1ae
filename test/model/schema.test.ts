/** Schemas: what is completed, what is refused, and that definitions are values. */
import { describe, expect, test } from 'vitest';
import { ByteWriter } from '../../src/base/bytes.ts';
import { Batch } from '../../src/model/batch.ts';
import {
  collectionFromValue,
  defineBucket,
  defineCollection,
  defineIndex,
  definitionToValue,
  describeValue,
  indexFromValue,
} from '../../src/model/schema.ts';
import { readWholeValue, writeValue } from '../../src/model/value-codec.ts';
import { float, KIND, type Value } from '../../src/model/value.ts';

const fields = { id: 'int', email: 'text', region: 'int', joined: 'datetime?', extra: 'json?' };
const customers = defineCollection({ name: 'customers', fields, key: 'id' });

function throughBytes(value: Value): Value {
  const writer = new ByteWriter();
  writeValue(writer, value);
  return readWholeValue(writer.bytes, 0, writer.length);
}

describe('defineCollection', () => {
  test('makes frozen definitions that go through bytes', () => {
    expect(customers.key).toEqual({ kind: 'integer', field: 'id' });
    expect(customers.open).toBe(false);
    expect(collectionFromValue(throughBytes(definitionToValue(customers)))).toEqual(customers);
    const index = defineIndex(customers, {
      parts: [
        { field: 'email', collation: 'nocase' },
        { field: 'region', descending: true },
      ],
      unique: true,
    });
    expect(index.name).toBe('email, region');
    expect(indexFromValue(throughBytes(definitionToValue(index)))).toEqual(index);
    expect(() => Object.assign(index.parts[0]!, { field: 'x' })).toThrow(TypeError);
  });

  test('tells keys that are record ids from keys that organise', () => {
    const kinds = [undefined, 'id', 'email', ['id', 'email']].map(
      (key) => defineCollection({ name: 'c', fields, ...(key !== undefined && { key }) }).key.kind,
    );
    expect(kinds).toEqual(['generated', 'integer', 'fields', 'fields']);
    expect(defineBucket('b', 'text', 'bytes').key.kind).toBe('fields');
    expect(defineCollection({ name: 'open' }).open).toBe(true);
  });

  test('refuses what cannot be, naming the nearest', () => {
    const code = (c: string, hint?: string) =>
      expect.objectContaining({ code: c, ...(hint !== undefined && { hint }) });
    const define = (more: object) => () => defineCollection({ name: 'c', fields, ...more });
    expect(define({ fields: { a: 'itn' } })).toThrow(code('usage.argument', 'Did you mean "int"?'));
    expect(define({ key: 'emial' })).toThrow(code('schema.unknown_field', 'Did you mean "email"?'));
    expect(define({ name: '' })).toThrow(code('usage.argument'));
    expect(define({ name: 'x'.repeat(2000) })).toThrow(code('value.size'));
    expect(define({ key: [] })).toThrow(code('usage.argument'));
    expect(define({ layout: { order: 2 } })).toThrow(code('usage.layout'));
    expect(define({ layout: { clusterSize: 300 } })).toThrow(code('usage.layout'));
    expect(define({ layout: { tree: 'heap' } })).toThrow(code('usage.argument'));
    const twice = customers.fields.slice(0, 1);
    expect(define({ fields: [...twice, ...twice] })).toThrow(code('schema.exists'));
    const initial = [{ name: 'a', type: 'int', optional: false, initial: 'x' }];
    expect(define({ fields: initial })).toThrow(code('value.type'));
    expect(() => defineIndex(customers, { parts: ['regoin'] })).toThrow(
      code('schema.unknown_field', 'Did you mean "region"?'),
    );
  });

  test('describeValue is short', () => {
    const values = ['a', 1, null, new Uint8Array(3), [1], { a: 1 }, 'x'.repeat(200)];
    expect(values.map(describeValue).map((text) => text.slice(0, 20))).toEqual([
      '"a"',
      '1',
      'null',
      '3 bytes',
      'a list of 1',
      'a map',
      `"${'x'.repeat(19)}`,
    ]);
  });
});

describe('Batch', () => {
  test('keeps every value with its kind', () => {
    const values: Value[] = [1, float(1), -0, 2n ** 60n, true, false, null, 'x', [1], NaN];
    const { columns } = new Batch(1, values.length);
    values.forEach((value, row) => columns[0]!.set(row, value));
    expect(values.map((_, row) => columns[0]!.get(row))).toEqual(
      values.map((value) => (typeof value === 'object' && value && 'value' in value ? 1 : value)),
    );
    const { int: i, float: f, bool: b } = KIND;
    const kinds = [i, f, f, i, b, b, KIND.null, KIND.text, KIND.list, f];
    expect([...columns[0]!.tags]).toEqual(kinds);
  });
});
