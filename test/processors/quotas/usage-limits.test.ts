import fc from 'fast-check';
import t from 'tap';
import type { LedgerUsage, ReceivedBatch, Tenant } from '../../../src/model/batch.ts';
import { measure } from '../../../src/model/formats.ts';
import { reject } from '../../../src/model/verbs.ts';
import type { UsageCounters } from '../../../src/tenancy/contract.ts';
import { aTenant, nativeBatch, received } from '../../helper/batches.ts';
import { sqlitePlace } from '../../helper/places.ts';
import {
  admit,
  batchAt,
  HOUR,
  NOON,
  process,
  type Quotas,
  quotas,
  refusalOf,
  requestOf,
  send,
  settle,
} from './started.ts';

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
