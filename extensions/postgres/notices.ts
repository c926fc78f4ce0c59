import { randomBytes } from 'node:crypto';
import type { Clock, Logger } from '../../src/component/component.ts';
import type { Tenancy } from '../../src/tenancy/open.ts';
import { listen } from './connection/listener.ts';
import type { PostgresSettings } from './connection/pool.ts';
import type { PostgresClient } from './connection/statement.ts';

type Kind = 'organization' | 'project' | 'key';

/** Tells the other processes of a change, when its transaction is committed. */
export type Notify = (client: PostgresClient, kind: Kind, id: string) => Promise<void>;

const CHANNEL = 'tracectl';

/**
 * What other processes change: a notice makes them look at it at once. A notice can be missed; then keys are
 * asked for again after their time in the cache, and the rest after the connection is back.
 */
export function notices(): {
  readonly notify: Notify;
  /**
   * From when it resolves nothing is missed that is committed, if Postgres is there. What comes before
   * `tenancy` is open is taken up then.
   */
  listen(
    settings: PostgresSettings,
    clock: Clock,
    tenancy: Promise<Tenancy>,
  ): Promise<{ close(): Promise<void> }>;
} {
  /** This process needs no notice of its own. */
  const origin = randomBytes(9).toString('base64url');

  async function take(payload: string, { organization, projects, keys }: Tenancy): Promise<void> {
    const [from, kind, id = ''] = payload.split(' ');
    if (from === origin) return;
    if (kind === 'key') keys.changed(id);
    if (kind === 'project') await projects.refresh(id);
    if (kind === 'organization') await organization.refresh();
  }

  /** Anything may have changed. */
  async function refreshAll({ organization, projects, keys }: Tenancy): Promise<void> {
    keys.changed(undefined);
    await organization.refresh();
    await projects.refreshAll();
  }

  return {
    async notify(client, kind, id) {
      await client.query('SELECT pg_notify($1, $2)', [CHANNEL, `${origin} ${kind} ${id}`]);
    },
    async listen(settings, clock, tenancy) {
      const { logger } = settings;
      let isOpen = false;
      let working = Promise.resolve();
      const work = (what: (open: Tenancy) => Promise<void>): void => {
        working = working
          .then(async () => what(await tenancy))
          .catch((error: unknown) => failed(logger, error));
      };
      const heard = listen(settings, CHANNEL, clock, {
        onNotice: (payload) => work((open) => take(payload, open)),
        onListening: () => {
          // The first time nothing has been read yet.
          if (!isOpen) return;
          logger.info({}, 'notices of other processes are heard again');
          work(refreshAll);
        },
      });
      await heard.tried;
      isOpen = true;
      return {
        async close() {
          await heard.close();
          await working;
        },
      };
    },
  };
}

function failed(logger: Logger, error: unknown): void {
  logger.warn({ error }, 'a change that another process made could not be read');
}
