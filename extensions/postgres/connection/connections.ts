import type { Pool, PoolClient } from 'pg';
import type { Clock } from '../../../src/component/component.ts';
import type { Outage } from './errors.ts';
import { isReadOnly, isUsableAfter, outageOf, postgresError } from './errors.ts';

export type LastingOutage = Outage & {
  /** Milliseconds. */
  readonly lasts: number;
};

/** How long an outage of a server that answers counts as lasting after the last rejected statement. */
const REJECTING_MS = 5_000;

export type Connections = {
  take(pool: Pool): Promise<PoolClient>;
  /** A statement was answered without an error. */
  worked(client: PoolClient): void;
  failed(client: PoolClient, error: unknown): void;
  /** See `Postgres`. */
  outage(): LastingOutage | undefined;
};

/**
 * The connections of all pools to a server, in generations. If one of them breaks, or turns out to lead to a
 * read-only server, every connection that has not answered since is closed instead of used: after a failover each of
 * them would cost its next caller a whole timeout. The pools share an outage, because an answer in one of them ends it
 * for all.
 */
export function connectionsTo(clock: Clock): Connections {
  const generations = new WeakMap<PoolClient, number>();
  let generation = 0;
  /** Connections of older generations lead to a former primary; an answer does not renew them. */
  let oldestUsable = 0;
  let outage: (Outage & { readonly since: number; readonly at: number }) | undefined;

  function note(error: unknown): void {
    const found = outageOf(error);
    if (found === undefined) return;
    const at = clock.now();
    outage = { ...found, at, since: current()?.since ?? at };
  }

  /** A server that rejects some statements may accept others, so only time ends such an outage. */
  function current() {
    if (outage === undefined || outage.isAway) return outage;
    if (Math.abs(clock.now() - outage.at) > REJECTING_MS) outage = undefined;
    return outage;
  }

  return {
    async take(pool) {
      for (;;) {
        let client: PoolClient;
        try {
          client = await pool.connect();
        } catch (error) {
          note(error);
          throw postgresError(error);
        }
        // A connection without a generation is new.
        const made = generations.get(client) ?? generation;
        generations.set(client, made);
        if (made === generation) return client;
        client.release(true);
      }
    },
    worked(client) {
      if ((generations.get(client) ?? 0) >= oldestUsable) generations.set(client, generation);
      if (outage?.isAway) outage = undefined;
    },
    failed(client, error) {
      note(error);
      if (isReadOnly(error)) oldestUsable = ++generation;
      else if (!isUsableAfter(error) && generations.get(client) === generation) generation++;
    },
    outage() {
      const now = current();
      if (now === undefined) return undefined;
      const { isAway, message, since } = now;
      return { isAway, message, lasts: Math.abs(clock.now() - since) };
    },
  };
}
