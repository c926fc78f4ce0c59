import fc from 'fast-check';
import t, { type Test } from 'tap';
import type { QuotasConfig } from '../../../processors/quotas/config.ts';
import { config as quotasConfig } from '../../../processors/quotas/config.ts';
import { createProcessor as createQuotasProcessor } from '../../../processors/quotas/processor.ts';
import { offer } from '../../../src/component/capability.ts';
import type { RequestProcessor } from '../../../src/component/component.ts';
import { createHealth, HEALTH_REGISTRY } from '../../../src/component/health.ts';
import type { LedgerUsage, ReceivedBatch, Tenant } from '../../../src/model/batch.ts';
import { Refusal } from '../../../src/model/errors.ts';
import { measure } from '../../../src/model/formats.ts';
import type { RequestContext } from '../../../src/model/request-context.ts';
import { requestContext } from '../../../src/model/request-context.ts';
import { reject } from '../../../src/model/verbs.ts';
import { STORE, type Store } from '../../../src/store/store.ts';
import type { UsageCounters } from '../../../src/tenancy/contract.ts';
import { USAGE_COUNTERS } from '../../../src/tenancy/contract.ts';
import { aTenant, nativeBatch, received } from '../../helper/batches.ts';
import type { FakeClock } from '../../helper/clock.ts';
import { fakeClock } from '../../helper/clock.ts';
import { memoryCounters, memoryOrganization, memoryProjects } from '../../helper/counters.ts';
import { NO_DEADLINE } from '../../helper/http.ts';
import { sqlitePlace } from '../../helper/places.ts';
import { fakeHost, testSettings } from '../../helper/settings.ts';
import { aHead } from '../../helper/sink.ts';

const NOON = Date.UTC(2026, 0, 15, 12, 0, 0);
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

type Written = Omit<Partial<QuotasConfig>, 'edge'> & { edge?: unknown };

/** A started processor, with counters and an organization in memory. */
async function quotas(
  written: Written = {},
  plan: Parameters<typeof memoryOrganization>[0] = {},
  start: number = NOON,
  given: { clock?: FakeClock; counters?: UsageCounters } = {},
) {
  const clock = given.clock ?? fakeClock(start);
  const counters = memoryCounters();
  const organization = memoryOrganization(plan);
  const projects = memoryProjects();
  const health = createHealth(clock);
  const store = { organization: organization.store, projects: projects.store } as Store;
  const ledger = offer(USAGE_COUNTERS, given.counters ?? counters);
  const settings = testSettings('processor', 'quotas', {
    clock,
    host: fakeHost({
      services: [offer(HEALTH_REGISTRY, health)],
      extensions: {
        sqlite: [offer(STORE, store), ledger],
        file_storage: [ledger],
      },
    }),
  });
  const place = written.storage === undefined ? { store: 'sqlite' } : {};
  const config = quotasConfig.parse({ ...place, ...written });
  const processor = createQuotasProcessor(settings, config);
  await processor.start();
  return { clock, counters, organization, projects, health, settings, processor };
}

type Quotas = Awaited<ReturnType<typeof quotas>>;

function batchAt(clock: { now(): number }, events = 1): ReceivedBatch {
  return received(nativeBatch(events, { receivedAt: clock.now() }));
}

const requests = new WeakMap<ReceivedBatch, RequestContext>();

/** The request behind a batch, the same one for every call. */
function requestOf(batch: ReceivedBatch): RequestContext {
  const request = requests.get(batch) ?? requestContext();
  requests.set(batch, request);
  return request;
}

type WithProcessor = { readonly processor: RequestProcessor };

const process = ({ processor }: WithProcessor, batch: ReceivedBatch) =>
  processor.process?.(batch, requestOf(batch));

const settle = (
  { processor }: WithProcessor,
  batch: ReceivedBatch,
  outcome: 'durable' | 'failed',
) => processor.settle?.(batch, outcome, requestOf(batch));

/** Resolves with `ok`, or with the code of the refusal. */
async function send(q: WithProcessor, batch: ReceivedBatch): Promise<string> {
  try {
    await process(q, batch);
    return 'ok';
  } catch (error) {
    if (error instanceof Refusal) return error.code;
    throw error;
  }
}

