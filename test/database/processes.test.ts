/** What a database does to its process, and the process to it: exits, timers, threads, clusters. */
import { spawnSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { writeStripped } from '../processes/stripped.ts';
import { newFolder, openPath } from './open-database.ts';

let stripped = '';
beforeAll(() => (stripped = writeStripped()));
afterAll(() => rmSync(stripped, { recursive: true, force: true }));

interface Ran {
  readonly text: string;
  readonly status: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** Runs a module in a process of its own, with `open` and `path` there already. */
function run(path: string, body: string): Ran {
  const script = `${newFolder()}/script.mjs`;
  const index = JSON.stringify(`${stripped}/src/index.mjs`);
  writeFileSync(
    script,
    `import { open } from ${index};\nconst path = ${JSON.stringify(path)};\n` +
      `const index = ${index};\n${body}\n`,
  );
  const { stdout, stderr, status, signal } = spawnSync(process.execPath, [script], {
    encoding: 'utf8',
    timeout: 30_000,
  });
  return { text: stdout + stderr, status, signal };
}

/** What a later process finds. */
function countIn(path: string): number {
  const db = openPath(path);
  const count = db.kv('b').count();
  expect(db.check().faults).toEqual([]);
  db.close();
  return count;
}

describe('a process', { timeout: 60_000 }, () => {
  test.each(['group', 'buffered', 'none'])(
    'that ends by itself without closing writes what waits, level %s',
    (durability) => {
      const path = `${newFolder()}/left`;
      const ran = run(
        path,
        `const db = open(path, { durability: '${durability}' });
         for (let i = 0; i < 20; i++) db.kv('b').put('k' + i, i);`,
      );
      expect(ran).toEqual({ text: '', status: 0, signal: null });
      expect(countIn(path)).toBe(20);
    },
  );

  test('that calls process.exit, or throws, writes what waits', () => {
    for (const end of ['process.exit(3)', "throw new Error('mine')"]) {
      const path = `${newFolder()}/exit`;
      const ran = run(
        path,
        `const db = open(path, { durability: 'none' });
         for (let i = 0; i < 20; i++) db.kv('b').put('k' + i, i);
         ${end};`,
      );
      expect(ran.status).not.toBe(0);
      expect(countIn(path), end).toBe(20);
    }
  });

  test('that exits inside a transaction keeps nothing of it', () => {
    const path = `${newFolder()}/inside`;
    run(
      path,
      `const db = open(path);
       db.kv('b').put('before', 1);
       db.transaction(() => { db.kv('b').put('inside', 2); process.exit(0); });`,
    );
    expect(countIn(path)).toBe(1);
  });

  test('is not kept alive by an open handle, its timers, snapshots or a running checkpoint', () => {
    const path = `${newFolder()}/alive`;
    const started = Date.now();
    const ran = run(
      path,
      `const db = open(path, { durability: 'buffered', delayMs: 1e6, memory: '2 MiB' });
       for (let i = 0; i < 2000; i++) db.kv('b').put('k' + i, 'x'.repeat(500));
       const snapshot = db.snapshot();
       const entries = db.kv('b').range();
       entries.next();
       db.storage.startCheckpoint();`,
    );
    expect(ran).toEqual({ text: '', status: 0, signal: null });
    expect(Date.now() - started).toBeLessThan(25_000);
    expect(countIn(path)).toBe(2000);
  });

  test('may open and close many times, and leaves no more listeners behind', () => {
    const path = `${newFolder()}/many`;
    const ran = run(
      path,
      `let listeners;
       for (let i = 0; i < 40; i++) {
         const db = open(path);
         db.kv('b').put('k' + i, i);
         db.close();
         listeners ??= process.listenerCount('exit');
       }
       console.log(process.listenerCount('exit') - listeners);`,
    );
    expect(ran.text).toBe('0\n'); // and no warning of a leak
    expect(countIn(path)).toBe(40);
  });
});

describe('other threads and processes', { timeout: 60_000 }, () => {
  test('a worker thread is refused, reads beside the writer, and writes after it', () => {
    const path = `${newFolder()}/threads`;
    const ran = run(
      path,
      `import { Worker } from 'node:worker_threads';
       const inWorker = (body) => new Promise((resolve, reject) => {
         const code = "import(" + JSON.stringify(index) + ").then(({ open }) => {" +
           "const { parentPort, workerData: path } = process.getBuiltinModule" +
           "? process.getBuiltinModule('node:worker_threads') : require('node:worker_threads');" +
           "let said; try { said = (() => {" + body + "})(); } catch (e) { said = e.code; }" +
           "parentPort.postMessage(said); })";
         const worker = new Worker(code, { eval: true, workerData: path });
         worker.once('message', resolve);
         worker.once('error', reject);
       });
       const db = open(path);
       db.kv('b').put('a', 1);
       db.checkpoint();
       console.log(await inWorker('open(path)'));
       console.log(await inWorker(
         "const db = open(path, { readOnly: true, lastCheckpoint: true });" +
         "const n = db.kv('b').get('a'); db.close(); return n;"));
       db.close();
       console.log(await inWorker(
         "const db = open(path); db.kv('b').put('b', 2); db.close(); return 'written';"));`,
    );
    expect(ran.text).toBe('storage.locked\n1\nwritten\n');
    expect(countIn(path)).toBe(2);
  });

  test('of a cluster one worker writes, the others are refused and told its pid', () => {
    const path = `${newFolder()}/cluster`;
    const ran = run(
      path,
      `import cluster from 'node:cluster';
       if (cluster.isPrimary) {
         const said = [];
         const writer = cluster.fork();
         writer.once('message', (first) => {
           said.push(first);
           const other = cluster.fork();
           other.once('message', (second) => {
             said.push(second.replace(String(writer.process.pid), 'PID'));
             other.kill();
             writer.kill();
             console.log(said.join(' '));
           });
         });
       } else {
         try {
           const db = open(path);
           db.kv('b').put('w' + process.pid, 1);
           process.send('opened');
         } catch (error) {
           process.send(error.code + ' ' + error.detail.pid);
         }
         setInterval(() => undefined, 1000);
       }`,
    );
    expect(ran.text).toBe('opened storage.locked PID\n');
    expect(countIn(path)).toBe(1);
  });
});
