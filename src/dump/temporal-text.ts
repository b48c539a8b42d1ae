/**
 * Temporal values from their ISO 8601 texts: what their `toString` writes, and shorter forms of
 * it. Every function answers `undefined` for a text that is none.
 */
import {
  Duration,
  LocalDate,
  LocalDateTime,
  LocalTime,
  ZonedDateTime,
  ZonedTime,
} from '../index.ts';

const DATE = String.raw`([+-]?\d{4,10})-(\d\d)-(\d\d)`;
const TIME = String.raw`(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?`;
const OFFSET = String.raw`(Z|[+-]\d\d:\d\d(?::\d\d)?)`;
const DATE_ONLY = new RegExp(`^${DATE}$`);
const TIME_ONLY = new RegExp(`^${TIME}$`);
const ZONED_TIME = new RegExp(`^${TIME}${OFFSET}$`);
const LOCAL = new RegExp(`^${DATE}T${TIME}$`);
const ZONED = new RegExp(String.raw`^${DATE}T${TIME}${OFFSET}(?:\[([^\]]+)\])?$`);
const DURATION = /^P(-?\d+)M(-?\d+)DT(-?)(\d+)(?:\.(\d{1,9}))?S$/;

const NANOSECONDS_PER_SECOND = 1_000_000_000;
const NANOSECONDS_PER_DAY = 86_400 * NANOSECONDS_PER_SECOND;
/** The calendar repeats after 400 years. */
const CYCLE_YEARS = 400;
const CYCLE_DAYS = 146_097;

type Parts = readonly (string | undefined)[];

/** Day number of year, month and day. A zone may show an instant in the year after the last. */
function dayOf([year, month, day]: Parts): number {
  const y = Number(year);
  const shift = y > 999_999_999 ? -1 : y < -999_999_999 ? 1 : 0;
  const date = LocalDate.of(y + shift * CYCLE_YEARS, Number(month), Number(day));
  return date.day - shift * CYCLE_DAYS;
}

function nanosecondOf([hour, minute, second = '0', fraction = '']: Parts): number {
  const nanoseconds = Number(fraction.padEnd(9, '0'));
  return LocalTime.of(Number(hour), Number(minute), Number(second), nanoseconds).nanosecond;
}

function offsetOf(text: string): number {
  if (text === 'Z') return 0;
  const [hours, minutes, seconds = 0] = text.slice(1).split(':').map(Number);
  return (text.startsWith('-') ? -1 : 1) * (hours! * 3600 + minutes! * 60 + seconds);
}

export function parseDate(text: string): LocalDate | undefined {
  const match = DATE_ONLY.exec(text);
  return match === null ? undefined : new LocalDate(dayOf(match.slice(1)));
}

export function parseTime(text: string): LocalTime | undefined {
  const match = TIME_ONLY.exec(text);
  return match === null ? undefined : new LocalTime(nanosecondOf(match.slice(1)));
}

export function parseZonedTime(text: string): ZonedTime | undefined {
  const match = ZONED_TIME.exec(text);
  if (match === null) return undefined;
  return new ZonedTime(nanosecondOf(match.slice(1, 5)), offsetOf(match[5]!));
}

export function parseLocalDateTime(text: string): LocalDateTime | undefined {
  const match = LOCAL.exec(text);
  if (match === null) return undefined;
  return new LocalDateTime(dayOf(match.slice(1, 4)), nanosecondOf(match.slice(4)));
}

export function parseDateTime(text: string): ZonedDateTime | undefined {
  const match = ZONED.exec(text);
  if (match === null) return undefined;
  const offset = offsetOf(match[8]!);
  const utc = nanosecondOf(match.slice(4, 8)) - offset * NANOSECONDS_PER_SECOND;
  const carry = Math.floor(utc / NANOSECONDS_PER_DAY);
  const day = dayOf(match.slice(1, 4)) + carry;
  return new ZonedDateTime(day, utc - carry * NANOSECONDS_PER_DAY, offset, match[9]);
}

/** A negative duration with a fraction borrows from its seconds, as `Duration` keeps it. */
export function parseDuration(text: string): Duration | undefined {
  const match = DURATION.exec(text);
  if (match === null) return undefined;
  const [months, days] = [BigInt(match[1]!), BigInt(match[2]!)];
  const isNegative = match[3] === '-';
  const fraction = Number((match[5] ?? '').padEnd(9, '0'));
  const borrows = isNegative && fraction > 0;
  const whole = BigInt(match[4]!);
  const seconds = (isNegative ? -whole : whole) - (borrows ? 1n : 0n);
  return new Duration(
    months,
    days,
    seconds,
    borrows ? NANOSECONDS_PER_SECOND - fraction : fraction,
  );
}
