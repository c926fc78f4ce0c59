import pg from 'pg';
import t, { type Test } from 'tap';
import { config } from '../../../extensions/postgres/config.ts';
import { factory as postgres } from '../../../extensions/postgres/factory.ts';
import { findOffer, offer } from '../../../src/component/capability.ts';
import { systemClock } from '../../../src/component/clock.ts';
import type { Extension } from '../../../src/component/component.ts';
import { createHealth, HEALTH_REGISTRY } from '../../../src/component/health.ts';
import { QUEUE_STORAGE } from '../../../src/queue/queue.ts';
import { nativeBatch } from '../../helper/batches.ts';
import { postgresServer } from '../../helper/postgres-server.ts';
import { fakeHost, testSettings } from '../../helper/settings.ts';

const server = await postgresServer(t);
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
  if (storage === undefined) throw new Error('it offers no queues');
  return storage;
}

t.test('creates the tables once if processes start together', async (t) => {
  const url = await server.database();
  await Promise.all([started(t, url), started(t, url), started(t, url)]);
  const later = await started(t, url);
  const queue = await later.openQueue(QUEUE);
  await queue.append(nativeBatch(1));
  t.equal(queue.stats().branches[0]?.entries, 1);
});

t.test('works with a role that may not change tables, and reports missing tables', async (t) => {
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
});

t.test('removes a body that no queue needs, and no other', async (t) => {
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
  t.equal(await left(), 2, 'one waits, one is dead');
});

t.test(
  'refuses an append soon while Postgres is frozen or away, and accepts it afterwards',
  async (t) => {
    const url = await server.database();
    const storage = await started(t, url, { connect_timeout: '300ms', query_timeout: '300ms' });
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
