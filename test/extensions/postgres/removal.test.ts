import type { Test } from 'tap';
import t from 'tap';
import { walkBatches } from '../../../extensions/postgres/batches/batch-walk.ts';
import { removeFreeBatches } from '../../../extensions/postgres/batches/batches.ts';
import {
  dropOldPartitions,
  ensurePartitions,
} from '../../../extensions/postgres/batches/partitions.ts';
import {
  dueProjects,
  expireTracesStep,
  removeFreeBatchesStep,
  removeProjectStep,
} from '../../../extensions/postgres/batches/purge.ts';
import type { Postgres } from '../../../extensions/postgres/connection/pool.ts';
import { openPostgres } from '../../../extensions/postgres/connection/pool.ts';
import { openQueues } from '../../../extensions/postgres/queue/storage.ts';
import { writeBatch } from '../../../extensions/postgres/traces/write.ts';
import { systemClock } from '../../../src/component/clock.ts';
import type { Observation } from '../../../src/model/observation.ts';
import { encodeTime } from '../../../src/model/ulid.ts';
import type { Store } from '../../../src/store/store.ts';
import { anObservation, aTenant, nativeBatch } from '../../helper/batches.ts';
import { fakeClock } from '../../helper/clock.ts';
import { migratedDatabase } from '../../helper/migrated-database.ts';
import { postgresPlace } from '../../helper/postgres-place.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import { recordingLogger } from '../../helper/settings.ts';
import { batchWith, traceDatabase } from '../../helper/trace-database.ts';

const server = await postgresDatabases(t);
const P = aTenant().projectId;
const OTHER = aTenant({ projectId: 'proj_other' });
const DAY = 86_400_000;
const T0 = Date.UTC(2026, 0, 15, 12);
const LATER = Number.MAX_SAFE_INTEGER;
const TABLES = ['traces', 'observations', 'batch_traces', 'pending_updates', 'waiting_children'];

/** Ids that a process makes only grow; these have any time. */
let ids = 0;
function idAt(ms: number): string {
  return encodeTime(ms) + String(ids++).padStart(16, '0');
}

function at(ms: number, more: object = {}) {
  return { id: idAt(ms), receivedAt: ms, ...more };
}

/** The days that have a partition of their own. */
async function partitionsOf(postgres: Postgres): Promise<string[]> {
  const { rows } = await postgres.query(
    `SELECT relname FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid
     WHERE inhparent = 'batches'::regclass AND relname <> 'batches_default' ORDER BY 1`,
  );
  return rows.map(({ relname }) => String(relname));
}

async function all(step: () => Promise<boolean>): Promise<number> {
  let steps = 1;
  while (await step()) steps++;
  return steps;
}

t.test('removes expired traces and the batches that only they refer to', async (t) => {
  const { traces, database, count } = await traceDatabase(t, await migratedDatabase(server));
  const shared = [anObservation({ traceId: 'old' }), anObservation({ traceId: 'kept' })];
  await traces.write(batchWith(shared, at(T0)));
  await traces.write(batchWith([anObservation({ traceId: 'old', id: 'o2' })], at(T0)));
  await traces.write(batchWith([anObservation({ traceId: 'kept' })], at(T0 + DAY)));
  const waiting = anObservation({ id: 'u', traceId: null });
  await traces.write(batchWith([waiting], at(T0)));
  await traces.write(batchWith([anObservation({ id: 'c', parentId: 'x', traceId: null })], at(T0)));
  await traces.write(batchWith(shared, at(T0, { tenant: OTHER })));
  const removed = { traces: 0, observations: 0, batches: 0, bytes: 0 };
  const note = (more: Partial<typeof removed>) => {
    for (const [name, n] of Object.entries(more)) removed[name as keyof typeof removed] += n;
  };
  await all(() => expireTracesStep(database, P, T0 + 1, T0, note));
  t.match(removed, { traces: 2, observations: 3 });
  t.equal(await traces.getTrace(P, 'old'), undefined);
  t.equal((await traces.getTrace(P, 'kept'))?.observationCount, 1);
  t.equal((await traces.listTraces(OTHER.projectId, { limit: 9 })).items.length, 2);
  t.same(await Promise.all(TABLES.map(count)), [3, 3, 4, 0, 0]);
  t.notOk(await removeFreeBatchesStep(database, T0, note), 'not before the time given');
  t.equal(await count('batches'), 6);
  await all(() => removeFreeBatchesStep(database, T0 + 1, note));
  t.equal(await count('batches'), 3, 'batches that a kept trace has events of stay');
  t.equal(removed.batches, 3);
  t.equal(await count('free_batches'), 0);
});

