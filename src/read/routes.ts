import type { Pipeline, Settings } from '../component/component.ts';
import type { ByteReservation } from '../http/admission.ts';
import { renderEnvelopeRefusal } from '../http/envelope.ts';
import type { Exchange } from '../http/exchange.ts';
import { answer } from '../http/exchange.ts';
import type { Listener } from '../http/listener.ts';
import { LISTENERS } from '../http/listener.ts';
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
 * The reading requests (`traces:read`), on the listener that also ingests. Every one reads for the
 * project of the key it came with, and nothing else.
 */
type Reading = {
  readonly exchange: Exchange;
  readonly query: URLSearchParams;
  readonly tenant: Tenant;
  readonly store: Store;
  /** For the bytes of batches that are read. */
  readonly payloads: () => PayloadReader;
};

/** Bytes an answer of narrow rows may take. */
const NARROW_BYTES = 65_536;

/**
 * Registers the reading requests for this receiver's pipeline. Several receivers of one listener do so;
 * one whose pipeline names a store goes first.
 */
export function registerReadRoutes(
  listener: Listener,
  settings: Settings,
  pipeline: Pipeline,
  fallback: Tenant | undefined,
): void {
  const get = (path: string, handler: (exchange: Exchange) => Promise<void>): void =>
    listener.route({
      method: 'GET',
      path,
      handler: (exchange) => guarded(exchange, settings, handler),
      renderRefusal: renderEnvelopeRefusal,
      sharedRank: pipeline.storeId === undefined ? 1 : 2,
    });
  const reading = (work: (reading: Reading) => Promise<void>) => (exchange: Exchange) =>
    withStore(exchange, settings, pipeline, fallback, work);

  get('/api/v1/traces', reading(listTraces));
  get('/api/v1/traces/:trace_id', reading(showTrace));
  get('/api/v1/observations/:id', reading(showObservation));
  get('/api/v1/raw-events/:raw_event_id', reading(showRawEvent));
  get('/api/v1/me', (exchange) => showMe(exchange, settings, pipeline, fallback));
}

async function listTraces({ exchange, query, tenant, store }: Reading): Promise<void> {
  const page = await store.traces.listTraces(tenant.projectId, traceFilter(query));
  const traces = page.items.map(traceJson).join(',');
  json(exchange, `{"traces":[${traces}],"next_cursor":${JSON.stringify(page.nextCursor)}}`);
}

/** Streams: a page holds up to 1,000 observations, whose payloads may be far more than fits in memory. */
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

/** Served also where no store is named: then the configuration is all that is known. */
async function showMe(
  exchange: Exchange,
  settings: Settings,
  pipeline: Pipeline,
  fallback: Tenant | undefined,
): Promise<void> {
  const tenant = await pipeline.authenticate(exchange.head, 'traces:read', fallback);
  const store = storeOf(settings, pipeline);
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
  exchange: Exchange,
  settings: Settings,
  pipeline: Pipeline,
  fallback: Tenant | undefined,
  work: (reading: Reading) => Promise<void>,
): Promise<void> {
  const tenant = await pipeline.authenticate(exchange.head, 'traces:read', fallback);
  const store = storeOf(settings, pipeline);
  if (store === undefined) {
    throw new Refusal('not_found', 'Nothing can be read here: no store is named by auth.');
  }
  const { bytesInFlight, scanner } = settings.host.service(LISTENERS);
  const reservation: ByteReservation = bytesInFlight.reserve(NARROW_BYTES);
  const payloads = (): PayloadReader =>
    readPayloads(store.traces, tenant.projectId, scanner, reservation);
  try {
    const query = new URLSearchParams(exchange.query);
    await work({ exchange, query, tenant, store, payloads });
  } finally {
    reservation.release();
  }
}

function storeOf(settings: Settings, pipeline: Pipeline): Store | undefined {
  if (pipeline.storeId === undefined) return undefined;
  return settings.host.extension(pipeline.storeId, STORE);
}

/** Answers what a reading request throws; a stream that has begun can only be cut. */
async function guarded(
  exchange: Exchange,
  settings: Settings,
  handler: (exchange: Exchange) => Promise<void>,
): Promise<void> {
  try {
    await handler(exchange);
  } catch (error) {
    if (!(error instanceof Refusal || error instanceof StoreError)) {
      settings.logger.warn({ err: error, path: exchange.head.path }, 'a reading request failed');
    }
    if (exchange.response.headersSent) exchange.request.socket.destroy();
    else answer(exchange, renderEnvelopeRefusal(readingRefusal(error)));
  }
}

/** The one thing a store finds wrong with a reading request is its cursor. */
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
  // The first payloads are read before the status goes out: what fails often fails at once.
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

/** Resolves when there is room for more; with false when the client is gone. */
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
