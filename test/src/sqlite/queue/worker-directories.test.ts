import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { Worker } from '../../../../src/component/component.ts';
import type { DurableQueue, QueueEntry } from '../../../../src/queue/queue.ts';
import { openDirectoryStorage } from '../../../../src/sqlite/queue/directory-storage.ts';
import { answered, aTenant, nativeBatch } from '../../../helper/batches.ts';
import { fakeClock } from '../../../helper/clock.ts';
import { recordingLogger } from '../../../helper/settings.ts';

/** A directory of queues that daemons with different numbers of workers use one after the other. */

const BRANCH = 'a';
const OPTIONS = { name: 'queue', branches: [BRANCH], maxBytes: 1e9 };

function room(t: Test) {
  const directory = t.testdir({});
  const logger = recordingLogger();
  const clock = fakeClock();
  const open = async (worker: Worker, at = directory, createDirectory = true) => {
    const storage = await openDirectoryStorage({
      ...{ directory: at, createDirectory, minFreeBytes: 0, reserveBytes: 0 },
      ...{ clock, logger, worker },
    });
    return { storage, queue: await storage.openQueue(OPTIONS) };
  };
  const all = (count: number) =>
    Promise.all(Array.from({ length: count }, (_, i) => open({ index: i + 1, count })));
  /** Leaves a batch in the queue of each worker. */
  async function leave(count: number): Promise<string[]> {
    return Promise.all(
      (await all(count)).map(async ({ storage, queue }) => {
        const batch = nativeBatch(1);
        await queue.append(batch);
        await storage.close();
        return batch.id;
      }),
    );
  }
  /** Starts all workers, delivers every entry, and stops them. */
  async function deliver(count: number): Promise<string[][]> {
    return Promise.all(
      (await all(count)).map(async ({ storage, queue }) => {
        const entries = await lease(queue);
        await queue.ack(BRANCH, entries);
        await storage.close();
        return entries.map(({ batch }) => batch.id);
      }),
    );
  }
  return { directory, logger, clock, open, leave, deliver };
}

function lease(queue: DurableQueue): Promise<QueueEntry[]> {
  return queue.lease(BRANCH, 1000, 1e9);
}

t.test('each of several workers has its queue in a directory of its own', async (t) => {
  const { directory, leave, deliver } = room(t);
  const left = await leave(2);
  t.same(readdirSync(directory).sort(), ['worker-1', 'worker-2']);
  t.same(
    await deliver(2),
    left.map((id) => [id]),
    'the next start finds the batch of each',
  );
});

t.test('another number of workers delivers every waiting entry once', async (t) => {
  for (const [before, after] of [
    [1, 2],
    [2, 1],
  ] as const) {
    await t.test(`from ${before} to ${after}`, async (t) => {
      const { leave, deliver } = room(t);
      const left = await leave(before);
      const found = await deliver(after);
      t.same(found.flat().sort(), left.sort());
      t.same((await deliver(after)).flat(), [], 'no entry is delivered twice');
    });
  }
});

t.test('divides leftovers among the workers', async (t) => {
  const { leave, deliver } = room(t);
  const left = await leave(4);
  const found = await deliver(2);
  t.same(
    found.map(({ length }) => length),
    [2, 2],
  );
  t.same(found.flat().sort(), left.sort());
});

t.test(
  'appends to its own queue while leftovers are delivered, and delivers it afterwards',
  async (t) => {
    const { leave, open, directory } = room(t);
    const [old = ''] = await leave(1);
    const { storage, queue } = await open({ index: 1, count: 2 });
    const available = new Promise<void>((resolve) => queue.onAvailable(BRANCH, resolve));
    const batch = nativeBatch(1);
    await queue.append(batch);
    await available;
    t.equal(queue.stats().branches[0]?.entries, 2);
    t.equal(queue.stats().branches[0]?.items, 2);
    const entries = await lease(queue);
    t.same(
      entries.map((entry) => entry.batch.id),
      [old, batch.id],
    );
    t.equal(new Set(entries.map(({ seq }) => seq)).size, 2, 'two entries have two numbers');
    const [first, second] = entries;
    if (first === undefined || second === undefined) return;
    await queue.nack(BRANCH, first, 0, 'not yet');
    await queue.ack(BRANCH, [second]);
    const [again] = await lease(queue);
    t.match(again, { attempts: 1, batch: { id: old } });
    await storage.close();
    t.ok(existsSync(join(directory, 'queue.db')), 'no file is deleted');
  },
);

