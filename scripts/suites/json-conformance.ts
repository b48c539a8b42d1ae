/**
 * JSON texts that must parse (`y_`), must be refused (`n_`), or may be either (`i_`, and those of
 * `test_transform`). A case is a file; a text that parses is stored, read back and written again.
 *
 * A name that stands twice in an object is grammatical: the suite reads with the last one counting,
 * which loads do by option only.
 */
import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { dump, parseJsonBytes } from '../../src/dump/index.ts';
import { DatabaseError, open, type Value } from '../../src/index.ts';
import { failed, filesUnder, PASSED, type Suite, type Verdict } from './suite.ts';

const PLACE = { file: 'text', line: 1, column: 1 };

function parse(bytes: Uint8Array): Value {
  return parseJsonBytes(bytes, PLACE, { duplicateNames: 'last' });
}

/** Stores a value and answers the JSON text of what is read. */
async function stored(value: Value): Promise<string> {
  const db = open(':memory:');
  try {
    db.kv('values').put('it', [value]); // a bucket holds no null
    let text = '';
    for await (const chunk of dump(db, { format: 'jsonl' })) text += Buffer.from(chunk).toString();
    return text;
  } finally {
    db.close();
  }
}

async function verdictOf(path: string): Promise<Verdict> {
  const expected = /^[yn](?=_)/.exec(basename(path))?.[0];
  let value: Value;
  try {
    value = parse(readFileSync(path));
  } catch (cause) {
    if (!(cause instanceof DatabaseError)) return failed('throws an error of no class');
    if (expected === 'y') return failed('is refused and must parse', cause.message);
    const { position } = cause;
    return position === undefined ? failed('is refused without a place') : PASSED;
  }
  if (expected === 'n') return failed('parses and must be refused');
  const text = await stored(value);
  const again = (parse(Buffer.from(text)) as { value: readonly [Value] }).value[0];
  return (await stored(again)) === text ? PASSED : failed('changes when it is stored');
}

export const suite: Suite = {
  about: 'a case is a JSON text that must parse, must be refused, or may be either',
  *cases(folder) {
    for (const name of filesUnder(folder)) {
      if (!name.endsWith('.json')) continue;
      yield { name, run: () => verdictOf(join(folder, name)) };
    }
  },
};
