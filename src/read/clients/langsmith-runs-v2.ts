import { Refusal } from '../../model/errors.ts';
import { answerJson } from '../answer.ts';
import { jsonBody } from '../json-body.ts';
import type { StoreReading } from '../stored-request.ts';
import { unknown } from '../stored-request.ts';
import { DAY_MS } from '../time-range.ts';
import type { ClientRequest } from './client-request.ts';
import { selectedForm } from './langsmith-run-v2.ts';
import { filterNotServed, MAX_QUERY_BYTES, threadOf, timeIn } from './langsmith-runs.ts';
import type { Members } from './members.ts';
import { objectOf, textIn } from './members.ts';
import { findRun } from './run-ids.ts';
import type { GivenQuery } from './run-page.ts';
import { DEFAULT_RUNS, RunPage, resolved, shownRun } from './run-page.ts';
import { uuidOf } from './uuid.ts';

/** `client.runs.retrieve` and `client.runs.query` of LangSmith's clients: the second version of its API. */
export const RUN_V2_REQUESTS: readonly ClientRequest[] = [
  {
    method: 'GET',
    paths: ['/api/v2/runs/:id', '/v2/runs/:id'],
    permissions: ['traces:read'],
    work: retrieveRun,
  },
  {
    method: 'POST',
    paths: ['/api/v2/runs/query', '/v2/runs/query'],
    permissions: ['traces:read'],
    work: queryRuns,
  },
];

async function retrieveRun(reading: StoreReading): Promise<void> {
  const { exchange, read, query } = reading;
  const form = selectedForm(query.getAll('selects'));
  const projects = query.getAll('project_id');
  const stored = isOwn(reading, projects)
    ? await findRun(reading, exchange.params.id ?? '')
    : undefined;
  if (stored === undefined) throw unknown('run');
  answerJson(exchange, read, await shownRun(reading, { stored, form }));
}

async function queryRuns(reading: StoreReading): Promise<void> {
  const { exchange, read } = reading;
  refuseStream(reading);
  const given = objectOf(await jsonBody(exchange, read, MAX_QUERY_BYTES), 'The body');
  checkMembers(given);
  const form = selectedForm(textsIn(given, 'selects') ?? []);
  const asked = await resolved(reading, runQuery(given, exchange.clock.now()));
  const page = new RunPage(reading, asked, form);
  const next = isOwn(reading, textsIn(given, 'project_ids') ?? []) ? await page.fill() : null;
  answerJson(
    exchange,
    read,
    `{"items":[${page.runs.join()}],"next_cursor":${JSON.stringify(next)}}`,
  );
}

/** The project of the key is meant if the client names none. */
function isOwn({ tenant }: StoreReading, projects: readonly string[]): boolean {
  return projects.length === 0 || projects.includes(uuidOf(tenant.projectId));
}

/** `client.runs.streaming` would find no event in a JSON answer, and no run. */
function refuseStream({ exchange }: StoreReading): void {
  const accept = String(exchange.head.headers.get('accept') ?? '').toLowerCase();
  if (!accept.includes('text/event-stream') || accept.includes('application/json')) return;
  throw new Refusal(
    'invalid_request',
    'Streams of runs are not served here. Read the runs with client.runs.query.',
  );
}

const isText = (value: unknown) => typeof value === 'string' && value !== '';
const TEXT = { holds: isText, what: 'a text' };
const FLAG = { holds: (value: unknown) => typeof value === 'boolean', what: 'true or false' };
const TEXTS = {
  holds: (value: unknown) => Array.isArray(value) && value.length > 0 && value.every(isText),
  what: 'a list of texts',
};
const PAGE_SIZE = {
  holds: (value: unknown) => Number.isInteger(value) && Number(value) >= 1 && Number(value) <= 1000,
  what: 'a whole number from 1 to 1000',
};

/** The members that are served. Any other one would be another answer than the client expects if it were ignored. */
const MEMBERS = {
  ...{ project_ids: TEXTS, ids: TEXTS, selects: TEXTS, trace_id: TEXT, run_type: TEXT },
  ...{ is_root: FLAG, has_error: FLAG, min_start_time: TEXT, max_start_time: TEXT, filter: TEXT },
  ...{ page_size: PAGE_SIZE, cursor: TEXT },
  include_subtree_usage: { holds: (value: unknown) => value === false, what: 'false' },
} as const;

/** Throws a `Refusal` (400) for a member that is not served, or of another form. */
function checkMembers(given: Members): void {
  const forms = new Map(Object.entries(MEMBERS));
  for (const [name, value] of Object.entries(given)) {
    if (value === null) continue;
    const form = forms.get(name);
    if (form === undefined) throw filterNotServed(JSON.stringify(name.slice(0, MAX_SHOWN)));
    if (form.holds(value)) continue;
    throw new Refusal('invalid_request', `body.${name} must be ${form.what}.`);
  }
}

/** Characters of a name that an error repeats. */
const MAX_SHOWN = 100;

function runQuery(given: Members, nowMs: number): GivenQuery {
  const { is_root: isRoot, has_error: hasError, page_size: pageSize } = given;
  const since = timeIn(given, 'min_start_time');
  return {
    ids: textsIn(given, 'ids'),
    traceId: textIn(given, 'trace_id'),
    parentId: undefined,
    isRoot: typeof isRoot === 'boolean' ? isRoot : undefined,
    runType: textIn(given, 'run_type')?.toLowerCase(),
    hasError: typeof hasError === 'boolean' ? hasError : undefined,
    threadId: threadOf(given.filter),
    since,
    recentlySince: since === undefined ? { ms: nowMs - DAY_MS, ns: 0 } : undefined,
    before: timeIn(given, 'max_start_time'),
    isAscending: false,
    limit: typeof pageSize === 'number' ? Math.min(pageSize, DEFAULT_RUNS) : DEFAULT_RUNS,
    cursor: textIn(given, 'cursor'),
  };
}

function textsIn(given: Members, name: string): string[] | undefined {
  const value = given[name];
  return Array.isArray(value) ? value.map(String) : undefined;
}
