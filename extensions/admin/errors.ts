import { ControlError } from '../../src/control/protocol.ts';
import { Refusal, RetryableError, StoreError } from '../../src/model/errors.ts';

/** Every error code of the admin API, with its status and meaning. */
export const API_CODES = {
  invalid_json: { status: 400, meaning: 'The body is not valid JSON.' },
  invalid_request: { status: 400, meaning: 'Path, query or body does not match the schema.' },
  invalid_name: { status: 400, meaning: 'The name does not have 1 to 200 characters.' },
  invalid_permissions: { status: 400, meaning: 'The key has no permission, or an unknown one.' },
  invalid_retention: {
    status: 400,
    meaning: 'The retention is not a whole number of days, or is longer than the plan’s.',
  },
  invalid_limits: {
    status: 400,
    meaning: 'The limit of a project is neither a whole number from 1 nor null.',
  },
  invalid_query: { status: 400, meaning: 'The query of a list has a mistake at `position`.' },
  invalid_cursor: { status: 400, meaning: 'The cursor is not from this listing.' },
  unknown_plan: { status: 400, meaning: 'The plan does not exist.' },
  unauthorized: {
    status: 401,
    meaning: 'The admin token or the code is missing or wrong, or the session has ended.',
  },
  foreign_site: {
    status: 403,
    meaning:
      'The request comes from a page of another site, or changes something by cookie without `x-tracectl-ui: 1`.',
  },
  not_found: {
    status: 404,
    meaning: 'The path, trace, observation, event, erasure, session or queue does not exist.',
  },
  unknown_project: { status: 404, meaning: 'The project does not exist.' },
  unknown_key: { status: 404, meaning: 'The key does not exist.' },
  method_not_allowed: { status: 405, meaning: 'The path has other methods; Allow lists them.' },
  request_timeout: { status: 408, meaning: 'The request did not arrive in time.' },
  plan_limit: { status: 409, meaning: 'The organization has more projects than the plan allows.' },
  project_limit: { status: 409, meaning: 'The plan allows no further project.' },
  too_many_scores: { status: 409, meaning: 'The trace has as many scores as it may have.' },
  last_project: { status: 409, meaning: 'The last project cannot be deleted.' },
  body_too_large: { status: 413, meaning: 'The body exceeds 64 KiB.' },
  unsupported_content_type: { status: 415, meaning: 'The body is not application/json.' },
  unsupported_encoding: { status: 415, meaning: 'The body is compressed.' },
  rate_limited: {
    status: 429,
    meaning: 'Too many wrong tokens from this address, or too many reading requests in progress.',
  },
  misdirected: { status: 421, meaning: 'Host names another host.' },
  headers_too_large: { status: 431, meaning: 'The headers exceed 16 KiB.' },
  unavailable: { status: 503, meaning: 'The store cannot be reached, or the service is stopping.' },
  query_timeout: { status: 504, meaning: 'Finding the answer took too long. Ask for less.' },
} as const;
export type ApiCode = keyof typeof API_CODES;

export type ApiErrorOptions = {
  /** Sent as `Retry-After`, rounded up to whole seconds. */
  readonly retryAfterMs?: number;
  /** Sent as `Allow`. */
  readonly allow?: string;
  /** Sent as `Set-Cookie`. */
  readonly setCookie?: readonly string[];
  /** Index of the character at fault, with `invalid_query`. */
  readonly position?: number | undefined;
  readonly cause?: unknown;
};

/** A refused request: a code and a message. The message never repeats a value of the request. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly code: ApiCode;
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[]>>;
  readonly position: number | undefined;

  constructor(code: ApiCode, message: string, options: ApiErrorOptions = {}) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined);
    this.code = code;
    this.status = API_CODES[code].status;
    this.position = options.position;
    this.headers = {
      ...(options.retryAfterMs === undefined
        ? {}
        : { 'retry-after': String(Math.max(1, Math.ceil(options.retryAfterMs / 1000))) }),
      ...(options.allow === undefined ? {} : { allow: options.allow }),
      ...(options.setCookie === undefined ? {} : { 'set-cookie': [...options.setCookie] }),
      ...(code === 'unauthorized' ? { 'www-authenticate': 'Bearer' } : {}),
      ...(code === 'unsupported_encoding' ? { 'accept-encoding': 'identity' } : {}),
    };
  }
}

/** Maps an error of an operation or of the framework to the answer. */
export function apiErrorOf(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof Refusal) {
    const { code, message, position } = error;
    if (code === 'invalid_query' || code === 'invalid_request') {
      return new ApiError(code, message, { position });
    }
  }
  if (error instanceof ControlError) return ofCommand(error);
  if (error instanceof StoreError) return new ApiError(error.code, sentence(error.message));
  if (error instanceof RetryableError && error.code === 'query_timeout') {
    return new ApiError('query_timeout', sentence(error.message), { cause: error });
  }
  if (error instanceof RetryableError) {
    const retryAfterMs = error.retryAfterMs ?? 1000;
    return new ApiError('unavailable', sentence(error.message), { retryAfterMs, cause: error });
  }
  return ofFramework(error) ?? unforeseen(error);
}

/** Errors of commands over all workers; those that are not listed pass. */
function ofCommand(error: ControlError): ApiError {
  switch (error.code) {
    case 'invalid_request':
      return new ApiError('invalid_request', 'The query or body does not match the schema.');
    case 'no_queue':
    case 'unknown_queue':
    case 'unknown_dead_letter':
      return new ApiError('not_found', 'The queue does not exist, or several have dead letters.');
    default:
      return new ApiError('unavailable', sentence(error.message), {
        retryAfterMs: 1000,
        cause: error,
      });
  }
}

/** Fastify's own errors that a request can cause. */
function ofFramework(error: unknown): ApiError | undefined {
  switch ((error as { code?: unknown } | null)?.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return new ApiError('body_too_large', 'The body exceeds 64 KiB.');
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return new ApiError('unsupported_content_type', 'The body must be application/json.');
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return new ApiError('invalid_request', 'The length of the body differs from Content-Length.');
    case 'FST_ERR_BAD_URL':
      return new ApiError('invalid_request', 'The path has an invalid percent escape.');
    case 'FST_ERR_MAX_PARAM_LENGTH':
      return new ApiError('not_found', 'The path does not exist.');
    default:
      return undefined;
  }
}

function unforeseen(error: unknown): ApiError {
  return new ApiError('unavailable', 'The request failed. Retry later.', {
    retryAfterMs: 5000,
    cause: error,
  });
}

/** Makes a sentence of a store's message, which begins in lower case and has no full stop. */
function sentence(message: string): string {
  const text = message.charAt(0).toUpperCase() + message.slice(1);
  return /[.!?]$/.test(text) ? text : `${text}.`;
}
