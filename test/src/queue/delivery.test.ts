import type { Test } from 'tap';
import t from 'tap';
import type { Batch, SealedBatch } from '../../../src/model/batch.ts';
import { isFreed, itemsOf, rawOf } from '../../../src/model/batch.ts';
import { PermanentError, RetryableError } from '../../../src/model/errors.ts';
import { endRequest, shareBatch } from '../../../src/model/formats.ts';
import type { DeliveryBranch } from '../../../src/queue/delivery.ts';
import { startDelivery, TOGETHER_BYTES } from '../../../src/queue/delivery.ts';
import type { DurableQueue, QueueEntry, QueueLeases } from '../../../src/queue/queue.ts';
import { withoutItems } from '../../../src/store/erasing/items.ts';
import { leaseAll } from '../../contract/queue.ts';
import { anObservation, aTenant, nativeBatch, nativeEvent } from '../../helper/batches.ts';
import { fakeClock } from '../../helper/clock.ts';
import { directoryQueues } from '../../helper/places.ts';
import { recordingLogger } from '../../helper/settings.ts';
import { createSink } from '../../helper/sink.ts';

const NEVER = new AbortController().signal;

/** A queue with a sink behind each branch; `start` begins to deliver. */
async function rig(t: Test, names: readonly string[] = ['a']) {
  const place = await directoryQueues(t);
  const open = await place.open();
  t.teardown(() => open.close());
  const queue = await open.storage.openQueue({ name: 'q', branches: names, maxBytes: 1e9 });
  const sinks = names.map(() => createSink());
  const processed: string[] = [];
  const process = async (batch: SealedBatch): Promise<Batch> => {
    processed.push(batch.id);
    return batch;
  };
  const { clock } = place;
  const start = (concurrency = 2, branches?: readonly DeliveryBranch[]) => {
    const own = names.map((name, i) => ({ name, process, consumer: sinks[i] ?? createSink() }));
    const delivery = startDelivery(
      {
        queue,
        clock,
        logger: recordingLogger(),
        concurrency,
        initialInterval: 100,
        maxInterval: 1000,
        random: () => 1,
      },
      branches ?? own,
    );
    t.teardown(() => delivery.stop(AbortSignal.abort()));
    return delivery;
  };
  const append = async (count: number): Promise<string[]> => {
    const batches = Array.from({ length: count }, () => nativeBatch(1));
    for (const batch of batches) await queue.append(batch);
    return batches.map(({ id }) => id);
  };
  return { queue, clock, sinks, sink: sinks[0] ?? createSink(), processed, start, append };
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise(setImmediate);
}

t.test('delivers the backlog and new entries once, in order, and removes them', async (t) => {
  const { queue, sink, start, append } = await rig(t);
  const before = await append(5);
  start(1);
  const after = await append(5);
  await sink.holds(10);
  t.same(sink.ids(), [...before, ...after]);
  await until(() => queue.stats().bytes === 0);
});

t.test(
  'doubles the wait of each retry up to the maximum, without a limit of attempts',
  async (t) => {
    const { queue, clock, sink, start, append } = await rig(t);
    const tried: number[] = [];
    sink.behave(() => {
      tried.push(clock.now());
      throw new Error('an unknown error counts as retryable');
    });
    // A high concurrency avoids the rest: the clock advances faster than the disk saves each failure.
    start(50);
    await append(1);
    for (let i = 1; i <= 12; i++) {
      await until(() => tried.length === i && queue.stats().branches[0]?.leased === 0);
      while (tried.length === i) {
        clock.advance(10);
        for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
      }
    }
    const waits = tried.slice(1, 12).map((at, i) => at - (tried[i] ?? 0));
    t.same(waits, [100, 200, 400, 800, 1000, 1000, 1000, 1000, 1000, 1000, 1000]);
    t.same(await queue.deadLetters(), []);
  },
);

t.test('marks a batch that was processed before, for any branch', async (t) => {
  const { clock, sinks, start, append } = await rig(t, ['a', 'b']);
  const seen: boolean[] = [];
  const process = async (batch: SealedBatch, again: boolean): Promise<Batch> => {
    seen.push(again);
    return batch;
  };
  let failures = 2;
  sinks[0]?.behave(() => {
    if (failures-- > 0) throw new Error('not yet');
  });
  const branches = ['a', 'b'].map((name, i) => ({
    name,
    process,
    consumer: sinks[i] ?? createSink(),
  }));
  start(50, branches);
  await append(1);
  await sinks[1]?.holds(1);
  while (sinks[0]?.batches.length === 0) {
    clock.advance(10);
    await new Promise(setImmediate);
  }
  t.same(seen, [false, true, true]);
  await append(1);
  await sinks[1]?.holds(2);
  await sinks[0]?.holds(2);
  t.same(seen, [false, true, true, false]);
});

