import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Test } from 'tap';
import t from 'tap';
import { config } from '../../../extensions/sqlite/config.ts';
import type { OpenSqliteStore } from '../../../extensions/sqlite/open-store.ts';
import { openSqliteStore } from '../../../extensions/sqlite/open-store.ts';
import { PAGE_OF_TRACE } from '../../../extensions/sqlite/traces/read-operations.ts';
import type { QueueEntry } from '../../../src/queue/queue.ts';
import type { Store } from '../../../src/store/store.ts';
import { anObservation, answered, aTenant, nativeBatch } from '../../helper/batches.ts';
import { SMALL, sqlitePlace } from '../../helper/places.ts';

const CANARY = 'canary-4f1c9be2';
const DAY = 86_400_000;
const PURGED = 'Data of a deleted project removed';

/** How often the canary occurs in the files of a directory. */
function sightings(directory: string): number {
  let count = 0;
  for (const name of readdirSync(directory)) {
    const bytes = readFileSync(join(directory, name));
    for (let at = bytes.indexOf(CANARY); at !== -1; at = bytes.indexOf(CANARY, at + 1)) count++;
  }
  return count;
}

/** Writes traces of every size, a queue, dead letters, rejections and answers, all with the canary. */
async function fill(
  store: Store,
  projectId: string,
  receivedAt: number,
  name = `${CANARY} name`,
): Promise<readonly QueueEntry[]> {
  const queue = await store.openQueue({ name: 'q', branches: ['a'], maxBytes: 1e9 });
  const tenant = aTenant({ projectId });
  for (let i = 0; i < 60; i++) {
    // One body is so large that it is written in parts.
    const times = i === 30 ? 200_000 : i % 10 === 0 ? 4000 : 1 + i;
    const inputs = { text: `${CANARY} `.repeat(times) };
    const source = nativeBatch([{ id: `o${i}`, trace_id: `t${i % 20}`, inputs }], {
      tenant,
      receivedAt: receivedAt + i,
    });
    await queue.append(source, answered(keyedAnswer(i)));
    const observation = anObservation({
      ...{
        id: `${CANARY}-${i}`,
        traceId: `${CANARY}-t${i % 20}`,
        index: 0,
        name,
      },
      ...{ customFields: { where: CANARY, more: `${i} `.repeat(i * 20) + CANARY } },
    });
    await store.traces.write({ kind: 'observations', source, observations: [observation] });
    // A second merge overwrites the row.
    const later = { ...observation, name: `${name} ${i}`, version: '1' };
    await store.traces.write({ kind: 'observations', source, observations: [later] });
    store.rejections.record({
      ...{ at: receivedAt, projectId, keyId: 'k', path: '/x', code: 'invalid_field' },
      ...{ reason: CANARY, itemId: CANARY, client: CANARY, count: 1 },
    });
  }
  const [dead, ...others] = await queue.lease('a', 40, 1e9);
  await queue.deadLetter('a', dead as QueueEntry, { code: 'bad', message: CANARY });
  // Some entries stay leased, and others wait.
  await queue.ack('a', others.slice(0, 20));
  return others.slice(20);
}

function keyedAnswer(i: number) {
  const answer = { status: 202, contentType: 'application/json', body: Buffer.from(CANARY) };
  const requestHash = Buffer.alloc(32, i);
  if (i % 2 === 1) return { key: `k${i}`, requestHash, ...answer };
  return { key: `\0k${i}`, requestHash, ...answer, keptFor: DAY, isUnclaimed: true };
}

t.test('removes the data of a deleted project from every file', async (t) => {
  const place = sqlitePlace(t);
  const { store, finish, close } = await place.open();
  t.teardown(close);
  const project = await store.projects.create(`${CANARY} project`);
  await store.keys.create({ projectId: project.id, name: `${CANARY} key` });
  await fill(store, project.id, place.clock.now());
  await store.usage.history({ from: 0, to: 1, by: 'day' });
  t.ok(sightings(place.directory) > 100, 'the files hold it before');
  await store.projects.delete(project.id);
  await finish();
  t.equal(sightings(place.directory), 0);
  t.ok(place.metrics.value('tracectl_store_removed_batches_total', { reason: 'project_deleted' }));
});

t.test('removes the data of a deleted project after a crash in between', async (t) => {
  const place = sqlitePlace(t);
  let opened = await place.open();
  t.teardown(() => opened.close());
  const project = await opened.store.projects.create('doomed');
  await fill(opened.store, project.id, place.clock.now());
  await opened.store.projects.delete(project.id);
  await opened.crash();
  t.ok(sightings(place.directory) > 100);
  opened = await place.open();
  await opened.finish();
  t.equal(sightings(place.directory), 0);
});

