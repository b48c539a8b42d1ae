/** `monochord check`, `compact`, `backup` and `memory`. Line 9 of the strata. */
import { statSync } from 'node:fs';
import { LATEST } from '../model/source.ts';
import { requireFile, withReader, withWriter } from './open-file.ts';
import { bytesText, EXIT, print, table, type CommonOptions } from './output.ts';

/** Checks the whole file; answers the exit code. */
export function checkCommand(path: string, options: CommonOptions): number {
  return withReader(path, (database) => {
    const { faults, pages, slots } = database.check();
    const shown = faults.map(({ code, message }) => ({ code, message }));
    print(options, { path, isWhole: faults.length === 0, pages, slots, faults: shown }, () => {
      if (faults.length === 0) return `${path} is whole: ${pages} pages in ${slots} slots`;
      const lines = shown.map(({ code, message }) => `  ${message} [${code}]`);
      return `${path} has ${faults.length} faults:\n${lines.join('\n')}`;
    });
    return faults.length === 0 ? EXIT.done : EXIT.faults;
  });
}

export function compactCommand(path: string, options: CommonOptions): void {
  requireFile(path);
  // Opening for writing takes room in advance, which compacting gives back: not a gain.
  const before = statSync(path).size;
  withWriter(path, (database) => database.compact());
  const bytes = Math.max(0, before - statSync(path).size);
  print(options, { path, bytesFreed: bytes }, () => `${path} is ${bytesText(bytes)} smaller`);
}

export function backupCommand(path: string, target: string, options: CommonOptions): void {
  const pages = withReader(path, (database) => database.backup(target));
  print(options, { path, target, pages }, () => `${pages} pages of ${path} copied to ${target}`);
}

/** Opens a file with a budget, reads the first records of everything, and says what took memory. */
export function memoryCommand(path: string, options: CommonOptions & { memory?: string }): void {
  const { memory } = options;
  const report = withReader(
    path,
    (database) => {
      const { store } = database;
      for (const name of store.catalog.collectionNames(LATEST)) {
        store.schema(LATEST).require(name, LATEST).tree.first(LATEST);
      }
      return database.memory();
    },
    memory === undefined ? {} : { memory },
  );
  print(options, { path, ...report }, () => {
    const { budgetBytes, usedBytes, peakBytes, accounts } = report;
    const rows = Object.entries(accounts)
      .filter(([, bytes]) => bytes > 0)
      .map(([name, bytes]) => [name, bytesText(bytes)]);
    return (
      `budget ${bytesText(budgetBytes)}, used ${bytesText(usedBytes)}, ` +
      `peak ${bytesText(peakBytes)}, after opening every collection\n\n` +
      table(['for', 'bytes'], rows)
    );
  });
}