t.test('knows a bounded number of processed batches that another branch never ends', async (t) => {
  const bound = 65_536;
  const batch = nativeBatch(1);
  const seen: boolean[] = [];
  const process = async (_: SealedBatch, again: boolean): Promise<Batch> => {
    seen.push(again);
    return batch;
  };
  const nothing = async (): Promise<void> => {};
  const queue: QueueLeases = {
    ...{ lease: async () => [], onAvailable: () => nothing },
    ...{ ack: nothing, nack: nothing, deadLetter: nothing, discard: nothing },
  };
  const delivery = startDelivery(
    {
      ...{ queue, clock: fakeClock(), logger: recordingLogger() },
      ...{ concurrency: 10, initialInterval: 100, maxInterval: 100 },
    },
    ['a', 'b'].map((name) => ({ name, process, consumer: { consume: nothing } })),
  );
  delivery.pause();
  const deliver = (branch: string, seq: number) =>
    Promise.all(delivery.deliver(branch, [{ seq, batch, attempts: 1 }]));
  await Promise.all(Array.from({ length: bound + 1 }, (_, seq) => deliver('a', seq)));
  t.ok(seen.every((again) => !again));
  seen.length = 0;
  await deliver('b', 0);
  await deliver('b', bound);
  t.same(seen, [false, true], 'the oldest one is forgotten');
  await delivery.stop(NEVER);
});

t.test('waits as long as the consumer asks', async (t) => {
  const { clock, sink, start, append } = await rig(t);
  let tries = 0;
  sink.behave(() => {
    if (tries++ === 0) throw new RetryableError('busy', 'later', { retryAfterMs: 5000 });
  });
  start();
  await append(1);
  await until(() => clock.pending() > 0 && tries === 1);
  clock.advance(4999);
  for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate);
  t.equal(tries, 1);
  clock.advance(1);
  await sink.holds(1);
});

t.test('dead-letters an undeliverable batch, and delivers the others', async (t) => {
  const { queue, sink, start, append } = await rig(t);
  const [bad, ...good] = await append(3);
  sink.behave((batch) => {
    if (rawOf(batch).id === bad) throw new PermanentError('too_bad', 'it is too bad');
  });
  start();
  await sink.holds(2);
  t.same(sink.ids(), good);
  await until(() => queue.stats().bytes === 0);
  t.match(await queue.deadLetters(), [
    { batchId: bad, reason: { code: 'too_bad', message: 'it is too bad' } },
  ]);
});

t.test('delivers other entries while one entry fails', async (t) => {
  const { sink, start, append } = await rig(t);
  const [bad, ...good] = await append(20);
  sink.behave((batch) => {
    if (rawOf(batch).id === bad) throw new Error('always');
  });
  start(2);
  await sink.holds(19);
  t.same(sink.ids().sort(), good.sort());
});

t.test('rests instead of trying the whole backlog while every delivery fails', async (t) => {
  const { clock, sink, start, append } = await rig(t);
  await append(50);
  let tries = 0;
  sink.behave(() => {
    tries++;
    throw new RetryableError('away', 'the exporter is away');
  });
  start(2);
  await until(() => tries === 2);
  for (let turn = 0; turn < 200; turn++) await new Promise(setImmediate);
  t.equal(tries, 2);
  sink.behave('ok');
  while (sink.batches.length < 50) {
    clock.advance(100);
    await new Promise(setImmediate);
  }
  t.equal(new Set(sink.ids()).size, 50);
});

t.test('delivers at most `concurrency` entries at the same time', async (t) => {
  const { sink, start, append } = await rig(t);
  let inFlight = 0;
  let most = 0;
  sink.behave(async () => {
    most = Math.max(most, ++inFlight);
    await new Promise(setImmediate);
    inFlight--;
  });
  await append(20);
  start(3);
  await sink.holds(20);
  t.equal(most, 3);
});

t.test('delivers to a branch once while the other branch fails', async (t) => {
  const { queue, sinks, start, append } = await rig(t, ['a', 'b']);
  const [a, b] = sinks;
  a?.behave('retryable');
  start();
  const sent = await append(10);
  await b?.holds(10);
  t.same(b?.ids(), sent);
  await until(() => queue.stats().branches[1]?.entries === 0);
  t.equal(queue.stats().branches[0]?.entries, 10);
  t.equal(a?.batches.length, 0);
});

