/** Makes a larger textdump: copies of one, each with symbols of its own. */
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { readObjects } from './textdump.mjs';

/** Writes a textdump of at least `count` objects; returns how many. Only whole copies are made. */
export function scale(dump, count, out) {
  const symbols = new Set();
  for (const { symbol } of readObjects(dump)) symbols.add(symbol);
  // Every second piece is the name of an object of the dump.
  const pieces = [''];
  for (const piece of readFileSync(dump, 'latin1').split(/(\$\w+)/)) {
    if (symbols.has(piece)) pieces.push(piece, '');
    else pieces[pieces.length - 1] += piece;
  }
  const file = openSync(out, 'w');
  let made = 0;
  for (let copy = 0; made < count; copy++, made += symbols.size) {
    const suffix = copy === 0 ? '' : `_${copy}`;
    const text = pieces.map((piece, i) => (i % 2 === 0 ? piece : piece + suffix)).join('');
    writeSync(file, Buffer.from(text, 'latin1'));
  }
  closeSync(file);
  return made;
}
