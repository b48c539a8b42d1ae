/** Records: generated and interpreted code agree, types and names come through, damage is found. */
import { describe, expect, test } from 'vitest';
import { ByteWriter } from '../../src/base/bytes.ts';
import { Random } from '../../src/base/random.ts';
import { RecordCodec, type FieldNames, type RecordFields } from '../../src/model/record.ts';
import { interpretedProgram, recordProgram } from '../../src/model/record-program.ts';
import {
  defineCollection,
  defineField,
  FIELD_TYPES,
  type CollectionDefinition,
  type FieldDefinition,
  type FieldType,
} from '../../src/model/schema.ts';
import { readWholeValue, writeValue } from '../../src/model/value-codec.ts';
import {
  compareValues,
  equalValues,
  Float,
  Int,
  isIntegerNumber,
  KIND,
  KIND_NAMES,
  kindOf,
  numberOf,
  type Value,
} from '../../src/model/value.ts';
import { defineProperty } from '../support/properties.ts';
import { ALL_KINDS, randomFloat, randomOfKind, randomValue } from './random-values.ts';

class Names implements FieldNames {
  readonly names: string[] = [];
  intern(name: string): number {
    const known = this.names.indexOf(name);
    return known >= 0 ? known : this.names.push(name) - 1;
  }
  numberOf(name: string): number | undefined {
    const known = this.names.indexOf(name);
    return known < 0 ? undefined : known;
  }
  nameOf(number: number): string | undefined {
    return this.names[number];
  }
}

const FIELD_NAMES = ['id', 'a', '__proto__', 'constructor', 'b', 'toString', "it's", 'é'];
const EXTRA_NAMES = ['x', 'y', 'hasOwnProperty', 'valueOf'];

function randomDefinition(random: Random): CollectionDefinition {
  const fields = FIELD_NAMES.filter(() => random.chance(0.7)).map((name) => {
    const type = random.pick(FIELD_TYPES);
    return defineField(name, random.chance(0.4) ? `${type}?` : type);
  });
  if (random.chance(0.3)) fields.push({ ...defineField('old', 'int'), dropped: true });
  const withId = random.chance(0.5) && fields[0]?.name === 'id';
  const listed: FieldDefinition[] = withId
    ? [defineField('id', 'int'), ...fields.slice(1)]
    : fields;
  const open = random.chance(0.5);
  return defineCollection({ name: 'c', fields: listed, open, ...(withId && { key: 'id' }) });
}

function randomField(random: Random, type: FieldType): Value {
  if (type === 'any' || type === 'json') {
    const value = randomValue(random);
    return value === null ? 1 : value;
  }
  if (type === 'number') return random.chance(0.5) ? randomFloat(random) : random.below(99);
  return randomOfKind(random, type, 2);
}

function randomRecord(random: Random, definition: CollectionDefinition): RecordFields {
  const record: RecordFields = {};
  const set = (name: string, value: Value) =>
    Object.defineProperty(record, name, {
      value,
      enumerable: true,
      writable: true,
      configurable: true,
    });
  for (const field of definition.fields) {
    if (field.dropped === true) continue;
    if (definition.key.kind === 'integer' && definition.key.field === field.name)
      set(field.name, 7);
    else if (field.optional && random.chance(0.3)) {
      if (random.chance(0.5)) set(field.name, null);
    } else set(field.name, randomField(random, field.type));
  }
  if (definition.open)
    for (const name of EXTRA_NAMES) if (random.chance(0.4)) set(name, randomValue(random));
  return record;
}

/** A value without `int()` and `float()`, as records come back. */
function bare(value: Value): Value {
  return value instanceof Int || value instanceof Float ? numberOf(value) : value;
}

function same(a: Value, b: Value): boolean {
  const [x, y] = [bare(a), bare(b)];
  if (typeof x === 'number' && typeof y === 'number') return Object.is(x, y);
  return equalValues(x, y);
}

