/** Dumps as texts, and loads of texts, for tests. */
import { dump, load, type DumpOptions, type LoadOptions } from '../../src/dump/index.ts';
import { DatabaseError, open, type Database } from '../../src/index.ts';

export async function textOf(db: Database, options: Partial<DumpOptions> = {}): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of dump(db, { format: 'monochord', ...options })) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

/** The bytes of a text in pieces, so that lines and characters are cut anywhere. */
export function* pieces(text: string | Uint8Array, bytes = 7): Generator<Uint8Array> {
  const all = typeof text === 'string' ? Buffer.from(text) : text;
  for (let at = 0; at < all.length; at += bytes) yield new Uint8Array(all.subarray(at, at + bytes));
}

export async function loaded(
  db: Database,
  text: string | Uint8Array,
  options: Partial<LoadOptions> = {},
): Promise<number> {
  const report = await load(db, pieces(text, Math.max(7, text.length >> 8)), {
    format: 'monochord',
    name: 'text',
    ...options,
  });
  return report.records;
}

/** The error of a load that must fail, after it is seen that nothing is there. */
export async function refusal(
  text: string | Uint8Array,
  options: Partial<LoadOptions> = {},
): Promise<DatabaseError> {
  const db = open(':memory:');
  try {
    await loaded(db, text, options);
  } catch (cause) {
    if (!(cause instanceof DatabaseError)) throw cause;
    const snapshot = db.snapshot();
    const { collections } = snapshot.schema();
    snapshot.close();
    if (collections.length > 0) throw new Error('half of it was loaded', { cause });
    return cause;
  } finally {
    db.close();
  }
  throw new Error('it was loaded');
}
