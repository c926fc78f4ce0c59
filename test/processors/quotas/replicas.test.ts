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
/** The middle of the current hour: windows in Redis expire by its own clock. */
const NOW = Math.floor(Date.now() / HOUR) * HOUR + HOUR / 2;

/** Of the only organization, as in a store. */
const TENANT = aTenant({ organizationId: 'org_a' });

/** The parts that all replicas share: a Redis, and the plan and the ledger of their store. */
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

    /** Sends one request, which becomes durable if it is admitted. Resolves with its code. */
    async function send(events: number): Promise<string> {
      try {
        await processor.admit?.(aHead({ receivedAt: clock.now() }), TENANT);
        const batch = received(nativeBatch(events, { receivedAt: clock.now(), tenant: TENANT }));
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
    /** The gauge of the organization's events, as one scrape reads it. */
    const monthEvents = () =>
      settings.metrics.scraped('tracectl_quota_month_events', { organization: 'org_a' });
    return { clock, health, redis, stateOf, send, monthEvents };
  }
  return { server, organization, projects, ledger, replica };
}

t.test('applies a changed plan in every replica within 5 s', async (t) => {
  const { organization, projects, replica } = await shared(t);
  organization.change({ eventsPerMonth: 10 }, true);
  const [a, b] = [await replica(), await replica()];
  t.equal(await a.send(10), 'ok');
  t.equal(await b.send(1), 'monthly_limit');
  const inSeconds = async (): Promise<void> => {
    for (const { clock } of [a, b]) clock.advance(5_000);
    await new Promise(setImmediate);
  };
  // The change reaches no replica by a notice.
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
  t.equal(await b.send(1), 'monthly_limit', 'the limit of a project');
});

t.test('shows the usage of all replicas at the scrape, also after Redis lost it', async (t) => {
  const { server, replica } = await shared(t);
  const [a, b] = [await replica(), await replica()];
  t.equal(await a.monthEvents(), 0, 'the first scrape has a value');
  for (const sent of [1, 2, 3]) {
    t.equal(await a.send(1), 'ok');
    t.same([await a.monthEvents(), await b.monthEvents()], [sent, sent]);
  }
  await server.client.call('FLUSHALL');
  a.clock.advance(1_000);
  t.equal(await a.monthEvents(), 3, 'from the ledger');
  await server.kill();
  await a.stateOf(({ connected }) => !connected);
  t.equal(await a.monthEvents(), undefined, 'no value while Redis is away');
});

t.test('refuses every request and is not ready while Redis is away', async (t) => {
  const { server, replica } = await shared(t);
  const one = await replica();
  const report = () => one.health.report(true);
  t.equal(await one.send(1), 'ok');
  t.match(report(), { ready: true, components: [{ details: { redis_connected: true } }] });
  await server.kill();
  await one.stateOf(({ connected }) => !connected);
  t.equal(await one.send(1), 'redis_failed');
  t.match(report(), {
    ready: false,
    components: [{ id: 'quotas', message: /^Redis cannot be reached/ }],
  });
  await server.start();
  await one.stateOf(({ connected }) => connected);
  t.match(report(), { ready: true });
  one.clock.advance(1_000);
  t.equal(await one.send(1), 'ok', 'the counters are rebuilt from the ledger');
});

t.test('is not ready while Redis does not answer', async (t) => {
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
});

t.test('is unhealthy if Redis may evict counters', async (t) => {
  const { server, replica } = await shared(t);
  await server.config('maxmemory-policy', 'volatile-lru');
  const one = await replica();
  t.match(one.health.report(false), {
    ready: true,
    components: [{ id: 'quotas', healthy: false, message: /volatile-lru/ }],
  });
});

t.test('needs no other permissions in Redis than the README of redis lists', async (t) => {
  const { server, replica } = await shared(t);
  const readme = readFileSync('extensions/redis/README.md', 'utf8');
  const [, rules = ''] = /ACL SETUSER tracectl (.*)/.exec(readme) ?? [];
  const own = rules.replaceAll('{tracectl}', '{test}').split(' ');
  await server.client.call('ACL', 'SETUSER', 'tracectl', ...own);
  const one = await replica(server.url.replace('redis://', 'redis://tracectl:password@'));
  t.equal(await one.send(1), 'ok');
  one.clock.advance(5_000);
  t.equal(await one.send(1), 'ok');
  t.same(await server.client.call('ACL', 'LOG'), [], 'no command was denied');
});

t.test('is not ready until the plan can be read', async (t) => {
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

t.test('exceeds no limit after Redis lost any single key of the counters', async (t) => {
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
    t.equal(await one.send(4), 'monthly_limit', `${name}: one event above the limit`);
    t.equal(await one.send(3), 'ok', `${name}: exactly the limit`);
    sum += 3;
  }
  const entered = [...ledger.entries.values()].reduce((all, { usage }) => all + usage.events, 0);
  t.equal(entered, sum);
});
