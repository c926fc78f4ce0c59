import { didYouMean } from '../component/did-you-mean.ts';
import { Refusal } from '../model/errors.ts';
import { formatInstant, parseInstant } from '../model/instant.ts';
import type { Instant } from '../model/observation.ts';
import type { FieldName } from '../query/fields.ts';
import { FIELDS } from '../query/fields.ts';
import { parseQuery } from '../query/parse.ts';
import type { Query, QueryTerm } from '../query/query.ts';
import { QueryError } from '../query/query.ts';
import type { RankField } from '../store/ranking.ts';
import { RANK_FIELDS } from '../store/ranking.ts';

/** The most items a page holds. */
const MAX_PAGE = 1000;
const DEFAULT_TRACES = 50;

/** The part of a list that a request asks for. */
export type PageAsked = { readonly limit: number; readonly cursor?: string };

/** Refuses (400) a parameter that the request does not have: its answer would be another one than the client expects. */
export function checkParameters(query: URLSearchParams, known: readonly string[]): void {
  for (const name of query.keys()) {
    if (known.includes(name)) continue;
    const shown = JSON.stringify(name.slice(0, MAX_SHOWN));
    const all = known.length === 0 ? 'this request has none' : `known are ${known.join(', ')}`;
    const advice = didYouMean(name, known) || `; ${all}`;
    const end = advice.endsWith('?') ? '' : '.';
    throw new Refusal('invalid_request', `Unknown query parameter ${shown}${advice}${end}`);
  }
}

/** Characters of a name that an error repeats. */
const MAX_SHOWN = 100;

/** The query of `GET /api/v1/traces`: the terms of `q`, and one for each other parameter. Throws a `Refusal` (400). */
export function traceQuery(query: URLSearchParams, nowMs: number): Query {
  const { terms } = parsed(one(query, 'q') ?? '', { ms: nowMs, ns: 0 });
  const [from, to] = [instantOf(query, 'from'), instantOf(query, 'to')];
  return {
    terms: [
      ...terms,
      ...(from === undefined
        ? []
        : [startTerm({ from, to: null, text: `>=${formatInstant(from)}` })]),
      ...(to === undefined ? [] : [startTerm({ from: null, to, text: `<${formatInstant(to)}` })]),
      ...equality(query, 'status'),
      ...equality(query, 'kind'),
      ...equality(query, 'name'),
    ],
  };
}

/** The query of a text. Throws a `Refusal` (400) with the position of a mistake. */
export function queryIn(text: string, nowMs: number): Query {
  return parsed(text, { ms: nowMs, ns: 0 });
}

function parsed(text: string, now: Instant): Query {
  try {
    return parseQuery(text, now);
  } catch (error) {
    if (!(error instanceof QueryError)) throw error;
    const { message, position } = error;
    throw new Refusal('invalid_query', /[.?]$/.test(message) ? message : `${message}.`, {
      position,
    });
  }
}

type Times = Extract<QueryTerm, { type: 'times' }>;

/** A term for the time that orders listings. */
export function startTerm(range: Times['ranges'][number]): Times {
  const about = { field: 'start', key: null, negated: false, position: 0 } as const;
  return { type: 'times', ...about, ranges: [range] };
}

/** The term of a parameter that is named as a field; none without the parameter. */
function equality(query: URLSearchParams, field: FieldName): QueryTerm[] {
  const text = one(query, field);
  if (text === undefined) return [];
  const { choices } = FIELDS[field];
  if (choices !== undefined && !choices.includes(text)) {
    throw invalidParameter(field, `must be one of ${choices.join(', ')}`);
  }
  const values = [{ text, isPrefix: false }];
  return [{ type: 'values', field, key: null, negated: false, position: 0, values }];
}

/** `limit` and `cursor`. */
export function pageOf(query: URLSearchParams, byDefault = MAX_PAGE): PageAsked {
  const cursor = one(query, 'cursor');
  return { limit: limit(query, byDefault), ...(cursor === undefined ? {} : { cursor }) };
}

