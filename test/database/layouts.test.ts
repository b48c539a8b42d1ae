/** Law U1; `npm run long -- layouts` has a million operations. */
import { defineProperty } from '../support/properties.ts';
import { runLayoutTrial } from './layout-trial.ts';

const OPERATIONS = 2000;

defineProperty({
  name: 'Database under any layout does as plain maps',
  cases: 12,
  run: (seed) => runLayoutTrial(seed, OPERATIONS),
  canary: (seed) => runLayoutTrial(seed, OPERATIONS, true),
});
