/**
 * The temporal values and the point: small frozen objects, one class a kind.
 *
 * Dates are days since 1970-01-01 in the proleptic Gregorian calendar, times nanoseconds since
 * midnight; so every part is an exact JavaScript number over years −999,999,999 … 999,999,999. An
 * instant is a date and a time in UTC. The constructors check ranges; nothing else makes these
 * objects, so what has the class has valid parts.
 *
 * Source of the calendar: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
 */
import { failure } from '../errors.ts';

export const NANOSECONDS_PER_SECOND = 1_000_000_000;
export const NANOSECONDS_PER_DAY = 86_400 * NANOSECONDS_PER_SECOND;
const MILLISECONDS_PER_DAY = 86_400_000;
/** Days of −999999999-01-01 and 999999999-12-31. */
export const DAY_MIN = -365_243_219_162;
export const DAY_MAX = 365_241_780_471;
/** Seconds of the largest offset from UTC, 18 hours. */
export const OFFSET_SECONDS_MAX = 18 * 3600;
/** Characters of the longest name of a time zone. */
export const ZONE_LENGTH_MAX = 64;

/** An integer of 64 bits: a number, or a bigint where a number would lose digits. */
export type Integer = number | bigint;

function requireRange(what: string, value: number, min: number, max: number): void {
  if (Number.isInteger(value) && value >= min && value <= max) return;
  throw failure('value.out_of_range', `${what} ${String(value)} is not in ${min} … ${max}`, {
    detail: { what, value, min, max },
  });
}

/** The day number of a date of the Gregorian calendar; `month` and `day` count from 1. */
export function dayOf(year: number, month: number, day: number): number {
  requireRange('year', year, -999_999_999, 999_999_999);
  requireRange('month', month, 1, 12);
  requireRange('day', day, 1, daysInMonth(year, month));
  const y = month <= 2 ? year - 1 : year;
  const era = Math.floor(y / 400);
  const yearOfEra = y - era * 400;
  const dayOfYear = Math.floor((153 * ((month + 9) % 12) + 2) / 5) + day - 1;
  const dayOfEra =
    yearOfEra * 365 + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100) + dayOfYear;
  return era * 146_097 + dayOfEra - 719_468;
}

export function daysInMonth(year: number, month: number): number {
  if (month === 2) return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0) ? 29 : 28;
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31;
}

/** Year, month and day of a day number. */
export function calendarOf(dayNumber: number): { year: number; month: number; day: number } {
  const shifted = dayNumber + 719_468;
  const era = Math.floor(shifted / 146_097);
  const dayOfEra = shifted - era * 146_097;
  const yearOfEra = Math.floor(
    (dayOfEra -
      Math.floor(dayOfEra / 1460) +
      Math.floor(dayOfEra / 36_524) -
      Math.floor(dayOfEra / 146_096)) /
      365,
  );
  const dayOfYear =
    dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100));
  const shiftedMonth = Math.floor((5 * dayOfYear + 2) / 153);
  const month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9;
  const day = dayOfYear - Math.floor((153 * shiftedMonth + 2) / 5) + 1;
  return { year: yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day };
}

/** Nanoseconds since midnight of a time of day. */
export function nanosecondOf(hour: number, minute = 0, second = 0, nanosecond = 0): number {
  requireRange('hour', hour, 0, 23);
  requireRange('minute', minute, 0, 59);
  requireRange('second', second, 0, 59);
  requireRange('nanosecond', nanosecond, 0, NANOSECONDS_PER_SECOND - 1);
  return (hour * 3600 + minute * 60 + second) * NANOSECONDS_PER_SECOND + nanosecond;
}

function dateText(day: number): string {
  const { year, month, day: dayOfMonth } = calendarOf(day);
  const digits = String(Math.abs(year)).padStart(4, '0');
  const sign = year < 0 ? '-' : year > 9999 ? '+' : '';
  return `${sign}${digits}-${twoDigits(month)}-${twoDigits(dayOfMonth)}`;
}

function timeText(nanosecond: number): string {
  const seconds = Math.floor(nanosecond / NANOSECONDS_PER_SECOND);
  const fraction = nanosecond - seconds * NANOSECONDS_PER_SECOND;
  const clock = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  const text = clock.map(twoDigits).join(':');
  if (fraction === 0) return text;
  return `${text}.${String(fraction).padStart(9, '0').replace(/0+$/, '')}`;
}

