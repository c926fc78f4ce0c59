import type { SealedBatch } from '../../src/model/batch.ts';
import { OBSERVATION_ORIGIN } from '../../src/model/otlp/encode-observation.ts';
import { encodeOwnSpans } from '../../src/model/otlp/own-span.ts';
import type { RequestBody } from '../../src/otlp-client/body.ts';
import { hasWanted, requestBody } from '../../src/otlp-client/body.ts';
import type { OtlpHttpConfig } from './config.ts';
import { allOf, type Cutter } from './cutter.ts';
import { type ObservationEvent, spanOf } from './event.ts';

/** Something to send in one request, and how to make less of it where that is too much. */
export type Piece = {
  /** Spans in it. */
  readonly items: number;
  /** Where they come from: positions in the bodies of batches; undefined for all of a batch. */
  readonly sources:
    | readonly { readonly batch: SealedBatch; readonly position: number }[]
    | undefined;
  encode(): Promise<RequestBody>;
  /** Parts that are it together; none where it cannot be parted. */
  halves(): readonly Piece[];
};

/** OTLP leaves as the bytes that came in, also where only some of its spans are sent. */
export function otlpPiece(
  batch: SealedBatch,
  config: OtlpHttpConfig,
  cutter: Cutter,
  keep?: readonly number[],
): Piece {
  const format = batch.format === 'otlp_json' ? 'json' : 'proto';
  const sent = config.convert ? config.encoding : format;
  const isAsItCame = keep === undefined && sent === format && hasWanted(batch.encoding, config);
  return {
    items: keep?.length ?? batch.requestItems - batch.rejections.length,
    sources: keep?.map((position) => ({ batch, position })),
    async encode() {
      if (isAsItCame) return requestBody(batch.body, batch.encoding, format, config);
      const encoding = sent === format ? undefined : sent;
      const bytes = await cutter.cut({ batch, keep, encoding });
      return requestBody(bytes, 'identity', sent, config);
    },
    halves() {
      const positions = keep ?? allOf(batch.positions?.length ?? batch.requestItems);
      return halvesOf(positions).map((half) => otlpPiece(batch, config, cutter, half));
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
    async encode() {
      const bytes = await encodeOwnSpans(OBSERVATION_ORIGIN, groups.map(spanOf), config.encoding);
      return requestBody(bytes, 'identity', config.encoding, config);
    },
    halves() {
      // One span that is too large goes as the events it is made of.
      const parts = groups.length === 1 ? (groups[0] ?? []).map((event) => [event]) : groups;
      return halvesOf(parts).map((half) => spanPiece(half, config));
    },
  };
}

function halvesOf<T>(list: readonly T[]): readonly (readonly T[])[] {
  if (list.length < 2) return [];
  const middle = list.length >> 1;
  return [list.slice(0, middle), list.slice(middle)];
}
