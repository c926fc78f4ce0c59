import { Refusal } from '../../model/errors.ts';
import { formatInstant, parseInstant } from '../../model/instant.ts';
import type { Instant } from '../../model/observation.ts';
import { printQuery } from '../../query/print.ts';
import type { Query } from '../../query/query.ts';
import { groupTerm } from '../../store/plan/groups.ts';
import type { StoredObservation } from '../../store/store.ts';
import { answerJson } from '../answer.ts';
import type { ExportPosition } from '../export/position.ts';
import { positionOfText, positionText } from '../export/position.ts';
import { jsonBody } from '../json-body.ts';
import { foreignCursor, listCursors } from '../list-cursor.ts';
import { startTerm } from '../query.ts';
import type { StoreReading } from '../stored-request.ts';
import { unknown } from '../stored-request.ts';
import type { ClientRequest } from './client-request.ts';
import { langsmithProject, langsmithProjects } from './langsmith-projects.ts';
import { runJson, runTypeOf } from './langsmith-run.ts';
import type { Members } from './members.ts';
import { objectOf, textIn } from './members.ts';
import { findRun, storedTraceId } from './run-ids.ts';
import { uuidOf } from './uuid.ts';

const MAX_BODY_BYTES = 65_536;
/** Runs of a page, without `limit`. */
const DEFAULT_RUNS = 100;
/** Runs of a trace that are read together. */
const STEP_RUNS = 200;
/** The most runs above a run in its path from the root. */
const MOST_ANCESTORS = 200;
/** Traces whose runs are read together. */
const TRACES_OF_STEP = 20;

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

async function readRun(reading: StoreReading): Promise<void> {
  const { exchange, read } = reading;
  const stored = await findRun(reading, exchange.params.id ?? '');
  if (stored === undefined) throw unknown('run');
  const payloads = await reading.payloads({ kind: 'trace', id: stored.traceId });
  const texts = await read.turn(() => payloads.read(stored));
  const ancestors = await ancestorsOf(reading, stored, new Map());
  answerJson(exchange, read, runJson(stored, texts, ancestors));
}

/** The conditions of a query; every one holds. */
type RunQuery = {
  readonly ids: readonly string[] | undefined;
  readonly traceId: string | undefined;
  /** The run above those of the page; null if it is not stored. */
  readonly parent: StoredObservation | null | undefined;
  readonly isRoot: boolean | undefined;
  readonly runType: string | undefined;
  readonly hasError: boolean | undefined;
  readonly threadId: string | undefined;
  /** The time from which runs start. */
  readonly since: Instant | undefined;
  readonly isAscending: boolean;
  readonly limit: number;
  readonly cursor: string | undefined;
};

async function queryRuns(reading: StoreReading): Promise<void> {
  const { exchange, read, tenant } = reading;
  const given = objectOf(await jsonBody(exchange, read, MAX_BODY_BYTES), 'The body');
  const sessions = given.session;
  const isOther = Array.isArray(sessions) && !sessions.includes(uuidOf(tenant.projectId));
  const asked = await resolved(reading, runQuery(given));
  const page = new RunPage(reading, asked);
  const next = isOther ? null : await page.fill();
  const cursors = JSON.stringify({ next });
  answerJson(exchange, read, `{"runs":[${page.runs.join()}],"cursors":${cursors}}`);
}

/** Conditions in LangSmith's own language would be another answer than the client expects if they were ignored. */
const UNSUPPORTED = [
  ...['trace_filter', 'tree_filter', 'query', 'search_filter'],
  ...['reference_example', 'end_time', 'execution_order'],
];

/** A query whose runs and traces have the ids of the client. */
type GivenQuery = Omit<RunQuery, 'parent'> & { readonly parentId: string | undefined };

async function resolved(
  reading: StoreReading,
  { parentId, ...given }: GivenQuery,
): Promise<RunQuery> {
  const { traceId: named } = given;
  const traceId = named === undefined ? undefined : await storedTraceId(reading, named);
  if (parentId === undefined) return { ...given, traceId, parent: undefined };
  const parent = (await findRun(reading, parentId, traceId)) ?? null;
  return { ...given, traceId, parent };
}

