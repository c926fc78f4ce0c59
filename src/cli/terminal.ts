import { fstatSync, writeSync } from 'node:fs';
import type { Clock } from '../component/component.ts';
import { escapeControlsInText } from '../telemetry/control-characters.ts';
import { EXIT } from './exit-status.ts';

/** The streams and signals that a command uses; a test passes its own. */
export type Terminal = {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** Writes a line to stdout: the result, which a program may read. */
  out(text: string): void;
  /** Writes a line of a program's own colours to stdout; the caller escapes texts of clients in it. Undefined without colours. */
  readonly outInColour?: (text: string) => void;
  /**
   * Writes bytes to stdout as they are; resolves when it takes more, with false if its reader has closed. Undefined in a terminal without
   * a stream.
   */
  readonly outBytes?: (bytes: Uint8Array) => Promise<boolean>;
  /** Columns of stdout; undefined if it is not a terminal. */
  readonly columns?: () => number;
  /** Stdout is a terminal: a person reads it, and no file or journal keeps it. */
  readonly isOutShown?: boolean;
  /** Writes a line to stderr: errors, warnings, notes. */
  err(text: string): void;
  /** Asks the user; undefined when stdin or stderr is not a terminal. */
  readonly ask?: (question: string) => Promise<string>;
  /** Reads stdin. */
  readonly input?: () => AsyncIterable<Uint8Array>;
  /** One line of stderr that a progress display overwrites; undefined when stderr is not a terminal. */
  readonly screen?: Screen;
  /**
   * Calls the listener on each Ctrl-C and SIGTERM, which then no longer end the process. Returns a function that
   * removes the listener.
   */
  readonly onInterrupt?: (listener: (signal: 'SIGINT' | 'SIGTERM') => void) => () => void;
  /** The time for commands that wait; undefined is the time of the machine. */
  readonly clock?: Clock;
};

type Screen = {
  columns(): number;
  /** Writes the text without a line feed. */
  write(text: string): void;
};

/** The width of a terminal whose size is not known. */
export const USUAL_COLUMNS = 80;

/** The terminal of this process. */
export type ProcessTerminal = Terminal & {
  /**
   * Resolves with the status of the process when the system has every byte, or the reader has closed. A command that succeeded has failed
   * if its output could not be written.
   */
  end(status: number): Promise<number>;
};

export function processTerminal(): ProcessTerminal {
  const output = openOutput();
  // A reader that closes early is not an error of the command.
  process.stderr.on('error', () => {});
  const err = (text: string) => void process.stderr.write(`${escapeControlsInText(text)}\n`);
  let isTerminated = false;
  const hasPerson = process.stdin.isTTY === true && process.stderr.isTTY === true;
  return {
    ...(hasPerson ? { ask } : {}),
    ...(process.stderr.isTTY === true ? { screen: processScreen() } : {}),
    ...(process.stdout.isTTY === true ? { columns: () => columnsOf(process.stdout) } : {}),
    ...(showsColours(process.env)
      ? { outInColour: (text) => void process.stdout.write(`${text}\n`) }
      : {}),
    outBytes: output.bytes,
    isOutShown: process.stdout.isTTY === true,
    // Opened on demand: a process that has touched stdin waits for its end.
    input: () => process.stdin,
    onInterrupt: (listener) =>
      onInterrupt((signal) => {
        isTerminated ||= signal === 'SIGTERM';
        listener(signal);
      }),
    env: process.env,
    cwd: process.cwd(),
    // Names, ids and messages of clients and servers are in these texts.
    out: (text) =>
      void output.bytes(Buffer.from(`${escapeControlsInText(text)}\n`)).catch(() => {}),
    err,
    async end(status) {
      await written(process.stdout);
      const failure = output.failure();
      if (failure !== undefined) err(`error: stdout could not be written: ${failure.message}`);
      await written(process.stderr);
      if (status === EXIT.interrupted && isTerminated) return EXIT.terminated;
      return failure === undefined || status !== EXIT.ok ? status : EXIT.failed;
    },
  };
}

type Output = {
  /** Resolves with false if the reader has closed. */
  bytes(bytes: Uint8Array): Promise<boolean>;
  /** The first error. A reader that closes early (`tracectl schema | head`) is none. */
  failure(): Error | undefined;
};

function openOutput(): Output {
  let failure: Error | undefined;
  const failed = (error: NodeJS.ErrnoException): void => {
    if (!hasClosed(error)) failure ??= error;
  };
  process.stdout.on('error', failed);
  const isFile = fstatSync(process.stdout.fd).isFile();
  return {
    async bytes(bytes) {
      try {
        if (isFile) writeFully(process.stdout.fd, bytes);
        else await writtenTo(process.stdout, bytes);
        return true;
      } catch (error) {
        failed(error as NodeJS.ErrnoException);
        if (hasClosed(error)) return false;
        throw error;
      }
    },
    failure: () => failure,
  };
}

/** Writes behind the first one that found the reader gone find a stream that is destroyed. */
function hasClosed(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'EPIPE' || code === 'ERR_STREAM_DESTROYED';
}

/** Node's stream of a file takes a write of which the system took only some bytes for a whole one. */
function writeFully(file: number, bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length; ) done += writeSync(file, bytes, done);
}

/** https://no-color.org: any value but the empty one turns colours off. */
function showsColours({
  NO_COLOR = '',
  TERM,
}: Readonly<Record<string, string | undefined>>): boolean {
  return process.stdout.isTTY === true && NO_COLOR === '' && TERM !== 'dumb';
}

/** Writes to a pipe are asynchronous, and `process.exit` discards those that the pipe had no room for. */
function written(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => {
    stream.write('', () => resolve());
  });
}

function writtenTo(stream: NodeJS.WriteStream, bytes: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(bytes, (error) => (error ? reject(error) : resolve()));
  });
}

async function ask(question: string): Promise<string> {
  const { createInterface } = await import('node:readline/promises');
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return await lines.question(escapeControlsInText(question));
  } finally {
    lines.close();
  }
}

/** A terminal that does not know its size, such as one of a recorder, says 0. */
function columnsOf({ columns }: NodeJS.WriteStream): number {
  return columns > 0 ? columns : USUAL_COLUMNS;
}

function processScreen(): Screen {
  return {
    columns: () => columnsOf(process.stderr),
    write: (text) => void process.stderr.write(text),
  };
}

function onInterrupt(listener: (signal: 'SIGINT' | 'SIGTERM') => void): () => void {
  process.on('SIGINT', listener).on('SIGTERM', listener);
  return () => void process.off('SIGINT', listener).off('SIGTERM', listener);
}
