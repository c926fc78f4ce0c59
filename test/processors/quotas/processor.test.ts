import t, { type Test } from 'tap';
import { config as quotasConfig } from '../../../processors/quotas/config.ts';
import type { Refusal } from '../../../src/model/errors.ts';
import { measure } from '../../../src/model/formats.ts';
import { aTenant, nativeBatch, received } from '../../helper/batches.ts';
import type { FakeClock } from '../../helper/clock.ts';
import { NO_DEADLINE } from '../../helper/http.ts';
import { sqlitePlace } from '../../helper/places.ts';
import { aHead } from '../../helper/sink.ts';
import {
  admit,
  admitRead,
  batchAt,
  HOUR,
  MINUTE,
  NOON,
  quotas,
  refusalOf,
  send,
  type Written,
} from './started.ts';

t.test('configuration', async (t) => {
  const problems = (config: unknown) =>
    quotasConfig.safeParse(config).error?.issues.map(({ message }) => message) ?? [];

  t.test('needs either a store or a storage for the ledger', async (t) => {
    t.match(problems({}), [/name either `store`.* or `storage`/]);
    t.match(problems({ store: 'sqlite', storage: 'file_storage' }), [/name either/]);
    t.same(problems({ storage: 'file_storage', monthly_events: 1, hourly_bytes: '10GiB' }), []);
  });

  t.test('shares counters only with a store for the ledger', async (t) => {
    t.match(problems({ storage: 'file_storage', counters: 'redis' }), [/needs a `store`/]);
    t.same(problems({ store: 'postgres', counters: 'redis' }), []);
  });

  t.test('takes a burst only with a rate', async (t) => {
    t.match(problems({ store: 'sqlite', edge: { burst: 5 } }), [/requests_per_second/]);
    t.same(problems({ store: 'sqlite', edge: { burst: 5, requests_per_second: 1 } }), []);
  });
});

t.test('plan', async (t) => {
  t.test('takes the limits of the plan, and a changed plan at once', async (t) => {
    const q = await quotas({}, { eventsPerMonth: 1 });
    await send(q, batchAt(q.clock));
    t.equal(await send(q, batchAt(q.clock)), 'monthly_limit');
    q.organization.change({ eventsPerMonth: 2 });
    t.equal(await send(q, batchAt(q.clock)), 'ok');
    q.organization.change({ eventsPerMonth: null });
    t.equal(await send(q, batchAt(q.clock, 50)), 'ok');
    q.organization.change({ eventsPerMonth: 10 });
    t.equal((await refusalOf(() => admit(q))).code, 'monthly_limit');
  });

  t.test('prefers the limits of the configuration', async (t) => {
    const q = await quotas({ monthly_events: 3 }, { eventsPerMonth: 1, bytesPerHour: 1 });
    q.organization.change({ eventsPerMonth: 1 });
    t.equal(
      await send(q, batchAt(q.clock, 3)),
      'exceeds_hourly_limit',
      'the other limit is that of the plan',
    );
    q.organization.change({ bytesPerHour: null });
    t.equal(await send(q, batchAt(q.clock, 3)), 'ok');
  });

  t.test(
    'reads a plan changed by another process within 5 s, and keeps it while the store is away',
    async (t) => {
      const q = await quotas({}, { eventsPerMonth: 0 });
      q.organization.change({ eventsPerMonth: 5 }, true);
      t.equal(await send(q, batchAt(q.clock)), 'monthly_limit');
      q.clock.advance(5_000);
      await send(q, batchAt(q.clock));
      await new Promise(setImmediate);
      t.equal(await send(q, batchAt(q.clock)), 'ok');
      q.organization.fails = true;
      q.clock.advance(5_000);
      t.equal(await send(q, batchAt(q.clock)), 'ok');
      await new Promise(setImmediate);
      t.equal(await send(q, batchAt(q.clock)), 'ok');
      t.match(q.settings.logger.lines, [{ level: 'warn' }]);
    },
  );

  t.test('a change during a read of the plan is newer than the answer', async (t) => {
    const q = await quotas({}, { eventsPerMonth: 5 });
    q.clock.advance(5_000);
    q.organization.change({ eventsPerMonth: 0 });
    await new Promise(setImmediate);
    t.equal(await send(q, batchAt(q.clock)), 'monthly_limit');
    q.organization.change({ eventsPerMonth: 5 }, true);
    q.clock.advance(5_000);
    await new Promise(setImmediate);
    t.equal(await send(q, batchAt(q.clock)), 'ok', 'the next read counts again');
  });

  t.test('does not read the plan for every request', async (t) => {
    const q = await quotas();
    const before = q.organization.asked;
    for (let i = 0; i < 100; i++) await send(q, batchAt(q.clock));
    t.equal(q.organization.asked, before);
  });

  t.test('without a store: a limit that is not configured is unlimited', async (t) => {
    const q = await quotas({ storage: 'file_storage', monthly_events: 1 });
    t.equal(await send(q, batchAt(q.clock)), 'ok');
    t.equal(await send(q, batchAt(q.clock)), 'monthly_limit');
  });
});

