import { formatInstant } from '../model/instant.ts';
import type { Instant, ObservationError } from '../model/observation.ts';
import { printQuery } from '../query/print.ts';
import type { Query } from '../query/query.ts';
import type { GroupField } from '../store/groups.ts';
import { traceJson } from '../store/observation-json.ts';
import { groupTerm } from '../store/plan/groups.ts';
import type { StoredTrace } from '../store/store.ts';
import { answerJson, jsonAnswer } from './answer.ts';
import type { GroupItem, GroupSource } from './group-pages.ts';
import { GroupPage, GroupSumming } from './group-pages.ts';
import { listCursors } from './list-cursor.ts';
import type { Written } from './listing.ts';
import { writeItems } from './listing.ts';
import type { PayloadReader } from './payloads.ts';
import { pageOfTraces, traceQuery } from './query.ts';
import type { StoredRequest, StoreReading } from './stored-request.ts';
import { unknown } from './stored-request.ts';
import { SHARE_OF_SUMS } from './walk.ts';

const LIST = ['q', 'from', 'to', 'limit', 'cursor'] as const;

/** The reading requests about sessions and users. */
export const GROUP_REQUESTS: readonly StoredRequest[] = [
  { path: '/sessions', parameters: LIST, work: (reading) => listGroups(reading, 'session') },
  { path: '/sessions/:session_id', parameters: ['limit', 'cursor'], work: showSession },
  { path: '/users', parameters: LIST, work: (reading) => listGroups(reading, 'user') },
  { path: '/users/:user_id', parameters: [], work: showUser },
];

async function listGroups(reading: StoreReading, by: GroupField): Promise<void> {
  const { exchange, query } = reading;
  const { limit, cursor } = pageOfTraces(query);
  await writeGroups(reading, {
    ...{ by, asked: traceQuery(query, exchange.clock.now()), limit, cursor },
    items: `${by}s`,
    render: (item) => JSON.stringify(MEMBERS[by](item)),
    end: ({ next, searchedTo, isPartial }) => ({
      next_cursor: next,
      searched_to: formatted(searchedTo),
      partial: isPartial,
    }),
  });
}

/** A page of sessions or users. */
export type GroupList = {
  readonly by: GroupField;
  /** The traces that count. */
  readonly asked: Query;
  /** The query that a cursor is for, if `asked` is another one for each page. */
  readonly named?: Query;
  readonly limit: number;
  readonly cursor: string | undefined;
  /** The name of the member with the items. */
  readonly items: string;
  render(item: GroupItem): string;
  /** The members behind the items; `next` is the client's cursor. */
  end(written: Written): object;
};

export async function writeGroups(
  reading: StoreReading,
  { by, asked, named = asked, limit, cursor, items, render, end }: GroupList,
): Promise<void> {
  const { exchange, tenant, read, reads } = reading;
  const limits = { ...reads.limits, page_time: reads.limits.page_time * SHARE_OF_SUMS };
  const cursors = listCursors(by, tenant.projectId, printQuery(named));
  const first = cursors.read(cursor);
  const page = new GroupPage(sourceOf(reading, by, asked), first, limits.page_time);
  const out = jsonAnswer(exchange, read);
  await out.add(`{"${items}":[`);
  const written = await writeItems(
    out,
    {
      limit,
      cursor: first,
      fetch: (rows, cursor, size) => page.fetch(rows, cursor, size),
      render,
    },
    { read, limits, clock: exchange.clock },
  );
  const members = JSON.stringify(end({ ...written, next: cursors.write(written.next) }));
  out.end(`],${members.slice(1)}`);
}

/** The sums of a session, and its traces, oldest first, each with the input, output and error of its root. */
async function showSession(reading: StoreReading): Promise<void> {
  const { exchange, query, tenant, store, read, reads } = reading;
  const { projectId } = tenant;
  const id = exchange.params.session_id ?? '';
  const { limit, cursor } = pageOfTraces(query);
  const cursors = listCursors('traces of a session', projectId, id);
  const first = cursors.read(cursor);
  const session = await oneGroup(reading, 'session', id);
  const payloads = await reading.payloads({ kind: 'session', id });
  const out = jsonAnswer(exchange, read);
  await out.add(`{"session":${JSON.stringify(sessionMembers(session))},"traces":[`);
  const { next } = await writeItems(
    out,
    {
      limit,
      cursor: first,
      fetch: (rows, cursor) =>
        store.traces.listTraces(projectId, {
          query: { terms: [groupTerm('session', id)] },
          limit: rows,
          isAscending: true,
          ...(cursor === undefined ? {} : { cursor }),
        }),
      render: (trace) => withRoot(reading, payloads, trace),
    },
    { read, limits: reads.limits, clock: exchange.clock },
  );
  out.end(`],"next_cursor":${JSON.stringify(cursors.write(next))}}`);
}