function runQuery(given: Members): GivenQuery {
  for (const name of UNSUPPORTED) {
    if (given[name] !== undefined && given[name] !== null) throw notServed(name);
  }
  const { id, is_root: isRoot, error, limit, order } = given;
  if (order !== undefined && order !== null && order !== 'asc' && order !== 'desc') {
    throw new Refusal('invalid_request', 'body.order must be asc or desc.');
  }
  return {
    ids: Array.isArray(id) ? id.filter((one) => typeof one === 'string') : undefined,
    traceId: textIn(given, 'trace'),
    parentId: textIn(given, 'parent_run'),
    isRoot: typeof isRoot === 'boolean' ? isRoot : undefined,
    runType: textIn(given, 'run_type'),
    hasError: typeof error === 'boolean' ? error : undefined,
    threadId: threadOf(given.filter),
    since: timeIn(given, 'start_time'),
    isAscending: order === 'asc',
    limit:
      typeof limit === 'number' && limit >= 1
        ? Math.min(Math.floor(limit), DEFAULT_RUNS)
        : DEFAULT_RUNS,
    cursor: textIn(given, 'cursor'),
  };
}

function notServed(name: string): Refusal {
  return new Refusal(
    'invalid_request',
    `${name} is not served here. Search with GET /api/v1/traces?q=, and list the runs of a trace by trace_id.`,
  );
}

/** The filter of `read_thread`, which has the thread as a text in JSON. */
const OF_THREAD = /^eq\(thread_id, ("(?:[^"\\]|\\.)*")\)$/;

