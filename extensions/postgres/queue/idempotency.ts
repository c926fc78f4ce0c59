import { createHash } from 'node:crypto';
import type {
  Clock,
  IdempotencyClaim,
  IdempotencyLedger,
  Logger,
} from '../../../src/component/component.ts';
import type { SealedBatch, Tenant } from '../../../src/model/batch.ts';
import { tooLate } from '../../../src/model/errors.ts';
import type { KeyedAnswer, StoredAnswer } from '../../../src/model/request-context.ts';
import { bodyToKeep } from '../../../src/model/request-context.ts';
import { ulid } from '../../../src/model/ulid.ts';
import { DATABASE_NOW } from '../connection/database-clock.ts';
import type { PostgresTransaction } from '../connection/pool.ts';
import { row, rows } from '../connection/statement.ts';
import type { StoreDatabase } from '../database.ts';
import { claimReleases } from './claim-releases.ts';
import type { Holder } from './holder.ts';

/** How long the answer to an `Idempotency-Key` is kept. */
const KEPT_MS = 24 * 3_600_000;
/** The clocks of two servers of a database, before and after a failover, differ by less. */
const MOST_SKEW_MS = 3_600_000;
/** Rows that one step removes. */
const STEP = 1000;

/**
 * A key has one claim at a time, whichever process makes it. A claim is a row without a status. The append writes the
 * answer into it, a release deletes it, and a claim of a dead process counts as none. An answer that ends too late for the
 * present counts as expired, as in `KEEP_NEW`.
 */
const CLAIM = `
  WITH claimed AS (
    INSERT INTO idempotency AS i (hash, request_hash, project, claim, holder, expires_at)
    VALUES ($1, $2, $3, $4, $5, ${DATABASE_NOW} + ${KEPT_MS})
    ON CONFLICT (hash) DO UPDATE SET
      request_hash = excluded.request_hash, project = excluded.project, claim = excluded.claim,
      holder = excluded.holder, status = NULL, content_type = NULL, body = NULL,
      expires_at = excluded.expires_at
    WHERE i.expires_at <= ${DATABASE_NOW}
      OR (i.status IS NOT NULL AND i.expires_at > ${DATABASE_NOW} + $6::bigint + ${MOST_SKEW_MS})
      OR (i.status IS NULL AND
        (i.holder = $5 OR NOT EXISTS (SELECT 1 FROM queue_holders h WHERE h.id = i.holder)))
    RETURNING true
  )
  SELECT (SELECT true FROM claimed) AS claimed, i.request_hash, i.status, i.content_type, i.body
  FROM (SELECT 1) one LEFT JOIN idempotency i ON i.hash = $1`;

/** `claimed` is null for a claim that failed, `request_hash` if another process released its row just now. */
type ClaimRow = {
  readonly claimed: true | null;
  readonly request_hash: Buffer | null;
  readonly status: number | null;
  readonly content_type: string | null;
  readonly body: Buffer | null;
};

const KEEP = `
  INSERT INTO idempotency AS i (hash, request_hash, project, claim, status, content_type, body, expires_at)
  VALUES ($1, $2, $3, '', $4, $5, $6, ${DATABASE_NOW} + $7::bigint)
  ON CONFLICT (hash) DO UPDATE SET
    request_hash = excluded.request_hash, claim = '', holder = NULL, status = excluded.status,
    content_type = excluded.content_type, body = excluded.body, expires_at = excluded.expires_at
  WHERE i.expires_at <= ${DATABASE_NOW} OR (i.status IS NULL AND i.holder = $8)
  RETURNING 1`;

/**
 * Keeps answers whose keys were not claimed, unless the key has an answer already, or another process has claimed it: one whose pipeline has
 * several exporters, or feedback before a new version of it. A claim of a dead process counts as none. In the order of the hashes, so that
 * transactions that share keys wait for each other and do not deadlock. Returns the hashes that are new.
 *
 * An end that is later than that of the new answer was made while the clock of the database, or that of a process of an earlier version, was
 * ahead. The answer counts as expired, because an identical request would be lost until then.
 */