t.test('rejects an entry for a branch that it does not deliver to', async (t) => {
  const { queue, start, append } = await rig(t);
  const delivery = start();
  delivery.pause();
  await append(1);
  const [entry] = await leaseAll(queue, 'a');
  if (entry === undefined) throw new Error('the queue leased no entry');
  t.throws(() => delivery.deliver('b', [entry]), { message: 'unknown branch: b' });
  await Promise.all(delivery.deliver('a', [entry]));
});

t.test(
  'entries that are delivered together take one place until the last of them ends',
  async (t) => {
    const { queue, start, append } = await rig(t);
    const ends: (() => void)[] = [];
    const consume = () => new Promise<void>((resolve) => ends.push(resolve));
    const process = async (batch: SealedBatch): Promise<Batch> => batch;
    await append(4);
    const entries = await leaseAll(queue, 'a');
    t.equal(entries.length, 4);
    const delivery = start(2, [{ name: 'a', process, consumer: { consume } }]);
    const [first, second, third] = delivery.deliver('a', entries.slice(0, 3));
    await until(() => ends.length === 3);
    t.equal(delivery.inFlight(), 3);
    t.same(delivery.branchesWithRoom(), ['a'], 'one of two places is left');
    const [other] = delivery.deliver('a', entries.slice(3));
    t.same(delivery.branchesWithRoom(), []);
    await until(() => ends.length === 4);
    ends[0]?.();
    ends[2]?.();
    await Promise.all([first, third]);
    t.same(delivery.branchesWithRoom(), [], 'the second entry keeps the place');
    ends[1]?.();
    await second;
    t.same(delivery.branchesWithRoom(), ['a']);
    ends[3]?.();
    await other;
  },
);

t.test('processes a batch once for branches that keep pace', async (t) => {
  const { sinks, processed, start, append } = await rig(t, ['a', 'b']);
  start(1);
  const sent = await append(10);
  for (const sink of sinks) await sink.holds(10);
  t.same(processed, sent);
});

t.test('processes a batch again for a branch if items were erased in between', async (t) => {
  const { queue, sinks, processed, start } = await rig(t, ['a', 'b']);
  const delivery = start();
  delivery.pause();
  const batch = nativeBatch(2);
  await queue.append(batch);
  const [[first], [second]] = [await leaseAll(queue, 'a'), await leaseAll(queue, 'b')];
  if (first === undefined || second === undefined) throw new Error('the queue leased no entry');
  await Promise.all(delivery.deliver('a', [first]));
  const shrunk = { ...second, batch: withoutItems(batch, new Set([0])) };
  await Promise.all(delivery.deliver('b', [shrunk]));
  t.same(processed, [batch.id, batch.id]);
  t.same(
    sinks.map(({ batches }) => batches.map(itemsOf)),
    [[2], [1]],
  );
});

t.test('delivers a batch with the number of another one as itself', async (t) => {
  const { queue, sinks, start } = await rig(t, ['a', 'b']);
  const delivery = start();
  delivery.pause();
  await queue.append(nativeBatch(1));
  const [[first], [second]] = [await leaseAll(queue, 'a'), await leaseAll(queue, 'b')];
  if (first === undefined || second === undefined) throw new Error('the queue leased no entry');
  await Promise.all(delivery.deliver('a', [first]));
  // As after a failover of the database that lost the first batch.
  const other = nativeBatch(1);
  await Promise.all(delivery.deliver('b', [{ ...second, batch: other }]));
  t.same(sinks[1]?.ids(), [other.id]);
});

t.test('leases no entry while paused, and goes on after a resume', async (t) => {
  const { sink, start, append } = await rig(t);
  const delivery = start();
  delivery.pause();
  await append(3);
  for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate);
  t.equal(sink.batches.length, 0);
  delivery.resume();
  await sink.holds(3);
});

t.test(
  'a stop lets deliveries in flight finish, and leaves the backlog in the queue',
  async (t) => {
    const { queue, sink, start, append } = await rig(t);
    const gate = Promise.withResolvers<void>();
    sink.behave(() => gate.promise);
    const delivery = start(2);
    const sent = await append(5);
    await until(() => queue.stats().branches[0]?.leased === 2);
    const stopped = delivery.stop(NEVER);
    gate.resolve();
    await stopped;
    t.same(sink.ids(), sent.slice(0, 2));
    await until(() => queue.stats().branches[0]?.entries === 3);
    t.same(
      (await leaseAll(queue, 'a')).map(({ batch }) => batch.id),
      sent.slice(2),
    );
  },
);

