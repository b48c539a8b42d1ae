/**
 * Applying a layout: the command, the options of `open`, and the change that `rebuild` takes.
 * Line 7 of the strata.
 */
import type { TrialLayout } from './workload.ts';

/** The command that rebuilds a file in a layout. */
export function commandOf(file: string, layout: TrialLayout): string {
  const { pageSize, extentSize, clusterSize, index } = layout;
  const size = (value: number | string): string => String(value).replace(/\s+/g, '');
  const flags = [
    pageSize === undefined ? '' : `--page-size ${size(pageSize)}`,
    extentSize === undefined ? '' : `--extent-size ${size(extentSize)}`,
    clusterSize === undefined ? '' : `--cluster-size ${size(clusterSize)}`,
    index?.tree === undefined ? '' : `--tree ${index.tree}`,
    index?.order === undefined ? '' : `--order ${index.order}`,
  ].filter((flag) => flag !== '');
  const name = /^[\w./-]+$/.test(file) ? file : `'${file}'`;
  return ['monochord rebuild', name, ...flags].join(' ');
}

/** The call that makes a new file in a layout. */
export function openCallOf(file: string, layout: TrialLayout): string {
  const options = JSON.stringify(layout)
    .replace(/"(\w+)":/g, ' $1: ')
    .replace(/"/g, "'")
    .replace(/}/g, ' }');
  return `open('${file}', ${options})`;
}
