import { PermanentError, Refusal, RetryableError, StoreError } from '../../../src/model/errors.ts';
import { NO_STANDBY } from './standby-wait.ts';

/**
 * Classes of SQLSTATE that blame the values themselves, so that every retry fails again: 22 data, 23 constraints,
 * 54 limits of the server.
 */
const DATA_ERRORS = ['22', '23', '54'];
const RETRY_AFTER_MS = 1000;
const SQLSTATE = /^[0-9A-Z]{5}$/;
/** A statement that was cancelled because of its time-out, or that waited too long for a lock. */
const TOO_SLOW = ['57014', '55P03'];

/** The typed error for a failed query. Every error that does not plainly blame the data is retryable. */
export function postgresError(error: unknown): Error {
  if (!(error instanceof Error) || isTyped(error)) return error as Error;
  const code = sqlStateOf(error);
  if (SQLSTATE.test(code) && DATA_ERRORS.includes(code.slice(0, 2))) {
    return new PermanentError('storage_refused', `Postgres rejected the data (${code})`, {
      cause: error,
    });
  }
  if (TOO_SLOW.includes(code)) {
    return new RetryableError('statement_timeout', `A statement took Postgres too long (${code})`, {
      retryAfterMs: RETRY_AFTER_MS,
      cause: error,
    });
  }
  const reason = code === '' ? '' : ` (${code})`;
  const message = isPoolBusy(error)
    ? 'Every connection to Postgres is in use'
    : `Postgres cannot be used${reason}`;
  return new RetryableError('storage_failed', message, {
    retryAfterMs: RETRY_AFTER_MS,
    cause: error,
  });
}

/** The error of a start for people, who see no cause of it: with the condition of the server, or its words. */
export function startError(error: unknown): unknown {
  if (!(error instanceof RetryableError && error.cause instanceof Error)) return error;
  const { cause, code, message } = error;
  const outage = outageOf(cause);
  const state = sqlStateOf(cause);
  if (outage !== undefined && (outage.isAway || state === NO_STANDBY))
    return new RetryableError(code, outage.message, { cause });
  const [, advice] = START_ADVICE.find(([states]) => states.test(state)) ?? [];
  const text = `${message}: ${cause.message}`;
  return new RetryableError(code, advice === undefined ? text : `${text}. ${advice}`, { cause });
}

/** For refusals whose words name the table or the schema, and not what to do. A start is not retried. */
const START_ADVICE: readonly (readonly [code: RegExp, advice: string])[] = [
  [
    /^25006$/,
    'Name the primary in the url, and leave default_transaction_read_only of the role and the database off.',
  ],
  [/^(42P01|3F000)$/, 'Check the search_path of the role and the database.'],
  [
    /^42501$/,
    'Grant it, or use the role that owns the tables. The README of the extension lists the rights.',
  ],
];

/** Deadlock, serialization failure. */
const CONFLICTS = ['40P01', '40001'];

/** Whether the server rolled a transaction back because of another one, so that an immediate retry may succeed. */
export function isConflict(error: unknown): boolean {
  const cause = error instanceof RetryableError ? error.cause : error;
  return cause instanceof Error && CONFLICTS.includes(sqlStateOf(cause));
}

/** A caller waited too long for a connection of the pool, because others have them all. The driver gives no code. */
function isPoolBusy(error: Error): boolean {
  return error.message === 'timeout exceeded when trying to connect';
}

/** The SQLSTATE, or the system's code of a connection (`ECONNREFUSED`); empty for an error with neither. */
export function sqlStateOf(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : '';
}

/** A condition of the server or the network that fails every statement, not only the one that met it. */
export type Outage = {
  /** The server cannot be reached or lets no connection in; otherwise it answers, and rejects writes. */
  readonly isAway: boolean;
  /** For people: the condition, its code, and what to do. */
  readonly message: string;
};

type KnownOutages = readonly (readonly [code: RegExp, condition: string, advice: string])[];

