import type { Steps } from '../../src/component/background.ts';
import { Background, inSteps, isDue, repeat } from '../../src/component/background.ts';
import type { Clock, Logger } from '../../src/component/component.ts';
import { RetryableError } from '../../src/model/errors.ts';
import type { DropReason } from '../../src/queue/queue.ts';
import type { Database } from '../../src/sqlite/database.ts';
import {
  removeAnswers,
  removeBatches,
  removeDeletedProjects,
  sweepParts,
} from '../../src/sqlite/queue/project-removal.ts';
import type { RemovedBatch, WalkedPage } from '../../src/sqlite/queue/removal-operations.ts';
import type { SqliteQueueStorage } from '../../src/sqlite/queue/storage.ts';
import { sweepAttachments } from '../../src/store/attachments.ts';
import type { RemovalCounters } from '../../src/store/removals.ts';
import type { Retention } from '../../src/tenancy/retention.ts';
import { sqliteAttachmentSweep } from './attachments/attachments.ts';
import type { OrphanedBatch } from './batches/purge-operations.ts';
import { HIDDEN } from './batches/purge-operations.ts';
import { reportBatches } from './batches/removed-batches.ts';
import type { ClockWatch } from './clock-watch.ts';
import type { StoreOperations } from './operations.ts';
import type { SqliteSearch } from './search/search.ts';

/** The interval of looking for expired traces. */
const EXPIRE_MS = 60_000;
/** The interval of looking for batches that no trace points into. */
const ORPHANS_MS = 24 * 3_600_000;
/** The interval of looking for attachments that nothing refers to. */
const ATTACHMENTS_MS = 3_600_000;
/** The shortest interval of truncating the log after removals: it delays writes by some ten milliseconds. */
const TRUNCATE_MS = 10 * 60_000;
/** The pause after a step, which takes about a millisecond, for calls that a client waits for. */
const BETWEEN_MS = 5;
const EVERYTHING = Number.MAX_SAFE_INTEGER;
const NOTHING = Number.MIN_SAFE_INTEGER;
/** The interval of keeping the time that the store knows. */
const KNOWN_MS = 3_600_000;

export type SqliteHousekeepingParts = {
  readonly database: Database<StoreOperations>;
  readonly queues: SqliteQueueStorage;
  readonly retention: Retention;
  readonly clock: Clock;
  readonly clockWatch: ClockWatch;
  readonly logger: Logger;
  readonly removed: RemovalCounters;
  readonly texts: Pick<SqliteSearch, 'purge'>;
  /** The time in milliseconds that the log of rejections keeps an entry. */
  readonly rejectionsMaxAge: number;
};

export type SqliteHousekeeping = {
  /** Called when a project was deleted. */
  wake(): void;
  /** Removes everything that can be removed now. */
  finish(): Promise<void>;
  close(): Promise<void>;
  crash(): void;
};

/**
 * Removes data that no client can read any more from the file, in steps that delay no request:
 *
 *   deleted project ─▶ traces ─▶ batches, queue entries, dead letters ─▶ answers, keys ─▶ (all projects) ─▶ log truncated
 *   retention over  ─▶ traces ─▶ batches that no trace points into any more
 */
