import { findOffer } from '../component/capability.ts';
import type { Logger } from '../component/component.ts';
import { clientOf } from '../http/admission.ts';
import { renderEnvelopeRefusal } from '../http/envelope.ts';
import type { Exchange } from '../http/exchange.ts';
import { answer } from '../http/exchange.ts';
import type { Listeners } from '../http/listener.ts';
import type { CommonRoute, CommonRoutes, Entrance } from '../http/routes.ts';
import type { Tenant } from '../model/batch.ts';
import { parseRawEventId } from '../model/batch.ts';
import { Refusal, refusalOf, StoreError } from '../model/errors.ts';
import { positionOf, sourceOf } from '../model/formats.ts';
import { observationJson, traceJson } from '../store/observation-json.ts';
import type { Store, StoredObservation } from '../store/store.ts';
import { STORE } from '../store/store.ts';
import type { PayloadReader } from './payloads.ts';
import { readPayloads } from './payloads.ts';
import { flag, one, pageOf, traceFilter } from './query.ts';

/**
 * The reading requests (`traces:read`) of an ingestion listener. A request is authenticated by the pipeline of a
 * receiver on the listener, and reads the project of its key from the store that the pipeline's `auth` names:
 *
 *   GET ─▶ entrance.pipeline.authenticate(head, 'traces:read') ─▶ tenant ─▶ store ─▶ JSON
 */
type Reading = {
  readonly exchange: Exchange;
  readonly query: URLSearchParams;
  readonly tenant: Tenant;
  readonly store: Store;
  /** For the bytes of the batches that the request reads. */
  readonly payloads: () => PayloadReader;
};

type ReadingParts = Pick<Listeners, 'bytesInFlight' | 'scanner'> & { readonly logger: Logger };

/** Bytes reserved for an answer of narrow rows. */
const NARROW_BYTES = 65_536;

/** If several receivers share a listener, one whose pipeline has a store comes first. */
export function readRoutes(parts: ReadingParts): CommonRoutes {
  const get = (
    path: string,
    work: (exchange: Exchange, entrance: Entrance) => Promise<void>,
  ): CommonRoute => ({
    method: 'GET',
    path,
    handler: (entrance) => (exchange) =>
      guarded(exchange, parts.logger, () => work(exchange, entrance)),
    renderRefusal: renderEnvelopeRefusal,
  });
  const reading =
    (work: (reading: Reading) => Promise<void>) => (exchange: Exchange, entrance: Entrance) =>
      withStore(parts, exchange, entrance, work);
  return {
    prefers: (entrance) => storeOf(entrance) !== undefined,
    routes: [
      get('/api/v1/traces', reading(listTraces)),
      get('/api/v1/traces/:trace_id', reading(showTrace)),
      get('/api/v1/observations/:id', reading(showObservation)),
      get('/api/v1/raw-events/:raw_event_id', reading(showRawEvent)),
      get('/api/v1/me', showMe),
    ],
  };
}

async function listTraces({ exchange, query, tenant, store }: Reading): Promise<void> {
  const page = await store.traces.listTraces(tenant.projectId, traceFilter(query));
  const traces = page.items.map(traceJson).join(',');
  json(exchange, `{"traces":[${traces}],"next_cursor":${JSON.stringify(page.nextCursor)}}`);
}

/** Streams: the payloads of a page of 1,000 observations may not fit in memory. */
async function showTrace(reading: Reading): Promise<void> {
  const { exchange, query, tenant, store } = reading;
  const traceId = exchange.params.trace_id ?? '';
  const withPayloads = flag(query, 'payloads');
  const pageWanted = pageOf(query);
  const trace = await store.traces.getTrace(tenant.projectId, traceId);
  if (trace === undefined) throw unknown('trace');
  const page = await store.traces.listObservations(tenant.projectId, traceId, pageWanted);
  const next = JSON.stringify(page.nextCursor);
  const head = `{"trace":${traceJson(trace)},"observations":[`;
  if (!withPayloads) {
    const observations = page.items.map((stored) => observationJson(stored, undefined));
    return json(exchange, `${head}${observations.join(',')}],"next_cursor":${next}}`);
  }
  await stream(exchange, head, page.items, reading.payloads(), `],"next_cursor":${next}}`);
}

async function showObservation(reading: Reading): Promise<void> {
  const { exchange, query, tenant, store } = reading;
  const id = exchange.params.id ?? '';
  const traceId = one(query, 'trace_id');
  const stored = await store.traces.getObservation(tenant.projectId, id, traceId);
  if (stored === undefined) throw unknown('observation');
  json(exchange, observationJson(stored, await reading.payloads().read(stored)));
}