async function showUser(reading: StoreReading): Promise<void> {
  const { exchange, read } = reading;
  const user = await oneGroup(reading, 'user', exchange.params.user_id ?? '');
  answerJson(exchange, read, JSON.stringify({ user: userMembers(user) }));
}

/** A list item with the input and output of the trace's root, as they were sent, and its error. */
async function withRoot(
  { tenant, store, read }: StoreReading,
  payloads: PayloadReader,
  trace: StoredTrace,
): Promise<string> {
  let error: ObservationError | null = null;
  const { inputs, outputs } = await read.turn(async () => {
    const root = await store.traces.getRoot(tenant.projectId, trace.id);
    if (root === undefined) return {};
    error = root.error;
    const { inputs, outputs } = root.payload;
    const payload = { ...(inputs && { inputs }), ...(outputs && { outputs }) };
    return payloads.read({ ...root, payload });
  });
  const narrow = traceJson(trace).slice(0, -1);
  return `${narrow},"input":${inputs ?? 'null'},"output":${outputs ?? 'null'},"error":${errorText(error)}}`;
}

/** Without the stack trace, which the observation has. */
function errorText(error: ObservationError | null): string {
  return JSON.stringify(error && { type: error.type, message: error.message });
}

/** The sums over all traces of a group, within the work that a page may take. */
async function oneGroup(reading: StoreReading, by: GroupField, value: string): Promise<GroupItem> {
  const { read, reads, tenant, store } = reading;
  const all: Query = { terms: [] };
  const summing = new GroupSumming(sourceOf(reading, by, all), value);
  do {
    await read.turn(() => summing.step());
  } while (!summing.isWhole && summing.spentMs < reads.limits.page_time);
  const { totals, isWhole } = summing;
  if (totals.traces === 0) throw unknown(by);
  const terms = [groupTerm(by, value)];
  const newest = await read.turn(() =>
    store.traces.listTraces(tenant.projectId, { query: { terms }, limit: 1 }),
  );
  return { value, userId: newest.items[0]?.userId ?? null, totals, isPartial: !isWhole };
}

function sourceOf(
  { store, tenant, read }: StoreReading,
  by: GroupField,
  query: Query,
): GroupSource {
  const { projectId } = tenant;
  return { ...{ groups: store.groups, projectId, by, query }, grow: read.reservation.grow };
}

const MEMBERS = { session: sessionMembers, user: userMembers };

function sessionMembers(item: GroupItem): Readonly<Record<string, unknown>> {
  const { value, userId, totals } = item;
  return { id: value, user_id: userId ?? totals.sums.lastUserId, ...sumMembers(item) };
}

function userMembers(item: GroupItem): Readonly<Record<string, unknown>> {
  const { value, totals } = item;
  return { id: value, sessions: totals.sums.sessions, ...sumMembers(item) };
}

function sumMembers({ totals, isPartial }: GroupItem): Readonly<Record<string, unknown>> {
  const { inputTokens, outputTokens, totalTokens, cost, ...sums } = totals.sums;
  const usage = {
    ...(inputTokens === null ? {} : { input_tokens: inputTokens }),
    ...(outputTokens === null ? {} : { output_tokens: outputTokens }),
    ...(totalTokens === null ? {} : { total_tokens: totalTokens }),
  };
  return {
    first_time: formatted(sums.firstTime),
    last_time: formatted(sums.lastTime),
    traces: sums.traces,
    observations: sums.observations,
    errors: sums.errors,
    usage: Object.keys(usage).length === 0 ? null : usage,
    cost: cost === null ? null : { input: null, output: null, total: cost / 1e9, currency: 'USD' },
    partial: isPartial,
  };
}

function formatted(instant: Instant | null): string | null {
  return instant === null ? null : formatInstant(instant);
}
