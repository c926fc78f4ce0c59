import type { Steps } from '../../src/component/background.ts';
import { Background, inSteps } from '../../src/component/background.ts';
import type { Clock, Logger, Metrics } from '../../src/component/component.ts';
import type { DropReason } from '../../src/queue/queue.ts';
import type { Database } from '../../src/sqlite/database.ts';
import { TRUNCATE_LOG } from '../../src/sqlite/log-truncation.ts';
import {
  removeAnswers,
  removeBatches,
  sweepParts,
} from '../../src/sqlite/queue/project-removal.ts';
import type { RemovedBatch } from '../../src/sqlite/queue/removal-operations.ts';
import type { SqliteQueueStorage } from '../../src/sqlite/queue/storage.ts';
import type { Retention } from '../../src/tenancy/retention.ts';
import type { RemovedTraces } from './purge-operations.ts';

/** How often it is looked for what is past its time. */
const EXPIRE_MS = 60_000;
/** How often it is looked for batches that no trace ever pointed into. */
const ORPHANS_MS = 24 * 3_600_000;
/** How often the log is cut off after something expired: whoever writes waits for it, some ten milliseconds. */
const TRUNCATE_MS = 10 * 60_000;
/** What a step, of about a millisecond, leaves to those who wait for an answer. */
const BETWEEN_MS = 5;
/** Where what was too large for one step waits to be removed. */
const HIDDEN = '';
const EVERYTHING = Number.MAX_SAFE_INTEGER;

export type HousekeepingParts = {
  readonly database: Database;
  readonly queues: SqliteQueueStorage;
  readonly retention: Retention;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** How long a line of the log of rejections is kept, in milliseconds. */
  readonly rejectionsMaxAge: number;
};

export type Housekeeping = {
  /** A project was deleted. */
  wake(): void;
  /** Removes all there is to remove now. */
  finish(): Promise<void>;
  close(): Promise<void>;
  crash(): void;
};

/**
 * Takes out of the file what nobody can read any more, in steps that hold nobody up:
 *
 *   deleted project ─▶ traces ─▶ batches, queue entries, dead letters ─▶ answers, keys ─▶ log truncated
 *   past its time   ─▶ traces ─▶ batches that no trace points into any more
 */
export function housekeeping(parts: HousekeepingParts): Housekeeping {
  const { clock, logger } = parts;
  const remover = new Remover(parts);
  const purging = new Background({
    clock,
    logger,
    betweenMs: BETWEEN_MS,
    failure: 'what a deleted project held could not be removed yet',
    step: inSteps(() => remover.purgeDeleted()),
  });
  const expiring = new Background({
    clock,
    logger,
    everyMs: EXPIRE_MS,
    betweenMs: BETWEEN_MS,
    failure: 'what is past its retention could not be removed yet',
    step: inSteps(() => remover.expire()),
  });
  purging.wake();
  expiring.wake();
  return {
    wake: () => purging.wake(),
    async finish() {
      await purging.finish();
      await expiring.finish();
    },
    async close() {
      await Promise.all([purging.close(), expiring.close()]);
    },
    crash() {
      purging.stop();
      expiring.stop();
    },
  };
}

class Remover {
  readonly #parts: HousekeepingParts;
  readonly #traces;
  readonly #observations;
  readonly #batches;
  readonly #bytes;
  #lookedForOrphansAt: number | undefined;
  #truncatedAt: number | undefined;
  /** Something expired whose pages may stand in the log as they were before. */
  #isInLog = false;

