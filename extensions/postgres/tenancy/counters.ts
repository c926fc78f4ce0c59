import type { Clock, Logger } from '../../../src/component/component.ts';
import { RetryableError } from '../../../src/model/errors.ts';
import { HOUR_MS, windowAt } from '../../../src/model/usage-window.ts';
import type {
  QuotaLimits,
  QuotaVerdict,
  Reservation,
  UsageCounters,
  UsageInForce,
} from '../../../src/tenancy/contract.ts';
import type { RebuildWatch } from '../../../src/tenancy/rebuild-watch.ts';
import { rebuildWatch } from '../../../src/tenancy/rebuild-watch.ts';
import type { VerifyProgress } from '../../../src/tenancy/rows.ts';
import type { Difference } from '../../../src/tenancy/usage.ts';
import { SHARE_ACCEPT_LOCK } from '../batches/accept-lock.ts';
import { DATABASE_NOW } from '../connection/database-clock.ts';
import type { Postgres } from '../connection/pool.ts';
import type { PostgresPools } from '../connection/pools.ts';
import type { PostgresClient, Statement } from '../connection/statement.ts';
import { row, rows } from '../connection/statement.ts';
import type { Rebuilding } from './rebuilding.ts';
import { rebuilding } from './rebuilding.ts';
import { hoursOfMonth, newestTime } from './usage.ts';
import { windowDifferences } from './verify.ts';

/** How long after a reservation its process may settle it; then any process ends it. */
const LEASE_MS = 10 * 60_000;
/** A reservation that lasts for longer was made while the clock of the database was ahead, and would count until the wrong time. */
const MOST_LEASE_MS = 2 * LEASE_MS;
const FLUSH_MS = 50;
const RETRY_MS = 1_000;
/** Attempts of one reservation: the windows may be missing, or of another hour. */
const ATTEMPTS = 4;
/** Reservations that one statement ends. */
const STEP = 500;

export type PostgresCounters = UsageCounters & {
  /** Ends overdue reservations of dead processes; resolves with whether there may be more. */
  endOverdue(client: PostgresClient): Promise<boolean>;
  verify(progress: VerifyProgress): Promise<Difference[]>;
  /** Settles the reservations that wait for it. */
  close(): Promise<void>;
};

/** The result of the function `reserve_usage` (migrations/0025-hour-bound.ts). */
type ReservationRow = {
  readonly answer: 'ok' | 'missing' | 'later' | 'month' | 'hour';
  readonly detail: string | null;
};

/**
 * Counters that all processes share, without Redis: a round trip and a row lock for every request.
 *
 *   reserve ──▶ windows + reservation ──accepted──▶ ledger entry in place of the reservation (accepting.ts)
 *                                     └─failed, or overdue──▶ given back
 */
