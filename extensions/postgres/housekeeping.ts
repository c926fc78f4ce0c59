import { Background, isDue, repeat, type Steps } from '../../src/component/background.ts';
import type { Clock, Logger, Metrics } from '../../src/component/component.ts';
import { sweepAttachments } from '../../src/store/attachments.ts';
import type { RemovalCounters } from '../../src/store/removals.ts';
import { removalCounters } from '../../src/store/removals.ts';
import type { Retention } from '../../src/tenancy/retention.ts';
import { attachmentSweep, removeAttachmentsStep } from './attachments/sweep.ts';
import { walkAllBatches, walkBatches } from './batches/batch-walk.ts';
import { dropOldPartitions, ensurePartitions } from './batches/partitions.ts';
import type { ExpiryWindow } from './batches/purge.ts';
import {
  dueProjects,
  expireTracesStep,
  removeFreeBatchesStep,
  removeProjectStep,
} from './batches/purge.ts';
import type { PostgresConfig } from './config.ts';
import { DATABASE_NOW } from './connection/database-clock.ts';
import type { Postgres } from './connection/pool.ts';
import type { PostgresClient } from './connection/statement.ts';
import { rows } from './connection/statement.ts';
import type { PostgresQueues } from './queue/storage.ts';
import type { PostgresCounters } from './tenancy/counters.ts';
import { sumUpStep } from './tenancy/ledger-sums.ts';
import {
  ensureTracePartitions,
  partitionDays,
  removedByRow,
  tracePartitions,
} from './traces/partitions.ts';
import { retirePartitions } from './traces/retiring.ts';
import { removeRollupsStep } from './traces/rollup-folding.ts';
import { leasedSteps, workLeases } from './work-leases.ts';

/** How often deleted projects and free batches are looked for. */
const INTERVAL_MS = 5_000;
/** How often expired data is looked for. */
const EXPIRE_MS = 60_000;
/** How often partitions are created and dropped. */
const PARTITIONS_MS = 3_600_000;
/** How often attachments that nothing refers to are looked for. */
const ATTACHMENTS_MS = 3_600_000;
/**
 * After how long a batch of an expired trace is removed row by row. Before that its whole day is usually dropped,
 * which costs next to nothing.
 */
const FREE_MS = 26 * 3_600_000;
/** A process removes nothing because of its age while its clock is further ahead of the database's: a wrong clock would remove everything. */
const MOST_AHEAD_MS = 3_600_000;
/** The pause between two steps, for transactions that clients wait for. */
const PAUSE_MS = 5;
/** Rows that one step removes. */
const STEP = 1000;

/** Renews the lease of housekeeping with everything that it does; see work-leases.ts. */
type Database = Pick<Postgres, 'query' | 'transaction'>;

export type PostgresHousekeepingParts = {
  readonly postgres: Postgres;
  readonly queues: PostgresQueues;
  readonly counters: PostgresCounters;
  readonly retention: Retention;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** How long the log of rejections is kept, in milliseconds. */
  readonly rejectionsMaxAge: number;
  readonly tracePartitions: PostgresConfig['trace_partitions'];
};

export type PostgresHousekeeping = {
  /** Why no data expires, as a sentence for people; undefined while it does. */
  trouble(): string | undefined;
  /** A project was deleted. */
  wake(): void;
  /** Does everything that is due, and removes free batches whatever their age. */
  finish(): Promise<void>;
  close(): Promise<void>;
  crash(): void;
};

/**
 * Removes data that no reader can reach any more, in steps. One process at a time does it:
 *
 *   deleted project ─▶ queue entries, dead letters, answers ─▶ traces, batches ─▶ logs, keys
 *   expired         ─▶ whole partitions of traces ─▶ other traces ─▶ whole partitions of batches, other batches
 *   hours over      ─▶ usage summed up
 */
