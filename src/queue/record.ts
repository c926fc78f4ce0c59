import type { Encoding, Format, SealedBatch } from '../model/batch.ts';
import { bodyOf } from '../model/batch.ts';
import { ownMemoryOf } from '../model/own-memory.ts';
import { permissionBits, permissionList } from '../model/permissions.ts';
import type { Rejection } from '../model/rejection.ts';

/** Stores keep positions in these lists: append to the lists, never reorder them. */
const FORMATS: readonly Format[] = ['native', 'runs', 'otlp_proto', 'otlp_json'];
const ENCODINGS: readonly Encoding[] = ['identity', 'gzip', 'zstd'];

/** The damage of a batch that the store does not have. */
export const MISSING_BODY = 'its body is missing';

/** A batch as a flat list, as it crosses to the database thread and as a row of `raw_batches`. */
export type BatchRecord = readonly [
  id: string,
  organization: string,
  project: string,
  key: string,
  permissions: number,
  format: number,
  encoding: number,
  receivedAt: number,
  requestItems: number,
  items: number,
  usageEvents: number,
  usageBytes: number,
  positions: string | null,
  rejections: string | null,
  body: Uint8Array,
];

/** The cells of a `BatchRecord` that are read one by one. */
export const RECORD = {
  ID: 0,
  PROJECT: 2,
  RECEIVED_AT: 7,
  ITEMS: 9,
  USAGE_EVENTS: 10,
  USAGE_BYTES: 11,
  POSITIONS: 12,
  REJECTIONS: 13,
  BODY: 14,
} as const;

/** The columns of a `BatchRecord`, in its order. */
export const RECORD_COLUMNS =
  'id, organization, project, key, permissions, format, encoding, received_at, request_items, items, ' +
  'usage_events, usage_bytes, positions, rejections, body';

/** `body` replaces the batch's body if the body is written in parts. A slice of a shared pool would be cloned with the whole pool. */
export function recordOf(
  batch: SealedBatch,
  body: Uint8Array = ownMemoryOf(bodyOf(batch)),
): BatchRecord {
  const { tenant, usage, rejections } = batch;
  return [
    batch.id,
    tenant.organizationId,
    tenant.projectId,
    tenant.keyId,
    permissionBits(tenant.permissions),
    FORMATS.indexOf(batch.format),
    ENCODINGS.indexOf(batch.encoding),
    batch.receivedAt,
    batch.requestItems,
    batch.items,
    usage.events,
    usage.bytes,
    positionsText(batch),
    rejections.length === 0 ? null : JSON.stringify(rejections),
    body,
  ];
}

/** The inverse of `recordOf`; throws on a value that `recordOf` does not write. */
export function batchOf(record: BatchRecord): SealedBatch {
  const [id, organizationId, projectId, keyId, permissions, format, encoding, ...numbers] = record;
  const [receivedAt, requestItems, items, events, bytes, positions, rejections, body] = numbers;
  return {
    kind: 'raw',
    id,
    format: at(FORMATS, format),
    tenant: { organizationId, projectId, keyId, permissions: permissionList(permissions) },
    receivedAt,
    requestItems,
    body: Buffer.from(body.buffer, body.byteOffset, body.byteLength),
    encoding: at(ENCODINGS, encoding),
    items,
    ...positionsIn(positions),
    rejections: rejections === null ? [] : (JSON.parse(rejections) as Rejection[]),
    usage: { events, bytes },
  };
}

/** The request positions of the items in the body as it was first stored, with null for an erased item. */
function positionsText({ positions, gaps }: SealedBatch): string | null {
  if (positions === undefined) return null;
  if (gaps === undefined) return JSON.stringify(positions);
  const all: (number | null)[] = [];
  let next = 0;
  for (const gap of gaps) {
    while (all.length < gap) all.push(positions[next++] ?? null);
    all.push(null);
  }
  return JSON.stringify([...all, ...positions.slice(next)]);
}

/** The positions of erased items, which the cell `positions` of a record has. */
export function gapsIn(text: string | null): readonly number[] {
  return positionsIn(text).gaps ?? [];
}

function positionsIn(text: string | null): Pick<SealedBatch, 'positions' | 'gaps'> {
  if (text === null) return { positions: undefined };
  const all = JSON.parse(text) as (number | null)[];
  const positions = all.filter((index) => index !== null);
  if (positions.length === all.length) return { positions };
  return { positions, gaps: all.flatMap((index, position) => (index === null ? [position] : [])) };
}

function at<T>(list: readonly T[], index: number): T {
  const found = list[index];
  if (found === undefined) throw new Error(`unknown format or encoding number: ${index}`);
  return found;
}
