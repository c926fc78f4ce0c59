import { setImmediate } from 'node:timers/promises';
import type { Test } from 'tap';
import t from 'tap';
import { RetryableError } from '../../../../src/model/errors.ts';
import { openDatabase } from '../../../../src/sqlite/database.ts';
import { openDirectoryStorage } from '../../../../src/sqlite/queue/directory-storage.ts';
import { queueStorage } from '../../../../src/sqlite/queue/storage.ts';
import { leaseAll } from '../../../contract/queue.ts';
import { nativeBatch } from '../../../helper/batches.ts';
import { fakeClock } from '../../../helper/clock.ts';
import { recordingLogger } from '../../../helper/settings.ts';
import { advanceUntil } from '../../../helper/until.ts';

/** Acknowledgements that may be written with a later call. */

const HOUR = 3_600_000;

function place(t: Test) {
  const directory = t.testdir({});
  return async () => {
    const storage = await openDirectoryStorage({
      ...{ directory, createDirectory: true, minFreeBytes: 0, reserveBytes: 0 },
      ...{ clock: fakeClock(), logger: recordingLogger() },
    });
    t.teardown(() => storage.close());
    const queue = await storage.openQueue({ name: 'q', branches: ['a'], maxBytes: 1e9 });
    return { storage, queue };
  };
}

t.test('an acknowledgement that may wait is written with the next append', async (t) => {
  const open = place(t);
  const { storage, queue } = await open();
  await queue.append(nativeBatch(1));
  const acked = queue.ack('a', await leaseAll(queue, 'a'), HOUR);
  t.equal(queue.stats().branches[0]?.entries, 0, 'the entry counts no more');
  const next = nativeBatch(1);
  await Promise.all([queue.append(next), acked]);
  await storage.crash();
  const after = await open();
  t.same(
    (await leaseAll(after.queue, 'a')).map(({ batch }) => batch.id),
    [next.id],
  );
});

t.test('a crash before that repeats the delivery, and a close does not', async (t) => {
  const open = place(t);
  const first = await open();
  const batch = nativeBatch(1);
  await first.queue.append(batch);
  const lost = first.queue.ack('a', await leaseAll(first.queue, 'a'), HOUR);
  lost.catch(() => undefined);
  await first.storage.crash();
  const second = await open();
  const again = await leaseAll(second.queue, 'a');
  t.same(
    again.map((entry) => entry.batch.id),
    [batch.id],
  );
  const saved = second.queue.ack('a', again, HOUR);
  await second.storage.close();
  await saved;
  t.same(await leaseAll((await open()).queue, 'a'), []);
});

t.test('leases that end while the file cannot be written share one line of the log', async (t) => {
  const [clock, logger] = [fakeClock(), recordingLogger()];
  const database = await openDatabase<
    typeof import('../../../../src/sqlite/queue/directory-operations.ts')
  >({
    ...{ directory: t.testdir({}), name: 'queues', createDirectory: true },
    ...{ minFreeBytes: 0, reserveBytes: 0, clock, logger },
    operations: new URL('../../../../src/sqlite/queue/directory-operations.ts', import.meta.url),
  });
  t.teardown(() => database.close());
  let isRefusing = false;
  const write: typeof database.write = (name, args, options) =>
    isRefusing && name === 'queue.ack'
      ? Promise.reject(new RetryableError('storage_failed', 'refused by the disk'))
      : database.write(name, args, options);
  const storage = await queueStorage({ ...database, write }, clock, logger, {
    removesProjects: true,
  });
  t.teardown(() => storage.close());
  const queue = await storage.openQueue({ name: 'q', branches: ['a'], maxBytes: 1e9 });
  const logged = (message: string) => logger.lines.filter((line) => line.message === message);
  for (const outages of [1, 2]) {
    for (let i = 0; i < 3; i++) await queue.append(nativeBatch(1));
    const entries = await leaseAll(queue, 'a');
    isRefusing = true;
    const acked = entries.map((entry) => queue.ack('a', [entry]));
    for (let second = 0; second < 5; second++) {
      await setImmediate();
      clock.advance(1000);
    }
    isRefusing = false;
    let isWritten = false;
    const written = Promise.all(acked).then(() => {
      isWritten = true;
    });
    await advanceUntil(clock, 1000, () => isWritten);
    await written;
    const failed = logged('End of leases could not be written; retrying');
    t.match(failed.at(-1), { level: 'warn', fields: { queue: 'q' } });
    t.equal(failed.length, outages);
    t.equal(logged('End of leases written after a failure').length, outages);
  }
});
