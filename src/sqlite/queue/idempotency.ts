import { createHash } from 'node:crypto';
import type { Clock, IdempotencyClaim, IdempotencyLedger } from '../../component/component.ts';
import type { SealedBatch, Tenant } from '../../model/batch.ts';
import type { KeyedAnswer } from '../../model/request-context.ts';
import type { Database } from '../database.ts';
import type { AnswerRecord } from './operations.ts';

/** How long an answer is kept. */
const KEPT_MS = 24 * 3_600_000;

/** A row of the answers' table: request hash, status, content type, body, expiry. */
type AnswerRow = readonly [Uint8Array, number, string, Uint8Array, number];

/** What the batch's answer looks like in the table; null where the request carried no key. */
export function answerRecord(
  batch: SealedBatch,
  answer: KeyedAnswer | undefined,
  now: number,
): AnswerRecord | null {
  if (answer === undefined) return null;
  const { key, requestHash, status, contentType, body } = answer;
  return [
    keyHash(batch.tenant, key),
    new Uint8Array(requestHash),
    status,
    contentType,
    new Uint8Array(body),
    now + KEPT_MS,
    batch.tenant.projectId,
  ];
}

/** Answers stand on disk; requests whose answer is not known yet are held in memory. */
export function idempotencyLedger(database: Database, clock: Clock): IdempotencyLedger {
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
      const row = (await database.read('queue.answer', [hash])) as AnswerRow | null;
      if (row === null || row[4] <= clock.now()) return { state: 'new', release };
      release();
      if (!requested.equals(row[0])) return { state: 'conflict' };
      const [, status, contentType, body] = row;
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