/** Undefined without a filter. Throws a `Refusal` (400) for another one. */
function threadOf(filter: unknown): string | undefined {
  if (filter === undefined || filter === null) return undefined;
  const [, written] = (typeof filter === 'string' && OF_THREAD.exec(filter)) || [];
  const thread = written === undefined ? undefined : parsedJson(written);
  if (typeof thread !== 'string') throw notServed('filter');
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
function timeIn(given: Members, name: string): Instant | undefined {
  const text = textIn(given, name);
  if (text === undefined) return undefined;
  const time = parseInstant(text);
  if (time !== undefined) return time;
  throw new Refusal('invalid_request', `body.${name} must be an ISO 8601 date and time.`);
}

/** A page of runs: of a trace, by their ids, or of all traces. */
class RunPage {
  readonly runs: string[] = [];
  readonly #reading: StoreReading;
  readonly #asked: RunQuery;
  #characters = 0;

  constructor(reading: StoreReading, asked: RunQuery) {
    this.#reading = reading;
    this.#asked = asked;
  }

  /** Resolves with the cursor of the next page; null after the last one. */
  async fill(): Promise<string | null> {
    const { ids, traceId, parent } = this.#asked;
    if (ids !== undefined) return this.#ofIds(ids);
    if (parent === null) return null;
    const trace = traceId ?? parent?.traceId;
    return trace === undefined ? this.#ofTraces() : this.#pageOfTrace(trace);
  }

  async #ofIds(ids: readonly string[]): Promise<string | null> {
    const { tenant } = this.#reading;
    const cursors = listCursors('langsmith-runs', tenant.projectId, ...ids);
    const begin = indexIn(cursors.read(this.#asked.cursor));
    for (const [i, id] of ids.entries()) {
      if (i < begin) continue;
      if (this.#isFull()) return cursors.write(String(i));
      const stored = await findRun(this.#reading, id, this.#asked.traceId);
      if (stored !== undefined) await this.#add(stored, new Map());
    }
    return null;
  }

  async #pageOfTrace(traceId: string): Promise<string | null> {
    const cursors = listCursors('langsmith-runs', this.#reading.tenant.projectId, traceId);
    return cursors.write(await this.#ofTrace(traceId, cursors.read(this.#asked.cursor)));
  }

  /** Adds the runs behind a cursor. Resolves with the cursor behind the last run that fit; null at the end of the trace. */
  async #ofTrace(traceId: string, behind?: string): Promise<string | null> {
    const { store, tenant, read } = this.#reading;
    let cursor = behind;
    for (;;) {
      const page = { limit: STEP_RUNS, ...(cursor === undefined ? {} : { cursor }) };
      const found = await read.turn(() =>
        store.traces.listObservations(tenant.projectId, traceId, page),
      );
      const known: KnownRuns = new Map(found.items.map((one) => [one.id, one]));
      for (const [i, stored] of found.items.entries()) {
        await this.#add(stored, known);
        if (!this.#isFull()) continue;
        return i === found.items.length - 1 ? found.nextCursor : found.cursorAfter(i);
      }
      if (found.nextCursor === null) return null;
      cursor = found.nextCursor;
    }
  }

  /** The runs of all traces, in the order of the traces. */
  async #ofTraces(): Promise<string | null> {
    const { store, tenant, read } = this.#reading;
    const { since, threadId, limit, isAscending } = this.#asked;
    const query = tracesOf(since, threadId);
    const order = isAscending ? ['asc'] : [];
    const cursors = listCursors('langsmith-runs', tenant.projectId, printQuery(query), ...order);
    const given = cursors.read(this.#asked.cursor);
    const from: ExportPosition =
      given === undefined ? { behind: undefined } : positionOfText(given);
    const cursorAt = (behind: string | undefined, traceId: string, last: string | null) => {
      const within = last === null ? undefined : { traceId, cursor: last };
      return cursors.write(positionText({ behind, within }));
    };
    if (from.within !== undefined) {
      const { traceId, cursor } = from.within;
      const last = await this.#ofTrace(traceId, cursor);
      if (this.#isFull()) return cursorAt(from.behind, traceId, last);
    }
    let cursor = from.behind;
    for (;;) {
      const rows = Math.min(TRACES_OF_STEP, limit - this.runs.length);
      const behind = cursor === undefined ? {} : { cursor };
      const page = { query, limit: rows, ...(isAscending ? { isAscending } : {}), ...behind };
      const found = await read.turn(() => store.traces.listTraces(tenant.projectId, page));
      for (const [i, { id }] of found.items.entries()) {
        let last: string | null = null;
        if (this.#asked.isRoot === true) await this.#root(id);
        else last = await this.#ofTrace(id);
        if (this.#isFull()) return cursorAt(found.cursorAfter(i), id, last);
      }
      if (found.nextCursor === null) return null;
      cursor = found.nextCursor;
    }
  }

  async #root(traceId: string): Promise<void> {
    const { store, tenant, read } = this.#reading;
    const root = await read.turn(() => store.traces.getRoot(tenant.projectId, traceId));
    if (root !== undefined) await this.#add(root, new Map());
  }

  #isFull(): boolean {
    const { limits } = this.#reading.reads;
    return this.runs.length >= this.#asked.limit || this.#characters >= limits.page_bytes;
  }

  async #add(stored: StoredObservation, known: KnownRuns): Promise<void> {
    if (!this.#matches(stored)) return;
    const { read } = this.#reading;
    const ancestors = await ancestorsOf(this.#reading, stored, known);
    const payloads = await this.#reading.payloads({ kind: 'trace', id: stored.traceId });
    const texts = await read.turn(() => payloads.read(stored));
    const text = runJson(stored, texts, ancestors);
    this.#characters += text.length;
    // The text is held beside the answer that it becomes a part of.
    read.hold(this.#characters * 3);
    this.runs.push(text);
  }

  #matches(stored: StoredObservation): boolean {
    const { isRoot, hasError, parent, runType, traceId, threadId, since } = this.#asked;
    if (threadId !== undefined && stored.sessionId !== threadId) return false;
    if (isRoot !== undefined && (stored.parentId === null) !== isRoot) return false;
    if (hasError !== undefined && (stored.error !== null) !== hasError) return false;
    if (parent !== undefined && stored.parentId !== parent?.id) return false;
    if (traceId !== undefined && stored.traceId !== traceId) return false;
    if (since !== undefined && startsBefore(stored, since)) return false;
    return runType === undefined || runTypeOf(stored) === runType;
  }
}

/** The runs of a trace that a request has read, by id; undefined for an id that the trace does not have. */
type KnownRuns = Map<string, StoredObservation | undefined>;

/** From the root down. A parent that is not stored, and a cycle, end the way up. */
async function ancestorsOf(
  { store, tenant, read }: StoreReading,
  stored: StoredObservation,
  known: KnownRuns,
): Promise<StoredObservation[]> {
  const { traceId } = stored;
  const above = new Set<StoredObservation>();
  let id = stored.parentId;
  while (id !== null && above.size < MOST_ANCESTORS) {
    const parentId = id;
    if (!known.has(parentId)) {
      const find = () => store.traces.getObservation(tenant.projectId, parentId, traceId);
      known.set(parentId, await read.turn(find));
    }
    const parent = known.get(parentId);
    if (parent === undefined || parent.id === stored.id || above.has(parent)) break;
    above.add(parent);
    id = parent.parentId;
  }
  return [...above].reverse();
}

function tracesOf(since: Instant | undefined, threadId: string | undefined): Query {
  return {
    terms: [
      ...(threadId === undefined ? [] : [groupTerm('session', threadId)]),
      ...(since === undefined
        ? []
        : [startTerm({ from: since, to: null, text: formatInstant(since) })]),
    ],
  };
}

function startsBefore({ startTime, createdAt }: StoredObservation, since: Instant): boolean {
  const { ms, ns } = startTime ?? { ms: createdAt, ns: 0 };
  return (ms - since.ms || ns - since.ns) < 0;
}

/** Where a list of ids goes on. */
function indexIn(cursor: string | undefined): number {
  if (cursor === undefined) return 0;
  if (/^\d{1,9}$/.test(cursor)) return Number(cursor);
  throw foreignCursor();
}
