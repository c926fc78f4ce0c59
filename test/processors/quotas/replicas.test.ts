import { readFileSync } from 'node:fs';
import t, { type Test } from 'tap';
import { openRedis } from '../../../extensions/redis/connection.ts';
import { config as quotasConfig } from '../../../processors/quotas/config.ts';
import { createProcessor as createQuotasProcessor } from '../../../processors/quotas/processor.ts';
import { offer } from '../../../src/component/capability.ts';
import { systemClock } from '../../../src/component/clock.ts';
import { createHealth, HEALTH_REGISTRY } from '../../../src/component/health.ts';
import { Refusal, RetryableError } from '../../../src/model/errors.ts';
import { requestContext } from '../../../src/model/request-context.ts';
import type { RedisState } from '../../../src/redis/redis.ts';
import { REDIS } from '../../../src/redis/redis.ts';
import { STORE, type Store } from '../../../src/store/store.ts';
import { SHARED_LEDGER } from '../../../src/tenancy/shared-ledger.ts';
import { aTenant, nativeBatch, received } from '../../helper/batches.ts';
import { fakeClock } from '../../helper/clock.ts';
import { memoryOrganization, memoryProjects } from '../../helper/counters.ts';
import { NO_DEADLINE } from '../../helper/http.ts';
import { redisServer } from '../../helper/redis-server.ts';
import { fakeHost, recordingLogger, testSettings } from '../../helper/settings.ts';
import { memoryLedger } from '../../helper/shared-ledger.ts';
import { aHead } from '../../helper/sink.ts';

const HOUR = 3_600_000;
/** Windows in Redis end by its own clock, so the tests live in the present: in the middle of an hour. */
const NOW = Math.floor(Date.now() / HOUR) * HOUR + HOUR / 2;

/** What all replicas share: a Redis, the plan and the ledger of their store. */
async function shared(t: Test) {
  const server = await redisServer(t);
  const organization = memoryOrganization();
  const projects = memoryProjects();
  const ledger = memoryLedger();

  async function replica(url = server.url) {
    const clock = fakeClock(NOW);
    const health = createHealth(clock);
    health.enter('running');
    const redis = await openRedis({
      ...{ url, keyPrefix: 'test', commandTimeout: 500, cluster: false },
      ...{ tls: undefined, sentinel: undefined, clock: systemClock, logger: recordingLogger() },
    });
    t.teardown(() => redis.close());
    const store = { organization: organization.store, projects: projects.store } as Store;
    const host = fakeHost({
      services: [offer(HEALTH_REGISTRY, health)],
      extensions: {
        postgres: [offer(STORE, store), offer(SHARED_LEDGER, ledger)],
        redis: [offer(REDIS, redis)],
      },
    });
    const settings = testSettings('processor', 'quotas', { clock, host });
    const config = quotasConfig.parse({ store: 'postgres', counters: 'redis' });
    const processor = createQuotasProcessor(settings, config);
    await processor.start();
    t.teardown(() => processor.shutdown(NO_DEADLINE));
    const stateOf = (is: (state: RedisState) => boolean) =>
      new Promise<void>((resolve) => {
        const stop = redis.onState((state) => {
          if (is(state)) resolve(stop());
        });
        if (is(redis.state())) resolve(stop());
      });

    /** One request with so many events; what is admitted becomes durable. */
    async function send(events: number): Promise<string> {
      try {
        await processor.admit?.(aHead({ receivedAt: clock.now() }), aTenant());
        const batch = received(nativeBatch(events, { receivedAt: clock.now() }));
        const request = requestContext();
        await processor.process?.(batch, request);
        const { id: batchId, tenant } = batch;
        const { at = 0, epoch = 0, ...usage } = request.reserved ?? { events: 0, bytes: 0 };
        if (!ledger.enter({ batchId, tenant, usage, at }, at, epoch)) return 'void';
        request.isUsageEntered = true;
        processor.settle?.(batch, 'durable', request);
        return 'ok';
      } catch (error) {
        if (error instanceof Refusal || error instanceof RetryableError) return error.code;
        throw error;
      }
    }
    return { clock, health, redis, stateOf, send };
  }
  return { server, organization, projects, ledger, replica };
}

