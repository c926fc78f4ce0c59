import { findOffer, findOffers } from '../component/capability.ts';
import type { Admission, Logger, RequestHead } from '../component/component.ts';
import { renderEnvelopeRefusal } from '../http/envelope.ts';
import type { Exchange, RenderRefusal } from '../http/exchange.ts';
import { answer } from '../http/exchange.ts';
import type { CommonRoute, CommonRoutes, Entrance } from '../http/routes.ts';
import type { Scanner } from '../http/scan-pool.ts';
import type { Permission } from '../model/batch.ts';
import { parseRawEventId } from '../model/batch.ts';
import { Refusal, refusalOf, StoreError } from '../model/errors.ts';
import { positionOf, sourceOf } from '../model/formats.ts';
import type { ScoreEditor } from '../store/scores.ts';
import { SCORE_EDITOR } from '../store/scores.ts';
import type { Store } from '../store/store.ts';
import { STORE } from '../store/store.ts';
import { answerJson, watchClient } from './answer.ts';
import { SHOW_ATTACHMENT } from './attachment.ts';
import type { ClientRequest } from './clients/client-request.ts';
import { feedbackIntake } from './clients/feedback-parts.ts';
import { LANGFUSE_REQUESTS, langfuseProjects } from './clients/langfuse.ts';
import { FEEDBACK_REQUESTS } from './clients/langsmith-feedback.ts';
import { isLangSmith, langsmithProject, langsmithProjects } from './clients/langsmith-projects.ts';
import { RUN_REQUESTS } from './clients/langsmith-runs.ts';
import { RUN_V2_REQUESTS } from './clients/langsmith-runs-v2.ts';
import { THREAD_V2_REQUESTS } from './clients/langsmith-threads-v2.ts';
import { TRACE_V2_REQUESTS } from './clients/langsmith-traces-v2.ts';
import { EXPORT } from './export/export.ts';
import { FACET_REQUEST } from './facets.ts';
import { GROUP_REQUESTS } from './groups.ts';
import { foreignCursor } from './list-cursor.ts';
import type { PayloadReader } from './payloads.ts';
import { readPayloads } from './payloads.ts';
import type { PayloadSubject, ProjectReads, ProjectRoute, Reader } from './project-reads.ts';
import { checkParameters } from './query.ts';
import type { Reads } from './reads.ts';
import { SCORE_REQUESTS } from './scores.ts';
import { SEARCH_STATUS } from './search-status.ts';
import { SHOW_OBSERVATION } from './show-observation.ts';
import { SHOW_TRACE } from './show-trace.ts';
import { STATS_REQUEST } from './stats.ts';
import type { AdmittedRead, StoredRequest, StoreReading } from './stored-request.ts';
import { unknown } from './stored-request.ts';
import { STREAM_TRACES } from './stream.ts';
import { TRACE_LIST } from './trace-list.ts';
import { TRACE_OTLP } from './trace-otlp.ts';

type ReadingParts = {
  readonly reads: Reads;
  readonly scanner: Scanner;
  readonly logger: Logger;
};

/**
 * The reading requests (`traces:read`). On an ingestion listener the pipeline of a receiver admits a request, which
 * reads the project of its key from the store that the pipeline's `auth` names. Another listener names the reader:
 *
 *   GET ─┬─ entrance.pipeline.admitRead(head) ─┬─▶ reader ─▶ reads.begin ─▶ turns at the store ─▶ JSON
 *        └─ the admin listener: its token ─────┘
 *
 * If several receivers share a listener, one whose pipeline has a store comes first.
 */
export function readRoutes(parts: ReadingParts): CommonRoutes {
  const route = (method: ProjectRoute['method'], path: string, work: Work): CommonRoute =>
    commonRoute(parts, { method, path: `/api/v1${path}`, permissions: PERMISSIONS[method], work });
  return {
    preference,
    feedback: feedbackIntake(parts.reads),
    routes: [
      ...STORED.map((request) =>
        route(request.method ?? 'GET', request.path, workFor(parts, request)),
      ),
      route('GET', '/me', async (reading) => {
        checkParameters(reading.query, []);
        await showMe(reading);
      }),
      ...CLIENT_REQUESTS.flatMap((request) => clientRoutes(parts, request)),
      hidden(parts, {
        ...{ method: 'GET', path: '/api/public/projects', work: langfuseProjects },
        permissions: ['ingest:write', 'traces:read'],
      }),
    ],
  };
}

/** A pipeline with a store. */
function preference(entrance: Entrance): number {
  return storeOf(entrance) === undefined ? 0 : 1;
}

type Served = {
  readonly method: string;
  readonly path: string;
  /** The key needs any of them. */
  readonly permissions: readonly Permission[];
  readonly work: Work;
};

