/**
 * The lock of the one writer process (STORAGE rule 24).
 *
 * On Linux an abstract socket named after the file's device and inode decides: binding is atomic
 * and the kernel frees the name when the process dies, however it dies. On Windows a named pipe
 * does the same. Elsewhere, and beside the socket for anyone who looks, a lock file says who: pid,
 * start time of the process, boot id. A lock file whose process is gone is stale and is taken over
 * by renaming it away, then verified; the socket makes takeover races harmless where it exists.
 */
import * as fs from 'node:fs';
import type * as net from 'node:net';
import { failure } from '../errors.ts';
import { type Lock } from './file.ts';

interface Holder {
  readonly pid: number;
  readonly started: string;
  readonly boot: string;
}

/** Start time of a process in clock ticks since boot, so that a reused pid is not taken for it. */
function startOf(pid: number): string {
  try {
    const stat = fs.readFileSync(`/proc/${pid}/stat`, 'latin1');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? '';
  } catch {
    return ''; // no such process, or no /proc: the pid alone has to do
  }
}

function bootId(): string {
  try {
    return fs.readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim();
  } catch {
    return ''; // no /proc: start times are not compared across boots there
  }
}

function isAlive(holder: Holder): boolean {
  if (holder.boot !== bootId()) return false;
  try {
    process.kill(holder.pid, 0);
  } catch (cause) {
    return (cause as { code?: string }).code === 'EPERM';
  }
  return holder.started === '' || holder.started === startOf(holder.pid);
}

function lockPath(filePath: string): string {
  return `${filePath}-lock`;
}

function readHolder(filePath: string): Holder | undefined {
  try {
    const [pid, started, boot] = fs.readFileSync(lockPath(filePath), 'latin1').split('\n');
    const number = Number(pid);
    if (!Number.isSafeInteger(number) || number <= 0) return undefined;
    return { pid: number, started: started ?? '', boot: boot ?? '' };
  } catch {
    return undefined; // no lock file
  }
}

/** Pid of the living process that holds the lock of a file. */
export function holderOf(filePath: string): number | undefined {
  let real: string;
  try {
    real = fs.realpathSync(filePath);
  } catch {
    return undefined; // there is no such file
  }
  const holder = readHolder(real);
  return holder !== undefined && isAlive(holder) ? holder.pid : undefined;
}

function socketName(filePath: string): string | undefined {
  const stat = fs.statSync(filePath, { bigint: true });
  const name = `monochord-${stat.dev}-${stat.ino}`;
  if (process.platform === 'linux') return `\0${name}`;
  if (process.platform === 'win32') return `\\\\.\\pipe\\${name}`;
  return undefined;
}

function lockedFailure(filePath: string): Error {
  const pid = readHolder(filePath)?.pid;
  const who = pid === undefined ? 'another process' : pid === process.pid ? 'this process' : 'pid';
  const whom = who === 'pid' ? `process ${pid}` : who;
  return failure('storage.locked', `${filePath} is open for writing in ${whom}`, {
    detail: { path: filePath, pid },
  });
}

/** Loaded when the first file is opened for writing: importing the package does not need it. */
function loadNet(): typeof net {
  return process.getBuiltinModule('node:net');
}

/** Binds the socket; `undefined` where this system has none. */
function bind(filePath: string): net.Server | undefined {
  const name = socketName(filePath);
  if (name === undefined) return undefined;
  const server = loadNet().createServer((connection) => connection.destroy());
  server.on('error', () => undefined); // the outcome is read from `listening` below
  server.listen({ path: name, exclusive: true });
  if (!server.listening) throw lockedFailure(filePath);
  server.unref();
  return server;
}

const heldHere = new Set<string>();

function writeLockFile(filePath: string, socketHeld: boolean): void {
  const text = `${process.pid}\n${startOf(process.pid)}\n${bootId()}\n`;
  const mine = `${lockPath(filePath)}-${process.pid}`;
  fs.writeFileSync(mine, text);
  try {
    for (let attempt = 0; attempt < 3; attempt++) {
      try {
        fs.linkSync(mine, lockPath(filePath));
        return;
      } catch (cause) {
        const code = (cause as { code?: string }).code;
        if (code !== 'EEXIST') {
          fs.renameSync(mine, lockPath(filePath)); // no links here: the file only says who
          return;
        }
      }
      const holder = readHolder(filePath);
      const another = holder !== undefined && (!socketHeld || holder.pid !== process.pid);
      if (another && isAlive(holder)) {
        throw lockedFailure(filePath);
      }
      const stale = `${lockPath(filePath)}-stale-${process.pid}`;
      try {
        fs.renameSync(lockPath(filePath), stale);
        fs.rmSync(stale, { force: true });
      } catch (cause) {
        if ((cause as { code?: string }).code !== 'ENOENT') throw cause;
      }
    }
    throw lockedFailure(filePath);
  } finally {
    fs.rmSync(mine, { force: true });
  }
}

/**
 * Takes the writer lock of a file.
 *
 * @throws {StorageError} storage.locked naming the holder's pid.
 */
export function takeLock(filePath: string): Lock {
  const real = fs.realpathSync(filePath);
  if (heldHere.has(real)) throw lockedFailure(real);
  const server = bind(real);
  try {
    writeLockFile(real, server !== undefined);
  } catch (cause) {
    server?.close();
    throw cause;
  }
  heldHere.add(real);
  return {
    release(): void {
      if (!heldHere.delete(real)) return;
      if (readHolder(real)?.pid === process.pid) fs.rmSync(lockPath(real), { force: true });
      server?.close();
    },
  };
}
