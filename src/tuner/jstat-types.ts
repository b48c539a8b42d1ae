/** The part of jstat that the tuner uses. Source of the quantile: jStat 1.9.6, `studentt.inv`. */
declare module 'jstat' {
  const jstat: {
    readonly studentt: { inv(probability: number, degreesOfFreedom: number): number };
  };
  export default jstat;
}
