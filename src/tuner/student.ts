/**
 * Quantiles of Student's t distribution. Source: jStat 1.9.6, `studentt.inv`. Line 7 of the strata.
 */
// @ts-expect-error: the package has no types
import untyped from 'jstat';

const jstat = untyped as {
  readonly studentt: { inv(probability: number, degreesOfFreedom: number): number };
};

export function studentQuantile(probability: number, degreesOfFreedom: number): number {
  return jstat.studentt.inv(probability, degreesOfFreedom);
}