t.test('a plan that changes while they run holds in every replica within 5 s', async (t) => {
  const { organization, projects, replica } = await shared(t);
  organization.change({ eventsPerMonth: 10 }, true);
  const [a, b] = [await replica(), await replica()];
  t.equal(await a.send(10), 'ok');
  t.equal(await b.send(1), 'monthly_limit');
  const inSeconds = async (): Promise<void> => {
    for (const { clock } of [a, b]) clock.advance(5_000);
    await new Promise(setImmediate);
  };
  // Nobody was told: the notice was lost, or came by a way that loses them all.
  organization.change({ eventsPerMonth: 20 }, true);
  await inSeconds();
  t.equal(await b.send(9), 'ok', 'more');
  t.equal(await a.send(2), 'monthly_limit');
  organization.change({ eventsPerMonth: 19 }, true);
  await inSeconds();
  t.same([await a.send(1), await b.send(1)], ['monthly_limit', 'monthly_limit'], 'less');
  organization.change({ eventsPerMonth: null }, true);
  projects.limit('proj_test', { eventsPerMonth: 21 }, true);
  await inSeconds();
  t.equal(await a.send(2), 'ok');
  t.equal(await b.send(1), 'monthly_limit', 'that of a project');
});

t.test('while Redis is away no request is admitted, and the process is not ready', async (t) => {
  const { server, replica } = await shared(t);
  const one = await replica();
  const report = () => one.health.report(true);
  t.equal(await one.send(1), 'ok');
  t.match(report(), { ready: true, components: [{ details: { redis_connected: true } }] });
  await server.kill();
  await one.stateOf(({ connected }) => !connected);
  t.equal(await one.send(1), 'redis_failed');
  t.match(report(), { ready: false, components: [{ id: 'quotas', message: /^Redis is away/ }] });
  await server.start();
  await one.stateOf(({ connected }) => connected);
  t.match(report(), { ready: true });
  one.clock.advance(1_000);
  t.equal(await one.send(1), 'ok', 'counters are summed up from the ledger');
});

t.test(
  'a Redis that freezes takes the process out of rotation, and thawed puts it back',
  async (t) => {
    const { server, replica } = await shared(t);
    const one = await replica();
    t.equal(await one.send(1), 'ok');
    server.freeze();
    t.teardown(() => server.thaw());
    t.equal(await one.send(1), 'redis_failed');
    await one.stateOf(({ connected }) => !connected);
    t.match(one.health.report(false), { ready: false });
    server.thaw();
    await one.stateOf(({ connected }) => connected);
    t.match(one.health.report(false), { ready: true });
  },
);

t.test('a Redis that may drop counters is told as unhealthy', async (t) => {
  const { server, replica } = await shared(t);
  await server.config('maxmemory-policy', 'volatile-lru');
  const one = await replica();
  t.match(one.health.report(false), {
    ready: true,
    components: [{ id: 'quotas', healthy: false, message: /volatile-lru/ }],
  });
});

t.test('a user of Redis that may do what the README of redis says may count', async (t) => {
  const { server, replica } = await shared(t);
  const readme = readFileSync('extensions/redis/README.md', 'utf8');
  const [, rules = ''] = /ACL SETUSER tracectl (.*)/.exec(readme) ?? [];
  const own = rules.replaceAll('{tracectl}', '{test}').split(' ');
  await server.client.call('ACL', 'SETUSER', 'tracectl', ...own);
  const one = await replica(server.url.replace('redis://', 'redis://tracectl:password@'));
  t.equal(await one.send(1), 'ok');
  one.clock.advance(5_000);
  t.equal(await one.send(1), 'ok');
  t.same(await server.client.call('ACL', 'LOG'), [], 'nothing was denied');
});

t.test('while the plan cannot be read the process is not ready', async (t) => {
  const { organization, replica } = await shared(t);
  organization.failWith(new RetryableError('storage_failed', 'away'));
  const one = await replica();
  t.match(one.health.report(false), { ready: false, components: [{ message: /plan/ }] });
  t.equal(await one.send(1), 'starting');
  organization.failWith(undefined);
  one.clock.advance(1_000);
  await new Promise(setImmediate);
  t.match(one.health.report(false), { ready: true });
  t.equal(await one.send(1), 'ok');
});

t.test('whatever key of the counters Redis drops, no limit is exceeded by it', async (t) => {
  const { server, organization, ledger, replica } = await shared(t);
  organization.change({ eventsPerMonth: 1000 }, true);
  const one = await replica();
  await one.send(1);
  const names = await server.client.keys('*');
  const roles = names.map((name) => name.split(':')[3] ?? '').sort();
  t.same(roles, ['hour', 'leases', 'month', 'reserved', 'state']);
  let sum = 1;
  for (const name of names) {
    await server.client.del(name);
    organization.change({ eventsPerMonth: sum + 3 }, false);
    one.clock.advance(1_000);
    t.equal(await one.send(4), 'monthly_limit', `${name}: not one more`);
    t.equal(await one.send(3), 'ok', `${name}: not one less`);
    sum += 3;
  }
  const entered = [...ledger.entries.values()].reduce((all, { usage }) => all + usage.events, 0);
  t.equal(entered, sum);
});
