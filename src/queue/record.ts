import type { Encoding, Format, SealedBatch } from '../model/batch.ts';
import { permissionBits, permissionList } from '../model/permissions.ts';
import type { Rejection } from '../model/rejection.ts';

/** Numbers in the file: append to these lists, never reorder them. */
const FORMATS: readonly Format[] = ['native', 'runs', 'otlp_proto', 'otlp_json'];
const ENCODINGS: readonly Encoding[] = ['identity', 'gzip', 'zstd'];

/** A raw batch as a flat list: what crosses to the database thread, and a row of `raw_batches`. */
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

export const RECORD_COLUMNS =
  'id, organization, project, key, permissions, format, encoding, received_at, request_items, items, ' +
  'usage_events, usage_bytes, positions, rejections, body';

/** `body`: what stands in its place where it is written in parts. */
export function recordOf(batch: SealedBatch, body: Uint8Array = owned(batch.body)): BatchRecord {
  const { tenant, usage, positions, rejections } = batch;
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
    positions === undefined ? null : JSON.stringify(positions),
    rejections.length === 0 ? null : JSON.stringify(rejections),
    body,
  ];
}

/** The inverse; throws when a value is none that `recordOf` writes. */
export function batchOf(record: BatchRecord): SealedBatch {
  const [id, organizationId, projectId, keyId, permissions, format, encoding] = record;
  const [receivedAt, requestItems, items, events, bytes, positions, rejections, body] =
    record.slice(7) as unknown as [
      number,
      number,
      number,
      number,
      number,
      string | null,
      string | null,
      Uint8Array,
    ];
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
    positions: positions === null ? undefined : (JSON.parse(positions) as number[]),
    rejections: rejections === null ? [] : (JSON.parse(rejections) as Rejection[]),
    usage: { events, bytes },
  };
}

/** A slice of a shared pool would be cloned with the whole pool behind it. */
function owned(body: Buffer): Uint8Array {
  return body.byteLength === body.buffer.byteLength ? body : new Uint8Array(body);
}

function at<T>(list: readonly T[], index: number): T {
  const found = list[index];
  if (found === undefined) throw new Error(`no value has the number ${index}`);
  return found;
}
