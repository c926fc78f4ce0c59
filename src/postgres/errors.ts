import { PermanentError, RetryableError } from '../model/errors.ts';

/**
 * Errors of the values themselves, by the class of their SQLSTATE: they come again however often it is
 * tried. 22 data, 23 constraints, 54 limits of the server.
 */
const OF_DATA = ['22', '23', '54'];
const RETRY_AFTER_MS = 1000;

/** What a failed query means for its data. Everything that is not plainly the data's fault may pass. */
export function postgresError(error: unknown): Error {
  if (!(error instanceof Error) || isTyped(error)) return error as Error;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  if (/^[0-9A-Z]{5}$/.test(code) && OF_DATA.includes(code.slice(0, 2))) {
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

/** It has been said already what it means. */
function isTyped(error: Error): boolean {
  return ['RetryableError', 'PermanentError', 'Refusal', 'StoreError'].includes(error.name);
}
