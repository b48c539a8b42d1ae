/**
 * Builds the doors of the package, without the command line: `index`, `level` and `dump`, each as a
 * CommonJS bundle, an ES module and declarations. Called by `build.mjs`, and by tests of what is
 * built, with a folder of their own.
 *
 * The CommonJS files are the one instance; the ES module re-exports their names, so that a program
 * that mixes `import` and `require` has one set of classes and open databases. `level` and
 * `dump` take the core from the file beside them.
 */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { build } from 'tsdown';
import { buildCore } from './build-core.mjs';

/** Small, so that importing is fast; names stay, so that stacks and profiles can be read. */
const minify = { compress: true, mangle: false, codegen: { removeWhitespace: true } };
const common = {
  config: false,
  format: 'cjs',
  platform: 'node',
  target: 'node20',
  logLevel: 'error',
  minify,
};

/** Writes `NAME.js` and `NAME.d.ts` over `NAME.cjs` and `NAME.d.cts`; answers the names. */
function writeModule(folder, name) {
  const file = join(folder, `${name}.cjs`);
  const names = Object.keys(createRequire(file)(file)).sort();
  const lines = names.map((each) => `export const ${each} = core.${each};`);
  // `require` instead of `import`: Node would scan the whole bundle for the names it exports.
  const head =
    "const { createRequire } = process.getBuiltinModule('module');\n" +
    `const core = createRequire(import.meta.url)('./${name}.cjs');\n`;
  writeFileSync(join(folder, `${name}.js`), `${head}${lines.join('\n')}\n`);
  writeFileSync(join(folder, `${name}.d.ts`), `export * from './${name}.cjs';\n`);
  return names;
}

/** Lets a built file take the core from the bundle in the same folder. */
function takeCoreFromBundle(file) {
  const text = readFileSync(file, 'utf8');
  const changed = text.replace(/(["'`])\.\.\/index\.ts\1/g, '"./index.cjs"');
  if (changed === text) throw new Error(`${file} does not import the core`);
  writeFileSync(file, changed);
}

/** `dts`: declarations too, which take seconds. Answers the names of the core. */
export async function buildPackage(root, folder = join(root, 'dist'), dts = true) {
  const entry = { index: 'src/index.ts' };
  rmSync(folder, { recursive: true, force: true });
  const only = { emitDtsOnly: true };
  if (dts) await build({ ...common, cwd: root, entry, dts: only, outDir: folder, clean: false });
  await buildCore(root, folder);
  for (const name of ['level', 'dump']) {
    await build({
      ...common,
      cwd: root,
      entry: { [name]: `src/${name}/index.ts` },
      dts,
      outDir: folder,
      clean: false,
      deps: { neverBundle: ['abstract-level', /^\.\.\/index\.ts$/] },
    });
    takeCoreFromBundle(join(folder, `${name}.cjs`));
    if (dts) takeCoreFromBundle(join(folder, `${name}.d.cts`));
    writeModule(folder, name);
  }
  return writeModule(folder, 'index');
}
