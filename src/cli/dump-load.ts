/** `monochord dump` and `monochord load`: texts that travel. Line 9 of the strata. */
import { once } from 'node:events';
import * as fs from 'node:fs';
import { Database, type FileLayoutOptions } from '../database.ts';
import { failure } from '../errors.ts';
import {
  dump,
  dumpToFile,
  dumpToFolder,
  layoutOfDump,
  load,
  type DumpFormat,
  type DumpOptions,
  type LoadOptions,
  type Reject,
} from '../dump/index.ts';
import type { OpenOptions } from '../options.ts';
import { requireFile, withReaderAsync } from './open-file.ts';
import { bytesText, interruptSignal, print, Progress, type CommonOptions } from './output.ts';

export interface DumpFlags extends CommonOptions {
  readonly format: DumpFormat;
  readonly collection?: readonly string[];
  readonly split?: string;
  readonly extended?: boolean;
  readonly header: boolean;
  readonly delimiter?: string;
  readonly null?: string;
  readonly crlf?: boolean;
  readonly collations?: string;
}

/** The options that were given: absent ones are left out. */
function given<T extends object>(options: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  const entries = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]: Exclude<T[K], undefined> };
}

/** The collations of a module: the names and functions that it exports. */
async function openOptions(module: string | undefined): Promise<OpenOptions> {
  if (module === undefined) return {};
  const url = new URL(module, `file://${process.cwd()}/`);
  try {
    const { default: _, ...named } = (await import(url.href)) as Record<string, never>;
    return { collations: named };
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw failure('usage.argument', `--collations ${module} cannot be read: ${why}`);
  }
}

export async function dumpCommand(
  path: string,
  target: string | undefined,
  flags: DumpFlags,
): Promise<void> {
  const { split, format, collection } = flags;
  const isStdout = split === undefined && (target === undefined || target === '-');
  if (split !== undefined && (target !== undefined || format !== 'monochord'))
    throw failure('usage.argument', '--split writes the own format into its folder, and no file');
  if (isStdout && flags.json === true)
    throw failure('usage.argument', '--json: the dump itself goes to standard output', {
      hint: 'Name a file to write the dump to.',
    });
  const progress = new Progress();
  const options: DumpOptions = {
    format,
    signal: interruptSignal(),
    onProgress: ({ collection: name, records, recordsTotal }) =>
      progress.show(`${name}: ${records} of ${recordsTotal} records`),
    ...given({ collections: collection, extended: flags.extended, crlf: flags.crlf }),
    ...given({ delimiter: flags.delimiter, null: flags.null, header: flags.header }),
  };
  try {
    await withReaderAsync(path, await openOptions(flags.collations), async (database) => {
      if (isStdout) return await toStdout(database, options);
      if (split !== undefined) {
        const { signal, onProgress, collections } = options;
        const records = await dumpToFolder(
          database,
          split,
          given({ signal, onProgress, collections }) as never,
        );
        progress.end();
        return print(flags, { path, split, records }, () => `${records} records in ${split}`);
      }
      const bytes = await dumpToFile(database, target!, options);
      progress.end();
      print(flags, { path, target, bytes }, () => `${bytesText(bytes)} in ${target}`);
    });
  } finally {
    progress.end();
  }
}

/** Writes a dump to standard output, no faster than it is read there. */
async function toStdout(database: Database, options: DumpOptions): Promise<void> {
  for await (const chunk of dump(database, options))
    if (!process.stdout.write(chunk)) await once(process.stdout, 'drain'); // or what it fails with
}

export interface LoadFlags extends CommonOptions {
  readonly format: DumpFormat;
  readonly into?: string;
  readonly fields?: string;
  readonly key?: string;
  readonly open?: boolean;
  readonly keys?: string;
  readonly values?: string;
  readonly lines?: boolean;
  readonly header: boolean;
  readonly columns?: string;
  readonly delimiter?: string;
  readonly null?: string;
  readonly numbers?: 'exact' | 'nearest' | 'text';
  readonly duplicateNames?: 'refuse' | 'last';
  readonly extended?: boolean;
  readonly list?: string;
  readonly reject?: string;
  readonly onDuplicate?: 'refuse' | 'replace' | 'keep';
  readonly create?: boolean;
  readonly memory?: string;
  readonly collations?: string;
}

