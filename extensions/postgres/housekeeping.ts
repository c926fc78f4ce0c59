import { Background, inSteps, type Steps } from '../../src/component/background.ts';
import type { Clock, Logger, Metrics } from '../../src/component/component.ts';
import type { DropReason } from '../../src/queue/queue.ts';
import type { Retention } from '../../src/tenancy/retention.ts';
import { walkAllBatches, walkBatches } from './batches/batch-walk.ts';
import type { OnRemoved } from './batches/batches.ts';
import { dropOldPartitions, ensurePartitions } from './batches/partitions.ts';
import {
  dueProjects,
  expireTracesStep,
  removeFreeBatchesStep,
  removeProjectStep,
} from './batches/purge.ts';
import type { Postgres } from './connection/pool.ts';
import type { PostgresQueues } from './queue/storage.ts';
import type { PostgresCounters } from './tenancy/counters.ts';
import { sumUpStep } from './tenancy/usage.ts';

/** How often it is looked for what nobody waits for any more. */
const EVERY_MS = 5_000;
/** How often it is looked for what is past its time. */
const EXPIRE_MS = 60_000;
/** How often days are made and dropped. */
const PARTITIONS_MS = 3_600_000;
/** A batch of an expired trace has so long to go with its whole day, which costs next to nothing. */
const FREE_MS = 26 * 3_600_000;
const BETWEEN_MS = 5;
const ROWS = 1000;

export type PostgresHousekeepingParts = {
  readonly postgres: Postgres;
  readonly queues: PostgresQueues;
  readonly counters: PostgresCounters;
  readonly retention: Retention;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** How long a line of the log of rejections is kept, in milliseconds. */
  readonly rejectionsMaxAge: number;
};

export type PostgresHousekeeping = {
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
export function postgresHousekeeping(parts: PostgresHousekeepingParts): PostgresHousekeeping {
  const { queues, clock, logger } = parts;
  const keeper = new Keeper(parts);
  const step = inSteps(() => keeper.work());
  const background = new Background({
    clock,
    logger,
    everyMs: EVERY_MS,
    betweenMs: BETWEEN_MS,
    failure: 'what nobody needs any more could not be removed yet',
    step: async () => {
      let hasMore = false;
      await queues.withAdvisoryLock('housekeeping', async () => {
        hasMore = await step();
      });
      return hasMore;
    },
  });
  background.wake();
  return {
    wake: () => background.wake(),
    async finish() {
      await background.finish();
      keeper.expireNow();
      await background.finish();
      await queues.refresh();
    },
    close: () => background.close(),
    crash: () => background.stop(),
  };
}

class Keeper {
  readonly #parts: PostgresHousekeepingParts;
  readonly #removed: (reason: DropReason) => OnRemoved;
  #expiredAt: number | undefined;
  #partitionedAt: number | undefined;
  #isPatient = true;

  constructor(parts: PostgresHousekeepingParts) {
    this.#parts = parts;
    this.#removed = removedCounters(parts.metrics);
  }

  expireNow(): void {
    this.#expiredAt = undefined;
    this.#partitionedAt = undefined;
    this.#isPatient = false;
  }

  async *work(): Steps {
    const { counters, postgres, clock } = this.#parts;
    yield* repeat(() => counters.decideOverdue());
    yield* this.#removeDeleted();
    const now = clock.now();
    if (isDue(this.#expiredAt, EXPIRE_MS, now)) {
      yield* this.#expire();
      yield* repeat(() => sumUpStep(postgres, now));
      this.#expiredAt = now;
    }
    if (isDue(this.#partitionedAt, PARTITIONS_MS, now)) {
      // Noted first: where it fails it does not keep the rest from its turn.
      this.#partitionedAt = now;
      await ensurePartitions(postgres, now);
      yield;
      await dropOldPartitions(postgres, now, this.#removed('retention'));
      yield;
    }
    yield* this.#removeFreeBatches();
  }

  async *#removeFreeBatches(): Steps {
    const { postgres, clock } = this.#parts;
    const removed = this.#removed('retention');
    const notedBefore = this.#isPatient ? clock.now() - FREE_MS : Number.MAX_SAFE_INTEGER;
    yield* repeat(() => removeFreeBatchesStep(postgres, notedBefore, removed));
    if (this.#isPatient) yield* walkBatches(postgres, clock, removed);
    else yield* walkAllBatches(postgres, removed);
    this.#isPatient = true;
  }

  async *#removeDeleted(): Steps {
    const { postgres, queues, retention, clock, logger } = this.#parts;
    const removed = this.#removed('project_deleted');
    const { rows } = await postgres.query(
      'SELECT project FROM deleted_projects WHERE NOT is_purged',
    );
    for (const row of rows) {
      const project = String(row.project);
      yield* repeat(() => queues.removeStep(project));
      yield* repeat(() => removeProjectStep(postgres, project, clock.now(), removed));
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
    const { postgres, queues, retention, clock, rejectionsMaxAge } = this.#parts;
    const { rows } = await postgres.query('SELECT id FROM projects');
    const windows = rows
      .map(({ id }): [string, number] => [String(id), retention.since(String(id))])
      .filter(([, since]) => since !== Number.MIN_SAFE_INTEGER);
    for (const [project, since] of windows) {
      yield* repeat(() => queues.expireStep(project, since));
    }
    const removed = this.#removed('retention');
    for (const [project, since] of await dueProjects(postgres, windows)) {
      yield* repeat(() => expireTracesStep(postgres, project, since, clock.now(), removed));
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

function isDue(last: number | undefined, everyMs: number, now: number): boolean {
  return last === undefined || Math.abs(now - last) >= everyMs;
}

function removedCounters(metrics: Metrics): (reason: DropReason) => OnRemoved {
  const names = {
    traces: 'Traces that were removed, by reason: retention, project_deleted.',
    observations: 'Observations that were removed with their traces, by reason.',
    batches: 'Raw batches that were removed, by reason.',
    bytes: 'Bytes of bodies that were removed, by reason.',
  };
  const counters = Object.entries(names).map(([name, description]) => {
    const counter = metrics.counter(`tracectl_store_removed_${name}_total`, description);
    return [name as keyof typeof names, counter] as const;
  });
  return (reason) => (removed) => {
    for (const [name, counter] of counters) counter.add(removed[name] ?? 0, { reason });
  };
}

/** Steps until nothing is left. */
async function* repeat(step: () => Promise<boolean>): Steps {
  while (await step()) yield;
}