/** `limit` and `cursor`, for a page of traces. */
export function pageOfTraces(query: URLSearchParams): PageAsked {
  return pageOf(query, DEFAULT_TRACES);
}

/** `fields=tree`: every observation of a trace, which has no pages and no payloads. */
export function asksForTree(query: URLSearchParams): boolean {
  const fields = one(query, 'fields');
  if (fields === undefined) return false;
  if (fields !== 'tree') throw invalidParameter('fields', 'must be tree');
  for (const name of ['payloads', 'limit', 'cursor']) {
    if (one(query, name) !== undefined)
      throw invalidParameter(name, 'does not go with fields=tree');
  }
  return true;
}

/** The parameter's value; undefined where it is absent or empty. Throws where it is repeated. */
export function one(query: URLSearchParams, name: string): string | undefined {
  const values = query.getAll(name);
  if (values.length > 1) throw invalidParameter(name, 'may be given once');
  return values[0] === '' ? undefined : values[0];
}

/** `true` or `false`; false where it is absent. */
export function flag(query: URLSearchParams, name: string): boolean {
  const value = one(query, name);
  if (value === undefined || value === 'false') return false;
  if (value === 'true') return true;
  throw invalidParameter(name, 'must be true or false');
}

/** `wait`: a time such as `5s` or `500ms`, in milliseconds; undefined if it is absent. */
export function waitOf(query: URLSearchParams, longest: number): number | undefined {
  const value = one(query, 'wait');
  if (value === undefined) return undefined;
  const match = /^(\d{1,9})(ms|s)$/.exec(value);
  const ms = match === null ? Number.NaN : Number(match[1]) * (match[2] === 's' ? 1000 : 1);
  if (!(ms <= longest))
    throw invalidParameter('wait', `must be a time such as 5s, ${longest / 1000}s at most`);
  return ms;
}

/** One of the values; `byDefault` where it is absent. */
export function choice<const Value extends string>(
  query: URLSearchParams,
  name: string,
  values: readonly Value[],
  byDefault: Value,
): Value {
  const given = one(query, name);
  if (given === undefined) return byDefault;
  const found = values.find((value) => value === given);
  if (found === undefined) throw invalidParameter(name, `must be one of ${values.join(', ')}`);
  return found;
}

/** A whole number from 1; undefined where it is absent. */
export function count(query: URLSearchParams, name: string): number | undefined {
  const value = one(query, name);
  if (value === undefined) return undefined;
  if (!/^[1-9]\d{0,14}$/.test(value)) throw invalidParameter(name, 'must be a whole number from 1');
  return Number(value);
}

export function invalidParameter(name: string, what: string): Refusal {
  return new Refusal('invalid_request', `The query parameter ${name} ${what}.`);
}

function limit(query: URLSearchParams, byDefault: number): number {
  const value = one(query, 'limit');
  if (value === undefined) return byDefault;
  const number = /^\d{1,4}$/.test(value) ? Number(value) : 0;
  if (number < 1 || number > MAX_PAGE) throw invalidParameter('limit', `must be 1 to ${MAX_PAGE}`);
  return number;
}

export function instantOf(query: URLSearchParams, name: string): Instant | undefined {
  const value = one(query, name);
  if (value === undefined) return undefined;
  const time = parseInstant(value);
  if (time === undefined) {
    throw invalidParameter(name, 'must be an ISO 8601 time, such as 2026-11-03T00:00:00Z');
  }
  return time;
}

/** How a list of traces is sorted. */
export type AskedOrder = { readonly sort: 'start' | RankField; readonly isAscending: boolean };

/** `sort` and `order`. */
export function askedOrder(query: URLSearchParams): AskedOrder {
  const sort = choice(query, 'sort', ['start', ...RANK_FIELDS], 'start');
  return { sort, isAscending: choice(query, 'order', ['desc', 'asc'], 'desc') === 'asc' };
}