t.test(
  'hides a trace with more rows than a step removes at once, and removes the rows in steps',
  async (t) => {
    const { traces, database, count } = await traceDatabase(t, await migratedDatabase(server));
    const many = Array.from({ length: 2300 }, (_, i) => anObservation({ id: `o${i}` }));
    await traces.write(batchWith(many, at(T0)));
    t.ok(await expireTracesStep(database, P, T0 + 1, T0));
    t.equal(await traces.getTrace(P, 'trace-1'), undefined);
    t.equal(await traces.getObservation(P, 'o7'), undefined);
    const [hidden] = await dueProjects(database, [[P, T0 + 1]]);
    t.same(hidden?.[0], '', 'the rest is found after a restart, too');
    await traces.write(batchWith([anObservation({ name: 'new' })], at(T0)));
    t.ok((await all(() => expireTracesStep(database, 'proj_none', 0, T0))) > 2);
    t.equal(await count('observations'), 1);
    t.match(await traces.getTrace(P, 'trace-1'), { name: 'new', observationCount: 1 });
  },
);

t.test('begins no trace again while its rows are being removed', async (t) => {
  const place = await traceDatabase(t, await migratedDatabase(server));
  const { traces, database, count } = place;
  const many = Array.from({ length: 1100 }, (_, i) => anObservation({ id: `o${i}` }));
  const batch = batchWith(many, at(T0));
  await traces.write(batch);
  place.since.set(P, T0 + 1);
  t.ok(await expireTracesStep(database, P, T0 + 1, T0));
  t.equal(await count('free_batches'), 0, 'the batch is noted when the last rows go');
  await traces.write(batch);
  t.equal(await count('traces'), 1, 'the one that is hidden');
  t.equal(await count('trace_keys'), 0);
  await all(() => expireTracesStep(database, P, T0 + 1, T0));
  t.same(await Promise.all(TABLES.map(count)), [0, 0, 0, 0, 0]);
});

t.test('writes all of a late batch if retention removes its first part in between', async (t) => {
  const { database, count } = await traceDatabase(t, await migratedDatabase(server));
  const list = Array.from({ length: 501 }, (_, i) =>
    anObservation({ id: `o${i}`, traceId: i < 500 ? 'first' : 'last' }),
  );
  let transactions = 0;
  const transaction: typeof database.transaction = async (work) => {
    const result = await database.transaction(work);
    if (transactions++ === 0) await all(() => expireTracesStep(database, P, T0 + 1, T0));
    return result;
  };
  const retention = { since: () => T0 + 1 };
  await writeBatch({ database: { ...database, transaction }, retention }, batchWith(list, at(T0)));
  t.equal(await count('free_batches'), 1, 'the batch is noted before its last part');
  t.equal(await count('traces'), 1);
});

t.test('keeps or recreates a trace that is written to while it expires', async (t) => {
  const { traces, database } = await traceDatabase(t, await migratedDatabase(server));
  for (let round = 0; round < 20; round++) {
    await traces.write(batchWith([anObservation({ id: 'old' })], at(T0)));
    const late = batchWith([anObservation({ id: 'new' })], at(T0 + DAY));
    await Promise.all([traces.write(late), expireTracesStep(database, P, T0 + DAY, T0)]);
    const trace = await traces.getTrace(P, 'trace-1');
    const { items } = await traces.listObservations(P, 'trace-1', { limit: 9 });
    t.ok(items.some(({ id }) => id === 'new'));
    t.equal(trace?.observationCount, items.length);
    await all(() => expireTracesStep(database, P, LATER, T0));
  }
});

t.test('removes the traces of a deleted project, and rejects writes into it', async (t) => {
  const { traces, database, deleted, count } = await traceDatabase(
    t,
    await migratedDatabase(server),
  );
  const runs = [
    anObservation({ traceId: null, id: 'u' }),
    anObservation({ traceId: null, id: 'c', parentId: 'x' }),
  ];
  await traces.write(batchWith([anObservation(), ...runs], at(T0)));
  await traces.write(batchWith([anObservation()], at(T0, { tenant: OTHER })));
  deleted.add(P);
  const late = traces.write(batchWith([anObservation({ id: 'late' })], at(T0)));
  await t.rejects(late, { name: 'PermanentError', code: 'project_deleted' });
  await all(() => removeProjectStep(database, P, T0));
  t.same(await Promise.all(TABLES.map(count)), [1, 1, 1, 0, 0]);
  t.equal(await count('batches'), 1);
  t.equal((await traces.getTrace(OTHER.projectId, 'trace-1'))?.observationCount, 1);
});

