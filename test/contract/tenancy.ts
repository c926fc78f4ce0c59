import type { Test } from 'tap';
import type { SealedBatch } from '../../src/model/batch.ts';
import type { QueueEntry } from '../../src/queue/queue.ts';
import type { Store } from '../../src/store/store.ts';
import type { Project } from '../../src/tenancy/contract.ts';
import { hashToken } from '../../src/tenancy/token.ts';
import { anObservation, aTenant, nativeBatch } from '../helper/batches.ts';
import type { FakeClock } from '../helper/clock.ts';
import { uiSessions } from './ui-sessions.ts';

/** A store under test, whose clock a test owns. */
export type TenancyPlace = { readonly clock: FakeClock; open(): Promise<OpenTenancyPlace> };
type OpenTenancyPlace = {
  readonly store: Store;
  /** Removes at once what is removed in small steps else. */
  finish(): Promise<void>;
  close(): Promise<void>;
  crash(): Promise<void>;
};

type Opened = {
  clock: FakeClock;
  store: Store;
  finish(): Promise<void>;
  reopen(): Promise<Store>;
};
type Open = (t: Test) => Promise<Opened>;

const DAY = 86_400_000;
const HOUR = 3_600_000;
const UNLIMITED = { eventsPerMonth: null, bytesPerHour: null };

/** The rules for the service around the pipeline: projects, plans, retention, usage, logs. */
export function tenancyContract(t: Test, place: (t: Test) => Promise<TenancyPlace>): void {
  async function open(t: Test): Promise<Opened> {
    const at = await place(t);
    let opened = await at.open();
    t.teardown(() => opened.close());
    return {
      clock: at.clock,
      store: opened.store,
      finish: () => opened.finish(),
      reopen: async () => {
        await opened.crash();
        opened = await at.open();
        return opened.store;
      },
    };
  }
  for (const [name, rules] of Object.entries({
    'projects and plans': projectsAndPlans,
    'limits of projects, and of plans': projectLimits,
    'deleting a project': deleting,
    retention,
    usage,
    'what was refused, and who did what': logs,
    'sessions of the web UI': uiSessions,
  })) {
    t.test(name, (t) => {
      rules(t, open);
      t.end();
    });
  }
}

async function only(store: Store): Promise<Project> {
  const [project] = await store.projects.list();
  if (project === undefined) throw new Error('a new store has a project');
  return project;
}

/** A batch of a project with one observation of each trace named. */
function batchOf(
  project: Project,
  clock: FakeClock,
  traces: readonly string[] = ['trace-1'],
  more: Partial<SealedBatch> = {},
): SealedBatch {
  return nativeBatch(
    traces.map((trace_id, i) => ({
      ...{ id: `${trace_id}-${i}`, trace_id, kind: 'span', operation: 'finish', status: 'ok' },
      ...{ inputs: { question: 'why' } },
    })),
    {
      receivedAt: clock.now(),
      usage: { events: traces.length, bytes: 100 },
      tenant: aTenant({ organizationId: project.organizationId, projectId: project.id }),
      ...more,
    },
  );
}

async function write(
  store: Store,
  source: SealedBatch,
  traces: readonly string[] = ['trace-1'],
): Promise<void> {
  const observations = traces.map((traceId, index) =>
    anObservation({ id: `${traceId}-${index}`, traceId, index }),
  );
  await store.traces.write({ kind: 'observations', source, observations });
}

async function traceIds(store: Store, project: Project): Promise<string[]> {
  const page = await store.traces.listTraces(project.id, { limit: 100 });
  return page.items.map(({ id }) => id).sort();
}

