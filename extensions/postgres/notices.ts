import { randomBytes } from 'node:crypto';
import type { Clock } from '../../src/component/component.ts';
import type { Tenancy } from '../../src/tenancy/open.ts';
import type { NoticeSettings } from './connection/listener.ts';
import { listen } from './connection/listener.ts';
import type { PostgresClient } from './connection/statement.ts';
import type { TraceNoticeKind, TraceNotices } from './trace-notices.ts';

type ChangedKind = 'organization' | 'project' | 'key' | TraceNoticeKind;

/** Notifies the other processes of a change. Postgres sends the notice when the transaction commits. */
export type Notify = (client: PostgresClient, kind: ChangedKind, id: string) => Promise<void>;

const CHANNEL = 'tracectl';

/**
 * Changes that other processes make: a notice makes this process read them at once. Notices can be lost. Then keys are
 * read again when their cache entries expire, and everything else when the connection is back.
 */
export function notices(): {
  readonly notify: Notify;
  /**
   * If Postgres is available, every change committed after the promise resolves is heard. Notices that arrive before
   * `tenancy` is open are applied then.
   */
  listen(
    settings: NoticeSettings,
    clock: Clock,
    tenancy: Promise<Tenancy>,
    traces: Pick<TraceNotices, 'heard' | 'close'>,
  ): Promise<{ close(): Promise<void> }>;
} {
  /** Marks the notices of this process, which it ignores. */
  const origin = randomBytes(9).toString('base64url');

  async function apply(payload: string, { organization, projects, keys }: Tenancy): Promise<void> {
    const [from, kind, id = ''] = payload.split(' ');
    if (from === origin) return;
    if (kind === 'key') keys.changed(id);
    if (kind === 'project') await projects.refresh(id);
    if (kind === 'organization') await organization.refresh();
  }

  /** After an interruption: any change may have been missed. */
  async function refreshAll({ organization, projects, keys }: Tenancy): Promise<void> {
    keys.changed(undefined);
    await organization.refresh();
    await projects.refreshAll();
  }

  return {
    async notify(client, kind, id) {
      await client.query('SELECT pg_notify($1, $2)', [CHANNEL, `${origin} ${kind} ${id}`]);
    },
    async listen(settings, clock, tenancy, traces) {
      const { logger } = settings;
      let isOpen = false;
      let working = Promise.resolve();
      const inOrder = (work: (open: Tenancy) => Promise<void>): void => {
        working = working
          .then(async () => work(await tenancy))
          .catch((error: unknown) => {
            logger.warn({ err: error }, 'Change of another process could not be read');
          });
      };
      const listening = listen(settings, CHANNEL, clock, {
        onNotice: (payload) => {
          const [from = '', kind = ''] = payload.split(' ', 2);
          if (kind !== 'watch' && kind !== 'traces') inOrder((open) => apply(payload, open));
          else if (from !== origin) {
            traces.heard(kind, payload.slice(from.length + kind.length + 2));
          }
        },
        onListening: () => {
          // At the start nothing has been read yet.
          if (!isOpen) return;
          logger.info({}, 'Notices of other processes are heard again');
          inOrder(refreshAll);
        },
      });
      await listening.tried;
      isOpen = true;
      return {
        async close() {
          traces.close();
          await listening.close();
          await working;
        },
      };
    },
  };
}