t.test('limits of a project', async (t) => {
  const one = measure(received(nativeBatch(1))).bytes;
  const batchOf = (clock: FakeClock, projectId: string, events = 1) =>
    received(nativeBatch(events, { receivedAt: clock.now(), tenant: aTenant({ projectId }) }));
  async function limited(t: Test, written: Written = {}) {
    const place = sqlitePlace(t);
    const { store, close } = await place.open();
    t.teardown(close);
    const { clock } = place;
    const q = await quotas(written, {}, NOON, { clock, counters: store.counters });
    return { ...q, clock };
  }

  t.test('limit the project exactly, and no other project', async (t) => {
    const q = await limited(t, { monthly_events: 10 });
    q.projects.limit('proj_small', { eventsPerMonth: 3 });
    t.equal(await send(q, batchOf(q.clock, 'proj_small', 4)), 'monthly_limit');
    t.equal(await send(q, batchOf(q.clock, 'proj_small', 3)), 'ok');
    const refusal = await refusalOf(() =>
      q.processor.admit?.(
        aHead({ receivedAt: q.clock.now() }),
        aTenant({ projectId: 'proj_small' }),
      ),
    );
    t.match(refusal, { code: 'monthly_limit', status: 402 });
    t.match(refusal.message, /for this project/);
    t.equal(await send(q, batchOf(q.clock, 'proj_other', 7)), 'ok');
    t.equal(await send(q, batchOf(q.clock, 'proj_other')), 'monthly_limit');
    q.clock.set(Date.UTC(2026, 1, 1));
    t.equal(await send(q, batchOf(q.clock, 'proj_small', 4)), 'monthly_limit');
    t.equal(await send(q, batchOf(q.clock, 'proj_small', 3)), 'ok', 'a new month');
  });

  t.test('limit bytes by the hour, and refuse a request above the whole limit', async (t) => {
    const q = await limited(t);
    q.projects.limit('proj_small', { bytesPerHour: 2 * one });
    t.equal(await send(q, batchOf(q.clock, 'proj_small', 3)), 'exceeds_hourly_limit');
    t.equal(await send(q, batchOf(q.clock, 'proj_small', 2)), 'ok');
    t.equal(await send(q, batchOf(q.clock, 'proj_small')), 'hourly_limit');
    t.equal(await send(q, batchOf(q.clock, 'proj_other', 3)), 'ok');
    q.clock.advance(HOUR);
    t.equal(await send(q, batchOf(q.clock, 'proj_small', 2)), 'ok');
  });

  t.test('never exceed those of the organization', async (t) => {
    const q = await limited(t, { monthly_events: 5 });
    q.projects.limit('proj_large', { eventsPerMonth: 1000 });
    t.equal(await send(q, batchOf(q.clock, 'proj_large', 5)), 'ok');
    t.equal(await send(q, batchOf(q.clock, 'proj_large')), 'monthly_limit');
  });

  t.test('take effect at once, or within 5 s if another process changed them', async (t) => {
    const q = await limited(t);
    q.projects.limit('proj_a', { eventsPerMonth: 1 });
    t.equal(await send(q, batchOf(q.clock, 'proj_a')), 'ok');
    t.equal(await send(q, batchOf(q.clock, 'proj_a')), 'monthly_limit');
    q.organization.change({ eventsPerMonth: 1000 });
    t.equal(
      await send(q, batchOf(q.clock, 'proj_a')),
      'monthly_limit',
      'a changed plan keeps them',
    );
    q.projects.limit('proj_a', {});
    t.equal(await send(q, batchOf(q.clock, 'proj_a')), 'ok');
    q.projects.limit('proj_a', { eventsPerMonth: 2 }, true);
    t.equal(await send(q, batchOf(q.clock, 'proj_a')), 'ok', 'not read yet');
    q.clock.advance(5_000);
    await send(q, batchOf(q.clock, 'proj_other'));
    await new Promise(setImmediate);
    t.equal(await send(q, batchOf(q.clock, 'proj_a')), 'monthly_limit');
    q.projects.delete('proj_a');
    t.equal(
      await send(q, batchOf(q.clock, 'proj_a')),
      'ok',
      'the limits of a deleted project are gone',
    );
  });
});

