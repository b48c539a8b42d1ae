/** The source files of the project, as the style tests read them. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** The folder that holds package.json, with a slash at its end. */
export const ROOT = fileURLToPath(new URL('../../', import.meta.url));

export interface SourceFile {
  /** Path from the root, with forward slashes: `src/base/ledger.ts`. */
  readonly path: string;
  readonly text: string;
}

/** Reads every file below the folders whose name ends in one of the endings, in path order. */
export function readSources(
  folders: readonly string[],
  endings: readonly string[] = ['.ts', '.mjs'],
): SourceFile[] {
  const present = folders.filter((folder) => existsSync(ROOT + folder));
  const paths = present.flatMap((folder) =>
    readdirSync(ROOT + folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && endings.some((ending) => entry.name.endsWith(ending)))
      .map((entry) => `${entry.parentPath}/${entry.name}`.slice(ROOT.length)),
  );
  return paths.sort().map((path) => ({ path, text: readFileSync(ROOT + path, 'utf8') }));
}
