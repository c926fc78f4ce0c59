import { answerJson } from '../answer.ts';
import type { StoreReading } from '../stored-request.ts';
import { unknown } from '../stored-request.ts';
import type { ClientRequest } from './client-request.ts';
import type { Form } from './langsmith-forms.ts';
import { FLAG, numberUpTo, TEXT, TEXTS } from './langsmith-forms.ts';
import { selectedForm } from './langsmith-run-v2.ts';
import { threadOf } from './langsmith-runs.ts';
import { answerPage, isOwn, queryBody, timesIn } from './langsmith-v2.ts';
import type { Members } from './members.ts';
import { textIn, textsIn } from './members.ts';
import { findRun } from './run-ids.ts';
import type { GivenQuery } from './run-page.ts';
import { DEFAULT_RUNS, RunPage, resolved, shownRun } from './run-page.ts';

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
  const given = await queryBody(reading, MEMBERS);
  const form = selectedForm(textsIn(given, 'selects') ?? []);
  const asked = await resolved(reading, runQuery(given, reading.exchange.clock.now()));
  const page = new RunPage(reading, asked, form);
  const next = isOwn(reading, textsIn(given, 'project_ids') ?? []) ? await page.fill() : null;
  answerPage(reading, page.runs, next);
}

const MEMBERS: ReadonlyMap<string, Form> = new Map<string, Form>([
  ...['project_ids', 'ids', 'selects'].map((name) => [name, TEXTS] as const),
  ...['trace_id', 'run_type', 'min_start_time', 'max_start_time'].map(
    (name) => [name, TEXT] as const,
  ),
  ...['filter', 'cursor'].map((name) => [name, TEXT] as const),
  ...['is_root', 'has_error'].map((name) => [name, FLAG] as const),
  ['page_size', numberUpTo(1000)],
  ['include_subtree_usage', { what: 'false', holds: (value: unknown) => value === false }],
]);

function runQuery(given: Members, nowMs: number): GivenQuery {
  const { is_root: isRoot, has_error: hasError, page_size: pageSize } = given;
  return {
    ids: textsIn(given, 'ids'),
    traceId: textIn(given, 'trace_id'),
    parentId: undefined,
    isRoot: typeof isRoot === 'boolean' ? isRoot : undefined,
    runType: textIn(given, 'run_type')?.toLowerCase(),
    hasError: typeof hasError === 'boolean' ? hasError : undefined,
    threadId: threadOf(given.filter),
    ...timesIn(given, nowMs),
    isAscending: false,
    limit: typeof pageSize === 'number' ? Math.min(pageSize, DEFAULT_RUNS) : DEFAULT_RUNS,
    cursor: textIn(given, 'cursor'),
  };
}