export function postgresHousekeeping(parts: PostgresHousekeepingParts): PostgresHousekeeping {
  const { queues, clock, logger } = parts;
  const keeper = new Keeper(parts);
  const leases = workLeases(parts.postgres, clock, logger);
  const work = leasedSteps(leases, 'housekeeping', parts, (database) => keeper.work(database));
  const background = new Background({
    clock,
    logger,
    everyMs: INTERVAL_MS,
    betweenMs: PAUSE_MS,
    failure: 'Housekeeping failed; retrying',
    step: () => work.step(),
  });
  background.wake();
  return {
    trouble: () => keeper.trouble,
    wake: () => background.wake(),
    async finish() {
      await work.finish(async () => {
        await background.finish();
        keeper.expireNow();
        await background.finish();
      });
      await queues.refresh();
    },
    async close() {
      await background.close();
      await work.close();
    },
    crash: () => background.stop(),
  };
}

/** The order of the steps, and when each is due. */
class Keeper {
  readonly #parts: PostgresHousekeepingParts;
  readonly #removed: RemovalCounters;
  #expiredAt: number | undefined;
  #partitionedAt: number | undefined;
  #sweptAttachmentsAt: number | undefined;
  /** Suffixes of detached partitions that a lock keeps from being marked; see `retirePartitions`. */
  readonly #cleaned = new Set<string>();
  /** Whether expired traces and free batches have time to go with their partition. */
  #waitsForPartitions = true;
  /** By how much the clock was too far ahead; 0 if it was not. */
  #aheadMs = 0;

  constructor(parts: PostgresHousekeepingParts) {
    this.#parts = parts;
    this.#removed = removalCounters(parts.metrics);
  }

  expireNow(): void {
    this.#expiredAt = undefined;
    this.#partitionedAt = undefined;
    this.#sweptAttachmentsAt = undefined;
    this.#waitsForPartitions = false;
  }