t.test('lists, replays and drops dead letters of a leftover like its own', async (t) => {
  const { leave, open } = room(t);
  await leave(1);
  const { storage, queue } = await open({ index: 1, count: 2 });
  await queue.append(nativeBatch(1));
  await queue.append(nativeBatch(1));
  for (const entry of await lease(queue)) {
    await queue.deadLetter(BRANCH, entry, { code: 'refused', message: 'no' });
  }
  const letters = await queue.deadLetters();
  t.equal(letters.length, 3);
  const ids = letters.map(({ id }) => id);
  t.equal(new Set(ids).size, 3);
  t.ok(ids.every(Number.isSafeInteger));
  t.same(
    (await queue.deadLetters({ limit: 1, after: (ids[2] ?? 0) - 1 })).map(({ id }) => id),
    [ids[2]],
    'finds a letter by its number',
  );
  t.same(
    (await queue.deadLetters({ limit: 2, after: ids[0] ?? 0 })).map(({ id }) => id),
    ids.slice(1),
    'in pages',
  );
  t.equal(await queue.replay([ids[2] ?? 0]), 1);
  t.equal((await lease(queue)).length, 1);
  t.equal(await queue.drop('all'), 2);
  t.equal(queue.stats().deadLetters, 0);
  await storage.close();
});

t.test('opens a leftover that holds only a dead letter', async (t) => {
  const { leave, open, deliver } = room(t);
  await leave(1);
  const { storage, queue } = await open({ index: 1, count: 1 });
  const [entry] = await lease(queue);
  if (entry !== undefined) {
    await queue.deadLetter(BRANCH, entry, { code: 'refused', message: 'no' });
  }
  await storage.close();
  const worker = await open({ index: 1, count: 2 });
  t.equal((await worker.queue.deadLetters()).length, 1);
  t.equal(await worker.queue.replay('all'), 1);
  await worker.storage.close();
  t.equal((await deliver(2)).flat().length, 1);
});

t.test('replays an answer that a leftover keeps', async (t) => {
  const { open } = room(t);
  const hash = Buffer.alloc(32, 7);
  const answer = { status: 200, contentType: 'application/json', body: Buffer.from('{}') };
  const alone = await open({ index: 1, count: 1 });
  const request = answered({ ...answer, key: 'k', requestHash: hash });
  await alone.queue.append(nativeBatch(1, { tenant: aTenant() }), request);
  await alone.storage.close();
  const { storage, queue } = await open({ index: 1, count: 2 });
  const claim = (key: string) => queue.idempotency.claim(aTenant(), key, hash);
  t.match(await claim('k'), { state: 'replay', answer: { status: 200 } });
  const other = await claim('other');
  t.equal(other.state, 'new');
  t.equal((await claim('other')).state, 'in_progress', 'until it is released');
  if (other.state === 'new') other.release();
  t.equal((await claim('other')).state, 'new');
  await storage.close();
});

t.test('does not open an empty leftover', async (t) => {
  const { leave, deliver, logger, open } = room(t);
  await leave(2);
  await deliver(2);
  logger.lines.length = 0;
  const { storage } = await open({ index: 1, count: 1 });
  t.notOk(logger.lines.some(({ message }) => message.includes('taken over')));
  await storage.close();
});

t.test('refuses a directory that a daemon with another number of workers uses', async (t) => {
  const { open } = room(t);
  const alone = await open({ index: 1, count: 1 });
  await t.rejects(open({ index: 1, count: 2 }), /in use by another tracectl/);
  await alone.storage.close();
  const second = await open({ index: 2, count: 2 });
  await t.rejects(open({ index: 1, count: 1 }), /worker-2 is in use by another tracectl/);
  await t.rejects(open({ index: 2, count: 3 }), /in use by another tracectl/);
  await second.storage.close();
});

t.test('names a directory that does not exist and must not be created', async (t) => {
  const { open, directory } = room(t);
  const missing = join(directory, 'missing');
  await t.rejects(open({ index: 1, count: 2 }, missing, false), /data directory .*missing cannot/);
  t.notOk(existsSync(missing));
});
