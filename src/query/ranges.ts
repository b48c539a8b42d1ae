/** Ranges of values that conditions stand for. */

/**
 * The least text that is greater than all texts with a prefix; `undefined` if there is none, or if
 * the prefix is no text that can be stored.
 */
export function prefixEnd(prefix: string): string | undefined {
  const points = Array.from(prefix);
  if (points.some(isSurrogate)) return undefined;
  while (points.length > 0) {
    const last = points.pop()!.codePointAt(0)!;
    if (last === 0x10ffff) continue;
    const next = last === 0xd7ff ? 0xe000 : last + 1; // surrogates are no characters
    return points.join('') + String.fromCodePoint(next);
  }
  return undefined;
}

function isSurrogate(point: string): boolean {
  const code = point.codePointAt(0)!;
  return code >= 0xd800 && code <= 0xdfff;
}