t.test('a log that cannot be truncated yet holds up the removal of no project', async (t) => {
  const place = sqlitePlace(t);
  const { store, finish, close } = await place.open();
  t.teardown(close);
  const projects = [await store.projects.create('first'), await store.projects.create('second')];
  for (const [i, { id: projectId }] of projects.entries()) {
    const source = nativeBatch(1, { tenant: aTenant({ projectId }) });
    const observations = [anObservation({ id: `o${i}`, traceId: `t${i}`, index: 0 })];
    await store.traces.write({ kind: 'observations', source, observations });
  }
  // The first look for expired traces would count those of deleted projects among its own.
  await finish();
  const reader = new DatabaseSync(join(place.directory, 'store.db'), { readOnly: true });
  t.teardown(() => reader.isOpen && reader.close());
  reader.exec('BEGIN; SELECT count(*) FROM traces');
  for (const { id } of projects) await store.projects.delete(id);
  const removed = () =>
    place.metrics.value('tracectl_store_removed_traces_total', { reason: 'project_deleted' }) ?? 0;
  for (let turns = 0; turns < 2000 && removed() < 2; turns++) {
    place.clock.advance(20);
    await store.audit.list({ limit: 1 });
  }
  t.equal(removed(), 2);
  const logged = () => place.logger.lines.filter(({ message }) => message === PURGED).length;
  t.equal(logged(), 0, 'the log may hold what was removed');
  reader.close();
  await finish();
  t.equal(logged(), 2);
});

t.test('removes expired data from every file, and counts it', async (t) => {
  const place = sqlitePlace(t);
  const { store, finish, close } = await place.open();
  t.teardown(close);
  const [project] = await store.projects.list();
  const projectId = project?.id ?? '';
  // Rollups keep the names of traces longer.
  const leased = await fill(store, projectId, place.clock.now(), 'name');
  const queue = await store.openQueue({ name: 'q', branches: ['a'], maxBytes: 1e9 });
  await queue.ack('a', leased);
  await queue.ack('a', await queue.lease('a', 100, 1e9));
  place.clock.set(place.clock.now() + 401 * DAY);
  await finish();
  t.equal(sightings(place.directory), 0);
  const reason = 'retention';
  t.equal(place.metrics.value('tracectl_store_removed_traces_total', { reason }), 20);
  t.equal(place.metrics.value('tracectl_store_removed_observations_total', { reason }), 60);
  t.ok(place.metrics.value('tracectl_store_removed_bytes_total', { reason }) > 100_000);
});

t.test('removes in bounded steps, and serves other calls between them', async (t) => {
  const place = sqlitePlace(t);
  const { store, close } = await place.open();
  t.teardown(close);
  const project = await store.projects.create('large');
  for (let i = 0; i < 5; i++) {
    const source = nativeBatch(1, { tenant: aTenant({ projectId: project.id }) });
    const observations = Array.from({ length: 300 }, (_, j) =>
      anObservation({ id: `${i}-${j}`, traceId: `t${i}`, index: j }),
    );
    await store.traces.write({ kind: 'observations', source, observations });
  }
  await store.projects.delete(project.id);
  const removed = () =>
    place.metrics.value('tracectl_store_removed_observations_total', { reason: 'project_deleted' });
  let steps = 0;
  for (let before = 0; removed() < 1500; ) {
    place.clock.advance(20);
    await store.audit.list({ limit: 1 });
    if (removed() === before) continue;
    t.ok(removed() - before <= 400, 'a step is bounded');
    before = removed();
    steps++;
  }
  t.ok(steps >= 5);
});

async function withConfig(t: Test, more: object): Promise<OpenSqliteStore> {
  const { directory, clock, logger, metrics } = sqlitePlace(t);
  const settings = { clock, logger, metrics };
  const opened = await openSqliteStore(settings, config.parse({ directory, ...SMALL, ...more }));
  t.teardown(opened.close);
  return opened;
}

t.test('takes the limits of plans and of the organization from the configuration', async (t) => {
  const { store } = await withConfig(t, {
    plans: { scale: { projects: 2, bytes_per_hour: 'unlimited' } },
    organization: { events_per_month: 7, retention_days: 'unlimited' },
  });
  t.same((await store.organization.get()).limits, {
    projects: 2,
    eventsPerMonth: 7,
    bytesPerHour: null,
    retentionDays: null,
  });
  const results = await Promise.allSettled([1, 2, 3].map(() => store.projects.create('p')));
  t.equal(results.filter(({ status }) => status === 'fulfilled').length, 1);
  for (const wrong of [
    { plans: { gold: {} } },
    { plans: { free: { projects: -1 } } },
    { plans: { free: { bytes_per_hour: '1 parsec' } } },
    { organization: { retention_days: 1.5 } },
  ]) {
    t.notOk(config.safeParse(wrong).success, JSON.stringify(wrong));
  }
});

