/** The registry of properties: what a failure says, and that a canary which passes is found. */
import { describe, expect, test } from 'vitest';
import { canaryFails, runProperty, type Property } from './properties.ts';

const failing: Property = {
  name: 'never holds',
  cases: 3,
  run: () => {
    throw new Error('broken law');
  },
  canary: () => undefined,
};

describe('properties', () => {
  test('runProperty names the seed and the command that repeats it', async () => {
    await expect(runProperty(failing)).rejects.toThrow(
      /never holds: seed \d+: broken law\nrepeat: npm run property -- "never holds" --seed \d+/,
    );
  });

  test('canaryFails is false when the canary checks nothing', async () => {
    expect(await canaryFails(failing)).toBe(false);
  });
});
