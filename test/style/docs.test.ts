/** Generated pages are what `npm run docs` makes of the sources. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { formatPage } from '../../scripts/format-page.ts';

describe('docs', () => {
  it('has docs/FILE_FORMAT.md as it is generated from the sources', () => {
    const page = readFileSync(new URL('../../docs/FILE_FORMAT.md', import.meta.url), 'utf8');
    expect(page).toBe(formatPage());
  });
});
