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
  /** Reads stdin. */
  readonly input?: () => AsyncIterable<Uint8Array>;
  /** Where stderr is a terminal: one line of it, written over again and again. */
  readonly screen?: Screen;
  /** Tells of each Ctrl-C and SIGTERM, which then no longer end the process; gives what ends that. */
  readonly onInterrupt?: (listener: (signal: 'SIGINT' | 'SIGTERM') => void) => () => void;
};

export type Screen = {
  columns(): number;
  /** As it is, without a new line. */
  write(text: string): void;
};

export function processTerminal(): Terminal {
  // A reader that goes away (`tracectl schema | head`) is no fault of the command.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
  const hasPerson = process.stdin.isTTY === true && process.stderr.isTTY === true;
  return {
    ...(hasPerson ? { ask } : {}),
    ...(process.stderr.isTTY === true ? { screen: processScreen() } : {}),
    // Not before it is asked for: a process that has touched stdin waits for its end.
    input: () => process.stdin,
    onInterrupt,
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

function processScreen(): Screen {
  return {
    columns: () => process.stderr.columns,
    write: (text) => void process.stderr.write(text),
  };
}

function onInterrupt(listener: (signal: 'SIGINT' | 'SIGTERM') => void): () => void {
  process.on('SIGINT', listener).on('SIGTERM', listener);
  return () => void process.off('SIGINT', listener).off('SIGTERM', listener);
}
