import { Background, inSteps, type Steps } from '../../src/component/background.ts';
import type { Clock, Logger } from '../../src/component/component.ts';
import type { Postgres } from '../../src/postgres/pool.ts';
import type { Retention } from '../../src/tenancy/retention.ts';
import type { PostgresCounters } from './counters.ts';
import type { PostgresPurge } from './purge.ts';
import type { PostgresQueues } from './queue-storage.ts';
import { sumUpStep } from './usage-sums.ts';

/** How often it is looked for what nobody waits for any more. */
const EVERY_MS = 5_000;
/** How often it is looked for what is past its time. */
const EXPIRE_MS = 60_000;
const BETWEEN_MS = 5;
const ROWS = 1000;

export type HousekeepingParts = {
  readonly postgres: Postgres;
  readonly queues: PostgresQueues;
  readonly counters: PostgresCounters;
  readonly purge: PostgresPurge;
  readonly retention: Retention;
  readonly clock: Clock;
  readonly logger: Logger;
  /** How long a line of the log of rejections is kept, in milliseconds. */
  readonly rejectionsMaxAge: number;
};

export type Housekeeping = {
  /** Whether the last step reached the database. */
  isThere(): boolean;
  /** A project was deleted. */
  wake(): void;
  /** Removes all there is to remove now. */
  finish(): Promise<void>;
  close(): Promise<void>;
  crash(): void;
};

/**
 * Takes out what nobody can read any more, in steps. Of all processes one does it at a time:
 *
 *   deleted project ─▶ queue entries, dead letters, answers ─▶ traces, batches ─▶ logs, keys
 *   past its time   ─▶ traces ─▶ batches that nothing points into any more, whole partitions
 *   hours over      ─▶ usage summed up
 */
export function housekeeping(parts: HousekeepingParts): Housekeeping {
  const { queues, clock, logger } = parts;
  const keeper = new Keeper(parts);
  let isThere = true;
  const step = inSteps(() => keeper.work());
  const background = new Background({
    clock,
    logger,
    everyMs: EVERY_MS,
    betweenMs: BETWEEN_MS,
    failure: 'what nobody needs any more could not be removed yet',
    step: async () => {
      let hasMore = false;
      try {
        await queues.alone('housekeeping', async () => {
          hasMore = await step();
        });
        isThere = true;
      } catch (error) {
        isThere = false;
        throw error;
      }
      return hasMore;
    },
  });
  background.wake();
  return {
    isThere: () => isThere,
    wake: () => background.wake(),
    async finish() {
      keeper.expireNow();
      await background.finish();
      await queues.refresh();
    },
    close: () => background.close(),
    crash: () => background.stop(),
  };
}

class Keeper {
  readonly #parts: HousekeepingParts;
  #expiredAt: number | undefined;

  constructor(parts: HousekeepingParts) {
    this.#parts = parts;
  }

  expireNow(): void {
    this.#expiredAt = undefined;
  }

  async *work(): Steps {
    const { counters, postgres, clock, purge } = this.#parts;
    yield* repeat(() => counters.decideOverdue());
    yield* this.#removeDeleted();
    const now = clock.now();
    if (this.#expiredAt === undefined || Math.abs(now - this.#expiredAt) >= EXPIRE_MS) {
      await purge.ensurePartitions(now);
      yield;
      yield* this.#expire();
      yield* repeat(() => sumUpStep(postgres, now));
      this.#expiredAt = now;
    }
    yield* purge.removeFreeBatches();
  }

  async *#removeDeleted(): Steps {
    const { postgres, queues, purge, retention, logger } = this.#parts;
    const { rows } = await postgres.query(
      'SELECT project FROM deleted_projects WHERE NOT is_purged',
    );
    for (const row of rows) {
      const project = String(row.project);
      yield* repeat(() => queues.removeStep(project));
      yield* repeat(() => purge.removeProjectStep(project));
      yield* repeat(() => this.#deleteStep('rejections', 'project = $1', [project]));
      yield* repeat(() => this.#deleteStep('api_keys', 'project = $1', [project]));
      await postgres.query('UPDATE deleted_projects SET is_purged = true WHERE project = $1', [
        project,
      ]);
      retention.forgetDeleted(project);
      logger.info({ project }, 'everything that a deleted project held is removed');
      yield;
    }
  }

  async *#expire(): Steps {
    const { postgres, queues, purge, retention, clock, rejectionsMaxAge } = this.#parts;
    const { rows } = await postgres.query('SELECT id FROM projects');
    for (const { id } of rows) {
      const project = String(id);
      const since = retention.since(project);
      if (since === Number.MIN_SAFE_INTEGER) continue;
      yield* repeat(() => queues.expireStep(project, since));
      yield* repeat(() => purge.expireStep(project, since));
    }
    const before = clock.now() - rejectionsMaxAge;
    yield* repeat(() => this.#deleteStep('rejections', 'at < $1', [before]));
  }

  async #deleteStep(
    table: 'rejections' | 'api_keys',
    where: string,
    values: readonly unknown[],
  ): Promise<boolean> {
    const { rows } = await this.#parts.postgres.query(
      `DELETE FROM ${table} WHERE n IN (SELECT n FROM ${table} WHERE ${where} LIMIT ${ROWS}) RETURNING 1`,
      values,
    );
    return rows.length === ROWS;
  }
}

/** Steps until nothing is left. */
async function* repeat(step: () => Promise<boolean>): Steps {
  while (await step()) yield;
}
