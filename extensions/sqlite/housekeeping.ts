import type { Clock, Logger, Metrics } from '../../src/component/component.ts';
import type { DropReason } from '../../src/queue/queue.ts';
import type { RemovedBatch } from '../../src/queue/removal-operations.ts';
import type { SqliteQueueStorage } from '../../src/queue/storage.ts';
import { Background } from '../../src/sqlite/background.ts';
import type { Database } from '../../src/sqlite/database.ts';
import { TRUNCATE_LOG } from '../../src/sqlite/log-truncation.ts';
import type { RemovedTraces } from './purge-operations.ts';
import type { Retention } from './retention.ts';

/** How often it is looked for what is past its time. */
const EXPIRE_MS = 60_000;
/** How often it is looked for batches that no trace ever pointed into. */
const ORPHANS_MS = 24 * 3_600_000;
/** How often the log is cut off after something expired: whoever writes waits for it, some ten milliseconds. */
const TRUNCATE_MS = 10 * 60_000;
/** What a step, of about a millisecond, leaves to those who wait for an answer. */
const BETWEEN_MS = 20;
/** Bodies of a deleted project that one step removes. */
const STEP_BYTES = 1024 * 1024;
const STEP_BATCHES = 100;
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

/** A piece of work between two `yield`s is one step. */
type Steps = AsyncGenerator<undefined, void, undefined>;

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

/** Begins anew where it ended or failed; every step finds for itself what is left. */
function inSteps(work: () => Steps): () => Promise<boolean> {
  let steps: Steps | undefined;
  return async () => {
    steps ??= work();
    try {
      const { done } = await steps.next();
      if (done === true) steps = undefined;
      return done !== true;
    } catch (error) {
      steps = undefined;
      throw error;
    }
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
    const { database, retention, logger } = this.#parts;
    for (const project of (await database.read('removal.open', [])) as string[]) {
      yield* this.#removeTraces(project, EVERYTHING, 'project_deleted');
      yield* this.#removeTraces(HIDDEN, EVERYTHING, 'project_deleted');
      yield* this.#removeBatchesOf(project);
      yield* this.#removeAnswersOf(project);
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

  async *#removeBatchesOf(project: string): Steps {
    const { database } = this.#parts;
    let after: number | null = 0;
    while (after !== null) {
      const page = await database.search('removal.walk', [project, after]);
      const [found, next] = page as [[seq: number, bytes: number][], number | null];
      for (const seqs of portions(found)) {
        const removed = await database.write('purge.batchesOf', [seqs]);
        this.#removed(removed as RemovedBatch[], 'project_deleted');
        yield;
      }
      after = next;
      yield;
    }
  }

  async *#removeAnswersOf(project: string): Steps {
    const { database } = this.#parts;
    let after: Uint8Array | null = new Uint8Array(0);
    while (after !== null) {
      const page = await database.search('removal.answersOf', [project, after]);
      const [found, next] = page as [Uint8Array[], Uint8Array | null];
      if (found.length > 0) await database.write('removal.answers', [found]);
      after = next;
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

function portions(found: readonly [seq: number, bytes: number][]): number[][] {
  const all: number[][] = [];
  let portion: number[] = [];
  let size = 0;
  for (const [seq, bytes] of found) {
    if (portion.length === STEP_BATCHES || (portion.length > 0 && size + bytes > STEP_BYTES)) {
      all.push(portion);
      portion = [];
      size = 0;
    }
    portion.push(seq);
    size += bytes;
  }
  if (portion.length > 0) all.push(portion);
  return all;
}
