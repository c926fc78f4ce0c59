import fc from 'fast-check';
import t, { type Test } from 'tap';
import type { RedisSettings } from '../../../extensions/redis/connection.ts';
import { openRedis } from '../../../extensions/redis/connection.ts';
import { config as quotasConfig } from '../../../processors/quotas/config.ts';
import { epochs } from '../../../processors/quotas/epochs.ts';
import type { RunScript } from '../../../processors/quotas/scripts.ts';
import {
  CONFIRM,
  counterKeys,
  RECOUNT,
  RELEASE_KEY,
  scriptRunner,
} from '../../../processors/quotas/scripts.ts';
import { MAX_UNSETTLED, Settlements } from '../../../processors/quotas/settlements.ts';
import type { SharedCounters } from '../../../processors/quotas/shared-counters.ts';
import { sharedCounters } from '../../../processors/quotas/shared-counters.ts';
import { sharedKeyLimits } from '../../../processors/quotas/shared-key-limits.ts';
import { systemClock } from '../../../src/component/clock.ts';
import { RetryableError } from '../../../src/model/errors.ts';
import { ulid } from '../../../src/model/ulid.ts';
import { windowAt } from '../../../src/model/usage-window.ts';
import type { QuotaLimits, QuotaVerdict, Reservation } from '../../../src/tenancy/contract.ts';
import { rebuildWatch } from '../../../src/tenancy/rebuild-watch.ts';
import { aTenant } from '../../helper/batches.ts';
import type { FakeClock } from '../../helper/clock.ts';
import { fakeClock } from '../../helper/clock.ts';
import type { RedisServer } from '../../helper/redis-server.ts';
import { redisCluster, redisServer } from '../../helper/redis-server.ts';
import { replicatedRedis, sentinelSetup } from '../../helper/sentinels.ts';
import { recordingLogger } from '../../helper/settings.ts';
import type { MemoryLedger } from '../../helper/shared-ledger.ts';
import { memoryLedger } from '../../helper/shared-ledger.ts';
import { until } from '../../helper/until.ts';

const HOUR = 3_600_000;
/** The middle of the current hour: windows in Redis expire by its own clock. */
const NOW = Math.floor(Date.now() / HOUR) * HOUR + HOUR / 2;
const UNLIMITED: QuotaLimits = { eventsPerMonth: null, bytesPerHour: null };

const server = await redisServer(t, ['--appendonly', 'yes']);
let organizations = 0;

/** A replica with a connection of its own; all replicas share the ledger. */
async function replica(t: Test, ledger: MemoryLedger, where: Partial<RedisSettings> = {}) {
  const clock = fakeClock(NOW);
  const redis = await openRedis({
    url: server.url,
    keyPrefix: 'test',
    commandTimeout: 1000,
    tls: undefined,
    sentinel: undefined,
    cluster: false,
    clock: systemClock,
    logger: recordingLogger(),
    ...where,
  });
  const run = scriptRunner(redis);
  const key = (owner: string, name: string) => redis.key('quotas', owner, name);
  const logger = recordingLogger();
  const counters = sharedCounters({ run, key, ledger, clock, logger });
  t.teardown(async () => {
    await counters.close();
    await redis.close();
  });
  return { counters, clock, run, key };
}

const newOrganization = () => `org_${++organizations}`;

function reservation(organizationId: string, events: number, more: Partial<Reservation> = {}) {
  const tenant = aTenant({ organizationId });
  return { batchId: ulid(NOW), tenant, usage: { events, bytes: events * 10 }, at: NOW, ...more };
}

/** The number of scripts that Redis ran. */
async function scriptsRun(): Promise<number> {
  const info = await server.client.info('commandstats');
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(info)?.[1] ?? 0);
}

const codeOf = (verdict: QuotaVerdict) => (verdict.admitted ? 'ok' : verdict.code);

/** Reserves, and makes an admitted batch durable with its ledger entry. Resolves with the code. */
async function accept(
  counters: SharedCounters,
  ledger: MemoryLedger,
  asked: Reservation,
  limits: QuotaLimits,
) {
  const verdict = await counters.reserve(asked, limits);
  if (!verdict.admitted) return verdict.code;
  const isEntered = ledger.enter(asked, verdict.at, verdict.epoch ?? 0);
  counters.settle(asked, isEntered, isEntered);
  return isEntered ? 'ok' : 'refused by the ledger';
}

const used = async ({ counters }: { counters: SharedCounters }, organization: string) =>
  (await counters.read(organization)).month.events;

