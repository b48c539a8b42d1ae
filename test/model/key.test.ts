/** Keys: their bytes order as their values do, in any order and collation, and decode again. */
import { describe, expect, test } from 'vitest';
import { ByteWriter, compareBytes } from '../../src/base/bytes.ts';
import { Random } from '../../src/base/random.ts';
import { BINARY, Collations, NOCASE } from '../../src/model/collation.ts';
import {
  appendTextKey,
  KeyCodec,
  readIdKey,
  readTextKey,
  successor,
  writeIdKey,
} from '../../src/model/key.ts';
import { PartReader } from '../../src/model/key-parts.ts';
import { toInteger } from '../../src/model/temporal.ts';
import { compareValues, equalValues, float, type Value } from '../../src/model/value.ts';
import { defineProperty } from '../support/properties.ts';
import { randomInteger, randomText, randomValue } from './random-values.ts';

function keyOf(codec: KeyCodec, values: readonly Value[]): Uint8Array {
  const writer = new ByteWriter(1);
  codec.encode(values, writer);
  return writer.copy();
}

function compareKeys(a: Uint8Array, b: Uint8Array): number {
  return Math.sign(compareBytes(a, 0, a.length, b, 0, b.length));
}

/** Throws unless the bytes of random composite keys order as the values, and decode to equals. */
function checkKeys(seed: number, flip: boolean): void {
  const random = new Random(seed);
  const descending = Array.from({ length: random.between(1, 4) }, () => random.chance(0.4));
  const codec = new KeyCodec(descending.map((d) => ({ descending: d, collation: BINARY })));
  const expected = (a: readonly Value[], b: readonly Value[]): number => {
    for (let i = 0; i < a.length; i++) {
      const order = compareValues(a[i]!, b[i]!);
      if (order !== 0) return descending[i] !== flip ? -Math.sign(order) : Math.sign(order);
    }
    return 0;
  };
  const keys = Array.from({ length: 12 }, () => descending.map(() => randomValue(random)));
  for (const key of keys.slice(1)) if (random.chance(0.5)) key[0] = keys[0]![0]!;
  const encoded = keys.map((key) => keyOf(codec, key));
  for (let i = 0; i < keys.length; i++) {
    const decoded = codec.decode(encoded[i]!, 0, encoded[i]!.length);
    if (!decoded.every((value, part) => equalValues(value, keys[i]![part]!)))
      throw new Error('a key decodes to other values');
    if (codec.end(encoded[i]!, 0, encoded[i]!.length) !== encoded[i]!.length)
      throw new Error('a key does not end where it ends');
    for (let j = 0; j < keys.length; j++) {
      if (compareKeys(encoded[i]!, encoded[j]!) !== expected(keys[i]!, keys[j]!))
        throw new Error('order of bytes differs from order of values');
    }
  }
}

defineProperty({
  name: 'KeyCodec orders bytes as values and decodes them',
  cases: 400,
  run: (seed) => checkKeys(seed, false),
  canary: (seed) => checkKeys(seed, true),
});

/** Throws unless damaged keys decode to something or fail with corrupt.record. */
function checkDamage(seed: number, mayThrow: string): void {
  const random = new Random(seed);
  const codec = new KeyCodec([{ descending: random.chance(0.3), collation: BINARY }]);
  const bytes = keyOf(codec, [randomValue(random)]);
  for (let i = 0; i < 20; i++) {
    const damaged = bytes.slice(0, random.chance(0.3) ? random.below(bytes.length + 1) : undefined);
    if (damaged.length > 0) damaged[random.below(damaged.length)] = random.word();
    try {
      codec.decode(damaged, 0, damaged.length);
    } catch (error) {
      if ((error as { code?: string }).code !== mayThrow) throw error;
    }
  }
}

defineProperty({
  name: 'KeyCodec.decode meets damaged bytes with corrupt.record only',
  cases: 400,
  run: (seed) => checkDamage(seed, 'corrupt.record'),
  canary: (seed) => checkDamage(seed, 'none'),
});

