/**
 * A child process that works until it is killed: `node child.mjs MODE PATH [COUNTERS]`.
 *
 *   commit  verifies, then commits for ever, with a line for each commit once it is durable
 *   once    opens, adds one commit, closes; says `locked PID` if it may not
 *   hold    opens and waits for a line on stdin; then ends without closing
 *   leave   opens, commits and has nothing left to do: the process must end by itself
 *   make    makes a file under the name that new files have first, and stops there
 *   fill    commits until the disk is full, then sees what still works
 */
import { readSync, writeSync } from 'node:fs';
import { DatabaseError } from '../../src/errors.ts';
import { NodeFileSystem } from '../../src/storage/node-file.ts';
import { type Counters, COUNTERS, verified } from './counters.ts';

const [mode, path, name = 'pages'] = process.argv.slice(2);
const open = (): Counters => COUNTERS[name]!(path!);

function say(text: string): void {
  writeSync(1, `${text}\n`);
}

function commitForEver(): void {
  say('opening');
  const counters = open();
  let n = verified(counters);
  say(`recovered ${n}`);
  for (;;) {
    counters.commit(++n);
    say(`committed ${n}`);
  }
}

function once(): void {
  try {
    const counters = open();
    const n = verified(counters);
    counters.commit(n + 1);
    counters.close();
    say(`committed ${n + 1}`);
  } catch (cause) {
    if (!(cause instanceof DatabaseError) || cause.code !== 'storage.locked') throw cause;
    say(`locked ${String(cause.detail['pid'])}`);
  }
}

function hold(): void {
  open();
  say(`holding ${process.pid}`);
  readSync(0, new Uint8Array(1));
  process.exit(0);
}

function leave(): void {
  const counters = open();
  counters.commit(verified(counters) + 1);
  say('left open');
}

/** Waits for ever where a new file would be given its name. */
class Waiting extends NodeFileSystem {
  override link(): boolean {
    say('made');
    readSync(0, new Uint8Array(1));
    return false;
  }
}

function make(): void {
  COUNTERS['pages']!(path!, new Waiting());
}

function fill(): void {
  const counters = open();
  let n = verified(counters);
  let code = 'none';
  const commits: string[] = [];
  for (let i = 0; i < 3000 && code === 'none'; i++) {
    try {
      counters.commit(n + 1);
      n++;
    } catch (cause) {
      if (!(cause instanceof DatabaseError)) throw cause;
      code = cause.code;
      commits.push(code);
    }
  }
  say(`full ${code} after ${n}`);
  try {
    counters.close();
    say('closed');
  } catch (cause) {
    say(`not closed: ${(cause as DatabaseError).code}`);
  }
}

switch (mode) {
  case 'commit':
    commitForEver();
    break;
  case 'once':
    once();
    break;
  case 'hold':
    hold();
    break;
  case 'leave':
    leave();
    break;
  case 'make':
    make();
    break;
  case 'fill':
    fill();
    break;
  default:
    throw new Error('usage: child.mjs commit|once|hold|leave|make|fill PATH [COUNTERS]');
}
