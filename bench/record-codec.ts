/** Fields encoded and decoded a second, by generated code and by the loops. */
import { ByteWriter } from '../src/base/bytes.ts';
import { appendTextKey, KeyCodec } from '../src/model/key.ts';
import { BINARY } from '../src/model/collation.ts';
import { RecordCodec, type FieldNames } from '../src/model/record.ts';
import {
  interpretedProgram,
  recordProgram,
  type RecordProgram,
} from '../src/model/record-program.ts';
import { defineCollection } from '../src/model/schema.ts';

const names: FieldNames = { intern: () => 0, numberOf: () => undefined, nameOf: () => undefined };
const fields = { id: 'int', name: 'text', age: 'int', balance: 'float', active: 'bool' };
const codec = new RecordCodec(defineCollection({ name: 'people', fields, key: 'id' }), names);
const records = Array.from({ length: 1000 }, (_, i) => ({
  id: i,
  name: `person-${1000 + i}`.slice(0, 11),
  age: i % 90,
  balance: i * 1.37,
  active: i % 2 === 0,
}));

function measure(label: string, operations: number, run: () => void): void {
  for (let i = 0; i < 30; i++) run();
  let best = Infinity;
  for (let i = 0; i < 200; i++) {
    const start = process.hrtime.bigint();
    run();
    best = Math.min(best, Number(process.hrtime.bigint() - start));
  }
  console.log(`${label}: ${((operations / best) * 1e3).toFixed(1)} M/s`);
}

let sink = 0;
function benchProgram(label: string, program: RecordProgram): void {
  const writer = new ByteWriter(1 << 20);
  const ends = new Int32Array(records.length + 1);
  records.forEach((record, i) => {
    program.encode(record, writer);
    ends[i + 1] = writer.length;
  });
  measure(`${label} encode, records of 4 fields`, records.length, () => {
    writer.length = 0;
    for (const record of records) program.encode(record, writer);
  });
  measure(`${label} decode, records of 4 fields`, records.length, () => {
    for (let i = 0; i < records.length; i++) {
      const record = program.decode(writer.bytes, ends[i]!, ends[i + 1]!, i);
      sink += (record['age'] as number) + (record['name'] as string).length;
    }
  });
  const reader = codec.reader();
  measure('one field (balance) of a record', records.length, () => {
    for (let i = 0; i < records.length; i++) {
      reader.open(writer.bytes, ends[i]!, ends[i + 1]!, i);
      sink += reader.get(3) as number;
    }
  });
}
benchProgram('generated', recordProgram(codec));
benchProgram('loops', interpretedProgram(codec));

const order = { descending: false, collation: BINARY };
const keys = new KeyCodec([order, order]);
const into = new ByteWriter(4096);
measure('text key', records.length, () => {
  for (const record of records) {
    into.length = 0;
    appendTextKey(into, record.name);
  }
});
measure('key part, text', records.length, () => {
  for (const record of records) {
    into.length = 0;
    keys.append(0, record.name, into);
  }
});
measure('key part, int', records.length, () => {
  for (const record of records) {
    into.length = 0;
    keys.append(0, record.age, into);
  }
});
measure('key part, float', records.length, () => {
  for (const record of records) {
    into.length = 0;
    keys.append(0, record.balance, into);
  }
});
if (sink === 0) console.log(sink);
