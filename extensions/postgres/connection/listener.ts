import type { Client } from 'pg';
import type { Clock } from '../../../src/component/component.ts';
import type { PostgresSettings } from './pool.ts';

export type Listener = {
  /** A notice was sent. */
  onNotice(payload: string): void;
  /** It is heard from now on; what was sent before may be missed. Also after every interruption. */
  onListening(): void;
};

const AGAIN_MS = 1_000;
/** A connection that says nothing may be cut: it is asked this often. */
const ASK_MS = 5_000;

/** Of a server that another one took over from nothing is heard any more, however long it answers. */
async function refuseReadOnly(client: Client): Promise<void> {
  const { rows } = await client.query('SHOW transaction_read_only');
  if (rows[0]?.transaction_read_only === 'on') throw new Error('the server is read-only');
}

/** Hears what is sent to a channel, on a connection of its own, which is made anew when it breaks. */
export function listen(
  settings: PostgresSettings,
  channel: string,
  clock: Clock,
  listener: Listener,
): {
  /** Resolved when it was tried to connect the first time. */
  readonly tried: Promise<void>;
  close(): Promise<void>;
} {
  const { url, connectTimeout, queryTimeout, tls, logger } = settings;
  let client: Client | undefined;
  let cancel = (): void => {};
  let isClosed = false;
  let connecting = connect();

  async function connect(): Promise<void> {
    const { default: pg } = await import('pg');
    const made = new pg.Client({
      connectionString: url,
      connectionTimeoutMillis: connectTimeout,
      query_timeout: queryTimeout,
      application_name: 'tracectl notices',
      keepAlive: true,
      ...(tls === undefined ? {} : { ssl: tls }),
    });
    made.on('notification', ({ payload }) => listener.onNotice(payload ?? ''));
    made.on('error', () => lose(made));
    made.on('end', () => lose(made));
    try {
      await made.connect();
      await made.query(`LISTEN ${channel}`);
      await refuseReadOnly(made);
    } catch (error) {
      logger.debug({ error }, 'notices of Postgres cannot be heard');
      lose(made);
      return;
    }
    client = made;
    listener.onListening();
    cancel = clock.after(ASK_MS, () => void ask(made));
  }

  async function ask(asked: Client): Promise<void> {
    try {
      await refuseReadOnly(asked);
      if (client === asked) cancel = clock.after(ASK_MS, () => void ask(asked));
    } catch {
      lose(asked);
    }
  }

  const lost = new WeakSet<Client>();
  function lose(which: Client): void {
    if (lost.has(which)) return;
    lost.add(which);
    if (client === which) client = undefined;
    cancel();
    void which.end().catch(() => {});
    if (isClosed) return;
    cancel = clock.after(AGAIN_MS, () => {
      connecting = connect();
    });
  }

  return {
    tried: connecting,
    async close() {
      isClosed = true;
      cancel();
      await connecting;
      cancel();
      const closing = client;
      client = undefined;
      if (closing !== undefined) {
        lost.add(closing);
        await closing.end().catch(() => {});
      }
    },
  };
}