t.test('a stop ends when the lease that it waits for fails', async (t) => {
  const { queue, start } = await rig(t);
  const lease = Promise.withResolvers<QueueEntry[]>();
  queue.lease = () => lease.promise;
  const delivery = start();
  let isStopped = false;
  void delivery.stop(NEVER).then(() => {
    isStopped = true;
  });
  lease.reject(new Error('the disk'));
  for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
  t.ok(isStopped);
});

t.test('a stop returns unfinished entries to the queue at its deadline', async (t) => {
  const { queue, sink, start, append } = await rig(t);
  sink.behave(() => new Promise(() => undefined));
  const delivery = start(2);
  const sent = await append(3);
  await until(() => queue.stats().branches[0]?.leased === 2);
  const deadline = new AbortController();
  const stopped = delivery.stop(deadline.signal);
  deadline.abort();
  await stopped;
  t.equal(queue.stats().branches[0]?.leased, 0);
  const returned = await leaseAll(queue, 'a');
  t.same(
    returned.map(({ batch }) => batch.id),
    sent,
  );
  // The stop of the teardown must find no lease: it runs when the directory is gone.
  await queue.ack('a', returned);
});

/** Resolves when the first dead letter is on disk. */
async function hasDeadLetter(queue: DurableQueue): Promise<void> {
  while ((await queue.deadLetters()).length === 0) await new Promise(setImmediate);
}

t.test('dead-letters the unreadable items of a batch, and delivers the others', async (t) => {
  const { queue, clock, sink, start, append } = await rig(t);
  const process = async (source: SealedBatch): Promise<Batch> => ({
    kind: 'observations',
    source,
    observations: [anObservation({ index: 0 })],
    failures: [
      { index: 1, code: 'unreadable_event', message: 'broken' },
      { index: 3, code: 'unreadable_event', message: 'broken too' },
    ],
  });
  const [id] = await append(1);
  start(1, [{ name: 'a', process, consumer: sink }]);
  await sink.holds(1);
  await hasDeadLetter(queue);
  t.match(queue.stats(), { deadLetterItems: 2, branches: [{ entries: 0, items: 0 }] });
  const message = 'item 1: broken; item 3: broken too';
  t.match(await queue.deadLetters(), [
    { batchId: id, items: 2, reason: { code: 'unreadable_event', message } },
  ]);
  await queue.replay('all');
  await sink.holds(2);
  clock.advance(0);
  t.same(sink.ids(), [id, id], 'a replay delivers the whole batch, which merges to the same rows');
});

t.test('dead-letters unreadable items together with items that the consumer rejects', async (t) => {
  const { queue, start, append } = await rig(t);
  const failed = (index: number, message: string) => ({ index, code: 'unreadable_event', message });
  const process = async (source: SealedBatch): Promise<Batch> => ({
    ...{ kind: 'observations', source, observations: [anObservation({ index: 0 })] },
    failures: [failed(1, 'broken')],
  });
  const failures = [{ index: 7, code: 'storage_refused', message: 'poison' }];
  const error = new PermanentError('storage_refused', 'poison', { failures });
  await append(1);
  start(1, [{ name: 'a', process, consumer: { consume: () => Promise.reject(error) } }]);
  await hasDeadLetter(queue);
  t.match(await queue.deadLetters(), [
    { items: 2, reason: { code: 'unreadable_event', message: 'item 1: broken; item 7: poison' } },
  ]);
});

t.test('dead-letters a batch without readable items, without a delivery', async (t) => {
  const { queue, sink, start, append } = await rig(t);
  const failures = [{ index: 0, code: 'unreadable_event', message: 'x'.repeat(5000) }];
  const process = async (source: SealedBatch): Promise<Batch> => ({
    ...{ kind: 'observations' as const, source, observations: [], failures },
  });
  await append(1);
  start(1, [{ name: 'a', process, consumer: sink }]);
  await hasDeadLetter(queue);
  const [letter] = await queue.deadLetters();
  t.ok((letter?.reason.message.length ?? 0) < 1100);
  t.same(sink.ids(), []);
});

