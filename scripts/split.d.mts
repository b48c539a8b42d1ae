/** Types of `split.mjs` for the tests that call it. */
export interface SplitOptions {
  readonly chunkOf: (file: string) => string;
  readonly needs?: Readonly<Record<string, readonly string[]>>;
  readonly main?: string;
  readonly small?: boolean;
}
export const LINK: string;
export function split(code: string, options: SplitOptions): Map<string, string>;
