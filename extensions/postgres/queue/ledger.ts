import { createHash } from 'node:crypto';
import type {
  Clock,
  IdempotencyClaim,
  IdempotencyLedger,
  Logger,
} from '../../../src/component/component.ts';
import type { SealedBatch, Tenant } from '../../../src/model/batch.ts';
import type { KeyedAnswer } from '../../../src/model/request-context.ts';
import { ulid } from '../../../src/model/ulid.ts';
import type { QueueClient, QueueDatabase } from '../database.ts';
import type { Holder } from './holder.ts';

/** How long an answer is kept. */
const KEPT_MS = 24 * 3_600_000;
const TIDY_ROWS = 1000;

/**
 * One claim at a time, whichever process it is made in. A claim is a row without a status; the append
 * writes the answer into it, a release takes it away, and that of a dead process counts for nothing.
 */
const CLAIM = `
  WITH claimed AS (
    INSERT INTO idempotency AS i (hash, request_hash, project, claim, holder, expires_at)
    VALUES ($1, $2, $3, $4, $5, $6::bigint + ${KEPT_MS})
    ON CONFLICT (hash) DO UPDATE SET
      request_hash = excluded.request_hash, project = excluded.project, claim = excluded.claim,
      holder = excluded.holder, status = NULL, content_type = NULL, body = NULL,
      expires_at = excluded.expires_at
    WHERE i.expires_at <= $6
      OR (i.status IS NULL AND
        (i.holder = $5 OR NOT EXISTS (SELECT 1 FROM queue_holders h WHERE h.id = i.holder)))
    RETURNING true
  )
  SELECT (SELECT true FROM claimed) AS claimed, i.request_hash, i.status, i.content_type, i.body
  FROM (SELECT 1) one LEFT JOIN idempotency i ON i.hash = $1`;

const KEEP = `
  INSERT INTO idempotency (hash, request_hash, project, claim, status, content_type, body, expires_at)
  VALUES ($1, $2, $3, '', $4, $5, $6, $7)
  ON CONFLICT (hash) DO UPDATE SET
    request_hash = excluded.request_hash, claim = '', holder = NULL, status = excluded.status,
    content_type = excluded.content_type, body = excluded.body, expires_at = excluded.expires_at`;

/** The arguments of `KEEP`. */
export type AnswerRow = readonly [
  hash: Buffer,
  requestHash: Buffer,
  project: string,
  status: number,
  contentType: string,
  body: Buffer,
  expiresAt: number,
];

/** What the batch's answer looks like in the table; undefined where the request carried no key. */
export function answerRow(
  { tenant }: SealedBatch,
  answer: KeyedAnswer | undefined,
  now: number,
): AnswerRow | undefined {
  if (answer === undefined) return undefined;
  const { key, requestHash, status, contentType, body } = answer;
  const hash = keyHash(tenant, key);
  return [hash, requestHash, tenant.projectId, status, contentType, body, now + KEPT_MS];
}

export type PostgresLedger = IdempotencyLedger & {
  /** Writes answers into the transaction that makes their batches durable. */
  keep(client: QueueClient, answers: readonly AnswerRow[]): Promise<void>;
  /** Forgets a bounded number of answers that have expired; resolves with whether there may be more. */
  tidy(): Promise<boolean>;
};

export function postgresLedger(
  database: QueueDatabase,
  holder: Holder,
  clock: Clock,
  logger: Logger,
): PostgresLedger {
  /** Claims of this process, which need no round trip to be seen. */
  const underWay = new Map<string, Buffer>();

  async function claim(tenant: Tenant, key: string, requested: Buffer): Promise<IdempotencyClaim> {
    const hash = keyHash(tenant, key);
    const id = hash.toString('latin1');
    const other = underWay.get(id);
    if (other !== undefined) return { state: other.equals(requested) ? 'in_progress' : 'conflict' };
    underWay.set(id, requested);
    const free = (): void => {
      if (underWay.get(id) === requested) underWay.delete(id);
    };
    const nonce = ulid(clock.now());
    try {
      const args = [hash, requested, tenant.projectId, nonce, holder.id, clock.now()];
      const { rows } = await database.query(CLAIM, args);
      const [row] = rows;
      if (row?.claimed === true) return { state: 'new', release: () => release(hash, nonce, free) };
      free();
      return answerOf(row, requested);
    } catch (error) {
      free();
      throw error;
    }
  }

  /** An answer that was kept meanwhile stays. */
  function release(hash: Buffer, nonce: string, free: () => void): void {
    free();
    database
      .query('DELETE FROM idempotency WHERE hash = $1 AND claim = $2 AND status IS NULL', [
        hash,
        nonce,
      ])
      .catch((error: unknown) => logger.warn({ error }, 'a claim was not given back yet'));
  }

  async function keep(client: QueueClient, answers: readonly AnswerRow[]): Promise<void> {
    for (const answer of answers) await client.query(KEEP, answer);
  }

  async function tidy(): Promise<boolean> {
    const { rows } = await database.query(
      `DELETE FROM idempotency WHERE hash IN
         (SELECT hash FROM idempotency WHERE expires_at <= $1 LIMIT ${TIDY_ROWS})
       RETURNING 1`,
      [clock.now()],
    );
    return rows.length === TIDY_ROWS;
  }

  return { claim, keep, tidy };
}

function answerOf(
  row: Readonly<Record<string, unknown>> | undefined,
  requested: Buffer,
): IdempotencyClaim {
  const hash = row?.request_hash;
  // Released by another process between the two looks of one statement: it may be asked again.
  if (!(hash instanceof Buffer)) return { state: 'in_progress' };
  if (!requested.equals(hash)) return { state: 'conflict' };
  const status = row?.status;
  if (typeof status !== 'number') return { state: 'in_progress' };
  const contentType = String(row?.content_type);
  return { state: 'replay', answer: { status, contentType, body: row?.body as Buffer } };
}

function keyHash(tenant: Tenant, key: string): Buffer {
  return createHash('sha256').update(tenant.projectId).update('\0').update(key).digest();
}
