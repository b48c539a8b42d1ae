/**
 * Builds the package into `dist/`: `npm run build`.
 *
 * The CommonJS bundle is the one instance; `index.js`, the ES module entry, re-exports its names,
 * so that a program that mixes `import` and `require` has one set of classes and open databases.
 */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { buildCli } from './build-cli.mjs';

const root = fileURLToPath(new URL('../', import.meta.url));

execFileSync(
  process.execPath,
  (
    'node_modules/tsdown/dist/run.mjs src/index.ts --format cjs --platform node --target node20' +
    ' --dts --out-dir dist --clean --log-level error'
  ).split(' '),
  { cwd: root, stdio: 'inherit' },
);

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