export function postgresCounters(
  pools: PostgresPools,
  clock: Clock,
  logger: Logger,
): PostgresCounters {
  const settling = new Settling(pools.write, clock, logger);
  const watch = rebuildWatch(clock, logger);
  const rebuildOnce = windowRebuilds(rebuilding(pools.rebuild), watch);

  async function attempt(
    { batchId, tenant, usage, at }: Reservation,
    limits: QuotaLimits,
    isPeek: boolean,
  ): Promise<QuotaVerdict> {
    const { organizationId, projectId, keyId } = tenant;
    let countsAt = at;
    for (let attempts = 0; attempts < ATTEMPTS; attempts++) {
      const found = await row<ReservationRow>(
        pools.accept,
        `SELECT * FROM reserve_usage($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
           ${DATABASE_NOW} + $13::bigint)`,
        [
          isPeek ? null : batchId,
          ...[organizationId, projectId, keyId],
          ...[hoursOfMonth(countsAt)[0], Math.floor(countsAt / HOUR_MS)],
          ...[usage.events, usage.bytes],
          ...[limits.eventsPerMonth, limits.bytesPerHour],
          ...[limits.project?.eventsPerMonth ?? null, limits.project?.bytesPerHour ?? null],
          LEASE_MS,
        ],
      );
      if (found === undefined) break;
      const { answer, detail } = found;
      if (answer === 'ok') return { admitted: true, at: countsAt };
      if (answer === 'missing') await rebuildOnce(organizationId, at);
      else if (answer === 'later') countsAt = Number(detail) * HOUR_MS;
      else return refused(answer === 'month' ? 'monthly_limit' : 'hourly_limit', detail, countsAt);
    }
    throw new RetryableError('quota_counters', 'The quota counters are being rebuilt. Try again.');
  }

  return {
    peek: (tenant, limits, at) =>
      // A limit is exhausted if there is no room for one more event, or one more byte.
      attempt({ batchId: '', tenant, usage: { events: 1, bytes: 1 }, at }, limits, true),
    async reserve(reservation, limits) {
      const { usage, at } = reservation;
      const scopes = [
        ['o', limits.bytesPerHour],
        ['p', limits.project?.bytesPerHour ?? null],
      ] as const;
      for (const [scope, most] of scopes) {
        if (most !== null && usage.bytes > most) return refused('exceeds_hourly_limit', scope, at);
      }
      return attempt(reservation, limits, false);
    },
    settle: (reservation, isDurable, isEntered = false) =>
      settling.add(reservation.batchId, isDurable, isEntered),
    async read(organizationId, projectId) {
      await settling.flush();
      return read(pools.read, clock, organizationId, projectId ?? null);
    },
    async endOverdue(client) {
      const overdue = await rows<{ batch_id: string }>(
        client,
        `SELECT batch_id FROM usage_reservations
         WHERE expires_at NOT BETWEEN ${DATABASE_NOW} AND ${DATABASE_NOW} + ${MOST_LEASE_MS}
         ORDER BY expires_at LIMIT ${STEP}`,
      );
      const batchIds = overdue.map(({ batch_id }) => batch_id);
      if (batchIds.length > 0) await giveBack(client, batchIds);
      return overdue.length === STEP;
    },
    verify: (progress) => windowDifferences(pools.verify, progress),
    async close() {
      watch.close();
      await settling.close();
    },
  };
}

function refused(
  code: Extract<QuotaVerdict, { admitted: false }>['code'],
  scope: string | null,
  at: number,
): QuotaVerdict {
  const { monthEnd, hourEnd } = windowAt(at);
  const resetsAt = code === 'monthly_limit' ? monthEnd : hourEnd;
  return { admitted: false, code, ...(scope === 'p' ? { scope: 'project' } : {}), resetsAt };
}

/** All that counts toward the windows: the ledger, and reservations. */
const countedIn = (ledger: 'all_usage' | 'usage_hours'): string => `(
  SELECT organization, project, hour, events, bytes FROM ${ledger}
  UNION ALL SELECT organization, project, hour, events, bytes FROM usage_reservations)`;

/** Callers share the rebuild in progress. */
function windowRebuilds(
  rebuild: Rebuilding,
  watch: RebuildWatch,
): (organizationId: string, at: number) => Promise<void> {
  const inProgress = new Map<string, Promise<void>>();
  return (organizationId, at) => {
    const known = inProgress.get(organizationId);
    if (known !== undefined) return known;
    const work = watch
      .attempt(() => rebuildWindows(rebuild, organizationId, at))
      .finally(() => inProgress.delete(organizationId));
    inProgress.set(organizationId, work);
    return work;
  };
}

/** Sums the windows up from the ledger and the reservations. */
async function rebuildWindows(
  rebuild: Rebuilding,
  organizationId: string,
  at: number,
): Promise<void> {
  await rebuild(async (client) => {
    // A reservation beside the transaction that dropped the windows may have left the one of its project.
    await client.query(
      `DELETE FROM usage_windows WHERE organization = $1 AND NOT EXISTS (
         SELECT 1 FROM usage_windows WHERE organization = $1 AND project = '')`,
      [organizationId],
    );
    const countsAt = await newestTime(client, organizationId, at, 'usage_hours');
    await client.query(
      `INSERT INTO usage_windows (organization, project, month, events, hour, bytes)
       SELECT $1, coalesce(project, ''), $2, coalesce(sum(events), 0), $4,
         coalesce(sum(bytes) FILTER (WHERE hour = $4), 0)
       FROM ${countedIn('usage_hours')} counted WHERE organization = $1 AND hour >= $2 AND hour < $3
       GROUP BY GROUPING SETS ((), (project))
       ON CONFLICT DO NOTHING`,
      [organizationId, ...hoursOfMonth(countsAt), Math.floor(countsAt / HOUR_MS)],
    );
  });
}

