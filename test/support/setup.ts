/** Runs before every test file: turns the expensive checks of `verify` on (STYLE rule 6). */
import { setVerifying } from '../../src/base/assert.ts';

setVerifying(true);