function commonRoute(
  parts: ReadingParts,
  { method, path, permissions, work }: Served,
): CommonRoute {
  return {
    method,
    path,
    handler: (entrance, all) => (exchange) =>
      serve(parts, exchange, {
        admit: () => admitted(exchange, entrance, all(), permissions),
        work,
      }),
    renderRefusal: renderEnvelopeRefusal,
    oneAtATime: method === 'GET',
  };
}

function workFor(parts: ReadingParts, request: StoredRequest): Work {
  const own = storedWork(parts, request);
  const other = OTHER_WORK[request.path];
  if (other === undefined) return own;
  const ofClient = storedWork(parts, { work: other });
  return (reading) => {
    const { exchange, query } = reading;
    return isLangSmith(exchange.head, query) ? ofClient(reading) : own(reading);
  };
}

/** Paths of other services are served, but not listed. */
function hidden(parts: ReadingParts, served: Served): CommonRoute {
  return { ...commonRoute(parts, served), hidden: true };
}

function clientRoutes(
  parts: ReadingParts,
  { method, paths, permissions, work }: ClientRequest,
): CommonRoute[] {
  const withStore = storedWork(parts, { work });
  return paths.map((path) => hidden(parts, { method, path, permissions, work: withStore }));
}

/** The same requests for a listener that names the project itself. */
export function projectReads(parts: ReadingParts): ProjectReads {
  return {
    routes: STORED.map((request) => ({
      method: request.method ?? 'GET',
      path: request.path,
      handle: (exchange, reader) =>
        serve(parts, exchange, {
          admit: async () => ({ reader, release() {} }),
          work: storedWork(parts, request),
        }),
    })),
  };
}

const PERMISSIONS = { GET: ['traces:read'], POST: ['ingest:write'] } as const;

/** The requests of other services' clients. */
const CLIENT_REQUESTS: readonly ClientRequest[] = [
  ...LANGFUSE_REQUESTS,
  ...FEEDBACK_REQUESTS,
  ...RUN_REQUESTS,
  ...RUN_V2_REQUESTS,
  ...TRACE_V2_REQUESTS,
  ...THREAD_V2_REQUESTS,
];

/** For LangSmith's clients, which use the paths of sessions for projects. */
const OTHER_WORK: Readonly<Record<string, StoredRequest['work']>> = {
  '/sessions': langsmithProjects,
  '/sessions/:session_id': langsmithProject,
};

/** The requests about a project's data in a store, relative to `/api/v1` or to a project. */
const STORED: readonly StoredRequest[] = [
  TRACE_LIST,
  STREAM_TRACES,
  SHOW_TRACE,
  TRACE_OTLP,
  ...SCORE_REQUESTS,
  ...GROUP_REQUESTS,
  STATS_REQUEST,
  FACET_REQUEST,
  SEARCH_STATUS,
  SHOW_OBSERVATION,
  SHOW_ATTACHMENT,
  { path: '/raw-events/:raw_event_id', parameters: [], work: showRawEvent },
  EXPORT,
];

type Work = (reading: AdmittedRead) => Promise<void>;

async function showRawEvent(reading: StoreReading): Promise<void> {
  const { exchange, read } = reading;
  const id = exchange.params.raw_event_id ?? '';
  const parsed = parseRawEventId(id);
  if (parsed === undefined) throw unknown('raw event');
  const payloads = await reading.payloads({ kind: 'raw_event', id });
  const batch = await read.turn(() => payloads.batch(parsed.batchId));
  const position = batch === undefined ? undefined : positionOf(batch.facts, parsed.index);
  if (batch === undefined || position === undefined) throw unknown('raw event');
  const { receivedAt, format, tenant } = batch.facts;
  const about = JSON.stringify({
    id,
    accepted_at: new Date(receivedAt).toISOString(),
    source: sourceOf(format),
    key_id: tenant.keyId,
  });
  const event = await read.turn(() => batch.source(position));
  if (event === undefined) throw unknown('raw event');
  answerJson(exchange, read, `${about.slice(0, -1)},"event":${event}}`);
}

/** Without a store, the answer has what the key itself says. */
async function showMe({ exchange, tenant, store, read }: AdmittedRead): Promise<void> {
  const [project, keys] =
    store === undefined
      ? [undefined, []]
      : await read.turn(() =>
          Promise.all([store.projects.get(tenant.projectId), store.keys.list(tenant.projectId)]),
        );
  const key = keys.find(({ id }) => id === tenant.keyId);
  const me = {
    project: { id: tenant.projectId, name: project?.name ?? tenant.projectId },
    key: { id: tenant.keyId, prefix: key?.prefix ?? null, permissions: tenant.permissions },
  };
  answerJson(exchange, read, JSON.stringify(me));
}

type Serving = {
  /** Rejects with a `Refusal`. */
  readonly admit: () => Promise<Admitted>;
  readonly work: Work;
};
type Admitted = { readonly reader: Reader; release(): void };

