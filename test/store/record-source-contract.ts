/**
 * What every `RecordSource` must do, whoever stores its records and whether or not it waits. Run by
 * each source's own test with a way to open an empty one.
 */
import { describe, expect, test } from 'vitest';
import type { Batch, RecordId } from '../../src/model/batch.ts';
import {
  isPending,
  LATEST,
  prefixRange,
  TRANSACTION,
  type Cursor,
  type KeyRange,
  type Pending,
  type RecordSource,
  type ScanRequest,
} from '../../src/model/source.ts';
import { defineBucket, defineCollection, defineIndex } from '../../src/model/schema.ts';
import { float, KIND, type Value } from '../../src/model/value.ts';

export interface SourceUnderTest {
  readonly source: RecordSource<Pending>;
  begin(): void;
  /** Answers the commit id. */
  commit(): number;
  rollback(): void;
}

/** Calls until there is an answer. */
export function settled<T>(call: () => T | Pending): T {
  for (;;) {
    const answer = call();
    if (!isPending(answer)) return answer;
  }
}

/** All rows of a cursor, each as its values; the selection is that of a fresh batch: all. */
export function rowsOf(cursor: Cursor<Pending>): Value[][] {
  const rows: Value[][] = [];
  eachBatch(cursor, (batch) => {
    for (let row = 0; row < batch.count; row++)
      rows.push(batch.columns.map((column) => column.get(row)));
  });
  return rows;
}

function eachBatch(cursor: Cursor<Pending>, visit: (batch: Batch) => void): void {
  for (;;) {
    const batch = settled(() => cursor.next());
    if (batch === undefined) return;
    expect(batch.count).toBeGreaterThan(0);
    expect(batch.selected).toBeUndefined();
    visit(batch);
  }
}

const people = defineCollection({
  name: 'people',
  fields: { id: 'int', name: 'text', age: 'int', score: 'float?', tag: 'any?' },
  key: 'id',
});
const byAge = defineIndex(people, { name: 'age', parts: ['age', 'name'] });
const byName = defineIndex(people, { name: 'name', parts: ['name'], unique: true });
const cities = defineCollection({
  name: 'cities',
  fields: { country: 'text', city: 'text', size: 'int' },
  key: ['country', 'city'],
});
const bySize = defineIndex(cities, {
  name: 'size',
  parts: [{ field: 'size', descending: true }],
});
const notes = defineBucket('notes', 'text', 'text');

const PEOPLE = 3000;

function person(id: number): { [name: string]: Value } {
  return { id, name: `p${id}`, age: id % 50, score: id % 3 === 0 ? null : id / 4, tag: float(2) };
}

function fill({ source, begin, commit }: SourceUnderTest): number {
  begin();
  for (const definition of [people, cities, notes])
    settled(() => source.applySchemaChange({ change: 'createCollection', definition }));
  for (const definition of [byAge, byName, bySize])
    settled(() => source.applySchemaChange({ change: 'createIndex', definition }));
  const write = (collection: string, records: readonly { [name: string]: Value }[]) =>
    settled(() =>
      source.write({
        collection,
        changes: records.map((record) => ({ change: 'insert', record }) as const),
      }),
    );
  const outcome = write(
    'people',
    Array.from({ length: PEOPLE }, (_, id) => person(id)),
  );
  expect([outcome.count, outcome.ids.length, outcome.ids[7]]).toEqual([PEOPLE, PEOPLE, 7]);
  write('cities', [
    { country: 'no', city: 'Oslo', size: 7 },
    { country: 'de', city: 'Ulm', size: 1 },
    { country: 'de', city: 'Bonn', size: 3 },
  ]);
  write('notes', [
    { key: 'b', value: 'two' },
    { key: 'a', value: 'one' },
  ]);
  return commit();
}

