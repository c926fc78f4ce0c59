import type { Batch, SealedBatch } from '../../src/model/batch.ts';
import { itemsOf } from '../../src/model/batch.ts';
import { bytesOf, positionOf } from '../../src/model/formats.ts';
import { ulid } from '../../src/model/ulid.ts';

/** Some items of a batch, with their bytes, as a batch of its own. They were counted when they came in: it costs nothing. */
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

export function isOtlp({ format }: SealedBatch): boolean {
  return format === 'otlp_proto' || format === 'otlp_json';
}

/** Observations leave as what they were made of; where some are missing, so are their items. */
export function rawBatchOf(batch: Batch): SealedBatch {
  if (batch.kind === 'raw') return batch;
  const { source, observations } = batch;
  if (observations.length === itemsOf(source)) return source;
  const keep = observations.map(({ index }) => positionOf(source, index) ?? index);
  return partOf(source, keep, bytesOf(source, keep));
}
