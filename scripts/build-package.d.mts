/** Types of `build-package.mjs` for the tests that call it. */
export function buildPackage(root: string, folder?: string, dts?: boolean): Promise<string[]>;
