import type { Steps } from '../../component/background.ts';
import { Background, inSteps } from '../../component/background.ts';
import type { Clock, Logger } from '../../component/component.ts';
import { SteadyTime } from '../../component/steady-time.ts';
import type { DropReason, DurableQueue, QueueOptions, QueueStorage } from '../../queue/queue.ts';
import type { Database } from '../database.ts';
import { idempotencyLedger } from './idempotency.ts';
import { LargeBodies } from './large-bodies.ts';
import type { QueueOperations } from './operations.ts';
import {
  removeAnswers,
  removeBatches,
  removeDeletedProjects,
  sweepParts,
} from './project-removal.ts';
import { RecentRequests } from './recent-requests.ts';
import type { RemovedBatch, ShrunkBatch } from './removal-operations.ts';
import { SqliteQueue } from './sqlite-queue.ts';
import { UsageLedger } from './usage-ledger.ts';

/** The interval of removing expired answers and requests and summing up the usage ledger, and the pause between two steps. */
const TIDY_MS = 10 * 60_000;
const STEP_MS = 50;

export type SqliteQueueStorage = QueueStorage & {
  readonly usage: UsageLedger;
  readonly largeBodies: LargeBodies;
  /** Another part removed batches from the file: the queues drop their entries. */
  forget(removed: readonly RemovedBatch[], reason: DropReason): void;
  /** Another part cut erased items out of a batch. */
  shrink(shrunk: ShrunkBatch): void;
  /** Does all background work now: expires answers, sums up usage, removes deleted projects. */
  tidy(): Promise<void>;
  /** Called before the database closes. */
  close(): Promise<void>;
  /** Ends without another write. */
  crash(): void;
};

type Forget = SqliteQueueStorage['forget'];

/**
 * The queues of one database file, by name: opening an open queue reconfigures it. `removesProjects` in a directory of
 * queues; a store removes its projects itself, with everything that refers to them.
 */
export async function queueStorage(
  database: Database<QueueOperations>,
  clock: Clock,
  logger: Logger,
  { removesProjects }: { removesProjects: boolean },
): Promise<SqliteQueueStorage> {
  const queues = new Map<string, SqliteQueue>();
  // One ledger for all queues: a key is claimed once, whichever queue keeps its answer.
  const time = new SteadyTime(clock, (await database.read('queue.time', [])) ?? undefined);
  const recent = new RecentRequests(database, time);
  await recent.load();
  const idempotency = idempotencyLedger(database, recent, time);
  const usage = new UsageLedger(database, clock, logger);
  await usage.load();
  const tidying = new Background({
    clock,
    logger,
    everyMs: TIDY_MS,
    betweenMs: STEP_MS,
    failure: 'Expired answers could not be removed, or usage not summed up; retrying',
    step: () => tidyStep(database, recent, usage, time),
  });
  startTidying(tidying, time, logger);
  const largeBodies = new LargeBodies(database, clock, logger);
  const removing = new Background({
    clock,
    logger,
    betweenMs: STEP_MS,
    failure: 'Data of a deleted project could not be removed from the queues; retrying',
    step: inSteps(() => removeDeleted(database, largeBodies, forget)),
  });
  if (removesProjects) removing.wake();

  async function removeProject(projectId: string): Promise<void> {
    if (!removesProjects) return;
    await database.write('removal.mark', [projectId, clock.now()]);
    removing.wake();
  }

  function forget(removed: readonly RemovedBatch[], reason: DropReason): void {
    for (const queue of queues.values()) queue.forget(removed, reason);
  }

  const shrink = (shrunk: ShrunkBatch): void => {
    for (const queue of queues.values()) queue.shrink(shrunk);
  };
  const parts = {
    ...{ database, clock, time, logger, idempotency, recent, usage, largeBodies, removeProject },
    ...(removesProjects ? { erasing: { database, largeBodies, shrink } } : {}),
  };
  async function openQueue(options: QueueOptions): Promise<DurableQueue> {
    const state = await database.write('queue.open', [options.name, options.branches]);
    const open = queues.get(options.name);
    if (open !== undefined) {
      open.reconfigure(options, state);
      return open;
    }
    const queue = new SqliteQueue(parts, options, state);
    queues.set(options.name, queue);
    return queue;
  }

  function crash(): void {
    for (const each of [tidying, removing]) each.stop();
    largeBodies.crash();
    usage.crash();
    for (const queue of queues.values()) queue.close();
    queues.clear();
  }

  return {
    openQueue,
    usage,
    largeBodies,
    forget,
    shrink,
    async tidy() {
      await tidying.finish();
      await largeBodies.finish();
      if (removesProjects) await removing.finish();
    },
    async close() {
      await Promise.all([tidying.close(), largeBodies.close(), removing.close()]);
      await usage.close();
      crash();
    },
    crash,
  };
}

/** The next start goes on from the time that a tidying keeps, so a jump of the clock wakes it. */
function startTidying(tidying: Background, time: SteadyTime, logger: Logger): void {
  tidying.wake();
  time.onJump((jumpMs) => {
    logger.info({ jumpMs }, 'Clock was set; kept answers expire by the uptime of the machine');
    tidying.wake();
  });
}

/** Keeps the time, removes expired answers and requests, and sums up usage; resolves with whether there may be more. */
async function tidyStep(
  database: Database<QueueOperations>,
  recent: RecentRequests,
  usage: UsageLedger,
  time: SteadyTime,
): Promise<boolean> {
  const hasMoreAnswers = await database.write('queue.tidy', [time.kept], { lazy: true });
  const hasMoreRequests = await recent.expire();
  const hasMoreUsage = await usage.rollUp();
  return hasMoreAnswers || hasMoreRequests || hasMoreUsage;
}

/** Removes the data of deleted projects from a directory of queues. */
function removeDeleted(
  database: Database<QueueOperations>,
  largeBodies: LargeBodies,
  forget: Forget,
): Steps {
  return removeDeletedProjects(database, {
    async *remove(project) {
      yield* removeBatches(
        database,
        project,
        (seqs) => database.write('removal.batches', [seqs]),
        (removed) => forget(removed, 'project_deleted'),
      );
      yield* removeAnswers(database, project);
      yield* sweepParts(database, () => largeBodies.isWriting(project));
    },
  });
}
