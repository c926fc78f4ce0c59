import t from 'tap';
import type { RunScript } from '../../../processors/quotas/scripts.ts';
import { CONFIRM, counterKeys, RECOUNT } from '../../../processors/quotas/scripts.ts';
import { MAX_UNSETTLED, Settlements } from '../../../processors/quotas/settlements.ts';
import { RetryableError } from '../../../src/model/errors.ts';
import { windowAt } from '../../../src/model/usage-window.ts';
import { fakeClock } from '../../helper/clock.ts';
import { recordingLogger } from '../../helper/settings.ts';
import { memoryLedger } from '../../helper/shared-ledger.ts';
import { until } from '../../helper/until.ts';
import {
  codeOf,
  countingReplicas,
  NOW,
  newOrganization,
  reservation,
  UNLIMITED,
  used,
} from './counting-replicas.ts';

const { server, replica } = await countingReplicas(t);

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
  await until(async () => (await used(one, organization)) === 3);
  t.notOk(
    ledger.enter(failed, NOW, ledger.epoch),
    'the ledger rejects a later entry of the cancelled batch',
  );
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
  await until(isCancelled);
  const isEmpty = async () => {
    alive.clock.advance(50);
    return (await server.client.hlen(alive.key(organization, 'reserved'))) === 0;
  };
  await until(isEmpty);
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
  await until(() => ledger.entries.has(early.batchId));
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
  await until(isCounted);
  t.equal(await used(other, organization), 9);
  const isEmpty = async () => {
    one.clock.advance(50);
    return (await server.client.hlen(one.key(organization, 'reserved'))) === 0;
  };
  await until(isEmpty);
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
  await until(isInstalled);
  const isEmpty = async () => {
    one.clock.advance(1_000);
    return (await server.client.hlen(one.key(organization, 'reserved'))) === 0;
  };
  await until(isEmpty);
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
    await until(isSettled);
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
  await until(() => confirmed.length > 0);
  t.same(confirmed, [entered.batchId]);
  t.same(renewed, [broken, well]);
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
  await until(isAdmitted);
});
