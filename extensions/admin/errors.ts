import { RetryableError, StoreError } from '../../src/model/errors.ts';

/** Every code that the admin API answers, with its status and what it means. */
export const API_CODES = {
  invalid_json: { status: 400, meaning: 'The body is no JSON.' },
  invalid_request: { status: 400, meaning: 'Path, query or body has not the shape asked for.' },
  invalid_name: { status: 400, meaning: 'A name has 1 to 200 characters.' },
  invalid_permissions: { status: 400, meaning: 'A key has at least one known permission.' },
  invalid_retention: { status: 400, meaning: 'Retention is whole days, no more than the plan’s.' },
  invalid_limits: {
    status: 400,
    meaning: 'A limit of a project is a whole number from 1, or null.',
  },
  invalid_cursor: { status: 400, meaning: 'The cursor was not made by this listing.' },
  unknown_plan: { status: 400, meaning: 'There is no such plan.' },
  unauthorized: { status: 401, meaning: 'The admin token is missing or wrong.' },
  not_found: { status: 404, meaning: 'Nothing is served at this path.' },
  unknown_project: { status: 404, meaning: 'There is no such project.' },
  unknown_key: { status: 404, meaning: 'There is no such key.' },
  method_not_allowed: { status: 405, meaning: 'The path takes other methods; Allow lists them.' },
  request_timeout: { status: 408, meaning: 'The request took too long to arrive.' },
  plan_limit: { status: 409, meaning: 'The organization has more projects than the plan allows.' },
  project_limit: { status: 409, meaning: 'The plan allows no further project.' },
  last_project: { status: 409, meaning: 'The last project cannot be deleted.' },
  body_too_large: { status: 413, meaning: 'The body is over 64 KiB.' },
  unsupported_content_type: { status: 415, meaning: 'The body is not application/json.' },
  unsupported_encoding: { status: 415, meaning: 'The body is compressed.' },
  rate_limited: { status: 429, meaning: 'Too many wrong tokens came from this address.' },
  headers_too_large: { status: 431, meaning: 'The headers exceed 16 KiB.' },
  unavailable: { status: 503, meaning: 'The store cannot be reached now, or the service stops.' },
} as const;
export type ApiCode = keyof typeof API_CODES;

export type ApiErrorOptions = {
  /** Sent as `Retry-After`, rounded up to whole seconds. */
  readonly retryAfterMs?: number;
  /** Sent as `Allow`. */
  readonly allow?: string;
  readonly cause?: unknown;
};

/** A request that is answered with a code and a sentence. The sentence never repeats what was sent. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly code: ApiCode;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(code: ApiCode, message: string, options: ApiErrorOptions = {}) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined);
    this.code = code;
    this.status = API_CODES[code].status;
    this.headers = {
      ...(options.retryAfterMs === undefined
        ? {}
        : { 'retry-after': String(Math.max(1, Math.ceil(options.retryAfterMs / 1000))) }),
      ...(options.allow === undefined ? {} : { allow: options.allow }),
      ...(code === 'unauthorized' ? { 'www-authenticate': 'Bearer' } : {}),
    };
  }
}

/** What an operation or the framework threw, as it is answered. */
export function apiErrorOf(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof StoreError) return new ApiError(error.code, sentence(error.message));
  if (error instanceof RetryableError) {
    const retryAfterMs = error.retryAfterMs ?? 1000;
    return new ApiError('unavailable', sentence(error.message), { retryAfterMs, cause: error });
  }
  return ofFramework(error) ?? unforeseen(error);
}

/** Fastify's own errors that a request can cause. */
function ofFramework(error: unknown): ApiError | undefined {
  switch ((error as { code?: unknown } | null)?.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return new ApiError('body_too_large', 'The body is over 64 KiB.');
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return new ApiError('unsupported_content_type', 'The body must be application/json.');
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return new ApiError('invalid_request', 'The body is not as long as Content-Length says.');
    case 'FST_ERR_BAD_URL':
      return new ApiError('invalid_request', 'The path has a broken percent escape.');
    case 'FST_ERR_MAX_PARAM_LENGTH':
      return new ApiError('not_found', 'Nothing is served at this path.');
    default:
      return undefined;
  }
}

function unforeseen(error: unknown): ApiError {
  return new ApiError('unavailable', 'The request could not be carried out. Try again.', {
    retryAfterMs: 5000,
    cause: error,
  });
}

/** Stores say what is wrong in lower case and without an end. */
function sentence(message: string): string {
  const text = message.charAt(0).toUpperCase() + message.slice(1);
  return /[.!?]$/.test(text) ? text : `${text}.`;
}
