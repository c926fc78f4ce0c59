/** What a command speaks with; a test gives its own. */
export type Terminal = {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** Writes to stdout, what a program may read. */
  out(text: string): void;
  /** Writes to stderr: errors, warnings, remarks. */
  err(text: string): void;
};

export function processTerminal(): Terminal {
  // A reader that goes away (`tracectl schema | head`) is no fault of the command.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
  return {
    env: process.env,
    cwd: process.cwd(),
    out: (text) => void process.stdout.write(`${text}\n`),
    err: (text) => void process.stderr.write(`${text}\n`),
  };
}
