import { dataErrorIn } from '../model/errors.ts';

/** Exit statuses of the process; 64 to 78 have the meaning of sysexits.h. docs/errors.md lists them. */
export const EXIT = {
  ok: 0,
  failed: 1,
  /** The command line is not valid. */
  usage: 64,
  /** A newer version of the program wrote the store. */
  newer_data: 65,
  /** The files of a running store were removed or replaced. */
  removed_data: 66,
  /** The destination does not answer, or cannot serve. */
  unavailable: 69,
  /** A fault of the program itself. */
  fault: 70,
  /** A file of the store is damaged, and a start would lose its projects or keys. */
  damaged_data: 74,
  /** Work of the process came to a standstill; only a restart helps. */
  stalled: 75,
  /** The configuration is not valid. */
  configuration: 78,
  /** Ctrl-C ended a command before its work was done: the status of shells for SIGINT. */
  interrupted: 130,
  /** The same for SIGTERM; `processTerminal` has it instead of `interrupted`. */
  terminated: 143,
} as const;

/** Ends a command with an exit status; the message goes to stderr. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Codes of a daemon or store that refuses a value of the command line. */
const WRONG_VALUES: readonly unknown[] = ['invalid_query', 'invalid_request', 'invalid_cursor'];

/** The exit status of a command that failed with this error. */
export function exitStatusOf(error: unknown): number {
  if (error instanceof CommandError) return error.status;
  if (error instanceof Error && 'code' in error && WRONG_VALUES.includes(error.code)) {
    return EXIT.usage;
  }
  const dataError = dataErrorIn(error);
  return dataError === undefined ? EXIT.failed : EXIT[dataError.code];
}
