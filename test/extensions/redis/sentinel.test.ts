import { join } from 'node:path';
import t from 'tap';
import type { RedisConnection } from '../../../src/redis/redis.ts';
import type { SentinelSetup } from '../../helper/sentinels.ts';
import { sentinelSetup } from '../../helper/sentinels.ts';
import { startRedis, stateOf } from './starting.ts';

// A failover takes Sentinels some seconds.
t.setTimeout(120_000);

const CA = join(import.meta.dirname, '../../fixtures/tls/ca.pem');

const at = ({ sentinels }: SentinelSetup) => ({
  url: 'redis://ignored',
  sentinel: { name: 'main', addresses: sentinels.map(({ address }) => address) },
});

/** The port of the server behind a connection. */
async function portOf(redis: RedisConnection): Promise<number> {
  const info = await redis.run((client) => client.info('server'));
  return Number(/tcp_port:(\d+)/.exec(info)?.[1]);
}

/** Resolves when the connection is to the server on this port. */
async function moved(redis: RedisConnection, port: number): Promise<void> {
  for (;;) {
    if ((await portOf(redis).catch(() => 0)) === port) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

t.test('moves every connection to the new primary when the primary dies', async (t) => {
  const setup = await sentinelSetup(t);
  const { primary, replica } = setup;
  const { redis } = await startRedis(t, at(setup));
  t.equal(await portOf(redis), primary.port);
  await redis.run((client) => client.set('{tracectl}:a', 'kept'));
  await redis.run((client) => client.call('WAIT', '1', '0'));
  const blocking = redis.duplicate();
  blocking.on('error', () => {});
  t.teardown(() => blocking.disconnect());
  const popped = blocking.blpop('{tracectl}:list', 0);
  let heard = (_: string): void => {};
  redis.subscribe('keys', (message) => heard(message));
  await primary.kill();
  await setup.isPrimary(replica);
  await stateOf(redis, ({ connected }) => connected);
  t.equal(await portOf(redis), replica.port);
  t.equal(await redis.run((client) => client.get('{tracectl}:a')), 'kept');
  await redis.run((client) => client.lpush('{tracectl}:list', 'b'));
  t.same(await popped, ['{tracectl}:list', 'b'], 'a blocking command blocks on the new primary');
  const message = new Promise<string>((resolve) => {
    heard = resolve;
  });
  while ((await replica.client.publish('{tracectl}:keys', 'changed')) === 0);
  t.equal(await message, 'changed');
  await primary.start();
  await primary.client.ping();
  const again = redis.duplicate();
  t.teardown(() => again.disconnect());
  t.equal(await again.get('{tracectl}:a'), 'kept');
  t.match(
    await again.info('server'),
    `tcp_port:${replica.port}`,
    'a new connection is to the new primary',
  );
});

async function until(is: () => Promise<boolean>): Promise<void> {
  while (!(await is().catch(() => false))) await new Promise((resolve) => setTimeout(resolve, 20));
}

t.test('moves to the new primary when a living primary hands over', async (t) => {
  const setup = await sentinelSetup(t, { count: 1 });
  const { redis } = await startRedis(t, at(setup));
  // Until the Sentinel knows the replica it rejects the command.
  await until(
    async () => (await setup.sentinels[0]?.client.call('SENTINEL', 'FAILOVER', 'main')) === 'OK',
  );
  await setup.isPrimary(setup.replica);
  await moved(redis, setup.replica.port);
  t.equal(await redis.run((client) => client.set('{tracectl}:a', 'b')), 'OK');
});

t.test('leaves a primary that answers its clients but not the Sentinels', async (t) => {
  const setup = await sentinelSetup(t, { count: 1 });
  const { primary, replica } = setup;
  const { redis } = await startRedis(t, at(setup));
  // Existing connections go on; new connections fail, those of the Sentinel too.
  await primary.client.call('ACL', 'SETUSER', 'default', 'resetpass', '>closed');
  const clients = String(await primary.client.call('CLIENT', 'LIST'));
  for (const [, id] of clients.matchAll(/^id=(\d+) .*name=sentinel-/gm)) {
    await primary.client.call('CLIENT', 'KILL', 'ID', id ?? '');
  }
  await setup.isPrimary(replica);
  await moved(redis, replica.port);
  t.ok(
    (await primary.client.info()).includes('role:master'),
    'the previous primary still considers itself the primary',
  );
});

t.test('skips Sentinels that are away or silent', async (t) => {
  const setup = await sentinelSetup(t);
  const [silent, dead] = setup.sentinels;
  await dead?.kill();
  silent?.freeze();
  t.teardown(() => silent?.thaw());
  const { redis } = await startRedis(t, at(setup));
  await stateOf(redis, ({ connected }) => connected);
  t.equal(await portOf(redis), setup.primary.port);
});

t.test('reports unreachable Sentinels, and connects when one is back', async (t) => {
  const setup = await sentinelSetup(t, { count: 1 });
  const [sentinel] = setup.sentinels;
  await sentinel?.kill();
  const { redis, health } = await startRedis(t, at(setup));
  t.equal(redis.state().connected, false);
  t.match(health.report(true).components[0]?.details?.reason, /sentinels are unreachable/);
  await sentinel?.start();
  await stateOf(redis, ({ connected }) => connected);
  t.equal(await portOf(redis), setup.primary.port);
});

t.test('uses TLS for Sentinels and servers with rediss://', async (t) => {
  const isSecure = { isSecure: true };
  const setup = await sentinelSetup(t, { count: 1, servers: isSecure, watchers: isSecure });
  const options = { ...at(setup), url: 'rediss://ignored' };
  const { redis } = await startRedis(t, { ...options, tls: { ca_file: CA } });
  await stateOf(redis, ({ connected }) => connected);
  t.equal(await redis.run((client) => client.set('{tracectl}:a', 'b')), 'OK');
  const stranger = await startRedis(t, options);
  t.equal(
    stranger.redis.state().connected,
    false,
    'a client without the authority does not connect',
  );
});

t.test('uses separate passwords for Sentinels and servers', async (t) => {
  const setup = await sentinelSetup(t, {
    count: 1,
    servers: { password: 'of-redis' },
    watchers: { password: 'of-sentinels' },
  });
  const { url, sentinel } = at(setup);
  const { redis } = await startRedis(t, {
    url: url.replace('redis://', 'redis://:of-redis@'),
    sentinel: { ...sentinel, password: 'of-sentinels' },
  });
  await stateOf(redis, ({ connected }) => connected);
  t.equal(await portOf(redis), setup.primary.port);
});
