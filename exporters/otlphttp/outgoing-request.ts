import type { Batch, SealedBatch } from '../../src/model/batch.ts';
import { itemsOf } from '../../src/model/batch.ts';
import { bytesOf, positionOf } from '../../src/model/formats.ts';
import { ulid } from '../../src/model/ulid.ts';
import type { RequestBody } from '../../src/otlp-client/body.ts';
import { hasConfiguredEncoding, requestBody } from '../../src/otlp-client/body.ts';
import { allPositions, type BodyWorker } from './body-worker.ts';
import type { OtlpHttpConfig } from './config.ts';
import { mergedSpan, type ObservationEvent } from './observation-event.ts';

/** A request to the destination. */
export type OutgoingRequest = {
  /** Spans in the request. */
  readonly items: number;
  /** The items that the spans were made of; undefined for all items of a batch. */
  readonly sources:
    | readonly { readonly batch: SealedBatch; readonly position: number }[]
    | undefined;
  encode(): RequestBody | Promise<RequestBody>;
  /** Smaller requests with the same spans, for a destination that refuses the size; empty for one span. */
  halves(): readonly OutgoingRequest[];
};

/** Forwards OTLP as the bytes that arrived, or as a cut of them. */
export function forwardRequest(
  batch: SealedBatch,
  config: OtlpHttpConfig,
  worker: BodyWorker,
  keep?: readonly number[],
): OutgoingRequest {
  const arrived = batch.format === 'otlp_json' ? 'json' : 'proto';
  const sent = config.convert ? config.encoding : arrived;
  const isUnchanged =
    keep === undefined && sent === arrived && hasConfiguredEncoding(batch.encoding, config);
  return {
    items: keep?.length ?? batch.items,
    sources: keep?.map((position) => ({ batch, position })),
    encode() {
      if (isUnchanged) return requestBody(batch.body, batch.encoding, arrived, config);
      const encoding = sent === arrived ? undefined : sent;
      const cutting = worker.cut({ batch, keep, encoding });
      return cutting.then((bytes) => requestBody(bytes, 'identity', sent, config));
    },
    halves() {
      const positions = keep ?? allPositions(batch.items);
      return halvesOf(positions).map((half) => forwardRequest(batch, config, worker, half));
    },
  };
}

/** Sends one span for each group of events. */
export function spanRequest(
  groups: readonly (readonly ObservationEvent[])[],
  config: OtlpHttpConfig,
  worker: BodyWorker,
): OutgoingRequest {
  return {
    items: groups.length,
    sources: groups.flat(),
    async encode() {
      const spans = groups.map(mergedSpan);
      const bytes = await worker.encode({ spans, encoding: config.encoding });
      return requestBody(bytes, 'identity', config.encoding, config);
    },
    halves() {
      // One span that is too large is sent as a span for each of its events.
      const parts = groups.length === 1 ? (groups[0] ?? []).map((event) => [event]) : groups;
      return halvesOf(parts).map((half) => spanRequest(half, config, worker));
    },
  };
}

function halvesOf<T>(list: readonly T[]): readonly (readonly T[])[] {
  if (list.length < 2) return [];
  const middle = list.length >> 1;
  return [list.slice(0, middle), list.slice(middle)];
}

export function isOtlp({ format }: SealedBatch): boolean {
  return format === 'otlp_proto' || format === 'otlp_json';
}

/** The batch that observations were read from, without the items whose observations are missing. */
export function sourceBatchOf(batch: Batch): SealedBatch {
  if (batch.kind === 'raw') return batch;
  const { source, observations } = batch;
  if (observations.length === itemsOf(source)) return source;
  const keep = observations.map(({ index }) => positionOf(source, index) ?? index);
  return partOf(source, keep, bytesOf(source, keep));
}

/** Some items of a batch as a batch of its own. Its usage is 0, because the items are counted already. */
export function partOf(
  batch: SealedBatch,
  positions: readonly number[],
  bytes: Buffer,
): SealedBatch {
  return {
    kind: 'raw',
    id: ulid(batch.receivedAt),
    format: batch.format,
    tenant: batch.tenant,
    receivedAt: batch.receivedAt,
    requestItems: positions.length,
    body: bytes,
    encoding: 'identity',
    items: positions.length,
    positions: undefined,
    rejections: [],
    usage: { events: 0, bytes: 0 },
  };
}
