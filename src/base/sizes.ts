/** Sizes as people write them: a number of bytes, or a string with a unit (`'64 MiB'`). */
import { failure } from '../errors.ts';

const UNITS: Readonly<Record<string, number>> = {
  B: 1,
  KB: 1e3,
  KiB: 2 ** 10,
  MB: 1e6,
  MiB: 2 ** 20,
  GB: 1e9,
  GiB: 2 ** 30,
};
/** A bare number below this is taken for a forgotten unit. */
const BARE_BYTES_MIN = 256;

/**
 * Bytes of a size.
 *
 * @throws {UsageError} usage.argument for anything but a whole number of bytes that is plausible.
 */
export function parseSize(name: string, size: number | string): number {
  if (typeof size === 'number') {
    if (Number.isSafeInteger(size) && size >= BARE_BYTES_MIN) return size;
    const hint = `write a unit, such as '${size} MiB', or a whole number of bytes`;
    throw failure('usage.argument', `${name}: ${size} is not a size`, { hint });
  }
  const match =
    typeof size === 'string' ? /^\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*$/.exec(size) : null;
  const unit = match === null ? undefined : UNITS[match[2]!];
  if (unit === undefined) {
    throw failure('usage.argument', `${name}: ${JSON.stringify(size)} is not a size`, {
      hint: `write a number and one of ${Object.keys(UNITS).join(', ')}, such as '64 MiB'`,
    });
  }
  const bytes = Number(match![1]) * unit;
  if (!Number.isSafeInteger(bytes)) {
    throw failure('usage.argument', `${name}: ${size} is not a whole number of bytes`);
  }
  return bytes;
}