t.test('keeps a batch while a queue, a dead letter or a trace refers to it', async (t) => {
  const { traces, database, count } = await traceDatabase(t, await migratedDatabase(server));
  const clock = fakeClock();
  const queues = await openQueues(database, clock, recordingLogger());
  t.teardown(() => queues.crash());
  const queue = await queues.openQueue({ name: 'q', branches: ['a'], maxBytes: 1e9 });
  const [waits, dead, free] = [1, 2, 3].map((i) => nativeBatch(1, at(T0 + i)));
  if (waits === undefined || dead === undefined || free === undefined) throw new Error('never');
  for (const batch of [dead, free]) {
    await queue.append(batch);
    const [entry] = await queue.lease('a', 1, 1e9);
    if (entry === undefined) throw new Error('never');
    if (batch === free) await queue.ack('a', [entry]);
    else await queue.deadLetter('a', entry, { code: 'x', message: 'x' });
  }
  await queue.append(waits);
  const traced = batchWith([anObservation()], at(T0 + 4));
  await traces.write(traced);
  await traces.write(batchWith([anObservation({ traceId: null, id: 'u' })], at(T0 + 5)));
  await removeFreeBatches(database, '', T0);
  t.equal(await count('batches'), 5, 'batches received since may be on their way into a queue');
  const looked = await removeFreeBatches(database, '', LATER);
  t.equal(await count('batches'), 4);
  t.ok((looked.last ?? '') > traced.source.id);
  t.equal(looked.beforeWaiting, '', 'the waiting batch is the first');
  // A removed batch can be stored again.
  await queue.append(free);
  t.equal(await count('batches'), 5);
});

/** A database with partitions from T0 on, and what may refer to a batch of that day. */
async function dayParts(t: Test) {
  const { traces, database, postgres } = await traceDatabase(t, await migratedDatabase(server));
  await ensurePartitions(database, T0);
  const queues = await openQueues(database, fakeClock(), recordingLogger());
  t.teardown(() => queues.crash());
  const queue = await queues.openQueue({ name: 'q', branches: ['a'], maxBytes: 1e9 });
  return {
    ...{ database, postgres, queue },
    append: () => queue.append(nativeBatch(1, at(T0))),
    write: (observation: Observation) => traces.write(batchWith([observation], at(T0))),
  };
}
type DayParts = Omit<Awaited<ReturnType<typeof dayParts>>, 'database' | 'postgres'>;

t.test('drops the partition of a day without references, and no other', async (t) => {
  const { traces, database, postgres, count } = await traceDatabase(
    t,
    await migratedDatabase(server),
  );
  await Promise.all([1, 2, 3].map(() => ensurePartitions(database, T0)));
  t.ok(await ensurePartitions(database, T0), 'they exist already');
  const days = ['15', '16', '17', '18', '19'].map((day) => `batches_202601${day}`);
  t.same(await partitionsOf(postgres), days);
  const { rows } = await postgres.query(
    `SELECT DISTINCT attstorage FROM pg_inherits
     JOIN pg_attribute ON attrelid = inhrelid AND attname = 'body'`,
  );
  t.same(rows, [{ attstorage: 'e' }], 'Postgres does not compress bodies');
  for (const [i, traceId] of ['a', 'b', 'c'].entries()) {
    await traces.write(batchWith([anObservation({ traceId })], at(T0 + i * DAY)));
  }
  await traces.write(batchWith([anObservation({ traceId: 'late' })], at(T0 - 40 * DAY)));
  t.equal(await count('batches_default'), 1, 'a batch of a day without a partition is stored');
  for (const day of days.slice(0, 3)) t.equal(await count(day), 1);
  t.equal(await dropOldPartitions(database, T0 + 9 * DAY), 2, 'the two empty ones');
  await all(() => expireTracesStep(database, P, T0 + DAY + 1, T0));
  const removed: unknown[] = [];
  const end = Date.UTC(2026, 0, 16);
  t.equal(await dropOldPartitions(database, end - 1), 0, 'the day is not over');
  t.equal(await dropOldPartitions(database, end, (some) => removed.push(some)), 1);
  t.match(removed, [{ batches: 1 }]);
  t.same(await partitionsOf(postgres), days.slice(1, 3));
  const body = (await traces.getTrace(P, 'c'))?.observationCount;
  t.equal(body, 1);
  await all(() => removeFreeBatchesStep(database, LATER));
  t.equal(await count('batches'), 1);
  // A batch of a dropped day goes into the default partition.
  await traces.write(batchWith([anObservation({ traceId: 'a' })], at(T0)));
  t.equal(await count('batches_default'), 1);
  t.ok(
    await ensurePartitions(database, T0),
    'its day has no partition, because the default one has a row of it',
  );
});

