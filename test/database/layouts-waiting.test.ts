/** Law U1 with half a million operations whose writes wait in buffers wherever they may. */
import { defineProperty } from '../support/properties.ts';
import { layoutProperty } from './layout-trial.ts';

defineProperty(
  layoutProperty('Database under any layout does as plain maps, writes waiting', true),
);
