/**
 * The text form of a Cold object database, read and written: one object after another, each as
 *
 *     new object $lamp: $thing, $described;
 *
 *     var $thing weight = 2;
 *     var $described prose = "A brass lamp.";
 *
 *     public method .light(): nooverride  {
 *         ...
 *     };
 *
 * A value that goes on in the next line ends its line with a backslash. Values and code are kept
 * as they are written; the rest has one layout only, so that printing what was read gives the
 * same bytes. Bytes are characters here (latin1): nothing is lost, whatever the encoding.
 */
import { closeSync, openSync, readSync } from 'node:fs';

const CHUNK_BYTES = 1 << 20;

/** Says that the parser came to the end of what has been read so far. */
const MORE = Symbol('more');

const HEAD = /^new object (\$\w+)(?:: (\$\w+(?:, \$\w+)*))?;$/;
const VARIABLE = /^var (\$\w+) (\w+) = /;
const METHOD =
  /^(public|protected|private|root|driver|frob) method \.(\w+)\(\)(?:: (\w+(?:, \w+)*)(?=;| ))?(;| {1,2}\{)$/;

/** What is wrong with a textdump, and where. */
export class TextdumpError extends Error {}

/** Reads the objects of a file, one at a time; `before` and `after` count empty lines around one. */
export function* readObjects(path) {
  const file = openSync(path, 'r');
  try {
    const parser = new Parser(path);
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    for (;;) {
      const count = readSync(file, chunk);
      parser.add(chunk.latin1Slice(0, count), count === 0);
      yield* parser.objects();
      if (count === 0) return;
    }
  } finally {
    closeSync(file);
  }
}

class Parser {
  path;
  text = '';
  /** Where `text` begins in the file, and how far it is read. */
  offset = 0;
  at = 0;
  isAll = false;

  constructor(path) {
    this.path = path;
  }

  add(text, isAll) {
    this.text = this.text.slice(this.at) + text;
    this.offset += this.at;
    this.at = 0;
    this.isAll = isAll;
  }

  /** The objects that are there whole. */
  *objects() {
    for (;;) {
      const start = this.at;
      let object;
      try {
        object = this.object();
      } catch (cause) {
        if (cause !== MORE) throw cause;
        this.at = start;
        return;
      }
      if (object === undefined) return;
      yield object;
    }
  }

  object() {
    const before = this.offset + this.at === 0 ? this.blanks() : 0;
    if (this.at === this.text.length && this.isAll) return undefined;
    const offset = this.offset + this.at;
    const head = HEAD.exec(this.line());
    if (head === null) this.fail('new object $NAME: $PARENT, ...;', offset);
    if (this.line() !== '') this.fail('an empty line', this.offset + this.at - 1);
    const variables = [];
    while (this.isNext('var ')) variables.push(this.variable());
    const methods = [];
    let after = this.blanks();
    while (after === 1 && !this.isNext('new ') && this.at < this.text.length) {
      methods.push(this.method());
      after = this.blanks();
    }
    if (after === 0 && this.at < this.text.length) {
      this.fail('an empty line', this.offset + this.at);
    }
    const parents = head[2] === undefined ? [] : head[2].split(', ');
    return { symbol: head[1], parents, variables, methods, before, after, offset };
  }

  isNext(word) {
    if (this.text.length - this.at < word.length && !this.isAll) throw MORE;
    return this.text.startsWith(word, this.at);
  }

  /** Goes over empty lines; returns how many there are. */
  blanks() {
    const { text } = this;
    const start = this.at;
    while (text.charCodeAt(this.at) === 10) this.at++;
    if (this.at === text.length && !this.isAll) throw MORE;
    return this.at - start;
  }

  /** `[definer, name, value]` */
  variable() {
    const start = this.at;
    let line = this.line();
    const head = VARIABLE.exec(line);
    if (head === null) this.fail('var $DEFINER NAME = VALUE;', this.offset + start);
    while (line.endsWith('\\')) line = this.line();
    if (!line.endsWith(';')) this.fail('; at the end of a variable', this.offset + this.at - 1);
    return [head[1], head[2], this.text.slice(start + head[0].length, this.at - 2)];
  }

  /** `[access, name, flags, code]`; a native or empty method has no code, `null`. */
  method() {
    const start = this.offset + this.at;
    const head = METHOD.exec(this.line());
    if (head === null || (head[4] !== ';' && (head[3] === undefined) !== (head[4] === ' {'))) {
      this.fail('ACCESS method .NAME(): FLAGS {, or an empty line', start);
    }
    const [, access, name, flags = '', end] = head;
    if (end === ';') return [access, name, flags, null];
    const first = this.at - 1; // the line feed before the code, which may be empty
    const last = this.text.indexOf('\n};\n', first);
    if (last < 0) {
      if (this.isAll) this.fail('}; at the end of the method that begins', start);
      throw MORE;
    }
    this.at = last + 4;
    return [access, name, flags, this.text.slice(first + 1, last + 1)];
  }

  line() {
    const start = this.at;
    const end = this.text.indexOf('\n', start);
    if (end < 0) {
      if (this.isAll) this.fail('the rest of this line', this.offset + start);
      throw MORE;
    }
    this.at = end + 1;
    return this.text.slice(start, end);
  }

  fail(expected, offset) {
    const { line, column } = positionOf(this.path, offset);
    throw new TextdumpError(`${this.path}:${line}:${column}: expected ${expected}`);
  }
}

/** Line and column of an offset: counted only when somebody asks. */
export function positionOf(path, offset) {
  const file = openSync(path, 'r');
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  let line = 1;
  let lineStart = 0;
  for (let from = 0; from < offset;) {
    const count = readSync(file, chunk, 0, Math.min(CHUNK_BYTES, offset - from), null);
    if (count === 0) break;
    for (let at = chunk.indexOf(10); at >= 0 && at < count; at = chunk.indexOf(10, at + 1)) {
      line++;
      lineStart = from + at + 1;
    }
    from += count;
  }
  closeSync(file);
  return { line, column: offset - lineStart + 1 };
}

/** The text of an object. */
export function printObject({ symbol, parents, variables, methods, before, after }) {
  const of = parents.length > 0 ? `: ${parents.join(', ')}` : '';
  let text = `${'\n'.repeat(before)}new object ${symbol}${of};\n\n`;
  for (const [definer, name, value] of variables) text += `var ${definer} ${name} = ${value};\n`;
  for (const method of methods) text += `\n${printMethod(method)}\n`;
  return text + '\n'.repeat(after);
}

/** The text of a method. */
export function printMethod([access, name, flags, code]) {
  const head = `${access} method .${name}()${flags === '' ? '' : `: ${flags}`}`;
  return code === null ? `${head};` : `${head}${flags === '' ? ' ' : '  '}{\n${code}};`;
}
