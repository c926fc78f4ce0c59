import type { Clock, Logger } from '../../../src/component/component.ts';
import type { QueueOptions } from '../../../src/queue/queue.ts';
import type { SharedQueue, SharedQueueStorage } from '../../../src/queue/shared-queue.ts';
import type { StoreDatabase } from '../database.ts';
import type { Holder } from './holder.ts';
import { becomeHolder } from './holder.ts';
import type { PostgresLedger } from './ledger.ts';
import { postgresLedger } from './ledger.ts';
import { orphanSearch } from './orphans.ts';
import { PostgresQueue } from './queue.ts';
import type { Forgotten } from './removal.ts';
import { expireStep, removeStep } from './removal.ts';

/** How often a process looks for what others gave back. */
const LOOK_MS = 5000;
const REFRESH_MS = 5000;
/** Of its time a process spends at most this part reading counts. */
const REFRESH_SHARE = 20;
const LONGEST_REST_MS = 15_000;
const TIDY_MS = 10 * 60_000;

export type PostgresQueues = SharedQueueStorage & {
  /** Takes out a bounded part of what a deleted project left; resolves with whether there may be more. */
  removeStep(projectId: string): Promise<boolean>;
  /** The same of the dead letters of a project that were received before `since`. */
  expireStep(projectId: string, since: number): Promise<boolean>;
  /** Reads anew what waits. */
  refresh(): Promise<void>;
  /** Before the pool is closed: gives back what is leased. */
  close(): Promise<void>;
  /** Ends without writing anything more. */
  crash(): void;
};

/** The queues of a database, found again by name: opening an open one reconfigures it. */
export async function openQueues(
  database: StoreDatabase,
  clock: Clock,
  logger: Logger,
): Promise<PostgresQueues> {
  const queues = new Map<string, PostgresQueue>();
  const holder: Holder = await becomeHolder(database, clock, logger);
  const ledger: PostgresLedger = postgresLedger(database, holder, clock, logger);
  const parts = { database, holder, ledger, clock, logger };
  const findOrphans = orphanSearch(database, holder.id, (branch, seq) =>
    [...queues.values()].some((queue) => queue.holds(branch, seq)),
  );
  const timers = [
    every(clock, LOOK_MS, look),
    every(clock, REFRESH_MS, refresh),
    every(clock, TIDY_MS, tidy),
  ];

  async function look(): Promise<number> {
    try {
      const orphans = await findOrphans();
      if (orphans > 0) logger.info({ orphans }, 'leases whose answer was lost were given back');
    } catch (error) {
      logger.debug({ error }, 'lost leases could not be looked for');
    }
    for (const queue of queues.values()) queue.look();
    return 0;
  }

  /** The longer it takes, the longer the rest after it; a database that is away is no work. */
  async function refresh(): Promise<number> {
    const before = clock.now();
    try {
      for (const queue of queues.values()) await queue.refresh();
    } catch (error) {
      logger.debug({ error }, 'the counts of the queues could not be read');
      return 0;
    }
    return Math.min(LONGEST_REST_MS, (clock.now() - before) * REFRESH_SHARE);
  }

  async function tidy(): Promise<number> {
    try {
      while (await ledger.tidy());
    } catch (error) {
      logger.debug({ error }, 'expired answers could not be removed');
    }
    return 0;
  }

  async function openQueue(options: QueueOptions): Promise<SharedQueue> {
    const { rows } = await database.query(
      `WITH given AS (
         INSERT INTO queue_branches (queue, branch)
         SELECT $1, b FROM unnest($2::text[]) WITH ORDINALITY AS g (b, place) ORDER BY place
         ON CONFLICT DO NOTHING RETURNING id, branch
       )
       SELECT id, branch FROM given
       UNION SELECT id, branch FROM queue_branches WHERE queue = $1 ORDER BY id`,
      [options.name, options.branches],
    );
    const ids = new Map(rows.map((row) => [String(row.branch), Number(row.id)]));
    const open = queues.get(options.name);
    const queue = open ?? new PostgresQueue(parts, options, ids);
    queue.reconfigure(options, ids);
    queues.set(options.name, queue);
    await holder.reap();
    await queue.refresh();
    return queue;
  }

  const forgotten: Forgotten = (...entry) => {
    for (const queue of queues.values()) queue.forget(...entry);
  };

  function crash(): void {
    for (const stop of timers) stop();
    holder.crash();
    for (const queue of queues.values()) queue.close();
    queues.clear();
  }

  return {
    openQueue,
    withAdvisoryLock: (name, work) => withAdvisoryLock(database, name, work),
    removeStep: (projectId) => removeStep(database, projectId, forgotten),
    expireStep: (projectId, since) => expireStep(database, projectId, since, forgotten),
    async refresh() {
      for (const queue of queues.values()) await queue.refresh();
    },
    async close() {
      crash();
      await holder.close();
    },
    crash,
  };
}

/** Does the work unless another process is at it; resolves with whether it was done. */
async function withAdvisoryLock(
  database: StoreDatabase,
  name: string,
  work: () => Promise<void>,
): Promise<boolean> {
  return database.transaction(async (client) => {
    const { rows } = await client.query(
      'SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0)) AS locked',
      [`tracectl/${name}`],
    );
    if (rows[0]?.locked !== true) return false;
    // The work is done on other connections; this one only holds the lock.
    await client.query(`SET LOCAL idle_in_transaction_session_timeout = '10min'`);
    await work();
    return true;
  });
}

/** Again and again, `ms` after the last time ended, or longer where the work says so. */
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
