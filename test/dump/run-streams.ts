/**
 * The long job of dumps that are larger than memory: `run-streams.ts [MEGABYTES]`.
 *
 * A store several times the budget goes out and in again in each format, each in a process of its
 * own, and out again: the two texts must be equal. At the size given and at a quarter of it the
 * ledger's peak must be within the budget, and peak resident memory must not be more at the full
 * size than at the quarter, but for the allowance of law M1. The young generation of the heap,
 * where lines and records die, is held small: node would let it grow by 48 MiB with the time that a
 * process runs, whatever the program keeps.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dumpToFile, load } from '../../src/dump/index.ts';
import { open } from '../../src/index.ts';
import { fillStore, STREAM_CASES } from './streams.ts';

const MIB = 2 ** 20;
const BUDGET_BYTES = 16 * MIB;
const GROWTH_ALLOWANCE = 24 * MIB;
const YOUNG_GENERATION = '--max-semi-space-size=2';
const OPTIONS = { memory: BUDGET_BYTES, durability: 'buffered' } as const;

interface Peak {
  readonly ledgerBytes: number;
  readonly residentBytes: number;
  readonly cpuSeconds: number;
}

async function child(what: string, store: string, text: string, format: string): Promise<void> {
  const db = open(store, OPTIONS);
  const each = STREAM_CASES[format];
  if (what === 'fill') fillStore(db, Number(format));
  else if (what === 'dump') await dumpToFile(db, text, each!.dump);
  else await load(db, text, each!.load);
  const { peakBytes } = db.memory();
  db.close();
  const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage();
  const peak: Peak = {
    ledgerBytes: peakBytes,
    residentBytes: maxRSS * 1024,
    cpuSeconds: (userCPUTime + systemCPUTime) / 1e6,
  };
  console.log(JSON.stringify(peak));
}

let stripped = '';

function run(...args: readonly string[]): Peak {
  const script = `${stripped}/test/dump/run-streams.mjs`;
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [YOUNG_GENERATION, script, 'child', ...args],
    { encoding: 'utf8' },
  );
  if (status !== 0) throw new Error(`${args.join(' ')}: ${stderr.slice(-1500)}`);
  return JSON.parse(stdout) as Peak;
}

async function hashOf(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path)) hash.update(chunk as Uint8Array);
  return hash.digest('hex');
}

/** Peaks of dumping and loading a store in a format; the two texts must be equal. */
async function roundTrip(folder: string, format: string): Promise<[Peak, Peak, number]> {
  const [text, again, copy] = [`${folder}/text`, `${folder}/again`, `${folder}/copy`];
  const out = run('dump', `${folder}/store`, text, format);
  const back = run('load', copy, text, format);
  run('dump', copy, again, format);
  if ((await hashOf(text)) !== (await hashOf(again)))
    throw new Error(`${format}: dump, load, dump is not the same text`);
  const { size } = statSync(text);
  for (const path of [text, again, copy, `${copy}-log`]) rmSync(path, { force: true });
  return [out, back, size];
}

type Peaks = Map<string, Peak>;

/** Peaks of each format and way; the text of a dump of a store of so many bytes. */
async function measure(bytes: number): Promise<Peaks> {
  const folder = mkdtempSync(`${tmpdir()}/monochord-streams-`);
  const mib = (count: number): string => (count / MIB).toFixed(1).padStart(6);
  const peaks: Peaks = new Map();
  try {
    run('fill', `${folder}/store`, '-', String(bytes));
    for (const format of Object.keys(STREAM_CASES)) {
      const [out, back, size] = await roundTrip(folder, format);
      for (const [way, peak] of Object.entries({ out, in: back })) {
        const name = `${format.padEnd(12)} ${way.padEnd(3)}`;
        peaks.set(name, peak);
        const { ledgerBytes, residentBytes, cpuSeconds } = peak;
        const speed = (size / 1e6 / cpuSeconds).toFixed(0).padStart(3);
        console.log(
          `${name} text ${mib(size)} MiB  ledger ${mib(ledgerBytes)}  ` +
            `resident ${mib(residentBytes)}  ${speed} MB/s CPU, start of the process included`,
        );
      }
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return peaks;
}

function verdicts(small: Peaks, large: Peaks): boolean {
  let holds = true;
  for (const [name, { ledgerBytes, residentBytes }] of large) {
    const growth = residentBytes - small.get(name)!.residentBytes;
    const isWithin = growth <= GROWTH_ALLOWANCE && ledgerBytes <= BUDGET_BYTES;
    holds &&= isWithin;
    const more = (growth / MIB).toFixed(1).padStart(6);
    const verdict = isWithin ? 'holds' : 'BROKEN';
    console.log(`${name} ${more} MiB more resident at four times the size  ${verdict}`);
  }
  return holds;
}

const [first = '128', ...rest] = process.argv.slice(2);
if (first === 'child') {
  const [what, store, text, format] = rest;
  await child(what!, store!, text!, format!);
} else {
  const { writeStripped } = await import('../processes/stripped.ts');
  stripped = writeStripped('test/dump');
  const bytes = Number(first) * MIB;
  console.log(`budget ${BUDGET_BYTES / MIB} MiB; a collection and a bucket of records`);
  const holds = verdicts(await measure(bytes / 4), await measure(bytes));
  rmSync(stripped, { recursive: true, force: true });
  if (!holds) process.exitCode = 1;
}
