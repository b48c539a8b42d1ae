/**
 * Law U1 with half a million operations; `layouts-waiting.test.ts` has as many whose writes wait.
 * They are two files so that they run beside each other.
 */
import { defineProperty } from '../support/properties.ts';
import { layoutProperty } from './layout-trial.ts';

defineProperty(layoutProperty('Database under any layout does as plain maps', false));