function offsetText(offsetSeconds: number): string {
  if (offsetSeconds === 0) return 'Z';
  const seconds = Math.abs(offsetSeconds);
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  if (seconds % 60 !== 0) parts.push(seconds % 60);
  return `${offsetSeconds < 0 ? '-' : '+'}${parts.map(twoDigits).join(':')}`;
}

function twoDigits(value: number): string {
  return String(value).padStart(2, '0');
}

/** A calendar date without time or zone. */
export class LocalDate {
  /** Days since 1970-01-01. */
  readonly day: number;

  constructor(day: number) {
    requireRange('day', day, DAY_MIN, DAY_MAX);
    this.day = day;
    Object.freeze(this);
  }

  /** Makes the date of a year, a month (1 … 12) and a day of the month. */
  static of(year: number, month: number, day: number): LocalDate {
    return new LocalDate(dayOf(year, month, day));
  }

  toString(): string {
    return dateText(this.day);
  }

  toJSON(): string {
    return this.toString();
  }
}

/** A time of day without date or zone. */
export class LocalTime {
  /** Nanoseconds since midnight, below 86,400,000,000,000. */
  readonly nanosecond: number;

  constructor(nanosecond: number) {
    requireRange('nanosecond of day', nanosecond, 0, NANOSECONDS_PER_DAY - 1);
    this.nanosecond = nanosecond;
    Object.freeze(this);
  }

  static of(hour: number, minute = 0, second = 0, nanosecond = 0): LocalTime {
    return new LocalTime(nanosecondOf(hour, minute, second, nanosecond));
  }

  toString(): string {
    return timeText(this.nanosecond);
  }

  toJSON(): string {
    return this.toString();
  }
}

/** A time of day at an offset from UTC. */
export class ZonedTime {
  /** Nanoseconds since midnight on a clock at the offset. */
  readonly nanosecond: number;
  readonly offsetSeconds: number;

  constructor(nanosecond: number, offsetSeconds: number) {
    requireRange('nanosecond of day', nanosecond, 0, NANOSECONDS_PER_DAY - 1);
    requireRange('offset', offsetSeconds, -OFFSET_SECONDS_MAX, OFFSET_SECONDS_MAX);
    this.nanosecond = nanosecond;
    this.offsetSeconds = offsetSeconds;
    Object.freeze(this);
  }

  toString(): string {
    return timeText(this.nanosecond) + offsetText(this.offsetSeconds);
  }

  toJSON(): string {
    return this.toString();
  }
}

/** A date and time of day without zone. */
export class LocalDateTime {
  readonly day: number;
  readonly nanosecond: number;

  constructor(day: number, nanosecond: number) {
    requireRange('day', day, DAY_MIN, DAY_MAX);
    requireRange('nanosecond of day', nanosecond, 0, NANOSECONDS_PER_DAY - 1);
    this.day = day;
    this.nanosecond = nanosecond;
    Object.freeze(this);
  }

  toString(): string {
    return `${dateText(this.day)}T${timeText(this.nanosecond)}`;
  }

  toJSON(): string {
    return this.toString();
  }
}

/** An instant, with the offset and zone in which it is shown. */
export class ZonedDateTime {
  /** Day of the instant in UTC. */
  readonly day: number;
  /** Nanoseconds since midnight of the instant in UTC. */
  readonly nanosecond: number;
  readonly offsetSeconds: number;
  /** Name of the zone, such as `Europe/London`; `undefined` if there is an offset only. */
  readonly zone: string | undefined;

  constructor(day: number, nanosecond: number, offsetSeconds = 0, zone?: string) {
    requireRange('day', day, DAY_MIN, DAY_MAX);
    requireRange('nanosecond of day', nanosecond, 0, NANOSECONDS_PER_DAY - 1);
    requireRange('offset', offsetSeconds, -OFFSET_SECONDS_MAX, OFFSET_SECONDS_MAX);
    if (zone !== undefined) requireZone(zone);
    this.day = day;
    this.nanosecond = nanosecond;
    this.offsetSeconds = offsetSeconds;
    this.zone = zone;
    Object.freeze(this);
  }

