/**
 * Collations: named functions from a text to what stands for it in keys.
 *
 * `binary` orders by UTF-8 bytes. `nocase` folds the 26 ASCII letters only, as SQLite's does: a
 * wider folding differs between versions of Unicode, and an index written by one Node.js would be
 * misread by another. A user's collation is registered at every open under the name that the
 * catalog holds. Locale order exists only where results are sorted: JavaScript has no sort keys.
 */
import { failure } from '../errors.ts';
import { nameHint } from '../base/nearest.ts';

export interface Collation {
  readonly name: string;
  /**
   * What stands for the text in keys: equal for equal texts, in the order of its UTF-8 bytes or of
   * itself where it is bytes. `undefined` for `binary`, whose texts stand for themselves.
   */
  readonly fold: ((text: string) => string | Uint8Array) | undefined;
}

export const BINARY: Collation = Object.freeze({ name: 'binary', fold: undefined });
export const NOCASE: Collation = Object.freeze({ name: 'nocase', fold: foldAscii });

function foldAscii(text: string): string {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

/** The collations that one open of a database knows. */
export class Collations {
  readonly #byName = new Map<string, Collation>([
    [BINARY.name, BINARY],
    [NOCASE.name, NOCASE],
  ]);

  /** Adds a user's collation. */
  register(name: string, fold: (text: string) => string | Uint8Array): void {
    if (name === BINARY.name || name === NOCASE.name)
      throw failure('usage.argument', `the collation "${name}" is built in`);
    this.#byName.set(name, Object.freeze({ name, fold }));
  }

  has(name: string): boolean {
    return this.#byName.has(name);
  }

  /** @throws {SchemaError} schema.unknown_collation naming the nearest there is. */
  get(name: string): Collation {
    const found = this.#byName.get(name);
    if (found !== undefined) return found;
    const hint = nameHint(name, this.#byName.keys());
    throw failure('schema.unknown_collation', `there is no collation "${name}"`, {
      detail: { name },
      ...(hint !== undefined && { hint: `Pass it in the \`collations\` option of open. ${hint}` }),
    });
  }
}
