import { constants } from 'node:os';
import type { ItemFailure, Tenant } from './batch.ts';
import type { StoredAnswer } from './request-context.ts';

/**
 * The class of an error decides what happens to its batch. A rejected `consume` means that no component took
 * the batch over. docs/errors.md lists every code.
 */

/** The same batch may succeed later: the sender keeps it and tries again. */
export class RetryableError extends Error {
  override readonly name = 'RetryableError';
  readonly code: string;
  /** Milliseconds to wait before the retry; undefined leaves it to the caller's backoff. */
  readonly retryAfterMs: number | undefined;

  constructor(
    code: string,
    message: string,
    options: { retryAfterMs?: number; cause?: unknown } = {},
  ) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined);
    this.code = code;
    this.retryAfterMs = options.retryAfterMs;
  }
}

/** Whether a call of the file system failed because the disk, or the quota of its user, is full. */
export function isDiskFull(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  // Node has no name for a reached quota: its code is UNKNOWN.
  const { code, errno } = error as NodeJS.ErrnoException;
  return code === 'ENOSPC' || errno === -constants.errno.EDQUOT;
}

/** For a batch whose request was already answered with a failure (`RequestContext.signal`). */
export function tooLate(): RetryableError {
  return new RetryableError('too_late', 'the request was already answered with a failure');
}

/** For a request whose connection is closed for one of another client (`Occupancy`). */
export function gaveWay(): Refusal {
  const message =
    'All connections are taken, and this address has more than its share of them. Try again, over fewer connections.';
  return new Refusal('unavailable', message, { retryAfterMs: 1000 });
}

/** For a request without an `Idempotency-Key`: the same one has no answer yet, and may still fail. */
export function sameInProgress(): Refusal {
  const message = 'The same request is in progress. Try again.';
  return new Refusal('unavailable', message, { retryAfterMs: 1000 });
}

/** A request that was accepted before: the store appended and counted nothing, and its client gets the first answer. */
export class RepeatedRequest extends Error {
  override readonly name = 'RepeatedRequest';
  readonly answer: StoredAnswer;

  constructor(answer: StoredAnswer) {
    super('the same request was accepted before');
    this.answer = answer;
  }
}

/** The same batch will never succeed here: it belongs in the dead letter, not in a retry. */
export class PermanentError extends Error {
  override readonly name = 'PermanentError';
  readonly code: string;
  /** The failed items if all others of the batch were taken over; undefined if the whole batch failed. */
  readonly failures: readonly ItemFailure[] | undefined;

  constructor(
    code: string,
    message: string,
    options: { failures?: readonly ItemFailure[]; cause?: unknown } = {},
  ) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined);
    this.code = code;
    this.failures = options.failures;
  }
}

/**
 * A store was written by a newer version of the program. The program refuses it before it changes anything, and
 * ends with an exit status of its own.
 */
export class NewerDataError extends Error {
  override readonly name = 'NewerDataError';
  readonly code = 'newer_data';
}

/** A file of a store is damaged, and what can be read of it is not enough to serve its clients. */
export class DamagedDataError extends Error {
  override readonly name = 'DamagedDataError';
  readonly code = 'damaged_data';
}

/** Another process has the data directory. */
export class DirectoryInUseError extends Error {
  override readonly name = 'DirectoryInUseError';
}

/** Whether another process has the data directory of the component that could not start. */
export function isInUse(error: unknown): boolean {
  for (let at = error; at instanceof Error; at = at.cause) {
    if (at instanceof DirectoryInUseError) return true;
  }
  return false;
}

export type DataError = NewerDataError | DamagedDataError;

/** The error about the data behind an error, e.g. of the component that could not start. */
export function dataErrorIn(error: unknown): DataError | undefined {
  for (let at = error; at instanceof Error; at = at.cause) {
    if (at instanceof NewerDataError || at instanceof DamagedDataError) return at;
  }
  return undefined;
}

/** Codes of requests that are refused as a whole, with their HTTP statuses. */
export const REFUSAL_STATUS = {
  unauthorized: 401,
  forbidden: 403,
  invalid_json: 400,
  invalid_request: 400,
  invalid_query: 400,
  invalid_cursor: 400,
  unsupported_content_type: 400,
  unsupported_encoding: 415,
  body_too_large: 413,
  too_many_events: 413,
  too_many_scores: 409,
  no_event_accepted: 400,
  monthly_limit: 402,
  hourly_limit: 429,
  exceeds_hourly_limit: 413,
  rate_limited: 429,
  idempotency_conflict: 409,
  idempotency_in_progress: 409,
  not_found: 404,
  method_not_allowed: 405,
  request_timeout: 408,
  query_timeout: 504,
  unavailable: 503,
} as const;
export type RefusalCode = keyof typeof REFUSAL_STATUS;

export type RefusalOptions = {
  /** Overrides the code's usual status (a wrong media type is 415 for OTLP and 400 for native events). */
  status?: number;
  /** Sent as `Retry-After`, rounded up to whole seconds. */
  retryAfterMs?: number;
  /** ISO 8601 UTC; only with `hourly_limit`. */
  hourlyIngestResetAt?: string;
  /** Sent as `Allow` with `method_not_allowed`. */
  allow?: string;
  /** Sent as `Accept-Encoding` with `unsupported_encoding`. */
  acceptEncoding?: string;
  /** Index of the character at fault, from 0; only with `invalid_query`. */
  position?: number;
  cause?: unknown;
};

/** A request that is refused as a whole, before any of it is counted, stored or queued. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly code: RefusalCode;
  readonly status: number;
  readonly retryAfterMs: number | undefined;
  readonly hourlyIngestResetAt: string | undefined;
  readonly allow: string | undefined;
  readonly acceptEncoding: string | undefined;
  readonly position: number | undefined;
  /** The request's tenant, if the pipeline knows it: for the log of rejections, never for the client. */
  tenant: Tenant | undefined;

  constructor(code: RefusalCode, message: string, options: RefusalOptions = {}) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined);
    this.code = code;
    this.status = options.status ?? REFUSAL_STATUS[code];
    this.retryAfterMs = options.retryAfterMs;
    this.hourlyIngestResetAt = options.hourlyIngestResetAt;
    this.allow = options.allow;
    this.acceptEncoding = options.acceptEncoding;
    this.position = options.position;
    this.tenant = undefined;
  }
}

/** The refusal that answers a client for any error of a pipeline; unknown errors become a 503. */
export function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  // A repetition takes as long: no `Retry-After`.
  if (error instanceof RetryableError && error.code === 'query_timeout') {
    return new Refusal('query_timeout', error.message, { cause: error });
  }
  if (error instanceof RetryableError) {
    return new Refusal('unavailable', error.message, {
      retryAfterMs: error.retryAfterMs ?? 1000,
      cause: error,
    });
  }
  return new Refusal('unavailable', 'The data could not be accepted safely. Try again.', {
    retryAfterMs: 5000,
    cause: error,
  });
}

/** A request that contradicts the rows of the store, e.g. `unknown_project`. */
export class StoreError extends Error {
  override readonly name = 'StoreError';
  readonly code:
    | 'unknown_project'
    | 'unknown_key'
    | 'invalid_name'
    | 'invalid_permissions'
    | 'invalid_cursor'
    | 'invalid_retention'
    | 'invalid_limits'
    | 'unknown_plan'
    | 'plan_limit'
    | 'project_limit'
    | 'last_project';

  constructor(code: StoreError['code'], message: string) {
    super(message);
    this.code = code;
  }
}
