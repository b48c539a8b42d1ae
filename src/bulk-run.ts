/**
 * Driving bulk loads: taking records from an iterable, an asynchronous one or a stream, in the open
 * transaction or in one of its own, and taking everything back when it fails. Line 6.
 */
import { requireIterable, requireNames } from './base/arguments.ts';
import { runSteps } from './base/steps.ts';
import { failure } from './errors.ts';
import type {
  BulkLoadAsyncOptions,
  BulkLoader,
  BulkLoadOptions,
  BulkReport,
} from './model/bulk.ts';
import { inSlices, SLICE_MS } from './slices.ts';
import { beginLoad } from './store/bulk-load.ts';
import type { Store } from './store/store.ts';

const OPTIONS = ['onProgress', 'onDuplicate', 'fill'];
/** Records between two looks at the clock. */
const RECORDS_PER_LOOK = 64;

/** Refuses options that a load does not have. */
export function requireLoadOptions(options: object, isAsync: boolean): void {
  const known = isAsync ? [...OPTIONS, 'signal'] : OPTIONS;
  requireNames('a bulk load', options, known);
}

/** Runs a load in the open transaction; when it throws, all of it is taken back. */
export function runLoad<T>(
  store: Store,
  name: string,
  source: Iterable<T>,
  take: (loader: BulkLoader, item: T) => void,
  options: BulkLoadOptions,
): BulkReport {
  const began = performance.now();
  requireIterable('bulkLoad', 'records', source, 'Use bulkLoadAsync for streams.');
  const guarded = guardedLoad(store, name, options);
  const { loader } = guarded;
  try {
    for (const item of source) take(loader, item);
    const report = runSteps(loader.finish());
    guarded.end(true);
    return { ...report, seconds: (performance.now() - began) / 1000 };
  } catch (cause) {
    guarded.end(false);
    throw cause;
  }
}

/** A load under a savepoint. */
function guardedLoad(
  store: Store,
  name: string,
  options: BulkLoadOptions,
): { readonly loader: BulkLoader; end(isDone: boolean): void } {
  const savepoint = store.savepoint();
  const back = (): void => {
    store.rollbackTo(savepoint);
    store.release(savepoint);
  };
  let loader: BulkLoader;
  try {
    loader = beginLoad(store, name, options);
  } catch (cause) {
    back();
    throw cause;
  }
  return {
    loader,
    end(isDone) {
      loader.close();
      if (isDone) store.release(savepoint);
      else if (store.hasSavepoint(savepoint)) back();
    },
  };
}

/** As `runLoad`, in slices between which other work is done, from any source. */
export async function runLoadAsync<T>(
  store: Store,
  name: string,
  source: Iterable<T> | AsyncIterable<T> | ReadableStream<T>,
  take: (loader: BulkLoader, item: T) => void,
  options: BulkLoadAsyncOptions,
): Promise<BulkReport> {
  const began = performance.now();
  const { signal } = options;
  const guarded = guardedLoad(store, name, options);
  const { loader } = guarded;
  try {
    if (isSynchronous(source)) await takeAll(source, loader, take, signal);
    else await takeAllAsync(iteratorOf<T>(source), loader, take, signal);
    const report = await inSlices(loader.finish(), signal === undefined ? {} : { signal });
    guarded.end(true);
    return { ...report, seconds: (performance.now() - began) / 1000 };
  } catch (cause) {
    guarded.end(false);
    throw cause;
  }
}

function isSynchronous<T>(source: unknown): source is Iterable<T> {
  return typeof (source as Partial<Iterable<T>> | null)?.[Symbol.iterator] === 'function';
}

function iteratorOf<T>(source: unknown): AsyncIterator<T> {
  const make = (source as Partial<AsyncIterable<T>> | null)?.[Symbol.asyncIterator];
  if (typeof make === 'function') return make.call(source as AsyncIterable<T>);
  throw failure('usage.argument', 'a bulk load takes an iterable of records, or a stream of them');
}

async function takeAll<T>(
  source: Iterable<T>,
  loader: BulkLoader,
  take: (loader: BulkLoader, item: T) => void,
  signal: AbortSignal | undefined,
): Promise<void> {
  refuseCancelled(signal);
  let until = performance.now() + SLICE_MS;
  let count = 0;
  for (const item of source) {
    take(loader, item);
    if (++count % RECORDS_PER_LOOK !== 0 || performance.now() < until) continue;
    await pause();
    refuseCancelled(signal);
    until = performance.now() + SLICE_MS;
  }
}

async function takeAllAsync<T>(
  iterator: AsyncIterator<T>,
  loader: BulkLoader,
  take: (loader: BulkLoader, item: T) => void,
  signal: AbortSignal | undefined,
): Promise<void> {
  // The step that is waited for ends when the load is cancelled. No promise lives as long as the
  // load: one that is raced against each record would hold on to all of these races.
  let reject = (_cause: Error): void => undefined;
  const cancel = (): void => reject(cancelledError());
  const step = (): Promise<IteratorResult<T>> =>
    new Promise((resolve, refuse) => {
      reject = refuse;
      if (signal?.aborted === true) cancel();
      Promise.resolve(iterator.next()).then(resolve, refuse);
    });
  signal?.addEventListener('abort', cancel, { once: true });
  let isDone = false;
  try {
    refuseCancelled(signal);
    let until = performance.now() + SLICE_MS;
    for (let count = 1; ; count++) {
      const next = await (signal === undefined ? iterator.next() : step());
      if (next.done === true) {
        isDone = true;
        return;
      }
      take(loader, next.value);
      if (count % RECORDS_PER_LOOK !== 0 || performance.now() < until) continue;
      await pause();
      until = performance.now() + SLICE_MS;
    }
  } finally {
    signal?.removeEventListener('abort', cancel);
    // Not waited for: a source that hangs must not keep a cancelled load from ending.
    if (!isDone) void Promise.resolve(iterator.return?.()).catch(() => undefined);
  }
}

function refuseCancelled(signal: AbortSignal | undefined): void {
  if (signal?.aborted === true) throw cancelledError();
}

function cancelledError(): Error {
  return failure('limit.cancelled', 'the load was cancelled; nothing was changed');
}

function pause(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