async function read(
  client: PostgresClient,
  clock: Clock,
  organizationId: string,
  projectId: string | null,
): Promise<UsageInForce> {
  const at = await newestTime(client, organizationId, clock.now());
  const used = await row<{ events: number; bytes: number }>(
    client,
    `SELECT coalesce(sum(events), 0)::bigint AS events,
       coalesce(sum(bytes) FILTER (WHERE hour = $4), 0)::bigint AS bytes
     FROM ${countedIn('all_usage')} counted
     WHERE organization = $1 AND hour >= $2 AND hour < $3 AND ($5::text IS NULL OR project = $5)`,
    [organizationId, ...hoursOfMonth(at), Math.floor(at / HOUR_MS), projectId],
  );
  const { monthEnd, hourEnd } = windowAt(at);
  return {
    month: { events: used?.events ?? 0, resetsAt: monthEnd },
    hour: { bytes: used?.bytes ?? 0, resetsAt: hourEnd },
  };
}

async function giveBack(client: PostgresClient, batchIds: readonly string[]): Promise<void> {
  await client.query('SELECT give_back_usage($1)', [batchIds]);
}

/**
 * Turns reservations into ledger entries, for batches that another store made durable. A rebuild of the windows, which sums
 * the ledger up before the reservations, waits for it, or holds it off.
 */
async function enter(postgres: Postgres, batchIds: readonly string[]): Promise<void> {
  const enterAll: Statement = [
    `WITH kept AS (DELETE FROM usage_reservations WHERE batch_id = ANY ($1) RETURNING *)
     INSERT INTO usage_ledger (batch_id, organization, project, key, hour, events, bytes)
     SELECT batch_id, organization, project, key, hour, events, bytes FROM kept
     ON CONFLICT DO NOTHING`,
    [batchIds],
  ];
  await postgres.transaction((client) => client.commit([SHARE_ACCEPT_LOCK, enterAll]));
}

/** Ends reservations in the background, and retries after failures. */
class Settling {
  readonly #postgres: Postgres;
  readonly #clock: Clock;
  readonly #logger: Logger;
  #durable: string[] = [];
  #failed: string[] = [];
  #cancel: (() => void) | undefined;
  #working: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(postgres: Postgres, clock: Clock, logger: Logger) {
    this.#postgres = postgres;
    this.#clock = clock;
    this.#logger = logger;
  }

  add(batchId: string, isDurable: boolean, isEntered: boolean): void {
    if (isEntered) return;
    (isDurable ? this.#durable : this.#failed).push(batchId);
    this.#flushLater(FLUSH_MS);
  }

  #flushLater(delay: number): void {
    if (this.#isClosed) return;
    this.#cancel ??= this.#clock.after(delay, () => {
      this.#cancel = undefined;
      void this.flush();
    });
  }

  flush(): Promise<void> {
    this.#working = this.#working.then(async () => {
      try {
        while (this.#durable.length > 0) {
          const some = this.#durable.slice(0, STEP);
          await enter(this.#postgres, some);
          this.#durable = this.#durable.slice(some.length);
        }
        while (this.#failed.length > 0) {
          const some = this.#failed.slice(0, STEP);
          await giveBack(this.#postgres, some);
          this.#failed = this.#failed.slice(some.length);
        }
      } catch (error) {
        this.#logger.debug({ err: error }, 'Reservations could not be settled yet');
        this.#flushLater(RETRY_MS);
      }
    });
    return this.#working;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancel?.();
    await this.flush();
  }
}
