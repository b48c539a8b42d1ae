/**
 * Builds the package into `dist/`: `npm run build`.
 *
 * The CommonJS bundle is the one instance; `index.js`, the ES module entry, re-exports its names,
 * so that a program that mixes `import` and `require` has one set of classes and open databases.
 */
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { build } from 'tsdown';
import { buildCli } from './build-cli.mjs';

const root = fileURLToPath(new URL('../', import.meta.url));

// Small, so that importing it is fast; names stay, so that stacks and profiles can be read.
await build({
  config: false,
  cwd: root,
  entry: ['src/index.ts'],
  format: 'cjs',
  platform: 'node',
  target: 'node20',
  dts: true,
  outDir: 'dist',
  clean: true,
  logLevel: 'error',
  minify: { compress: true, mangle: false, codegen: { removeWhitespace: true } },
});

const names = Object.keys(createRequire(import.meta.url)(`${root}dist/index.cjs`)).sort();
const lines = names.map((name) => `export const ${name} = core.${name};`);
// `require` instead of `import`: Node would scan the whole bundle for the names it exports.
const head =
  "import { createRequire } from 'node:module';\n\n" +
  "const core = createRequire(import.meta.url)('./index.cjs');\n";
writeFileSync(`${root}dist/index.js`, `${head}${lines.join('\n')}\n`);
writeFileSync(`${root}dist/index.d.ts`, `export * from './index.cjs';\n`);
await buildCli(root);
console.log(`dist/: ${names.length} names, ES modules and CommonJS`);