export function sqliteHousekeeping(parts: SqliteHousekeepingParts): SqliteHousekeeping {
  const { clock, logger } = parts;
  const remover = new Remover(parts);
  const purging = new Background({
    clock,
    logger,
    betweenMs: BETWEEN_MS,
    failure: 'Data of a deleted project could not be removed; retrying',
    step: inSteps(() => remover.purgeDeleted()),
  });
  const expiring = new Background({
    clock,
    logger,
    everyMs: EXPIRE_MS,
    betweenMs: BETWEEN_MS,
    failure: 'Expired data could not be removed; retrying',
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
  readonly #parts: SqliteHousekeepingParts;
  #lookedForOrphansAt: number | undefined;
  #sweptAttachmentsAt: number | undefined;
  #truncatedAt: number | undefined;
  /** The uptime of the machine. */
  #keptTimeAt: number | undefined;
  /** Whether the log may still hold pages of removed data. */
  #isInLog = false;

  constructor(parts: SqliteHousekeepingParts) {
    this.#parts = parts;
  }

  purgeDeleted(): Steps {
    const { database, retention, texts, logger } = this.#parts;
    return removeDeletedProjects(database, {
      remove: (project) => this.#removeProject(project),
      finish: () => texts.purge(),
      onPurged(project) {
        retention.forgetDeleted(project);
        logger.info({ project }, 'Data of a deleted project removed');
      },
    });
  }

  async *#removeProject(project: string): Steps {
    const { database, queues } = this.#parts;
    yield* this.#removeTraces(project, EVERYTHING, 'project_deleted');
    yield* this.#removeTraces(HIDDEN, EVERYTHING, 'project_deleted');
    yield* removeBatches(
      database,
      project,
      (seqs) => database.write('purge.batchesOf', [seqs]),
      (removed) => this.#removed(removed, 'project_deleted'),
    );
    yield* removeAnswers(database, project);
    yield* sweepParts(database, () => queues.largeBodies.isWriting(project));
    yield* repeat(() => database.write('purge.updates', [project, EVERYTHING]));
    yield* repeat(() => database.write('purge.rejections', [project, EVERYTHING]));
    yield* repeat(() => database.write('attachments.removeOf', [project]));
    yield* repeat(() => database.write('rollups.remove', [project]));
    yield* repeat(() => database.write('purge.keys', [project]));
  }

  async *expire(): Steps {
    const { database, retention } = this.#parts;
    yield* this.#removeTraces(HIDDEN, EVERYTHING, 'retention');
    const projects = await database.search('purge.projects', []);
    const windows = projects
      .filter((project) => project !== HIDDEN && !retention.isDeleted(project))
      .map((project) => ({ project, since: this.#since(project) }));
    for (const { project, since } of await database.search('purge.due', [windows])) {
      yield* this.#removeTraces(project, since, 'retention');
      yield* this.#removeTraces(HIDDEN, EVERYTHING, 'retention');
    }
    yield* this.#expireOthers();
    yield* this.#removeAttachments();
    yield* this.#removeFreeBatches();
    yield* sweepParts(database);
    await this.#truncateLog();
    await this.#keepTime();
  }

  /** Data of the project from before this time is expired. */
  #since(project: string): number {
    const { clockWatch, retention } = this.#parts;
    return clockWatch.isRight() ? retention.since(project) : NOTHING;
  }

  async #keepTime(): Promise<void> {
    const { database, clock, clockWatch } = this.#parts;
    const uptime = clock.uptime();
    if (this.#keptTimeAt !== undefined && uptime - this.#keptTimeAt < KNOWN_MS) return;
    const known = clockWatch.known();
    if (known === undefined) return;
    const keeping = database.write('purge.keepTime', [known]).then(() => true);
    if ((await unlessFull(keeping)) !== true) return;
    if (clockWatch.hasSettled) this.#keptTimeAt = uptime;
  }

  async #truncateLog(): Promise<void> {
    const { database, clock } = this.#parts;
    const now = clock.now();
    if (!this.#isInLog || !isDue(this.#truncatedAt, TRUNCATE_MS, now)) return;
    if ((await unlessFull(database.truncateLog())) !== true) return;
    this.#isInLog = false;
    this.#truncatedAt = now;
  }

  async *#expireOthers(): Steps {
    const { database, clock, clockWatch, rejectionsMaxAge } = this.#parts;
    const now = clock.now();
    if (!isDue(this.#lookedForOrphansAt, ORPHANS_MS, now) || !clockWatch.isRight()) return;
    yield* this.#findOrphans();
    const { updates, rejections } = await database.search('purge.others', []);
    for (const project of updates) {
      const since = this.#since(project);
      yield* repeat(() => database.write('purge.updates', [project, since]));
    }
    for (const project of rejections) {
      const since = now - rejectionsMaxAge;
      yield* repeat(() => database.write('purge.rejections', [project, since]));
    }
    this.#lookedForOrphansAt = now;
  }

  async *#removeAttachments(): Steps {
    const { database, clock, clockWatch } = this.#parts;
    const now = clock.now();
    if (!isDue(this.#sweptAttachmentsAt, ATTACHMENTS_MS, now)) return;
    yield* sweepAttachments(sqliteAttachmentSweep(database), clockWatch.isRight() ? now : null);
    this.#sweptAttachmentsAt = now;
  }

  /** Frees batches that no trace points into, by their own age. */
  async *#findOrphans(): Steps {
    const { database } = this.#parts;
    let after: number | null = 0;
    while (after !== null) {
      const { found, next }: WalkedPage<OrphanedBatch, number> = await database.search(
        'purge.orphans',
        [after],
      );
      const old = found.filter(({ project, receivedAt }) => receivedAt < this.#since(project));
      if (old.length > 0) await database.write('purge.free', [old.map(({ seq }) => seq)]);
      after = next;
      yield;
    }
  }

  async *#removeTraces(project: string, since: number, reason: DropReason): Steps {
    const { database } = this.#parts;
    const onRemoved = this.#parts.removed(reason);
    for (;;) {
      const step = await database.write('purge.traces', [project, since]);
      const { traces, observations, hasMore } = step;
      onRemoved({ traces, observations });
      if (traces + observations > 0) this.#isInLog = true;
      if (!hasMore) return;
      yield;
    }
  }

  async *#removeFreeBatches(): Steps {
    const { database } = this.#parts;
    for (;;) {
      const { removed, dead, hasMore } = await database.write('purge.batches', []);
      this.#removed(removed, 'retention');
      for (const { seq, project, receivedAt } of dead) {
        // An erasure removed its traces, so that it is not expired with them.
        if (receivedAt >= this.#since(project)) continue;
        this.#removed(await database.write('purge.dead', [seq]), 'retention');
      }
      if (!hasMore) return;
      yield;
    }
  }

  #removed(removed: readonly RemovedBatch[], reason: DropReason): void {
    if (removed.length === 0) return;
    this.#isInLog = true;
    this.#parts.queues.forget(removed, reason);
    reportBatches(removed, this.#parts.removed(reason));
  }
}

/** On a full disk a later round does it: resolves with undefined. A failure would repeat the whole round within seconds. */
async function unlessFull<T>(done: Promise<T>): Promise<T | undefined> {
  try {
    return await done;
  } catch (error) {
    if (error instanceof RetryableError && error.code === 'disk_full') return undefined;
    throw error;
  }
}