/** By the pipeline of a receiver. */
async function admitted(
  { head }: Exchange,
  entrance: Entrance,
  all: readonly Entrance[],
  permissions: readonly Permission[],
): Promise<Admitted> {
  const { tenant, release } = await admittedByAny(head, entrance, permissions);
  const store = storeOf(entrance);
  const reader = {
    ...{ tenant, store, renderRefusal: renderEnvelopeRefusal },
    scoreEditors: editorsBeside(store, all),
    isStillAdmitted: () => staysAdmitted(head, entrance, permissions),
  };
  return { reader, release };
}

/**
 * The paths of scores belong to no receiver, so the editors of all receivers at the address that have the store apply, each id once. During a
 * reload, the newest one of an id.
 */
function editorsBeside(store: Store | undefined, all: readonly Entrance[]): ScoreEditor[] {
  const editors = new Map<string, ScoreEditor>();
  for (const entrance of all) {
    if (storeOf(entrance) !== store) continue;
    for (const editor of findOffers(entrance.pipeline.offers, SCORE_EDITOR)) {
      editors.set(editor.id, editor);
    }
  }
  return [...editors.values()];
}

/** False if the key is revoked or lost the permission. Another refusal, such as of a busy key, says nothing about that. */
async function staysAdmitted(
  head: RequestHead,
  entrance: Entrance,
  permissions: readonly Permission[],
): Promise<boolean> {
  try {
    const { release } = await admittedByAny(head, entrance, permissions);
    release();
    return true;
  } catch (error) {
    return !(error instanceof Refusal && (error.status === 401 || error.status === 403));
  }
}

async function admittedByAny(
  head: RequestHead,
  { pipeline, fallback }: Entrance,
  [first, ...others]: readonly Permission[],
): Promise<Admission> {
  try {
    return await pipeline.admitRead(head, fallback, first);
  } catch (error) {
    const lacksPermission = error instanceof Refusal && error.code === 'forbidden';
    if (!lacksPermission || others.length === 0) throw error;
    return admittedByAny(head, { pipeline, fallback }, others);
  }
}

/** Admits a request and does its work. It holds its memory and its place until the client has the whole answer. */
async function serve(
  { reads, logger }: ReadingParts,
  exchange: Exchange,
  { admit, work }: Serving,
): Promise<void> {
  const client = watchClient(exchange);
  const ends: (() => void)[] = [];
  let render: RenderRefusal = renderEnvelopeRefusal;
  try {
    const { reader, release } = await admit();
    ends.push(release);
    render = reader.renderRefusal;
    const read = reads.begin(reader.tenant, client.signal);
    ends.push(read.end);
    const query = new URLSearchParams(exchange.query);
    await work({ ...reader, exchange, query, read });
  } catch (error) {
    refuse(exchange, error, render, logger);
  }
  await client.closed;
  for (const end of ends) end();
}

/** Without `parameters` the query is not checked. */
function storedWork(
  { reads, scanner }: ReadingParts,
  { parameters, work }: Pick<StoredRequest, 'work'> & Partial<StoredRequest>,
): Work {
  return async (reading) => {
    if (parameters !== undefined) checkParameters(reading.query, parameters);
    const { store, tenant, read, beforePayloads } = reading;
    if (store === undefined) throw withoutStore(parameters === undefined);
    const payloads = async (of: PayloadSubject): Promise<PayloadReader> => {
      await beforePayloads?.(of);
      const { projectId } = tenant;
      const { reservation } = read;
      const { traces } = store;
      return readPayloads({ traces, projectId, scanner, reservation, cache: reads.batches });
    };
    await work({ ...reading, store, reads, payloads });
  };
}

/** LangSmith's Python client repeats feedback for minutes after a 404, and gives up at once after a 405. */
function withoutStore(isOfClient: boolean): Refusal {
  const message = 'Nothing can be read or scored here: no store is named by auth.';
  return new Refusal(isOfClient ? 'method_not_allowed' : 'not_found', message);
}

function storeOf({ pipeline }: Entrance): Store | undefined {
  return findOffer(pipeline.offers, STORE);
}

/** Answers an error of a reading request. An answer that has begun can only be cut. */
function refuse(exchange: Exchange, error: unknown, render: RenderRefusal, logger: Logger): void {
  // The client is gone, which ended the work.
  if (exchange.response.destroyed) return;
  if (!(error instanceof Refusal || error instanceof StoreError)) {
    logger.warn({ err: error, path: exchange.head.path }, 'Reading request failed');
  }
  if (exchange.response.headersSent) exchange.request.socket.destroy();
  else answer(exchange, render(readingRefusal(error), exchange.head));
}

/** A store refuses a reading request for its cursor, and a write for its project. */
function readingRefusal(error: unknown): Refusal {
  if (error instanceof StoreError && error.code === 'unknown_project') return unknown('project');
  if (error instanceof StoreError) return foreignCursor(error);
  return refusalOf(error);
}
