import { Refusal } from '../../model/errors.ts';
import { usdOf } from '../../store/observation-json.ts';
import { answerJson } from '../answer.ts';
import type { GroupItem } from '../group-pages.ts';
import { writeGroups } from '../groups.ts';
import type { StoreReading } from '../stored-request.ts';
import type { ClientRequest } from './client-request.ts';
import type { Form } from './langsmith-forms.ts';
import { numberUpTo, TEXT } from './langsmith-forms.ts';
import { formatted } from './langsmith-run.ts';
import { acceptsStream, isOwn, queryBody, timesIn } from './langsmith-v2.ts';
import { textIn } from './members.ts';
import { timeTerms } from './run-page.ts';

/** As LangSmith's API documents them. */
const MAX_THREADS = 100;
const DEFAULT_THREADS = 20;

/** `client.threads.query` of LangSmith's clients: threads are sessions. */
export const THREAD_V2_REQUESTS: readonly ClientRequest[] = [
  {
    method: 'POST',
    paths: ['/api/v2/threads/query', '/v2/threads/query'],
    permissions: ['traces:read'],
    work: queryThreads,
  },
];

const MEMBERS: ReadonlyMap<string, Form> = new Map<string, Form>([
  ...['project_id', 'min_start_time', 'max_start_time', 'cursor'].map(
    (name) => [name, TEXT] as const,
  ),
  ['page_size', numberUpTo(MAX_THREADS)],
]);

/** The threads with traces that start within the times, and the sums over those. */
async function queryThreads(reading: StoreReading): Promise<void> {
  const { exchange, read } = reading;
  if (acceptsStream(reading)) {
    throw new Refusal(
      'invalid_request',
      'Streams of threads are not served here. Read the threads with client.threads.query.',
    );
  }
  const given = await queryBody(reading, MEMBERS);
  const project = textIn(given, 'project_id');
  if (!isOwn(reading, project === undefined ? [] : [project])) {
    answerJson(exchange, read, '{"items":[],"next_cursor":null}');
    return;
  }
  const { since, recentlySince, before } = timesIn(given, exchange.clock.now());
  await writeGroups(reading, {
    by: 'session',
    asked: { terms: timeTerms(since ?? recentlySince, before) },
    named: { terms: timeTerms(since, before) },
    limit: typeof given.page_size === 'number' ? given.page_size : DEFAULT_THREADS,
    cursor: textIn(given, 'cursor'),
    items: 'items',
    render: (item) => JSON.stringify(threadMembers(item)),
    end: ({ next }) => ({ next_cursor: next }),
  });
}

/** Sums over some of the traces only would be read as those of all. */
function threadMembers({ value, totals, isPartial }: GroupItem) {
  const { traces, totalTokens, cost, firstTime } = totals.sums;
  const sums = {
    count: traces,
    total_tokens: totalTokens,
    total_cost: usdOf(cost),
    ...{ start_time: formatted(firstTime), min_start_time: formatted(firstTime) },
  };
  return { thread_id: value, ...(isPartial ? {} : sums) };
}
