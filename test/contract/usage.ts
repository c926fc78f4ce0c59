import type { Test } from 'tap';
import type { SealedBatch } from '../../src/model/batch.ts';
import { aTenant } from '../helper/batches.ts';
import type { OpenTenancy } from './tenancy-place.ts';
import { batchOf, DAY, HOUR, only, UNLIMITED, write } from './tenancy-place.ts';

/** The rules for the counted usage. */
export function usage(t: Test, open: OpenTenancy): void {
  t.test('admits a reservation as a whole or not at all, never above a limit', async (t) => {
    const { store, clock } = await open(t);
    const project = await only(store);
    const limits = { eventsPerMonth: 10, bytesPerHour: null };
    const reservations = Array.from({ length: 50 }, (_, i) => {
      const { id: batchId, tenant } = batchOf(project, clock);
      return { batchId, tenant, usage: { events: 1 + (i % 3), bytes: 1 }, at: clock.now() };
    });
    const verdicts = await Promise.all(
      reservations.map((reservation) => store.counters.reserve(reservation, limits)),
    );
    const admitted = reservations.filter((_, i) => verdicts[i]?.admitted === true);
    const events = admitted.reduce((sum, reservation) => sum + reservation.usage.events, 0);
    t.equal(events, 10);
    t.equal((await store.counters.read(project.organizationId)).month.events, 10);
    t.match(await store.counters.peek(aTenant(project), UNLIMITED, clock.now()), {
      admitted: true,
    });
    for (const reservation of admitted) store.counters.settle(reservation, false);
    for (const reservation of admitted) store.counters.settle(reservation, false);
    t.equal((await store.counters.read(project.organizationId)).month.events, 0);
  });

  t.test(
    'the month, the hour, and a request above a whole hour each have their code',
    async (t) => {
      const { store, clock } = await open(t);
      const { organizationId, id: projectId } = await only(store);
      const tenant = aTenant({ organizationId, projectId });
      const reserve = (events: number, bytes: number, limits: object) =>
        store.counters.reserve(
          { batchId: `${Math.random()}`, tenant, usage: { events, bytes }, at: clock.now() },
          { ...UNLIMITED, ...limits },
        );
      t.match(await reserve(1, 60, {}), { admitted: true, at: clock.now() });
      t.same(await reserve(1, 50, { bytesPerHour: 100 }), {
        admitted: false,
        code: 'hourly_limit',
        resetsAt: Date.UTC(2026, 0, 15, 13),
      });
      t.match(await reserve(1, 101, { bytesPerHour: 100 }), { code: 'exceeds_hourly_limit' });
      t.same(await reserve(1, 0, { eventsPerMonth: 1 }), {
        admitted: false,
        code: 'monthly_limit',
        resetsAt: Date.UTC(2026, 1, 1),
      });
      const project = { ...UNLIMITED, eventsPerMonth: 1 };
      t.match(
        await reserve(1, 0, { project }),
        { code: 'monthly_limit', scope: 'project' },
        "the project's own",
      );
      const peeked = await store.counters.peek(
        tenant,
        { ...UNLIMITED, bytesPerHour: 60 },
        clock.now(),
      );
      t.match(peeked, { admitted: false, code: 'hourly_limit' });
      clock.set(Date.UTC(2026, 0, 15, 13));
      t.match(await reserve(1, 50, { bytesPerHour: 100 }), { admitted: true });
      clock.set(Date.UTC(2026, 1, 1));
      t.match(await reserve(1, 0, { eventsPerMonth: 1 }), { admitted: true });
    },
  );

  t.test('opens no new window when the clock goes back', async (t) => {
    const { store, clock } = await open(t);
    const project = await only(store);
    const queue = await store.openQueue({ name: 'q', branches: ['a'], maxBytes: 1e9 });
    clock.set(Date.UTC(2026, 1, 1, 0, 30));
    await queue.append(batchOf(project, clock));
    clock.set(Date.UTC(2026, 0, 31, 23, 59));
    const late = batchOf(project, clock);
    const reservation = {
      batchId: late.id,
      tenant: late.tenant,
      usage: late.usage,
      at: clock.now(),
    };
    const verdict = await store.counters.reserve(reservation, { ...UNLIMITED, eventsPerMonth: 1 });
    t.match(verdict, { admitted: false, code: 'monthly_limit', resetsAt: Date.UTC(2026, 2, 1) });
    await queue.append(late);
    t.equal((await store.counters.read(project.organizationId)).month.events, 2);
    t.same(await store.usage.verify(), []);
  });

  t.test(
    'counters are the sum of the ledger, whatever ends a batch, and after a crash',
    async (t) => {
      const { store, clock, reopen } = await open(t);
      const project = await only(store);
      const queue = await store.openQueue({ name: 'q', branches: ['a'], maxBytes: 1e9 });
      const reserve = async (batch: SealedBatch) => {
        const { id: batchId, tenant, usage } = batch;
        const reservation = { batchId, tenant, usage, at: clock.now() };
        const verdict = await store.counters.reserve(reservation, UNLIMITED);
        const counted = verdict.admitted ? { ...usage, at: verdict.at } : usage;
        return { reservation, batch: { ...batch, usage: counted } };
      };
      const kept = await reserve(batchOf(project, clock));
      await queue.append(kept.batch);
      store.counters.settle(kept.reservation, true);
      const failed = await reserve(batchOf(project, clock));
      store.counters.settle(failed.reservation, false);
      const failedLater = await reserve(batchOf(project, clock));
      await queue.append(failedLater.batch);
      store.counters.settle(failedLater.reservation, false);
      const elsewhere = await reserve(batchOf(project, clock));
      store.counters.settle(elsewhere.reservation, true);
      await queue.append(batchOf(project, clock));
      await queue.append(kept.batch);
      t.match(await store.counters.read(project.organizationId, project.id), {
        month: { events: 4 },
        hour: { bytes: 400 },
      });
      t.same(await store.usage.verify(), []);
      const after = await reopen();
      t.match(await after.counters.read(project.organizationId), {
        month: { events: 4, resetsAt: Date.UTC(2026, 1, 1) },
        hour: { bytes: 400, resetsAt: Date.UTC(2026, 0, 15, 13) },
      });
      t.same(await after.usage.verify(), []);
    },
  );

  t.test('counts a batch once, on every path', async (t) => {
    const { store, clock } = await open(t);
    const project = await only(store);
    const { organizationId } = project;
    const batch = batchOf(project, clock);
    await write(store, batch);
    await write(store, batch);
    t.equal((await store.counters.read(organizationId)).month.events, 1);
    const queue = await store.openQueue({ name: 'q', branches: ['a'], maxBytes: 1e9 });
    await queue.append(batch);
    t.equal((await store.counters.read(organizationId)).month.events, 1);
    t.same(await store.usage.verify(), []);
  });

  t.test('keeps the history by hour and day after the project is deleted', async (t) => {
    const { store, clock, finish } = await open(t);
    const project = await store.projects.create('doomed');
    const queue = await store.openQueue({ name: 'q', branches: ['a'], maxBytes: 1e9 });
    const from = clock.now();
    await queue.append(batchOf(project, clock, ['a', 'b']));
    store.rejections.record({
      ...{ at: clock.now(), projectId: project.id, keyId: 'key_test', path: '/x' },
      ...{ code: 'invalid_field', reason: 'why', itemId: null, client: null, count: 3 },
    });
    clock.set(clock.now() + HOUR);
    await queue.append(batchOf(project, clock));
    const range = { from, to: clock.now() + 1, projectId: project.id };
    const keyId = 'key_test';
    const projectId = project.id;
    const hours = [
      {
        period: '2026-01-15T12',
        projectId,
        keyId,
        events: 2,
        bytes: 100,
        rejected: { invalid_field: 3 },
      },
      { period: '2026-01-15T13', projectId, keyId, events: 1, bytes: 100, rejected: {} },
    ];
    t.same(await store.usage.history({ ...range, by: 'hour' }), hours);
    await store.projects.delete(project.id);
    clock.set(clock.now() + 8 * DAY);
    await finish();
    t.same(await store.usage.history({ ...range, by: 'hour' }), hours, 'summed up, and purged');
    t.match(await store.usage.history({ ...range, by: 'day' }), [
      { period: '2026-01-15', events: 3, bytes: 200, rejected: { invalid_field: 3 } },
    ]);
    t.equal((await store.counters.read(project.organizationId)).month.events, 3);
    t.same(await store.usage.verify(), []);
  });
}