/** Waits for the background work of a replica. */
async function eventually(expected: string, isSo: () => Promise<boolean> | boolean, t: Test) {
  for (let i = 0; i < 400; i++) {
    if (await isSo()) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  t.fail(expected);
}

t.test('replicas together admit exactly the limit', async (t) => {
  const ledger = memoryLedger();
  const replicas = await Promise.all([replica(t, ledger), replica(t, ledger), replica(t, ledger)]);
  const organization = newOrganization();
  const limits = { eventsPerMonth: 250, bytesPerHour: null };
  const answers = await Promise.all(
    Array.from({ length: 400 }, (_, i) => {
      const { counters } = replicas[i % 3] as (typeof replicas)[number];
      return accept(counters, ledger, reservation(organization, 1), limits);
    }),
  );
  t.equal(answers.filter((answer) => answer === 'ok').length, 250);
  t.equal(answers.filter((answer) => answer === 'monthly_limit').length, 150);
  t.equal(ledger.entries.size, 250);
  t.equal(await used(replicas[0], organization), 250);
  t.equal(ledger.epoch, 1, 'one replica built the counters, and no reservation was voided');
});

t.test(
  'requests of one moment share a script, and get the answers of requests in turn',
  async (t) => {
    const ledger = memoryLedger();
    const [one, other] = [await replica(t, ledger), await replica(t, ledger)];
    const ask = fc.record({
      project: fc.nat(2),
      events: fc.nat(6),
      bytes: fc.nat(60),
      peeks: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(ask, { minLength: 1, maxLength: 40 }), async (asks) => {
        const own = { eventsPerMonth: 12, bytesPerHour: 90 };
        const limits = { eventsPerMonth: 20, bytesPerHour: 150, project: own };
        const answersOf = (organizationId: string, { counters }: typeof one) =>
          asks.map(({ project, events, bytes, peeks }) => () => {
            const tenant = aTenant({ organizationId, projectId: `proj_${project}` });
            if (peeks) return counters.peek(tenant, limits, NOW);
            const asked = reservation(organizationId, 0, { tenant, usage: { events, bytes } });
            return counters.reserve(asked, limits);
          });
        const [together, inTurn] = [newOrganization(), newOrganization()];
        const verdicts = await Promise.all(
          answersOf(together, one).map(async (answer) => answer()),
        );
        const expected = [];
        for (const answer of answersOf(inTurn, other)) expected.push(await answer());
        const coded = (all: readonly QuotaVerdict[]) =>
          all.map((verdict) => [codeOf(verdict), verdict.admitted ? '' : verdict.scope]);
        t.same(coded(verdicts), coded(expected));
        for (const project of [undefined, 'proj_0', 'proj_1', 'proj_2']) {
          t.same(
            await one.counters.read(together, project),
            await other.counters.read(inTurn, project),
          );
        }
      }),
      { numRuns: 25 },
    );
    const organization = newOrganization();
    await one.counters.reserve(reservation(organization, 1), UNLIMITED);
    const before = await scriptsRun();
    const asked = Array.from({ length: 256 }, () => reservation(organization, 1));
    await Promise.all(asked.map((each) => one.counters.reserve(each, UNLIMITED)));
    t.equal((await scriptsRun()) - before, 1);
    t.equal(await used(one, organization), 257);
  },
);

t.test('counts a batch once that is reserved twice at the same moment', async (t) => {
  const one = await replica(t, memoryLedger());
  const organization = newOrganization();
  const asked = reservation(organization, 3);
  const limits = { eventsPerMonth: 3, bytesPerHour: null };
  const both = [one.counters.reserve(asked, limits), one.counters.reserve(asked, limits)];
  t.same((await Promise.all(both)).map(codeOf), ['ok', 'ok']);
  t.equal(await used(one, organization), 3);
});

t.test('rebuilds counters left uninitialized by another replica', async (t) => {
  const ledger = memoryLedger();
  const { counters, clock } = await replica(t, ledger);
  const organization = newOrganization();
  const begin = ledger.beginEpoch;
  // Another replica begins an epoch between the two reads, and dies.
  ledger.beginEpoch = async (...values) => {
    ledger.beginEpoch = begin;
    await begin(...values);
    return begin(...values);
  };
  const asked = reservation(organization, 1);
  await t.rejects(async () => counters.reserve(asked, UNLIMITED), { code: 'quota_counters' });
  clock.advance(1_000);
  t.equal(await accept(counters, ledger, asked, UNLIMITED), 'ok');
  t.equal(ledger.epoch, 2);
});

t.test('answers requests on any replica as a model does', async (t) => {
  const ledger = memoryLedger();
  const replicas = await Promise.all([replica(t, ledger), replica(t, ledger)]);
  const ask = fc.record({
    replica: fc.nat(1),
    project: fc.nat(1),
    events: fc.nat(6),
    bytes: fc.nat(60),
    fails: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(ask, { maxLength: 25 }), async (asks) => {
      const organizationId = newOrganization();
      const own = { eventsPerMonth: 12, bytesPerHour: 90 };
      const limits = { eventsPerMonth: 20, bytesPerHour: 150, project: own };
      const model = new Map<string, number>();
      const sum = (name: string) => model.get(name) ?? 0;
      for (const { replica, project, events, bytes, fails } of asks) {
        const { counters } = replicas[replica] as (typeof replicas)[number];
        const projectId = `proj_${project}`;
        const asked = reservation(organizationId, 0, {
          tenant: aTenant({ organizationId, projectId }),
          usage: { events, bytes },
        });
        const isMonthFull =
          events > 0 && (sum('events') + events > 20 || sum(`${projectId} events`) + events > 12);
        const isHourFull =
          bytes > 0 && (sum('bytes') + bytes > 150 || sum(`${projectId} bytes`) + bytes > 90);
        const expected = isMonthFull ? 'monthly_limit' : isHourFull ? 'hourly_limit' : 'ok';
        const verdict = await counters.reserve(asked, limits);
        t.equal(codeOf(verdict), expected);
        if (!verdict.admitted) continue;
        if (!fails) {
          ledger.enter(asked, verdict.at, verdict.epoch ?? 0);
          for (const [name, amount] of [
            ['events', events],
            ['bytes', bytes],
          ] as const) {
            model.set(name, sum(name) + amount);
            model.set(`${projectId} ${name}`, sum(`${projectId} ${name}`) + amount);
          }
        }
        counters.settle(asked, !fails, true);
        for (const each of replicas) each.clock.advance(50);
        if (fails) {
          const isCancelled = async () => {
            const { month, hour } = await replicas[0].counters.read(organizationId);
            return month.events === sum('events') && hour.bytes === sum('bytes');
          };
          await eventually('the failed reservation is cancelled', isCancelled, t);
        }
      }
    }),
    { numRuns: 25 },
  );
});

t.test('refuses a request one byte above the hourly limit as a whole', async (t) => {
  const { counters } = await replica(t, memoryLedger());
  const limits = { eventsPerMonth: null, bytesPerHour: 100 };
  t.equal(codeOf(await counters.reserve(reservation(newOrganization(), 10), limits)), 'ok');
  const over = reservation(newOrganization(), 1, { usage: { events: 1, bytes: 101 } });
  t.equal(codeOf(await counters.reserve(over, limits)), 'exceeds_hourly_limit');
});

t.test('every replica sees an exhausted window before it reads a body', async (t) => {
  const ledger = memoryLedger();
  const [a, b] = [await replica(t, ledger), await replica(t, ledger)];
  const organization = newOrganization();
  const limits = { eventsPerMonth: 5, bytesPerHour: null };
  const { tenant } = reservation(organization, 0);
  t.equal(codeOf(await b.counters.peek(tenant, limits, NOW)), 'ok');
  t.equal(await accept(a.counters, ledger, reservation(organization, 5), limits), 'ok');
  t.match(await b.counters.peek(tenant, limits, NOW), { admitted: false, code: 'monthly_limit' });
});

t.test('keeps a failed batch counted that the ledger holds', async (t) => {
  const ledger = memoryLedger();
  const one = await replica(t, ledger);
  const organization = newOrganization();
  const lost = reservation(organization, 3);
  const verdict = await one.counters.reserve(lost, UNLIMITED);
  if (!verdict.admitted) throw new Error('not admitted');
  ledger.enter(lost, verdict.at, verdict.epoch ?? 0);
  one.counters.settle(lost, false);
  const failed = reservation(organization, 4);
  await one.counters.reserve(failed, UNLIMITED);
  one.counters.settle(failed, false);
  one.clock.advance(50);
  await eventually(
    'the other batch is cancelled',
    async () => (await used(one, organization)) === 3,
    t,
  );
  t.notOk(
    ledger.enter(failed, NOW, ledger.epoch),
    'the ledger rejects a later entry of the cancelled batch',
  );
});

t.test('counts a batch of another storage whose counters were lost before its entry', async (t) => {
  const ledger = memoryLedger();
  const [one, other] = [await replica(t, ledger), await replica(t, ledger)];
  const organization = newOrganization();
  const lose = () => server.client.del(one.key(organization, 'state'));
  const reserve = async (events: number) => {
    const asked = reservation(organization, events);
    t.equal(codeOf(await one.counters.reserve(asked, UNLIMITED)), 'ok');
    return asked;
  };
  const early = await reserve(2);
  one.counters.settle(early, true);
  one.clock.advance(50);
  await eventually('the entry is recorded', () => ledger.entries.has(early.batchId), t);
  const late = [await reserve(3), await reserve(4)];
  await lose();
  t.equal(await used(other, organization), 2);
  ledger.isAway = true;
  for (const asked of late) one.counters.settle(asked, true);
  one.clock.advance(50);
  await one.counters.read(organization);
  ledger.isAway = false;
  const isCounted = async () => {
    one.clock.advance(1_000);
    return (await used(one, organization)) === 9;
  };
  await eventually('the usage is counted', isCounted, t);
  t.equal(await used(other, organization), 9);
  const isEmpty = async () => {
    one.clock.advance(50);
    return (await server.client.hlen(one.key(organization, 'reserved'))) === 0;
  };
  await eventually('no lease is left', isEmpty, t);
  await lose();
  one.clock.advance(1_000);
  t.equal(await used(one, organization), 9, 'the ledger has the same');
});

t.test('counts a batch whose counters were lost in an organization without traffic', async (t) => {
  const ledger = memoryLedger();
  const one = await replica(t, ledger);
  const organization = newOrganization();
  const asked = reservation(organization, 3);
  t.equal(codeOf(await one.counters.reserve(asked, UNLIMITED)), 'ok');
  await server.client.del(one.key(organization, 'state'));
  await ledger.beginEpoch(organization, NOW, 1);
  one.counters.settle(asked, true);
  one.clock.advance(50);
  const isInstalled = async () => {
    one.clock.advance(1_000);
    return (await server.client.hget(one.key(organization, 'state'), 'epoch')) === '3';
  };
  await eventually('the counters are rebuilt', isInstalled, t);
  const isEmpty = async () => {
    one.clock.advance(1_000);
    return (await server.client.hlen(one.key(organization, 'reserved'))) === 0;
  };
  await eventually('no lease is left', isEmpty, t);
  t.equal(await used(one, organization), 3);
  t.equal(ledger.epoch, 3, 'once');
});

t.test(
  'a batch that is counted again keeps its reservation beyond an outage of Redis',
  async (t) => {
    const ledger = memoryLedger();
    const one = await replica(t, ledger);
    const organization = newOrganization();
    const asked = reservation(organization, 3);
    await one.counters.reserve(asked, UNLIMITED);
    const { state, month, hour, leases, reserved } = counterKeys(
      one.key,
      organization,
      windowAt(NOW),
    );
    // The next epoch, whose sums lack the batch.
    await ledger.beginEpoch(organization, NOW, 1);
    await server.client.del(month, hour, leases, reserved);
    await server.client.hset(state, 'epoch', '2');
    for (const key of [month, hour]) await server.client.hset(key, 'o', '0');
    const calls: number[] = [];
    const run: RunScript = async (script, keys, args) => {
      const answer = await one.run(script, keys, args);
      if (script !== RECOUNT) return answer;
      calls.push(Number(await server.client.zscore(leases, asked.batchId)) - Date.now());
      if (calls.length === 1) throw new RetryableError('redis', 'the answer is lost');
      return answer;
    };
    const { clock } = one;
    const renew = async () => 2;
    const organizations = () => [];
    const settlements = new Settlements({
      ...{ run, key: one.key, ledger, clock, logger: recordingLogger(), renew, organizations },
    });
    t.teardown(() => settlements.close());
    settlements.expect(asked.batchId, { at: NOW, epoch: 1 });
    settlements.settle(asked, true, false);
    const isSettled = async () => {
      clock.advance(1_000);
      return calls.length === 2 && (await server.client.hlen(reserved)) === 0;
    };
    await eventually('the batch is settled', isSettled, t);
    t.ok((calls[0] ?? 0) > 1_800_000, 'no other replica decides it soon');
    t.same(await server.client.hget(month, 'o'), '3');
    t.same(await server.client.hget(hour, 'o'), '30');
  },
);

t.test('an organization whose counters cannot be rebuilt holds up no other one', async (t) => {
  const ledger = memoryLedger();
  const clock = fakeClock(NOW);
  const [broken, well, busy] = [newOrganization(), newOrganization(), newOrganization()];
  const confirmed: unknown[] = [];
  const renewed: string[] = [];
  const settlements = new Settlements({
    async run(script, _keys, args) {
      if (script === CONFIRM) confirmed.push(...args);
      return script === RECOUNT ? 'missing' : [];
    },
    async renew(organizationId) {
      renewed.push(organizationId);
      if (organizationId === broken) throw new RetryableError('store', 'the sums take too long');
      return 2;
    },
    ...{ key: (...names) => names.join(':'), ledger, clock, logger: recordingLogger() },
    organizations: () => [],
  });
  t.teardown(() => settlements.close());
  for (const organization of [broken, well]) await ledger.beginEpoch(organization, NOW, 0);
  for (const organization of [broken, well]) {
    const lost = reservation(organization, 3);
    settlements.expect(lost.batchId, { at: NOW, epoch: 0 });
    settlements.settle(lost, true, false);
  }
  const entered = reservation(busy, 1);
  settlements.settle(entered, true, true);
  clock.advance(50);
  await eventually('the other batch is confirmed', () => confirmed.length > 0, t);
  t.same(confirmed, [entered.batchId]);
  t.same(renewed, [broken, well]);
});

t.test('a renewal joins a rebuild that is under way', async (t) => {
  const ledger = memoryLedger();
  const [clock, logger] = [fakeClock(NOW), recordingLogger()];
  const began = Promise.withResolvers<void>();
  const summed = Promise.withResolvers<void>();
  const { current, renew } = epochs({
    async run(_script, _keys, [epoch]) {
      return epoch ?? null;
    },
    ledger: {
      ...ledger,
      async beginEpoch(...args) {
        began.resolve();
        await summed.promise;
        return ledger.beginEpoch(...args);
      },
    },
    ...{ key: (...names) => names.join(':'), clock, logger, watch: rebuildWatch(clock, logger) },
  });
  const organization = newOrganization();
  const asked = current(organization);
  await began.promise;
  const calls = Promise.all([asked, renew(organization), current(organization)]);
  summed.resolve();
  t.same(await calls, [1, 1, 1]);
});

t.test('cancels the reservations of a dead process that the ledger lacks', async (t) => {
  const ledger = memoryLedger();
  const [dead, alive] = [await replica(t, ledger), await replica(t, ledger)];
  const organization = newOrganization();
  const entered = reservation(organization, 2);
  const verdict = await dead.counters.reserve(entered, UNLIMITED);
  if (!verdict.admitted) throw new Error('not admitted');
  ledger.enter(entered, verdict.at, verdict.epoch ?? 0);
  await dead.counters.reserve(reservation(organization, 5), UNLIMITED);
  await alive.counters.peek(entered.tenant, UNLIMITED, NOW);
  t.equal(await used(alive, organization), 7);
  alive.clock.advance(5_000);
  await alive.counters.read(organization);
  t.equal(await used(alive, organization), 7, 'a reservation that is not overdue stays');
  for (const id of await server.client.zrange(alive.key(organization, 'leases'), '0', '-1')) {
    await server.client.zadd(alive.key(organization, 'leases'), '1', id);
  }
  const isCancelled = async () => {
    alive.clock.advance(5_000);
    return (await used(alive, organization)) === 2;
  };
  await eventually('the overdue reservations are decided', isCancelled, t);
  const isEmpty = async () => {
    alive.clock.advance(50);
    return (await server.client.hlen(alive.key(organization, 'reserved'))) === 0;
  };
  await eventually('no lease is left', isEmpty, t);
});

for (const [event, lose] of [
  ['is flushed', (redis: RedisServer) => redis.client.flushall()],
  [
    'restarts from its file, which may lack the last changes',
    async (redis: RedisServer) => {
      await redis.kill();
      await redis.start();
      await redis.client.ping();
    },
  ],
] as const) {
  t.test(`rebuilds the counters from the ledger when Redis ${event}`, async (t) => {
    const ledger = memoryLedger();
    const [a, b] = [await replica(t, ledger), await replica(t, ledger)];
    const organization = newOrganization();
    const limits = { eventsPerMonth: 10, bytesPerHour: null };
    t.equal(await accept(a.counters, ledger, reservation(organization, 6), limits), 'ok');
    const reserved = reservation(organization, 1);
    const verdict = await b.counters.reserve(reserved, limits);
    if (!verdict.admitted) throw new Error('not admitted');
    await lose(server);
    const again = async (asked: Reservation, { counters } = a): Promise<string> => {
      for (;;) {
        for (const each of [a, b]) each.clock.advance(1_000);
        try {
          return await accept(counters, ledger, asked, limits);
        } catch {
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
      }
    };
    t.equal(await again(reservation(organization, 4)), 'ok');
    t.equal(await again(reservation(organization, 1)), 'monthly_limit');
    t.notOk(
      ledger.enter(reserved, verdict.at, verdict.epoch ?? 0),
      'the reservation belongs to the previous epoch',
    );
    const answer = await again(reservation(organization, 1), b);
    t.equal(answer, 'monthly_limit', 'the other replica finds the same counters');
    t.equal(await used(b, organization), 10);
  });
}

/** Ends the replication from the primary. */
async function cutOff({ primary }: { primary: RedisServer }): Promise<void> {
  // WAIT covers the writes of this connection and all earlier writes.
  await primary.client.set('mark', '1');
  await primary.client.call('WAIT', '1', '0');
  // Existing connections go on, except that of the replica, which cannot reconnect.
  await primary.client.call('ACL', 'SETUSER', 'default', 'resetpass', '>closed');
  await primary.client.call('CLIENT', 'KILL', 'TYPE', 'replica');
}

/** Accepts one event at a time until a limit is reached; retries after errors. */
async function exhaust(
  { counters, clock }: { counters: SharedCounters; clock: FakeClock },
  ledger: MemoryLedger,
  organization: string,
  limits: QuotaLimits,
): Promise<void> {
  for (;;) {
    try {
      const answer = await accept(counters, ledger, reservation(organization, 1), limits);
      if (answer === 'monthly_limit') return;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    clock.advance(1_000);
  }
}

t.test('exceeds no limit after a failover to a Redis that missed the last changes', async (t) => {
  const setup = await sentinelSetup(t, { count: 1 });
  const addresses = setup.sentinels.map(({ address }) => {
    const [host = '', port] = address.split(':');
    return { host, port: Number(port) };
  });
  const sentinel = { name: 'main', addresses, password: undefined, isSecure: false };
  const ledger = memoryLedger();
  const at = { sentinel, url: 'redis://ignored' };
  const both = [await replica(t, ledger, at), await replica(t, ledger, at)] as const;
  const [a, b] = both;
  const organization = newOrganization();
  const limits = { eventsPerMonth: 20, bytesPerHour: null };
  t.equal(await accept(a.counters, ledger, reservation(organization, 6), limits), 'ok');
  await cutOff(setup);
  t.equal(await accept(b.counters, ledger, reservation(organization, 10), limits), 'ok');
  const month = a.key(organization, 'month:*');
  const [key = ''] = await setup.replica.client.keys(month.replace(/^{/, '\\{'));
  t.equal(await setup.replica.client.hget(key, 'o'), '6', 'the replica of Redis missed ten events');
  const reserved = reservation(organization, 2);
  const verdict = await b.counters.reserve(reserved, limits);
  if (!verdict.admitted) throw new Error('not admitted');
  await setup.primary.kill();
  await setup.isPrimary(setup.replica);
  await Promise.all(both.map((each) => exhaust(each, ledger, organization, limits)));
  t.notOk(
    ledger.enter(reserved, verdict.at, verdict.epoch ?? 0),
    'the reservation belongs to the lost counters',
  );
  const sum = [...ledger.entries.values()].reduce((sum, { usage }) => sum + usage.events, 0);
  t.equal(sum, 20, 'exactly the limit');
  // The news of the failover may end a connection that was made before it.
  let counted: number | undefined;
  await until(async () => {
    counted = await used(a, organization).catch(() => undefined);
    return counted !== undefined;
  });
  t.equal(counted, 20);
});

t.test('exceeds no limit with two servers that both act as primary', async (t) => {
  const { primary, replica: other } = await replicatedRedis(t);
  const ledger = memoryLedger();
  const a = await replica(t, ledger, { url: primary.url });
  const organization = newOrganization();
  const limits = { eventsPerMonth: 50, bytesPerHour: null };
  t.equal(await accept(a.counters, ledger, reservation(organization, 5), limits), 'ok');
  await cutOff({ primary });
  await other.client.call('REPLICAOF', 'NO', 'ONE');
  const b = await replica(t, ledger, { url: other.url });
  const some = (counters: SharedCounters) =>
    Array.from({ length: 60 }, () => {
      const asked = reservation(organization, 1);
      return accept(counters, ledger, asked, limits).catch(() => 'failed');
    });
  await Promise.all([...some(a.counters), ...some(b.counters)]);
  await exhaust(b, ledger, organization, limits);
  const sum = [...ledger.entries.values()].reduce((sum, { usage }) => sum + usage.events, 0);
  t.equal(sum, 50);
  // Refused by the counters of the previous primary, or by the ledger, which holds a newer epoch.
  t.not(await accept(a.counters, ledger, reservation(organization, 1), limits), 'ok');
});

t.test('uses the keys of one slot in every script, in a Cluster', async (t) => {
  const { url } = await redisCluster(t);
  const ledger = memoryLedger();
  const one = await replica(t, ledger, { url, cluster: true });
  const organization = newOrganization();
  const limits = { eventsPerMonth: 3, bytesPerHour: null };
  const answers = [];
  for (const events of [1, 1, 2]) {
    answers.push(await accept(one.counters, ledger, reservation(organization, events), limits));
  }
  t.same(answers, ['ok', 'ok', 'monthly_limit']);
  const failed = reservation(organization, 1);
  await one.counters.reserve(failed, limits);
  one.counters.settle(failed, false);
  const isCancelled = async () => {
    one.clock.advance(5_000);
    return (await used(one, organization)) === 2;
  };
  await eventually('reservations are confirmed, cancelled and swept', isCancelled, t);
  const edge = quotasConfig.parse({
    ...{ store: 'postgres', counters: 'redis' },
    edge: { requests_per_second: 1, max_in_flight: 1 },
  }).edge;
  const { run, key } = one;
  const keys = sharedKeyLimits(edge, { run, key, clock: systemClock, logger: recordingLogger() });
  t.match(await keys.admit('key_a'), { admitted: true });
  t.match(await keys.admit('key_a'), { admitted: false });
  await keys.close();
});

t.test('admits no request while the ledger is away and the counters are lost', async (t) => {
  const ledger = memoryLedger();
  const { counters } = await replica(t, ledger);
  ledger.isAway = true;
  await t.rejects(async () => counters.reserve(reservation(newOrganization(), 1), UNLIMITED), {
    name: 'RetryableError',
  });
});

t.test('admits no request while too many reservations wait for the ledger', async (t) => {
  const ledger = memoryLedger();
  const { counters, clock, run, key } = await replica(t, ledger);
  const organization = newOrganization();
  const reserve = async () => {
    const asked = reservation(organization, 1);
    await counters.reserve(asked, UNLIMITED);
    return asked;
  };
  await reserve();
  ledger.isAway = true;
  for (let made = 0; made < MAX_UNSETTLED; made += 100) {
    const asked = await Promise.all(Array.from({ length: 100 }, reserve));
    for (const each of asked) counters.settle(each, false);
  }
  await t.rejects(reserve(), { code: 'quota_counters' });
  const reserved = () =>
    run("return redis.call('HLEN', KEYS[1])", [key(organization, 'reserved')], []);
  t.equal(await reserved(), MAX_UNSETTLED + 1);
  ledger.isAway = false;
  clock.advance(50);
  const isAdmitted = () =>
    reserve().then(
      () => true,
      () => false,
    );
  await eventually('admitted', isAdmitted, t);
});

t.test('refuses a request within the command time-out if Redis does not answer', async (t) => {
  const { counters } = await replica(t, memoryLedger());
  server.freeze();
  t.teardown(() => server.thaw());
  await t.rejects(async () => counters.reserve(reservation(newOrganization(), 1), UNLIMITED), {
    name: 'RetryableError',
  });
  server.thaw();
});

t.test('counts in the newest hour after the clock went back', async (t) => {
  const ledger = memoryLedger();
  const { counters } = await replica(t, ledger);
  const organization = newOrganization();
  const next = reservation(organization, 1, { at: NOW + HOUR });
  t.match(await counters.reserve(next, UNLIMITED), { admitted: true, at: NOW + HOUR });
  const start = Math.floor((NOW + HOUR) / HOUR) * HOUR;
  t.match(await counters.reserve(reservation(organization, 1), UNLIMITED), { at: start });
});

/** A clock that is this far ahead is in another year. */
const AHEAD = 400 * 24 * HOUR;

t.test('a replica whose clock is far ahead opens no window', async (t) => {
  const ledger = memoryLedger();
  const [wrong, right] = [await replica(t, ledger), await replica(t, ledger)];
  wrong.clock.set(NOW + AHEAD);
  const organization = newOrganization();
  const limits = { eventsPerMonth: 5, bytesPerHour: null };
  const far = () => reservation(organization, 2, { at: NOW + AHEAD });
  const verdict = await wrong.counters.reserve(far(), limits);
  if (!verdict.admitted) throw new Error('not admitted');
  t.ok(verdict.at < NOW + 2 * HOUR, 'it counts in the hour of Redis');
  t.equal(codeOf(await right.counters.reserve(reservation(organization, 3), limits)), 'ok');
  const refused = await wrong.counters.reserve(far(), limits);
  t.match(refused, { admitted: false, code: 'monthly_limit' });
  t.match(await right.counters.peek(reservation(organization, 1).tenant, limits, NOW), refused);
  t.equal(await used(right, organization), 5);
});

t.test('rebuilds counters in an hour that Redis has not reached', async (t) => {
  const ledger = memoryLedger();
  const { counters, run, key } = await replica(t, ledger);
  const organization = newOrganization();
  const limits = { eventsPerMonth: 5, bytesPerHour: null };
  t.equal(await accept(counters, ledger, reservation(organization, 2), limits), 'ok');
  const set = "return redis.call('HSET', KEYS[1], 'hour', ARGV[1])";
  await run(set, [key(organization, 'state')], [Math.floor((NOW + AHEAD) / HOUR)]);
  const other = await replica(t, ledger);
  t.equal(await accept(other.counters, ledger, reservation(organization, 3), limits), 'ok');
  t.equal(
    await accept(other.counters, ledger, reservation(organization, 1), limits),
    'monthly_limit',
  );
  t.equal(ledger.epoch, 2);
});

t.test('limits the requests of a key over all replicas', async (t) => {
  const limitsOf = async (edge: object) => {
    const config = quotasConfig.parse({ store: 'postgres', counters: 'redis', edge }).edge;
    const { run, key } = await replica(t, memoryLedger());
    return sharedKeyLimits(config, { run, key, clock: systemClock, logger: recordingLogger() });
  };

  t.test('in flight', async (t) => {
    const [a, b] = [await limitsOf({ max_in_flight: 2 }), await limitsOf({ max_in_flight: 2 })];
    const name = `key_${newOrganization()}`;
    const first = await a.admit(name);
    t.equal((await b.admit(name)).admitted, true);
    t.match(await a.admit(name), { admitted: false, limit: 'in_flight' });
    t.match(await b.admit(name), { admitted: false, limit: 'in_flight' });
    if (first.admitted) first.release?.();
    await a.close();
    t.equal((await b.admit(name)).admitted, true, 'one request has ended');
    t.equal((await b.admit(`${name}_other`)).admitted, true);
  });

  t.test('in flight, those of a dead process for 120 s by the clock of Redis', async (t) => {
    const config = quotasConfig.parse({ store: 'postgres', edge: { max_in_flight: 1 } }).edge;
    const { run, key } = await replica(t, memoryLedger());
    const parts = { run, key, clock: systemClock, logger: recordingLogger() };
    const limits = sharedKeyLimits(config, parts);
    const name = `key_${newOrganization()}`;
    t.equal((await limits.admit(name)).admitted, true);
    // By microseconds.
    const age = `for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
      redis.call('ZINCRBY', KEYS[1], -ARGV[1], id)
    end`;
    await run(age, [key(name, 'in-flight')], [110e6]);
    t.equal((await limits.admit(name)).admitted, false);
    await run(age, [key(name, 'in-flight')], [10e6]);
    t.equal((await limits.admit(name)).admitted, true, 'after 120 s');
  });

  t.test('in flight, without those that ended or were refused while Redis failed', async (t) => {
    const config = quotasConfig.parse({ store: 'postgres', edge: { max_in_flight: 2 } }).edge;
    const { run, key } = await replica(t, memoryLedger());
    const clock = fakeClock(NOW);
    let isFailing = false;
    const failing: RunScript = async (script, keys, args) => {
      if (isFailing && script === RELEASE_KEY) throw new RetryableError('redis_failed', 'away');
      const answer = await run(script, keys, args);
      if (isFailing) throw new RetryableError('redis_failed', 'the answer was lost');
      return answer;
    };
    const limits = sharedKeyLimits(config, { run: failing, key, clock, logger: recordingLogger() });
    const name = `key_${newOrganization()}`;
    const inFlight = () => server.client.zcard(key(name, 'in-flight'));
    const first = await limits.admit(name);
    isFailing = true;
    if (first.admitted) first.release?.();
    await t.rejects(async () => limits.admit(name), { code: 'redis_failed' });
    clock.advance(100);
    await eventually('the release is repeated later', () => clock.pending() === 1, t);
    t.equal(await inFlight(), 2, 'Redis counts the ended request, and the one without an answer');
    isFailing = false;
    clock.advance(1000);
    await eventually('both are released', async () => (await inFlight()) === 0, t);
    t.equal((await limits.admit(name)).admitted, true);
    await limits.close();
  });

  t.test('in flight, those that ended while Redis failed are released at a stop', async (t) => {
    const config = quotasConfig.parse({ store: 'postgres', edge: { max_in_flight: 2 } }).edge;
    const { run, key } = await replica(t, memoryLedger());
    const clock = fakeClock(NOW);
    let isFailing = true;
    const failing: RunScript = async (script, keys, args) => {
      if (isFailing && script === RELEASE_KEY) throw new RetryableError('redis_failed', 'away');
      return run(script, keys, args);
    };
    const limits = sharedKeyLimits(config, { run: failing, key, clock, logger: recordingLogger() });
    const name = `key_${newOrganization()}`;
    const first = await limits.admit(name);
    if (first.admitted) first.release?.();
    clock.advance(100);
    await eventually('the release is repeated later', () => clock.pending() === 1, t);
    isFailing = false;
    await limits.close();
    t.equal(await server.client.zcard(key(name, 'in-flight')), 0);
  });

  t.test('of one moment exactly', async (t) => {
    const keys = await limitsOf({ requests_per_second: 0.01, burst: 5, max_in_flight: 3 });
    const name = `key_${newOrganization()}`;
    const admit = (count: number) =>
      Promise.all(Array.from({ length: count }, () => keys.admit(name)));
    const first = await admit(6);
    t.same(
      first.map((each) => (each.admitted ? 'ok' : each.limit)),
      [...['ok', 'ok', 'ok', 'in_flight', 'in_flight', 'in_flight']],
    );
    for (const each of first) if (each.admitted) each.release?.();
    await keys.close();
    const second = await admit(4);
    t.same(
      second.map((each) => (each.admitted ? 'ok' : each.limit)),
      [...['ok', 'ok', 'request_rate', 'request_rate']],
    );
    const wait = second.map((each) => (each.admitted ? 0 : each.retryAfterMs));
    t.ok(
      wait.slice(2).every((ms) => ms > 0 && ms <= 100_000),
      `${wait}`,
    );
  });

  t.test('by rate', async (t) => {
    const edge = { requests_per_second: 0.01, burst: 3 };
    const [a, b] = [await limitsOf(edge), await limitsOf(edge)];
    const name = `key_${newOrganization()}`;
    const answers = [];
    for (const limits of [a, b, a, b]) answers.push(await limits.admit(name));
    t.same(
      answers.map(({ admitted }) => admitted),
      [true, true, true, false],
    );
    t.match(answers[3], { limit: 'request_rate' });
    const wait = answers[3]?.admitted === false ? answers[3].retryAfterMs : 0;
    t.ok(wait > 90_000 && wait <= 100_000, `${wait}`);
  });
});
