/** Random values of every kind, with the corners that encodings are most likely to get wrong. */
import type { Random } from '../../src/base/random.ts';
import {
  Duration,
  LocalDate,
  LocalDateTime,
  LocalTime,
  NANOSECONDS_PER_DAY,
  Point,
  toInteger,
  ZonedDateTime,
  ZonedTime,
} from '../../src/model/temporal.ts';
import { float, int, type KindName, type Value } from '../../src/model/value.ts';

const FLOATS = [
  0,
  -0,
  1,
  -1,
  0.5,
  -0.5,
  1e300,
  -1e300,
  5e-324,
  -5e-324,
  Infinity,
  -Infinity,
  NaN,
  2 ** 53,
  -(2 ** 53),
  2 ** 63,
  -(2 ** 63),
  2 ** 62,
  2 ** 64,
  1.5,
  3.4e38,
  0.1,
];
const INTEGERS = [
  0n,
  1n,
  -1n,
  31n,
  32n,
  127n,
  128n,
  -128n,
  -129n,
  32767n,
  32768n,
  8388607n,
  8388608n,
  2n ** 31n,
  -(2n ** 31n),
  2n ** 32n,
  2n ** 47n,
  -(2n ** 47n),
  2n ** 53n,
  2n ** 53n + 1n,
  -(2n ** 53n) - 1n,
  2n ** 63n - 1n,
  -(2n ** 63n),
  2n ** 62n + 1n,
  2n ** 63n - 1024n,
  2n ** 63n - 1025n,
];
const TEXT_UNITS = ['a', 'b', 'Z', '\u0000', '\u0001', 'é', '€', '\uffff', '😀', '\ue000', ' '];

export function randomInteger(random: Random): number | bigint {
  if (random.chance(0.3)) return random.between(-40, 300);
  const near = random.pick(INTEGERS) + BigInt(random.between(-2, 2));
  const wide = random.chance(0.3) ? BigInt.asIntN(random.between(2, 64), randomBits(random)) : near;
  return toInteger(BigInt.asIntN(64, wide));
}

function randomBits(random: Random): bigint {
  return (BigInt(random.word()) << 32n) | BigInt(random.word());
}

export function randomFloat(random: Random): number {
  if (random.chance(0.5)) return random.pick(FLOATS);
  if (random.chance(0.3)) return random.between(-100, 100) / 4;
  const words = new BigUint64Array([randomBits(random)]);
  return new Float64Array(words.buffer)[0]!;
}

export function randomText(random: Random, lengthMax = 12): string {
  let text = '';
  for (let n = random.below(lengthMax + 1); n > 0; n--) text += random.pick(TEXT_UNITS);
  return text;
}

export function randomBytes(random: Random, lengthMax = 12): Uint8Array {
  const bytes = new Uint8Array(random.below(lengthMax + 1));
  random.fill(bytes);
  return bytes.map((byte) => (random.chance(0.4) ? random.pick([0, 1, 2, 255]) : byte));
}

function randomDay(random: Random): number {
  return random.chance(0.5)
    ? random.between(-3, 3)
    : random.between(-365_243_219_162, 365_241_780_471);
}

function randomNanosecond(random: Random): number {
  return random.chance(0.5) ? random.below(3) * 1e9 : random.below(NANOSECONDS_PER_DAY);
}

function randomOffset(random: Random): number {
  return random.pick([0, 3600, -3600, 64_800, -64_800, 1]);
}

function randomDuration(random: Random): Duration {
  const small = (): number | bigint =>
    random.chance(0.8) ? random.between(-3, 3) : randomInteger(random);
  return new Duration(small(), small(), small(), random.chance(0.5) ? 0 : random.below(1e9));
}

export const SCALAR_KINDS = [
  'null',
  'bool',
  'int',
  'float',
  'text',
  'bytes',
  'date',
  'time',
  'zonedtime',
  'localdatetime',
  'datetime',
  'duration',
  'point',
] as const satisfies readonly KindName[];
export const ALL_KINDS = [...SCALAR_KINDS, 'list', 'map'] as const;

export function randomOfKind(random: Random, kind: (typeof ALL_KINDS)[number], depth = 2): Value {
  switch (kind) {
    case 'null':
      return null;
    case 'bool':
      return random.chance(0.5);
    case 'int': {
      const value = randomInteger(random);
      return random.chance(0.2) ? int(value) : value;
    }
    case 'float':
      return random.chance(0.5) ? float(randomFloat(random)) : randomFloat(random);
    case 'text':
      return randomText(random, random.chance(0.05) ? 200 : 6);
    case 'bytes':
      return randomBytes(random, random.chance(0.05) ? 200 : 6);
    case 'date':
      return new LocalDate(randomDay(random));
    case 'time':
      return new LocalTime(randomNanosecond(random));
    case 'zonedtime':
      return new ZonedTime(randomNanosecond(random), randomOffset(random));
    case 'localdatetime':
      return new LocalDateTime(randomDay(random), randomNanosecond(random));
    case 'datetime': {
      if (random.chance(0.2)) return new Date(random.between(-1e12, 1e12));
      const zone = random.pick([undefined, 'Europe/London', 'UTC']);
      return new ZonedDateTime(
        randomDay(random),
        randomNanosecond(random),
        randomOffset(random),
        zone,
      );
    }
    case 'duration':
      return randomDuration(random);
    case 'point': {
      const z = random.chance(0.5) ? undefined : randomFloat(random);
      return new Point(
        random.pick([4326, 4979, 7203]),
        randomFloat(random),
        randomFloat(random),
        z,
      );
    }
    case 'list':
      return Array.from({ length: random.below(4) }, () => randomValue(random, depth - 1));
    case 'map': {
      const names = ['a', 'b', '__proto__', 'constructor', 'é', ''].filter(() =>
        random.chance(0.4),
      );
      const entries = random.shuffle(names).map((name) => [name, randomValue(random, depth - 1)]);
      return random.chance(0.2)
        ? new Map(entries as [string, Value][])
        : (Object.fromEntries(entries as [string, Value][]) as Value);
    }
  }
}

export function randomValue(random: Random, depth = 2): Value {
  if (random.chance(0.2)) return random.pick([0, 1, 1.5, 'a', null, true, 2 ** 53]);
  return randomOfKind(random, random.pick(depth > 0 ? ALL_KINDS : SCALAR_KINDS), depth);
}
