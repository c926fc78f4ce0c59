import type { Test } from 'tap';
import type { SealedBatch } from '../../src/model/batch.ts';
import { requestIndexOf } from '../../src/model/formats.ts';
import { feedbackKey } from '../../src/model/request-context.ts';
import type { DurableQueue, QueueEntry, QueueLeases, QueueStorage } from '../../src/queue/queue.ts';
import { answered, aTenant, nativeBatch, rawBatch } from '../helper/batches.ts';
import type { FakeClock } from '../helper/clock.ts';

/** A place that keeps queues, under test: it can be opened, closed, crashed and opened again. */
export type QueuePlace = {
  readonly clock: FakeClock;
  open(): Promise<OpenPlace>;
};
export type OpenPlace = {
  readonly storage: QueueStorage;
  close(): Promise<void>;
  /** Ends without a shutdown: data that is not durable and all leases are lost. */
  crash(): Promise<void>;
};

const ALL = 1000;
const ANY_SIZE = 1e9;
const OPTIONS = { name: 'queue', branches: ['a', 'b'], maxBytes: 1e9 };

/** The contract of every durable queue. `place` makes a new empty place for each test. */
export function queueContract(t: Test, place: (t: Test) => Promise<QueuePlace>): void {
  /** Opens a place and closes it after the test. */
  async function open(t: Test, options = OPTIONS) {
    const at = await place(t);
    let opened = await at.open();
    t.teardown(() => opened.close());
    const reopen = async (how: 'close' | 'crash'): Promise<DurableQueue> => {
      await opened[how]();
      opened = await at.open();
      return opened.storage.openQueue(options);
    };
    const again = () => opened.storage.openQueue(options);
    return { clock: at.clock, queue: await opened.storage.openQueue(options), reopen, again };
  }

  t.test(
    'leases every batch to every branch, oldest first, until it is acknowledged',
    async (t) => {
      const { queue } = await open(t);
      const batches = [nativeBatch(1), nativeBatch(2), nativeBatch(3)];
      for (const batch of batches) await queue.append(batch);
      for (const branch of ['a', 'b']) {
        const entries = await leaseAll(queue, branch);
        t.same(ids(entries), idsOf(batches), `all batches in ${branch}`);
        t.same(
          entries.map(({ attempts }) => attempts),
          [0, 0, 0],
        );
        t.ok(
          entries.every(({ seq }, i) => i === 0 || seq > (entries[i - 1]?.seq ?? 0)),
          'seq grows',
        );
        t.same(await leaseAll(queue, branch), [], 'no entry is leased twice');
        await queue.ack(branch, entries);
      }
      t.equal(queue.stats().bytes, 0);
      t.same(
        queue.stats().branches.map(({ entries, items }) => [entries, items]),
        [
          [0, 0],
          [0, 0],
        ],
      );
    },
  );

  t.test('leases the batch that was appended, also after a crash', async (t) => {
    const { queue, reopen } = await open(t);
    const body = Buffer.from('{"events":[{},{}]}');
    const batch = rawBatch('runs', body, 4, {
      encoding: 'zstd',
      positions: [1, 3],
      rejections: [
        { index: 0, id: 'x', code: 'invalid_field', reason: 'post[0].name' },
        { index: 2, code: 'missing_field', reason: 'post[2].id' },
      ],
      usage: { events: 2, bytes: 17 },
      tenant: aTenant({ permissions: ['ingest:write'] }),
    });
    await queue.append(batch);
    const check = (entry: QueueEntry | undefined, from: string): void => {
      t.same(entry?.batch, batch, from);
      t.equal(requestIndexOf(entry?.batch ?? batch, 1), 3);
    };
    check((await leaseAll(queue, 'a'))[0], 'from memory');
    check((await leaseAll(await reopen('crash'), 'a'))[0], 'from disk');
  });

  t.test('leases the same batch again after a nack, and in the other branch', async (t) => {
    const { queue } = await open(t);
    const batch = nativeBatch(2);
    await queue.append(batch);
    const [entry] = await leaseAll(queue, 'a');
    if (entry === undefined) throw new Error('no entry was leased');
    await queue.nack('a', entry, 0, 'test');
    for (const branch of ['a', 'b']) {
      const [other] = await leaseAll(queue, branch);
      t.same(other?.batch, batch);
    }
  });

  t.test('bounds a lease in number and bytes, to at least one due entry', async (t) => {
    const { queue } = await open(t);
    for (let i = 0; i < 6; i++) await queue.append(nativeBatch(1));
    const size = nativeBatch(1).body.length;
    t.equal((await queue.lease('a', 2, ANY_SIZE)).length, 2);
    t.equal((await queue.lease('a', ALL, size * 2)).length, 2);
    t.equal((await queue.lease('a', ALL, 1)).length, 1);
    t.equal((await leaseAll(queue, 'a')).length, 1);
    t.equal(queue.stats().branches[0]?.leased, 6);
  });

  t.test('leases a returned entry again after its delay, with its attempts counted', async (t) => {
    const { queue, clock } = await open(t);
    const [first, second] = [nativeBatch(1), nativeBatch(1)];
    await queue.append(first);
    await queue.append(second);
    const [entry] = await queue.lease('a', 1, ANY_SIZE);
    if (entry === undefined) throw new Error('no entry was leased');
    await queue.nack('a', entry, 1000, 'later');
    t.same(ids(await leaseAll(queue, 'a')), [second.id], 'the next entry is not held up');
    let calls = 0;
    queue.onAvailable('a', () => calls++);
    clock.advance(999);
    t.same(await leaseAll(queue, 'a'), []);
    clock.advance(1);
    t.equal(calls, 1, 'the listener is called when the entry is due');
    const [again] = await leaseAll(queue, 'a');
    t.same([again?.batch.id, again?.attempts, again?.seq], [first.id, 1, entry.seq]);
  });

  t.test('calls listeners after an append until they unsubscribe', async (t) => {
    const { queue } = await open(t);
    let calls = 0;
    const stop = queue.onAvailable('a', () => calls++);
    await queue.append(nativeBatch(1));
    t.equal(calls, 1);
    stop();
    await queue.append(nativeBatch(1));
    t.equal(calls, 1);
  });

  for (const how of ['close', 'crash'] as const) {
    t.test(`keeps unacknowledged entries in order after a ${how}`, async (t) => {
      const { queue, reopen, clock } = await open(t);
      const batches = Array.from({ length: 6 }, () => nativeBatch(1));
      await Promise.all(batches.map((batch) => queue.append(batch)));
      const [done, dead, back] = await queue.lease('a', 4, ANY_SIZE);
      if (done === undefined || dead === undefined || back === undefined)
        throw new Error('too few entries were leased');
      await queue.ack('a', [done]);
      await queue.deadLetter('a', dead, { code: 'bad', message: 'it is bad' });
      await queue.nack('a', back, 60_000, 'later');
      const before = { ...queue.stats(), branches: [] };
      const after = await reopen(how);
      t.same({ ...after.stats(), branches: [] }, before, 'the counts are the same');
      const [a, b] = after.stats().branches;
      t.same([a?.entries, a?.leased, b?.entries], [4, 0, 6], 'the leases have ended');
      const all = idsOf(batches);
      t.same(ids(await leaseAll(after, 'b')), all);
      t.same(ids(await leaseAll(after, 'a')), [all[3], all[4], all[5]]);
      clock.advance(60_000);
      const [due] = await leaseAll(after, 'a');
      t.same([due?.batch.id, due?.attempts], [all[2], 1]);
    });
  }

  t.test('keeps a dead letter with its reason and time, and replays it', async (t) => {
    const { queue, clock, reopen } = await open(t);
    const batch = nativeBatch(3);
    await queue.append(batch);
    const [entry] = await leaseAll(queue, 'a');
    if (entry === undefined) throw new Error('no entry was leased');
    await queue.deadLetter('a', entry, { code: 'bad', message: 'it is bad' });
    const [letter] = await queue.deadLetters();
    t.match(letter, {
      branch: 'a',
      batchId: batch.id,
      projectId: batch.tenant.projectId,
      items: 3,
      bytes: batch.body.length,
      reason: { code: 'bad', message: 'it is bad' },
      failedAt: clock.now(),
    });
    t.match(queue.stats(), { deadLetters: 1, deadLetterItems: 3, bytes: batch.body.length });
    await queue.ack('b', await leaseAll(queue, 'b'));
    t.equal(queue.stats().bytes, 0, 'bytes of a dead letter do not count as waiting');
    const after = await reopen('crash');
    let calls = 0;
    after.onAvailable('a', () => calls++);
    t.equal(await after.replay([letter?.id ?? 0]), 1);
    t.equal(calls, 1);
    t.match(after.stats(), { deadLetters: 0, deadLetterItems: 0, bytes: batch.body.length });
    const [again] = await leaseAll(after, 'a');
    t.same([again?.batch.id, again?.batch.body, again?.attempts], [batch.id, batch.body, 0]);
    t.same(await leaseAll(after, 'b'), [], 'the other branch does not get the batch again');
    t.equal(await after.replay('all'), 0);
  });

  t.test('lists dead letters by page and branch, and drops them', async (t) => {
    const { queue } = await open(t);
    for (let i = 0; i < 3; i++) await queue.append(nativeBatch(2));
    for (const branch of ['a', 'b']) {
      for (const entry of await leaseAll(queue, branch)) {
        await queue.deadLetter(branch, entry, { code: 'bad', message: branch });
      }
    }
    const all = await queue.deadLetters();
    t.equal(all.length, 6);
    t.equal((await queue.deadLetters({ branch: 'b' })).length, 3);
    t.same(await queue.deadLetters({ branch: 'b\u0000' }), []);
    const page = await queue.deadLetters({ limit: 2, after: all[1]?.id ?? 0 });
    t.same(page, all.slice(2, 4));
    t.equal(await queue.drop([all[0]?.id ?? 0, 999_999]), 1);
    t.match(queue.stats(), { deadLetters: 5, deadLetterItems: 10 });
    t.equal(await queue.drop('all'), 5);
    t.same(await queue.deadLetters(), []);
    t.match(queue.stats(), { deadLetters: 0, deadLetterItems: 0, bytes: 0 });
  });

  t.test(
    'refuses a batch above max_bytes with a delay, and accepts one when there is room',
    async (t) => {
      const size = nativeBatch(1).body.length;
      const { queue } = await open(t, { name: 'small', branches: ['a'], maxBytes: size * 2 + 1 });
      const results = await Promise.allSettled([1, 2, 3].map(() => queue.append(nativeBatch(1))));
      t.same(
        results.map(({ status }) => status),
        ['fulfilled', 'fulfilled', 'rejected'],
      );
      const refusal = results[2]?.status === 'rejected' ? results[2].reason : undefined;
      t.match(refusal, { name: 'RetryableError', code: 'queue_full' });
      t.ok(refusal?.retryAfterMs > 0);
      t.equal(queue.stats().bytes, size * 2);
      await queue.ack('a', await queue.lease('a', 1, ANY_SIZE));
      await queue.append(nativeBatch(1));
      t.equal(queue.stats().branches[0]?.entries, 2);
    },
  );

  t.test('keeps a batch once that is appended twice', async (t) => {
    const { queue } = await open(t);
    const batch = nativeBatch(1);
    await queue.append(batch);
    await queue.append(batch);
    t.equal((await leaseAll(queue, 'a')).length, 1);
    t.match(queue.stats(), { bytes: batch.body.length });
  });

  t.test('ignores further outcomes of an ended entry', async (t) => {
    const { queue } = await open(t);
    await queue.append(nativeBatch(1));
    const entries = await leaseAll(queue, 'a');
    await queue.ack('a', entries);
    await queue.ack('a', entries);
    for (const entry of entries) {
      await queue.nack('a', entry, 0, 'late');
      await queue.deadLetter('a', entry, { code: 'late', message: '' });
    }
    t.same(await leaseAll(queue, 'a'), []);
    t.match(queue.stats(), { deadLetters: 0 });
    t.same(
      queue.stats().branches.map(({ entries }) => entries),
      [0, 1],
    );
  });

  t.test('opening an open queue keeps its entries and leases', async (t) => {
    const { queue, again } = await open(t);
    await queue.append(nativeBatch(1));
    const [entry] = await leaseAll(queue, 'a');
    const same = await again();
    t.same(await leaseAll(same, 'a'), [], 'the entry is still leased');
    if (entry !== undefined) await same.ack('a', [entry]);
    t.equal(same.stats().branches[0]?.entries, 0);
  });

  t.test('keeps the entries of a removed branch until the branch is back', async (t) => {
    const at = await place(t);
    const first = await at.open();
    const queue = await first.storage.openQueue(OPTIONS);
    const batch = nativeBatch(1);
    await queue.append(batch);
    await queue.ack('a', await leaseAll(queue, 'a'));
    await first.close();
    const second = await at.open();
    const without = await second.storage.openQueue({ ...OPTIONS, branches: ['a'] });
    t.same(
      without.stats().branches.map(({ branch }) => branch),
      ['a', 'b'],
      'the removed branch with entries is shown',
    );
    await without.append(nativeBatch(1));
    await second.close();
    const third = await at.open();
    t.teardown(() => third.close());
    const back = await third.storage.openQueue(OPTIONS);
    t.same(
      ids(await leaseAll(back, 'b')),
      [batch.id],
      'without the batches that were appended in between',
    );
  });

  t.test('leases a backlog larger than the memory in order', async (t) => {
    const { queue, reopen } = await open(t);
    const batches = Array.from({ length: 6000 }, () => nativeBatch(1, { body: Buffer.from('{}') }));
    await Promise.all(batches.map((batch) => queue.append(batch)));
    t.same(await drain(queue, 'a'), idsOf(batches));
    const after = await reopen('crash');
    t.same(await drain(after, 'b'), idsOf(batches));
    t.match(after.stats(), { bytes: 0 });
  });

  t.test('appends a repeated request once, and gives its first answer to the others', async (t) => {
    const { queue, clock, reopen } = await open(t);
    const requestHash = Buffer.alloc(32, 1);
    const answer = { status: 202, contentType: 'application/json', body: Buffer.from('{"ok":1}') };
    const asked = (key: string, body = '{"ok":2}') =>
      answered({
        ...{ ...answer, body: Buffer.from(body), key: `\0${key}` },
        ...{ requestHash, keptFor: 600_000, isUnclaimed: true },
      });
    const first = answered({
      ...answer,
      key: '\0a',
      requestHash,
      keptFor: 600_000,
      isUnclaimed: true,
    });
    await queue.append(nativeBatch(1), first);
    await t.rejects(queue.append(nativeBatch(1), asked('a')), { name: 'RepeatedRequest', answer });
    const both = await Promise.allSettled([
      queue.append(nativeBatch(1), asked('b')),
      queue.append(nativeBatch(1), asked('b')),
    ]);
    t.same(both.map(({ status }) => status).sort(), ['fulfilled', 'rejected'], 'at the same time');
    t.equal(queue.stats().branches[0]?.entries, 2);
    const elsewhere = nativeBatch(1, { tenant: aTenant({ projectId: 'proj_other' }) });
    await queue.append(elsewhere, asked('a'));

    const after = await reopen('crash');
    const repeat = asked('a');
    await t.rejects(after.append(nativeBatch(1), repeat), { name: 'RepeatedRequest', answer });
    t.equal(repeat.isUsageEntered, false, 'the ledger has no entry for it');
    clock.advance(599_999);
    await t.rejects(after.append(nativeBatch(1), asked('a')), { name: 'RepeatedRequest' });
    clock.advance(1);
    await after.append(nativeBatch(1), asked('a', '{"ok":3}'));
    await t.rejects(after.append(nativeBatch(1), asked('a')), {
      name: 'RepeatedRequest',
      answer: { ...answer, body: Buffer.from('{"ok":3}') },
    });
  });

  t.test('keeps the answer to feedback without an item for its time', async (t) => {
    const { queue, clock } = await open(t);
    const answer = { status: 202, contentType: 'application/json', body: Buffer.from('{}') };
    const requestHash = Buffer.alloc(32, 1);
    const key = feedbackKey('\0a');
    const empty = nativeBatch(1, {
      rejections: [{ index: 0, code: 'invalid_event', reason: 'events[0]' }],
    });
    const claim = () => queue.idempotency.claim(empty.tenant, key, requestHash);
    const first = await claim();
    await queue.append(empty, answered({ ...answer, key, requestHash, keptFor: 600_000 }));
    if (first.state === 'new') first.release();
    clock.advance(599_999);
    t.same(await claim(), { state: 'replay', answer });
    clock.advance(1);
    t.equal((await claim()).state, 'new');
    t.equal(queue.stats().branches[0]?.entries, 0);
  });

  t.test('keeps the answer to a claimed implicit key for its time', async (t) => {
    const { queue, clock } = await open(t);
    const answer = { status: 202, contentType: 'application/json', body: Buffer.from('{"ok":1}') };
    const requestHash = Buffer.alloc(32, 1);
    const batch = nativeBatch(1);
    const claim = () => queue.idempotency.claim(batch.tenant, '\0a', requestHash);
    const first = await claim();
    t.equal(first.state, 'new');
    const request = answered({ ...answer, key: '\0a', requestHash, keptFor: 600_000 });
    await queue.append(batch, request);
    if (first.state === 'new') first.release();
    clock.advance(599_999);
    t.same(await claim(), { state: 'replay', answer });
    clock.advance(1);
    t.equal((await claim()).state, 'new');
  });

  t.test(
    'keeps an idempotency record with its batch, and without one if no item was accepted',
    async (t) => {
      const { queue, clock, reopen } = await open(t);
      const answer = {
        status: 202,
        contentType: 'application/json',
        body: Buffer.from('{"ok":1}'),
      };
      const hash = Buffer.alloc(32, 1);
      const batch = nativeBatch(1);
      const { tenant } = batch;
      const first = await queue.idempotency.claim(tenant, 'k1', hash);
      t.equal(first.state, 'new');
      t.same(await queue.idempotency.claim(tenant, 'k1', hash), { state: 'in_progress' });
      const other = Buffer.alloc(32, 2);
      t.same(await queue.idempotency.claim(tenant, 'k1', other), { state: 'conflict' });
      await queue.append(batch, answered({ ...answer, key: 'k1', requestHash: hash }));
      if (first.state === 'new') first.release();
      await queue.append(
        nativeBatch(1, {
          rejections: [{ index: 0, code: 'invalid_event', reason: 'events[0]' }],
        }),
        answered({ ...answer, status: 400, key: 'k2', requestHash: hash }),
      );
      t.equal(queue.stats().branches[0]?.entries, 1, 'the batch without items does not wait');
      const after = await reopen('crash');
      const { claim } = after.idempotency;
      t.same(await claim(tenant, 'k1', hash), { state: 'replay', answer });
      t.same(await claim(tenant, 'k1', other), { state: 'conflict' });
      t.same(await claim(tenant, 'k2', hash), {
        state: 'replay',
        answer: { ...answer, status: 400 },
      });
      const elsewhere = await claim(aTenant({ projectId: 'proj_other' }), 'k1', hash);
      t.equal(elsewhere.state, 'new', 'the key of another project is a different key');
      clock.advance(24 * 3_600_000);
      const later = await claim(tenant, 'k1', hash);
      t.equal(later.state, 'new', 'the record expires after a day');
      if (later.state === 'new') later.release();
      t.equal(
        (await claim(tenant, 'k1', hash)).state,
        'new',
        'a released claim can be claimed again',
      );
    },
  );

  t.test('verifies an undamaged queue', async (t) => {
    const { queue } = await open(t);
    for (let i = 0; i < 5; i++) await queue.append(nativeBatch(1));
    await queue.ack('a', await queue.lease('a', 2, ANY_SIZE));
    t.same(await queue.verify(), { entries: 5, quarantined: 0 });
  });

  t.test('reports the receipt time of the oldest entry', async (t) => {
    const { queue } = await open(t);
    const batches = [10, 20, 30].map((receivedAt) => nativeBatch(1, { receivedAt }));
    for (const batch of batches) await queue.append(batch);
    const oldest = () => queue.stats().branches[0]?.oldestAt;
    t.equal(oldest(), 10);
    const entries = await queue.lease('a', 2, ANY_SIZE);
    t.equal(oldest(), 10, 'a leased entry still waits');
    await queue.ack('a', entries);
    t.equal(oldest(), 30);
    await queue.ack('a', await leaseAll(queue, 'a'));
    t.equal(oldest(), undefined);
  });
}

export function leaseAll(queue: QueueLeases, branch: string): Promise<QueueEntry[]> {
  return queue.lease(branch, ALL, ANY_SIZE);
}

/** Leases and acknowledges entries until none is due; resolves with their ids in order. */
async function drain(queue: QueueLeases, branch: string): Promise<string[]> {
  const seen: string[] = [];
  for (;;) {
    const entries = await leaseAll(queue, branch);
    if (entries.length === 0) return seen;
    seen.push(...ids(entries));
    await queue.ack(branch, entries);
  }
}

function ids(entries: readonly QueueEntry[]): string[] {
  return entries.map(({ batch }) => batch.id);
}

function idsOf(batches: readonly SealedBatch[]): string[] {
  return batches.map(({ id }) => id);
}
