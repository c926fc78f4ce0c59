import { Refusal } from '../../model/errors.ts';
import { parseInstant } from '../../model/instant.ts';
import type { Instant } from '../../model/observation.ts';
import { answerJson } from '../answer.ts';
import { jsonBody } from '../json-body.ts';
import type { StoreReading } from '../stored-request.ts';
import { unknown } from '../stored-request.ts';
import type { ClientRequest } from './client-request.ts';
import type { Form } from './langsmith-forms.ts';
import { checkForms, FLAG } from './langsmith-forms.ts';
import { langsmithProject, langsmithProjects } from './langsmith-projects.ts';
import { runJson } from './langsmith-run.ts';
import type { Members } from './members.ts';
import { objectOf, textIn, textsIn } from './members.ts';
import { findRun } from './run-ids.ts';
import type { GivenQuery, RunForm } from './run-page.ts';
import { DEFAULT_RUNS, RunPage, resolved, shownRun } from './run-page.ts';
import { uuidOf } from './uuid.ts';

export const MAX_QUERY_BYTES = 65_536;

/** The reading requests of LangSmith's clients. `/api/v1/sessions` is shared with the sessions of this service. */
export const RUN_REQUESTS: readonly ClientRequest[] = [
  {
    method: 'GET',
    paths: ['/api/v1/runs/:id', '/runs/:id'],
    permissions: ['traces:read'],
    work: readRun,
  },
  {
    method: 'POST',
    paths: ['/api/v1/runs/query', '/runs/query'],
    permissions: ['traces:read'],
    work: queryRuns,
  },
  { method: 'GET', paths: ['/sessions'], permissions: ['traces:read'], work: langsmithProjects },
  { method: 'GET', paths: ['/sessions/:id'], permissions: ['traces:read'], work: langsmithProject },
];

const FORM: RunForm = { hasPayloads: true, text: runJson };

async function readRun(reading: StoreReading): Promise<void> {
  const { exchange, read } = reading;
  const stored = await findRun(reading, exchange.params.id ?? '');
  if (stored === undefined) throw unknown('run');
  answerJson(exchange, read, await shownRun(reading, { stored, form: FORM }));
}

async function queryRuns(reading: StoreReading): Promise<void> {
  const { exchange, read, tenant } = reading;
  const given = objectOf(await jsonBody(exchange, read, MAX_QUERY_BYTES), 'The body');
  const asked = await resolved(reading, runQuery(given));
  const isOther = textsIn(given, 'session')?.includes(uuidOf(tenant.projectId)) === false;
  const page = new RunPage(reading, asked, FORM);
  const next = isOther ? null : await page.fill();
  const cursors = JSON.stringify({ next });
  answerJson(exchange, read, `{"runs":[${page.runs.join()}],"cursors":${cursors}}`);
}

/** Conditions in LangSmith's own language would be another answer than the client expects if they were ignored. */
const UNSUPPORTED = [
  ...['trace_filter', 'tree_filter', 'query', 'search_filter'],
  ...['reference_example', 'end_time', 'execution_order'],
];

const isAnyText = (value: unknown) => typeof value === 'string';
const SEVERAL: Form = {
  what: 'a list of texts',
  holds: (value) => Array.isArray(value) && value.every(isAnyText),
};
const isLimit = (value: unknown) => typeof value === 'number' && value >= 1;
const ONE: Form = { what: 'a text', holds: isAnyText };

/** A condition of another form would list runs that the client did not ask for if it were ignored. */
const FORMS: ReadonlyMap<string, Form> = new Map<string, Form>([
  ...['session', 'id'].map((name) => [name, SEVERAL] as const),
  ...['trace', 'parent_run', 'run_type', 'start_time', 'cursor'].map(
    (name) => [name, ONE] as const,
  ),
  ...['is_root', 'error'].map((name) => [name, FLAG] as const),
  ['limit', { what: 'a number from 1 on', holds: isLimit }],
]);

function runQuery(given: Members): GivenQuery {
  checkForms(given, FORMS);
  for (const name of UNSUPPORTED) {
    if (given[name] !== undefined && given[name] !== null) throw filterNotServed(name);
  }
  const { is_root: isRoot, error, limit, order } = given;
  if (order !== undefined && order !== null && order !== 'asc' && order !== 'desc') {
    throw new Refusal('invalid_request', 'body.order must be asc or desc.');
  }
  return {
    ids: textsIn(given, 'id'),
    traceId: textIn(given, 'trace'),
    parentId: textIn(given, 'parent_run'),
    isRoot: typeof isRoot === 'boolean' ? isRoot : undefined,
    runType: textIn(given, 'run_type'),
    hasError: typeof error === 'boolean' ? error : undefined,
    threadId: threadOf(given.filter),
    since: timeIn(given, 'start_time'),
    isAscending: order === 'asc',
    limit: typeof limit === 'number' ? Math.min(Math.floor(limit), DEFAULT_RUNS) : DEFAULT_RUNS,
    cursor: textIn(given, 'cursor'),
  };
}

export function filterNotServed(name: string): Refusal {
  return new Refusal(
    'invalid_request',
    `${name} is not served here. Search with GET /api/v1/traces?q=, and list the runs of a trace by trace_id.`,
  );
}

/** The filter of `read_thread`, which has the thread as a text in JSON. */
const OF_THREAD = /^eq\(thread_id, ("(?:[^"\\]|\\.)*")\)$/;

/** Undefined without a filter. Throws a `Refusal` (400) for another one. */
export function threadOf(filter: unknown): string | undefined {
  if (filter === undefined || filter === null) return undefined;
  const [, written] = (typeof filter === 'string' && OF_THREAD.exec(filter)) || [];
  const thread = written === undefined ? undefined : parsedJson(written);
  if (typeof thread !== 'string') throw filterNotServed('filter');
  return thread;
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Undefined if the member is absent. Throws a `Refusal` (400) for another text. */
export function timeIn(given: Members, name: string): Instant | undefined {
  const text = textIn(given, name);
  if (text === undefined) return undefined;
  const time = parseInstant(text);
  if (time !== undefined) return time;
  throw new Refusal('invalid_request', `body.${name} must be an ISO 8601 date and time.`);
}
