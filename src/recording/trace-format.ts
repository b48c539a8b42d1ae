/**
 * The trace of an application: what it asked of a store, one line of JSON each.
 *
 *   {"trace":1, …}                                            once an opening: which store it is
 *   {"op":"get","on":"customers","args":[17],"found":1}       one call of a handle
 *   {"op":"query","on":"customers","chain":[["where",[{"region":3}]]],"end":"toArray","found":9}
 *   {"op":"begin"} … {"op":"commit"}                          a transaction; or rollback
 *   {"op":"schema","on":"orders","schema":{…}}                a collection made since the header
 *
 * `tx` names the asynchronous transaction that a line belongs to, `snap` the snapshot. Values that
 * JSON has are written as they are, all others as `{"$v": base64}` of their bytes in a record; long
 * ones as `{"$fill": […]}`, which keeps length and equality. Line 6 of the strata.
 */
import * as fs from 'node:fs';
import { ByteWriter } from '../base/bytes.ts';
import { failure } from '../errors.ts';
import { TRACE_VALUE_BYTES_MAX } from '../limits.ts';
import { readWholeValue, writeValue } from '../model/value-codec.ts';
import { hashText, KIND, kindOf, mapEntries, setField, type Value } from '../model/value.ts';
import { Combination } from '../objects/conditions.ts';

/** A collection as a trace has it. */
export interface TracedCollection {
  readonly name: string;
  readonly form: 'record' | 'bucket';
  /** Types by field, `'?'` behind those that may be null; of a bucket `key` and `value`. */
  readonly fields: Readonly<Record<string, string>>;
  readonly key: readonly string[];
  readonly open: boolean;
  /** Whether records get ids when they have none. */
  readonly generated: boolean;
  readonly indexes: readonly TracedIndex[];
  /** Records when the line was written. */
  readonly count: number;
}

export interface TracedIndex {
  readonly name: string;
  readonly parts: readonly { field: string; descending: boolean; collation: string }[];
  readonly unique: boolean;
  readonly nulls: 'distinct' | 'equal' | 'skip';
}

/** First line of an opening. */
export interface TraceHeader {
  readonly trace: 1;
  /** The file's name without its folder. */
  readonly file: string;
  /** Its id, in hexadecimal: a rebuilt file has another, and the old one's in its marker. */
  readonly fileId: string;
  readonly commit: number;
  readonly values: 'plain' | 'hash';
  /** Says, in hash mode, whether a key is the one that the values were hashed with. */
  readonly keyCheck?: string;
  readonly collections: readonly TracedCollection[];
}

/** Any other line. */
export interface TraceLine {
  readonly op: string;
  readonly on?: string;
  readonly args?: readonly unknown[];
  /** Methods of a query before the one that answers, each with its arguments. */
  readonly chain?: readonly (readonly [string, readonly unknown[]])[];
  /** The method of a query that answers. */
  readonly end?: string;
  /** Rows, records or entries that were answered or changed. */
  readonly found?: number;
  readonly tx?: number;
  readonly snap?: number;
  readonly schema?: TracedCollection;
  readonly key?: unknown;
}

/** A trace that was read. */
export interface Trace {
  /** Headers of all openings, at least one. */
  readonly headers: readonly TraceHeader[];
  readonly lines: readonly TraceLine[];
  /** Whether the last line of an opening was cut off: its process was killed, or the disk full. */
  readonly isCut: boolean;
}

/** A value, or a condition, as JSON. */
export function encoded(value: unknown): unknown {
  if (value === null || typeof value === 'boolean') return value;
  if (typeof value === 'number') {
    return Number.isFinite(value) && !Object.is(value, -0) ? value : bytesOf(value);
  }
  if (typeof value === 'string') {
    return value.length <= TRACE_VALUE_BYTES_MAX ? value : filled(KIND.text, value);
  }
  if (value === undefined) return { $u: 1 };
  if (Array.isArray(value) || value instanceof Set) return Array.from(value, encoded);
  if (value instanceof Combination) return { [`$${value.kind}`]: value.terms.map(encoded) };
  const kind = kindOf(value);
  if (kind === KIND.bytes && (value as Uint8Array).length > TRACE_VALUE_BYTES_MAX) {
    return filled(KIND.bytes, value as Uint8Array);
  }
  if (kind !== KIND.map) return bytesOf(value as Value);
  const object: Record<string, unknown> = {};
  const entries =
    value instanceof Map ? mapEntries(value as Map<string, Value>) : Object.entries(value as {});
  for (const [name, each] of entries) {
    if (name.startsWith('$')) return bytesOf(value as Value);
    if (each !== undefined) setField(object as Record<string, Value>, name, encoded(each) as Value);
  }
  return object;
}

