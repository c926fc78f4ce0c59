import type { Clock, Logger } from '../../../src/component/component.ts';
import { ulid } from '../../../src/model/ulid.ts';
import { DATABASE_NOW } from '../connection/database-clock.ts';
import { rows } from '../connection/statement.ts';
import type { StoreDatabase } from '../database.ts';

const LEASE_MS = 20_000;
const RENEW_MS = 5_000;
/** After a renewal the leases are in force for this long, with a margin for a process that runs slowly. */
const SURE_MS = LEASE_MS / 2;
/** After an outage of the database, in which no process could renew its row, all have this long to do so. */
const GRACE_MS = 10_000;

/**
 * This process among those that share the queues. Its leases and claims bear its id. If it stops renewing its row,
 * another process releases all of them.
 */
export type Holder = {
  readonly id: string;
  /**
   * Grows when the leases of this process are lost: another process has released them, or another server took over and may
   * lack what was written under them.
   */
  term(): number;
  /**
   * Resolves when the leases of the current term are in force. Renews the row first if the last renewal is long ago,
   * as after a freeze. Rejects if the database is away.
   */
  confirm(): Promise<void>;
  /** The listener is called when a term ends. */
  onLost(listener: () => void): void;
  /** Releases the leases of dead processes. */
  reap(): Promise<void>;
  /** Releases the leases of this process. */
  close(): Promise<void>;
  /** Ends without releasing anything. */
  crash(): void;
};

/** $1 id. No row if another process has released the leases. */
const RENEW = `
  UPDATE queue_holders SET expires_at = ${DATABASE_NOW} + ${LEASE_MS} WHERE id = $1 RETURNING id`;

/** $1 id. */
const RELEASE_ALL = 'UPDATE queue_entries SET holder = NULL WHERE holder = $1';

/** $1 id. */
const ENTER = `
  INSERT INTO queue_holders (id, expires_at) VALUES ($1, ${DATABASE_NOW} + ${LEASE_MS})
  ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at`;

/**
 * A row that lasts longer than a renewal makes it was written while the clock of the database was ahead. It gets the time of a
 * renewal: a process that lives renews it within that time, and the leases of a dead one do not last until the wrong time.
 */
const REAP = `
  WITH bounded AS (
      UPDATE queue_holders SET expires_at = ${DATABASE_NOW} + ${LEASE_MS}
      WHERE expires_at > ${DATABASE_NOW} + ${LEASE_MS}
    ),
    dead AS (DELETE FROM queue_holders WHERE expires_at < ${DATABASE_NOW} RETURNING id),
    held AS (
      SELECT DISTINCT holder FROM queue_entries
      WHERE holder IS NOT NULL AND holder NOT IN (SELECT id FROM queue_holders)
    )
  UPDATE queue_entries SET holder = NULL
  WHERE holder IN (SELECT id FROM dead UNION SELECT holder FROM held)`;

export async function becomeHolder(
  database: StoreDatabase,
  clock: Clock,
  logger: Logger,
): Promise<Holder> {
  const id = ulid(clock.now());
  let cancel = (): void => {};
  let isClosed = false;
  let term = 0;
  let renewedAt: number | undefined;
  /** When the first renewal after an outage succeeded. */
  let returnedAt: number | undefined;
  let confirming: Promise<void> | undefined;
  const listeners: (() => void)[] = [];
  const takeover = releaseAfterTakeover(database, id, endTerm);

  async function renew(): Promise<void> {
    await takeover.release();
    let asked = clock.now();
    // With the short time-out: a renewal that hangs must leave time for another one.
    const renewed = await rows(database.accepting, RENEW, [id]);
    if (renewed.length === 0) {
      // Noted before the row is entered: the answer to that statement may be lost.
      if (renewedAt !== undefined) lose();
      asked = clock.now();
      await database.accepting.query(ENTER, [id]);
    }
    if (renewedAt !== undefined && since(renewedAt) >= LEASE_MS) returnedAt = clock.now();
    renewedAt = asked;
  }

  function lose(): void {
    logger.warn({}, 'Leases of this process were lost; its batches are delivered by others');
    endTerm();
  }

  function endTerm(): void {
    term++;
    for (const listener of listeners) listener();
  }

  const since = (time: number): number => Math.abs(clock.now() - time);
  const isSure = (): boolean =>
    takeover.isReleased() && renewedAt !== undefined && since(renewedAt) < SURE_MS;

  async function confirm(): Promise<void> {
    // Again, if the process was frozen while it waited for the answer.
    while (!isSure()) {
      confirming ??= renew().finally(() => {
        confirming = undefined;
      });
      await confirming;
    }
  }

  async function beat(): Promise<void> {
    try {
      await renew();
      if (returnedAt === undefined || since(returnedAt) >= GRACE_MS) await database.query(REAP);
    } catch (error) {
      logger.warn({ err: error }, 'Leases of this process could not be renewed');
    }
    if (!isClosed) cancel = clock.after(RENEW_MS, () => void beat());
  }

  await renew();
  await database.query(REAP);
  cancel = clock.after(RENEW_MS, () => void beat());

  function crash(): void {
    isClosed = true;
    cancel();
  }

  return {
    id,
    term: () => term,
    confirm,
    onLost: (listener) => void listeners.push(listener),
    reap: async () => void (await database.query(REAP)),
    crash,
    async close() {
      crash();
      await database.query(RELEASE_ALL, [id]);
      await database.query('DELETE FROM queue_holders WHERE id = $1', [id]);
    },
  };
}

/**
 * A new server may have the entry of a delivery, and lack what the delivery wrote: it got the entry before. So no outcome of such
 * a delivery counts, and the entries are released before this process leases again.
 */
function releaseAfterTakeover(database: StoreDatabase, id: string, endTerm: () => void) {
  let isReleased = true;
  database.onTakeover(() => {
    isReleased = false;
    endTerm();
  });
  return {
    isReleased: () => isReleased,
    async release() {
      while (!isReleased) {
        isReleased = true;
        await database.query(RELEASE_ALL, [id]).catch((error: unknown) => {
          isReleased = false;
          throw error;
        });
      }
    },
  };
}

type HeldRow = { readonly branch: number; readonly batch_id: string; readonly seq: number };

/**
 * Finds orphans: leases that the database has for this process, and that the process does not know because the answer
 * to its statement was lost. An unknown lease is released when a second search in a row finds it; by then the process
 * knows every lease whose answer was only on its way.
 */
export function orphanSearch(
  database: StoreDatabase,
  holderId: string,
  isKnown: (branchId: number, seq: number) => boolean,
): () => Promise<number> {
  let suspects = new Set<string>();
  const nameOf = ({ branch, batch_id }: HeldRow): string => `${branch} ${batch_id}`;

  return async () => {
    const held = await rows<HeldRow>(
      database,
      'SELECT branch, batch_id, seq FROM queue_entries WHERE holder = $1',
      [holderId],
    );
    const unknown = held.filter(({ branch, seq }) => !isKnown(branch, seq));
    const orphans = unknown.filter((row) => suspects.has(nameOf(row)));
    suspects = new Set(unknown.map(nameOf));
    if (orphans.length === 0) return 0;
    await database.query(
      `UPDATE queue_entries e SET holder = NULL
       FROM unnest($2::integer[], $3::text[]) AS o (branch, batch_id)
       WHERE e.branch = o.branch AND e.batch_id = o.batch_id AND e.holder = $1`,
      [holderId, orphans.map(({ branch }) => branch), orphans.map(({ batch_id }) => batch_id)],
    );
    return orphans.length;
  };
}
