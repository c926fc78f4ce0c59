import { createInterface } from 'node:readline/promises';

/** What a command speaks with; a test gives its own. */
export type Terminal = {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** Writes to stdout, what a program may read. */
  out(text: string): void;
  /** Writes to stderr: errors, warnings, remarks. */
  err(text: string): void;
  /** Asks the person there; undefined where there is none. */
  readonly ask?: (question: string) => Promise<string>;
};

export function processTerminal(): Terminal {
  // A reader that goes away (`tracectl schema | head`) is no fault of the command.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
  const hasPerson = process.stdin.isTTY === true && process.stderr.isTTY === true;
  return {
    ...(hasPerson ? { ask } : {}),
    env: process.env,
    cwd: process.cwd(),
    out: (text) => void process.stdout.write(`${text}\n`),
    err: (text) => void process.stderr.write(`${text}\n`),
  };
}

async function ask(question: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return await lines.question(question);
  } finally {
    lines.close();
  }
}
