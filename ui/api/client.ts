import { segmentOf } from '../../src/model/path-id.ts';
import type { QueryValues } from './address.ts';
import { withParameters } from './address.ts';
import { daemonNow, noteDate } from './clock.ts';
import { parseExact } from './exact-json.ts';

/** A request of the pages that failed: an answer of the daemon, or no answer at all. */
export class ApiFailure extends Error {
  override readonly name = 'ApiFailure';
  /** 0 if there was no answer. */
  readonly status: number;
  readonly code: string;
  /** With `invalid_query`: the index of the character at fault. */
  readonly position: number | undefined;
  /** Seconds until a retry makes sense. */
  readonly retryAfter: number | undefined;
  /** When it was noted, in milliseconds of `performance.now`: the clock of the browser may change. */
  readonly notedAt = performance.now();

  constructor(status: number, answer: Problem, retryAfter?: number) {
    super(answer.message);
    this.status = status;
    this.code = answer.code;
    this.position = answer.position;
    this.retryAfter = retryAfter;
  }

  /**
   * Whether the same request fails again until a person changes something: the daemon understood it, and refused it. A proxy in front of
   * a daemon that restarts may answer 404, too.
   */
  get isFinal(): boolean {
    const isRefusal = this.status >= 400 && this.status < 500 && !PASSING.has(this.status);
    return isRefusal && this.code !== UNREADABLE;
  }

  /** Whether the time that the answer asks to wait is not over yet. */
  get isAsking(): boolean {
    return this.notedAt + this.waitOf(0) > performance.now();
  }

  /** Milliseconds after which a page that would try again after `least` of them does so: later if the answer asks for it. */
  waitOf(least: number): number {
    return Math.min(Math.max(least, (this.retryAfter ?? 0) * 1_000), LONGEST_WAIT_MS);
  }

  static of(error: unknown): ApiFailure {
    if (error instanceof ApiFailure) return error;
    const message = error instanceof Error ? error.message : String(error);
    return new ApiFailure(0, { code: 'no_answer', message });
  }
}

/** The code of an answer that has none. */
const UNREADABLE = 'failed';
/** A timer of a browser that is to wait longer does not wait at all. */
const LONGEST_WAIT_MS = 2 ** 31 - 1;
/** Refusals of a moment: a slow request, a limit. */
const PASSING: ReadonlySet<number> = new Set([408, 425, 429]);

type Problem = {
  readonly code: string;
  readonly message: string;
  readonly position?: number | undefined;
};

type Options = {
  readonly query?: QueryValues | undefined;
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
  /** Integers that a double cannot hold are `bigint`. */
  readonly isExact?: boolean;
};

const signedOutListeners = new Set<() => void>();

/** Calls back when an answer says that the session has ended. */
export function onSignedOut(call: () => void): void {
  signedOutListeners.add(call);
}

const unknownProjectListeners = new Set<() => void>();

/** Calls back when an answer says that a project does not exist any more. */
export function onUnknownProject(call: () => void): void {
  unknownProjectListeners.add(call);
}

/** The address of a request; `path` is relative to `/api/v1` and has its segments encoded. */
export function apiPath(path: string, query: QueryValues = {}): string {
  return withParameters(`/api/v1${path}`, query);
}

/** Encodes ids for a path: `segments` of `/projects/:id` as a tagged template. */
export function at(texts: TemplateStringsArray, ...ids: readonly string[]): string {
  return texts.reduce((path, text, index) => path + segmentOf(ids[index - 1] ?? '') + text);
}

/** Reads JSON. Throws an `ApiFailure`. The caller names the shape, which the OpenAPI document describes. */
export async function get<Answer>(path: string, options: Options = {}): Promise<Answer> {
  return (await jsonOf(await request('GET', path, options), options.isExact)) as Answer;
}

/** Changes something. Returns undefined if the answer has no body. */
export async function send<Answer = undefined>(
  method: 'POST' | 'PATCH' | 'DELETE',
  path: string,
  options: Options = {},
): Promise<Answer> {
  const answer = await request(method, path, options);
  return (answer.status === 204 ? undefined : await jsonOf(answer)) as Answer;
}

async function request(
  method: string,
  path: string,
  { query, body, signal }: Options,
): Promise<Response> {
  // A form of another site cannot send this header.
  const headers = new Headers({ accept: 'application/json', 'x-tracectl-ui': '1' });
  if (body !== undefined) headers.set('content-type', 'application/json');
  const sent = Date.now();
  let answer: Response;
  try {
    answer = await fetch(apiPath(path, query), {
      method,
      headers,
      body: body === undefined ? null : JSON.stringify(body),
      credentials: 'same-origin',
      redirect: 'error',
      signal: signal ?? null,
    });
  } catch (error) {
    if (signal?.aborted === true) throw error;
    throw new ApiFailure(0, { code: 'no_answer', message: 'The daemon does not answer.' });
  }
  noteDate(answer.headers.get('date'), { sent, received: Date.now() });
  if (answer.ok) return answer;
  const failure = await failureOf(answer);
  if (answer.status === 401) for (const call of signedOutListeners) call();
  if (failure.code === 'unknown_project') for (const call of unknownProjectListeners) call();
  throw failure;
}

async function jsonOf(answer: Response, isExact = false): Promise<unknown> {
  try {
    return isExact ? parseExact(await answer.text()) : await answer.json();
  } catch {
    throw new ApiFailure(answer.status, {
      code: 'bad_answer',
      message: 'The answer of the daemon broke off or is not JSON.',
    });
  }
}

async function failureOf(answer: Response): Promise<ApiFailure> {
  const retryAfter = secondsUntil(answer.headers.get('retry-after'), daemonNow());
  let problem: Problem = { code: UNREADABLE, message: `The daemon answered ${answer.status}.` };
  try {
    const given: unknown = await answer.json();
    if (isProblem(given)) problem = given;
  } catch {
    // The message above has the status.
  }
  return new ApiFailure(answer.status, problem, retryAfter);
}

/** The seconds of a `Retry-After` at a time of the daemon, milliseconds; proxies may send a date. */
export function secondsUntil(retryAfter: string | null, now: number): number | undefined {
  if (retryAfter === null) return undefined;
  if (/^\d+$/.test(retryAfter)) return Number(retryAfter);
  const at = Date.parse(retryAfter);
  return Number.isNaN(at) ? undefined : Math.max(0, Math.ceil((at - now) / 1_000));
}

function isProblem(value: unknown): value is Problem {
  if (typeof value !== 'object' || value === null) return false;
  return 'message' in value && typeof value.message === 'string' && 'code' in value;
}
