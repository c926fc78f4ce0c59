import { findOffer } from '../component/capability.ts';
import type { Logger } from '../component/component.ts';
import { renderEnvelopeRefusal } from '../http/envelope.ts';
import type { Exchange } from '../http/exchange.ts';
import { answer } from '../http/exchange.ts';
import type { CommonRoute, CommonRoutes, Entrance } from '../http/routes.ts';
import type { Scanner } from '../http/scan-pool.ts';
import type { Tenant } from '../model/batch.ts';
import { parseRawEventId } from '../model/batch.ts';
import { Refusal, refusalOf, StoreError } from '../model/errors.ts';
import { positionOf, sourceOf } from '../model/formats.ts';
import { printQuery } from '../query/print.ts';
import { observationJson, traceJson } from '../store/observation-json.ts';
import type { Store } from '../store/store.ts';
import { STORE } from '../store/store.ts';
import { answerJson, jsonAnswer, watchClient } from './answer.ts';
import { foreignCursor, listCursors } from './list-cursor.ts';
import { writeItems } from './listing.ts';
import type { PayloadReader } from './payloads.ts';
import { readPayloads } from './payloads.ts';
import {
  checkParameters,
  flag,
  one,
  pageOf,
  pageOfTraces,
  TRACE_PARAMETERS,
  TRACES_PARAMETERS,
  traceQuery,
} from './query.ts';
import type { Read, Reads } from './reads.ts';

/**
 * The reading requests (`traces:read`) of an ingestion listener. A request is admitted by the pipeline of a receiver
 * on the listener, and reads the project of its key from the store that the pipeline's `auth` names:
 *
 *   GET ─▶ entrance.pipeline.admitRead(head) ─▶ tenant ─▶ reads.begin ─▶ turns at the store ─▶ JSON
 */
type Reading = {
  readonly exchange: Exchange;
  readonly query: URLSearchParams;
  readonly tenant: Tenant;
  /** Undefined if the pipeline has no store. */
  readonly store: Store | undefined;
  readonly read: Read;
};

/** A reading request whose pipeline has a store. */
type StoreReading = Reading & {
  readonly store: Store;
  readonly reads: Reads;
  /** For the bytes of the batches that the request reads. */
  readonly payloads: () => PayloadReader;
};

type ReadingParts = {
  readonly reads: Reads;
  readonly scanner: Scanner;
  readonly logger: Logger;
};

/** If several receivers share a listener, one whose pipeline has a store comes first. */
export function readRoutes(parts: ReadingParts): CommonRoutes {
  const get = (
    path: string,
    parameters: readonly string[],
    work: (reading: Reading) => Promise<void>,
  ): CommonRoute => ({
    method: 'GET',
    path,
    handler: (entrance) => (exchange) =>
      serve(parts, exchange, entrance, async (reading) => {
        checkParameters(reading.query, parameters);
        await work(reading);
      }),
    renderRefusal: renderEnvelopeRefusal,
    oneAtATime: true,
  });
  const stored = (work: (reading: StoreReading) => Promise<void>) => (reading: Reading) =>
    work(withStore(parts, reading));
  return {
    prefers: (entrance) => storeOf(entrance) !== undefined,
    routes: [
      get('/api/v1/traces', TRACES_PARAMETERS, stored(listTraces)),
      get('/api/v1/traces/:trace_id', TRACE_PARAMETERS, stored(showTrace)),
      get('/api/v1/observations/:id', ['trace_id'], stored(showObservation)),
      get('/api/v1/raw-events/:raw_event_id', [], stored(showRawEvent)),
      get('/api/v1/me', [], showMe),
    ],
  };
}

async function listTraces({
  exchange,
  query,
  tenant,
  store,
  read,
  reads: { limits },
}: StoreReading): Promise<void> {
  const { limit, cursor } = pageOfTraces(query);
  const asked = traceQuery(query, exchange.clock.now());
  const cursors = listCursors('traces', tenant.projectId, printQuery(asked));
  const out = jsonAnswer(exchange, read);
  await out.add('{"traces":[');
  const next = await writeItems(
    out,
    {
      limit,
      cursor: cursors.read(cursor),
      fetch: (rows, cursor) =>
        store.traces.listTraces(tenant.projectId, {
          query: asked,
          limit: rows,
          ...(cursor === undefined ? {} : { cursor }),
        }),
      render: traceJson,
    },
    { read, limits, clock: exchange.clock },
  );
  out.end(`],"next_cursor":${JSON.stringify(cursors.write(next))}}`);
}