export function recordSourceContract(name: string, open: () => SourceUnderTest): void {
  describe(`${name} as a RecordSource`, () => {
    const opened = (): SourceUnderTest => {
      const subject = open();
      fill(subject);
      return subject;
    };
    const scan = (subject: SourceUnderTest, request: Partial<ScanRequest>): Value[][] =>
      rowsOf(
        subject.source.scan({ collection: 'people', fields: ['id'], view: LATEST, ...request }),
      );
    const ids = (subject: SourceUnderTest, request: Partial<ScanRequest>): Value[] =>
      scan(subject, request).map((row) => row[0]!);

    test('schema lists collections and indexes', () => {
      const { source } = opened();
      const { collections, indexes } = settled(() => source.schema(LATEST));
      expect(collections).toEqual([cities, notes, people]);
      expect(indexes.map((index) => index.name).sort()).toEqual(['age', 'name', 'size']);
    });

    test('scan gives every record once, in the order of keys and in reverse', () => {
      const subject = opened();
      const all = Array.from({ length: PEOPLE }, (_, id) => id);
      expect(ids(subject, {})).toEqual(all);
      expect(ids(subject, { reverse: true })).toEqual([...all].reverse());
    });

    test('scan gives values with their kinds', () => {
      const subject = opened();
      const request = { fields: ['score', 'tag', 'name'], limit: 2 };
      expect(scan(subject, request)).toEqual([
        [null, 2, 'p0'],
        [0.25, 2, 'p1'],
      ]);
      const cursor = subject.source.scan({ collection: 'people', view: LATEST, ...request });
      const { columns } = settled(() => cursor.next())!;
      expect([...columns[0]!.tags.subarray(0, 2)]).toEqual([KIND.null, KIND.float]);
      expect(columns[1]!.tags[0]).toBe(KIND.float);
    });

    test('scan of many ranges gives what is in them, in order', () => {
      const subject = opened();
      const ranges: KeyRange[] = [
        { to: [2] },
        { from: [10], to: [12], toInclusive: true },
        { from: [20], fromExclusive: true, to: [22.5] },
        prefixRange([40]),
        { from: [PEOPLE - 1] },
      ];
      const expected = [0, 1, 10, 11, 12, 21, 22, 40, PEOPLE - 1];
      expect(ids(subject, { ranges })).toEqual(expected);
      expect(ids(subject, { ranges, reverse: true })).toEqual([...expected].reverse());
      expect(ids(subject, { ranges, limit: 3 })).toEqual([0, 1, 10]);
      expect(ids(subject, { ranges: [] })).toEqual([]);
      expect(ids(subject, { ranges: [{ from: ['text'] }] })).toEqual([]);
      expect(ids(subject, { ranges: [{ from: [null], to: [1] }] })).toEqual([0]);
      expect(ids(subject, { ranges: [{ from: [-Infinity], to: [NaN] }] }).length).toBe(PEOPLE);
    });

    test('scan by an index is in its order, from keys alone or with records', () => {
      const subject = opened();
      const ranges = [prefixRange([49]), prefixRange([3, 'p1003'])].reverse();
      const plain = scan(subject, { index: 'age', ranges, fields: ['age', 'name'] });
      const full = scan(subject, { index: 'age', ranges, fields: ['age', 'name', 'score'] });
      expect(plain.length).toBe(1 + PEOPLE / 50);
      expect(full.map((row) => row.slice(0, 2))).toEqual(plain);
      const names = plain.slice(1).map((row) => row[1] as string);
      expect(names).toEqual([...names].sort());
      const reversed = scan(subject, {
        index: 'age',
        ranges,
        fields: ['age', 'name'],
        reverse: true,
      });
      expect(reversed).toEqual([...plain].reverse());
    });

    test('scan goes on behind a position, over the same request', () => {
      const subject = opened();
      for (const index of [undefined, 'age', 'name']) {
        for (const reverse of [false, true]) {
          const request = { ...(index !== undefined && { index }), reverse, fields: ['id'] };
          const whole = ids(subject, request);
          const pieces: Value[] = [];
          let after: Uint8Array | undefined;
          for (;;) {
            const cursor = subject.source.scan({
              collection: 'people',
              view: LATEST,
              limit: 700,
              ...request,
              ...(after !== undefined && { after }),
            });
            const piece = rowsOf(cursor).map((row) => row[0]!);
            pieces.push(...piece);
            if (piece.length < 700) break;
            after = cursor.position();
            expect(after).toBeInstanceOf(Uint8Array);
          }
          expect(pieces).toEqual(whole);
        }
      }
    });

    test('a cursor goes on while records are written and deleted', () => {
      const subject = opened();
      const { source } = subject;
      const cursor = source.scan({
        collection: 'people',
        index: 'age',
        fields: ['id'],
        view: LATEST,
      });
      const seen = new Set<Value>();
      let isFirst = true;
      eachBatch(cursor, (batch) => {
        for (let row = 0; row < batch.count; row++) {
          const id = batch.columns[0]!.get(row);
          expect(seen.has(id)).toBe(false);
          seen.add(id);
        }
        if (!isFirst) return;
        isFirst = false;
        subject.begin();
        const gone = Array.from({ length: PEOPLE }, (_, id) => id).filter((id) => id % 7 === 0);
        const changes = gone.map((id) => ({ change: 'delete', id }) as const);
        expect(settled(() => source.write({ collection: 'people', changes })).count).toBe(
          gone.length,
        );
        subject.commit();
      });
      for (let id = 0; id < PEOPLE; id++) if (id % 7 !== 0) expect(seen.has(id)).toBe(true);
    });

    test('scan with ids, and fetch gives those records in the order asked', () => {
      const subject = opened();
      const { source } = subject;
      const found: RecordId[] = [];
      eachBatch(
        source.scan({
          collection: 'cities',
          index: 'size',
          fields: ['city'],
          ids: true,
          view: LATEST,
        }),
        (batch) => found.push(...batch.ids.slice(0, batch.count)),
      );
      const cityRows = (records: readonly RecordId[]) =>
        rowsOf(
          source.fetch({ collection: 'cities', records, fields: ['city', 'size'], view: LATEST }),
        );
      expect(cityRows(found)).toEqual([
        ['Oslo', 7],
        ['Bonn', 3],
        ['Ulm', 1],
      ]);
      expect(cityRows([found[2]!, new Uint8Array([1]), found[0]!])).toEqual([
        ['Ulm', 1],
        ['Oslo', 7],
      ]);
      const records = [5, 99_999, 3, 5];
      const fetched = source.fetch({
        collection: 'people',
        records,
        fields: ['name'],
        view: LATEST,
      });
      expect(rowsOf(fetched)).toEqual([['p5'], ['p3'], ['p5']]);
    });

    test('buckets are collections of key and value', () => {
      const subject = opened();
      const request = { collection: 'notes', fields: ['value', 'key'] };
      expect(scan(subject, request)).toEqual([
        ['one', 'a'],
        ['two', 'b'],
      ]);
      expect(scan(subject, { ...request, ranges: [{ from: ['a'], fromExclusive: true }] })).toEqual(
        [['two', 'b']],
      );
    });

    test('write does all or nothing, and says what went wrong', () => {
      const subject = opened();
      const { source } = subject;
      subject.begin();
      const changes = [
        { change: 'delete', id: 1 },
        { change: 'update', id: 2, fields: { age: 99 } },
        { change: 'put', record: person(PEOPLE) },
        { change: 'insert', record: { ...person(PEOPLE + 1), name: 'p3' } },
      ] as const;
      expect(() => settled(() => source.write({ collection: 'people', changes }))).toThrow(
        expect.objectContaining({
          code: 'constraint.unique',
          message: 'duplicate key for people.name: "p3"',
        }),
      );
      const view = TRANSACTION;
      expect(ids(subject, { view }).length).toBe(PEOPLE);
      expect(ids(subject, { view, index: 'age', ranges: [prefixRange([99])] })).toEqual([]);
      const good = changes.slice(0, 3);
      expect(settled(() => source.write({ collection: 'people', changes: good })).count).toBe(3);
      expect(ids(subject, { view, index: 'age', ranges: [prefixRange([99])] })).toEqual([2]);
      expect(ids(subject, { index: 'age', ranges: [prefixRange([99])] })).toEqual([]);
      subject.rollback();
    });

    test('a snapshot keeps what it saw, schema included', () => {
      const subject = open();
      const snapshot = fill(subject);
      const { source } = subject;
      subject.begin();
      settled(() =>
        source.applySchemaChange({ change: 'dropIndex', collection: 'people', index: 'age' }),
      );
      settled(() => source.write({ collection: 'people', changes: [{ change: 'delete', id: 3 }] }));
      settled(() =>
        source.applySchemaChange({ change: 'renameCollection', collection: 'people', to: 'folk' }),
      );
      subject.commit();
      const ranges = [prefixRange([3])];
      expect(ids(subject, { view: snapshot, index: 'age', ranges, limit: 1 })).toEqual([1003]);
      expect(ids(subject, { view: snapshot, limit: 4 })).toEqual([0, 1, 2, 3]);
      expect(() => scan(subject, {})).toThrow(
        expect.objectContaining({ code: 'schema.unknown_collection' }),
      );
      expect(ids(subject, { collection: 'folk', limit: 4 })).toEqual([0, 1, 2, 4]);
    });

    test('statistics count exactly and estimate the rest', () => {
      const { source } = opened();
      const people = settled(() => source.statistics({ collection: 'people', view: LATEST }));
      expect(people.recordCount).toBe(PEOPLE);
      expect(people.recordBytesAverage).toBeGreaterThan(8);
      const age = people.indexes.find((index) => index.name === 'age')!;
      expect([age.least, age.greatest]).toEqual([0, 49]);
      expect(age.distinctCounts[0]).toBeGreaterThan(20);
      expect(age.distinctCounts[0]).toBeLessThan(120);
      expect(age.distinctCounts[1]).toBe(PEOPLE);
    });

    test('unknown names are refused with the nearest', () => {
      const subject = opened();
      const code = (c: string, hint: string) => expect.objectContaining({ code: c, hint });
      expect(() => scan(subject, { collection: 'peopel' })).toThrow(
        code('schema.unknown_collection', 'Did you mean "people"?'),
      );
      expect(() => scan(subject, { fields: ['nmae'] })).toThrow(
        code('schema.unknown_field', 'Did you mean "name"?'),
      );
      expect(() => scan(subject, { index: 'agee' })).toThrow(
        code('schema.unknown_index', 'Did you mean "age"?'),
      );
    });
  });
}
