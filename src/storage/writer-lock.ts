/**
 * The lock of the one writer process (STORAGE rule 24).
 *
 * On Linux an abstract socket named after the file's device and inode decides: binding is atomic
 * and the kernel frees the name when the process dies, however it dies. On Windows a named pipe
 * does the same. Elsewhere a lock file alone decides, and beside the socket it says who: pid, start
 * time of the process, boot id. One whose process is gone is stale and is taken away, by one
 * process at a time. Where there is no /proc a pid that is in use again counts as alive.
 */
import * as fs from 'node:fs';
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
    const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? '';
  } catch {
    return ''; // no such process, or no /proc: the pid alone has to do
  }
}

function bootId(): string {
  try {
    return fs.readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return ''; // no /proc: start times are not compared across boots there
  }
}

/** Names this process, also among those that had or will have its pid. */
export function tagOfProcess(): string {
  return `${process.pid}.${startOf(process.pid)}`;
}

/** Whether the process that a tag names is alive, as far as the system tells. */
export function isTagAlive(tag: string): boolean {
  const [pid, started] = tag.split('.');
  const number = Number(pid);
  if (!Number.isSafeInteger(number) || number <= 0) return false;
  return isAlive({ pid: number, started: started ?? '', boot: bootId() });
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

/** Removes a file that may be gone. (`rmSync` loads what removes folders.) */
function remove(filePath: string): void {
  try {
    fs.unlinkSync(filePath);
  } catch (cause) {
    if ((cause as { code?: string }).code !== 'ENOENT') throw cause;
  }
}

function lockPath(filePath: string): string {
  return `${filePath}-lock`;
}

function readHolder(filePath: string): Holder | undefined {
  try {
    const [pid, started, boot] = fs.readFileSync(lockPath(filePath), 'utf8').split('\n');
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
    real = fs.realpathSync.native(filePath);
  } catch {
    return undefined; // there is no such file
  }
  const holder = readHolder(real);
  return holder !== undefined && isAlive(holder) ? holder.pid : undefined;
}

/** Name that only one process can listen at; `undefined` where this system has none. */
export function socketName(filePath: string, platform: NodeJS.Platform): string | undefined {
  const stat = fs.statSync(filePath, { bigint: true });
  const name = `monochord-${stat.dev}-${stat.ino}`;
  if (platform === 'linux') return `\0${name}`;
  if (platform === 'win32') return `\\\\.\\pipe\\${name}`;
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

interface Socket {
  close(): void;
}

/** The handle under a `net.Server`, as `process.binding('pipe_wrap')` gives it. */
interface Pipe extends Socket {
  /** Takes the name; answers 0, or a negative error number. */
  bind(name: string): number;
}

interface PipeBinding {
  readonly Pipe: new (type: number) => Pipe;
  readonly constants: { readonly SERVER: number };
}

/**
 * The handle alone costs a tenth of what loading `node:net` and its cluster part does, which would
 * be most of the time of opening a file (docs/decisions/0004-lock-socket.md). `undefined` where
 * this Node does not hand it out, as under its permission model.
 */
function bareHandles(): PipeBinding | undefined {
  const { noDeprecation } = process;
  process.noDeprecation = true; // what `--pending-deprecation` would say is not for our callers
  try {
    const found = (process as unknown as { binding(name: string): unknown }).binding('pipe_wrap');
    const binding = found as Partial<PipeBinding>;
    const isWhole = typeof binding.Pipe === 'function' && binding.constants !== undefined;
    return isWhole ? (binding as PipeBinding) : undefined;
  } catch {
    return undefined; // `node:net` does the same
  } finally {
    process.noDeprecation = noDeprecation ?? false;
  }
}

/** Takes a name by a handle that is bound and never listens; `undefined` if it is taken. */
function bindBare({ Pipe, constants }: PipeBinding, name: string): Socket | undefined {
  const pipe = new Pipe(constants.SERVER);
  if (pipe.bind(name) === 0) return pipe;
  pipe.close();
  return undefined;
}

/** Takes a name by a server; `undefined` if it is taken. */
function bindServer(name: string): Socket | undefined {
  const server = process.getBuiltinModule('node:net').createServer((each) => each.destroy());
  server.on('error', () => undefined); // the outcome is read from `listening` below
  server.listen({ path: name, exclusive: true });
  if (!server.listening) return undefined;
  server.unref();
  return server;
}

/** Binds the socket; `undefined` where this system has none. */
function bind(filePath: string, platform: NodeJS.Platform): Socket | undefined {
  const name = socketName(filePath, platform);
  if (name === undefined) return undefined;
  const handles = platform === 'linux' ? bareHandles() : undefined;
  const socket = handles === undefined ? bindServer(name) : bindBare(handles, name);
  if (socket === undefined) throw lockedFailure(filePath);
  return socket;
}

const heldHere = new Set<string>();

/** Milliseconds that a process may take to say who it is that takes a lock file away. */
const TURN_MS_MAX = 1000;
const TAKEOVER_TRIES = 20;

/** Takes the turn of taking a lock file away; false after a short wait if somebody else has it. */
function takeTurn(turn: string): boolean {
  try {
    fs.writeFileSync(turn, tagOfProcess(), { flag: 'wx' });
    return true;
  } catch (cause) {
    if ((cause as { code?: string }).code !== 'EEXIST') throw cause;
  }
  let isLeft = false;
  try {
    const tag = fs.readFileSync(turn, 'utf8');
    isLeft = tag === '' ? Date.now() - fs.statSync(turn).mtimeMs > TURN_MS_MAX : !isTagAlive(tag);
  } catch {
    return false; // it is gone already
  }
  if (isLeft) remove(turn);
  else Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
  return false;
}

/**
 * Removes a lock file whose process is gone. Whoever has the socket may; elsewhere one process at a
 * time, since another may have put its own there meanwhile, which is not the stale one.
 */
function takeAwayStale(filePath: string, socketHeld: boolean): void {
  const turn = `${lockPath(filePath)}-takeover`;
  if (!socketHeld && !takeTurn(turn)) return;
  try {
    const holder = readHolder(filePath);
    const another = holder !== undefined && (!socketHeld || holder.pid !== process.pid);
    if (another && isAlive(holder)) throw lockedFailure(filePath);
    remove(lockPath(filePath));
  } finally {
    if (!socketHeld) remove(turn);
  }
}

function writeLockFile(filePath: string, socketHeld: boolean): void {
  const text = `${process.pid}\n${startOf(process.pid)}\n${bootId()}\n`;
  const mine = `${lockPath(filePath)}-${process.pid}`;
  fs.writeFileSync(mine, text);
  try {
    for (let attempt = 0; attempt < TAKEOVER_TRIES; attempt++) {
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
      takeAwayStale(filePath, socketHeld);
    }
    throw lockedFailure(filePath);
  } finally {
    remove(mine);
  }
}

/**
 * Takes the writer lock of a file.
 *
 * @throws {StorageError} storage.locked naming the holder's pid.
 */
export function takeLock(filePath: string, platform: NodeJS.Platform): Lock {
  const real = fs.realpathSync.native(filePath);
  if (heldHere.has(real)) throw lockedFailure(real);
  const server = bind(real, platform);
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
      if (readHolder(real)?.pid === process.pid) remove(lockPath(real));
      server?.close();
    },
  };
}