t.test('bounds the log of rejections for each project, and counts all rejections', async (t) => {
  const { store } = await withConfig(t, { rejections: { max_entries: 10 } });
  const entry = (projectId: string, i: number) => ({
    ...{ at: i, projectId, keyId: 'k', path: '/x', code: 'invalid_event' as const },
    ...{ reason: `${i}`, itemId: null, client: null, count: 1 },
  });
  for (let i = 0; i < 1200; i++) store.rejections.record(entry('proj_a', i));
  store.rejections.record(entry('proj_b', 0));
  const history = await store.usage.history({ from: 0, to: 3_600_000, by: 'hour' });
  t.same(
    history.map(({ projectId, rejected }) => [projectId, rejected]),
    [
      ['proj_a', { invalid_event: 1200 }],
      ['proj_b', { invalid_event: 1 }],
    ],
  );
});

t.test('usage verify finds a changed ledger', async (t) => {
  const place = sqlitePlace(t);
  let opened = await place.open();
  t.teardown(() => opened.close());
  const queue = await opened.store.openQueue({ name: 'q', branches: ['a'], maxBytes: 1e9 });
  await queue.append(nativeBatch(3, { usage: { events: 3, bytes: 30 } }));
  t.same(await opened.store.usage.verify(), []);
  const other = new DatabaseSync(join(place.directory, 'store.db'));
  other.exec('UPDATE usage_ledger SET events = 1');
  const found = await opened.store.usage.verify();
  t.match(
    found[3]?.what,
    /^events in the ledger of proj_test key_test, in the row of batch \w{26}$/,
  );
  t.match(found[3], { expected: 3, found: 1 });
  t.equal(found.length, 4);
  t.same(found.slice(0, 3), [
    { what: 'events of the month: org_test', expected: 1, found: 3 },
    { what: 'events of the month: org_test proj_test', expected: 1, found: 3 },
    {
      what: 'events in the ledger of proj_test key_test, against its batches',
      expected: 3,
      found: 1,
    },
  ]);
  other.close();
  await opened.close();
  opened = await place.open();
  // Counters are built up from the ledger at the start; the batch still shows the difference.
  const rest = (await opened.store.usage.verify()).map(({ what }) => what);
  t.equal(rest.length, 2);
  t.ok(rest.every((what) => what.startsWith('events in the ledger of proj_test key_test')));
});

t.test(
  'deletes the parts of a large body if its project is deleted during the write',
  async (t) => {
    const place = sqlitePlace(t);
    const opened = await place.open();
    t.teardown(opened.close);
    const { store } = opened;
    const project = await store.projects.create('goes');
    const queue = await store.openQueue({ name: 'q', branches: ['a'], maxBytes: 1e9 });
    const body = Buffer.from(`${CANARY} `.repeat(600_000));
    const batch = nativeBatch(1, { tenant: aTenant({ projectId: project.id }), body });
    const appending = queue.append(batch);
    const [appended] = await Promise.allSettled([appending, store.projects.delete(project.id)]);
    t.match(appended, { status: 'rejected', reason: { code: 'unauthorized' } });
    await opened.finish();
    t.same(queue.stats().bytes, 0);
    t.same(await queue.lease('a', 10, 1e9), []);
    await opened.close();
    t.equal(sightings(place.directory), 0, 'no byte is left');
  },
);

t.test('refuses to change or delete entries of the audit log', async (t) => {
  const place = sqlitePlace(t);
  const { store, close } = await place.open();
  t.teardown(close);
  const entry = { actor: 'cli', address: null, action: 'x', subject: 'y', details: {} };
  await store.audit.record({ at: 1, ...entry });
  const other = new DatabaseSync(join(place.directory, 'store.db'));
  t.throws(() => other.exec("UPDATE audit_log SET actor = 'other'"), /only added to/);
  t.throws(() => other.exec('DELETE FROM audit_log'), /only added to/);
  other.close();
});

t.test('lookups that a request waits for use an index', async (t) => {
  const place = sqlitePlace(t);
  const { close } = await place.open();
  t.teardown(close);
  const other = new DatabaseSync(join(place.directory, 'store.db'));
  const plan = (sql: string) =>
    other
      .prepare(`EXPLAIN QUERY PLAN ${sql}`)
      .all()
      .map((row) => String(row.detail))
      .join('; ');
  for (const sql of [
    'SELECT k.id FROM api_keys k JOIN projects p ON p.id = k.project WHERE k.hash = ?',
    'SELECT 1 FROM deleted_projects WHERE project = ?',
    'SELECT 1 FROM batch_traces WHERE batch = ?',
    'SELECT batch FROM batch_traces WHERE trace = ?',
    'SELECT n FROM traces WHERE project = ? AND updated_at < ? ORDER BY updated_at LIMIT 1',
    'SELECT count(*) FROM traces WHERE project = ? AND updated_at >= ?',
    PAGE_OF_TRACE.all,
    PAGE_OF_TRACE.tree,
  ]) {
    t.notMatch(plan(sql), /SCAN|TEMP B-TREE/, sql);
  }
  const seeks = 'observations_in_order (trace=? AND <expr>>?)';
  for (const sql of Object.values(PAGE_OF_TRACE))
    t.match(plan(sql), seeks, 'a page begins at its place');
  other.close();
});
