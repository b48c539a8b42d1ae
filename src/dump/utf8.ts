/** UTF-8 in and out: strict, with the place of the first wrong byte. */
import { failureAt, type Place } from './failures.ts';

const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const lenient = new TextDecoder('utf-8', { ignoreBOM: true });
const encoder = new TextEncoder();

export function utf8Of(text: string): Uint8Array {
  return encoder.encode(text);
}

/** The text of bytes; `undefined` if they are no UTF-8. */
export function textOf(bytes: Uint8Array): string | undefined {
  try {
    return strict.decode(bytes);
  } catch {
    return undefined;
  }
}

/**
 * The text of bytes that begin at a place.
 *
 * @throws {ParseError} syntax.encoding at the first byte that is no UTF-8.
 */
export function requireText(bytes: Uint8Array, start: Place): string {
  const text = textOf(bytes);
  if (text !== undefined) return text;
  const wrong = firstWrongByte(bytes);
  const before = lenient.decode(bytes.subarray(0, wrong));
  const lines = before.split('\n');
  const place = {
    file: start.file,
    line: start.line + lines.length - 1,
    column: lines.at(-1)!.length + (lines.length === 1 ? start.column : 1),
  };
  const shown = bytes[wrong]!.toString(16).padStart(2, '0');
  throw failureAt('syntax.encoding', place, `the byte 0x${shown} is not UTF-8 there`);
}

/** Where the longest prefix that is UTF-8 ends: halving, since a decoder tells only yes or no. */
function firstWrongByte(bytes: Uint8Array): number {
  let good = 0; // a prefix of this length is right, up to a character that is cut
  let bad = bytes.length;
  while (bad - good > 1) {
    const middle = (good + bad) >> 1;
    if (isPrefix(bytes.subarray(0, middle))) good = middle;
    else bad = middle;
  }
  return characterStart(bytes, good);
}

/** Whether bytes are UTF-8 but for a character that is cut at the end. */
function isPrefix(bytes: Uint8Array): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: true });
    return true;
  } catch {
    return false;
  }
}

/** The start of the character that is cut by the end of a prefix, or that end. */
function characterStart(bytes: Uint8Array, end: number): number {
  for (let start = Math.max(0, end - 3); start < end; start++)
    if (textOf(bytes.subarray(0, start)) !== undefined && !isWholeFrom(bytes, start, end))
      return start;
  return end;
}

function isWholeFrom(bytes: Uint8Array, from: number, to: number): boolean {
  return textOf(bytes.subarray(from, to)) !== undefined;
}

/** Bytes without a byte order mark at their beginning. */
export function withoutMark(bytes: Uint8Array): Uint8Array {
  const isMarked = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
  return isMarked ? bytes.subarray(3) : bytes;
}
