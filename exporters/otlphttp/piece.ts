import type { RawBatch } from '../../src/model/batch.ts';
import type { OtlpIndex } from '../../src/model/batch-index.ts';
import { bytesOf, indexOf } from '../../src/model/formats.ts';
import { encodeRequest, requestOf } from '../../src/model/otlp/encode.ts';
import { requestOfSpans } from '../../src/model/otlp/encode-observation.ts';
import type { RequestBody } from './body.ts';
import { requestBody } from './body.ts';
import type { OtlpHttpConfig } from './config.ts';
import { type ObservationEvent, spanOf } from './event.ts';

/** Something to send in one request, and how to make less of it where that is too much. */
export type Piece = {
  /** Spans in it. */
  readonly items: number;
  /** Where they come from: positions in the bodies of batches; undefined for all of a batch. */
  readonly sources: readonly { readonly batch: RawBatch; readonly position: number }[] | undefined;
  encode(): Promise<RequestBody>;
  /** Parts that are it together; none where it cannot be parted. */
  halves(): readonly Piece[];
};

/** OTLP leaves as the bytes that came in, also where only some of its spans are sent. */
export function otlpPiece(
  batch: RawBatch,
  config: OtlpHttpConfig,
  keep?: readonly number[],
): Piece {
  const format = batch.format === 'otlp_json' ? 'json' : 'proto';
  return {
    items: keep?.length ?? batch.requestItems - batch.rejections.length,
    sources: keep?.map((position) => ({ batch, position })),
    async encode() {
      if (config.convert && format !== config.encoding) {
        const index = indexOf(batch) as OtlpIndex;
        const request = requestOf(index, keep ?? allOf(index.count));
        const bytes = encodeRequest(request, config.encoding);
        return requestBody(bytes, 'identity', config.encoding, config);
      }
      return keep === undefined
        ? requestBody(batch.body, batch.encoding, format, config)
        : requestBody(bytesOf(batch, keep), 'identity', format, config);
    },
    halves() {
      const positions = keep ?? allOf(indexOf(batch).count);
      return halvesOf(positions).map((half) => otlpPiece(batch, config, half));
    },
  };
}

/** Spans made of observations; each is made of one event or more. */
export function spanPiece(
  groups: readonly (readonly ObservationEvent[])[],
  config: OtlpHttpConfig,
): Piece {
  return {
    items: groups.length,
    sources: groups.flat(),
    encode() {
      const bytes = encodeRequest(requestOfSpans(groups.map(spanOf)), config.encoding);
      return requestBody(bytes, 'identity', config.encoding, config);
    },
    halves() {
      // One span that is too large goes as the events it is made of.
      const parts = groups.length === 1 ? (groups[0] ?? []).map((event) => [event]) : groups;
      return halvesOf(parts).map((half) => spanPiece(half, config));
    },
  };
}

function allOf(count: number): number[] {
  return Array.from({ length: count }, (_, position) => position);
}

function halvesOf<T>(list: readonly T[]): readonly (readonly T[])[] {
  if (list.length < 2) return [];
  const middle = list.length >> 1;
  return [list.slice(0, middle), list.slice(middle)];
}
