import t from 'tap';
import { epochs } from '../../../processors/quotas/epochs.ts';
import type { SharedCounters } from '../../../processors/quotas/shared-counters.ts';
import type { QuotaLimits, Reservation } from '../../../src/tenancy/contract.ts';
import { rebuildWatch } from '../../../src/tenancy/rebuild-watch.ts';
import type { FakeClock } from '../../helper/clock.ts';
import { fakeClock } from '../../helper/clock.ts';
import type { RedisServer } from '../../helper/redis-server.ts';
import { replicatedRedis, sentinelSetup } from '../../helper/sentinels.ts';
import { recordingLogger } from '../../helper/settings.ts';
import type { MemoryLedger } from '../../helper/shared-ledger.ts';
import { memoryLedger } from '../../helper/shared-ledger.ts';
import { until } from '../../helper/until.ts';
import {
  AHEAD,
  accept,
  countingReplicas,
  HOUR,
  NOW,
  newOrganization,
  reservation,
  UNLIMITED,
  used,
} from './counting-replicas.ts';

const { server, replica } = await countingReplicas(t);

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

t.test('admits no request while the ledger is away and the counters are lost', async (t) => {
  const ledger = memoryLedger();
  const { counters } = await replica(t, ledger);
  ledger.isAway = true;
  await t.rejects(async () => counters.reserve(reservation(newOrganization(), 1), UNLIMITED), {
    name: 'RetryableError',
  });
});

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
