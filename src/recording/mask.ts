/**
 * Hashes in place of values, for traces that leave the machine.
 *
 *   text    each character becomes another of as many bytes, by a keyed hash of those before it:
 *           kept are equality, length, and which texts begin alike; order is lost
 *   bytes   the same, byte by byte
 *   number  one secret amount is added: kept are equality, order and distances. Who knows one
 *           number knows them all: this hides no figures
 *   null, booleans, dates, times, points, durations, names of fields    as they are
 *
 * Line 6 of the strata.
 */
import type { Hmac } from 'node:crypto';
import { Combination } from '../objects/conditions.ts';
import { setField, type Value } from '../model/value.ts';

/** Characters that are hashed one by one; those behind them by one hash of all of these. */
const ONE_BY_ONE = 48;
const CACHE_MAX = 65_536;
const SHIFT_MAX = 32_767;

/** Characters of one UTF-8 length: a text stays as long as it was. */
const CLASSES: readonly (readonly [number, number])[] = [
  [0x20, 0x7e],
  [0x80, 0x7ff],
  [0x800, 0xd7ff],
  [0x10000, 0x10ffff],
];

export class Mask {
  readonly #hmac: () => Hmac;
  readonly #shift: number;
  readonly #cache = new Map<string, number>();
  /** Tells keys apart without telling the key. */
  readonly check: string;

  constructor(key: Uint8Array) {
    const { createHmac } = process.getBuiltinModule('node:crypto');
    this.#hmac = () => createHmac('sha256', key);
    this.#shift = 1 + (this.#number('shift', '') % SHIFT_MAX);
    this.check = this.#hmac().update('check').digest('hex').slice(0, 16);
  }

  #number(what: string, text: string): number {
    const name = `${what} ${text}`;
    const known = this.#cache.get(name);
    if (known !== undefined) return known;
    if (this.#cache.size >= CACHE_MAX) this.#cache.clear();
    const number = this.#hmac().update(name).digest().readUInt32LE(0);
    this.#cache.set(name, number);
    return number;
  }

  /** A value without what it says. */
  value(value: unknown): unknown {
    switch (typeof value) {
      case 'string':
        return this.#text(value);
      case 'number':
        return this.#sum(value);
      case 'bigint':
        return value + BigInt(this.#shift);
      case 'object':
        return value === null ? null : this.#object(value);
      default:
        return value;
    }
  }

  #sum(value: number): number {
    const sum = value + this.#shift;
    return Number.isSafeInteger(value) && !Number.isSafeInteger(sum) ? value : sum;
  }

  #object(value: object): unknown {
    if (Array.isArray(value)) return value.map((each) => this.value(each));
    if (value instanceof Set) return [...value].map((each) => this.value(each));
    if (value instanceof Uint8Array) return this.#bytes(value);
    if (value instanceof Map) return new Map([...value].map(([k, each]) => [k, this.value(each)]));
    const prototype: unknown = Object.getPrototypeOf(value);
    if (prototype !== Object.prototype && prototype !== null) return value;
    const masked: Record<string, Value> = {};
    for (const [name, each] of Object.entries(value)) {
      if (each !== undefined) setField(masked, name, this.value(each) as Value);
    }
    return masked;
  }

  #text(text: string): string {
    let masked = '';
    let at = 0;
    for (const character of text) {
      const code = character.codePointAt(0)!;
      const range = CLASSES.find(([low, high]) => code >= low && code <= high);
      if (range === undefined) masked += character;
      else {
        const [low, high] = range;
        const before = at < ONE_BY_ONE ? text.slice(0, at) : `${at} ${text.slice(0, ONE_BY_ONE)}`;
        const count = high - low + 1;
        const moved = (code - low + (this.#number('text', before) % count)) % count;
        masked += String.fromCodePoint(low + moved);
      }
      at += character.length;
    }
    return masked;
  }

  #bytes(bytes: Uint8Array): Uint8Array {
    const masked = new Uint8Array(bytes.length);
    for (let at = 0; at < bytes.length; at++) {
      const before = bytes.subarray(0, Math.min(at, ONE_BY_ONE));
      const name = `${at < ONE_BY_ONE ? '' : at % 256} ${Buffer.from(before).toString('latin1')}`;
      masked[at] = (bytes[at]! + this.#number('bytes', name)) & 255;
    }
    return masked;
  }

  /** A condition: its fields and operators stay. */
  condition(condition: unknown): unknown {
    if (condition instanceof Combination) {
      const terms = condition.terms.map((term: unknown) => this.condition(term));
      return new Combination(condition.kind, terms as never);
    }
    if (!Array.isArray(condition)) return this.value(condition);
    const [field, operator, operand] = condition as unknown[];
    return [field, operator, this.value(operand)];
  }

  /** Bounds of a range of keys. */
  range(options: unknown): unknown {
    if (typeof options !== 'object' || options === null) return options;
    const { limit, ...bounds } = options as Record<string, unknown>;
    const masked = this.value(bounds) as Record<string, unknown>;
    return limit === undefined ? masked : { ...masked, limit };
  }
}
