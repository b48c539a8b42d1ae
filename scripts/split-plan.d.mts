/** Types of `split-plan.mjs` for the tests that read it. */
export const NEEDS: Readonly<Record<string, readonly string[]>>;
export const CHUNKS: readonly string[];
export const FILES: readonly string[];
export function chunkOf(file: string): string;
