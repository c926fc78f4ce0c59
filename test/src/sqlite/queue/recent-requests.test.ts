import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Test } from 'tap';
import t from 'tap';
import { wholeAnswer } from '../../../../src/model/request-context.ts';
import { openDirectoryStorage } from '../../../../src/sqlite/queue/directory-storage.ts';
import { recentTag } from '../../../../src/sqlite/queue/recent-requests.ts';
import { leaseAll } from '../../../contract/queue.ts';
import { answered, aTenant, nativeBatch } from '../../../helper/batches.ts';
import { fakeClock } from '../../../helper/clock.ts';
import { recordingLogger } from '../../../helper/settings.ts';

/** Requests without an `Idempotency-Key` in a directory of queues, which removes delivered batches. */

const WINDOW = 600_000;
const tenant = aTenant();

function place(t: Test) {
  const directory = t.testdir({});
  const clock = fakeClock();
  async function open(maxBytes = 1e9) {
    const storage = await openDirectoryStorage({
      ...{ directory, createDirectory: true, minFreeBytes: 0, reserveBytes: 0 },
      ...{ clock, logger: recordingLogger() },
    });
    t.teardown(() => storage.close());
    return { storage, queue: await storage.openQueue({ name: 'q', branches: ['a'], maxBytes }) };
  }
  function rows(): number {
    const db = new DatabaseSync(join(directory, 'queue.db'), { readOnly: true });
    const found = db.prepare('SELECT count(*) AS n FROM recent_requests').get();
    db.close();
    return Number(found?.n);
  }
  return { directory, clock, open, rows };
}

/** A request whose items were all accepted, and its batch. */
function request(key: string, isUnclaimed = true) {
  const batch = nativeBatch(1, { tenant });
  const given = { key: `\0${key}`, requestHash: Buffer.from(key), keptFor: WINDOW, isUnclaimed };
  return { batch, context: answered({ ...wholeAnswer(batch.id), ...given }) };
}

type Queue = Awaited<ReturnType<ReturnType<typeof place>['open']>>['queue'];

async function deliverAll(queue: Queue): Promise<void> {
  await queue.ack('a', await leaseAll(queue, 'a'));
}

/** Resolves with the id of the batch whose answer the request gets. */
async function send(queue: Queue, key: string): Promise<string> {
  const { batch, context } = request(key);
  try {
    await queue.append(batch, context);
    return batch.id;
  } catch (error) {
    if (!(error instanceof Error) || error.name !== 'RepeatedRequest') throw error;
    return String((error as Error & { answer: { body: Buffer } }).answer.body);
  }
}

t.test('recognizes a request whose batch was delivered, also after a crash', async (t) => {
  const { clock, open } = place(t);
  const { storage, queue } = await open();
  const first = await send(queue, 'k');
  await deliverAll(queue);
  t.equal(await send(queue, 'k'), first);
  await storage.crash();
  const after = await open();
  t.equal(await send(after.queue, 'k'), first);
  t.equal(after.queue.stats().branches[0]?.entries, 0, 'nothing was appended');
  const other = await send(after.queue, 'other');
  t.equal(await send(after.queue, 'k'), first, 'the next batch takes no number again');
  t.equal(await send(after.queue, 'other'), other);
  clock.advance(WINDOW - 1);
  t.equal(await send(after.queue, 'k'), first);
  clock.advance(1);
  t.not(await send(after.queue, 'k'), first, 'the window is over');
});

t.test('a request that could not be appended is not remembered', async (t) => {
  const { open } = place(t);
  const { batch } = request('k');
  const { queue } = await open(batch.body.length);
  const filler = await send(queue, 'filler');
  const all = await Promise.allSettled([send(queue, 'k'), send(queue, 'k')]);
  for (const one of all) t.match(one, { status: 'rejected', reason: { code: 'queue_full' } });
  t.equal(await send(queue, 'filler'), filler, 'a repetition needs no room');
  await deliverAll(queue);
  const [first, second] = await Promise.all([send(queue, 'k'), send(queue, 'k')]);
  t.equal(second, first, 'the second one waits for the first');
});

t.test('a request after a crash is answered for a durable batch only', async (t) => {
  const { open } = place(t);
  for (let round = 0; round < 5; round++) {
    const { storage, queue } = await open();
    const keys = Array.from({ length: 20 }, (_, i) => `${round}-${i}`);
    const sent = keys.map((key) => send(queue, key).catch(() => undefined));
    if (round % 2 === 0) await sent[0];
    await storage.crash();
    const ids = await Promise.all(sent);
    const after = await open();
    const waiting = new Set((await leaseAll(after.queue, 'a')).map(({ batch }) => batch.id));
    for (const [i, key] of keys.entries()) {
      const id = await send(after.queue, key);
      if (ids[i] !== undefined) t.equal(id, ids[i], 'an acknowledged request is known');
      const isNew = (await leaseAll(after.queue, 'a')).some(({ batch }) => batch.id === id);
      t.ok(waiting.has(id) || isNew, 'the batch of the answer is in the queue');
    }
    await after.storage.close();
  }
});

t.test('a claim of an implicit key finds appended requests, and those in flight', async (t) => {
  const { open } = place(t);
  const { queue } = await open();
  const claim = () => queue.idempotency.claim(tenant, '\0k', Buffer.from('k'));
  const { batch, context } = request('k');
  const appending = queue.append(batch, context);
  t.match(await claim(), { state: 'in_progress' });
  await appending;
  t.same(await claim(), { state: 'replay', answer: wholeAnswer(batch.id) });
  const claimed = request('claimed', false);
  await queue.append(claimed.batch, claimed.context);
  t.equal(await send(queue, 'claimed'), claimed.batch.id);
});

t.test('removes rows when they expire, from the head of the log', async (t) => {
  const { clock, open, rows } = place(t);
  const { storage, queue } = await open();
  for (let i = 0; i < 3; i++) await send(queue, `early ${i}`);
  clock.advance(1);
  await send(queue, 'late');
  clock.advance(WINDOW - 2);
  await storage.tidy();
  t.equal(rows(), 4);
  clock.advance(1);
  await storage.tidy();
  t.equal(rows(), 1);
  clock.advance(1);
  await storage.tidy();
  t.equal(rows(), 0);
});

t.test('removes the requests of a deleted project', async (t) => {
  const { open, rows } = place(t);
  const { storage, queue } = await open();
  await send(queue, 'k');
  await queue.removeProject(tenant.projectId);
  await t.rejects(send(queue, 'k'), { code: 'unauthorized' });
  await storage.tidy();
  t.equal(rows(), 0);
});

t.test('reads a log of any length at a start, and leaves out what has expired', async (t) => {
  const { directory, clock, open } = place(t);
  const { storage } = await open();
  await storage.close();
  const db = new DatabaseSync(join(directory, 'queue.db'));
  const insert = db.prepare('INSERT INTO recent_requests VALUES (?, ?, ?, ?, ?, NULL, NULL, NULL)');
  const count = 40_001;
  db.exec('BEGIN');
  for (let i = 1; i <= count; i++) {
    const tag = recentTag(tenant.projectId, `\0${i}`);
    const end = clock.now() + (i === 5 ? 0 : 1000);
    insert.run(i, tag, end, tenant.projectId, `batch ${i}`);
  }
  db.exec('COMMIT');
  db.close();
  const { queue } = await open();
  for (const i of [1, 4, 6, 20_000, 20_001, 40_000, count]) {
    t.equal(await send(queue, `${i}`), `batch ${i}`);
  }
  t.not(await send(queue, '5'), 'batch 5');
});
