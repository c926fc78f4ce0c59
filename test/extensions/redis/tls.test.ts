import { join } from 'node:path';
import t, { type Test } from 'tap';
import { freePort } from '../../helper/free-ports.ts';
import { redisServer } from '../../helper/redis-server.ts';
import { FAILED, startRedis, stateOf } from './starting.ts';

const fixture = (name: string) => join(import.meta.dirname, '../../fixtures/tls', name);
const CA = { ca_file: fixture('ca.pem') };
const OWN = { cert_file: fixture('client.pem'), key_file: fixture('client.key') };

/** A Redis with a certificate for `localhost`, `127.0.0.1` and `gateway.test`. */
async function tlsServer(t: Test, clients: 'yes' | 'no' = 'no') {
  const port = await freePort();
  const files = ['--tls-cert-file', fixture('server.pem'), '--tls-key-file', fixture('server.key')];
  const server = await redisServer(t, [
    ...['--tls-port', `${port}`, '--tls-auth-clients', clients],
    ...['--tls-ca-cert-file', fixture('ca.pem'), ...files],
  ]);
  return { server, url: `rediss://127.0.0.1:${port}`, port };
}

t.test('runs commands, blocking commands and subscriptions over TLS', async (t) => {
  const { server, url } = await tlsServer(t);
  const { redis } = await startRedis(t, { url, tls: CA });
  t.equal(await redis.run((client) => client.set('{tracectl}:a', 'b')), 'OK');
  t.equal(await server.client.get('{tracectl}:a'), 'b');
  const blocking = redis.duplicate();
  t.teardown(() => blocking.disconnect());
  const popped = blocking.blpop('{tracectl}:list', 0);
  await server.client.lpush('{tracectl}:list', 'c');
  t.same(await popped, ['{tracectl}:list', 'c']);
  const heard = new Promise((resolve) => redis.subscribe('keys', resolve));
  while ((await server.client.publish('{tracectl}:keys', 'changed')) === 0);
  t.equal(await heard, 'changed');
});

t.test('sends no command to a server whose certificate it cannot verify', async (t) => {
  const { server, url, port } = await tlsServer(t);
  const { redis, health, settings } = await startRedis(t, { url });
  t.equal(redis.state().connected, false);
  await t.rejects(
    redis.run((client) => client.get('a')),
    FAILED,
  );
  t.match(health.report(true).components[0], { healthy: false });
  const warned = settings.logger.lines.find(({ level }) => level === 'warn');
  t.match(warned?.fields.reason, /certificate/, 'and the log says why');
  t.match(health.report(true).components[0]?.details?.reason, /certificate/);
  const elsewhere = { ...CA, server_name_override: 'elsewhere.test' };
  const other = await startRedis(t, { url, tls: elsewhere });
  t.equal(other.redis.state().connected, false, 'a certificate with another name');
  const plain = await startRedis(t, { url: `redis://127.0.0.1:${port}` });
  t.equal(plain.redis.state().connected, false, 'a plain connection to a TLS port');
  const seen = await server.client.info('commandstats');
  t.notMatch(seen, /cmdstat_get:/, 'no command arrived');
});

t.test('accepts a certificate for server_name_override', async (t) => {
  const { url } = await tlsServer(t);
  const named = await startRedis(t, { url, tls: { ...CA, server_name_override: 'gateway.test' } });
  t.equal(await named.redis.run((client) => client.get('a')), null);
  const unverified = await startRedis(t, { url, tls: { insecure_skip_verify: true } });
  t.equal(await unverified.redis.run((client) => client.get('a')), null);
});

t.test('shows its certificate to a server that asks for one', async (t) => {
  const { url } = await tlsServer(t, 'yes');
  const { redis } = await startRedis(t, { url, tls: { ...CA, ...OWN } });
  t.equal(await redis.run((client) => client.get('a')), null);
  const without = await startRedis(t, { url, tls: CA });
  t.equal(without.redis.state().connected, false);
});

t.test('uses TLS again after an outage', async (t) => {
  const { server, url } = await tlsServer(t);
  const { redis } = await startRedis(t, { url, tls: CA });
  await server.kill();
  await stateOf(redis, ({ connected }) => !connected);
  await server.start();
  await stateOf(redis, ({ connected }) => connected);
  t.equal(await redis.run((client) => client.get('a')), null);
});
