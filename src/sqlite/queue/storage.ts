import type { Steps } from '../../component/background.ts';
import { Background, inSteps } from '../../component/background.ts';
import type { Clock, Logger } from '../../component/component.ts';
import type { DropReason, DurableQueue, QueueOptions, QueueStorage } from '../../queue/queue.ts';
import type { Database } from '../database.ts';
import { TRUNCATE_LOG } from '../log-truncation.ts';
import type { OperationSource } from '../operation.ts';
import { idempotencyLedger } from './idempotency.ts';
import { LargeBodies } from './large-bodies.ts';
import type { QueueState } from './operations.ts';
import { removeAnswers, removeBatches, sweepParts } from './project-removal.ts';
import type { RemovedBatch } from './removal-operations.ts';
import { SqliteQueue } from './sqlite-queue.ts';
import { UsageLedger } from './usage-ledger.ts';

/** How often expired answers go and the usage ledger is summed up. */
const TIDY_MS = 10 * 60_000;
/** Between two steps of that. */
const STEP_MS = 50;

/** The queue's operations, for the thread of the file that will hold the queues. */
export function queueOperations(options: { keepsBodies: boolean }): OperationSource {
  const here = import.meta.url;
  const url = new URL(here.endsWith('.ts') ? './operations.ts' : './operations.js', here);
  return { url: url.href, options };
}

export type SqliteQueueStorage = QueueStorage & {
  readonly usage: UsageLedger;
  readonly largeBodies: LargeBodies;
  /** Batches were taken out of the file: the queues forget them. */
  forget(removed: readonly RemovedBatch[], reason: DropReason): void;
  /** Does now what is done in small steps else: forgets, sums up, removes. */
  tidy(): Promise<void>;
  /** Before the database is closed. */
  close(): Promise<void>;
  /** Ends without writing anything more. */
  crash(): void;
};

/** Queues in one database file, found again by name: opening an open one reconfigures it. */
export async function queueStorage(
  database: Database,
  clock: Clock,
  logger: Logger,
  options: { removesProjects: boolean },
): Promise<SqliteQueueStorage> {
  const queues = new Map<string, SqliteQueue>();
  // One for all queues: a key is claimed once, whichever queue keeps its answer.
  const idempotency = idempotencyLedger(database, clock);
  const usage = new UsageLedger(database, clock, logger);
  await usage.load();
  const tidying = new Background({
    clock,
    logger,
    everyMs: TIDY_MS,
    betweenMs: STEP_MS,
    failure: 'expired answers could not be removed, or usage not summed up',
    step: async () => {
      const moreAnswers = await database.write('queue.tidy', [clock.now()], { lazy: true });
      const moreUsage = await usage.rollUp();
      return moreAnswers === true || moreUsage;
    },
  });
  tidying.wake();
  const largeBodies = new LargeBodies(database, clock, logger);
  const removing = new Background({
    clock,
    logger,
    betweenMs: STEP_MS,
    failure: 'what a deleted project left in the queues could not be removed yet',
    step: inSteps(() => removeDeleted(database, largeBodies, forget)),
  });
  // A store removes what its projects hold itself, with all that hangs on it.
  const { removesProjects } = options;
  if (removesProjects) removing.wake();

  async function removeProject(projectId: string): Promise<void> {
    if (!removesProjects) return;
    await database.write('removal.mark', [projectId, clock.now()]);
    removing.wake();
  }

  function forget(removed: readonly RemovedBatch[], reason: DropReason): void {
    for (const queue of queues.values()) queue.forget(removed, reason);
  }

  const parts = { database, clock, logger, idempotency, usage, largeBodies, removeProject };

  async function openQueue(options: QueueOptions): Promise<DurableQueue> {
    const args = [options.name, options.branches];
    const state = (await database.write('queue.open', args)) as QueueState;
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
    tidying.stop();
    largeBodies.crash();
    removing.stop();
    usage.crash();
    for (const queue of queues.values()) queue.close();
    queues.clear();
  }

  return {
    openQueue,
    usage,
    largeBodies,
    forget,
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

/** What deleted projects left in a directory of queues. */
async function* removeDeleted(
  database: Database,
  largeBodies: LargeBodies,
  forget: (removed: readonly RemovedBatch[], reason: DropReason) => void,
): Steps {
  for (const project of (await database.read('removal.open', [])) as string[]) {
    yield* removeBatches(database, project, 'removal.batches', (removed) => {
      forget(removed, 'project_deleted');
    });
    yield* removeAnswers(database, project);
    yield* sweepParts(database, () => largeBodies.isWriting(project));
    while ((await database.write(TRUNCATE_LOG, [])) !== true) yield;
    await database.write('removal.purged', [project]);
  }
}
