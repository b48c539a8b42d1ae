/**
 * Step machines: long operations that are driven in slices (DESIGN section 5). A generator that
 * yields whenever it may be interrupted is one; whoever drives it decides how long a slice is, and
 * calls `return()` to cancel it, which runs its `finally` blocks.
 */

/** Yields between steps of a few milliseconds at most; answers its result at the end. */
export type Steps<Result> = Generator<undefined, Result, undefined>;

/** Runs a step machine to its end. */
export function runSteps<Result>(steps: Steps<Result>): Result {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}