function projectsAndPlans(t: Test, open: Open): void {
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

function projectLimits(t: Test, open: Open): void {
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

function deleting(t: Test, open: Open): void {
  t.test('hides a deleted project without delay, and keeps its usage', async (t) => {
    const { store, clock } = await open(t);
    const keeper = await only(store);
    const project = await store.projects.create('doomed');
    const { key, token } = await store.keys.create({ projectId: project.id });
    const queue = await store.openQueue({ name: 'q', branches: ['b'], maxBytes: 1e9 });
    const batch = batchOf(project, clock);
    await queue.append(batch);
    await write(store, batch);
    const told: (string | undefined)[] = [];
    store.keys.onChange((keyId) => told.push(keyId));
    store.projects.onDelete((projectId) => told.push(projectId));
    await store.projects.delete(project.id);
    t.ok(told.includes(project.id));
    t.ok(told.some((id) => id === undefined || id === key.id));
    t.equal(await store.keys.findByHash(hashToken(token)), undefined);
    t.same(await store.keys.list(project.id), []);
    t.equal(await store.projects.get(project.id), undefined);
    t.same(await traceIds(store, project), []);
    t.equal(await store.traces.getTrace(project.id, 'trace-1'), undefined);
    t.equal(await store.traces.getObservation(project.id, 'trace-1-0', 'trace-1'), undefined);
    t.same(await store.traces.getBatches(project.id, [batch.id]), []);
    const { month } = await store.counters.read(keeper.organizationId);
    t.equal(month.events, 1);
    await t.rejects(store.projects.delete(project.id), { code: 'unknown_project' });
    await t.rejects(store.projects.delete(keeper.id), { code: 'last_project' });
    await t.rejects(store.keys.create({ projectId: project.id }), { code: 'unknown_project' });
  });

  t.test('refuses writes of a deleted project', async (t) => {
    const { store, clock, finish, reopen } = await open(t);
    const project = await store.projects.create('doomed');
    const queue = await store.openQueue({ name: 'q', branches: ['b'], maxBytes: 1e9 });
    await store.projects.delete(project.id);
    const batch = batchOf(project, clock);
    await t.rejects(queue.append(batch), { name: 'Refusal', code: 'unauthorized' });
    await t.rejects(write(store, batch), { name: 'PermanentError', code: 'project_deleted' });
    t.match(queue.stats(), { bytes: 0, branches: [{ entries: 0 }] });
    await finish();
    const after = await reopen();
    await t.rejects(write(after, batch), { code: 'project_deleted' });
    t.same(await traceIds(after, project), []);
    const { month } = await after.counters.read(project.organizationId);
    t.equal(month.events, 0, 'and nothing is counted');
  });

  t.test(
    'removes waiting, leased and dead entries of a deleted project, and counts them',
    async (t) => {
      const { store, clock, finish } = await open(t);
      const keeper = await only(store);
      const project = await store.projects.create('doomed');
      const queue = await store.openQueue({ name: 'q', branches: ['a', 'b'], maxBytes: 1e9 });
      const drops: object[] = [];
      queue.onDrop((drop) => drops.push(drop));
      await queue.append(batchOf(project, clock, ['x', 'y']));
      const [dead] = await queue.lease('a', 1, 1e9);
      await queue.deadLetter('a', dead as QueueEntry, { code: 'bad', message: 'bad' });
      await queue.append(batchOf(project, clock, ['x', 'y', 'z']));
      const [leased] = await queue.lease('a', 1, 1e9);
      const kept = batchOf(keeper, clock);
      await queue.append(kept);
      await store.projects.delete(project.id);
      await finish();
      const stats = queue.stats();
      t.equal(stats.bytes, kept.body.byteLength);
      t.match(stats, { deadLetters: 0, deadLetterItems: 0 });
      t.same(
        stats.branches.map(({ entries, items, leased }) => ({ entries, items, leased })),
        [
          { entries: 1, items: 1, leased: 0 },
          { entries: 1, items: 1, leased: 0 },
        ],
      );
      const reason = 'project_deleted';
      t.same(drops.map((drop) => JSON.stringify(drop)).sort(), [
        JSON.stringify({ branch: 'a', items: 2, reason, wasDead: true }),
        JSON.stringify({ branch: 'a', items: 3, reason, wasDead: false }),
        JSON.stringify({ branch: 'b', items: 2, reason, wasDead: false }),
        JSON.stringify({ branch: 'b', items: 3, reason, wasDead: false }),
      ]);
      await queue.ack('a', [leased as QueueEntry]);
      t.equal(drops.length, 4, 'a lease that ends afterwards changes nothing');
      t.equal(queue.stats().bytes, kept.body.byteLength);
      t.same(await queue.deadLetters(), []);
      const [next] = await queue.lease('a', 10, 1e9);
      t.equal(next?.batch.id, kept.id);
    },
  );

  t.test('removes and counts an entry that is discarded on delivery', async (t) => {
    const { store, clock } = await open(t);
    const queue = await store.openQueue({ name: 'q', branches: ['a'], maxBytes: 1e9 });
    const drops: object[] = [];
    queue.onDrop((drop) => drops.push(drop));
    await queue.append(batchOf(await only(store), clock, ['x', 'y']));
    const [entry] = await queue.lease('a', 1, 1e9);
    await queue.discard('a', entry as QueueEntry, 'project_deleted');
    await queue.discard('a', entry as QueueEntry, 'project_deleted');
    t.same(drops, [{ branch: 'a', items: 2, reason: 'project_deleted', wasDead: false }]);
    t.match(queue.stats(), { bytes: 0, branches: [{ entries: 0, items: 0 }] });
  });

  t.test('continues an interrupted removal after a restart', async (t) => {
    const { store, clock, reopen, finish } = await open(t);
    const project = await store.projects.create('doomed');
    const queue = await store.openQueue({ name: 'q', branches: ['b'], maxBytes: 1e9 });
    for (let i = 0; i < 5; i++) await queue.append(batchOf(project, clock));
    await store.projects.delete(project.id);
    const after = await reopen();
    t.same(await traceIds(after, project), []);
    const again = await after.openQueue({ name: 'q', branches: ['b'], maxBytes: 1e9 });
    await finish();
    t.match(again.stats(), { bytes: 0, branches: [{ entries: 0, items: 0 }] });
    t.same(await again.lease('b', 10, 1e9), []);
  });
}

function retention(t: Test, open: Open): void {
  t.test('expires a trace as a whole by its newest event', async (t) => {
    const { store, clock, finish } = await open(t);
    const project = await only(store);
    await store.projects.update(project.id, { retentionDays: 10 });
    await write(store, batchOf(project, clock, ['old', 'living']), ['old', 'living']);
    clock.set(clock.now() + 6 * DAY);
    await write(store, batchOf(project, clock, ['living', 'new']), ['living', 'new']);
    t.equal((await only(store)).retainedTraces, 3);
    clock.set(clock.now() + 5 * DAY);
    t.same(await traceIds(store, project), ['living', 'new'], 'at once, before it is removed');
    t.equal(await store.traces.getTrace(project.id, 'old'), undefined);
    t.equal((await only(store)).retainedTraces, 2);
    await finish();
    t.same(await traceIds(store, project), ['living', 'new']);
    t.equal((await only(store)).retainedTraces, 2);
    const trace = await store.traces.getTrace(project.id, 'living');
    t.equal(trace?.observationCount, 2, 'with its events from before');
  });

  t.test('keeps a raw batch while a trace refers to it', async (t) => {
    const { store, clock, finish } = await open(t);
    const project = await only(store);
    await store.projects.update(project.id, { retentionDays: 10 });
    const shared = batchOf(project, clock, ['old', 'living']);
    await write(store, shared, ['old', 'living']);
    const single = batchOf(project, clock, ['old']);
    await write(store, single, ['old']);
    clock.set(clock.now() + 6 * DAY);
    await write(store, batchOf(project, clock, ['living']), ['living']);
    clock.set(clock.now() + 5 * DAY);
    await finish();
    const ids = [shared.id, single.id];
    const stored = await store.traces.getBatches(project.id, ids);
    t.same(
      stored.map(({ id }) => id),
      [shared.id],
    );
    clock.set(clock.now() + 6 * DAY);
    await finish();
    t.same(await store.traces.getBatches(project.id, ids), []);
  });

  t.test('begins a new trace for a late event of an expired one', async (t) => {
    const { store, clock, finish } = await open(t);
    const project = await only(store);
    await store.projects.update(project.id, { retentionDays: 1 });
    const many = Array.from({ length: 700 }, (_, index) =>
      anObservation({ id: `o-${index}`, traceId: 'large', index }),
    );
    const source = batchOf(project, clock);
    await store.traces.write({ kind: 'observations', source, observations: many });
    clock.set(clock.now() + 2 * DAY);
    await finish();
    await write(store, batchOf(project, clock, ['large']), ['large']);
    t.match(await store.traces.getTrace(project.id, 'large'), { observationCount: 1 });
    t.equal((await only(store)).retainedTraces, 1);
  });

  t.test('expires dead letters and counts them, but not waiting entries', async (t) => {
    const { store, clock, finish } = await open(t);
    const project = await only(store);
    await store.projects.update(project.id, { retentionDays: 1 });
    const queue = await store.openQueue({ name: 'q', branches: ['a'], maxBytes: 1e9 });
    const drops: object[] = [];
    queue.onDrop((drop) => drops.push(drop));
    await queue.append(batchOf(project, clock));
    const [dead] = await queue.lease('a', 1, 1e9);
    await queue.deadLetter('a', dead as QueueEntry, { code: 'bad', message: 'bad' });
    const waiting = batchOf(project, clock);
    await queue.append(waiting);
    clock.set(clock.now() + 2 * DAY);
    await finish();
    t.same(drops, [{ branch: 'a', items: 1, reason: 'retention', wasDead: true }]);
    t.match(queue.stats(), { deadLetters: 0, branches: [{ entries: 1 }] });
    const [entry] = await queue.lease('a', 1, 1e9);
    t.equal(entry?.batch.id, waiting.id);
  });

  t.test('expires nothing without a retention', async (t) => {
    const { store, clock, finish } = await open(t);
    const project = await only(store);
    await store.organization.update({ plan: 'enterprise' });
    await write(store, batchOf(project, clock));
    clock.set(clock.now() + 5000 * DAY);
    await finish();
    t.same(await traceIds(store, project), ['trace-1']);
    t.same((await only(store)).retention, { days: null });
  });
}

function usage(t: Test, open: Open): void {
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

function logs(t: Test, open: Open): void {
  t.test('lists rejections newest first, in pages', async (t) => {
    const { store, clock } = await open(t);
    const { id: projectId } = await only(store);
    const entry = (i: number) => ({
      ...{ at: clock.now() + i, projectId, keyId: 'key_1', path: '/api/v1/runs' },
      ...{ code: 'invalid_field' as const, reason: `r${i}`, itemId: `i${i}`, count: 1 },
      client: i === 2 ? null : `sdk "${i}" \\ \u0000 ü`,
    });
    for (let i = 0; i < 5; i++) store.rejections.record(entry(i));
    store.rejections.record({ ...entry(9), projectId: 'proj_other' });
    await store.usage.history({ from: 0, to: 1, by: 'day' });
    const first = await store.rejections.list(projectId, { limit: 3 });
    t.same(first.items, [entry(4), entry(3), entry(2)]);
    const cursor = first.nextCursor ?? '';
    t.same(await store.rejections.list(projectId, { limit: 3, cursor }), {
      items: [entry(1), entry(0)],
      nextCursor: null,
    });
    await t.rejects(store.rejections.list(projectId, { limit: 1, cursor: '!' }), {
      code: 'invalid_cursor',
    });
    clock.set(clock.now() + 31 * DAY);
    t.same((await store.rejections.list(projectId, { limit: 3 })).items, []);
  });

  t.test('lists the audit log newest first', async (t) => {
    const { store, clock, reopen } = await open(t);
    const entry = (i: number) => ({
      ...{ at: clock.now(), actor: 'cli', address: null, action: 'project.create' },
      ...{ subject: `proj_${i}`, details: { name: 'x', count: i, ok: true, none: null } },
    });
    for (let i = 0; i < 3; i++) await store.audit.record(entry(i));
    const after = await reopen();
    const first = await after.audit.list({ limit: 2 });
    t.same(first.items, [entry(2), entry(1)]);
    const rest = await after.audit.list({ limit: 2, cursor: first.nextCursor ?? '' });
    t.same(rest, { items: [entry(0)], nextCursor: null });
  });

  t.test('commits a change and its audit entry together', async (t) => {
    const { store, clock, reopen } = await open(t);
    const by = { actor: 'admin-token', address: '192.0.2.1' };
    const organization = await store.organization.update({ name: 'Ours', plan: 'pro' }, by);
    const { id } = await store.projects.create('a', by);
    await store.projects.update(id, { name: 'b', retentionDays: 3 }, by);
    await store.projects.update(id, { retentionDays: null }, by);
    const { key } = await store.keys.create({ projectId: id, name: 'k' }, by);
    await store.keys.revoke(key.id, by);
    await store.projects.delete(id, by);
    const after = await reopen();
    const entry = (action: string, subject: string, details: object) => ({
      ...{ at: clock.now(), ...by, action, subject, details },
    });
    const ofKey = { project_id: id, name: 'k' };
    const expected = [
      entry('organization.update', organization.id, { name: 'Ours', plan: 'pro' }),
      entry('project.create', id, { name: 'a' }),
      entry('project.update', id, { name: 'b', retention_days: 3 }),
      entry('project.update', id, { retention_days: null }),
      entry('key.create', key.id, { ...ofKey, permissions: 'ingest:write,traces:read' }),
      entry('key.revoke', key.id, ofKey),
      entry('project.delete', id, { name: 'b' }),
    ];
    t.same((await after.audit.list({ limit: 100 })).items, expected.toReversed());

    const [last] = await after.projects.list();
    const lastId = last?.id ?? '';
    const kept = await after.keys.create({ projectId: lastId });
    await after.keys.revoke(kept.key.id);
    await after.keys.revoke(kept.key.id, by);
    const nothing: (() => Promise<unknown>)[] = [
      () => after.projects.delete(lastId, by),
      () => after.projects.delete('proj_none', by),
      () => after.projects.create('', by),
      () => after.projects.update('proj_none', { name: 'x' }, by),
      () => after.keys.create({ projectId: 'proj_none' }, by),
      () => after.keys.revoke('key_none', by),
      () => after.organization.update({ name: '' }, by),
    ];
    for (const refused of nothing) await t.rejects(refused(), { name: 'StoreError' });
    const { items } = await after.audit.list({ limit: 100 });
    t.equal(items.length, expected.length, 'what changed nothing leaves no entry');
  });
}
