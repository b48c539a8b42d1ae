/**
 * Splits the package into chunks that are loaded at their first use. Called by `build.mjs`, tested
 * by `test/build/split.test.ts`.
 *
 * V8 reads every function of a file before it runs the first one, and a program that only reads a
 * file needs a third of the package. So the bundler makes one flat ES module (every name once, a
 * comment in front of each source file's part), and this file deals its top-level statements out
 * to CommonJS files. The sources know nothing of it.
 *
 *   main    the entry's file: loaded at once, knows how to load the others
 *   others  loaded by `require` when the first of their names is used
 *
 * A name of a chunk that is not loaded is, in every chunk that uses it, a stub:
 *
 *   let f = (...args) => (load(), f(...args));
 *   let C = function (...args) { return load(), new C(...args); };
 *
 * Loading puts the real function or class into these variables, so that calls cost what they cost
 * in one file. Names of main, and of chunks that were loaded first, are constants. What cannot be
 * put off (a base class, a value, a use while the file itself is run) is refused with its place.
 */
import { minifySync, parseSync } from 'rolldown/utils';
import { collectUses } from './split-uses.mjs';

/** Where a chunk finds the linkage: a property of what the main file exports. */
export const LINK = `Symbol.for('monochord.chunks')`;

/** The parts of a flat bundle by source file: `{ start, file }`, ascending. */
function regionsOf(code) {
  const found = [...code.matchAll(/^\/\/#region (.+)$/gm)];
  return found.map((match) => ({ start: match.index, file: match[1] }));
}

function boundNames(pattern) {
  if (pattern === null) return [];
  if (pattern.type === 'Identifier') return [pattern.name];
  if (pattern.type === 'ArrayPattern') return pattern.elements.flatMap(boundNames);
  if (pattern.type === 'AssignmentPattern') return boundNames(pattern.left);
  if (pattern.type === 'RestElement') return boundNames(pattern.argument);
  return pattern.properties.flatMap((each) => boundNames(each.value ?? each));
}

/** Whether an initializer is a number or text that may as well be written twice. */
function isPlain(node, plain) {
  if (node === null) return false;
  if (node.type === 'Literal') return node.regex === undefined;
  if (node.type === 'UnaryExpression') return isPlain(node.argument, plain);
  if (node.type === 'BinaryExpression')
    return isPlain(node.left, plain) && isPlain(node.right, plain);
  return node.type === 'Identifier' && plain.has(node.name);
}

/** Names of the static methods of a class. */
function staticsOf(node) {
  const methods = node.body.body.filter((one) => one.static && one.type === 'MethodDefinition');
  return new Set(methods.filter((one) => one.kind === 'method').map((one) => one.key.name));
}

/** What the top-level statements declare, and where: name → `{ kind, chunk, file, … }`. */
function declarationsOf(statements) {
  const names = new Map();
  for (const each of statements) {
    const { node, chunk, file } = each;
    const add = (name, kind, more) => names.set(name, { name, kind, chunk, file, node, ...more });
    if (node.type === 'FunctionDeclaration') add(node.id.name, 'function');
    if (node.type === 'ClassDeclaration') add(node.id.name, 'class', { statics: staticsOf(node) });
    if (node.type !== 'VariableDeclaration') continue;
    for (const { id, init } of node.declarations) {
      if (init?.type === 'ClassExpression') {
        add(id.name, 'class', { statics: staticsOf(init) }); // how bundlers write a class
        continue;
      }
      for (const name of boundNames(id)) add(name, 'value');
    }
  }
  return names;
}

/** Statements with chunk and source file; imports of built-in modules; exports of the entry. */
function readBundle(code, chunkOf) {
  const { program, errors } = parseSync('flat.mjs', code);
  if (errors.length > 0) throw new Error(`split: ${errors[0].message}`);
  const regions = regionsOf(code);
  const statements = [];
  const imports = new Map();
  const exports = new Map();
  for (const node of program.body) {
    if (node.type === 'ImportDeclaration') {
      for (const one of node.specifiers) {
        imports.set(one.local.name, { from: node.source.value, what: one.imported?.name ?? '*' });
      }
    } else if (node.type === 'ExportNamedDeclaration') {
      for (const one of node.specifiers) exports.set(one.exported.name, one.local.name);
    } else {
      const file = regions.findLast((region) => region.start <= node.start)?.file ?? '';
      statements.push({ node, file, chunk: chunkOf(file), text: code.slice(node.start, node.end) });
    }
  }
  return { statements, imports, exports };
}

/** Constants of numbers and text: written into every chunk that uses them. */
function plainConstants(statements) {
  const plain = new Map();
  for (const { node, text } of statements) {
    if (node.type !== 'VariableDeclaration' || node.kind !== 'const') continue;
    if (node.declarations.length !== 1 || node.declarations[0].id.type !== 'Identifier') continue;
    if (isPlain(node.declarations[0].init, plain)) plain.set(node.declarations[0].id.name, text);
  }
  return plain;
}

/** Why a use of a name of a chunk that may not be loaded cannot be put off; undefined if it can. */
function whyNot(declared, use) {
  if (use.atLoad) return 'is used while the file is run';
  if (declared.kind === 'function') return use.as === 'call' ? undefined : 'is used as a value';
  if (declared.kind !== 'class') return 'is neither a function nor a class';
  if (use.as === 'new' || use.as === 'instanceof') return undefined;
  if (use.as === 'static' && declared.statics.has(use.member)) return undefined;
  return use.as === 'static' ? `is asked for \`${use.member}\`` : 'is used as a value';
}

/** Whether an export is for files built beside the core only, not a name of the package. */
const isInner = (name) => name.startsWith('inner$');

/**
 * What each chunk takes from where. `needs`: chunks that are loaded before a chunk, so that it
 * has their names as constants.
 */
function linkage(statements, names, imports, plain, needs) {
  const faults = [];
  const chunks = new Map();
  for (const { chunk } of statements) {
    if (chunks.has(chunk)) continue;
    chunks.set(chunk, { plain: new Set(), builtins: new Set(), fixed: new Map(), put: new Map() });
  }
  const take = (table, from, name) => table.set(from, (table.get(from) ?? new Set()).add(name));
  const assigned = new Set();
  const reach = (name, known) => {
    known.add(name);
    for (const [inner] of plain.get(name).matchAll(/\b[A-Z][A-Z_0-9]*\b/g)) {
      if (inner !== name && plain.has(inner) && !known.has(inner)) reach(inner, known);
    }
  };
  for (const { uses } of statements) for (const use of uses) if (use.write) assigned.add(use.name);
  for (const { chunk, file, uses } of statements) {
    const own = chunks.get(chunk);
    for (const use of uses) {
      const { name } = use;
      if (imports.has(name)) own.builtins.add(name);
      const declared = names.get(name);
      if (declared === undefined || declared.chunk === chunk) continue;
      const refuse = (why) => faults.push(`${file}: ${name} (${declared.file}) ${why}`);
      if (assigned.has(name)) refuse('is assigned to, so that it cannot be shared');
      else if (plain.has(name)) reach(name, own.plain);
      else if (declared.chunk === 'main') take(own.fixed, 'main', name);
      else if (needs[chunk]?.includes(declared.chunk)) take(own.fixed, declared.chunk, name);
      else {
        const why = whyNot(declared, use);
        if (why !== undefined) refuse(`${why}, so that ${declared.chunk} cannot be loaded later`);
        take(own.put, declared.chunk, name);
      }
    }
  }
  return { chunks, faults: [...new Set(faults)] };
}

/** The names that statements use. */
function namesUsed(uses, names) {
  const used = new Set();
  for (const { name } of uses) if (names.has(name)) used.add(name);
  return used;
}

/** All names reached from some of them, through what declares them. */
function reachable(from, usedBy) {
  const found = new Set(from);
  for (const name of found) for (const each of usedBy.get(name)) found.add(each);
  return found;
}

/**
 * Gives what nobody in main needs to the chunk that does: a declaration of a main file that is
 * reached from one chunk only, or from chunks that all load one of them first, belongs there.
 */
function sink(statements, names, exports, needs) {
  const usedBy = new Map();
  for (const { node, uses } of statements) {
    const used = namesUsed(uses, names);
    for (const [name, declared] of names) if (declared.node === node) usedBy.set(name, used);
  }
  const isDeclared = new Set([...names.values()].map((each) => each.node));
  const inMain = new Set();
  for (const [as, name] of exports) {
    if (!isInner(as) && names.get(name).chunk === 'main') inMain.add(name);
  }
  const reachedBy = new Map(); // name → chunks
  const rootsOf = new Map();
  for (const { chunk, node, uses } of statements) {
    if (chunk === 'main' && isDeclared.has(node)) continue;
    const roots = rootsOf.get(chunk) ?? new Set();
    for (const name of namesUsed(uses, names)) roots.add(name);
    rootsOf.set(chunk, roots);
  }
  const through = new Map([...usedBy].map(([name, used]) => [name, onlyMain(name, used)]));
  function onlyMain(name, used) {
    return names.get(name).chunk === 'main' ? used : new Set(); // a stub: it is not looked behind
  }
  const kept = reachable([...inMain, ...(rootsOf.get('main') ?? [])], through);
  for (const [chunk, roots] of rootsOf) {
    if (chunk === 'main') continue;
    for (const name of reachable(roots, through)) {
      if (names.get(name).chunk !== 'main' || kept.has(name)) continue;
      reachedBy.set(name, (reachedBy.get(name) ?? new Set()).add(chunk));
    }
  }
  for (const [name, chunks] of reachedBy) {
    const home = [...chunks].find((one) =>
      [...chunks].every((each) => each === one || needs[each]?.includes(one)),
    );
    if (home === undefined) continue;
    names.get(name).chunk = home;
    for (const each of statements) if (each.node === names.get(name).node) each.chunk = home;
  }
}

/** The stub of a name, which loads its chunk and gives way to what it stands for. */
function stubOf({ name, kind, statics }, load) {
  if (kind === 'function') return `let ${name} = (...args) => (${load}, ${name}(...args));`;
  const lines = [`let ${name} = function (...args) { return ${load}, new ${name}(...args); };`];
  for (const each of statics) {
    lines.push(`${name}.${each} = (...args) => (${load}, ${name}.${each}(...args));`);
  }
  return lines.join('\n');
}

const listOf = (names) => [...names].sort().join(', ');

function builtinLines(own, imports) {
  return [...own.builtins].map((name) => {
    const { from, what } = imports.get(name);
    if (what === '*' || what === 'default') return `const ${name} = require('${from}');`;
    const part = what === name ? name : `${what}: ${name}`;
    return `const { ${part} } = require('${from}');`;
  });
}

function putLines(own, names, isMain) {
  const lines = [];
  for (const [from, set] of own.put) {
    for (const name of set) lines.push(stubOf(names.get(name), `link$.load.${from}()`));
    const fill = `(real) => void ({ ${listOf(set)} } = real)`;
    if (isMain) lines.push(`link$.waiting.${from}.push(${fill});`);
    else lines.push(`link$.await('${from}', ${fill});`);
  }
  return lines;
}

/** The object by which chunks find each other; the first thing in the main file. */
function linkLines(others) {
  const load = others.map((name) => `${name}: () => void require('./${name}.cjs'),`);
  return [
    'const link$ = {',
    `load: { ${load.join(' ')} },`,
    `waiting: { ${others.map((name) => `${name}: [],`).join(' ')} },`,
    'real: {},',
    'await(chunk, fill) {',
    'if (this.real[chunk] === undefined) this.waiting[chunk].push(fill);',
    'else fill(this.real[chunk]);',
    '},',
    'loaded(chunk, real) {',
    'this.real[chunk] = real;',
    'for (const fill of this.waiting[chunk]) fill(real);',
    '},',
    '};',
  ];
}

/** How files built beside the core get at names that the package does not export. */
function innerLines(exports, names, plain) {
  const lines = [...exports]
    .filter(([as]) => isInner(as))
    .map(([as, local]) => {
      const { chunk } = names.get(local);
      if (plain.has(local)) return `${as}: () => ${plain.get(local).replace(/^[^=]*=|;$/g, '')},`;
      if (chunk === 'main') return `${as}: () => ${local},`;
      return `${as}: () => (link$.load.${chunk}(), link$.real.${chunk}.${local}),`;
    });
  return lines.length === 0 ? [] : ['link$.inner = {', ...lines, '};'];
}

/** What the other chunks take from this one. */
function givenBy(chunk, chunks, more = []) {
  const given = new Set(more);
  for (const own of chunks.values()) {
    for (const table of [own.fixed, own.put]) {
      for (const name of table.get(chunk) ?? []) given.add(name);
    }
  }
  return given;
}

/**
 * Deals a flat ES module out to CommonJS files; answers their texts by file name.
 *
 * @param code the bundle, with `//#region file` in front of each source file's part.
 * @param options `chunkOf(file)`: the chunk of a source file, 'main' for what is loaded at once;
 *   `needs`: chunks that a chunk loads at its start; `main`: the name of the main file;
 *   `small`: whether to minify.
 * @throws Error that lists every use that cannot be put off.
 */
export function split(code, { chunkOf, needs = {}, main = 'index.cjs', small = true }) {
  const { statements, imports, exports } = readBundle(code, chunkOf);
  const names = declarationsOf(statements);
  const known = new Set([...names.keys(), ...imports.keys()]);
  for (const each of statements) each.uses = collectUses(each.node, known);
  const plain = plainConstants(statements);
  // The entry's names are uses by the main file, as values; functions may be handed out as stubs.
  sink(statements, names, exports, needs);
  const { chunks, faults } = linkage(statements, names, imports, plain, needs);
  for (const [as, local] of exports) {
    const declared = names.get(local);
    if (isInner(as) || declared.chunk === 'main') continue;
    const own = chunks.get('main').put;
    if (declared.kind === 'function') {
      own.set(declared.chunk, (own.get(declared.chunk) ?? new Set()).add(local));
    } else {
      faults.push(`${local} (${declared.file}) is exported as a value, which is not put off`);
    }
  }
  if (faults.length > 0) throw new Error(`split: what cannot be put off:\n${faults.join('\n')}`);
  const others = [...chunks.keys()].filter((name) => name !== 'main').sort();
  const files = new Map();
  for (const [chunk, own] of chunks) {
    const isMain = chunk === 'main';
    const lines = [`'use strict';`, ...builtinLines(own, imports)];
    if (isMain) lines.push(...linkLines(others));
    else lines.push(`const link$ = require('./${main}')[${LINK}];`);
    for (const each of needs[chunk] ?? [])
      lines.push(`link$.real.${each} ?? link$.load.${each}();`);
    for (const [from, set] of own.fixed) {
      const source = from === 'main' ? `link$.give.${chunk}()` : `link$.real.${from}`;
      lines.push(`const { ${listOf(set)} } = ${source};`);
    }
    lines.push(...putLines(own, names, isMain));
    // In the order of the bundle: one may be made of another.
    for (const [name, text] of plain) if (own.plain.has(name)) lines.push(text);
    for (const each of statements)
      if (each.chunk === chunk) lines.push(small ? each.text : `//@${each.file}\n${each.text}`);
    if (isMain) {
      const give = others.map(
        (other) => `${other}: () => ({ ${listOf(chunks.get(other).fixed.get('main') ?? [])} }),`,
      );
      lines.push(`link$.give = { ${give.join(' ')} };`);
      lines.push(...innerLines(exports, names, plain));
      const shown = [...exports].filter(([as]) => !isInner(as));
      const door = shown.map(([as, local]) => (as === local ? as : `${as}: ${local}`));
      lines.push(`module.exports = { ${door.join(', ')} };`);
      lines.push(`Object.defineProperty(module.exports, ${LINK}, { value: link$ });`);
    } else {
      const inner = [...exports].filter(
        ([as, name]) => isInner(as) && names.get(name).chunk === chunk,
      );
      const given = givenBy(
        chunk,
        chunks,
        inner.map(([, name]) => name),
      );
      lines.push(`link$.loaded('${chunk}', { ${listOf(given)} });`);
    }
    const file = isMain ? main : `${chunk}.cjs`;
    const text = `${lines.join('\n')}\n`;
    files.set(file, small ? minified(file, text) : text);
  }
  return files;
}

/** Small, so that reading it is fast; top-level names stay, so that stacks can be read. */
function minified(file, text) {
  const keepNames = { function: true, class: true };
  const result = minifySync(file, text, {
    module: false,
    compress: { target: 'node20', keepNames },
    mangle: { toplevel: false, keepNames },
    codegen: { removeWhitespace: true },
  });
  if (result.errors.length > 0) throw new Error(`split: ${file}: ${result.errors[0].message}`);
  return asciiOnly(withLines(result.code));
}

/**
 * Other characters as escapes: a file with one of them is decoded to twice the bytes, and reading
 * it takes ten times as long. Literals mean the same with them, and names have none.
 */
function asciiOnly(code) {
  return code.replace(/[\u0080-\uffff]/g, (unit) => {
    return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
}

/** A line for each statement and each method: an uncaught error shows the line it is from. */
function withLines(code) {
  const { program } = parseSync('chunk.cjs', code);
  const breaks = [];
  for (const node of program.body) {
    breaks.push(node.start);
    const declared = node.type === 'VariableDeclaration' ? node.declarations : [{ init: node }];
    for (const { init, start } of declared) {
      if (start !== undefined) breaks.push(start);
      if (init?.body?.type === 'ClassBody') breaks.push(...init.body.body.map((one) => one.start));
    }
  }
  let text = '';
  let from = 0;
  for (const at of breaks.sort((a, b) => a - b)) {
    if (at === from) continue;
    text += `${code.slice(from, at)}\n`;
    from = at;
  }
  return `${text}${code.slice(from)}\n`;
}
