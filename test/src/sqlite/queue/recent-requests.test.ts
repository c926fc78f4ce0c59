import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Test } from 'tap';
import t from 'tap';
import { RepeatedRequest } from '../../../../src/model/errors.ts';
import type { KeyedAnswer } from '../../../../src/model/request-context.ts';
import { wholeAnswer, wholeBatchOf } from '../../../../src/model/request-context.ts';
import { recordOf } from '../../../../src/queue/record.ts';
import { openDirectoryStorage } from '../../../../src/sqlite/queue/directory-storage.ts';
import { QUEUE_MIGRATIONS } from '../../../../src/sqlite/queue/migrations/index.ts';
import { recentEntries, recentEntry, recentLog } from '../../../../src/sqlite/queue/recent-log.ts';
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
  /** The requests in rows of their own, and those of each group. */
  function logged(): number[] {
    const db = new DatabaseSync(join(directory, 'queue.db'), { readOnly: true });
    const found = db.prepare('SELECT count(*) AS n FROM recent_requests').get();
    const groups = db.prepare('SELECT entries FROM recent_groups ORDER BY last_seq').all();
    db.close();
    return [
      Number(found?.n),
      ...groups.map(({ entries }) => recentEntries(String(entries)).length),
    ];
  }
  return { directory, clock, open, logged };
}

/** A request whose items were all accepted, and its batch. */
function request(key: string, isUnclaimed = true, projectId = tenant.projectId) {
  const batch = nativeBatch(1, { tenant: { ...tenant, projectId } });
  const given = { key: `\0${key}`, requestHash: Buffer.from(key), keptFor: WINDOW, isUnclaimed };
  return { batch, context: answered({ ...wholeAnswer(batch.id), ...given }) };
}

/** The fields of an answer that belong to its request. */
function keyOf({ key, requestHash, keptFor, isUnclaimed }: KeyedAnswer) {
  return { key, requestHash, keptFor, isUnclaimed };
}

type Queue = Awaited<ReturnType<ReturnType<typeof place>['open']>>['queue'];

async function deliverAll(queue: Queue): Promise<void> {
  await queue.ack('a', await leaseAll(queue, 'a'));
}

/** Resolves with the id of the batch whose answer the request gets. */
async function send(queue: Queue, key: string, projectId?: string): Promise<string> {
  const { batch, context } = request(key, true, projectId);
  try {
    await queue.append(batch, context);
    return batch.id;
  } catch (error) {
    if (!(error instanceof RepeatedRequest)) throw error;
    return wholeBatchOf(error.answer) ?? '';
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
  const { clock, open, logged } = place(t);
  const { storage, queue } = await open();
  for (let i = 0; i < 3; i++) await send(queue, `early ${i}`);
  clock.advance(1);
  await send(queue, 'late');
  clock.advance(WINDOW - 2);
  await storage.tidy();
  t.same(logged(), [0, 1, 1, 1, 1]);
  clock.advance(1);
  await storage.tidy();
  t.same(logged(), [0, 1]);
  clock.advance(1);
  await storage.tidy();
  t.same(logged(), [0]);
});

t.test('logs the requests of a group of appends in one row', async (t) => {
  const { open, logged } = place(t);
  const { storage, queue } = await open();
  const keys = Array.from({ length: 50 }, (_, i) => `k${i}`);
  const ids = await Promise.all(keys.map((key) => send(queue, key)));
  t.same(logged(), [0, 50]);
  await storage.crash();
  const after = await open();
  const again = await Promise.all(keys.map((key) => send(after.queue, key)));
  t.same(again, ids);
  t.same(logged(), [0, 50]);
});

t.test('tells the same request of two projects apart, also of those with odd names', async (t) => {
  const { open } = place(t);
  const { storage, queue } = await open();
  const projects = ['p', 'p q', 'p","x', 'p\n', '"'];
  const ids = await Promise.all(projects.map((project) => send(queue, 'same', project)));
  t.equal(new Set(ids).size, projects.length);
  const again = (to: Queue) => Promise.all(projects.map((project) => send(to, 'same', project)));
  t.same(await again(queue), ids);
  await storage.crash();
  t.same(await again((await open()).queue), ids);
});