t.test('drops and counts the batches of a deleted project', async (t) => {
  const { queue, start, append } = await rig(t);
  const drops: object[] = [];
  queue.onDrop((drop) => drops.push(drop));
  await append(2);
  const consumer = {
    consume: () => Promise.reject(new PermanentError('project_deleted', 'it was deleted')),
  };
  start(1, [{ name: 'a', process: async (batch) => batch, consumer }]);
  await until(() => drops.length === 2 && queue.stats().bytes === 0);
  const drop = { branch: 'a', items: 1, reason: 'project_deleted', wasDead: false };
  t.same(drops, [drop, drop]);
  t.match(queue.stats(), { deadLetters: 0, branches: [{ entries: 0 }] });
});

t.test('a small batch of another project does not wait for a place', async (t) => {
  const { queue, sink, start } = await rig(t);
  const delivered: string[] = [];
  const gate = Promise.withResolvers<void>();
  sink.behave((batch) => {
    delivered.push(rawOf(batch).id);
    return gate.promise;
  });
  start(2);
  const ofOne = Array.from({ length: 3 }, () => nativeBatch(1));
  for (const batch of ofOne) await queue.append(batch);
  await until(() => delivered.length === 2);
  const tenant = aTenant({ projectId: 'proj_other' });
  const ofOther = Array.from({ length: 2 }, () => nativeBatch(1, { tenant }));
  for (const batch of ofOther) await queue.append(batch);
  await until(() => delivered.length === 3);
  await new Promise((resolve) => setTimeout(resolve, 20));
  t.same(
    delivered,
    [...ofOne.slice(0, 2), ...ofOther.slice(0, 1)].map(({ id }) => id),
    'one batch in a place beside the two',
  );
  gate.resolve();
  await sink.holds(5);
});

t.test('delivers small batches together, in one place', async (t) => {
  const { queue, sink, processed, start, append } = await rig(t);
  const gate = Promise.withResolvers<void>();
  let delivered = 0;
  sink.behave(() => {
    delivered++;
    return gate.promise;
  });
  const ids = await append(9);
  const process = async (batch: SealedBatch): Promise<Batch> => {
    processed.push(batch.id);
    return batch;
  };
  const delivery = start(2, [{ name: 'a', process, consumer: { ...sink, batchesTogether: 3 } }]);
  await until(() => delivered === 6);
  t.same(delivery.branchesWithRoom(), [], 'both places are taken');
  t.match(queue.stats(), { branches: [{ leased: 6 }] });
  t.same(processed.toSorted(), ids.slice(0, 6).toSorted());
  gate.resolve();
  await sink.holds(9);
  await until(() => queue.stats().bytes === 0);
});

t.test('delivers a large batch alone in its place', async (t) => {
  const { queue, sink, start } = await rig(t);
  const gate = Promise.withResolvers<void>();
  const delivered: string[] = [];
  sink.behave((batch) => {
    delivered.push(rawOf(batch).id);
    return gate.promise;
  });
  const small = nativeBatch(1);
  const rest = TOGETHER_BYTES - small.body.length;
  const batches = [
    ...[small, sized(rest), nativeBatch(1)],
    ...[sized(TOGETHER_BYTES + 1), nativeBatch(1)],
  ];
  for (const batch of batches) await queue.append(batch);
  const process = async (batch: SealedBatch): Promise<Batch> => batch;
  start(1, [{ name: 'a', process, consumer: { ...sink, batchesTogether: 3 } }]);
  const ids = batches.map(({ id }) => id);
  await until(() => delivered.length === 2);
  t.same(delivered, ids.slice(0, 2), 'two that have the size together');
  gate.resolve();
  await sink.holds(5);
  t.same(delivered, ids);
});

t.test('returns the batches of a place that were not begun when it stops', async (t) => {
  const { queue, sink, processed, start, append } = await rig(t);
  await append(3);
  const process = async (batch: SealedBatch): Promise<Batch> => {
    processed.push(batch.id);
    return batch;
  };
  const stopped = Promise.withResolvers<void>();
  const consume = async (): Promise<void> => {
    await delivery.stop(AbortSignal.abort());
    stopped.resolve();
    throw new Error('the pipeline stopped');
  };
  const delivery = start(1, [
    { name: 'a', process, consumer: { ...sink, consume, batchesTogether: 3 } },
  ]);
  await stopped.promise;
  await until(() => queue.stats().branches[0]?.leased === 0);
  t.equal(processed.length, 1);
  t.match(queue.stats(), { branches: [{ entries: 3 }] });
});

