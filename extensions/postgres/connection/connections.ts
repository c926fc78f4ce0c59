import type { Pool, PoolClient } from 'pg';
import type { Clock } from '../../../src/component/component.ts';
import type { Trouble } from './errors.ts';
import { isReadOnly, isUsableAfter, postgresError, troubleOf } from './errors.ts';

export type LastingTrouble = Trouble & {
  /** Milliseconds. */
  readonly lasts: number;
};

/** How long what the server refused to everybody is taken to be so still. */
const REFUSING_MS = 5_000;

export type Connections = {
  take(): Promise<PoolClient>;
  /** It answered. */
  worked(client: PoolClient): void;
  failed(client: PoolClient, error: unknown): void;
  /** See `Postgres`. */
  trouble(): LastingTrouble | undefined;
};

/**
 * The pool's connections, in generations: where one of them is found to lead nowhere, or to a server that
 * does not serve any more, all that have not been heard of since are not used again. After a failover each
 * of them would cost somebody the whole time-out else.
 */
export function connectionsOf(pool: Pool, clock: Clock): Connections {
  const generations = new WeakMap<PoolClient, number>();
  let generation = 0;
  /** What is older leads to a server that another one took over from, however well it answers. */
  let oldest = 0;
  let trouble: (Trouble & { readonly since: number; readonly at: number }) | undefined;

  function note(error: unknown): void {
    const found = troubleOf(error);
    if (found === undefined) return;
    const at = clock.now();
    trouble = { ...found, at, since: current()?.since ?? at };
  }

  /** What is refused to some may be granted to others: only time ends it. */
  function current() {
    if (trouble === undefined || trouble.isAway) return trouble;
    if (Math.abs(clock.now() - trouble.at) > REFUSING_MS) trouble = undefined;
    return trouble;
  }

  return {
    async take() {
      for (;;) {
        let client: PoolClient;
        try {
          client = await pool.connect();
        } catch (error) {
          note(error);
          throw postgresError(error);
        }
        // The first time, it is new.
        const made = generations.get(client) ?? generation;
        generations.set(client, made);
        if (made === generation) return client;
        client.release(true);
      }
    },
    worked(client) {
      if ((generations.get(client) ?? 0) >= oldest) generations.set(client, generation);
      if (trouble?.isAway) trouble = undefined;
    },
    failed(client, error) {
      note(error);
      if (isReadOnly(error)) oldest = ++generation;
      else if (!isUsableAfter(error) && generations.get(client) === generation) generation++;
    },
    trouble() {
      const now = current();
      if (now === undefined) return undefined;
      const { isAway, message, since } = now;
      return { isAway, message, lasts: Math.abs(clock.now() - since) };
    },
  };
}
