import { Refusal } from '../model/errors.ts';
import { parseInstant } from '../model/instant.ts';
import type { Instant, ObservationKind, ObservationStatus } from '../model/observation.ts';
import { OBSERVATION_KINDS, OBSERVATION_STATUSES } from '../model/observation.ts';
import type { TraceFilter } from '../store/store.ts';

/** The most items a page holds. */
const MAX_PAGE = 1000;
const DEFAULT_TRACES = 50;

/** The filter of `GET /api/v1/traces`. Throws a `Refusal` (400) that names the parameter at fault. */
export function traceFilter(query: URLSearchParams): TraceFilter {
  const cursor = one(query, 'cursor');
  const from = instant(query, 'from');
  const to = instant(query, 'to');
  const status = among(query, 'status', OBSERVATION_STATUSES);
  const kind = among(query, 'kind', OBSERVATION_KINDS);
  const name = one(query, 'name');
  const text = one(query, 'q');
  return {
    limit: limit(query, DEFAULT_TRACES),
    ...(cursor === undefined ? {} : { cursor }),
    ...(from === undefined ? {} : { from }),
    ...(to === undefined ? {} : { to }),
    ...(status === undefined ? {} : { status: status as ObservationStatus }),
    ...(kind === undefined ? {} : { kind: kind as ObservationKind }),
    ...(name === undefined ? {} : { name }),
    ...(text === undefined ? {} : { query: text }),
  };
}

/** `limit` and `cursor`, for a page of a trace's observations. */
export function pageOf(query: URLSearchParams): { limit: number; cursor?: string } {
  const cursor = one(query, 'cursor');
  return { limit: limit(query, MAX_PAGE), ...(cursor === undefined ? {} : { cursor }) };
}

/** `fields=tree`: every observation of a trace, which has no pages and no payloads. */
export function asksForTree(query: URLSearchParams): boolean {
  const fields = one(query, 'fields');
  if (fields === undefined) return false;
  if (fields !== 'tree') throw invalid('fields', 'must be tree');
  for (const name of ['payloads', 'limit', 'cursor']) {
    if (one(query, name) !== undefined) throw invalid(name, 'does not go with fields=tree');
  }
  return true;
}

/** The parameter's value; undefined where it is absent or empty. Throws where it is repeated. */
export function one(query: URLSearchParams, name: string): string | undefined {
  const values = query.getAll(name);
  if (values.length > 1) throw invalid(name, 'may be given once');
  return values[0] === '' ? undefined : values[0];
}

/** `true` or `false`; false where it is absent. */
export function flag(query: URLSearchParams, name: string): boolean {
  const value = one(query, name);
  if (value === undefined || value === 'false') return false;
  if (value === 'true') return true;
  throw invalid(name, 'must be true or false');
}

function invalid(name: string, what: string): Refusal {
  return new Refusal('invalid_request', `The query parameter ${name} ${what}.`);
}

function limit(query: URLSearchParams, byDefault: number): number {
  const value = one(query, 'limit');
  if (value === undefined) return byDefault;
  const number = /^\d{1,4}$/.test(value) ? Number(value) : 0;
  if (number < 1 || number > MAX_PAGE) throw invalid('limit', `must be 1 to ${MAX_PAGE}`);
  return number;
}

function among(
  query: URLSearchParams,
  name: string,
  allowed: readonly string[],
): string | undefined {
  const value = one(query, name);
  if (value === undefined || allowed.includes(value)) return value;
  throw invalid(name, `must be one of ${allowed.join(', ')}`);
}

function instant(query: URLSearchParams, name: string): Instant | undefined {
  const value = one(query, name);
  if (value === undefined) return undefined;
  const parsed = parseInstant(value);
  if (parsed === undefined) throw invalid(name, 'must be an ISO 8601 date and time');
  return parsed;
}
