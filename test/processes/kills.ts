/**
 * Kills: a child commits and says so, the parent kills it at a random moment, also while it opens
 * and recovers; the next child must find what was said, and no more than one commit beyond it.
 */
import { spawn } from 'node:child_process';
import { Random } from '../../src/base/random.ts';

export interface KillsReport {
  kills: number;
  /** Killed while the child opened: almost always inside recovery. */
  killedInOpen: number;
  commits: number;
}

/** What one child said before it ended. */
interface Said {
  readonly recovered: number | undefined;
  readonly committed: number;
  readonly errors: string;
}

/** Runs a child and kills it `delayMs` after it began to open, or after it had opened. */
function killedChild(args: readonly string[], inOpen: boolean, delayMs: number): Promise<Said> {
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let text = '';
  let errors = '';
  let timer: NodeJS.Timeout | undefined;
  const kill = (): void => void (timer ??= setTimeout(() => child.kill('SIGKILL'), delayMs));
  child.stdout.on('data', (chunk: Buffer) => {
    text += chunk.toString();
    if (inOpen || text.includes('recovered')) kill();
  });
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  return new Promise((resolve) => {
    child.on('close', () => {
      clearTimeout(timer);
      const numbers = [...text.matchAll(/^committed (\d+)\n/gm)].map((match) => Number(match[1]));
      const recovered = /^recovered (\d+)\n/m.exec(text)?.[1];
      resolve({
        recovered: recovered === undefined ? undefined : Number(recovered),
        committed: numbers.at(-1) ?? 0,
        errors,
      });
    });
  });
}

/**
 * Kills `count` children over one database.
 *
 * @throws what a child found wrong, with the ordinal of the kill.
 */
export async function runKills(
  childPath: string,
  databasePath: string,
  count: number,
  seed: number,
  counters = 'pages',
): Promise<KillsReport> {
  const random = new Random(seed);
  const report: KillsReport = { kills: 0, killedInOpen: 0, commits: 0 };
  let acknowledged = 0;
  while (report.kills < count) {
    const inOpen = random.chance(0.3);
    const delayMs = random.below(inOpen ? random.pick([3, 15]) : random.pick([3, 30, 100]));
    const args = [childPath, 'commit', databasePath, counters];
    const said = await killedChild(args, inOpen, delayMs);
    report.kills++;
    const where = `kill ${report.kills} of seed ${seed}`;
    if (said.errors !== '') throw new Error(`${where}: ${said.errors}`);
    if (said.recovered === undefined) {
      report.killedInOpen++;
      continue;
    }
    const isRight = said.recovered === acknowledged || said.recovered === acknowledged + 1;
    if (!isRight) {
      throw new Error(`${where}: commit ${acknowledged} was said, ${said.recovered} was found`);
    }
    report.commits += Math.max(0, said.committed - said.recovered);
    acknowledged = Math.max(said.recovered, said.committed);
  }
  return report;
}
