/**
 * Assertions (STYLE rule 6): `assert` is always on and stands at boundaries; `verify` runs
 * expensive checks only where `setVerifying(true)` was called (tests, simulation).
 */
import { failure } from '../errors.ts';

/** Throws `internal.assertion` unless the condition holds. */
export function assert(condition: boolean, what: string): asserts condition {
  if (!condition) throw failure('internal.assertion', `assertion failed: ${what}`);
}

let verifying = false;

/** Turns the expensive checks of `verify` on or off, for tests and simulation. */
export function setVerifying(on: boolean): void {
  verifying = on;
}

/** Whether expensive checks run. */
export function isVerifying(): boolean {
  return verifying;
}

/** Runs an expensive check when verifying; the check throws, or answers whether all is well. */
export function verify(check: () => boolean, what: string): void {
  if (verifying && !check()) throw failure('internal.assertion', `verification failed: ${what}`);
}

/** Marks a branch that the type checker proves dead. */
export function unreachable(value: never): never {
  throw failure('internal.assertion', `unreachable value ${String(value)}`);
}