async function showTrace(reading: StoreReading): Promise<void> {
  const { exchange, query, tenant, store, read, reads } = reading;
  const { limits } = reads;
  const traceId = exchange.params.trace_id ?? '';
  const payloads = flag(query, 'payloads') ? reading.payloads() : undefined;
  const { limit, cursor } = pageOf(query);
  const cursors = listCursors('observations', tenant.projectId, traceId);
  const first = cursors.read(cursor);
  const trace = await read.turn(() => store.traces.getTrace(tenant.projectId, traceId));
  if (trace === undefined) throw unknown('trace');
  const out = jsonAnswer(exchange, read);
  await out.add(`{"trace":${traceJson(trace)},"observations":[`);
  const next = await writeItems(
    out,
    {
      limit,
      cursor: first,
      fetch: (rows, cursor) =>
        store.traces.listObservations(tenant.projectId, traceId, {
          limit: rows,
          ...(cursor === undefined ? {} : { cursor }),
        }),
      async render(stored) {
        if (payloads === undefined) return observationJson(stored, undefined);
        return observationJson(stored, await read.turn(() => payloads.read(stored)));
      },
    },
    { read, limits, clock: exchange.clock },
  );
  out.end(`],"next_cursor":${JSON.stringify(cursors.write(next))}}`);
}

async function showObservation(reading: StoreReading): Promise<void> {
  const { exchange, query, tenant, store, read } = reading;
  const id = exchange.params.id ?? '';
  const traceId = one(query, 'trace_id');
  const stored = await read.turn(() => store.traces.getObservation(tenant.projectId, id, traceId));
  if (stored === undefined) throw unknown('observation');
  const payloads = reading.payloads();
  const texts = await read.turn(() => payloads.read(stored));
  answerJson(exchange, read, observationJson(stored, texts));
}

async function showRawEvent(reading: StoreReading): Promise<void> {
  const { exchange, read } = reading;
  const id = exchange.params.raw_event_id ?? '';
  const parsed = parseRawEventId(id);
  if (parsed === undefined) throw unknown('raw event');
  const payloads = reading.payloads();
  const batch = await read.turn(() => payloads.batch(parsed.batchId));
  const position = batch === undefined ? undefined : positionOf(batch, parsed.index);
  if (batch === undefined || position === undefined) throw unknown('raw event');
  const about = JSON.stringify({
    id,
    accepted_at: new Date(batch.receivedAt).toISOString(),
    source: sourceOf(batch.format),
    key_id: batch.tenant.keyId,
  });
  const event = await read.turn(() => payloads.source(batch, position));
  answerJson(exchange, read, `${about.slice(0, -1)},"event":${event}}`);
}

/** Without a store, the answer has what the key itself says. */
async function showMe({ exchange, tenant, store, read }: Reading): Promise<void> {
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

/** Admits a request and does its work. It holds its memory and its place until the client has the whole answer. */
async function serve(
  { reads, logger }: ReadingParts,
  exchange: Exchange,
  entrance: Entrance,
  work: (reading: Reading) => Promise<void>,
): Promise<void> {
  const client = watchClient(exchange);
  const ends: (() => void)[] = [];
  try {
    const { tenant, release } = await entrance.pipeline.admitRead(exchange.head, entrance.fallback);
    ends.push(release);
    const read = reads.begin(tenant, client.signal);
    ends.push(read.end);
    const query = new URLSearchParams(exchange.query);
    await work({ exchange, query, tenant, store: storeOf(entrance), read });
  } catch (error) {
    refuse(exchange, error, logger);
  }
  await client.closed;
  for (const end of ends) end();
}

function withStore({ reads, scanner }: ReadingParts, reading: Reading): StoreReading {
  const { store, tenant, read } = reading;
  if (store === undefined) {
    throw new Refusal('not_found', 'Nothing can be read here: no store is named by auth.');
  }
  const payloads = (): PayloadReader =>
    readPayloads(store.traces, tenant.projectId, scanner, read.reservation);
  return { ...reading, store, reads, payloads };
}

function storeOf({ pipeline }: Entrance): Store | undefined {
  return findOffer(pipeline.offers, STORE);
}

/** Answers an error of a reading request. An answer that has begun can only be cut. */
function refuse(exchange: Exchange, error: unknown, logger: Logger): void {
  // The client is gone, which ended the work.
  if (exchange.response.destroyed) return;
  if (!(error instanceof Refusal || error instanceof StoreError)) {
    logger.warn({ err: error, path: exchange.head.path }, 'Reading request failed');
  }
  if (exchange.response.headersSent) exchange.request.socket.destroy();
  else answer(exchange, renderEnvelopeRefusal(readingRefusal(error)));
}

/** A store refuses a reading request only for its cursor. */
function readingRefusal(error: unknown): Refusal {
  if (error instanceof StoreError) return foreignCursor(error);
  return refusalOf(error);
}

function unknown(what: string): Refusal {
  return new Refusal('not_found', `There is no such ${what}.`);
}