/** Throws unless both programs write the same bytes, and read back what was written. */
function checkRecord(seed: number, damage: (bytes: Uint8Array) => void): void {
  const random = new Random(seed);
  const definition = randomDefinition(random);
  const codec = new RecordCodec(definition, new Names());
  const generated = recordProgram(codec);
  const interpreted = interpretedProgram(codec);
  for (let i = 0; i < 5; i++) {
    const record = randomRecord(random, definition);
    const [one, two] = [new ByteWriter(1), new ByteWriter(1)];
    interpreted.encode(record, one);
    generated.encode(record, two);
    damage(two.bytes);
    expect(two.copy()).toEqual(one.copy());
    const decoded = interpreted.decode(one.bytes, 0, one.length, 7);
    const other = generated.decode(one.bytes, 0, one.length, 7);
    expect(Object.getPrototypeOf(other)).toBe(Object.prototype);
    expect(Object.keys(other)).toEqual(Object.keys(decoded));
    const reader = codec.reader();
    reader.open(one.bytes, 0, one.length, 7);
    for (const name of random.shuffle(Object.keys(decoded))) {
      const given = Object.hasOwn(record, name) ? record[name]! : null;
      for (const found of [decoded[name]!, other[name]!, reader.getNamed(name)!])
        if (!same(found, given)) throw new Error(`field ${name} came back different`);
    }
    for (const name of Object.keys(record)) expect(Object.hasOwn(decoded, name)).toBe(true);
  }
}

defineProperty({
  name: 'RecordCodec and generated code write and read the same',
  cases: 250,
  run: (seed) => checkRecord(seed, () => undefined),
  canary: (seed) => checkRecord(seed, (bytes) => void (bytes[bytes.length - 1]! ^= 1)),
});

/** Throws unless damaged records decode to something or fail with corrupt.record. */
function checkDamagedRecord(seed: number, mayThrow: string): void {
  const random = new Random(seed);
  const definition = randomDefinition(random);
  const codec = new RecordCodec(definition, new Names());
  const generated = recordProgram(codec);
  const writer = new ByteWriter();
  codec.encode(randomRecord(random, definition), writer);
  for (let i = 0; i < 30; i++) {
    const bytes = writer.copy();
    const to = random.chance(0.3) ? random.below(bytes.length + 1) : bytes.length;
    for (let n = random.between(1, 3); n > 0; n--)
      bytes[random.below(bytes.length)] = random.word();
    for (const program of [generated, interpretedProgram(codec)]) {
      try {
        program.decode(bytes, 0, to, 1);
      } catch (error) {
        if ((error as { code?: string }).code !== mayThrow) throw error;
      }
    }
  }
}

defineProperty({
  name: 'record decoders meet damaged bytes with corrupt.record only',
  cases: 250,
  run: (seed) => checkDamagedRecord(seed, 'corrupt.record'),
  canary: (seed) => checkDamagedRecord(seed, 'none'),
});

/** Throws unless every value comes back equal, of the same kind. */
function checkValue(seed: number, written: (value: Value) => Value): void {
  const random = new Random(seed);
  for (let i = 0; i < 20; i++) {
    const kind = random.pick(ALL_KINDS);
    const value = randomOfKind(random, kind);
    const writer = new ByteWriter(1);
    writeValue(writer, written(value));
    const read = readWholeValue(writer.bytes, 0, writer.length);
    if (!same(value, read)) throw new Error(`a ${kind} came back different`);
    const whole = kind === 'float' && isIntegerNumber(bare(value) as number);
    if (!whole) expect(KIND_NAMES[kindOf(read)]).toBe(kind);
  }
}

defineProperty({
  name: 'the value encoding gives back every kind',
  cases: 200,
  run: (seed) => checkValue(seed, (value) => value),
  canary: (seed) => checkValue(seed, (value) => (value === true ? false : value)),
});