for (const [name, refer] of [
  ['a queue', (parts) => parts.append()],
  [
    'a dead letter',
    async (parts) => {
      await parts.append();
      const [entry] = await parts.queue.lease('a', 1, 1e9);
      if (entry === undefined) throw new Error('never');
      await parts.queue.deadLetter('a', entry, { code: 'x', message: 'x' });
    },
  ],
  ['a trace', (parts) => parts.write(anObservation())],
  [
    'an update that waits for its run',
    (parts) => parts.write(anObservation({ traceId: null, id: 'u' })),
  ],
] satisfies readonly [string, (parts: DayParts) => Promise<void>][]) {
  t.test(`a day's partition stays while ${name} refers to a batch of it`, async (t) => {
    const { database, postgres, ...parts } = await dayParts(t);
    await refer(parts);
    t.equal(await dropOldPartitions(database, LATER), 4, 'the days without a batch');
    t.same(await partitionsOf(postgres), ['batches_20260115']);
  });

  t.test(`a day's partition stays if ${name} refers to it just before the lock`, async (t) => {
    const { database, postgres, ...parts } = await dayParts(t);
    const transaction: typeof database.transaction = async (work) => {
      if (!(await partitionsOf(postgres)).includes('batches_20260115')) throw new Error('never');
      if (!isReferred) await refer(parts);
      isReferred = true;
      return database.transaction(work);
    };
    let isReferred = false;
    t.equal(await dropOldPartitions({ ...database, transaction }, LATER), 4);
    t.same(await partitionsOf(postgres), ['batches_20260115']);
  });
}

t.test('creates and drops no partitions with a role that does not own the tables', async (t) => {
  const url = await migratedDatabase(server);
  const { postgres } = await traceDatabase(t, url);
  await postgres.query('CREATE ROLE writer LOGIN');
  await postgres.query(
    'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO writer',
  );
  await postgres.query('GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO writer');
  const writer = await openPostgres({
    ...{ url: url.replace('test@', 'writer@'), maxConnections: 2, connectTimeout: 5_000 },
    ...{ queryTimeout: 20_000, tls: undefined, clock: systemClock, logger: recordingLogger() },
  });
  t.teardown(() => writer.close());
  t.notOk(await ensurePartitions(writer, T0));
  t.equal(await dropOldPartitions(writer, LATER), 0);
});

/** A trace, a dead letter, a batch that waits, an acknowledged one, and an update that waits for its run. */
async function fill(
  store: Pick<Store, 'traces' | 'openQueue'>,
  projectId: string,
  ms: number,
): Promise<void> {
  const tenant = aTenant({ projectId });
  const queue = await store.openQueue({ name: projectId, branches: ['a'], maxBytes: 1e9 });
  for (const end of ['dead', 'the acknowledged one', 'waiting']) {
    await queue.append(nativeBatch(1, at(ms, { tenant })));
    const [entry] = end === 'waiting' ? [] : await queue.lease('a', 1, 1e9);
    if (entry === undefined) continue;
    if (end === 'the acknowledged one') await queue.ack('a', [entry]);
    else await queue.deadLetter('a', entry, { code: 'x', message: 'x' });
  }
  await store.traces.write(batchWith([anObservation()], at(ms, { tenant })));
  await store.traces.write(
    batchWith([anObservation({ traceId: null, id: 'u' })], at(ms, { tenant })),
  );
}

t.test('removes all data of a deleted project, and no other', async (t) => {
  const place = await postgresPlace(server);
  const { store, finish, close, postgres } = await place.open();
  t.teardown(close);
  const kept = await store.projects.create('kept');
  const doomed = await store.projects.create('doomed');
  for (const { id } of [kept, doomed]) await fill(store, id, place.clock.now());
  await store.projects.delete(doomed.id);
  await finish();
  for (const table of [
    'traces',
    'batches',
    'pending_updates',
    'queue_entries',
    'queue_dead_letters',
  ]) {
    const { rows } = await postgres.query(`SELECT DISTINCT project FROM ${table}`);
    t.same(rows, [{ project: kept.id }], table);
  }
  const reason = 'project_deleted';
  t.equal(place.metrics.value('tracectl_store_removed_batches_total', { reason }), 5);
  t.equal(place.metrics.value('tracectl_store_removed_observations_total', { reason }), 1);
  const retention = { reason: 'retention' };
  t.equal(
    place.metrics.value('tracectl_store_removed_batches_total', retention),
    1,
    'the acknowledged one',
  );
});

