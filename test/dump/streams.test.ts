/**
 * Dumps and loads stream: wherever the text is, live memory is what the ledger charges and the
 * allowance of law M1, though text and store are several times the budget. Peaks of processes with
 * larger stores are in the long job `dump-streams`.
 */
import { closeSync, createReadStream, openSync, statSync, writeSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { setVerifying } from '../../src/base/assert.ts';
import type { Database } from '../../src/database.ts';
import { dump, load } from '../../src/dump/index.ts';
import { newFolder, openPath } from '../database/open-database.ts';
import { fillStore, STREAM_CASES } from './streams.ts';

const MIB = 2 ** 20;
const BUDGET = { memory: '2 MiB', pageSize: 4096, durability: 'none' } as const;
const TEXT_BYTES = 8 * MIB;
/** Law M1: what may live beside what is charged. */
const LIVE_ALLOWANCE = 4 * MIB;
/** Chunks between two looks at live memory: a collection takes tens of milliseconds. */
const LOOK_BYTES = 2 * MIB;

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

function liveBytes(): number {
  collect();
  collect(); // V8 of Node 24 counts array buffers of the dead until the next collection begins
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** Passes chunks on and looks at live memory between them. */
class Watch {
  peakBytes = -Infinity;
  looks = 0;
  readonly #db: Database;
  readonly #before: number;
  #bytes = 0;

  constructor(db: Database) {
    this.#db = db;
    this.#before = liveBytes() - db.memory().usedBytes;
  }

  async *pass(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of chunks) {
      this.#bytes += chunk.length;
      if (this.#bytes > LOOK_BYTES) this.#look();
      yield chunk;
    }
  }

  #look(): void {
    this.#bytes = 0;
    this.looks++;
    const kept = liveBytes() - this.#before - this.#db.memory().usedBytes;
    this.peakBytes = Math.max(this.peakBytes, kept);
  }
}

const folder = newFolder();

describe('text and store larger than the budget', { timeout: 60_000 }, () => {
  beforeAll(() => {
    setVerifying(false); // its copies and checks are memory of their own
    const filled = openPath(`${folder}/store`, BUDGET);
    fillStore(filled, TEXT_BYTES);
    filled.close();
  });
  afterAll(() => setVerifying(true));

  test.each(Object.keys(STREAM_CASES))('%s streams out and in', async (name) => {
    const format = STREAM_CASES[name]!;
    const path = `${folder}/${name}`;
    const db = openPath(`${folder}/store`, BUDGET);
    const out = new Watch(db);
    const file = openSync(path, 'w');
    let chunkBytesMax = 0;
    for await (const chunk of out.pass(dump(db, format.dump))) {
      chunkBytesMax = Math.max(chunkBytesMax, chunk.length);
      writeSync(file, chunk);
    }
    closeSync(file);
    db.close();
    expect(statSync(path).size).toBeGreaterThan(0.7 * TEXT_BYTES);
    expect(chunkBytesMax).toBeLessThan(MIB / 4);
    expect(out.looks).toBeGreaterThan(1);
    expect(out.peakBytes).toBeLessThan(LIVE_ALLOWANCE);

    const copy = openPath(`${folder}/copy-${name}`, BUDGET);
    const back = new Watch(copy);
    const { signal } = new AbortController(); // as the command line has one, for Ctrl-C
    const source = back.pass(createReadStream(path));
    const { records } = await load(copy, source, { ...format.load, signal });
    expect(records).toBeGreaterThan(TEXT_BYTES / 300);
    expect(back.looks).toBeGreaterThan(1);
    expect(back.peakBytes).toBeLessThan(LIVE_ALLOWANCE);
    expect(copy.memory().peakBytes).toBeLessThanOrEqual(2 * MIB);
  });
});