t.test('logs a request once whose group was rolled back because of another one', async (t) => {
  const { open, logged } = place(t);
  const { storage, queue } = await open();
  const bad = request('bad');
  const refused = { ...bad.batch, requestItems: 1.5 };
  const [first, , last] = await Promise.allSettled([
    send(queue, 'first'),
    queue.append(refused, bad.context),
    send(queue, 'last'),
  ]);
  t.same(logged(), [0, 1, 1], 'each in a transaction of its own');
  await storage.crash();
  const after = await open();
  const value = (one: PromiseSettledResult<string>) => ('value' in one ? one.value : undefined);
  t.equal(await send(after.queue, 'first'), value(first));
  t.equal(await send(after.queue, 'last'), value(last));
  const entries = () => after.queue.stats().branches[0]?.entries;
  t.equal(entries(), 2);
  await send(after.queue, 'bad');
  t.equal(entries(), 3, 'the one that failed is not remembered');
});

t.test('a log that was rolled back writes nothing', async (t) => {
  const db = new DatabaseSync(':memory:');
  t.teardown(() => db.close());
  for (const { apply } of QUEUE_MIGRATIONS) apply(db);
  const log = recentLog(db);
  const record = recordOf(request('k').batch);
  log.add(1, 'a', 5, record);
  log.rolledBack();
  log.beforeCommit();
  const groups = () => db.prepare('SELECT last_seq, expires_at FROM recent_groups').all();
  t.same(groups(), []);
  log.add(2, 'b', 9, record);
  log.add(3, 'c', 7, record);
  log.beforeCommit();
  log.beforeCommit();
  t.same(groups(), [{ last_seq: 3, expires_at: 9 }], 'the latest end counts');
});

t.test('keeps an answer with rejections in a row of its own', async (t) => {
  const { open, logged } = place(t);
  const { storage, queue } = await open();
  const { batch, context } = request('k');
  const answer = { status: 207, contentType: 'application/json', body: Buffer.from('{"a":1}') };
  const { answer: whole } = context;
  if (whole !== undefined) context.answer = { ...answer, ...keyOf(whole) };
  await Promise.all([send(queue, 'before'), queue.append(batch, context), send(queue, 'behind')]);
  t.same(logged(), [1, 2]);
  const repeat = async (to: Queue) => {
    const again = request('k');
    await t.rejects(to.append(again.batch, again.context), { name: 'RepeatedRequest', answer });
  };
  await repeat(queue);
  await storage.crash();
  const after = await open();
  await repeat(after.queue);
});

t.test('removes the requests of a deleted project', async (t) => {
  const { open, logged } = place(t);
  const { storage, queue } = await open();
  await send(queue, 'alone');
  const [, other] = await Promise.all([send(queue, 'k'), send(queue, 'k', 'other')]);
  await queue.removeProject(tenant.projectId);
  await t.rejects(send(queue, 'k'), { code: 'unauthorized' });
  await storage.tidy();
  t.same(logged(), [0, 1]);
  t.equal(await send(queue, 'k', 'other'), other);
});

t.test('reads a log of any length at a start, and leaves out what has expired', async (t) => {
  const { directory, clock, open } = place(t);
  const { storage } = await open();
  await storage.close();
  const db = new DatabaseSync(join(directory, 'queue.db'));
  const insert = db.prepare('INSERT INTO recent_requests VALUES (?, ?, ?, ?, ?, NULL, NULL, NULL)');
  const insertGroup = db.prepare('INSERT INTO recent_groups VALUES (?, ?, ?)');
  const count = 40_001;
  db.exec('BEGIN');
  for (let i = 1; i <= count; i++) {
    const end = clock.now() + (i === 5 ? 0 : 1000);
    insert.run(i, `${i}`, end, tenant.projectId, `batch ${i}`);
  }
  for (let i = 1; i <= 401; i++) {
    const end = clock.now() + (i === 7 ? 0 : 1000);
    const entries = ['a', 'b'].map((part) =>
      recentEntry(`${i}${part}`, tenant.projectId, `${i}${part}`),
    );
    insertGroup.run(count + 2 * i, end, `damaged line\n${entries.join('')}`);
  }
  db.exec('COMMIT');
  db.close();
  const { queue } = await open();
  for (const i of [1, 4, 6, 20_000, 20_001, 40_000, count]) {
    t.equal(await send(queue, `${i}`), `batch ${i}`);
  }
  t.not(await send(queue, '5'), 'batch 5');
  for (const i of [1, 6, 8, 200, 201, 400, 401]) {
    t.same([await send(queue, `${i}a`), await send(queue, `${i}b`)], [`${i}a`, `${i}b`]);
  }
  t.not(await send(queue, '7a'), '7a');
});