  /** The instant of a JavaScript `Date`, in UTC. */
  static fromDate(date: Date): ZonedDateTime {
    const milliseconds = date.getTime();
    if (Number.isNaN(milliseconds)) throw failure('value.out_of_range', 'the Date is invalid');
    const day = Math.floor(milliseconds / MILLISECONDS_PER_DAY);
    return new ZonedDateTime(day, (milliseconds - day * MILLISECONDS_PER_DAY) * 1_000_000);
  }

  /** The instant as a JavaScript `Date`, cut to milliseconds; invalid beyond a Date's range. */
  toDate(): Date {
    return new Date(this.day * MILLISECONDS_PER_DAY + Math.floor(this.nanosecond / 1_000_000));
  }

  toString(): string {
    const local = this.nanosecond + this.offsetSeconds * NANOSECONDS_PER_SECOND;
    const carry = Math.floor(local / NANOSECONDS_PER_DAY);
    const time = timeText(local - carry * NANOSECONDS_PER_DAY);
    const zone = this.zone === undefined ? '' : `[${this.zone}]`;
    return `${dateText(this.day + carry)}T${time}${offsetText(this.offsetSeconds)}${zone}`;
  }

  toJSON(): string {
    return this.toString();
  }
}

function requireZone(zone: string): void {
  if (/^[\w+\-/.]+$/.test(zone) && zone.length <= ZONE_LENGTH_MAX) return;
  throw failure('value.out_of_range', `"${zone}" is not the name of a time zone`);
}

/** Months, days, seconds and nanoseconds, kept apart because none is a fixed number of the next. */
export class Duration {
  readonly months: Integer;
  readonly days: Integer;
  readonly seconds: Integer;
  /** 0 ≤ nanoseconds < 1,000,000,000; a negative duration borrows from its seconds. */
  readonly nanoseconds: number;

  constructor(months: Integer, days: Integer, seconds: Integer, nanoseconds = 0) {
    requireRange('nanoseconds', nanoseconds, 0, NANOSECONDS_PER_SECOND - 1);
    this.months = toInteger(months);
    this.days = toInteger(days);
    this.seconds = toInteger(seconds);
    this.nanoseconds = nanoseconds;
    Object.freeze(this);
  }

  toString(): string {
    const borrow = BigInt(this.seconds) < 0n && this.nanoseconds > 0;
    const seconds = borrow ? BigInt(this.seconds) + 1n : BigInt(this.seconds);
    const nanoseconds = borrow ? NANOSECONDS_PER_SECOND - this.nanoseconds : this.nanoseconds;
    const sign = borrow && seconds === 0n ? '-' : '';
    const fraction = String(nanoseconds).padStart(9, '0').replace(/0+$/, '');
    const time = `${sign}${seconds}${fraction === '' ? '' : '.'}${fraction}`;
    return `P${this.months}M${this.days}DT${time}S`;
  }

  toJSON(): string {
    return this.toString();
  }
}

const INT64_MIN = -(2n ** 63n);
const INT64_MAX = 2n ** 63n - 1n;

/**
 * The one form of an integer: a number while that is exact, a bigint beyond.
 *
 * @throws {ValueError} value.out_of_range when it is no integer of 64 bits.
 */
export function toInteger(value: Integer): Integer {
  if (typeof value === 'number') {
    if (Number.isSafeInteger(value)) return value === 0 ? 0 : value;
  } else if (value >= INT64_MIN && value <= INT64_MAX) {
    const number = Number(value);
    return Number.isSafeInteger(number) ? number : value;
  }
  throw failure('value.out_of_range', `${String(value)} is not an exact integer of 64 bits`, {
    detail: { value },
    ...(typeof value === 'number' && { hint: 'Write integers beyond 2^53 as bigint.' }),
  });
}

/** A place in a coordinate system that a spatial reference id names. */
export class Point {
  readonly srid: number;
  readonly x: number;
  readonly y: number;
  /** `undefined` in two dimensions. */
  readonly z: number | undefined;

  constructor(srid: number, x: number, y: number, z?: number) {
    requireRange('spatial reference id', srid, 0, 2 ** 31 - 1);
    for (const each of [x, y, z ?? 0]) {
      if (typeof each !== 'number')
        throw failure('value.type', `a coordinate is a number, not ${typeof each}`);
    }
    this.srid = srid;
    this.x = x;
    this.y = y;
    this.z = z;
    Object.freeze(this);
  }

  toString(): string {
    const z = this.z === undefined ? '' : `, ${this.z}`;
    return `point(${this.srid}: ${this.x}, ${this.y}${z})`;
  }
}