async function showRawEvent(reading: Reading): Promise<void> {
  const { exchange } = reading;
  const id = exchange.params.raw_event_id ?? '';
  const parsed = parseRawEventId(id);
  if (parsed === undefined) throw unknown('raw event');
  const payloads = reading.payloads();
  const batch = await payloads.batch(parsed.batchId);
  const position = batch === undefined ? undefined : positionOf(batch, parsed.index);
  if (batch === undefined || position === undefined) throw unknown('raw event');
  const about = JSON.stringify({
    id,
    accepted_at: new Date(batch.receivedAt).toISOString(),
    source: sourceOf(batch.format),
    key_id: batch.tenant.keyId,
  });
  json(exchange, `${about.slice(0, -1)},"event":${await payloads.source(batch, position)}}`);
}

/** Without a store, the answer has what the key itself says. */
async function showMe(exchange: Exchange, entrance: Entrance): Promise<void> {
  const tenant = await authenticated(exchange, entrance);
  const store = storeOf(entrance);
  const [project, keys] =
    store === undefined
      ? [undefined, []]
      : await Promise.all([
          store.projects.get(tenant.projectId),
          store.keys.list(tenant.projectId),
        ]);
  const key = keys.find(({ id }) => id === tenant.keyId);
  json(
    exchange,
    JSON.stringify({
      project: { id: tenant.projectId, name: project?.name ?? tenant.projectId },
      key: { id: tenant.keyId, prefix: key?.prefix ?? null, permissions: tenant.permissions },
    }),
  );
}

async function withStore(
  { bytesInFlight, scanner }: ReadingParts,
  exchange: Exchange,
  entrance: Entrance,
  work: (reading: Reading) => Promise<void>,
): Promise<void> {
  const tenant = await authenticated(exchange, entrance);
  const store = storeOf(entrance);
  if (store === undefined) {
    throw new Refusal('not_found', 'Nothing can be read here: no store is named by auth.');
  }
  const reservation = bytesInFlight.open(clientOf(exchange.head, tenant, entrance.fallback));
  const payloads = (): PayloadReader =>
    readPayloads(store.traces, tenant.projectId, scanner, reservation);
  try {
    reservation.grow(NARROW_BYTES);
    const query = new URLSearchParams(exchange.query);
    await work({ exchange, query, tenant, store, payloads });
  } finally {
    reservation.release();
  }
}

function authenticated(
  { head }: Exchange,
  { pipeline, fallback }: Entrance,
): Promise<Tenant> | Tenant {
  return pipeline.authenticate(head, 'traces:read', fallback);
}

function storeOf({ pipeline }: Entrance): Store | undefined {
  return findOffer(pipeline.offers, STORE);
}

/** Answers an error of a reading request. An answer that has begun can only be cut. */
async function guarded(
  exchange: Exchange,
  logger: Logger,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof Refusal || error instanceof StoreError)) {
      logger.warn({ err: error, path: exchange.head.path }, 'Reading request failed');
    }
    if (exchange.response.headersSent) exchange.request.socket.destroy();
    else answer(exchange, renderEnvelopeRefusal(readingRefusal(error)));
  }
}

/** A store refuses a reading request only for its cursor. */
function readingRefusal(error: unknown): Refusal {
  if (error instanceof StoreError) return new Refusal('invalid_request', error.message);
  return refusalOf(error);
}

async function stream(
  exchange: Exchange,
  head: string,
  observations: readonly StoredObservation[],
  payloads: PayloadReader,
  tail: string,
): Promise<void> {
  const { response } = exchange;
  // The first payloads are read before the status is sent: most failures occur here, and get a status.
  const texts = observations[0] === undefined ? {} : await payloads.read(observations[0]);
  response.writeHead(200, { 'content-type': 'application/json' });
  let pending = head;
  for (const [i, stored] of observations.entries()) {
    const fields = i === 0 ? texts : await payloads.read(stored);
    pending += (i > 0 ? ',' : '') + observationJson(stored, fields);
    if (pending.length < NARROW_BYTES) continue;
    if (!(await written(exchange, pending))) return;
    pending = '';
  }
  response.end(pending + tail);
}

/** Resolves when the socket takes more; with false if the client is gone. */
function written({ response }: Exchange, text: string): Promise<boolean> {
  if (response.destroyed) return Promise.resolve(false);
  if (response.write(text)) return Promise.resolve(true);
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const settle = (): void => {
    response.off('drain', settle);
    response.off('close', settle);
    resolve(!response.destroyed);
  };
  response.on('drain', settle);
  response.on('close', settle);
  return promise;
}

function unknown(what: string): Refusal {
  return new Refusal('not_found', `There is no such ${what}.`);
}

function json(exchange: Exchange, body: string): void {
  answer(exchange, { status: 200, contentType: 'application/json', body });
}
