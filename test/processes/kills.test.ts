/** Real processes: killed while they acknowledge commits, and a disk that is really full. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { runKills } from './kills.ts';
import { writeStripped } from './stripped.ts';

let stripped = '';
let folder = '';

beforeAll(() => {
  stripped = writeStripped();
  folder = mkdtempSync(`${tmpdir()}/monochord-processes-`);
});

afterAll(() => {
  for (const each of [stripped, folder]) rmSync(each, { recursive: true, force: true });
});

function child(mode: string, file: string, before: readonly string[] = []): string {
  const command = [...before, process.execPath, `${stripped}/test/processes/child.mjs`, mode];
  const [program, ...args] = [...command, `${folder}/${file}`];
  const run = spawnSync(program!, args, { encoding: 'utf8', timeout: 50_000 });
  return run.stdout + run.stderr;
}

describe('a process', { timeout: 120_000 }, () => {
  test('that is killed while it commits loses nothing that it acknowledged', async () => {
    const path = `${folder}/kills`;
    const report = await runKills(`${stripped}/test/processes/child.mjs`, path, 10, 1);
    expect(report.kills).toBe(10);
    expect(report.commits).toBeGreaterThan(0);
  });

  test('that ends without closing leaves a file that recovers, and no lock', () => {
    expect(child('leave', 'left')).toBe('left open\n');
    expect(child('once', 'left')).toBe('committed 2\n');
    expect(child('leave', 'left')).toBe('left open\n');
    expect(child('once', 'left')).toBe('committed 4\n');
  });

  test.runIf(process.platform === 'linux')('meets the limit of a file size as a full disk', () => {
    const said = child('fill', 'limited', ['prlimit', '--fsize=3000000']);
    expect(said).toMatch(/^full storage\.full after \d+\n(closed|not closed: storage\.full)\n$/);
    const last = Number(/after (\d+)/.exec(said)![1]);
    expect(child('once', 'limited'), 'with room again').toBe(`committed ${last + 1}\n`);
  });

  const hasMount = ((): boolean => {
    try {
      execFileSync('unshare', ['-m', 'true'], { stdio: 'ignore' });
      return true;
    } catch {
      return false; // not allowed here: the limit of a file size stands for it
    }
  })();

  test.runIf(hasMount)('on a full tmpfs goes on reading, and loses nothing', () => {
    const script =
      `mount -t tmpfs -o size=3m none ${folder}/small && ` +
      `N="${process.execPath} ${stripped}/test/processes/child.mjs" && ` +
      `$N fill ${folder}/small/file && mount -o remount,size=30m ${folder}/small && ` +
      `$N once ${folder}/small/file && umount ${folder}/small`;
    execFileSync('mkdir', ['-p', `${folder}/small`]);
    const run = spawnSync('unshare', ['-m', 'sh', '-c', script], { encoding: 'utf8' });
    expect(run.stderr).toBe('');
    const [full, , after] = run.stdout.split('\n');
    expect(full).toMatch(/^full storage\.full after \d+$/);
    expect(after).toBe(`committed ${Number(full!.split(' ').at(-1)) + 1}`);
  });

  test('writes a file that a clean close leaves without a log', () => {
    expect(child('once', 'clean')).toBe('committed 1\n');
    expect(statSync(`${folder}/clean-log`).size).toBe(0);
  });
});
