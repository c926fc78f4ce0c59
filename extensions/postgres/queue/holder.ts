import type { Clock, Logger } from '../../../src/component/component.ts';
import { ulid } from '../../../src/model/ulid.ts';
import type { StoreDatabase } from '../database.ts';

/** Milliseconds by the database's own clock, which all processes share. */
export const DATABASE_NOW = '(extract(epoch FROM clock_timestamp()) * 1000)::bigint';

const LEASE_MS = 20_000;
const RENEW_MS = 5_000;

/**
 * This process among those that share the queues. What it leases and claims bears its id; when it does not
 * renew its row any more, somebody else gives all of that back.
 */
export type Holder = {
  readonly id: string;
  /** Gives back what dead processes held. */
  reap(): Promise<void>;
  /** Gives back what this one holds. */
  close(): Promise<void>;
  /** Ends without a word. */
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
    await database.query(
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
      logger.warn({ error }, 'the leases of this process could not be renewed');
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
