/**
 * A store with a collection and a bucket of bytes, and how each format carries one of them: what
 * the tests and the long job of streams in bounded memory dump and load.
 */
import { Random } from '../../src/base/random.ts';
import type { DumpOptions, LoadOptions } from '../../src/dump/index.ts';
import type { Database } from '../../src/index.ts';

const FIELDS = { id: 'int', name: 'text', weight: 'float?', note: 'text?' } as const;

/** Bytes of a record, about, in every format. */
export const RECORD_BYTES = 250;

/** Fills an empty store with about that many bytes of records, and as many of entries. */
export function fillStore(db: Database, bytes: number): void {
  const random = new Random(1);
  const count = Math.ceil(bytes / RECORD_BYTES);
  const letters = (length: number): string =>
    Array.from({ length }, () => String.fromCharCode(97 + random.below(26))).join('');
  const notes = Array.from({ length: 64 }, () => `${letters(90)}, "${letters(90)}"`);
  const things = db.collection('things', { fields: FIELDS, key: 'id', index: ['name'] });
  things.bulkLoad(
    (function* (): Generator<{ id: number; name: string; weight: number; note: string }> {
      for (let id = 0; id < count; id++)
        yield { id, name: `${letters(10)} ${id}`, weight: id / 7, note: random.pick(notes) };
    })(),
  );
  const key = new Uint8Array(8);
  const view = new DataView(key.buffer);
  const bucket = db.kv<Uint8Array, Uint8Array>('bytes', { keys: 'bytes', values: 'bytes' });
  bucket.bulkLoad(
    (function* (): Generator<[Uint8Array, Uint8Array]> {
      for (let i = 0; i < count; i++) {
        view.setUint32(0, Math.imul(i, 2_654_435_761));
        view.setUint32(4, i);
        yield [key.slice(), new Uint8Array(Buffer.from(random.pick(notes).slice(i % 64)))];
      }
    })(),
  );
}

export interface StreamCase {
  readonly dump: DumpOptions;
  readonly load: LoadOptions;
}

const table = (format: 'jsonl' | 'json' | 'csv'): StreamCase => ({
  dump: { format, collections: ['things'] },
  load: { format, into: 'things', fields: FIELDS, key: 'id' },
});
const pairs = (format: 'bdb' | 'lmdb-print' | 'gdbm' | 'gdbm-binary'): StreamCase => ({
  dump: { format, collections: ['bytes'] },
  load: { format, into: 'bytes' },
});

/** What is streamed: name of a format, how it is dumped and loaded. */
export const STREAM_CASES: Readonly<Record<string, StreamCase>> = {
  monochord: { dump: { format: 'monochord' }, load: { format: 'monochord' } },
  jsonl: table('jsonl'),
  json: table('json'),
  csv: table('csv'),
  bdb: pairs('bdb'),
  'lmdb-print': pairs('lmdb-print'),
  gdbm: pairs('gdbm'),
  'gdbm-binary': pairs('gdbm-binary'),
};
