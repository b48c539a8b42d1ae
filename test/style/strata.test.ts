/**
 * The strata of DESIGN section 1 as a test: code imports its own line or lower ones and never
 * crosses the bar between the question side and the data side. `import type` counts.
 */
import ts from 'typescript';
import { describe, expect, test } from 'vitest';
import { readSources, type SourceFile } from '../support/sources.ts';

type Side = 'question' | 'data';
interface Stratum {
  readonly line: number;
  readonly side?: Side;
}

const STRATA: Readonly<Record<string, Stratum>> = {
  base: { line: 0 },
  'errors.ts': { line: 0 },
  'limits.ts': { line: 0 },
  model: { line: 1 },
  storage: { line: 2, side: 'data' },
  store: { line: 3, side: 'data' },
  query: { line: 4, side: 'question' },
  kv: { line: 5, side: 'question' },
  objects: { line: 5, side: 'question' },
  sql: { line: 5, side: 'question' },
  cypher: { line: 5, side: 'question' },
  'database.ts': { line: 6 },
  'scopes.ts': { line: 6 },
  'exact-records.ts': { line: 6 },
  'slices.ts': { line: 6 },
  'bulk-run.ts': { line: 6 },
  'maintenance.ts': { line: 6 },
  'options.ts': { line: 6 },
  rebuild: { line: 6 },
  recording: { line: 6 },
  tuner: { line: 7 },
  'index.ts': { line: 8 },
  level: { line: 8 },
  dump: { line: 8 },
  server: { line: 9 },
  cli: { line: 9 },
};

/** What is bundled into the command line at build time; the core has no dependencies. */
const BUNDLED: Readonly<Record<string, readonly string[]>> = {
  tuner: ['jstat', 'd3-scale'],
  cli: ['commander', 'cli-table3'],
};

/** What a door beside the main one needs of its caller: an optional peer dependency. */
const PEERS: Readonly<Record<string, readonly string[]>> = { level: ['abstract-level'] };

function stratumOf(path: string): Stratum | undefined {
  return STRATA[path.split('/')[1]!];
}

/** Says what is wrong with an import, naming both files; `undefined` if it is allowed. */
export function faultOfImport(from: string, to: string): string | undefined {
  const importer = stratumOf(from);
  const imported = stratumOf(to);
  if (importer === undefined) return `${from} stands on no line of the strata`;
  if (!to.startsWith('src/') || imported === undefined) return `${from} imports ${to}: outside src`;
  if (importer.side !== undefined && imported.side !== undefined && importer.side !== imported.side)
    return `${from} (${importer.side} side) imports ${to} (${imported.side} side) across the bar`;
  if (imported.line > importer.line)
    return `${from} (line ${importer.line}) imports ${to} (line ${imported.line}) above it`;
  return undefined;
}

/** The names a file imports; `import type`, `export from`, `import()` and `require` included. */
export function importsOf(file: SourceFile): string[] {
  return ts.preProcessFile(file.text, true, true).importedFiles.map((each) => each.fileName);
}

function faultsOf(file: SourceFile): string[] {
  const faults = stratumOf(file.path) ? [] : [`${file.path} stands on no line of the strata`];
  for (const name of importsOf(file)) {
    if (name.startsWith('node:')) continue;
    const folder = file.path.split('/')[1]!;
    if ([...(BUNDLED[folder] ?? []), ...(PEERS[folder] ?? [])].includes(name)) continue;
    if (!name.startsWith('.')) {
      faults.push(`${file.path} imports the package ${name}: the core has no dependencies`);
      continue;
    }
    const target = new URL(name, `file:///${file.path}`).pathname.slice(1);
    const fault = faultOfImport(file.path, target);
    if (fault !== undefined) faults.push(fault);
  }
  return faults;
}

describe('strata', () => {
  test('src imports downwards and never crosses the bar', () => {
    expect(readSources(['src']).flatMap(faultsOf)).toEqual([]);
  });

  test('faultOfImport names both files when an import goes up', () => {
    const fault = faultOfImport('src/storage/pager.ts', 'src/store/catalog.ts');
    expect(fault).toContain('src/storage/pager.ts');
    expect(fault).toContain('src/store/catalog.ts');
  });

  test('faultOfImport refuses both ways across the bar', () => {
    expect(faultOfImport('src/kv/bucket.ts', 'src/storage/pages.ts')).toContain('across the bar');
    expect(faultOfImport('src/store/store.ts', 'src/kv/bucket.ts')).toContain('across the bar');
    expect(faultOfImport('src/database.ts', 'src/store/store.ts')).toBeUndefined();
  });

  test('importsOf sees type imports, re-exports and dynamic imports', () => {
    const text = `import type { A } from './a.ts'; export * from './b.ts'; void import('./c.ts');`;
    expect(importsOf({ path: 'src/x.ts', text })).toEqual(['./a.ts', './b.ts', './c.ts']);
  });
});
