/** Counts crashes by what they hit, and prints the table with the minima that a run must reach. */

export const HITS = ['checkpoint', 'recovery', 'snapshot', 'spill', 'load'] as const;
export type Hit = (typeof HITS)[number];

/** Shares of all crashes that a run must reach, in percent. */
const MINIMA: Readonly<Record<Hit, number>> = {
  checkpoint: 30,
  recovery: 10,
  snapshot: 10,
  spill: 5,
  load: 0, // lives with bulk loads have a test of their own
};

const MEANINGS: Readonly<Record<Hit, string>> = {
  checkpoint: 'inside a checkpoint',
  recovery: 'inside recovery',
  snapshot: 'with a snapshot open',
  spill: 'after a spill',
  load: 'in or after a bulk load',
};

export class Report {
  seeds = 0;
  /** Power losses, each with another outcome; several may be of one moment. */
  crashes = 0;
  /** Moments at which power was lost. */
  moments = 0;
  kills = 0;
  cleanCloses = 0;
  failuresInjected = 0;
  /** Reads and transactions that the memory budget or the log refused. */
  limitsMet = 0;
  commits = 0;
  commitsTakenBack = 0;
  backups = 0;
  readonly hits: Record<Hit, number> = {
    checkpoint: 0,
    recovery: 0,
    snapshot: 0,
    spill: 0,
    load: 0,
  };
  /** Bulk loads that came to their end, and those that were taken back before it. */
  loads = 0;
  loadsTakenBack = 0;

  /** Counts one crash; it may hit several things at once. */
  crash(hits: readonly Hit[]): void {
    this.crashes++;
    for (const hit of hits) this.hits[hit]++;
  }

  shareOf(hit: Hit): number {
    return this.crashes === 0 ? 0 : (100 * this.hits[hit]) / this.crashes;
  }

  /** Whether every share reaches its minimum. */
  get isBroad(): boolean {
    return HITS.every((hit) => this.shareOf(hit) >= MINIMA[hit]);
  }

  toString(): string {
    const lines = [
      `seeds             ${this.seeds}`,
      `crashes           ${this.crashes} (outcomes of ${this.moments} moments)`,
      ...HITS.map((hit) => {
        const share = this.shareOf(hit);
        const verdict = share >= MINIMA[hit] ? '' : '  TOO FEW';
        return (
          `  ${MEANINGS[hit].padEnd(22)} ${String(this.hits[hit]).padStart(8)}` +
          `  ${share.toFixed(1).padStart(5)} %  (minimum ${MINIMA[hit]} %)${verdict}`
        );
      }),
      `kills             ${this.kills}`,
      `clean closes      ${this.cleanCloses}`,
      `injected failures ${this.failuresInjected}`,
      `limits met        ${this.limitsMet}`,
      `commits           ${this.commits} (taken back by crashes, as their level allows: ` +
        `${this.commitsTakenBack})`,
      `backups compared  ${this.backups}`,
      `bulk loads        ${this.loads} (taken back: ${this.loadsTakenBack})`,
    ];
    return lines.join('\n');
  }
}
