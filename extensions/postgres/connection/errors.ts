import { PermanentError, RetryableError } from '../../../src/model/errors.ts';

/**
 * Errors of the values themselves, by the class of their SQLSTATE: they come again however often it is
 * tried. 22 data, 23 constraints, 54 limits of the server.
 */
const OF_DATA = ['22', '23', '54'];
const RETRY_AFTER_MS = 1000;
const SQLSTATE = /^[0-9A-Z]{5}$/;

/** What a failed query means for its data. Everything that is not plainly the data's fault may pass. */
export function postgresError(error: unknown): Error {
  if (!(error instanceof Error) || isTyped(error)) return error as Error;
  const code = codeOf(error);
  if (SQLSTATE.test(code) && OF_DATA.includes(code.slice(0, 2))) {
    return new PermanentError('storage_refused', `Postgres refuses the data (${code})`, {
      cause: error,
    });
  }
  const reason = code === '' ? '' : ` (${code})`;
  return new RetryableError('storage_failed', `Postgres cannot be used${reason}`, {
    retryAfterMs: RETRY_AFTER_MS,
    cause: error,
  });
}

/** SQLSTATE, or what the system says of a connection (`ECONNREFUSED`); empty where there is neither. */
function codeOf(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : '';
}

/** What keeps everybody from using the database, as against one statement that fails. */
export type Trouble = {
  /** Nobody can be reached: another process may fare better. Else the server is there, and refuses. */
  readonly isAway: boolean;
  /** One sentence for people. */
  readonly message: string;
};

const AWAY: readonly (readonly [RegExp, string])[] = [
  [/^53300$/, 'Postgres has no connection left.'],
  [/^28/, 'Postgres lets this role not in.'],
  [/^3D000$/, 'Postgres does not have this database.'],
  [/^57P0[123]$/, 'Postgres is going down, or coming up.'],
];
const REFUSING: readonly (readonly [RegExp, string])[] = [
  [/^25006$/, 'Postgres is read-only.'],
  [/^53100$/, 'The disk of Postgres is full.'],
  [/^53/, 'Postgres has no room left.'],
];

/** Undefined where the server answered, and the answer concerns the statement alone. */
export function troubleOf(error: unknown): Trouble | undefined {
  if (!(error instanceof Error) || isTyped(error)) return undefined;
  const code = codeOf(error);
  const known = (table: typeof AWAY) => table.find(([pattern]) => pattern.test(code))?.[1];
  const away = known(AWAY);
  if (away !== undefined) return { isAway: true, message: `${away} (${code})` };
  const refusing = known(REFUSING);
  if (refusing !== undefined) return { isAway: false, message: `${refusing} (${code})` };
  if (isAnswer(error)) return undefined;
  const reason = code === '' ? '' : ` (${code})`;
  return { isAway: true, message: `Postgres cannot be reached${reason}.` };
}

/** Whether the server said so itself, and goes on listening. */
export function isAnswer(error: unknown): boolean {
  return error instanceof Error && 'severity' in error && error.severity === 'ERROR';
}

/** Whether a connection is of use after this: that of a server which another one took over from is not. */
export function isUsableAfter(error: unknown): boolean {
  return isAnswer(error) && !isReadOnly(error);
}

/** The server answers, and takes nothing: what it has may be old. */
export function isReadOnly(error: unknown): boolean {
  return error instanceof Error && codeOf(error) === '25006';
}

/** It has been said already what it means. */
function isTyped(error: Error): boolean {
  return ['RetryableError', 'PermanentError', 'Refusal', 'StoreError'].includes(error.name);
}
