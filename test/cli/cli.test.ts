/** The command line, as a user starts it: results, JSON, errors and exit codes. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Database } from '../../src/database.ts';
import { built, type Built } from './built.ts';

let program: Built;
const folder = mkdtempSync(join(tmpdir(), 'monochord-cli-'));
const shop = join(folder, 'shop.mono');
afterAll(() => {
  program.remove();
  rmSync(folder, { recursive: true });
});

function monochord(...args: string[]): { code: number | null; out: string; err: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, [program.cli, ...args], {
    encoding: 'utf8',
  });
  return { code: status, out: stdout, err: stderr };
}

function json(...args: string[]): Record<string, unknown> {
  return JSON.parse(monochord(...args, '--json').out) as Record<string, unknown>;
}

describe('monochord', () => {
  beforeAll(async () => {
    program = await built();
    const db = new Database(shop, {});
    const customers = db.collection('customers', {
      fields: { id: 'int', email: 'text' },
      key: 'id',
      unique: ['email'],
    });
    db.transaction(() => {
      for (let id = 1; id <= 100; id++) customers.insert({ id, email: `c${id}@example.com` });
    });
    db.kv('settings').put('theme', 'dark');
    db.close();
  });

  test('info, check and memory report on a file', () => {
    expect(monochord('info', shop).out).toMatch(/customers\.email +b\+tree/);
    const check = json('check', shop);
    expect(check['isWhole']).toBe(true);
    expect(Number(json('memory', shop)['usedBytes'])).toBeGreaterThan(0);
  });

  test('ls and get show collections and records', () => {
    expect(monochord('ls', shop).out).toMatch(/customers +100 +records +email/);
    expect(monochord('get', shop, 'settings', 'theme').out).toBe('dark\n');
    expect(json('get', shop, 'customers', '17')).toEqual({ id: 17, email: 'c17@example.com' });
    expect(monochord('get', shop, 'customers', '1700').code).toBe(1);
  });

  test('rebuild changes the layout, undoes it, and lets the kept file go', () => {
    expect(json('rebuild', shop, '--page-size', '16KiB')['entries']).toBe(201);
    expect(json('info', shop)['pageBytes']).toBe(16_384);
    expect(existsSync(`${shop}-before`)).toBe(true);
    expect(monochord('rebuild', shop, '--undo').out).toMatch(/from before its rebuild/);
    expect(json('info', shop)['pageBytes']).toBe(8192);
    expect(json('rebuild', shop, '--forget')['removed']).toEqual([`${shop}-undone`]);
  });

  test('backup and compact work on a closed file', () => {
    expect(monochord('backup', shop, join(folder, 'copy')).code).toBe(0);
    expect(monochord('compact', join(folder, 'copy')).code).toBe(0);
    expect(json('compact', join(folder, 'copy'))['bytesFreed']).toBe(0); // it is as small as can be
  });

  test('wrong use ends with 2 and says what is right', () => {
    const unknown = monochord('ls', shop, 'custmers');
    expect(unknown.code).toBe(2);
    expect(unknown.err).toMatch(/Did you mean "customers"/);
    expect(monochord('rebiuld', shop).code).toBe(2);
    expect(monochord('tune', shop).err).toMatch(/needs a workload/);
    const limit = monochord('ls', shop, 'customers', '--limit', 'x');
    expect([limit.code, limit.out]).toEqual([2, '']);
    expect(limit.err).toMatch(/--limit: x is not a whole number of records/);
    expect(monochord('ls', shop, 'customers', '--limit', '2').out.split('\n')).toHaveLength(3);
  });

  test('failures end with 1 and a code; JSON has it too', () => {
    const missing = monochord('info', join(folder, 'none'), '--json');
    expect(missing.code).toBe(1);
    expect(JSON.parse(missing.out)).toMatchObject({ error: { code: 'storage.not_found' } });
    expect(existsSync(join(folder, 'none'))).toBe(false);
    expect(missing.out).not.toMatch(/readOnly/);
    const target = monochord('backup', shop, join(folder, 'missing', 'copy'));
    expect(target.err).toMatch(/there is no folder .*missing \[storage\.not_found\]/);
  });

  test('help has examples and the exit codes', () => {
    expect(monochord('rebuild', '--help').out).toMatch(/\$ monochord rebuild shop\.mono/);
    expect(monochord('--help').out).toMatch(/Exit codes/);
  });
});
