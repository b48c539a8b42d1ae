/**
 * Builds the command line into `dist/`, beside the core, which it uses: `cli.js`, the worker of
 * trials, and the licences of the packages that are bundled into them. Called by `build.mjs`.
 */
import { chmodSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'tsdown';
import { takeCore } from './build-core.mjs';

/** Packages that the command line imports; what they depend on is bundled with them. */
const BUNDLED = ['commander', 'cli-table3', 'jstat', 'd3-scale'];

/** The packages and everything they depend on, as far as it is installed. */
function closureOf(root, names) {
  const found = new Map();
  const visit = (name) => {
    const folder = join(root, 'node_modules', name);
    if (found.has(name) || !existsSync(join(folder, 'package.json'))) return;
    const description = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    found.set(name, { folder, description });
    const { dependencies, optionalDependencies } = description;
    for (const each of Object.keys({ ...dependencies, ...optionalDependencies })) visit(each);
  };
  for (const name of names) visit(name);
  return [...found].sort(([a], [b]) => (a < b ? -1 : 1));
}

function licencesOf(root) {
  const parts = closureOf(root, BUNDLED).map(([name, { folder, description }]) => {
    const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
    const text = file === undefined ? '' : readFileSync(join(folder, file), 'utf8').trim();
    const { version, license } = description;
    return `## ${name} ${version}: ${license}\n\n\`\`\`text\n${text || license}\n\`\`\`\n`;
  });
  const head = '# Packages bundled into the command line\n\nThe core contains none of them.\n';
  return `${head}\n${parts.join('\n')}`;
}

/** `folder`: where the files go, in the package or, for tests, anywhere. */
export async function buildCli(root, folder = join(root, 'dist')) {
  await build({
    cwd: root,
    config: false,
    entry: { cli: 'src/cli/main.ts', 'trial-worker': 'src/tuner/trial-worker.ts' },
    format: 'esm',
    platform: 'node',
    target: 'node20',
    outDir: folder,
    outExtensions: () => ({ js: '.js' }),
    clean: false,
    dts: false,
    logLevel: 'error',
    plugins: [takeCore(root)],
    deps: { alwaysBundle: [/./], onlyBundle: false },
  });
  chmodSync(join(folder, 'cli.js'), 0o755);
  writeFileSync(join(folder, 'THIRD_PARTY.md'), licencesOf(root));
}