  async *work(database: Database): Steps {
    const { counters, clock } = this.#parts;
    yield* repeat(() => counters.endOverdue(database));
    yield* this.#removeDeleted(database);
    this.#aheadMs = await this.#measureAhead(database);
    const now = clock.now() - this.#aheadMs;
    const arePartitionsDue = isDue(this.#partitionedAt, PARTITIONS_MS, now);
    if (arePartitionsDue) {
      // Noted first: a failure must not keep the following steps from running next time.
      this.#partitionedAt = now;
      yield* this.#partition(database, now);
    }
    if (isDue(this.#expiredAt, EXPIRE_MS, now)) {
      if (this.#aheadMs === 0) yield* this.#expire(database);
      yield* repeat(() => sumUpStep(database, now));
      this.#expiredAt = now;
    }
    if (arePartitionsDue) {
      await dropOldPartitions(database, now, this.#removed('retention'));
      yield;
    }
    if (isDue(this.#sweptAttachmentsAt, ATTACHMENTS_MS, now)) {
      yield* sweepAttachments(attachmentSweep(database), now);
      this.#sweptAttachmentsAt = now;
    }
    yield* repeat(() => forgetErasedStep(database, now));
    await database.query('DELETE FROM erasure_blocks WHERE until <= $1', [now]);
    yield* this.#removeFreeBatches(database);
  }

  /** A sentence for people; undefined while data expires. */
  get trouble(): string | undefined {
    if (this.#aheadMs === 0) return undefined;
    const minutes = Math.round(this.#aheadMs / 60_000);
    return `The clock is ${minutes} minutes ahead of that of Postgres: this process expires no data.`;
  }

  /**
   * By how much the clock of this process is ahead of that of the database, which all processes share. 0 if it is not, or by a little.
   */
  async #measureAhead(database: Database): Promise<number> {
    const { clock, logger } = this.#parts;
    const [found] = await rows<{ now: number }>(database, `SELECT ${DATABASE_NOW} AS now`);
    const aheadMs = found === undefined ? 0 : clock.now() - found.now;
    if (aheadMs <= MOST_AHEAD_MS) return 0;
    if (this.#aheadMs === 0) {
      logger.error({ aheadMs }, 'Clock is ahead of that of Postgres; no data expires');
    }
    return aheadMs;
  }

  /** Creates partitions, and drops those of which all traces are expired. */
  async *#partition(database: Database, now: number): Steps {
    const { clock, retention, tracePartitions: configured } = this.#parts;
    // By the clock that this process writes by, right or wrong.
    const today = clock.now();
    await ensurePartitions(database, today);
    yield;
    const days = await partitionDays(database, configured, (id) => retention.daysOf(id));
    await ensureTracePartitions(database, today, days);
    yield;
    if (this.#aheadMs !== 0) return;
    const since = (project: string) => retention.since(project);
    yield* retirePartitions(database, since, now, this.#removed('retention'), this.#cleaned);
  }

  /** Nothing refers to them, so that a wrong clock removes them earlier, and no others. */
  async *#removeFreeBatches(database: Database): Steps {
    const { clock } = this.#parts;
    const removed = this.#removed('retention');
    const notedBefore = this.#waitsForPartitions ? clock.now() - FREE_MS : Number.MAX_SAFE_INTEGER;
    yield* repeat(() => removeFreeBatchesStep(database, notedBefore, removed));
    if (this.#waitsForPartitions) yield* walkBatches(database, clock, removed);
    else yield* walkAllBatches(database, removed);
    this.#waitsForPartitions = true;
  }

  async *#removeDeleted(database: Database): Steps {
    const { queues, retention, clock, logger } = this.#parts;
    const removed = this.#removed('project_deleted');
    const deleted = await rows<{ project: string }>(
      database,
      'SELECT project FROM deleted_projects WHERE NOT is_purged',
    );
    for (const { project } of deleted) {
      yield* queues.remove(database, project);
      yield* repeat(() => removeProjectStep(database, project, clock.now(), removed));
      yield* repeat(() => removeAttachmentsStep(database, project));
      yield* repeat(() => removeRollupsStep(database, project));
      yield* repeat(() => deleteStep(database, 'rejections', 'project = $1', [project]));
      yield* repeat(() => deleteStep(database, 'api_keys', 'project = $1', [project]));
      await database.query('UPDATE deleted_projects SET is_purged = true WHERE project = $1', [
        project,
      ]);
      retention.forgetDeleted(project);
      logger.info({ project }, 'Data of a deleted project removed');
      yield;
    }
  }

  async *#expire(database: Database): Steps {
    const { queues, retention, clock, rejectionsMaxAge } = this.#parts;
    const projects = await rows<{ id: string }>(database, 'SELECT id FROM projects');
    const windows = projects
      .map(({ id }): [string, number] => [id, retention.since(id)])
      .filter(([, since]) => since !== Number.MIN_SAFE_INTEGER);
    for (const [project, since] of windows) {
      yield* repeat(() => queues.expireStep(database, project, since));
    }
    const removed = this.#removed('retention');
    const partitions = this.#waitsForPartitions ? await tracePartitions(database) : [];
    const traces = windows.map(([project, since]): ExpiryWindow => {
      return [project, since, removedByRow(partitions, since)];
    });
    for (const [project, since, before] of await dueProjects(database, traces)) {
      yield* repeat(() => expireTracesStep(database, project, since, clock.now(), removed, before));
    }
    const before = clock.now() - rejectionsMaxAge;
    yield* repeat(() => expireRejectionsStep(database, before));
  }
}

/** Removes a bounded number of rejections from before the time; resolves with whether there may be more. */
export function expireRejectionsStep(client: PostgresClient, before: number): Promise<boolean> {
  return deleteStep(client, 'rejections', 'at < $1', [before]);
}

async function deleteStep(
  database: PostgresClient,
  table: 'rejections' | 'api_keys',
  where: string,
  values: readonly unknown[],
): Promise<boolean> {
  const { rows: removed } = await database.query(
    `DELETE FROM ${table} WHERE n IN (SELECT n FROM ${table} WHERE ${where} LIMIT ${STEP}) RETURNING 1`,
    values,
  );
  return removed.length === STEP;
}

/** Deliveries of batches that items were erased from have long ended. */
async function forgetErasedStep(database: Database, now: number): Promise<boolean> {
  const { rows: removed } = await database.query(
    `DELETE FROM erased_items WHERE batch IN (
       SELECT batch FROM erased_items WHERE erased_at < $1 LIMIT ${STEP}) RETURNING 1`,
    [now - FREE_MS],
  );
  return removed.length === STEP;
}