async function refusalOf(work: () => unknown): Promise<Refusal> {
  try {
    await work();
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
  throw new Error('the request was not refused');
}

const admitRead = ({ processor, clock }: Quotas, keyId = 'key_test') =>
  processor.admitRead?.(aHead({ receivedAt: clock.now() }), aTenant({ keyId }));

const admit = ({ processor, clock }: Quotas, keyId = 'key_test') =>
  processor.admit?.(aHead({ receivedAt: clock.now() }), aTenant({ keyId }));

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

t.test('monthly events', async (t) => {
  t.test('admits whole requests up to the limit, and refuses one event more', async (t) => {
    const q = await quotas({ monthly_events: 10 });
    t.equal(await send(q, batchAt(q.clock, 8)), 'ok');
    t.equal(await send(q, batchAt(q.clock, 3)), 'monthly_limit');
    t.equal(await send(q, batchAt(q.clock, 2)), 'ok');
    t.equal(await send(q, batchAt(q.clock, 1)), 'monthly_limit');
    t.match(q.counters.read('org_a'), { month: { events: 10 } });
  });

  t.test(
    'refuses every request on its head with 402 after the last event, until the month ends',
    async (t) => {
      const q = await quotas({ monthly_events: 1 });
      t.equal(await admit(q), undefined);
      await send(q, batchAt(q.clock));
      const refusal = await refusalOf(() => admit(q));
      t.match(refusal, { code: 'monthly_limit', status: 402, hourlyIngestResetAt: undefined });
      t.equal(refusal.retryAfterMs, Date.UTC(2026, 1, 1) - NOON);
      t.match(refusal.message, /2026-02-01T00:00:00.000Z/);
      t.equal(
        q.settings.metrics.value('tracectl_quota_refusals_total', { limit: 'monthly_events' }),
        1,
      );
    },
  );

  t.test('releases a failed batch and keeps a durable one', async (t) => {
    const q = await quotas({ monthly_events: 10 });
    const lost = batchAt(q.clock, 10);
    const kept = batchAt(q.clock, 10);
    t.equal(await send(q, lost), 'ok');
    t.equal(await send(q, kept), 'monthly_limit');
    settle(q, kept, 'failed');
    t.equal(await send(q, kept), 'monthly_limit', 'a refused batch releases nothing');
    settle(q, lost, 'failed');
    t.equal(await send(q, kept), 'ok');
    settle(q, kept, 'durable');
    settle(q, kept, 'durable');
    t.equal(await send(q, batchAt(q.clock)), 'monthly_limit');
    t.same(
      q.counters.ledger.map(({ batchId, usage }) => [batchId, usage.events]),
      [[kept.id, 10]],
    );
    t.equal(q.counters.open.size, 0);
  });

  t.test('restarts at the end of the month, in a leap year and at new year', async (t) => {
    const ends = [
      [Date.UTC(2026, 0, 31, 23, 59, 59, 999), Date.UTC(2026, 1, 1)],
      [Date.UTC(2028, 1, 28, 23, 59, 59, 999), Date.UTC(2028, 2, 1)],
      [Date.UTC(2028, 1, 29, 23, 59, 59, 999), Date.UTC(2028, 2, 1)],
      [Date.UTC(2026, 11, 31, 23, 59, 59, 999), Date.UTC(2027, 0, 1)],
      // Clocks in Europe skip an hour on this night; UTC does not.
      [Date.UTC(2026, 2, 29, 1, 30), Date.UTC(2026, 3, 1)],
    ] as const;
    for (const [before, end] of ends) {
      const q = await quotas({ monthly_events: 1 }, {}, before);
      t.equal(await send(q, batchAt(q.clock)), 'ok');
      const { retryAfterMs } = await refusalOf(() => admit(q));
      t.equal(retryAfterMs, Math.max(1000, end - before));
      q.clock.set(end - 1);
      t.equal(await send(q, batchAt(q.clock)), 'monthly_limit');
      q.clock.set(end);
      t.equal(await send(q, batchAt(q.clock)), 'ok', new Date(end).toISOString());
    }
  });
});

t.test('hourly bytes', async (t) => {
  const one = measure(received(nativeBatch(1))).bytes;

  t.test('refuses with 429 and the time of the reset', async (t) => {
    const q = await quotas({ hourly_bytes: 2 * one });
    t.equal(await send(q, batchAt(q.clock, 2)), 'ok');
    for (const refuse of [() => admit(q), () => process(q, batchAt(q.clock))]) {
      const refusal = await refusalOf(refuse);
      t.match(refusal, {
        code: 'hourly_limit',
        status: 429,
        retryAfterMs: HOUR,
        hourlyIngestResetAt: '2026-01-15T13:00:00.000Z',
      });
    }
    q.clock.advance(HOUR - 1);
    t.equal((await refusalOf(() => admit(q))).retryAfterMs, 1000, 'at least one second');
    q.clock.advance(1);
    t.equal(await send(q, batchAt(q.clock, 2)), 'ok');
  });

  t.test('refuses a request above the whole limit with 413', async (t) => {
    const q = await quotas({ hourly_bytes: 2 * one });
    const refusal = await refusalOf(() => process(q, batchAt(q.clock, 3)));
    t.match(refusal, { code: 'exceeds_hourly_limit', status: 413, retryAfterMs: undefined });
    t.equal(await send(q, batchAt(q.clock, 2)), 'ok', 'the refused request reserved nothing');
  });

  t.test('counts only accepted items', async (t) => {
    const q = await quotas({ hourly_bytes: one });
    const batch = batchAt(q.clock, 3);
    for (const item of [0, 2]) reject(batch, item, 'invalid_field', 'x');
    t.equal(await send(q, batch), 'ok');
    t.match(requestOf(batch).reserved, { events: 1, bytes: one });
    const rejected = batchAt(q.clock, 1);
    reject(rejected, 0, 'invalid_field', 'x');
    t.equal(await send(q, rejected), 'ok', 'a batch without accepted items reserves nothing');
    t.equal(q.counters.open.size, 1);
  });

  t.test('counts in the hour of the request, on both sides of the boundary', async (t) => {
    const q = await quotas({ hourly_bytes: 500 * one }, {}, NOON + HOUR - 1);
    const results: string[] = [];
    for (let i = 0; i < 1000; i++) {
      if (i === 400) q.clock.set(NOON + HOUR);
      const batch = batchAt(q.clock);
      results.push(await send(q, batch));
      settle(q, batch, 'durable');
    }
    t.equal(results.filter((result) => result === 'ok').length, 400 + 500);
    const hours = Map.groupBy(q.counters.ledger, ({ countsAt }) => Math.floor(countsAt / HOUR));
    t.same(
      [...hours.values()].map((entries) => entries.length),
      [400, 500],
    );
  });

  t.test('reopens no closed hour when the clock goes back', async (t) => {
    const q = await quotas({ hourly_bytes: one });
    q.clock.advance(HOUR);
    t.equal(await send(q, batchAt(q.clock)), 'ok');
    q.clock.set(NOON - HOUR);
    t.equal(await send(q, batchAt(q.clock)), 'hourly_limit');
    const refusal = await refusalOf(() => admit(q));
    t.equal(refusal.hourlyIngestResetAt, '2026-01-15T14:00:00.000Z');
    t.equal(refusal.retryAfterMs, 3 * HOUR);
  });

  t.test('passes the time at which the usage counts on with the batch', async (t) => {
    const q = await quotas({});
    q.clock.advance(HOUR);
    await send(q, batchAt(q.clock));
    q.clock.set(NOON);
    const late = batchAt(q.clock);
    await send(q, late);
    t.equal(requestOf(late).reserved?.at, NOON + HOUR);
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

t.test('admits exactly the limit with asynchronous counters', async (t) => {
  const q = await quotas({ monthly_events: 7 });
  q.counters.later = true;
  const results = await Promise.all(Array.from({ length: 20 }, () => send(q, batchAt(q.clock))));
  t.equal(results.filter((result) => result === 'ok').length, 7);
  t.equal((await refusalOf(() => admit(q))).code, 'monthly_limit');
  t.same(q.health.report(true).components[0]?.details, undefined, 'not read yet');
  await new Promise(setImmediate);
  t.match(q.health.report(true).components[0]?.details, { month_events: 7 });
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

/** Steps in the life of an organization, in any order. */
const STEP = fc.oneof(
  fc.record({ do: fc.constant('offer' as const), events: fc.integer({ min: 1, max: 5 }) }),
  fc.record({ do: fc.constant('settle' as const), which: fc.nat(), durable: fc.boolean() }),
  fc.record({ do: fc.constant('wait' as const), ms: fc.integer({ min: -HOUR, max: 30 * HOUR }) }),
  fc.record({ do: fc.constant('plan' as const), events: fc.integer({ min: 0, max: 30 }) }),
);
type Step = typeof STEP extends fc.Arbitrary<infer T> ? T : never;

/**
 * Takes the steps. Throws if a limit is exceeded, or if the counters at the end differ from the sum of the durable
 * batches.
 */
async function takeSteps(
  steps: readonly Step[],
  q: Quotas,
  counters: UsageCounters,
  tenant: Tenant,
): Promise<void> {
  const hourLimit = 8 * measure(received(nativeBatch(1))).bytes;
  let monthLimit = 20;
  const inFlight: ReceivedBatch[] = [];
  const durable: LedgerUsage[] = [];
  for (const step of steps) {
    if (step.do === 'wait') q.clock.set(q.clock.now() + step.ms);
    else if (step.do === 'plan') {
      monthLimit = step.events;
      q.organization.change({ eventsPerMonth: monthLimit });
    } else if (step.do === 'settle') {
      const [batch] = inFlight.splice(step.which % (inFlight.length || 1), 1);
      if (batch === undefined) continue;
      const { reserved } = requestOf(batch);
      settle(q, batch, step.durable ? 'durable' : 'failed');
      if (step.durable && reserved !== undefined) durable.push(reserved);
    } else {
      const batch = received(nativeBatch(step.events, { receivedAt: q.clock.now(), tenant }));
      if ((await send(q, batch)) !== 'ok') continue;
      inFlight.push(batch);
      const { month, hour } = await counters.read(tenant.organizationId);
      if (month.events > monthLimit) throw new Error(`${month.events} events of ${monthLimit}`);
      if (hour.bytes > hourLimit) throw new Error(`${hour.bytes} bytes of ${hourLimit}`);
    }
  }
  for (const batch of inFlight) settle(q, batch, 'failed');
  const { month, hour } = await counters.read(tenant.organizationId);
  const end = new Date(month.resetsAt);
  const monthBegin = Date.UTC(end.getUTCFullYear(), end.getUTCMonth() - 1, 1);
  const within = (begin: number, end: number) =>
    durable.filter(({ at = 0 }) => at >= begin && at < end);
  const events = within(monthBegin, month.resetsAt).reduce((sum, usage) => sum + usage.events, 0);
  const bytes = within(hour.resetsAt - HOUR, hour.resetsAt).reduce(
    (sum, usage) => sum + usage.bytes,
    0,
  );
  if (month.events !== events) throw new Error(`${month.events} counted, ${events} made durable`);
  if (hour.bytes !== bytes) throw new Error(`${hour.bytes} counted, ${bytes} made durable`);
}

t.test('limits hold exactly in every order of requests, successes and failures', async (t) => {
  const limits = { hourly_bytes: 8 * measure(received(nativeBatch(1))).bytes };
  const plan = { eventsPerMonth: 20 };

  t.test('with counters in memory', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(STEP, { maxLength: 60 }), async (steps) => {
        const q = await quotas(limits, plan);
        await takeSteps(steps, q, q.counters, aTenant());
      }),
      { numRuns: 200 },
    );
  });

  t.test('with the counters of a store, which equal its ledger at the end', async (t) => {
    const place = sqlitePlace(t);
    const { store, close } = await place.open();
    t.teardown(close);
    let runs = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(STEP, { maxLength: 60 }), async (steps) => {
        const { clock } = place;
        const q = await quotas(limits, plan, NOON, { clock, counters: store.counters });
        const tenant = aTenant({ organizationId: `org_${++runs}` });
        await takeSteps(steps, q, store.counters, tenant);
      }),
      { numRuns: 100 },
    );
    t.same(await store.usage.verify(), []);
  });
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
