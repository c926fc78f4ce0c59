import { newerDataIn } from '../model/errors.ts';

/** How the process ends; 64, 65, 69, 70 and 78 are those of sysexits.h. */
export const EXIT = {
  ok: 0,
  failed: 1,
  /** The command line cannot be understood. */
  usage: 64,
  /** A newer version of the program wrote the store. */
  newer_data: 65,
  /** Nobody answers, or nobody who can serve. */
  unavailable: 69,
  /** A fault of the program itself. */
  fault: 70,
  /** The configuration is wrong. */
  configuration: 78,
} as const;

/** Ends a command with a status and a sentence on stderr. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** The exit status of a command that failed with this error. */
export function exitStatusOf(error: unknown): number {
  if (error instanceof CommandError) return error.status;
  return newerDataIn(error) === undefined ? EXIT.failed : EXIT.newer_data;
}