t.test('requests of a key', async (t) => {
  const rateOf = ({ code, retryAfterMs, hourlyIngestResetAt }: Refusal) => ({
    code,
    retryAfterMs,
    hourlyIngestResetAt,
  });

  t.test('are admitted in a burst, then at the rate, for each key separately', async (t) => {
    const q = await quotas({ edge: { requests_per_second: 2, burst: 3 } });
    for (let i = 0; i < 3; i++) await admit(q);
    t.same(rateOf(await refusalOf(() => admit(q))), {
      code: 'rate_limited',
      retryAfterMs: 500,
      hourlyIngestResetAt: undefined,
    });
    await admit(q, 'key_other');
    q.clock.advance(500);
    await admit(q);
    t.equal((await refusalOf(() => admit(q))).code, 'rate_limited');
    q.clock.advance(MINUTE);
    for (let i = 0; i < 3; i++) await admit(q);
    t.equal((await refusalOf(() => admit(q))).code, 'rate_limited', 'the burst is the limit');
    t.equal(
      q.settings.metrics.value('tracectl_quota_refusals_total', { limit: 'request_rate' }),
      3,
    );
  });

  t.test('have a burst of two seconds by default', async (t) => {
    const q = await quotas({ edge: { requests_per_second: 1.5 } });
    for (let i = 0; i < 3; i++) await admit(q);
    t.equal((await refusalOf(() => admit(q))).code, 'rate_limited');
  });

  t.test('are limited in flight', async (t) => {
    const q = await quotas({ edge: { max_in_flight: 2 } });
    const releases = [await admit(q), await admit(q)];
    t.match(rateOf(await refusalOf(() => admit(q))), { code: 'rate_limited', retryAfterMs: 1000 });
    await admit(q, 'key_other');
    releases[0]?.();
    await admit(q);
    t.equal((await refusalOf(() => admit(q))).code, 'rate_limited');
  });

  t.test('count reading requests too, which month and hour do not refuse', async (t) => {
    const rated = await quotas({
      monthly_events: 0,
      edge: { requests_per_second: 2, burst: 2, max_in_flight: 2 },
    });
    const release = await admitRead(rated);
    await admitRead(rated);
    t.equal((await refusalOf(() => admitRead(rated))).code, 'rate_limited');
    t.equal((await refusalOf(() => admit(rated))).code, 'monthly_limit');
    rated.clock.advance(MINUTE);
    t.match(rateOf(await refusalOf(() => admitRead(rated))), { retryAfterMs: 1000 }, 'in flight');
    release?.();
    await admitRead(rated);
    const shared = await quotas({ edge: { max_in_flight: 1 } });
    await admit(shared);
    t.equal((await refusalOf(() => admitRead(shared))).code, 'rate_limited', 'one limit for both');
  });

  t.test('do not use up the rate while the month is used up', async (t) => {
    const q = await quotas({ monthly_events: 0, edge: { requests_per_second: 1, burst: 1 } });
    for (let i = 0; i < 5; i++) t.equal((await refusalOf(() => admit(q))).code, 'monthly_limit');
  });
});

