import { RetryableError } from '../../../src/model/errors.ts';
import { connectionsTo, type LastingOutage } from './connections.ts';
import { watchLocks } from './lock-watch.ts';
import type { ConnectionSettings, Postgres, PostgresSettings } from './pool.ts';
import { openPostgres } from './pool.ts';
import { watchTakeovers } from './takeovers.ts';

/** The purpose of a statement decides how long it may take and whose connections it uses. */
export type Purpose = 'accept' | 'write' | 'read' | 'verify' | 'rebuild' | 'housekeeping';

export type PoolsSettings = ConnectionSettings & {
  /** For accepting, and again for delivering. */
  readonly maxConnections: number;
  readonly readConnections: number;
  /** Milliseconds after which the server cancels a statement. */
  readonly timeouts: Readonly<Record<Purpose, number>>;
};

/**
 * The connections of a process, in a pool for each purpose: the server keeps the time-out of each connection, and a
 * slow statement of one purpose holds no connection of another.
 *
 *   accept        what a client's request waits for: key, limits, append
 *   write         deliveries: leases, observations, outcomes
 *   read          the answers of the read API, lists and sums for people
 *   verify        `usage verify`, step by step; looks for the session that holds a lock
 *   rebuild       quota counters summed up from the ledger
 *   housekeeping  removal of data, partitions, sums of the ledger
 */
export type PostgresPools = Readonly<Record<Purpose, Postgres>> & {
  usage(): { readonly open: number; readonly waiting: number };
  /** The current outage, as far as callers have met it in any pool but `verify`. */
  outage(): LastingOutage | undefined;
  /** For people: the session whose lock requests, deliveries or reads waited for lately. */
  blockedBy(): string | undefined;
  close(): Promise<void>;
};

/**
 * A statement of a reader looks at some thousand rows through an index. The planner takes such a range for the whole table now and then, and then
 * scans it; compiling a statement, or starting workers for it, costs more than it saves. One process a statement also makes its time its CPU,
 * which is what the budget of a page bounds.
 */
const READ_PLANNING =
  'SET enable_seqscan = off; SET jit = off; SET max_parallel_workers_per_gather = 0';

/** Each pool connects with its first query. */
export async function openPools(settings: PoolsSettings): Promise<PostgresPools> {
  const { maxConnections, readConnections, timeouts, ...connection } = settings;
  const shared = connectionsTo(settings.clock);
  const open = (
    purpose: Purpose,
    most: number,
    more: Pick<PostgresSettings, 'session' | 'locks' | 'standbyWait' | 'takeovers'> = {},
  ): Promise<Postgres> =>
    openPostgres(
      { ...connection, maxConnections: most, queryTimeout: timeouts[purpose], ...more },
      shared,
    );
  const standbyWait = { ms: timeouts.accept, sessions: maxConnections };
  // Alone: a look for a lock, which a busy server may refuse a connection, says nothing of the others.
  const verify = await openPostgres({
    ...connection,
    maxConnections: 1,
    queryTimeout: timeouts.verify,
  });
  const locks = watchLocks(verify, settings);
  const takeovers = watchTakeovers(settings.logger);
  const read = await open('read', readConnections, { session: READ_PLANNING, locks });
  const pools = {
    accept: await open('accept', maxConnections, { locks, standbyWait }),
    write: await open('write', maxConnections, { locks, standbyWait, takeovers }),
    read: answering(read, timeouts.read),
    verify,
    rebuild: await open('rebuild', 1, { standbyWait }),
    housekeeping: await open('housekeeping', 1, { standbyWait }),
  };
  const all = Object.values(pools);
  return {
    ...pools,
    usage: () => ({
      open: all.reduce((sum, pool) => sum + pool.usage().open, 0),
      waiting: all.reduce((sum, pool) => sum + pool.usage().waiting, 0),
    }),
    outage: shared.outage,
    blockedBy: locks.current,
    async close() {
      await Promise.all(all.map((pool) => pool.close()));
    },
  };
}

/** A reader learns that its question took too long, which a repetition does not help. */
function answering(pool: Postgres, timeout: number): Postgres {
  const slow = (error: unknown): never => {
    if (!(error instanceof RetryableError) || error.code !== 'statement_timeout') throw error;
    const message = `Finding the answer took longer than ${timeout / 1000} s. Narrow the time range or the filter.`;
    throw new RetryableError('query_timeout', message, { cause: error });
  };
  return {
    ...pool,
    query: (text, values) => pool.query(text, values).catch(slow),
    transaction: (work) => pool.transaction(work).catch(slow),
    transactionWithDeadline: (work) => pool.transactionWithDeadline(work).catch(slow),
  };
}
