import type { Test } from 'tap';
import type { QueueEntry } from '../../src/queue/queue.ts';
import { hashToken } from '../../src/tenancy/token.ts';
import type { OpenTenancy } from './tenancy-place.ts';
import { batchOf, only, traceIds, write } from './tenancy-place.ts';

/** The rules for a deleted project. */
export function deleting(t: Test, open: OpenTenancy): void {
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