describe('RecordCodec', () => {
  const shop = defineCollection({
    name: 'customers',
    fields: { id: 'int', email: 'text', region: 'int', score: 'float', joined: 'datetime?' },
    key: 'id',
  });
  const codec = new RecordCodec(shop, new Names());
  const program = recordProgram(codec);
  const encode = (record: object): Uint8Array => {
    const writer = new ByteWriter();
    program.encode(record as RecordFields, writer);
    return writer.copy();
  };
  const ada = { id: 1, email: 'a@b', region: 3, score: 1 };

  test('is compact', () => {
    expect(encode(ada).length).toBe(1 + 4 + 3 + 4);
  });

  test('refuses wrong kinds, missing and unknown fields by name', () => {
    const code = (c: string) => expect.objectContaining({ code: c });
    expect(() => encode({ ...ada, email: 5 })).toThrow(/email takes text, not 5/);
    expect(() => encode({ ...ada, region: 1.5 })).toThrow(code('value.type'));
    expect(() => encode({ ...ada, email: undefined })).toThrow(/customers.email must have a value/);
    expect(() => encode({ ...ada, score: null })).toThrow(code('constraint.required'));
    expect(() => encode({ ...ada, emial: 'x' })).toThrow(
      expect.objectContaining({ code: 'schema.unknown_field', hint: 'Did you mean "email"?' }),
    );
    expect(() => encode({ ...ada, email: '\ud800' })).toThrow(code('value.text'));
    expect(() => encode({ ...ada, score: 2n ** 60n + 1n })).toThrow(code('value.out_of_range'));
  });

  test('keeps types and the sign of zero', () => {
    const open = new RecordCodec(defineCollection({ name: 'o' }), new Names());
    const writer = new ByteWriter();
    open.encode({ a: new Float(1), b: 1, c: -0 }, writer);
    const kinds: number[] = [];
    const reader = open.reader();
    reader.open(writer.bytes, 0, writer.length, 1);
    reader.forEachPair((_, bytes, from) => kinds.push(bytes[from]!));
    expect(kinds).toEqual([0x0a, 0x21, 0x0a]);
    expect(Object.is(open.decode(writer.bytes, 0, writer.length, 1)['c'], -0)).toBe(true);
  });

  test('reads records written before fields were added or dropped', () => {
    const bytes = encode(ada);
    const fields = shop.fields.map((f) => (f.name === 'region' ? { ...f, dropped: true } : f));
    fields.push(defineField('level', 'int', 9));
    const later = new RecordCodec({ ...shop, fields }, new Names());
    for (const { decode } of [interpretedProgram(later), recordProgram(later)])
      expect(decode(bytes, 0, bytes.length, 1)).toEqual({
        id: 1,
        email: 'a@b',
        score: 1,
        joined: null,
        level: 9,
      });
  });

  test('encodeChanged keeps the bytes of what did not change', () => {
    const both = defineCollection({ name: 'b', fields: { n: 'number', t: 'text' }, open: true });
    const mixed = new RecordCodec(both, new Names());
    const [before, after, direct] = [new ByteWriter(), new ByteWriter(), new ByteWriter()];
    mixed.encode({ n: new Float(1), t: 'x', p: new Float(2), q: 3 }, before);
    mixed.encodeChanged(before.bytes, 0, before.length, { t: 'y', q: undefined, r: 4 }, after);
    mixed.encode({ n: new Float(1), t: 'y', p: new Float(2), r: 4 }, direct);
    expect(after.copy()).toEqual(direct.copy());
  });

  test('refuses nesting too deep to decode', () => {
    let deep: Value = {};
    for (let i = 0; i < 600; i++) deep = { deep };
    const writer = new ByteWriter();
    expect(() => writeValue(writer, deep)).toThrow(expect.objectContaining({ code: 'value.size' }));
  });

  test('compares as the model does after a round trip of maps', () => {
    const map = JSON.parse('{"__proto__": {"x": 1}, "b": [1.5]}') as Value;
    const writer = new ByteWriter();
    writeValue(writer, map);
    const read = readWholeValue(writer.bytes, 0, writer.length);
    expect(compareValues(read, map)).toBe(0);
    expect(Object.keys(read as object)).toEqual(['__proto__', 'b']);
    expect(kindOf(read)).toBe(KIND.map);
  });
});
