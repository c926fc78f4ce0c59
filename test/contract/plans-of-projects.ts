import type { Test } from 'tap';
import type { OpenTenancy } from './tenancy-place.ts';
import { only } from './tenancy-place.ts';

/** The rules for projects, and the plan of their organization. */
export function projectsAndPlans(t: Test, open: OpenTenancy): void {
  t.test('creates a new organization on the plan scale', async (t) => {
    const { store } = await open(t);
    t.match(await store.organization.get(), {
      plan: 'scale',
      limits: {
        projects: null,
        eventsPerMonth: 100_000_000,
        bytesPerHour: 128 * 2 ** 30,
        retentionDays: 400,
      },
    });
  });

  t.test('refuses a plan that allows fewer projects, with the number to delete', async (t) => {
    const { store } = await open(t);
    await store.projects.create('second');
    await store.projects.create('third');
    await t.rejects(store.organization.update({ plan: 'free' }), {
      name: 'StoreError',
      code: 'plan_limit',
      message: /delete 2 projects/,
    });
    t.equal((await store.organization.get()).plan, 'scale');
    t.equal((await store.organization.update({ plan: 'pro' })).limits.retentionDays, 90);
    const unknown = store.organization.update({ plan: 'gold' as 'free' });
    await t.rejects(unknown, { code: 'unknown_plan' });
  });

  t.test('notifies listeners of a changed plan, and keeps it across a restart', async (t) => {
    const { store, reopen } = await open(t);
    const plans: string[] = [];
    const stop = store.organization.onChange(({ plan }) => plans.push(plan));
    await store.organization.update({ plan: 'free', name: 'ACME' });
    stop();
    await store.organization.update({ plan: 'pro' });
    t.same(plans, ['free']);
    t.match(await (await reopen()).organization.get(), { plan: 'pro', name: 'ACME' });
  });

  t.test('creates one of fifty concurrent projects on the plan free', async (t) => {
    const { store } = await open(t);
    await store.organization.update({ plan: 'free' });
    const results = await Promise.allSettled(
      Array.from({ length: 50 }, (_, i) => store.projects.create(`p${i}`)),
    );
    t.ok(results.every((result) => result.status === 'rejected'));
    t.match(results[0], { reason: { code: 'project_limit' } });
    t.equal((await store.projects.list()).length, 1);
  });

  t.test('deletes one of two projects in fifty concurrent deletions', async (t) => {
    const { store } = await open(t);
    const ids = [(await only(store)).id, (await store.projects.create('second')).id];
    const results = await Promise.allSettled(
      Array.from({ length: 50 }, (_, i) => store.projects.delete(ids[i % 2] ?? '')),
    );
    t.equal(results.filter(({ status }) => status === 'fulfilled').length, 1);
    t.equal((await store.projects.list()).length, 1);
    const codes = new Set(results.map((result) => 'reason' in result && result.reason.code));
    t.same([...codes].sort(), [false, 'last_project', 'unknown_project'].sort());
  });

  t.test('renames a project, and bounds its retention by the plan', async (t) => {
    const { store, reopen } = await open(t);
    const { id } = await only(store);
    t.same((await only(store)).retention, { days: 400 });
    t.match(await store.projects.update(id, { name: 'new', retentionDays: 30 }), {
      name: 'new',
      retention: { days: 30 },
    });
    for (const retentionDays of [0, 1.5, -1, 401, Number.NaN]) {
      const refused = store.projects.update(id, { retentionDays });
      await t.rejects(refused, { code: 'invalid_retention' }, String(retentionDays));
    }
    await t.rejects(store.projects.update(id, { name: '' }), { code: 'invalid_name' });
    await t.rejects(store.projects.update('proj_none', { name: 'x' }), { code: 'unknown_project' });
    await store.organization.update({ plan: 'free' });
    t.same((await only(store)).retention, { days: 14 }, 'the plan shortens it');
    const after = await reopen();
    await after.organization.update({ plan: 'scale' });
    t.match(await only(after), { name: 'new', retention: { days: 30 } });
    const back = await after.projects.update(id, { retentionDays: null });
    t.same(back.retention, { days: 400 });
  });
}

/** The rules for the limits of a project within its plan. */
export function projectLimits(t: Test, open: OpenTenancy): void {
  t.test('keeps the own limits of a project across a restart', async (t) => {
    const { store, reopen } = await open(t);
    const { id } = await only(store);
    const none = { eventsPerMonth: null, bytesPerHour: null };
    t.same((await only(store)).limits, none);
    t.same(await store.projects.ownLimits(), new Map());
    const told: unknown[] = [];
    const stop = store.projects.onLimits((...change) => told.push(change));
    const changed = await store.projects.update(id, { limits: { eventsPerMonth: 5 } });
    t.same(changed.limits, { ...none, eventsPerMonth: 5 });
    await store.projects.update(id, { limits: { bytesPerHour: 7 } });
    const both = { eventsPerMonth: 5, bytesPerHour: 7 };
    await store.projects.update(id, { name: 'new', retentionDays: 3 });
    t.same(told, [
      [id, { ...none, eventsPerMonth: 5 }],
      [id, both],
    ]);
    stop();
    for (const limit of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53]) {
      for (const limits of [{ eventsPerMonth: limit }, { bytesPerHour: limit }]) {
        const refused = store.projects.update(id, { limits });
        await t.rejects(refused, { code: 'invalid_limits' }, String(limit));
      }
    }
    const after = await reopen();
    t.match(await only(after), { name: 'new', retention: { days: 3 }, limits: both });
    t.same(await after.projects.ownLimits(), new Map([[id, both]]));
    await after.projects.update(id, { limits: none });
    t.same(await after.projects.ownLimits(), new Map());
    t.equal(told.length, 2);
  });

  t.test('lists every plan with its limits', async (t) => {
    const { store } = await open(t);
    const plans = await store.organization.plans();
    t.same(Object.keys(plans), ['free', 'pro', 'scale', 'enterprise']);
    t.same(plans.scale, (await store.organization.get()).limits);
    t.match(plans.free, { projects: 1, eventsPerMonth: 50_000, retentionDays: 14 });
    t.same(new Set(Object.values(plans.enterprise)), new Set([null]));
  });
}
