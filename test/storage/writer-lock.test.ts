/** The writer lock: one writer of all handles, threads and processes; stale lock files; no loss. */
import { spawn, spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { Worker } from 'node:worker_threads';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DatabaseError } from '../../src/errors.ts';
import { NodeFileSystem } from '../../src/storage/node-file.ts';
import { socketName } from '../../src/storage/writer-lock.ts';
import { type Storage } from '../../src/storage/storage.ts';
import { writeStripped } from '../processes/stripped.ts';
import { codeOf, commitNew, open } from '../support/small-storage.ts';

const files = new NodeFileSystem();
let stripped = '';
let folder = '';
let next = 0;

beforeAll(() => {
  stripped = writeStripped();
  folder = mkdtempSync(`${tmpdir()}/monochord-lock-`);
});

afterAll(() => {
  for (const each of [stripped, folder]) rmSync(each, { recursive: true, force: true });
});

function newPath(): string {
  return `${folder}/file-${++next}`;
}

function openAt(path: string, readOnly = false): Storage {
  return open(files, { path, readOnly });
}

const childPath = (): string => `${stripped}/test/processes/child.mjs`;

/** Opens a file in a child and keeps it open while `run` runs. */
async function whileHeld(path: string, run: (pid: number) => void): Promise<void> {
  const child = spawn(process.execPath, [childPath(), 'hold', path]);
  const line = await new Promise<string>((resolve) => {
    child.stdout.once('data', (chunk: Buffer) => resolve(chunk.toString()));
  });
  try {
    run(Number(line.split(' ')[1]));
  } finally {
    child.kill('SIGKILL');
    await new Promise((resolve) => child.once('close', resolve));
  }
}

function refusalOf(path: string): DatabaseError {
  try {
    openAt(path).close();
  } catch (cause) {
    if (cause instanceof DatabaseError) return cause;
    throw cause;
  }
  throw new Error('it was opened');
}

