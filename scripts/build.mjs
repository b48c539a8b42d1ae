/** Builds the package into `dist/`: `npm run build`. */
import { fileURLToPath } from 'node:url';
import { buildCli } from './build-cli.mjs';
import { buildPackage } from './build-package.mjs';

const root = fileURLToPath(new URL('../', import.meta.url));
const names = await buildPackage(root);
await buildCli(root);
console.log(`dist/: ${names.length} names, ES modules and CommonJS`);
