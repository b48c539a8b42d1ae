/**
 * `monochord tune --apply`: the file is rebuilt in the recommended layout, its indexes made and
 * dropped, and then the kept file and the new one are measured against each other, as they are.
 * Line 9 of the strata.
 */
import * as fs from 'node:fs';
import * as path from 'node:path';
import { changeIndexes, changeOf, changesFile, undoCommandOf } from '../tuner/apply.ts';
import { compareLayouts, type Comparison } from '../tuner/compare.ts';
import type { Report } from '../tuner/report.ts';
import { storeOfReplay, type PreparedReplay } from '../tuner/trace-workload.ts';
import type { Verdict } from '../tuner/verdict.ts';
import { verdictText } from '../tuner/words.ts';
import type { Workload } from '../tuner/workload.ts';
import { rebuildAsync } from '../rebuild/index.ts';
import { bytesText, EXIT, print, Progress, table, wrap } from './output.ts';
import type { TuneFlags } from './tune.ts';

/** What a tuning is about. */
export interface Tuning {
  readonly file: string | undefined;
  readonly flags: TuneFlags;
  readonly workload: Workload;
  /** The module or trace as the caller named it. */
  readonly workloadFile: string;
  readonly replay: PreparedReplay | undefined;
  readonly signal: AbortSignal;
}

/** Seconds that measuring again takes at the most. */
const AGAIN_SECONDS = 60;

/** Applies what a report recommends; answers the exit code. */
export async function applyReport(tuning: Tuning, report: Report): Promise<number> {
  const { flags, signal } = tuning;
  const file = tuning.file!;
  const { isChange, layout, name, reason } = report.recommendation;
  if (!isChange || !changesFile(layout)) {
    const why = isChange ? `it is an option of open: ${report.recommendation.openCall}` : reason;
    print(flags, { applied: undefined, why }, () => wrap(`Nothing to apply to ${file}: ${why}.`));
    return EXIT.done;
  }
  const progress = new Progress();
  const bytesBefore = fs.statSync(file).size;
  const rebuilt = await rebuildAsync(file, changeOf(layout), {
    signal,
    onProgress: ({ phase, tree, entries, entriesTotal }) =>
      progress.show(`${phase} ${tree}: ${entries} of ${entriesTotal} entries`),
  });
  if (layout.indexes !== undefined) changeIndexes(file, layout.indexes);
  const undo = undoCommandOf(file, layout);
  const comparison = await measureAgain(tuning, rebuilt.keptPath!, progress);
  progress.end();
  const phases = [...comparison.phases, 'mix'];
  const verdicts = Object.fromEntries(
    comparison.verdicts[1]!.map((verdict, at) => [phases[at]!, verdict]),
  );
  const result = {
    applied: name,
    layout,
    file,
    bytesBefore,
    bytesAfter: fs.statSync(file).size,
    keptPath: rebuilt.keptPath,
    undo,
    isControlBroken: comparison.isControlBroken,
    excluded: comparison.excluded.get(1),
    verdicts,
  };
  fs.writeFileSync(path.join(flags.out, 'applied.json'), `${JSON.stringify(result, null, 2)}\n`);
  print(flags, result, () => appliedText(result));
  return EXIT.done;
}

/** The kept file against the new one, both as they are. */
function measureAgain(
  { file, flags, workload, workloadFile, replay, signal }: Tuning,
  keptPath: string,
  progress: Progress,
): Promise<Comparison> {
  const stored = (store: string): string =>
    replay === undefined ? store : storeOfReplay(workloadFile, store, flags.out);
  return compareLayouts({
    workload,
    workloadFile: replay?.file ?? workloadFile,
    memory: flags.budget,
    source: stored(keptPath),
    isAsIs: true,
    candidates: [{ name: 'rebuilt', layout: {}, source: stored(file!) }],
    deadline: performance.now() + AGAIN_SECONDS * 1000,
    signal,
    ...(flags.generations !== undefined && { generationsMax: Number(flags.generations) }),
    onProgress: (text) => progress.show(`measuring again, ${text}`),
  });
}

interface Applied {
  readonly applied: string;
  readonly file: string;
  readonly bytesBefore: number;
  readonly bytesAfter: number;
  readonly keptPath: string | undefined;
  readonly undo: string;
  readonly isControlBroken: boolean;
  readonly excluded: { readonly message: string } | undefined;
  readonly verdicts: Readonly<Record<string, Verdict>>;
}

function appliedText(result: Applied): string {
  const { applied, file, bytesBefore, bytesAfter, keptPath, undo, excluded } = result;
  const rows = Object.entries(result.verdicts).map(([phase, each]) => [phase, verdictText(each)]);
  const doubt = result.isControlBroken
    ? ['The second copy of the old file came out different: this machine is too restless to tell.']
    : [];
  const body =
    excluded === undefined
      ? [table(['phase', 'rebuilt against before'], rows)]
      : [`THE REBUILT FILE FAILED: ${excluded.message}`];
  return [
    `Applied to ${file}: ${applied}; ${bytesText(bytesBefore)} → ${bytesText(bytesAfter)}`,
    '',
    ...body,
    ...doubt,
    '',
    `The old file is ${keptPath}; back to it: ${undo}`,
  ].join('\n');
}
