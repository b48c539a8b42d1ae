/** What is generated from the table of error codes: the page in `docs/`, and the gaps in tests. */
import { ERROR_TABLE, type ErrorCode } from '../src/errors.ts';
import { readSources } from '../test/support/sources.ts';

const OPENING = `# Errors

Generated from \`ERROR_TABLE\` in \`src/errors.ts\` by \`npm run docs\`; do not edit.

Every error extends \`DatabaseError\` and has \`code\`, \`message\`, \`detail\` and \`hint\`. Codes
are stable: programs may compare them. Absence of a record is \`undefined\`, never an error.
`;

/** The whole page, a section for each class in the order of the table. */
export function errorsPage(): string {
  const rows = Object.entries(ERROR_TABLE);
  const classes = [...new Set(rows.map(([, row]) => row.class))];
  const sections = classes.map((name) => {
    const lines = rows
      .filter(([, row]) => row.class === name)
      .map(([code, row]) => `| \`${code}\` | ${row.meaning} | ${row.hint} |`);
    const head = [`## ${name}`, '', '| code | meaning | what to do |', '| --- | --- | --- |'];
    return [...head, ...lines].join('\n');
  });
  return `${OPENING}\n${sections.join('\n\n')}\n`;
}

function codesMissingFrom(files: readonly { text: string }[]): ErrorCode[] {
  const codes = Object.keys(ERROR_TABLE) as ErrorCode[];
  return codes.filter((code) => !files.some((file) => file.text.includes(`'${code}'`)));
}

/** Codes of the table that stand quoted nowhere in `src`: nothing throws them. */
export function codesNotThrown(): ErrorCode[] {
  return codesMissingFrom(readSources(['src']).filter((file) => file.path !== 'src/errors.ts'));
}

/** Codes of the table that stand quoted in no test: nothing provokes them. */
export function codesNotProvoked(): ErrorCode[] {
  return codesMissingFrom(
    readSources(['test']).filter((file) => !file.path.startsWith('test/style/')),
  );
}
