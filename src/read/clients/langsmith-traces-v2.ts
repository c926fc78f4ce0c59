import { Refusal } from '../../model/errors.ts';
import type { Instant } from '../../model/observation.ts';
import { answerJson } from '../answer.ts';
import type { StoreReading } from '../stored-request.ts';
import type { ClientRequest } from './client-request.ts';
import type { Form } from './langsmith-forms.ts';
import { numberUpTo, TEXT, TEXTS } from './langsmith-forms.ts';
import { selectedForm } from './langsmith-run-v2.ts';
import { timeIn } from './langsmith-runs.ts';
import { threadTraceForm, traceForm } from './langsmith-trace-v2.ts';
import {
  answerPage,
  isOwn,
  pageSizeOf,
  queryBody,
  refuseFilters,
  timesIn,
} from './langsmith-v2.ts';
import { textIn, textsIn } from './members.ts';
import type { GivenQuery } from './run-page.ts';
import { RunPage, resolved } from './run-page.ts';

/** The most runs of a trace in one answer, which has no pages. */
const MAX_RUNS = 1000;
/** As LangSmith's API documents them. */
const MAX_TRACES = 100;
const DEFAULT_TRACES = 20;

/** `client.traces` of LangSmith's clients, and `client.threads.list_traces`. */
export const TRACE_V2_REQUESTS: readonly ClientRequest[] = [
  {
    method: 'POST',
    paths: ['/api/v2/traces/query', '/v2/traces/query'],
    permissions: ['traces:read'],
    work: queryTraces,
  },
  {
    method: 'GET',
    paths: ['/api/v2/traces/:id/runs', '/v2/traces/:id/runs'],
    permissions: ['traces:read'],
    work: listRuns,
  },
  {
    method: 'GET',
    paths: ['/api/v2/threads/:id/traces', '/v2/threads/:id/traces'],
    permissions: ['traces:read'],
    work: listTracesOfThread,
  },
];

const ANY = {
  ...{ ids: undefined, traceId: undefined, parentId: undefined, runType: undefined },
  ...{ isRoot: undefined, hasError: undefined, threadId: undefined, since: undefined },
  ...{ isAscending: false, cursor: undefined },
} satisfies Partial<GivenQuery>;

const MEMBERS: ReadonlyMap<string, Form> = new Map<string, Form>([
  ...['project_id', 'min_start_time', 'max_start_time', 'cursor'].map(
    (name) => [name, TEXT] as const,
  ),
  ...['trace_ids', 'selects'].map((name) => [name, TEXTS] as const),
  ['page_size', numberUpTo(MAX_TRACES)],
]);

/** Traces by their roots, newest first. */
async function queryTraces(reading: StoreReading): Promise<void> {
  const given = await queryBody(reading, MEMBERS);
  const form = traceForm(textsIn(given, 'selects') ?? []);
  const project = textIn(given, 'project_id');
  const asked = await resolved(reading, {
    ...ANY,
    ...timesIn(given, reading.exchange.clock.now()),
    isRoot: true,
    rootsOf: textsIn(given, 'trace_ids'),
    limit: typeof given.page_size === 'number' ? given.page_size : DEFAULT_TRACES,
    cursor: textIn(given, 'cursor'),
  });
  const page = new RunPage(reading, asked, form);
  const next = isOwn(reading, project === undefined ? [] : [project]) ? await page.fill() : null;
  answerPage(reading, page.runs, next);
}

/** The runs of a trace in one answer. */
async function listRuns(reading: StoreReading): Promise<void> {
  const { exchange, query, read } = reading;
  refuseFilters(query);
  const form = selectedForm(query.getAll('selects'));
  const times = Object.fromEntries(query);
  const asked = await resolved(reading, {
    ...ANY,
    traceId: exchange.params.id ?? '',
    since: timeIn(times, 'min_start_time'),
    before: behind(timeIn(times, 'max_start_time')),
    limit: MAX_RUNS,
  });
  const page = new RunPage(reading, asked, form);
  const isWhole = !isOwn(reading, query.getAll('project_id')) || (await page.fill()) === null;
  if (!isWhole) {
    throw new Refusal(
      'invalid_request',
      `The runs of the trace do not fit into one answer, which has at most ${MAX_RUNS}. List them in pages: client.runs.query with trace_id.`,
    );
  }
  answerJson(exchange, read, `{"items":[${page.runs.join()}]}`);
}

/** The time behind an inclusive bound. */
function behind(time: Instant | undefined): Instant | undefined {
  if (time === undefined) return undefined;
  const { ms, ns } = time;
  return ns === 999_999 ? { ms: ms + 1, ns: 0 } : { ms, ns: ns + 1 };
}

/** Oldest first, as `read_thread` lists them. */
async function listTracesOfThread(reading: StoreReading): Promise<void> {
  const { exchange, query } = reading;
  refuseFilters(query);
  const form = threadTraceForm(query.getAll('selects'));
  const asked = await resolved(reading, {
    ...ANY,
    isRoot: true,
    threadId: exchange.params.id ?? '',
    isAscending: true,
    limit: pageSizeOf(query.get('page_size'), MAX_TRACES, DEFAULT_TRACES),
    cursor: query.get('cursor') ?? undefined,
  });
  const page = new RunPage(reading, asked, form);
  const next = isOwn(reading, query.getAll('project_id')) ? await page.fill() : null;
  answerPage(reading, page.runs, next);
}