const KEEP_NEW = `
  INSERT INTO idempotency AS i (hash, request_hash, project, claim, status, content_type, body, expires_at)
  SELECT hash, request_hash, project, '', status, content_type, body, ${DATABASE_NOW} + kept_for
  FROM unnest($1::bytea[], $2::bytea[], $3::text[], $4::int[], $5::text[], $6::bytea[], $7::bigint[])
    AS g (hash, request_hash, project, status, content_type, body, kept_for)
  ORDER BY hash
  ON CONFLICT (hash) DO UPDATE SET
    claim = '', holder = NULL, status = excluded.status, content_type = excluded.content_type,
    body = excluded.body, expires_at = excluded.expires_at
  WHERE i.expires_at <= ${DATABASE_NOW}
    OR (i.status IS NOT NULL AND i.expires_at > excluded.expires_at + ${MOST_SKEW_MS})
    OR (i.status IS NULL AND NOT EXISTS (SELECT 1 FROM queue_holders h WHERE h.id = i.holder))
  RETURNING hash`;

const EARLIER = `
  SELECT hash, status, content_type, body FROM idempotency WHERE hash = ANY ($1::bytea[])`;

/** The answer to a request with an `Idempotency-Key`, or with an implicit key, as the table keeps it. */
export type AnswerToKeep = {
  readonly hash: Buffer;
  readonly requestHash: Buffer;
  readonly projectId: string;
  readonly status: number;
  readonly contentType: string;
  readonly body: Buffer;
  /** Milliseconds. */
  readonly keptFor: number;
  /** Whether an earlier answer counts instead, because the key was not claimed. */
  readonly isUnclaimed: boolean;
};

/** Undefined if the request carried no key. */
export function keptAnswer(
  { tenant }: SealedBatch,
  answer: KeyedAnswer | undefined,
): AnswerToKeep | undefined {
  if (answer === undefined) return undefined;
  const { key, requestHash, status, contentType, keptFor, isUnclaimed } = answer;
  return {
    ...{ hash: keyHash(tenant, key), requestHash, projectId: tenant.projectId },
    ...{ status, contentType, body: bodyToKeep(answer), keptFor: keptFor ?? KEPT_MS },
    isUnclaimed: isUnclaimed === true,
  };
}

export type PostgresIdempotency = IdempotencyLedger & {
  /** Writes answers in the transaction that makes their batches durable. */
  keep(client: PostgresTransaction, answers: readonly AnswerToKeep[]): Promise<void>;
  /**
   * Keeps the answers whose keys were not claimed. Resolves with the earlier answers of the others, whose batches are not to be
   * stored; `in_progress` if the request of a claim has no answer yet. Waits for a transaction in flight that keeps the same key.
   */
  keepNew(
    client: PostgresTransaction,
    answers: readonly AnswerToKeep[],
  ): Promise<ReadonlyMap<AnswerToKeep, StoredAnswer | 'in_progress'>>;
  /** Takes back answers of this transaction whose batches were refused. */
  forget(client: PostgresTransaction, answers: readonly AnswerToKeep[]): Promise<void>;
  /** Removes a bounded number of expired answers; resolves with whether there may be more. */
  expireStep(): Promise<boolean>;
  /** See `ClaimReleases`. */
  close(): void;
};

