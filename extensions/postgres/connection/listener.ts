import type { Client } from 'pg';
import type { Clock } from '../../../src/component/component.ts';
import type { ConnectionSettings } from './pool.ts';

export type NoticeListener = {
  /** A notice arrived. */
  onNotice(payload: string): void;
  /** Notices are heard from now on; earlier ones may be lost. Called again after every interruption. */
  onListening(): void;
};

/** How notices are heard; `queryTimeout` bounds the statements of the connection, in milliseconds. */
export type NoticeSettings = ConnectionSettings & { readonly queryTimeout: number };

const RECONNECT_MS = 1_000;
/** How often an idle connection is tested: a cut one sends nothing. */
const TEST_MS = 5_000;

/** A former primary goes on answering, but no notice arrives there any more. */
async function rejectReadOnly(client: Client): Promise<void> {
  const { rows } = await client.query('SHOW transaction_read_only');
  if (rows[0]?.transaction_read_only === 'on') throw new Error('the server is read-only');
}

/** Hears notices of a channel on a connection of its own, which is replaced when it breaks. */
export function listen(
  settings: NoticeSettings,
  channel: string,
  clock: Clock,
  listener: NoticeListener,
): {
  /** Resolves after the first attempt to connect, whatever its outcome. */
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
      await rejectReadOnly(made);
    } catch (error) {
      logger.debug({ err: error }, 'Notices of Postgres cannot be heard');
      lose(made);
      return;
    }
    client = made;
    listener.onListening();
    cancel = clock.after(TEST_MS, () => void test(made));
  }

  async function test(tested: Client): Promise<void> {
    try {
      await rejectReadOnly(tested);
      if (client === tested) cancel = clock.after(TEST_MS, () => void test(tested));
    } catch {
      lose(tested);
    }
  }

  const lost = new WeakSet<Client>();
  function lose(broken: Client): void {
    if (lost.has(broken)) return;
    lost.add(broken);
    if (client === broken) client = undefined;
    cancel();
    void broken.end().catch(() => {});
    if (isClosed) return;
    cancel = clock.after(RECONNECT_MS, () => {
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
