import type { Test } from 'tap';
import type { QueueEntry } from '../../src/queue/queue.ts';
import { anObservation } from '../helper/batches.ts';
import type { OpenTenancy } from './tenancy-place.ts';
import { batchOf, DAY, only, traceIds, write } from './tenancy-place.ts';

/** The rules for the time that a project keeps its traces. */
export function retention(t: Test, open: OpenTenancy): void {
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