describe('KeyCodec', () => {
  const ascending = new KeyCodec([{ descending: false, collation: BINARY }]);

  test('gives an integer and an equal float the same bytes', () => {
    for (const value of [0, 1, -1, 31, 2 ** 31, -(2 ** 40), 2 ** 52])
      expect(keyOf(ascending, [value])).toEqual(keyOf(ascending, [float(value)]));
    expect(keyOf(ascending, [2n ** 60n])).toEqual(keyOf(ascending, [2 ** 60]));
    expect(keyOf(ascending, [-0])).toEqual(keyOf(ascending, [0]));
    expect(keyOf(ascending, [-(2n ** 63n)])).toEqual(keyOf(ascending, [-(2 ** 63)]));
  });

  test('keeps small integers short', () => {
    expect(keyOf(ascending, [5]).length).toBe(2);
    expect(keyOf(ascending, [200_000]).length).toBeLessThanOrEqual(5);
    expect(keyOf(ascending, [Math.PI]).length).toBeLessThanOrEqual(10);
  });

  test('folds text by its collation, inside lists too', () => {
    const codec = new KeyCodec([{ descending: false, collation: NOCASE }]);
    expect(keyOf(codec, ['AbÉ'])).toEqual(keyOf(codec, ['aBÉ']));
    expect(keyOf(codec, [['A']])).toEqual(keyOf(codec, [['a']]));
  });

  test('takes a collation of the user from text to bytes', () => {
    const collations = new Collations();
    collations.register('length', (text) => new Uint8Array([text.length]));
    const codec = new KeyCodec([{ descending: false, collation: collations.get('length') }]);
    expect(compareKeys(keyOf(codec, ['zz']), keyOf(codec, ['aaa']))).toBeLessThan(0);
    expect(() => collations.get('lenght')).toThrow(
      expect.objectContaining({
        code: 'schema.unknown_collation',
        hint: expect.stringContaining('"length"') as string,
      }),
    );
    expect(() => collations.register('binary', (t) => t)).toThrow(/built in/);
  });

  test('refuses lone surrogates and overlong keys', () => {
    const code = (c: string) => expect.objectContaining({ code: c });
    expect(() => keyOf(ascending, ['a\ud800'])).toThrow(code('value.text'));
    expect(() => keyOf(ascending, ['\udc00'.padStart(100)])).toThrow(code('value.text'));
    expect(() => keyOf(ascending, ['x'.repeat(1 << 20)])).toThrow(code('value.size'));
    let deep: Value = [];
    for (let i = 0; i < 600; i++) deep = [deep];
    expect(() => keyOf(ascending, [deep])).toThrow(code('value.size'));
    expect(() => new PartReader(new Uint8Array(3000).fill(0xd8), 0, 3000).read()).toThrow(
      code('corrupt.record'),
    );
  });
});

describe('record ids as keys', () => {
  test('order as the integers and come back', () => {
    const random = new Random(5);
    const ids = Array.from({ length: 500 }, () => randomInteger(random));
    ids.push(2 ** 53 - 1, -(2 ** 53) + 1, toInteger(2n ** 63n - 1n), toInteger(-(2n ** 63n)));
    const keys = ids.map((id) => {
      const bytes = new Uint8Array(8);
      writeIdKey(bytes, 0, id);
      expect(readIdKey(bytes, 0)).toBe(id);
      return bytes;
    });
    for (let i = 1; i < ids.length; i++)
      expect(compareKeys(keys[i - 1]!, keys[i]!)).toBe(
        Math.sign(compareValues(ids[i - 1]!, ids[i]!)),
      );
  });
});

describe('text keys', () => {
  test('are the UTF-8 bytes', () => {
    const random = new Random(6);
    for (let i = 0; i < 300; i++) {
      const text = randomText(random, 60);
      const writer = new ByteWriter(1);
      appendTextKey(writer, text);
      expect(writer.copy()).toEqual(new Uint8Array(Buffer.from(text)));
      expect(readTextKey(writer.bytes, 0, writer.length)).toBe(text);
    }
    expect(() => appendTextKey(new ByteWriter(), '\ud800')).toThrow(/lone surrogate/);
    expect(() => readTextKey(new Uint8Array([0xff]), 0, 1)).toThrow(/UTF-8/);
  });
});

describe('successor', () => {
  test('is the least key behind a prefix', () => {
    const after = (...bytes: number[]): number[] => {
      const writer = new ByteWriter();
      writer.append(new Uint8Array(bytes), 0, bytes.length);
      successor(writer);
      return [...writer.copy()];
    };
    expect(after(1, 2)).toEqual([1, 3]);
    expect(after(1, 255, 255)).toEqual([2]);
    expect(after(255)).toEqual([]);
    expect(after()).toEqual([]);
  });
});
