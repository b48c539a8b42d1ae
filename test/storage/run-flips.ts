/** The long job of flipped bits: every bit of what `flips.ts` names; prints what was found. */
import { flipAnywhere, flipHeaders, flipLog, flipPages, type FlipCounts } from './flips.ts';

const step = Number(process.argv[2] ?? 1);
const counts: FlipCounts = {};
flipHeaders(step, counts);
flipPages(step, counts);
flipLog(step, counts);
flipAnywhere(17_000, Math.ceil(100_000 / step), counts);
for (const [kind, { flipped, detected, harmless }] of Object.entries(counts)) {
  console.log(`${kind.padEnd(28)} ${flipped} flipped, ${detected} detected, ${harmless} harmless`);
}
