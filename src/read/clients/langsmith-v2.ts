import { answer } from '../../http/exchange.ts';
import { Refusal } from '../../model/errors.ts';
import type { Instant } from '../../model/observation.ts';
import { answerJson } from '../answer.ts';
import { jsonBody } from '../json-body.ts';
import type { StoreReading } from '../stored-request.ts';
import { DAY_MS } from '../time-range.ts';
import type { Form } from './langsmith-forms.ts';
import { checkForms, shownName } from './langsmith-forms.ts';
import { filterNotServed, MAX_QUERY_BYTES, timeIn } from './langsmith-runs.ts';
import type { Members } from './members.ts';
import { objectOf } from './members.ts';
import { uuidOf } from './uuid.ts';

/** The common parts of the requests of the second version of LangSmith's API. */

/**
 * The body of a query. Throws a `Refusal` (400) for a member without a form, because the answer would have more than the client expects
 * if it were ignored, and for one of another form.
 */
export async function queryBody(
  { exchange, read }: StoreReading,
  forms: ReadonlyMap<string, Form>,
): Promise<Members> {
  const given = objectOf(await jsonBody(exchange, read, MAX_QUERY_BYTES), 'The body');
  const other = Object.entries(given).find(([name, value]) => value !== null && !forms.has(name));
  if (other !== undefined) throw filterNotServed(shownName(other[0]));
  checkForms(given, forms);
  return given;
}

/** The times of a query: those of the last day without a first time, as the clients document it. */
export function timesIn(
  given: Members,
  nowMs: number,
): { since: Instant | undefined; recentlySince: Instant | undefined; before: Instant | undefined } {
  const since = timeIn(given, 'min_start_time');
  return {
    since,
    recentlySince: since === undefined ? { ms: nowMs - DAY_MS, ns: 0 } : undefined,
    before: timeIn(given, 'max_start_time'),
  };
}

/** The project of the key is meant if the client names none. */
export function isOwn({ tenant }: StoreReading, projects: readonly string[]): boolean {
  return projects.length === 0 || projects.includes(uuidOf(tenant.projectId));
}

/** Whether a client reads events only, as the functions `streaming` of LangSmith's clients do. */
export function acceptsStream({ exchange }: StoreReading): boolean {
  const accept = String(exchange.head.headers.get('accept') ?? '').toLowerCase();
  return accept.includes('text/event-stream') && !accept.includes('application/json');
}

/**
 * A page of a list. A stream of it has one event, a list of JSON patches that sets the whole page: the clients read the items and the
 * cursor from it, and ask for the next page themselves.
 */
export function answerPage(
  reading: StoreReading,
  items: readonly string[],
  next: string | null,
): void {
  const { exchange, read } = reading;
  const page = `{"items":[${items.join()}],"next_cursor":${JSON.stringify(next)}}`;
  if (!acceptsStream(reading)) {
    answerJson(exchange, read, page);
    return;
  }
  // A line of an event ends at a line break, which JSON has between its tokens only.
  const patches = `[{"op":"add","path":"","value":${page}}]`.replaceAll(/[\r\n]+/g, ' ');
  read.hold(patches.length * 3);
  answer(exchange, {
    ...{ status: 200, contentType: 'text/event-stream' },
    body: `event: data\ndata: ${patches}\n\n`,
  });
}

/** Members of a query in a URL that would make another answer than the client expects if they were ignored. */
export function refuseFilters(query: URLSearchParams): void {
  for (const name of ['filter', 'trace_filter', 'tree_filter', 'thread_filter']) {
    if (query.has(name)) throw filterNotServed(name);
  }
}

/** Throws a `Refusal` (400) for a number that is not from 1 to `most`. */
export function pageSizeOf(text: string | null, most: number, otherwise: number): number {
  if (text === null) return otherwise;
  const size = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  if (size >= 1 && size <= most) return size;
  throw new Refusal('invalid_request', `page_size must be a whole number from 1 to ${most}.`);
}
