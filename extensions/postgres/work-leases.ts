import { randomUUID } from 'node:crypto';
import type { Steps } from '../../src/component/background.ts';
import { pause } from '../../src/component/clock.ts';
import type { Clock, Logger } from '../../src/component/component.ts';
import type { WorkLease } from '../../src/queue/shared-queue.ts';
import { DATABASE_NOW } from './connection/database-clock.ts';
import { sqlStateOf } from './connection/errors.ts';
import type { Postgres } from './connection/pool.ts';
import type { PostgresClient, Statement } from './connection/statement.ts';
import { row } from './connection/statement.ts';

/**
 * A lease that is not renewed for this long is free. Another process looks for it every 5 s, so the work of a frozen
 * process stops for 15 s at most.
 */
const LEASE_MS = 10_000;
/** The longest rest after a round. A longer one ends, because the clock of the database was set back. */
export const LONGEST_LEASE_REST_MS = 60_000;
/** How often `finish` tries to get a lease of another process. */
const WAIT_MS = 50;
/** Raised by `renew_work_lease` (migrations/0005-leases.ts). */
const LOST = 'TL001';

type Database = Pick<Postgres, 'query' | 'transaction'>;

export type HeldLease = WorkLease & {
  /**
   * The database for work under the lease. Every statement and every transaction first renews the lease in the same
   * transaction, and changes nothing if the lease is lost.
   */
  readonly database: Database;
  /** Never rejects: a lease that cannot be released expires. Until the end of a rest, no process gets it unless it asks for that. */
  release(restMs?: number): Promise<void>;
};

export type WorkLeases = {
  /** Undefined if another process holds the lease, or it rests. */
  acquire(name: string, rested?: 'rested' | 'resting'): Promise<HeldLease | undefined>;
};

/** Every lease has a holder id of its own, so a process does not continue with a lease that it lost and got again. */
export function workLeases(
  database: Database,
  clock: Clock,
  logger: Logger,
  leaseMs = LEASE_MS,
): WorkLeases {
  return {
    async acquire(name, rested = 'rested') {
      const holder = randomUUID();
      const found = await row<{ is_held: boolean }>(database, ACQUIRE, [
        ...[name, holder, leaseMs],
        rested === 'rested' ? LONGEST_LEASE_REST_MS : 0,
      ]);
      if (found?.is_held !== true) return undefined;
      const fence: Statement = ['SELECT renew_work_lease($1, $2, $3)', [name, holder, leaseMs]];
      return {
        database: fenced(database, fence),
        async renew() {
          // A process that was frozen before it read the answer asks again.
          let asked: number;
          do {
            asked = clock.now();
            await database.query(...fence);
          } while (Math.abs(clock.now() - asked) >= leaseMs / 2);
        },
        async release(restMs = 0) {
          try {
            await database.query(RELEASE, [name, holder, restMs]);
          } catch (error) {
            logger.debug({ err: error, lease: name }, 'Lease could not be released; it expires');
          }
        },
      };
    },
  };
}

/**
 * $1 name, $2 holder, $3 duration, $4 the longest rest. A locked row belongs to a process in the middle of a step, and is skipped. A
 * row without a holder rests. A lease that lasts for longer than its duration was renewed while the clock of the database was ahead: it
 * gets its duration from now, in which a holder that lives renews it.
 */
const ACQUIRE = `
  WITH misdated AS (
    SELECT name FROM work_leases
    WHERE name = $1 AND holder <> '' AND expires_at > ${DATABASE_NOW} + $3::bigint
    FOR UPDATE SKIP LOCKED
  ), bounded AS (
    UPDATE work_leases l SET expires_at = ${DATABASE_NOW} + $3::bigint
    FROM misdated WHERE l.name = misdated.name
  ), free AS (
    SELECT name FROM work_leases WHERE name = $1 AND (expires_at <= ${DATABASE_NOW}
      OR (holder = '' AND expires_at > ${DATABASE_NOW} + $4::bigint))
    FOR UPDATE SKIP LOCKED
  ), taken AS (
    UPDATE work_leases l SET holder = $2, expires_at = ${DATABASE_NOW} + $3::bigint
    FROM free WHERE l.name = free.name RETURNING 1
  ), created AS (
    INSERT INTO work_leases (name, holder, expires_at)
    SELECT $1, $2, ${DATABASE_NOW} + $3::bigint
    WHERE NOT EXISTS (SELECT 1 FROM work_leases WHERE name = $1)
    ON CONFLICT DO NOTHING RETURNING 1
  )
  SELECT EXISTS (SELECT 1 FROM taken) OR EXISTS (SELECT 1 FROM created) AS is_held`;