t.test('frees the bytes of a batch that its only consumer has and does not keep', async (t) => {
  const { queue, sink, processed, start } = await rig(t);
  const process = async (batch: SealedBatch): Promise<Batch> => {
    processed.push(batch.id);
    return batch;
  };
  const [answered, unanswered, elsewhere] = [owning(), owning(), owning()];
  for (const batch of [answered, unanswered, elsewhere]) await queue.append(batch);
  for (const batch of [answered, elsewhere]) endRequest(batch);
  shareBatch(elsewhere);
  start(1, [{ name: 'a', process, consumer: { ...sink, keepsNothing: true } }]);
  await sink.holds(3);
  await until(() => queue.stats().bytes === 0);
  t.equal(isFreed(answered), true);
  t.equal(isFreed(unanswered), false, 'its request may still read it');
  t.equal(isFreed(elsewhere), false, 'another component has it');
});

t.test('frees the bytes of a batch that was read from the disk', async (t) => {
  const { queue, sink, start } = await rig(t);
  const batch = owning();
  await queue.append(batch);
  // The queue has it in memory no more.
  (batch.body.buffer as ArrayBuffer).transfer(0);
  const process = async (read: SealedBatch): Promise<Batch> => read;
  start(1, [{ name: 'a', process, consumer: { ...sink, keepsNothing: true } }]);
  await sink.holds(1);
  await until(() => queue.stats().bytes === 0);
  const [read] = sink.batches.map(rawOf);
  t.not(read, batch);
  t.equal(read !== undefined && isFreed(read), true);
});

t.test(
  'keeps the bytes of a batch for a consumer that does not say that it keeps nothing',
  async (t) => {
    const { queue, sink, start } = await rig(t);
    const batch = owning();
    await queue.append(batch);
    endRequest(batch);
    start(1);
    await sink.holds(1);
    await until(() => queue.stats().bytes === 0);
    t.equal(isFreed(batch), false);
  },
);

t.test('keeps the bytes of a batch for another branch', async (t) => {
  const { queue, sinks, start } = await rig(t, ['a', 'b']);
  const batch = owning();
  await queue.append(batch);
  endRequest(batch);
  const process = async (read: SealedBatch): Promise<Batch> => read;
  const branches = ['a', 'b'].map((name, i) => ({
    name,
    process,
    consumer: { ...(sinks[i] ?? createSink()), keepsNothing: true },
  }));
  start(1, branches);
  for (const sink of sinks) await sink.holds(1);
  await until(() => queue.stats().bytes === 0);
  t.equal(isFreed(batch), false);
});

t.test('keeps the bytes of a batch for an attempt that did not end', async (t) => {
  const { queue, sink, clock, start } = await rig(t);
  const batch = owning();
  await queue.append(batch);
  endRequest(batch);
  const process = async (read: SealedBatch): Promise<Batch> => read;
  let attempts = 0;
  sink.behave(() => {
    if (attempts++ === 0) throw new Error('later');
  });
  start(50, [{ name: 'a', process, consumer: { ...sink, keepsNothing: true } }]);
  while (sink.batches.length === 0) {
    clock.advance(10);
    await new Promise(setImmediate);
  }
  await until(() => queue.stats().bytes === 0);
  t.equal(isFreed(batch), false);
});

t.test('keeps the bytes of a batch whose delivery ends behind a stop', async (t) => {
  const { queue, sink, start } = await rig(t);
  const batch = owning();
  await queue.append(batch);
  endRequest(batch);
  const process = async (read: SealedBatch): Promise<Batch> => read;
  const consume = async (read: Batch): Promise<void> => {
    await delivery.stop(AbortSignal.abort());
    await sink.consume(read);
  };
  const delivery = start(1, [
    { name: 'a', process, consumer: { ...sink, consume, keepsNothing: true } },
  ]);
  await sink.holds(1);
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
  t.equal(isFreed(batch), false);
  t.match(queue.stats(), { branches: [{ entries: 1 }] }, 'another delivery has the entry');
});

/** A batch whose body has so many bytes. */
function sized(bytes: number): SealedBatch {
  const empty = nativeBatch([nativeEvent({ inputs: '' })]).body.length;
  return nativeBatch([nativeEvent({ inputs: 'x'.repeat(bytes - empty) })]);
}

/** A batch whose body owns its memory, as one that was received. */
function owning(): SealedBatch {
  const batch = nativeBatch(1);
  return { ...batch, body: Buffer.from(new Uint8Array(batch.body).buffer) };
}