function bytesOf(value: Value): { $v: string } {
  const writer = new ByteWriter(64);
  writeValue(writer, value);
  return { $v: Buffer.from(writer.bytes.subarray(0, writer.length)).toString('base64') };
}

/** A stand-in for a long value: its kind, length, and a hash of its content. */
function filled(kind: number, value: string | Uint8Array): { $fill: number[] } {
  let hash = 0;
  if (typeof value === 'string') hash = hashText(value);
  else for (const byte of value) hash = (Math.imul(hash, 31) + byte) | 0;
  return { $fill: [kind, value.length, hash] };
}

/** What `encoded` wrote. @throws {UsageError} usage.trace for what it never writes. */
export function decoded(json: unknown): unknown {
  if (typeof json !== 'object' || json === null) return json;
  if (Array.isArray(json)) return json.map(decoded);
  const entries = Object.entries(json as Record<string, unknown>);
  const [name, content] = entries[0] ?? ['', undefined];
  switch (name) {
    case '$u':
      return undefined;
    case '$v': {
      const bytes = new Uint8Array(Buffer.from(String(content), 'base64'));
      return readWholeValue(bytes, 0, bytes.length);
    }
    case '$fill':
      return fill(content as [number, number, number]);
    case '$and':
    case '$or':
    case '$not':
      return new Combination(name.slice(1) as 'and', (content as unknown[]).map(decoded) as never);
  }
  const object: Record<string, Value> = {};
  for (const [field, each] of entries) setField(object, field, decoded(each) as Value);
  return object;
}

/** Content that follows from length and hash. */
function fill([kind, length, hash]: readonly [number, number, number]): Value {
  const head = `${(hash >>> 0).toString(16)} `;
  if (kind === KIND.text) return head.repeat(Math.ceil(length / head.length)).slice(0, length);
  return new Uint8Array(Buffer.alloc(length, head));
}

/**
 * Reads a trace. A line that was cut off at the end of an opening is left out.
 *
 * @throws {UsageError} usage.trace naming the line that is none.
 */
export function readTrace(file: string): Trace {
  const texts = fs.readFileSync(file, 'utf8').split('\n');
  const headers: TraceHeader[] = [];
  const lines: TraceLine[] = [];
  let isCut = false;
  for (const [i, text] of texts.entries()) {
    if (text === '') continue;
    const line = parsed(text);
    if (line === undefined) {
      const next = texts.slice(i + 1).find((each) => each !== '');
      const isLast = next === undefined || next.startsWith('{"trace":');
      if (!isLast || headers.length === 0) throw noTrace(file, `line ${i + 1} is no JSON`);
      isCut = true;
    } else if ('trace' in line) {
      if (headers.length > 0) lines.push({ op: 'reopen' });
      headers.push(checkedHeader(file, line as unknown as TraceHeader));
    } else if (headers.length === 0) throw noTrace(file, 'it does not begin with a header');
    else if (typeof line.op !== 'string') throw noTrace(file, `line ${i + 1} has no op`);
    else lines.push(line);
  }
  if (headers.length === 0) throw noTrace(file, 'it is empty');
  return { headers, lines, isCut };
}

function parsed(text: string): TraceLine | undefined {
  try {
    const line: unknown = JSON.parse(text);
    return typeof line === 'object' && line !== null ? (line as TraceLine) : undefined;
  } catch {
    return undefined; // the caller decides whether it was cut off
  }
}

function checkedHeader(file: string, header: TraceHeader): TraceHeader {
  const { trace, fileId, collections } = header;
  if (trace !== 1) throw noTrace(file, `its format is ${String(trace)}, this program reads 1`);
  if (typeof fileId === 'string' && Array.isArray(collections)) return header;
  throw noTrace(file, 'its header names no store');
}

function noTrace(file: string, why: string): Error {
  return failure('usage.trace', `${file} is not a trace: ${why}`, { detail: { file } });
}
