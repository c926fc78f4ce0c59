import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Test } from 'tap';
import t from 'tap';
import { config } from '../../../extensions/sqlite/config.ts';
import { STORE_MIGRATIONS } from '../../../extensions/sqlite/migrations/index.ts';
import { openSqliteStore } from '../../../extensions/sqlite/open-store.ts';
import { openDirectoryStorage } from '../../../src/sqlite/queue/directory-storage.ts';
import { anObservation, aTenant, nativeBatch } from '../../helper/batches.ts';
import { fakeClock } from '../../helper/clock.ts';
import { newerVersion } from '../../helper/newer-file.ts';
import { SMALL } from '../../helper/places.ts';
import { recordingLogger, recordingMetrics } from '../../helper/settings.ts';
import { deliverAll, storeSnapshot } from '../../helper/store-snapshot.ts';
import { schemaOf, storedReleases, unpack } from '../../helper/stored-releases.ts';

const PROJECT_COLUMNS = ['retention_days', 'events_per_month', 'bytes_per_hour'];

async function open(t: Test, directory: string, now: number) {
  const opened = await openSqliteStore(
    { clock: fakeClock(now), logger: recordingLogger(), metrics: recordingMetrics() },
    config.parse({ directory, ...SMALL }),
  );
  t.teardown(() => opened.close());
  return opened;
}

for (const release of storedReleases()) {
  const { now, queues, snapshot } = release.store;

  t.test(`reads a store of release ${release.name} back as the release did`, async (t) => {
    const directory = unpack(t, release, 'store.db');
    const { store } = await open(t, directory, now);
    t.hasStrict(await storeSnapshot(store, now, queues), snapshot);
    t.same(await store.usage.verify(), [], 'the ledger fits the batches');
    const db = new DatabaseSync(join(directory, 'store.db'), { readOnly: true });
    t.equal(db.prepare('PRAGMA user_version').get()?.user_version, STORE_MIGRATIONS.length);
    db.close();
  });

  t.test(`delivers the queues of a store of release ${release.name}, and writes on`, async (t) => {
    const directory = unpack(t, release, 'store.db');
    const opened = await open(t, directory, now);
    t.ok((await deliverAll(opened.store, queues)) > 10, 'entries and dead letters are delivered');
    const [project] = await opened.store.projects.list();
    const tenant = aTenant({
      projectId: project?.id ?? '',
      organizationId: project?.organizationId ?? '',
    });
    const source = nativeBatch(1, { tenant, receivedAt: now });
    const observations = [anObservation({ id: 'new', traceId: 'new' })];
    await opened.store.traces.write({ kind: 'observations', source, observations });
    await opened.store.projects.create('new');
    await opened.finish();
    await opened.close();
    const { store } = await open(t, directory, now);
    t.equal(await deliverAll(store, queues), 0, 'nothing is delivered twice');
    t.match(await store.traces.getTrace(tenant.projectId, 'new'), { id: 'new', name: 'chat' });
    t.ok((await store.projects.list()).some(({ name }) => name === 'new'));
  });

  t.test(`a migrated store of release ${release.name} has the tables of a new one`, async (t) => {
    const directory = unpack(t, release, 'store.db');
    await (await open(t, directory, now)).close();
    const fresh = join(directory, '..', 'new');
    await (await open(t, fresh, now)).close();
    t.same(
      schemaOf(join(directory, 'store.db')).map(({ name }) => name),
      schemaOf(join(fresh, 'store.db')).map(({ name }) => name),
    );
  });
}

const [first] = storedReleases();

t.test('a store from before limits of projects gets their columns', async (t) => {
  if (first === undefined) throw new Error('there is no fixture');
  const drops = PROJECT_COLUMNS.map((column) => `ALTER TABLE projects DROP COLUMN ${column};`);
  const change = ['DROP INDEX projects_with_limits;', ...drops].join(' ');
  const { store } = await open(t, unpack(t, first, 'store.db', change), first.store.now);
  const projects = await store.projects.list();
  t.equal(projects.length, 2);
  t.match(projects[1], { name: 'second, renamed', limits: { eventsPerMonth: null } });
  const limits = { eventsPerMonth: 5, bytesPerHour: 6 };
  await store.projects.update(projects[1]?.id ?? '', { limits });
  t.match(await store.projects.get(projects[1]?.id ?? ''), { limits });
});

t.test('refuses a store of the version after the newest', async (t) => {
  if (first === undefined) throw new Error('there is no fixture');
  const newer = newerVersion(STORE_MIGRATIONS.length + 1);
  await t.rejects(open(t, unpack(t, first, 'store.db', newer), first.store.now), {
    name: 'NewerDataError',
    message: /store\.db was written by a newer version of tracectl/,
  });
});

t.test('a store has the tables of a directory of queues', async (t) => {
  const directory = t.testdir({});
  const settings = { clock: fakeClock(), logger: recordingLogger() };
  await (
    await openDirectoryStorage({
      ...{ directory, createDirectory: true, minFreeBytes: 0, reserveBytes: 0 },
      ...settings,
    })
  ).close();
  await (await open(t, directory, settings.clock.now())).close();
  const store = schemaOf(join(directory, 'store.db'));
  const queues = schemaOf(join(directory, 'queue.db'));
  t.ok(queues.length > 10);
  t.same(
    store.filter(({ name }) => queues.some((each) => each.name === name)),
    queues,
  );
});
