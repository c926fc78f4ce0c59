import type { Logger } from '../../../src/component/component.ts';
import { isUsableAfter, READ_ONLY } from './errors.ts';

/** Notices that connections lead to another server, which may lack the last writes of the former one. */
export type Takeovers = {
  /**
   * Called for each new connection before it is used. Rejects if it leads to a standby: promoted before its first statement, it would
   * be a new primary that this process did not notice.
   */
  check(ask: Ask): Promise<void>;
  /** The listener is called before a statement is sent to the server that took over. */
  onTakeover(listener: () => void): void;
};

type Ask = (text: string) => Promise<{ readonly rows: unknown[] }>;

/** The timeline of the server's WAL: a standby that is promoted begins the next one. Null on a standby. */
const QUESTION = `SELECT CASE WHEN NOT pg_is_in_recovery()
  THEN substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END AS timeline`;

export function watchTakeovers(logger: Logger): Takeovers {
  const listeners: (() => void)[] = [];
  let current: string | undefined;
  return {
    async check(ask) {
      // Undefined if the service that runs the server denies these functions. Its failovers are not noticed.
      const found = await ask(QUESTION).catch((error: unknown) => {
        if (!isUsableAfter(error)) throw error;
      });
      if (found === undefined) return;
      const [{ timeline }] = found.rows as [{ readonly timeline: string | null }];
      if (timeline === null) {
        throw Object.assign(new Error('the server is a standby'), { code: READ_ONLY });
      }
      const former = current;
      current = timeline;
      if (former === undefined || former === timeline) return;
      logger.warn(
        { former, timeline },
        'Another server of Postgres took over; deliveries in flight are repeated',
      );
      for (const listener of listeners) listener();
    },
    onTakeover: (listener) => void listeners.push(listener),
  };
}
