/** Exit statuses of the process; 64, 69, 70 and 78 have the meaning of sysexits.h. docs/errors.md lists them. */
export const EXIT = {
  ok: 0,
  failed: 1,
  /** The command line is not valid. */
  usage: 64,
  /** The destination does not answer, or cannot serve. */
  unavailable: 69,
  /** A fault of the program itself. */
  fault: 70,
  /** The configuration is wrong. */
  configuration: 78,
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
