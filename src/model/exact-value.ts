/**
 * Reading stored values and records with their exact kinds: a float that looks whole comes as
 * `float(x)`, wherever it is nested, so that what is read can be written again as it was.
 *
 * The ordinary readers (`value-codec.ts`, `record.ts`) answer plain numbers, which is what callers
 * want of a field; dumps and copies want this.
 */
import { compareText, MALFORMED, readUtf8, readVarint, skipVarint } from '../base/bytes.ts';
import { VALUE_DEPTH_MAX } from '../limits.ts';
import type { RecordCodec, RecordFields, RecordReader } from './record.ts';
import {
  kindOfDescriptor,
  malformedRecord,
  readPayload,
  skipValue,
  withKind,
} from './value-codec.ts';
import { KIND, setField, type Value } from './value.ts';

/**
 * Reads the value (descriptor and payload) that fills the bytes.
 *
 * @throws {CorruptionError} corrupt.record when the bytes are no value.
 */
export function readExactValue(bytes: Uint8Array, from: number, to: number, depth = 0): Value {
  if (depth > VALUE_DEPTH_MAX || skipValue(bytes, from, to) !== to)
    throw malformedRecord(bytes, from, to);
  const kind = kindOfDescriptor(bytes[from]!);
  if (kind === KIND.list || kind === KIND.map) return readNested(bytes, from, to, depth);
  return withKind(readPayload(bytes, from + 1, to, bytes[from]!, depth), kind);
}

/** Reads a list or map: descriptor, length, count, then members, those of maps with a name. */
function readNested(bytes: Uint8Array, from: number, to: number, depth: number): Value {
  const isMap = kindOfDescriptor(bytes[from]!) === KIND.map;
  let offset = skipVarint(bytes, from + 1);
  const count = readVarint(bytes, offset, to);
  if (count === MALFORMED || count > to - offset) throw malformedRecord(bytes, from, to);
  offset = skipVarint(bytes, offset);
  const list: Value[] = [];
  const map: Record<string, Value> = {};
  for (let i = 0; i < count; i++) {
    let name = '';
    if (isMap) {
      const nameBytes = readVarint(bytes, offset, to);
      const nameFrom = nameBytes === MALFORMED ? to : skipVarint(bytes, offset);
      const text = readUtf8(bytes, nameFrom, Math.min(to, nameFrom + nameBytes));
      if (text === undefined || nameBytes > to - nameFrom) throw malformedRecord(bytes, from, to);
      name = text;
      offset = nameFrom + nameBytes;
    }
    const next = skipValue(bytes, offset, to);
    const value = readExactValue(bytes, offset, next, depth + 1);
    if (isMap) setField(map, name, value);
    else list.push(value);
    offset = next;
  }
  if (offset !== to) throw malformedRecord(bytes, from, to);
  return isMap ? map : list;
}

/**
 * The record that a reader was turned to: declared fields in their order, then undeclared ones in
 * the order of their names.
 */
export function exactRecord(codec: RecordCodec, reader: RecordReader): RecordFields {
  const record: RecordFields = {};
  const { fields } = codec.definition;
  for (let ordinal = 0; ordinal < fields.length; ordinal++) {
    const { name, dropped } = fields[ordinal]!;
    if (dropped === true) continue;
    const slot = codec.slotOfField[ordinal]!;
    setField(record, name, slot < 0 || !reader.locate(slot) ? reader.get(ordinal) : slotOf(reader));
  }
  const undeclared: [string, Value][] = [];
  reader.forEachPair((number, bytes, from, to) => {
    const name = codec.names.nameOf(number);
    if (name === undefined) throw malformedRecord(bytes, from, to);
    undeclared.push([name, readExactValue(bytes, from, to)]);
  });
  for (const [name, value] of undeclared.sort((a, b) => compareText(a[0], b[0])))
    setField(record, name, value);
  return record;
}

/** The located slot, whose descriptor stands apart from its payload. */
function slotOf(reader: RecordReader): Value {
  const kind = kindOfDescriptor(reader.descriptor);
  if (kind !== KIND.list && kind !== KIND.map) return withKind(reader.readLocated(), kind);
  const { bytes, offset, end } = reader;
  const whole = bytes.slice(offset - 1, end); // the byte before is another's: take its place
  whole[0] = reader.descriptor;
  return readExactValue(whole, 0, skipValue(whole, 0, whole.length));
}
