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
  url: 'redis://its-address-is-not-asked',
  sentinel: { name: 'main', addresses: sentinels.map(({ address }) => address) },
});

/** The port of the server that a connection talks to. */
async function portOf(redis: RedisConnection): Promise<number> {
  const info = await redis.run((client) => client.info('server'));
  return Number(/tcp_port:(\d+)/.exec(info)?.[1]);
}

/** Until a connection talks to this port. */
async function moved(redis: RedisConnection, port: number): Promise<void> {
  for (;;) {
    if ((await portOf(redis).catch(() => 0)) === port) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

t.test('when the primary dies, every connection finds the one that took over', async (t) => {
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
  t.same(await popped, ['{tracectl}:list', 'b'], 'what blocked blocks there');
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
  t.match(await again.info('server'), `tcp_port:${replica.port}`, 'the old one is left alone');
});

async function until(is: () => Promise<boolean>): Promise<void> {
  while (!(await is().catch(() => false))) await new Promise((resolve) => setTimeout(resolve, 20));
}

t.test('a primary that hands over while it lives is left', async (t) => {
  const setup = await sentinelSetup(t, { count: 1 });
  const { redis } = await startRedis(t, at(setup));
  // At first the Sentinel does not know yet that the replica is fit.
  await until(
    async () => (await setup.sentinels[0]?.client.call('SENTINEL', 'FAILOVER', 'main')) === 'OK',
  );
  await setup.isPrimary(setup.replica);
  await moved(redis, setup.replica.port);
  t.equal(await redis.run((client) => client.set('{tracectl}:a', 'b')), 'OK');
});

t.test('a primary that only the Sentinels gave up is left all the same', async (t) => {
  const setup = await sentinelSetup(t, { count: 1 });
  const { primary, replica } = setup;
  const { redis } = await startRedis(t, at(setup));
  // Connections that stand go on; nobody gets in any more, least of all the Sentinel.
  await primary.client.call('ACL', 'SETUSER', 'default', 'resetpass', '>closed');
  const clients = String(await primary.client.call('CLIENT', 'LIST'));
  for (const [, id] of clients.matchAll(/^id=(\d+) .*name=sentinel-/gm)) {
    await primary.client.call('CLIENT', 'KILL', 'ID', id ?? '');
  }
  await setup.isPrimary(replica);
  await moved(redis, replica.port);
  t.ok((await primary.client.info()).includes('role:master'), 'which does not know of it');
});

t.test('Sentinels that are away or silent are passed over', async (t) => {
  const setup = await sentinelSetup(t);
  const [silent, dead] = setup.sentinels;
  await dead?.kill();
  silent?.freeze();
  t.teardown(() => silent?.thaw());
  const { redis } = await startRedis(t, at(setup));
  await stateOf(redis, ({ connected }) => connected);
  t.equal(await portOf(redis), setup.primary.port);
});

t.test('Sentinels that nobody can reach are told, and waited for', async (t) => {
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

t.test(
  'with rediss:// the Sentinels and what they name are spoken to over TLS alone',
  async (t) => {
    const isSecure = { isSecure: true };
    const setup = await sentinelSetup(t, { count: 1, servers: isSecure, watchers: isSecure });
    const options = { ...at(setup), url: 'rediss://its-address-is-not-asked' };
    const { redis } = await startRedis(t, { ...options, tls: { ca_file: CA } });
    await stateOf(redis, ({ connected }) => connected);
    t.equal(await redis.run((client) => client.set('{tracectl}:a', 'b')), 'OK');
    const stranger = await startRedis(t, options);
    t.equal(stranger.redis.state().connected, false, 'who trusts nobody talks to nobody');
  },
);

t.test('Sentinels and servers may each want a password', async (t) => {
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
