import pg from 'pg';
import t, { type Test } from 'tap';
import { config } from '../../../extensions/postgres/config.ts';
import { factory as postgres } from '../../../extensions/postgres/factory.ts';
import { MIGRATIONS } from '../../../extensions/postgres/migrations/index.ts';
import { findOffer, offer } from '../../../src/component/capability.ts';
import { systemClock } from '../../../src/component/clock.ts';
import type { Clock, Extension } from '../../../src/component/component.ts';
import { createHealth, HEALTH_REGISTRY } from '../../../src/component/health.ts';
import { QUEUE_STORAGE } from '../../../src/queue/queue.ts';
import { nativeBatch } from '../../helper/batches.ts';
import { postgresServer } from '../../helper/postgres-server.ts';
import { fakeHost, recordingLogger, testSettings } from '../../helper/settings.ts';
import { until } from '../../helper/until.ts';

const server = await postgresServer(t);
const RELOAD = 'SELECT pg_reload_conf()';
const QUEUE = { name: 'q', branches: ['a'], maxBytes: 1e9 };

async function extensionOn(url: string, more: object = {}) {
  const host = fakeHost({ services: [offer(HEALTH_REGISTRY, createHealth(systemClock))] });
  const settings = testSettings('extension', 'postgres', { host, clock: systemClock });
  return (await postgres.create(settings, config.parse({ url, ...more }))) as Extension;
}

async function started(t: Test, url: string, more: object = {}) {
  const extension = await extensionOn(url, more);
  t.teardown(() => extension.shutdown(AbortSignal.timeout(1000)));
  await extension.start();
  const storage = findOffer(extension.offers, QUEUE_STORAGE);
  if (storage === undefined) throw new Error('no queues are offered');
  return storage;
}

t.test('creates the tables once for processes that start together', async (t) => {
  const url = await server.database();
  await Promise.all([started(t, url), started(t, url), started(t, url)]);
  const later = await started(t, url);
  const queue = await later.openQueue(QUEUE);
  await queue.append(nativeBatch(1));
  t.equal(queue.stats().branches[0]?.entries, 1);
});

t.test(
  'works with a role that may not change tables, and reports missing migrations',
  async (t) => {
    const url = await server.database();
    const none = await extensionOn(url, { migrate: 'off' });
    await t.rejects(none.start(), /not up to date \(0001-batches, .*migrate: auto/);
    await none.shutdown(AbortSignal.timeout(1000));
    await started(t, url);
    const owner = new pg.Client({ connectionString: url });
    await owner.connect();
    await owner.query(`
    CREATE ROLE service LOGIN;
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO service;
    GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO service;
    REVOKE CREATE ON SCHEMA public FROM PUBLIC;
  `);
    await owner.end();
    const service = await started(t, url.replace('test@', 'service@'), { migrate: 'off' });
    const queue = await service.openQueue(QUEUE);
    await queue.append(nativeBatch(1));
    const [entry] = await queue.lease('a', 1, 1e9);
    if (entry === undefined) throw new Error('nothing was leased');
    await queue.ack('a', [entry]);
  },
);

/** Runs statements in a database. */
async function run(url: string, ...texts: readonly string[]): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  for (const text of texts) await client.query(text);
  await client.end();
}

async function refusedStart(url: string): Promise<string> {
  const refused = await extensionOn(url);
  const error: unknown = await refused.start().catch((error: unknown) => error);
  await refused.shutdown(AbortSignal.timeout(1000));
  if (!(error instanceof Error)) throw new Error('it starts');
  return error.message;
}

