import { createHash } from 'node:crypto';
import type { Clock, IdempotencyClaim, IdempotencyLedger } from '../../component/component.ts';
import type { SealedBatch, Tenant } from '../../model/batch.ts';
import type { KeyedAnswer } from '../../model/request-context.ts';
import type { Database } from '../database.ts';
import type { AnswerRecord } from './append-operations.ts';
import type { QueueOperations } from './operations.ts';

/** The time that the answer to an `Idempotency-Key` is kept. */
const KEPT_MS = 24 * 3_600_000;

/** The answer to a batch's request as a row; null if the request had no idempotency key. */
export function answerRecord(
  batch: SealedBatch,
  answer: KeyedAnswer | undefined,
  now: number,
): AnswerRecord | null {
  if (answer === undefined) return null;
  const { key, requestHash, status, contentType, body, keptFor } = answer;
  return {
    hash: keyHash(batch.tenant, key),
    requestHash: new Uint8Array(requestHash),
    status,
    contentType,
    body: new Uint8Array(body),
    expiresAt: now + (keptFor ?? KEPT_MS),
    project: batch.tenant.projectId,
  };
}

/** Answers are on disk; the requests in flight, which have no answer yet, are in memory. */
export function idempotencyLedger(
  database: Database<QueueOperations>,
  clock: Clock,
): IdempotencyLedger {
  const inFlight = new Map<string, Buffer>();

  async function claim(tenant: Tenant, key: string, requested: Buffer): Promise<IdempotencyClaim> {
    const hash = keyHash(tenant, key);
    const id = hash.toString('latin1');
    const other = inFlight.get(id);
    if (other !== undefined) return { state: other.equals(requested) ? 'in_progress' : 'conflict' };
    inFlight.set(id, requested);
    const release = (): void => {
      if (inFlight.get(id) === requested) inFlight.delete(id);
    };
    try {
      const kept = await database.read('queue.answer', [hash]);
      if (kept === null || kept.expiresAt <= clock.now()) return { state: 'new', release };
      release();
      if (!requested.equals(kept.requestHash)) return { state: 'conflict' };
      const { status, contentType, body } = kept;
      return { state: 'replay', answer: { status, contentType, body: Buffer.from(body) } };
    } catch (error) {
      release();
      throw error;
    }
  }

  return { claim };
}

function keyHash(tenant: Tenant, key: string): Buffer {
  return createHash('sha256').update(tenant.projectId).update('\0').update(key).digest();
}
