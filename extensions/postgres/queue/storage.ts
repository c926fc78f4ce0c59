import type { Clock, Logger } from '../../../src/component/component.ts';
import type { QueueOptions } from '../../../src/queue/queue.ts';
import type { SharedQueue, SharedQueueStorage } from '../../../src/queue/shared-queue.ts';
import type { PostgresClient } from '../connection/statement.ts';
import { rows } from '../connection/statement.ts';
import type { StoreDatabase } from '../database.ts';
import type { ShrunkEntry } from '../erasing/cleaning.ts';
import { withLease, workLeases } from '../work-leases.ts';
import { becomeHolder, orphanSearch } from './holder.ts';
import { postgresIdempotency } from './idempotency.ts';
import type { OnDropped } from './maintenance.ts';
import { expireDeadLettersStep, removeEntries } from './maintenance.ts';
import type { BranchIds } from './queue.ts';
import { PostgresQueue } from './queue.ts';

/** How often a process looks for entries that other processes appended or released. */
const LOOK_MS = 5000;
const REFRESH_MS = 5000;
/** The pause after a refresh is at least this multiple of the time that the refresh took. */
const REFRESH_REST = 20;
const LONGEST_REST_MS = 15_000;
/** Far above the time-outs of single statements, of which a group has several. */
const GROUP_TIMEOUT_MS = 15_000;
const EXPIRE_ANSWERS_MS = 10 * 60_000;

export type PostgresQueues = SharedQueueStorage & {
  /** Removes the entries, dead letters and answers of a deleted project; yields after each bounded step. */
  remove(client: PostgresClient, projectId: string): AsyncGenerator<undefined, void, undefined>;
  /**
   * Removes a bounded number of dead letters of a project that were received before `since`; resolves with whether there
   * may be more.
   */
  expireStep(client: PostgresClient, projectId: string, since: number): Promise<boolean>;
  /** An erasure cut items out of a batch. */
  shrunk(batchId: string, entries: readonly ShrunkEntry[]): void;
  /** Reads the counts of every queue. */
  refresh(): Promise<void>;
  /** Releases the leases; called before the pool closes. */
  close(): Promise<void>;
  /** Ends without writing anything. */
  crash(): void;
};

/** The queues of a database, by name: opening an open queue reconfigures it. */
export async function openQueues(
  database: StoreDatabase,
  clock: Clock,
  logger: Logger,
  groupTimeout = GROUP_TIMEOUT_MS,
): Promise<PostgresQueues> {
  const queues = new Map<string, PostgresQueue>();
  const holder = await becomeHolder(database, clock, logger);
  const idempotency = postgresIdempotency(database, holder, clock, logger);
  const parts = { database, holder, idempotency, clock, logger, groupTimeout };
  const releaseOrphans = orphanSearch(database, holder.id, (branch, seq) =>
    [...queues.values()].some((queue) => queue.holds(branch, seq)),
  );
  const timers = [
    every(clock, LOOK_MS, look),
    every(clock, REFRESH_MS, refresh),
    every(clock, EXPIRE_ANSWERS_MS, expireAnswers),
  ];

  async function look(): Promise<number> {
    try {
      const orphans = await releaseOrphans();
      if (orphans > 0) logger.info({ orphans }, 'Orphaned leases released');
    } catch (error) {
      logger.debug({ err: error }, 'Search for orphaned leases failed');
    }
    each((queue) => queue.look());
    return 0;
  }

  /** Resolves with the pause to make. A failed attempt calls for no longer pause. */
  async function refresh(): Promise<number> {
    const before = clock.now();
    try {
      await refreshAll(queues);
    } catch (error) {
      logger.debug({ err: error }, 'Counts of the queues could not be read');
      return 0;
    }
    return Math.min(LONGEST_REST_MS, (clock.now() - before) * REFRESH_REST);
  }

  async function expireAnswers(): Promise<number> {
    try {
      while (await idempotency.expireStep());
    } catch (error) {
      logger.debug({ err: error }, 'Expired idempotency answers could not be removed');
    }
    return 0;
  }

  async function openQueue(options: QueueOptions): Promise<SharedQueue> {
    const ids = await branchIds(database, options);
    const open = queues.get(options.name);
    const queue = open ?? new PostgresQueue(parts, options, ids);
    queue.reconfigure(options, ids);
    queues.set(options.name, queue);
    await holder.reap();
    await queue.refresh();
    return queue;
  }

  const each = (call: (queue: PostgresQueue) => void): void => {
    for (const queue of queues.values()) call(queue);
  };
  const onDropped: OnDropped = (...entry) => each((queue) => queue.dropped(...entry));

  function crash(): void {
    for (const stop of timers) stop();
    idempotency.close();
    holder.crash();
    each((queue) => queue.close());
    queues.clear();
  }

  return {
    openQueue,
    withLease: (name, work) => withLease(workLeases(database, clock, logger), name, logger, work),
    remove: (client, projectId) => removeEntries(client, projectId, onDropped),
    expireStep: (client, projectId, since) =>
      expireDeadLettersStep(client, projectId, since, onDropped),
    shrunk: (...batch) => each((queue) => queue.shrunk(...batch)),
    refresh: () => refreshAll(queues),
    async close() {
      crash();
      await holder.close();
    },
    crash,
  };
}

async function refreshAll(queues: ReadonlyMap<string, PostgresQueue>): Promise<void> {
  for (const queue of queues.values()) await queue.refresh();
}

/** Adds the branches that are new, and reads the ids of all that the queue ever had. */
async function branchIds(
  database: StoreDatabase,
  { name, branches }: QueueOptions,
): Promise<BranchIds> {
  await database.query(
    `INSERT INTO queue_branches (queue, branch)
     SELECT $1, b FROM unnest($2::text[]) WITH ORDINALITY AS g (b, place) ORDER BY place
     ON CONFLICT DO NOTHING`,
    [name, branches],
  );
  // A statement of its own: the INSERT waits for a process that adds the same branch, whose row its snapshot lacks.
  const found = await rows<{ id: number; branch: string }>(
    database,
    'SELECT id, branch FROM queue_branches WHERE queue = $1 ORDER BY id',
    [name],
  );
  return new Map(found.map(({ id, branch }) => [branch, id]));
}

/** Repeats work `ms` after its last run ended, or after the pause that it resolved with, if that is longer. */
function every(clock: Clock, ms: number, work: () => Promise<number>): () => void {
  let isStopped = false;
  let cancel = clock.after(ms, run);
  function run(): void {
    void work().then((rest) => {
      if (!isStopped) cancel = clock.after(Math.max(ms, rest), run);
    });
  }
  return () => {
    isStopped = true;
    cancel();
  };
}
