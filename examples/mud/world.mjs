/**
 * A Cold world in a Monochord file: one collection of objects by number, found by symbol through a
 * unique index, and what can be asked of it.
 */
import { closeSync, existsSync, openSync, rmSync, writeSync } from 'node:fs';
import { open } from 'monochord';
import { positionOf, printObject, readObjects, TextdumpError } from './textdump.mjs';

/** Objects that every Cold server has, before any textdump is read. */
const BUILT_IN = ['$root', '$sys'];
/** How many objects are written in one transaction. */
const PART = 10_000;
/** How many symbols are remembered while a textdump is read. */
const RECENT = 50_000;

/** Opens the world of a file: the database, and its objects. */
export function openWorld(path, options) {
  const db = open(path, options);
  const objects = db.collection('objects', {
    // Numbered in the order of the textdump.
    fields: {
      number: 'int',
      symbol: 'text',
      parents: 'json',
      variables: 'json',
      methods: 'json',
      before: 'int',
      after: 'int',
    },
    key: 'number',
    unique: ['symbol'],
  });
  return { db, objects };
}

/**
 * Reads a textdump into a new file. Objects may name parents and definers that come later; one that
 * never comes is an error, as is a line that cannot be read, and the file goes away again.
 */
export function compile(dump, path, options) {
  if (existsSync(path)) throw new TextdumpError(`${path} exists already`);
  const { db, objects } = openWorld(path, { durability: 'none', ...options });
  const references = new References(dump);
  const count = { objects: 0, variables: 0, methods: 0, forward: 0 };
  try {
    const records = numbered(dump, references, count);
    // Parts, so that what a transaction has to remember does not grow with the textdump. A bulk
    // load is one transaction, and objects that come in the order of their numbers gain little.
    for (let next = records.next(); next.done !== true;) {
      db.transaction(() => {
        for (let i = 0; i < PART && next.done !== true; i++, next = records.next()) {
          objects.insert(next.value);
        }
      });
    }
    count.forward = references.settle((symbol) => objects.has({ symbol }));
    db.close();
  } catch (cause) {
    db.close();
    for (const file of [path, `${path}-log`]) rmSync(file, { force: true });
    throw cause;
  }
  return count;
}

/** The objects of a textdump as records. */
function* numbered(dump, references, count) {
  for (const { offset, ...object } of readObjects(dump)) {
    references.define(object.symbol);
    for (const parent of object.parents) references.use(parent, offset);
    for (const [definer] of object.variables) references.use(definer, offset);
    count.variables += object.variables.length;
    count.methods += object.methods.length;
    yield { number: count.objects++, ...object };
  }
}

/** Names that are used, and whether they are defined, before or later, in bounded memory. */
class References {
  dump;
  recent = new Set(BUILT_IN);
  /** Symbols not seen of late: still to come, or long ago. With the place of their first use. */
  open = new Map();
  forward = 0;

  constructor(dump) {
    this.dump = dump;
  }

  define(symbol) {
    if (this.open.delete(symbol)) this.forward++;
    this.recent.add(symbol);
    if (this.recent.size > RECENT) this.recent.delete(this.recent.values().next().value);
  }

  use(symbol, offset) {
    if (!this.recent.has(symbol) && !this.open.has(symbol)) this.open.set(symbol, offset);
  }

  /** Asks the store for the rest; returns how many were used before they were defined. */
  settle(isThere) {
    for (const [symbol, offset] of this.open) {
      if (BUILT_IN.includes(symbol) || isThere(symbol)) continue;
      const { line } = positionOf(this.dump, offset);
      throw new TextdumpError(
        `${this.dump}:${line}: an object names ${symbol}, which is not there`,
      );
    }
    return this.forward;
  }
}

/** Writes the textdump of a file. Returns how many objects there are. */
export function decompile(path, out, options) {
  const { db, objects } = openWorld(path, { readOnly: true, ...options });
  const file = openSync(out, 'w');
  let count = 0;
  let text = [];
  try {
    for (const object of objects.all()) {
      text.push(printObject(object));
      if (++count % 256 !== 0) continue;
      writeSync(file, Buffer.from(text.join(''), 'latin1'));
      text = [];
    }
    writeSync(file, Buffer.from(text.join(''), 'latin1'));
  } finally {
    closeSync(file);
    db.close();
  }
  return count;
}

/** An object and its ancestors, nearest first: of several parents the first goes before the next. */
export function ancestors(objects, symbol) {
  const order = [];
  const seen = new Set();
  const visit = (name) => {
    if (seen.has(name)) return;
    seen.add(name);
    const object = objects.get({ symbol: name });
    if (object === undefined) return; // built in
    for (const parent of object.parents.toReversed()) visit(parent);
    order.push(object);
  };
  visit(symbol);
  return order.reverse();
}

/**
 * The method that an object answers a message with, `{ object, method }`, or `undefined`: as in
 * Cold, that of the nearest ancestor, unless one farther away forbids to override it.
 */
export function lookup(objects, symbol, name) {
  let found;
  for (const object of ancestors(objects, symbol).reverse()) {
    const method = object.methods.find((each) => each[1] === name);
    if (method === undefined) continue;
    found = { object, method };
    if (method[2].split(', ').includes('nooverride')) break;
  }
  return found;
}
