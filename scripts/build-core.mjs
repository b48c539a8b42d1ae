/**
 * Builds the core into CommonJS files: `index.cjs` and the chunks that it loads when they are
 * needed. Called by `build-package.mjs`; how it is split is in `split.mjs` and `split-plan.mjs`.
 *
 * The command line and the tuner use parts of the core that the package does not export. They take
 * them from the same files: `coreNames` reads from their sources which, and `takeCore` is the
 * plugin by which their bundles do.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { rolldown } from 'rolldown';
import { parseSync } from 'rolldown/utils';
import { LINK, split } from './split.mjs';
import { chunkOf, NEEDS } from './split-plan.mjs';

/** Folders of `src/` whose files are bundled beside the core. */
const OUTSIDE = ['cli', 'tuner'];
const ENTRY = 'core-entry';
const CORE = '\0core:';

/** What a file imports of the core, as values: `[file, name]`. */
function coreImports(source, path) {
  const { program } = parseSync(path, readFileSync(path, 'utf8'));
  const isValue = (node) => node.importKind !== 'type';
  return program.body
    .filter((node) => node.type === 'ImportDeclaration' && isValue(node))
    .filter((node) => node.source.value.startsWith('.'))
    .flatMap((node) => {
      const file = relative(source, resolve(dirname(path), node.source.value));
      return node.specifiers.filter(isValue).map((one) => [file, one.imported.name]);
    })
    .filter(([file]) => !OUTSIDE.some((folder) => file.startsWith(`${folder}/`)));
}

/** What files of the command line import of the core, as values: `[file, names]`. */
function coreNames(root) {
  const source = join(root, 'src');
  const found = new Map();
  for (const folder of OUTSIDE) {
    for (const each of readdirSync(join(source, folder)).filter((name) => name.endsWith('.ts'))) {
      for (const [file, name] of coreImports(source, join(source, folder, each))) {
        found.set(file, (found.get(file) ?? new Set()).add(name));
      }
    }
  }
  return [...found].sort().map(([file, names]) => [file, [...names].sort()]);
}

/** The name under which the main file gives out a name that the package does not export. */
function innerName(file, name) {
  return `inner$${file.replace(/\.ts$/, '').replaceAll(/[^a-z0-9]/gi, '_')}$${name}`;
}

/** Everything the core must give, as the text of a module. */
function entryText(root) {
  const source = join(root, 'src');
  const lines = [`export * from ${JSON.stringify(join(source, 'index.ts'))};`];
  for (const [file, names] of coreNames(root)) {
    const list = names.map((name) => `${name} as ${innerName(file, name)}`);
    lines.push(`export { ${list.join(', ')} } from ${JSON.stringify(join(source, file))};`);
  }
  return lines.join('\n');
}

/** One flat ES module of everything, with a comment in front of each source file's part. */
async function flatBundle(root) {
  const bundle = await rolldown({
    cwd: root,
    input: ENTRY,
    platform: 'node',
    external: [/^node:/],
    transform: { target: 'node20' },
    plugins: [
      {
        name: 'core-entry',
        resolveId: (id) => (id === ENTRY ? `\0${ENTRY}` : undefined),
        load: (id) => (id === `\0${ENTRY}` ? entryText(root) : undefined),
      },
    ],
  });
  const { output } = await bundle.generate({ format: 'esm', minify: false, codeSplitting: false });
  await bundle.close();
  return output[0].code;
}

/** Writes the core into a folder; answers the names of the files. `small`: minified. */
export async function buildCore(root, folder, small = true) {
  const files = split(await flatBundle(root), { chunkOf, needs: NEEDS, small });
  mkdirSync(folder, { recursive: true });
  for (const [file, text] of files) writeFileSync(join(folder, file), text);
  return [...files.keys()];
}

/** Lets a bundle of files outside the core take what they import of it from `index.cjs`. */
export function takeCore(root) {
  const source = join(root, 'src');
  const names = new Map(coreNames(root));
  return {
    name: 'take-core',
    resolveId(id, importer) {
      if (importer === undefined || !id.startsWith('.') || !importer.startsWith(source)) return;
      const file = relative(source, resolve(dirname(importer), id));
      return names.has(file) ? `${CORE}${file}` : undefined;
    },
    load(id) {
      if (!id.startsWith(CORE)) return undefined;
      const file = id.slice(CORE.length);
      const lines = names
        .get(file)
        .map((name) => `export const ${name} = inner.${innerName(file, name)}();`);
      return (
        `const core = process.getBuiltinModule('module').createRequire(import.meta.url);\n` +
        `const { inner } = core('./index.cjs')[${LINK}];\n${lines.join('\n')}\n`
      );
    },
  };
}
