import { printQuery } from '../../query/print.ts';
import type { Query } from '../../query/query.ts';
import type { ChangedBy } from '../../tenancy/contract.ts';
import type { AuditRow } from '../../tenancy/rows.ts';
import type { Erasure, ErasureReceipt, ErasureRequest, ErasureState } from '../erasures.ts';
import { hashedQuery } from './named.ts';
import type { ErasureRow } from './tables.ts';

/** The part of an erasure that a store keeps as JSON. */
export type ErasureRecord = {
  readonly query: string;
  /** Null as soon as the query holds hashes in place of its values. */
  readonly parsed: Query | null;
  readonly state: ErasureState;
  readonly isDryRun: boolean;
  readonly blockUntil: number | null;
  readonly requestedBy: string;
  readonly address: string | null;
  readonly requestedAt: number;
  readonly finishedAt: number | null;
  /** Why the erasure failed, or why a running one waits. */
  readonly failure: string | null;
  /** Milliseconds since the epoch: when the erasure began to wait. */
  readonly postponedAt?: number;
  readonly receipt: ErasureReceipt | null;
};

export function newRecord(
  { query, isDryRun, blockUntil }: ErasureRequest,
  { actor, address }: ChangedBy,
  now: number,
): ErasureRecord {
  return {
    query: printQuery(query),
    parsed: query,
    state: 'running',
    isDryRun,
    blockUntil: blockUntil ?? null,
    requestedBy: actor,
    address,
    requestedAt: now,
    finishedAt: null,
    failure: null,
    receipt: null,
  };
}

export function erasureRecord({ record }: ErasureRow): ErasureRecord {
  return JSON.parse(record) as ErasureRecord;
}

export function erasureText(record: ErasureRecord): string {
  return JSON.stringify(record);
}

/** The record without the values of its query. */
export function hashedRecord(record: ErasureRecord): ErasureRecord {
  const { parsed } = record;
  return parsed === null ? record : { ...record, query: hashedQuery(parsed), parsed: null };
}

export function erasureOf(row: ErasureRow): Erasure {
  const { id, project, traces, observations, bytes } = row;
  const { parsed: _, address: __, postponedAt: ___, ...record } = erasureRecord(row);
  return { id, projectId: project, ...record, traces, observations, bytes };
}

/** The entry of a request in the audit log. It names values by their hashes, because the log is never changed. */
export function requestedAudit(id: string, project: string, record: ErasureRecord): AuditRow {
  const { requestedAt: at, requestedBy: actor, address, blockUntil } = record;
  const details = {
    project,
    query: hashedRecord(record).query,
    ...(record.isDryRun ? { dry_run: true } : {}),
    ...(blockUntil === null ? {} : { block_until: new Date(blockUntil).toISOString() }),
  };
  return {
    at,
    actor,
    address,
    action: 'erasure.create',
    subject: id,
    details: JSON.stringify(details),
  };
}

/** The receipt in the audit log. */
export function finishedAudit({ id, project }: ErasureRow, record: ErasureRecord): AuditRow {
  const { query, requestedBy: actor, address, finishedAt, receipt } = record;
  const details = {
    ...{ project, query },
    traces: receipt?.traces ?? 0,
    observations: receipt?.observations ?? 0,
    bytes: receipt?.bytes ?? 0,
    ids_hash: receipt?.idsHash ?? '',
  };
  const text = JSON.stringify(details);
  return {
    at: finishedAt ?? 0,
    actor,
    address,
    action: 'erasure.finish',
    subject: id,
    details: text,
  };
}
