import { once } from 'node:events';
import { mkdirSync, rmdirSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { config } from '../../../extensions/redis/config.ts';
import { redisCluster, redisServer } from '../../helper/redis-server.ts';
import { until } from '../../helper/until.ts';
import { FAILED, startRedis, stateOf } from './starting.ts';

t.test('runs commands and scripts, with a hash tag at the start of every key', async (t) => {
  const server = await redisServer(t);
  const { redis } = await startRedis(t, { url: server.url });
  t.equal(redis.key('a', 'b'), '{tracectl}:a:b');
  const script = redis.script("return redis.call('INCRBY', KEYS[1], ARGV[1])");
  t.equal(await script.run([redis.key('n')], [2]), 2);
  await server.client.script('FLUSH');
  t.equal(
    await script.run([redis.key('n')], [3]),
    5,
    'sends a script again that Redis does not know any more',
  );
  t.equal(await redis.run((client) => client.get('{tracectl}:n')), '5');
  const broken = redis.script('return redis.call("GET", "a", "b")');
  await t.rejects(broken.run([], []), FAILED);
});

t.test('fails commands while Redis is away, and runs them after it is back', async (t) => {
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

t.test('starts without Redis and connects when it is up', async (t) => {
  const server = await redisServer(t);
  await server.kill();
  const { redis } = await startRedis(t, { url: server.url });
  t.equal(redis.state().connected, false);
  await server.start();
  await stateOf(redis, ({ connected }) => connected);
  t.equal(await redis.run((client) => client.get('a')), null);
});

t.test('reconnects after the client of the library has ended', async (t) => {
  const server = await redisServer(t);
  const { redis } = await startRedis(t, { url: server.url });
  redis.client.disconnect();
  await stateOf(redis, ({ connected }) => !connected);
  await stateOf(redis, ({ connected }) => connected);
  t.equal(await redis.run((client) => client.get('a')), null);
});

t.test('fails a command within its time-out if Redis does not answer', async (t) => {
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

t.test('reconnects once for many refusals of a replica, and writes after a failover', async (t) => {
  const server = await redisServer(t);
  const { redis, health, settings } = await startRedis(t, { url: server.url });
  const connections = async () => {
    const stats = await server.client.info('stats');
    return Number(/total_connections_received:(\d+)/.exec(stats)?.[1]);
  };
  await server.client.replicaof('127.0.0.1', 1);
  const before = await connections();
  const isRefused = () => redis.run((client) => client.set('a', 'b')).catch(() => 'refused');
  for (let refusals = 0; refusals < 100; ) {
    await isRefused();
    const stats = await server.client.info('errorstats');
    refusals = Number(/errorstat_READONLY:count=(\d+)/.exec(stats)?.[1] ?? 0);
  }
  const made = (await connections()) - before;
  t.ok(made > 0 && made < 20, `${made} connections for 100 refusals`);
  t.match(health.report(true).components[0], { message: /is a replica and refuses writes/ });
  const refused = settings.logger.lines.filter(({ message }) => /refuses/.test(message));
  t.match(refused, [{ fields: { reason: /READONLY/ } }]);
  await server.client.replicaof('NO', 'ONE');
  while ((await isRefused()) !== 'OK');
});

t.test('names a refusal of a command', async (t) => {
  const server = await redisServer(t);
  const { redis, health } = await startRedis(t, { url: server.url });
  for (const [rule, message] of [
    ['-set', /denies a command to its user/],
    ['+set', /answers a command with an error/],
  ] as const) {
    await server.client.call('ACL', 'SETUSER', 'default', rule);
    await server.client.rpush('list', 'a');
    await t.rejects(
      redis.run((client) => (rule === '-set' ? client.set('a', 'b') : client.hget('list', 'a'))),
      { code: 'redis_failed', message: 'Redis refuses the command' },
    );
    t.match(health.report(true).components[0], { healthy: false, message });
  }
});

t.test('names a Cluster that a configuration takes for one server, and the reverse', async (t) => {
  const cluster = await redisServer(t, ['--cluster-enabled', 'yes']);
  const single = await startRedis(t, { url: cluster.url });
  const set = () => single.redis.run((client) => client.set('a', 'b'));
  await t.rejects(set(), { code: 'redis_failed' });
  t.match(single.health.report(true).components[0], { message: /The Redis Cluster serves no/ });
  single.redis.failed(Object.assign(new Error('MOVED 1 a:1'), { name: 'ReplyError' }));
  t.match(single.health.report(true).components[0], {
    message: /node of a Cluster: set `cluster`/,
  });
  const server = await redisServer(t);
  const several = await startRedis(t, { url: server.url, cluster: true });
  t.equal(several.redis.state().connected, false);
  t.match(several.redis.state().reason, /cluster support disabled/);
});

t.test('uses no other database if Redis refuses the one of the URL', async (t) => {
  const server = await redisServer(t, ['--databases', '4']);
  const { redis, health, settings } = await startRedis(t, { url: `${server.url}/9` });
  const waiting = redis.duplicate();
  t.teardown(() => waiting.disconnect());
  const refused: unknown[] = [];
  waiting.on('error', (error) => refused.push(error));
  waiting.rpush('waits', 'a').catch(() => {});
  await t.rejects(
    redis.run((client) => client.set('a', 'b')),
    FAILED,
  );
  await until(() => refused.length > 4);
  t.equal(await server.client.dbsize(), 0, 'nothing is in database 0');
  t.match(health.report(true).components[0], {
    ...{ healthy: false, message: 'Redis cannot be reached.' },
    details: { reason: 'ERR DB index is out of range' },
  });
  const logged = settings.logger.lines.filter(({ message }) => /cannot be reached/.test(message));
  t.equal(logged.length, 1, 'the reason is logged once');
});

t.test('reports a user that may not read INFO', async (t) => {
  const server = await redisServer(t);
  const rules = ['on', '>secret', '~*', '&*', '+@all', '-info'];
  await server.client.call('ACL', 'SETUSER', 'gateway', ...rules);
  const url = server.url.replace('redis://', 'redis://gateway:secret@');
  const { redis, health } = await startRedis(t, { url });
  t.equal(redis.state().connected, false);
  t.match(health.report(true).components[0]?.details?.reason, /NOPERM.*'info'/);
  await server.client.call('ACL', 'SETUSER', 'gateway', '+info');
  await stateOf(redis, ({ connected }) => connected);
  t.equal(redis.state().reason, undefined);
});

t.test('reports a full Redis with a code of its own', async (t) => {
  const server = await redisServer(t);
  const { redis } = await startRedis(t, { url: server.url });
  await server.config('maxmemory', '1');
  await t.rejects(
    redis.run((client) => client.set('a', 'b')),
    { code: 'redis_full' },
  );
});

t.test('reports a wrong password, and connects when the password is valid', async (t) => {
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

t.test('logs a server that closes every connection once, with its reason', async (t) => {
  for (const [said, reason] of [
    [
      '-DENIED Redis is running in protected mode because no password is set\r\n',
      /^Redis is in protected mode: /,
    ],
    ['-ERR this proxy is closed\r\n', /^Redis closes the connection: ERR this proxy is closed$/],
    ['', /^Redis closes the connection at once: it may be at its maxclients, /],
  ] as const) {
    const server = createServer((socket) => {
      socket.on('error', () => {});
      // A command that the server does not read makes the system reset the connection.
      socket.once('data', () => socket.resetAndDestroy());
      if (said !== '') socket.write(said);
    }).listen(0, '127.0.0.1');
    t.teardown(() => server.close());
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const { health, settings } = await startRedis(t, { url: `redis://127.0.0.1:${port}` });
    const reasonOf = () => health.report(true).components[0]?.details?.reason;
    await until(() => reasonOf() !== undefined);
    t.match(reasonOf(), reason);
    await new Promise((resolve) => server.once('connection', resolve));
    t.match(settings.logger.lines, [{ message: 'Redis cannot be reached', fields: { reason } }]);
  }
});

t.test('names a server that accepts no further connection, and connects later', async (t) => {
  const server = await redisServer(t);
  await server.config('maxclients', '1');
  const first = await startRedis(t, { url: server.url });
  const full = /accepts no further connection: it is at its maxclients/;
  await until(() => full.test(String(first.redis.state().reason)));
  await server.config('maxclients', '2');
  await stateOf(first.redis, ({ connected }) => connected);
  const connection = first.redis.duplicate();
  t.teardown(() => connection.disconnect());
  await until(() => full.test(String(first.redis.state().refuses)));
  t.match(first.health.report(true).components[0], { healthy: false, message: full });
  const logged = first.settings.logger.lines.filter(({ level }) => level === 'warn');
  t.match(logged, [
    { message: 'Redis cannot be reached', fields: { reason: full } },
    { message: 'Redis refuses a connection', fields: { reason: full } },
  ]);
  t.equal(await first.redis.run((client) => client.set('a', 'b')), 'OK', 'its own is served');
  await server.config('maxclients', '3');
  t.equal(await connection.get('a'), 'b');
});

t.test('reports a server that loads its data, and uses it soon after', async (t) => {
  const slow = ['--key-load-delay', '100', '--appendonly', 'yes'];
  const server = await redisServer(t, slow);
  const { redis, settings } = await startRedis(t, { url: server.url });
  const filling = server.client.pipeline();
  for (let i = 0; i < 12_000; i++) filling.set(`key ${i}`, 'x');
  await filling.exec();
  await server.kill();
  const started = server.start();
  await until(() => /loads its data/.test(String(redis.state().reason)));
  await t.rejects(
    redis.run((client) => client.set('a', 'b')),
    FAILED,
  );
  await started;
  await stateOf(redis, ({ connected }) => connected);
  t.equal(await redis.run((client) => client.set('a', 'b')), 'OK');
  const reasons = settings.logger.lines.flatMap(({ level, fields: { reason } }) =>
    level === 'warn' && !/ECONNREFUSED/.test(String(reason)) ? [reason] : [],
  );
  t.same(reasons, ['Redis loads its data from the disk']);
});

t.test('names a Redis that cannot save its data, and writes when it can', async (t) => {
  const server = await redisServer(t, ['--save', '3600 1']);
  const { redis, health } = await startRedis(t, { url: server.url });
  const [, directory] = (await server.client.config('GET', 'dir')) as string[];
  // A directory has the name of the snapshot.
  const snapshot = join(String(directory), 'dump.rdb');
  mkdirSync(snapshot);
  await server.client.set('a', 'b');
  await server.client.bgsave();
  const write = () => redis.run((client) => client.set('a', 'c'));
  await until(() =>
    write().then(
      () => false,
      () => true,
    ),
  );
  t.match(health.report(true).components[0], {
    healthy: false,
    message: 'Redis refuses writes because it could not save its data: see its log.',
  });
  t.equal(await redis.run((client) => client.get('a')), 'c', 'it reads');
  rmdirSync(snapshot);
  // The failed process of the snapshot may not be noted yet.
  await until(() =>
    server.client.bgsave().then(
      () => true,
      () => false,
    ),
  );
  await until(() =>
    write().then(
      () => true,
      () => false,
    ),
  );
});

t.test('survives a socket with two errors, as one of TLS may have', async (t) => {
  const server = await redisServer(t);
  const { redis } = await startRedis(t, { url: server.url });
  const first = redis.duplicate();
  await first.ping();
  if (!('stream' in first)) throw new Error('the client has no socket of its own');
  const copy = first.duplicate();
  copy.on('error', () => {});
  t.teardown(() => {
    first.disconnect();
    copy.disconnect();
  });
  await copy.ping();
  for (const { stream } of [first, copy]) {
    stream.emit('error', new Error('certificate required'));
    t.doesNotThrow(() => stream.emit('error', new Error('read ECONNRESET')));
  }
});

t.test('delivers messages of a channel to its listeners, also after an outage', async (t) => {
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
  const stopOther = redis.subscribe('keys', () => {});
  stopOther();
  t.equal(await hear(), 'changed', 'the end of another subscription');
  stop();
});

t.test('keeps the keys of one script in one slot of a Cluster', async (t) => {
  const server = await redisCluster(t);
  const { redis } = await startRedis(t, { url: server.url, cluster: true });
  await stateOf(redis, ({ connected }) => connected);
  const script = redis.script("redis.call('SET', KEYS[1], 1) return redis.call('GET', KEYS[2])");
  t.equal(await script.run([redis.key('a'), redis.key('b')], []), null);
  t.equal(await redis.run((client) => client.get(redis.key('a'))), '1');
});

t.test('rejects a configuration that cannot work', async (t) => {
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
