import fc from 'fast-check';
import t from 'tap';
import { config as quotasConfig } from '../../../processors/quotas/config.ts';
import { sharedKeyLimits } from '../../../processors/quotas/shared-key-limits.ts';
import { systemClock } from '../../../src/component/clock.ts';
import type { QuotaVerdict } from '../../../src/tenancy/contract.ts';
import { aTenant } from '../../helper/batches.ts';
import { redisCluster } from '../../helper/redis-server.ts';
import { recordingLogger } from '../../helper/settings.ts';
import { memoryLedger } from '../../helper/shared-ledger.ts';
import { until } from '../../helper/until.ts';
import {
  AHEAD,
  accept,
  codeOf,
  countingReplicas,
  HOUR,
  NOW,
  newOrganization,
  reservation,
  UNLIMITED,
  used,
} from './counting-replicas.ts';

const { server, replica } = await countingReplicas(t);

/** The number of scripts that Redis ran. */
async function scriptsRun(): Promise<number> {
  const info = await server.client.info('commandstats');
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(info)?.[1] ?? 0);
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
          await until(isCancelled);
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
  await until(isCancelled);
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