t.test('says why a start fails, in the words of the server and with an advice', async (t) => {
  const url = await server.database();
  await run(url, 'CREATE ROLE guest LOGIN');
  t.match(
    await refusedStart(url.replace('test@', 'guest@')),
    /\(42501\): permission denied for schema public\. Grant it, or use the role/,
  );
  t.match(await refusedStart(server.urlOf('absent')), /does not exist \(3D000\)\. Create it/);
  t.match(
    await refusedStart(url.replace(/:\d+\//, ':1/')),
    /cannot be reached \(ECONNREFUSED\)\. Check the url/,
  );
  await run(url, `ALTER DATABASE ${new URL(url).pathname.slice(1)} SET search_path = 'absent'`);
  const noSchema = /\(3F000\): no schema has been selected to create in\. Check the search_path/;
  t.match(await refusedStart(url), noSchema);
  await run(server.urlOf('postgres'), 'CREATE ROLE reader LOGIN');
  await run(server.urlOf('postgres'), 'ALTER ROLE reader SET default_transaction_read_only = on');
  const open = await server.database();
  await run(open, 'GRANT ALL ON SCHEMA public TO reader');
  t.match(
    await refusedStart(open.replace('test@', 'reader@')),
    /\(25006\): cannot execute CREATE TABLE in a read-only transaction\. Name the primary/,
  );
});

t.test(
  'makes tables in databases of UTF-8 alone, and goes on in others that have them',
  async (t) => {
    const root = server.urlOf('postgres');
    const latin = server.urlOf('latin');
    const create = (name: string, encoding: string): string =>
      `CREATE DATABASE ${name} ENCODING '${encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0`;
    await run(root, create('latin', 'LATIN1'), create('bytes', 'SQL_ASCII'));
    t.match(await refusedStart(latin), /encoding LATIN1, .* Create it with ENCODING 'UTF8'/);
    t.match(await refusedStart(server.urlOf('bytes')), /encoding SQL_ASCII/);
    // A release before this check made the tables.
    const tables = 'CREATE TABLE schema_migrations (name text PRIMARY KEY, applied_at timestamptz)';
    await run(latin, tables);
    await run(latin, 'ALTER TABLE schema_migrations ALTER applied_at SET DEFAULT now()');
    await started(t, latin);
  },
);

t.test('says that a start waits for a synchronous standby', async (t) => {
  const url = await server.database();
  await started(t, url);
  const root = server.urlOf('postgres');
  await run(root, `ALTER SYSTEM SET synchronous_standby_names = 'absent'`, RELOAD);
  const refused = await refusedStart(url);
  await run(root, 'ALTER SYSTEM RESET synchronous_standby_names', RELOAD);
  t.match(refused, /wait for a synchronous standby \(TL002\)\. Start the standby/);
});

t.test('logs that a start waits for the tables', async (t) => {
  const url = await server.database();
  const other = new pg.Client({ connectionString: url });
  await other.connect();
  t.teardown(() => other.end());
  await other.query('SELECT pg_advisory_lock(7227322001)');
  const logger = recordingLogger();
  const host = fakeHost({ services: [offer(HEALTH_REGISTRY, createHealth(systemClock))] });
  const after: Clock['after'] = (ms, callback) =>
    systemClock.after(ms === 10_000 ? 10 : ms, callback);
  const clock = { ...systemClock, after };
  const settings = testSettings('extension', 'postgres', { host, clock, logger });
  const extension = (await postgres.create(settings, config.parse({ url }))) as Extension;
  t.teardown(() => extension.shutdown(AbortSignal.timeout(1000)));
  const starting = extension.start();
  await until(() => logger.lines.some(({ message }) => message.includes('not up to date yet')));
  await other.query('SELECT pg_advisory_unlock(7227322001)');
  await starting;
});

t.test('refuses tables of a newer version and changes nothing in them', async (t) => {
  const url = await server.database();
  const current = await extensionOn(url);
  await current.start();
  await current.shutdown(AbortSignal.timeout(1000));
  const owner = new pg.Client({ connectionString: url });
  await owner.connect();
  t.teardown(() => owner.end());
  const applied = async () => (await owner.query('SELECT * FROM schema_migrations')).rows;
  const ofThisVersion = await applied();
  t.same(
    ofThisVersion.map(({ name }) => name),
    MIGRATIONS.map(({ name }) => name),
  );
  await owner.query("INSERT INTO schema_migrations (name) VALUES ('0099-later'), ('0098-newer')");
  // A missing migration must not be applied to tables of another version.
  await owner.query("DELETE FROM schema_migrations WHERE name = '0005-leases'");
  const before = await applied();
  const newest = MIGRATIONS.at(-1)?.name;
  for (const migrate of ['auto', 'off']) {
    const older = await extensionOn(url, { migrate });
    await t.rejects(older.start(), {
      name: 'NewerDataError',
      code: 'newer_data',
      message: new RegExp(
        `newer version .* \\(0098-newer, 0099-later\\); .* up to ${newest}\\. Start`,
      ),
    });
    await older.shutdown(AbortSignal.timeout(1000));
    t.same(await applied(), before, migrate);
  }
  await owner.query("DELETE FROM schema_migrations WHERE name LIKE '009%'");
  await owner.query("INSERT INTO schema_migrations (name) VALUES ('0005-leases')");
  await started(t, url);
});

t.test('removes the body of a batch that left all queues, and no other', async (t) => {
  const url = await server.database();
  const storage = await started(t, url);
  const queue = await storage.openQueue(QUEUE);
  const long = Date.now() - 3_600_000;
  for (let i = 0; i < 3; i++) await queue.append(nativeBatch(1, { receivedAt: long + i }));
  const [first, second] = await queue.lease('a', 2, 1e9);
  if (first === undefined || second === undefined) throw new Error('nothing was leased');
  await queue.ack('a', [first]);
  await queue.deadLetter('a', second, { code: 'x', message: 'y' });
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  t.teardown(() => client.end());
  const left = async () => (await client.query('SELECT id FROM batches')).rows.length;
  for (let i = 0; i < 200 && (await left()) !== 2; i++) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  t.equal(await left(), 2, 'one waits, one is a dead letter');
});

t.test(
  'rejects an append soon while Postgres is frozen or away, and accepts the next one after',
  async (t) => {
    const url = await server.database();
    const storage = await started(t, url, {
      ...{ connect_timeout: '300ms', timeouts: { accept: '300ms' } },
    });
    const queue = await storage.openQueue(QUEUE);
    const refused = () =>
      t.rejects(queue.append(nativeBatch(1)), { name: 'RetryableError', code: 'storage_failed' });
    const works = async (): Promise<void> => {
      for (;;) {
        try {
          return await queue.append(nativeBatch(1));
        } catch {
          await new Promise((resolve) => setTimeout(resolve, 50));
        }
      }
    };
    await queue.append(nativeBatch(1));
    server.freeze();
    await refused();
    server.thaw();
    await works();
    await server.kill();
    await refused();
    const late = await extensionOn(url, { connect_timeout: '300ms' });
    await t.rejects(late.start(), { code: 'storage_failed' });
    await late.shutdown(AbortSignal.timeout(1000));
    await server.start();
    await works();
  },
);
