/** Types of `build-cli.mjs`. */
export function buildCli(root: string, folder?: string): Promise<void>;