describe('NodeFileSystem.lock', { timeout: 60_000 }, () => {
  test('two opens in a process: the second is refused until the first is closed', () => {
    const path = newPath();
    const first = openAt(path);
    const refusal = refusalOf(path);
    expect(refusal.code).toBe('storage.locked');
    expect(refusal.detail['pid']).toBe(process.pid);
    expect(refusal.message).toContain('in this process');
    commitNew(first, 1, 1);
    first.close();
    openAt(path).close();
    expect(existsSync(`${path}-lock`)).toBe(false);
  });

  test('another process is refused and told the pid, until that process dies', async () => {
    const path = newPath();
    await whileHeld(path, (pid) => {
      const refusal = refusalOf(path);
      expect(refusal.code).toBe('storage.locked');
      expect(refusal.detail['pid']).toBe(pid);
      expect(refusal.message).toContain(String(pid));
      expect(files.lockHolder(path)).toBe(pid);
      openAt(path, true).close(); // readers need no lock
    });
    expect(existsSync(`${path}-lock`), 'it died without taking it away').toBe(true);
    expect(files.lockHolder(path)).toBeUndefined();
    openAt(path).close();
  });

  test('a file under another name is the same file', async () => {
    const path = newPath();
    openAt(path).close();
    symlinkSync(path, `${path}-link`);
    await whileHeld(path, (pid) => {
      expect(refusalOf(`${path}-link`).code).toBe('storage.locked');
      expect(files.lockHolder(`${path}-link`)).toBe(pid);
    });
  });

  test('the log of a file lies beside it, by whichever name it was opened', () => {
    const path = newPath();
    mkdirSync(`${path}-folder`);
    symlinkSync(path, `${path}-folder/link`);
    openAt(path).close();
    const one = openAt(`${path}-folder/link`);
    commitNew(one, 1, 1);
    expect(one.path).toBe(path);
    expect(existsSync(`${path}-log`)).toBe(true);
    expect(existsSync(`${path}-folder/link-log`)).toBe(false);
    one.abandon(); // as if it had been killed
    const other = openAt(path);
    expect(other.counters.recoveredCommits).toBe(1);
    other.close();
  });

  test('a link to nothing, to a folder, or in a circle is named as what it is', () => {
    const path = newPath();
    symlinkSync(`${path}-nothing`, `${path}-dangling`);
    symlinkSync(folder, `${path}-to-folder`);
    symlinkSync(`${path}-circle`, `${path}-circle`);
    for (const readOnly of [false, true]) {
      expect(codeOf(() => openAt(`${path}-dangling`, readOnly))).toBe('storage.not_found');
      expect(codeOf(() => openAt(`${path}-to-folder`, readOnly))).toBe('storage.not_a_database');
      expect(codeOf(() => openAt(`${path}-circle`, readOnly))).toBe('storage.io');
    }
    expect(existsSync(`${path}-nothing`)).toBe(false);
    openAt(`${path}-to-folder/made-there`).close();
    expect(existsSync(`${folder}/made-there`)).toBe(true);
  });

  test('what a process left that was killed making a file goes with the next open', async () => {
    const path = newPath();
    const child = spawn(process.execPath, [childPath(), 'make', path]);
    await new Promise((resolve) => child.stdout.once('data', resolve));
    const made = (): string[] => readdirSync(folder).filter((name) => name.includes('-new-'));
    expect(made()).toHaveLength(1);
    openAt(path).close();
    expect(made(), 'its process is alive').toHaveLength(1);
    child.kill('SIGKILL');
    await new Promise((resolve) => child.once('close', resolve));
    openAt(path).close();
    expect(made()).toEqual([]);
  });

  test('a worker thread is another opener', async () => {
    const path = newPath();
    const storage = openAt(path);
    const inWorker = (): Promise<string> =>
      new Promise((resolve, reject) => {
        const worker = new Worker(childPath(), { argv: ['once', path], stdout: true });
        let text = '';
        worker.on('message', (line: string) => (text += line));
        worker.on('error', reject);
        worker.on('exit', () => resolve(text));
      });
    // The child writes to the standard output of the process; its answer is in the file.
    await inWorker();
    expect(storage.commitId, 'the worker was refused').toBe(0);
    storage.close();
    await inWorker();
    const after = openAt(path);
    expect(after.commitId).toBeGreaterThan(0);
    after.close();
  });

  test('two processes in a loop never write at once: no commit is lost', async () => {
    const path = newPath();
    const commits: number[] = [];
    let refused = 0;
    const loop = async (): Promise<void> => {
      for (let i = 0; i < 5; i++) {
        const said = await new Promise<string>((resolve) => {
          const child = spawn(process.execPath, [childPath(), 'once', path]);
          let text = '';
          child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
          child.stderr.on('data', (chunk: Buffer) => (text += chunk.toString()));
          child.on('close', () => resolve(text));
        });
        const committed = /^committed (\d+)\n$/.exec(said)?.[1];
        if (committed !== undefined) commits.push(Number(committed));
        else if (said.startsWith('locked ')) refused++;
        else throw new Error(said);
      }
    };
    await Promise.all([loop(), loop()]);
    expect(commits.length + refused).toBe(10);
    expect(commits.sort((a, b) => a - b)).toEqual(commits.map((_, i) => i + 1));
  });

  test('several processes that create one database at once share one', async () => {
    for (let round = 0; round < 2; round++) {
      const path = newPath();
      const children = Array.from({ length: 4 }, () =>
        spawn(process.execPath, [childPath(), 'once', path]),
      );
      const said = await Promise.all(
        children.map(
          (child) =>
            new Promise<string>((resolve) => {
              let text = '';
              child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
              child.stderr.on('data', (chunk: Buffer) => (text += chunk.toString()));
              child.on('close', () => resolve(text));
            }),
        ),
      );
      const committed = said.filter((text) => text.startsWith('committed'));
      expect(said.filter((text) => !/^(committed|locked)/.test(text))).toEqual([]);
      const last = spawnSync(process.execPath, [childPath(), 'once', path], { encoding: 'utf8' });
      expect(last.stdout).toBe(`committed ${committed.length + 1}\n`);
    }
  });

  const boot = '/proc/sys/kernel/random/boot_id';
  const bootId = existsSync(boot) ? readFileSync(boot, 'latin1').trim() : '';
  test.each([
    ['of a dead process', `4194200\n1234\n${bootId}\n`],
    ['of another boot', `1\n1\n00000000-0000-0000-0000-000000000000\n`],
    ['of a process that has the pid now', `1\n99999999999\n${bootId}\n`],
    ['that is empty', ''],
    ['of rubbish', 'what\nis\nthis'],
    ['with a pid below 0', `-1\n1\n${bootId}\n`],
  ])('a stale lock file %s is taken over', (_, text) => {
    const path = newPath();
    openAt(path).close();
    writeFileSync(`${path}-lock`, text);
    expect(files.lockHolder(path)).toBeUndefined();
    const storage = openAt(path);
    expect(files.lockHolder(path)).toBe(process.pid);
    storage.close();
    expect(existsSync(`${path}-lock`)).toBe(false);
  });

  test('a socket has a name where the system has sockets without files', () => {
    const path = newPath();
    openAt(path).close();
    expect(socketName(path, 'linux')).toMatch(/^\0monochord-\d+-\d+$/);
    expect(socketName(path, 'win32')).toMatch(/^\\\\\.\\pipe\\monochord-\d+-\d+$/);
    expect(socketName(path, 'darwin')).toBeUndefined();
  });

  test.runIf(process.platform === 'linux')(
    'the name is the same by a handle or a server',
    async () => {
      const path = newPath();
      openAt(path).close();
      const listen = (): Promise<net.Server | string> =>
        new Promise((resolve) => {
          const server = net.createServer();
          server.once('error', (cause) => resolve((cause as { code?: string }).code ?? ''));
          server.listen(socketName(path, 'linux'), () => resolve(server));
        });
      const storage = openAt(path);
      expect(await listen()).toBe('EADDRINUSE');
      storage.close();
      const server = (await listen()) as net.Server;
      expect(codeOf(() => openAt(path))).toBe('storage.locked');
      await new Promise((resolve) => server.close(resolve));
      openAt(path).close();
    },
  );

  test.each(['true', 'undefined', '() => ({})'])(
    'a process whose process.binding is %s locks as well',
    async (binding) => {
      const path = newPath();
      const preload = `data:text/javascript,process.binding=${binding}`;
      const once = (): string => {
        const args = ['--import', preload, childPath(), 'once', path];
        return spawnSync(process.execPath, args, { encoding: 'utf8' }).stdout;
      };
      expect(once()).toBe('committed 1\n');
      await whileHeld(path, (pid) => expect(once()).toBe(`locked ${pid}\n`));
      const storage = openAt(path);
      expect(once()).toBe(`locked ${process.pid}\n`);
      storage.close();
    },
  );

  test('without sockets the lock file decides, between handles and processes', async () => {
    const darwin = new NodeFileSystem('darwin');
    const path = newPath();
    const first = open(darwin, { path });
    expect(codeOf(() => open(darwin, { path }))).toBe('storage.locked');
    const env = { ...process.env, MONOCHORD_TEST_PLATFORM: 'darwin' };
    const once = (): Promise<string> =>
      new Promise((resolve) => {
        const child = spawn(process.execPath, [childPath(), 'once', path], { env });
        let text = '';
        child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
        child.stderr.on('data', (chunk: Buffer) => (text += chunk.toString()));
        child.on('close', () => resolve(text));
      });
    expect(await once()).toBe(`locked ${process.pid}\n`);
    first.close();
    // Several at once over a stale lock file: one at a time, none is lost.
    writeFileSync(`${path}-lock`, `4194200\n1234\n${bootId}\n`);
    writeFileSync(`${path}-lock-takeover`, '4194200.1234'); // it died taking the lock over
    const said = await Promise.all([once(), once(), once(), once()]);
    const committed = said.filter((text) => text.startsWith('committed'));
    expect(said.filter((text) => !/^(committed|locked)/.test(text))).toEqual([]);
    expect(committed.length).toBeGreaterThan(0);
    expect(await once()).toBe(`committed ${committed.length + 1}\n`);
    expect(existsSync(`${path}-lock`)).toBe(false);
    expect(existsSync(`${path}-lock-takeover`)).toBe(false);
  });

  test('a lock is given back when opening fails', () => {
    const path = newPath();
    writeFileSync(path, 'this is no database, though it is long enough to look at'.repeat(200));
    expect(codeOf(() => openAt(path))).toBe('storage.not_a_database');
    expect(existsSync(`${path}-lock`)).toBe(false);
    expect(codeOf(() => openAt(path))).toBe('storage.not_a_database');
  });

  test('a folder, a missing folder and a special file are named as what they are', () => {
    expect(codeOf(() => openAt(folder))).toBe('storage.not_a_database');
    expect(codeOf(() => openAt(folder, true))).toBe('storage.not_a_database');
    expect(codeOf(() => openAt(`${folder}/missing/file`))).toBe('storage.not_found');
    expect(codeOf(() => openAt(`${folder}/nothing`, true))).toBe('storage.not_found');
    expect(codeOf(() => openAt('/dev/null'))).toBe('storage.not_a_database');
  });
});