export async function loadCommand(path: string, source: string, flags: LoadFlags): Promise<void> {
  if (flags.create !== true) requireFile(path);
  else if (fs.existsSync(path)) {
    throw failure('usage.argument', `--create: there is a file ${path} already`, {
      hint: 'Leave --create out to load into it.',
    });
  }
  if (source !== '-') requireFile(source);
  const signal = interruptSignal();
  const opened: OpenOptions = {
    ...(await openOptions(flags.collations)),
    ...given({ memory: flags.memory }),
  };
  const input = source === '-' ? await standardInput(signal) : undefined;
  const layout = flags.create === true && flags.format === 'monochord';
  const database = new Database(path, {
    ...opened,
    ...(layout ? layoutOf(source, input?.head) : {}),
  });
  let isDone = false;
  try {
    await loadInto(database, input?.chunks ?? source, flags, signal);
    isDone = true;
  } finally {
    database.close();
    if (flags.create === true && !isDone)
      for (const each of [path, `${path}-log`]) fs.rmSync(each, { force: true });
  }
}

async function loadInto(
  database: Database,
  source: string | AsyncIterable<Uint8Array>,
  flags: LoadFlags,
  signal: AbortSignal,
): Promise<void> {
  const progress = new Progress();
  const rejects = flags.reject === undefined ? undefined : rejectFile(flags.reject);
  try {
    const report = await load(database, source, {
      ...optionsOf(flags),
      signal,
      onProgress: ({ collection, phase, phaseRecords, records, bytesRead }) =>
        progress.show(
          phase === 'read'
            ? `${collection}: ${records} records read, ${bytesText(bytesRead)}`
            : `${collection}: ${phase} ${phaseRecords} of ${records} records`,
        ),
      ...(rejects !== undefined && { onReject: rejects.take }),
    });
    progress.end();
    print(flags, { path: database.path, ...report }, () => {
      const lines = report.sections.map(
        ({ collection, records, isNew }) =>
          `${records} records into ${collection}${isNew ? ', which is new' : ''}`,
      );
      if (report.rejected > 0) lines.push(`${report.rejected} rejected, see ${flags.reject}`);
      return lines.join('\n') || 'the dump has no sections';
    });
  } finally {
    progress.end();
    rejects?.close();
  }
}

function optionsOf(flags: LoadFlags): LoadOptions {
  const { format, into, open, lines, header, delimiter, numbers } = flags;
  const { duplicateNames, extended, list, onDuplicate } = flags;
  const listed = (text: string | undefined): string[] | undefined => text?.split(',');
  return {
    format,
    ...given({ into, open, lines, delimiter, numbers, duplicateNames, extended, onDuplicate }),
    ...given({ list, keys: flags.keys, values: flags.values, null: flags.null, header }),
    ...given({ fields: fieldsOf(flags.fields), columns: listed(flags.columns) }),
    ...given({ key: listed(flags.key) }),
  } as LoadOptions;
}

/** Types by name from `id:int,name:text?`. */
function fieldsOf(text: string | undefined): Record<string, string> | undefined {
  if (text === undefined) return undefined;
  const pairs = text.split(',').map((each) => {
    const at = each.lastIndexOf(':');
    if (at > 0) return [each.slice(0, at), each.slice(at + 1)];
    throw failure('usage.argument', `--fields: "${each}" is not NAME:TYPE`);
  });
  return Object.fromEntries(pairs) as Record<string, string>;
}

/** Rejected records as JSON Lines, each with line, column, code, message and its text. */
function rejectFile(path: string): { take(reject: Reject): void; close(): void } {
  let file: number;
  try {
    file = fs.openSync(path, 'w');
  } catch (cause) {
    throw failure('usage.argument', `--reject ${path} cannot be written`, { cause });
  }
  return {
    take: (reject) => void fs.writeSync(file, `${JSON.stringify(reject)}\n`),
    close: () => fs.closeSync(file),
  };
}

/** Bytes of a dump that its layout is looked for in. */
const HEAD_BYTES = 64 * 1024;

function layoutOf(source: string, head: Uint8Array | undefined): Partial<FileLayoutOptions> {
  return layoutOfDump(head ?? source) ?? {};
}

/** Standard input: its beginning, and all of it; Ctrl-C ends the wait for more. */
async function standardInput(
  signal: AbortSignal,
): Promise<{ head: Uint8Array; chunks: AsyncIterable<Uint8Array> }> {
  const cancelled = failure('limit.cancelled', 'the load was cancelled; nothing was changed');
  signal.addEventListener('abort', () => process.stdin.destroy(cancelled), { once: true });
  const input = process.stdin[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>;
  let head: Uint8Array = new Uint8Array(0);
  while (head.length < HEAD_BYTES && head.filter((byte) => byte === 10).length < 2) {
    const next = await input.next();
    if (next.done === true) break;
    head = new Uint8Array(Buffer.concat([head, next.value]));
  }
  async function* chunks(): AsyncGenerator<Uint8Array> {
    yield head;
    for (;;) {
      const next = await input.next();
      if (next.done === true) return;
      yield next.value;
    }
  }
  return { head, chunks: chunks() };
}