const AWAY: KnownOutages = [
  [
    /^53300$/,
    'Postgres has no connection left',
    'Raise max_connections of the server, or lower max_connections of the extension.',
  ],
  [
    /^28/,
    'Postgres rejected the role',
    'Check that it may log in (LOGIN, pg_hba.conf) and that its password is right.',
  ],
  [/^3D000$/, 'The database does not exist', 'Create it, or correct the url.'],
  [/^57P0[123]$/, 'Postgres is shutting down or starting up', 'Connections are retried.'],
];
/** Errors of the driver, which have no code. */
const DRIVER: KnownOutages = [
  [
    /client password must be a/,
    'Postgres asks for a password, and there is none',
    'Add it to the url.',
  ],
  [
    /server does not support SSL/,
    'Postgres has no TLS',
    'Turn it on in the server, or leave tls and sslmode out.',
  ],
];
const REJECTING: KnownOutages = [
  [/^25006$/, 'Postgres is read-only', 'Connections are retried until they reach a primary.'],
  [/^53100$/, 'The disk of Postgres is full', 'Free space on it.'],
  [
    new RegExp(`^${NO_STANDBY}$`),
    'Commits of Postgres wait for a synchronous standby',
    'Start the standby, or take it out of synchronous_standby_names.',
  ],
  [/^53/, 'Postgres is out of resources', 'See the log of the server.'],
  [
    /^(42P01|3F000)$/,
    'The database lacks tables of the store',
    'Check the url; the next start makes them in an empty database.',
  ],
  [
    /^42501$/,
    'The role of Postgres lacks a right',
    'Grant it, or use the role that owns the tables.',
  ],
];

/**
 * Undefined if the server answered, and its answer concerns the statement only; also for a busy pool, because the
 * statements on its connections report an outage themselves.
 */
export function outageOf(error: unknown): Outage | undefined {
  if (!(error instanceof Error) || isTyped(error) || isPoolBusy(error)) return undefined;
  const code = sqlStateOf(error);
  const away = known(AWAY, code);
  if (away !== undefined) return { isAway: true, message: away };
  const rejecting = known(REJECTING, code);
  if (rejecting !== undefined) return { isAway: false, message: rejecting };
  if (isAnswer(error)) return undefined;
  const ofDriver = DRIVER.find(([words]) => words.test(error.message));
  if (ofDriver !== undefined) return { isAway: true, message: `${ofDriver[1]}. ${ofDriver[2]}` };
  const reason = code === '' ? error.message : code;
  const message = isRefusal(error)
    ? `Postgres refuses connections (${code}): ${error.message}. See the log of the server.`
    : `Postgres cannot be reached (${reason}). Check the url, the network and the server.`;
  return { isAway: true, message };
}

/** Whether the error is an answer of the server that ends the connection. */
function isRefusal(error: Error): boolean {
  return 'severity' in error && error.severity === 'FATAL';
}

function known(outages: KnownOutages, code: string): string | undefined {
  const found = outages.find(([pattern]) => pattern.test(code));
  return found === undefined ? undefined : `${found[1]} (${code}). ${found[2]}`;
}

/** Whether the error is the server's answer to a statement, after which its connection goes on. */
function isAnswer(error: unknown): boolean {
  return error instanceof Error && 'severity' in error && error.severity === 'ERROR';
}

/** Whether the connection can be used again: one to a read-only server leads to a former primary. */
export function isUsableAfter(error: unknown): boolean {
  return isAnswer(error) && !isReadOnly(error);
}

/** SQLSTATE of a write to a server that is read-only. */
export const READ_ONLY = '25006';

/** The server answers but accepts no writes; after a failover its data may be out of date. */
export function isReadOnly(error: unknown): boolean {
  return error instanceof Error && sqlStateOf(error) === READ_ONLY;
}

/** Whether the error says already what it means for the batch or request. */
function isTyped(error: Error): boolean {
  return [RetryableError, PermanentError, Refusal, StoreError].some(
    (type) => error instanceof type,
  );
}
