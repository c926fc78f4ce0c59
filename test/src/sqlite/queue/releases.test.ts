import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Test } from 'tap';
import t from 'tap';
import { openDirectoryStorage } from '../../../../src/sqlite/queue/directory-storage.ts';
import { QUEUE_MIGRATIONS } from '../../../../src/sqlite/queue/migrations/index.ts';
import { nativeBatch } from '../../../helper/batches.ts';
import { fakeClock } from '../../../helper/clock.ts';
import { newerVersion } from '../../../helper/newer-file.ts';
import { recordingLogger } from '../../../helper/settings.ts';
import { queueSnapshots } from '../../../helper/store-snapshot.ts';
import { schemaOf, storedReleases, unpack } from '../../../helper/stored-releases.ts';

async function open(t: Test, directory: string, now: number, worker = { index: 1, count: 1 }) {
  const storage = await openDirectoryStorage({
    ...{ directory, createDirectory: true, minFreeBytes: 0, reserveBytes: 0, worker },
    ...{ clock: fakeClock(now), logger: recordingLogger() },
  });
  t.teardown(() => storage.close());
  return storage;
}

function versionIn(directory: string): unknown {
  const db = new DatabaseSync(join(directory, 'queue.db'), { readOnly: true });
  const version = db.prepare('PRAGMA user_version').get()?.user_version;
  db.close();
  return version;
}

for (const release of storedReleases()) {
  const { now, queues, usage, snapshot } = release.queues;

  t.test(`reads queues of release ${release.name} back as the release did`, async (t) => {
    const directory = unpack(t, release, 'queue.db');
    const storage = await open(t, directory, now);
    t.hasStrict(await queueSnapshots(storage, queues), snapshot);
    t.same(storage.usage.read('org_fixture', 'proj_fixture'), usage);
    t.equal(versionIn(directory), QUEUE_MIGRATIONS.length);
  });

  t.test(`another number of workers takes queues of release ${release.name} over`, async (t) => {
    const directory = unpack(t, release, 'queue.db');
    const storage = await open(t, directory, now, { index: 1, count: 2 });
    const [queue] = queues;
    if (queue === undefined) throw new Error('the fixture has no queue');
    const joined = await storage.openQueue({ ...queue, maxBytes: 1e12 });
    t.ok(joined.stats().branches.some(({ entries }) => entries > 0));
    t.equal(versionIn(directory), QUEUE_MIGRATIONS.length);
  });

  t.test(`delivers queues of release ${release.name}, and writes on`, async (t) => {
    const directory = unpack(t, release, 'queue.db');
    const storage = await open(t, directory, now);
    for (const { name, branches } of queues) {
      const queue = await storage.openQueue({ name, branches, maxBytes: 1e12 });
      await queue.replay('all');
      for (const branch of branches) {
        const entries = await queue.lease(branch, 1000, 1e12);
        t.ok(entries.length > 0, `${name} delivers`);
        await queue.ack(branch, entries);
      }
      t.match(queue.stats(), { bytes: 0, deadLetters: 0 });
      const tenant = { projectId: 'proj_fixture' } as const;
      const claim = await queue.idempotency.claim(
        { ...tenant, organizationId: 'o', keyId: 'k', permissions: [] },
        'fixture-key',
        Buffer.from('another request'),
      );
      t.equal(claim.state, 'conflict', 'the answer to a key is kept');
      await queue.append(nativeBatch(1, { receivedAt: now }));
      await queue.append(nativeBatch(1, { receivedAt: now, body: Buffer.alloc(3_000_000, 32) }));
    }
    await storage.close();
    const again = await open(t, directory, now);
    for (const { name, branches } of queues) {
      const queue = await again.openQueue({ name, branches, maxBytes: 1e12 });
      const leased = await Promise.all(branches.map((branch) => queue.lease(branch, 10, 1e12)));
      t.same(
        leased.map((entries) => entries.length),
        branches.map(() => 2),
        `${name} has the new entries, a large one too`,
      );
    }
  });

  t.test(`migrated queues of release ${release.name} have the tables of new ones`, async (t) => {
    const directory = unpack(t, release, 'queue.db');
    await (await open(t, directory, now)).close();
    const fresh = join(directory, '..', 'new');
    await (await open(t, fresh, now)).close();
    t.same(
      schemaOf(join(directory, 'queue.db')).map(({ name }) => name),
      schemaOf(join(fresh, 'queue.db')).map(({ name }) => name),
    );
  });

  t.test(`refuses queues of the version after the newest, from ${release.name}`, async (t) => {
    const newer = newerVersion(QUEUE_MIGRATIONS.length + 1);
    const directory = unpack(t, release, 'queue.db', newer);
    const refused = {
      name: 'NewerDataError',
      message: /queue\.db was written by a newer version of tracectl/,
    };
    await t.rejects(open(t, directory, now), refused);
    await t.rejects(open(t, directory, now, { index: 1, count: 2 }), refused, 'as a leftover');
  });
}
