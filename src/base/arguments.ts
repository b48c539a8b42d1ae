/**
 * Checks of what callers pass. Programs that are not compiled pass anything: what no type would
 * have let through is refused here with `usage.argument`, before it does anything.
 */
import { failure } from '../errors.ts';
import { nameHint } from './nearest.ts';

/** Refuses what is no object of options, and names that it does not have. */
export function requireNames(
  where: string,
  options: object,
  names: readonly string[],
  what: 'option' | 'setting' = 'option',
): void {
  if (typeof options !== 'object' || options === null || Array.isArray(options))
    throw failure('usage.argument', `the ${what}s of ${where} are an object`);
  for (const name of Object.keys(options)) {
    if (names.includes(name)) continue;
    const hint = nameHint(name, names);
    throw failure('usage.argument', `${name} is not ${article(what)} of ${where}`, {
      detail: { [what]: name },
      ...(hint !== undefined && { hint }),
    });
  }
}

/** Refuses what cannot be called. */
export function requireFunction(where: string, given: unknown): void {
  if (typeof given !== 'function')
    throw failure('usage.argument', `${where} takes a function, not ${kindText(given)}`);
}

/** Refuses what cannot be iterated. */
export function requireIterable(where: string, what: string, given: unknown, hint?: string): void {
  if (typeof (given as Iterable<unknown> | null | undefined)?.[Symbol.iterator] === 'function')
    return;
  const message = `${where} takes an iterable of ${what}, not ${kindText(given)}`;
  throw failure('usage.argument', message, { ...(hint !== undefined && { hint }) });
}

function article(what: 'option' | 'setting'): string {
  return what === 'option' ? 'an option' : 'a setting';
}

function kindText(given: unknown): string {
  return given === null ? 'null' : given === undefined ? 'undefined' : `a ${typeof given}`;
}
