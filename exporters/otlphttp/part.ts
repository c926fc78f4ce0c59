import type { Batch, RawBatch } from '../../src/model/batch.ts';
import { itemsOf } from '../../src/model/batch.ts';
import { bytesOf, positionOf } from '../../src/model/formats.ts';
import { ulid } from '../../src/model/ulid.ts';

/** Some items of a batch, with their bytes, as a batch of its own. They were counted when they came in: it costs nothing. */
export function partOf(batch: RawBatch, positions: readonly number[], bytes: Buffer): RawBatch {
  return {
    kind: 'raw',
    id: ulid(batch.receivedAt),
    format: batch.format,
    tenant: batch.tenant,
    receivedAt: batch.receivedAt,
    requestItems: positions.length,
    body: bytes,
    encoding: 'identity',
    index: undefined,
    positions: undefined,
    rejections: [],
    usage: { events: 0, bytes: 0 },
  };
}

export function isOtlp({ format }: RawBatch): boolean {
  return format === 'otlp_proto' || format === 'otlp_json';
}

/** Observations leave as what they were made of; where some are missing, so are their items. */
export function rawBatchOf(batch: Batch): RawBatch {
  if (batch.kind === 'raw') return batch;
  const { source, observations } = batch;
  if (observations.length === itemsOf(source)) return source;
  const keep = observations.map(({ index }) => positionOf(source, index) ?? index);
  return partOf(source, keep, bytesOf(source, keep));
}
