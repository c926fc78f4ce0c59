import type { DeadLetter } from '../../../src/queue/queue.ts';
import type { Row } from '../connection/statement.ts';

/** A leased entry without its body. */
export type Leased = {
  readonly seq: number;
  readonly batchId: string;
  readonly projectId: string;
  readonly receivedAt: number;
  readonly items: number;
  readonly bytes: number;
  readonly attempts: number;
};
export function leasedOf(row: Row): Leased {
  return {
    seq: Number(row.seq),
    batchId: String(row.batch_id),
    projectId: String(row.project),
    receivedAt: Number(row.received_at),
    items: Number(row.items),
    bytes: Number(row.bytes),
    attempts: Number(row.attempts),
  };
}

export function oldestIn(row: Row): number | undefined {
  return row.oldest === null ? undefined : Number(row.oldest);
}

export function letterOf(row: Row): DeadLetter {
  return {
    id: Number(row.id),
    branch: String(row.branch),
    batchId: String(row.batch_id),
    projectId: String(row.project),
    items: Number(row.items),
    bytes: Number(row.bytes),
    reason: { code: String(row.code), message: String(row.message) },
    failedAt: Number(row.failed_at),
  };
}
