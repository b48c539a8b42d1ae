/** The long job of kills: `run-kills.ts [KILLS] [SEED] [COUNTERS]`; prints what was killed. */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { runKills } from './kills.ts';
import { writeStripped } from './stripped.ts';

const [kills = '2000', seed = '1', counters = 'pages'] = process.argv.slice(2);
const child = `${writeStripped()}/test/processes/child.mjs`;
const folder = mkdtempSync(`${tmpdir()}/monochord-kills-`);
const report = await runKills(child, `${folder}/file`, Number(kills), Number(seed), counters);
console.log(`kills             ${report.kills}`);
console.log(`  while opening   ${report.killedInOpen}`);
console.log(`commits           ${report.commits}`);
console.log('losses            0');