t.test('removes data past its retention, and whole partitions of batches', async (t) => {
  const place = await postgresPlace(server);
  // By the clock of the database no time of this test is in the future.
  place.clock.set(place.clock.now() - 1000 * DAY);
  const { store, finish, close, postgres } = await place.open();
  t.teardown(close);
  const [project] = await store.projects.list();
  const name = project?.id ?? '';
  await fill(store, name, place.clock.now());
  const queue = await store.openQueue({ name, branches: ['a'], maxBytes: 1e9 });
  await queue.ack('a', await queue.lease('a', 9, 1e9));
  const before = await partitionsOf(postgres);
  place.clock.set(place.clock.now() + 401 * DAY);
  await finish();
  const after = await partitionsOf(postgres);
  for (const table of ['traces', 'batches', 'pending_updates', 'queue_dead_letters']) {
    t.same((await postgres.query(`SELECT 1 FROM ${table}`)).rows, [], table);
  }
  t.notOk(
    before.some((name) => after.includes(name)),
    'no partition of that time is left',
  );
  const reason = 'retention';
  t.equal(place.metrics.value('tracectl_store_removed_traces_total', { reason }), 1);
  t.equal(place.metrics.value('tracectl_store_removed_batches_total', { reason }), 5);
});

t.test(
  'removes batches that left all queues within seconds, and keeps waiting and dead ones',
  async (t) => {
    const { traces, database, count } = await traceDatabase(t, await migratedDatabase(server));
    const clock = fakeClock();
    const queues = await openQueues(database, clock, recordingLogger());
    t.teardown(() => queues.crash());
    const store = { traces, openQueue: queues.openQueue };
    await fill(store, P, clock.now());
    const walk = async () => {
      clock.set(clock.now() + 11_000);
      for await (const _ of walkBatches(database, clock, () => {}));
      return count('batches');
    };
    t.equal(await walk(), 4, 'the batch without a reference is gone');
    const queue = await store.openQueue({ name: P, branches: ['a'], maxBytes: 1e9 });
    await queue.append(nativeBatch(1, at(clock.now())));
    await queue.ack('a', await queue.lease('a', 9, 1e9));
    t.equal(await walk(), 3, 'the next walk begins at the first waiting batch');
    await queue.append(nativeBatch(1, at(clock.now())));
    await queue.replay('all');
    await queue.ack('a', await queue.lease('a', 9, 1e9));
    t.equal(await walk(), 3, 'the replayed dead letter is before the place where the walk begins');
    clock.set(clock.now() + DAY);
    t.equal(await walk(), 2, 'the daily walk over all batches finds it');
  },
);

t.test(
  'removes nothing that is old by a clock that is ahead of that of the database',
  async (t) => {
    const place = await postgresPlace(server);
    const { clock, logger } = place;
    const now = Date.now();
    clock.set(now);
    const opened = await place.open();
    t.teardown(() => opened.close());
    const { projects, traces } = opened.store;
    const { id: projectId, organizationId } = await projects.create('kept');
    const tenant = aTenant({ projectId, organizationId });
    await traces.write(batchWith([anObservation()], at(now - 10 * DAY, { tenant })));
    const kept = async () => (await traces.listTraces(projectId, { limit: 9 })).items.length;
    const { postgres } = opened;
    const batches = async () => (await postgres.query('SELECT id FROM batches')).rows.length;
    const whole = await batches();
    const queue = await opened.store.openQueue({ name: 'q', branches: ['a'], maxBytes: 1e9 });
    await queue.append(nativeBatch(1, at(now - DAY, { tenant })));
    await queue.ack('a', await queue.lease('a', 9, 1e9));
    t.equal(await batches(), whole + 1);
    const before = await partitionsOf(postgres);
    clock.set(now + 500 * DAY);
    await opened.finish();
    t.match(opened.trouble(), /^The clock is 7\d{5} minutes ahead of that of Postgres/);
    t.equal(await batches(), whole, 'what nothing refers to is removed');
    const days = await partitionsOf(postgres);
    t.equal(days.length, before.length + 5, 'what this process writes has partitions');
    t.same(days.slice(0, before.length), before, 'those that others write to are left');
    clock.set(now);
    t.equal(await kept(), 1);
    const said = logger.lines.filter(({ message }) => message.startsWith('Clock is ahead'));
    t.match(said, [{ level: 'error', fields: { aheadMs: Number } }]);
    await projects.update(projectId, { retentionDays: 9 });
    await opened.finish();
    t.equal(opened.trouble(), undefined);
    await projects.update(projectId, { retentionDays: 20 });
    t.equal(await kept(), 0, 'by the right clock it expires');
  },
);