const RELEASE = `
  UPDATE work_leases SET holder = '',
    expires_at = CASE WHEN $3::bigint = 0 THEN 0 ELSE ${DATABASE_NOW} + $3::bigint END
  WHERE name = $1 AND holder = $2`;

function fenced(database: Database, fence: Statement): Database {
  return {
    query: (text, values = []) =>
      database.transaction(async (client) => {
        const [, result] = await client.commit([fence, [text, values]]);
        return result ?? { rows: [] };
      }),
    transaction: (work) =>
      database.transaction(async (client) => {
        await client.query(...fence);
        return work(client);
      }),
  };
}

/** Whether another process has taken the lease that the failed statement or transaction needed. */
function isLeaseLost(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  // Of erasures, each of which fails without the lease.
  if (error instanceof AggregateError) return error.errors.every(isLeaseLost);
  return sqlStateOf(error) === LOST || isLeaseLost(error.cause);
}

/** See `SharedQueueStorage`. */
export async function withLease(
  leases: WorkLeases,
  name: string,
  logger: Logger,
  work: (lease: WorkLease) => Promise<void>,
): Promise<boolean> {
  const lease = await leases.acquire(name);
  if (lease === undefined) return false;
  try {
    await work(lease);
  } catch (error) {
    if (!isLeaseLost(error)) throw error;
    noteLost(logger, name);
  } finally {
    await lease.release();
  }
  return true;
}

function noteLost(logger: Logger, name: string): void {
  logger.info({ lease: name }, 'Lease lost; another process does the work');
}

export type LeasedSteps = {
  /** The next step; resolves with whether more work is left, false if another process does the work. */
  step(): Promise<boolean>;
  /**
   * Calls `run`, which takes the steps to their end. Until it resolves, a first step waits for the lease of another process, and for no
   * rest.
   */
  finish(run: () => Promise<void>): Promise<void>;
  /** Ends the work and releases the lease. */
  close(): Promise<void>;
};

/**
 * Work in steps, under one lease from its first step to its last one. If a step fails or the lease is lost, the work
 * ends; the next step starts it from the beginning. After its last step all processes rest for `restMs`.
 */
export function leasedSteps(
  leases: WorkLeases,
  name: string,
  { clock, logger }: { readonly clock: Clock; readonly logger: Logger },
  work: (database: PostgresClient & Database) => Steps,
  restMs: () => number = () => 0,
): LeasedSteps {
  let current: { readonly lease: HeldLease; readonly steps: Steps } | undefined;
  let isWaiting = false;

  async function begin(): Promise<typeof current> {
    for (;;) {
      const lease = await leases.acquire(name, isWaiting ? 'resting' : 'rested');
      if (lease !== undefined) return { lease, steps: work(lease.database) };
      if (!isWaiting) return undefined;
      await pause(clock, WAIT_MS);
    }
  }

  async function end(rest = 0): Promise<void> {
    const ended = current;
    current = undefined;
    await ended?.lease.release(rest);
  }

  return {
    async step() {
      current ??= await begin();
      if (current === undefined) return false;
      try {
        const { done } = await current.steps.next();
        if (done !== true) return true;
      } catch (error) {
        await end();
        if (!isLeaseLost(error)) throw error;
        noteLost(logger, name);
        return false;
      }
      await end(restMs());
      return false;
    },
    async finish(run) {
      isWaiting = true;
      try {
        await run();
      } finally {
        isWaiting = false;
      }
    },
    close: () => end(),
  };
}