  constructor(parts: HousekeepingParts) {
    const { metrics } = parts;
    this.#parts = parts;
    this.#traces = metrics.counter(
      'tracectl_store_removed_traces_total',
      'Traces that were removed, by reason: retention, project_deleted.',
    );
    this.#observations = metrics.counter(
      'tracectl_store_removed_observations_total',
      'Observations that were removed with their traces, by reason.',
    );
    this.#batches = metrics.counter(
      'tracectl_store_removed_batches_total',
      'Raw batches that were removed, by reason.',
    );
    this.#bytes = metrics.counter(
      'tracectl_store_removed_bytes_total',
      'Bytes of bodies that were removed, by reason.',
    );
  }

  async *purgeDeleted(): Steps {
    const { database, retention, queues, logger } = this.#parts;
    for (const project of (await database.read('removal.open', [])) as string[]) {
      yield* this.#removeTraces(project, EVERYTHING, 'project_deleted');
      yield* this.#removeTraces(HIDDEN, EVERYTHING, 'project_deleted');
      yield* removeBatches(database, project, 'purge.batchesOf', (removed) => {
        this.#removed(removed, 'project_deleted');
      });
      yield* removeAnswers(database, project);
      yield* sweepParts(database, () => queues.largeBodies.isWriting(project));
      yield* this.#repeat('purge.updates', [project, EVERYTHING]);
      yield* this.#repeat('purge.rejections', [project, EVERYTHING]);
      yield* this.#repeat('purge.keys', [project]);
      // The log holds pages as they were before.
      while ((await database.write(TRUNCATE_LOG, [])) !== true) yield;
      await database.write('removal.purged', [project]);
      retention.forgetDeleted(project);
      logger.info({ project }, 'everything that a deleted project held is removed');
    }
  }

  async *expire(): Steps {
    const { database, retention } = this.#parts;
    yield* this.#removeTraces(HIDDEN, EVERYTHING, 'retention');
    const projects = (await database.search('purge.projects', [])) as string[];
    const windows = projects
      .filter((project) => project !== HIDDEN && !retention.isDeleted(project))
      .map((project): [string, number] => [project, retention.since(project)]);
    for (const i of (await database.search('purge.due', [windows])) as number[]) {
      const [project, since] = windows[i] ?? [HIDDEN, 0];
      yield* this.#removeTraces(project, since, 'retention');
      yield* this.#removeTraces(HIDDEN, EVERYTHING, 'retention');
    }
    yield* this.#expireOthers();
    yield* this.#removeFreeBatches();
    yield* sweepParts(database);
    await this.#truncateLog();
  }

  async #truncateLog(): Promise<void> {
    const { database, clock } = this.#parts;
    const now = clock.now();
    const last = this.#truncatedAt;
    if (!this.#isInLog || (last !== undefined && Math.abs(now - last) < TRUNCATE_MS)) return;
    if ((await database.write(TRUNCATE_LOG, [])) !== true) return;
    this.#isInLog = false;
    this.#truncatedAt = now;
  }

  async *#expireOthers(): Steps {
    const { database, retention, clock, rejectionsMaxAge } = this.#parts;
    const now = clock.now();
    const last = this.#lookedForOrphansAt;
    if (last !== undefined && Math.abs(now - last) < ORPHANS_MS) return;
    yield* this.#findOrphans();
    const answer = await database.search('purge.others', []);
    const [updates, rejections] = answer as [string[], string[]];
    for (const project of updates) {
      yield* this.#repeat('purge.updates', [project, retention.since(project)]);
    }
    for (const project of rejections) {
      yield* this.#repeat('purge.rejections', [project, now - rejectionsMaxAge]);
    }
    this.#lookedForOrphansAt = now;
  }

  /** Batches of which nothing became a trace: their own age counts. */
  async *#findOrphans(): Steps {
    const { database, retention } = this.#parts;
    let after: number | null = 0;
    while (after !== null) {
      const page = await database.search('purge.orphans', [after]);
      const [found, next] = page as [[seq: number, project: string, at: number][], number | null];
      const old = found.filter(([, project, at]) => at < retention.since(project));
      if (old.length > 0) await database.write('purge.free', [old.map(([seq]) => seq)]);
      after = next;
      yield;
    }
  }

  async *#removeTraces(project: string, since: number, reason: DropReason): Steps {
    for (;;) {
      const answer = await this.#parts.database.write('purge.traces', [project, since]);
      const [traces, observations, hasMore] = answer as RemovedTraces;
      if (traces > 0) this.#traces.add(traces, { reason });
      if (observations > 0) this.#observations.add(observations, { reason });
      if (traces + observations > 0) this.#isInLog = true;
      if (!hasMore) return;
      yield;
    }
  }

  async *#removeFreeBatches(): Steps {
    for (;;) {
      const answer = await this.#parts.database.write('purge.batches', []);
      const [removed, hasMore] = answer as [RemovedBatch[], boolean];
      this.#removed(removed, 'retention');
      if (!hasMore) return;
      yield;
    }
  }

  /** An operation that says whether more is left. */
  async *#repeat(name: string, args: readonly unknown[]): Steps {
    while ((await this.#parts.database.write(name, args)) === true) yield;
  }

  #removed(removed: readonly RemovedBatch[], reason: DropReason): void {
    if (removed.length === 0) return;
    this.#isInLog = true;
    this.#parts.queues.forget(removed, reason);
    this.#batches.add(removed.length, { reason });
    this.#bytes.add(
      removed.reduce((sum, [, bytes]) => sum + bytes, 0),
      { reason },
    );
  }
}
