/**
 * The nearest of a set of names to one that was not found, for the hints of errors.
 *
 * Source of the distance: optimal string alignment (insert, delete, replace, transpose), the row by
 * row form of Wagner and Fischer, "The String-to-String Correction Problem", 1974.
 */

/** Names longer than this are not compared: nobody mistypes them. */
const NAME_LENGTH_MAX = 64;
/** Names beyond this many are not looked at: a hint is not worth the time. */
const NAMES_COMPARED_MAX = 10_000;

/** The name that was probably meant, `undefined` if none is near. */
export function nearestName(wanted: string, names: Iterable<string>): string | undefined {
  if (wanted.length > NAME_LENGTH_MAX) return undefined;
  const lower = wanted.toLowerCase();
  let best: string | undefined;
  let bestDistance = Math.floor(wanted.length / 3) + 1.5;
  let compared = 0;
  for (const name of names) {
    if (++compared > NAMES_COMPARED_MAX) break;
    if (name.length > NAME_LENGTH_MAX || name === wanted) continue;
    const distance = editDistance(lower, name.toLowerCase());
    if (distance < bestDistance) {
      best = name;
      bestDistance = distance;
    }
  }
  return best;
}

/** Hints list so many names, which is all operators and all types of fields. */
const NAMES_SHOWN_MAX = 20;

/** A hint that names the nearest of `names`, or lists the first of them. */
export function nameHint(wanted: string, names: Iterable<string>): string | undefined {
  const known = [...names];
  const nearest = nearestName(wanted, known);
  if (nearest !== undefined) return `Did you mean "${nearest}"?`;
  if (known.length === 0) return undefined;
  const shown = known.slice(0, NAMES_SHOWN_MAX).map((name) => `"${name}"`);
  return `There is ${shown.join(', ')}${known.length > shown.length ? ' and others' : ''}.`;
}

/** Single-character changes and swaps of neighbours that turn one text into the other. */
export function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a.charCodeAt(i - 1) === b.charCodeAt(j - 1);
      let cost = Math.min(last[j]! + 1, row[j - 1]! + 1, last[j - 1]! + (same ? 0 : 1));
      const swapped =
        i > 1 &&
        j > 1 &&
        a.charCodeAt(i - 1) === b.charCodeAt(j - 2) &&
        a.charCodeAt(i - 2) === b.charCodeAt(j - 1);
      if (swapped) cost = Math.min(cost, beforeLast[j - 2]! + 1);
      row.push(cost);
    }
    beforeLast = last;
    last = row;
  }
  return last[b.length]!;
}