export function postgresIdempotency(
  database: StoreDatabase,
  holder: Holder,
  clock: Clock,
  logger: Logger,
): PostgresIdempotency {
  /** Request hashes of the claims of this process, which answer a second claim without a round trip. */
  const inFlight = new Map<string, Buffer>();
  const { release, close } = claimReleases(database, clock, logger);

  async function claim(
    tenant: Tenant,
    key: string,
    requestHash: Buffer,
    keptFor = KEPT_MS,
  ): Promise<IdempotencyClaim> {
    const hash = keyHash(tenant, key);
    const id = hash.toString('latin1');
    const other = inFlight.get(id);
    if (other !== undefined)
      return { state: other.equals(requestHash) ? 'in_progress' : 'conflict' };
    inFlight.set(id, requestHash);
    const free = (): void => {
      if (inFlight.get(id) === requestHash) inFlight.delete(id);
    };
    const nonce = ulid(clock.now());
    let isSent = false;
    try {
      await holder.confirm();
      const values = [hash, requestHash, tenant.projectId, nonce, holder.id, keptFor];
      isSent = true;
      const found = await row<ClaimRow>(database.accepting, CLAIM, values);
      if (found?.claimed === true) {
        const end = (): void => {
          free();
          release(hash, nonce);
        };
        return { state: 'new', release: end };
      }
      free();
      return claimOf(found, requestHash);
    } catch (error) {
      free();
      // The claim may have been written although its answer did not arrive.
      if (isSent) release(hash, nonce);
      throw error;
    }
  }

  async function keep(
    client: PostgresTransaction,
    answers: readonly AnswerToKeep[],
  ): Promise<void> {
    for (const { hash, requestHash, projectId, status, contentType, body, keptFor } of answers) {
      const { rows } = await client.query(KEEP, [
        ...[hash, requestHash, projectId],
        ...[status, contentType, body, keptFor, holder.id],
      ]);
      // This process was frozen, and another one took over its claim with a repeated request.
      if (rows.length === 0) throw tooLate();
    }
  }

  async function forget(
    client: PostgresTransaction,
    answers: readonly AnswerToKeep[],
  ): Promise<void> {
    if (answers.length === 0) return;
    const hashes = answers.map(({ hash }) => hash);
    await client.query('DELETE FROM idempotency WHERE hash = ANY ($1::bytea[])', [hashes]);
  }

  async function expireStep(): Promise<boolean> {
    // The condition outside holds for the row as it is deleted: another transaction may have renewed it since it was found.
    const { rows } = await database.query(
      `WITH present AS MATERIALIZED (SELECT ${DATABASE_NOW} AS now)
       DELETE FROM idempotency WHERE expires_at <= (SELECT now FROM present) AND hash IN
         (SELECT hash FROM idempotency WHERE expires_at <= (SELECT now FROM present) LIMIT ${STEP})
       RETURNING 1`,
    );
    return rows.length === STEP;
  }

  return { claim, keep, keepNew, forget, expireStep, close };
}

async function keepNew(
  client: PostgresTransaction,
  answers: readonly AnswerToKeep[],
): Promise<ReadonlyMap<AnswerToKeep, StoredAnswer | 'in_progress'>> {
  const earlier = new Map<AnswerToKeep, StoredAnswer | 'in_progress'>();
  const alike = Map.groupBy(answers, ({ hash }) => hash.toString('latin1'));
  const firsts = [...alike.values()].flatMap(([first]) => first ?? []);
  if (firsts.length === 0) return earlier;
  const kept = await rows<{ hash: Buffer }>(client, KEEP_NEW, [
    firsts.map(({ hash }) => hash),
    firsts.map(({ requestHash }) => requestHash),
    firsts.map(({ projectId }) => projectId),
    firsts.map(({ status }) => status),
    firsts.map(({ contentType }) => contentType),
    firsts.map(({ body }) => body),
    firsts.map(({ keptFor }) => keptFor),
  ]);
  // Of several requests of one group the first is new, and its answer is the earlier one of the others.
  for (const [first, ...others] of alike.values()) {
    for (const other of others) if (first !== undefined) earlier.set(other, answerOf(first));
  }
  if (kept.length === firsts.length) return earlier;
  const isNew = new Set(kept.map(({ hash }) => hash.toString('latin1')));
  const known = [...alike].filter(([id]) => !isNew.has(id));
  const found = await rows<AnswerRow>(client, EARLIER, [
    known.flatMap(([, [first]]) => first?.hash ?? []),
  ]);
  for (const { hash, status, content_type: contentType, body } of found) {
    for (const answer of alike.get(hash.toString('latin1')) ?? []) {
      const isKept = status !== null && contentType !== null && body !== null;
      earlier.set(answer, isKept ? { status, contentType, body } : 'in_progress');
    }
  }
  return earlier;
}

type AnswerRow = {
  readonly hash: Buffer;
  /** Null in a claim. */
  readonly status: number | null;
  readonly content_type: string | null;
  readonly body: Buffer | null;
};

function answerOf({ status, contentType, body }: AnswerToKeep): StoredAnswer {
  return { status, contentType, body };
}

function claimOf(found: ClaimRow | undefined, requestHash: Buffer): IdempotencyClaim {
  // No row: another process released it between the two parts of the statement. The client may retry.
  if (found === undefined || found.request_hash === null) return { state: 'in_progress' };
  if (!requestHash.equals(found.request_hash)) return { state: 'conflict' };
  const { status, content_type: contentType, body } = found;
  if (status === null || contentType === null || body === null) return { state: 'in_progress' };
  return { state: 'replay', answer: { status, contentType, body } };
}

function keyHash(tenant: Tenant, key: string): Buffer {
  return createHash('sha256').update(tenant.projectId).update('\0').update(key).digest();
}
