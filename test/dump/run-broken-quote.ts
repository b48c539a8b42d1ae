/**
 * The long job of a broken CSV: `run-broken-quote.ts [LINE] [LINES]`, after a build. `monochord
 * load` reads files whose quote breaks at line 4,000,000 into a collection that holds records. The
 * error must name file, line and column, nothing of the file may be loaded, nothing may be left
 * beside the store, and peak resident memory is printed and bounded.
 */
import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { open } from '../../src/index.ts';

const MIB = 2 ** 20;
const BUDGET_MIB = 16;
/** The program and the young generation of its heap, beside the budget. */
const RESIDENT_MIB_MAX = BUDGET_MIB + 160;
const LINES_A_WRITE = 10_000;
const RECORDS_BEFORE = 1000;
const DECLARATION = { fields: { id: 'int', t: 'text?' }, key: 'id' } as const;

const [line = 4_000_000, lines = 4_500_000] = process.argv.slice(2).map(Number);
const cli = fileURLToPath(new URL('../../dist/cli.js', import.meta.url));
const folder = fs.mkdtempSync(`${tmpdir()}/monochord-quote-`);
const store = `${folder}/store.mono`;
const column = String(line).length + 2;

/** The field of the broken line, where the error is, and what it says. */
const BREAKS: readonly (readonly [string, number, string])[] = [
  ['"open', column, 'the quote that opens here'],
  ['"closed" more', column + 8, '" " stands behind a closing quote'],
  ['not "quoted"', column + 4, 'a quote stands inside a field'],
];

function writeCsv(path: string, field: string): void {
  const file = fs.openSync(path, 'w');
  fs.writeSync(file, 'id,t\n');
  for (let from = 2; from <= lines; from += LINES_A_WRITE) {
    let text = '';
    for (let at = from; at < Math.min(from + LINES_A_WRITE, lines + 1); at++)
      text += `${at},${at === line ? field : 'a field of text'}\n`;
    fs.writeSync(file, text);
  }
  fs.closeSync(file);
}

/** Loads a file that must be refused; answers what was said and the peak resident memory. */
function load(path: string): { said: string; residentMiB: number; seconds: number } {
  const peak = `${folder}/peak`;
  const watch = `${folder}/watch.mjs`;
  fs.writeFileSync(
    watch,
    `import fs from 'node:fs';
     process.on('exit', () => fs.writeFileSync(${JSON.stringify(peak)},
       String(process.resourceUsage().maxRSS)));`,
  );
  const args = ['load', store, path, '--format', 'csv', '--into', 'c'];
  const started = Date.now();
  const { status, stderr } = spawnSync(
    process.execPath,
    ['--import', watch, cli, ...args, '--memory', `${BUDGET_MIB} MiB`],
    { encoding: 'utf8' },
  );
  if (status !== 1) throw new Error(`exit code ${status}: ${stderr}`);
  const residentMiB = Number(fs.readFileSync(peak, 'utf8')) / 1024;
  return { said: stderr.trim(), residentMiB, seconds: (Date.now() - started) / 1000 };
}

function requireUnchanged(): void {
  const db = open(store);
  const { faults } = db.check();
  const count = db.collection('c', DECLARATION).count();
  db.close();
  if (faults.length > 0) throw new Error(`check finds ${JSON.stringify(faults)}`);
  if (count !== RECORDS_BEFORE) throw new Error(`${count} records instead of ${RECORDS_BEFORE}`);
  const left = fs.readdirSync(folder).filter((name) => name.startsWith('store'));
  if (left.some((name) => !/^store\.mono(?:-log)?$/.test(name)))
    throw new Error(`left behind: ${left.join(', ')}`);
}

try {
  const db = open(store);
  const before = Array.from({ length: RECORDS_BEFORE }, (_, i) => ({ id: -1 - i, t: 'before' }));
  db.collection('c', DECLARATION).insertMany(before);
  db.close();
  for (const [i, [field, at, words]] of BREAKS.entries()) {
    const path = `${folder}/broken-${i}.csv`;
    writeCsv(path, field);
    const bytes = fs.statSync(path).size;
    const { said, residentMiB, seconds } = load(path);
    fs.rmSync(path);
    requireUnchanged();
    const mib = (bytes / MIB).toFixed(0);
    console.log(`${said.replaceAll(`${folder}/`, '')}`);
    console.log(
      `  ${lines} lines, ${mib} MiB, budget ${BUDGET_MIB} MiB: peak resident ` +
        `${residentMiB.toFixed(0)} MiB, ${seconds.toFixed(0)} s; ` +
        `${RECORDS_BEFORE} records as before, check finds nothing`,
    );
    if (!said.includes(`broken-${i}.csv:${line}:${at}: ${words}`))
      throw new Error('the place is not named');
    if (residentMiB > RESIDENT_MIB_MAX) throw new Error('memory is not bounded');
  }
} finally {
  fs.rmSync(folder, { recursive: true, force: true });
}