t.test('refuses failed authentications over the limit of an address with 429', async (t) => {
  const { processor, clock, settings } = await quotas({
    edge: { failed_authentications: { per_minute: 60, burst: 2, max_addresses: 100 } },
  });
  const fails = (remoteAddress: string) =>
    processor.authenticationFailed?.(aHead({ remoteAddress }));
  fails('192.0.2.1');
  fails('192.0.2.1');
  const refusal = await refusalOf(() => fails('192.0.2.1'));
  t.match(refusal, { code: 'rate_limited', status: 429, retryAfterMs: 1000 });
  fails('192.0.2.2');
  await refusalOf(() => fails('::ffff:192.0.2.1'));
  clock.advance(999);
  await refusalOf(() => fails('192.0.2.1'));
  clock.advance(1);
  fails('192.0.2.1');
  const limit = { limit: 'failed_authentications' };
  t.equal(settings.metrics.value('tracectl_quota_refusals_total', limit), 3);
});

t.test('reports fixed keys as org_local, with and without a store', async (t) => {
  const { bytes } = measure(received(nativeBatch(2)));
  const local = { organization: 'org_local' };
  for (const place of [{ storage: 'file_storage' }, { store: 'sqlite' }]) {
    const { clock, open } = sqlitePlace(t);
    clock.set(NOON);
    const { store, close } = await open();
    const given = { clock, counters: store.counters };
    const q = await quotas({ ...place, monthly_events: 2 }, {}, NOON, given);
    const tenant = aTenant({ organizationId: 'org_local' });
    await send(q, received(nativeBatch(2, { receivedAt: clock.now(), tenant })));
    t.equal(await q.settings.metrics.scraped('tracectl_quota_month_events', local), 2);
    t.equal(await q.settings.metrics.scraped('tracectl_quota_hour_bytes', local), bytes);
    t.equal(q.settings.metrics.value('tracectl_quota_month_events_limit'), 2);
    const [report] = q.health.report(true).components;
    const name = 'store' in place ? 'month_events org_local' : 'month_events';
    t.match(report, { message: /month are used up/, details: { [name]: 2 } });
    await close();
  }
});

t.test('reports usage and limits in health and metrics', async (t) => {
  const q = await quotas({ monthly_events: 3 });
  await send(q, batchAt(q.clock, 2));
  const { bytes } = measure(received(nativeBatch(2)));
  t.match(q.health.report(true).components, [
    {
      id: 'quotas',
      details: {
        month_events: 2,
        month_events_limit: 3,
        month_resets_at: '2026-02-01T00:00:00.000Z',
        hour_bytes: bytes,
        hour_bytes_limit: null,
        hour_resets_at: '2026-01-15T13:00:00.000Z',
      },
    },
  ]);
  t.equal(
    await q.settings.metrics.scraped('tracectl_quota_month_events', { organization: 'org_a' }),
    2,
  );
  t.equal(q.settings.metrics.value('tracectl_quota_month_events_limit'), 3);
  t.equal(
    await q.settings.metrics.scraped('tracectl_quota_hour_bytes', { organization: 'org_a' }),
    bytes,
  );
  await send(q, batchAt(q.clock, 1));
  const [report] = q.health.report(true).components;
  t.equal(report?.message, 'The events of this month are used up.');
  t.not(report?.ready, false, 'the process stays ready when a client is over its limit');
  await q.processor.shutdown(NO_DEADLINE);
});
