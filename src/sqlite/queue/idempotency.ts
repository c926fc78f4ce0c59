import type { IdempotencyClaim, IdempotencyLedger } from '../../component/component.ts';
import type { SteadyTime } from '../../component/steady-time.ts';
import type { SealedBatch, Tenant } from '../../model/batch.ts';
import type { KeyedAnswer } from '../../model/request-context.ts';
import { implicitTag, isImplicitKey } from '../../model/request-context.ts';
import type { Database } from '../database.ts';
import type { AnswerRecord } from './append-operations.ts';
import { KEPT_MS } from './expiry-operations.ts';
import { keyHash } from './key-hash.ts';
import type { QueueOperations } from './operations.ts';
import type { RecentRequests } from './recent-requests.ts';

/** The answer to the request of a batch as a row. */
export function answerRecord(batch: SealedBatch, answer: KeyedAnswer, now: number): AnswerRecord {
  const { key, requestHash, status, contentType, body, keptFor = KEPT_MS } = answer;
  return {
    hash: keyHash(batch.tenant.projectId, key),
    requestHash: new Uint8Array(requestHash),
    status,
    contentType,
    body: new Uint8Array(body),
    expiresAt: now + keptFor,
    project: batch.tenant.projectId,
  };
}

/**
 * Answers are on disk; the requests in flight, which have no answer yet, are in memory. `recent` has the answers of implicit
 * keys.
 */
export function idempotencyLedger(
  database: Database<QueueOperations>,
  recent: RecentRequests,
  time: SteadyTime,
): IdempotencyLedger {
  const inFlight = new Map<string, Buffer>();

  async function claim(tenant: Tenant, key: string, requested: Buffer): Promise<IdempotencyClaim> {
    const hash = keyHash(tenant.projectId, key);
    const id = hash.toString('latin1');
    const other = inFlight.get(id);
    if (other !== undefined) return { state: other.equals(requested) ? 'in_progress' : 'conflict' };
    inFlight.set(id, requested);
    const release = (): void => {
      if (inFlight.get(id) === requested) inFlight.delete(id);
    };
    try {
      const earlier = isImplicitKey(key)
        ? await implicit(implicitTag(key), tenant.projectId)
        : await explicit(hash, requested);
      if (earlier === undefined) return { state: 'new', release };
      release();
      return earlier;
    } catch (error) {
      release();
      throw error;
    }
  }

  async function implicit(tag: string, project: string): Promise<IdempotencyClaim | undefined> {
    if (recent.isInFlight(tag, project)) return { state: 'in_progress' };
    const answer = await recent.find(tag, project);
    return answer && { state: 'replay', answer };
  }

  async function explicit(hash: Buffer, requested: Buffer): Promise<IdempotencyClaim | undefined> {
    const kept = await database.read('queue.answer', [hash]);
    if (kept === null || kept.expiresAt <= time.now()) return undefined;
    if (!requested.equals(kept.requestHash)) return { state: 'conflict' };
    const { status, contentType, body } = kept;
    return { state: 'replay', answer: { status, contentType, body: Buffer.from(body) } };
  }

  return { claim };
}
