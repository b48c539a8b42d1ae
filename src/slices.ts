/**
 * Driving step machines asynchronously: slices between which other work is done. Line 6.
 */
import type { Steps } from './base/steps.ts';
import { failure } from './errors.ts';

/** Options of long operations that are done in slices. */
export interface SliceOptions {
  readonly signal?: AbortSignal;
  /** Called between slices. */
  readonly onSlice?: () => void;
}

/** Milliseconds of a slice of a long operation. */
export const SLICE_MS = 5;

/** Drives a step machine in slices, so that other work is done between them. */
export async function inSlices<T>(steps: Steps<T>, options: SliceOptions): Promise<T> {
  try {
    for (;;) {
      if (options.signal?.aborted === true) {
        throw failure('limit.cancelled', 'the operation was cancelled; nothing was changed');
      }
      const until = performance.now() + SLICE_MS;
      do {
        const step = steps.next();
        if (step.done === true) return step.value;
      } while (performance.now() < until);
      options.onSlice?.();
      await new Promise((resolve) => setImmediate(resolve));
    }
  } finally {
    steps.return(undefined as T); // runs what must be undone, if it is not at its end
  }
}
