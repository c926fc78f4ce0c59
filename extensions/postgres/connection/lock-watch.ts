import type { Clock, Logger } from '../../../src/component/component.ts';
import type { PostgresClient } from './statement.ts';
import { rows } from './statement.ts';

/** The name of the daemon's sessions. */
export const APPLICATION = 'tracectl';

/**
 * Finds the session that statements wait for, while they wait: afterwards the server knows it no longer, and the error
 * of a statement that was cancelled does not name it.
 */
export type LockWatch = {
  /** A statement was sent over the connection of the server process `pid`; call the result when it is answered. */
  begin(pid: number | undefined, timeoutMs: number): () => void;
  /** For people: the session that statements waited for lately. */
  current(): string | undefined;
};

/** A statement that takes this long, or half of its time-out, may wait for a lock. Milliseconds. */
const LONG_MS = 1_000;
/** How long a found session counts as the state of Postgres after the last statement that waited for it. */
const LASTS_MS = 5_000;
/** The daemon's own transactions wait for each other, and end sooner than this. Milliseconds. */
const OWN_MS = 5_000;
/** Statements that wait at the same time mostly wait for one session. */
const INTERVAL_MS = 500;

type Holder = {
  readonly pid: number;
  readonly application: string | null;
  readonly role: string | null;
  readonly state: string | null;
  readonly transaction_ms: number | null;
  /** The relation whose lock the statement waits for; null for the lock of a row. */
  readonly relation: string | null;
};

/**
 * Sessions that wait for no other one, and that the statement waits for, also through others. 0 is a prepared
 * transaction. Server processes of another role hide their state.
 */
const HOLDERS = `
  WITH RECURSIVE waits(pid) AS (
    SELECT unnest(pg_blocking_pids($1))
    UNION SELECT unnest(pg_blocking_pids(pid)) FROM waits)
  SELECT w.pid, a.application_name AS application, a.usename AS role, a.state,
    round(1000 * extract(epoch FROM clock_timestamp() - a.xact_start))::bigint AS transaction_ms,
    (SELECT relation::regclass::text FROM pg_locks
     WHERE pid = $1 AND NOT granted AND locktype = 'relation' LIMIT 1) AS relation
  FROM waits w LEFT JOIN pg_stat_activity a ON a.pid = w.pid
  WHERE cardinality(pg_blocking_pids(w.pid)) = 0 AND NOT coalesce(
    a.application_name = '${APPLICATION}' AND clock_timestamp() - a.xact_start < '${OWN_MS} ms', false)
  ORDER BY a.xact_start LIMIT 3`;

/** `ask` has a connection that no statement of a request or of a delivery waits for. */
export function watchLocks(
  ask: PostgresClient,
  { clock, logger }: { readonly clock: Clock; readonly logger: Logger },
): LockWatch {
  let found: { readonly message: string; readonly pids: string; readonly at: number } | undefined;
  let isAsking = false;
  let askedAt = Number.NEGATIVE_INFINITY;

  function current() {
    if (found !== undefined && Math.abs(clock.now() - found.at) > LASTS_MS) found = undefined;
    return found;
  }

  async function look(pid: number): Promise<void> {
    if (isAsking || Math.abs(clock.now() - askedAt) < INTERVAL_MS) return;
    isAsking = true;
    askedAt = clock.now();
    try {
      const [first, ...others] = await rows<Holder>(ask, HOLDERS, [pid]);
      if (first === undefined) return;
      const holders = [first, ...others];
      const pids = holders.map((each) => each.pid).join();
      if (current()?.pids !== pids) {
        logger.warn({ pid, holders }, 'Statements wait for a lock of another session of Postgres');
      }
      found = { message: messageOf(first), pids, at: clock.now() };
    } catch {
      // The server is away, or the connection is in use: the statement reports its own outcome.
    } finally {
      isAsking = false;
    }
  }

  return {
    begin(pid, timeoutMs) {
      if (pid === undefined) return () => {};
      return clock.after(Math.min(LONG_MS, timeoutMs / 2), () => void look(pid));
    },
    current: () => current()?.message,
  };
}

function messageOf({ pid, application, role, state, relation }: Holder): string {
  const lock = relation === null ? 'a lock' : `a lock of the table ${relation}`;
  if (pid === 0) {
    return `Statements wait for ${lock} that a prepared transaction of Postgres holds. See pg_prepared_xacts.`;
  }
  const described = [application || 'no name', role ?? 'unknown role', state ?? 'unknown state'];
  return (
    `Statements wait for ${lock} that session ${pid} of Postgres holds (${described.join(', ')}). ` +
    `If it does not end, end it with pg_terminate_backend(${pid}).`
  );
}
