import type { Clock, Logger } from '../../../src/component/component.ts';
import { ulid } from '../../../src/model/ulid.ts';
import { DATABASE_NOW } from '../connection/database-clock.ts';
import { rows } from '../connection/statement.ts';
import type { StoreDatabase } from '../database.ts';

const LEASE_MS = 20_000;
const RENEW_MS = 5_000;

/**
 * This process among those that share the queues. Its leases and claims bear its id. If it stops renewing its row,
 * another process releases all of them.
 */
export type Holder = {
  readonly id: string;
  /** Releases the leases of dead processes. */
  reap(): Promise<void>;
  /** Releases the leases of this process. */
  close(): Promise<void>;
  /** Ends without releasing anything. */
  crash(): void;
};

export async function becomeHolder(
  database: StoreDatabase,
  clock: Clock,
  logger: Logger,
): Promise<Holder> {
  const id = ulid(clock.now());
  let cancel = (): void => {};
  let isClosed = false;

  async function renew(): Promise<void> {
    // With the short time-out: a renewal that hangs must leave time for another one.
    await database.accepting.query(
      `INSERT INTO queue_holders (id, expires_at) VALUES ($1, ${DATABASE_NOW} + ${LEASE_MS})
       ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at`,
      [id],
    );
  }

  async function reap(): Promise<void> {
    await database.query(
      `WITH dead AS (DELETE FROM queue_holders WHERE expires_at < ${DATABASE_NOW} RETURNING id),
         held AS (
           SELECT DISTINCT holder FROM queue_entries
           WHERE holder IS NOT NULL AND holder NOT IN (SELECT id FROM queue_holders)
         )
       UPDATE queue_entries SET holder = NULL
       WHERE holder IN (SELECT id FROM dead UNION SELECT holder FROM held)`,
    );
  }

  async function beat(): Promise<void> {
    try {
      await renew();
      await reap();
    } catch (error) {
      logger.warn({ err: error }, 'Leases of this process could not be renewed');
    }
    if (!isClosed) cancel = clock.after(RENEW_MS, () => void beat());
  }

  await renew();
  await reap();
  cancel = clock.after(RENEW_MS, () => void beat());

  function crash(): void {
    isClosed = true;
    cancel();
  }

  return {
    id,
    reap,
    crash,
    async close() {
      crash();
      await database.query('UPDATE queue_entries SET holder = NULL WHERE holder = $1', [id]);
      await database.query('DELETE FROM queue_holders WHERE id = $1', [id]);
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
