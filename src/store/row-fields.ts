/** Writes chosen fields of records into the columns of a batch. */
import type { Batch, RecordId } from '../model/batch.ts';
import type { RecordReader } from '../model/record.ts';
import { unknownName } from '../model/schema.ts';
import { kindOfDescriptor } from '../model/value-codec.ts';
import { KIND } from '../model/value.ts';
import type { Collection } from './collection.ts';

const RECORD_ID = -1;
const UNDECLARED = -2;

export class RowFields {
  readonly names: readonly string[];
  readonly reader: RecordReader;
  readonly #slots: readonly number[];
  readonly #collection: Collection;

  /** @throws {SchemaError} schema.unknown_field for a field that a closed collection lacks. */
  constructor(collection: Collection, names: readonly string[]) {
    const { codec, definition } = collection;
    this.#collection = collection;
    this.names = names;
    this.reader = codec.reader();
    this.#slots = names.map((name) => {
      const ordinal = codec.ordinalOf(name);
      if (ordinal !== undefined) return codec.slotOfField[ordinal]!;
      if (definition.open) return UNDECLARED;
      const known = definition.fields.map((field) => field.name);
      throw unknownName('schema.unknown_field', `field of ${definition.name} named`, name, known);
    });
  }

  /** Adds the record that the reader is at as a row. */
  addRow(batch: Batch, id: RecordId): void {
    const row = batch.count++;
    batch.ids[row] = id;
    for (let i = 0; i < this.#slots.length; i++) this.#setColumn(batch, row, i);
  }

  #setColumn(batch: Batch, row: number, i: number): void {
    const { reader } = this;
    const column = batch.columns[i]!;
    const slot = this.#slots[i]!;
    if (slot === RECORD_ID) column.set(row, reader.id, KIND.int);
    else if (slot === UNDECLARED) {
      const number = this.#collection.state.numberOf(this.names[i]!);
      if (number !== undefined && reader.locateNumber(number))
        column.set(row, reader.readLocated(), kindOfDescriptor(reader.descriptor));
      else column.set(row, null);
    } else if (reader.locate(slot)) {
      const { bytes, offset, end, descriptor } = reader;
      const value = this.#collection.codec.readSlot(slot, bytes, offset, end, descriptor);
      column.set(row, value, kindOfDescriptor(descriptor));
    } else column.set(row, this.#collection.codec.slots[slot]!.initial);
  }
}
