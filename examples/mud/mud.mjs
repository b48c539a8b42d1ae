/**
 * An object database in the manner of Cold, on Monochord:
 *
 *     node examples/mud/mud.mjs compile DUMP FILE           text to store
 *     node examples/mud/mud.mjs decompile FILE OUT          store to the same text
 *     node examples/mud/mud.mjs lookup FILE $symbol method  the method that $symbol answers with
 *     node examples/mud/mud.mjs scale DUMP COUNT OUT        a larger textdump
 */
import { DatabaseError } from 'monochord';
import { scale } from './scale.mjs';
import { printMethod, TextdumpError } from './textdump.mjs';
import { ancestors, compile, decompile, lookup, openWorld } from './world.mjs';

const COMMANDS = {
  compile(dump, path) {
    const { objects, variables, methods, forward } = compile(dump, path);
    console.log(`${objects} objects, ${variables} variables, ${methods} methods`);
    console.log(`${forward} names were used before they were defined`);
  },

  decompile(path, out) {
    console.log(`${decompile(path, out)} objects`);
  },

  lookup(path, symbol, name) {
    const { db, objects } = openWorld(path, { readOnly: true });
    const line = ancestors(objects, symbol).map((each) => each.symbol);
    const found = lookup(objects, symbol, name);
    db.close();
    if (line.length === 0) throw new TextdumpError(`there is no object ${symbol}`);
    console.log(`// ancestors: ${line.join(', ')}`);
    if (found === undefined) throw new TextdumpError(`${symbol} has no method ${name}`);
    console.log(`// defined on ${found.object.symbol}\n${printMethod(found.method)}`);
  },

  scale(dump, count, out) {
    console.log(`${scale(dump, Number(count), out)} objects`);
  },
};

const [name, ...args] = process.argv.slice(2);
const command = Object.hasOwn(COMMANDS, name ?? '') ? COMMANDS[name] : undefined;
if (command === undefined || args.length !== command.length) {
  console.error('usage: mud.mjs compile DUMP FILE | decompile FILE OUT');
  console.error('       | lookup FILE $symbol method | scale DUMP COUNT OUT');
  process.exit(2);
}
try {
  command(...args);
} catch (cause) {
  if (!(cause instanceof DatabaseError || cause instanceof TextdumpError)) throw cause;
  console.error(cause.message);
  process.exitCode = 1;
}
