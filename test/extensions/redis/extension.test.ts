import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import t from 'tap';
import { config } from '../../../extensions/redis/config.ts';
import { redisCluster, redisServer } from '../../helper/redis-server.ts';
import { FAILED, startRedis, stateOf } from './starting.ts';

t.test('commands and scripts run; keys begin with a hash tag', async (t) => {
  const server = await redisServer(t);
  const { redis } = await startRedis(t, { url: server.url });
  t.equal(redis.key('a', 'b'), '{tracectl}:a:b');
  const script = redis.script("return redis.call('INCRBY', KEYS[1], ARGV[1])");
  t.equal(await script.run([redis.key('n')], [2]), 2);
  await server.client.script('FLUSH');
  t.equal(await script.run([redis.key('n')], [3]), 5, 'a script that Redis forgot is sent again');
  t.equal(await redis.run((client) => client.get('{tracectl}:n')), '5');
  const broken = redis.script('return redis.call("GET", "a", "b")');
  await t.rejects(broken.run([], []), FAILED);
});

t.test('without Redis commands fail at once, and go on when it is back', async (t) => {
  const server = await redisServer(t);
  const { redis, health } = await startRedis(t, { url: server.url });
  const component = () => health.report(true).components[0];
  t.match(component(), { healthy: true, details: { maxmemory_policy: 'noeviction' } });
  await server.kill();
  await stateOf(redis, ({ connected }) => !connected);
  await t.rejects(
    redis.run((client) => client.get('a')),
    FAILED,
  );
  t.match(component(), { healthy: false, message: 'Redis cannot be reached.' });
  await server.start();
  await stateOf(redis, ({ connected }) => connected);
  t.equal(await redis.run((client) => client.get('a')), null);
  t.match(component(), { healthy: true });
});

t.test('a Redis that is not there at the start is waited for', async (t) => {
  const server = await redisServer(t);
  await server.kill();
  const { redis } = await startRedis(t, { url: server.url });
  t.equal(redis.state().connected, false);
  await server.start();
  await stateOf(redis, ({ connected }) => connected);
  t.equal(await redis.run((client) => client.get('a')), null);
});

t.test('a connection that ended for good is made anew', async (t) => {
  const server = await redisServer(t);
  const { redis } = await startRedis(t, { url: server.url });
  redis.client.disconnect();
  await stateOf(redis, ({ connected }) => !connected);
  await stateOf(redis, ({ connected }) => connected);
  t.equal(await redis.run((client) => client.get('a')), null);
});

t.test('a Redis that is silent fails a command within its time-out', async (t) => {
  const server = await redisServer(t);
  const { redis } = await startRedis(t, { url: server.url, command_timeout: '100ms' });
  server.freeze();
  await t.rejects(
    redis.run((client) => client.get('a')),
    FAILED,
  );
  server.thaw();
  await stateOf(redis, ({ connected }) => connected);
});

t.test('a full Redis is told from one that is away', async (t) => {
  const server = await redisServer(t);
  const { redis } = await startRedis(t, { url: server.url });
  await server.config('maxmemory', '1');
  await t.rejects(
    redis.run((client) => client.set('a', 'b')),
    { code: 'redis_full' },
  );
});

t.test('a password that is wrong is told, and one that is made right is taken', async (t) => {
  const server = await redisServer(t);
  await server.client.call('ACL', 'SETUSER', 'gateway', 'on', '>old', '~*', '&*', '+@all');
  const url = server.url.replace('redis://', 'redis://gateway:new@');
  const { redis, health, settings } = await startRedis(t, { url });
  t.equal(redis.state().connected, false);
  t.match(health.report(true).components[0]?.details?.reason, /WRONGPASS/);
  t.notMatch(JSON.stringify(settings.logger.lines), /gateway:new/);
  await server.client.call('ACL', 'SETUSER', 'gateway', '>new');
  await stateOf(redis, ({ connected }) => connected);
  t.equal(await redis.run((client) => client.get('a')), null);
});

t.test('a Redis that hangs up on everybody is told once, and why that may be', async (t) => {
  let hungUp = 0;
  const enough = Promise.withResolvers<void>();
  // As Redis in protected mode does to other machines.
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.write(
      '-DENIED Redis is running in protected mode because no password is set\r\n',
      () => {
        socket.resetAndDestroy();
        if (++hungUp === 4) enough.resolve();
      },
    );
  }).listen(0, '127.0.0.1');
  t.teardown(() => server.close());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const { health, settings } = await startRedis(t, { url: `redis://127.0.0.1:${port}` });
  await enough.promise;
  t.match(health.report(true).components[0]?.details?.reason, /protected mode/);
  const told = settings.logger.lines.filter(({ message }) => message === 'Redis cannot be reached');
  t.match(told, [{ fields: { reason: /protected mode/ } }]);
  t.equal(told.length, 1);
});

t.test('messages of a channel reach its listeners, also after Redis was away', async (t) => {
  const server = await redisServer(t);
  const { redis } = await startRedis(t, { url: server.url });
  let heard = (_: string): void => {};
  const stop = redis.subscribe('keys', (message) => heard(message));
  const hear = async (): Promise<string> => {
    const message = new Promise<string>((resolve) => {
      heard = resolve;
    });
    while ((await server.client.publish('{tracectl}:keys', 'changed')) === 0);
    return message;
  };
  t.equal(await hear(), 'changed');
  await server.kill();
  await server.start();
  await stateOf(redis, ({ connected }) => connected);
  t.equal(await hear(), 'changed');
  stop();
});

t.test('keys of one script are in one slot of a Cluster', async (t) => {
  const server = await redisCluster(t);
  const { redis } = await startRedis(t, { url: server.url, cluster: true });
  await stateOf(redis, ({ connected }) => connected);
  const script = redis.script("redis.call('SET', KEYS[1], 1) return redis.call('GET', KEYS[2])");
  t.equal(await script.run([redis.key('a'), redis.key('b')], []), null);
  t.equal(await redis.run((client) => client.get(redis.key('a'))), '1');
});

t.test('a configuration that cannot work is refused', async (t) => {
  const parse = (options: Record<string, unknown>) => config.safeParse(options).success;
  t.equal(parse({ url: 'redis://localhost' }), true);
  t.equal(parse({ url: 'http://localhost' }), false);
  t.equal(parse({ url: 'redis://localhost', command_timeout: '5s' }), false);
  t.equal(parse({ url: 'redis://localhost', key_prefix: '{a}' }), false);
  const sentinel = { name: 'main', addresses: ['a:26379'] };
  t.equal(parse({ url: 'redis://localhost', sentinel }), true);
  t.equal(parse({ url: 'redis://localhost', sentinel, cluster: true }), false);
  t.equal(parse({ url: 'rediss://localhost', tls: { cert_file: 'a' } }), false);
});
